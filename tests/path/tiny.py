"""Small timelines from plain records, and hypothesis strategies that draw them: nested, overlapping, zero-length, unlinked, odd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from traceengine.path.parameters import PathParameters
from traceengine.path.timeline import Codes, DeviceOps, HostEvents, IntArray, Overheads, StreamWaits, Threads, Timeline

SMALL = PathParameters(
    clock_slack_ns=1, inferred_within_ns=8, inferred_min_gap_ns=4, device_gap_ns=6, launch_latency_ns=10, host_gap_ns=15, tiny_op_ns=2
)
"""Thresholds that fit times of a few hundred ns."""


class Event(NamedTuple):
    """A host event. `parent` is a position in the list of events, -1 for none; `meaning` as in names.csv, "" for none."""

    thread: int
    start: int
    end: int
    kind: str
    meaning: str
    parent: int = -1
    depth: int = 0


class Op(NamedTuple):
    """A device operation; `launch` is a position in the list of events or -1. All streams are of one device."""

    stream: int
    start: int
    end: int
    kind: str
    meaning: str
    launch: int = -1


class Wait(NamedTuple):
    """A wait of a stream for the work that another had been given at `recorded`; or the stream that a synchronise names."""

    kind: str
    stream: int
    start: int
    awaited: int = -1
    recorded: int = -1
    call: int = -1


@dataclass(frozen=True)
class Tiny:
    """A timeline as records. Events are sorted by (thread, start, depth), operations by (stream, start)."""

    events: Sequence[Event]
    ops: Sequence[Op] = ()
    waits: Sequence[Wait] = ()
    roles: Sequence[str] = ("main", "autograd")
    streams: int = 1
    forward: Sequence[int] = field(default=())

    def timeline(self) -> Timeline:
        """The same for the engine."""
        events, ops, waits = self.events, self.ops, self.waits
        threads = Threads(ints([1] * len(self.roles)), ints(range(1, len(self.roles) + 1)), tuple(self.roles))
        host = HostEvents(
            ints(range(len(events))),
            ints(event.parent for event in events),
            ints(event.depth for event in events),
            ints(event.thread for event in events),
            ints(event.start for event in events),
            ints(event.end for event in events),
            ints(event.end for event in events),
            codes(event.kind for event in events),
            codes(event.meaning for event in events),
            codes(f"{event.meaning or event.kind} {row}" for row, event in enumerate(events)),
            ints([-1] * len(events)),
        )
        device = DeviceOps(
            ints(range(1_000, 1_000 + len(ops))),
            ints(op.stream for op in ops),
            ints(op.start for op in ops),
            ints(op.end for op in ops),
            codes(op.kind for op in ops),
            codes(op.meaning for op in ops),
            codes(f"op {row}" for row in range(len(ops))),
            codes(op.meaning if op.kind == "memcpy" else "" for op in ops),
            codes("" for _ in ops),
            codes("" for _ in ops),
            ints(op.launch for op in ops),
            ints([0] * self.streams),
            ints(range(self.streams)),
            ints([-1] * len(ops)),
        )
        stream_waits = StreamWaits(
            codes(wait.kind for wait in waits),
            ints([0] * len(waits)),
            ints(wait.stream for wait in waits),
            ints(wait.start for wait in waits),
            ints(wait.awaited for wait in waits),
            ints(wait.recorded for wait in waits),
            ints(wait.call for wait in waits),
        )
        # A recorded event's number is its time: each is looked up by it.
        recorded = {wait.recorded: wait.recorded for wait in waits if wait.recorded >= 0}
        none = ints([])
        return Timeline(0, host, threads, device, stream_waits, Overheads(none, none, codes([])), recorded, ints(self.forward))


def ints(values: Any) -> IntArray:
    """An int64 array."""
    return np.array(list(values), dtype=np.int64)


def codes(values: Any) -> Codes:
    """A coded text column; empty text is NULL."""
    texts = list(values)
    known = sorted({text for text in texts if text})
    index = {text: code for code, text in enumerate(known)}
    return Codes(ints(index.get(text, -1) for text in texts), tuple(known))


def nest(thread: int, spans: Sequence[tuple[int, int, str, str]], first: int) -> list[Event]:
    """Events of one thread from any spans: an event is the child of the innermost one open at its start, and cut at its end."""
    events: list[Event] = []
    opened: list[int] = []
    for start, end, kind, meaning in sorted(spans, key=lambda span: (span[0], -span[1])):
        while opened and events[opened[-1]].end <= start and not (events[opened[-1]].end == start == end):
            opened.pop()
        parent = opened[-1] if opened else -1
        end = min(end, events[parent].end) if opened else end
        events.append(Event(thread, start, end, kind, meaning, parent + first if opened else -1, len(opened)))
        opened.append(len(events) - 1)
    order = sorted(range(len(events)), key=lambda row: (events[row].start, events[row].depth))
    place = {first + old: first + new for new, old in enumerate(order)}
    return [events[old]._replace(parent=place.get(events[old].parent, -1)) for old in order]


HOST_KINDS = [
    ("op", ""),
    ("op", "scalar_read"),
    ("annotation", ""),
    ("annotation", "data_wait"),
    ("runtime", "launch"),
    ("runtime", "copy_call"),
    ("runtime", "stream_sync"),
    ("runtime", "device_sync"),
]
OP_KINDS = [("kernel", ""), ("kernel", "comm"), ("memcpy", "h2d"), ("memcpy", "d2h"), ("memcpy", "d2d")]
LAUNCHERS = {"launch", "copy_call"}


@st.composite
def spans(draw: st.DrawFn, longest: int = 120) -> list[tuple[int, int, str, str]]:
    """Spans of one thread: nested, partly overlapping, equal starts, zero-length."""
    result = []
    for _ in range(draw(st.integers(0, 7))):
        start = draw(st.integers(0, longest))
        length = draw(st.integers(0, 40))
        kind, meaning = draw(st.sampled_from(HOST_KINDS))
        result.append((start, start + length, kind, meaning))
    return result


@st.composite
def tinies(draw: st.DrawFn) -> Tiny:
    """A loop's thread, an autograd thread, up to three streams."""
    events: list[Event] = []
    for thread in range(2):
        events += nest(thread, draw(spans()), len(events))
    launchers = [row for row, event in enumerate(events) if event.meaning in LAUNCHERS]
    streams = draw(st.integers(1, 3))
    ops: list[Op] = []
    for stream in range(streams):
        time = draw(st.integers(0, 30))
        for _ in range(draw(st.integers(0, 5))):
            start = time + draw(st.sampled_from([0, 0, 1, 2, 5, 10, 30]))
            time = start + draw(st.sampled_from([0, 1, 3, 10, 25]))
            kind, meaning = draw(st.sampled_from(OP_KINDS))
            launch = draw(st.sampled_from([-1, *launchers]))
            ops.append(Op(stream, start, time, kind, meaning, launch))
    waits = []
    for _ in range(draw(st.integers(0, 3)) if streams > 1 else 0):
        stream, awaited = draw(st.permutations(range(streams)))[:2]
        waits.append(Wait("stream_wait_event", stream, draw(st.integers(0, 120)), awaited, draw(st.integers(0, 120))))
    for row, event in enumerate(events):
        if event.meaning == "stream_sync" and draw(st.booleans()):
            waits.append(Wait("stream_sync", draw(st.integers(0, streams - 1)), event.start, call=row))
    return Tiny(events, ops, waits, streams=streams)
