"""What the scripted model writes for the clients' tests, and what they must have made of it."""

from __future__ import annotations

from typing import Any

from tests.server.service import CALL, SECOND_CALL, Service

QUESTION = "What is the weather in Rome, and what time is it?"
THOUGHT = "<muse>\nTwo questions, two tools.\n</muse>\n\n"
BOTH_CALLS = f"{THOUGHT}{CALL}{SECOND_CALL}"
FINAL = "It is sunny in Rome, and it is noon."
WEATHER = "sunny, 21 degrees"
TIME = "noon"
CITY = '{"name": "Rome", "people": 2800000}'


def round_trip() -> Service:
    """Asked once it calls both tools; asked again, with their results, it answers."""
    return Service([BOTH_CALLS, FINAL], size=3)


def structured(answers: int = 1) -> Service:
    return Service([CITY] * answers, size=3)


def check_round_trip(service: Service) -> None:
    """Both results went back into the prompt, behind the calls that asked for them."""
    first, second = service.engine.record.requests
    assert QUESTION in first.prompt_text
    assert WEATHER not in first.prompt_text
    prompt = second.prompt_text
    assert prompt.index('"get_weather"', prompt.index(QUESTION)) < prompt.index(
        '{"name": "get_time"', prompt.index(QUESTION)
    )
    assert prompt.index("<|from|>tool\n" + WEATHER) < prompt.index("<|from|>tool\n" + TIME)


def check_enforced(service: Service) -> None:
    """The engine was held to a grammar, so another model could not have answered otherwise either."""
    assert all(request.grammar is not None for request in service.engine.record.requests)


def weather_of(ran: list[Any], city: str, days: int = 1) -> str:
    ran.append(("get_weather", city, days))
    return WEATHER


def time_of(ran: list[Any]) -> str:
    ran.append(("get_time",))
    return TIME


RAN = [("get_weather", "Rome", 2), ("get_time",)]
