"""The formats of the standard as regular expressions, each after the RFC that defines it.

A format that is in no table of this file is an annotation: the standard says so of names it does not define.
Where a definition is not regular or would need large tables, the texts described here are a part of the valid ones,
never more: host names of at most four labels of full length or ten of 24 characters, none of them encoded (``xn--``);
leap seconds at offsets of whole quarter hours; regular expressions without look-around, three groups deep.
"""

from __future__ import annotations

from functools import cache

from dragoman.grammar.regex.automata import Dfa
from dragoman.grammar.regex.automaton import language
from dragoman.grammar.regex.parse import parse

# Known and not decided here: they need the tables of IDNA 2008.
UNDECIDED = frozenset(("idn-email", "idn-hostname"))


def _date() -> str:
    leap = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
    long, short = r"(?:0[13578]|1[02])", r"(?:0[469]|11)"
    days = rf"(?:{long}-(?:0[1-9]|[12]\d|3[01])|{short}-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
    return rf"(?:\d{{4}}-{days}|{leap}-02-29)"


def _time() -> str:
    hour, minute = r"(?:[01]\d|2[0-3])", r"[0-5]\d"
    fraction = r"(?:\.\d+)?"
    leap = [rf"23:59:60{fraction}[Zz]"]
    for sign, step in (("+", 1), ("-", -1)):
        for quarter in range(96):
            local = (23 * 60 + 59 + step * quarter * 15) % 1440
            offset = f"{quarter // 4:02}:{quarter % 4 * 15:02}"
            leap.append(rf"{local // 60:02}:{local % 60:02}:60{fraction}\{sign}{offset}")
    plain = rf"{hour}:{minute}:[0-5]\d{fraction}(?:[Zz]|[+-]{hour}:{minute})"
    return f"(?:{plain}|{'|'.join(leap)})"


def _duration() -> str:
    time = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"
    date = r"(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)"
    return rf"P(?:\d+W|{date}(?:{time})?|{time})"


def _hostname() -> str:
    def label(most: int) -> str:
        # No hyphens third and fourth: those labels are encoded, and what they encode would have to be checked.
        short = "[a-zA-Z0-9](?:[a-zA-Z0-9-]?[a-zA-Z0-9])?"
        third = (
            f"[a-zA-Z0-9][a-zA-Z0-9-](?:[a-zA-Z0-9][a-zA-Z0-9-]|-[a-zA-Z0-9])[a-zA-Z0-9-]{{0,{most - 5}}}[a-zA-Z0-9]"
        )
        four = "[a-zA-Z0-9][a-zA-Z0-9-][a-zA-Z0-9-][a-zA-Z0-9]"
        return f"(?:{short}|{four}|{third})"

    long, some = label(63), label(24)
    return rf"(?:{long}(?:\.{long}){{0,2}}(?:\.{label(61)})?|{some}(?:\.{some}){{0,9}})"


OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
IPV4 = rf"{OCTET}(?:\.{OCTET}){{3}}"


def _ipv6() -> str:
    word = "[0-9a-fA-F]{1,4}"
    last = rf"(?:{word}:{word}|{IPV4})"
    options = [rf"(?:{word}:){{6}}{last}", rf"::(?:{word}:){{5}}{last}"]
    options += [  # ``count`` words behind the gap, before the last two
        rf"(?:(?:{word}:){{0,{4 - count}}}{word})?::(?:{word}:){{{count}}}{last}" for count in range(5)
    ]
    options.append(rf"(?:(?:{word}:){{0,5}}{word})?::{word}")
    options.append(rf"(?:(?:{word}:){{0,6}}{word})?::")
    return f"(?:{'|'.join(options)})"


def _email() -> str:
    atom = r"[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
    quoted = r'"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\[\x20-\x7e])*"'
    literal = rf"\[(?:{IPV4}|IPv6:{_ipv6()})\]"
    return rf"(?:{atom}(?:\.{atom})*|{quoted})@(?:{_hostname()}|{literal})"


UCS = (
    r"\u{a0}-\u{d7ff}\u{f900}-\u{fdcf}\u{fdf0}-\u{ffef}"
    + "".join(rf"\u{{{plane:x}0000}}-\u{{{plane:x}fffd}}" for plane in range(1, 14))
    + r"\u{e1000}-\u{efffd}"
)
PRIVATE = r"\u{e000}-\u{f8ff}\u{f0000}-\u{ffffd}\u{100000}-\u{10fffd}"


def _uri(ucs: str = "", private: str = "", *, relative: bool = False) -> str:
    """RFC 3986, or RFC 3987 with the further characters."""
    escaped = "%[0-9a-fA-F]{2}"
    unreserved, sub = rf"a-zA-Z0-9._~{ucs}\-", r"!$&'()*+,;="
    pchar = rf"(?:[{unreserved}{sub}:@]|{escaped})"
    segment, some = f"{pchar}*", f"{pchar}+"
    no_colon = rf"(?:[{unreserved}{sub}@]|{escaped})+"
    future = rf"[vV][0-9a-fA-F]+\.[a-zA-Z0-9._~\-{sub}:]+"
    host = rf"(?:\[(?:{_ipv6()}|{future})\]|(?:[{unreserved}{sub}]|{escaped})*)"
    authority = rf"(?:(?:[{unreserved}{sub}:]|{escaped})*@)?{host}(?::\d*)?"
    empty_or = rf"//{authority}(?:/{segment})*|/(?:{some}(?:/{segment})*)?"
    tail = rf"(?:\?(?:{pchar}|[/?{private}])*)?(?:#(?:{pchar}|[/?])*)?"
    absolute = rf"[a-zA-Z][a-zA-Z0-9+.\-]*:(?:{empty_or}|{some}(?:/{segment})*)?{tail}"
    if not relative:
        return absolute
    return rf"(?:{absolute}|(?:{empty_or}|{no_colon}(?:/{segment})*)?{tail})"


def _uri_template() -> str:
    """RFC 6570."""
    literal = rf"(?:[\x21\x23\x24\x26-\x3b\x3d\x3f-\x5b\x5d\x5f\x61-\x7a\x7e{UCS}{PRIVATE}]|%[0-9a-fA-F]{{2}})"
    char = "(?:[a-zA-Z0-9_]|%[0-9a-fA-F]{2})"
    name = rf"{char}(?:\.?{char})*"
    variable = rf"{name}(?::[1-9]\d{{0,3}}|\*)?"
    return rf"(?:{literal}|\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}})*"


def _regex() -> str:
    escape = r"\\(?:[dDwWsSbBfnrtv^$\\.*+?()\[\]{}|/]|x[0-9a-fA-F]{2}|u[0-9a-bA-B][0-9a-fA-F]{3})"
    member = r"(?:[^\\\]\-^]|\\(?:[dDwWsSfnrtv^$\\.*+?()\[\]{}|/\-]|x[0-9a-fA-F]{2}))"
    group = rf"\[\^?(?:a-z|A-Z|0-9|a-f|A-F|{member})*\]"
    count = "[*+?]|{(?:0|[1-9]\\d{0,2})}|{(?:0|[1-9]\\d{0,2}),}|{0,[1-9]\\d{0,2}}|{1,[1-9]\\d{0,2}}"
    atom = rf"[^\\^$.*+?()\[\]{{}}|]|\.|{escape}|{group}"
    inner = ""
    for depth in range(4):
        here = atom if not depth else rf"{atom}|\((?:\?:)?{inner}\)"
        branch = rf"(?:(?:{here})(?:(?:{count})\??)?|[$^])*"
        inner = rf"{branch}(?:\|{branch})*"
    return inner


POINTER = r"(?:/(?:[^~/]|~[01])*)*"

FORMATS = {
    "date": _date(),
    "time": _time(),
    "date-time": rf"{_date()}[Tt]{_time()}",
    "duration": _duration(),
    "email": _email(),
    "hostname": _hostname(),
    "ipv4": IPV4,
    "ipv6": _ipv6(),
    "uri": _uri(),
    "uri-reference": _uri(relative=True),
    "iri": _uri(UCS, PRIVATE),
    "iri-reference": _uri(UCS, PRIVATE, relative=True),
    "uuid": "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "uri-template": _uri_template(),
    "json-pointer": POINTER,
    "relative-json-pointer": rf"(?:0|[1-9]\d*)(?:#|{POINTER})",
    "regex": _regex(),
}


@cache
def format_language(name: str) -> Dfa | None:
    """The texts of a format; None where its name is not of the standard."""
    source = FORMATS.get(name)
    return None if source is None else language(parse(source))
