"""First pass over an export: its rows, conformed and named, in Parquet files of the scratch folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from traceengine.importers import nsys_format as raw
from traceengine.importers.nsys_counters import COUNTER_STAGE, MEMORY_STAGE, counter_rows, memory_rows
from traceengine.importers.nsys_device import DEVICE_STAGE, device_rows
from traceengine.importers.nsys_host import (
    CALL,
    DRIVER,
    HOST_STAGE,
    MARKER,
    OVERHEAD,
    Export,
    library_calls,
    off_cpu,
    os_calls,
    overheads,
    runtime_calls,
    samples,
    span,
)
from traceengine.importers.nsys_names import NONE_32, lookup, null_if, process_of
from traceengine.importers.nsys_nvtx import NvtxFindings, nvtx_rows
from traceengine.importers.nsys_ranks import Population

ROW_GROUP_ROWS = 262_144
_LAUNCHES = frozenset({"launch", "graph_launch", "copy_call", "set_call"})
_WAIT_KINDS = {
    "EVENT_SYNCHRONIZE": "event_sync",
    "STREAM_WAIT_EVENT": "stream_wait_event",
    "STREAM_SYNCHRONIZE": "stream_sync",
    "CONTEXT_SYNCHRONIZE": "context_sync",
}
_WAIT_STAGE = pa.schema(
    [(name, pa.int64()) for name in ("process", "device", "context", "stream", "ts_ns", "dur_ns", "correlation_id", "event", "event_sync")]
    + [("kind", pa.string())]
)
_EVENT_STAGE = pa.schema([(name, pa.int64()) for name in ("process", "stream", "correlation_id", "event", "event_sync")])


@dataclass
class StageFiles:
    """Staged files of one export and what was counted on the way."""

    host: Path
    operations: Path
    waits: Path
    events: Path
    memory: Path
    counters: Path
    population: Population
    nvtx: NvtxFindings
    rows: Counter[str] = field(default_factory=Counter)
    launches: int = 0
    negative: Counter[str] = field(default_factory=Counter)
    first_ns: int | None = None
    last_ns: int | None = None


def stage_export(export: Export, folder: Path, connection: duckdb.DuckDBPyConnection) -> StageFiles:
    """Read the export once, table by table. Raises CorruptTraceError where it is damaged."""
    folder.mkdir(parents=True, exist_ok=True)
    stage = StageFiles(
        host=folder / "host.parquet",
        operations=folder / "operations.parquet",
        waits=folder / "waits.parquet",
        events=folder / "events.parquet",
        memory=folder / "memory.parquet",
        counters=folder / "counters.parquet",
        population=Population(Counter(), Counter(), Counter(), Counter()),
        nvtx=NvtxFindings(),
    )
    _write(stage.operations, DEVICE_STAGE, _seen_device(device_rows(export), stage))
    _write(stage.host, HOST_STAGE, _seen_host(export, _host(export, folder, connection, stage), stage))
    _write(stage.waits, _WAIT_STAGE, _counted("waits", _waits(export), stage))
    _write(stage.events, _EVENT_STAGE, _cuda_events(export))
    _write(stage.memory, MEMORY_STAGE, _counted("memory", memory_rows(export), stage))
    _write(stage.counters, COUNTER_STAGE, _counted("counters", counter_rows(export), stage))
    stage.population.ranges.update(stage.nvtx.ranges)
    stage.population.steps.update(stage.nvtx.steps)
    return stage


def _host(export: Export, folder: Path, connection: duckdb.DuckDBPyConnection, stage: StageFiles) -> Iterator[pa.RecordBatch]:
    yield from runtime_calls(export)
    yield from overheads(export)
    yield from library_calls(export)
    yield from nvtx_rows(export, stage.nvtx)
    yield from os_calls(export)
    have = export.source.columns()
    if raw.SCHED.name in have:
        scheduled = folder / "scheduled.parquet"
        _write(scheduled, raw.SCHED.arrow, export.source.batches(raw.SCHED))
        yield from off_cpu(export, connection, scheduled)
    if raw.SAMPLES.name in have:
        taken, frames = folder / "samples.parquet", folder / "frames.parquet"
        _write(taken, raw.SAMPLES.arrow, export.source.batches(raw.SAMPLES))
        innermost = (batch.filter(pc.equal(batch.column("stackDepth"), 0)) for batch in export.source.batches(raw.SAMPLE_FRAMES))
        _write(frames, raw.SAMPLE_FRAMES.arrow, innermost)
        yield from samples(export, connection, taken, frames)


def _write(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Stream batches to a Parquet file that is quick to write and to read again."""
    with pq.ParquetWriter(path, schema, compression="lz4", use_dictionary=False, write_statistics=False) as writer:
        pending: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            pending.append(batch)
            rows += batch.num_rows
            if rows >= ROW_GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(pending, schema))
                pending, rows = [], 0
        if rows:
            writer.write_table(pa.Table.from_batches(pending, schema))


def _counted(name: str, batches: Iterable[pa.RecordBatch], stage: StageFiles) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        stage.rows[name] += batch.num_rows
        yield batch


def _seen_device(batches: Iterable[pa.RecordBatch], stage: StageFiles) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        stage.rows["operations"] += batch.num_rows
        stage.negative["device"] += batch.column("dur_ns").null_count
        stage.rows["graphs"] += pc.sum(pc.equal(batch.column("kind"), "graph")).as_py() or 0
        groups = pa.table({"process": batch.column("process"), "device": batch.column("device")}).group_by(["process", "device"])
        for row in groups.aggregate([([], "count_all")]).to_pylist():
            stage.population.device_work[(row["process"], row["device"])] += row["count_all"]
        _extend(stage, batch.column("ts_ns"), batch.column("dur_ns"))
        yield batch


def _seen_host(export: Export, batches: Iterable[pa.RecordBatch], stage: StageFiles) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        stage.rows["host"] += batch.num_rows
        kind = batch.column("kind")
        real = pc.invert(pc.is_in(kind, pa.array([MARKER, OVERHEAD], pa.int8())))
        active = batch.filter(real)
        for entry in pc.value_counts(active.column("process")).to_pylist():
            stage.population.host[entry["values"]] += entry["counts"]
        _extend(stage, active.column("ts_ns"), active.column("dur_ns"))
        calls = batch.filter(pc.is_in(kind, pa.array([CALL, DRIVER], pa.int8())))
        for entry in pc.value_counts(calls.column("name")).to_pylist():
            if export.book.classes[entry["values"]] in _LAUNCHES:
                stage.launches += entry["counts"]
        yield batch


def _extend(stage: StageFiles, ts: pa.Array, dur: pa.Array) -> None:
    if not len(ts):
        return
    first = pc.min(ts).as_py()
    last = pc.max(pc.add(ts, pc.fill_null(dur, 0))).as_py()
    stage.first_ns = first if stage.first_ns is None else min(stage.first_ns, first)
    stage.last_ns = last if stage.last_ns is None else max(stage.last_ns, last)


def _waits(export: Export) -> Iterator[pa.RecordBatch]:
    symbols = export.enums.names("ENUM_CUPTI_SYNC_TYPE")
    kinds: dict[int, str | None] = {value: _WAIT_KINDS.get(name.rsplit("_TYPE_", 1)[-1]) for value, name in symbols.items()}
    for batch in export.source.batches(raw.SYNCHRONIZATION):
        ts, dur = span(export, batch)
        columns = [
            process_of(batch.column("globalPid")), batch.column("deviceId"), batch.column("contextId"),
            null_if(batch.column("streamId"), NONE_32, -1), ts, dur, null_if(batch.column("correlationId"), 0),
            null_if(batch.column("eventId"), NONE_32, -1), null_if(batch.column("eventSyncId"), 0), lookup(batch.column("syncType"), kinds),
        ]  # fmt: skip
        yield pa.RecordBatch.from_arrays(columns, schema=_WAIT_STAGE)


def _cuda_events(export: Export) -> Iterator[pa.RecordBatch]:
    for batch in export.source.batches(raw.CUDA_EVENT):
        columns = [
            process_of(batch.column("globalPid")), batch.column("streamId"), null_if(batch.column("correlationId"), 0),
            null_if(batch.column("eventId"), NONE_32, -1), null_if(batch.column("eventSyncId"), 0),
        ]  # fmt: skip
        yield pa.RecordBatch.from_arrays(columns, schema=_EVENT_STAGE)
