"""Dicts and lists that note what a template reads of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Path = tuple[Any, ...]
BY_KEY = object()


class RecordingDict(dict[Any, Any]):
    """A dict that adds the path of every value read to ``reads``. Asking whether a key is there is no reading.

    A value asked for by its key, not met while going through all of them, is noted as ``(BY_KEY, *path)`` too.
    """

    __slots__ = ("_path", "_reads")

    def __init__(self, items: dict[Any, Any], path: Path, reads: set[Path]) -> None:
        super().__init__(items)
        self._path = path
        self._reads = reads

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        self._reads.update(((*self._path, key), (BY_KEY, *self._path, key)))
        return value

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401 (get is what is defined here)

    def items(self) -> Any:
        self._reads.update((*self._path, key) for key in self)
        return super().items()

    def values(self) -> Any:
        self._reads.update((*self._path, key) for key in self)
        return super().values()


class RecordingList(list[Any]):
    """A list that adds its path with the index of every item read to ``reads``."""

    __slots__ = ("_path", "_reads")

    def __init__(self, items: list[Any], path: Path, reads: set[Path]) -> None:
        super().__init__(items)
        self._path = path
        self._reads = reads

    def __getitem__(self, key: Any) -> Any:
        taken = super().__getitem__(key)
        self._reads.update((*self._path, at) for at in ([range(len(self))[key]] if isinstance(key, int) else [0]))
        return taken

    def __iter__(self) -> Iterator[Any]:
        for at, item in enumerate(super().__iter__()):
            self._reads.add((*self._path, at))
            yield item


def recording(value: Any, path: Path, reads: set[Path]) -> Any:
    """A deep copy of ``value`` whose reads are noted under paths that start with ``path``."""
    if isinstance(value, dict):
        inside = {key: recording(item, (*path, key), reads) for key, item in value.items()}
        return RecordingDict(inside, path, reads)
    if isinstance(value, list):
        return RecordingList([recording(item, (*path, at), reads) for at, item in enumerate(value)], path, reads)
    return value
