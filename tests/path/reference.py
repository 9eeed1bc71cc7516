"""Slow and obvious versions of what the path computes: every question is answered by looking at all events."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from tests.path.tiny import SMALL, Event, Op, Tiny, Wait
from traceengine.names import load_names
from traceengine.path.parameters import PathParameters
from traceengine.path.timeline import WORK_KINDS

Moment = tuple[int, int]
"""An elementary interval: two neighbouring boundaries."""


def owner_at(events: list[Event], thread: int, moment: Moment) -> int:
    """Row of the deepest event of the thread that covers the moment, -1 for none."""
    covering = [row for row, e in enumerate(events) if e.thread == thread and e.start <= moment[0] and moment[1] <= e.end]
    return max(covering, key=lambda row: events[row].depth, default=-1)


def boundaries(*spans: tuple[int, int]) -> list[Moment]:
    """Neighbouring pairs of all starts and ends."""
    times = sorted({time for span in spans for time in span})
    return list(pairwise(times))


class Place(NamedTuple):
    """Where the walk is: on operation `op`, or (-1) on `thread`; at `time`."""

    op: int
    thread: int
    time: int


class Piece(NamedTuple):
    """A stretch of the path on a thread or a stream (-1: not that one)."""

    start: int
    end: int
    thread: int
    stream: int


class Stuck(Exception):
    """The rules lead in a circle."""


class ReferenceWalk:
    """The walk of CRITICAL_PATH.md §2, each look-up a scan over everything.

    Ties: of operations that ended together the later row (stream, then start) is taken; of threads that were active until
    the same moment the current one, then the one that comes first; of dependencies that were ready together the launch
    gives way to the stream, and the stream to a recorded event.
    """

    def __init__(self, tiny: Tiny, start: int, end: int, thread: int, last_op: int, parameters: PathParameters = SMALL) -> None:
        self.tiny, self.start, self.parameters = tiny, start, parameters
        self.events, self.ops = list(tiny.events), list(tiny.ops)
        self.causes = load_names().causes()
        self.loop = [index for index, role in enumerate(tiny.roles) if role == "autograd" or index == thread]
        self.pieces: list[Piece] = []
        self.at = Place(last_op, thread, end)

    def run(self) -> list[Piece]:
        """Pieces from the window's start to its end."""
        for _ in range(10_000):
            if self.at.time <= self.start:
                return self.pieces[::-1]
            before = self.at
            self.at = self.on_op(self.at) if self.at.op >= 0 else self.on_thread(self.at)
            if self.at == before:
                stream = self.ops[before.op].stream if before.op >= 0 else -1
                self.emit(self.start, before.time, before.thread if before.op < 0 else -1, stream)
                self.at = before._replace(time=self.start)
        raise Stuck

    def emit(self, start: int, end: int, thread: int, stream: int) -> None:
        start = max(start, self.start)
        if end > start:
            self.pieces.append(Piece(start, end, thread, stream))

    # -- host --------------------------------------------------------------------------------------------------------

    def up(self, row: int) -> list[int]:
        """The event and all around it, innermost first."""
        chain = []
        while row >= 0:
            chain.append(row)
            row = self.events[row].parent
        return chain

    def busy(self, row: int) -> bool:
        return any(self.events[r].kind in WORK_KINDS or self.events[r].meaning in self.causes for r in self.up(row))

    def edges(self, thread: int) -> list[int]:
        return [t for e in self.events if e.thread == thread and e.end > e.start for t in (e.start, e.end)]

    def on_thread(self, at: Place) -> Place:
        low = max((time for time in self.edges(at.thread) if time < at.time), default=self.start)
        row = owner_at(self.events, at.thread, (max(low, at.time - 1), at.time))
        if not self.busy(row):
            return self.gap(at)
        low = max(low, self.start)
        for call in self.up(row):
            awaited = self.awaited(call)
            if awaited < 0:
                continue
            meet = min(self.ops[awaited].end, at.time)
            if self.ops[awaited].start < at.time and meet >= low:
                self.emit(meet, at.time, at.thread, -1)
                return Place(awaited, at.thread, meet)
            break
        self.emit(low, at.time, at.thread, -1)
        return Place(-1, at.thread, low)

    def active_until(self, thread: int, time: int) -> int:
        """Last moment up to `time` just before which the thread was busy, -1 for none."""
        moments = {edge for edge in self.edges(thread) if edge < time} | {time}
        return max((m for m in moments if self.busy(owner_at(self.events, thread, (m - 1, m)))), default=-1)

    def gap(self, at: Place) -> Place:
        best, since = at.thread, self.active_until(at.thread, at.time)
        for other in self.loop:
            if self.active_until(other, at.time) > since:
                best, since = other, self.active_until(other, at.time)
        low = max(since, self.start)
        self.emit(low, at.time, at.thread, -1)
        return Place(-1, best, low)

    def launched_at(self, op: Op) -> int:
        return self.events[op.launch].start if op.launch >= 0 else op.start

    def last_ended(self, call: Event, stream: int | None) -> int:
        """The last operation that had ended when the call returned and was launched before it began, if it released the call."""
        rows = [
            row
            for row, op in enumerate(self.ops)
            if stream in (None, op.stream) and op.end <= call.end + self.parameters.clock_slack_ns and self.launched_at(op) < call.start
        ]
        last = max(rows, key=lambda row: (self.ops[row].end, row), default=-1)
        return last if last >= 0 and self.ops[last].end > call.start else -1

    def awaited(self, row: int) -> int:
        """The operation whose end released a blocking call, -1 for none."""
        call = self.events[row]
        copies = [
            (op.end, r) for r, op in enumerate(self.ops) if op.launch == row and op.kind == "memcpy" and call.start < op.end <= call.end
        ]
        if copies:
            return max(copies)[1]
        if call.meaning == "device_sync":
            return self.last_ended(call, None)
        if call.meaning != "stream_sync":
            return -1
        named = [wait.stream for wait in self.tiny.waits if wait.kind == "stream_sync" and wait.call == row]
        if named and named[-1] < self.tiny.streams:
            return self.last_ended(call, named[-1])
        earlier = [
            (self.events[op.launch].start, r)
            for r, op in enumerate(self.ops)
            if op.launch >= 0 and self.events[op.launch].thread == call.thread and self.events[op.launch].start < call.start
        ]
        found = self.last_ended(call, self.ops[max(earlier)[1]].stream) if earlier else -1
        return found if found >= 0 else self.last_ended(call, None)

    # -- device ------------------------------------------------------------------------------------------------------

    def computes(self, op: Op) -> bool:
        return op.meaning not in ("comm", "h2d", "d2h")

    def on_op(self, at: Place) -> Place:
        op = self.ops[at.op]
        low = max(op.start, self.start)
        if not self.computes(op):
            running = [(o.end, -r) for r, o in enumerate(self.ops) if self.computes(o) and o.start < at.time and o.end > o.start]
            # The latest end of the last one on each stream is the latest end of all: a stream is serial.
            if running and max(running)[0] > low:
                other = -max(running)[1]
                meet = min(self.ops[other].end, at.time)
                self.emit(meet, at.time, -1, op.stream)
                return Place(other, at.thread, meet)
        self.emit(low, at.time, -1, op.stream)
        return self.before(at.op, low, at.thread) if low > self.start else at._replace(time=self.start)

    def before(self, row: int, start: int, thread: int) -> Place:
        op = self.ops[row]
        ready, target, on_launch = -1, -1, False
        if row and self.ops[row - 1].stream == op.stream:
            ready, target = self.ops[row - 1].end, row - 1
        if op.launch >= 0:
            issued = self.issued(self.events[op.launch], start, ready)
            if issued > ready:
                ready, target, on_launch = issued, op.launch, True
        event = self.event_predecessor(row)
        if event >= 0 and self.ops[event].start < start and min(self.ops[event].end, start) >= ready:
            ready, target, on_launch = min(self.ops[event].end, start), event, False
        if start - ready > self.parameters.inferred_min_gap_ns:
            other = self.inferred(op, start)
            if other >= 0 and self.ops[other].end > ready:
                ready, target, on_launch = self.ops[other].end, other, False
            elif op.launch < 0 and thread >= 0 and start - ready > self.parameters.device_gap_ns:
                return Place(-1, thread, start)
        low = max(ready, self.start)
        self.emit(low, start, -1, op.stream)
        if on_launch:
            return Place(-1, self.events[target].thread, low)
        return Place(target, thread, low)

    def issued(self, call: Event, start: int, ready: int) -> int:
        if call.end <= start:
            return call.end
        freed = call.start < ready and start - ready <= self.parameters.clock_slack_ns
        return min(call.start, start) if freed else start

    def inferred(self, op: Op, start: int) -> int:
        earliest = start - self.parameters.inferred_within_ns
        rows = [(o.end, r) for r, o in enumerate(self.ops) if o.stream != op.stream and o.start < start and earliest <= o.end <= start]
        return max(rows)[1] if rows else -1

    def event_predecessor(self, row: int) -> int:
        """What a stream waited for before its first operation that was launched after the wait."""
        best = -1
        for wait in self.tiny.waits:
            if wait.kind != "stream_wait_event":
                continue
            source = self.awaited_by(wait, row)
            if source >= 0 and (best < 0 or self.ops[source].end > self.ops[best].end):
                best = source
        return best

    def awaited_by(self, wait: Wait, row: int) -> int:
        later = [
            (self.launched_at(op), r) for r, op in enumerate(self.ops) if op.stream == wait.stream and self.launched_at(op) >= wait.start
        ]
        given = [
            (self.launched_at(op), r) for r, op in enumerate(self.ops) if op.stream == wait.awaited and self.launched_at(op) < wait.recorded
        ]
        return max(given)[1] if later and given and min(later)[1] == row else -1


def joined(pieces: list[Piece]) -> list[Piece]:
    """Neighbours on one resource as one piece."""
    result: list[Piece] = []
    for piece in pieces:
        if result and result[-1][1:] == (piece.start, piece.thread, piece.stream):
            result[-1] = result[-1]._replace(end=piece.end)
        else:
            result.append(piece)
    return result
