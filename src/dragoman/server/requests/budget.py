"""The budget of reasoning, in tokens, for any engine and any template.

When it is spent, the engine is stopped and asked again: the prompt then holds the reasoning so far and the template's
own end of it, so the answer goes on as if the model had written that end. Constraints start behind it too. A model
that begins to reason anew there is stopped again at its first word, and at last the answer ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from dragoman.format import ChatFormat
from dragoman.server.answers.jobs import Budget, Job
from dragoman.server.requests.ask import Ask
from dragoman.turn import Turn

# How often reasoning is ended for a model: three times it has opened it anew behind its end.
ENDS_MAX: Final = 4


def with_budget(
    job: Job[Turn], fmt: ChatFormat, request: Ask, prepare: Callable[[Ask], Job[Turn]], ends: int = ENDS_MAX
) -> Job[Turn]:
    """The job, ending its reasoning after ``request.reasoning_budget`` tokens. prepare: how a request becomes a job."""
    assert request.reasoning_budget is not None
    turn, first = job.turn, job.generation.sampling

    def go_on(thought: str, used: int) -> Job[Turn]:
        left = None if first.max_tokens is None else max(1, first.max_tokens - used)
        sampling = replace(first, max_tokens=left, logit_bias=request.sampling.logit_bias)
        arguments = {**request.turn, "messages": _thought_through(fmt, request.turn, thought)}
        arguments |= {"continue_final_message": "content", "echo": False}
        behind = replace(request, turn=arguments, sampling=sampling)
        return with_budget(prepare(behind), fmt, behind, prepare, ends - 1)

    def inside() -> bool:
        return "reasoning" in turn.reader.path

    return replace(job, budget=Budget(request.reasoning_budget, inside, go_on if ends else None))


def _thought_through(fmt: ChatFormat, turn: Mapping[str, Any], thought: str) -> list[Any]:
    """The conversation, its last message the answer's reasoning. One that the answer goes on with keeps its own."""
    messages = list(turn["messages"])
    prefill = turn.get("prefill_assistant", fmt.defaults.prefill_assistant)
    last = messages[-1]
    before = ""
    if last["role"] == "assistant" and (turn.get("continue_final_message") or (prefill and not last.get("tool_calls"))):
        messages.pop()
        before = "" if turn.get("echo") else last.get("reasoning_content") or ""
    return [*messages, {"role": "assistant", "content": "", "reasoning_content": before + thought}]
