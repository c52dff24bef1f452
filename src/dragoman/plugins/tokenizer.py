"""An engine's tokenizer as a format: its chat template learned, its vocabulary read. Both once for each tokenizer."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from dragoman.errors import DragomanError, TemplateError, UsageError, VocabularyError
from dragoman.format import ChatFormat
from dragoman.proof import Status
from dragoman.vocab import Vocabulary

# Names a template file for every plug-in: an engine does not tell its parsers which template replaced the model's own.
TEMPLATE_VARIABLE = "DRAGOMAN_PLUGIN_TEMPLATE"
_LOG = logging.getLogger(__name__)
_KEPT: WeakKeyDictionary[Any, tuple[tuple[str, str | None], ChatFormat]] = WeakKeyDictionary()


def format_of(tokenizer: Any) -> ChatFormat:
    """The format of a transformers tokenizer, or of an engine's wrapper of one.

    The template is the file that DRAGOMAN_PLUGIN_TEMPLATE names, else the tokenizer's own. Token ids can be read where
    the tokenizer has a tokenizer.json; a format without a vocabulary reads text.
    Raises: UsageError for a tokenizer without a template, TemplateError for a broken one.
    """
    texts = _templates(tokenizer)
    try:
        kept = _KEPT.get(tokenizer)
    except TypeError:  # one that cannot be a key: what is costly is kept by its content below
        return _learned(tokenizer, texts)
    if kept is not None and kept[0] == texts:
        return kept[1]
    fmt = _learned(tokenizer, texts)
    _KEPT[tokenizer] = (texts, fmt)
    return fmt


def _learned(tokenizer: Any, texts: tuple[str, str | None]) -> ChatFormat:
    source, tool_use = texts
    return ChatFormat.from_template(
        source,
        tool_use=tool_use,
        bos_token=_text(tokenizer, "bos_token"),
        eos_token=_text(tokenizer, "eos_token"),
        vocab=vocabulary_of(tokenizer),
    )


def proven_format(tokenizer: Any, *, claim: str) -> ChatFormat:
    """:func:`format_of` where the template says how the model writes ``claim``: ``tool_calls`` or ``content``.

    A template whose own history loses something (strings without quotes) is warned of, once.
    Raises: UsageError where nothing is proven, with the reason that was found.
    """
    fmt = format_of(tokenizer)
    found = fmt.proof.claims[claim]
    if claim == "tool_calls" and (fmt.profile.generic_tools or fmt.profile.tools is None):
        raise UsageError(
            f"the chat template does not show how this model writes tool calls ({fmt.profile.failure or found.why}), "
            "so there is nothing to read them by. Serve it without --tool-call-parser dragoman, put `dragoman serve "
            "--upstream` in front of the engine (it asks for calls in the system message), or name a template that "
            f"renders calls with {TEMPLATE_VARIABLE}=FILE",
            param="tokenizer",
        )
    if found.status is Status.REFUTED:
        why = (
            f"the chat template did not prove all of how this model writes {claim.replace('_', ' ')}: {found.why}. "
            "`dragoman inspect TEMPLATE` shows the details"
        )
        if not found.messages:
            raise UsageError(why, param="tokenizer")
        _warn(fmt.template_hash, why)
    return fmt


@lru_cache(maxsize=64)
def _warn(template: str, why: str) -> None:
    """Once for each template: engines make a parser for each request."""
    _LOG.warning("%s", why)


def vocabulary_of(tokenizer: Any, *, size: int | None = None) -> Vocabulary | None:
    """The vocabulary of a tokenizer that has a tokenizer.json, else None.

    size: the number of logits, where the model has more than there are tokens.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or not hasattr(backend, "to_str"):
        return None
    marks = {name: _text(tokenizer, name) for name in ("bos_token", "eos_token", "pad_token")}
    folder = getattr(tokenizer, "name_or_path", None)
    ends = _ends(folder) if isinstance(folder, str) else None
    try:
        return _vocabulary(backend.to_str(), json.dumps({key: text for key, text in marks.items() if text}), ends, size)
    except VocabularyError:
        return None


@lru_cache(maxsize=8)
def _vocabulary(data: str, config: str, ends: str | None, size: int | None) -> Vocabulary:
    """Engines copy their tokenizers; the copies share one vocabulary."""
    generation = None if ends is None else json.loads(ends)
    return Vocabulary.from_tokenizer_json(
        data.encode("utf-8"), config=json.loads(config), generation=generation, size=size
    )


def _ends(folder: str) -> str | None:
    """generation_config.json of a model folder: it names ends of a turn that the tokenizer does not."""
    file = Path(folder) / "generation_config.json"
    try:
        return file.read_text("utf-8") if file.is_file() else None
    except OSError:
        return None


def _templates(tokenizer: Any) -> tuple[str, str | None]:
    """(template, template for requests with tools)."""
    named = os.environ.get(TEMPLATE_VARIABLE)
    if named:
        try:
            return Path(named).read_text("utf-8"), None
        except OSError as error:
            raise UsageError(
                f"{TEMPLATE_VARIABLE} names {named}, which cannot be read: {error.strerror or error}",
                param=TEMPLATE_VARIABLE,
            ) from error
    found = getattr(tokenizer, "chat_template", None)
    if isinstance(found, Mapping) and found:
        return found.get("default") or next(iter(found.values())), found.get("tool_use")
    if isinstance(found, str) and found:
        return found, None
    try:
        text = tokenizer.get_chat_template()
    except DragomanError:
        raise
    except Exception as error:  # a tokenizer of another kind says so in its own way
        raise _no_template(tokenizer, error) from error
    if not isinstance(text, str) or not text:
        raise _no_template(tokenizer, None)
    return text, None


def _no_template(tokenizer: Any, error: Exception | None) -> TemplateError:
    why = f": {error}" if error is not None else ""
    return TemplateError(
        f"the tokenizer {getattr(tokenizer, 'name_or_path', '') or type(tokenizer).__name__} has no chat template"
        f"{why}. Name one with {TEMPLATE_VARIABLE}=FILE"
    )


def _text(tokenizer: Any, name: str) -> str:
    value = getattr(tokenizer, name, None)
    return value if isinstance(value, str) else ""
