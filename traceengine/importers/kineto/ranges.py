"""Ranges written as a begin and an end (phases B and E) become single events, as every other exporter writes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from traceengine.importers.issues import WARNING, Issue
from traceengine.importers.kineto.identity import ROW_BITS
from traceengine.importers.sql import statement

PART_ROWS = 50_000
_SCHEMA = pa.schema(
    [("row", pa.int64())]
    + [(name, pa.string()) for name in ("ph", "cat", "name", "pid", "tid")]
    + [("ts_ns", pa.int64()), ("dur_ns", pa.int64()), ("id", pa.string()), ("args", pa.string()), ("odd_number", pa.bool_())]
    + [
        (name, pa.int64())
        for name in ("correlation", "external_id", "sequence_id", "forward_tid", "event_index", "graph_node", "device", "stream")
    ]
)


@dataclass
class _Pairing:
    folder: Path
    first_part: int
    parts: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    unclosed: int = 0
    unopened: int = 0

    def emit(self, begin: dict[str, Any], end_ns: int | None) -> None:
        """Write one range; without an end its duration stays unknown."""
        self.unclosed += end_ns is None
        duration = None if end_ns is None else end_ns - begin["ts_ns"]
        number = self.first_part + len(self.parts)
        self.rows.append({**begin, "row": (number << ROW_BITS) + len(self.rows), "ph": "X", "dur_ns": duration, "odd_number": False})
        if len(self.rows) >= PART_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what is pending as a part."""
        if not self.rows:
            return
        path = self.folder / f"part-{self.first_part + len(self.parts):06d}.parquet"
        pq.write_table(pa.Table.from_pylist(self.rows, schema=_SCHEMA), path, compression="lz4")
        self.parts.append(str(path))
        self.rows = []


def pair_ranges(connection: duckdb.DuckDBPyConnection, parts: list[str], folder: Path) -> tuple[list[str], list[Issue]]:
    """Write the ranges as further parts; returns them and what did not fit. An end closes the innermost open begin of its name."""
    pairing = _Pairing(folder, len(parts))
    open_ranges: list[dict[str, Any]] = []
    thread: tuple[str | None, str | None] | None = None
    for batch in connection.sql(statement("range_edges"), params={"parts": parts}).to_arrow_reader(1 << 14):
        for edge in batch.to_pylist():
            if (edge["pid"], edge["tid"]) != thread:
                _close_all(pairing, open_ranges)
                thread = (edge["pid"], edge["tid"])
            if edge["ph"] == "B":
                open_ranges.append(edge)
            else:
                _close(pairing, open_ranges, edge)
    _close_all(pairing, open_ranges)
    pairing.flush()
    issues = []
    if pairing.unclosed:
        issues.append(Issue("range_without_end", WARNING, pairing.unclosed, "Kept with an unknown duration."))
    if pairing.unopened:
        issues.append(Issue("end_without_begin", WARNING, pairing.unopened, "Left out: nothing says when it began."))
    return pairing.parts, issues


def _close(pairing: _Pairing, open_ranges: list[dict[str, Any]], edge: dict[str, Any]) -> None:
    name = edge["name"]
    for position in range(len(open_ranges) - 1, -1, -1):
        if not name or open_ranges[position]["name"] == name:
            pairing.emit(open_ranges.pop(position), edge["ts_ns"])
            return
    pairing.unopened += 1


def _close_all(pairing: _Pairing, open_ranges: list[dict[str, Any]]) -> None:
    for begin in open_ranges:
        pairing.emit(begin, None)
    open_ranges.clear()
