"""What a run offers to SQL: tables and views in one list, for `traceengine tables` and the reference pages."""

from __future__ import annotations

from dataclasses import dataclass

from traceengine.errors import UsageError
from traceengine.schema import TABLES, TableOrigin
from traceengine.views import load_views


@dataclass(frozen=True)
class CatalogColumn:
    """One column: unit is ns, bytes, share, bytes/s or empty; nullable is None where it is not declared (views)."""

    name: str
    type: str
    unit: str
    doc: str
    nullable: bool | None


@dataclass(frozen=True)
class CatalogEntry:
    """A table or view; `kind` is import, analysis or view."""

    name: str
    kind: str
    sentence: str
    columns: tuple[CatalogColumn, ...]


def catalog() -> tuple[CatalogEntry, ...]:
    """Tables in the order of the schema, then views by name; helper views are left out."""
    tables = [
        CatalogEntry(
            entry.name,
            "import" if entry.origin is TableOrigin.IMPORT else "analysis",
            f"A row is {entry.row}.",
            tuple(CatalogColumn(column.name, column.duckdb_type, column.unit, column.doc, column.nullable) for column in entry.columns),
        )
        for entry in TABLES
    ]
    views = [
        CatalogEntry(
            view.name,
            "view",
            view.sentence,
            tuple(CatalogColumn(column.name, column.type, column.unit, column.doc, None) for column in view.columns),
        )
        for view in sorted(load_views(), key=lambda view: view.name)
        if not view.private
    ]
    return (*tables, *views)


def catalog_entry(name: str) -> CatalogEntry:
    """The table or view called `name`; UsageError with the closest names for any other."""
    entries = {entry.name: entry for entry in catalog()}
    if name not in entries:
        raise UsageError(f"no table or view is called {name!r}", hint=f"There are: {', '.join(entries)}.")
    return entries[name]
