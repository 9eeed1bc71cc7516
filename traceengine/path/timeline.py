"""The events of one rank as numpy arrays: host events nested per thread, device operations in stream order.

Rows are positions in the arrays; `-1` is "none". All times are ns of the run's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceengine.run import Run

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

WORK_KINDS = frozenset({"op", "runtime", "driver", "sync"})
"""Kinds that mean the thread was inside an operation; annotations, Python frames and OS waits are labels."""

TIMELINE_KINDS = WORK_KINDS | {"annotation", "python", "os"}
"""Kinds that nest on a thread; markers and overhead rows do not."""


@dataclass(frozen=True)
class Codes:
    """A dictionary-encoded text column: `code[row]` is an index into `values`, or -1 for NULL."""

    code: IntArray
    values: tuple[str, ...]

    def text(self, row: int) -> str | None:
        """The text of a row, or None."""
        code = int(self.code[row])
        return None if code < 0 else self.values[code]

    def isin(self, wanted: frozenset[str] | set[str]) -> BoolArray:
        """Rows whose text is one of `wanted`."""
        table = np.array([value in wanted for value in self.values] + [False], dtype=np.bool_)
        return table[self.code]

    def take(self, rows: IntArray) -> Codes:
        """The same column for a selection of rows."""
        return Codes(self.code[rows], self.values)


@dataclass(frozen=True)
class HostEvents:
    """Events of all host threads that nest, sorted by (thread, start, depth).

    `end` is cut so that events nest, `recorded_end` is what the capture says.
    """

    event_id: IntArray
    parent: IntArray
    depth: IntArray
    thread: IntArray
    start: IntArray
    end: IntArray
    recorded_end: IntArray
    kind: Codes
    meaning: Codes
    name: Codes
    sequence: IntArray

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class Threads:
    """Host threads; index = the `thread` value of HostEvents."""

    pid: IntArray
    tid: IntArray
    role: tuple[str, ...]

    def resource(self, thread: int) -> str:
        """Name of a thread in `critical_path.resource`."""
        return f"host:{int(self.pid[thread])}/{int(self.tid[thread])}"


@dataclass(frozen=True)
class DeviceOps:
    """Device operations sorted by (stream index, start); within a stream they do not overlap.

    `stream` is an index over all (device, stream) pairs; `launch` is a row of HostEvents or -1.
    """

    event_id: IntArray
    stream: IntArray
    start: IntArray
    end: IntArray
    kind: Codes
    meaning: Codes
    name: Codes
    copy_kind: Codes
    src_memory: Codes
    dst_memory: Codes
    launch: IntArray
    stream_device: IntArray
    stream_number: IntArray
    bytes: IntArray

    def __len__(self) -> int:
        return len(self.start)

    def resource(self, stream: int) -> str:
        """Name of a stream in `critical_path.resource`."""
        return f"device:{int(self.stream_device[stream])}/stream:{int(self.stream_number[stream])}"


@dataclass(frozen=True)
class StreamWaits:
    """Rows of `stream_wait`: `call` is a row of HostEvents or -1; NULL numbers are -1."""

    kind: Codes
    device: IntArray
    stream: IntArray
    start: IntArray
    awaited_stream: IntArray
    record_correlation: IntArray
    call: IntArray


@dataclass(frozen=True)
class Overheads:
    """Intervals in which the tool or the driver held a thread up, with what they mean."""

    start: IntArray
    end: IntArray
    meaning: Codes


@dataclass(frozen=True)
class Timeline:
    """Everything the path needs of one rank."""

    rank: int
    host: HostEvents
    threads: Threads
    device: DeviceOps
    waits: StreamWaits
    overheads: Overheads
    record_start: dict[int, int]
    """Start of the call that recorded a CUDA event, by its correlation id."""
    forward_flow: IntArray
    """Times at which operators with a backward counterpart started (fwdbwd flows), sorted."""


def _ints(table: pa.Table, column: str) -> IntArray:
    """A column as int64 with NULL as -1."""
    return np.ascontiguousarray(pc.fill_null(table.column(column), -1).to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def _codes(table: pa.Table, column: str) -> Codes:
    encoded = table.column(column).combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = pa.concat_arrays(encoded.chunks) if encoded.num_chunks else pa.array([], pa.string())
    encoded = pc.dictionary_encode(encoded)
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return Codes(codes, tuple(encoded.dictionary.to_pylist()))


def _laminar_ends(thread: IntArray, start: IntArray, end: IntArray, parent: IntArray, depth: IntArray) -> IntArray:
    """Ends cut so that events nest: at the parent's end, and at the next event of the same thread and depth.

    The second cut concerns frames such as `__enter__`, inside which a range starts that outlives them. Rows are sorted by
    (thread, start).
    """
    end = end.copy()
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(int(depth.max(initial=-1)) + 2))
    for level, (low, high) in enumerate(pairwise(bounds.tolist())):
        rows = order[low:high]
        if level:
            end[rows] = np.minimum(end[rows], end[parent[rows]])
        here, following = rows[:-1], rows[1:]
        cut = (thread[here] == thread[following]) & (end[here] > start[following])
        end[here[cut]] = start[following[cut]]
    return end


def _thread_index(host: pa.Table, threads: pa.Table) -> tuple[IntArray, Threads]:
    pid, tid = _ints(host, "pid"), _ints(host, "tid")
    known = (threads.column(name).to_pylist() for name in ("pid", "tid", "role"))
    roles = {(p, t): r or "other" for p, t, r in zip(*known, strict=True)}
    pairs = np.stack([pid, tid], axis=1)
    unique, index = np.unique(pairs, axis=0, return_inverse=True) if len(pairs) else (pairs.reshape(0, 2), np.zeros(0, np.int64))
    role = tuple(roles.get((int(p), int(t)), "other") for p, t in unique)
    return index.reshape(-1).astype(np.int64), Threads(unique[:, 0].copy(), unique[:, 1].copy(), role)


def _row_of(sorted_ids: IntArray, order: IntArray, wanted: IntArray) -> IntArray:
    """Row of each wanted id, -1 where it does not exist. `sorted_ids = ids[order]`."""
    if not len(sorted_ids):
        return np.full(len(wanted), -1, np.int64)
    position = np.minimum(np.searchsorted(sorted_ids, wanted), len(sorted_ids) - 1)
    found = (sorted_ids[position] == wanted) & (wanted >= 0)
    return np.where(found, order[position], -1)


def _host_events(table: pa.Table, thread: IntArray) -> HostEvents:
    event_id, depth, start = _ints(table, "event_id"), np.maximum(_ints(table, "depth"), 0), _ints(table, "ts_ns")
    order = np.lexsort((depth, start, thread))
    by_id = np.argsort(event_id[order], kind="stable")
    parent = _row_of(event_id[order][by_id], by_id, _ints(table, "parent_id")[order])
    depth = np.where(parent < 0, 0, depth[order])
    recorded_end = (start + np.maximum(_ints(table, "dur_ns"), 0))[order]
    end = _laminar_ends(thread[order], start[order], recorded_end, parent, depth)
    return HostEvents(
        event_id[order],
        parent,
        depth,
        thread[order],
        start[order],
        end,
        recorded_end,
        _codes(table, "kind").take(order),
        _codes(table, "class").take(order),
        _codes(table, "name").take(order),
        _ints(table, "sequence_id")[order],
    )


def _device_ops(table: pa.Table, host: HostEvents) -> DeviceOps:
    device, stream = _ints(table, "device"), _ints(table, "stream")
    pairs = np.stack([device, stream], axis=1)
    unique, index = np.unique(pairs, axis=0, return_inverse=True) if len(pairs) else (pairs.reshape(0, 2), np.zeros(0, np.int64))
    index = index.reshape(-1).astype(np.int64)
    start = _ints(table, "ts_ns")
    end = start + _ints(table, "busy_dur_ns")
    order = np.lexsort((end, start, index))
    by_id = np.argsort(host.event_id, kind="stable")
    launch = _row_of(host.event_id[by_id], by_id, _ints(table, "launch_id")[order])
    return DeviceOps(
        _ints(table, "event_id")[order],
        index[order],
        start[order],
        _cut_at_next_start(index[order], start[order], end[order]),
        _codes(table, "kind").take(order),
        _codes(table, "class").take(order),
        _codes(table, "name").take(order),
        _codes(table, "copy_kind").take(order),
        _codes(table, "src_memory").take(order),
        _codes(table, "dst_memory").take(order),
        launch,
        unique[:, 0].copy(),
        unique[:, 1].copy(),
        _ints(table, "bytes")[order],
    )


def _cut_at_next_start(stream: IntArray, start: IntArray, end: IntArray) -> IntArray:
    """Work on one stream is serial: an end beyond the next start is a clock's rounding."""
    end = end.copy()
    same = stream[:-1] == stream[1:]
    end[:-1] = np.where(same, np.minimum(end[:-1], start[1:]), end[:-1])
    return end


def _waits(table: pa.Table, host: HostEvents) -> StreamWaits:
    by_id = np.argsort(host.event_id, kind="stable")
    return StreamWaits(
        _codes(table, "kind"),
        _ints(table, "device"),
        _ints(table, "stream"),
        _ints(table, "ts_ns"),
        _ints(table, "awaited_stream"),
        _ints(table, "record_correlation_id"),
        _row_of(host.event_id[by_id], by_id, _ints(table, "call_id")),
    )


def load_timeline(run: Run, rank: int) -> Timeline:
    """Read one rank's tables. Open ranges (no duration) are left out: their end is unknown."""
    every = run.read("host_event", rank, _HOST_COLUMNS)
    closed = every.filter(pc.is_valid(every.column("dur_ns")))
    nested = closed.filter(pc.is_in(closed.column("kind"), pa.array(sorted(TIMELINE_KINDS))))
    overhead = closed.filter(pc.equal(closed.column("kind"), "overhead"))
    thread, threads = _thread_index(nested, run.read("thread", rank))
    host = _host_events(nested, thread)
    records = nested.filter(pc.equal(pc.fill_null(nested.column("class"), ""), "event_record"))
    start = _ints(overhead, "ts_ns")
    flows = run.read("flow", rank, ["kind", "phase", "ts_ns"])
    forward = flows.filter(pc.and_(pc.equal(flows.column("kind"), "fwdbwd"), pc.equal(flows.column("phase"), "s")))
    return Timeline(
        rank,
        host,
        threads,
        _device_ops(run.read("device_event", rank, _DEVICE_COLUMNS), host),
        _waits(run.read("stream_wait", rank), host),
        Overheads(start, start + _ints(overhead, "dur_ns"), _codes(overhead, "class")),
        dict(zip(_ints(records, "correlation_id").tolist(), _ints(records, "ts_ns").tolist(), strict=True)),
        np.sort(_ints(forward, "ts_ns")),
    )


_HOST_COLUMNS = [
    "event_id", "parent_id", "depth", "pid", "tid", "ts_ns", "dur_ns", "kind", "class", "name", "correlation_id", "sequence_id",
]  # fmt: skip
_DEVICE_COLUMNS = [
    "event_id", "device", "stream", "ts_ns", "busy_dur_ns", "kind", "class", "name", "copy_kind", "src_memory", "dst_memory", "bytes",
    "launch_id",
]  # fmt: skip
