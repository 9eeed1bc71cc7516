"""Can this capture tell? The checks of queries/quality: what a capture lacks, with what would fix it.

A check is one SELECT over view `rank_fact` with a TOML header, as rules are; it returns a row where the capture lacks something.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa

from traceengine.errors import QueryError, RuleError
from traceengine.resources import queries_dir
from traceengine.rules.header import check_params, read_params
from traceengine.rules.model import EVIDENCE_TYPES, Param
from traceengine.sql import bare_sandbox, query
from traceengine.sqlfile import SqlFile, read_sql_file, sql_files
from traceengine.views import load_views

CHECK_CONTRACT: tuple[tuple[str, pa.DataType], ...] = (
    ("rank", pa.int64()),
    ("sentence", pa.string()),
    ("lowers", pa.bool_()),
    ("blocks", pa.bool_()),
)
"""The columns that every check returns, at most one row a rank."""

SOURCE_KINDS = ("torch", "nsys")
"""Kinds of source that a fix is given for."""

_FACTS = "rank_fact"


@dataclass(frozen=True)
class Note:
    """What the capture cannot tell. `fix` names the capture option; `lowers` the confidence; `blocks` any verdict."""

    code: str
    sentence: str
    fix: str
    lowers: bool
    blocks: bool


@dataclass(frozen=True)
class Check:
    """One check file; `code` is the file's stem. `order` places its note among those of equal weight."""

    code: str
    path: Path
    order: int
    why: str
    effect: str
    fix: Mapping[str, str]
    params: tuple[Param, ...]
    sql: str


@dataclass(frozen=True)
class Facts:
    """A row of view rank_fact; names as there."""

    kind: str
    host_events: int
    ops: int
    python_frames: int
    device_events: int
    devices_listed: int
    unlinked_device_events: int
    launches: int | None
    launches_without_device_event: int | None
    steps: int
    complete_steps: int
    steady_steps: int
    steps_without_device_event: int
    comm_events: int
    world_size: int | None
    ranks_present: int
    truncated: bool
    largest_device_share: float | None
    stream_waits: int
    memory_events: int
    shaped_ops: int
    forward_flows: int
    ranges: int
    copies: int
    copies_with_memory_kind: int


def rank_facts(connection: duckdb.DuckDBPyConnection, rank: int) -> Facts | None:
    """What the capture of a rank holds, or None when the run has no such rank."""
    rows = _fact_rows(connection, rank).select(list(Facts.__dataclass_fields__)).to_pylist()
    return Facts(**rows[0]) if rows else None


def _fact_rows(connection: duckdb.DuckDBPyConnection, rank: int) -> pa.Table:
    names = [field.name for field in _fact_schema()]
    rows = connection.execute("from rank_fact where rank = $rank", {"rank": rank}).fetchall()
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=_fact_schema())


@cache
def load_checks(folder: Path | None = None) -> tuple[Check, ...]:
    """All checks of `folder` (default: queries/quality), in their order. Raises RuleError with file and line for the first fault."""
    with _facts_connection(_fact_schema().empty_table()) as connection:
        checks = [_load_check(path, connection) for path in sql_files(folder or queries_dir() / "quality")]
    return tuple(sorted(checks, key=lambda check: (check.order, check.code)))


def _load_check(path: Path, connection: duckdb.DuckDBPyConnection) -> Check:
    file = read_sql_file(path, "check")
    header = file.header
    file.known_keys(header, ("order", "why", "effect", "fix", "params"), "the header")
    check = Check(
        file.name,
        path,
        file.number(header, "order", "the header"),
        file.text(header, "why", "the header"),
        file.text(header, "effect", "the header"),
        _fix(file),
        read_params(file),
        file.body,
    )
    check_params(file, check.params, connection)
    try:
        schema = query(connection, check.sql, _values(check)).schema
    except QueryError as error:
        raise RuleError(f"the query fails: {error}", where=file.body_place) from error
    if [(field.name, field.type) for field in schema] != list(CHECK_CONTRACT):
        found = ", ".join(f"{field.name} {field.type}" for field in schema)
        expected = ", ".join(f"{name} {kind}" for name, kind in CHECK_CONTRACT)
        raise RuleError(f"returns {found} instead of {expected}", where=file.body_place)
    return check


def _fix(file: SqlFile) -> Mapping[str, str]:
    entries = file.header.get("fix", {})
    if not isinstance(entries, dict):
        raise file.error("'fix' must be a table", "fix", hint='Write [fix] and below it torch = "..." and nsys = "...".')
    file.known_keys(entries, SOURCE_KINDS, "[fix]")
    return {kind: file.text(entries, kind, "[fix]") for kind in (SOURCE_KINDS if entries else ())}


def _values(check: Check) -> dict[str, object]:
    return {param.name: param.default for param in check.params}


@cache
def _fact_schema() -> pa.Schema:
    view = next(view for view in load_views() if view.name == _FACTS)
    return pa.schema([(column.name, EVIDENCE_TYPES[column.type]) for column in view.columns])


def _facts_connection(facts: pa.Table) -> duckdb.DuckDBPyConnection:
    """A cursor that sees these facts and nothing else."""
    connection = bare_sandbox().cursor()
    connection.register(_FACTS, facts)
    return connection


def rank_notes(connection: duckdb.DuckDBPyConnection, rank: int) -> tuple[Note, ...]:
    """Everything that the capture of one rank cannot tell, what blocks a verdict first."""
    facts = _fact_rows(connection, rank)
    if not facts.num_rows:
        return (Note("no_source", "the run does not say where this rank came from", "import the trace again", True, True),)
    (kind,) = facts.column("kind").to_pylist()
    notes = []
    with _facts_connection(facts) as sandbox:
        for check in load_checks():
            fix = check.fix.get(kind, check.fix.get(SOURCE_KINDS[0], ""))
            rows = sandbox.execute(check.sql, _values(check)).fetchall()
            notes += [Note(check.code, sentence, fix, lowers, blocks) for _, sentence, lowers, blocks in rows]
    return tuple(sorted(notes, key=lambda note: (not note.blocks, not note.lowers)))
