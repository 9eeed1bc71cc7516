"""Who waits for what: blocking host calls → device operation, device operation → operation of another stream.

All results are arrays of rows of `DeviceOps`, -1 for none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceengine.path.fullqueue import held_launches
from traceengine.path.parameters import PathParameters
from traceengine.path.timeline import DeviceOps, HostEvents, IntArray, Timeline

_ANY_STREAM = frozenset({"device_sync", "event_sync", "free_call"})
_LOOK_BACK = 256
"""How many operations before a synchronise's end are looked at for one that was launched before its start."""


@dataclass(frozen=True)
class Waits:
    """Resolved waits of one rank."""

    host_awaits: IntArray
    """By host row: the device operation whose end released a blocking call."""
    event_predecessor: IntArray
    """By device row: the operation of another stream that it waited for through a recorded event."""
    launched_at: IntArray
    """By device row: start of the launching call, or of the operation itself when the launch is unknown."""


def _launched_at(host: HostEvents, device: DeviceOps) -> IntArray:
    if not len(host):
        return device.start.copy()
    known = device.launch >= 0
    return np.where(known, host.start[np.maximum(device.launch, 0)], device.start)


def _last_ended(order: IntArray, ends: IntArray, launched_at: IntArray, call: tuple[int, int], slack: int) -> int:
    """Of the operations in `order` (sorted by end), the last that ended by the call's end and was launched before its start."""
    start, end = call
    position = int(np.searchsorted(ends, end + slack, side="right")) - 1
    for index in range(position, max(position - _LOOK_BACK, -1), -1):
        row = int(order[index])
        if launched_at[row] < start:
            return row if ends[index] > start else -1
    return -1


@dataclass(frozen=True)
class _EndOrder:
    """Device rows sorted by end: all of them, and per stream."""

    rows: IntArray
    ends: IntArray
    by_stream: tuple[tuple[IntArray, IntArray], ...]


def _end_order(device: DeviceOps) -> _EndOrder:
    rows = np.argsort(device.end, kind="stable")
    streams = []
    for stream in range(len(device.stream_number)):
        mine = np.flatnonzero(device.stream == stream)
        streams.append((mine, device.end[mine]))
    return _EndOrder(rows, device.end[rows], tuple(streams))


def _known_stream(timeline: Timeline) -> dict[int, int]:
    """Host row of a stream synchronise → stream index, where the capture says which stream."""
    device, waits = timeline.device, timeline.waits
    index = {(int(d), int(s)): i for i, (d, s) in enumerate(zip(device.stream_device, device.stream_number, strict=True))}
    rows = np.flatnonzero(waits.kind.isin({"stream_sync"}) & (waits.call >= 0))
    return {
        int(waits.call[row]): index[(int(waits.device[row]), int(waits.stream[row]))]
        for row in rows
        if (int(waits.device[row]), int(waits.stream[row])) in index
    }


def _last_launch_streams(timeline: Timeline, calls: IntArray) -> IntArray:
    """For each call: stream of the last operation that its thread launched before it, -1 for none."""
    host, device = timeline.host, timeline.device
    linked = np.flatnonzero(device.launch >= 0)
    if not len(linked):
        return np.full(len(calls), -1, np.int64)
    launch = device.launch[linked]
    order = np.lexsort((host.start[launch], host.thread[launch]))
    linked, launch = linked[order], launch[order]
    # (thread, start) as one sortable key: starts are shifted into their thread's own range.
    low = int(min(host.start[launch].min(), host.start[calls].min())) if len(calls) else 0
    span = int(max(host.start[launch].max(), host.start[calls].max())) - low + 1 if len(calls) else 1
    key = host.thread[launch] * span + (host.start[launch] - low)
    wanted = host.thread[calls] * span + (host.start[calls] - low)
    position = np.searchsorted(key, wanted) - 1
    valid = (position >= 0) & (host.thread[launch[np.maximum(position, 0)]] == host.thread[calls])
    return np.where(valid, device.stream[linked[np.maximum(position, 0)]], -1)


def _host_awaits(timeline: Timeline, launched_at: IntArray, parameters: PathParameters) -> IntArray:
    host, device = timeline.host, timeline.device
    result = np.full(len(host), -1, np.int64)
    if not len(device):
        return result
    order, slack = _end_order(device), parameters.clock_slack_ns
    known = _known_stream(timeline)
    stream_calls = np.flatnonzero(host.meaning.isin({"stream_sync"}))
    guesses = _last_launch_streams(timeline, stream_calls)
    for row, guess in zip(stream_calls.tolist(), guesses.tolist(), strict=True):
        call = (int(host.start[row]), int(host.end[row]))
        stream = known.get(row, guess)
        if stream >= 0:
            rows, ends = order.by_stream[stream]
            result[row] = _last_ended(rows, ends, launched_at, call, slack)
        if result[row] < 0 and row not in known:
            result[row] = _last_ended(order.rows, order.ends, launched_at, call, slack)
    for row in np.flatnonzero(host.meaning.isin(_ANY_STREAM)).tolist():
        call = (int(host.start[row]), int(host.end[row]))
        result[row] = _last_ended(order.rows, order.ends, launched_at, call, slack)
    calls, made_room = held_launches(timeline)
    result[calls] = made_room
    _copy_calls(timeline, result)
    return result


def _copy_calls(timeline: Timeline, result: IntArray) -> None:
    """A copy call that was still open when its own copy ended was blocked by it."""
    host, device = timeline.host, timeline.device
    copies = np.flatnonzero((device.launch >= 0) & device.kind.isin({"memcpy"}))
    launch = device.launch[copies]
    blocked = (device.end[copies] <= host.end[launch]) & (device.end[copies] > host.start[launch])
    order = np.argsort(device.end[copies[blocked]], kind="stable")
    result[launch[blocked][order]] = copies[blocked][order]


def _event_predecessor(timeline: Timeline, launched_at: IntArray) -> IntArray:
    """Stream waits bind the first operation that is launched on the waiting stream after them."""
    device, waits, host = timeline.device, timeline.waits, timeline.host
    result = np.full(len(device), -1, np.int64)
    rows = np.flatnonzero(waits.kind.isin({"stream_wait_event"}))
    if not len(rows) or not len(device):
        return result
    index = {(int(d), int(s)): i for i, (d, s) in enumerate(zip(device.stream_device, device.stream_number, strict=True))}
    by_launch = _launch_order(device, launched_at)
    for row in rows.tolist():
        waiting = index.get((int(waits.device[row]), int(waits.stream[row])))
        awaited = index.get((int(waits.device[row]), int(waits.awaited_stream[row])))
        recorded = timeline.record_start.get(int(waits.record_correlation[row]))
        if waiting is None or awaited is None or recorded is None:
            continue
        call = int(waits.call[row])
        when = int(host.start[call]) if call >= 0 else int(waits.start[row])
        waiting_rows, waiting_times = by_launch[waiting]
        awaited_rows, awaited_times = by_launch[awaited]
        first = int(np.searchsorted(waiting_times, when))
        before = int(np.searchsorted(awaited_times, recorded)) - 1
        if first >= len(waiting_rows) or before < 0:
            continue
        target, source = int(waiting_rows[first]), int(awaited_rows[before])
        if result[target] < 0 or device.end[source] > device.end[result[target]]:
            result[target] = source
    return result


def _launch_order(device: DeviceOps, launched_at: IntArray) -> list[tuple[IntArray, IntArray]]:
    """Per stream: rows and launch times in launch order."""
    result = []
    for stream in range(len(device.stream_number)):
        rows = np.flatnonzero(device.stream == stream)
        order = np.argsort(launched_at[rows], kind="stable")
        result.append((rows[order], launched_at[rows][order]))
    return result


def resolve_waits(timeline: Timeline, parameters: PathParameters) -> Waits:
    """Resolve all waits of a rank."""
    launched_at = _launched_at(timeline.host, timeline.device)
    return Waits(
        _host_awaits(timeline, launched_at, parameters),
        _event_predecessor(timeline, launched_at),
        launched_at,
    )
