"""Where a thread goes on after its rule: hash-consed frames, shared by threads that differ in nothing else.

A frame is an ordered set of links (return instruction, count, parent frame). Threads at the same instruction with the
same history share one frame with the links of both; ambiguous recursion then costs as much as plain recursion.
A writer's threads are a set, so its frames merge freely, all the way down (:meth:`Frames.merge`). A reader's are in
order of priority: neighbours are joined (:meth:`Frames.join`), and taken apart again (:meth:`Frames.split`) before a
choice inside the rule could come before a choice between its callers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dragoman.errors import LimitError
from dragoman.limits import Limits

Link = tuple[int, int, "Frame"]


class Frame:
    """Interned: compare by identity. The root frame has no links.

    group: tells apart shared frames with the same links that were joined independently in one state.
    """

    __slots__ = ("depth", "group", "links")

    def __init__(self, links: tuple[Link, ...], depth: int, group: int = 0) -> None:
        self.links = links
        self.depth = depth
        self.group = group


class Frames:
    """The frames of one machine. The machine's lock holds it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.root = Frame((), 0)
        self.reset()

    def reset(self) -> None:
        """Forget what was interned; frames in use stay what they are."""
        self._frames: dict[tuple[tuple[Link, ...], int], Frame] = {}
        self._merges: dict[tuple[Frame, Frame], Frame] = {}

    def of(self, links: tuple[Link, ...], group: int = 0) -> Frame:
        """The frame with these links. LimitError past ``limits.machine_depth``."""
        frame = self._frames.get((links, group))
        if frame is None:
            depth = 1 + max(parent.depth for _, _, parent in links)
            if depth > self._limits.machine_depth:
                raise LimitError("nested too deep", bound="machine_depth", limit=self._limits.machine_depth)
            frame = self._frames[links, group] = Frame(links, depth, group)
        return frame

    def push(self, at: int, count: int, parent: Frame) -> Frame:
        return self.of(((at, count, parent),))

    def join(self, better: Frame, other: Frame, in_use: Sequence[Frame]) -> Frame | None:
        """A frame that returns to where ``better`` does, then to where ``other`` does.

        None where one of the two is shared already and on the way of a frame ``in_use``: their order would be lost.
        """
        parts = [frame for frame in (better, other) if len(frame.links) > 1]
        if any(passes(frame, part) for frame in in_use for part in parts):
            return None
        links = (*better.links, *(link for link in other.links if link not in better.links))
        group = 0
        while any(passes(frame, self.of(links, group)) for frame in in_use):
            group += 1
        return self.of(links, group)

    def merge(self, a: Frame, b: Frame) -> Frame:
        """A frame that returns to wherever ``a`` or ``b`` does, order lost, parents merged too."""
        if a is b:
            return a
        # Children before parents, without recursion: nesting may be thousands deep.
        stack = [(a, b)]
        while stack:
            left, right = stack[-1]
            links: dict[tuple[int, int], Frame] = {(at, k): parent for at, k, parent in left.links}
            missing = []
            for at, k, parent in right.links:
                known = links.get((at, k), parent)
                if known is not parent and (known, parent) not in self._merges:
                    missing.append((known, parent))
                else:
                    links[at, k] = parent if known is parent else self._merges[known, parent]
            if missing:
                stack += missing
                continue
            ordered = sorted(((at, k, parent) for (at, k), parent in links.items()), key=lambda link: link[:2])
            self._merges[left, right] = self.of(tuple(ordered))
            stack.pop()
        return self._merges[a, b]

    def split(self, frame: Frame, shared: Frame) -> list[Frame]:
        """``frame`` once for each link of ``shared``, which lies somewhere on its way to the root."""
        return [self._replaced(frame, shared, self.of((link,))) for link in shared.links]

    def _replaced(self, frame: Frame, old: Frame, new: Frame) -> Frame:
        done: dict[Frame, Frame] = {old: new, self.root: self.root}
        stack = [frame]
        while stack:
            top = stack[-1]
            missing = [parent for _, _, parent in top.links if parent not in done]
            if top in done:
                stack.pop()
            elif missing:
                stack += missing
            else:
                done[top] = self.of(tuple((at, k, done[parent]) for at, k, parent in top.links), top.group)
                stack.pop()
        return done[frame]


def passes(frame: Frame, through: Frame) -> bool:
    """True: ``through`` is ``frame`` or lies on its way to the root."""
    seen: set[Frame] = set()
    stack: list[Frame] = [frame]
    while stack:
        top = stack.pop()
        if top is through:
            return True
        if top not in seen and top.depth > through.depth:
            seen.add(top)
            stack.extend(_parents(top))
    return False


def shared_above(frame: Frame, below: Frame) -> list[Frame]:
    """The frames with several links on the way from ``frame`` to ``below``, that one left out."""
    seen: set[Frame] = set()
    stack = [frame]
    found: list[Frame] = []
    while stack:
        top = stack.pop()
        if top in seen or top.depth <= below.depth:
            continue
        seen.add(top)
        if len(top.links) > 1 and passes(top, below):
            found.append(top)
        stack.extend(_parents(top))
    return found


def _parents(frame: Frame) -> Iterable[Frame]:
    return (parent for _, _, parent in frame.links)
