"""All tokens of a vocabulary as one trie in flat arrays, in the order of the sorted tokens (depth first)."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from dragoman.errors import VocabularyError
from dragoman.grammar.walk import COMPILED, Walk

Ints = npt.NDArray[np.int32]

_MAGIC = b"dragoman trie 1\n"
_HEADER = struct.Struct("<4q")
# Tokens whose bytes are compared at once; bounds the memory of building.
_BLOCK_BYTES = 16_000_000


def inside(counts: Ints) -> Ints:
    """0 .. n - 1 for every n of ``counts``, one after the other."""
    return (np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)).astype(np.int32)


class Levels:
    """The nodes of a trie ordered by their depth, the root first.

    nodes       int32[nodes]   the nodes
    steps       for each depth but 0: (first, past, up, edge): the places in ``nodes`` of those so deep, the places of
                the nodes above them, the bytes on the edges to them
    tokens      int32[*]       the tokens, in the order of the nodes that they end at
    token_at    int32[*]       the place of that node
    """

    def __init__(self, trie: TokenTrie) -> None:
        first, count, children = trie.children()
        here: Ints = np.zeros(1, dtype=np.int32)
        found = [here]
        self.steps: list[tuple[int, int, Ints, npt.NDArray[np.uint8]]] = []
        start, end = 0, 1
        while True:
            counts = count[here]
            total = int(counts.sum())
            if not total:
                break
            up = np.repeat(np.arange(start, end, dtype=np.int32), counts)
            here = children[np.repeat(first[here], counts) + inside(counts)]
            self.steps.append((end, end + total, up, trie.byte[here]))
            found.append(here)
            start, end = end, end + total
        self.nodes: Ints = np.concatenate(found)
        starts = trie.token_start[self.nodes]
        counts = trie.token_start[self.nodes + 1] - starts
        self.tokens: Ints = trie.tokens[np.repeat(starts, counts) + inside(counts)]
        self.token_at: Ints = np.repeat(np.arange(len(self.nodes), dtype=np.int32), counts)


class TokenTrie:
    """Immutable, but for ``shared`` and ``recorded``. Node 0 is the root; those under node i are i + 1 .. end[i] - 1.

    byte          uint8[nodes]     the byte on the edge to the node
    end           int32[nodes]     the first node behind those under it
    parent        int32[nodes]     the node above; 0 for the root
    token_start   int32[nodes + 1] the tokens that end at node i are tokens[token_start[i]:token_start[i + 1]]
    tokens        int32[*]         token ids
    words         int              length of a mask row: uint32[words], bit i % 32 of word i // 32 = token i
    bytes            int              256 bits: the bytes that some token contains
    shared: parts of masks that any grammar may use, by what they depend on (see constraint.sharing).
    recorded: the numbers of the walk's records, by what they depend on; -1: none can be made.
    lock: held by whoever makes masks over this trie: ``shared`` and the walk's buffers belong to all of its grammars.
    """

    def __init__(self, token_bytes: Sequence[bytes | None], size: int) -> None:
        texts = [(data, token) for token, data in enumerate(token_bytes) if data]
        texts.sort()
        lengths = np.array([len(data) for data, _ in texts], dtype=np.int64)
        common = _common_beginnings([data for data, _ in texts], lengths)
        self.size = size
        self.tokens: Ints = np.array([token for _, token in texts], dtype=np.int32)
        self._build(b"".join(data for data, _ in texts), lengths, common)
        self._finish()

    def _build(self, joined: bytes, lengths: npt.NDArray[np.int64], common: npt.NDArray[np.int64]) -> None:
        new = lengths - common  # the nodes that a token adds to those of the token before
        starts = np.cumsum(lengths) - lengths
        owner = np.repeat(np.arange(len(lengths)), new)
        offset = np.arange(int(new.sum())) - np.repeat(np.cumsum(new) - new, new)
        depth = common[owner] + offset
        data = np.frombuffer(joined, dtype=np.uint8)
        self.byte: npt.NDArray[np.uint8] = np.concatenate([np.zeros(1, np.uint8), data[starts[owner] + depth]])
        depths = np.concatenate([np.zeros(1, np.int64), depth + 1])
        nodes = len(depths)
        self.end: Ints = np.full(nodes, nodes, dtype=np.int32)
        self.parent: Ints = np.zeros(nodes, dtype=np.int32)
        shallow = above = np.zeros(0, dtype=np.int64)
        for level in range(int(depths.max(initial=0)) + 1):
            here = np.flatnonzero(depths == level)
            shallow = np.sort(np.concatenate([shallow, here]), kind="stable")
            behind = np.searchsorted(shallow, here, side="right")
            inside = behind < len(shallow)
            self.end[here[inside]] = shallow[behind[inside]]
            if level:
                self.parent[here] = above[np.searchsorted(above, here) - 1]
            above = here
        # A token ends at the last node that it added, or at the node of the token before, which is the same text.
        last = np.cumsum(new)
        counts = np.bincount(last, minlength=nodes)
        self.token_start: Ints = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]).astype(np.int32)
        self.depth = int(depths.max(initial=0))

    def _finish(self) -> None:
        self.words = (self.size + 31) // 32
        self.bytes = sum(1 << byte for byte in np.unique(self.byte[1:]).tolist())
        self.shared: dict[object, object] = {}
        self.recorded: dict[object, int] = {}
        self.lock = threading.RLock()
        self._behind: dict[int, Ints] = {}
        counts = np.diff(self.token_start)
        self._ends = counts > 0
        self._alone = int(counts.max(initial=0)) <= 1
        self._children: tuple[Ints, Ints, Ints] | None = None
        self._levels: Levels | None = None
        self._walk: Walk | None = None

    def __len__(self) -> int:
        return len(self.byte)

    def bytes_behind(self, text: bytes) -> list[int]:
        """The bytes that follow ``text`` in tokens that begin with it."""
        node = 0
        for byte in text:
            node = next((child for child in self._below(node) if self.byte[child] == byte), -1)
            if node < 0:
                return []
        return [int(self.byte[child]) for child in self._below(node)]

    def _below(self, node: int) -> Iterator[int]:
        child = node + 1
        while child < self.end[node]:
            yield child
            child = int(self.end[child])

    def walk(self) -> Walk:
        """The walk's buffers, one set for each trie: the caller holds a lock of the trie's users."""
        if self._walk is None:
            first, count, nodes = self.children()
            starts = np.append(first, first[-1] + count[-1]).astype(np.int32)
            self._walk = Walk(self.byte, self.end, self.token_start, self.tokens, starts, nodes, self.depth)
            if not COMPILED:
                self.levels()  # once for a vocabulary, not with the first mask
        return self._walk

    def ending_at(self, nodes: Ints) -> Ints:
        """The tokens that end at the nodes, in their order."""
        # At most nodes one token ends or none: two tokens of the same bytes are rare.
        ends = nodes[self._ends[nodes]]
        at = self.token_start[ends]
        if not self._alone:
            counts = self.token_start[ends + 1] - at
            at = np.repeat(at, counts) + inside(counts)
        found: Ints = self.tokens[at]
        return found

    def behind(self, byte: int) -> Ints:
        """The nodes whose edge is ``byte``."""
        found = self._behind.get(byte)
        if found is None:
            found = self._behind[byte] = (np.flatnonzero(self.byte[1:] == byte) + 1).astype(np.int32)
        return found

    def children(self) -> tuple[Ints, Ints, Ints]:
        """(first, count, nodes): the children of node i are nodes[first[i]:first[i] + count[i]]."""
        if self._children is None:
            parent = self.parent
            nodes = (np.argsort(parent[1:], kind="stable") + 1).astype(np.int32)
            count = np.bincount(parent[1:], minlength=len(self)).astype(np.int32)
            first = (np.cumsum(count) - count).astype(np.int32)
            self._children = first, count, nodes
        return self._children

    def levels(self) -> Levels:
        """The nodes by depth, for walks without the compiled file."""
        if self._levels is None:
            self._levels = Levels(self)
        return self._levels

    def to_bytes(self) -> bytes:
        """The trie as bytes, for a cache keyed by the vocabulary's hash; :meth:`from_bytes` reads them."""
        header = _HEADER.pack(self.size, len(self), len(self.tokens), self.depth)
        arrays = (self.byte, self.end, self.parent, self.token_start, self.tokens)
        return _MAGIC + header + b"".join(array.astype(array.dtype.newbyteorder("<")).tobytes() for array in arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> TokenTrie:
        """What :meth:`to_bytes` wrote. VocabularyError for anything else."""
        start = len(_MAGIC) + _HEADER.size
        if not data.startswith(_MAGIC) or len(data) < start:
            raise VocabularyError("this is no token trie, or one of another version; build it anew")
        size, nodes, tokens, depth = _HEADER.unpack_from(data, len(_MAGIC))
        if min(size, nodes, tokens, depth) < 0 or len(data) != start + nodes + 4 * (3 * nodes + 1 + tokens):
            raise VocabularyError("the token trie is damaged; build it anew")
        self = cls.__new__(cls)
        self.size, self.depth = size, depth
        ints = np.frombuffer(data, dtype="<i4", offset=start + nodes).astype(np.int32)
        self.byte = np.frombuffer(data, dtype=np.uint8, count=nodes, offset=start).copy()
        self.end, self.parent, rest = ints[:nodes], ints[nodes : 2 * nodes], ints[2 * nodes :]
        self.token_start, self.tokens = rest[: nodes + 1], rest[nodes + 1 :]
        self._finish()
        return self


def _common_beginnings(texts: Sequence[bytes], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many first bytes each of the sorted texts shares with the one before."""
    common = np.zeros(len(texts), dtype=np.int64)
    width = int(lengths.max(initial=1))
    block = max(1, _BLOCK_BYTES // width)
    for start in range(1, len(texts), block):
        rows = texts[start - 1 : start + block]
        table = np.frombuffer(b"".join(text.ljust(width, b"\0") for text in rows), dtype=np.uint8).reshape(-1, width)
        differs = table[1:] != table[:-1]
        first = np.where(differs.any(axis=1), differs.argmax(axis=1), width)
        shorter = np.minimum(lengths[start - 1 : start - 1 + len(first)], lengths[start : start + len(first)])
        common[start : start + len(first)] = np.minimum(first, shorter)
    return common
