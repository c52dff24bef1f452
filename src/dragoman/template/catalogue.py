"""Built-in formats by name, for models that ship no chat template. Our own wording of formats in common use.

Each is a Jinja text like any model's, learned and proven like any model's: data, no code. Text alone; tools come by
the generic dialect. bos and eos are the tokens that the format's first models have; a caller may name others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dragoman.errors import UsageError


@dataclass(frozen=True, slots=True)
class Entry:
    """A format: its template and the tokens around a conversation."""

    source: str
    bos_token: str = ""
    eos_token: str = ""


def find(name: str) -> Entry:
    """The format ``name``; case does not matter. Raises: UsageError that lists the names."""
    entry = _ENTRIES.get(name.strip().lower())
    if entry is None:
        raise UsageError(f"no built-in format is named {name!r}; there are {', '.join(NAMES)}", param="name")
    return entry


_CHATML = """\
{%- for message in messages -%}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""

# The system message stands inside the first user message, between tags of its own.
_LLAMA2 = """\
{%- set told = namespace(system='') -%}
{%- for message in messages -%}
    {%- if message['role'] == 'system' -%}
        {%- set told.system = '<<SYS>>\\n' + message['content'] + '\\n<</SYS>>\\n\\n' -%}
    {%- elif message['role'] == 'assistant' -%}
        {{- ' ' + message['content'] + ' ' + eos_token -}}
    {%- else -%}
        {{- bos_token + '[INST] ' + told.system + message['content'] + ' [/INST]' -}}
        {%- set told.system = '' -%}
    {%- endif -%}
{%- endfor -%}
"""

_LLAMA3 = """\
{{- bos_token -}}
{%- for message in messages -%}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' -}}
    {{- message['content'] | trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
{%- endif -%}
"""

_MISTRAL = """\
{{- bos_token -}}
{%- set told = namespace(system='') -%}
{%- for message in messages -%}
    {%- if message['role'] == 'system' -%}
        {%- set told.system = message['content'] + '\\n\\n' -%}
    {%- elif message['role'] == 'assistant' -%}
        {{- ' ' + message['content'] + eos_token -}}
    {%- else -%}
        {{- '[INST] ' + told.system + message['content'] + ' [/INST]' -}}
        {%- set told.system = '' -%}
    {%- endif -%}
{%- endfor -%}
"""

_GEMMA = """\
{{- bos_token -}}
{%- set told = namespace(system='') -%}
{%- for message in messages -%}
    {%- if message['role'] == 'system' -%}
        {%- set told.system = message['content'] | trim + '\\n\\n' -%}
    {%- elif message['role'] == 'assistant' -%}
        {{- '<start_of_turn>model\\n' + message['content'] | trim + '<end_of_turn>\\n' -}}
    {%- else -%}
        {{- '<start_of_turn>user\\n' + told.system + message['content'] | trim + '<end_of_turn>\\n' -}}
        {%- set told.system = '' -%}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<start_of_turn>model\\n' -}}
{%- endif -%}
"""

_PHI3 = """\
{%- for message in messages -%}
    {{- '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|assistant|>\\n' -}}
{%- endif -%}
"""

_VICUNA = """\
{{- bos_token -}}
{%- for message in messages -%}
    {%- if message['role'] == 'system' -%}
        {{- message['content'] + '\\n\\n' -}}
    {%- elif message['role'] == 'assistant' -%}
        {{- 'ASSISTANT: ' + message['content'] + eos_token + '\\n' -}}
    {%- else -%}
        {{- 'USER: ' + message['content'] + '\\n' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- 'ASSISTANT:' -}}
{%- endif -%}
"""

_ZEPHYR = """\
{%- for message in messages -%}
    {{- '<|' + message['role'] + '|>\\n' + message['content'] + eos_token + '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|assistant|>\\n' -}}
{%- endif -%}
"""

_ALPACA = """\
{{- bos_token -}}
{%- for message in messages -%}
    {%- if message['role'] == 'system' -%}
        {{- message['content'] + '\\n\\n' -}}
    {%- elif message['role'] == 'assistant' -%}
        {{- '### Response:\\n' + message['content'] + eos_token + '\\n\\n' -}}
    {%- else -%}
        {{- '### Instruction:\\n' + message['content'] + '\\n\\n' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '### Response:\\n' -}}
{%- endif -%}
"""

_DEEPSEEK = """\
{{- bos_token -}}
{%- for message in messages -%}
    {%- if message['role'] == 'system' -%}
        {{- message['content'] -}}
    {%- elif message['role'] == 'assistant' -%}
        {{- '<｜Assistant｜>' + message['content'] + eos_token -}}
    {%- else -%}
        {{- '<｜User｜>' + message['content'] -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<｜Assistant｜>' -}}
{%- endif -%}
"""

_ENTRIES: Mapping[str, Entry] = {
    "alpaca": Entry(_ALPACA, "<s>", "</s>"),
    "chatml": Entry(_CHATML, "", "<|im_end|>"),
    "deepseek": Entry(_DEEPSEEK, "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "gemma": Entry(_GEMMA, "<bos>", "<end_of_turn>"),
    "llama2": Entry(_LLAMA2, "<s>", "</s>"),
    "llama3": Entry(_LLAMA3, "<|begin_of_text|>", "<|eot_id|>"),
    "mistral": Entry(_MISTRAL, "<s>", "</s>"),
    "phi3": Entry(_PHI3, "<s>", "<|end|>"),
    "vicuna": Entry(_VICUNA, "<s>", "</s>"),
    "zephyr": Entry(_ZEPHYR, "<s>", "</s>"),
}
NAMES = tuple(_ENTRIES)
