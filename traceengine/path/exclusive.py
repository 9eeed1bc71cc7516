"""Exclusive time: each moment of the window belongs to one cause.

A moment in which a device operation runs belongs to the device, whatever the path's host thread did: compute first, then
communication, then copies. So communication and copies count only where nothing computes, and host causes only where the
device is idle. That is what removing a cause could save at most as long as nothing else moves: the exposed time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceengine.path.timeline import BoolArray, Codes, DeviceOps, IntArray, sorted_unique
from traceengine.schema import table

PRECEDENCE = ("compute", "exposed_comm", "h2d", "d2h", "p2p", "logging", "checkpoint")
"""Device causes; of those that run at the same moment the first one owns it."""


@dataclass(frozen=True)
class DeviceClock:
    """Time that each device cause has owned since the start, at each change; linear in between."""

    times: IntArray
    owned: npt.NDArray[np.int64]
    """Shape (len(times), len(PRECEDENCE)), ns."""
    owner: IntArray
    """Index into PRECEDENCE of the cause that owns the time after each change, -1 for idle."""

    def at(self, moments: IntArray) -> npt.NDArray[np.int64]:
        """Owned time per cause at each moment; shape (len(moments), len(PRECEDENCE))."""
        if not len(self.times):
            return np.zeros((len(moments), len(PRECEDENCE)), np.int64)
        index = np.searchsorted(self.times, moments, side="right") - 1
        inside = np.maximum(index, 0)
        result = np.where(index[:, None] >= 0, self.owned[inside], 0)
        running = (index >= 0) & (self.owner[inside] >= 0)
        rows = np.flatnonzero(running)
        result[rows, self.owner[inside[rows]]] += moments[rows] - self.times[inside[rows]]
        return result


def device_clock(device: DeviceOps, causes: tuple[str, ...]) -> DeviceClock:
    """Sweep all operations of a rank; `causes` is the cause of each device row."""
    index = {cause: code for code, cause in enumerate(PRECEDENCE)}
    code = np.array([index[cause] for cause in causes], dtype=np.int64)
    times = sorted_unique(np.concatenate([device.start, device.end]))
    running = np.zeros((len(times) + 1, len(PRECEDENCE)), np.int64)
    np.add.at(running, (np.searchsorted(times, device.start), code), 1)
    np.add.at(running, (np.searchsorted(times, device.end), code), -1)
    active = np.cumsum(running[:-1], axis=0) > 0
    owner = np.where(active.any(axis=1), active.argmax(axis=1), -1) if len(times) else np.zeros(0, np.int64)
    length = np.diff(times, append=times[-1:])
    spent = np.zeros((len(times), len(PRECEDENCE)), np.int64)
    rows = np.flatnonzero(owner >= 0)
    spent[rows, owner[rows]] = length[rows]
    owned = np.concatenate([np.zeros((1, len(PRECEDENCE)), np.int64), np.cumsum(spent, axis=0)])[:-1] if len(times) else spent
    return DeviceClock(times, owned, owner)


@dataclass(frozen=True)
class Owned:
    """Path time and exclusive time. `hidden` is by segment, what the device owns of it; `path` and `exclusive` are by (step, cause).

    Rows of the two are step indices, the last one for what lies outside all steps; columns are `causes`.
    """

    hidden: IntArray
    path: npt.NDArray[np.int64]
    exclusive: npt.NDArray[np.int64]
    causes: tuple[str, ...]


_BLOCK = 1 << 16
"""Segments that are looked at together: bounds the memory that a long path takes."""


def exclusive_time(clock: DeviceClock, start: IntArray, end: IntArray, is_operation: BoolArray, step: IntArray, cause: Codes) -> Owned:
    """Sum up segments by step (-1: none) and cause. A segment that is a device operation itself belongs to its own cause."""
    causes = (*PRECEDENCE, *(value for value in cause.values if value not in PRECEDENCE))
    place = np.array([causes.index(value) for value in cause.values], dtype=np.int64)
    steps = int(step.max(initial=-1)) + 1
    hidden = np.zeros(len(start), np.int64)
    path = np.zeros((steps + 1, len(causes)), np.int64)
    exclusive = np.zeros_like(path)
    for low in range(0, len(start), _BLOCK):
        part = slice(low, low + _BLOCK)
        where, own = step[part], place[cause.code[part]]
        taken = np.where(is_operation[part, None], 0, clock.at(end[part]) - clock.at(start[part]))
        hidden[part] = taken.sum(axis=1)
        length = end[part] - start[part]
        np.add.at(path, (where, own), length)
        np.add.at(exclusive, (where, own), length - hidden[part])
        for code in np.flatnonzero(taken.any(axis=0)).tolist():
            np.add.at(exclusive[:, code], where, taken[:, code])
    return Owned(hidden, path, exclusive, causes)


def step_cause_table(rank: int, numbers: Sequence[int], owned: Owned) -> pa.Table:
    """Table `step_cause` of one rank; `numbers` are those of the steps."""
    last = len(owned.path) - 1
    rows = [
        {
            "rank": rank,
            "step": numbers[step] if step < last else None,
            "cause": owned.causes[cause],
            "path_ns": int(owned.path[step, cause]),
            "exclusive_ns": int(owned.exclusive[step, cause]),
        }
        for step in range(last + 1)
        for cause in sorted(range(len(owned.causes)), key=lambda code: owned.causes[code])
        if owned.path[step, cause] or owned.exclusive[step, cause]
    ]
    return pa.Table.from_pylist(rows, schema=table("step_cause").arrow)
