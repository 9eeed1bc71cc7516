"""Defects that were found once and must not come back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from traceengine.analysis import ensure_analysis
from traceengine.errors import UsageError
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
