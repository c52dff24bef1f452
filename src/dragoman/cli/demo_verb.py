"""``dragoman demo``: a real model answers a real tool call; see :mod:`dragoman.cli.demo`."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has no choices."""


def run(arguments: argparse.Namespace) -> int:
    from dragoman.cli.demo import main

    return main(as_json=arguments.json)
