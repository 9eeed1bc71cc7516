"""Sorting and regrouping more rows than fit in memory: fixed-width records in plain files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[Any]

KEY = np.dtype(
    [
        ("lane", "i4"),
        ("kind_order", "i1"),
        ("flags", "u1"),
        ("ts", "i8"),
        ("dur", "i8"),
        ("tie", "i8"),
        ("name_hash", "u8"),
        ("row", "i8"),
        ("correlation", "i8"),
    ]
)
"""What is sorted: by lane, start, longer first, kind, the recorder's own order, name."""

RUN_ROWS = 1 << 19
"""Records that are sorted in memory at a time: 28 MB, and as much again while they are."""

SLICE_ROWS = 1 << 16
_SAMPLE = 1024
_READ_ROWS = 1 << 13


def sorted_records(records: Records) -> Records:
    """Records in key order. Only those with equal lane and start are compared further."""
    order = np.lexsort((records["ts"], records["lane"]))
    records = records[order]
    same = (records["ts"][1:] == records["ts"][:-1]) & (records["lane"][1:] == records["lane"][:-1])
    if same.any():
        touched = np.flatnonzero(np.concatenate([same, [False]]) | np.concatenate([[False], same]))
        tied = records[touched]
        keys = (tied["name_hash"], tied["tie"], tied["kind_order"], -tied["dur"], tied["ts"], tied["lane"])
        records[touched] = tied[np.lexsort(keys)]
    return records


class _Run:
    """A sorted file with a cursor."""

    def __init__(self, path: Path, count: int) -> None:
        self._path = path
        self._left = count
        self._read = 0
        self._buffer: Records = np.empty(0, KEY)

    def take(self, lane: int, before: int | None) -> Iterator[Records]:
        """The next records of `lane` that start before `before`."""
        while True:
            if not len(self._buffer):
                if not self._left:
                    return
                count = min(_READ_ROWS, self._left)
                self._buffer = np.fromfile(self._path, KEY, count=count, offset=self._read * KEY.itemsize)
                self._read += count
                self._left -= count
            end = int(np.searchsorted(self._buffer["lane"], lane, side="right"))
            if before is not None:
                begin = int(np.searchsorted(self._buffer["lane"], lane, side="left"))
                end = begin + int(np.searchsorted(self._buffer["ts"][begin:end], before, side="left"))
            yield self._buffer[:end]
            if end < len(self._buffer):
                self._buffer = self._buffer[end:]
                return
            self._buffer = self._buffer[:0]


class RecordSorter:
    """Takes records in any order and gives them back sorted, in slices that fit in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pending: list[Records] = []
        self._pending_rows = 0
        self._runs: list[_Run] = []
        self._samples: list[Records] = []
        self._lanes: set[int] = set()

    def add(self, records: Records) -> None:
        """Take some records."""
        self._pending.append(records)
        self._pending_rows += len(records)
        if self._pending_rows >= RUN_ROWS:
            self._spill()

    def _sorted_pending(self) -> Records:
        records = sorted_records(np.concatenate(self._pending)) if self._pending else np.empty(0, KEY)
        self._pending, self._pending_rows = [], 0
        return records

    def _spill(self) -> None:
        records = self._sorted_pending()
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"run-{len(self._runs):05d}"
        records.tofile(path)
        self._runs.append(_Run(path, len(records)))
        self._samples.append(records[["lane", "ts"]][::_SAMPLE].copy())
        self._lanes.update(np.unique(records["lane"]).tolist())

    def slices(self) -> Iterator[Records]:
        """Everything, sorted. Records of equal lane and start are always in one slice."""
        if not self._runs:
            records = self._sorted_pending()
            for start in range(0, len(records), SLICE_ROWS):
                yield records[start : start + SLICE_ROWS]
            return
        if self._pending_rows:
            self._spill()
        samples = np.concatenate(self._samples)
        for lane in sorted(self._lanes):
            starts = np.sort(samples["ts"][samples["lane"] == lane])
            bounds = np.unique(starts[SLICE_ROWS // _SAMPLE :: SLICE_ROWS // _SAMPLE])
            for before in [*bounds.tolist(), None]:
                pieces = [piece for run in self._runs for piece in run.take(lane, before) if len(piece)]
                if pieces:
                    yield sorted_records(np.concatenate(pieces))


class Exchange:
    """Regroups records by a number: `add` spreads them over files, `read` gives one group back."""

    def __init__(self, folder: Path, dtype: np.dtype[Any], buffer_bytes: int = 8 << 20) -> None:
        self._folder = folder
        self._dtype = dtype
        self._limit = buffer_bytes
        self._size = 0
        self._buffers: dict[int, list[Records]] = {}
        self._spilled: set[int] = set()

    def add(self, groups: npt.NDArray[np.int64], records: Records) -> None:
        """Take records; `groups[i]` is the group of `records[i]`."""
        if not len(records):
            return
        order = np.argsort(groups, kind="stable")
        ordered, records = groups[order], records[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(ordered)], strict=True):
            self._buffers.setdefault(int(ordered[start]), []).append(records[start:end])
        self._size += records.nbytes
        if self._size > self._limit:
            self._flush()

    def _flush(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for group, pieces in self._buffers.items():
            with (self._folder / f"group-{group}").open("ab") as stream:
                for piece in pieces:
                    stream.write(piece.tobytes())
            self._spilled.add(group)
        self._buffers = {}
        self._size = 0

    def read(self, group: int) -> Records:
        """All records of a group."""
        pieces = list(self._buffers.get(group, []))
        if group in self._spilled:
            pieces.append(np.fromfile(self._folder / f"group-{group}", self._dtype))
        return np.concatenate(pieces) if pieces else np.empty(0, self._dtype)
