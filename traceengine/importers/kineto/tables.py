"""Third pass: the run's tables from the staged events of one trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from traceengine.importers.kineto.nest import ANNOTATION, PYTHON, SKIP, WORK, Nester
from traceengine.importers.sql import statement
from traceengine.run import RunWriter
from traceengine.schema import table

BATCH_ROWS = 32_768
ROW_GROUP_ROWS = 131_072
_INSTRUMENT = {"python": PYTHON, "annotation": ANNOTATION, "overhead": SKIP, "marker": SKIP}
_CALL_COLUMNS = ("event_id", "pid", "tid", "ts_ns", "dur_ns", "class", "correlation_id")
_DTYPE_BYTES = {
    "byte": 1, "char": 1, "bool": 1, "int8": 1, "uint8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
    "short": 2, "int16": 2, "half": 2, "float16": 2, "bfloat16": 2,
    "int": 4, "int32": 4, "float": 4, "float32": 4,
    "long": 8, "long int": 8, "int64": 8, "double": 8, "float64": 8, "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip


@dataclass(frozen=True)
class TableJob:
    """Where rows come from and go to. `origin_ns` is the file's own time of ts_ns = 0."""

    connection: duckdb.DuckDBPyConnection
    parts: list[str]
    scratch: Path
    writer: RunWriter
    rank: int
    origin_ns: int

    def batches(self, name: str, **parameters: Any) -> Iterator[pa.RecordBatch]:
        """Result of a statement in batches."""
        relation = self.connection.sql(statement(name), params=parameters)
        yield from relation.to_arrow_reader(BATCH_ROWS)


@contextmanager
def parquet_sink(path: Path, schema: pa.Schema) -> Iterator[Any]:
    """A function that appends batches to a Parquet file in row groups; without any row there is no file."""
    pending: list[pa.Table] = []
    rows = 0
    writer: pq.ParquetWriter | None = None

    def flush() -> None:
        nonlocal pending, rows, writer
        if rows:
            writer = writer or pq.ParquetWriter(path, schema, compression="zstd")
            writer.write_table(pa.concat_tables(pending))
        pending, rows = [], 0

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
class HostResult:
    """What the other tables need to know about the host events."""

    count: int
    calls: Path
    collectives: Path
    overlaps: int
    unclosed_frames: int


_CALLS_SCHEMA = pa.schema([table("host_event").arrow.field(name) for name in _CALL_COLUMNS])


def write_host_events(job: TableJob) -> HostResult:
    """Nest and write table host_event; calls with a correlation id and collectives are set aside for the joins that follow."""
    schema = table("host_event").arrow
    nester = Nester()
    result = HostResult(0, job.scratch / "calls.parquet", job.scratch / "collectives.parquet", 0, 0)
    pq.write_table(_CALLS_SCHEMA.empty_table(), result.calls)
    pq.write_table(schema.empty_table(), result.collectives)
    with (
        parquet_sink(job.writer.part_path("host_event", job.rank, 0), schema) as events,
        parquet_sink(result.calls, _CALLS_SCHEMA) as calls,
        parquet_sink(result.collectives, schema) as collectives,
    ):
        for batch in job.batches("host_events", parts=job.parts, origin=job.origin_ns):
            rows = _nested(nester, pa.Table.from_batches([batch]), result.count, job.rank)
            result.count += rows.num_rows
            events(rows)
            kinds = rows.column("kind").to_pylist()
            is_call = pa.array([kind in ("runtime", "driver") for kind in kinds])
            has_id = rows.column("correlation_id").is_valid()
            calls(rows.filter(pa.compute.and_(is_call, has_id)).select(list(_CALL_COLUMNS)))
            collectives(rows.filter(pa.compute.equal(rows.column("name"), "record_param_comms")))
    result.overlaps, result.unclosed_frames = nester.overlaps, nester.unclosed_frames
    return result


def _nested(nester: Nester, rows: pa.Table, first_id: int, rank: int) -> pa.Table:
    """Add identity, parent and depth to sorted host events."""
    count = rows.num_rows
    durations = rows.column("dur_ns").to_pylist()
    kinds = [_INSTRUMENT.get(kind, WORK) for kind in rows.column("kind").to_pylist()]
    nested = nester.add(first_id, rows.column("thread_number").to_pylist(), rows.column("ts_ns").to_pylist(), durations, kinds)
    if nested.cut_durations:
        for position, duration in nested.cut_durations.items():
            durations[position] = duration
        rows = rows.set_column(rows.schema.get_field_index("dur_ns"), "dur_ns", pa.array(durations, pa.int64()))
    return (
        rows.append_column("rank", pa.array([rank] * count, pa.int64()))
        .append_column("event_id", pa.array(range(first_id, first_id + count), pa.int64()))
        .append_column("parent_id", pa.array(nested.parents, pa.int64()))
        .append_column("depth", pa.array(nested.depths, pa.int64()))
    )


def write_from(job: TableJob, target: str, name: str, **parameters: Any) -> int:
    """Write table `target` from statement `name`; returns the number of rows."""
    count = 0
    with parquet_sink(job.writer.part_path(target, job.rank, 0), table(target).arrow) as append:
        for batch in job.batches(name, rank=job.rank, **parameters):
            count += batch.num_rows
            append(pa.Table.from_batches([batch]))
    return count


def register_dtypes(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the relation `dtype_size`: bytes of an element by c10's name of its type."""
    connection.register("dtype_size", pa.table({"dtype": list(_DTYPE_BYTES), "bytes": pa.array(_DTYPE_BYTES.values(), pa.int64())}))
