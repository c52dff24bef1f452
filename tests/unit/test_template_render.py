"""Rendering: the dialect of transformers, what a template may not do, and how failures are told."""

from __future__ import annotations

import datetime
import hashlib
import time
from dataclasses import replace
from typing import Any

import pytest

from dragoman.errors import DragomanError, LimitError, TemplateError, UsageError
from dragoman.limits import DEFAULT
from dragoman.template.render import RESERVED, Template

# A list of two lists, each of them the same list of two lists, and so on.
DOUBLED = "{% set ns = namespace(l=[]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
USER = {"role": "user", "content": "hi"}
SMALL = replace(DEFAULT, render_steps=20_000, render_chars=100_000)


def text(source: str, messages: Any = (USER,), **arguments: Any) -> str:
    return Template(source, bos_token="<s>", eos_token="</s>").render(messages, **arguments).text


def test_parts_tell_the_request_from_the_template() -> None:
    source = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}{{ eos_token }}{% endfor %}"
    rendered = Template(source, bos_token="<s>", eos_token="</s>").render([{"role": "user", "content": " </s> "}])
    assert rendered.parts == (("<s><|user|>", False), ("</s>", True), ("</s>", False))
    assert rendered.text == "<s><|user|></s></s>"


def test_a_role_that_is_no_known_name_is_input() -> None:
    rendered = Template("<|{{ messages[0].role }}|>").render([{"role": "endoftext", "content": ""}])
    assert rendered.parts == (("<|", False), ("endoftext", True), ("|>", False))
    compared = Template("{% if messages[0].role == 'critic' %}{% endif %}<|{{ messages[0].role }}|>")
    assert compared.render([{"role": "critic", "content": ""}]).parts == (("<|critic|>", False),)


def test_known_part_types_are_not_input() -> None:
    template = Template("{% for p in messages[0].content %}<{{ p.type }}>{{ p.text }}{% endfor %}")
    content = [{"type": "text", "text": "a"}, {"type": "eos>", "text": "b"}]
    parts = template.render([{"role": "user", "content": content}]).parts
    assert parts == (("<text>", False), ("a", True), ("<", False), ("eos>", True), (">", False), ("b", True))


def test_tools_are_left_out_where_there_are_none() -> None:
    source = "{{ tools is defined }}"
    assert text(source) == "False"
    assert text(source, tools=[]) == "False"
    assert text(source, tools=[{"type": "function"}]) == "True"


def test_the_template_may_change_its_copy_only() -> None:
    messages = [{"role": "user", "content": "a", "list": [1]}]
    source = (
        "{{ messages.pop().content }}{% set x = messages.append({'b': 1}) %}{{ messages[0].update(c=2) or messages }}"
    )
    assert text(source, messages) == "a[{'b': 1, 'c': 2}]"
    assert messages == [{"role": "user", "content": "a", "list": [1]}]


def test_tojson_is_json_dumps_without_html() -> None:
    assert text("{{ {'b': '<é>', 'a': [1.5, none, true]} | tojson }}") == '{"b": "<é>", "a": [1.5, null, true]}'
    assert text("{{ ['é'] | tojson(ensure_ascii=true) }}") == '["\\u00e9"]'
    assert text("{{ {'b': 1, 'a': {}} | tojson(indent=1, sort_keys=true) }}") == '{\n "a": {},\n "b": 1\n}'
    assert text("{{ [1, {'a': 2}] | tojson(separators=(',', ':')) }}") == '[1,{"a":2}]'
    assert text("{{ messages | map(attribute='role') | tojson }}") == '["user"]'
    with pytest.raises(TemplateError, match="not JSON serializable"):
        text("{{ missing | tojson }}")


def test_time_is_an_argument() -> None:
    source = "{{ strftime_now('%d %b %Y %H:%M') }}"
    assert text(source) == text(source)
    assert text(source, now=datetime.datetime(2031, 2, 3, 4, 5)) == "03 Feb 2031 04:05"


def test_variables_reach_the_template_as_input() -> None:
    rendered = Template("<{{ style }}{{ enable_thinking }}>").render(
        [], variables={"style": "s", "enable_thinking": False}
    )
    assert rendered.parts == (("<", False), ("s", True), ("False>", False))


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_variables_may_not_replace_what_is_not_theirs(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        text("x", variables={name: "y"})


def test_hash_and_names() -> None:
    template = Template("{{ messages[0].thinking }}{{ enable_thinking }}{{ raise_exception }}")
    assert template.hash == hashlib.sha256(template.source.encode()).hexdigest()
    assert template.undeclared == {"messages", "enable_thinking"}
    assert "thinking" in template.keys


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("a\n{% if %}", 2, "Expected an expression"),
        ("{{ x | nofilter }}", 1, "nofilter"),
        ("{{ 'a'", 1, "unexpected end"),
        ("{% for a in b %}", 1, "endfor"),
        ("{% frobnicate %}", 1, "frobnicate"),
    ],
)
def test_a_broken_template_is_refused_with_its_line(source: str, line: int, message: str) -> None:
    with pytest.raises(TemplateError, match=message) as caught:
        Template(source)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("\n\n{{ raise_exception('roles must alternate') }}", 3, "roles must alternate"),
        ("\n{{ missing.attribute }}", 2, "'missing' is undefined"),
        ("{{ 'a' + 1 }}", 1, "TypeError"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", 1, "RecursionError"),
        ("{{ 1 / 0 }}", 1, "ZeroDivisionError"),
        ("{{ messages['x'].y }}", 1, "no attribute 'x'"),
        ("{% set x = [] %}{{ x.append(x) or x | tojson }}", 1, "Circular"),
    ],
)
def test_a_failing_template_is_told_with_its_line(source: str, line: int, message: str) -> None:
    with pytest.raises(TemplateError, match=message) as caught:
        text(source)
    assert caught.value.line == line


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__class__.__init__ }}",
        "{{ ''['__class__'].x }}",
        "{{ '{0.__class__.__mro__}'.format('') }}",
        "{{ '{x.__class__.__mro__}'.format_map({'x': 1}) }}",
        "{{ ''|attr('__class__')|string }}",
        "{{ ['']|map(attribute='__class__.__mro__')|list }}",
        "{{ range.__globals__ }}",
        "{{ raise_exception.__globals__ }}",
        "{{ namespace.__init__.__globals__ }}",
        "{{ namespace(_a=1) }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ self._TemplateReference__context.environment }}",
        "{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}{{ os.getcwd() }}",
        "{% extends '/etc/passwd' %}",
        "{{ dict.mro() }}",
        "{{ messages[0].content._mask.hex() }}",
    ],
)
def test_the_sandbox_lets_nothing_out(source: str) -> None:
    with pytest.raises(TemplateError):
        text(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}",
        "{% for a in range(1000) %}{% for b in range(1000) if false %}{% endfor %}{% endfor %}",
        "{% for a in range(100) %}{{ range(90000)|list|length }}{% endfor %}",
        "{{ range(1000000) }}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
        "{{ 'a' * 10 ** 9 }}",
        "{{ 10 ** 9 * 'a' }}",
        "{{ [1] * 10 ** 9 }}",
        "{{ 10 ** (10 ** 10) }}",
        "{% set ns = namespace(n=3) %}{% for i in range(60) %}{% set ns.n = ns.n * ns.n %}{% endfor %}",
        "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set l = [1] %}{% for i in range(60) %}{% set _ = l.extend(l) %}{% endfor %}",
        DOUBLED + "{{ ns.l }}",
        DOUBLED + "{{ ns.l | tojson }}",
        DOUBLED + "{% set a = ns.l %}" + DOUBLED + "{{ ns.l == a }}",
        "{{ 'a'|center(10 ** 9) }}",
        "{{ 'a'.ljust(10 ** 9) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (10 ** 9, 1) }}",
        "{{ '%1000000000d'|format(1) }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '{:{w}}'.format(1, w=10 ** 9) }}",
        "{% set s = 'ab' * 1000 %}{{ s.replace('a', s) }}",
        "{% set s = 'ab' * 1000 %}{{ s|replace('', s) }}",
        "{% set s = 'ab' * 1000 %}{{ s.join(s) }}",
        "{% set s = 'ab' * 1000 %}{{ s|join(s) }}",
        "{% set s = 'ab' * 1000 %}{{ ([s] * 1000)|join }}",
        "{{ 'a\nb'|indent(10 ** 9) }}",
        "{{ [1]|batch(10 ** 9, 1)|list|length }}",
        "{{ [1]|slice(10 ** 9)|list|length }}",
        "{{ [1]|tojson(indent=10 ** 9) }}",
        "{% set s = 'ab ' * 1000 %}{{ s|wordwrap(1, wrapstring=s) }}",
        "{% set s = [1] * 1000 %}{{ ([s] * 1000)|sum(start=[])|length }}",
        "{% for i in range(10) %}{{ ('a' * 99999)|list|length }}{% endfor %}",
        "{% for i in range(10) %}{{ ('a' * 99999).split('a')|length }}{% endfor %}",
        "{{ '\t'.expandtabs(10 ** 9) }}",
        "{{ strftime_now('%1000000000d') }}",
        "{% for i in range(90) %}{{ 'a' * 9999 }}{% endfor %}",
        "{% set x %}{% for i in range(90) %}{{ 'a' * 9999 }}{% endfor %}{% endset %}{{ x|length }}",
    ],
)
def test_a_template_that_needs_too_much_is_stopped(source: str) -> None:
    with pytest.raises(LimitError):
        Template(source, limits=SMALL).render([USER])


@pytest.mark.parametrize(
    "source", ["{{ " + "(" * 5000 + ")" * 5000 + " }}", "{% for a in b %}" * 30 + "{% endfor %}" * 30]
)
def test_a_template_nested_too_deep_is_refused(source: str) -> None:
    with pytest.raises(TemplateError):
        Template(source)


def test_a_request_nested_too_deep_is_refused() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(DragomanError):
        text("x", [{"role": "user", "content": deep}])


def test_a_loop_over_characters_is_as_cheap_as_with_plain_strings() -> None:
    source = (
        "{% set ns = namespace(s='') %}{% for c in messages[0].content %}"
        "{% set ns.s = ns.s ~ c ~ ('-' if loop.index is divisibleby 9) %}{% endfor %}{{ ns.s }}"
    )
    template = Template(source)

    def seconds(render: Any, count: int) -> float:
        began = time.process_time()
        render([{"role": "user", "content": "x" * count}])
        return time.process_time() - began

    seconds(template.render, 2000)
    # Bookkeeping that copies a run for every change of origin at every step is a factor of hundreds here.
    assert seconds(template.render, 40_000) < 4 * seconds(template.render_text, 40_000) + 0.3


@pytest.mark.parametrize("test", ["== 'critic'", "in ['user', 'critic']", "in {'critic': 1}"])
def test_a_role_among_the_template_s_own_words_is_none_of_the_request_s(test: str) -> None:
    template = Template("{% if messages[0].role " + test + " %}{% endif %}<|{{ messages[0].role }}|>")
    message = {"role": "critic", "content": ""}
    assert template.render_text([message]) == "<|critic|>"
    # Rendered before: what rendering makes of the syntax tree hides no word of it.
    assert template.render([message]).parts == (("<|critic|>", False),)


def test_texts_in_lists_are_text_that_the_template_may_write() -> None:
    template = Template("{% set ends = ['<|a|>', '<|b|>'] %}{{ ends[messages | length] }}{{ {'x': '<|c|>'}.x }}")
    assert template.render_text([USER]) == "<|b|><|c|>"
    assert {"<|a|>", "<|b|>", "<|c|>"} <= set(template.texts)
