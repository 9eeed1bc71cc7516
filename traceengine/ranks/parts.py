"""What each rank says of its collectives: one part per collective that it took part in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from traceengine.names import Names
from traceengine.run import Run

IntArray = NDArray[np.int64]

ROOTED = frozenset({"broadcast", "reduce_to_one", "gather_to_one", "scatter_from_one"})
"""Kinds in which a rank may leave before the others arrive: their ends say little about clocks."""
UNEVEN = frozenset({"alltoall"})
"""Kinds whose sizes differ between ranks."""


@dataclass(frozen=True)
class Parts:
    """The parts of one rank in order of their start; n of them. Times in ns on the rank's own clock.

    `group` names the ranks that take part (or the process group, or "" when the capture does not say), `kind` is the class in
    names.csv (None when there is none), `signature` what must be equal on all ranks. `sequence`, `step` and `size` are -1 where
    unknown; `members` is the number of ranks in the group, 0 when unknown.
    """

    rank: int
    event_id: IntArray
    start: IntArray
    end: IntArray
    op: tuple[str, ...]
    group: tuple[str, ...]
    kind: tuple[str | None, ...]
    signature: tuple[str, ...]
    sequence: IntArray
    step: IntArray
    size: IntArray
    members: IntArray
    on_device: bool

    def __len__(self) -> int:
        return len(self.event_id)


def load_parts(run: Run, rank: int, names: Names, steps: pa.Table) -> Parts:
    """The collectives of one rank: its device operations of class comm, else (no device) its ranges of class comm_range, else comm_wait.

    `steps` is table `step` of the rank. Point-to-point operations are left out: two of the same kind need not belong together.
    """
    rows = _device_rows(run, rank)
    on_device = bool(rows)
    if not rows:
        rows = _host_rows(run, rank)
    kinds = names.classify("collective", [row.op for row in rows])
    rows = [row for row, kind in zip(rows, kinds, strict=True) if kind != "send_recv"]
    kinds = [kind for kind in kinds if kind != "send_recv"]
    start = _ints([row.start for row in rows])
    return Parts(
        rank,
        _ints([row.event_id for row in rows]),
        start,
        start + _ints([row.dur for row in rows]),
        tuple(row.op for row in rows),
        tuple(row.group for row in rows),
        tuple(kinds),
        tuple(row.op if kind in UNEVEN or row.size < 0 else f"{row.op}|{row.size}" for row, kind in zip(rows, kinds, strict=True)),
        _ints([row.sequence for row in rows]),
        _step_of(start, steps),
        _ints([row.size for row in rows]),
        _ints([row.members for row in rows]),
        on_device,
    )


@dataclass(frozen=True)
class _Row:
    event_id: int
    start: int
    dur: int
    op: str
    group: str = ""
    sequence: int = -1
    size: int = -1
    members: int = 0


def _ints(values: Sequence[int]) -> IntArray:
    return np.array(values, dtype=np.int64)


def _device_rows(run: Run, rank: int) -> list[_Row]:
    events = run.read("device_event", rank, ["event_id", "ts_ns", "busy_dur_ns", "class", "name"])
    events = events.filter(pc.equal(events.column("class"), "comm")).sort_by([("ts_ns", "ascending"), ("event_id", "ascending")])
    if not len(events):
        return []
    described = {row["device_event_id"]: row for row in run.read("collective", rank).to_pylist() if row["device_event_id"] is not None}
    found = []
    for event in events.to_pylist():
        known = described.get(event["event_id"])
        place = (event["event_id"], event["ts_ns"], event["busy_dur_ns"])
        found.append(_Row(*place, _kernel(event["name"])) if known is None else _described(place, known))
    return found


def _kernel(name: str) -> str:
    """A kernel's name without its arguments: the algorithm and type that all ranks of a collective choose alike."""
    return name.split("(", 1)[0].split("<", 1)[0]


def _described(place: tuple[int, int, int], row: dict[str, Any]) -> _Row:
    args = json.loads(row["args"]) if row["args"] else {}
    members = args.get("Process Group Ranks")
    # Long lists are cut short with "..." by the profiler; such a list tells groups apart no more.
    whole = isinstance(members, str) and "..." not in members
    group = str(members) if whole else f"{row['group_name']}|{row['group_desc']}|{row['group_size']}"
    sequence = -1 if row["sequence"] is None else row["sequence"]
    size = -1 if row["bytes"] is None else row["bytes"]
    return _Row(*place, row["op"], group, sequence, size, row["group_size"] or 0)


def _host_rows(run: Run, rank: int) -> list[_Row]:
    events = run.read("host_event", rank, ["event_id", "ts_ns", "dur_ns", "class", "name"])
    events = events.filter(pc.is_valid(events.column("dur_ns")))
    # The library's own ranges say it exactly; else those that the loop's author put around a collective.
    for meaning in ("comm_range", "comm_wait"):
        found = events.filter(pc.equal(events.column("class"), meaning))
        if len(found):
            found = found.sort_by([("ts_ns", "ascending"), ("event_id", "ascending")])
            return [_Row(event["event_id"], event["ts_ns"], event["dur_ns"], event["name"]) for event in found.to_pylist()]
    return []


def _step_of(times: IntArray, steps: pa.Table) -> IntArray:
    """Number of the step in which each time falls, -1 outside all."""
    start = steps.column("ts_ns").to_numpy().astype(np.int64)
    end = start + steps.column("dur_ns").to_numpy().astype(np.int64)
    number = steps.column("step").to_numpy().astype(np.int64)
    if not len(start):
        return np.full(len(times), -1, np.int64)
    order = np.argsort(start, kind="stable")
    at = np.searchsorted(start[order], times, side="right") - 1
    inside = (at >= 0) & (times < end[order][np.maximum(at, 0)])
    return np.where(inside, number[order][np.maximum(at, 0)], -1)
