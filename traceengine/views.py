"""The views over a run's tables: queries/views/*.sql, each with a sentence, and a type, unit and sentence per column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from traceengine.errors import RuleError
from traceengine.names import load_names
from traceengine.resources import queries_dir
from traceengine.schema import TABLES
from traceengine.sqlfile import SqlFile, read_sql_file, sql_files

_TYPES = ("bigint", "double", "boolean", "varchar", "json")
UNITS = ("", "ns", "bytes", "share", "bytes/s")
"""Units of view, evidence and parameter values."""


@dataclass(frozen=True)
class ViewColumn:
    """One column of a view: DuckDB type, unit (ns, bytes, share, bytes/s or empty), sentence."""

    name: str
    type: str
    unit: str
    doc: str


@dataclass(frozen=True)
class View:
    """One view: what it needs (tables and views), its columns in order, and the SELECT behind it."""

    name: str
    sentence: str
    needs: tuple[str, ...]
    columns: tuple[ViewColumn, ...]
    sql: str
    small: bool = False
    """Few rows behind much work: computed once when many rules ask for it."""

    @property
    def private(self) -> bool:
        """True for a view that only other views use."""
        return self.name.startswith("_")


def _column(file: SqlFile, name: str, entry: Mapping[str, Any]) -> ViewColumn:
    place = f"column {name!r}"
    file.known_keys(entry, ("type", "unit", "doc"), place)
    column = ViewColumn(name, file.text(entry, "type", place), file.text(entry, "unit", place, ""), file.text(entry, "doc", place))
    if column.type not in _TYPES:
        raise file.error(f"{place} has the unknown type {column.type!r}", "type", hint=f"Types are {', '.join(_TYPES)}.")
    if column.unit not in UNITS:
        raise file.error(f"{place} has the unknown unit {column.unit!r}", "unit", hint="Units are ns, bytes, share, bytes/s.")
    return column


def _load_view(path: Path) -> View:
    file = read_sql_file(path, "view")
    file.known_keys(file.header, ("sentence", "needs", "columns", "small"), "the header")
    columns = file.header.get("columns", {})
    if not columns:
        raise file.error("declares no columns", hint="Add a [columns.NAME] for each.")
    parsed = tuple(_column(file, name, entry) for name, entry in columns.items())
    sentence = file.text(file.header, "sentence", "the header")
    needs = file.texts(file.header, "needs", "the header", ())
    return View(file.name, sentence, needs, parsed, file.body, file.flag(file.header, "small", "the header"))


def _in_order(views: dict[str, View]) -> tuple[View, ...]:
    tables = {table.name for table in TABLES}
    done: dict[str, View] = {}

    def visit(view: View, trail: tuple[str, ...]) -> None:
        if view.name in trail:
            raise RuleError(f"the views {' -> '.join((*trail, view.name))} need each other", where=f"{view.name}.sql")
        for need in view.needs:
            if need not in views and need not in tables:
                raise RuleError(f"needs {need!r}, which is no table or view", where=f"{view.name}.sql")
            if need in views and need not in done:
                visit(views[need], (*trail, view.name))
        done.setdefault(view.name, view)

    for name in sorted(views):
        visit(views[name], ())
    return tuple(done.values())


@cache
def load_views(folder: Path | None = None) -> tuple[View, ...]:
    """All views of `folder` (default: queries/views), each after those it needs. Raises RuleError with file and line."""
    files = sql_files(folder or queries_dir() / "views")
    return _in_order({path.stem: _load_view(path) for path in files})


def create_views(connection: duckdb.DuckDBPyConnection, views: tuple[View, ...] | None = None) -> None:
    """Create the views, with comments, in a connection that has the run's tables. Raises RuleError for a view that DuckDB refuses.

    `_name_pattern` is there besides: the part of names.csv that is asked of names while a query runs, because no column holds it.
    """
    connection.register("_name_pattern", load_names().table(("collective", "matrix_unit")))
    for view in load_views() if views is None else views:
        try:
            connection.execute(_ddl(view))
        except duckdb.Error as error:
            raise RuleError(f"DuckDB refuses the view: {str(error).splitlines()[0]}", where=f"{view.name}.sql") from error


def keep_small_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Compute the small views once, in the order of their needs, and put the rows in their place for this connection.

    Rules share them, and each would compute them again. The connection must not outlive a change of the tables.
    """
    for view in load_views():
        if view.small:
            connection.register(view.name, connection.table(view.name).to_arrow_table())


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _ddl(view: View) -> str:
    """DDL takes no parameters: names come from checked file names and headers of our own files, texts are quoted."""
    name = f'"{view.name}"'
    comments = "".join(f'comment on column {name}."{column.name}" is {_quote(column.doc)};' for column in view.columns)
    return f"create view {name} as {view.sql.rstrip().rstrip(';')}; comment on view {name} is {_quote(view.sentence)}; {comments}"
