"""Segments of a path as columns: what the walk emits one by one, and whole stretches of host intervals at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from traceengine.path.context import Context
from traceengine.path.timeline import BoolArray, Codes, IntArray

MEASURED, ESTIMATED = "measured", "estimated"


class Segment(NamedTuple):
    """A stretch of the path. `thread` or `stream` is its resource (-1: not that one; both -1: unknown).

    `scope` is the host row of the range around it, -1 for none.
    """

    start: int
    end: int
    thread: int
    stream: int
    cause: str
    detail: str
    event_id: int
    scope: int
    edge: str
    state: str


@dataclass(frozen=True)
class Segments:
    """All segments of a path in time order; columns as in Segment."""

    start: IntArray
    end: IntArray
    thread: IntArray
    stream: IntArray
    cause: Codes
    detail: Codes
    event_id: IntArray
    scope: IntArray
    edge: Codes
    state: Codes

    def __len__(self) -> int:
        return len(self.start)

    def __iter__(self) -> Iterator[Segment]:
        columns = (getattr(self, name) for name in Segment._fields)
        lists = ((column.tolist() if isinstance(column, np.ndarray) else _texts(column)) for column in columns)
        return map(Segment._make, zip(*lists, strict=True))

    def take(self, rows: IntArray) -> Segments:
        """A selection of rows, in the given order."""
        return Segments(*(column.take(rows) for column in (getattr(self, name) for name in Segment._fields)))


def _texts(codes: Codes) -> list[str]:
    return [codes.values[code] for code in codes.code.tolist()]


class Stretch(NamedTuple):
    """Intervals `low` to `high` of ThreadIntervals, one after another on one thread, up to the moment `end`.

    `edge` is why the path came to the last of them; to the others it came along the thread.
    """

    low: int
    high: int
    thread: int
    end: int
    edge: str


def of_list(segments: Sequence[Segment]) -> Segments:
    """Segments from single ones."""
    columns = list(zip(*segments, strict=True)) or [()] * len(Segment._fields)
    named = dict(zip(Segment._fields, columns, strict=True))
    made: dict[str, Any] = {name: _coded(text) if name in _TEXTS else np.array(text, dtype=np.int64) for name, text in named.items()}
    return Segments(**made)


_TEXTS = frozenset({"cause", "detail", "edge", "state"})


def _coded(texts: Sequence[str]) -> Codes:
    index: dict[str, int] = {}
    return Codes(np.array([index.setdefault(text, len(index)) for text in texts], dtype=np.int64), tuple(index))


class HostWork:
    """Cause and name of work on host threads, for many intervals at once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        names = (*context.causes.values, "compute", "host_bound", *context.copy_of_call.values())
        self._causes = tuple(dict.fromkeys(names))
        self._code = {cause: code for code, cause in enumerate(self._causes)}
        self._copy = np.full(len(context.timeline.host) + 1, -1, np.int64)
        for row, cause in context.copy_of_call.items():
            self._copy[row] = self._code[cause]

    def segments(self, stretches: Sequence[Stretch], start: int) -> Segments:
        """One segment an interval; `start` is where the window begins."""
        if not stretches:
            return of_list([])
        intervals, host, tree = self._context.intervals, self._context.timeline.host, self._context.tree
        low, high, thread, end = (np.array([getattr(part, name) for part in stretches], dtype=np.int64) for name in Stretch._fields[:4])
        count = high - low + 1
        last = np.cumsum(count) - 1
        index = np.repeat(low - (last - count + 1), count) + np.arange(int(last[-1]) + 1)
        begin, finish = np.maximum(intervals.time[index], start), intervals.time[index + 1]
        finish[last] = end
        owner = intervals.owner[index]
        work = tree.work[owner]
        edges = _coded([part.edge for part in stretches])
        edge = np.full(len(index), len(edges.values), np.int64)
        edge[last] = edges.code
        inferred = np.array([value == "inferred" for value in (*edges.values, "host")], dtype=np.bool_)[edge]
        names = Codes(host.name.code[np.where(work >= 0, work, owner)], (*host.name.values, ""))
        return Segments(
            begin,
            finish,
            np.repeat(thread, count),
            np.full(len(index), -1, np.int64),
            Codes(self._cause(owner, work, finish - begin), self._causes),
            Codes(np.where(names.code < 0, len(host.name.values), names.code), names.values),
            host.event_id[owner],
            tree.scope[owner],
            Codes(edge, (*edges.values, "host")),
            Codes(inferred.astype(np.int64), (MEASURED, ESTIMATED)),
        )

    def _cause(self, owner: IntArray, work: IntArray, length: IntArray) -> IntArray:
        """As Walk gives it to a single interval: the outermost caused event's, a copy's, else arithmetic or dispatch."""
        context = self._context
        caused = context.tree.cause[owner]
        own = np.where(caused >= 0, context.causes.code[caused], -1)
        translate = np.array([*(self._code[value] for value in context.causes.values), -1], dtype=np.int64)
        copy = self._copy[work]
        arithmetic = (length >= context.parameters.tiny_op_ns) & (len(context.timeline.device) == 0)
        plain = np.where(arithmetic, self._code["compute"], self._code["host_bound"])
        moved = (copy >= 0) & (copy != self._code["compute"])
        return np.where(own >= 0, translate[own], np.where(moved, copy, plain))


def join(parts: Sequence[Segments]) -> Segments:
    """All parts as one path, in time order."""
    columns: dict[str, Any] = {}
    for name in Segment._fields:
        values = [getattr(part, name) for part in parts]
        columns[name] = _join_codes(values) if name in _TEXTS else np.concatenate(values)
    joined = Segments(**columns)
    return joined.take(np.argsort(joined.start, kind="stable"))


def _join_codes(parts: Sequence[Codes]) -> Codes:
    index: dict[str, int] = {}
    codes = []
    for part in parts:
        table = np.array([index.setdefault(value, len(index)) for value in part.values], dtype=np.int64)
        codes.append(table[part.code] if len(table) else part.code)
    return Codes(np.concatenate(codes), tuple(index))


def plain_runs(context: Context, held: BoolArray) -> tuple[BoolArray, IntArray]:
    """Which intervals of the threads are plain work, and for each the first of the plain ones right before it on its thread.

    Plain means: inside work or a caused range, in no call that waits for the device, and without a record of overhead (`held`).
    """
    intervals, tree = context.intervals, context.tree
    owner = intervals.owner
    plain = owner >= 0
    rows = owner[plain]
    plain[plain] = ((tree.work[rows] >= 0) | (tree.cause[rows] >= 0)) & (context.blocked_in[rows] < 0) & ~held[plain]
    floor = np.where(plain, 0, np.arange(1, len(owner) + 1))
    first = intervals.first[intervals.first < len(owner)]
    floor[first] = np.maximum(floor[first], first)
    return plain, np.maximum.accumulate(floor) if len(owner) else floor
