"""Critical path of one rank, from its tables to its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from traceengine.names import Names
from traceengine.path.changes import EXPERIMENTS, Change, parse_change
from traceengine.path.context import build_context
from traceengine.path.exclusive import device_clock
from traceengine.path.parameters import PathParameters
from traceengine.path.replay import Replays, replay
from traceengine.path.result import path_tables, step_table, what_if_table
from traceengine.path.steps import Steps, find_steps
from traceengine.path.timeline import Timeline, load_timeline
from traceengine.path.walk import walk
from traceengine.run import Run


@dataclass(frozen=True)
class RankPath:
    """The path of one rank."""

    rank: int
    steps: Steps
    step_rows: pa.Table
    path_rows: pa.Table
    cause_rows: pa.Table
    what_if_rows: pa.Table


def rank_path(run: Run, rank: int, names: Names, parameters: PathParameters | None = None) -> RankPath:
    """Compute steps and critical path of one rank."""
    timeline = load_timeline(run, rank)
    return path_of(timeline, names, _truncated(run, rank), parameters or PathParameters())


def rank_replays(run: Run, rank: int, names: Names, wanted: Sequence[tuple[Change, ...]]) -> tuple[Steps, Replays]:
    """Replay one rank with each set of changes."""
    timeline = load_timeline(run, rank)
    steps = find_steps(timeline, _truncated(run, rank))
    return steps, replay(build_context(timeline, names, PathParameters()), steps, wanted)


def _truncated(run: Run, rank: int) -> bool:
    return bool(any(run.read("source", rank, ["truncated"]).column("truncated").to_pylist()))


def path_of(timeline: Timeline, names: Names, truncated: bool, parameters: PathParameters) -> RankPath:
    """The same for a loaded timeline."""
    steps = find_steps(timeline, truncated)
    context = build_context(timeline, names, parameters)
    segments = walk(context, steps.window)
    clock = device_clock(timeline.device, context.device_cause)
    path_rows, cause_rows = path_tables(timeline, steps, segments, clock)
    causes = sorted({cause for cause in cause_rows.column("cause").to_pylist() if cause != "unknown"})
    changes = [*causes, *(experiment.default for experiment in EXPERIMENTS.values())]
    replays = replay(context, steps, [(parse_change(text),) for text in changes])
    what_if_rows = what_if_table(timeline.rank, steps, replays)
    return RankPath(timeline.rank, steps, step_table(timeline.rank, steps), path_rows, cause_rows, what_if_rows)
