"""What is learned from real templates: properties checked by eye once, and that none breaks or takes long."""

from __future__ import annotations

import pytest

from dragoman.errors import TemplateError
from dragoman.template.learn import learn
from dragoman.template.profile import Profile, ReasoningMode, piece_text
from dragoman.template.render import Template
from tests.template_corpus import sampled, shared, template_source, templates

TOOL_CALL = ("\n", r"'<tool_call>\n' OBJECT '\n</tool_call>'", "\n", "")
HERMES = ("", r"'<tool_call>\n' OBJECT '\n</tool_call>'", "\n", "")
ARRAY = ("[TOOL_CALLS][", "OBJECT", ", ", "]")
FUNCTION = r"'<tool_call>\n<function=' NAME '>\n' ARGS '</function>\n</tool_call>'"

# name -> (section opener, call, separator, section closer)
CALLS = {
    "Qwen-Qwen2.5-7B-Instruct": TOOL_CALL,
    "Qwen-Qwen3-0.6B": TOOL_CALL,
    "Qwen-QwQ-32B": TOOL_CALL,
    "ibm-granite-granite-4.0": TOOL_CALL,
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": HERMES,
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": HERMES,
    "meta-llama-Llama-3.1-8B-Instruct": ("", "OBJECT", "", ""),
    "mistralai-Mistral-Nemo-Instruct-2407": ARRAY,
    "unsloth-Apriel-1.5": ("\n<tool_calls>[", "OBJECT", ", ", "]</tool_calls>"),
    "Cohere2MoE": ("<|START_ACTION|>[", r"'\n    ' OBJECT", ",", "\n]<|END_ACTION|>"),
    "Apertus-8B-Instruct": ("<|tools_prefix|>[", "OBJECT", ", ", "]<|tools_suffix|>"),
    "Mistral-Small-3.2-24B-Instruct-2506": ("", "'[TOOL_CALLS]' NAME '[CALL_ID]' ID '[ARGS]' ARGS", "", ""),
    "mistralai-Ministral-3-14B-Reasoning-2512": ("", "'[TOOL_CALLS]' NAME '[ARGS]' ARGS", "", ""),
    "llama-cpp-deepseek-r1": (
        "<｜tool▁calls▁begin｜>",
        r"'<｜tool▁call▁begin｜>function<｜tool▁sep｜>' NAME '\n```json\n' ARGS '\n```<｜tool▁call▁end｜>'",
        "\n",
        "<｜tool▁calls▁end｜>",
    ),
    "moonshotai-Kimi-K2": (
        "<|tool_calls_section_begin|>",
        "'<|tool_call_begin|>functions.' NAME ':' INDEX '<|tool_call_argument_begin|>' ARGS '<|tool_call_end|>'",
        "",
        "<|tool_calls_section_end|>",
    ),
    "meetkai-functionary-medium-v3.2": ("", r"NAME '\n' ARGS", ">>>", ""),
    "Qwen3-Coder": ("\n\n", FUNCTION, "\n", ""),
    "StepFun3.5-Flash": ("", FUNCTION, "", ""),
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": ("\n", FUNCTION[:-1] + r"\n'", "", ""),
    "ByteDance-Seed-OSS": ("\n\n", FUNCTION.replace("tool_call>", "seed:tool_call>"), "\n", ""),
    "GLM-4.6": ("\n", r"'<tool_call>' NAME '\n' ARGS '</tool_call>'", "\n", ""),
    "poolside-Laguna-S-2.1": ("", "'<tool_call>' NAME ARGS '</tool_call>'", "", ""),
    "MiniMax-M2": (
        "\n<minimax:tool_call>\n",
        r"""'<invoke name="' NAME '">\n' ARGS '</invoke>\n'""",
        "",
        "</minimax:tool_call>",
    ),
}

# name -> pieces of one argument
ARGUMENTS = {
    "Qwen3-Coder": r"'<parameter=' KEY '>\n' VALUE '\n</parameter>\n'",
    "ByteDance-Seed-OSS": r"'<parameter=' KEY '>' VALUE '</parameter>\n'",
    "GLM-4.6": r"'<arg_key>' KEY '</arg_key>\n<arg_value>' VALUE '</arg_value>\n'",
    "MiniMax-M2": r"""'<parameter name="' KEY '">' VALUE '</parameter>\n'""",
    "openbmb-MiniCPM5-1B": """'<param name="' KEY '">' VALUE '</param>'""",
}

# name -> (mode, opener, closer)
REASONING = {
    "Qwen-Qwen2.5-7B-Instruct": ("none", "", ""),
    "Qwen-Qwen3-0.6B": ("tagged", "<think>\n", "\n</think>\n\n"),
    "Qwen-QwQ-32B": ("preopened", "<think>\n", "</think>"),
    "llama-cpp-deepseek-r1": ("preopened", "<think>\n", "</think>"),
    "MiniMax-M2": ("preopened", "<think>\n", "\n</think>\n\n"),
    "GLM-4.6": ("tagged", "\n<think>", "</think>\n"),
    "ByteDance-Seed-OSS": ("tagged", "<seed:think>", "</seed:think>\n"),
    "Cohere2MoE": ("preopened", "<|START_THINKING|>", "<|END_THINKING|>"),
    "mistralai-Ministral-3-14B-Reasoning-2512": ("tagged", "[THINK]", "[/THINK]"),
    "meta-llama-Llama-3.1-8B-Instruct": ("none", "", ""),
}

# name -> (assistant header, generation prompt)
PROMPTS = {
    "Qwen-QwQ-32B": ("<|im_start|>assistant\n", "<|im_start|>assistant\n<think>\n</think>"),
    "llama-cpp-deepseek-r1": ("<｜Assistant｜>", "<｜Assistant｜><think>\n"),
    "MiniMax-M2": ("]~b]ai\n", "]~b]ai\n<think>\n"),
    "GLM-4.6": ("<|assistant|>", "<|assistant|>"),
    "mistralai-Mistral-Nemo-Instruct-2407": ("", ""),
    "poolside-Laguna-XS-2.1": ("<assistant>\n", "<assistant>\n</think>"),
    "tencent-Hy3": (
        "<｜hy_Assistant:opensource｜>",
        "<｜hy_Assistant:opensource｜><think:opensource></think:opensource>",
    ),
}

needs_corpus = pytest.mark.skipif(shared("templates") is None, reason="the shared corpus is not at hand")


def profile_of(name: str) -> Profile:
    return learn(Template(template_source(name + ".jinja"), bos_token="<bos>", eos_token="<eos>"))


@needs_corpus
@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    tools = profile_of(name).tools
    assert tools is not None
    call = " ".join(piece_text(piece) for piece in tools.call)
    assert (tools.section_open.written, call, tools.separator.written, tools.section_close.written) == CALLS[name]


@needs_corpus
@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name: str) -> None:
    tools = profile_of(name).tools
    assert tools is not None
    assert " ".join(piece_text(piece) for piece in tools.argument) == ARGUMENTS[name]


@needs_corpus
@pytest.mark.parametrize("name", REASONING)
def test_reasoning(name: str) -> None:
    reasoning = profile_of(name).reasoning
    assert (reasoning.mode.value, reasoning.open.written, reasoning.close.written) == REASONING[name]


@needs_corpus
@pytest.mark.parametrize("name", PROMPTS)
def test_prompts(name: str) -> None:
    profile = profile_of(name)
    assert (profile.assistant_header, profile.generation_prompt) == PROMPTS[name]


@needs_corpus
def test_single_facts() -> None:
    llama = profile_of("meta-llama-Llama-3.1-8B-Instruct")
    assert llama.tools is not None
    assert not llama.tools.parallel
    assert "content_beside_calls" in llama.losses
    nemo = profile_of("mistralai-Mistral-Nemo-Instruct-2407").tools
    assert nemo is not None
    assert nemo.array
    assert nemo.id_length == 9
    assert nemo.object is not None
    assert nemo.object.id_path == ("id",)
    qwen = profile_of("Qwen-Qwen3-0.6B")
    assert qwen.thinking_switches == ("enable_thinking",)
    assert qwen.reasoning.empty_block == "<think>\n\n</think>\n\n"
    assert profile_of("GLM-4.6").end_of_turn == ("<eos>", "<|user|>", "<|observation|>")
    assert profile_of("Cohere2MoE").content.open.written == "<|START_TEXT|>"
    assert profile_of("google-gemma-2-2b-it").generic_tools
    deepseek = profile_of("deepseek-ai-DeepSeek-V3.2").tools
    assert deepseek is not None
    words = dict(deepseek.type_words)
    assert words.pop("string") == "true"
    assert set(words.values()) == {"false"}


@needs_corpus
def test_role_starts_are_those_of_the_corpus() -> None:
    from tests.template_corpus import shared_rows

    wrong = []
    for row in shared_rows("role_markers.jsonl"):
        starts = profile_of(row["template"].removesuffix(".jinja")).role_starts
        pairs = [(starts.get(role, "").strip(), row[f"{role}_start"].strip()) for role in ("user", "assistant")]
        wrong += [(row["template"], found, wanted) for found, wanted in pairs if not found.startswith(wanted)]
    assert wrong == []


def test_templates_are_learned() -> None:
    tried = learned = 0
    for name, source in sampled(list(templates()), 4):
        try:
            template = Template(source, eos_token="<eos>")
        except TemplateError:
            continue
        profile = learn(template)
        tried += 1
        learned += profile.tools is not None
        assert profile.tools is not None or profile.failure, name
        assert profile.reasoning.mode is not ReasoningMode.UNKNOWN or profile.reasoning.message_key, name
    assert tried > 150
    assert learned > 0.4 * tried
