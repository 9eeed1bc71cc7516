"""Tiny tables from readable text, for cases of rules and for tests.

```text
stream | ts_ns | dur_ns | kind   | class
7      | 0     | 100    | kernel | gemm
```

A row gives the columns that matter; the others get a value that is valid and means nothing in particular. An empty cell is NULL.
"""

from __future__ import annotations

import pyarrow as pa

from traceengine.schema import Column, ColumnType, Table, table

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
_NUMBERED = ("event_id", "seq", "source_id", "step")
_NULL_UNLESS_GIVEN = ("pid", "tid", "stream", "name", "device")


class TinyTableError(ValueError):
    """The text is no table of that name; `line` counts from the text's first line that is not blank, which is 0."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def rows(name: str, text: str) -> pa.Table:
    """Rows of table `name`: a header line and one line a row, cells between `|`. Raises TinyTableError."""
    entry = table(name)
    columns = {column.name: column for column in entry.columns}
    lines = [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]
    if not lines:
        raise TinyTableError(f"table {name} has no header line", 0)
    header = lines[0]
    for column in header:
        if column not in columns:
            raise TinyTableError(f"table {name} has no column {column!r}", 0)
    records = [_record(entry, columns, header, cells, number) for number, cells in enumerate(lines[1:])]
    return pa.Table.from_pylist(records, schema=entry.arrow)


def _record(entry: Table, columns: dict[str, Column], header: list[str], cells: list[str], number: int) -> dict[str, object]:
    if len(cells) != len(header):
        raise TinyTableError(f"{len(cells)} cells under {len(header)} columns", number + 1)
    row: dict[str, object] = {}
    for name, cell in zip(header, cells, strict=True):
        try:
            row[name] = _convert(cell, columns[name].type)
        except ValueError:
            raise TinyTableError(f"{cell!r} is no {columns[name].type.name.lower()} (column {name})", number + 1) from None
    for column in entry.columns:
        if column.name not in row:
            row[column.name] = _default(column, number, row)
        elif row[column.name] is None and not column.nullable:
            raise TinyTableError(f"column {column.name} cannot be empty", number + 1)
    return row


def _convert(text: str, kind: ColumnType) -> object:
    if text == "":
        return None
    match kind:
        case ColumnType.INT64:
            return int(text.replace("_", ""))
        case ColumnType.DOUBLE:
            return float(text)
        case ColumnType.BOOL:
            if text not in ("true", "false"):
                raise ValueError(text)
            return text == "true"
        case _:
            return text


def _default(column: Column, number: int, row: dict[str, object]) -> object:
    if column.name in _NUMBERED and not column.nullable:
        return number
    if column.name == "busy_dur_ns":
        return row["dur_ns"]
    if column.name in _DEFAULTS and not (column.nullable and column.name in _NULL_UNLESS_GIVEN):
        return _DEFAULTS[column.name]
    if column.nullable:
        return None
    return 0 if column.type is ColumnType.INT64 else ""
