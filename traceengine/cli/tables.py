"""`traceengine tables`."""

from __future__ import annotations

import click
import pyarrow as pa

from traceengine.catalog import CatalogEntry, catalog, catalog_entry
from traceengine.cli.tabular import write_rows

_FORMS = {"text": "table", "md": "md", "json": "json"}


@click.command("tables", epilog="\b\nExample:\n  traceengine tables device_time")
@click.argument("name", required=False)
@click.option("--format", "form", type=click.Choice(tuple(_FORMS)), default="text", show_default=True, help="Form of the list.")
def tables_command(name: str | None, form: str) -> None:
    """List the tables and views of a run, or the columns of one."""
    rows = _columns(catalog_entry(name)) if name else _entries(catalog())
    write_rows(rows, _FORMS[form])


def _entries(entries: tuple[CatalogEntry, ...]) -> pa.Table:
    columns = {
        "name": [entry.name for entry in entries],
        "kind": [entry.kind for entry in entries],
        "what": [entry.sentence for entry in entries],
    }
    return pa.table(columns)


def _columns(entry: CatalogEntry) -> pa.Table:
    columns = {
        "column": [column.name for column in entry.columns],
        "type": [column.type for column in entry.columns],
        "unit": [column.unit for column in entry.columns],
        "what": [column.doc for column in entry.columns],
    }
    return pa.table(columns)
