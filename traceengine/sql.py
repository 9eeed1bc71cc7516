"""Ad hoc SQL over a run, read-only and sandboxed.

Three walls, each enough for most attacks: only one SELECT (or EXPLAIN of one) is let through; DuckDB's own file systems are
disabled and its configuration locked; and the run's Parquet parts are reached through a file system of ours that knows these
files by number, and opens nothing for writing. (Allowed paths alone would not do: DuckDB lets `with x as (copy ... to ...)`
write to a path that it may read.)
"""

from __future__ import annotations

import difflib
import io
import os
import re
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from fsspec.spec import AbstractFileSystem

from traceengine.errors import QueryError
from traceengine.run import Run, view_ddl
from traceengine.schema import TABLES, Table
from traceengine.views import create_views, load_views

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 2,
    # Nothing is spilled: local files are out of reach, and the folder would be named among the settings.
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    # DuckDB guesses that a view's side of an ASOF join is small and then loops over it: 50 times slower on 20,000 events.
    "asof_loop_join_threshold": 0,
}
_LOCK = (
    "set enable_external_access = false",
    "set disabled_filesystems = 'LocalFileSystem,HTTPFileSystem,S3FileSystem,HuggingFaceFileSystem'",
    "set lock_configuration = true",
)
_EXPLAIN = re.compile(r"\s*explain\s+(analyze\s+)?(\([^)]*\)\s*)?", re.IGNORECASE)
_REFUSALS = ("PermissionError", "FileNotFoundError", "configuration has been locked", "is not an table", "installing and loading the")
_UNKNOWN_TABLE = re.compile(r"(?:Table|View|Table Function) with name \"?([^\"\n]+?)\"? does not exist")


class PartFile(io.RawIOBase):
    """A file with a position per thread: DuckDB's threads share one handle, and each seeks before it reads."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self._size = os.fstat(self._descriptor).st_size
        self._local = threading.local()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the calling thread's position."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: self._size}[whence]
        self._local.position = base + offset
        return base + offset

    def tell(self) -> int:
        """The calling thread's position."""
        return getattr(self._local, "position", 0)

    def read(self, size: int = -1) -> bytes:
        """Bytes from the calling thread's position on."""
        wanted = self._size - self.tell() if size < 0 else size
        data = os.pread(self._descriptor, max(wanted, 0), self.tell())
        self._local.position = self.tell() + len(data)
        return data

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """Release the descriptor, once."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()


class RunFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Read-only file system of exactly the given files, as `run://0.parquet`, `run://1.parquet`, ..."""

    protocol = "run"
    cachable = False

    def __init__(self, files: Sequence[Path]) -> None:
        super().__init__()
        self._files = tuple(files)

    def url(self, number: int) -> str:
        """URL of file `number`."""
        return f"run://{number}.parquet"

    def _local(self, path: str) -> Path:
        number = path.removeprefix("run://").removesuffix(".parquet")
        if not number.isdigit() or int(number) >= len(self._files):
            raise FileNotFoundError(path)
        return self._files[int(number)]

    def _open(self, path: str, mode: str = "rb", **_options: Any) -> PartFile:
        if mode != "rb":
            raise PermissionError(f"{path} is read-only")
        return PartFile(self._local(path))

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        """Name, size and type of one file."""
        return {"name": path, "size": self._local(path).stat().st_size, "type": "file"}

    def glob(self, path: str, maxdepth: int | None = None, **_options: Any) -> list[str]:
        """The path itself: nothing is listed."""
        return [path]

    def created(self, path: str) -> datetime:
        """Time of the last change: files of a run are written once."""
        return datetime.fromtimestamp(self._local(path).stat().st_mtime, tz=UTC)

    modified = created


def open_sandbox(run: Run, overlay: Mapping[str, pa.Table] | None = None) -> duckdb.DuckDBPyConnection:
    """A locked-down connection with all tables and views of `run`.

    `overlay` replaces tables by Arrow tables of the declared schema: results that are computed but not stored yet.
    """
    overlay = overlay or {}
    parts = [(entry, part) for entry in TABLES if entry.name not in overlay for part in run.parts(entry)]
    files = RunFiles([part for _, part in parts])
    connection = duckdb.connect(":memory:", config=_CONFIG)
    connection.register_filesystem(files)
    connection.execute("set allowed_paths = $paths", {"paths": [files.url(number) for number in range(len(parts))]})
    for entry in TABLES:
        if entry.name in overlay:
            _overlay(connection, entry, overlay[entry.name])
        else:
            connection.execute(view_ddl(entry, [files.url(number) for number, (owner, _) in enumerate(parts) if owner is entry]))
    create_views(connection)
    return _lock(connection)


def open_table_sandbox(tables: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    """A locked-down connection with every table and view; tables that are not given are empty."""
    connection = duckdb.connect(":memory:", config=_CONFIG)
    for entry in TABLES:
        if entry.name in tables:
            _overlay(connection, entry, tables[entry.name])
        else:
            connection.execute(view_ddl(entry, []))
    create_views(connection)
    return _lock(connection)


def open_empty_sandbox() -> duckdb.DuckDBPyConnection:
    """The same with every table empty: for checking SQL without a run."""
    return open_table_sandbox({})


@cache
def bare_sandbox() -> duckdb.DuckDBPyConnection:
    """A locked-down connection without any table, opened once (10 ms): use a cursor of it, which leaves nothing behind."""
    return _lock(duckdb.connect(":memory:", config=_CONFIG))


def _lock(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    for statement in _LOCK:
        connection.execute(statement)
    return connection


def _overlay(connection: duckdb.DuckDBPyConnection, entry: Table, rows: pa.Table) -> None:
    connection.register(f"_overlay_{entry.name}", rows.select(entry.column_names).cast(entry.arrow))
    connection.execute(f'create view "{entry.name}" as from "_overlay_{entry.name}"')


def query(connection: duckdb.DuckDBPyConnection, sql: str, params: Mapping[str, object] | None = None) -> pa.Table:
    """Run one SELECT in a sandboxed connection, with values for its `$params`.

    Raises QueryError with the reason and, where possible, a better name.
    """
    try:
        statement = _only_select(connection, sql)
        return connection.sql(statement, params=dict(params) if params else None).to_arrow_table()
    except duckdb.Error as error:
        raise _query_error(error) from error
    except (PermissionError, FileNotFoundError) as error:
        raise _refused() from error


def _only_select(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    statements = connection.extract_statements(sql)
    if not statements:
        raise QueryError("there is no SQL to run", hint='For example: "select * from device_time"')
    if len(statements) > 1:
        raise QueryError(f"{len(statements)} statements at once", hint="Pass one SELECT.")
    statement = statements[0]
    if statement.type == duckdb.StatementType.EXPLAIN:
        _only_select(connection, _EXPLAIN.sub("", sql, count=1))
    elif statement.type == duckdb.StatementType.MULTI:
        raise QueryError("this form of PIVOT runs several statements", hint="Name its values: pivot ... on column in (...).")
    elif statement.type != duckdb.StatementType.SELECT:
        raise QueryError(f"{statement.type.name} is refused: a run is read-only", hint="Pass one SELECT.")
    return statement


def _refused() -> QueryError:
    return QueryError("refused: SQL reads the run's tables and nothing else", hint="`traceengine tables` lists them.")


def _query_error(error: duckdb.Error) -> QueryError:
    text = str(error)
    if isinstance(error, duckdb.PermissionException) or any(mark in text for mark in _REFUSALS):
        return _refused()
    missing = _UNKNOWN_TABLE.search(text)
    if missing:
        return QueryError(f"no table or view is called {missing.group(1)!r}", hint=_closest(missing.group(1)))
    message, _, rest = text.partition("\n")
    message = re.sub(r"^\w+ Error: ", "", message)
    return QueryError(message, hint=_sql_line(rest))


def _closest(name: str) -> str:
    known = [entry.name for entry in TABLES] + sorted(view.name for view in load_views() if not view.private)
    near = difflib.get_close_matches(name.lower(), known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}."


def _sql_line(rest: str) -> str | None:
    candidates = re.search(r"Candidate bindings: (.*)", rest)
    if candidates:
        return f"Columns of similar name: {candidates.group(1)}."
    found = re.search(r"LINE (\d+): (.*)", rest)
    return f"In line {found.group(1)}: {found.group(2).strip()}" if found else None
