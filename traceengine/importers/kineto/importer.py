"""A kineto trace, from its decompressed text to the tables of one rank."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from traceengine.errors import EmptyTraceError
from traceengine.importers.issues import WARNING, Issue, issue_rows
from traceengine.importers.kineto.chunks import Read
from traceengine.importers.kineto.meaning import name_table
from traceengine.importers.kineto.metadata import TraceMetadata, read_metadata, vendor_of_tool
from traceengine.importers.kineto.routes import COUNTER, DEVICE, FLOW, LABEL, MEMORY, WAIT
from traceengine.importers.kineto.scan import Scan, register_routes, register_threads, scan, unknown_issues
from traceengine.importers.kineto.stage import Stager
from traceengine.importers.kineto.tables import HostResult, TableJob, register_dtypes, write_from, write_host_events
from traceengine.importers.kineto.threads import write_threads
from traceengine.importers.sql import statement, work_connection
from traceengine.names import load_names
from traceengine.run import RunWriter
from traceengine.schema import table

OVERRUN_ROUNDING_NS = 1_000
"""A device record counts as overrunning when it outlives the whole next one by this much; below it is rounding."""


@dataclass(frozen=True)
class SourceFile:
    """The file as the run's table `source` names it; `sha256` is None for a pipe."""

    name: str
    size: int
    sha256: str | None


@dataclass(frozen=True)
class StagedTrace:
    """A trace after its first pass: enough to choose rank and origin before the tables are written."""

    source: SourceFile
    folder: Path
    parts: list[str]
    metadata: TraceMetadata
    vendor: str | None
    scanned: Scan
    truncated: bool
    issues: list[Issue]

    @property
    def first_unix_ns(self) -> int | None:
        """Unix time of the first activity; None when the file has no absolute clock."""
        offset = self.unix_offset_ns
        return None if offset is None or self.scanned.first_ns is None else self.scanned.first_ns + offset

    @property
    def unix_offset_ns(self) -> int | None:
        """What to add to the file's own times to get Unix time."""
        if self.scanned.is_epoch:
            return 0
        return self.metadata.base_ns


@dataclass(frozen=True)
class Placement:
    """Where a trace goes in the run: its rank and how that was found, its number, the run's origin in Unix time."""

    rank: int
    rank_origin: str
    source_id: int
    origin_unix_ns: int | None


def stage_trace(source: SourceFile, read: Read, folder: Path, threads: int) -> StagedTrace:
    """First pass. Raises InputError subclasses when the text is no trace, empty or damaged beyond repair."""
    staged = Stager(folder / "parts", source.name, threads).run(read)
    with work_connection(folder, threads) as connection:
        scanned = scan(connection, staged.parts)
    if scanned.first_ns is None:
        raise EmptyTraceError(
            "it holds no event with a time, only metadata", where=source.name, hint="Record some steps while the profiler is active."
        )
    metadata = read_metadata(staged.document)
    return StagedTrace(source, folder, staged.parts, metadata, vendor_of_tool(staged.document), scanned, staged.truncated, staged.issues)


def finish_trace(staged: StagedTrace, writer: RunWriter, placement: Placement, threads: int) -> None:
    """Write every table of this trace and remove what the first pass left."""
    offset = staged.unix_offset_ns
    first = staged.scanned.first_ns or 0
    origin = first if offset is None or placement.origin_unix_ns is None else placement.origin_unix_ns - offset
    with work_connection(staged.folder, threads) as connection:
        job = TableJob(connection, staged.parts, staged.folder, writer, placement.rank, origin)
        issues = _write_events(job, staged)
    _write_source(writer, staged, placement, origin)
    writer.write("import_issue", placement.rank, issue_rows(placement.rank, placement.source_id, staged.issues + issues))
    shutil.rmtree(staged.folder, ignore_errors=True)


def _write_events(job: TableJob, staged: StagedTrace) -> list[Issue]:
    connection, parts, scanned = job.connection, job.parts, staged.scanned
    register_routes(connection, scanned)
    numbers = register_threads(connection, parts)
    names = connection.execute(statement("event_names"), {"parts": parts}).fetchall()
    connection.register("name_class", name_table(load_names(), names))
    register_dtypes(connection)
    host = write_host_events(job)
    next_id = host.count
    calls = str(host.calls)
    ambiguous = 0
    if scanned.count(DEVICE):
        written = write_from(
            job, DEVICE, "device_events", parts=parts, calls=calls, origin=job.origin_ns, first_id=next_id, rounding=OVERRUN_ROUNDING_NS
        )
        next_id += written
    if scanned.count(WAIT):
        next_id += write_from(job, WAIT, "stream_waits", parts=parts, calls=calls, origin=job.origin_ns, first_id=next_id)
    if scanned.count(LABEL):
        write_from(job, LABEL, "device_annotations", parts=parts, origin=job.origin_ns, first_id=next_id)
    for target, name in ((FLOW, "flows"), (MEMORY, "memory_events"), (COUNTER, "counters")):
        if scanned.count(target):
            write_from(job, target, name, parts=parts, origin=job.origin_ns)
    operations = job.writer.part_path(DEVICE, job.rank, 0)
    _write_collectives(job, host, operations)
    host_part = job.writer.part_path("host_event", job.rank, 0)
    write_threads(job, [host_part] if host_part.exists() else [], numbers)
    _write_devices(job, staged, operations)
    return [*unknown_issues(scanned), *_host_issues(job, host), *_device_issues(job, host, operations, ambiguous), *_lost_issues(job)]


def _write_collectives(job: TableJob, host: HostResult, operations: Path) -> None:
    if operations.exists():
        write_from(job, "collective", "collectives", calls=str(host.collectives), operations=str(operations))
        return
    empty = job.scratch / "no_operations.parquet"
    pq.write_table(table(DEVICE).arrow.empty_table(), empty)
    write_from(job, "collective", "collectives", calls=str(host.collectives), operations=str(empty))


def _write_devices(job: TableJob, staged: StagedTrace, operations: Path) -> None:
    """Devices that the file describes, and those that only its events name."""
    rows: dict[int, dict[str, Any]] = {
        entry.device: {
            "rank": job.rank,
            "device": entry.device,
            "name": entry.name,
            "vendor": entry.vendor,
            "uuid": entry.uuid,
            "sm_count": entry.sm_count,
            "memory_bytes": entry.memory_bytes,
        }
        for entry in staged.metadata.devices
    }
    if operations.exists():
        for (device,) in job.connection.execute("select distinct device from read_parquet($file)", {"file": str(operations)}).fetchall():
            rows.setdefault(device, {"rank": job.rank, "device": device, "vendor": staged.vendor})
    job.writer.write("device", job.rank, pa.Table.from_pylist([rows[key] for key in sorted(rows)], schema=table("device").arrow))


def _host_issues(job: TableJob, host: HostResult) -> list[Issue]:
    issues = []
    if host.overlaps:
        issues.append(
            Issue("overlapping_slices", WARNING, host.overlaps, "Kept with their own times; for nesting the later one ends with the one it starts in.")
        )
    if host.unclosed_frames:
        issues.append(Issue("unclosed_frame", WARNING, host.unclosed_frames, "Cut at the end of the frame that called it: a frame cannot outlive its caller."))
    for reason, events, example in job.connection.execute(statement("lost_host_events"), {"parts": job.parts}).fetchall():
        kept = reason in ("without duration", "with negative duration")
        action = "Kept with an unknown duration." if kept else "Left out: it has no place in time."
        issues.append(Issue("event_" + reason.replace(" ", "_"), WARNING, events, action, example))
    return issues


def _device_issues(job: TableJob, host: HostResult, operations: Path, ambiguous: int) -> list[Issue]:
    if not operations.exists():
        return [Issue("no_device_events", WARNING, 0, "Nothing is known about any device; record with ProfilerActivity.CUDA (or the device's own) to know.")]
    issues = []
    rows = job.connection.execute(statement("device_quality"), {"operations": str(operations), "calls": str(host.calls)}).fetchall()
    for device, _operations, unlinked, before, delay, overrunning, name in rows:
        if unlinked:
            issues.append(Issue("unlinked_device_event", WARNING, unlinked, "Kept in the device's timeline; the capture does not hold their launch.", f"device {device}"))
        if before:
            action = "Kept linked; host and device clocks disagree, so such a delay enters no figure."
            issues.append(Issue("device_before_launch", WARNING, before, action, f"device {device}: {delay} ns"))
        if overrunning:
            action = "Impossible on one stream: busy_dur_ns ends where the next operation starts."
            issues.append(Issue("overrunning_device_event", WARNING, overrunning, action, f"device {device}: {name}"))
    return issues


def _lost_issues(job: TableJob) -> list[Issue]:
    issues = []
    for reason, events, example in job.connection.execute(statement("lost_device_events"), {"parts": job.parts}).fetchall():
        action = "Left out of every sum and of the window: such a record says nothing about time, so the device's figures are lower bounds."
        issues.append(Issue("lost_device_event_" + reason.replace(" ", "_"), WARNING, events, action, example))
    return issues


def _write_source(writer: RunWriter, staged: StagedTrace, placement: Placement, origin: int) -> None:
    offset = staged.unix_offset_ns
    scanned = staged.scanned
    row = {
        "rank": placement.rank,
        "source_id": placement.source_id,
        "path": staged.source.name,
        "kind": "torch",
        "tool_version": None,
        "schema_version": staged.metadata.schema_version,
        "bytes": staged.source.size,
        "sha256": staged.source.sha256,
        "host": staged.metadata.host,
        "rank_origin": placement.rank_origin,
        "world_size": staged.metadata.world_size,
        "origin_unix_ns": None if offset is None else origin + offset,
        "clock_offset_ns": None,
        "first_ts_ns": None if scanned.first_ns is None else scanned.first_ns - origin,
        "last_ts_ns": None if scanned.last_ns is None else scanned.last_ns - origin,
        "truncated": staged.truncated,
        "metadata": json.dumps(staged.metadata.kept | {"event_counts": scanned.event_counts}, sort_keys=True),
    }
    writer.write("source", placement.rank, pa.Table.from_pylist([row], schema=table("source").arrow), part=placement.source_id)

