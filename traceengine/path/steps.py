"""Steps of a rank: markers, completeness, wall-time boundaries, the analysed window."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from traceengine.names import LOADING
from traceengine.path.timeline import BoolArray, IntArray, Timeline

CUT_STEP_SHARE = 0.5
"""An edge step shorter than this share of the median step that also lacks content which the others have was cut."""

LAUNCH_MEANINGS = frozenset({"launch", "graph_launch"})


@dataclass(frozen=True)
class Step:
    """A step: see table `step`."""

    number: int
    name: str
    start: int
    end: int
    origin: str
    complete: bool
    host_start: int
    host_end: int
    device_end: int | None
    launches: int
    launches_without_device_event: int
    backlog: int


@dataclass(frozen=True)
class Window:
    """The analysed stretch of a rank, and why it ends where it does."""

    start: int
    end: int
    thread: int
    """Thread of the training loop; -1 without host events."""
    last_device_row: int
    """Device operation that ends the window; -1 when the host ends it."""


@dataclass(frozen=True)
class Steps:
    """All steps of a rank in time order, and the window over the complete ones."""

    steps: tuple[Step, ...]
    window: Window
    origin: str | None
    micro_steps_grouped: int = 0

    @property
    def complete(self) -> tuple[Step, ...]:
        """Steps that statistics use."""
        return tuple(step for step in self.steps if step.complete)


@dataclass(frozen=True)
class _Markers:
    """Host spans of candidate steps in time order."""

    thread: int
    start: IntArray
    end: IntArray
    number: IntArray
    name: tuple[str, ...]
    origin: str
    closed: BoolArray
    """False for a stretch that the marker only delimits on one side (inferred edges)."""


def _trailing_number(name: str) -> int | None:
    found = re.search(r"(\d+)\D*$", name)
    return int(found.group(1)) if found else None


def _numbers(names: tuple[str, ...]) -> IntArray:
    """Recorded numbers when they are unique and rising, else 0, 1, 2 …"""
    numbers = [_trailing_number(name) for name in names]
    known = [number for number in numbers if number is not None and number < 2**62]
    if len(known) == len(names) and all(a < b for a, b in pairwise(known)):
        return np.array(known, dtype=np.int64)
    return np.arange(len(names), dtype=np.int64)


def _loop_thread(timeline: Timeline) -> int:
    """The training loop's thread: the one with step markers, else optimizer or loader ranges, else most events."""
    host = timeline.host
    for meanings in ({"step"}, {"optimizer_step"}, LOADING):
        rows = np.flatnonzero(host.meaning.isin(meanings))
        if len(rows):
            return int(np.bincount(host.thread[rows]).argmax())
    main = [index for index, role in enumerate(timeline.threads.role) if role == "main"]
    if len(main) == 1:
        return main[0]
    return int(np.bincount(host.thread).argmax()) if len(host) else -1


def _outermost(start: IntArray, end: IntArray) -> BoolArray:
    """Which spans lie inside no other one; spans that merely overlap are both kept. Rows are sorted by (start, longer first)."""
    outer = np.ones(len(start), np.bool_)
    outer[1:] = end[1:] > np.maximum.accumulate(end)[:-1]
    return outer


def _recorded_markers(timeline: Timeline, thread: int) -> _Markers | None:
    host = timeline.host
    rows = np.flatnonzero(host.meaning.isin({"step"}) & (host.thread == thread))
    if not len(rows):
        return None
    rows = rows[_outermost(host.start[rows], host.recorded_end[rows])]
    name = tuple(host.name.text(int(row)) or "" for row in rows)
    origin = "profiler" if name[0].startswith("ProfilerStep") else "nvtx"
    return _Markers(thread, host.start[rows], host.recorded_end[rows], _numbers(name), name, origin, np.ones(len(rows), np.bool_))


def _inferred_markers(timeline: Timeline, thread: int) -> _Markers | None:
    """Steps between the ends of successive optimizer steps, else between the starts of successive loader calls."""
    host = timeline.host
    rows = np.flatnonzero(host.meaning.isin({"optimizer_step"}) & (host.thread == thread))
    cuts = host.end[rows]
    what = "between ends of optimizer steps"
    if len(rows) < 3:
        rows = np.flatnonzero(host.meaning.isin(LOADING) & (host.thread == thread) & (host.kind.isin({"op", "annotation"})))
        cuts = host.start[rows]
        what = "between starts of loader calls"
    if len(rows) < 3:
        return None
    count = len(cuts) - 1
    return _Markers(thread, cuts[:-1], cuts[1:], np.arange(count), (what,) * count, "inferred", np.ones(count, np.bool_))


def _group_micro_steps(timeline: Timeline, markers: _Markers) -> tuple[_Markers, int]:
    """Join markers so that each holds one optimizer step, when a marker was set per micro-batch.

    Recognised by complete markers without any optimizer step beside markers with one. Returns the markers and how many
    were joined into others.
    """
    host = timeline.host
    optimizer = np.sort(host.start[host.meaning.isin({"optimizer_step"}) & (host.thread == markers.thread)])
    held = np.searchsorted(optimizer, markers.end) - np.searchsorted(optimizer, markers.start)
    if not len(optimizer) or markers.origin == "inferred" or np.count_nonzero(held[1:-1] == 0) == 0:
        return markers, 0
    ends = np.flatnonzero(held > 0)
    starts = np.concatenate([[0], ends[:-1] + 1])
    grouped = _Markers(
        markers.thread,
        markers.start[starts],
        markers.end[ends],
        np.arange(len(ends)),
        tuple(markers.name[index] for index in starts),
        markers.origin,
        # The first group may have begun before the capture.
        np.concatenate([[ends[0] + 1 >= int(np.median(np.diff(ends, prepend=-1)))], np.ones(len(ends) - 1, np.bool_)]),
    )
    return grouped, len(markers.start) - len(ends)


@dataclass(frozen=True)
class _Content:
    """What each marker holds on the host."""

    launches: IntArray
    missing: IntArray
    optimizer: IntArray
    ops: IntArray
    device_end: IntArray
    device_row: IntArray
    backlog_end: int
    """End of the last device operation that was launched before the first marker; -1 for none."""


def _count_between(times: IntArray, start: IntArray, end: IntArray) -> IntArray:
    times = np.sort(times)
    return (np.searchsorted(times, end) - np.searchsorted(times, start)).astype(np.int64)


def _content(timeline: Timeline, markers: _Markers) -> _Content:
    host, device = timeline.host, timeline.device
    until = np.append(markers.start[1:], markers.end[-1])
    is_launch = host.meaning.isin(LAUNCH_MEANINGS)
    has_device = np.zeros(len(host), np.bool_)
    has_device[device.launch[device.launch >= 0]] = True
    linked = np.flatnonzero(device.launch >= 0)
    launch_time = host.start[device.launch[linked]]
    step_of = np.searchsorted(markers.start, launch_time, side="right") - 1
    inside = (step_of >= 0) & (launch_time < until[np.maximum(step_of, 0)])
    linked, step_of = linked[inside], step_of[inside]
    device_end = np.full(len(markers.start), -1, np.int64)
    np.maximum.at(device_end, step_of, device.end[linked])
    device_row = np.full(len(markers.start), -1, np.int64)
    is_last = device.end[linked] == device_end[step_of]
    device_row[step_of[is_last]] = linked[is_last]
    on_thread = host.thread == markers.thread
    return _Content(
        _count_between(host.start[is_launch], markers.start, until),
        _count_between(host.start[is_launch & ~has_device], markers.start, until),
        _count_between(host.start[host.meaning.isin({"optimizer_step"}) & on_thread], markers.start, until),
        _count_between(host.start[on_thread], markers.start, until),
        device_end,
        device_row,
        _backlog_end(timeline, int(markers.start[0]), linked),
    )


def _backlog_end(timeline: Timeline, start: int, linked: IntArray) -> int:
    """When the device had finished what was launched before the first step; `linked` are rows launched inside the steps.

    Of operations without a launch in the capture only those count that ran before the steps' own first work.
    """
    host, device = timeline.host, timeline.device
    known = device.launch >= 0
    rows = np.flatnonzero(known)
    earlier = np.zeros(len(device), np.bool_)
    earlier[rows] = host.start[device.launch[rows]] < start
    if len(linked):
        earlier |= ~known & (device.start < device.start[linked].min())
    return int(device.end[earlier].max(initial=-1))


def _complete(markers: _Markers, content: _Content, truncated: bool, has_device: bool) -> BoolArray:
    """Which markers are whole steps: edges by content, any by missing device work (see CUT_STEP_SHARE)."""
    count = len(markers.start)
    complete = markers.closed.copy()
    if count >= 3:
        dur = markers.end - markers.start
        for edge in (0, count - 1):
            others = np.delete(np.arange(count), edge)
            short = dur[edge] < CUT_STEP_SHARE * np.median(dur[others])
            lacks = any(
                column[edge] < CUT_STEP_SHARE * np.median(column[others]) for column in (content.launches, content.optimizer, content.ops)
            )
            complete[edge] &= not (short and lacks)
    if truncated:
        complete[-1] = False
    if has_device:
        lossy = content.missing > 0
        if truncated or not lossy.all():
            complete &= ~lossy
    return complete


def _boundaries(markers: _Markers, content: _Content) -> tuple[IntArray, IntArray]:
    """Wall-time start and end of each step.

    A step ends when the next marker starts and the device work launched in it has ended, whichever is later; the next
    one starts there. So a host that runs ahead of the device does not make steps look short.
    """
    host_end = np.append(markers.start[1:], markers.end[-1])
    end = np.maximum.accumulate(np.maximum(host_end, content.device_end))
    return np.append(markers.start[0], end[:-1]), end


def _whole_window(timeline: Timeline, thread: int) -> Window:
    host, device = timeline.host, timeline.device
    starts = [int(part.min()) for part in (host.start, device.start) if len(part)]
    ends = [int(part.max()) for part in (host.end, device.end) if len(part)]
    if not starts:
        return Window(0, 0, -1, -1)
    last = int(device.end.argmax()) if len(device) and int(device.end.max()) == max(ends) else -1
    return Window(min(starts), max(ends), thread, last)


def _window(markers: _Markers, content: _Content, end: IntArray, complete: BoolArray) -> Window:
    chosen = np.flatnonzero(complete)
    first, last = int(chosen[0]), int(chosen[-1])
    window_end = int(end[last])
    rows = [int(content.device_row[i]) for i in range(first, last + 1) if int(content.device_end[i]) == window_end]
    return Window(int(markers.start[first]), window_end, markers.thread, rows[-1] if rows else -1)


def find_steps(timeline: Timeline, truncated: bool) -> Steps:
    """Find the steps of a rank. Without any marker the whole capture is the window and there are no steps."""
    thread = _loop_thread(timeline)
    markers = None
    if thread >= 0:
        markers = _recorded_markers(timeline, thread) or _inferred_markers(timeline, thread)
    if markers is None:
        return Steps((), _whole_window(timeline, thread), None)
    markers, grouped = _group_micro_steps(timeline, markers)
    content = _content(timeline, markers)
    complete = _complete(markers, content, truncated, len(timeline.device) > 0)
    start, end = _boundaries(markers, content)
    steps = tuple(
        Step(
            int(markers.number[i]),
            markers.name[i],
            int(start[i]),
            int(end[i]),
            markers.origin,
            bool(complete[i]),
            int(markers.start[i]),
            int(markers.end[i]),
            int(content.device_end[i]) if content.device_end[i] >= 0 else None,
            int(content.launches[i]),
            int(content.missing[i]),
            max(0, min(content.backlog_end, int(end[0])) - int(start[0])) if i == 0 else 0,
        )
        for i in range(len(markers.start))
    )
    usable = complete if complete.any() else np.ones(len(steps), np.bool_)
    return Steps(steps, _window(markers, content, end, usable), markers.origin, grouped)
