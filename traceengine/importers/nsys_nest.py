"""Innermost enclosing events of sorted host events, on whole columns.

The rules are those of `kineto.nest.Nester`. Where events of a thread only ever hold one another or lie apart, which is
nearly everywhere, parents follow from counting: an event's depth is the number of events before it that have not ended,
and its parent is the last event before it of one depth less. Where that does not hold, the rest of the thread goes
through the `Nester`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceengine.importers.kineto.nest import SKIP, Nester

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Slice:
    """Events of one thread that are nested: start, end, kind for the Nester, identity."""

    start: Ints
    end: Ints
    kind: Ints
    identity: Ints

    def take(self, index: Ints | NDArray[np.bool_]) -> Slice:
        """The events at `index`."""
        return Slice(self.start[index], self.end[index], self.kind[index], self.identity[index])

    def after(self, other: Slice) -> Slice:
        """These events behind the other ones."""
        pairs = zip((other.start, other.end, other.kind, other.identity), (self.start, self.end, self.kind, self.identity), strict=True)
        return Slice(*(np.concatenate(pair) for pair in pairs))


_EMPTY = Slice(*(np.empty(0, np.int64) for _ in range(4)))


class ColumnNester:
    """Keeps the open events of the current thread between batches; events come sorted by thread, start and descending end."""

    def __init__(self) -> None:
        self.overlaps = 0
        self._thread: int | None = None
        self._open = _EMPTY
        self._slow: Nester | None = None
        self._fed: Nester | None = None
        self._known: Ints = np.empty(0, np.int64)

    def add(self, first_id: int, threads: Ints, starts: Ints, durations: Ints, kinds: Ints) -> tuple[Ints, Ints]:
        """Parents (-1: none) and depths (-1: not nested) of the next events; the one at position p has id `first_id + p`."""
        parents = np.full(len(starts), -1, np.int64)
        depths = np.full(len(starts), -1, np.int64)
        nested = np.flatnonzero(kinds != SKIP)
        if not len(nested):
            return parents, depths
        events = Slice(starts[nested], starts[nested] + durations[nested], kinds[nested], nested + first_id)
        owner = threads[nested]
        cuts = np.flatnonzero(np.diff(owner)) + 1
        for begin, stop in zip([0, *cuts], [*cuts, len(nested)], strict=True):
            self._enter(int(owner[begin]))
            piece = events.take(np.arange(begin, stop))
            parents[nested[begin:stop]], depths[nested[begin:stop]] = self._nest(piece)
        return parents, depths

    def _enter(self, thread: int) -> None:
        if thread != self._thread:
            self._count_overlaps()
            self._thread, self._open, self._slow = thread, _EMPTY, None

    def finish(self) -> None:
        """Complete the counts after the last batch."""
        self._count_overlaps()

    def _count_overlaps(self) -> None:
        if self._slow is not None:
            self.overlaps += self._slow.overlaps
            self._slow = None

    def _nest(self, piece: Slice) -> tuple[Ints, Ints]:
        if self._slow is None:
            events = piece.after(self._open)
            found = _count(events)
            if found is not None:
                skip = len(self._open.start)
                self._open = events.take(events.end > events.start[-1])
                return found[0][skip:], found[1][skip:]
            self._slow = Nester()
            self._feed(self._slow, self._open)
        return self._feed(self._slow, piece)

    def _feed(self, nester: Nester, piece: Slice) -> tuple[Ints, Ints]:
        """Parents and depths by the Nester, which numbers events without gaps: its ids are mapped to ours."""
        if nester is not self._fed:
            self._fed, self._known = nester, np.empty(0, np.int64)
        first = len(self._known)
        self._known = np.concatenate([self._known, piece.identity])
        count = len(piece.start)
        answer = nester.add(first, [0] * count, piece.start.tolist(), (piece.end - piece.start).tolist(), piece.kind.tolist())
        parents, depths = np.array(answer.parents, np.int64), np.array(answer.depths, np.int64)
        return np.where(parents >= 0, self._known[parents], -1), depths


def _count(events: Slice) -> tuple[Ints, Ints] | None:
    """Parents and depths where events only hold one another or lie apart, else None."""
    lasting = np.flatnonzero(events.end > events.start)
    start, end = events.start[lasting], events.end[lasting]
    count = len(lasting)
    ended = np.sort(end)
    # Before an event come those of smaller position; all that ended by its start are among them.
    depth = np.arange(count) - np.searchsorted(ended, start, "right")
    order = np.argsort(depth.astype(np.int32), kind="stable")
    keys = depth[order] * (count + 1) + order

    def parent(level: Ints, position: Ints) -> Ints:
        place = np.searchsorted(keys, (level - 1) * (count + 1) + position) - 1
        return np.where(level > 0, order[np.maximum(place, 0)], -1) if count else np.full(len(level), -1, np.int64)

    holder = parent(depth, np.arange(count))
    held = holder >= 0
    if (end[held] > end[holder[held]]).any():
        return None
    parents = np.full(len(events.start), -1, np.int64)
    depths = np.zeros(len(events.start), np.int64)
    parents[lasting] = np.where(held, events.identity[lasting[np.maximum(holder, 0)]], -1) if count else -1
    depths[lasting] = depth
    instant = np.flatnonzero(events.end <= events.start)
    if len(instant):
        at = events.start[instant]
        before = np.searchsorted(start, at, "right")
        level = before - np.searchsorted(ended, at, "right")
        around = parent(level, before)
        parents[instant] = np.where(around >= 0, events.identity[lasting[np.maximum(around, 0)]], -1) if count else -1
        depths[instant] = level
    return parents, depths
