"""What one rendering may use: steps and characters, counted where the sandbox is entered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dragoman.errors import LimitError
from dragoman.limits import Limits

# A step is about a microsecond: a statement, a call, or this much copying.
_CHARS_A_STEP = 4096
_ITEMS_A_STEP = 64
_OBJECTS_A_STEP = 8
# Larger integers serve no template; without a bound `10**10**10` never returns.
_INTEGER_BITS = 4096
# Jinja's own sandbox stops here.
_RANGE = 100_000


class Budget:
    """The steps and characters that a rendering has left; raises :class:`LimitError` when they are used up."""

    __slots__ = ("_limits", "_steps")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._steps = 0

    def step(self, count: int = 1) -> None:
        """Take ``count`` steps."""
        self._steps += count
        if self._steps > self._limits.render_steps:
            raise LimitError(
                "the chat template runs too long; shorten the conversation or raise the limit",
                bound="render_steps",
                limit=self._limits.render_steps,
            )

    def grow(self, size: int) -> None:
        """Refuse a string of ``size`` characters (or a list of so many items) that is too large."""
        if size > self._limits.render_chars:
            bound = self._limits.render_chars
            raise LimitError("the chat template makes too large a text", bound="render_chars", limit=bound, size=size)

    def made(self, value: Any) -> None:
        """Count the copying that made ``value``."""
        if isinstance(value, str):
            self.grow(len(value))
            self.step(len(value) // _CHARS_A_STEP)
        elif isinstance(value, (list, tuple, dict)):
            self.step(len(value) // _ITEMS_A_STEP)

    def items(self, count: int) -> None:
        """Count the making of ``count`` objects."""
        self.step(count // _OBJECTS_A_STEP)

    def walk(self, value: Any) -> None:
        """Count all items inside ``value``: a list that holds itself twice over compares for ever."""
        stack = [value]
        while stack:
            item = stack.pop()
            self.step()
            if isinstance(item, (list, tuple)):
                stack.extend(item)
            elif isinstance(item, dict):
                stack.extend(dict.values(item))

    def range(self, *args: int) -> range:
        """``range(*args)``, of bounded length."""
        made = range(*args)
        self.step(1 + len(made) // _ITEMS_A_STEP)
        if len(made) > _RANGE:
            raise LimitError("a range in the chat template is too long", bound="range", limit=_RANGE, size=len(made))
        return made

    def operator(self, operator: str, left: Any, right: Any) -> None:
        """Refuse an operation whose result would be too large, before it runs."""
        self.step()
        if operator == "*":
            self._times(left, right)
            self._times(right, left)
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            self._integer(left.bit_length() * abs(right))
        elif operator == "+" and isinstance(left, (str, list, tuple)) and isinstance(right, (str, list, tuple)):
            self.grow(len(left) + len(right))
            self.step((len(left) + len(right)) // (_CHARS_A_STEP if isinstance(left, str) else _ITEMS_A_STEP))

    def _times(self, value: Any, count: Any) -> None:
        if not isinstance(count, int):
            return
        if isinstance(value, (str, list, tuple)):
            self.grow(len(value) * count)
            self.step(max(0, len(value) * count) // (_CHARS_A_STEP if isinstance(value, str) else _ITEMS_A_STEP))
        elif isinstance(value, int):
            self._integer(value.bit_length() + count.bit_length())

    def _integer(self, bits: int) -> None:
        if bits > _INTEGER_BITS:
            message = "the chat template makes too large a number"
            raise LimitError(message, bound="integer_bits", limit=_INTEGER_BITS, size=bits)

    def method(self, subject: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Refuse a call of ``subject.name`` whose result would be too large, before it runs."""
        if name in ("split", "rsplit") and isinstance(subject, str):
            separator = args[0] if args else kwargs.get("sep")
            pieces = subject.count(separator) if isinstance(separator, str) and separator else len(subject) // 2
            self.items(pieces)
        size = _GROWING.get(name)
        if size is None or not isinstance(subject, (str, list)):
            return
        try:
            expected = size(subject, *args, **kwargs)
        except (TypeError, ValueError, AttributeError):
            return  # the call itself raises what is wrong with it
        self.grow(expected)


def _replaced_size(text: str, old: str, new: str, count: int = -1) -> int:
    times = text.count(old) if count < 0 else min(count, text.count(old))
    return len(text) + times * (len(new) - len(old))


def _joined_size(text: str, items: Any) -> int:
    if not isinstance(items, (list, tuple)):
        return 0
    return sum(map(len, items)) + len(text) * len(items)


def _padded_size(text: str, width: int, *rest: Any) -> int:
    return max(len(text), width)


def _expanded_size(text: str, tabsize: int = 8) -> int:
    return len(text) + text.count("\t") * max(0, tabsize)


def _extended_size(items: list[Any], more: Any) -> int:
    return len(items) + len(more)


# Method -> how large its result will be.
_GROWING: Mapping[str, Callable[..., int]] = {
    "replace": _replaced_size,
    "join": _joined_size,
    "center": _padded_size,
    "ljust": _padded_size,
    "rjust": _padded_size,
    "zfill": _padded_size,
    "expandtabs": _expanded_size,
    "extend": _extended_size,
}
