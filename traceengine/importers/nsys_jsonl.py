"""Nsight exports in JSON Lines (2025.6 and later): one object per row, its table under the key `table`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from traceengine.errors import CorruptTraceError, UnknownFormatError
from traceengine.importers.nsys_format import READ, RawTable, RawType
from traceengine.importers.nsys_source import BATCH_ROWS, ColumnMap, conform

TABLE_KEY = "table"
_AGAIN = "Export it again: nsys export -t sqlite -f true REPORT.nsys-rep"
_UINT64 = 1 << 64
_INT64 = 1 << 63


class JsonLines:
    """One file, sorted once into an Arrow stream per table in `folder`; only declared tables and columns are kept."""

    kind = "jsonlines"

    def __init__(self, path: Path, folder: Path) -> None:
        self._path = path
        self._folder = folder
        self._columns: dict[str, set[str]] = {}
        self._rows: dict[str, int] = {}
        self.truncated = False
        folder.mkdir(parents=True, exist_ok=True)
        self._split()
        if not self._rows:
            raise UnknownFormatError('its lines are no rows of an Nsight export (no "table" key)', where=str(path), hint=_AGAIN)

    def columns(self) -> dict[str, frozenset[str]]:
        """Tables with the columns that occur in their rows."""
        return {name: frozenset(columns) for name, columns in self._columns.items()}

    def rows(self, table: str) -> int:
        """Number of rows."""
        return self._rows[table]

    def batches(self, table: RawTable) -> Iterator[pa.RecordBatch]:
        """Rows in batches of the declared schema."""
        file = self._folder / f"{table.name}.arrow"
        if not file.exists():
            return
        columns = ColumnMap({column.name: column.name for column in table.columns}, (), ())
        with pa.memory_map(str(file)) as data:
            for batch in ipc.open_stream(data):
                yield conform(batch, table, columns)

    def close(self) -> None:
        """Nothing is kept open."""

    def _split(self) -> None:
        wanted = {table.name: table for table in READ}
        sinks: dict[str, _Sink] = {}
        broken: tuple[int, str] | None = None
        with self._path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if broken:
                    raise CorruptTraceError(f"line {broken[0]} is no JSON object ({broken[1]})", where=str(self._path), hint=_AGAIN)
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                    name = row.pop(TABLE_KEY)
                except (ValueError, KeyError, AttributeError, TypeError) as error:
                    broken = (number, str(error).splitlines()[0] if str(error) else type(error).__name__)
                    continue
                self._rows[name] = self._rows.get(name, 0) + 1
                self._columns.setdefault(name, set()).update(row)
                if name in wanted:
                    if name not in sinks:
                        sinks[name] = _Sink(self._folder / f"{name}.arrow", wanted[name])
                    sinks[name].add(row)
        self.truncated = broken is not None and bool(self._rows)
        for sink in sinks.values():
            sink.close()


class _Sink:
    """Rows of one table on their way to its Arrow stream."""

    def __init__(self, file: Path, table: RawTable) -> None:
        self._schema = table.arrow
        self._table = table
        self._rows: list[dict[str, Any]] = []
        self._file = pa.OSFile(str(file), "wb")
        self._writer = ipc.new_stream(self._file, self._schema)

    def add(self, row: dict[str, Any]) -> None:
        """Keep the declared columns of one row."""
        kept = {}
        for column in self._table.columns:
            value = row.get(column.name)
            if value is None:
                value = row.get(column.name + "Id")
            kept[column.name] = _value(value, column.type)
        self._rows.append(kept)
        if len(self._rows) >= BATCH_ROWS:
            self._flush()

    def close(self) -> None:
        """Write what is left."""
        self._flush()
        self._writer.close()
        self._file.close()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_batch(pa.RecordBatch.from_pylist(self._rows, schema=self._schema))
        self._rows = []


def _value(value: object, kind: RawType) -> int | float | str | None:
    """A value in the column's type; unsigned 64-bit ids keep their bits, numbers may be written as text."""
    if value is None:
        return None
    if kind in (RawType.TEXT, RawType.PAYLOAD):
        return value if isinstance(value, str) else json.dumps(value)
    try:
        if kind is RawType.REAL:
            return float(value)  # type: ignore[arg-type]
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return None
    return int(number) if number < _INT64 else int(number) - _UINT64
