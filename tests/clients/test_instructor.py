"""instructor against the server. It wants an environment of its own: ``make test-clients``."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

instructor = pytest.importorskip("instructor", reason="instructor is not installed: make test-clients")

import openai  # noqa: E402

from tests.clients.scripts import CITY, QUESTION, check_enforced  # noqa: E402
from tests.server.live import live  # noqa: E402
from tests.server.service import Service  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
CALL = '\n<do>\n{"name": "City", "arguments": ' + CITY + "}\n</do>"


class City(pydantic.BaseModel):
    name: str
    people: int


@pytest.mark.parametrize("mode", ["TOOLS", "JSON", "JSON_SCHEMA"])
@pytest.mark.parametrize("partial", [False, True])
def test_a_structured_answer(mode: str, partial: bool) -> None:
    service = Service([CALL if mode == "TOOLS" else CITY], size=3)
    with live(service.app) as address, openai.DefaultHttpxClient(trust_env=False) as http:
        client = instructor.from_openai(
            openai.OpenAI(base_url=f"{address}/v1", api_key="any", http_client=http),
            mode=getattr(instructor.Mode, mode),
        )
        asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": QUESTION}]}
        if partial:
            *_, answer = client.chat.completions.create_partial(response_model=City, **asked)
        else:
            answer = client.chat.completions.create(response_model=City, max_retries=0, **asked)
    assert (answer.name, answer.people) == ("Rome", 2_800_000)
    check_enforced(service)


def test_a_tool_round_trip() -> None:
    """A wrong answer goes back as the result of its call, and the next one is right."""
    wrong = CALL.replace("2800000", "-1")
    service = Service([wrong, CALL])

    class Checked(City):
        @pydantic.field_validator("people")
        @classmethod
        def positive(cls, value: int) -> int:
            if value < 0:
                raise ValueError("people are counted from zero")
            return value

    Checked.__name__ = "City"
    with live(service.app) as address, openai.DefaultHttpxClient(trust_env=False) as http:
        client = instructor.from_openai(openai.OpenAI(base_url=f"{address}/v1", api_key="any", http_client=http))
        answer = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": QUESTION}], response_model=Checked, max_retries=2
        )
    assert answer.people == 2_800_000
    assert "people are counted from zero" in service.engine.record.requests[1].prompt_text
