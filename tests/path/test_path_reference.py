"""The path against slow, obvious versions of the same rules, on random small timelines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.path.reference import Piece, ReferenceWalk, boundaries, joined, owner_at
from tests.path.tiny import SMALL, Event, Op, Tiny, codes, ints, nest, spans, tinies
from traceengine.names import load_names
from traceengine.path.context import build_context
from traceengine.path.exclusive import PRECEDENCE, device_clock, exclusive_time, step_cause_table
from traceengine.path.result import check_partition
from traceengine.path.steps import Window, find_steps
from traceengine.path.threads import ThreadIntervals, flatten
from traceengine.path.timeline import _laminar_ends
from traceengine.path.walk import walk

many = settings(max_examples=300, deadline=None)


# -- innermost owner ---------------------------------------------------------------------------------------------------


def owner_of(intervals: ThreadIntervals, thread: int, time: int) -> int:
    first, last = intervals.first[thread], intervals.first[thread + 1]
    index = int(np.searchsorted(intervals.time[first:last], time, side="right")) - 1
    return int(intervals.owner[first + index]) if index >= 0 else -1


@many
@given(st.lists(spans(), min_size=1, max_size=3))
def test_each_moment_of_a_thread_belongs_to_its_innermost_event(threads: list[list[tuple[int, int, str, str]]]) -> None:
    events: list[Event] = []
    for thread, drawn in enumerate(threads):
        events += nest(thread, drawn, len(events))
    intervals = flatten(Tiny(events, roles=("main",) * len(threads)).timeline().host, len(threads))
    for thread in range(len(threads)):
        for moment in boundaries((0, 200), *((e.start, e.end) for e in events if e.thread == thread)):
            assert owner_of(intervals, thread, moment[0]) == owner_at(events, thread, moment), moment


@many
@given(spans())
def test_events_nest_once_their_ends_are_cut(drawn: list[tuple[int, int, str, str]]) -> None:
    events = nest(0, drawn, 0)
    columns = [ints(getattr(e, name) for e in events) for name in ("thread", "start", "parent", "depth")]
    wild = ints(e.end + 7 * (row % 3) for row, e in enumerate(events))
    ends = _laminar_ends(columns[0], columns[1], wild, columns[2], columns[3])
    for row, event in enumerate(events):
        assert event.parent < 0 or ends[row] <= ends[event.parent]
        later = [e.start for e in events[row + 1 :] if e.depth == event.depth]
        assert ends[row] <= wild[row] and all(ends[row] <= start or start == event.start for start in later)


# -- exclusive time ----------------------------------------------------------------------------------------------------


@many
@given(
    tinies(), st.lists(st.tuples(st.integers(1, 30), st.booleans(), st.sampled_from(["compute", "sync", "h2d"])), min_size=1, max_size=12)
)
def test_exclusive_time_is_what_an_interval_by_interval_count_gives(tiny: Tiny, lengths: list[tuple[int, bool, str]]) -> None:
    cause_of = {"comm": "exposed_comm", "h2d": "h2d", "d2h": "d2h"}
    causes = tuple(cause_of.get(op.meaning, "compute") for op in tiny.ops)
    time, segments = 0, []
    for number, (length, is_operation, cause) in enumerate(lengths):
        segments.append((time, time + length, number // 3, cause, is_operation))
        time += length
    clock = device_clock(tiny.timeline().device, causes)
    start, end, step = (ints(s[column] for s in segments) for column in range(3))
    owned = exclusive_time(clock, start, end, np.array([s[4] for s in segments]), step, codes(s[3] for s in segments))
    found = step_cause_table(0, range(int(step.max()) + 1), owned)
    expected: dict[tuple[int, str], int] = {}
    for low, high, step, cause, is_operation in segments:
        for a, b in boundaries(
            (low, high), *((max(low, op.start), min(high, op.end)) for op in tiny.ops if op.start < high and op.end > low)
        ):
            running = {causes[row] for row, op in enumerate(tiny.ops) if op.start <= a and b <= op.end}
            owner = cause if is_operation or not running else min(running, key=PRECEDENCE.index)
            expected[step, owner] = expected.get((step, owner), 0) + b - a
    got = {(row["step"], row["cause"]): row["exclusive_ns"] for row in found.to_pylist()}
    assert {key: ns for key, ns in got.items() if ns} == expected
    assert sum(found.column("path_ns").to_pylist()) == sum(got.values()) == time


# -- the walk ----------------------------------------------------------------------------------------------------------


@settings(max_examples=1000, deadline=None)
@given(tinies(), st.integers(0, 20), st.booleans())
def test_the_walk_takes_the_same_way_as_a_search_over_everything(tiny: Tiny, start: int, on_device: bool) -> None:
    ends = [e.end for e in tiny.events] + [op.end for op in tiny.ops]
    last = max(range(len(tiny.ops)), key=lambda row: (tiny.ops[row].end, row), default=-1) if on_device else -1
    end = tiny.ops[last].end if last >= 0 else max(ends, default=0)
    context = build_context(tiny.timeline(), load_names(), SMALL)
    segments = walk(context, Window(start, end, 0, last))
    assert check_partition(segments, start, max(start, end) if segments else start)
    reference = ReferenceWalk(tiny, start, end, 0, last).run() if end > start else []
    assert joined([Piece(s.start, s.end, s.thread, s.stream) for s in segments]) == joined(reference)


def test_operations_without_length_do_not_wait_for_each_other() -> None:
    ops = [Op(0, 0, 5, "kernel", ""), Op(0, 50, 50, "kernel", ""), Op(0, 50, 60, "kernel", ""), Op(1, 50, 50, "kernel", "")]
    context = build_context(Tiny([], ops, streams=2).timeline(), load_names(), SMALL)
    segments = walk(context, Window(0, 60, -1, 2))
    assert [(s.start, s.end, s.cause) for s in segments] == [(0, 5, "compute"), (5, 50, "unknown"), (50, 60, "compute")]


# -- steps -------------------------------------------------------------------------------------------------------------


@many
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 40)), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60), st.integers(0, 50)), max_size=10),
)
def test_a_step_ends_when_its_own_device_work_has_ended(gaps: list[tuple[int, int]], launched: list[tuple[int, int, int]]) -> None:
    """Steps with markers; each launch lies anywhere, its operation starts later and lasts; one stream an operation."""
    events, time, markers = [], 10, []
    for gap, length in gaps:
        markers.append((time + gap, time + gap + length))
        events.append(Event(0, *markers[-1], "annotation", "step"))
        time += gap + length
    launches = sorted(launched)
    events += [Event(1, when, when, "runtime", "launch") for when, _, _ in launches]
    first = len(markers)
    ops = [Op(row, when + late, when + late + dur, "kernel", "", first + row) for row, (when, late, dur) in enumerate(launches)]
    steps = find_steps(Tiny(events, ops, streams=len(ops)).timeline(), False)
    ends, end = [], 0
    for number, (start, stop) in enumerate(markers):
        until = markers[number + 1][0] if number + 1 < len(markers) else stop
        mine = [op.end for op, (when, _, _) in zip(ops, launches, strict=True) if start <= when < until]
        end = max([end, until, *mine])
        ends.append(end)
    assert [(step.start, step.end) for step in steps.steps] == list(zip([markers[0][0], *ends[:-1]], ends, strict=True))
    complete = [number for number, step in enumerate(steps.steps) if step.complete] or list(range(len(markers)))
    assert (steps.window.start, steps.window.end) == (markers[complete[0]][0], ends[complete[-1]])
    row = steps.window.last_device_row
    assert row < 0 or ops[row].end == steps.window.end


@pytest.mark.parametrize(
    ("spans", "kept"),
    [
        ([(0, 10), (10, 20), (20, 30)], [0, 1, 2]),
        ([(0, 12), (10, 22), (20, 30)], [0, 1, 2]),
        ([(0, 40), (5, 10), (10, 20), (40, 50)], [0, 3]),
        ([(0, 10), (0, 0), (10, 10), (10, 20)], [0, 3]),
    ],
)
def test_markers_that_overlap_are_steps_and_those_inside_another_are_not(spans: list[tuple[int, int]], kept: list[int]) -> None:
    events = [Event(0, start, end, "annotation", "step") for start, end in spans]
    steps = find_steps(Tiny(events).timeline(), False).steps
    assert [(step.host_start, step.host_end) for step in steps] == [spans[number] for number in kept]
