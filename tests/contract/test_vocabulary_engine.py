"""The ids of our vocabulary are those of the engine that loads the same file."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from dragoman.engines.embedded import Embedded
from dragoman.vocab import Vocabulary
from tests.pieces import CONTROL, Small, read_pieces, small_pieces, tiny_model
from tests.unit.test_vocab_models import ATTACK, CONVERSATIONS, chatml, joined
from tests.vocabularies import mistral, smollm2_gguf

# Printable ASCII, control white space, Latin, combining marks, Greek, Cyrillic, Arabic, Devanagari, punctuation,
# numbers, kana, Han, pictographs.
BLOCKS = (
    *((0x20, 0x7E), (0x09, 0x0D), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x4FF), (0x600, 0x6FF), (0x900, 0x9FF)),
    *((0x2000, 0x206F), (0x2150, 0x218F), (0x3000, 0x30FF), (0x4E00, 0x9FFE), (0x1F300, 0x1F6FF)),
)


def some_texts(count: int) -> list[str]:
    chance = random.Random(1)
    return ["".join(chr(chance.randint(*chance.choice(BLOCKS))) for _ in range(60)) for _ in range(count)]


@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("name", ["small", "mistral"])
def test_a_sentencepiece_file_gets_the_ids_of_the_engine(name: str, prefix: bool, tmp_path: Path) -> None:
    """A model with one empty layer, whose tokenizer the engine runs as any other."""
    pytest.importorskip("xllamacpp")
    small = small_pieces(more=[("<tool>", CONTROL)])
    if name == "mistral":
        small = Small(tuple(read_pieces(mistral("v1").read_bytes())), ())
    file = tmp_path / "tiny.gguf"
    file.write_bytes(tiny_model(small, prefix=prefix))
    vocab = Vocabulary.from_gguf(file)

    async def compare() -> None:
        async with Embedded.start(file) as engine:
            for turns in CONVERSATIONS:
                parts = [part for text in turns for part in (("<s>", False), (text, True), ("</s>\n", False))]
                # the engine takes every spelled control token for one
                texts = [(text.replace("<tool>", "<tools>"), is_input) for text, is_input in parts]
                assert vocab.encode(texts) == await engine.tokenize(joined(texts), controls=True)
            for text in ("</s><s>" + ATTACK, "a" * 50, " " * 21, *some_texts(50)):
                assert vocab.encode(text) == await engine.tokenize(text)

    asyncio.run(compare())


def test_smollm2_gets_the_ids_of_the_engine() -> None:
    pytest.importorskip("xllamacpp")
    vocab = Vocabulary.from_gguf(smollm2_gguf())

    async def compare() -> None:
        async with Embedded.start(smollm2_gguf()) as engine:
            for turns in CONVERSATIONS:
                parts = chatml(turns)
                assert vocab.encode(parts) == await engine.tokenize(joined(parts), controls=True)
            for text in (ATTACK, *some_texts(150)):
                assert vocab.encode(text) == await engine.tokenize(text)

    asyncio.run(compare())
