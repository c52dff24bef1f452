"""From a checked request to jobs for the engine: turns, prompt ids, grammars. Heavy, so outside of the event loop."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from dragoman.dialect.request import GbnfAnswer
from dragoman.engine import NO_SETTINGS, EngineInfo, Generation, ModelSettings, Sampling
from dragoman.errors import DragomanError, LimitError, SchemaError, UsageError
from dragoman.format import ChatFormat
from dragoman.server.answers.jobs import Job, R
from dragoman.server.answers.reading import RawReading
from dragoman.server.answers.unasked import Unasked
from dragoman.server.requests.ask import Ask, RawAsk
from dragoman.server.requests.budget import with_budget
from dragoman.server.requests.unread import unread
from dragoman.server.requests.words import check_words
from dragoman.turn import Turn

BANNED = float("-inf")


def make_turn(
    fmt: ChatFormat,
    request: Ask,
    settings: ModelSettings,
    *,
    now: datetime.datetime | None = None,
    id_seed: str | None = None,
) -> Turn:
    """The turn of a request, with call ids made from ``id_seed``. Raises UsageError, TemplateError, LimitError."""
    defaults = {"parallel_tool_calls": settings.parallel_tool_calls, "schema_options": settings.schema_options}
    turn = fmt.turn(**{**defaults, **request.turn}, now=now, id_seed=id_seed)
    check_words(turn, request.turn["messages"])
    return turn


def without_effect(turn: Turn, request: Ask, *, now: datetime.datetime | None = None) -> tuple[str, ...]:
    """Places in the request that change nothing of its turn, in the request's words."""
    return tuple(map(request.words.place, unread(turn, {**_with_budget_of_none(request).turn, "now": now})))


def prepare(
    fmt: ChatFormat,
    request: Ask,
    info: EngineInfo,
    settings: ModelSettings = NO_SETTINGS,
    *,
    now: datetime.datetime | None = None,
    id_seed: str | None = None,
) -> Job[Turn]:
    """What the engine is asked for the first answer. Raises UsageError, TemplateError, LimitError, SchemaError."""
    turn = make_turn(fmt, request, settings, now=now, id_seed=id_seed)
    _ = turn.reader  # compiled here, not in the middle of the event loop's work
    _check_sampling(request.sampling, fmt, info)
    generation = Generation(
        prompt_ids=_prompt_ids(turn, fmt, info),
        prompt_text=turn.prompt.text,
        stops=turn.stops,
        preserved_tokens=turn.preserved_tokens,
        sampling=request.sampling,
    )
    try:
        generation = _constrained(generation, turn, fmt, info)
        unconstrained = _strict_in_vain(generation, turn, info)
    except SchemaError as error:
        if not _may_go_free(turn):
            raise _placed(error, turn, fmt) from error
        wrong = _refused_tools(turn, fmt)
        unconstrained = "; ".join(map(str, wrong.values())) or str(error)
        with suppress(SchemaError):  # the other tools are held to their schemas all the same
            opened = make_turn(fmt, _with_open_tools(request, wrong), settings, now=now, id_seed=id_seed)
            generation = _constrained(generation, opened, fmt, info)
    return Job(
        turn,
        generation,
        request.stop,
        unconstrained,
        fmt.vocab,
        tell_reasoning=request.tell_reasoning,
        unasked=_unasked(turn, request),
    )


def prepare_all(
    fmt: ChatFormat,
    request: Ask,
    info: EngineInfo,
    settings: ModelSettings = NO_SETTINGS,
    *,
    now: datetime.datetime | None = None,
    id_seed: str,
) -> tuple[Job[Turn], ...]:
    """A job for each answer that is wanted: the same prompt and grammar, call ids and a seed of its own."""
    request = _with_budget_of_none(request)
    first = prepare(fmt, request, info, settings, now=now, id_seed=id_seed)
    jobs = [first]
    for at in range(1, request.n):
        turn = make_turn(fmt, request, settings, now=now, id_seed=f"{id_seed}-{at}")
        _ = turn.reader
        jobs.append(replace(first, turn=turn, unasked=_unasked(turn, request)))
    jobs = list(_seeded(jobs, id_seed))
    if request.reasoning_budget is not None:
        behind = partial(prepare, fmt, info=info, settings=settings, now=now, id_seed=id_seed)
        jobs = [with_budget(job, fmt, request, behind) for job in jobs]
    return tuple(jobs)


def _unasked(turn: Turn, request: Ask) -> Unasked | None:
    """Who looks for calls in an answer that is to hold none. A grammar of the answer's own keeps them away."""
    asked = turn.request
    if asked.choice != "none" or not asked.tools or asked.answer is not None:
        return None
    calling = Turn(
        turn.format,
        replace(asked, choice="auto"),
        turn.prompt,
        tools=(),
        generation_prompt=turn.generation_prompt,
        echo=False,
        strict=False,
        id_seed=0,
    )
    _ = calling.reader
    return Unasked(calling, strict=request.turn.get("on_mismatch") == "strict")


def _with_budget_of_none(request: Ask) -> Ask:
    """Where there is no budget for reasoning, a template that can do without it is asked to."""
    if request.reasoning_budget != 0:
        return request
    return replace(request, turn={"enable_thinking": False, **request.turn})


def prepare_raw(
    fmt: ChatFormat, request: RawAsk, info: EngineInfo, settings: ModelSettings = NO_SETTINGS, *, id_seed: str
) -> tuple[Job[RawReading], ...]:
    """Jobs for what follows each prompt, ``request.n`` for each, in the prompts' order. Raises UsageError, LimitError.

    Control tokens of a prompt's text count: whoever sends a raw prompt has written them.
    """
    _check_sampling(request.sampling, fmt, info)
    jobs: list[Job[RawReading]] = []
    for prompt in request.prompts:
        ids, text = _raw_prompt(prompt, fmt, info)
        generation = Generation(prompt_ids=_fitting(ids, info), prompt_text=text, sampling=request.sampling)
        jobs += [Job(RawReading(), generation, request.stop, None, fmt.vocab) for _ in range(request.n)]
    return _seeded(jobs, id_seed)


def _raw_prompt(prompt: str | tuple[int, ...], fmt: ChatFormat, info: EngineInfo) -> tuple[tuple[int, ...], str]:
    vocab = fmt.vocab
    if isinstance(prompt, str):
        if vocab is None:
            if info.takes_token_ids:
                raise UsageError("a prompt of text needs the model's vocabulary; give token ids", param="prompt")
            return (), prompt
        ids = tuple(vocab.encode([(prompt, False)]))
        if vocab.adds_bos and vocab.bos_id is not None and ids[:1] != (vocab.bos_id,):
            ids = (vocab.bos_id, *ids)
        return ids, prompt
    if vocab is None:
        return prompt, ""
    wrong = next((token for token in prompt if token >= vocab.size), None)
    if wrong is not None:
        raise UsageError(f"prompt holds the token id {wrong}; the vocabulary has {vocab.size}", param="prompt")
    return prompt, vocab.decode(prompt).decode("utf-8", "replace")


def _seeded(jobs: list[Job[R]], key: str) -> tuple[Job[R], ...]:
    """Jobs of one request with seeds that differ: the request's and the following ones, or ones made from ``key``."""
    if len(jobs) == 1:
        return tuple(jobs)
    asked = jobs[0].generation.sampling.seed
    out = []
    for at, job in enumerate(jobs):
        digest = hashlib.blake2b(f"{key} {at}".encode(), digest_size=4).digest()
        seed = asked + at if asked is not None else int.from_bytes(digest, "big") >> 1
        sampling = replace(job.generation.sampling, seed=seed)
        out.append(replace(job, generation=replace(job.generation, sampling=sampling)))
    return tuple(out)


def _check_sampling(sampling: Sampling, fmt: ChatFormat, info: EngineInfo) -> None:
    """Raises UsageError for what the engine cannot do."""
    if sampling.logprobs is not None and not info.gives_logprobs:
        raise UsageError(f"the engine of {info.model} tells no log probabilities; leave logprobs out", param="logprobs")
    size = None if fmt.vocab is None else fmt.vocab.size
    wrong = next((token for token in sampling.logit_bias if size is not None and token >= size), None)
    if wrong is not None:
        raise UsageError(f"logit_bias names token {wrong}; the vocabulary has {size}", param="logit_bias")


def _prompt_ids(turn: Turn, fmt: ChatFormat, info: EngineInfo) -> tuple[int, ...]:
    if fmt.vocab is None and not info.takes_token_ids:
        return ()
    return _fitting(tuple(turn.prompt.token_ids), info)


def _fitting(ids: tuple[int, ...], info: EngineInfo) -> tuple[int, ...]:
    """The ids. Raises LimitError where they leave no room for an answer."""
    limit = info.context_tokens
    if limit is not None and len(ids) >= limit:
        message = "the conversation is too long for the engine's context: shorten it or enlarge the context"
        raise LimitError(message, bound="context_tokens", limit=limit, size=len(ids))
    return ids


def _constrained(generation: Generation, turn: Turn, fmt: ChatFormat, info: EngineInfo) -> Generation:
    """``generation`` with the turn's grammar in the form that the engine takes."""
    if not turn.grammar.constrains:
        return generation
    if info.takes_masks and fmt.vocab is not None:
        turn.constraint()  # what cannot be enforced is told now and not in the middle of an answer
        return replace(generation, constraint=turn.constraint)
    if info.grammar_forms:
        spec = turn.grammar.spec(info.grammar_forms)
        return replace(generation, grammar=spec, sampling=_without_controls(generation, turn, fmt))
    answer = turn.request.answer
    if turn.request.choice == "auto" and answer is None:
        return generation
    raise UsageError(
        f"the engine of {info.model} takes neither grammars nor masks, so this request cannot be enforced; "
        "use tool_choice auto and no response_format and no grammar, or another engine",
        param="tool_choice" if answer is None else "grammar" if isinstance(answer, GbnfAnswer) else "response_format",
    )


def _placed(error: SchemaError, turn: Turn, fmt: ChatFormat) -> UsageError:
    """The error with the field of the request whose schema it is about."""
    request = turn.request
    if request.answer is not None:
        return UsageError(f"response_format: {error}", param="response_format")
    return next(iter(_refused_tools(turn, fmt).values()), error)


def _refused_tools(turn: Turn, fmt: ChatFormat) -> dict[int, UsageError]:
    """The tools, by index, whose schemas cannot be enforced, and why."""
    request = turn.request
    refused: dict[int, UsageError] = {}
    for at, tool in enumerate(request.tools):
        try:
            fmt.writer(replace(request, tools=(tool,), choice="required", allowed=()))
        except SchemaError as own:
            message = f"tools[{at}], {tool.name!r}: {own}"
            refused[at] = UsageError(message, param=f"tools[{at}].function.parameters")
        except DragomanError:
            continue  # of another kind than the one that is looked for
    return refused


def _with_open_tools(request: Ask, refused: Collection[int]) -> Ask:
    """The request with any object as the arguments of some of its tools."""

    def opened(tool: dict[str, Any]) -> dict[str, Any]:
        function = {**tool.get("function", tool), "parameters": {"type": "object"}}
        return {**tool, "function": function} if "function" in tool else function

    tools = [opened(tool) if at in refused else tool for at, tool in enumerate(request.turn["tools"])]
    return replace(request, turn={**request.turn, "tools": tools})


def _strict_in_vain(generation: Generation, turn: Turn, info: EngineInfo) -> str | None:
    """What to tell where tools are strict, as agents' SDKs mark them all, and nothing holds the engine to that."""
    strict = [at for at, tool in enumerate(turn.request.tools) if tool.strict and tool in turn.request.callable_tools]
    if not strict or generation.constraint is not None or generation.grammar is not None:
        return None
    return f"tools[{strict[0]}] is strict, and the engine of {info.model} takes neither grammars nor masks"


def _may_go_free(turn: Turn) -> bool:
    """Nothing was asked for that only a constraint can give: calls are optional and no tool is strict."""
    request = turn.request
    strict = any(tool.strict for tool in request.callable_tools)
    return request.choice == "auto" and request.answer is None and not strict


def _without_controls(generation: Generation, turn: Turn, fmt: ChatFormat) -> Sampling:
    """The sampling with every special token banned that the turn has no use for.

    An engine's character classes admit control tokens, as their text, and then hide them from the output.
    """
    vocab = fmt.vocab
    if vocab is None:
        return generation.sampling
    texts = {*turn.preserved_tokens, *turn.stops, *turn.grammar.triggers}
    kept = {vocab.controls[text] for text in texts if text in vocab.controls}
    kept |= {*vocab.eos_ids, *(() if vocab.eot_id is None else (vocab.eot_id,))}
    banned = dict.fromkeys(sorted(vocab.special_ids - kept), BANNED)
    return replace(generation.sampling, logit_bias={**generation.sampling.logit_bias, **banned})
