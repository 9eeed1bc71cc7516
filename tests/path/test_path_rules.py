"""One small timeline for each rule of the walk; times in ns, thresholds as in SMALL."""

from __future__ import annotations

import pytest

from tests.path.tiny import SMALL, Event, Op, Tiny, Wait
from traceengine.names import load_names
from traceengine.path import walk as walk_module
from traceengine.path.context import build_context
from traceengine.path.segments import Segment
from traceengine.path.steps import Window, find_steps
from traceengine.path.walk import walk

LAUNCH, SYNC = ("runtime", "launch"), ("runtime", "stream_sync")


def path(tiny: Tiny, end: int, last: int = -1) -> list[Segment]:
    """Segments of [0, end]; `last` is the operation that ends the window, -1 for the loop's thread."""
    return list(walk(build_context(tiny.timeline(), load_names(), SMALL), Window(0, end, 0, last)))


def told(segments: list[Segment]) -> list[tuple[int, int, str, str]]:
    return [(s.start, s.end, "host" if s.thread >= 0 else "device" if s.stream >= 0 else "", s.cause) for s in segments]


def test_an_operation_waits_for_the_one_before_it_on_its_stream() -> None:
    events = [Event(0, 0, 5, *LAUNCH), Event(0, 5, 10, *LAUNCH)]
    found = path(Tiny(events, [Op(0, 8, 50, "kernel", "", 0), Op(0, 53, 90, "kernel", "", 1)]), 90, 1)
    assert told(found) == [(0, 5, "host", "host_bound"), (5, 8, "device", "host_bound"), (8, 50, "device", "compute"),
                           (50, 53, "device", "compute"), (53, 90, "device", "compute")]  # fmt: skip
    assert [s.edge for s in found][-3:] == ["stream", "stream", "end"]
    assert [s.detail for s in found][3] == "device_gap"


def test_an_operation_waits_for_its_launch() -> None:
    events = [Event(0, 0, 20, "op", ""), Event(0, 20, 40, *LAUNCH)]
    found = path(Tiny(events, [Op(0, 46, 60, "kernel", "", 1)]), 60, 0)
    assert told(found) == [(0, 20, "host", "host_bound"), (20, 40, "host", "host_bound"), (40, 46, "device", "host_bound"), (46, 60, "device", "compute")]  # fmt: skip
    assert found[2].detail == "launch_latency"


def test_a_launch_that_took_too_long_to_arrive_is_not_explained() -> None:
    found = path(Tiny([Event(0, 0, 20, *LAUNCH)], [Op(0, 60, 80, "kernel", "", 0)]), 80, 0)
    assert told(found)[1] == (20, 60, "device", "unknown") and found[1].state == "estimated"


def test_a_recorded_event_of_another_stream_is_waited_for() -> None:
    events = [Event(0, 0, 2, *LAUNCH), Event(0, 2, 4, *LAUNCH)]
    ops = [Op(0, 3, 50, "kernel", "", 0), Op(1, 52, 70, "kernel", "", 1)]
    found = path(Tiny(events, ops, [Wait("stream_wait_event", 1, 2, 0, 1)], streams=2), 70, 1)
    assert [s.edge for s in found][-2:] == ["event", "end"] and found[-2].state == "measured"
    assert (3, 50, "device", "compute") in told(found)


def test_an_unrecorded_one_is_inferred_and_marked() -> None:
    events = [Event(0, 0, 2, *LAUNCH), Event(0, 2, 4, *LAUNCH)]
    found = path(Tiny(events, [Op(0, 3, 50, "kernel", "", 0), Op(1, 52, 70, "kernel", "", 1)], streams=2), 70, 1)
    assert [s.edge for s in found][-2:] == ["inferred", "end"] and found[-2].state == "estimated"


def test_a_blocking_call_is_its_return_and_the_device_work_before_it() -> None:
    events = [Event(0, 0, 5, *LAUNCH), Event(0, 10, 60, *SYNC), Event(0, 60, 70, "op", "")]
    found = path(Tiny(events, [Op(0, 6, 50, "kernel", "", 0)]), 70)
    assert told(found)[-3:] == [(6, 50, "device", "compute"), (50, 60, "host", "sync"), (60, 70, "host", "host_bound")]
    assert found[-2].detail == "sync_return" and found[-3].edge == "sync"


def test_a_blocking_call_that_waits_for_nothing_is_itself() -> None:
    events = [Event(0, 0, 5, *LAUNCH), Event(0, 30, 60, *SYNC)]
    found = path(Tiny(events, [Op(0, 6, 20, "kernel", "", 0)]), 60)
    assert told(found)[-1] == (30, 60, "host", "sync")


def test_what_runs_inside_a_data_wait_is_detail_of_it() -> None:
    events = [Event(0, 0, 50, "annotation", "data_wait_single"), Event(0, 10, 30, "op", "", 0, 1), Event(0, 50, 60, "op", "")]
    found = path(Tiny(events, [Op(0, 58, 59, "kernel", "")]), 60)
    assert {s.cause for s in found if s.end <= 50} == {"data_wait"}


def test_an_annotation_is_a_label_and_no_work() -> None:
    events = [Event(0, 0, 90, "annotation", "forward"), Event(0, 0, 10, "op", "", 0, 1), Event(0, 80, 90, "op", "", 0, 1)]
    found = path(Tiny(events, [Op(0, 1, 2, "kernel", "")]), 90)
    assert [(s.start, s.end, s.event_id, s.detail) for s in found if s.start == 10] == [(10, 80, -1, "host_python")]
    assert all(s.scope == 0 for s in found)


def test_the_loop_hands_over_to_the_thread_that_was_active_last() -> None:
    events = [Event(0, 0, 10, "op", ""), Event(0, 60, 70, "op", ""), Event(1, 15, 55, "op", "backward_node")]
    found = path(Tiny(events, [Op(0, 1, 2, "kernel", "")]), 70)
    assert [(s.start, s.end, s.thread) for s in found] == [(0, 10, 0), (10, 15, 1), (15, 55, 1), (55, 60, 0), (60, 70, 0)]


def test_a_thread_of_another_role_is_no_candidate() -> None:
    events = [Event(0, 0, 10, "op", ""), Event(0, 60, 70, "op", ""), Event(1, 15, 55, "op", "")]
    found = path(Tiny(events, [Op(0, 1, 2, "kernel", "")], roles=("main", "pin_memory")), 70)
    assert {s.thread for s in found} == {0}


def test_two_threads_that_launch_are_both_followed() -> None:
    events = [Event(0, 0, 10, *LAUNCH), Event(1, 40, 60, *LAUNCH)]
    ops = [Op(0, 12, 30, "kernel", "", 0), Op(0, 62, 90, "kernel", "", 1)]
    found = path(Tiny(events, ops, roles=("main", "other")), 90, 1)
    assert (40, 60, 1) in [(s.start, s.end, s.thread) for s in found]


def test_the_kernels_of_a_graph_follow_one_launch() -> None:
    events = [Event(0, 0, 20, "runtime", "graph_launch")]
    ops = [Op(0, 25, 40, "graph", "", 0), Op(0, 41, 60, "kernel", "", 0), Op(0, 62, 80, "kernel", "", 0)]
    found = path(Tiny(events, ops), 80, 2)
    assert told(found)[:2] == [(0, 20, "host", "host_bound"), (20, 25, "device", "host_bound")]
    assert {s.cause for s in found[2:]} == {"compute"} and {s.edge for s in found[3:]} == {"stream", "end"}


def test_communication_under_compute_is_not_on_the_path() -> None:
    ops = [Op(0, 0, 60, "kernel", ""), Op(1, 20, 80, "kernel", "comm")]
    found = path(Tiny([], ops, streams=2), 80, 1)
    assert told(found) == [(0, 60, "device", "compute"), (60, 80, "device", "exposed_comm")]


def test_a_launch_held_up_by_a_full_queue_waits_for_the_device() -> None:
    """Calls of 3 µs until four are in flight, then each as long as an operation of 100 µs."""
    events, ops, time = [], [], 0
    for number in range(12):
        free = ops[number - 4].start if number >= 4 else 0
        end = max(time + 3_000, free + 3_000)
        events.append(Event(0, time, end, *LAUNCH))
        start = max(end, ops[-1].end if ops else 0)
        ops.append(Op(0, start, start + 100_000, "kernel", "", number))
        time = end
    found = path(Tiny(events, ops), time)
    assert sum(s.end - s.start for s in found if s.cause == "compute") > 0.9 * time


def test_without_any_marker_the_whole_capture_is_the_window() -> None:
    steps = find_steps(Tiny([Event(0, 5, 10, *LAUNCH)], [Op(0, 12, 40, "kernel", "", 0)]).timeline(), False)
    assert (steps.steps, steps.origin, steps.window.start, steps.window.end) == ((), None, 5, 40)


def test_steps_are_inferred_from_the_optimizer() -> None:
    events = [Event(0, start, start + 10, "annotation", "optimizer_step") for start in (0, 100, 200, 300)]
    steps = find_steps(Tiny(events).timeline(), False)
    assert steps.origin == "inferred" and [(s.start, s.end) for s in steps.steps] == [(10, 110), (110, 210), (210, 310)]


@pytest.mark.parametrize("edge", [0, 3])
def test_a_step_that_the_capture_cuts_is_left_out(edge: int) -> None:
    events: list[Event] = []
    for number in range(4):
        cut = number == edge
        marker = len(events)
        events.append(Event(0, 100 * number, 100 * number + (20 if cut else 100), "annotation", "step"))
        events += [Event(0, 100 * number + 20 * part, 100 * number + 20 * part + 5, "op", "", marker, 1) for part in range(1 if cut else 4)]
    if edge == 0:
        events = [event._replace(start=event.start + 80, end=event.end + 80) if event.start < 20 else event for event in events]
    steps = find_steps(Tiny(sorted(events, key=lambda e: (e.start, e.depth))).timeline(), False)
    assert [step.complete for step in steps.steps] == [number != edge for number in range(4)]


def test_a_truncated_capture_does_not_vouch_for_its_last_step() -> None:
    events = [Event(0, 100 * number, 100 * number + 100, "annotation", "step") for number in range(4)]
    assert [step.complete for step in find_steps(Tiny(events).timeline(), True).steps] == [True, True, True, False]


def test_stretches_emitted_at_once_are_those_emitted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [Event(0, 0, 90, "op", ""), Event(0, 10, 30, "op", "logging", 0, 1), Event(0, 15, 20, "runtime", "", 1, 2),
              Event(0, 40, 60, *LAUNCH, 0, 1), Event(0, 95, 99, "op", "data_wait")]  # fmt: skip
    tiny = Tiny(events, [Op(0, 3, 5, "kernel", "")])
    at_once = path(tiny, 99)
    everything = walk_module.plain_runs

    def nothing(*arguments: object) -> object:
        plain, first = everything(*arguments)  # type: ignore[arg-type]
        return plain & False, first

    monkeypatch.setattr(walk_module, "plain_runs", nothing)
    assert at_once == path(tiny, 99) and len(at_once) > 6
