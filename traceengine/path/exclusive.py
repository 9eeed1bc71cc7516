"""Exclusive time: each moment of the window belongs to one cause.

A moment in which a device operation runs belongs to the device, whatever the path's host thread did: compute first, then
communication, then copies. So communication and copies count only where nothing computes, and host causes only where the
device is idle. That is what removing a cause could save at most as long as nothing else moves: the exposed time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceengine.path.timeline import DeviceOps, IntArray
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
    times = np.unique(np.concatenate([device.start, device.end]))
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


def hidden_time(clock: DeviceClock, path_rows: pa.Table, is_operation: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Per segment, the time that each device cause owns of it; zero for segments that are device operations themselves."""
    start = path_rows.column("ts_ns").to_numpy()
    end = start + path_rows.column("dur_ns").to_numpy()
    return np.where(is_operation[:, None], 0, clock.at(end) - clock.at(start))


def step_cause_table(rank: int, path_rows: pa.Table, hidden: npt.NDArray[np.int64]) -> pa.Table:
    """Table `step_cause` of one rank: path time and exclusive time per step and cause."""
    dur = path_rows.column("dur_ns").to_numpy()
    steps = path_rows.column("step").to_pylist()
    causes = path_rows.column("cause").to_pylist()
    path: dict[tuple[int | None, str], int] = {}
    exclusive: dict[tuple[int | None, str], int] = {}
    for index, (step, cause) in enumerate(zip(steps, causes, strict=True)):
        own = int(dur[index])
        path[step, cause] = path.get((step, cause), 0) + own
        for code in np.flatnonzero(hidden[index]):
            taken = int(hidden[index, code])
            own -= taken
            key = (step, PRECEDENCE[code])
            exclusive[key] = exclusive.get(key, 0) + taken
        exclusive[step, cause] = exclusive.get((step, cause), 0) + own
    keys = sorted(set(path) | set(exclusive), key=lambda key: (key[0] is None, key[0] or 0, key[1]))
    rows = [
        {"rank": rank, "step": step, "cause": cause, "path_ns": path.get((step, cause), 0), "exclusive_ns": exclusive.get((step, cause), 0)}
        for step, cause in keys
    ]
    return pa.Table.from_pylist(rows, schema=table("step_cause").arrow)
