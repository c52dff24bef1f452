"""Whatever a client sends is answered or refused by name: never a 5xx, whole or streamed, by any protocol."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.engines.scripted import Scripted
from tests.server.requests import REQUESTS
from tests.server.service import CALL, INFO, SECOND_CALL, Service

OUTPUTS = ["Hi.", f"<muse>\nhm\n</muse>\n\nSo.{CALL}{SECOND_CALL}", CALL[:40], '{"a": 1}', ""]

WORDS = ["", "a", "auto", "required", "function", "get_time", "text", "json_schema", "tool", "\x00", "é", "-1", "name"]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2, 129, 2**31, 2**63, 10**30, 0.5, -0.5, 1e300]),
    st.sampled_from(WORDS),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*WORDS, "type"]), inner, max_size=3),
    max_leaves=6,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of everything inside a request."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield (*path, key)
        yield from _places(item, (*path, key))


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, Any]:
    """A route, and a request to it with a few of its values replaced, left out or put elsewhere."""
    path = draw(st.sampled_from(sorted(REQUESTS)))
    body = copy.deepcopy(draw(st.sampled_from(REQUESTS[path])))
    body["stream"] = draw(st.booleans())
    for _ in range(draw(st.integers(0, 3))):
        places = list(_places(body))
        if not places:
            break
        *parents, last = draw(st.sampled_from(places))
        place = body
        for key in parents:
            place = place[key]
        change = draw(st.sampled_from(["replace", "drop", "wrap"]))
        if change == "drop":
            del place[last]
        elif change == "wrap":
            place[last] = [place[last]]
        else:
            place[last] = draw(VALUES)
    return path, body


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(asked=requests(), output=st.sampled_from(OUTPUTS))
def test_no_request_is_a_failure_of_the_server(asked: tuple[str, Any], output: str) -> None:
    path, body = asked
    service = Service(engine=Scripted(lambda _: output, info=INFO, size=5))
    response = service.post(json.dumps(body).encode(), path)
    assert response.status_code in (200, 400), (response.text, body)
    if response.status_code == 400:
        assert response.json()["error"]["message"]
        return
    if response.headers["content-type"].startswith("text/event-stream"):
        assert body["stream"] is True
        assert b'"error":{' not in response.content


def test_the_full_requests_are_answered() -> None:
    for path, bodies in REQUESTS.items():
        for body in bodies:
            for stream in (False, True):
                service = Service(engine=Scripted(lambda _: '{"a": 1}', info=INFO))
                response = service.post({**body, "stream": stream}, path)
                assert response.status_code == 200, (path, response.text)
