"""The contract of every engine: what dragoman.engine promises, held against each of them, the real one included."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from dragoman.engine import Chunk, Generation, GrammarSpec, Sampling, Trigger
from dragoman.engines.embedded import Embedded
from dragoman.engines.recognise import Upstream, recognise
from dragoman.engines.scripted import Dice, Record, Scripted
from dragoman.errors import EngineError
from tests.contract import engines, upstreams
from tests.contract.engines import SENTENCES, UPSTREAMS, Subject
from tests.server.live import live, wait_until

T = TypeVar("T")
# A server that is running somewhere is held to the contract where its address is given.
REAL = ("upstream",) if os.environ.get("DRAGOMAN_TEST_UPSTREAM") else ()


class Loop:
    """One event loop for all tests of this file: an engine belongs to one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def __call__(self, work: Coroutine[Any, Any, T], seconds: float = 60.0) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(work, seconds))

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


@pytest.fixture(scope="module")
def run() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture(scope="module")
def real(run: Loop) -> Iterator[Embedded]:
    engine = Embedded.start()
    yield engine
    run(engine.aclose())


@pytest.fixture(scope="module")
def server_of() -> Iterator[Callable[[str], tuple[upstreams.Server, str]]]:
    """(server, its address) of a name in UPSTREAMS; each is started once, and its record begins anew."""
    running: dict[str, tuple[upstreams.Server, str]] = {}
    with ExitStack() as stack:

        def start(name: str) -> tuple[upstreams.Server, str]:
            if name not in running:
                server = UPSTREAMS[name][0]()
                running[name] = server, stack.enter_context(live(server.app))
            server, address = running[name]
            server.engine.record = Record()
            server.seen.clear()
            return server, address

        yield start


@pytest.fixture(params=["scripted", "dice", "embedded", "torch", *REAL, *UPSTREAMS])
def subject(
    request: pytest.FixtureRequest, run: Loop, server_of: Callable[[str], tuple[upstreams.Server, str]]
) -> Iterator[Subject]:
    if request.param == "scripted":
        yield engines.scripted()
    elif request.param == "dice":
        yield engines.dice()
    elif request.param == "embedded":
        yield run(engines.embedded(request.getfixturevalue("real")))
    elif request.param == "torch":
        subject = engines.torch_model()
        yield subject
        run(subject.engine.aclose())
    elif request.param == "upstream":
        subject = run(engines.running(os.environ["DRAGOMAN_TEST_UPSTREAM"]))
        yield subject
        run(subject.engine.aclose())
    else:
        server, address = server_of(request.param)
        engine = run(recognise(address)).open()
        yield Subject(engine, spell=UPSTREAMS[request.param][1], record=server.engine.record)
        run(engine.aclose())


async def collect(subject: Subject, request: Generation) -> list[Chunk]:
    return [chunk async for chunk in subject.engine.generate(request)]


def text_of(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


def test_the_last_piece_and_no_other_says_how_it_ended(run: Loop, subject: Subject) -> None:
    chunks = run(collect(subject, subject.sentence()))
    assert [chunk.finish for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert len(chunks) > 2
    assert chunks[-1].finish == "stop"
    assert chunks[-1].prompt_tokens == len(subject.prompt)
    assert chunks[-1].completion_tokens


def test_the_grammar_is_obeyed(run: Loop, subject: Subject) -> None:
    for seed in range(4):
        assert text_of(run(collect(subject, subject.sentence(seed=seed)))) in SENTENCES


def test_characters_come_whole(run: Loop, subject: Subject) -> None:
    """Every piece is text: a character of several tokens is not cut, whatever the engine does inside."""
    seen = ""
    for seed in range(12):
        seen += text_of(run(collect(subject, subject.sentence(seed=seed))))
    assert "�" not in seen
    assert "é😀" in seen


def test_ids_are_complete_or_absent(run: Loop, subject: Subject) -> None:
    chunks = run(collect(subject, subject.endless(max_tokens=7)))
    count = chunks[-1].completion_tokens
    assert text_of(chunks).startswith("word")
    if isinstance(subject.engine, Scripted):  # a piece is a token there, and this script spells its ids out
        assert "".join(map(chr, (i for c in chunks for i in c.token_ids))) == text_of(chunks)
    elif subject.spell is not None:
        assert sum(len(chunk.token_ids) for chunk in chunks) == count
    else:  # a plain completions server tells none
        assert not any(chunk.token_ids for chunk in chunks)


def test_length_ends_it(run: Loop, subject: Subject) -> None:
    for length in (0, 1, 5):
        last = run(collect(subject, subject.endless(max_tokens=length)))[-1]
        assert (last.finish, last.completion_tokens) == ("length", length)


def test_a_stop_text_ends_it_and_is_not_shown(run: Loop, subject: Subject) -> None:
    chunks = run(collect(subject, subject.endless(stops=("ord w",))))
    assert text_of(chunks) == "w"
    assert chunks[-1].finish == "stop"


def test_the_same_seed_gives_the_same_text(run: Loop, subject: Subject) -> None:
    first, second = (text_of(run(collect(subject, subject.sentence(seed=5)))) for _ in range(2))
    assert first == second


def test_closing_the_iterator_frees_the_engine(run: Loop, subject: Subject) -> None:
    async def leave_early() -> None:
        stream = subject.engine.generate(subject.endless(max_tokens=None))
        async for _ in stream:
            break
        await stream.aclose()  # type: ignore[attr-defined]

    run(leave_early())
    _assert_free(run, subject)


def test_cancelling_the_task_frees_the_engine(run: Loop, subject: Subject) -> None:
    async def cancel() -> None:
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in subject.engine.generate(subject.endless(max_tokens=None)):
                begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancel())
    _assert_free(run, subject)


def _assert_free(run: Loop, subject: Subject) -> None:
    """The cancelled answer would have gone on for a minute and more: whoever is not free can't answer in time."""
    record = subject.record
    if record is not None:
        if not isinstance(subject.engine, Scripted | Dice):  # the word travels to another thread
            wait_until(lambda: not record.running)
        assert (record.cancelled, record.running) == (1, 0)
    assert run(collect(subject, subject.endless(max_tokens=2)), seconds=10)[-1].finish == "length"


def test_requests_at_once_are_all_answered(run: Loop, subject: Subject) -> None:
    async def together() -> list[list[Chunk]]:
        return await asyncio.gather(*(collect(subject, subject.sentence(seed=seed)) for seed in range(3)))

    assert all(text_of(chunks) in SENTENCES for chunks in run(together()))


# What only some can do, or do wrong.


def test_a_wrong_grammar_is_refused_and_the_engine_lives_on(run: Loop, real: Embedded) -> None:
    subject = run(engines.embedded(real))
    wrong = Generation(subject.prompt, "", grammar=GrammarSpec("root ::= undefined"))
    with pytest.raises(EngineError, match="grammar") as caught:
        run(collect(subject, wrong))
    assert caught.value.status == 400
    assert text_of(run(collect(subject, subject.sentence()))) in SENTENCES


def test_a_prompt_beyond_the_context_is_refused_with_both_sizes(run: Loop, real: Embedded) -> None:
    with pytest.raises(EngineError, match=r"5000 tokens.*4096") as caught:
        run(collect(Subject(real), Generation((5,) * 5000, "")))
    assert caught.value.status == 400


@pytest.mark.parametrize("word", ["Once", "<|im_start|>"])
def test_a_lazy_grammar_waits_for_its_trigger(run: Loop, real: Embedded, word: str) -> None:
    """A word and a control token. A bias makes the model write the trigger; what follows it is constrained."""
    subject = run(engines.embedded(real))
    (token,) = run(real.tokenize(word, controls=True))
    trigger = Trigger(word, token_id=token if word.startswith("<|") else None)
    spec = GrammarSpec(f'root ::= "{word}" "!" [0-9]{{3}} "\\n"', lazy=True, triggers=(trigger,))
    sampling = Sampling(max_tokens=60, temperature=0.0, logit_bias={token: 100.0})
    text = text_of(run(collect(subject, Generation(subject.prompt, "", grammar=spec, sampling=sampling))))
    assert re.fullmatch(rf"{re.escape(word)}![0-9]{{3}}\n", text)


def test_preserved_control_tokens_show_up_as_text(run: Loop, real: Embedded) -> None:
    subject = run(engines.embedded(real))
    grammar = GrammarSpec('root ::= "hello"')
    hidden = Generation(subject.prompt, "", grammar=grammar)
    shown = Generation(
        subject.prompt,
        "",
        grammar=grammar,
        preserved_tokens=("<|im_end|>",),
        sampling=Sampling(logit_bias={0: float("-inf")}),
    )
    assert text_of(run(collect(subject, hidden))) == "hello"
    assert text_of(run(collect(subject, shown))) == "hello<|im_end|>"


def test_the_real_engine_says_what_it_is(run: Loop, real: Embedded) -> None:
    info = run(real.info())
    assert info.model == "SmolLM2-135M-Instruct.Q4_1"
    assert info.context_tokens == 4096
    assert info.template is not None
    assert "<|im_start|>" in info.template
    assert info.grammar_forms == ("gbnf",)
    assert run(real.health())


def test_a_real_completions_server_is_one(run: Loop, real: Embedded) -> None:
    """The embedded server has OpenAI-style completions too: the adapter of vLLM and SGLang works with a real one."""
    secret = real._client._client.headers["authorization"].removeprefix("Bearer ")
    subject = run(engines.embedded(real))
    hello = run(real.tokenize("Hello"))[0]
    sampling = Sampling(max_tokens=6, temperature=0.0, logprobs=3, logit_bias={hello: 100.0})
    asked = Generation(subject.prompt, "", sampling=sampling)

    async def work() -> tuple[Upstream, list[Chunk], list[Chunk]]:
        found = await recognise(real.base_url, kind="completions", api_key=secret)
        engine = found.open(api_key=secret)
        chunks = [chunk async for chunk in engine.generate(asked)]
        endless = Generation(subject.prompt, "", sampling=Sampling(logit_bias={hello: 100.0}))  # no bound of its own
        stream = engine.generate(endless)
        begun = [await stream.__anext__() for _ in range(3)]
        await stream.aclose()  # type: ignore[attr-defined]
        await engine.aclose()
        return found, chunks, begun

    found, chunks, begun = run(work())
    assert found.takes_token_ids
    assert text_of(chunks) == "Hello" * 6
    assert (chunks[-1].finish, chunks[-1].completion_tokens) == ("length", 6)
    assert chunks[-1].prompt_tokens == len(subject.prompt)
    told = [one for chunk in chunks for one in chunk.logprobs]
    assert [(one.token_id, one.data, len(one.top)) for one in told] == [(hello, b"Hello", 3)] * 6
    assert text_of(begun).startswith("Hello")
    _assert_free(run, subject)


def test_nobody_else_may_use_the_embedded_server(real: Embedded) -> None:
    answer = httpx.post(real.base_url + "/completion", json={"prompt": "hi", "n_predict": 1}, trust_env=False)
    assert answer.status_code == 401


def test_ctrl_c_still_interrupts(real: Embedded) -> None:
    # Set first: a test run in the background may have been started with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    engine = Embedded.start(real.model_path)
    try:
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
    finally:
        signal.signal(signal.SIGINT, before)
        engine.stop()


def test_a_stopped_engine_says_so(run: Loop, real: Embedded) -> None:
    engine = Embedded.start(real.model_path)
    run(engine.aclose())
    run(engine.aclose())
    assert not run(engine.health())
    with pytest.raises(EngineError, match="stopped"):
        engine.generate(Generation((1,), ""))
    with pytest.raises(httpx.ConnectError):
        httpx.get(engine.base_url + "/health", trust_env=False)


def test_a_broken_model_file_is_an_error_of_ours(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(EngineError, match=r"broken\.gguf"):
        Embedded.start(broken)


def test_a_script_that_is_over_or_breaks_off(run: Loop) -> None:
    once = Scripted(["only this"], failure=None)
    assert text_of(run(collect(Subject(once), Generation((), "")))) == "only this"
    with pytest.raises(EngineError, match="no more answers"):
        run(collect(Subject(once), Generation((), "")))

    async def until_failure() -> str:
        seen = ""
        with pytest.raises(EngineError, match="out of memory"):
            async for chunk in Scripted([["half ", "an answ"]], failure="out of memory").generate(Generation((), "")):
                seen += chunk.text
        return seen

    assert run(until_failure()) == "half an answ"


def test_dice_find_a_dead_end(run: Loop) -> None:
    request = Generation((), "", constraint=lambda: engines.Texts(()))
    with pytest.raises(EngineError, match="dead end"):
        run(collect(engines.dice(), request))


def test_dice_reach_every_sentence(run: Loop) -> None:
    subject = engines.dice()
    seen = {text_of(run(collect(subject, subject.sentence(seed=seed)))) for seed in range(60)}
    assert seen == set(SENTENCES)
