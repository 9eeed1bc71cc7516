"""Nsight exports in Arrow and Parquet: a folder with a file per table, or IPC streams one after the other (`.arrows`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

from traceengine.errors import CorruptTraceError, UnknownFormatError
from traceengine.importers.nsys_format import RawTable
from traceengine.importers.nsys_source import BATCH_ROWS, conform, map_columns

_AGAIN = "Export it again: nsys export -t parquetdir -f true REPORT.nsys-rep"
TABLE_NAME_KEY = b"table_name"
"""Key of a stream's schema metadata that names its table."""


@contextmanager
def _reading(path: Path, what: str = "file") -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise CorruptTraceError(f"the {what} is damaged: {str(error).splitlines()[0]}", where=str(path), hint=_AGAIN) from error


class ParquetFolder:
    """`X_pqtdir/` or `X.parquetdir/`: one Parquet file per table."""

    kind = "parquetdir"
    truncated = False

    def __init__(self, path: Path) -> None:
        self._files: dict[str, Path] = {file.stem: file for file in sorted(path.glob("*.parquet"))}
        self._columns: dict[str, frozenset[str]] = {}
        self._rows: dict[str, int] = {}
        for name, file in self._files.items():
            with _reading(file):
                parquet = pq.ParquetFile(file)
                self._columns[name] = frozenset(parquet.schema_arrow.names)
                self._rows[name] = parquet.metadata.num_rows

    def columns(self) -> dict[str, frozenset[str]]:
        """Tables with their columns."""
        return self._columns

    def rows(self, table: str) -> int:
        """Number of rows."""
        return self._rows[table]

    def batches(self, table: RawTable) -> Iterator[pa.RecordBatch]:
        """Rows in batches of the declared schema."""
        if table.name not in self._files:
            return
        columns = map_columns(table, self._columns[table.name])
        with _reading(self._files[table.name]):
            parquet = pq.ParquetFile(self._files[table.name])
            for batch in parquet.iter_batches(BATCH_ROWS, columns=sorted(columns.found.values())):
                yield conform(batch, table, columns)

    def close(self) -> None:
        """Nothing is kept open."""


class ArrowFolder:
    """`X_arwdir/`: one Arrow IPC file or stream per table."""

    kind = "arrowdir"
    truncated = False

    def __init__(self, path: Path) -> None:
        self._files: dict[str, Path] = {file.stem: file for file in sorted(path.glob("*.arrow"))}
        self._columns: dict[str, frozenset[str]] = {}
        for name, file in self._files.items():
            with _reading(file), _open(file) as reader:
                self._columns[name] = frozenset(reader.schema.names)

    def columns(self) -> dict[str, frozenset[str]]:
        """Tables with their columns."""
        return self._columns

    def rows(self, table: str) -> int:
        """Number of rows."""
        with _reading(self._files[table]), _open(self._files[table]) as reader:
            return sum(batch.num_rows for batch in _all(reader))

    def batches(self, table: RawTable) -> Iterator[pa.RecordBatch]:
        """Rows in batches of the declared schema."""
        if table.name not in self._files:
            return
        columns = map_columns(table, self._columns[table.name])
        with _reading(self._files[table.name]), _open(self._files[table.name]) as reader:
            for batch in _all(reader):
                yield conform(batch, table, columns)

    def close(self) -> None:
        """Nothing is kept open."""


@contextmanager
def _open(file: Path) -> Iterator[ipc.RecordBatchFileReader | ipc.RecordBatchStreamReader]:
    with pa.memory_map(str(file)) as data:
        start = data.read(6)
        data.seek(0)
        yield ipc.open_file(data) if start == b"ARROW1" else ipc.open_stream(data)


def _all(reader: ipc.RecordBatchFileReader | ipc.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, ipc.RecordBatchStreamReader):
        yield from reader
        return
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number)


class ArrowStreams:
    """`X.arrows`: IPC streams one after the other, each naming its table in its schema's metadata."""

    kind = "arrow"

    def __init__(self, path: Path) -> None:
        self._path = path
        self.truncated = False
        self._columns: dict[str, frozenset[str]] = {}
        self._offsets: dict[str, list[int]] = {}
        self._rows: dict[str, int] = {}
        with pa.memory_map(str(path)) as data:
            size = data.size()
            while data.tell() < size:
                offset = data.tell()
                try:
                    self._index(data, offset)
                except (pa.ArrowException, OSError) as error:
                    raise CorruptTraceError(f"the stream at byte {offset} is damaged", where=str(path), hint=_AGAIN) from error
        if not self._offsets:
            raise UnknownFormatError("it holds no Arrow stream that names a table", where=str(path), hint=_AGAIN)

    def _index(self, data: pa.MemoryMappedFile, offset: int) -> None:
        reader = ipc.open_stream(data)
        name = (reader.schema.metadata or {}).get(TABLE_NAME_KEY)
        count = sum(batch.num_rows for batch in reader)
        if name is None:
            return
        table = name.decode()
        self._columns[table] = frozenset(reader.schema.names)
        self._offsets.setdefault(table, []).append(offset)
        self._rows[table] = self._rows.get(table, 0) + count

    def columns(self) -> dict[str, frozenset[str]]:
        """Tables with their columns."""
        return self._columns

    def rows(self, table: str) -> int:
        """Number of rows."""
        return self._rows[table]

    def batches(self, table: RawTable) -> Iterator[pa.RecordBatch]:
        """Rows in batches of the declared schema."""
        for offset in self._offsets.get(table.name, ()):
            with _reading(self._path), pa.memory_map(str(self._path)) as data:
                data.seek(offset)
                reader = ipc.open_stream(data)
                columns = map_columns(table, reader.schema.names)
                for batch in reader:
                    yield conform(batch, table, columns)

    def close(self) -> None:
        """Nothing is kept open."""
