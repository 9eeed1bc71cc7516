"""The walk: from the last thing to finish back to the window's start, always asking what it waited for.

Every move emits the time between the old and the new cursor, so the segments fill the window exactly.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np

from traceengine.path.context import COPY_CAUSES, Context, Stretches, background_communication, hand_over_threads, view
from traceengine.path.segments import HostWork, Segment, Segments, Stretch, join, of_list, plain_runs
from traceengine.path.steps import LAUNCH_MEANINGS, Window
from traceengine.path.timeline import BoolArray, Codes


class Cursor(NamedTuple):
    """Where the walk stands: on a device operation (`row` >= 0) or on a host thread, at `time`."""

    row: int
    thread: int
    time: int
    edge: str


class Walk:
    """One walk over one rank. Use `walk`."""

    def __init__(self, context: Context, window: Window) -> None:
        timeline = context.timeline
        host, device = timeline.host, timeline.device
        self._context, self._window, self._parameters = context, window, context.parameters
        self._host_start, self._host_end = view(host.start), view(host.end)
        self._host_id, self._host_thread = view(host.event_id), view(host.thread)
        self._time, self._owner = view(context.intervals.time), view(context.intervals.owner)
        self._first = context.intervals.first.tolist()
        self._busy_start, self._busy_end = view(context.occupied.start), view(context.occupied.end)
        self._busy_first = context.occupied.first.tolist()
        self._op_start, self._op_end = view(device.start), view(device.end)
        self._op_stream, self._op_id = view(device.stream), view(device.event_id)
        self._launch = view(device.launch)
        self._lookup = context.lookup
        tree, waits = context.tree, context.waits
        self._work, self._cause, self._scope_of = view(tree.work), view(tree.cause), view(tree.scope)
        self._blocked_in, self._awaits = view(context.blocked_in), view(waits.host_awaits)
        self._event_predecessor, self._cause_code = view(waits.event_predecessor), view(context.causes.code)
        self._host_name, self._op_name = view(host.name.code), view(device.name.code)
        self._op_names, self._host_names = (*device.name.values, ""), (*host.name.values, "")
        self._segments: list[Segment] = []
        self._stretches: list[Stretch] = []
        self._cpu_only = len(device) == 0
        self._hand_over = hand_over_threads(timeline, window)
        self._copy_of_call = context.copy_of_call
        self._is_launch = host.meaning.isin(LAUNCH_MEANINGS)
        self._communication = background_communication(timeline, window)
        held = context.timeline.overheads
        self._held = {
            cause: Stretches(held.start[rows], held.end[rows])
            for cause, rows in _overhead_rows(held.meaning, context).items()
            if rows.any()
        }
        plain, first = plain_runs(context, self._under_overhead())
        self._plain, self._plain_from = plain.data, view(first)

    def _under_overhead(self) -> BoolArray:
        """Intervals of the threads in which an overhead record falls."""
        time = self._context.intervals.time
        until = np.append(time[1:], time[-1:])
        found = np.zeros(len(time), np.bool_)
        for stretches in self._held.values():
            before = np.searchsorted(stretches.starts, until) - 1
            found |= (before >= 0) & (stretches.ends[np.maximum(before, 0)] > time)
        return found

    def run(self) -> Segments:
        """Segments from the window's start to its end."""
        window = self._window
        cursor = Cursor(window.last_device_row, window.thread, window.end, "end")
        while cursor.time > window.start:
            before = cursor
            cursor = self._on_device(cursor) if cursor.row >= 0 else self._on_host(cursor)
            if cursor.time == before.time and cursor[:2] == before[:2]:
                cursor = self._nothing_before(cursor)
        return join([of_list(self._segments), HostWork(self._context).segments(self._stretches, window.start)])

    # -- emitting -------------------------------------------------------------------------------------------------

    def _emit_device(self, row: int, low: int, high: int, edge: str) -> None:
        if high > low:
            name = self._op_names[self._op_name[row]]
            state = "estimated" if edge in ("inferred", "overlap") else "measured"
            cause = self._context.device_cause[row]
            self._segments.append(Segment(low, high, -1, self._op_stream[row], cause, name, self._op_id[row], -1, edge, state))

    def _emit_host(self, thread: int, owner: int, low: int, high: int, cause: str, detail: str, edge: str, *, gap: bool = False) -> None:
        """A host stretch; parts in which an overhead record shows the tool or the driver at work go to that cause.

        A gap has no event of its own; the range around it stays in `scope`.
        """
        event = self._host_id[owner] if owner >= 0 and not gap else -1
        scope = self._scope_of[owner] if owner >= 0 else -1
        parts = [(low, high, cause)]
        if cause in ("host_bound", "host_other"):
            for other, stretches in self._held.items():
                parts = [
                    (a, b, other if held else was)
                    for first, last, was in parts
                    for a, b, held in (stretches.cut(first, last) if was == cause else [(first, last, False)])
                ]
        for a, b, what in parts:
            state = "measured" if what == cause and edge != "inferred" else "estimated"
            if b > a:
                self._segments.append(Segment(a, b, thread, -1, what, detail, event, scope, edge, state))

    def _nothing_before(self, cursor: Cursor) -> Cursor:
        """The rest of the window has no event that the cursor's resource could have waited for."""
        stream = self._op_stream[cursor.row] if cursor.row >= 0 else -1
        thread = cursor.thread if cursor.row < 0 else -1
        self._segments.append(
            Segment(self._window.start, cursor.time, thread, stream, "unknown", "no event", -1, -1, cursor.edge, "estimated")
        )
        return cursor._replace(time=self._window.start)

    # -- device -----------------------------------------------------------------------------------------------------

    def _on_device(self, cursor: Cursor) -> Cursor:
        row, time, edge = cursor.row, cursor.time, cursor.edge
        low = max(self._op_start[row], self._window.start)
        if self._context.yields[row]:
            other = self._lookup.computing(self._op_stream[row], time)
            if other >= 0 and self._op_end[other] > low:
                meet = min(self._op_end[other], time)
                self._emit_device(row, meet, time, edge)
                return Cursor(other, cursor.thread, meet, "overlap")
        self._emit_device(row, low, time, edge)
        if low <= self._window.start:
            return cursor._replace(time=self._window.start)
        return self._before_device(row, low, cursor.thread)

    def _before_device(self, row: int, start: int, thread: int) -> Cursor:
        """What made operation `row` start: the latest of own stream, awaited event, launch; else an inferred one."""
        ready, edge, target = -1, "", -1
        if row > 0 and self._op_stream[row - 1] == self._op_stream[row]:
            ready, edge, target = self._op_end[row - 1], "stream", row - 1
        launch = self._launch[row]
        if launch >= 0:
            issued = self._launch_ready(launch, start, ready)
            if issued > ready:
                ready, edge, target = issued, "launch", launch
        event = self._event_predecessor[row]
        if event >= 0 and self._op_start[event] < start and min(self._op_end[event], start) >= ready:
            ready, edge, target = min(self._op_end[event], start), "event", event
        if start - ready > self._parameters.inferred_min_gap_ns:
            other = self._lookup.ended_just_before(row, start, self._parameters.inferred_within_ns)
            if other >= 0 and self._op_end[other] > ready:
                ready, edge, target = self._op_end[other], "inferred", other
            elif launch < 0 and thread >= 0 and start - ready > self._parameters.device_gap_ns:
                return Cursor(-1, thread, start, "inferred")
        return self._to_predecessor(row, start, Cursor(target, thread, ready, edge))

    def _launch_ready(self, launch: int, start: int, stream_ready: int) -> int:
        """When the launch call had issued the operation: its return, or the operation's start if that came first.

        A stream that got free during the call, shortly before the start, was the one that was waited for.
        """
        begin, end = self._host_start[launch], self._host_end[launch]
        if end <= start:
            return end
        if begin < stream_ready and start - stream_ready <= self._parameters.clock_slack_ns:
            return min(begin, start)
        return start

    def _to_predecessor(self, row: int, start: int, found: Cursor) -> Cursor:
        """Emit the gap before an operation and move to what it waited for."""
        window = self._window.start
        low = max(found.time, window)
        gap = start - low
        if gap > 0:
            cause, detail = self._gap_cause(row, gap, found.edge)
            state = "estimated" if cause == "unknown" or found.edge == "inferred" else "measured"
            self._segments.append(Segment(low, start, -1, self._op_stream[row], cause, detail, -1, -1, found.edge or "stream", state))
        if found.time <= window:
            return found._replace(time=window)
        if found.edge == "launch":
            return Cursor(-1, self._host_thread[found.row], low, "launch")
        return found._replace(time=low)

    def _gap_cause(self, row: int, gap: int, edge: str) -> tuple[str, str]:
        if edge == "launch":
            return ("host_bound", "launch_latency") if gap <= self._parameters.launch_latency_ns else ("unknown", "launch_latency")
        if edge and gap <= self._parameters.device_gap_ns:
            return self._context.device_cause[row], "device_gap"
        return "unknown", "device_gap"

    # -- host -------------------------------------------------------------------------------------------------------

    def _on_host(self, cursor: Cursor) -> Cursor:
        thread, time = cursor.thread, cursor.time
        if thread < 0:
            return self._nothing_before(cursor)
        low_index, high_index = self._first[thread], self._first[thread + 1]
        index = bisect_left(self._time, time, low_index, high_index) - 1
        if index >= low_index and self._plain[index]:
            first = self._plain_from[index]
            if self._time[first] < self._window.start:
                first = bisect_right(self._time, self._window.start, first, index + 1) - 1
            self._stretches.append(Stretch(first, index, thread, time, cursor.edge))
            return Cursor(-1, thread, max(self._time[first], self._window.start), "host")
        owner = self._owner[index] if index >= low_index else -1
        if owner < 0 or (self._work[owner] < 0 and self._cause[owner] < 0):
            return self._gap(cursor)
        low = max(self._time[index], self._window.start)
        call = self._blocked_in[owner]
        if call >= 0:
            awaited = self._awaits[call]
            if self._op_start[awaited] < time:
                meet = min(self._op_end[awaited], time)
                if meet >= low:
                    self._emit_host(thread, owner, meet, time, self._wait_cause(owner, awaited), "sync_return", cursor.edge)
                    return Cursor(awaited, thread, meet, "sync")
        self._emit_host(thread, owner, low, time, self._work_cause(owner, time - low), self._work_name(owner), cursor.edge)
        return Cursor(-1, thread, low, "host")

    def _wait_cause(self, owner: int, awaited: int) -> str:
        """Cause of the tail of a blocking call: the range around it, else the copy that it waited for; of a launch the host."""
        cause = self._own_cause(owner)
        if not cause and self._is_launch[self._context.blocked_in[owner]]:
            return "host_bound"
        copied = self._context.device_cause[awaited]
        return copied if cause == "sync" and copied in COPY_CAUSES else cause or (copied if copied in COPY_CAUSES else "sync")

    def _own_cause(self, owner: int) -> str:
        row = self._cause[owner]
        return self._context.causes.values[self._cause_code[row]] if row >= 0 else ""

    def _work_cause(self, owner: int, length: int) -> str:
        cause = self._own_cause(owner)
        if cause:
            return cause
        work = self._work[owner]
        if work in self._copy_of_call and self._copy_of_call[work] in COPY_CAUSES:
            return self._copy_of_call[work]
        if self._cpu_only and length >= self._parameters.tiny_op_ns:
            return "compute"
        return "host_bound"

    def _work_name(self, owner: int) -> str:
        work = self._work[owner]
        return self._host_names[self._host_name[work if work >= 0 else owner]]

    def _last_busy(self, thread: int, time: int) -> int:
        """End of the thread's last occupied stretch before `time`; `time` itself when it is occupied just before; -1 for none."""
        index = bisect_left(self._busy_start, time, self._busy_first[thread], self._busy_first[thread + 1]) - 1
        return min(self._busy_end[index], time) if index >= self._busy_first[thread] else -1

    def _longest_label(self, thread: int, low: int, high: int) -> int:
        """The label that covers most of a gap as the innermost one; -1 where nothing covers it."""
        first = self._first[thread]
        index = bisect_left(self._time, high, first, self._first[thread + 1]) - 1
        best, longest = -1, 0
        while index >= first and high > low:
            start = max(self._time[index], low)
            if high - start > longest:
                best, longest = self._owner[index], high - start
            high, index = start, index - 1
        return best

    def _gap(self, cursor: Cursor) -> Cursor:
        """Nothing covers the thread: continue on whichever of the loop's threads was active last."""
        thread, time, window = cursor.thread, cursor.time, self._window.start
        best, since = thread, self._last_busy(thread, time)
        for other in self._hand_over:
            if other != thread and (active := self._last_busy(other, time)) > since:
                best, since = other, active
        low = max(since, window)
        owner = self._longest_label(thread, low, time)
        for a, b, waits in self._communication.cut(low, time):
            if waits:
                self._segments.append(
                    Segment(a, b, thread, -1, "exposed_comm", "wait without an event", -1, self._scope(owner), cursor.edge, "estimated")
                )
            else:
                cause, detail = self._host_gap_cause(owner, b - a)
                self._emit_host(thread, owner, a, b, cause, detail, cursor.edge, gap=True)
        return Cursor(-1, best, low, "thread" if best != thread else "host")

    def _scope(self, owner: int) -> int:
        return self._scope_of[owner] if owner >= 0 else -1

    def _host_gap_cause(self, owner: int, length: int) -> tuple[str, str]:
        tree = self._context.tree
        if self._context.ranges_only and owner >= 0 and tree.phase[owner]:
            return "compute", "range"
        annotated = owner >= 0 and bool(tree.annotated[owner])
        if length <= self._parameters.host_gap_ns or annotated:
            return "host_bound", "host_python"
        return "host_other", "no event"


def _overhead_rows(meaning: Codes, context: Context) -> dict[str, BoolArray]:
    return {
        "compile": meaning.isin({"module_load"}),
        "profiler": meaning.isin({"profiler_cost"}),
    }


def walk(context: Context, window: Window) -> Segments:
    """Segments of the critical path, from the window's start to its end, without overlap or hole."""
    return Walk(context, window).run() if window.end > window.start else of_list([])
