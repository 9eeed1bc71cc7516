"""Launch calls that were held up because the stream's launch queue was full: they waited for the device, not for the host."""

from __future__ import annotations

import numpy as np

from traceengine.path.timeline import BoolArray, IntArray, Timeline

MIN_QUEUE_DEPTH = 4
"""Fewer launches than this in flight are no queue; CUDA's holds about a thousand."""
MIN_HELD_NS = 20_000
"""A launch call takes 3-10 µs; one that takes longer than this, and HELD_FACTOR times the median, was held up."""
HELD_FACTOR = 4
MIN_HELD_CALLS = 3
"""One or two slow calls with the most launches in flight are chance."""


def held_launches(timeline: Timeline) -> tuple[IntArray, IntArray]:
    """Held launch calls (rows of HostEvents) and the operation whose end made room for each (rows of DeviceOps)."""
    host, device = timeline.host, timeline.device
    linked = np.flatnonzero(device.launch >= 0)
    if not len(linked):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    recorded = _recorded(timeline, np.unique(device.launch[linked]))
    calls, rows = [], []
    for stream in np.unique(device.stream[linked]).tolist():
        mine = np.flatnonzero(device.stream == stream)
        launch, first = np.unique(device.launch[mine[device.launch[mine] >= 0]], return_index=True)
        started = device.start[mine[device.launch[mine] >= 0][first]]
        held = launch[_at_full_queue(host.start[launch], host.end[launch], started) | np.isin(launch, recorded)]
        # The call returned as soon as the device had got through one more operation.
        done = np.searchsorted(device.end[mine], host.end[held], side="right") - 1
        during = (done >= 0) & (device.end[mine[np.maximum(done, 0)]] > host.start[held])
        calls.append(held[during])
        rows.append(mine[done[during]])
    return np.concatenate(calls), np.concatenate(rows)


def _recorded(timeline: Timeline, calls: IntArray) -> IntArray:
    """Launch calls inside which the driver recorded that its command buffer was full."""
    host, overheads = timeline.host, timeline.overheads
    full = overheads.meaning.isin({"queue_full"}) & (overheads.end - overheads.start >= MIN_HELD_NS)
    start, end = overheads.start[full], overheads.end[full]
    by_start = calls[np.argsort(host.start[calls], kind="stable")]
    index = np.searchsorted(host.start[by_start], start, side="right") - 1
    inside = (index >= 0) & (host.end[by_start[np.maximum(index, 0)]] >= end)
    return np.unique(by_start[index[inside]])


def _at_full_queue(begin: IntArray, end: IntArray, started: IntArray) -> BoolArray:
    """Long calls that began with the queue as full as it ever was, where most calls that began so were long.

    `started` is when the operation of each call started. A queue that never fills has its maximum at one moment only, and
    the call at that moment is as short as any.
    """
    order = np.argsort(begin, kind="stable")
    in_flight = np.empty(len(begin), np.int64)
    in_flight[order] = np.arange(len(begin)) - np.searchsorted(np.sort(started), begin[order], side="right")
    depth = int(in_flight.max(initial=0))
    full = in_flight >= depth
    long = end - begin >= max(MIN_HELD_NS, HELD_FACTOR * float(np.median((end - begin)[~full])) if not full.all() else 0)
    held = full & long
    count = int(np.count_nonzero(held))
    believable = depth >= MIN_QUEUE_DEPTH and count >= MIN_HELD_CALLS and 2 * count >= np.count_nonzero(full)
    return held if believable else np.zeros(len(begin), np.bool_)
