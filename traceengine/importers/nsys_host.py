"""What host threads did: CUDA calls, overheads, OS runtime calls, scheduling, samples, as rows of the host staging file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from traceengine.importers import nsys_format as raw
from traceengine.importers.nsys_names import Enums, NameBook, Strings, json_args, lookup, null_if, process_of, tid_of
from traceengine.importers.nsys_source import BATCH_ROWS, NsysSource
from traceengine.importers.sql import statement

KINDS = ("annotation", "op", "runtime", "driver", "os", "overhead", "marker")
"""Kinds by code. The order is that of ties: a range holds an operator, an operator its calls, a call what the system does."""
ANNOTATION, OP, CALL, DRIVER, OS, OVERHEAD, MARKER = range(len(KINDS))

HOST_STAGE = pa.schema(
    [
        ("process", pa.int64()),
        ("tid", pa.int64()),
        ("ts_ns", pa.int64()),
        ("dur_ns", pa.int64()),
        ("kind", pa.int8()),
        ("name", pa.int32()),
        ("recorded", pa.string()),
        ("domain", pa.int64()),
        ("correlation_id", pa.int64()),
        ("sequence_id", pa.int64()),
        ("args", pa.string()),
    ]
)

# kineto's words for the same records, so that one row of names.csv serves both sources.
_OVERHEAD_NAMES = {
    "OVERHEAD_DRIVER_COMPILER": "Driver Compiler",
    "OVERHEAD_CUPTI_BUFFER_FLUSH": "Buffer Flush",
    "OVERHEAD_CUPTI_INSTRUMENTATION": "Instrumentation",
    "OVERHEAD_CUPTI_RESOURCE": "Resource",
    "OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING": "Runtime Triggered Module Loading",
    "OVERHEAD_LAZY_FUNCTION_LOADING": "Lazy Function Loading",
    "OVERHEAD_COMMAND_BUFFER_FULL": "Command Buffer Full",
}


@dataclass(frozen=True)
class Export:
    """An opened export with its dictionaries. `shift_ns` is subtracted from its times, `end_ns` is its last one (or None)."""

    source: NsysSource
    strings: Strings
    enums: Enums
    book: NameBook
    shift_ns: int
    end_ns: int | None


def host_rows(
    process: pa.Array,
    tid: pa.Array,
    ts: pa.Array,
    dur: pa.Array,
    kind: pa.Array | int,
    name: pa.Array,
    **extra: pa.Array | None,
) -> pa.RecordBatch:
    """A batch of the staging file; columns that are not given are NULL."""
    count = len(ts)
    kinds = pa.repeat(pa.scalar(kind, pa.int8()), count) if isinstance(kind, int) else kind
    given = {"process": process, "tid": tid, "ts_ns": ts, "dur_ns": dur, "kind": kinds, "name": name, **extra}
    columns = [pa.nulls(count, field.type) if given.get(field.name) is None else given[field.name] for field in HOST_STAGE]
    return pa.RecordBatch.from_arrays(columns, schema=HOST_STAGE)


def span(export: Export, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Start on the run's axis, and duration; NULL where the end is missing or before the start."""
    start, end = batch.column("start"), batch.column("end")
    length = pc.subtract(end, start)
    duration = pc.if_else(pc.less(length, 0), pa.scalar(None, pa.int64()), length)
    return (pc.subtract(start, export.shift_ns) if export.shift_ns else start), duration


def runtime_calls(export: Export) -> Iterator[pa.RecordBatch]:
    """CUDA runtime and driver calls."""
    drivers = [value for value, name in export.enums.names("ENUM_NSYS_EVENT_CLASS").items() if name.endswith("_CUDA_DRIVER")]
    for batch in export.source.batches(raw.RUNTIME):
        ts, dur = span(export, batch)
        is_driver = pc.fill_null(pc.is_in(batch.column("eventClass"), pa.array(drivers, pa.int64())), False)
        thread = batch.column("globalTid")
        yield host_rows(
            process_of(thread), tid_of(thread), ts, dur,
            pc.if_else(is_driver, pa.scalar(DRIVER, pa.int8()), pa.scalar(CALL, pa.int8())),
            export.book.of_ids("host", batch.column("nameId"), export.strings, "[unknown call]"),
            correlation_id=null_if(batch.column("correlationId"), 0),
            args=json_args([("returnValue", null_if(batch.column("returnValue"), 0))]),
        )  # fmt: skip


def overheads(export: Export) -> Iterator[pa.RecordBatch]:
    """Overhead that CUPTI reports, nsys's own, and JIT compilations."""
    symbols = export.enums.names("ENUM_CUPTI_OVERHEAD_TYPE")
    names: dict[int, str | None] = {value: _OVERHEAD_NAMES.get(symbol) for value, symbol in symbols.items()}
    for batch in export.source.batches(raw.OVERHEAD):
        known = lookup(batch.column("overheadType"), names)
        recorded = pa.array([export.strings.get(number) or "Unknown" for number in batch.column("nameId").to_pylist()], pa.string())
        yield _overhead(export, batch, pc.coalesce(known, recorded), null_if(batch.column("correlationId"), 0))
    for batch in export.source.batches(raw.PROFILER_OVERHEAD):
        recorded = pa.array(
            [f"Nsight: {export.strings.get(number) or 'Unknown'}" for number in batch.column("nameId").to_pylist()], pa.string()
        )
        yield _overhead(export, batch, recorded, None)
    for batch in export.source.batches(raw.JIT):
        named = pa.repeat(pa.scalar("CUDA JIT"), batch.num_rows)
        yield _overhead(export, batch, named, null_if(batch.column("correlationId"), 0), ("jitEntryType", "jitOperationType", "cacheSize"))


def _overhead(
    export: Export, batch: pa.RecordBatch, names: pa.Array, correlation: pa.Array | None, keep: tuple[str, ...] = ()
) -> pa.RecordBatch:
    ts, dur = span(export, batch)
    thread = batch.column("globalTid")
    process = process_of(pc.coalesce(thread, batch.column("globalPid")) if "globalPid" in batch.schema.names else thread)
    parts = export.book.of_texts("host", names)
    args = json_args([(key, batch.column(key)) for key in keep])
    return host_rows(process, tid_of(thread), ts, dur, OVERHEAD, parts.codes, correlation_id=correlation, args=args)


def library_calls(export: Export) -> Iterator[pa.RecordBatch]:
    """cuDNN and cuBLAS calls, and the moments in which CUDA graphs were made."""
    for table in (raw.CUDNN, raw.CUBLAS):
        for batch in export.source.batches(table):
            ts, dur = span(export, batch)
            thread = batch.column("globalTid")
            yield host_rows(
                process_of(thread), tid_of(thread), ts, dur, OP, export.book.of_ids("range", batch.column("nameId"), export.strings)
            )
    for table, keys in (
        (raw.GRAPH_EVENTS, ("graphId", "originalGraphId", "graphExecId", "graphNodeId", "originalGraphNodeId")),
        (raw.GRAPH_NODE_EVENTS, ("graphNodeId", "originalGraphNodeId")),
    ):
        for batch in export.source.batches(table):
            ts, dur = span(export, batch)
            thread = batch.column("globalTid")
            names = export.book.of_ids("host", batch.column("nameId"), export.strings)
            args = json_args([(key, batch.column(key)) for key in keys])
            yield host_rows(process_of(thread), tid_of(thread), ts, dur, MARKER, names, args=args)


def os_calls(export: Export) -> Iterator[pa.RecordBatch]:
    """OS runtime calls; one inside another keeps its `nestingLevel` in args, so that sums can leave it out."""
    classes = export.enums.names("ENUM_NSYS_EVENT_CLASS")
    marks = pa.array([value for value, name in classes.items() if name.endswith(("_OS_RUNTIME_START", "_OS_RUNTIME_FINISH"))], pa.int64())
    for batch in export.source.batches(raw.OSRT):
        ts, dur = span(export, batch)
        thread = batch.column("globalTid")
        is_mark = pc.fill_null(pc.is_in(batch.column("eventClass"), marks), False)
        args = [("nestingLevel", null_if(batch.column("nestingLevel"), 0)), ("returnValue", null_if(batch.column("returnValue"), 0))]
        yield host_rows(
            process_of(thread), tid_of(thread), ts, dur,
            pc.if_else(is_mark, pa.scalar(MARKER, pa.int8()), pa.scalar(OS, pa.int8())),
            export.book.of_ids("host", batch.column("nameId"), export.strings),
            args=json_args(args),
        )  # fmt: skip


def off_cpu(export: Export, connection: duckdb.DuckDBPyConnection, scheduled: Path) -> Iterator[pa.RecordBatch]:
    """Times in which a thread did not run, from the scheduler's switches (staged in `scheduled`)."""
    states = dict(export.enums.names("ENUM_SAMPLING_THREAD_STATE"))
    blocks = dict(export.enums.names("ENUM_SAMPLING_THREAD_BLOCK"))
    name = export.book.code("host", "[off CPU]")
    for batch in connection.sql(statement("nsys_off_cpu"), params={"scheduled": str(scheduled)}).to_arrow_reader(BATCH_ROWS):
        thread, ts = batch.column("globalTid"), batch.column("start")
        args = json_args(
            [
                ("cpu", batch.column("cpu")),
                ("threadState", lookup(batch.column("threadState"), {**states})),
                ("threadBlock", lookup(batch.column("threadBlock"), {**blocks})),
            ]
        )
        names = pa.repeat(pa.scalar(name, pa.int32()), batch.num_rows)
        start = pc.subtract(ts, export.shift_ns)
        yield host_rows(process_of(thread), tid_of(thread), start, pc.subtract(batch.column("end"), ts), OS, names, args=args)


def samples(export: Export, connection: duckdb.DuckDBPyConnection, taken: Path, frames: Path) -> Iterator[pa.RecordBatch]:
    """CPU samples as marks with the name of the innermost function."""
    for batch in connection.sql(statement("nsys_samples"), params={"samples": str(taken), "frames": str(frames)}).to_arrow_reader(
        BATCH_ROWS
    ):
        thread = batch.column("globalTid")
        symbols = [(export.strings.get(number) or "[unknown function]").rsplit("/", 1)[-1] for number in batch.column("symbol").to_pylist()]
        parts = export.book.of_texts("host", pa.array(symbols, pa.string()))
        args = json_args([("sample", pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)), ("cpu", batch.column("cpu"))])
        start = pc.subtract(batch.column("start"), export.shift_ns)
        none = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
        yield host_rows(process_of(thread), tid_of(thread), start, none, MARKER, parts.codes, args=args)
