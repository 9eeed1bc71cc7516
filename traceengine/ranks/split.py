"""Exposed communication of a rank, divided into waiting for a late rank (`straggler`) and the transfer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceengine.ranks.late import MIN_LATE_NS, RESIDUALS
from traceengine.ranks.parts import IntArray, Parts
from traceengine.ranks.waits import Collective
from traceengine.schema import table

COMM, STRAGGLER = "exposed_comm", "straggler"


@dataclass(frozen=True)
class Windows:
    """Stretches in which a rank sits in a collective that another rank has not reached; sorted, apart, on its own clock."""

    start: IntArray
    end: IntArray
    late_rank: IntArray

    def inside(self, start: IntArray, end: IntArray) -> IntArray:
        """Time of each interval that lies in the windows."""
        return self._until(end) - self._until(start)

    def _until(self, times: IntArray) -> IntArray:
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.end - self.start)])
        at = np.searchsorted(self.start, times, side="right")
        result: IntArray = sums[at]
        if len(self.start):
            result = result - np.where(at > 0, np.maximum(self.end[np.maximum(at - 1, 0)] - times, 0), 0)
        return result


def wait_windows(entries: Sequence[Collective], parts: Parts) -> Windows:
    """Waits of one rank that are longer than the clocks' error."""
    found = []
    for entry in entries:
        for arrival in entry.arrivals:
            if arrival.rank == parts.rank and arrival.wait_ns > max(MIN_LATE_NS, RESIDUALS * entry.residual_ns):
                start = int(parts.start[arrival.index])
                found.append((start, start + arrival.wait_ns, entry.late_rank))
    found.sort()
    apart: list[tuple[int, int, int]] = []
    for start, end, late_rank in found:
        low = max(start, apart[-1][1]) if apart else start
        if low < end:
            apart.append((low, end, late_rank))
    columns = np.array(apart, np.int64).reshape(-1, 3)
    return Windows(columns[:, 0], columns[:, 1], columns[:, 2])


def split_path(rows: pa.Table, windows: Windows) -> pa.Table:
    """Table critical_path with the waiting parts of its communication as segments of cause straggler."""
    if not len(windows.start):
        return rows
    found: list[dict[str, object]] = []
    for row in rows.to_pylist():
        found += _pieces(row, windows) if row["cause"] == COMM else [row]
    for seq, row in enumerate(found):
        row["seq"] = seq
    return pa.Table.from_pylist(found, schema=rows.schema)


def _pieces(row: dict[str, object], windows: Windows) -> list[dict[str, object]]:
    start, length, hidden = (int(str(row[name])) for name in ("ts_ns", "dur_ns", "hidden_ns"))
    end = start + length
    cuts: list[tuple[int, int, int | None]] = [(start, end, None)]
    first = int(np.searchsorted(windows.end, start, side="right"))
    at = start
    for index in range(first, len(windows.start)):
        low, high = max(int(windows.start[index]), at), min(int(windows.end[index]), end)
        if low >= end:
            break
        if low < high:
            cuts = [*cuts[:-1], (at, low, None), (low, high, int(windows.late_rank[index])), (high, end, None)]
            at = high
    pieces, passed = [], 0
    for low, high, late_rank in cuts:
        if low == high:
            continue
        # Hidden time is spread evenly; the pieces' sum is exact.
        upto = hidden * (high - start) // length
        piece = {**row, "ts_ns": low, "dur_ns": high - low, "hidden_ns": upto - passed}
        passed = upto
        pieces.append(piece if late_rank is None else {**piece, "cause": STRAGGLER, "detail": f"wait for rank {late_rank}"})
    return pieces


def split_causes(
    rows: pa.Table, before: pa.Table, after: pa.Table, exposed: tuple[IntArray, IntArray], steps: pa.Table, windows: Windows
) -> pa.Table:
    """Table step_cause with the waiting part of exposed_comm as straggler.

    `before` and `after` are the rank's path without and with straggler segments; `exposed` are starts and ends of the stretches in
    which its device communicates and does not compute (empty where collectives run on the host: there the path tells).
    """
    if not len(windows.start):
        return rows
    waited = _by_step(after.filter(pc.equal(after.column("cause"), STRAGGLER)))
    shares = _device_shares(exposed, steps, windows) if len(exposed[0]) else _path_shares(before, waited)
    found = []
    for row in rows.to_pylist():
        if row["cause"] != COMM:
            found.append(row)
            continue
        path_ns = waited.get(row["step"], 0)
        exclusive_ns = round(row["exclusive_ns"] * shares.get(row["step"], 0.0))
        found.append({**row, "path_ns": row["path_ns"] - path_ns, "exclusive_ns": row["exclusive_ns"] - exclusive_ns})
        if path_ns or exclusive_ns:
            found.append({**row, "cause": STRAGGLER, "path_ns": path_ns, "exclusive_ns": exclusive_ns})
    return pa.Table.from_pylist(found, schema=table("step_cause").arrow)


def _by_step(rows: pa.Table) -> dict[int | None, int]:
    spent: dict[int | None, int] = {}
    for step, dur_ns in zip(rows.column("step").to_pylist(), rows.column("dur_ns").to_pylist(), strict=True):
        spent[step] = spent.get(step, 0) + dur_ns
    return spent


def _path_shares(before: pa.Table, waited: dict[int | None, int]) -> dict[int | None, float]:
    whole = _by_step(before.filter(pc.equal(before.column("cause"), COMM)))
    return {step: waited.get(step, 0) / spent for step, spent in whole.items() if spent}


def _device_shares(exposed: tuple[IntArray, IntArray], steps: pa.Table, windows: Windows) -> dict[int | None, float]:
    """Share of the exposed communication in each step, and outside all, that is waiting."""
    start, end = exposed
    whole, waited = int((end - start).sum()), int(windows.inside(start, end).sum())
    shares: dict[int | None, float] = {}
    for number, low, length in zip(*(steps.column(name).to_pylist() for name in ("step", "ts_ns", "dur_ns")), strict=True):
        a, b = np.clip(start, low, low + length), np.clip(end, low, low + length)
        spent, inside = int((b - a).sum()), int(windows.inside(a, b).sum())
        shares[number] = inside / spent if spent else 0.0
        whole, waited = whole - spent, waited - inside
    shares[None] = waited / whole if whole else 0.0
    return shares


def exposed_comm(events: pa.Table) -> tuple[IntArray, IntArray]:
    """Stretches in which a device of the rank communicates and none of its streams computes: starts and ends."""
    kinds = events.column("class").to_pylist()
    low = events.column("ts_ns").to_numpy().astype(np.int64)
    high = low + events.column("busy_dur_ns").to_numpy().astype(np.int64)
    is_comm = np.array([kind == "comm" for kind in kinds], np.bool_)
    computes = np.array([kind not in ("comm", "copy") for kind in kinds], np.bool_)
    edges = np.unique(np.concatenate([low, high]))
    if not is_comm.any():
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    state = np.zeros((2, len(edges) + 1), np.int64)
    for row, chosen in enumerate((is_comm, computes)):
        np.add.at(state[row], np.searchsorted(edges, low[chosen]), 1)
        np.add.at(state[row], np.searchsorted(edges, high[chosen]), -1)
    running = np.cumsum(state, axis=1) > 0
    stretch = np.flatnonzero(running[0, :-1] & ~running[1, :-1])
    stretch = stretch[stretch + 1 < len(edges)]
    return edges[stretch], edges[stretch + 1]
