"""Errors at the border: one line on stderr, the right code, nothing on stdout; and a reader that goes away."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from traceengine import __version__
from traceengine.cli import run
from traceengine.cli.app import cli

NO_ANSWER = {
    "missing file": ["analyze", "nowhere.json"],
    "folder without traces": ["analyze", "empty_folder"],
    "web page": ["analyze", "page.html"],
    "web page called json": ["analyze", "page.json"],
    "empty file": ["analyze", "empty.json"],
    "json that is no trace": ["analyze", "other.json"],
    "gz that is none": ["analyze", "fake.json.gz"],
    "text called sqlite": ["analyze", "text.sqlite"],
    "no such option": ["analyze", "--nope"],
    "no such command": ["analyse", "trace.json.gz"],
    "no argument": ["analyze"],
    "bad format": ["analyze", "trace.json.gz", "--format", "xml"],
    "import without output": ["import", "trace.json.gz"],
    "import of nothing": ["import", "nowhere.json", "-o", "made"],
    "import over a file": ["import", "trace.json.gz", "-o", "page.html"],
    "sql without a run": ["sql", "nowhere", "select 1"],
    "sql on a trace": ["sql", "trace.json.gz", "select 1"],
    "no such table": ["tables", "nope"],
    "no such rule": ["rules", "show", "nope"],
    "rules from nowhere": ["rules", "list", "--rules", "nowhere"],
}


@pytest.fixture
def bad_files(workplace: Path) -> Path:
    (workplace / "empty_folder").mkdir()
    (workplace / "page.html").write_text("<!doctype html><html><body>Not found</body></html>")
    (workplace / "page.json").write_text("<!doctype html><html><body>Not found</body></html>")
    (workplace / "empty.json").write_text("")
    (workplace / "other.json").write_text('{"a": [1, 2, 3]}')
    (workplace / "fake.json.gz").write_text('{"traceEvents": []}')
    (workplace / "text.sqlite").write_text("hello")
    return workplace


@pytest.mark.parametrize("arguments", NO_ANSWER.values(), ids=NO_ANSWER.keys())
def test_no_answer_is_one_line_and_code_2(arguments: list[str], bad_files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(bad_files.rglob("*"))
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("traceengine: reading ")]
    assert len(lines) == 1, err
    assert lines[0].startswith("traceengine: error: ")
    assert re.search(r"[.?] [A-Z`]", lines[0].removeprefix("traceengine: error: ")), "says what to do"
    assert "Traceback" not in err
    assert out == ""
    assert sorted(bad_files.rglob("*")) == before, "nothing is written"
    cache = bad_files.parent / "cache"
    assert not cache.exists() or not any(cache.iterdir())


def test_a_cut_gz_gives_an_answer_or_one_line(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = gzip.compress(os.urandom(1000) + (workplace / "trace.json.gz").read_bytes())
    (workplace / "cut.json.gz").write_bytes(whole[: len(whole) // 2])
    assert run(["analyze", "cut.json.gz"]) == 2
    assert capsys.readouterr().err.count("traceengine: error: ") == 1


def test_version_and_help(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"traceengine {__version__}\n"
    assert run(["--help"]) == 0
    assert "Commands:" in capsys.readouterr().out


def test_interrupt_is_130(workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.commands["tables"], "callback", interrupted)
    assert run(["tables"]) == 130
    assert capsys.readouterr().err == ""


def test_a_bug_keeps_its_traceback(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli.commands["tables"], "callback", broken)
    with pytest.raises(ZeroDivisionError):
        run(["tables"])


def test_a_reader_that_goes_away_is_no_error(job: Path) -> None:
    command = [sys.executable, "-c", "from traceengine.cli import main; main()", "sql", "runs/job"]
    process = subprocess.Popen(
        [*command, "select * from range(2000000)", "--format", "csv"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout and process.stderr
    assert process.stdout.readline() == "range\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 141


def test_importing_the_package_loads_neither_torch_nor_pandas() -> None:
    code = "import sys, traceengine, traceengine.cli; print([m for m in ('torch', 'pandas') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
