"""How a schema's values are written: the choices that the schema itself leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.grammar.json import JsonStyle, Whitespace


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """Choices of the writer.

    whitespace: as in :class:`~dragoman.grammar.json.JsonStyle`. closed_objects: an object that declares ``properties``
    and says nothing of ``additionalProperties`` has no others (JSON Schema itself says: any). any_order: properties in
    any order, not in the declared one. string_max: characters of a string without ``maxLength``. items_max:
    items of an array without ``maxItems`` and further members of an object without ``maxProperties``, never fewer than
    the schema asks for; half as many every two levels of nesting, and where none are left, only what is required: no
    optional members, no nesting where a plain value will do. So recursion ends too. With it ``string_max`` is halved
    every two levels beyond the items of one list. number_digits, fraction_digits: digits before and after the point
    where no bound says otherwise. banned: texts that no string value or key may hold as written (in constants they are
    escaped). escapes: whether ``\\uXXXX`` may be written for printable characters; without it, and in strings with a
    pattern or format, a string has one spelling.
    remotes: documents that references may lead to, by URI. lenient: keywords that cannot be enforced are left out, with
    a warning for the caller, instead of refused.
    """

    whitespace: Whitespace = "bounded"
    closed_objects: bool = False
    any_order: bool = False
    string_max: int | None = None
    items_max: int | None = None
    number_digits: int = 15
    fraction_digits: int = 15
    banned: tuple[bytes, ...] = ()
    escapes: bool = False
    remotes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    lenient: bool = False

    @property
    def style(self) -> JsonStyle:
        """The spelling of JSON under these options."""
        return JsonStyle(
            whitespace=self.whitespace,
            escapes="paired" if self.escapes else "canonical",
            string_max=self.string_max,
            items_max=self.items_max,
            integer_digits=self.number_digits,
            fraction_digits=self.fraction_digits,
            banned=self.banned,
        )
