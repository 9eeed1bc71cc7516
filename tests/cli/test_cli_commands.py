"""What the commands print, and the examples in their help."""

from __future__ import annotations

import csv
import io
import json
import shlex
import sys
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from traceengine.cli import run
from traceengine.cli.app import cli
from traceengine.cli.session import _shadow
from traceengine.cli.tabular import write_rows
from traceengine.errors import QueryError
from traceengine.run import Run


def commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [path]
    for name, command in group.commands.items():
        found += commands(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]
    return found


@pytest.mark.parametrize("command", commands(), ids=" ".join)
@pytest.mark.usefixtures("example_place")
def test_every_help_ends_with_an_example_that_runs(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run([*command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Example:" in text
    examples = [line.strip() for line in text.split("Example:")[1].splitlines() if line.strip()]
    assert examples
    for example in examples:
        words = shlex.split(example)
        assert words[0] == "traceengine"
        assert run(words[1:]) == 0, capsys.readouterr().err
        shown = capsys.readouterr()
        assert shown.out or shown.err


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    code = run(["sql", "runs/job", *arguments])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


MIXED = "select * from (values (1, 'a|b', null), (2, 'c\"d,e', 1.5)) as t(n, text, share)"


def test_sql_forms(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(capsys, MIXED) == 'n  text   share\n1  a|b     NULL\n2  c"d,e    1.5\n'
    assert list(csv.reader(io.StringIO(ask(capsys, MIXED, "--format", "csv")))) == [
        ["n", "text", "share"],
        ["1", "a|b", ""],
        ["2", 'c"d,e', "1.5"],
    ]
    rows = [{"n": 1, "text": "a|b", "share": None}, {"n": 2, "text": 'c"d,e', "share": 1.5}]
    assert json.loads(ask(capsys, MIXED, "--format", "json")) == rows
    assert [json.loads(line) for line in ask(capsys, MIXED, "--format", "jsonl").splitlines()] == rows
    markdown = ask(capsys, MIXED, "--format", "md")
    assert markdown == '| n | text | share |\n| ---: | --- | ---: |\n| 1 | a\\|b | NULL |\n| 2 | c"d,e | 1.5 |\n'


def test_no_rows(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = "select 1 as n where false"
    assert ask(capsys, nothing) == "n\n"
    assert ask(capsys, nothing, "--format", "csv") == "n\n"
    assert ask(capsys, nothing, "--format", "json") == "[]\n"
    assert ask(capsys, nothing, "--format", "jsonl") == ""


def test_values_beyond_json(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = """select 'nan'::double as a, 9007199254740993 as b, sum(x) as c, [1, null] as d, {'k': date '2020-01-02'} as e
        from (select 1::hugeint as x)"""
    row = {"a": None, "b": 9007199254740993, "c": 1, "d": [1, None], "e": {"k": "2020-01-02"}}
    assert json.loads(ask(capsys, sql, "--format", "json")) == [row]


def test_sql_from_stdin_file_and_to_a_file(job: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("select 1 as one"))
    assert ask(capsys, "-", "--format", "csv") == "one\n1\n"
    Path("question.sql").write_text("select 2 as two")
    assert ask(capsys, "--file", "question.sql", "--format", "csv") == "two\n2\n"
    assert ask(capsys, "select 3 as three", "--format", "csv", "-o", "answer.csv") == ""
    assert Path("answer.csv").read_text() == "three\n3\n"
    assert ask(capsys, "select sum(dur_ns) as total from device_event", "-o", "answer.parquet") == ""
    assert pq.read_table("answer.parquet").to_pylist() == [{"total": 2_700_000}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give the SQL once"),
        (["select 1", "--file", "x.sql"], "give the SQL once"),
        (["select 1", "--format", "parquet"], "Say where to write it"),
        (["select 1 as a, 2 as a", "--format", "json"], "two columns are called 'a'"),
        (["select * from devise_time"], "Did you mean 'device_time'?"),
        (["--file", "missing.sql"], "missing.sql"),
        (["select 1", "-o", "no/such/folder.csv"], "no/such/folder.csv"),
    ],
)
def test_sql_errors(job: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert run(["sql", "runs/job", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_import_refuses_to_replace_unless_forced(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import", "trace.json.gz", "-o", "runs/job"]) == 2
    assert "--force" in capsys.readouterr().err
    assert run(["import", "trace.json.gz", "-o", "runs/job", "--force", "--rank", "3", "--jobs", "1"]) == 0
    assert capsys.readouterr().out == "runs/job\n"
    assert Run.open(job).manifest.ranks == (3,)


def test_tables_lists_and_describes(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tables", "--format", "json"]) == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)]
    assert {"device_event", "critical_path", "device_time"} <= set(names)
    assert not [name for name in names if name.startswith("_")]
    assert run(["tables", "device_time", "--format", "json"]) == 0
    columns = json.loads(capsys.readouterr().out)
    assert columns[3] == {
        "column": "busy_ns",
        "type": "bigint",
        "unit": "ns",
        "what": "Time with at least one kernel, copy or memset running.",
    }


RULE = """\
-- /// rule
-- title = "Mine"
-- bottleneck = "compute"
-- needs = ["step"]
-- why = "Because."
-- ///
select rank, step, 'clear' as status, 0::bigint as cost_ns, 'none' as reason from step
"""


def test_rules_of_ones_own(workplace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "second"):
        Path(name).mkdir()
        Path(name, f"{name}_rule.sql").write_text(RULE)
    monkeypatch.setenv("TRACEENGINE_RULES", "first")
    assert run(["rules", "list", "--rules", "second", "--format", "json"]) == 0
    listed = {row["rule"]: row for row in json.loads(capsys.readouterr().out)}
    assert {"first_rule", "second_rule"} <= set(listed)
    assert listed["first_rule"] == {"rule": "first_rule", "bottleneck": "compute", "title": "Mine"}
    assert run(["rules", "show", "second_rule", "--rules", "second"]) == 0
    assert "why: Because." in capsys.readouterr().out
    Path("first/first_rule.sql").write_text(RULE.replace('title = "Mine"', 'titel = "Mine"'))
    assert run(["rules", "list"]) == 2
    assert capsys.readouterr().err.startswith("traceengine: error: first/first_rule.sql:2: unknown key 'titel'")


def test_a_shadow_shares_tables_and_leaves_the_run_alone(job: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in job.rglob("*")}
    shadow = _shadow(Run.open(job), tmp_path / "shadow")
    assert shadow.analysis_manifest() is None
    assert shadow.read("device_event").num_rows == 3
    with shadow.analysis_writer({"key": "other"}):
        pass
    assert shadow.analysis_manifest() == {"key": "other"}
    assert {path: path.stat().st_mtime_ns for path in job.rglob("*")} == before


def test_a_terminal_gets_a_rich_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    write_rows(pa.table({"n": [1], "text": ["[bold]x[/bold]"]}), "table")
    assert "[bold]x[/bold]" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["table", "md"])
def test_a_terminal_obeys_no_name_of_a_trace(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(pa.table({"na\x1bme": ["\x1b[2Ja\u202eb\nc\x9b", "größe"]}), form)
    out = capsys.readouterr().out
    assert not {"\x1b", "\u202e", "\x9b"} & set(out)
    assert "größe" in out
    assert len(out.splitlines()) == (3 if form == "table" else 4)


def test_rows_too_wide_for_the_terminal_are_shown_as_blocks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    rows = pa.table({f"column_{number}": [number, number] for number in range(6)})
    write_rows(rows, "table")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["row 1", "  column_0  0", "  column_1  1"]
    assert len(lines) == 2 * 7
    write_rows(rows.slice(0, 0), "table")
    assert capsys.readouterr().out.startswith("no rows; columns: column_0, ")


def test_duplicate_names_are_fine_where_names_are_no_keys(capsys: pytest.CaptureFixture[str]) -> None:
    rows = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    write_rows(rows, "csv")
    assert capsys.readouterr().out == "a,a\n1,2\n"
    with pytest.raises(QueryError):
        write_rows(rows, "jsonl")
