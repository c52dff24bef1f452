"""What dragoman raises. Anything else that escapes is a bug of ours.

    DragomanError
    ├── UsageError         the caller asked for something that cannot be done
    │   ├── StateError     right call, wrong moment (feed after finish)
    │   ├── SchemaError    a JSON Schema that cannot be enforced; carries the JSON pointer
    │   └── GrammarError   a grammar that is ambiguous in a forbidden way or ill-formed
    ├── TemplateError      the chat template is broken, refuses the conversation or leaves its sandbox
    ├── OutputError        the model broke the format (raised by ``on_mismatch="strict"`` only)
    ├── VocabularyError    a tokenizer file that is unknown, damaged or unsupported
    ├── EngineError        the engine failed, refused or went away
    └── LimitError         a named bound was reached; carries the bound and the size

``fault`` says whose mistake it is, ``status_hint`` is the HTTP status that a server should answer with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

Fault = Literal["caller", "template", "model", "engine", "limit"]


class DragomanError(Exception):
    """Base of all errors. ``str(error)`` says what is wrong, where, and what to do."""

    fault: ClassVar[Fault] = "caller"
    status_hint: ClassVar[int] = 400


class UsageError(DragomanError):
    """The caller asked for something that cannot be done. ``param`` names the argument at fault, if one is."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class StateError(UsageError):
    """The call is right but not at this moment."""


class SchemaError(UsageError):
    """A JSON Schema that cannot be enforced. ``pointer`` is the JSON pointer (RFC 6901) of the offending part."""

    def __init__(self, message: str, *, pointer: str = "", param: str | None = None) -> None:
        super().__init__(f"{message} (at {pointer or 'the root'} of the schema)", param=param)
        self.pointer = pointer


class GrammarError(UsageError):
    """A grammar that cannot be compiled. ``rule`` names the rule at fault."""

    def __init__(self, message: str, *, rule: str | None = None, param: str | None = None) -> None:
        super().__init__(f"rule {rule!r}: {message}" if rule else message, param=param)
        self.rule = rule


class TemplateError(DragomanError):
    """The chat template is broken or refuses the conversation. ``line`` counts from 1 where known."""

    fault = "template"

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(f"line {line} of the chat template: {message}" if line else message)
        self.line = line


class OutputError(DragomanError):
    """The model's output broke its format. ``position`` counts bytes of output read so far.

    deltas: what the same piece of output had settled in front of the break; earlier ones were handed out.
    """

    fault = "model"
    status_hint = 422  # who asks for strictness asks for this; no output is a failure of the server

    def __init__(self, message: str, *, position: int) -> None:
        super().__init__(message)
        self.position = position
        self.deltas: Sequence[Any] = ()


class VocabularyError(DragomanError):
    """A tokenizer that is unknown, damaged or not supported."""


class EngineError(DragomanError):
    """The engine failed, refused the request or went away.

    status: its own HTTP status, if it has one.  param: the field of the request at fault, in its words.  retry_after:
    its header of this name: seconds or a date.  address: the engine's, where the message names it.
    """

    fault = "engine"
    status_hint = 502

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        param: str | None = None,
        retry_after: str | None = None,
        address: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.retry_after = retry_after
        self.address = address


class LimitError(DragomanError):
    """A bound of :class:`dragoman.limits.Limits` was reached. ``bound`` is its name there."""

    fault = "limit"

    def __init__(self, message: str, *, bound: str, limit: int, size: int | None = None) -> None:
        seen = "" if size is None else f", here {size}"
        super().__init__(f"{message} (limit {bound} = {limit}{seen})")
        self.bound = bound
        self.limit = limit
        self.size = size
