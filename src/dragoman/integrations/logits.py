"""A mask put on logits, for arrays of NumPy, PyTorch and MLX."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.errors import UsageError

Bits = npt.NDArray[np.bool_]


def apply_mask(row: Any, logits: Any) -> Any:
    """Set the logits of tokens that ``row`` does not allow to minus infinity.

    row: int32 or uint32 [words] or [batch, words], as :meth:`dragoman.Constraint.fill` and ``fill_batch`` write them:
    an array in main memory.
    logits: floating [..., tokens]; with a batch of rows [batch, tokens]. Tokens beyond the row are not allowed.
    Returns ``logits``: the same array for NumPy and PyTorch, on whatever device, changed in place; a new one for MLX,
    whose arrays are values. A row that allows nothing leaves nothing that could be sampled: do not sample a turn that
    has ended. Raises: UsageError for arrays of other kinds or shapes.
    """
    words = _words(row)
    kind = type(logits).__module__.partition(".")[0]
    shape = tuple(getattr(logits, "shape", ()))
    if not shape or (words.ndim == 2 and (len(shape) != 2 or shape[0] != len(words))):
        rows = "a row" if words.ndim == 1 else f"{len(words)} rows"
        raise UsageError(f"logits of shape {shape} do not go with {rows}: [batch, tokens] is wanted", param="logits")
    if kind == "torch":
        return _on_torch(words, logits)
    if kind == "mlx":
        core: Any = sys.modules["mlx.core"]
        allowed = core.array(allowed_tokens(words, shape[-1]))
        return core.where(allowed, logits, core.array(-float("inf"), dtype=logits.dtype))
    if not isinstance(logits, np.ndarray):
        raise UsageError(f"logits are an array of NumPy, PyTorch or MLX, not {type(logits).__name__}", param="logits")
    if logits.dtype.kind != "f" or not logits.flags.writeable:
        raise UsageError(f"logits are floating numbers that can be written, not {logits.dtype}", param="logits")
    np.copyto(logits, -np.inf, where=~allowed_tokens(words, shape[-1]))
    return logits


def allowed_tokens(words: npt.NDArray[np.uint32], tokens: int) -> Bits:
    """bool[..., tokens]: the bits of a row or of a batch of rows; False beyond them."""
    little = np.ascontiguousarray(words).astype("<u4", copy=False)
    return np.unpackbits(little.view(np.uint8), axis=-1, bitorder="little", count=tokens).view(np.bool_)


def _on_torch(words: npt.NDArray[np.uint32], logits: Any) -> Any:
    torch: Any = sys.modules["torch"]
    if not logits.is_floating_point():
        raise UsageError(f"logits are floating numbers, not {logits.dtype}", param="logits")
    tokens = logits.shape[-1]
    if logits.device.type == "cpu":
        allowed = torch.from_numpy(allowed_tokens(words, tokens))
    else:
        # A word a token's 32nd part: the row is sent, not the bits.
        allowed = torch_bits(torch.from_numpy(np.ascontiguousarray(words).view(np.int32)).to(logits.device), tokens)
    return logits.masked_fill_(~allowed, -float("inf"))


def torch_bits(words: Any, tokens: int) -> Any:
    """:func:`allowed_tokens` of int32 words on any device."""
    torch: Any = sys.modules["torch"]
    shifts = torch.arange(32, device=words.device, dtype=torch.int32)
    bits = ((words.unsqueeze(-1) >> shifts) & 1).to(torch.bool).flatten(-2)[..., :tokens]
    missing = tokens - bits.shape[-1]
    return torch.nn.functional.pad(bits, (0, missing)) if missing > 0 else bits


def _words(row: Any) -> npt.NDArray[np.uint32]:
    try:
        words = np.asarray(row)
    except Exception as error:  # whatever another library raises for arrays that are not in main memory
        raise UsageError(f"a mask row is in main memory: {error}", param="row") from error
    if words.dtype.itemsize != 4 or words.dtype.kind not in "iu" or words.ndim not in (1, 2):
        raise UsageError(
            f"a mask row is int32 or uint32 [words] or [batch, words], not {words.dtype} {words.shape}", param="row"
        )
    return words.view(np.uint32)
