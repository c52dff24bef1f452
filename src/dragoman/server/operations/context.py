"""What is known of the request that is being answered, for whoever works on it without seeing it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class RequestContext:
    """One HTTP request on its way; filled in as it goes. Times are seconds of the event loop's clock.

    id: of the client's own header, or made here.  deadline: when its work is given up; None: never.
    waited: in the queue.  first_token: from arrival to the first piece of output.  client: which API key, as a digest.
    """

    id: str
    arrived: float
    deadline: float | None = None
    waited: float = 0.0
    first_token: float | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    generations: int = 0
    client: str | None = None
    failure: str | None = None  # the kind of error that ended an answer in its middle


CURRENT: ContextVar[RequestContext | None] = ContextVar("dragoman_request", default=None)
