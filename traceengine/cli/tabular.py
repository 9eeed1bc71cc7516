"""Rows on stdout or in a file, in the forms that people and programs read."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import sys
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from traceengine.errors import QueryError, UsageError
from traceengine.report.units import visible

FORMATS = ("table", "csv", "json", "jsonl", "md", "parquet")
_NULL = "NULL"
_FOLDED = 40
"""A text cell may be folded at this width before a table is shown as blocks instead."""


def write_rows(rows: pa.Table, form: str, output: Path | None = None) -> None:
    """Write rows in one of FORMATS to stdout or to a file. NULL is an empty cell in csv, null in JSON, NULL elsewhere."""
    if form == "parquet":
        if output is None:
            raise UsageError("parquet is not for a terminal", hint="Say where to write it: -o FILE.parquet")
        pq.write_table(_parquet_ready(rows), output)
    elif output is None:
        if form == "table" and sys.stdout.isatty():
            _terminal_table(rows)
        else:
            sys.stdout.writelines(_WRITERS[form](rows))
    else:
        with output.open("w", encoding="utf-8", newline="") as stream:
            stream.writelines(_WRITERS[form](rows))


def _plain(value: Any) -> Any:
    """A value that JSON has: whole decimals are integers, NaN and infinity are unknown, times and bytes are text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case bytes():
            return value.hex()
        case _:
            return str(value)


def _records(rows: pa.Table) -> Iterable[list[Any]]:
    for batch in rows.to_batches():
        for record in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield [_plain(value) for value in record]


def _unique_names(rows: pa.Table) -> list[str]:
    names: list[str] = rows.column_names
    for name in names:
        if names.count(name) > 1:
            raise QueryError(f"two columns are called {name!r}", hint="Name them apart with AS.")
    return names


def _json_lines(rows: pa.Table) -> Iterable[str]:
    names = _unique_names(rows)
    for record in _records(rows):
        yield json.dumps(dict(zip(names, record, strict=True)), ensure_ascii=False) + "\n"


def _json(rows: pa.Table) -> Iterable[str]:
    separator = "[\n"
    for line in _json_lines(rows):
        yield separator + line.rstrip("\n")
        separator = ",\n"
    yield "[]\n" if separator == "[\n" else "\n]\n"


def _csv(rows: pa.Table) -> Iterable[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(rows.column_names)
    for record in _records(rows):
        writer.writerow([json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value for value in record])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return _NULL
    if isinstance(value, bool | dict | list):
        return visible(json.dumps(value, ensure_ascii=False))
    return visible(str(value))


def _markdown(rows: pa.Table) -> Iterable[str]:
    names = [visible(name).replace("|", "\\|") for name in rows.column_names]
    yield f"| {' | '.join(names)} |\n"
    yield f"| {' | '.join('---:' if right else '---' for right in _numeric(rows))} |\n"
    for record in _records(rows):
        cells = [_cell(value).replace("\\", "\\\\").replace("|", "\\|") for value in record]
        yield f"| {' | '.join(cells)} |\n"


def _numeric(rows: pa.Table) -> list[bool]:
    return [pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) for kind in rows.schema.types]


def _texts(rows: pa.Table) -> list[list[str]]:
    """Names, then the cells of each row."""
    return [[visible(name) for name in rows.column_names], *([_cell(value) for value in record] for record in _records(rows))]


def _text_table(rows: pa.Table) -> Iterable[str]:
    lines = _texts(rows)
    widths = [max(cell_len(line[place]) for line in lines) for place in range(len(rows.column_names))]
    right = _numeric(rows)
    for line in lines:
        spaces = [" " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True)]
        cells = [space + cell if is_right else cell + space for cell, space, is_right in zip(line, spaces, right, strict=True)]
        yield "  ".join(cells).rstrip() + "\n"


def _terminal_table(rows: pa.Table) -> None:
    """Columns when they fit the terminal or need little folding, else one block of lines per row."""
    lines = _texts(rows)
    width = shutil.get_terminal_size().columns
    needed = sum(min(max(cell_len(line[place]) for line in lines), _FOLDED) + 2 for place in range(len(lines[0])))
    _blocks(lines) if needed > width else _rich_table(rows, lines)


def _blocks(lines: list[list[str]]) -> None:
    names, *records = lines
    indent = max(cell_len(name) for name in names)
    for number, record in enumerate(records, 1):
        sys.stdout.write(f"row {number}\n")
        sys.stdout.writelines(f"  {name}{' ' * (indent - cell_len(name))}  {cell}\n" for name, cell in zip(names, record, strict=True))
    if not records:
        sys.stdout.write(f"no rows; columns: {', '.join(names)}\n")


def _rich_table(rows: pa.Table, lines: list[list[str]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, right in zip(lines[0], _numeric(rows), strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for record in lines[1:]:
        table.add_row(*record)
    Console(markup=False, highlight=False).print(table)


def _parquet_ready(rows: pa.Table) -> pa.Table:
    """Sums of integers come as 38-digit decimals; where they fit they are integers again."""
    _unique_names(rows)
    for place, field in enumerate(rows.schema):
        if pa.types.is_decimal(field.type) and field.type.scale == 0:
            rows = rows.set_column(place, field.name, rows.column(place).cast(pa.int64()))
    return rows


_WRITERS: dict[str, Callable[[pa.Table], Iterable[str]]] = {
    "table": _text_table,
    "csv": _csv,
    "json": _json,
    "jsonl": _json_lines,
    "md": _markdown,
}
