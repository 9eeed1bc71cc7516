"""What a replayed run waits for: the time per cause along its own critical path."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from traceengine.path.graph import ROOT, Graph
from traceengine.path.timeline import IntArray

UNEXPLAINED = "unknown"


def next_limit(graph: Graph, values: Sequence[int]) -> str | None:
    """Class id with the most time on the path that ends last; UNEXPLAINED where that path hangs on recorded times. None without nodes."""
    spent = path_time(graph, values)
    return max(sorted(spent), key=lambda cause: spent[cause], default=None)


def path_time(graph: Graph, values: Sequence[int]) -> dict[str, int]:
    """Time per cause along the binding edges from the last node back to the start.

    A node that keeps its recorded time because the trace does not show what it waited for ends the path: the time before it is
    UNEXPLAINED.
    """
    if len(values) < 2:
        return {}
    value = np.array(values, dtype=np.int64)
    ready = value[graph.pred] + graph.lag
    edge = ready.argmax(axis=1)
    every = np.arange(len(edge))
    before = graph.pred[every, edge].tolist()
    path, at = [], int(value[1:].argmax()) + 1
    while at != ROOT:
        path.append(at - 1)
        at = before[at - 1]
    rows = np.array(path, dtype=np.int64)
    return {cause: ns for cause, ns in _times(graph, rows, edge[rows]).items() if ns > 0}


def _times(graph: Graph, rows: IntArray, edge: IntArray) -> dict[str, int]:
    lag = np.maximum(graph.lag[rows, edge], 0)
    operation = graph.is_operation[rows]
    own = ~operation & (edge == 0)
    times = {cause: int(spent[rows[own]].sum()) for cause, spent in graph.active.items()}
    from_root = graph.pred[rows, edge] == ROOT
    kept = from_root & (operation | (edge == 1)) & (graph.cause[rows] != "data_wait")
    times[UNEXPLAINED] = int(lag[kept].sum())
    launched = operation & (edge == 1) & ~kept
    times["host_bound"] = times.get("host_bound", 0) + int(lag[launched].sum())
    # What is left: durations, and the gaps before what waited for other operations.
    rest = np.where(kept | launched | own, 0, lag) + graph.dur[rows]
    for cause in np.unique(graph.cause[rows]).tolist():
        name = cause or "host_bound"
        times[name] = times.get(name, 0) + int(rest[graph.cause[rows] == cause].sum())
    return times
