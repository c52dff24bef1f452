"""Strings with provenance: the text is what plain strings give, and each letter keeps its origin.

Input is written in letters of one alphabet and template text in those of another, so the flag that a character must
have can be read off the character itself, whatever was done to the string.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.template.provenance import (
    Marked,
    bare,
    escaped,
    has_input,
    joined,
    marked_copy,
    mask_of,
    merged,
    runs,
    safe,
)
from dragoman.template.render import Template

INPUT, OURS, SHARED = "abcß", "xyzŉ", " \n-<'"
INPUT_FORMS = frozenset("".join({c.lower() + c.upper() + c.title() for c in INPUT}))
OUR_FORMS = frozenset("".join({c.lower() + c.upper() + c.title() for c in OURS}))

pieces = st.one_of(
    st.text(INPUT + SHARED, max_size=8).map(Marked),
    st.text(OURS + SHARED, max_size=8),
)
strings = st.lists(pieces, max_size=4).map(joined)
small = st.integers(-6, 12)


def check(result: Any, expected: Any) -> None:
    """``result`` equals the plain ``expected`` and no letter in it has a wrong flag."""
    assert result == expected
    if isinstance(result, (list, tuple)):
        for item, plain in zip(result, expected, strict=True):
            check(item, plain)
    elif isinstance(result, str):
        for char, flag in zip(bare(result), mask_of(result), strict=True):
            assert not (char in INPUT_FORMS and not flag), f"input lost in {result!r}"
            assert not (char in OUR_FORMS and flag), f"template text taken for input in {result!r}"


@given(strings, strings, st.integers(-1, 3))
def test_methods_keep_the_origin_of_every_letter(text: str, other: str, count: int) -> None:
    marked, plain, bit = joined((Marked(""), text)), bare(text), bare(other)
    for name in ("strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "upper", "lower", "swapcase", "title"):
        check(getattr(marked, name)(), getattr(plain, name)())
    check(marked.capitalize(), plain.capitalize())
    check(marked.splitlines(True), plain.splitlines(True))
    check(marked.strip(bit), plain.strip(bit))
    check(marked.removeprefix(bit[:1]), plain.removeprefix(bit[:1]))
    check(marked.removesuffix(bit[-1:]), plain.removesuffix(bit[-1:]))
    check(marked.split(None, count), plain.split(None, count))
    check(marked.rsplit(None, count), plain.rsplit(None, count))
    for sep in {bit[:1], bit, "-"} - {""}:
        check(marked.split(sep, count), plain.split(sep, count))
        check(marked.rsplit(sep, count), plain.rsplit(sep, count))
        check(marked.partition(sep), plain.partition(sep))
        check(marked.rpartition(sep), plain.rpartition(sep))


@given(strings, strings, strings, st.integers(-1, 3))
def test_replace_and_join_and_sums(text: str, old: str, new: str, count: int) -> None:
    marked = joined((Marked(""), text))
    check(marked.replace(old, new, count), bare(text).replace(bare(old), bare(new), count))
    check(marked.replace(old[:1], new), bare(text).replace(bare(old)[:1], bare(new)))
    check(marked.join([old, new, old]), bare(text).join([bare(old), bare(new), bare(old)]))
    check(marked + new, bare(text) + bare(new))
    check(old + marked, bare(old) + bare(text))
    check(marked * count, bare(text) * count)


@given(strings, small, small, st.sampled_from([-2, -1, 1, 2]))
def test_slices_and_characters(text: str, start: int, stop: int, step: int) -> None:
    marked = joined((Marked(""), text))
    check(marked[start:stop:step], bare(text)[start:stop:step])
    check(list(marked), list(bare(text)))
    check(list(reversed(marked)), list(reversed(bare(text))))
    for at in range(-len(text), len(text)):
        check(marked[at], bare(text)[at])


@given(strings, st.integers(0, 20))
def test_padding(text: str, width: int) -> None:
    marked = joined((Marked(""), text))
    for name in ("center", "ljust", "rjust"):
        check(getattr(marked, name)(width), getattr(bare(text), name)(width))
        check(getattr(marked, name)(width, "x"), getattr(bare(text), name)(width, "x"))


@given(st.lists(pieces, max_size=6))
def test_runs_cover_the_text_and_alternate(parts: list[str]) -> None:
    found = merged(parts)
    assert "".join(text for text, _ in found) == "".join(map(bare, parts))
    assert all(text for text, _ in found)
    assert all(a[1] != b[1] for a, b in pairwise(found))
    assert found == tuple(runs(joined(parts)))


@given(strings, strings)
def test_safe_strings_escape_as_markupsafe_does(text: str, other: str) -> None:
    markupsafe = pytest.importorskip("markupsafe")
    ours, theirs = safe(text), markupsafe.Markup(bare(text))
    check(escaped(other), str(markupsafe.escape(bare(other))))
    check(ours + other, str(theirs + bare(other)))
    check(other + ours, str(bare(other) + theirs))
    check(ours.replace("-", other), str(theirs.replace("-", bare(other))))
    check(ours.join([other, other]), str(theirs.join([bare(other)] * 2)))


def test_a_marked_string_is_the_plain_one_to_python() -> None:
    marked = Marked("key")
    assert marked == "key"
    assert {"key": 1}[marked] == 1
    assert {marked: 1}["key"] == 1
    assert repr(marked) == "'key'"
    assert has_input(marked)
    assert not has_input(Marked(""))
    # A template sees the attributes of an object: there may be none that str has not.
    assert {name for name in dir(Marked) if not name.startswith("_")} == {n for n in dir(str) if not n.startswith("_")}


def test_a_marked_copy_shares_nothing_and_marks_keys() -> None:
    request = {"a": ["b", {"c": 1}]}
    copy = marked_copy(request)
    copy["a"][1]["c"] = 2
    copy["a"].append("d")
    assert request == {"a": ["b", {"c": 1}]}
    assert all(isinstance(key, Marked) for key in copy)


# Expressions over v.u (input) and literals; every construct that templates build strings with.
EXPRESSIONS = [
    "'xy' ~ v.u ~ 'z' ~ 1",
    "'xy%s-%s' % (v.u, 'z')",
    "'xy%s' % v.u",
    "'xy%(k)s' % v.d",
    "'x%5s|%-5s|%d' % (v.u, 'z', 3)",
    "'x%%%s' % v.l",
    "'xy{}-{}'.format(v.u, 'z')",
    "'xy{0}{k}'.format(v.u, k=v.d.k)",
    "'x{v[u]}z'.format(v=v)",
    "'xy{k}'.format_map(v.d)",
    "'x-y-z'.replace('-', v.u)",
    "'x-y-z'|replace('-', v.u)",
    "'-x-'.join(v.l)",
    "v.l|join('-z-')",
    "[v.u, 'x']|join",
    "v.l|map('upper')|join('x')",
    "v.u|title ~ 'x'|title",
    "('x' ~ v.u)|title",
    "('x' ~ v.u)|capitalize",
    "('x' ~ v.u)|trim('x')",
    "('x ' ~ v.u ~ 'z')|upper|lower",
    "('x\n' ~ v.u ~ '\nz')|indent(2, true)",
    "('x<' ~ v.u)|escape",
    "('x<' ~ v.u)|e ~ v.u",
    "('x<' ~ v.u)|safe + '<z'",
    "'x<' + (v.u|safe)",
    "('x' ~ v.u)|string",
    "v.d|string",
    "v.l|string",
    "[v.u, 'x', 1, none, true]|string",
    "{'x': v.u} ~ 'z'",
    "{v.u: 'x'}|string",
    "(v.u,)|string",
    "[v.u ~ 'x' ~ v.q]|string",
    "v.d.items()|list|string",
    "v.d|tojson",
    "[v.u, 'x', {'y': v.l}]|tojson(indent=2)",
    "[v.u ~ 'x']|tojson(ensure_ascii=true)",
    "{'y': v.u, 'x': 1}|tojson(sort_keys=true, separators=(',', ':'))",
    "v.d|dictsort|string",
    "(v.u ~ 'x')|list|join",
    "(v.u ~ 'x')|reverse",
    "(v.u ~ 'x')|first ~ (v.u ~ 'x')|last",
    "(v.u ~ 'xyz' * 3)|truncate(7, true, 'z')",
    "(v.u ~ 'x')|center(20)",
    "'x'.join(v.u.split('b'))",
    "(v.u ~ 'x' ~ v.u).split('b')|join('z')",
    "('x' + v.u)[1:-1] + 'z'",
    "v.u if v.u else 'x'",
    "v.missing|default(v.u) ~ 'x'",
    "namespace(a=v.u).a ~ 'x'",
    "dict(x=v.u)|string",
    "['x', v.u]|sort|join",
    "['x', v.u]|unique|join",
    "v.l|batch(2)|list|string",
    "cycler('x', v.u).next()",
]
STATEMENTS = [
    "{% set s %}x{{ v.u }}z{% endset %}{{ s ~ 'x' }}",
    "{% macro m(a) %}x{{ a }}z{% endmacro %}{{ m(v.u) + 'y' }}",
    "{% macro m() %}x{{ caller(v.u) }}z{% endmacro %}{% call(a) m() %}y{{ a }}{% endcall %}",
    "{% filter upper %}x{{ v.u }}{% endfilter %}",
    "{% for c in v.u %}{{ c ~ 'x' }}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for c in v.u %}{% set ns.s = ns.s + c %}{% endfor %}{{ ns.s }}",
    "{% for k, x in v.d.items() %}{{ k }}y{{ x }}{% endfor %}",
    "{% for k, x in v.d|items %}{{ loop.index }}{{ k }}{{ loop.cycle('x', 'y') }}{% endfor %}",
    "{% for a in [v.l] recursive %}x{% if a is string %}{{ a }}{% else %}{{ loop(a) }}{% endif %}{% endfor %}",
    "{% generation %}x{{ v.u }}{% endgeneration %}",
    "{% block b scoped %}x{{ v.u }}{% endblock %}{{ self.b() }}",
    "{% for a in v.l %}{{ 'x{}'.format(a) }}{{ 'y{k}'.format_map(v.d) }}{{ 'z'.join(v.l) }}{% endfor %}",
    "{% for a in v.l if a != 'x' %}{{ a }}z{% else %}y{% endfor %}",
]


@pytest.mark.parametrize("source", [*("{{ " + text + " }}" for text in EXPRESSIONS), *STATEMENTS])
@pytest.mark.parametrize("word", ["abc", " a<b'\nca ", "ß-a", "", "\"'\\ab"])
def test_every_way_to_build_a_string_keeps_origin_and_text(source: str, word: str) -> None:
    reference = pytest.importorskip("transformers.utils.chat_template_utils")._compile_jinja_template(source)
    values = {"u": word, "q": '"', "d": {"k": word, "c": "a"}, "l": [word, "b", "c"]}
    template = Template(source)
    rendered = template.render([], variables={"v": values})
    assert rendered.text == reference.render(v=values)
    assert rendered.text == template.render_text([], variables={"v": values})
    for text, is_input in rendered.parts:
        # Letters of names that Python or Jinja write themselves, such as dict_items, are nobody's.
        assert not set(text) & (OUR_FORMS if is_input else INPUT_FORMS - set("a"))


@pytest.mark.parametrize("expression", ["v.u|wordwrap(3)", "v.u|urlencode", "(v.u ~ 'x')|striptags", "v.u.zfill(9)"])
def test_an_operation_without_a_rule_gives_all_input(expression: str) -> None:
    rendered = Template("{{ " + expression + " }}").render([], variables={"v": {"u": "abc cba"}})
    assert [flag for _, flag in rendered.parts] == [True]


def test_a_number_made_a_character_is_input() -> None:
    parts = Template("{{ '%c' % v }}{{ '{:c}'.format(v) }}").render([], variables={"v": 60}).parts
    assert parts == (("<<", True),)


def test_pprint_marks_what_stands_in_quotes() -> None:
    parts = Template("{{ {'k': v}|pprint }}").render([], variables={"v": "abc"}).parts
    assert parts == (("{'", False), ("k", True), ("': '", False), ("abc", True), ("'}", False))
