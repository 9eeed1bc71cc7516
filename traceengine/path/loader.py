"""Batches of a loader with workers: when they came, and how fast the workers made them.

A loop that waits for its workers cannot get faster than they are: with another cause removed, a batch that was waited for
still comes when it came. Only while the loop did not fetch could the workers be held up by full queues; then they could
have gone on at the pace of the other batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceengine.names import LOADING
from traceengine.path.context import Context
from traceengine.path.parameters import PathParameters
from traceengine.path.steps import Window
from traceengine.path.timeline import BoolArray, IntArray, Timeline

NO_LIMIT = -1
FROM_START = -2
"""Sources of an arrival besides a batch: nothing is known, or the window's start."""


@dataclass(frozen=True)
class Arrivals:
    """Batches by loader call, in time order.

    `source` is the earlier batch after whose arrival (ns) `lag` this one could come at the earliest, or NO_LIMIT or
    FROM_START. `held` is the part of the call that is nothing but this limit; where the workers may have been held up it is 0,
    and the call keeps its recorded length.
    """

    source: IntArray
    lag: IntArray
    held: IntArray

    @classmethod
    def none(cls) -> Arrivals:
        """No batches."""
        empty = np.zeros(0, np.int64)
        return cls(empty, empty, empty)


def loader_calls(context: Context, window: Window) -> IntArray:
    """Host rows of the loop's thread that fetch a batch and end within the window, outermost ones, in time order."""
    host = context.timeline.host
    rows = np.flatnonzero(host.meaning.isin(LOADING) & (host.thread == window.thread) & (host.end > host.start))
    inside = (host.end[rows] > window.start) & (host.end[rows] <= window.end)
    calls: IntArray = rows[inside & (context.tree.cause[rows] == rows)]
    return calls


def made_by_workers(timeline: Timeline, calls: IntArray) -> BoolArray:
    """Which of the calls fetch from worker processes."""
    by_workers: BoolArray = timeline.host.meaning.isin({"data_wait_workers"})[calls]
    return by_workers


def arrivals_of(timeline: Timeline, calls: IntArray, parameters: PathParameters) -> Arrivals:
    """What limits the arrival of each batch."""
    count = len(calls)
    source, lag, held = np.full(count, NO_LIMIT, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    if count < 3 or not made_by_workers(timeline, calls).all():
        return Arrivals(source, lag, held)
    end = timeline.host.end[calls]
    took = end - timeline.host.start[calls]
    least = max(parameters.loader_wait_ns, parameters.loader_wait_share * int(end[-1] - end[0]) / (count - 1))
    waited = np.flatnonzero(took >= least)
    batches, between = np.diff(waited), np.diff(end[waited])
    pace = _pace(batches, between)
    if pace is None:
        return Arrivals(source, lag, held)
    if waited[0] == 0:
        source[0], held[0] = FROM_START, took[0]
    later = waited[1:]
    busy = (batches == 1) | (between <= parameters.loader_pace_slack * pace * batches)
    source[later] = waited[:-1]
    lag[later] = np.where(busy, between, np.minimum(between, (pace * batches).astype(np.int64)))
    held[later] = np.where(busy, took[later], 0)
    return Arrivals(source, lag, held)


def _pace(batches: IntArray, between: IntArray) -> float | None:
    """Time that the workers need for a batch: between two that were both waited for, none between them.

    Workers that started together deliver in bursts: then between bursts of one size. None when neither is there.
    """
    single = batches == 1
    if single.any():
        return float(np.median(between[single]))
    if len(batches) >= 3 and (batches == batches[0]).all():
        return float(np.median(between / batches))
    return None
