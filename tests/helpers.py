"""Tiny runs from readable text, for tests.

    run = build_run(tmp_path / "run", device_event='''
        stream | ts_ns | dur_ns | kind   | class
        7      | 0     | 100    | kernel | gemm
    ''')

A row gives the columns that matter; the others get a default that is valid and means nothing in particular. An empty cell is NULL.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from traceengine.run import Manifest, Run, RunWriter, write_table
from traceengine.schema import ColumnType, Table, TableOrigin, table

SHARED = Path(os.environ.get("TRACEENGINE_SHARED", Path(__file__).parents[2] / "shared"))
"""Material that may or may not be here; tests that need it skip without."""

_DEFAULTS: dict[str, object] = {
    "rank": 0,
    "device": 0,
    "stream": 7,
    "pid": 1,
    "tid": 1,
    "dur_ns": 0,
    "kind": "kernel",
    "class": "other",
    "name": "",
    "complete": True,
    "origin": "profiler",
    "detail": "",
    "edge": "stream",
    "state": "measured",
    "resource": "host:1/1",
    "path": "trace.json",
    "severity": "warning",
    "count": 1,
    "action": "",
    "reason": "",
}


def _convert(text: str, kind: ColumnType) -> object:
    if text == "":
        return None
    match kind:
        case ColumnType.INT64:
            return int(text.replace("_", ""))
        case ColumnType.DOUBLE:
            return float(text)
        case ColumnType.BOOL:
            return text == "true"
        case _:
            return text


def _default(entry: Table, name: str, number: int, row: dict[str, object]) -> object:
    column = next(column for column in entry.columns if column.name == name)
    if name in ("event_id", "seq", "source_id", "step") and not column.nullable:
        return number
    if name == "busy_dur_ns":
        return row["dur_ns"]
    if name in _DEFAULTS and not (column.nullable and name in ("pid", "tid", "stream", "name", "device")):
        return _DEFAULTS[name]
    if column.nullable:
        return None
    return 0 if column.type is ColumnType.INT64 else ""


def rows(name: str, text: str) -> pa.Table:
    """Rows of table `name`: a header line and one line a row, cells between `|`."""
    entry = table(name)
    types = {column.name: column.type for column in entry.columns}
    lines = [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]
    header, body = lines[0], lines[1:]
    unknown = set(header) - set(types)
    assert not unknown, f"{name} has no {unknown}"
    records = []
    for number, cells in enumerate(body):
        assert len(cells) == len(header), cells
        row = {column: _convert(cell, types[column]) for column, cell in zip(header, cells, strict=True)}
        for column in entry.column_names:
            if column not in row:
                row[column] = _default(entry, column, number, row)
        records.append(row)
    return pa.Table.from_pylist(records, schema=entry.arrow)


def build_run(path: Path, **tables: str | pa.Table) -> Run:
    """Write a run with the given tables (text as in `rows`, or Arrow); analysis tables too, without an analysis of their own."""
    arrow = {name: rows(name, content) if isinstance(content, str) else content for name, content in tables.items()}
    ranks = sorted({rank for content in arrow.values() for rank in content.column("rank").to_pylist()}) or [0]
    if "source" not in arrow:
        arrow["source"] = rows("source", "rank | kind\n" + "\n".join(f"{rank} | torch" for rank in ranks))
    with RunWriter(path) as writer:
        for name, content in arrow.items():
            if table(name).origin is TableOrigin.IMPORT:
                for rank, part in _by_rank(content):
                    writer.write(name, rank, part)
        run = writer.commit(Manifest.new("test", None, tuple(ranks), ("trace.json",)))
    with run.analysis_writer({"key": "test"}) as root:
        for name, content in arrow.items():
            if table(name).origin is TableOrigin.ANALYSIS:
                for rank, part in _by_rank(content):
                    write_table(root, name, rank, part)
    return run


def _by_rank(content: pa.Table) -> list[tuple[int, pa.Table]]:
    ranks = content.column("rank")
    return [(rank, content.filter(pc.equal(ranks, rank))) for rank in sorted(set(ranks.to_pylist()))]
