"""Reading a call that is one JSON object, and arguments that are JSON: keys in any order, white space anywhere.

The object's rules are named by what has been seen: ``object.name`` goes on where the name was read. So nothing is read
twice, and what settles a call is known at every place. Where nothing but a call can be meant, keys and strings in the
quotes of Python or in none are read as well (regions ``odd``), and arguments that begin so are a literal of Python's.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable

from dragoman.dialect.literals import odd_rules
from dragoman.grammar.json import DIGIT, HEX, PLAIN, json_rules
from dragoman.grammar.nodes import (
    EMPTY,
    Class,
    Commit,
    Negate,
    Node,
    Ref,
    Repeat,
    Tag,
    alt,
    chars,
    complement,
    lit,
    seq,
)
from dragoman.template.profile import JsonShape

Path = tuple[str, ...]

_WS = Ref("json.ws")
_COLON = seq(_WS, lit(":"), _WS)
_ESCAPE = seq(lit("\\"), alt(chars('"\\/bfnrt'), seq(lit("u"), Repeat(HEX, 4, 4))))
_CHAR = alt(Class(PLAIN), _ESCAPE)
# Values in front of the name, where the object may still be text: its strings may hold what ends text.
_UNSURE = "unsure"
# What models call the arguments when they forget what their template calls them; and what no template does.
_SYNONYMS = ("arguments", "parameters")
_MISNAMED = ("args", "params", "input", "kwargs")


class JsonReader:
    """Reader rules of JSON calls. ``any_name``: undeclared names are read too. ``bare``: nothing but the object's own
    text tells that it is a call, so a declared name has to, or name and arguments together. ends: texts that end an
    answer or reasoning at once; inside a string in front of the name both ways are read on, unless it is bare.
    parameters: the declared ones of all tools, which may stand beside the name."""

    def __init__(
        self,
        shape: JsonShape | None,
        names: Iterable[str],
        *,
        bare: bool,
        any_name: bool,
        prefix: str = "",
        ends: Iterable[str] = (),
        parameters: Container[str] = (),
    ) -> None:
        self.shape = shape
        self.names = tuple(names)
        self.bare = bare
        self.any_name = any_name
        self.prefix = prefix
        self.char = alt(*(seq(lit(end), Commit("body")) for end in ends if not bare), _CHAR)
        self.made: dict[str, Node] = {}
        self.roles: dict[Path, str] = {}
        self.misnamed: list[Path] = []
        if shape is not None:
            self.roles = {shape.name_path: "name", shape.args_path: "args"}
            for other in _SYNONYMS:
                self.roles.setdefault((*shape.args_path[:-1], other), "args")
            if shape.id_path is not None:
                self.roles[shape.id_path] = "id"
            beside = [(*shape.args_path[:-1], other) for other in _MISNAMED if other not in parameters]
            self.misnamed = [path for path in beside if path not in self.roles]

    def rules(self) -> dict[str, Node]:
        """The rules that :meth:`object` and :meth:`arguments` refer to."""
        unsure = {**json_rules(prefix=_UNSURE), f"{_UNSURE}.string": seq(lit('"'), Repeat(self.char), lit('"'))}
        return {**json_rules(), **odd_rules(), **unsure, **_members("json"), **_members(_UNSURE), **self.made}

    def object(self) -> Node:
        """The object of one call, to its closing brace."""
        if self.shape is not None and self.shape.name_is_key:
            name = seq(lit('"'), Tag("name.json", self._name()), lit('"'), Commit("body"))
            return seq(lit("{"), _WS, name, _COLON, self.arguments(committed=True), _WS, lit("}"))
        return seq(lit("{"), _WS, self._members((), frozenset()))

    def arguments(self, *, committed: bool) -> Node:
        """Arguments: an object, a string that holds one, or something else that is JSON. ``committed``: in a call."""
        kind, char = ("json", _CHAR) if committed else (_UNSURE, self.char)
        other = alt(Ref(f"{kind}.array"), Ref("json.number"), lit("true"), lit("false"))
        return alt(
            self._arguments_object() if committed else Tag("args", seq(lit("{"), _WS, Ref(f"{_UNSURE}.members"))),
            seq(lit('"'), Tag("args.json", Repeat(char)), lit('"')),
            lit("null"),
            Tag("args", other),
        )

    def _arguments_object(self) -> Node:
        """Arguments in a call: an object, which settles it."""
        settle = Commit(self.prefix + "args")
        return Tag("args", seq(lit("{"), settle, _WS, alt(Ref("json.members"), Ref("odd.members"))))

    def _name(self) -> Node:
        declared = [lit(json.dumps(name, ensure_ascii=False)[1:-1]) for name in self.names]
        return Repeat(_CHAR, min=int(self.bare)) if self.any_name else alt(*declared)

    def _members(self, path: Path, seen: frozenset[Path]) -> Node:
        return Ref(self._rule("object", path, seen))

    def _rule(self, kind: str, path: Path, seen: frozenset[Path]) -> str:
        name = self.prefix + ".".join([kind, *path, *("+" + "/".join(done) for done in sorted(seen))])
        if name not in self.made:
            self.made[name] = EMPTY  # holds the place: the rules refer to one another
            self.made[name] = self._first(path, seen) if kind == "object" else self._next(path, seen)
        return name

    def _first(self, path: Path, seen: frozenset[Path]) -> Node:
        """The first member, or the next one after its comma.

        While nothing tells a bare object from the text of an answer, only flat members may stand before its name: each
        brace of nested JSON would begin one more object that may still turn out to be a call.
        """
        unsure = self.bare and "name" not in {self.roles[done] for done in seen}
        ways: list[Node] = []
        known = {role[len(path)] for role in self.roles if role[: len(path)] == path}
        due = [key for key in sorted(known) if not self._done((*path, key), seen)]
        for key in due:
            here = (*path, key)
            if unsure and self.roles.get(here) == "args":
                continue
            text = seq(_key(key, odd=not unsure), _COLON)
            if here in self.roles:
                after = seen | {here}
                ways.append(seq(text, self._value(here, seen), _WS, Ref(self._rule("next", path, after))))
            else:
                ways.append(seq(text, lit("{"), _WS, self._members(here, seen)))
        named = "name" in {self.roles[done] for done in seen}
        if named and not unsure:
            names = [here[-1] for here in self._misnamed(path, seen)]
            keys = [key for name in names for key in (lit(f'"{name}"'), *_odd_key(name))]
            if keys:
                after = seen | {self._args_path}
                given = seq(Tag("odd", alt(*keys)), _COLON, self._arguments_object())
                ways.append(seq(given, _WS, Ref(self._rule("next", path, after))))
        value = Ref("json.value") if named else _FLAT if unsure else Ref(f"{_UNSURE}.value")
        others, string = _other_string(due), Ref("odd.key")
        if not unsure:
            plain = [lit(f"'{key}'") for key in due]
            odd = seq(Negate(alt(*plain)), string) if plain else string
            others, value = alt(others, Tag("odd", odd)), alt(value, Tag("odd", string))
        other = seq(others, _COLON, value, _WS, Ref(self._rule("next", path, seen)))
        return alt(*ways, other)

    @property
    def _args_path(self) -> Path:
        return () if self.shape is None else self.shape.args_path

    def _misnamed(self, path: Path, seen: frozenset[Path]) -> list[Path]:
        """The keys here that can only mean the arguments."""
        return [] if self._done(self._args_path, seen) else [here for here in self.misnamed if here[:-1] == path]

    def _done(self, path: Path, seen: frozenset[Path]) -> bool:
        """True: this key was read already, or another that plays its role."""
        role = self.roles.get(path)
        if role is not None:
            return any(self.roles.get(done) == role for done in seen)
        return any(done[: len(path)] == path for done in seen)

    def _value(self, path: Path, seen: frozenset[Path]) -> Node:
        role = self.roles[path]
        read = {self.roles[done] for done in seen}
        if role == "name":
            settles = not self.bare or not self.any_name or "args" in read
            name = seq(lit('"'), Tag("name.json", self._name()), lit('"'))
            if not self.bare:
                quote = Tag("odd", lit("'"))
                name = alt(name, seq(quote, Tag("name.json", _ODD_NAME), quote))
            return seq(name, Commit("body")) if settles else name
        if role == "args":
            return self.arguments(committed="name" in read)
        text = seq(lit('"'), Tag("id.json", Repeat(_CHAR if "name" in read else self.char)), lit('"'))
        return alt(text, Tag("id", Repeat(DIGIT, min=1)), lit("null"))

    def _next(self, path: Path, seen: frozenset[Path]) -> Node:
        more = seq(lit(","), _WS, self._members(path, seen))
        if path:
            return alt(more, seq(lit("}"), _WS, Ref(self._rule("next", path[:-1], seen))))
        read = {self.roles[done] for done in seen}
        needed = {"name", "args"} if self.bare and self.any_name else {"name"}
        return alt(more, lit("}")) if needed <= read else more


_FLAT = alt(Ref(f"{_UNSURE}.string"), Ref("json.number"), lit("true"), lit("false"), lit("null"))


_ODD_NAME = Repeat(complement(chars("'\"\\\n").ranges), min=1)


def _key(key: str, *, odd: bool) -> Node:
    """A key and its quotes. odd: those of Python, or none, are read too."""
    plain = lit(json.dumps(key, ensure_ascii=False))
    return alt(plain, Tag("odd", alt(*_odd_key(key)))) if odd else plain


def _odd_key(key: str) -> list[Node]:
    return [lit(f"'{key}'"), *([lit(key)] if key.isidentifier() else [])]


def _members(prefix: str) -> dict[str, Node]:
    """The rest of an object behind its brace."""
    member = seq(Ref("json.string"), _COLON, Ref(f"{prefix}.value"), _WS)
    return {f"{prefix}.members": alt(lit("}"), seq(member, Repeat(seq(lit(","), _WS, member)), lit("}")))}


def _other_string(keys: Iterable[str]) -> Node:
    """A JSON string, quotes included, that is none of the ``keys`` as plainly written."""
    plain = [lit(json.dumps(key, ensure_ascii=False)) for key in keys]
    return seq(Negate(alt(*plain)), Ref("json.string")) if plain else Ref("json.string")
