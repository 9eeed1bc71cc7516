"""Replay: how long the window would last without one cause.

The recorded run becomes a graph. Nodes are points on host threads (a launch, the return of a wait, a hand-over, a step's
start) and device operations; the value of a point is its time, that of an operation its end. Every node is

    value = max over its predecessors of (value of predecessor + lag) + duration

Host lags are the thread's own active time between two points: time in which it was blocked by the device or by another
thread is no lag but an edge to what it waited for. Device lags are the recorded gap on the edge that bound the start, and
the smallest usual gap on the others. So the replay with nothing removed returns the recorded time of every node, and
removing a cause lets the next limit take over. Costs are linear in nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceengine.path.context import Context
from traceengine.path.graph import Graph, build_graph
from traceengine.path.steps import Steps
from traceengine.path.timeline import IntArray

MAX_DRIFT_SHARE = 0.01
"""A replay with nothing removed that misses the recorded end by more than this share of the window proves nothing."""


@dataclass(frozen=True)
class WhatIf:
    """Times of the window and of each step with one set of causes removed. Steps as in Steps.steps."""

    causes: tuple[str, ...]
    makespan: int
    without: int
    step_dur: tuple[int, ...]
    step_without: tuple[int, ...]


@dataclass(frozen=True)
class Replays:
    """All what-ifs of a rank; `drift` is what the replay with nothing removed missed the recorded end by."""

    drift: int
    what_ifs: tuple[WhatIf, ...]
    trusted: bool


def run_graph(graph: Graph, lag: npt.NDArray[np.int64], dur: IntArray, edges: npt.NDArray[np.bool_]) -> list[int]:
    """Values of all nodes in one pass; `edges[:, 1]` False drops a node's second predecessor."""
    never = -(1 << 60)
    second = np.where(edges, lag[:, 1], never)
    values = [0] * (len(graph.pred) + 1)
    columns = (graph.pred[:, 0], lag[:, 0], graph.pred[:, 1], second, graph.pred[:, 2], lag[:, 2], dur)
    for index, (p, a, q, b, r, c, length) in enumerate(zip(*(column.tolist() for column in columns), strict=True), start=1):
        best = values[p] + a
        other = values[q] + b
        if other > best:
            best = other
        other = values[r] + c
        if other > best:
            best = other
        values[index] = best + length
    return values


def _ends(graph: Graph, values: Sequence[int]) -> tuple[int, list[int]]:
    """End of the window, and of each step, from node values."""
    array = np.array(values[1:], dtype=np.int64)
    step_ends = np.full(graph.steps, np.iinfo(np.int64).min, np.int64)
    counted = graph.step >= 0
    np.maximum.at(step_ends, graph.step[counted], array[counted])
    step_ends = np.maximum.accumulate(step_ends) if graph.steps else step_ends
    return int(array.max(initial=0)), step_ends.tolist()


def replay(context: Context, steps: Steps, combinations: Sequence[tuple[str, ...]]) -> Replays:
    """Replay the window once as recorded and once for each combination of causes."""
    if steps.window.end <= steps.window.start:
        return Replays(0, (), False)
    graph = build_graph(context, steps)
    everything = np.ones(len(graph.pred), np.bool_)
    base, base_steps = _ends(graph, run_graph(graph, graph.lag, graph.dur, everything))
    span = graph.end
    drift = base - span
    what_ifs = []
    for causes in combinations:
        lag, dur, edges = graph.without(frozenset(causes))
        end, ends = _ends(graph, run_graph(graph, lag, dur, edges))
        what_ifs.append(WhatIf(causes, base, end, _durations(base_steps), _durations(ends)))
    return Replays(drift, tuple(what_ifs), abs(drift) <= MAX_DRIFT_SHARE * max(span, 1))


def _durations(ends: list[int]) -> tuple[int, ...]:
    """Step durations from ends relative to the window's start."""
    return tuple(np.diff(np.array([0, *ends], dtype=np.int64)).tolist())
