"""Masks on logits: what is not allowed becomes minus infinity, for arrays of every library; the rest is untouched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dragoman.errors import UsageError
from dragoman.integrations.logits import allowed_tokens, apply_mask, torch_bits

BATCH = 3


def rows(tokens: int, seed: int = 1) -> tuple[Any, Any]:
    """(bitmask int32[BATCH, words], bool[BATCH, tokens]) at random; the bits beyond the tokens are set."""
    allowed = np.random.default_rng(seed).random((BATCH, tokens)) < 0.3
    padded = np.ones((BATCH, (tokens + 31) // 32 * 32), bool)
    padded[:, :tokens] = allowed
    return np.packbits(padded, axis=-1, bitorder="little").view(np.int32), allowed


def held(out: Any, before: Any, allowed: Any) -> None:
    assert (out == np.where(allowed, before, -np.inf)).all()


@pytest.mark.parametrize("tokens", [1, 31, 32, 33, 1_000])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_numpy_in_place(tokens: int, kind: Any) -> None:
    mask, allowed = rows(tokens)
    before = np.random.default_rng(2).normal(size=(BATCH, tokens)).astype(kind)
    logits = before.copy()
    assert apply_mask(mask, logits) is logits
    held(logits, before, allowed)
    one = before[1].copy()
    apply_mask(mask[1].view(np.uint32), one)
    held(one, before[1], allowed[1])
    many = np.stack([before, before])
    apply_mask(mask[0], many)
    held(many, np.stack([before, before]), allowed[0])


def test_tokens_beyond_the_row_are_not_allowed() -> None:
    mask = np.full((1, 2), -1, np.int32)
    logits = np.zeros((1, 70), np.float32)
    apply_mask(mask, logits)
    assert (logits[0, :64] == 0).all()
    assert (logits[0, 64:] == -np.inf).all()
    assert allowed_tokens(mask.view(np.uint32), 40).shape == (1, 40)


def test_a_strided_view_of_logits_is_changed_and_nothing_beside_it() -> None:
    mask, allowed = rows(100)
    wide = np.zeros((BATCH, 300), np.float32)
    apply_mask(mask, wide[:, ::3])
    held(wide[:, ::3], np.zeros((BATCH, 100)), allowed)
    assert not wide[:, 1::3].any()


WRONG: tuple[tuple[Any, Any, str], ...] = (
    ("x", np.zeros(32), "row"),
    (np.zeros(1, np.int64), np.zeros(32), "row"),
    (np.zeros((1, 1, 1), np.int32), np.zeros(32), "row"),
    (np.zeros(1, np.int32), [0.0] * 32, "logits"),
    (np.zeros(1, np.int32), np.zeros(32, np.int64), "logits"),
    (np.zeros(1, np.int32), np.float32(1.0), "logits"),
    (np.zeros((2, 1), np.int32), np.zeros(32), "logits"),
    (np.zeros((2, 1), np.int32), np.zeros((3, 32)), "logits"),
    (np.zeros(1, np.int32), np.broadcast_to(np.zeros(1), (32,)), "logits"),
)


@pytest.mark.parametrize(("row", "logits", "param"), WRONG)
def test_other_arrays_are_refused_by_name(row: Any, logits: Any, param: str) -> None:
    with pytest.raises(UsageError) as raised:
        apply_mask(row, logits)
    assert raised.value.param == param


@pytest.mark.parametrize("tokens", [33, 64, 100])
def test_torch_in_place(tokens: int) -> None:
    torch = pytest.importorskip("torch")
    mask, allowed = rows(tokens)
    for kind in (torch.float32, torch.float16, torch.bfloat16):
        before = torch.randn(BATCH, tokens).to(kind)
        logits = before.clone()
        assert apply_mask(torch.from_numpy(mask), logits) is logits
        held(logits.float().numpy(), before.float().numpy(), allowed)
    # What other devices compute.
    assert (torch_bits(torch.from_numpy(mask), tokens).numpy() == allowed).all()
    longer = torch_bits(torch.from_numpy(mask), tokens + 70).numpy()
    assert (longer[:, :tokens] == allowed).all()
    assert not longer[:, (tokens + 31) // 32 * 32 :].any()
    with pytest.raises(UsageError):
        apply_mask(mask, torch.zeros(BATCH, tokens, dtype=torch.int64))


def test_mlx_gives_a_new_array() -> None:
    core = pytest.importorskip("mlx.core")
    mask, allowed = rows(100)
    before = np.random.default_rng(2).normal(size=(BATCH, 100)).astype(np.float32)
    held(np.array(apply_mask(mask, core.array(before))), before, allowed)
    half = apply_mask(mask, core.array(before).astype(core.bfloat16))
    assert half.dtype == core.bfloat16
