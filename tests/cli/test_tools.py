"""Tools of a terminal chat: schemas from Python functions, files of all kinds, MCP servers."""

from __future__ import annotations

import asyncio
import enum
import json
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

import pytest

from dragoman.cli.tool_schemas import given, schema_of, tool_of
from dragoman.cli.tools import open_tools
from dragoman.errors import DragomanError, EngineError, UsageError
from dragoman.format import ChatFormat


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Place:
    city: str
    country: str = "PT"


class Size(TypedDict, total=False):
    wide: int


def plain(city: str, days: int = 1, *, exact: bool = False) -> str:
    """Tell the weather.

    In detail.

    Args:
        city (str): its name,
            in English
        days: how many, at most seven

    Returns:
        days: not a parameter
    """
    return f"{city} {days} {exact}"


def numpy_style(city: str, days: int) -> None:
    """Tell the weather.

    Parameters
    ----------
    city : str
        its name
    days : int, optional
        how many
        days

    Returns
    -------
    None
    """


def sphinx_style(city: str, days: int) -> None:
    """Tell the weather.

    :param str city: its name
    :param days: how many
        days
    :returns: nothing
    """


def test_a_function_is_a_tool() -> None:
    function = tool_of(plain)["function"]
    assert function["name"] == "plain"
    assert function["description"] == "Tell the weather. In detail."
    assert function["parameters"] == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "its name, in English"},
            "days": {"type": "integer", "description": "how many, at most seven"},
            "exact": {"type": "boolean"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("function", [numpy_style, sphinx_style])
def test_docstrings_of_other_styles(function: Callable[..., Any]) -> None:
    told = tool_of(function)["function"]
    assert told["description"] == "Tell the weather."
    described = {name: schema["description"] for name, schema in told["parameters"]["properties"].items()}
    assert described == {"city": "its name", "days": "how many days"}


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (tuple[int, str], {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}),
        (Literal["a", 2], {"enum": ["a", 2]}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045 - the old spelling
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Colour, {"enum": ["red", "blue"]}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (Any, {}),
        (Place, {"type": "object", "required": ["city"]}),
        (Size, {"type": "object", "required": []}),
    ],
)
def test_type_hints(hint: Any, schema: dict[str, Any]) -> None:
    found = schema_of(hint, "f(x)")
    assert schema.items() <= found.items()
    # And every one of them can be enforced.
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": found}}}}
    turn = ChatFormat.from_name("chatml").turn([{"role": "user", "content": "x"}], tools=[tool], tool_choice="required")
    assert turn.grammar.to_gbnf()


def test_what_json_cannot_say_is_refused() -> None:
    def many(*values: int) -> None: ...
    def bytes_of(data: bytes) -> None: ...
    def unknown(data: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP037

    for function, said in ((many, r"\*values"), (bytes_of, "bytes, which has no form in JSON"), (unknown, "Nowhere")):
        with pytest.raises(UsageError, match=said):
            tool_of(function)


def test_values_come_as_the_function_wants_them() -> None:
    assert given("red", Colour) is Colour.RED
    assert given({"city": "Faro"}, Place) == Place("Faro")
    assert given([{"city": "Faro"}], list[Place]) == [Place("Faro")]
    assert given({"city": "Faro"}, Place | None) == Place("Faro")
    assert given([1, 2], tuple[int, ...]) == (1, 2)
    assert isinstance(given(2, float), float)
    assert given({"x": 1}, dict[str, int]) == {"x": 1}


def opened(*files: Path, call: tuple[str, dict[str, Any]] | None = None) -> Any:
    """Tool names of the files, or the result of a call of one of them."""

    async def work() -> Any:
        async with AsyncExitStack() as stack:
            tools = await open_tools(list(map(str, files)), stack)
            if call is None:
                return {name: tool.run is not None for name, tool in tools.items()}
            run = tools[call[0]].run
            assert run is not None
            return await run(call[1])

    return asyncio.run(work())


PYTHON = '''
from dataclasses import dataclass
import json  # not a tool

@dataclass
class Place:
    city: str

def weather(place: Place, days: int = 1) -> dict:
    """The weather."""
    return {"city": place.city, "days": days}

async def wait() -> str:
    return "waited"

def fail() -> None:
    raise ValueError("no power")

def _hidden() -> None: ...
'''


def test_functions_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "ours.py"
    path.write_text(PYTHON)
    assert opened(path) == {"weather": True, "wait": True, "fail": True}
    assert opened(path, call=("weather", {"place": {"city": "Faro"}})) == '{"city": "Faro", "days": 1}'
    assert opened(path, call=("wait", {})) == "waited"
    assert opened(path, call=("fail", {})) == "error: ValueError: no power"
    assert opened(path, call=("weather", {"town": 1})).startswith("error: TypeError")
    path.write_text("from textwrap import dedent\n__all__ = ['dedent']\ndef other(): ...\n")
    assert opened(path) == {"dedent": True}, "what a file names itself, imported or not"


@pytest.mark.parametrize(
    "value",
    [
        [{"type": "function", "function": {"name": "ask", "parameters": {"type": "object"}}}],
        [{"name": "ask", "parameters": {"type": "object"}}],
        {"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]},
    ],
)
def test_tools_that_are_only_declared(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(value))
    assert opened(path) == {"ask": False}
    with pytest.raises(UsageError, match=f"ask is in {path} and in {path}"):
        opened(path, path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.py", None, "there is no file"),
        ("empty.py", "x = 1\n", "defines no public function"),
        ("broken.py", "def f(:\n", "cannot be run: SyntaxError"),
        ("exits.py", "raise SystemExit(3)\n", "exits when it is read"),
        ("none.json", None, "there is no file"),
        ("text.json", "hello", "is no JSON"),
        ("number.json", "5", "not a number"),
        ("object.json", "{}", "not an object without tools"),
        ("nameless.json", '[{"type": "function"}]', "a tool without a name"),
        ("remote.json", '{"mcpServers": {"far": {"url": "http://x"}}}', "'far' of .* has no command"),
    ],
)
def test_files_that_are_no_tools(tmp_path: Path, name: str, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match=said) as caught:
        opened(tmp_path / name)
    assert caught.value.param == "--tools"


SERVER = """
import json, os, sys

PAGES = {None: ("greet", "two"), "two": ("fail", None)}
for line in sys.stdin:
    asked = json.loads(line)
    method, number = asked["method"], asked.get("id")
    params = asked.get("params") or {}
    if number is None:
        continue
    if method == "initialize":
        assert params["protocolVersion"]
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}), flush=True)
        print(json.dumps({"jsonrpc": "2.0", "id": 77, "method": "roots/list"}), flush=True)
        assert json.loads(sys.stdin.readline())["error"]["code"] == -32601
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
    elif method == "tools/list":
        name, after = PAGES[params.get("cursor")]
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        result = {"tools": [{"name": name, "description": "Greets.", "inputSchema": schema}]}
        if after:
            result["nextCursor"] = after
    elif params["name"] == "greet":
        text = f"hello {params['arguments']['name']} from {os.environ['WHERE']}"
        result = {"content": [{"type": "text", "text": text}, {"type": "image", "data": ""}]}
    elif params["arguments"].get("leave"):
        sys.exit(3)
    else:
        result = {"content": [{"type": "text", "text": "no power"}], "isError": True}
    print(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}), flush=True)
"""


def test_tools_of_an_mcp_server(tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    config = tmp_path / "mcp.json"
    how = {"command": sys.executable, "args": [str(server)], "env": {"WHERE": "here"}}
    config.write_text(json.dumps({"mcpServers": {"ours": how}}))
    assert opened(config) == {"greet": True, "fail": True}
    assert opened(config, call=("greet", {"name": "Ada"})) == "hello Ada from here\n[image]"
    assert opened(config, call=("fail", {})) == "error: no power"
    assert opened(config, call=("fail", {"leave": True})) == "error: the MCP server ours went away"


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        ("/no/such/program", [], "cannot be started"),
        (sys.executable, ["-c", "print('hello')"], "wrote what is no message"),
        (sys.executable, ["-c", "pass"], "went away"),
    ],
)
def test_an_mcp_server_that_is_none(tmp_path: Path, command: str, arguments: list[str], said: str) -> None:
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"ours": {"command": command, "args": arguments}}}))
    with pytest.raises(EngineError, match=said) as caught:
        opened(config)
    assert isinstance(caught.value, DragomanError)
