"""A kineto trace, from its decompressed text to the tables of one rank."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from traceengine.errors import EmptyTraceError, UnknownFormatError
from traceengine.importers.issues import INFO, Issue, issue_rows
from traceengine.importers.kineto.chunks import Read
from traceengine.importers.kineto.identity import Identities, groups_of
from traceengine.importers.kineto.meaning import name_table
from traceengine.importers.kineto.metadata import TraceMetadata, read_metadata, vendor_of_tool
from traceengine.importers.kineto.quality import quality_issues
from traceengine.importers.kineto.ranges import pair_ranges
from traceengine.importers.kineto.routes import DEVICE, RANGE_EDGE
from traceengine.importers.kineto.scan import Scan, group_issues, read_lanes, read_threads, route_table, scan
from traceengine.importers.kineto.stage import Stager
from traceengine.importers.kineto.tables import DTYPE_BYTES, TableJob, copy_rows, write_event_tables
from traceengine.importers.kineto.threads import write_threads
from traceengine.importers.sql import statement, work_connection
from traceengine.names import load_names
from traceengine.run import RunWriter
from traceengine.schema import table

_RANK_IN_NAME = re.compile(r"rank[_\-.=]?(\d{1,6})(?!\d)", re.IGNORECASE)


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
    event_counts: dict[str, int]
    truncated: bool
    issues: list[Issue]

    @property
    def first_unix_ns(self) -> int | None:
        """Unix time of the first activity; None when the file has no absolute clock."""
        offset = self.unix_offset_ns
        return None if offset is None or self.scanned.first_ns is None else self.scanned.first_ns + offset

    @property
    def claimed_rank(self) -> tuple[int | None, str]:
        """The rank that the trace says, or its name, and which of the two it was."""
        if self.metadata.rank is not None:
            return self.metadata.rank, "metadata"
        named = _RANK_IN_NAME.search(self.source.name)
        return (int(named.group(1)), "file_name") if named else (None, "assigned")

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


def stage_trace(source: SourceFile, read: Read, damage: Callable[[], str | None], folder: Path, threads: int) -> StagedTrace:
    """First pass. `damage` says afterwards what is wrong with the bytes below the text.

    Raises InputError subclasses when the text is no trace, empty or damaged beyond repair.
    """
    staged = Stager(folder / "parts", source.name, threads).run(read, damage)
    with work_connection(folder, threads) as connection:
        scanned = scan(connection, staged.parts)
        counts = scanned.event_counts
        if scanned.count(RANGE_EDGE):
            paired, issues = pair_ranges(connection, staged.parts, folder / "parts")
            staged.parts.extend(paired)
            staged.issues.extend(issues)
            scanned = scan(connection, staged.parts)
    if not any(group.phase for group in scanned.groups):
        raise UnknownFormatError(
            "its list holds no trace event (no entry has a phase, `ph`)",
            where=source.name,
            hint="Give a trace that export_chrome_trace of torch.profiler wrote.",
        )
    if scanned.first_ns is None:
        raise EmptyTraceError(
            "it holds no event with a time, only metadata", where=source.name, hint="Record some steps while the profiler is active."
        )
    metadata = read_metadata(staged.document)
    if metadata.left_out:
        action = "Left out: unknown keys of the file about itself, whose values may name people, hosts or folders."
        names = ", ".join(name[:40] for name in metadata.left_out[:5])
        staged.issues.append(Issue("metadata_left_out", INFO, len(metadata.left_out), action, names))
    vendor = vendor_of_tool(staged.document)
    return StagedTrace(source, folder, staged.parts, metadata, vendor, scanned, counts, staged.truncated, staged.issues)


def finish_trace(staged: StagedTrace, writer: RunWriter, placement: Placement, noted: list[Issue], threads: int) -> None:
    """Write every table of this trace, with the issues already `noted`, and remove what the first pass left."""
    offset = staged.unix_offset_ns
    first = staged.scanned.first_ns or 0
    origin = first if offset is None or placement.origin_unix_ns is None else placement.origin_unix_ns - offset
    issues = _write_events(staged, writer, placement.rank, origin, threads)
    _write_source(writer, staged, placement, origin)
    writer.write("import_issue", placement.rank, issue_rows(placement.rank, placement.source_id, staged.issues + noted + issues))
    shutil.rmtree(staged.folder, ignore_errors=True)


def _write_events(staged: StagedTrace, writer: RunWriter, rank: int, origin: int, threads: int) -> list[Issue]:
    scanned, parts = staged.scanned, staged.parts
    relations = {"route": route_table(scanned)}
    with work_connection(staged.folder, 1) as connection:
        thread_map = read_threads(connection, parts)
        names = connection.execute(statement("event_names"), {"parts": parts}).fetchall()
        connection.register("route", relations["route"])
        lanes = read_lanes(connection, parts)
    relations |= {
        "thread_map": thread_map.table,
        "name_class": name_table(load_names(), names),
        "lane_map": lanes.table,
        "dtype_size": pa.table({"dtype": list(DTYPE_BYTES), "bytes": pa.array(DTYPE_BYTES.values(), pa.int64())}),
    }
    job = TableJob(parts, staged.folder, writer, rank, origin, relations, threads)
    with job.connect() as connection:
        calls = sum(group.events for group in scanned.groups if group.route.kind in ("runtime", "driver"))
        identities = Identities(staged.folder, lanes, calls)
        for group in groups_of(parts):
            identities.add_keys(connection, group)
        identities.resolve()
        write_event_tables(job, identities, {group.route.table for group in scanned.groups})
        operations = job.files(DEVICE)
        _write_collectives(job, connection, operations)
        write_threads(job, connection, thread_map.numbers)
        _write_devices(job, connection, staged, operations)
        return [*group_issues(scanned), *quality_issues(job, connection, identities)]


def _write_collectives(job: TableJob, connection: duckdb.DuckDBPyConnection, operations: list[str]) -> None:
    """Table collective: from the host events that describe one, joined with the device operations."""
    host_events = job.files("host_event")
    if not host_events:
        return
    if not operations:
        empty = job.scratch / "no_operations.parquet"
        pq.write_table(table(DEVICE).arrow.empty_table(), empty)
        operations = [str(empty)]
    copy_rows(job, connection, "collective", "collectives", 0, host_events=host_events, operations=operations)


def _write_devices(job: TableJob, connection: duckdb.DuckDBPyConnection, staged: StagedTrace, operations: list[str]) -> None:
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
    if operations:
        for (device,) in connection.execute("select distinct device from read_parquet($files)", {"files": operations}).fetchall():
            rows.setdefault(device, {"rank": job.rank, "device": device, "vendor": staged.vendor})
    job.writer.write("device", job.rank, pa.Table.from_pylist([rows[key] for key in sorted(rows)], schema=table("device").arrow))


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
        "metadata": json.dumps(staged.metadata.kept | {"event_counts": staged.event_counts}, sort_keys=True),
    }
    writer.write("source", placement.rank, pa.Table.from_pylist([row], schema=table("source").arrow), part=placement.source_id)
