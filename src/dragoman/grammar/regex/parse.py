"""Regular expressions of ECMA-262 (flag ``u``, with the leniencies of its annex B) as a tree of grammar nodes.

What is not regular (back-references) or cannot be decided here is refused with the offset. Characters are
:class:`Class` nodes; groups leave no trace; anchors and look-around are nodes of this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from dragoman.grammar.nodes import EMPTY, Choice, Class, Node, Repeat, Sequence
from dragoman.grammar.nodes import complement as inverse
from dragoman.grammar.regex.classes import DIGIT, SPACE, WORD, merged, property_ranges

DEPTH_MAX = 100
COUNT_MAX = 1_000_000
DOT = inverse(((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)))


class RegexError(ValueError):
    """Not a regular expression, or one that is not regular; the message says what and where."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """Nothing consumed: ``^`` the text begins here, ``$`` it ends here, ``b`` a word begins or ends, ``B`` not."""

    kind: OneOf["^", "$", "b", "B"]


@dataclass(frozen=True, slots=True)
class Look:
    """Nothing consumed: what follows begins with ``item``, or (``negative``) does not."""

    item: Tree
    negative: bool


Tree: TypeAlias = Node | Anchor | Look


def parse(source: str) -> Tree:
    """The tree of a regular expression.

    Raises RegexError for what is ill-formed, not regular or not supported (look-behind, scripts, nesting past 100).
    """
    parser = _Parser(source)
    tree = parser.choice(0)
    if parser.at < len(source):
        raise parser.error("unmatched )")
    return tree


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0

    def error(self, what: str) -> RegexError:
        return RegexError(f"{what} at offset {self.at} of the regular expression {self.source!r:.80}")

    def peek(self) -> str:
        return self.source[self.at : self.at + 1]

    def take(self, text: str) -> bool:
        if self.source.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def choice(self, depth: int) -> Tree:
        if depth > DEPTH_MAX:
            raise self.error("nested too deep")
        options = [self.sequence(depth)]
        while self.take("|"):
            options.append(self.sequence(depth))
        return options[0] if len(options) == 1 else Choice(tuple(options))  # type: ignore[arg-type]

    def sequence(self, depth: int) -> Tree:
        items: list[Tree] = []
        while self.peek() not in ("", "|", ")"):
            items.append(self.quantified(self.atom(depth)))
        items = [item for item in items if item != EMPTY]
        if not items:
            return EMPTY
        return items[0] if len(items) == 1 else Sequence(tuple(items))  # type: ignore[arg-type]

    def quantified(self, item: Tree) -> Tree:
        counts = self.quantifier()
        if counts is None:
            return item
        if isinstance(item, Anchor):
            raise self.error("nothing to repeat")
        self.take("?")  # which match is preferred does not change which texts match
        if self.quantifier() is not None:
            raise self.error("nothing to repeat")
        least, most = counts
        if isinstance(item, Look):
            return item if least else EMPTY
        return repeat(item, least, most)

    def quantifier(self) -> tuple[int, int | None] | None:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return counts
        if self.peek() != "{":
            return None
        end = self.source.find("}", self.at)
        least, comma, most = self.source[self.at + 1 : end].partition(",")
        if end < 0 or not _number(least) or not (_number(most) or most == ""):
            return None  # annex B: a brace that counts nothing is itself
        self.at = end + 1
        low = int(least)
        high = (int(most) if most else None) if comma else low
        if high is not None and high < low:
            raise self.error("the counts are out of order")
        if max(low, high or 0) > COUNT_MAX:
            raise self.error(f"a count above {COUNT_MAX}")
        return low, high

    def atom(self, depth: int) -> Tree:
        char = self.peek()
        if char == "(":
            return self.group(depth)
        if char == "[":
            return self.char_class()
        self.at += 1
        if char == ".":
            return DOT
        if char == "^" or char == "$":
            return Anchor("^" if char == "^" else "$")
        if char in "*+?":
            self.at -= 1
            raise self.error("nothing to repeat")
        if char == "\\":
            if self.take("b"):
                return Anchor("b")
            if self.take("B"):
                return Anchor("B")
            found = self.escape(in_class=False)
            return found if isinstance(found, Class) else single(found)
        return single(ord(char))

    def group(self, depth: int) -> Tree:
        self.take("(")
        ahead = None
        if self.take("?"):
            if self.take(":"):
                pass
            elif self.take("="):
                ahead = False
            elif self.take("!"):
                ahead = True
            elif self.take("<=") or self.take("<!"):
                raise self.error("look-behind is not supported")
            elif self.take("<") or self.take("P<"):
                end = self.source.find(">", self.at)
                if end < 0:
                    raise self.error("the group's name does not end")
                self.at = end + 1
            else:
                raise self.error("an unknown kind of group")
        inner = self.choice(depth + 1)
        if not self.take(")"):
            raise self.error("unmatched (")
        return inner if ahead is None else Look(inner, ahead)

    def escape(self, *, in_class: bool) -> int | Class:
        """What stands behind a backslash: a code point or a class."""
        char = self.peek()
        if char == "":
            raise self.error("nothing behind the last backslash")
        self.at += 1
        if char in "dDwWsS":
            ranges = {"d": DIGIT, "w": WORD, "s": SPACE}[char.lower()]
            return inverse(ranges) if char.isupper() else Class(ranges)
        if char in "pP":
            return self.property(char == "P")
        return self.character(char, in_class=in_class)

    def character(self, char: str, *, in_class: bool) -> int:
        """The code point of an escape that begins with ``char``."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "0" and not self.peek().isdecimal():
            return 0
        if char == "b" and in_class:
            return 8
        if char == "c":
            letter = self.peek()
            if not (letter.isascii() and letter.isalpha()):
                raise self.error("\\c needs a letter")
            self.at += 1
            return ord(letter) % 32
        if char == "x":
            return self.hexadecimal(2)
        if char == "u":
            return self.unicode()
        if char.isdecimal() or char == "k":
            raise self.error("a back-reference is not regular")
        if char.isascii() and char.isalpha():
            raise self.error(f"the escape \\{char} is unknown")
        return ord(char)

    def hexadecimal(self, count: int) -> int:
        digits = self.source[self.at : self.at + count]
        if len(digits) < count or not all(c in "0123456789abcdefABCDEF" for c in digits):
            raise self.error(f"{count} hexadecimal digits are needed")
        self.at += count
        return int(digits, 16)

    def unicode(self) -> int:
        if self.take("{"):
            end = self.source.find("}", self.at)
            digits = self.source[self.at : end] if end > 0 else ""
            if not digits or not all(c in "0123456789abcdefABCDEF" for c in digits) or int(digits, 16) > 0x10FFFF:
                raise self.error("\\u{...} needs a code point")
            self.at = end + 1
            return int(digits, 16)
        high = self.hexadecimal(4)
        if 0xD800 <= high < 0xDC00 and self.source.startswith("\\u", self.at):
            at = self.at
            self.at += 2
            low = self.hexadecimal(4)
            if 0xDC00 <= low < 0xE000:
                return 0x10000 + (high - 0xD800 << 10) + low - 0xDC00
            self.at = at
        return high

    def property(self, negated: bool) -> Class:
        if not self.take("{"):
            raise self.error("\\p needs a property in braces")
        end = self.source.find("}", self.at)
        name = self.source[self.at : end] if end > 0 else ""
        ranges = property_ranges(name)
        if ranges is None:
            raise self.error(f"the character property {name!r} is not supported")
        self.at = end + 1
        return inverse(ranges) if negated else Class(ranges)

    def char_class(self) -> Class:
        self.take("[")
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        while not self.take("]"):
            first = self.class_atom()
            if self.peek() == "-" and self.source[self.at + 1 : self.at + 2] not in ("]", ""):
                back = self.at
                self.at += 1
                last = self.class_atom()
                if isinstance(first, int) and isinstance(last, int):
                    if last < first:
                        raise self.error("the range is out of order")
                    ranges.append((first, last))
                    continue
                self.at = back  # annex B: beside a class the hyphen is itself
                ranges += _ranges(first)
                self.at += 1
                ranges.append((0x2D, 0x2D))
                ranges += _ranges(last) if isinstance(last, Class) else [(last, last)]
                self.at = back + 1
                self.class_atom()
                continue
            ranges += _ranges(first)
        found = merged(ranges)
        return inverse(found) if negated else Class(found)

    def class_atom(self) -> int | Class:
        char = self.peek()
        if char == "":
            raise self.error("the class does not end")
        self.at += 1
        return self.escape(in_class=True) if char == "\\" else ord(char)


_CONTROLS = {"n": 10, "r": 13, "t": 9, "v": 11, "f": 12}


def _ranges(item: int | Class) -> list[tuple[int, int]]:
    return list(item.ranges) if isinstance(item, Class) else [(item, item)]


def _number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def single(point: int) -> Class:
    return Class(((point, point),))


def repeat(item: Tree, least: int, most: int | None) -> Tree:
    """``item`` repeated; repeats of repeats become one where every count between is reached."""
    if most == 0 or item == EMPTY:
        return EMPTY
    if (least, most) == (1, 1):
        return item
    if isinstance(item, Repeat):
        a, b = item.min, item.max
        # Counts are the sums of ``n`` numbers from a to b: without a gap between n = least and n = least + 1 none
        # comes later either.
        joined = b is None or least == most or least * b + 1 >= (least + 1) * a
        if joined and not (b is None and a > 1 and least == 0):
            high = None if most is None or b is None else most * b
            return Repeat(item.item, least * a, high)
    return Repeat(item, least, most)  # type: ignore[arg-type]
