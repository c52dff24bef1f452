"""``python -m dragoman``: the same as the command ``dragoman``."""

from dragoman.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
