"""What the text of a template says of the variables that it reads from outside."""

from __future__ import annotations

import pytest

from dragoman.template.scan import scan

OWN = "{% macro say(word) %}{% if word %}{% set half = word %}{% endif %}{{ half }}{% endmacro %}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ mode }}", {"mode": ()}),
        ("{% if mode == 'fast' %}{% endif %}{{ mode in ['slow', 'late'] }}", {"mode": ("fast", "slow", "late")}),
        ("{% set mode = mode | default('fast') %}{{ mode == 'slow' }}", {"mode": ("slow",)}),
        ("{% if not mode is defined %}{% set mode = 'fast' %}{% endif %}{{ mode }}", {"mode": ()}),
        ("{% if tools %}{% set mode = 1 %}{% endif %}{{ mode | default(2) }}", {"mode": ()}),
        ("{% if not mode %}{% set mode = 'fast' %}{% endif %}{{ mode }}", {"mode": ()}),
        ("{% set how = mode %}{{ how == 'fast' }}", {"mode": ("fast",)}),
        # The template's own: set in a branch, an argument, a loop's item.
        (OWN, {}),
        (OWN + "{{ say(half) }}", {"half": ()}),
        ("{% if tools %}{% set mode = 1 %}{% endif %}{{ mode }}", {}),
        ("{% for mode in messages %}{{ mode }}{% endfor %}", {}),
        ("{% for each in messages %}{% set mode = 1 %}{% endfor %}{{ mode }}", {"mode": ()}),
        ("{{ messages[0] }}{{ range(3) }}{{ bos_token }}", {}),
    ],
)
def test_variables_are_those_that_a_caller_can_set(source: str, expected: dict[str, tuple[str, ...]]) -> None:
    assert scan(source).variables == expected
