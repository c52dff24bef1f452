"""What the text of a template says about it: evidence for the probes, never proof.

Walks the Jinja syntax tree. A template that cannot be parsed is a :class:`~dragoman.errors.TemplateError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from jinja2 import TemplateSyntaxError, meta, nodes

from dragoman.errors import TemplateError
from dragoman.template.atoms import tags
from dragoman.template.environment import ENVIRONMENT

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
    try:
        tree = ENVIRONMENT.parse(source)
        outside = meta.find_undeclared_variables(tree) - _GIVEN - set(ENVIRONMENT.globals)
    except TemplateSyntaxError as error:
        raise TemplateError(error.message or "syntax error", line=error.lineno) from error
    except RecursionError as error:
        raise TemplateError("the chat template is nested too deeply to be read") from error
    every = list(tree.find_all(nodes.Node))
    # A template that sets a default for a switch (`{% if not x is defined %}{% set x = ... %}`) still reads it.
    outside |= set(_tested(every)) - _GIVEN
    return Scan(
        variables={name: tuple(dict.fromkeys(_compared(every, name))) for name in sorted(outside)},
        keys=frozenset(_keys(every)),
        names=frozenset(node.name for node in every if isinstance(node, nodes.Name) and node.ctx == "load"),
        text_tests=tuple(dict.fromkeys(_text_tests(every))),
        literals=tuple(dict.fromkeys(tag for text in _texts(every) for tag in tags(text))),
        source=source,
    )


def _tested(every: list[nodes.Node]) -> Iterator[str]:
    """Names that the template asks whether they are defined."""
    for node in every:
        if isinstance(node, nodes.Test) and node.name in ("defined", "undefined") and isinstance(node.node, nodes.Name):
            yield node.node.name


def _const(node: nodes.Node | None) -> str | None:
    return node.value if isinstance(node, nodes.Const) and isinstance(node.value, str) else None


def _texts(every: list[nodes.Node]) -> Iterator[str]:
    for node in every:
        if isinstance(node, nodes.TemplateData):
            yield node.data
        elif isinstance(node, nodes.Const) and isinstance(node.value, str):
            yield node.value


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


def _compared(every: list[nodes.Node], name: str) -> Iterator[str]:
    """Texts that the variable ``name`` is compared with, by ``==`` or ``in [...]``, itself or behind filters."""
    known = {name}
    known |= {
        node.target.name
        for node in every
        if isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name) and _plain_name(node.node) == name
    }
    for node in every:
        if not (isinstance(node, nodes.Compare) and _plain_name(node.expr) in known):
            continue
        for op in node.ops:
            for const in [op.expr, *op.expr.find_all(nodes.Const)]:
                value = const.value if isinstance(const, nodes.Const) else None
                # Jinja folds a list of constants into one constant as soon as it looks at the tree.
                values = value if isinstance(value, (list, tuple)) else [value]
                yield from (text for text in values if isinstance(text, str))
