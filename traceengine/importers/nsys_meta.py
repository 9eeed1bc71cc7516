"""What an export says about itself: versions, options, clock, host. Only listed keys are read.

META_DATA_CAPTURE also holds environments, command lines, user and folders; META_DATA_EXPORT host, user and paths. None of
them is on the lists below, so none of them gets further than the reader's batch.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

from traceengine.importers import nsys_format as raw
from traceengine.importers.issues import ERROR, INFO, WARNING, Issue
from traceengine.importers.nsys_names import without_paths
from traceengine.importers.nsys_source import NsysSource, map_columns

_CAPTURE_KEY = re.compile(
    r"(?:PROCESS_\d+:)?(?:COLLECT_\w+|CUDA_GRAPH_TRACE_OPTIONS:\w+|CUDA_SKIP_SOME_API_CALLS|CUDA_FLUSH_PERIOD\w*|CUDA_TRACE_SCOPE"
    r"|CAPTURE_EVENT_TYPE|TRACE_AFTER_FORK_BEFORE_EXEC|INCLUDE_CHILDREN|NVTX_OPTIONS:NVTX_DOMAIN_FILTER_\w+|RATE_HZ|RUN_DURATION_MS|START_DELAY_MS)"
)
_EXPORT_KEY = re.compile(
    r"EXPORT_(?:PRODUCT_VERSION|SCHEMA_VERSION|PARAM_TABLES_TO_EXPORT|PARAM_TIMES_TO_EXPORT|PARAM_TIME_NORMALIZE|PARAM_TIME_SHIFT|CONFIG_TIME_SHIFT"
    r"|PARAM_INCLUDE_BLOBS|PARAM_INCLUDE_JSON|PARAM_LAZY|LAZY)"
)
_SYSTEM_KEYS = frozenset({"CpuCores", "CpuDescription", "NvDriverVersion", "CudaDriverVersion", "OsDescription", "CpuArchitecture"})
_HOST_KEY = "Hostname"
_NO_HOST = frozenset({"", "redacted", "unknown", "localhost"})
_SEVERITIES = {2: WARNING, 3: ERROR}


@dataclass(frozen=True)
class ExportInfo:
    """What is known of the capture and of the export."""

    tool_version: str | None
    schema_version: str | None
    utc_ns: int | None
    duration_ns: int | None
    host: str | None
    shift_ns: int
    kept: dict[str, Any] = field(default_factory=dict)

    def option(self, suffix: str) -> str | None:
        """Value of a capture option by the end of its name (of the profiled process where it has its own)."""
        capture = self.kept.get("capture", {})
        for key in sorted(capture, reverse=True):
            if key.endswith(suffix):
                value = capture[key]
                return str(value[0] if isinstance(value, list) else value)
        return None

    def traced(self, event_type: str, option: str) -> bool | None:
        """Whether a kind of event was asked for; None when the export does not say."""
        types = self.kept.get("capture", {}).get("CAPTURE_EVENT_TYPE")
        if types and event_type in (types if isinstance(types, list) else [types]):
            return True
        told = self.option(option)
        return None if told is None else told == "true"


def read_info(source: NsysSource) -> ExportInfo:
    """Read the descriptive tables."""
    exported = {**_pairs(source, raw.EXPORT_META_OLD, _EXPORT_KEY), **_pairs(source, raw.EXPORT_META, _EXPORT_KEY)}
    capture = _pairs(source, raw.CAPTURE_META, _CAPTURE_KEY)
    system = {row["name"]: row["value"] for row in _rows(source, raw.SYSTEM_ENV) if row["name"] in (*_SYSTEM_KEYS, _HOST_KEY)}
    session = next(iter(_rows(source, raw.SESSION_START)), {})
    analysis = next(iter(_rows(source, raw.ANALYSIS)), {})
    utc = session.get("utcEpochNs")
    kept: dict[str, Any] = {"format": source.kind, "export": exported, "capture": capture}
    kept["system"] = {key: value for key, value in sorted(system.items()) if key in _SYSTEM_KEYS and value not in ("", "redacted")}
    if session.get("systemClockNs") is not None:
        kept["session_start_monotonic_ns"] = session["systemClockNs"]
    return ExportInfo(
        _text(exported.get("EXPORT_PRODUCT_VERSION")),
        _text(exported.get("EXPORT_SCHEMA_VERSION")) or _version_parts(source),
        utc,
        analysis.get("duration"),
        _host(system.get(_HOST_KEY)),
        _shift(exported, utc),
        kept,
    )


def _rows(source: NsysSource, table: raw.RawTable) -> list[dict[str, Any]]:
    return [row for batch in source.batches(table) for row in batch.to_pylist()]


def _pairs(source: NsysSource, table: raw.RawTable, wanted: re.Pattern[str]) -> dict[str, str | list[str]]:
    """Name → value of the listed names; a name that repeats has a list."""
    found: dict[str, list[str]] = {}
    for row in _rows(source, table):
        if row["name"] and wanted.fullmatch(row["name"]) and row["value"] not in (None, "redacted"):
            found.setdefault(row["name"], []).append(row["value"])
    return {name: values[0] if len(values) == 1 else values for name, values in sorted(found.items())}


def _version_parts(source: NsysSource) -> str | None:
    parts: dict[str, str] = {}
    for table in (raw.EXPORT_META_OLD, raw.EXPORT_META):
        parts.update(
            {row["name"]: row["value"] for row in _rows(source, table) if row["name"] and row["name"].startswith("EXPORT_SCHEMA_VERSION_")}
        )
    numbers = [parts.get(f"EXPORT_SCHEMA_VERSION_{part}") for part in ("MAJOR", "MINOR", "MICRO")]
    return ".".join(str(number) for number in numbers) if all(number is not None for number in numbers) else None


def _text(value: str | list[str] | None) -> str | None:
    return value[0] if isinstance(value, list) else value


def _host(name: str | None) -> str | None:
    return None if name is None or name.lower() in _NO_HOST else hashlib.sha256(name.encode()).hexdigest()[:16]


def _shift(exported: dict[str, str | list[str]], utc_ns: int | None) -> int:
    """What `--ts-shift` and `--ts-normalize` added to every time."""
    shift = 0
    for key in ("EXPORT_PARAM_TIME_SHIFT", "EXPORT_CONFIG_TIME_SHIFT"):
        text = _text(exported.get(key))
        if text and re.fullmatch(r"-?\d+", text):
            shift = int(text)
    if _text(exported.get("EXPORT_PARAM_TIME_NORMALIZE")) == "true" and utc_ns is not None:
        shift += utc_ns
    return shift


def export_issues(source: NsysSource, info: ExportInfo) -> list[Issue]:
    """What the export's own description warns of: version, filters, columns, tables that are not read, diagnostics."""
    return [*_version_issues(info), *_filter_issues(info), *_column_issues(source), *_table_issues(source), *_diagnostics(source)]


def _version_issues(info: ExportInfo) -> list[Issue]:
    if info.schema_version is None:
        return [Issue("schema_unknown", WARNING, 1, "Imported by the known names of tables and columns: the export has no metadata table.")]
    major = info.schema_version.split(".")[0]
    if major != str(raw.KNOWN_SCHEMA_MAJOR):
        said = f"schema version {info.schema_version}, known is {raw.KNOWN_SCHEMA_MAJOR}.x"
        return [
            Issue(
                "schema_version",
                WARNING,
                1,
                "Imported by the known names of tables and columns; check the figures against nsys stats.",
                said,
            )
        ]
    return []


def _filter_issues(info: ExportInfo) -> list[Issue]:
    issues = []
    for key, option in (("EXPORT_PARAM_TABLES_TO_EXPORT", "--tables"), ("EXPORT_PARAM_TIMES_TO_EXPORT", "--times")):
        value = _text(info.kept["export"].get(key))
        if value:
            action = f"A missing table or launch says nothing here: related rows are not kept together. Export again without {option}."
            issues.append(Issue("filtered_export", WARNING, 1, action, f"{option} {value}"))
    return issues


def _column_issues(source: NsysSource) -> list[Issue]:
    issues = []
    have = source.columns()
    for table in raw.READ:
        columns = map_columns(table, have.get(table.name, ()))
        if table.name not in have or not (columns.renamed or columns.missing) or not source.rows(table.name):
            continue
        for name in columns.renamed:
            issues.append(Issue("renamed_column", WARNING, 1, f"Read as {name.removesuffix('Id')}.", f"{table.name}.{name}"))
        for name in columns.missing:
            issues.append(Issue("missing_column", WARNING, 1, "Unknown in every row.", f"{table.name}.{name}"))
    return issues


def _table_issues(source: NsysSource) -> list[Issue]:
    read = {table.name for table in raw.READ}
    issues = []
    for name in sorted(source.columns()):
        if name in read or name.startswith(raw.REFERENCE_PREFIXES) or not (rows := source.rows(name)):
            continue
        if name in raw.PRIVATE_TABLES:
            issues.append(
                Issue("private_table", INFO, rows, "Left out on purpose: it holds output or files of the recorded machine.", name)
            )
        else:
            issues.append(Issue("table_not_imported", INFO, rows, "Not read: no table of a run takes it.", name))
    return issues


def _diagnostics(source: NsysSource) -> list[Issue]:
    """Warnings and errors of the recorder, without the paths in them."""
    counts: dict[tuple[str, str], int] = {}
    for row in _rows(source, raw.DIAGNOSTICS):
        severity = _SEVERITIES.get(row["severity"] or 0)
        if severity:
            key = (severity, without_paths(row["text"] or ""))
            counts[key] = counts.get(key, 0) + 1
    action = "Said by Nsight Systems during the capture; what it names may be missing."
    return [Issue(f"recorder_{severity}", severity, count, action, text) for (severity, text), count in sorted(counts.items())]
