"""Sixty tool-call schemas of the kind that function-calling benchmarks use, each with a valid call.

A tool is written as the arguments of one call; from them the schema follows: types, which arguments are optional
(names that end in ``?``), and what a comment of the name adds: ``name=a|b`` is an enum, ``name<9`` a maximum (of a
number, a text's length or a list's).
"""

from __future__ import annotations

from typing import Any

CALLS: tuple[dict[str, Any], ...] = (
    {"location": "Brest, France", "unit?=celsius|fahrenheit": "celsius"},
    {"city": "São Paulo", "days<14": 3},
    {"query": "tide tables for Saint-Malo", "limit?<100": 10},
    {"origin": "CDG", "destination": "JFK", "date": "2026-12-24", "passengers?<9": 2},
    {"to": ["ana@example.org", "bo@example.org"], "subject": "Lunch", "body": "At noon?\nBring the map."},
    {"symbol": "ACME", "interval=1d|1w|1m": "1w", "adjusted?": True},
    {"amount": 125.5, "from_currency=EUR|USD|JPY": "EUR", "to_currency=EUR|USD|JPY": "JPY"},
    {"title": "Stand-up", "start": "2026-11-02T09:00:00Z", "end": "2026-11-02T09:15:00Z", "attendees?": ["ana", "bo"]},
    {"number": 5},
    {"base": 2.5, "exponent": -3},
    {"numbers": [4, 8, 15, 16, 23, 42]},
    {"matrix": [[1.0, 0.5], [0.25, -2.0]]},
    {"text": "Le chat dort.", "source?": "fr", "target": "en"},
    {"path": "/tmp/notes/today.md", "content": "# Notes\n\n- call Bo\n", "overwrite?": False},
    {"command": "ls -la | grep '\\.py$'", "timeout?<600": 30},
    {"sql": "SELECT name FROM users WHERE age > 30 ORDER BY name", "database=main|archive": "main"},
    {"repository": "owner/name", "issue": 77, "labels?": ["bug", "good first issue"]},
    {"user": {"name": "Ana Lima", "age<130": 41}, "notify": True},
    {"address": {"street": "12 rue de Siam", "city": "Brest", "zip<5": "29200"}, "express?": False},
    {"items": [{"sku<12": "A-100", "quantity<999": 2}, {"sku<12": "B-7", "quantity<999": 1}], "coupon?": "SPRING"},
    {"hex<7": "#a0ffee"},
    {"latitude": 48.39, "longitude": -4.48, "radius_km?": 2.5},
    {"genre=jazz|rock|folk|classical": "folk", "year?<2100": 1971},
    {"artist": "Nina Simone", "album?": "Wild Is the Wind", "track": "Four Women"},
    {"restaurant": "Chez Ana", "party<12": 4, "time": "19:30", "notes?<80": "by the window"},
    {"patient_id<10": "P-20031", "dose_mg": 12.5, "times": ["08:00", "20:00"]},
    {"a": 3, "b": 4, "c": 5},
    {"side1": 3.0, "side2": 4.0, "angle?": 90.0},
    {"principal": 1000.0, "rate": 0.035, "years": 10, "compound?=monthly|yearly": "monthly"},
    {"mass": 1.5, "velocity": 9.81},
    {"species": "Larus argentatus", "habitat?": ["coast", "harbour"], "wingspan_cm?": 138},
    {"player": "Kofi", "team": "Harbour FC", "season": "2025/26", "stats": ["goals", "assists"]},
    {"ingredients": ["flour", "butter", "salt"], "servings<20": 4, "diet?=vegan|vegetarian|none": "vegetarian"},
    {"language=en|fr|de|es": "fr", "level=A1|A2|B1|B2|C1|C2": "B1", "topic?": "travel"},
    {"device": "lamp.kitchen", "action=on|off|dim": "dim", "value?<100": 40},
    {"zone": "living room", "temperature": 20.5, "until?": "22:00"},
    {"url": "https://example.org/a?b=c&d=%20", "method=GET|POST|PUT": "GET", "headers?": {"Accept": "text/html"}},
    {"image": "sunset.png", "width<4096": 800, "height<4096": 600, "keep_aspect?": True},
    {"start": {"lat": 1.0, "lon": 2.0}, "end": {"lat": -1.5, "lon": 2.25}, "mode=walk|bike|car": "bike"},
    {"event_id": 90210, "status=yes|no|maybe": "maybe", "comment?<200": 'I may be "late" — sorry'},
    {"queries": ["first", "second question"], "top_k<50": 5, "filters?": {"year": 2024, "open": True}},
    {"expression": "3 * (4 + 5) ^ 2"},
    {"points": [{"x": 0, "y": 0}, {"x": 3, "y": 4}], "closed": False},
    {"word": "dragoman", "count_letters?": True},
    {"sequence<60": "ACGTACGTTAG", "reverse?": True},
    {"crop": "barley", "field_ha": 3.75, "soil=clay|sand|loam": "loam"},
    {"invoice": {"number": "2026-0042", "lines": [{"text": "Work", "price": 90.0}], "paid": False}},
    {"vehicle": {"plate<9": "AB-123-CD", "kind=car|truck|van": "van"}, "days": 2},
    {"sender": "IBAN FR76", "receiver": "IBAN DE89", "amount": 75, "memo?<35": "Rent"},
    {"board": [["x", "o", ""], ["", "x", ""], ["", "", "o"]], "player=x|o": "x"},
    {"first": "Ana", "last": "Lima", "tags?": [], "active": True},
    {"case": "Smith v. Jones", "court?": "High Court", "year": 1999},
    {"compound": "C6H12O6", "grams": 18.0},
    {"tz_from": "Europe/Paris", "tz_to": "Asia/Tokyo", "time": "2026-05-01 10:00"},
    {"summary": "The ferry was late, the sea was calm. " * 6, "style=short|long": "long"},
    {"code": "def f(x):\n    return {'a': [x, x + 1]}\n\nprint(f(3))\n", "language=python|c|rust": "python"},
    {"emoji<4": "🌊", "repeat<10": 3},
    {"nested": {"one": {"two": {"three": {"four": "deep"}}}}, "flag": False},
    {"plan": [{"step": "fetch", "args": ["a", "b"]}, {"step": "merge", "args": []}], "dry_run?": True},
    {"reason": "no such order", "code=E1|E2|E3": "E2", "retry_after?<3600": 60},
)


def cases() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(schema, valid arguments) of every call."""
    return [(_schema(call), _plain(call)) for call in CALLS]


def _name(key: str) -> tuple[str, bool, list[str], int | None]:
    """(name, optional, enum, maximum) of a key as written above."""
    key, _, most = key.partition("<")
    key, _, options = key.partition("=")
    return key.rstrip("?"), key.endswith("?"), options.split("|") if options else [], int(most) if most else None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {_name(key)[0]: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _schema(value: Any, options: list[str] | None = None, most: int | None = None) -> dict[str, Any]:
    if isinstance(value, dict):
        keys = {key: _name(key) for key in value}
        properties = {name: _schema(value[key], options, most) for key, (name, _, options, most) in keys.items()}
        required = [name for name, optional, _, _ in keys.values() if not optional]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    if isinstance(value, list):
        items = _schema(value[0]) if value else {"type": "string"}
        return {"type": "array", "items": items}
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int | float):
        kind = "integer" if isinstance(value, int) else "number"
        return {"type": kind} if most is None else {"type": kind, "minimum": 0, "maximum": most}
    if options:
        return {"type": "string", "enum": options}
    return {"type": "string"} if most is None else {"type": "string", "maxLength": most}
