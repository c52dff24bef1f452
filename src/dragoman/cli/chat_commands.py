"""What may be typed in a chat beside messages: /help and the like."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from dragoman.cli.conversation import Conversation
from dragoman.cli.files import read_json
from dragoman.cli.output import print_styled, print_table
from dragoman.cli.pictures import print_parts
from dragoman.errors import UsageError

Command = Callable[[Conversation, str], "str | None"]
_THINKING = {"on": True, "off": False, "auto": None}


def run_command(conversation: Conversation, line: str) -> str | None:
    """Do what ``line`` (with its slash) says; a text that is to be said to the model now. Raises UsageError.

    ``/quit`` raises EOFError, as the end of input does.
    """
    name, _, rest = line[1:].partition(" ")
    known = _COMMANDS.get(name)
    if known is None:
        raise UsageError(f"there is no command /{name}; /help lists them")
    return known[0](conversation, rest.strip())


def command_names() -> list[str]:
    return [f"/{name}" for name in _COMMANDS]


def _help(conversation: Conversation, rest: str) -> None:
    print_table([[f"/{name}", about] for name, (_, about) in _COMMANDS.items()], indent=2)
    print_styled(
        '  A line that ends in \\ goes on; """ begins and ends a text of several lines. Ctrl-C stops an answer, '
        "Ctrl-D ends the chat.",
        "dim",
    )


def _quit(conversation: Conversation, rest: str) -> None:
    raise EOFError


def _clear(conversation: Conversation, rest: str) -> None:
    conversation.messages[:] = [each for each in conversation.messages if each["role"] == "system"]


def _system(conversation: Conversation, rest: str) -> None:
    others = [each for each in conversation.messages if each["role"] != "system"]
    conversation.messages[:] = [*([{"role": "system", "content": rest}] if rest else []), *others]


def _tools(conversation: Conversation, rest: str) -> None:
    if not conversation.tools:
        print_styled("  no tools; start the chat with --tools FILE", "dim")
    print_table([[tool.name, tool.description, tool.source] for tool in conversation.tools.values()], indent=2)


def _choice(conversation: Conversation, rest: str) -> None:
    words = ["auto", "none", "required", *conversation.tools]
    if rest not in words:
        raise UsageError(f"/choice takes one of {', '.join(words)}, not {rest!r}")
    conversation.options.choice = rest


def _thinking(conversation: Conversation, rest: str) -> None:
    if rest not in _THINKING:
        raise UsageError(f"/thinking takes one of {', '.join(_THINKING)}, not {rest!r}")
    conversation.options.thinking = _THINKING[rest]


def _set(conversation: Conversation, rest: str) -> None:
    name, _, value = rest.partition(" ")
    options = conversation.options
    try:
        if name == "temperature":
            options.temperature = None if value == "default" else float(value)
        elif name == "max_tokens":
            options.max_tokens = None if value == "default" else int(value)
        else:
            raise UsageError(f"/set takes temperature or max_tokens and a number or 'default', not {rest!r}")
    except ValueError as error:
        raise UsageError(f"/set {name}: {value!r} is no number") from error


def _undo(conversation: Conversation, rest: str) -> None:
    text = conversation.undo()
    print_styled("  there is nothing to undo" if text is None else f"  took back: {text}", "dim")


def _retry(conversation: Conversation, rest: str) -> str | None:
    text = conversation.undo()
    if text is None:
        raise UsageError("there is nothing to answer again")
    return text


def _prompt(conversation: Conversation, rest: str) -> None:
    if not conversation.messages:
        raise UsageError("there is no prompt before the first message")
    print_parts([{"text": text, "input": is_input} for text, is_input in conversation.turn().prompt.parts])


def _save(conversation: Conversation, rest: str) -> None:
    if not rest:
        raise UsageError("/save needs the name of a file")
    path = Path(rest).expanduser()
    try:
        path.write_text(json.dumps(conversation.body(), ensure_ascii=False, indent=2) + "\n", "utf-8")
    except OSError as error:
        raise UsageError(f"{rest} cannot be written: {error.strerror}") from error
    print_styled(f"  {len(conversation.messages)} messages in {path}", "dim")


def _load(conversation: Conversation, rest: str) -> None:
    wanted = "a chat request or a list of messages, as /save writes it"
    if not rest:
        raise UsageError("/load needs the name of a file")
    value = read_json(rest, param="/load", wanted=wanted)
    messages = value.get("messages") if isinstance(value, dict) else value
    if not (isinstance(messages, list) and all(isinstance(each, dict) and "role" in each for each in messages)):
        raise UsageError(f"{rest} is no conversation; wanted is {wanted}")
    conversation.messages[:] = messages
    print_styled(f"  {len(messages)} messages", "dim")


_COMMANDS: dict[str, tuple[Command, str]] = {
    "help": (_help, "these commands"),
    "quit": (_quit, "end the chat"),
    "exit": (_quit, "the same"),
    "clear": (_clear, "begin anew; the system message stays"),
    "system": (_system, "TEXT: set the system message, without one remove it"),
    "tools": (_tools, "the tools and where they come from"),
    "choice": (_choice, "auto | none | required | NAME: what the model does with tools"),
    "thinking": (_thinking, "on | off | auto: reasoning, where the template has a switch for it"),
    "set": (_set, "temperature | max_tokens, and a number or 'default'"),
    "retry": (_retry, "answer the last message again"),
    "undo": (_undo, "take the last message and its answers back"),
    "prompt": (_prompt, "the prompt as it stands; in colour, or between « », what came with the request"),
    "save": (_save, "FILE: write the conversation as a request"),
    "load": (_load, "FILE: go on with a conversation"),
}
