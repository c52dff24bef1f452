"""``ChatFormat``: what is known of one chat template, learned once, proven, and shared by all its turns."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from dragoman.constraint.cursor import Cursor
from dragoman.constraint.masks import Masks, masks_for
from dragoman.constraint.tokens import TurnTokens
from dragoman.constraint.trie import TokenTrie
from dragoman.dialect.build import build
from dragoman.dialect.facts import all_stops
from dragoman.dialect.families import families_of, with_family
from dragoman.dialect.generic import generic_profile, without_refuted_calls
from dragoman.dialect.request import DialectRequest
from dragoman.dialect.response_template import response_template
from dragoman.dialect.tolerances import opened_block
from dragoman.errors import TemplateError, UsageError
from dragoman.grammar.compile import compile_reader
from dragoman.grammar.lower import lower
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.notation.rest import behind
from dragoman.grammar.program import Program
from dragoman.grammar.schema.options import SchemaOptions
from dragoman.integrations import borrowed
from dragoman.integrations.borrowed import Borrowed
from dragoman.limits import DEFAULT, Limits
from dragoman.prompt import Prompter, Rendering
from dragoman.proof import Proof, flaw_of_calls, prove, without_form
from dragoman.request import (
    checked_continuation,
    checked_flag,
    checked_path,
    checked_seed,
    checked_text,
    checked_vocab,
    continued_field,
    dialect_request,
    is_prefill,
)
from dragoman.template import catalogue
from dragoman.template.adapt import normalise
from dragoman.template.capabilities import Capabilities, find_capabilities
from dragoman.template.folder import read_folder
from dragoman.template.learn import learn
from dragoman.template.profile import Profile
from dragoman.template.render import Template
from dragoman.template.variables import check_variables, template_variables
from dragoman.turn import Turn
from dragoman.vocab import Vocabulary
from dragoman.vocab.gguf import read_metadata

T = TypeVar("T")

# Compiled requests kept by one format; a server sees few tool sets at a time.
_KEPT = 64


@dataclasses.dataclass(frozen=True)
class Learned:
    """One template and what was found of it. Shared by all formats of the same text and tokens."""

    template: Template
    profile: Profile
    proof: Proof
    capabilities: Capabilities


@dataclasses.dataclass(frozen=True)
class Defaults:
    """What a request gets that says nothing of it; see ``ChatFormat.with_defaults``."""

    variables: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    prefill_assistant: bool = False
    media_placeholder: str | None = None


_NO_DEFAULTS = Defaults()


@lru_cache(maxsize=256)
def learned(source: str, bos_token: str, eos_token: str, limits: Limits = DEFAULT) -> Learned:
    """Learn a template once. Raises: TemplateError where it cannot be parsed, LimitError."""
    template = Template(source, bos_token=bos_token, eos_token=eos_token, limits=limits)
    found = learn(template, limits=limits)
    families = families_of(source, found)
    for family in families:
        found = with_family(found, family)
    capabilities = find_capabilities(template)
    proof = prove(template, found, families, limits=limits)
    flaw = flaw_of_calls(template, found, proof, limits=limits)
    if flaw is not None:
        found = without_refuted_calls(found, flaw)
        proof = without_form(template, found, proof, flaw, limits=limits)
    return Learned(template, generic_profile(found), proof, capabilities)


class ChatFormat:
    """A model's chat format. Immutable and safe to share between threads.

    profile: learned facts with evidence. proof: what a round trip through the template has shown.
    capabilities: nine flags found by executing the template. template_hash: SHA-256 of its text, for cache keys.
    """

    def __init__(
        self,
        plain: Learned,
        with_tools: Learned | None = None,
        *,
        vocab: Vocabulary | None = None,
        defaults: Defaults = _NO_DEFAULTS,
    ) -> None:
        self._plain = plain
        self.defaults = defaults
        self._with_tools = with_tools
        main = with_tools or plain
        self.template = main.template
        self.profile = main.profile
        self.proof = main.proof
        self.capabilities = main.capabilities
        self.template_hash = main.template.hash
        self.vocab = vocab
        self._kept: OrderedDict[object, object] = OrderedDict()
        self._lock = threading.RLock()

    @classmethod
    def from_template(
        cls,
        source: str,
        *,
        tool_use: str | None = None,
        bos_token: str = "",
        eos_token: str = "",
        vocab: Vocabulary | None = None,
        limits: Limits = DEFAULT,
    ) -> ChatFormat:
        """Learn the Jinja text ``source``; ``tool_use`` is the template that some models ship for requests with tools.

        vocab: for token ids in prompts and outputs. limits: what learning and rendering may use, lower ones for
        templates of strangers. Raises: TemplateError where a template cannot be parsed, LimitError.
        """
        for text, param in ((source, "source"), (bos_token, "bos_token"), (eos_token, "eos_token")):
            checked_text(text, param)
        checked_text(tool_use, "tool_use", none=True)
        checked_vocab(vocab)
        plain = learned(source, bos_token, eos_token, limits)
        with_tools = learned(tool_use, bos_token, eos_token, limits) if tool_use else None
        return cls(plain, with_tools, vocab=vocab)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> ChatFormat:
        """From a model's folder: tokenizer_config.json, chat_template.jinja, tokenizer.json. Reads files, no network.

        Raises: TemplateError where the folder has no chat template, VocabularyError for an unsupported tokenizer.
        """
        path = Path(checked_path(folder, "folder"))
        found = read_folder(path)
        vocab = Vocabulary.from_folder(path)
        return cls.from_template(
            found.source,
            tool_use=found.tool_use,
            bos_token=found.bos_token,
            eos_token=found.eos_token,
            vocab=vocab,
        )

    @classmethod
    def from_gguf(cls, path: str | os.PathLike[str], *, name: str | None = None) -> ChatFormat:
        """From a GGUF file's metadata: template, tool template, vocabulary. Raises as from_pretrained.

        name: the built-in format to use in place of the file's template.
        """
        checked_text(name, "name", none=True)
        metadata = read_metadata(checked_path(path, "path"))
        source = metadata.text("tokenizer.chat_template")
        vocab = Vocabulary.from_gguf(metadata)
        bos, eos = ("" if token is None else vocab.text_of(token) for token in (vocab.bos_id, vocab.eos_id))
        if name is not None:
            return cls.from_name(name, bos_token=bos or None, eos_token=eos or None, vocab=vocab)
        if not source:
            raise TemplateError(
                f"{os.fspath(path)} holds no chat template (tokenizer.chat_template); "
                f"name a built-in format: {', '.join(catalogue.NAMES)}"
            )
        tool_use = metadata.text("tokenizer.chat_template.tool_use")
        return cls.from_template(source, tool_use=tool_use or None, bos_token=bos, eos_token=eos, vocab=vocab)

    @classmethod
    def from_name(
        cls,
        name: str,
        *,
        bos_token: str | None = None,
        eos_token: str | None = None,
        vocab: Vocabulary | None = None,
    ) -> ChatFormat:
        """The built-in format ``name`` (see ``template.catalogue.NAMES``), for models that ship no template.

        bos_token, eos_token: the model's own where they are not the format's. Raises: UsageError for another name.
        """
        entry = catalogue.find(checked_text(name, "name") or "")
        for text, param in ((bos_token, "bos_token"), (eos_token, "eos_token")):
            checked_text(text, param, none=True)
        return cls.from_template(
            entry.source,
            bos_token=entry.bos_token if bos_token is None else bos_token,
            eos_token=entry.eos_token if eos_token is None else eos_token,
            vocab=vocab,
        )

    def with_vocab(self, vocab: Vocabulary | None) -> ChatFormat:
        """The same format with another vocabulary. Nothing is learned again."""
        checked_vocab(vocab)
        return ChatFormat(self._plain, self._with_tools, vocab=vocab, defaults=self.defaults)

    def with_defaults(
        self,
        *,
        variables: Mapping[str, Any] | None = None,
        prefill_assistant: bool = False,
        media_placeholder: str | None = None,
    ) -> ChatFormat:
        """The same format with what a request gets that says nothing of it.

        variables: of the template, below the request's own chat_template_kwargs. Raises: UsageError for variables
        that no request may set.
        """
        check_variables({} if variables is None else variables, "variables")
        defaults = Defaults(
            dict(variables or {}),
            checked_flag(prefill_assistant, "prefill_assistant"),
            checked_text(media_placeholder, "media_placeholder", none=True),
        )
        return ChatFormat(self._plain, self._with_tools, vocab=self.vocab, defaults=defaults)

    def turn(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: Any = "auto",
        parallel_tool_calls: bool | None = None,
        response_format: Mapping[str, Any] | None = None,
        grammar: str | None = None,
        reasoning_format: Literal["none", "auto", "deepseek"] = "auto",
        enable_thinking: bool | None = None,
        reasoning_effort: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool | str = False,
        echo: bool = False,
        on_mismatch: Literal["lenient", "strict"] = "lenient",
        undeclared_calls: Literal["content", "call"] = "content",
        generation_prompt: str | None = None,
        id_seed: int | str | None = None,
        now: datetime.datetime | None = None,
        schema_options: SchemaOptions | None = None,
        prefill_assistant: bool | None = None,
        media_placeholder: str | None = None,
        reasoning_chars: int | None = None,
    ) -> Turn:
        """One request: OpenAI's messages, tools and options in, prompt, reader and constraint out.

        tool_choice: auto, none, required, a named function, allowed_tools. response_format: text, json_object,
        json_schema. parallel_tool_calls False: one call; a second one that a model writes all the same ends the turn.
        reasoning_format ``none`` leaves reasoning inside the content. enable_thinking, reasoning_effort,
        chat_template_kwargs: variables of the template. continue_final_message: True, ``content`` or
        ``reasoning_content``: the model goes on with the last message; echo: the message holds that text too.
        on_mismatch ``strict`` raises OutputError where the output breaks its format. undeclared_calls ``call``: calls
        are read though no tools were given. generation_prompt replaces what the reader takes as already written.
        id_seed: makes call ids repeatable. now: the time that the template may print. schema_options: how JSON values
        are written under a constraint. prefill_assistant: the model goes on with a last message of the assistant that
        has no calls, as with continue_final_message. media_placeholder: the text that stands for each picture, sound
        or film; without one the template has to write its own. Of both, None is as :meth:`with_defaults` says.
        reasoning_chars: the reasoning budget, in characters that the model may still think before a constraint or
        grammar closes the block; None: as many as it likes.

        Raises: UsageError (with the argument's name), TemplateError, LimitError.
        """
        checked, declared = normalise(messages, tools)
        known = self._for(declared)
        prefill_assistant = checked_flag(prefill_assistant, "prefill_assistant", self.defaults.prefill_assistant)
        media_placeholder = checked_text(media_placeholder, "media_placeholder", none=True)
        if media_placeholder is None:
            media_placeholder = self.defaults.media_placeholder
        add_generation_prompt = checked_flag(add_generation_prompt, "add_generation_prompt", True)
        echo = checked_flag(echo, "echo")
        continue_final_message = checked_continuation(continue_final_message)
        checked_text(generation_prompt, "generation_prompt", none=True)
        checked_seed(id_seed)
        if enable_thinking is not None:
            enable_thinking = checked_flag(enable_thinking, "enable_thinking")
        if prefill_assistant and add_generation_prompt and not continue_final_message:
            continue_final_message = is_prefill(checked)
        variables, thinking = template_variables(
            known.template,
            known.profile,
            enable_thinking=enable_thinking,
            reasoning_effort=checked_text(reasoning_effort, "reasoning_effort", none=True),
            response_format=response_format,
            own=chat_template_kwargs,
            defaults=self.defaults.variables,
        )
        request = dialect_request(
            known.profile,
            tools=declared,
            tool_choice=tool_choice,
            parallel_tool_calls=parallel_tool_calls,
            response_format=response_format,
            grammar=grammar,
            reasoning_format=reasoning_format,
            undeclared_calls=undeclared_calls,
            schema_options=schema_options,
            reasoning_chars=reasoning_chars,
        )
        if now is not None and not isinstance(now, datetime.datetime):
            raise UsageError(f"now must be a datetime, not {type(now).__name__}", param="now")
        if on_mismatch not in ("lenient", "strict"):
            raise UsageError(f"on_mismatch must be lenient or strict, not {on_mismatch!r}", param="on_mismatch")
        if continue_final_message and not add_generation_prompt:
            raise UsageError("continue_final_message needs add_generation_prompt", param="continue_final_message")
        prompter = Prompter(known.template, known.profile, known.capabilities, self.vocab)
        rendering = Rendering(
            messages=checked,
            tools=declared,
            variables=variables,
            now=now,
            add_generation_prompt=add_generation_prompt,
            continued=continued_field(continue_final_message, checked),
            media_placeholder=media_placeholder,
        )
        prompt = prompter.prompt(rendering, request)
        opened = prompt.generation_prompt if generation_prompt is None else generation_prompt
        if generation_prompt is not None:
            prompt = dataclasses.replace(prompt, written=((prompter.after_header(generation_prompt), False),))
        prefix = "".join(text for text, _ in prompt.written)
        opened_by_prompt = None if _opens_known(known.profile, prefix) else opened_block(prefix)
        request = dataclasses.replace(request, prefix=prefix, thinking=thinking, reasoning=opened_by_prompt)
        if self.vocab is not None:
            request = dataclasses.replace(request, after_control=prompt.ends_in_control(self.vocab))
        # Inside the content, a reasoning block that the prompt opened would lack its opener.
        inline = not request.read_reasoning and rendering.continued is None
        owner = self if known is self._main() else ChatFormat(known, vocab=self.vocab, defaults=self.defaults)
        return Turn(
            owner,
            request,
            prompt,
            tools=declared,
            generation_prompt=opened,
            echo=echo or inline,
            strict=on_mismatch == "strict",
            id_seed=id_seed,
            one_call=parallel_tool_calls is not None and not request.parallel,
        )

    def _main(self) -> Learned:
        return self._with_tools or self._plain

    def _for(self, tools: Sequence[Any]) -> Learned:
        return self._with_tools if self._with_tools is not None and tools else self._plain

    def to_response_template(self) -> dict[str, Any]:
        """The format as transformers' ``response_template``, for stock parsers: set it on the tokenizer.

        Raises: UsageError where that notation cannot express the format.
        """
        return response_template(self.profile)

    # -- compiled requests -----------------------------------------------------------------------------------------

    def reader(self, request: DialectRequest, vocab: Vocabulary | None) -> Program:
        """The program that reads a turn: text, or tokens where a vocabulary is given."""
        controls = frozenset[str]() if vocab is None else frozenset(vocab.controls)

        def make() -> Program:
            grammar = build(self.profile, request, controls=controls, spaces=_adds_space(vocab), write=False)
            return compile_reader(lower(grammar, "reader"), controls=None if vocab is None else vocab.controls)

        return self._keep(("reader", vocab is not None, _key(request)), make)

    def writer(self, request: DialectRequest, vocab: Vocabulary | None = None, *, on_demand: bool = False) -> Grammar:
        """The lowered grammar of what may be written in a turn; ``on_demand`` as in ``lower``. Raises: SchemaError."""
        controls = frozenset[str]() if vocab is None else frozenset(vocab.controls)
        grammar = build(self.profile, request, controls=controls, spaces=_adds_space(vocab))
        return lower(grammar, "writer", options=request.schema_options, on_demand=on_demand)

    def lazy_grammar(self, request: DialectRequest) -> Grammar:
        """What may be written from a call's opener on."""
        return self.writer(dataclasses.replace(request, choice="required", prefix="", thinking=False))

    def masks(self, request: DialectRequest, vocab: Vocabulary) -> Masks:
        """The masks of a turn over ``vocab``, shared by equal requests."""
        trie = self._keep(("trie", vocab.hash), lambda: TokenTrie(vocab.token_bytes, vocab.size))
        tokens = TurnTokens.of(vocab, all_stops(self.profile))
        return self._keep(
            ("masks", vocab.hash, tokens.eos_ids, _key(request)),
            lambda: masks_for(self.writer(request, vocab, on_demand=True), tokens, trie),
        )

    def borrowed_masks(self, engine: str, request: DialectRequest, vocab: Vocabulary) -> Cursor:
        """A cursor of another engine at the start of a turn; its vocabulary and grammar are made once."""
        kind = borrowed.kind_of(engine)
        tokens = TurnTokens.of(vocab, all_stops(self.profile))
        known = (engine, vocab.hash, tokens.eos_ids)
        made = self._keep(("vocabulary", *known), lambda: kind.vocabulary(tokens))

        def start() -> Borrowed:
            return kind.start(tokens, made, behind(self.writer(request, vocab), request.prefix.encode()))

        return self._keep(("borrowed", *known, _key(request)), start).fork()

    def exported(self, request: DialectRequest, form: str, make: Callable[[], T]) -> T:
        """A turn's grammar in the notation ``form``, written once for equal requests."""
        return self._keep(("exported", form, _key(request)), make)

    def _keep(self, key: object, make: Callable[[], T]) -> T:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]  # type: ignore[return-value]
        made = make()
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made


def _opens_known(profile: Profile, prefix: str) -> bool:
    """True: ``prefix`` ends in a marker that the template shows."""
    shown = (profile.reasoning.open.text, profile.reasoning.close.text, profile.content.open.text)
    return any(text and prefix.rstrip().endswith(text) for text in shown)


def _adds_space(vocab: Vocabulary | None) -> bool:
    return vocab is not None and vocab.adds_space


def _key(request: DialectRequest) -> str:
    """Equal for requests with equal grammars."""
    return json.dumps(dataclasses.asdict(request), default=repr, sort_keys=False)
