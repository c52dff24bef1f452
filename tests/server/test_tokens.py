"""Raw completions, tokens and counts, the model's own page, and the document that tells of all routes."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.engine import TokenLogprob
from tests.server.service import MESSAGES, TOOLS, Service, chat_format

VOCAB = chat_format().vocab
assert VOCAB is not None


def _complete(service: Service, **fields: Any) -> Any:
    return service.post({"prompt": "Once", **fields}, "/v1/completions")


def test_a_raw_prompt_is_written_on() -> None:
    service = Service([" upon a time"])
    body = _complete(service, max_tokens=50).json()
    assert body["object"] == "text_completion"
    assert body["choices"] == [{"index": 0, "text": " upon a time", "logprobs": None, "finish_reason": "stop"}]
    [request] = service.engine.record.requests
    assert request.prompt_ids == tuple(VOCAB.encode("Once"))
    assert request.grammar is None
    assert request.stops == ()


def test_control_tokens_of_a_raw_prompt_count() -> None:
    service = Service(["x"])
    _complete(service, prompt="<|from|>user\nHi<|fin|>")
    assert service.engine.record.requests[0].prompt_ids[0] == VOCAB.controls["<|from|>"]


def test_prompts_of_every_form() -> None:
    ids = list(VOCAB.encode("Once"))
    for prompt, count in (("a", 1), (["a", "b"], 2), (ids, 1), ([ids, ids], 2)):
        service = Service(["x"] * 4)
        body = _complete(service, prompt=prompt, n=2).json()
        assert [choice["index"] for choice in body["choices"]] == list(range(2 * count))
        prompts = [request.prompt_ids for request in service.engine.record.requests]
        assert body["usage"]["prompt_tokens"] == sum(len(each) for each in prompts[::2])
    assert service.engine.record.requests[0].prompt_ids == tuple(ids)


def test_a_streamed_completion_is_the_whole_one() -> None:
    service = Service(["one two END three"] * 2, size=2)
    fields: dict[str, Any] = {"echo": True, "stop": "END", "max_tokens": 50}
    whole = _complete(service, **fields).json()
    response = _complete(service, stream=True, stream_options={"include_usage": True}, **fields)
    from tests.server.service import chunks_of

    *chunks, last = chunks_of(response.content)
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole["choices"][0]["text"] == "Onceone two "
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert last["usage"] == whole["usage"]


def test_log_probabilities_in_the_older_shape() -> None:
    def scored(piece: str) -> TokenLogprob:
        return TokenLogprob(-1.5, data=piece.encode(), top=(TokenLogprob(-0.5, data=b"z"),))

    body = _complete(Service(["abcd"], size=2, logprob=scored), logprobs=1).json()
    assert body["choices"][0]["logprobs"] == {
        "tokens": ["ab", "cd"],
        "token_logprobs": [-1.5, -1.5],
        "top_logprobs": [{"z": -0.5}, {"z": -0.5}],
        "text_offset": [0, 2],
    }


def test_the_apis_own_length_where_none_is_given() -> None:
    service = Service(["x" * 100], size=1)
    assert _complete(service).json()["choices"][0] == {
        "index": 0,
        "text": "x" * 16,
        "logprobs": None,
        "finish_reason": "length",
    }


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": [1, "a"]}, "prompt"),
        ({"prompt": [10**9]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": ["a"] * 100, "n": 2}, "prompt"),
        ({"suffix": "end"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"tools": TOOLS}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"logprobs": True}, "logprobs"),
        ({"logprobs": 100}, "logprobs"),
        ({"logprobs": 1, "echo": True, "max_tokens": 0}, "echo"),
        ({"logprobs": 0, "echo": True}, "echo"),
    ],
)
def test_what_is_wrong_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    response = _complete(Service(["x"]), **fields)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


def test_text_comes_back_from_its_tokens() -> None:
    service = Service()
    tokens = service.post({"content": "a é <|fin|> b"}, "/tokenize").json()["tokens"]
    assert service.post({"tokens": tokens}, "/detokenize").json() == {"content": "a é <|fin|> b"}
    control = VOCAB.controls["<|fin|>"]
    assert service.post({"tokens": [control]}, "/detokenize").json() == {"content": "<|fin|>"}
    for wrong in ([VOCAB.size], [-1], ["a"], [None], [True], "abc", None):
        response = service.post({"tokens": wrong}, "/detokenize")
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "tokens"


@pytest.mark.parametrize(("path", "body"), [("/tokenize", {"content": "a"}), ("/detokenize", {"tokens": [1]})])
def test_a_field_that_changes_no_token_is_told(path: str, body: dict[str, Any]) -> None:
    service = Service()
    plain = service.post({**body, "model": "m"}, path).json()
    assert "dragoman" not in plain
    assert service.post({**body, "foo": 1, "bar": None}, path).json() == {**plain, "dragoman": {"ignored": ["foo"]}}


def test_counts_are_those_of_the_prompt() -> None:
    service = Service(["Hi."])
    body = {"messages": MESSAGES, "tools": TOOLS}
    expected = service.post(body).json()["usage"]["prompt_tokens"]
    assert service.post(body, "/v1/chat/completions/input_tokens").json()["input_tokens"] == expected
    flat = {"input": MESSAGES, "tools": [{"type": "function", **tool["function"]} for tool in TOOLS]}
    assert service.post(flat, "/v1/responses/input_tokens").json()["input_tokens"] == expected


def test_a_server_without_a_vocabulary_says_so() -> None:
    service = Service(fmt=chat_format().with_vocab(None))
    asked: list[tuple[str, Any]] = [
        ("/tokenize", {"content": "a"}),
        ("/detokenize", {"tokens": [1]}),
        ("/v1/messages/count_tokens", {"messages": MESSAGES}),
    ]
    for path, body in asked:
        response = service.post(body, path)
        assert response.status_code == 400
        assert "vocabulary" in response.json()["error"]["message"]


def test_one_model_by_its_name() -> None:
    client = Service().client
    assert client.get("/v1/models/m").json()["id"] == "m"
    missing = client.get("/v1/models/gpt/x")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "model_not_found"


def test_the_document_tells_of_every_route() -> None:
    service = Service()
    document = service.client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    app = service.app
    served = {route.path.replace(":path}", "}") for route in app.routes if hasattr(route, "methods")}
    assert set(document["paths"]) <= served
    for path in ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions", "/v1/models", "/props"):
        assert path in document["paths"]
    chat = document["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert chat["required"] == ["messages"]
    assert {"n", "stop", "logprobs", "tool_choice", "reasoning_budget_tokens"} <= set(chat["properties"])


def test_its_schemas_take_what_the_server_takes() -> None:
    import jsonschema

    from tests.server.requests import REQUESTS

    document = Service().client.get("/openapi.json").json()
    for path, bodies in REQUESTS.items():
        schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator.check_schema(schema)
        for body in bodies:
            jsonschema.validate(body, schema)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions"])
def test_a_request_that_is_nested_too_deep(path: str) -> None:
    deep = b"[" * 800 + b"]" * 800
    for key in (b"messages", b"input", b"tools", b"metadata", b"chat_template_kwargs", b"prompt", b"tool_choice"):
        body = b'{"messages": [{"role": "user", "content": "x"}], "input": "x", "prompt": "x", "%b": {"a": %b}}'
        assert Service(["x"]).post(body % (key, deep), path).status_code in (200, 400)


def test_half_a_surrogate_pair_is_no_text() -> None:
    response = Service(["x"]).post(b'{"messages": [{"role": "user", "content": "x"}], "user": "\\ud800"}')
    assert response.status_code == 400
    assert "surrogate" in response.json()["error"]["message"]
    fine = Service(["x"]).post(b'{"messages": [{"role": "user", "content": "\\ud83d\\ude00"}]}')
    assert fine.status_code == 200
