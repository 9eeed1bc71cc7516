"""Nsight Systems exports into the tables of a run.

Two steps, because ranks and the common origin are chosen over all traces of a run: `stage_nsys` reads an export into a
scratch folder and says which ranks it holds, `finish_nsys` writes their tables. `import_nsys` does both for one export.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from traceengine.errors import EmptyTraceError
from traceengine.importers.issues import ERROR, INFO, WARNING, Issue, issue_rows
from traceengine.importers.nsys_host import Export
from traceengine.importers.nsys_meta import ExportInfo, export_issues, read_info
from traceengine.importers.nsys_names import Enums, NameBook, Strings
from traceengine.importers.nsys_open import open_nsys
from traceengine.importers.nsys_ranks import (
    Devices,
    RankClaim,
    ThreadLabels,
    find_ranks,
    lone_process,
    mpi_ranks,
    read_devices,
    read_labels,
)
from traceengine.importers.nsys_source import NsysSource, path_size
from traceengine.importers.nsys_stage import StageFiles, stage_export
from traceengine.importers.nsys_threads import write_threads
from traceengine.importers.nsys_work import bounded_connection
from traceengine.importers.nsys_write import RankTables
from traceengine.names import load_names
from traceengine.run import RunWriter
from traceengine.schema import table


@dataclass(frozen=True)
class NsysOptions:
    """How to read: DuckDB's threads."""

    threads: int = 2


@dataclass(frozen=True)
class NsysFile:
    """The export as the run's table `source` names it; `sha256` is None for folders."""

    name: str
    size: int
    sha256: str | None = None


@dataclass(frozen=True)
class StagedReport:
    """An export after its first pass: enough to choose ranks and origin before the tables are written."""

    file: NsysFile
    folder: Path
    info: ExportInfo
    claims: tuple[RankClaim, ...]
    files: StageFiles
    export: Export
    devices: Devices
    labels: ThreadLabels
    lone: int
    truncated: bool
    issues: tuple[Issue, ...]

    @property
    def first_unix_ns(self) -> int | None:
        """Unix time of the first activity; None when the export has no absolute clock."""
        utc, first = self.info.utc_ns, self.files.first_ns
        return None if utc is None or first is None else utc + first


@dataclass(frozen=True)
class RankPlace:
    """Where one claim goes: the run's rank, how it was found (metadata, file_name, process, assigned), what is to be said of it."""

    rank: int
    rank_origin: str
    issues: tuple[Issue, ...] = ()


@dataclass(frozen=True)
class SourceSummary:
    """What an import wrote: its ranks, and the Unix time of ts_ns = 0 (None without an absolute clock)."""

    source_id: int
    ranks: tuple[int, ...]
    origin_unix_ns: int | None
    rows: dict[int, dict[str, int]] = field(default_factory=dict)


def import_nsys(path: Path, writer: RunWriter, source_id: int = 0, options: NsysOptions | None = None) -> SourceSummary:
    """Import one export with the ranks that it says, else numbered from 0; times count from its session's start.

    Raises UnknownFormatError, CorruptTraceError, EmptyTraceError or InputError; each names the file and what to do.
    """
    options = options or NsysOptions()
    staged = stage_nsys(path, NsysFile(path.name, path_size(path) if path.exists() else 0), writer.root / f".nsys-{source_id}", options)
    places = tuple(RankPlace(number if claim.rank is None else claim.rank, claim.origin) for number, claim in enumerate(staged.claims))
    return finish_nsys(staged, writer, places, source_id, staged.info.utc_ns, options)


def stage_nsys(path: Path, file: NsysFile, folder: Path, options: NsysOptions) -> StagedReport:
    """First pass. Raises EmptyTraceError when there is nothing to analyse, else as `import_nsys`."""
    folder.mkdir(parents=True, exist_ok=True)
    source = open_nsys(path, folder)
    try:
        info = read_info(source)
        end = None if info.duration_ns is None or info.duration_ns <= 0 else info.duration_ns + info.shift_ns
        export = Export(source, Strings(source), Enums(source), NameBook(load_names()), info.shift_ns, end)
        with bounded_connection(folder, options.threads) as connection:
            files = stage_export(export, folder / "stage", connection)
        told = mpi_ranks(source) or files.nvtx.ranks()
        claims = find_ranks(files.population, told)
        issues = [*export_issues(source, info), *_capture_issues(info, files, source), *_name_issues(export)]
        _refuse_empty(path, files, issues)
        issues += _population_issues(files, claims)
        labels = read_labels(source, export.strings, files.nvtx.thread_names)
        return StagedReport(
            file,
            folder,
            info,
            claims,
            files,
            export,
            read_devices(source),
            labels,
            lone_process(files.population),
            source.truncated,
            tuple(issues),
        )
    finally:
        source.close()


def finish_nsys(
    staged: StagedReport, writer: RunWriter, places: tuple[RankPlace, ...], source_id: int, origin_unix_ns: int | None, options: NsysOptions
) -> SourceSummary:
    """Write the tables of every rank and remove what the first pass left. `places` follow `staged.claims`.

    `origin_unix_ns` is the run's ts_ns = 0; None, or an export without an absolute clock, counts from its session's start.
    """
    pa.default_memory_pool().release_unused()
    utc = staged.info.utc_ns
    origin = 0 if utc is None or origin_unix_ns is None else origin_unix_ns - utc
    rows: dict[int, dict[str, int]] = {}
    for number, (claim, place) in enumerate(zip(staged.claims, places, strict=True)):
        several = sum(other.process == claim.process for other in staged.claims) > 1
        with bounded_connection(staged.folder, options.threads) as connection:
            tables = RankTables(
                staged.export, staged.files, connection, writer, staged.folder, claim, place.rank, origin, staged.lone, several, number == 0
            )
            tables.write()
            write_threads(connection, writer, place.rank, claim, staged.labels)
        _write_device(staged, writer, claim, place.rank)
        _write_source(staged, writer, place, source_id, origin)
        issues = [*place.issues, *_rank_issues(tables), *(staged.issues if number == 0 else ())]
        writer.write("import_issue", place.rank, issue_rows(place.rank, source_id, issues))
        rows[place.rank] = dict(tables.rows)
    shutil.rmtree(staged.folder, ignore_errors=True)
    return SourceSummary(source_id, tuple(place.rank for place in places), None if utc is None else origin + utc, rows)


def _refuse_empty(path: Path, files: StageFiles, issues: list[Issue]) -> None:
    """Refuse what holds neither device work nor ranges: nothing can be said about a step."""
    said = "; ".join(issue.example or "" for issue in issues if issue.code == "recorder_error")
    told = f" Nsight Systems said: {said}." if said else ""
    if not files.rows["operations"] and not files.rows["host"]:
        raise EmptyTraceError(f"it holds no event.{told}", where=str(path), hint="Record again, and look at nsys's own messages.")
    if not files.rows["operations"] and not files.nvtx.ranges and files.launches:
        raise EmptyTraceError(
            f"no GPU kernels captured, although {files.launches} launches were seen.{told}",
            where=str(path),
            hint="Record again with --trace=cuda,nvtx where the driver allows GPU tracing, and let the program end by itself.",
        )


def _capture_issues(info: ExportInfo, files: StageFiles, source: NsysSource) -> list[Issue]:
    """What the capture does not hold, and what stays open in it."""
    issues = []
    if source.truncated:
        issues.append(Issue("truncated", WARNING, 1, "The last line was cut and is left out; what came after it is missing. Export again."))
    if not files.nvtx.ranges:
        traced = info.traced("NvtxEvents", "COLLECT_NVTX_TRACE")
        said = {
            True: "NVTX was traced and nothing was recorded",
            False: "NVTX was not traced",
            None: "the export does not say whether NVTX was traced",
        }
        issues.append(
            Issue("no_nvtx", WARNING, 1, "Ranges are not captured: record with --trace=cuda,nvtx and mark the steps.", said[traced])
        )
    if files.rows["graphs"]:
        action = "Counted as busy; the kernels inside are unknown. Record with --cuda-graph-trace=node to see them."
        issues.append(Issue("whole_graphs", WARNING, files.rows["graphs"], action, info.option("CUDA_GRAPH_TRACE_OPTIONS:MODE")))
    if not files.rows["operations"]:
        if files.launches:
            issues.append(
                Issue(
                    "no_device_events", ERROR, files.launches, "No GPU kernels captured although launches were seen: the device is unknown."
                )
            )
        else:
            issues.append(Issue("no_device_events", WARNING, 0, "No device was recorded; nothing is known about any."))
    if files.nvtx.open_ranges:
        action = "Kept with an unknown duration: the capture holds no end for them."
        issues.append(Issue("open_range", WARNING, files.nvtx.open_ranges, action, files.nvtx.open_example))
    for kind, count in sorted(files.nvtx.unknown_types.items()):
        issues.append(Issue("unknown_nvtx_type", WARNING, count, "Left out: this kind of record is not known.", f"eventType {kind}"))
    if files.negative["device"]:
        issues.append(
            Issue("lost_device_event_without_end", WARNING, files.negative["device"], "Left out of every sum: it ends before it starts.")
        )
    return issues


def _name_issues(export: Export) -> list[Issue]:
    broken = sorted(text for text in export.book.texts if "\ufffd" in text)
    unnamed = sum(text in ("[unknown kernel]", "[unknown call]") for text in export.book.texts)
    issues = []
    if broken:
        issues.append(Issue("invalid_utf8", WARNING, len(broken), "Bytes that are no UTF-8 became U+FFFD in these names.", broken[0]))
    if unnamed:
        issues.append(Issue("unknown_name", WARNING, unnamed, "Some calls or kernels name a string that the export does not hold."))
    return issues


def _population_issues(files: StageFiles, claims: tuple[RankClaim, ...]) -> list[Issue]:
    members = {process for claim in claims for process in claim.processes}
    outside = {process: count for process, count in files.population.host.items() if process not in members}
    if not outside:
        return []
    example = ", ".join(f"process {process & 0xFFFFFF}: {count} events" for process, count in sorted(outside.items()))
    action = "Left out: with several ranks nothing tells whose helper such a process is."
    return [Issue("process_without_rank", INFO, sum(outside.values()), action, example)]


def _rank_issues(tables: RankTables) -> list[Issue]:
    issues = []
    if tables.overlaps:
        action = "Kept with their own times; for nesting the later one ends with the one it starts in."
        issues.append(Issue("overlapping_slices", INFO, tables.overlaps, action))
    if tables.unlinked:
        action = "Kept in the device's timeline; the capture does not hold their launch."
        issues.append(Issue("unlinked_device_event", WARNING, tables.unlinked, action, f"device {tables.claim.device}"))
    if tables.ambiguous:
        issues.append(
            Issue("ambiguous_launch", WARNING, tables.ambiguous, "Kept without a launch: two separate calls carry their correlation id.")
        )
    if tables.before_launch:
        action = "Kept linked; host and device clocks disagree, so such a delay enters no figure."
        issues.append(Issue("device_before_launch", WARNING, tables.before_launch, action, f"{-tables.earliest_ns} ns"))
    if tables.foreign:
        issues.append(
            Issue("calls_of_other_devices", INFO, tables.foreign, "Their device work belongs to another rank of the same process.")
        )
    return issues


def _write_device(staged: StagedReport, writer: RunWriter, claim: RankClaim, rank: int) -> None:
    if claim.device is None:
        return
    alone = sum(other.device == claim.device for other in staged.claims) == 1
    row = {"rank": rank, **staged.devices.row(claim, alone)}
    writer.write("device", rank, pa.Table.from_pylist([row], schema=table("device").arrow))


def _write_source(staged: StagedReport, writer: RunWriter, place: RankPlace, source_id: int, origin: int) -> None:
    info, files = staged.info, staged.files
    categories = [
        {"pid": process & 0xFFFFFF, "domain": domain, "category": number, "name": name}
        for (process, domain, number), name in sorted(files.nvtx.categories.items())
    ]
    kept = {**info.kept, **({"nvtx_categories": categories} if categories else {})}
    row = {
        "rank": place.rank,
        "source_id": source_id,
        "path": staged.file.name,
        "kind": "nsys",
        "tool_version": info.tool_version,
        "schema_version": info.schema_version,
        "bytes": staged.file.size,
        "sha256": staged.file.sha256,
        "host": info.host,
        "rank_origin": place.rank_origin,
        "world_size": None,
        "origin_unix_ns": None if info.utc_ns is None else info.utc_ns + origin,
        "clock_offset_ns": None,
        "first_ts_ns": None if files.first_ns is None else files.first_ns - origin,
        "last_ts_ns": None if files.last_ns is None else files.last_ns - origin,
        "truncated": staged.truncated,
        "metadata": json.dumps(kept, sort_keys=True),
    }
    writer.write("source", place.rank, pa.Table.from_pylist([row], schema=table("source").arrow), part=source_id)
