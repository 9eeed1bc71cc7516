"""Cases beside rules: what passes, what differs, what is untested, and which line is wrong."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from traceengine.cli import run
from traceengine.errors import RuleError
from traceengine.rules import Rule, load_rules
from traceengine.rules.cases import load_cases, run_cases

EXAMPLE = Path(__file__).parents[2] / "docs/examples/rules"
CASES = "small_copies.cases.toml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example, without rules from outside."""
    monkeypatch.delenv("TRACEENGINE_RULES", raising=False)
    monkeypatch.setenv("TRACEENGINE_CACHE", str(tmp_path / "cache"))
    return Path(shutil.copytree(EXAMPLE, tmp_path / "rules"))


def _rule(folder: Path) -> Rule:
    return load_rules([folder]).rule("small_copies")


def _change(folder: Path, old: str, new: str, count: int = 1) -> None:
    path = folder / CASES
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, count), encoding="utf-8")


def test_the_example_tests_everything(folder: Path) -> None:
    report = run_cases(_rule(folder))
    assert report.passed
    assert report.warnings == ()
    assert [result.case.expected[0].status for result in report.results] == ["hit", "clear", "clear", "unknown"]


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ('status = "hit"', 'status = "clear"', "status is hit, expected clear (reason: many small copies, and their time is exposed)"),
        ("cost_ns = 300", "cost_ns = 299", "cost_ns is 300, expected 299"),
        ("evidence.share = 0.3", "evidence.share = 0.301", "share is 0.3, expected 0.301"),
        ("evidence.mean_bytes = 3000", 'evidence.mean_bytes = "unknown"', "mean_bytes is 3000, expected unknown"),
        ('experiment = "into one pinned buffer"', "experiment = false", "expected no experiment"),
        ('experiment = "into one pinned buffer"', 'experiment = "two buffers"', "expected it to hold 'two buffers'"),
        ('status = "hit"', 'status = "hit"\nstep = 3', "rank 0, step 3: no answer; the rule answers for rank 0"),
        ('status = "hit"', 'status = "hit"\nrank = 3', "rank 3: status is unknown, expected hit"),
        ('reason = "few small copies"', 'reason = "no copies"', "reason is 'few small copies', expected it to hold 'no copies'"),
    ],
)
def test_differences(folder: Path, old: str, new: str, difference: str) -> None:
    _change(folder, old, new)
    report = run_cases(_rule(folder))
    assert not report.passed
    assert difference in " ".join(text for result in report.results for text in result.differences)


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("200   | 100    | memcpy | h2d       | 1000", "200 | x | memcpy | h2d | 1000", 21, "'x' is no int64 (column dur_ns)"),
        ("200   | 100    | memcpy | h2d       | 1000", "200 | 100", 21, "2 cells under 5 columns"),
        ("ts_ns | dur_ns | kind   | copy_kind | bytes", "ts_ns | dur_ms | kind | copy_kind | bytes", 18, "no column 'dur_ms'"),
        ("params.min_copies = 3", "params.min_copy = 3", 5, "no parameter 'min_copy'"),
        ("evidence.share = 0.3", "evidence.shares = 0.3", 28, "no evidence column 'shares'"),
        ('status = "hit"', 'status = "yes"', 26, "status is 'yes'"),
        ("cost_ns = 300", "costs = 300", 27, "unknown key 'costs'"),
        ("step_cause = '''", "step_causes = '''", 12, "'step_causes' is no table"),
        ('name = "hit: three small copies are exposed"', "", 3, "the case has no name"),
    ],
)
def test_faults_name_their_line(folder: Path, old: str, new: str, line: int, message: str) -> None:
    _change(folder, old, new)
    with pytest.raises(RuleError) as caught:
        load_cases(_rule(folder))
    assert message in str(caught.value)
    assert str(caught.value.where).endswith(f"{CASES}:{line}")


def test_text_that_is_no_toml(folder: Path) -> None:
    (folder / CASES).write_text("[[case]]\nname = \n", encoding="utf-8")
    with pytest.raises(RuleError, match=r"cases\.toml:2: is not valid TOML"):
        load_cases(_rule(folder))


def test_what_is_untested_is_a_warning(folder: Path) -> None:
    text = (folder / CASES).read_text(encoding="utf-8").split("[[case]]")
    (folder / CASES).write_text(f"[[case]]{text[2]}", encoding="utf-8")
    warnings = run_cases(_rule(folder)).warnings
    assert warnings == ("no case expects 'hit'", "no case expects 'unknown'", "no case reaches the experiment when true")
    (folder / CASES).unlink()
    assert run_cases(_rule(folder)).warnings == ("no cases: write small_copies.cases.toml beside it",)


def test_exit_codes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "test", str(folder)]) == 0
    _change(folder, "cost_ns = 300", "cost_ns = 299")
    assert run(["rules", "test", str(folder), "--format", "json"]) == 1
    printed = capsys.readouterr()
    document = json.loads(printed.out[printed.out.index("{") :])
    assert [case["passed"] for case in document["cases"]] == [False, True, True, True]
    assert printed.err == "traceengine: error: 1 of 4 cases fail.\n"
    sql = folder / "small_copies.sql"
    sql.write_text(sql.read_text(encoding="utf-8").replace('bottleneck = "h2d"', 'bottleneck = "copies"'), encoding="utf-8")
    assert run(["rules", "test", str(folder)]) == 2
    assert "small_copies.sql:3: unknown bottleneck 'copies'" in capsys.readouterr().err


def test_a_folder_named_twice_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEENGINE_RULES", os.pathsep.join([str(folder), f"{folder}/../rules"]))
    assert run(["rules", "test", "--rules", str(folder)]) == 0
    assert run(["rules", "list", "--rules", str(folder)]) == 0


def test_nothing_to_test(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "test"]) == 2
    (tmp_path / "empty").mkdir()
    assert run(["rules", "test", str(tmp_path / "empty")]) == 2
    printed = capsys.readouterr().err
    assert "no folder with rules is named" in printed
    assert "no *.sql file is there" in printed
