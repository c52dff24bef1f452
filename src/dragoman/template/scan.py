"""What the text of a template says about it: evidence for the probes, never proof.

Walks the Jinja syntax tree. A template that cannot be parsed is a :class:`~dragoman.errors.TemplateError`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from jinja2 import nodes

from dragoman.errors import TemplateError
from dragoman.template.atoms import tags
from dragoman.template.syntax import constants, syntax_of, unset_names

# Names that every rendering gives; what else a template reads from outside is a switch or a setting of its own.
_GIVEN = frozenset(
    (
        "messages",
        "tools",
        "add_generation_prompt",
        "bos_token",
        "eos_token",
        "raise_exception",
        "strftime_now",
        "documents",
    )
)
_TEXT_TESTS = frozenset(("split", "rsplit", "partition", "rpartition", "find", "index", "rfind"))


@dataclass(frozen=True, slots=True)
class Scan:
    """What a template reads and compares with."""

    variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # read from outside -> texts compared with
    keys: frozenset[str] = frozenset()  # names read as attribute or item of anything
    names: frozenset[str] = frozenset()  # names read as variables
    text_tests: tuple[str, ...] = ()  # literals searched in texts: split("</think>"), "</think>" in content
    literals: tuple[str, ...] = ()  # tag-like parts of everything that the template may write
    source: str = ""

    def writes(self, text: str) -> bool:
        """True: ``text`` occurs among what the template may write or search."""
        return text in self.literals or text in self.text_tests or text in self.source


def scan(source: str) -> Scan:
    """The facts that ``source`` shows without being run."""
    syntax = syntax_of(source)
    try:
        outside = syntax.undeclared & unset_names(syntax.tree)
    except RecursionError as error:
        raise TemplateError("the chat template is nested too deeply to be read") from error
    every = list(syntax.tree.find_all(nodes.Node))
    # A template that sets a default for a switch (`{% if not x is defined %}{% set x = ... %}`) still reads it.
    outside = (outside | set(_tested(every))) - _GIVEN
    compared = _compared(every, outside)
    return Scan(
        variables={name: compared[name] for name in sorted(outside)},
        keys=frozenset(_keys(every)),
        names=frozenset(node.name for node in every if isinstance(node, nodes.Name) and node.ctx == "load"),
        text_tests=tuple(dict.fromkeys(_text_tests(every))),
        literals=tuple(dict.fromkeys(tag for text in _texts(every) for tag in tags(text))),
        source=source,
    )


def _tested(every: list[nodes.Node]) -> Iterator[str]:
    """Names that the template asks whether they are defined, or has another value for where they are not."""
    for node in every:
        asks = isinstance(node, nodes.Test) and node.name in ("defined", "undefined")
        asks = asks or (isinstance(node, nodes.Filter) and node.name in ("default", "d"))
        if asks and isinstance(node, (nodes.Test, nodes.Filter)) and isinstance(node.node, nodes.Name):
            yield node.node.name


def _const(node: nodes.Node | None) -> str | None:
    return node.value if isinstance(node, nodes.Const) and isinstance(node.value, str) else None


def _texts(every: list[nodes.Node]) -> Iterator[str]:
    for node in every:
        if isinstance(node, nodes.TemplateData):
            yield node.data
        elif isinstance(node, nodes.Const):
            yield from constants([node])


def _keys(every: list[nodes.Node]) -> Iterator[str]:
    for node in every:
        if isinstance(node, nodes.Getattr):
            yield node.attr
        elif isinstance(node, nodes.Getitem):
            key = _const(node.arg)
            if key is not None:
                yield key
        elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr) and node.node.attr == "get":
            key = _const(node.args[0]) if node.args else None
            if key is not None:
                yield key
        elif isinstance(node, nodes.Compare):
            key = _const(node.expr)
            if key is not None and any(op.op in ("in", "notin") for op in node.ops):
                yield key


def _text_tests(every: list[nodes.Node]) -> Iterator[str]:
    for node in every:
        if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr) and node.node.attr in _TEXT_TESTS:
            text = _const(node.args[0]) if node.args else None
        elif isinstance(node, nodes.Compare) and any(op.op in ("in", "notin") for op in node.ops):
            text = _const(node.expr)
        else:
            text = None
        if text:
            yield text


def _plain_name(node: nodes.Node | None) -> str | None:
    """The variable that a filter (``mode | default('on') | lower``) begins with; None: it is no variable."""
    while isinstance(node, nodes.Filter):
        node = node.node
    return node.name if isinstance(node, nodes.Name) else None


def _compared(every: list[nodes.Node], names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """name -> texts that the variable is compared with, by ``==`` or ``in [...]``, itself or behind filters."""
    meant: dict[str, set[str]] = {name: {name} for name in names}  # a variable -> the names that it stands for
    for node in every:
        if isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name):
            name = _plain_name(node.node)
            if name in names:
                meant.setdefault(node.target.name, set()).add(name or "")
    out: dict[str, dict[str, None]] = {name: {} for name in names}
    for node in every:
        known = meant.get(_plain_name(node.expr) or "") if isinstance(node, nodes.Compare) else None
        if known and isinstance(node, nodes.Compare):
            texts = [text for op in node.ops for text in constants([op.expr, *op.expr.find_all(nodes.Const)])]
            for name in known:
                out[name].update(dict.fromkeys(texts))
    return {name: tuple(texts) for name, texts in out.items()}
