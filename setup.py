"""Builds the two hot files where that is possible; what pyproject.toml says is the rest.

They are plain Python as well: without Cython, without a C compiler or with DRAGOMAN_PURE=1 nothing is compiled, and
everything works the same, only slower.
"""

import os

from setuptools import Extension, setup

HOT = ("lazy_automaton", "walk")


def extensions():
    if os.environ.get("DRAGOMAN_PURE") == "1":
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    found = [Extension(f"dragoman.grammar.{name}", [f"src/dragoman/grammar/{name}.py"], optional=True) for name in HOT]
    return cythonize(found, include_path=["src"], build_dir="build", quiet=True)


setup(ext_modules=extensions())
