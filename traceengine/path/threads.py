"""Each host thread as a sequence of intervals, each owned by its innermost event, and what those owners stand for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from traceengine.names import Names
from traceengine.path.timeline import WORK_KINDS, BoolArray, Codes, HostEvents, IntArray

RANGE_KINDS = frozenset({"annotation", "python"})

PHASES = frozenset({"forward", "backward", "optimizer_step"})
"""Ranges that stand for arithmetic when the capture holds neither operators nor device work."""


@dataclass(frozen=True)
class ThreadIntervals:
    """Intervals of all threads, sorted by (thread, time). Interval i lasts from `time[i]` to `time[i + 1]`.

    `owner[i]` is the innermost event, -1 where no event covers the thread. Thread t has the intervals
    `first[t] .. first[t + 1] - 1`; the last one of each thread is open and has owner -1.
    """

    time: IntArray
    owner: IntArray
    first: IntArray


@dataclass(frozen=True)
class Occupied:
    """Maximal stretches in which a thread is inside work or inside a range with a cause. Layout as ThreadIntervals."""

    start: IntArray
    end: IntArray
    first: IntArray


@dataclass(frozen=True)
class Ancestry:
    """What the innermost event of a moment is part of; arrays by host row, -1 for none."""

    work: IntArray
    """Nearest event, itself included, that is work."""
    cause: IntArray
    """Outermost event, itself included, whose name has a cause: what runs inside a data wait is detail of it."""
    scope: IntArray
    """Nearest annotation or Python frame, itself included, that is not a step marker."""
    annotated: BoolArray
    """True inside an annotation that is not a step marker."""
    phase: BoolArray
    """True inside a range that is arithmetic as a whole: forward, backward, optimizer."""


def by_depth(depth: IntArray) -> list[IntArray]:
    """Rows grouped by depth, outermost first."""
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(int(depth.max(initial=-1)) + 2))
    return [order[low:high] for low, high in pairwise(bounds.tolist())]


def inherit_nearest(own: IntArray, parent: IntArray, levels: list[IntArray]) -> IntArray:
    """`own` where it is set (>= 0), else the parent's value."""
    result = own.copy()
    for rows in levels[1:]:
        result[rows] = np.where(result[rows] >= 0, result[rows], result[parent[rows]])
    return result


def inherit_outermost(own: IntArray, parent: IntArray, levels: list[IntArray]) -> IntArray:
    """The parent's value where it has one, else `own`."""
    result = own.copy()
    for rows in levels[1:]:
        above = result[parent[rows]]
        result[rows] = np.where(above >= 0, above, result[rows])
    return result


def cause_codes(meaning: Codes, names: Names) -> Codes:
    """Cause of each row's meaning."""
    causes = names.causes()
    values = tuple(sorted(set(causes.values())))
    index = {value: code for code, value in enumerate(values)}
    table = np.array([index[causes[m]] if m in causes else -1 for m in meaning.values] + [-1], dtype=np.int64)
    return Codes(table[meaning.code], values)


def ancestry(host: HostEvents, causes: Codes) -> Ancestry:
    """Compute `Ancestry`, one pass per nesting level."""
    rows = np.arange(len(host), dtype=np.int64)
    levels = by_depth(host.depth)
    is_work = host.kind.isin(WORK_KINDS)
    is_step = host.meaning.isin({"step"})
    is_range = host.kind.isin(RANGE_KINDS) & ~is_step
    is_annotation = host.kind.isin({"annotation"}) & ~is_step
    none = np.full(len(host), -1, np.int64)
    return Ancestry(
        inherit_nearest(np.where(is_work, rows, none), host.parent, levels),
        inherit_outermost(np.where(causes.code >= 0, rows, none), host.parent, levels),
        inherit_nearest(np.where(is_range, rows, none), host.parent, levels),
        inherit_nearest(np.where(is_annotation, rows, none), host.parent, levels) >= 0,
        inherit_nearest(np.where(is_annotation & host.meaning.isin(PHASES), rows, none), host.parent, levels) >= 0,
    )


def flatten(host: HostEvents, thread_count: int) -> ThreadIntervals:
    """Innermost owner over time: an event's start hands the thread to it, its end hands it back to its parent."""
    rows = np.flatnonzero(host.end > host.start)
    count = len(rows)
    thread = np.concatenate([host.thread[rows], host.thread[rows]])
    time = np.concatenate([host.start[rows], host.end[rows]])
    owner = np.concatenate([rows, host.parent[rows]])
    # At one moment: ends first, inner before outer; then starts, outer before inner. The last one wins.
    rank = np.concatenate([host.depth[rows], -host.depth[rows] - 1])
    rank[:count] += 1
    order = np.lexsort((rank, time, thread))
    thread, time, owner = thread[order], time[order], owner[order]
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = (thread[1:] != thread[:-1]) | (time[1:] != time[:-1])
    thread, time, owner = thread[last], time[last], owner[last]
    return ThreadIntervals(time, owner, np.searchsorted(thread, np.arange(thread_count + 1)).astype(np.int64))


def occupied(intervals: ThreadIntervals, tree: Ancestry) -> Occupied:
    """Merge the intervals in which the thread is inside work or a caused range."""
    owner = intervals.owner
    busy = np.zeros(len(owner) + 1, dtype=np.bool_)
    has = owner >= 0
    busy[:-1][has] = (tree.work[owner[has]] >= 0) | (tree.cause[owner[has]] >= 0)
    # The last interval of a thread is open and not busy, so no stretch crosses threads.
    previous = np.concatenate([[False], busy[:-1]])
    starts, ends = np.flatnonzero(busy & ~previous), np.flatnonzero(~busy & previous)
    time = intervals.time
    return Occupied(time[starts], time[ends], np.searchsorted(starts, intervals.first).astype(np.int64))
