"""User SQL reads the run's tables and nothing else: no statement here may change a file, reach one, or reveal the machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from helpers import build_run, rows

from traceengine.errors import QueryError
from traceengine.run import Run
from traceengine.sql import open_sandbox, query

DEVICE_EVENTS = """
    stream | ts_ns | dur_ns | kind   | class
    7      | 0     | 100    | kernel | gemm
    8      | 50    | 100    | kernel | comm
"""

HOSTILE = [
    "select * from read_csv('/etc/passwd')",
    "select * from read_csv_auto('/etc/passwd')",
    "select * from read_text('/etc/hostname')",
    "select * from read_blob('/proc/self/environ')",
    "select * from read_json('/etc/passwd')",
    "select * from read_parquet('/tmp/*.parquet')",
    "select * from parquet_metadata('/tmp/a.parquet')",
    "select * from sniff_csv('/etc/passwd')",
    "select * from glob('/etc/*')",
    "select * from glob('run://*')",
    "select * from '/etc/passwd'",
    "select * from 'secret.csv'",
    "from query('select * from read_csv(''/etc/passwd'')')",
    "from query_table('/etc/passwd')",
    "select * from read_csv('https://example.com/x.csv')",
    "select * from read_parquet('s3://bucket/x.parquet')",
    "select * from read_parquet('run://../manifest.json')",
    "select * from read_parquet('run://999.parquet')",
    "select * from read_text('{run}/manifest.json')",
    "select * from read_parquet('{part}')",
    "copy device_event to '{out}/x.csv'",
    "copy (select 1) to '{out}/x.parquet'",
    "copy (select 1) to 'run://0.parquet' (use_tmp_file false)",
    "with x as (copy (select 1 as a) to '{out}/x.csv' (use_tmp_file false)) select * from x",
    "with x as (copy (select 1 as a) to '{part}' (use_tmp_file false)) select * from x",
    "with x as (copy (select 1 as a) to 'run://0.parquet' (use_tmp_file false)) select * from x",
    "with x as (copy (select 1 as a) to 'run://0.parquet') select * from x",
    "with x as (insert into step select * from step returning *) select * from x",
    "with x as (delete from step returning *) select * from x",
    "export database '{out}/e'",
    "import database '{out}/e'",
    "attach '{out}/x.db'",
    "attach ':memory:' as other",
    "detach memory",
    "use memory",
    "install httpfs",
    "install httpfs from community",
    "load httpfs",
    "load '{out}/x.duckdb_extension'",
    "force install sqlite",
    "select * from sqlite_scan('{out}/x.db', 't')",
    "set enable_external_access = true",
    "set threads = 1",
    "set python_enable_replacements = true",
    "reset threads",
    "pragma version",
    "pragma enable_external_access",
    "pragma enable_profiling",
    "call pragma_version()",
    "call enable_logging('QueryLog')",
    "select * from enable_logging('QueryLog', storage = 'file', storage_config = {{'path': '{out}/log'}})",
    "create table t (a int)",
    "create temp table t as select 1",
    "create or replace view step as select 1",
    "create macro f() as 1",
    "create secret (type s3, key_id 'a', secret 'b')",
    "create sequence s",
    "insert into step values (1)",
    "update device_event set name = 'x'",
    "delete from device_event",
    "drop view step",
    "alter view step rename to other",
    "comment on view step is 'x'",
    "truncate step",
    "begin",
    "checkpoint",
    "vacuum",
    "analyze",
    "prepare p as select 1",
    "execute p",
    "select 1; select 2",
    "select 1; copy device_event to '{out}/x.csv'",
    "explain analyze create table t (a int)",
    "explain copy device_event to '{out}/x.csv'",
    "select getenv('HOME')",
    "select * from pa_table",
    "select * from duckdb_extensions()",
]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return build_run(tmp_path / "run", device_event=DEVICE_EVENTS)


@pytest.fixture
def connection(run: Run) -> Iterator[duckdb.DuckDBPyConnection]:
    with open_sandbox(run) as connection:
        yield connection


def fingerprint(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("statement", HOSTILE)
def test_hostile_statement_is_refused(statement: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa_table = rows("step", "ts_ns | dur_ns\n0 | 1")  # DuckDB finds Python variables by name unless told not to
    out = tmp_path / "out"
    out.mkdir()
    (out / "secret.csv").write_text("a\n1\n")
    monkeypatch.chdir(out)
    part = run.path / "tables/device_event/rank=00000/part-00000.parquet"
    before = fingerprint(tmp_path)
    with open_sandbox(run) as connection:
        with pytest.raises(QueryError) as caught:
            query(connection, statement.format(run=run.path, part=part, out=out))
        assert "\n" not in str(caught.value)
        assert query(connection, "select count(*) as n from device_event").to_pylist() == [{"n": 2}]
    assert fingerprint(tmp_path) == before
    assert pa_table.num_rows == 1


def test_there_are_at_least_forty_hostile_statements() -> None:
    assert len(set(HOSTILE)) >= 40


@pytest.mark.parametrize(
    "statement",
    [
        "select count(*) from device_event",
        "with a as (select 1 as b) select * from a",
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 3) select * from n",
        "from device_time",
        "describe device_event",
        "show tables",
        "summarize device_event",
        "values (1), (2)",
        "pivot device_event on class in ('gemm', 'comm') using count(*)",
        "explain select * from device_time",
        "explain analyze select 1",
        "select 1 -- comment ; select 2",
        "select ';'",
        "select * from query_table('step')",
    ],
)
def test_reading_is_allowed(statement: str, connection: duckdb.DuckDBPyConnection) -> None:
    query(connection, statement)


def test_secrets_of_the_machine_are_not_visible(connection: duckdb.DuckDBPyConnection) -> None:
    assert query(connection, "select * from duckdb_secrets()").num_rows == 0


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("select * from devise_time", "no table or view is called 'devise_time'. Did you mean 'device_time'?"),
        ("select * from zzz", "no table or view is called 'zzz'. There are: source,"),
        ("select strem from device_event", 'Referenced column "strem" not found in FROM clause! Columns of similar name: "stream"'),
        ("selec 1", 'syntax error at or near "selec". In line 1: selec 1'),
        ("select\n  (1 + 2", "In line 2:"),
        ("", "there is no SQL to run"),
        ("-- nothing", "there is no SQL to run"),
        ("pivot device_event on class using count(*)", "Name its values"),
        ("insert into step values (1)", "INSERT is refused: a run is read-only"),
    ],
)
def test_errors_say_what_to_do(statement: str, message: str, connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(QueryError) as caught:
        query(connection, statement)
    assert message in str(caught.value)


def test_overlay_replaces_a_stored_table(run: Run) -> None:
    steps = rows("step", "step | ts_ns | dur_ns\n4 | 0 | 10")
    with open_sandbox(run, {"step": steps}) as connection:
        assert query(connection, "select step, dur_ns from step").to_pylist() == [{"step": 4, "dur_ns": 10}]


def test_columns_carry_their_sentences(connection: duckdb.DuckDBPyConnection) -> None:
    found = query(
        connection, "select comment from duckdb_columns() where table_name = 'device_time' and column_name = 'busy_ns'"
    ).to_pylist()
    assert found == [{"comment": "Time with at least one kernel, copy or memset running."}]
