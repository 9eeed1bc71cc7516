"""Replay: how long the window would last with one thing changed: a cause gone, or a named experiment.

The recorded run becomes a graph. Nodes are points on host threads (a launch, the return of a wait, a hand-over, a batch, a
step's start) and device operations; the value of a point is its time, that of an operation its end. Every node is

    value = max over its predecessors of (value of predecessor + lag) + duration

Host lags are the thread's own active time between two points: time in which it was blocked by the device or by another
thread is no lag but an edge to what it waited for. Device lags are the recorded gap on the edge that bound the start, and
the smallest usual gap on the others. So the replay with nothing removed returns the recorded time of every node, and
removing a cause lets the next limit take over. Costs are linear in nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceengine.path.changes import ESTIMATE, NOT_ESTIMABLE, UPPER_BOUND, Change, Scene
from traceengine.path.context import Context
from traceengine.path.graph import Graph, build_graph
from traceengine.path.limit import next_limit
from traceengine.path.steps import Steps

MAX_DRIFT_SHARE = 0.01
"""A replay with nothing removed that misses the recorded end by more than this share of the window proves nothing."""


@dataclass(frozen=True)
class WhatIf:
    """Times of the window and of each step with one set of changes. Steps as in Steps.steps.

    `without` is None, and `step_without` empty, when a change is not estimable; `reason` says why, or what the number leaves out.
    `limit` is what the changed run then waits for: a class id, or `unknown` for time that the trace does not explain.
    """

    changes: tuple[str, ...]
    makespan: int
    without: int | None
    step_dur: tuple[int, ...]
    step_without: tuple[int, ...]
    bound: str
    reason: str
    limit: str | None


@dataclass(frozen=True)
class Replays:
    """All what-ifs of a rank; `drift` is what the replay with nothing removed missed the recorded end by."""

    drift: int
    what_ifs: tuple[WhatIf, ...]
    trusted: bool


class Runner:
    """Runs graphs; columns that several graphs share are made lists of once."""

    def __init__(self) -> None:
        self._pred: npt.NDArray[np.int64] | None = None
        self._pred_lists: list[list[int]] = []

    def run(self, graph: Graph) -> list[int]:
        """Values of all nodes in one pass, by number; that of the window's start is 0."""
        if self._pred is not graph.pred:
            self._pred, self._pred_lists = graph.pred, [graph.pred[:, column].tolist() for column in range(3)]
        p, q, r = self._pred_lists
        lag = graph.lag
        values = [0] * (len(p) + 1)
        columns = zip(p, lag[:, 0].tolist(), q, lag[:, 1].tolist(), r, lag[:, 2].tolist(), graph.dur.tolist(), strict=True)
        for index, (first, a, second, b, third, c, length) in enumerate(columns, start=1):
            best = values[first] + a
            other = values[second] + b
            if other > best:
                best = other
            other = values[third] + c
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


def replay(context: Context, steps: Steps, wanted: Iterable[tuple[Change, ...]]) -> Replays:
    """Replay the window once as recorded and once for each set of changes."""
    if steps.window.end <= steps.window.start:
        return Replays(0, (), False)
    graph, runner, scene = build_graph(context, steps), Runner(), Scene(context, steps)
    base, base_ends = _ends(graph, runner.run(graph))
    drift = base - graph.end
    what_ifs = tuple(_what_if(scene, graph, runner, changes, base, _durations(base_ends)) for changes in wanted)
    return Replays(drift, what_ifs, abs(drift) <= MAX_DRIFT_SHARE * max(graph.end, 1))


def _what_if(scene: Scene, graph: Graph, runner: Runner, changes: tuple[Change, ...], base: int, step_dur: tuple[int, ...]) -> WhatIf:
    names, bounds, reasons = tuple(change.text for change in changes), [], []
    changed: Graph | None = graph
    for change in changes:
        effect = change.apply(scene, changed if changed is not None else graph)
        changed = effect.graph if changed is not None else None
        bounds.append(effect.bound)
        reasons.append(effect.reason)
    # The weakest word holds for all of them together.
    bound = max(bounds, key=(UPPER_BOUND, ESTIMATE, NOT_ESTIMABLE).index)
    weakest = [reason for reason, word in zip(reasons, bounds, strict=True) if word == bound]
    reason = weakest[0] if changed is None or len(changes) == 1 else "all of these together; see each alone"
    if changed is None:
        return WhatIf(names, base, None, step_dur, (), bound, reason, None)
    values = runner.run(changed)
    end, ends = _ends(changed, values)
    return WhatIf(names, base, end, step_dur, _durations(ends), bound, reason, next_limit(changed, values))


def _durations(ends: list[int]) -> tuple[int, ...]:
    """Step durations from ends relative to the window's start."""
    return tuple(np.diff(np.array([0, *ends], dtype=np.int64)).tolist())
