"""Segments and steps as tables `critical_path` and `step`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from traceengine.path.exclusive import DeviceClock, exclusive_time, step_cause_table
from traceengine.path.replay import Replays
from traceengine.path.segments import Segments
from traceengine.path.steps import Steps
from traceengine.path.timeline import Codes, IntArray, Timeline, sorted_unique
from traceengine.schema import table


@dataclass(frozen=True)
class Placed:
    """Segments cut at the bounds of steps: row of each part in the segments, its times, and index of its step (-1: none)."""

    row: IntArray
    start: IntArray
    end: IntArray
    step: IntArray


def split_at_steps(segments: Segments, steps: Steps) -> Placed:
    """Give each segment the step in whose wall time it falls; a segment over a boundary is cut there."""
    bounds = np.array([step.start for step in steps.steps], dtype=np.int64)
    ends = np.array([step.end for step in steps.steps], dtype=np.int64)
    if not len(segments):
        none = np.zeros(0, np.int64)
        return Placed(none, none, none, none)
    cuts = np.concatenate([bounds, ends])
    cuts = cuts[(cuts > segments.start[0]) & (cuts < segments.end[-1])]
    start = sorted_unique(np.concatenate([segments.start, cuts]))
    row = np.searchsorted(segments.start, start, side="right").astype(np.int64) - 1
    step = np.searchsorted(bounds, start, side="right").astype(np.int64) - 1
    inside = (step >= 0) & (start < np.append(ends, 0)[step])
    return Placed(row, start, np.append(start[1:], segments.end[-1:]), np.where(inside, step, -1))


def path_tables(timeline: Timeline, steps: Steps, segments: Segments, clock: DeviceClock) -> tuple[pa.Table, pa.Table]:
    """Tables `critical_path` and `step_cause` of one rank."""
    placed = split_at_steps(segments, steps)
    parts = segments.take(placed.row)
    number = np.array([step.number for step in steps.steps] + [0], dtype=np.int64)[placed.step]
    is_operation = (parts.stream >= 0) & (parts.event_id >= 0)
    owned = exclusive_time(clock, placed.start, placed.end, is_operation, placed.step, parts.cause)
    names = timeline.host.name
    scope = np.where(parts.scope >= 0, names.code[parts.scope], -1) if len(timeline.host) else parts.scope
    columns: dict[str, Any] = {
        "rank": np.full(len(parts), timeline.rank, np.int64),
        "seq": np.arange(len(parts)),
        "step": pa.array(number, mask=placed.step < 0),
        "ts_ns": placed.start,
        "dur_ns": placed.end - placed.start,
        "hidden_ns": owned.hidden,
        "resource": _text_column(_resources(timeline, parts)),
        "cause": _text_column(parts.cause),
        "detail": _text_column(parts.detail),
        "event_id": pa.array(parts.event_id, mask=parts.event_id < 0),
        "scope": _text_column(Codes(scope, names.values)),
        "edge": _text_column(parts.edge),
        "state": _text_column(parts.state),
    }
    schema = table("critical_path").arrow
    rows = pa.Table.from_arrays([pa.array(columns[name], schema.field(name).type) for name in schema.names], schema=schema)
    return rows, step_cause_table(timeline.rank, [step.number for step in steps.steps], owned)


def _text_column(codes: Codes) -> pa.Array:
    """A coded column as text."""
    indices = pa.array(codes.code.astype(np.int32), mask=codes.code < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(codes.values, pa.string())).cast(pa.string())


def _resources(timeline: Timeline, segments: Segments) -> Codes:
    """Names of the segments' resources; only those that occur are made."""
    threads, streams = len(timeline.threads.pid), len(timeline.device.stream_number)
    code = np.where(segments.stream >= 0, segments.stream, np.where(segments.thread >= 0, streams + segments.thread, streams + threads))
    names = [timeline.device.resource(stream) for stream in range(streams)]
    names += [timeline.threads.resource(thread) for thread in range(threads)]
    return Codes(code, (*names, "unknown"))


def step_table(rank: int, steps: Steps) -> pa.Table:
    """Table `step` of one rank."""
    rows = [
        {
            "rank": rank,
            "step": step.number,
            "name": step.name,
            "ts_ns": step.start,
            "dur_ns": step.end - step.start,
            "origin": step.origin,
            "complete": step.complete,
            "host_ts_ns": step.host_start,
            "host_dur_ns": step.host_end - step.host_start,
            "device_end_ns": step.device_end,
            "launches": step.launches,
            "launches_without_device_event": step.launches_without_device_event,
            "backlog_ns": step.backlog,
        }
        for step in steps.steps
    ]
    return pa.Table.from_pylist(rows, schema=table("step").arrow)


def what_if_table(rank: int, steps: Steps, replays: Replays) -> pa.Table:
    """Table `what_if` of one rank: what is estimable. Empty when the replay does not reproduce the recording."""
    rows = []
    for what_if in replays.what_ifs if replays.trusted else ():
        if what_if.without is None:
            continue
        whole = (None, what_if.makespan, what_if.without)
        numbered = zip((step.number for step in steps.steps), what_if.step_dur, what_if.step_without, strict=False)
        rows += [
            {
                "rank": rank,
                "step": step,
                "cause": "+".join(what_if.changes),
                "makespan_ns": span,
                "without_ns": without,
                "saving_ns": span - without,
                "bound": what_if.bound,
                "reason": what_if.reason,
                "next_limit": what_if.limit if step is None else None,
            }
            for step, span, without in (whole, *numbered)
        ]
    return pa.Table.from_pylist(rows, schema=table("what_if").arrow)


def check_partition(segments: Segments, start: int, end: int) -> bool:
    """True when the segments fill [start, end] in order without overlap or hole."""
    if not len(segments):
        return start == end
    joined = bool((segments.end[:-1] == segments.start[1:]).all() and (segments.end > segments.start).all())
    return joined and int(segments.start[0]) == start and int(segments.end[-1]) == end
