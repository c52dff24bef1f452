"""What can be seen of a template, a prompt and a turn, as JSON-ready data; and the web page that shows it.

The command line prints the same data: ``inspect``, ``render``, ``parse`` and ``grammar`` with ``--json``.
"""
