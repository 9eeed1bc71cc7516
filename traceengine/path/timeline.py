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


def sorted_unique(values: IntArray) -> IntArray:
    """As np.unique. Sorting what comes in long rising stretches is several times faster than hashing it."""
    ordered = np.sort(values, kind="stable")
    new = np.ones(len(ordered), np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    return ordered[new]


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


class _Table:
    """A table of a rank, read column by column: what is not needed any more is not kept."""

    def __init__(self, run: Run, name: str, rank: int) -> None:
        self._run, self._name, self._rank = run, name, rank

    def column(self, name: str) -> pa.ChunkedArray:
        """A column as Arrow."""
        return self._run.read(self._name, self._rank, [name]).column(name)

    def ints(self, name: str, rows: IntArray | None = None) -> IntArray:
        """A column as int64 with NULL as -1, of the chosen rows."""
        values = np.ascontiguousarray(pc.fill_null(self.column(name), -1).to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)
        return values if rows is None else values[rows]

    def codes(self, name: str, rows: IntArray | None = None) -> Codes:
        """A text column, of the chosen rows."""
        column = pc.dictionary_encode(self.column(name)).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.dictionary(pa.int32(), pa.string()))
        indices = pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        codes = Codes(indices, tuple(column.dictionary.to_pylist()))
        return codes if rows is None else codes.take(rows)


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


def _thread_index(pid: IntArray, tid: IntArray, threads: pa.Table) -> tuple[IntArray, Threads]:
    known = (threads.column(name).to_pylist() for name in ("pid", "tid", "role"))
    roles = {(p, t): r or "other" for p, t, r in zip(*known, strict=True)}
    unique, index = _pairs(pid, tid)
    role = tuple(roles.get((int(p), int(t)), "other") for p, t in unique)
    return index, Threads(unique[:, 0].copy(), unique[:, 1].copy(), role)


def _pairs(first: IntArray, second: IntArray) -> tuple[IntArray, IntArray]:
    """The different pairs, sorted, and the index of each row's pair. One sort a column is much faster than sorting rows."""
    left, a = np.unique(first, return_inverse=True)
    right, b = np.unique(second, return_inverse=True)
    key, index = np.unique(a.reshape(-1) * max(len(right), 1) + b.reshape(-1), return_inverse=True)
    pairs = np.stack([left[key // max(len(right), 1)], right[key % max(len(right), 1)]], axis=1).reshape(-1, 2)
    return pairs, index.reshape(-1).astype(np.int64)


@dataclass(frozen=True)
class _Ids:
    """Event ids in order, and the row of each."""

    ids: IntArray
    rows: IntArray

    @classmethod
    def of(cls, event_id: IntArray) -> _Ids:
        order = np.argsort(event_id, kind="stable")
        return cls(event_id[order], order)

    def row_of(self, wanted: IntArray) -> IntArray:
        """Row of each wanted id, -1 where it does not exist."""
        if not len(self.ids):
            return np.full(len(wanted), -1, np.int64)
        position = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        return np.where((self.ids[position] == wanted) & (wanted >= 0), self.rows[position], -1)


def _host_events(table: _Table, rows: IntArray, threads: pa.Table) -> tuple[HostEvents, Threads, _Ids]:
    """Events at `rows` of the table, which nest."""
    thread, known = _thread_index(table.ints("pid", rows), table.ints("tid", rows), threads)
    depth, start = np.maximum(table.ints("depth", rows), 0), table.ints("ts_ns", rows)
    order = np.lexsort((depth, start, thread))
    rows, thread, depth, start = rows[order], thread[order], depth[order], start[order]
    event_id = table.ints("event_id", rows)
    ids = _Ids.of(event_id)
    parent = ids.row_of(table.ints("parent_id", rows))
    depth = np.where(parent < 0, 0, depth)
    recorded_end = start + np.maximum(table.ints("dur_ns", rows), 0)
    end = _laminar_ends(thread, start, recorded_end, parent, depth)
    kind, meaning, name = (table.codes(column, rows) for column in ("kind", "class", "name"))
    events = HostEvents(
        event_id, parent, depth, thread, start, end, recorded_end, kind, meaning, name, table.ints("sequence_id", rows)
    )
    return events, known, ids


def _device_ops(table: _Table, host: _Ids) -> DeviceOps:
    pairs, index = _pairs(table.ints("device"), table.ints("stream"))
    start = table.ints("ts_ns")
    end = start + table.ints("busy_dur_ns")
    order = np.lexsort((end, start, index))
    index, start, end = index[order], start[order], end[order]
    return DeviceOps(
        table.ints("event_id", order),
        index,
        start,
        _cut_at_next_start(index, start, end),
        table.codes("kind", order),
        table.codes("class", order),
        table.codes("name", order),
        table.codes("copy_kind", order),
        table.codes("src_memory", order),
        table.codes("dst_memory", order),
        host.row_of(table.ints("launch_id", order)),
        pairs[:, 0].copy(),
        pairs[:, 1].copy(),
        table.ints("bytes", order),
    )


def _cut_at_next_start(stream: IntArray, start: IntArray, end: IntArray) -> IntArray:
    """Work on one stream is serial: an end beyond the next start is a clock's rounding."""
    end = end.copy()
    same = stream[:-1] == stream[1:]
    end[:-1] = np.where(same, np.minimum(end[:-1], start[1:]), end[:-1])
    return end


def _waits(table: _Table, host: _Ids) -> StreamWaits:
    return StreamWaits(
        table.codes("kind"),
        table.ints("device"),
        table.ints("stream"),
        table.ints("ts_ns"),
        table.ints("awaited_stream"),
        table.ints("record_correlation_id"),
        host.row_of(table.ints("call_id")),
    )


def load_timeline(run: Run, rank: int) -> Timeline:
    """Read one rank's tables. Open ranges (no duration) are left out: their end is unknown."""
    table = _Table(run, "host_event", rank)
    closed = np.asarray(pc.is_valid(table.column("dur_ns")).to_numpy(zero_copy_only=False), dtype=np.bool_)
    kind = table.codes("kind")
    nested = np.flatnonzero(closed & kind.isin(TIMELINE_KINDS))
    overhead = np.flatnonzero(closed & kind.isin({"overhead"}))
    host, threads, ids = _host_events(table, nested, run.read("thread", rank))
    records = nested[table.codes("class", nested).isin({"event_record"})]
    start = table.ints("ts_ns", overhead)
    flows = _Table(run, "flow", rank)
    forward = np.flatnonzero(flows.codes("kind").isin({"fwdbwd"}) & flows.codes("phase").isin({"s"}))
    return Timeline(
        rank,
        host,
        threads,
        _device_ops(_Table(run, "device_event", rank), ids),
        _waits(_Table(run, "stream_wait", rank), ids),
        Overheads(start, start + table.ints("dur_ns", overhead), table.codes("class", overhead)),
        dict(zip(table.ints("correlation_id", records).tolist(), table.ints("ts_ns", records).tolist(), strict=True)),
        np.sort(flows.ints("ts_ns", forward)),
    )
