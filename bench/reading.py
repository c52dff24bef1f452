"""``make bench-reading``: tool calls of 2,000 and 20,000 tokens read token by token, beside SGLang's detectors.

One process, one text, the same pieces for every reader, CPU time, readers in turn, the best of three runs (of nine
where they are short). The arguments that a reader
gives must equal those that were written: a wrong answer is reported as wrong, never as a time. A reader that is past
the budget is stopped and reported with what it had read. Only ratios within one run mean anything.

The detectors are those of the package llm-router-utils, which carries SGLang's own files; what its serving layer adds
when the output ends is added here too. Templates come from the handed corpus (DRAGOMAN_CORPUS or ../shared/corpus); one
that is not there is replaced by one of our tests' templates with the format's markers put in, and the record says so.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import logging
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dragoman import ChatFormat
from tests import learned_templates

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "bench" / "record"
CORPUS = Path(os.environ.get("DRAGOMAN_CORPUS", ROOT.parent / "shared" / "corpus"))
PEER = "llm-router-utils"
SIZES = (2_000, 20_000)
PIECE = 4  # characters of a token that is no marker
REPEATS = 3
MORE_REPEATS = 9  # where a run is so short that another process can spoil it
SHORT = 1.0  # seconds
# Ten times the tokens may cost ten times the time; what is above is jitter of a shared machine, far from 100.
LINEAR = 15.0

NAME = "save"
PARAMETERS = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "rows": {"type": "array"}},
}
TOOLS = [{"type": "function", "function": {"name": NAME, "description": "Save it.", "parameters": PARAMETERS}}]
Arguments = dict[str, Any]


@dataclass(frozen=True)
class Format:
    """One way of writing calls. controls: markers that are one token in the vocabularies of its models.

    handed: its template in the corpus; own: a template of ours with the same markers.
    write: the call as a model writes it.
    """

    name: str
    handed: str
    own: str
    peers: tuple[str, ...]
    controls: tuple[str, ...]
    write: Callable[[Arguments], str]

    def template(self) -> tuple[str, str]:
        """Where the template is from, and its text."""
        file = CORPUS / "templates" / self.handed
        return (self.handed, file.read_text("utf-8")) if file.is_file() else ("our own", self.own)

    def tokens(self, text: str) -> list[str]:
        """The text as a model gives it: markers whole, everything else in short pieces."""
        cut = "|".join(map(re.escape, self.controls))
        return re.findall(f"(?s:{cut}|(?:(?!{cut}).){{1,{PIECE}}})", text)


def _renamed(template: str, **markers: str) -> str:
    for made_up, marker in markers.items():
        template = template.replace(made_up, marker)
    return template


def _hermes(arguments: Arguments) -> str:
    return "<tool_call>\n" + json.dumps({"name": NAME, "arguments": arguments}) + "\n</tool_call>"


def _coder(arguments: Arguments) -> str:
    values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
    inside = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return f"<tool_call>\n<function={NAME}>\n{inside}</function>\n</tool_call>"


def _deepseek(arguments: Arguments) -> str:
    return (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{NAME}\n```json\n{json.dumps(arguments)}\n```"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    )


def _kimi(arguments: Arguments) -> str:
    return (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{NAME}:0<|tool_call_argument_begin|>"
        f"{json.dumps(arguments)}<|tool_call_end|><|tool_calls_section_end|>"
    )


OWN_DEEPSEEK = learned_templates.wrap(
    learned_templates.CONTENT
    + """{% if m.tool_calls %}{{ '<｜tool▁calls▁begin｜>' }}{% for c in m.tool_calls %}{{ '\\n' if not loop.first -}}
{{ '<｜tool▁call▁begin｜>function<｜tool▁sep｜>' + c.function.name + '\\n```json\\n' -}}
{{ (c.function.arguments | tojson) + '\\n```<｜tool▁call▁end｜>' }}{% endfor %}
{{- '<｜tool▁calls▁end｜>' }}{% endif %}"""
)
FORMATS = (
    Format(
        "Hermes, Qwen 2.5 (JSON)",
        "Qwen-Qwen2.5-7B-Instruct.jinja",
        _renamed(learned_templates.JSON_IN_TAGS, qor="tool_call"),
        ("qwen25", "hermes"),
        ("<tool_call>", "</tool_call>"),
        _hermes,
    ),
    Format(
        "Qwen3-Coder (tagged)",
        "Qwen3-Coder.jinja",
        _renamed(
            learned_templates.TAGGED,
            **{
                "kul>": "tool_call>",
                "fun=": "function=",
                "/fun>": "/function>",
                "par=": "parameter=",
                "/par>": "/parameter>",
            },
        ),
        ("qwen3_coder",),
        ("<tool_call>", "</tool_call>"),
        _coder,
    ),
    Format(
        "DeepSeek V3",
        "tool_chat_template_deepseekv3.jinja",
        OWN_DEEPSEEK,
        ("deepseekv3",),
        tuple(
            f"<｜{name}｜>"
            for name in ("tool▁calls▁begin", "tool▁call▁begin", "tool▁sep", "tool▁call▁end", "tool▁calls▁end")
        ),
        _deepseek,
    ),
    Format(
        "Kimi K2",
        "moonshotai-Kimi-K2.jinja",
        _renamed(
            learned_templates.COUNTED_IN_SECTION,
            **{
                "<|sek|>": "<|tool_calls_section_begin|>",
                "<|/sek|>": "<|tool_calls_section_end|>",
                "<|kol|>": "<|tool_call_begin|>",
                "<|/kol|>": "<|tool_call_end|>",
                "<|karg|>": "<|tool_call_argument_begin|>",
                "fn.": "functions.",
            },
        ),
        ("kimi_k2",),
        (
            *(f"<|tool_calls_section_{end}|>" for end in ("begin", "end")),
            *(f"<|tool_call_{end}|>" for end in ("begin", "argument_begin", "end")),
        ),
        _kimi,
    ),
)


def long_string(tokens: int) -> Arguments:
    """Prose with quotes, line ends and escapes, about so many tokens once it is written."""
    line = 'The tide came in, "slowly", and 5 < 7 boats left the quay.\n'
    size = tokens * PIECE
    return {"text": (line * (size // len(line) + 1))[: int(size * 0.95)]}


def nested_array(tokens: int) -> Arguments:
    """Rows of numbers, names and objects."""
    rows: list[Any] = []
    size = 0
    while size < tokens * PIECE - 60:
        at = len(rows)
        rows.append([at, {"name": f"row {at}", "at": [at * 0.5, None, True]}])
        size += len(json.dumps(rows[-1])) + 2
    return {"rows": rows}


KINDS: dict[str, Callable[[int], Arguments]] = {"long string": long_string, "nested array": nested_array}


class OverBudgetError(Exception):
    """A reader took more than its time."""


@dataclass(frozen=True)
class Reading:
    """What one run gave. first: after how many tokens the first text of the arguments came out."""

    seconds: float
    arguments: str
    first: int | None
    pieces: int


class Clock:
    """CPU time of one run, looked at once in a while so that looking costs nothing."""

    def __init__(self, budget: float) -> None:
        self._start = time.process_time()
        self._end = self._start + budget

    def check(self, count: int) -> None:
        if not count & 127 and time.process_time() > self._end:
            raise OverBudgetError(f"{count:,} tokens")

    def seconds(self) -> float:
        return time.process_time() - self._start


def read_dragoman(fmt: ChatFormat, tokens: Sequence[str], budget: float) -> Reading:
    """One turn of ours; the prompt is rendered before the clock starts, as the peers have none."""
    turn = fmt.turn([{"role": "user", "content": "hi"}], tools=TOOLS, id_seed=0)
    out: list[str] = []
    first: int | None = None
    clock = Clock(budget)
    for count, token in enumerate(tokens, 1):
        for delta in turn.feed(token):
            for call in delta.tool_calls:
                if call.arguments:
                    out.append(call.arguments)
                    first = first or count
        clock.check(count)
    for delta in turn.finish():
        out += [call.arguments for call in delta.tool_calls]
    return Reading(clock.seconds(), "".join(out), first, len(out))


def read_sglang(name: str, tokens: Sequence[str], budget: float) -> Reading:
    """One run of SGLang's parser, driven as its chat endpoint drives it."""
    from llm_router_utils.sglang.srt.entrypoints.openai.protocol import Tool  # type: ignore[import-not-found]
    from llm_router_utils.sglang.srt.function_call.function_call_parser import (  # type: ignore[import-not-found]
        FunctionCallParser,
    )

    parser = FunctionCallParser([Tool.model_validate(tool) for tool in TOOLS], name)
    out: list[str] = []
    first: int | None = None
    clock = Clock(budget)
    for count, token in enumerate(tokens, 1):
        for call in parser.parse_stream_chunk(token)[1]:
            if call.parameters:
                out.append(call.parameters)
                first = first or count
        clock.check(count)
    out += [call.parameters for call in parser.parse_stream_end()[1]]
    rest = _unstreamed(parser.detector)
    if rest:
        out.append(rest)
    return Reading(clock.seconds(), "".join(out), first, len(out))


def _unstreamed(detector: Any) -> str:
    """What the detector knows of the last call and has not given: the chat endpoint sends it when the output ends."""
    calls, sent = getattr(detector, "prev_tool_call_arr", None), getattr(detector, "streamed_args_for_tool", None)
    if not calls or not sent or len(calls) > len(sent):
        return ""
    expected = calls[-1].get("arguments", {})
    text = expected if isinstance(expected, str) else json.dumps(expected, ensure_ascii=False)
    given = sent[len(calls) - 1]
    return text[len(given) :] if text.startswith(given) else ""


class Trial:
    """One reader on one text: its runs so far."""

    def __init__(self, read: Callable[[], Reading], expected: Arguments, tokens: int) -> None:
        self._read = read
        self._expected = expected
        self._tokens = tokens
        self._best: Reading | None = None
        self._runs = 0
        self._failure: dict[str, Any] | None = None

    @property
    def done(self) -> bool:
        """It failed, or ran often enough."""
        enough = MORE_REPEATS if self._best is not None and self._best.seconds < SHORT else REPEATS
        return self._failure is not None or self._runs >= enough

    def run(self) -> None:
        try:
            reading = self._read()
        except OverBudgetError as error:
            self._failure = {"over budget": f"stopped after {error}"}
            return
        if not _equal(reading.arguments, self._expected):
            self._failure = {"wrong": reading.arguments[:80]}
        self._runs += 1
        if self._best is None or reading.seconds < self._best.seconds:
            self._best = reading

    def result(self) -> dict[str, Any]:
        if self._failure is not None or self._best is None:
            return self._failure or {}
        return {
            "s": round(self._best.seconds, 5),
            "us a token": round(self._best.seconds / self._tokens * 1e6, 2),
            "first arguments after token": self._best.first,
            "pieces": self._best.pieces,
        }


def _equal(text: str, expected: Arguments) -> bool:
    try:
        return bool(json.loads(text) == expected)
    except ValueError:
        return False  # no JSON


def measure(
    readers: Mapping[str, Callable[[], Reading]], expected: Arguments, tokens: int
) -> dict[str, dict[str, Any]]:
    """Every reader's best run, or what is wrong with it. They run in turn, so that a busy minute hits them all."""
    trials = {name: Trial(read, expected, tokens) for name, read in readers.items()}
    while waiting := [trial for trial in trials.values() if not trial.done]:
        for trial in waiting:
            trial.run()
    return {name: trial.result() for name, trial in trials.items()}


def bench(formats: Iterable[Format], budget: float, peers: bool) -> dict[str, Any]:
    """Every format and kind of argument, every reader at every size."""
    out: dict[str, Any] = {}
    for form in formats:
        source, template = form.template()
        fmt = ChatFormat.from_template(template)
        print(f"{form.name} (template: {source})")
        kinds: dict[str, Any] = {}
        for kind, make in KINDS.items():
            readers: dict[str, dict[str, Any]] = {}
            for size in SIZES:
                arguments = make(size)
                tokens = form.tokens(form.write(arguments))
                reads: dict[str, Callable[[], Reading]] = {"dragoman": partial(read_dragoman, fmt, tokens, budget)}
                if peers:
                    reads |= {f"sglang {peer}": partial(read_sglang, peer, tokens, budget) for peer in form.peers}
                for name, result in measure(reads, arguments, len(tokens)).items():
                    readers.setdefault(name, {})[str(size)] = result
            _judge(readers)
            _show(kind, readers)
            kinds[kind] = readers
        out[form.name] = {"template": source, **kinds}
    return out


def _judge(readers: dict[str, dict[str, Any]]) -> None:
    """Add the growth from the smaller to the larger size, and how much longer than ours a peer takes."""
    small, large = map(str, SIZES)
    ours = readers["dragoman"]
    for name, results in readers.items():
        if "s" in results[small] and "s" in results[large]:
            results["growth"] = round(results[large]["s"] / results[small]["s"], 1)
        for size in (small, large):
            if name != "dragoman" and "s" in results[size] and "s" in ours[size]:
                results[size]["times ours"] = round(results[size]["s"] / ours[size]["s"], 2)


def _show(kind: str, readers: dict[str, dict[str, Any]]) -> None:
    for name, results in readers.items():
        cells = []
        for size in map(str, SIZES):
            cell = results[size]
            if "s" in cell:
                times = f" ({cell['times ours']} x ours)" if "times ours" in cell else ""
                cells.append(f"{cell['us a token']:>9.2f} us{times}, first at {cell['first arguments after token']}")
            else:
                cells.append(" ".join(f"{key}: {value}" for key, value in cell.items()))
        print(f"  {kind:12}  {name:18} {' | '.join(cells)} | growth {results.get('growth', '-')}", flush=True)


def failures(results: dict[str, Any]) -> list[str]:
    """Where we are wrong, not linear or not the fastest."""
    out = []
    for form, kinds in results.items():
        for kind in KINDS:
            readers = kinds[kind]
            ours = readers["dragoman"]
            if "growth" not in ours:
                out.append(f"{form}, {kind}: dragoman's answer is wrong or late")
            elif ours["growth"] > LINEAR:
                out.append(f"{form}, {kind}: dragoman grows by {ours['growth']}")
            out += [
                f"{form}, {kind}, {size} tokens: {name} is faster ({cell['times ours']} times our time)"
                for name, cells in readers.items()
                for size, cell in cells.items()
                if isinstance(cell, dict) and cell.get("times ours", 1) < 1
            ]
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the figures to bench/record")
    parser.add_argument("--budget", type=float, default=20.0, help="CPU seconds that one run may take")
    parser.add_argument("--format", default="", help="only formats whose name holds this")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)  # a detector that logs each failure would be timed at logging
    peers = importlib.util.find_spec("llm_router_utils") is not None
    if not peers:
        print(f"{PEER} is not installed (see the target bench-reading in Makefile): only dragoman is measured")
    chosen = [form for form in FORMATS if arguments.format in form.name]
    results = bench(chosen, arguments.budget, peers)
    if arguments.record:
        _record(results, peers, arguments.budget)
    found = failures(results)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


def _record(results: dict[str, Any], peers: bool, budget: float) -> None:
    record = {
        "machine": {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()},
        "peer": f"{PEER} {importlib.metadata.version(PEER)}" if peers else None,
        "token": f"markers whole, other text in pieces of {PIECE} characters",
        "budget s": budget,
        "results": results,
    }
    RECORD.mkdir(exist_ok=True)
    file = RECORD / f"reading-{datetime.date.today().isoformat()}.json"
    file.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", "utf-8")
    print(f"recorded in {file.relative_to(ROOT)}")


if __name__ == "__main__":
    raise SystemExit(main())
