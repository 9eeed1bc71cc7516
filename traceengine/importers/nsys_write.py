"""Second pass: the tables of one rank from the staged files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from traceengine.importers.kineto.nest import ANNOTATION as NEST_RANGE
from traceengine.importers.kineto.nest import SKIP as NEST_NOT
from traceengine.importers.kineto.nest import WORK as NEST_WORK
from traceengine.importers.nsys_host import ANNOTATION, CALL, DRIVER, KINDS, MARKER, OVERHEAD, Export
from traceengine.importers.nsys_nest import ColumnNester
from traceengine.importers.nsys_ranks import RankClaim
from traceengine.importers.nsys_source import BATCH_ROWS
from traceengine.importers.nsys_stage import StageFiles
from traceengine.importers.sql import statement
from traceengine.run import RunWriter
from traceengine.schema import table

OVERRUN_ROUNDING_NS = 1_000
"""A device record counts as overrunning when it outlives the whole next one by this much; below it is rounding."""

ROW_GROUP_ROWS = 131_072
_NEST = np.array(
    [NEST_RANGE if code == ANNOTATION else NEST_NOT if code in (OVERHEAD, MARKER) else NEST_WORK for code in range(len(KINDS))]
)
_CALLS = pa.schema(
    [(name, pa.int64()) for name in ("event_id", "process", "pid", "tid", "ts_ns", "dur_ns", "correlation_id")] + [("class", pa.string())]
)
_RANGES = pa.schema(
    [(name, pa.int64()) for name in ("event_id", "process", "tid", "ts_ns", "dur_ns")] + [("name", pa.string()), ("args", pa.string())]
)


def with_busy(batches: Iterator[pa.Table]) -> Iterator[tuple[pa.Table, pa.Array]]:
    """Each batch of operations (by stream and start) with their busy durations; the first row of the next batch is looked at.

    Work on one stream is serial: a record that holds the whole next one is impossible, and busy only until that one
    starts. Nodes of a CUDA graph may run side by side under one stream's number, and so may whole graphs.
    """
    waiting: pa.Table | None = None
    for batch in batches:
        if waiting is not None:
            yield waiting, _busy(waiting, batch)
        waiting = batch
    if waiting is not None:
        yield waiting, _busy(waiting, None)


def _busy(batch: pa.Table, following: pa.Table | None) -> pa.Array:
    both = pa.concat_tables([batch, following.slice(0, 1)]) if following is not None else batch
    count = batch.num_rows
    start, duration = both.column("ts_ns").to_numpy(), both.column("dur_ns").to_numpy()
    plain = pc.and_(pc.is_null(both.column("graph_node_id")), pc.not_equal(both.column("kind"), "graph")).to_numpy(zero_copy_only=False)
    stream, context = both.column("stream").to_numpy(), pc.fill_null(both.column("context"), -1).to_numpy()
    end = start + duration
    busy = duration[:count].copy()
    same = (stream[1:] == stream[:-1]) & (context[1:] == context[:-1]) & plain[1:] & plain[:-1]
    overrun = np.flatnonzero(same & (start[1:] > start[:-1]) & (end[1:] + OVERRUN_ROUNDING_NS <= end[:-1]))
    busy[overrun] = start[overrun + 1] - start[overrun]
    return pa.array(busy, pa.int64())


Append = Callable[[pa.Table], None]
"""Takes the next rows of a table."""


_UNIQUE = frozenset({"event_id", "parent_id", "ts_ns", "dur_ns", "busy_dur_ns", "correlation_id", "launch_id", "call_id", "sequence_id"})
"""Columns of nearly as many values as rows: differences pack them better and faster than a dictionary."""


def _dictionary(schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if name not in _UNIQUE]


def _packed(schema: pa.Schema) -> dict[str, str]:
    return {name: "DELTA_BINARY_PACKED" for name in schema.names if name in _UNIQUE}


@contextmanager
def parquet_sink(path: Path, schema: pa.Schema, *, keep_empty: bool = False) -> Iterator[Append]:
    """A function that appends rows to a Parquet file in row groups; without any row there is no file, unless `keep_empty`."""
    pending: list[pa.Table] = []
    rows = 0
    writer: pq.ParquetWriter | None = None

    def flush() -> None:
        nonlocal rows, writer
        if rows or (keep_empty and writer is None):
            writer = writer or pq.ParquetWriter(
                path,
                schema,
                compression="zstd",
                use_dictionary=_dictionary(schema),
                column_encoding=_packed(schema),
                write_statistics=[field.name for field in schema if not pa.types.is_string(field.type)],
            )
            writer.write_table(pa.concat_tables(pending) if pending else schema.empty_table())
        pending.clear()
        rows = 0

    def append(batch: pa.Table) -> None:
        nonlocal rows
        pending.append(batch.select(schema.names).cast(schema))
        rows += batch.num_rows
        if rows >= ROW_GROUP_ROWS:
            flush()

    try:
        yield append
        flush()
    finally:
        if writer is not None:
            writer.close()


@dataclass
class RankTables:
    """Writes the tables of one rank. `several`: its process has other ranks too; `is_first`: it takes what belongs to no rank."""

    export: Export
    stage: StageFiles
    connection: duckdb.DuckDBPyConnection
    writer: RunWriter
    scratch: Path
    claim: RankClaim
    rank: int
    origin_ns: int
    lone: int
    several: bool
    is_first: bool

    def __post_init__(self) -> None:
        self.next_id = 0
        self.overlaps = 0
        self.ambiguous = 0
        self.foreign = 0
        self.unlinked = 0
        self.before_launch = 0
        self.earliest_ns = 0
        self._nccl_ranges = 0
        self.rows: Counter[str] = Counter()
        self._calls = self.scratch / f"calls-{self.rank}.parquet"
        self._collectives = self.scratch / f"collectives-{self.rank}.parquet"
        self._names, self._classes = self.export.book.columns()

    @property
    def calls(self) -> Path:
        """Runtime and driver calls with their ids, once the host events are written."""
        return self._calls

    def write(self) -> None:
        """Write every event table."""
        self._register_foreign()
        self._write_host()
        self._write_operations()
        self._write_waits()
        self._write_collectives()
        if self.stage.rows["memory"]:
            process = self.claim.process
            self._copy(
                "memory_event", "nsys_memory_events", memory=str(self.stage.memory), process=process, pid=process & 0xFFFFFF,
                device=self.claim.device, lone=self.lone, is_first=not self.several or self.is_first, origin=self.origin_ns,
            )  # fmt: skip
        if self.stage.rows["counters"] and self.is_first:
            self._copy("counter", "nsys_counters", counters=str(self.stage.counters), origin=self.origin_ns)

    def _batches(self, name: str, **parameters: Any) -> Iterator[pa.Table]:
        relation = self.connection.sql(statement(name), params=parameters)
        for batch in relation.to_arrow_reader(BATCH_ROWS):
            yield pa.Table.from_batches([batch])

    def _copy(self, target: str, name: str, **parameters: Any) -> int:
        count = 0
        with parquet_sink(self.writer.part_path(target, self.rank, 0), table(target).arrow) as append:
            for rows in self._batches(name, rank=self.rank, **parameters):
                count += rows.num_rows
                append(rows)
        self.rows[target] += count
        return count

    def _register_foreign(self) -> None:
        self.connection.register("domain", self.stage.nvtx.relation())
        rows = pa.schema([("process", pa.int64()), ("correlation_id", pa.int64())]).empty_table()
        if self.several:
            query = self.connection.sql(
                statement("nsys_foreign_calls"),
                params={"operations": str(self.stage.operations), "process": self.claim.process, "device": self.claim.device},
            )
            rows = query.to_arrow_table()
        self.foreign = rows.num_rows
        self.connection.register("foreign_call", rows)

    def _write_host(self) -> None:
        schema = table("host_event").arrow
        nester = ColumnNester()
        parameters = {
            "host": str(self.stage.host),
            "processes": list(self.claim.processes),
            "origin": self.origin_ns,
            "annotation": ANNOTATION,
            "marker": MARKER,
            "holding": self.export.book.code("range", "Holding GIL"),
        }
        self._names, self._classes = self.export.book.columns()
        with (
            parquet_sink(self.writer.part_path("host_event", self.rank, 0), schema) as events,
            parquet_sink(self._calls, _CALLS, keep_empty=True) as calls,
            parquet_sink(self._collectives, _RANGES, keep_empty=True) as collectives,
        ):
            for batch in self._batches("nsys_host_events", **parameters):
                rows = self._host_rows(batch, nester)
                process = pc.shift_right(batch.column("thread"), 24)
                events(rows)
                kind = batch.column("kind")
                is_call = pc.and_(pc.is_in(kind, pa.array([CALL, DRIVER], kind.type)), rows.column("correlation_id").is_valid())
                calls(rows.append_column("process", process).filter(is_call))
                is_collective = pc.and_(
                    pc.equal(rows.column("class"), "comm_op"), pc.match_substring_regex(rows.column("name"), "^p?nccl[A-Z]")
                )
                found = rows.append_column("process", process).filter(is_collective)
                self._nccl_ranges += found.num_rows
                collectives(found)
        nester.finish()
        self.overlaps = nester.overlaps

    def _host_rows(self, batch: pa.Table, nester: ColumnNester) -> pa.Table:
        """Rows of table host_event: named, nested, numbered."""
        count = batch.num_rows
        codes = batch.column("name").combine_chunks()
        kinds = batch.column("kind").to_numpy()
        durations = pc.fill_null(batch.column("dur_ns"), 0).to_numpy()
        nested = nester.add(self.next_id, batch.column("thread").to_numpy(), batch.column("ts_ns").to_numpy(), durations, _NEST[kinds])
        parents, depths = (pa.array(values, mask=values < 0) for values in nested)
        names = self._names.take(codes)
        recorded = batch.column("recorded").combine_chunks()
        if recorded.null_count < count:
            names = pc.coalesce(recorded, names)
        classes = self._classes.take(codes)
        if self.foreign:
            classes = pc.if_else(batch.column("is_foreign").combine_chunks(), pa.scalar(None, pa.string()), classes)
        kind_names = pa.DictionaryArray.from_arrays(pa.array(kinds.astype(np.int8)), pa.array(KINDS)).cast(pa.string())
        columns = {
            "rank": pa.repeat(pa.scalar(self.rank, pa.int64()), count),
            "event_id": pa.array(np.arange(self.next_id, self.next_id + count, dtype=np.int64)),
            "parent_id": parents,
            "depth": depths,
            "pid": pc.bit_wise_and(pc.shift_right(batch.column("thread"), 24), 0xFFFFFF),
            "tid": pc.bit_wise_and(batch.column("thread"), 0xFFFFFF),
            "ts_ns": batch.column("ts_ns"),
            "dur_ns": batch.column("dur_ns"),
            "kind": kind_names,
            "class": classes,
            "name": names,
            "correlation_id": batch.column("correlation_id"),
            "external_id": pa.nulls(count, pa.int64()),
            "sequence_id": batch.column("sequence_id"),
            "forward_tid": pa.nulls(count, pa.int64()),
            "args": batch.column("args"),
        }
        self.next_id += count
        self.rows["host_event"] += count
        return pa.table(columns)

    def _write_operations(self) -> None:
        if self.claim.device is None:
            return
        parameters = {
            "operations": str(self.stage.operations),
            "calls": str(self._calls),
            "process": self.claim.process,
            "device": self.claim.device,
            "lone": self.lone,
            "origin": self.origin_ns,
        }
        with parquet_sink(self.writer.part_path("device_event", self.rank, 0), table("device_event").arrow) as append:
            for batch, busy in with_busy(self._batches("nsys_device_events", **parameters)):
                append(self._operation_rows(batch, busy))

    def _operation_rows(self, batch: pa.Table, busy: pa.Array) -> pa.Table:
        """Rows of table device_event: named, numbered."""
        count = batch.num_rows
        codes = batch.column("code").combine_chunks()
        kind = batch.column("kind").combine_chunks()
        meaning = pc.fill_null(self._classes.take(codes), "other")
        others = pc.if_else(pc.equal(kind, "memcpy"), "copy", "other")
        self.ambiguous += pc.sum(batch.column("ambiguous")).as_py() or 0
        early = batch.column("early_ns")
        self.before_launch += pc.sum(pc.greater(early, 0)).as_py() or 0
        self.earliest_ns = max(self.earliest_ns, pc.max(early).as_py() or 0)
        self.unlinked += batch.column("launch_id").null_count
        self.rows["device_event"] += count
        first, self.next_id = self.next_id, self.next_id + count
        return (
            batch.append_column("rank", pa.repeat(pa.scalar(self.rank, pa.int64()), count))
            .append_column("event_id", pa.array(np.arange(first, first + count, dtype=np.int64)))
            .append_column("busy_dur_ns", busy)
            .append_column("name", self._names.take(codes))
            .append_column("class", pc.if_else(pc.equal(kind, "kernel"), meaning, others))
            .append_column("external_id", pa.nulls(count, pa.int64()))
            .append_column("occupancy_share", pa.nulls(count, pa.float64()))
        )

    def _write_waits(self) -> None:
        if not self.stage.rows["waits"] or self.claim.device is None:
            return
        operations = str(self.stage.operations)
        contexts = self.connection.sql(statement("nsys_context_devices"), params={"operations": operations}).to_arrow_table()
        self.connection.register("context_device", contexts)
        self.next_id += self._copy(
            "stream_wait", "nsys_stream_waits", waits=str(self.stage.waits), events=str(self.stage.events), calls=str(self._calls),
            process=self.claim.process, device=self.claim.device, several=self.several, lone=self.lone,
            first_id=self.next_id, origin=self.origin_ns,
        )  # fmt: skip

    def _write_collectives(self) -> None:
        if not self._nccl_ranges:
            return
        operations = self.writer.part_path("device_event", self.rank, 0)
        if not operations.exists():
            operations = self.scratch / "no-operations.parquet"
            pq.write_table(table("device_event").arrow.empty_table(), operations)
        self._copy("collective", "nsys_collectives", collectives=str(self._collectives), operations=str(operations), calls=str(self._calls))
