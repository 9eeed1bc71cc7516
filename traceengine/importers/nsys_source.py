"""An Nsight Systems export as tables of Arrow batches, whatever its format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from traceengine.importers.nsys_format import RawTable

BATCH_ROWS = 65_536
"""Rows per batch: some MB, and the fixed cost of a batch does not show."""


class NsysSource(Protocol):
    """What the importer needs of an export. `kind` is the format's name, `truncated` says that its end is missing."""

    kind: str
    truncated: bool

    def columns(self) -> dict[str, frozenset[str]]:
        """Tables of the export with the columns that they have."""

    def rows(self, table: str) -> int:
        """Number of rows of a table that exists; -1 when only a full read would tell."""

    def batches(self, table: RawTable) -> Iterator[pa.RecordBatch]:
        """Rows of a table in batches of the declared schema; nothing when the export lacks the table."""

    def close(self) -> None:
        """Release files."""


@dataclass(frozen=True)
class ColumnMap:
    """Where each wanted column stands in an export: `found` wanted name → its name there."""

    found: dict[str, str]
    renamed: tuple[str, ...]
    missing: tuple[str, ...]


def map_columns(table: RawTable, present: Iterable[str]) -> ColumnMap:
    """Match wanted and present columns. Newer exports may call a reference `xId` where older ones said `x`."""
    have = set(present)
    found: dict[str, str] = {}
    renamed: list[str] = []
    missing: list[str] = []
    for column in table.columns:
        if column.name in have:
            found[column.name] = column.name
        elif column.name + "Id" in have:
            found[column.name] = column.name + "Id"
            renamed.append(column.name + "Id")
        elif column.needed:
            missing.append(column.name)
    return ColumnMap(found, tuple(renamed), tuple(missing))


def conform(batch: pa.RecordBatch, table: RawTable, columns: ColumnMap) -> pa.RecordBatch:
    """The batch with the declared columns and types; what the export lacks is NULL."""
    schema = table.arrow
    arrays = []
    for field in schema:
        source = columns.found.get(field.name)
        arrays.append(pa.nulls(batch.num_rows, field.type) if source is None else _cast(batch.column(source), field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    have = array.type
    if have == wanted:
        return _valid_text(array) if pa.types.is_string(have) else array
    if pa.types.is_dictionary(have):
        return _cast(array.dictionary_decode(), wanted)
    if wanted == pa.int64() and pa.types.is_uint64(have):
        return array.view(pa.int64())
    if wanted == pa.int64() and pa.types.is_floating(have):
        return pc.cast(array, wanted, safe=False)
    if wanted == pa.string() and pa.types.is_binary(have):
        return pa.nulls(len(array), wanted)
    return pc.cast(array, wanted)


def _valid_text(array: pa.Array) -> pa.Array:
    """The texts; bytes that are no UTF-8 (recorders write what the program gave them) become U+FFFD."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        texts = [None if value is None else value.decode("utf-8", "replace") for value in array.view(pa.binary()).to_pylist()]
        return pa.array(texts, pa.string())
    return array


def path_size(path: Path) -> int:
    """Bytes of a file, or of all files of an export folder."""
    return path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in path.iterdir() if file.is_file())
