"""A template's text, parsed and compiled once: for the renderer and for all who read its syntax tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jinja2
from jinja2 import nodes

from dragoman.errors import TemplateError
from dragoman.template.environment import ENVIRONMENT


@dataclass(frozen=True, slots=True)
class Syntax:
    """One compiled text. Not to be changed: it is shared."""

    tree: nodes.Template  # as the compiler leaves it: constant expressions, lists among them, are one constant
    compiled: jinja2.Template
    undeclared: frozenset[str]  # names that are read where the template may not have set them


# Learning asks for one text several times; who keeps a template keeps what was made of it.
@lru_cache(maxsize=8)
def syntax_of(source: str) -> Syntax:
    """Raises: TemplateError, with the line where there is one."""
    tree = None
    try:
        tree = ENVIRONMENT.parse(source)
        compiled = ENVIRONMENT.from_string(tree)
        return Syntax(tree, compiled, frozenset(ENVIRONMENT.resolved[tree]))
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(error.message or "syntax error", line=error.lineno) from error
    except Exception as error:  # nested too deep for Jinja's parser or Python's compiler
        raise TemplateError(f"cannot be compiled: {error or type(error).__name__}") from error
    finally:
        ENVIRONMENT.resolved.pop(tree, None)


def constants(every: Iterable[nodes.Node]) -> Iterator[str]:
    """The texts of all constants among ``every``, those inside of constant lists and objects too."""
    for node in every:
        if isinstance(node, nodes.Const):
            yield from _texts(node.value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield str(value)
    elif isinstance(value, dict):
        for pair in value.items():
            yield from _texts(pair)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def unset_names(node: nodes.Node) -> frozenset[str]:
    """Names that are read before anything in the text sets them: what stands in any branch counts as set behind it.

    So a name that the template sets in one branch and reads in another is its own, though a caller could give it.
    """
    found: set[str] = set()
    _walk(node, set(), found)
    return frozenset(found)


def _walk(node: nodes.Node, known: set[str], found: set[str]) -> None:
    """``known`` grows by what the node sets in the scope around it."""
    if isinstance(node, nodes.Name):
        if node.ctx == "load" and node.name not in known:
            found.add(node.name)
        elif node.ctx != "load":
            known.add(node.name)
        return
    if isinstance(node, (nodes.Assign, nodes.AssignBlock)):
        order = [each for each in node.iter_child_nodes() if each is not node.target]
        for each in (*order, node.target):
            _walk(each, known, found)
        return
    inner = known
    if isinstance(node, nodes.For):
        _walk(node.iter, known, found)
        inner = known | {"loop"}
        _walk(node.target, inner, found)
    elif isinstance(node, nodes.Macro):
        known.add(node.name)
        inner = known | {"caller", "varargs", "kwargs"}
    elif isinstance(node, (nodes.CallBlock, nodes.FilterBlock, nodes.With)):
        inner = set(known)
    for each in node.iter_child_nodes():
        _walk(each, inner, found)
