"""Importing one export, tiny exports from rows, and the shared material when it is there."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

from traceengine.importers.nsys import NsysOptions, import_nsys
from traceengine.run import Manifest, Run, RunWriter

SHARED = Path(os.environ.get("TRACEENGINE_SHARED", Path(__file__).parents[4] / "shared"))
PID, TID = 5000, 5001
PROCESS = (1 << 48) | (PID << 24)
THREAD = PROCESS | TID

Rows = list[dict[str, Any]]


def shared(*parts: str) -> Path:
    """A file of the shared material; the test is skipped without it."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip("no shared material (TRACEENGINE_SHARED)")
    return path


def import_one(path: Path, out: Path, options: NsysOptions | None = None) -> Run:
    """The run of one export."""
    with RunWriter(out) as writer:
        summary = import_nsys(path, writer, 0, options)
        return writer.commit(Manifest.new("test", summary.origin_unix_ns, summary.ranks, (path.name,)))


def ask(run: Run, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a query on a run."""
    with run.connect() as connection:
        return connection.execute(sql).fetchall()


def global_ids(pid: int, tid: int = 0) -> int:
    """The export's id of a thread (or of a process, with tid 0)."""
    return (1 << 48) | (pid << 24) | tid


def kernel(start: int, end: int, correlation: int, **more: Any) -> dict[str, Any]:
    """A kernel row."""
    row = {"start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": correlation, "globalPid": PROCESS}
    return {**row, "demangledName": 2, "shortName": 2, "graphNodeId": None, **more}


def call(start: int, end: int, correlation: int, **more: Any) -> dict[str, Any]:
    """A runtime call."""
    return {
        "start": start,
        "end": end,
        "eventClass": 0,
        "globalTid": THREAD,
        "correlationId": correlation,
        "nameId": 1,
        "returnValue": 0,
        **more,
    }


def nvtx(start: int, end: int | None, text: str | None, **more: Any) -> dict[str, Any]:
    """A push/pop range."""
    return {"start": start, "end": end, "eventType": 59, "text": text, "globalTid": THREAD, "textId": None, "domainId": 0, **more}


STRINGS = [{"id": 1, "value": "cudaLaunchKernel_v7000"}, {"id": 2, "value": "sm90_gemm"}]
META = [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"}, {"name": "EXPORT_PRODUCT_VERSION", "value": "2026.2.1.210"}]


def tables(**more: Rows) -> dict[str, Rows]:
    """Tables of a small export: strings, metadata and what is given (StringIds are added to)."""
    strings = STRINGS + more.pop("StringIds", [])
    return {"StringIds": strings, "META_DATA_EXPORT": META, **more}


def write_sqlite(path: Path, content: dict[str, Rows]) -> Path:
    """The export as a database."""
    with sqlite3.connect(path) as database:
        for name, rows in content.items():
            columns = list({key: None for row in rows for key in row}) or ["start"]
            database.execute(f'create table "{name}" ({", ".join(chr(34) + column + chr(34) for column in columns)})')
            marks = ", ".join("?" for _ in columns)
            database.executemany(
                f'insert into "{name}" values ({marks})', [[_signed(row.get(column)) for column in columns] for row in rows]
            )
    database.close()
    return path


def _signed(value: Any) -> Any:
    return value - (1 << 64) if isinstance(value, int) and value >= 1 << 63 else value


def _arrow(rows: Rows) -> pa.Table:
    columns = list({key: None for row in rows for key in row})
    arrays = {}
    for column in columns:
        values = [row.get(column) for row in rows]
        is_id = column in ("globalPid", "globalTid", "endGlobalTid") and any(value is not None for value in values)
        arrays[column] = pa.array(values, pa.uint64() if is_id else None)
    return pa.table(arrays)


def write_parquet(path: Path, content: dict[str, Rows]) -> Path:
    """The export as a folder of Parquet files."""
    path.mkdir()
    for name, rows in content.items():
        if rows:
            pq.write_table(_arrow(rows), path / f"{name}.parquet", compression="none")
    return path


def write_arrow_folder(path: Path, content: dict[str, Rows]) -> Path:
    """The export as a folder of Arrow files."""
    path.mkdir()
    for name, rows in content.items():
        if rows:
            table = _arrow(rows)
            with ipc.new_file(str(path / f"{name}.arrow"), table.schema) as writer:
                writer.write_table(table)
    return path


def write_streams(path: Path, content: dict[str, Rows]) -> Path:
    """The export as Arrow streams one after the other."""
    with path.open("wb") as file:
        for name, rows in content.items():
            if rows:
                table = _arrow(rows).replace_schema_metadata({"table_name": name})
                with ipc.new_stream(file, table.schema) as writer:
                    writer.write_table(table)
    return path


def write_lines(path: Path, content: dict[str, Rows]) -> Path:
    """The export as JSON Lines; NULLs are left out, as the exporter does."""
    lines = [
        json.dumps({"table": name, **{key: value for key, value in row.items() if value is not None}})
        for name, rows in content.items()
        for row in rows
    ]
    path.write_text("\n".join(lines) + "\n")
    return path
