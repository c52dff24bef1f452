"""All that is known of a chat format, as JSON-ready data: what ``/props`` answers and ``inspect --json`` prints."""

from __future__ import annotations

from typing import Any

from dragoman.format import ChatFormat
from dragoman.template.describe import describe


def props(fmt: ChatFormat) -> dict[str, Any]:
    """Template, learned facts with their evidence, proof and capabilities.

    ``chat_template`` and ``chat_template_caps`` are llama-server's names, so that its clients find them.
    """
    capabilities = fmt.capabilities.to_dict()
    return {
        "chat_template": fmt.template.source,
        "template_hash": fmt.template_hash,
        "bos_token": fmt.template.bos_token,
        "eos_token": fmt.template.eos_token,
        "capabilities": capabilities,
        "chat_template_caps": capabilities,
        "profile": describe(fmt.profile),
        "proof": fmt.proof.to_dict(),
    }
