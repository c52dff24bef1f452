"""The formats of the standard, each by examples of its RFC; names that the standard does not know describe only."""

from __future__ import annotations

import datetime

import pytest

from dragoman.grammar.schema.formats import FORMATS, format_language

EXAMPLES: dict[str, tuple[list[str], list[str]]] = {
    "date": (
        ["2024-02-29", "2000-02-29", "1999-12-31"],
        ["2023-02-29", "1900-02-29", "2024-04-31", "24-01-01", "2024-1-1"],
    ),
    "time": (
        ["12:00:00Z", "23:59:60Z", "01:29:60.123+01:30", "15:59:60-08:00", "08:30:06.5z"],
        ["24:00:00Z", "12:00:60Z", "22:59:60+01:00", "12:00:00", "12:00:00+24:00", "1:00:00Z"],
    ),
    "date-time": (
        ["2024-02-29T12:00:00Z", "1985-04-12t23:20:50.52z"],
        ["2024-02-30T12:00:00Z", "2024-02-29 12:00:00Z"],
    ),
    "duration": (["P1Y2M3DT4H5M6S", "P3W", "PT36H", "P1D"], ["P", "PT", "P1YT", "P1Y3D", "P1W2D", "1D", "P1S"]),
    "email": (
        ["a.b+c@x.org", '"a b"@x.org', "a@[127.0.0.1]", "a@[IPv6:::1]"],
        ["a", "a..b@x.org", ".a@x.org", "a@-x.org", "a b@x.org"],
    ),
    "hostname": (["a", "a.b-c.org", "1.2", "a" * 63], ["-a", "a-", "a..b", "", "a_b", "a" * 64, "xn--x", "a."]),
    "ipv4": (["0.0.0.0", "255.249.199.99"], ["256.0.0.0", "1.2.3", "01.2.3.4", "1.2.3.4.5"]),
    "ipv6": (
        ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1::3:4:5:6:7:8", "::ffff:1.2.3.4", "1:2::8"],
        ["1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "12345::", ":1", "1:2:3:4:5:6:7::8:9", "::1.2.3"],
    ),
    "uri": (
        ["http://x.org/a?b#c", "urn:x:y", "http://[::1]:80/", "mailto:a@b"],
        ["//x/y", "a b:c", "http://x/%zz", "x", "http://[::1"],
    ),
    "uri-reference": (["", "/a", "//x", "#f", "a/b:c", "?q"], ["a b", "\\a", "1:b"]),
    "iri": (["http://ünïcode.org/é"], ["/é", "http://a b"]),
    "iri-reference": (["é", "/é?ø"], ["a b"]),
    "uuid": (
        ["2eb8aa08-aa98-11ea-b4aa-73b441d16380"],
        ["2eb8aa08aa9811eab4aa73b441d16380", "2eb8aa08-aa98-11ea-b4aa-73b441d1638"],
    ),
    "uri-template": (["http://x/{a,b*}{?q:3}", "plain"], ["{a", "a}", "{}", "{a:0}"]),
    "json-pointer": (["", "/a/~0~1/", "/"], ["a", "/~2", "/~"]),
    "relative-json-pointer": (["0", "1/a", "12#"], ["01", "-1", "#", "0##", "a"]),
    "regex": (["^(a|b)*[^c]{2,}$", r"\d+(?:x)?", ""], ["(", "[", "a**", "a)", "+"]),
}


def test_every_format_has_examples() -> None:
    assert set(EXAMPLES) == set(FORMATS)
    assert format_language("slug") is None


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_examples(name: str) -> None:
    found = format_language(name)
    assert found is not None
    good, bad = EXAMPLES[name]
    assert [text for text in good if not found.accepts(text)] == []
    assert [text for text in bad if found.accepts(text)] == []


def test_dates_are_the_calendar() -> None:
    found = format_language("date")
    assert found is not None
    for year in (1899, 1900, 1996, 2000, 2023, 2024, 2100):
        for month in range(14):
            for day in range(33):
                text = f"{year:04}-{month:02}-{day:02}"
                try:
                    datetime.date.fromisoformat(text)
                    real = True
                except ValueError:
                    real = False
                assert found.accepts(text) == real, text
