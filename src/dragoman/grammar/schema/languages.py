"""The strings and keys that atoms speak of, as automata."""

from __future__ import annotations

from dragoman.errors import SchemaError
from dragoman.grammar.regex import automata
from dragoman.grammar.regex.automata import Dfa, TooLarge
from dragoman.grammar.regex.automaton import language
from dragoman.grammar.regex.parse import RegexError, Tree, parse
from dragoman.grammar.schema.atoms import Among, Branch, Except, Goal, Keys, Name, Not, Pattern, Size, Text, Texts
from dragoman.grammar.schema.expand import Expander
from dragoman.grammar.schema.formats import format_language


class Languages:
    """Automata of one document, remembered. TooLarge passes through: the caller may know another way."""

    def __init__(self, expander: Expander) -> None:
        self.expander = expander
        self._texts: dict[tuple[str, str], Dfa | None] = {}
        self._keys: dict[Keys, Dfa] = {}
        self._trees: dict[str, Tree] = {}

    def tree(self, text: Text | Pattern) -> Tree:
        """The regular expression of a pattern. SchemaError where it is none, or not a regular one."""
        if text.source not in self._trees:
            try:
                self._trees[text.source] = parse(text.source)
            except RegexError as error:
                raise self._error(text, str(error)) from None
        return self._trees[text.source]

    def text(self, text: Text | Pattern) -> Dfa:
        """The texts in which the pattern is found, or those of the format; ``negative`` is not looked at."""
        keyword = text.keyword if isinstance(text, Text) else "pattern"
        key = (keyword, text.source)
        if key not in self._texts:
            self._texts[key] = None
            self._texts[key] = self._made(text, keyword)
        known = self._texts[key]
        if known is None:
            raise TooLarge
        return known

    def _made(self, text: Text | Pattern, keyword: str) -> Dfa:
        if keyword == "format":
            found = format_language(text.source)
            assert found is not None
            return found
        tree = self.tree(text)
        try:
            return language(tree, search=True)
        except RegexError as error:
            raise self._error(text, str(error)) from None

    def _error(self, text: Text | Pattern, message: str) -> SchemaError:
        path = ("patternProperties", text.source) if isinstance(text, Pattern) else (text.keyword,)
        return self.expander.document.error(text.place, message, *path)

    def keys(self, keys: Keys) -> Dfa:
        """The texts of ``keys``."""
        known = self._keys.get(keys)
        if known is None:
            known = self._keys[keys] = self._made_keys(keys)
        return known

    def _made_keys(self, keys: Keys) -> Dfa:
        match keys:
            case Name(name):
                return automata.of_words([name])
            case Pattern():
                return self.text(keys)
            case Texts(goal):
                return self.strings(goal)
            case Except(sets):
                out = automata.ANYTHING
                for each in sets:
                    out = automata.difference(out, self.keys(each))
                return out

    def strings(self, goal: Goal) -> Dfa:
        """The strings that satisfy ``goal``."""
        out = automata.NOTHING
        for branch in self.expander.branches(goal):
            if "string" in branch.kinds:
                out = automata.union(out, self.of_branch(branch))
        return out

    def of_branch(self, branch: Branch, *, sized: bool = True) -> Dfa:
        """The strings of a branch; without the bounds of their length where not ``sized``."""
        out = automata.ANYTHING
        for atom in branch.atoms:
            match atom:
                case Text():
                    meet = automata.difference if atom.negative else automata.intersection
                    out = (
                        meet(out, self.text(atom)) if out is not automata.ANYTHING or atom.negative else self.text(atom)
                    )
                case Among(place, keyword):
                    out = automata.intersection(out, self._listed(place, keyword))
                case Not(place, keyword):
                    out = automata.difference(out, self._listed(place, keyword))
                case Size("string", least, most) if sized:
                    out = automata.intersection(out, automata.of_length(least, most))
        return out

    def _listed(self, place: int, keyword: str) -> Dfa:
        schema = self.expander.document.schema(place)
        assert isinstance(schema, dict)
        values = schema["enum"] if keyword == "enum" else [schema["const"]]
        return automata.of_words(value for value in values if isinstance(value, str))

    def words(self, branch: Branch, limit: int) -> list[str] | None:
        """The strings of a branch where there are few."""
        try:
            return self.of_branch(branch).words(limit)
        except TooLarge:
            return None
