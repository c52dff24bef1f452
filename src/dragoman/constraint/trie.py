"""All tokens of a vocabulary as one trie in flat arrays, breadth first, so that a mask is found level by level.

Nodes are numbered level by level; the children of one node stand side by side, and in the order of their parents.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]


class TokenTrie:
    """Immutable. Node 0 is the root.

    byte          uint8[nodes]     the byte on the edge to the node
    first, count  int32[nodes]     its children are first .. first + count - 1
    token_start   int32[nodes + 1] the tokens that end at node i are tokens[token_start[i]:token_start[i + 1]]
    tokens        int32[*]         token ids
    words         int              length of a mask row: uint32[words], bit i % 32 of word i // 32 = token i
    """

    def __init__(self, token_bytes: Sequence[bytes | None], size: int) -> None:
        order = sorted((data, token) for token, data in enumerate(token_bytes) if data)
        self.size = size
        self.words = (size + 31) // 32
        # Each node of a level is a range of `order` whose tokens share their first `depth` bytes.
        edges, firsts, counts, starts, tokens = [0], [0], [0], [0], []
        level: list[tuple[int, int, int]] = [(0, 0, len(order))]
        depth = 0
        while level:
            below: list[tuple[int, int, int]] = []
            for node, low, high in level:
                while low < high and len(order[low][0]) == depth:
                    tokens.append(order[low][1])
                    low += 1
                starts.append(len(tokens))
                firsts[node] = len(edges)
                while low < high:
                    edge = order[low][0][depth]
                    end = _end_of_run(order, low, high, depth, edge)
                    below.append((len(edges), low, end))
                    edges.append(edge)
                    firsts.append(0)
                    counts.append(0)
                    counts[node] += 1
                    low = end
            level = below
            depth += 1
        self.byte: npt.NDArray[np.uint8] = np.array(edges, dtype=np.uint8)
        self.first: Ints = np.array(firsts, dtype=np.int32)
        self.count: Ints = np.array(counts, dtype=np.int32)
        self.token_start: Ints = np.array(starts, dtype=np.int32)
        self.tokens: Ints = np.array(tokens, dtype=np.int32)
        self.depth = depth - 1

    def __len__(self) -> int:
        return len(self.byte)


def _end_of_run(order: list[tuple[bytes, int]], low: int, high: int, depth: int, edge: int) -> int:
    """The first entry after ``low`` whose byte at ``depth`` is not ``edge``: galloping, then bisection."""
    step, end = 1, low + 1
    while end < high and order[end][0][depth] == edge:
        low, end = end, end + step
        step *= 2
    end = min(end, high)
    while low < end - 1:
        middle = (low + end) // 2
        if order[middle][0][depth] == edge:
            low = middle
        else:
            end = middle
    return end
