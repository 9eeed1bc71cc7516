"""A run: a folder of Parquet tables with a manifest, written whole or not at all.

```
RUN/manifest.json                         written last: a folder without it is no run
RUN/tables/TABLE/rank=00000/part-*.parquet   what the importers read
RUN/analysis/manifest.json                what was computed from it, and by which version
RUN/analysis/TABLE/rank=00000/part-*.parquet
```
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from traceengine import __version__
from traceengine.errors import RunError, UsageError
from traceengine.hidden import HiddenFolder, swap_in, sweep
from traceengine.schema import SCHEMA_VERSION, TABLES, Table, TableOrigin, table

MANIFEST = "manifest.json"
_ANALYSIS = "analysis"
_TABLES = "tables"


@dataclass(frozen=True)
class Manifest:
    """What a run is made of: `key` identifies inputs and importer, so that equal keys mean equal tables."""

    schema_version: int
    tool_version: str
    key: str
    origin_unix_ns: int | None
    ranks: tuple[int, ...]
    sources: tuple[str, ...]

    @classmethod
    def new(cls, key: str, origin_unix_ns: int | None, ranks: tuple[int, ...], sources: tuple[str, ...]) -> Manifest:
        """A manifest of this version of the tool."""
        return cls(SCHEMA_VERSION, __version__, key, origin_unix_ns, ranks, sources)


def _write_json(path: Path, document: object) -> None:
    with path.open("w", encoding="utf-8") as stream:
        json.dump(document, stream, indent=1, sort_keys=True)
        stream.flush()
        os.fsync(stream.fileno())


def _part(root: Path, name: str, rank: int, part: int) -> Path:
    folder = root / name / f"rank={rank:05d}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"part-{part:05d}.parquet"


def write_table(root: Path, name: str, rank: int, rows: pa.Table, part: int = 0) -> None:
    """Write one part of table `name` under `root`; `rows` must have the declared columns in order. Empty parts are skipped."""
    declared = table(name).arrow
    if rows.num_rows == 0:
        return
    pq.write_table(rows.select(declared.names).cast(declared), _part(root, name, rank, part), compression="zstd")


class RunWriter:
    """Builds a run in a hidden folder beside its place; `commit` moves it there in one step.

    Used as a context manager: leaving without `commit` removes everything that was written. What a killed writer of the
    same place left is removed first.
    """

    def __init__(self, target: Path, *, replace: bool = False) -> None:
        self.target = target
        sweep(target.parent, target.name)
        empty = not target.exists() or (target.is_dir() and not any(target.iterdir()))
        if not empty and not replace:
            raise UsageError("the run's folder exists already", where=str(target), hint="Choose another -o, or pass --force to replace it.")
        if target.is_symlink() or not (empty or (target / MANIFEST).is_file()):
            # Replacing removes the folder: only what is known to be a run may go.
            raise UsageError("it is there and is no run, so it is not replaced", where=str(target), hint="Choose another -o.")
        target.parent.mkdir(parents=True, exist_ok=True)
        self._folder = HiddenFolder(target.parent, target.name, "partial")
        self.root = self._folder.path
        self._open = True

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._open:
            self._folder.remove()

    def part_path(self, name: str, rank: int, part: int) -> Path:
        """Where part `part` of table `name` of `rank` goes; the folder exists. For writers that stream Parquet themselves."""
        return _part(self.root / _TABLES, table(name).name, rank, part)

    def write(self, name: str, rank: int, rows: pa.Table, part: int = 0) -> None:
        """Write one part of an import table."""
        write_table(self.root / _TABLES, name, rank, rows, part)

    def commit(self, manifest: Manifest) -> Run:
        """Finish the run. Of two writers of the same target the later one wins; no reader ever sees a half."""
        _write_json(self.root / MANIFEST, asdict(manifest))
        swap_in(self._folder, self.target)
        self._open = False
        return Run.open(self.target)


@dataclass(frozen=True)
class Run:
    """An opened run."""

    path: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: Path) -> Run:
        """Open a run folder. Raises RunError when it is none, half written, or of another version."""
        manifest_path = path / MANIFEST
        if not manifest_path.is_file():
            hint = "Make one with: traceengine import TRACE -o RUN"
            raise RunError("no manifest.json, so this is no finished run", where=str(path), hint=hint)
        try:
            document = json.loads(manifest_path.read_text(encoding="utf-8"))
            version = document["schema_version"]
            if version == SCHEMA_VERSION:
                manifest = Manifest(**{**document, "ranks": tuple(document["ranks"]), "sources": tuple(document["sources"])})
        except (ValueError, KeyError, TypeError) as error:
            raise RunError("the manifest cannot be read", where=str(manifest_path), hint="Import the trace again.") from error
        if version != SCHEMA_VERSION:
            raise RunError(
                f"the run has table version {version}, this tool reads version {SCHEMA_VERSION}",
                where=str(path),
                hint="Import the trace again.",
            )
        return cls(path, manifest)

    def parts(self, entry: Table, rank: int | None = None) -> list[Path]:
        """Parquet parts of a table, of all ranks or of one."""
        root = self.path / (_TABLES if entry.origin is TableOrigin.IMPORT else _ANALYSIS) / entry.name
        pattern = "rank=*" if rank is None else f"rank={rank:05d}"
        return sorted(root.glob(f"{pattern}/part-*.parquet"))

    def read(self, name: str, rank: int | None = None, columns: list[str] | None = None) -> pa.Table:
        """A table's rows as Arrow, in file order; the empty table when nothing was recorded."""
        entry = table(name)
        names = columns or list(entry.column_names)
        schema = pa.schema([entry.arrow.field(column) for column in names])
        files = self.parts(entry, rank)
        if not files:
            return schema.empty_table()
        return pa.concat_tables([pq.ParquetFile(file).read(columns=names).cast(schema) for file in files])

    def analysis_manifest(self) -> dict[str, Any] | None:
        """Manifest of the stored analysis, or None when there is none."""
        path = self.path / _ANALYSIS / MANIFEST
        if not path.is_file():
            return None
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            return None
        return document if isinstance(document, dict) else None

    @contextmanager
    def analysis_writer(self, document: dict[str, Any]) -> Iterator[Path]:
        """A folder to write analysis tables into (see `write_table`); it replaces the stored analysis when the block ends well."""
        sweep(self.path, _ANALYSIS)
        folder = HiddenFolder(self.path, _ANALYSIS, "partial")
        try:
            yield folder.path
            _write_json(folder.path / MANIFEST, document)
        except BaseException:
            folder.remove()
            raise
        swap_in(folder, self.path / _ANALYSIS)

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection that sees every table of the run as a view, with column comments.

        Not sandboxed: for the engine's own queries. User SQL goes through `traceengine.sql`.
        """
        config: dict[str, str | bool | int | float | list[str]] = {
            "threads": 2,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        connection = duckdb.connect(":memory:", config=config)
        for entry in TABLES:
            connection.execute(view_ddl(entry, [str(part) for part in self.parts(entry)]))
        return connection


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def view_ddl(entry: Table, files: Sequence[str]) -> str:
    """DDL of one table view over Parquet `files` (paths or URLs). DDL takes no parameters: names come from the schema, paths are quoted."""
    if files:
        columns = ", ".join(f'"{column.name}"' for column in entry.columns)
        listing = ", ".join(_quote(file) for file in files)
        body = f"select {columns} from read_parquet([{listing}], hive_partitioning = false)"  # noqa: S608
    else:
        columns = ", ".join(f'cast(null as {column.duckdb_type}) as "{column.name}"' for column in entry.columns)
        body = f"select {columns} where false"
    comments = "".join(f'comment on column "{entry.name}"."{column.name}" is {_quote(column.doc)};' for column in entry.columns)
    return f'create view "{entry.name}" as {body}; comment on view "{entry.name}" is {_quote("A row is " + entry.row)}; {comments}'
