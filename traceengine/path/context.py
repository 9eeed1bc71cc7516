"""What the walk and the replay look up about a rank: owners over time, causes, waits, device operations by time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np

from traceengine.names import Names
from traceengine.path.parameters import PathParameters
from traceengine.path.steps import Window
from traceengine.path.threads import (
    Ancestry,
    Occupied,
    ThreadIntervals,
    ancestry,
    by_depth,
    cause_codes,
    flatten,
    inherit_nearest,
    occupied,
)
from traceengine.path.timeline import BoolArray, Codes, DeviceOps, IntArray, Timeline
from traceengine.path.waits import Waits, resolve_waits

COPY_CAUSES = {"h2d": "h2d", "d2h": "d2h", "p2p": "p2p"}
READ_BACK_CAUSES = frozenset({"logging", "checkpoint"})
"""Causes that own the copies back to the host made inside their operators and ranges."""


def view(array: IntArray) -> memoryview:
    """The array as a memoryview: its items are Python integers, which single look-ups need, without a copy."""
    return np.ascontiguousarray(array).data


class Stretches:
    """Sorted, merged intervals with a lookup of the parts that overlap a span."""

    def __init__(self, start: IntArray, end: IntArray) -> None:
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        reach = np.maximum.accumulate(end) if len(end) else end
        new = np.ones(len(start), np.bool_)
        new[1:] = start[1:] > reach[:-1]
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(start)) - 1 if len(first) else first
        self._start: list[int] = start[first].tolist()
        self._end: list[int] = reach[last].tolist()

    @property
    def starts(self) -> IntArray:
        """Starts of the merged intervals."""
        return np.array(self._start, dtype=np.int64)

    @property
    def ends(self) -> IntArray:
        """Ends of the merged intervals."""
        return np.array(self._end, dtype=np.int64)

    def cut(self, low: int, high: int) -> list[tuple[int, int, bool]]:
        """Parts of [low, high], latest first; True where an interval covers the part."""
        parts = []
        index = bisect_left(self._start, high) - 1
        while high > low:
            if index < 0 or self._end[index] <= low:
                parts.append((low, high, False))
                break
            if self._end[index] < high:
                parts.append((self._end[index], high, False))
                high = self._end[index]
            bottom = max(self._start[index], low)
            parts.append((bottom, high, True))
            high, index = bottom, index - 1
        return parts


class DeviceLookup:
    """Lookups over the operations of a device by time."""

    def __init__(self, device: DeviceOps, yields: BoolArray) -> None:
        self._start = view(device.start)
        self._end = view(device.end)
        self._device_of_stream = device.stream_device.tolist()
        self._compute: dict[int, list[tuple[memoryview, memoryview]]] = {}
        compute = ~yields & (device.end > device.start)
        for stream, number in enumerate(self._device_of_stream):
            rows = np.flatnonzero(compute & (device.stream == stream))
            if len(rows):
                self._compute.setdefault(number, []).append((view(rows), view(device.start[rows])))
        order = np.argsort(device.end, kind="stable")
        self._by_end = view(order)
        self._ends = view(device.end[order])
        self._stream = view(device.stream)

    def computing(self, stream: int, time: int) -> int:
        """The compute operation of the same device that runs just before `time`, or else ended last; -1 for none."""
        best, best_end = -1, -1
        for rows, starts in self._compute.get(self._device_of_stream[stream], ()):
            index = bisect_left(starts, time) - 1
            if index >= 0 and self._end[rows[index]] > best_end:
                best, best_end = rows[index], self._end[rows[index]]
        return best

    def ended_just_before(self, row: int, time: int, within: int) -> int:
        """An operation of another stream of the same device that started before and ended in [time - within, time]; -1 for none.

        One of no length at `time` itself made nothing wait, and two of them would wait for each other.
        """
        index = bisect_right(self._ends, time) - 1
        mine = self._stream[row]
        while index >= 0 and self._ends[index] >= time - within:
            other = self._by_end[index]
            stream = self._stream[other]
            if self._start[other] < time and stream != mine and self._device_of_stream[stream] == self._device_of_stream[mine]:
                return int(other)
            index -= 1
        return -1


@dataclass(frozen=True)
class Context:
    """Everything that the walk looks up; derived once per rank."""

    timeline: Timeline
    intervals: ThreadIntervals
    occupied: Occupied
    tree: Ancestry
    causes: Codes
    waits: Waits
    blocked_in: IntArray
    """By host row: nearest blocking call, itself included, that awaits a device operation; -1 for none."""
    device_cause: tuple[str, ...]
    yields: BoolArray
    """By device row: communication and copies, which are exposed only where nothing computes."""
    copy_of_call: dict[int, str]
    """Host row of a copying call → cause of its copy."""
    lookup: DeviceLookup
    ranges_only: bool
    """The capture holds neither device work nor operators: ranges are all that says what the host did."""
    parameters: PathParameters


def device_causes(timeline: Timeline, names: Names, tree: Ancestry, causes: Codes) -> list[str]:
    """Cause of each device operation: communication, what reads back, a copy's direction, else compute."""
    device = timeline.device
    communicates = device.meaning.isin({meaning for meaning, cause in names.causes().items() if cause == "exposed_comm"})
    result = np.where(communicates, "exposed_comm", "compute").astype(object)
    for row in np.flatnonzero(device.kind.isin({"memcpy"})).tolist():
        copy = device.copy_kind.text(row)
        caused = int(tree.cause[device.launch[row]]) if copy == "d2h" and device.launch[row] >= 0 else -1
        around = causes.text(caused) if caused >= 0 else None
        result[row] = around if around in READ_BACK_CAUSES else COPY_CAUSES.get(copy or "", "compute")
    found: list[str] = result.tolist()
    return found


def build_context(timeline: Timeline, names: Names, parameters: PathParameters) -> Context:
    """Derive the lookups of a rank."""
    host = timeline.host
    causes = cause_codes(host.meaning, names)
    tree = ancestry(host, causes)
    intervals = flatten(host, len(timeline.threads.pid))
    waits = resolve_waits(timeline, parameters)
    rows = np.arange(len(host), dtype=np.int64)
    levels = by_depth(host.depth)
    blocked = inherit_nearest(np.where(waits.host_awaits >= 0, rows, -1), host.parent, levels) if len(host) else rows
    cause = device_causes(timeline, names, tree, causes)
    yields = np.array([value != "compute" for value in cause], dtype=np.bool_)
    copies = np.flatnonzero(timeline.device.kind.isin({"memcpy"}) & (timeline.device.launch >= 0))
    return Context(
        timeline,
        intervals,
        occupied(intervals, tree),
        tree,
        causes,
        waits,
        blocked,
        tuple(cause),
        yields,
        {int(timeline.device.launch[row]): cause[row] for row in copies},
        DeviceLookup(timeline.device, yields),
        not len(timeline.device) and not host.kind.isin({"op"}).any(),
        parameters,
    )


def hand_over_threads(timeline: Timeline, window: Window) -> list[int]:
    """The loop's thread and its autograd threads: those that continue one another."""
    return [index for index, role in enumerate(timeline.threads.role) if role == "autograd" or index == window.thread]


def background_communication(timeline: Timeline, window: Window) -> Stretches:
    """Collectives that run on threads other than the loop's (gloo): the loop waits for them without an event."""
    host = timeline.host
    rows = host.meaning.isin({"comm_range"}) & ~np.isin(host.thread, np.array(hand_over_threads(timeline, window), dtype=np.int64))
    return Stretches(host.start[rows], host.end[rows])
