"""``dragoman bench``: how long learning, prompts, reading and masks take for one template and vocabulary."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.cli.output import WHY, print_heading, print_json, print_styled, print_table, progress
from dragoman.cli.sources import add_template, load_format
from dragoman.errors import UsageError
from dragoman.vocab import Vocabulary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_template(parser)
    parser.add_argument("--vocab", metavar="PATH", help="tokenizer.json, .gguf or folder (default: the TEMPLATE's own)")
    parser.add_argument("--tokens", type=int, default=2_000, metavar="N", help="of the shorter call (default 2000)")
    parser.add_argument("--turns", type=int, default=10, metavar="N", help="of the shorter conversation (default 10)")


def run(arguments: argparse.Namespace) -> int:
    from dragoman import compiled
    from dragoman.cli.measuring import measure_learning, measure_masks, measure_prompt, measure_reading

    for name in ("tokens", "turns"):
        if getattr(arguments, name) < 1:
            raise UsageError(f"--{name}: at least 1 is wanted, not {getattr(arguments, name)}", param=f"--{name}")
    fmt = load_format(arguments)
    if arguments.vocab:
        fmt = fmt.with_vocab(Vocabulary.from_file(_existing(arguments.vocab)))
    shown: dict[str, Any] = {"template_hash": fmt.template_hash, "compiled": compiled}
    with progress("measuring", 4) as step:
        shown["learning"] = measure_learning(fmt)
        step()
        shown["prompt"] = measure_prompt(fmt, arguments.turns)
        step()
        shown["reading"] = measure_reading(fmt, arguments.tokens)
        step()
        shown["masks"] = None if fmt.vocab is None else measure_masks(fmt, fmt.vocab)
        step()
    if arguments.json:
        print_json(shown)
    else:
        _print(shown)
    return 0


def _existing(name: str) -> Path:
    path = Path(name).expanduser()
    if not path.exists():
        raise UsageError(
            f"--vocab: there is no {name}; wanted is a tokenizer.json, a .gguf or a model's folder", param="--vocab"
        )
    return path


def _print(shown: Mapping[str, Any]) -> None:
    learning, prompt, reading, masks = (shown[name] for name in ("learning", "prompt", "reading", "masks"))
    print_heading("Learning, once for a template")
    print_table([[f"{learning['template_chars']:,} characters", f"{learning['ms']:.1f} ms"]], indent=2)
    print_heading("Prompts: a conversation, and one ten times as long")
    rows = [
        [
            f"{each['chars']:,} characters",
            f"rendered in {each['render_ms']:.2f} ms",
            f"{each['tokens']:,} tokens encoded in {each['encode_ms']:.2f} ms" if "tokens" in each else "",
        ]
        for each in (prompt["small"], prompt["large"])
    ]
    print_table(rows, indent=2)
    _print_growth(prompt["growth"])
    print_heading(f"Reading {'a call' if reading['small']['calls'] else 'plain text'}, and one ten times as long")
    rows = [
        [
            f"{each['tokens']:,} {'tokens' if masks else 'pieces'}",
            f"{each['ms']:.2f} ms",
            f"{each['us_per_token']:.2f} us each",
            f"{each['mb_per_s']:.2f} MB/s" if each["mb_per_s"] else "",
        ]
        for each in (reading["small"], reading["large"])
    ]
    print_table(rows, indent=2)
    _print_growth(reading["growth"])
    _print_masks(masks)


def _print_growth(growth: Mapping[str, Any]) -> None:
    if growth["time"] is not None:
        print_styled(f"  {growth['size']:.1f} times the size took {growth['time']:.1f} times as long", WHY)


def _print_masks(masks: Mapping[str, Any] | None) -> None:
    if masks is None:
        print_styled("No masks: this template comes without a vocabulary; name one with --vocab", WHY)
        return
    print_heading(f"Masks over {masks['vocabulary']:,} tokens, along a call that is demanded")
    made = [
        ["the first request's grammar", f"{masks['setup_ms']:.1f} ms"],
        ["other tools' grammar", f"{masks['next_tools_ms']:.1f} ms"],
    ]
    print_table(made, indent=2)
    rows = [
        [name, *(f"{masks[key][each]:.1f}" for each in ("p50_us", "p99_us", "max_us"))]
        for name, key in (("for the first time", "first"), ("again", "again"))
        if masks[key]
    ]
    print_table(rows, head=(f"{masks['steps']} steps", "p50 us", "p99 us", "max us"), indent=2)
    if masks["first_to_again"] is not None:
        print_styled(f"  all steps together took {masks['first_to_again']:.0f} times as long the first time", WHY)
