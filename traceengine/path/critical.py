"""Critical path of one rank, from its tables to its tables."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from traceengine.names import Names
from traceengine.path.parameters import PathParameters
from traceengine.path.result import path_table, step_table
from traceengine.path.steps import Steps, find_steps
from traceengine.path.timeline import Timeline, load_timeline
from traceengine.path.walk import build_context, walk
from traceengine.run import Run


@dataclass(frozen=True)
class RankPath:
    """The path of one rank."""

    rank: int
    steps: Steps
    step_rows: pa.Table
    path_rows: pa.Table


def rank_path(run: Run, rank: int, names: Names, parameters: PathParameters | None = None) -> RankPath:
    """Compute steps and critical path of one rank."""
    timeline = load_timeline(run, rank)
    truncated = bool(any(run.read("source", rank, ["truncated"]).column("truncated").to_pylist()))
    return path_of(timeline, names, truncated, parameters or PathParameters())


def path_of(timeline: Timeline, names: Names, truncated: bool, parameters: PathParameters) -> RankPath:
    """The same for a loaded timeline."""
    steps = find_steps(timeline, truncated)
    segments = walk(build_context(timeline, names, parameters), steps.window)
    return RankPath(timeline.rank, steps, step_table(timeline.rank, steps), path_table(timeline, steps, segments))
