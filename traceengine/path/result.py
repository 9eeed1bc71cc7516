"""Segments and steps as tables `critical_path` and `step`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from traceengine.path.exclusive import DeviceClock, hidden_time, step_cause_table
from traceengine.path.replay import Replays
from traceengine.path.steps import Steps
from traceengine.path.timeline import Timeline
from traceengine.path.walk import Segment
from traceengine.schema import table


def split_at_steps(segments: Sequence[Segment], steps: Steps) -> list[tuple[int | None, Segment]]:
    """Give each segment the step in whose wall time it falls; a segment over a boundary is cut there."""
    bounds = [step.start for step in steps.steps]
    ends = [step.end for step in steps.steps]
    result: list[tuple[int | None, Segment]] = []
    for segment in segments:
        low = segment.start
        while low < segment.end:
            index = bisect_right(bounds, low) - 1
            inside = index >= 0 and low < ends[index]
            if inside:
                high = min(ends[index], segment.end)
            else:
                high = min(bounds[index + 1], segment.end) if index + 1 < len(bounds) else segment.end
            result.append((steps.steps[index].number if inside else None, segment._replace(start=low, end=high)))
            low = high
    return result


def path_tables(timeline: Timeline, steps: Steps, segments: Sequence[Segment], clock: DeviceClock) -> tuple[pa.Table, pa.Table]:
    """Tables `critical_path` and `step_cause` of one rank."""
    placed = split_at_steps(segments, steps)
    start = np.array([segment.start for _, segment in placed], dtype=np.int64)
    end = np.array([segment.end for _, segment in placed], dtype=np.int64)
    names = timeline.host.name
    columns = {
        "rank": [timeline.rank] * len(placed),
        "seq": range(len(placed)),
        "step": [step for step, _ in placed],
        "ts_ns": start,
        "dur_ns": end - start,
        "hidden_ns": np.zeros(len(placed), np.int64),
        "resource": [_resource(timeline, segment) for _, segment in placed],
        "cause": [segment.cause for _, segment in placed],
        "detail": [segment.detail for _, segment in placed],
        "event_id": [segment.event_id if segment.event_id >= 0 else None for _, segment in placed],
        "scope": [names.text(segment.scope) if segment.scope >= 0 else None for _, segment in placed],
        "edge": [segment.edge for _, segment in placed],
        "state": [segment.state for _, segment in placed],
    }
    schema = table("critical_path").arrow
    rows = pa.Table.from_arrays([pa.array(columns[name], schema.field(name).type) for name in schema.names], schema=schema)
    is_operation = np.array([segment.stream >= 0 and segment.event_id >= 0 for _, segment in placed], dtype=np.bool_)
    hidden = hidden_time(clock, rows, is_operation)
    column = schema.get_field_index("hidden_ns")
    rows = rows.set_column(column, schema.field(column), pa.array(hidden.sum(axis=1)))
    return rows, step_cause_table(timeline.rank, rows, hidden)


def _resource(timeline: Timeline, segment: Segment) -> str:
    if segment.stream >= 0:
        return timeline.device.resource(segment.stream)
    return timeline.threads.resource(segment.thread) if segment.thread >= 0 else "unknown"


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


def check_partition(segments: Sequence[Segment], start: int, end: int) -> bool:
    """True when the segments fill [start, end] in order without overlap or hole."""
    if not segments:
        return start == end
    joined = all(a.end == b.start for a, b in pairwise(segments))
    return joined and segments[0].start == start and segments[-1].end == end and all(s.end > s.start for s in segments)
