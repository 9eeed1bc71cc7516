"""Defects that were found once and must not come back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from traceengine.analysis import ensure_analysis
from traceengine.cli import run as run_command
from traceengine.errors import RuleError, UsageError
from traceengine.importers import ImportRequest, import_traces
from traceengine.report.story import sentence
from traceengine.run import RunWriter

OP = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1000, "dur": 0, "args": {}}
STEP = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 1, "tid": 1, "ts": 1000, "dur": 0, "args": {}}


def test_force_replaces_runs_and_nothing_else(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "keep").write_text("x")
    with pytest.raises(UsageError, match="no run"):
        RunWriter(victim, replace=True)
    link = tmp_path / "link"
    link.symlink_to(victim)
    with pytest.raises(UsageError, match="no run"):
        RunWriter(link, replace=True)
    assert (victim / "keep").read_text() == "x"


@pytest.mark.parametrize("events", [[OP], [STEP], [STEP, {**STEP, "name": "ProfilerStep#1"}], [OP, STEP]], ids=str)
def test_a_window_of_no_length_is_no_crash(tmp_path: Path, events: list[dict[str, object]]) -> None:
    trace = tmp_path / "t.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    answer = ensure_analysis(import_traces(ImportRequest((trace,), out=tmp_path / "run"))).answer
    assert answer.leading.owner == "unknown"
    assert answer.leading.saving_bound_ns is None


def test_step_markers_alone_tell_no_cause(tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    markers = [{**STEP, "name": f"ProfilerStep#{step}", "ts": 1000 * step, "dur": 990} for step in range(6)]
    trace.write_text(json.dumps({"traceEvents": markers}))
    verdict = ensure_analysis(import_traces(ImportRequest((trace,), out=tmp_path / "run"))).answer.leading
    assert (verdict.owner, verdict.confidence, verdict.card) == ("unknown", "low", None)
    assert "no_events" in {note.code for note in verdict.unknown}


def test_a_lone_slow_step_is_named_where_the_answer_is_to_stop(tmp_path: Path) -> None:
    """One step of eight saves for 50 ms: the figures leave it out, and "no knob" alone would hide it."""
    events, at = [], 0
    for step in range(8):
        extra = 50_000 if step == 5 else 0
        events.append({**STEP, "name": f"ProfilerStep#{step}", "ts": at, "dur": 10_000 + extra})
        events.append({**OP, "ts": at, "dur": 9_990})
        at += 10_000 + extra
    trace = tmp_path / "t.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    verdict = ensure_analysis(import_traces(ImportRequest((trace,), out=tmp_path / "run"))).answer.leading
    assert verdict.healthy
    assert "step 5 apart (50.0 ms more host_other)" in sentence(verdict)


def test_the_same_trace_twice_is_refused(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps({"traceEvents": [OP, STEP]}))
    with pytest.raises(UsageError, match=r"b\.json: holds the same bytes as a\.json"):
        import_traces(ImportRequest((tmp_path,), out=tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_terminal_obeys_no_file_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "a\x1b[31m.json"
    trace.write_text(json.dumps({"traceEvents": [{**OP, "dur": 5}, STEP]}))
    for form in ("text", "md"):
        assert run_command(["analyze", str(trace), "--format", form, "--no-cache"]) == 0
    assert run_command(["analyze", str(tmp_path / "no\x1b[31m.json")]) == 2
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert "\\x1b[31m" in shown.out


def test_an_interrupted_query_is_an_interruption(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise RuleError("the query fails: offering a filter failed: KeyboardInterrupt: ")

    monkeypatch.setattr("traceengine.cli.tables.tables_command.callback", interrupted)
    assert run_command(["tables"]) == 130
    assert capsys.readouterr().err == ""


def test_two_ranks_without_steps_have_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32", "pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}}
    for rank in range(2):
        events = [{**kernel, "ts": 1000 * at + 100 * rank, "dur": 500 - 100 * rank} for at in range(6)]
        keys = {"distributedInfo": {"rank": rank, "world_size": 2}}
        (tmp_path / f"r{rank}.json").write_text(json.dumps({**keys, "traceEvents": events}))
    for form in ("text", "md", "json"):
        assert run_command(["analyze", str(tmp_path), "--format", form, "--no-cache"]) == 0
    assert capsys.readouterr().out.count("Across ranks") == 3
