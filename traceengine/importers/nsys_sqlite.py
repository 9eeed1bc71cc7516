"""Nsight exports in SQLite, read with ADBC (a third of the CPU of Python's sqlite3)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import adbc_driver_manager
import adbc_driver_sqlite.dbapi
import pyarrow as pa

from traceengine.errors import CorruptTraceError, UnknownFormatError
from traceengine.importers.nsys_format import RawTable, RawType
from traceengine.importers.nsys_source import BATCH_ROWS, ColumnMap, conform, map_columns

_MAGIC = b"SQLite format 3\x00"
_TYPED_ROW = {RawType.INT: "0", RawType.REAL: "0.0", RawType.TEXT: "''", RawType.PAYLOAD: "''"}
_DAMAGED = "Export it again: nsys export -t sqlite -f true REPORT.nsys-rep"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class SqliteSource:
    """One database. Raises UnknownFormatError for another file, CorruptTraceError for a damaged one."""

    kind = "sqlite"
    truncated = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._check_size()
        address = f"file:{quote(str(path.resolve()))}?mode=ro"
        self._catalog: dict[str, dict[str, str]] = {}
        try:
            self._database = sqlite3.connect(address, uri=True)
            names = [row[0] for row in self._database.execute("select name from sqlite_master where type = 'table'")]
            for name in names:
                self._catalog[name] = {row[1]: row[2] for row in self._database.execute("select * from pragma_table_info(?)", (name,))}
            self._adbc = adbc_driver_sqlite.dbapi.connect(address)
        except (sqlite3.Error, adbc_driver_manager.Error) as error:
            raise self._damaged(error) from error

    def columns(self) -> dict[str, frozenset[str]]:
        """Tables of the database with their columns."""
        return {name: frozenset(columns) for name, columns in self._catalog.items()}

    def rows(self, table: str) -> int:
        """Number of rows."""
        try:
            found: int = self._database.execute(f"select count(*) from {_identifier(table)}").fetchone()[0]  # noqa: S608
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        return found

    def batches(self, table: RawTable) -> Iterator[pa.RecordBatch]:
        """Rows in batches of the declared schema."""
        present = self._catalog.get(table.name)
        if present is None:
            return
        columns = map_columns(table, present)
        if not columns.found:
            return
        try:
            columns = self._without_unused(table, columns)
            with self._adbc.cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
                cursor.execute(_select(table, columns.found))
                skip = 1
                for batch in cursor.fetch_record_batch():
                    yield conform(batch.slice(skip), table, columns)
                    skip = 0
        except (sqlite3.Error, adbc_driver_manager.Error, pa.ArrowException, OSError) as error:
            raise self._damaged(error, table.name) from error

    def _without_unused(self, table: RawTable, columns: ColumnMap) -> ColumnMap:
        """Leave out the rare columns when all of them are NULL in every row: looking costs a fifth of reading them."""
        rare = [columns.found[column.name] for column in table.columns if column.rare and column.name in columns.found]
        if not rare:
            return columns
        any_value = ", ".join(_identifier(name) for name in (*rare, *rare[:1]))
        query = f"select exists (select 1 from {_identifier(table.name)} where coalesce({any_value}) is not null)"  # noqa: S608
        if self._database.execute(query).fetchone()[0]:
            return columns
        return ColumnMap({name: source for name, source in columns.found.items() if source not in rare}, columns.renamed, columns.missing)

    def close(self) -> None:
        """Close the database."""
        self._adbc.close()
        self._database.close()

    def _check_size(self) -> None:
        with self._path.open("rb") as stream:
            header = stream.read(100)
        if not header.startswith(_MAGIC):
            raise UnknownFormatError("this is no SQLite database, whatever its name says", where=str(self._path), hint=_DAMAGED)
        page = int.from_bytes(header[16:18], "big")
        expected = int.from_bytes(header[28:32], "big") * (65_536 if page == 1 else page)
        size = self._path.stat().st_size
        if size < expected:
            raise CorruptTraceError(f"the database ends at byte {size} of {expected}", where=str(self._path), hint=_DAMAGED)

    def _damaged(self, error: Exception, table: str | None = None) -> CorruptTraceError:
        place = f" (table {table})" if table else ""
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return CorruptTraceError(f"the database is damaged{place}: {reason}", where=str(self._path), hint=_DAMAGED)


def _select(table: RawTable, found: dict[str, str]) -> str:
    """All rows after one typed row: ADBC takes a column's type from the first batch, which may hold only NULL.

    Identifiers cannot be parameters: they are the declared names of this package, or the database's own, quoted. Nsight
    declares payloads as TEXT and stores blobs: those are no text.
    """
    types = {column.name: column.type for column in table.columns}
    first = ", ".join(f"{_TYPED_ROW[types[name]]} as {_identifier(source)}" for name, source in found.items())
    body = ", ".join(_value(source, types[name]) for name, source in found.items())
    return f"select {first} union all select {body} from {_identifier(table.name)}"  # noqa: S608


def _value(source: str, kind: RawType) -> str:
    column = _identifier(source)
    if kind is RawType.PAYLOAD:
        return f"iif(typeof({column}) = 'blob', null, {column})"
    return f"cast({column} as real)" if kind is RawType.REAL else column
