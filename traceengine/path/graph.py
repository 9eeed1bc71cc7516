"""The dependency graph of a rank's window; see replay.py for what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from traceengine.path.context import Context
from traceengine.path.hosttime import HostTime, Points, build_host_time
from traceengine.path.loader import FROM_START, NO_LIMIT
from traceengine.path.steps import Steps
from traceengine.path.timeline import BoolArray, IntArray

NEVER = -(1 << 60)
ROOT = 0
"""Predecessor number of the window's start; node i has number i + 1."""


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which every predecessor comes first; times relative to the window's start.

    `pred` and `lag` have shape (nodes, 3): the thread's or stream's previous node; what a host point waited for, or the
    launch of an operation; an operation of another stream. A missing predecessor is ROOT with lag NEVER.
    """

    pred: npt.NDArray[np.int64]
    lag: npt.NDArray[np.int64]
    dur: IntArray
    cause: npt.NDArray[np.str_]
    """Cause of an operation, or of the blocking call behind a point that waits; empty otherwise."""
    step: IntArray
    """Index of the step that the node's value belongs to; -1 for none."""
    steps: int
    end: int
    is_operation: BoolArray
    launch_bound: BoolArray
    """Operations whose start was bound by their launch: their launch lag is the host's."""
    active: Mapping[str, IntArray]
    """By cause: how much of the first lag of each node is the thread's own time with that cause."""
    row: IntArray
    """Device row of an operation; of a point that waits, of the operation that it waits for; -1 for none."""
    call: IntArray
    """Host row of the call behind a point, see `Points.call`; -1 for none."""
    thread: IntArray
    """Host thread of a point; -1 for none."""
    within: IntArray
    """Index of the step that the node's own time belongs to: the point's, or the launch of the operation's; -1 for none."""

    def without(self, causes: frozenset[str], where: BoolArray | None = None) -> Graph:
        """The graph with the time of `causes` removed, at the nodes of `where` only if given."""
        chosen = np.ones(len(self.pred), np.bool_) if where is None else where
        lag, active = self.lag.copy(), dict(self.active)
        for cause in causes & self.active.keys():
            lag[:, 0] -= np.where(chosen, active[cause], 0)
            active[cause] = np.where(chosen, 0, active[cause])
        removed = chosen & np.isin(self.cause, list(causes))
        dur = np.where(self.is_operation & removed, 0, self.dur)
        lag[removed & ~self.is_operation, 1] = NEVER
        if "host_bound" in causes:
            lag[:, 1] = np.where(chosen & self.launch_bound, np.minimum(lag[:, 1], 0), lag[:, 1])
        return replace(self, lag=lag, dur=dur, active=active)

    def numbers(self, chosen: BoolArray) -> IntArray:
        """Numbers of the chosen nodes, in order."""
        return np.flatnonzero(chosen) + 1

    def insert(self, before: IntArray, dur: IntArray) -> tuple[Graph, IntArray, IntArray]:
        """The graph with a new node of length `dur` right before each node of `before` (numbers, rising).

        Several before one node keep their order. Returns the graph, the new number of each old number, and the numbers of the
        new nodes; those have no predecessors yet.
        """
        old, new = len(self.pred), len(before)
        order = np.argsort(np.concatenate([2 * np.arange(1, old + 1), 2 * before - 1]), kind="stable")
        number = np.empty(old + new + 1, np.int64)
        number[order + 1] = np.arange(1, old + new + 1)
        number[ROOT] = ROOT

        def spread(values: npt.NDArray[Any], fill: Any) -> npt.NDArray[Any]:
            added = np.full((new, *values.shape[1:]), fill, values.dtype)
            return np.concatenate([values, added])[order]

        columns: dict[str, Any] = {name: spread(getattr(self, name), fill) for name, fill in _FILLS.items()}
        graph = replace(
            self,
            pred=number[spread(self.pred, ROOT)],
            dur=np.concatenate([self.dur, dur])[order],
            active={name: spread(spent, 0) for name, spent in self.active.items()},
            **columns,
        )
        return graph, number[: old + 1], number[old + 1 :]


_FILLS: dict[str, Any] = {
    "lag": NEVER,
    "cause": "",
    "step": -1,
    "is_operation": False,
    "launch_bound": False,
    "row": -1,
    "call": -1,
    "thread": -1,
    "within": -1,
}
"""Columns of an inserted node."""


def _operations(context: Context, steps: Steps) -> IntArray:
    """Device rows inside the window: what had not ended at its start and started before its end."""
    device, window = context.timeline.device, steps.window
    return np.flatnonzero((device.end > window.start) & (device.start < window.end) & (device.end > device.start))


def _numbers(size: int, rows: IntArray, numbers: IntArray) -> IntArray:
    result = np.full(size, -1, np.int64)
    result[rows] = numbers
    return result


def build_graph(context: Context, steps: Steps) -> Graph:
    """Build the graph of a rank's window."""
    rows = _operations(context, steps)
    host = build_host_time(context, steps, rows)
    points, device = host.points, context.timeline.device
    total = len(points.time) + len(rows)
    # Points before operations at the same moment: an operation may start the moment its launch issued it.
    moment = np.concatenate([points.time, device.start[rows]])
    rank = np.concatenate([points.priority, np.full(len(rows), 9, np.int64)])
    order = np.lexsort((np.concatenate([np.arange(len(points.time)), rows]), rank, moment))
    number = np.empty(total, np.int64)
    number[order] = np.arange(1, total + 1)
    point_number, row_number = number[: len(points.time)], _numbers(len(device), rows, number[len(points.time) :])
    pred = np.zeros((total, 3), np.int64)
    lag = np.full((total, 3), NEVER, np.int64)
    cause = np.full(total, "", dtype="U16")
    cause[point_number - 1] = points.cause
    active = {name: _scatter(total, point_number, spent, 0) for name, spent in host.active.items()}
    _host_edges(host, point_number, row_number, pred, lag, context, steps.window.start)
    _arrival_edges(host, point_number, pred, lag, cause, active, steps.window.start)
    launch_bound = _device_edges(context, steps, rows, point_number, row_number, host, pred, lag)
    operation = np.zeros(total, np.bool_)
    operation[row_number[rows] - 1] = True
    start = steps.window.start
    dur = np.zeros(total, np.int64)
    dur[row_number[rows] - 1] = device.end[rows] - np.maximum(device.start[rows], start)
    cause[row_number[rows] - 1] = np.array(context.device_cause, dtype="U16")[rows] if len(rows) else cause[:0]
    row = _scatter(total, point_number, points.awaits_row, -1)
    row[row_number[rows] - 1] = rows
    return Graph(
        pred,
        lag,
        dur,
        cause,
        _node_steps(context, steps, rows, points, point_number, row_number, total),
        len(steps.steps),
        steps.window.end - start,
        operation,
        launch_bound,
        active,
        row,
        _scatter(total, point_number, points.call, -1),
        _scatter(total, point_number, points.thread, -1),
        _nodes_within(context, steps, rows, points, point_number, row_number, total),
    )


def _at(values: IntArray, index: IntArray, missing: int) -> IntArray:
    """`values[index]`, and `missing` where the index is -1."""
    return np.where(index >= 0, values[np.maximum(index, 0)], missing) if len(values) else np.full(len(index), missing, np.int64)


def _scatter(total: int, numbers: IntArray, values: IntArray, fill: int) -> IntArray:
    result = np.full(total, fill, np.int64)
    result[numbers - 1] = values
    return result


def _host_edges(
    host: HostTime,
    number: IntArray,
    row_number: IntArray,
    pred: npt.NDArray[np.int64],
    lag: npt.NDArray[np.int64],
    context: Context,
    origin: int,
) -> None:
    points, device = host.points, context.timeline.device
    index = number - 1
    pred[index, 0] = _at(number, points.previous, ROOT)
    lag[index, 0] = host.lag
    waits = points.awaits_row >= 0
    known = waits & (_at(row_number, points.awaits_row, -1) > 0)
    target = index[known]
    awaited = points.awaits_row[known]
    pred[target, 1] = row_number[awaited]
    lag[target, 1] = points.time[known] - device.end[awaited]
    hands = points.awaits_point >= 0
    pred[index[hands], 1] = number[points.awaits_point[hands]]
    lag[index[hands], 1] = 0
    # A point that waits for something before the window keeps its recorded time.
    lost = waits & ~known
    pred[index[lost], 1] = ROOT
    lag[index[lost], 1] = points.time[lost] - origin


def _arrival_edges(
    host: HostTime,
    number: IntArray,
    pred: npt.NDArray[np.int64],
    lag: npt.NDArray[np.int64],
    cause: npt.NDArray[np.str_],
    active: Mapping[str, IntArray],
    origin: int,
) -> None:
    """A batch that the loop waited for comes no earlier than the workers make it; that part of the wait is no time of the loop's."""
    arrivals, points = host.arrivals, host.points
    limited = np.flatnonzero(arrivals.source != NO_LIMIT)
    if not len(limited):
        return
    source = arrivals.source[limited]
    index = number[host.arrival_point[limited]] - 1
    from_start = source == FROM_START
    pred[index, 1] = np.where(from_start, ROOT, number[host.arrival_point[np.maximum(source, 0)]])
    lag[index, 1] = np.where(from_start, points.time[host.arrival_point[limited]] - origin, arrivals.lag[limited])
    cause[index] = "data_wait"
    if "data_wait" in active:
        held = np.minimum(arrivals.held[limited], active["data_wait"][index])
        lag[index, 0] -= held
        active["data_wait"][index] -= held


def _device_edges(
    context: Context,
    steps: Steps,
    rows: IntArray,
    point_number: IntArray,
    row_number: IntArray,
    host: HostTime,
    pred: npt.NDArray[np.int64],
    lag: npt.NDArray[np.int64],
) -> BoolArray:
    """Fill in the predecessors of operations; returns which starts were bound by their launch."""
    device, origin, parameters = context.timeline.device, steps.window.start, context.parameters
    start = np.maximum(device.start[rows], origin)
    node = row_number[rows] - 1
    same = np.zeros(len(rows), np.bool_)
    same[1:] = device.stream[rows[1:]] == device.stream[rows[:-1]]
    previous = np.where(same, np.roll(rows, 1), -1)
    other = _other_predecessors(context, rows, previous)
    ready = np.full((len(rows), 3), NEVER, np.int64)
    ready[:, 0] = np.minimum(_at(device.end, previous, NEVER), start)
    point = host.launch_point[rows]
    ready[:, 1] = _at(host.points.time, point, NEVER)
    before_window = (point < 0) & (device.launch[rows] >= 0)
    ready[:, 2] = np.minimum(_at(device.end, other, NEVER), start)
    usual = np.array([parameters.usual_stream_lag_ns, parameters.usual_launch_lag_ns, parameters.usual_stream_lag_ns])
    slack = start[:, None] - ready
    binding = ready.argmax(axis=1)
    lags = np.where(np.arange(3) == binding[:, None], slack, np.minimum(slack, usual))
    nothing = (ready == NEVER).all(axis=1)
    numbers = np.stack([_at(row_number, previous, ROOT), _at(point_number, point, ROOT), _at(row_number, other, ROOT)], axis=1)
    unusable = (ready == NEVER) | (numbers < 0)
    pred[node] = np.where(unusable, ROOT, numbers)
    lag[node] = np.where(unusable, NEVER, lags)
    # Nothing in the window explains the start, or it began before: it keeps its recorded time.
    fixed = nothing | unusable.all(axis=1) | (device.start[rows] < origin) | (before_window & unusable[:, [0, 2]].all(axis=1))
    lag[node[fixed], 0] = start[fixed] - origin
    pred[node[fixed], 0] = ROOT
    launch_bound = np.zeros(len(pred), np.bool_)
    launch_bound[node] = (binding == 1) & ~fixed
    return launch_bound


def _other_predecessors(context: Context, rows: IntArray, previous: IntArray) -> IntArray:
    """Operation of another stream that each of `rows` waited for: a recorded event's, else one inferred as the walk does."""
    device, host, parameters = context.timeline.device, context.timeline.host, context.parameters
    start = device.start[rows]
    result = context.waits.event_predecessor[rows].copy()
    result[_at(device.start, result, NEVER) >= start] = -1
    launched = np.minimum(_at(host.end, device.launch[rows], -1), start)
    ready = np.maximum(_at(device.end, previous, -1), launched)
    for index in np.flatnonzero((result < 0) & (start - ready > parameters.inferred_min_gap_ns)).tolist():
        other = context.lookup.ended_just_before(int(rows[index]), int(start[index]), parameters.inferred_within_ns)
        if other >= 0 and device.end[other] > ready[index]:
            result[index] = other
    return result


def _launch_steps(context: Context, steps: Steps, rows: IntArray) -> IntArray:
    """Index of the step in which each operation was launched (or started, without a launch); -1 for before the first."""
    host, device = context.timeline.host, context.timeline.device
    starts = np.array([step.host_start for step in steps.steps], dtype=np.int64)
    launch = device.launch[rows]
    launched = np.where(launch >= 0, host.start[np.maximum(launch, 0)] if len(host) else 0, device.start[rows])
    return np.searchsorted(starts, launched, side="right").astype(np.int64) - 1


def _node_steps(
    context: Context, steps: Steps, rows: IntArray, points: Points, point_number: IntArray, row_number: IntArray, total: int
) -> IntArray:
    """A step ends when the next one's marker starts and the operations launched in it have ended."""
    result = np.full(total, -1, np.int64)
    if steps.steps:
        result[point_number - 1] = points.step
        linked = context.timeline.device.launch[rows] >= 0
        result[row_number[rows] - 1] = np.where(linked, _launch_steps(context, steps, rows), -1)
    return result


def _nodes_within(
    context: Context, steps: Steps, rows: IntArray, points: Points, point_number: IntArray, row_number: IntArray, total: int
) -> IntArray:
    """A point's own time lies before it: at a step's start it still belongs to the step before."""
    result = np.full(total, -1, np.int64)
    if steps.steps:
        starts = np.array([step.host_start for step in steps.steps], dtype=np.int64)
        result[point_number - 1] = np.searchsorted(starts, points.time, side="left") - 1
        result[row_number[rows] - 1] = _launch_steps(context, steps, rows)
    return result
