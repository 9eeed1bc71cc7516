"""A tiny trace and the run made from it, for the commands."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from traceengine.cli import run

ROOT = Path(__file__).parents[2]
EVENTS = [
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 1, "tid": 1, "ts": 1000, "dur": 1000},
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 2000, "dur": 1000},
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#2", "pid": 1, "tid": 1, "ts": 3000, "dur": 1000},
]
for _step in (1, 2, 3):
    _at = 1000 * _step
    EVENTS += [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": _at + 10, "dur": 300},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": _at + 20, "dur": 5}
        | {"args": {"correlation": _step}},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": _at + 50, "dur": 900}
        | {"args": {"device": 0, "stream": 7, "correlation": _step}},
    ]
TRACE = {"schemaVersion": 1, "traceEvents": EVENTS}


def _write_trace(folder: Path) -> Path:
    path = folder / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(TRACE).encode()))
    return path


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with `trace.json.gz`; the cache is beside it."""
    place = tmp_path / "place"
    place.mkdir()
    _write_trace(place)
    monkeypatch.chdir(place)
    monkeypatch.setenv("TRACEENGINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TRACEENGINE_RULES", raising=False)
    return place


@pytest.fixture(scope="session")
def made_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the trace with its analysis, made once."""
    folder = tmp_path_factory.mktemp("made")
    assert run(["import", str(_write_trace(folder)), "-o", str(folder / "job")]) == 0
    return folder / "job"


@pytest.fixture(scope="session")
def slow_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a stored trace whose verdict has a next experiment."""
    folder = tmp_path_factory.mktemp("slow")
    trace = ROOT / "fixtures/traces/loader.baseline.bare.json.gz"
    assert run(["import", str(trace), "-o", str(folder / "job")]) == 0
    assert run(["analyze", str(folder / "job")]) == 0
    return folder / "job"


@pytest.fixture
def example_place(workplace: Path, slow_run: Path) -> Path:
    """What the examples of the help texts speak of: a trace, `runs/job`, and `my-rules` with a tested rule."""
    shutil.copytree(slow_run, workplace / "runs/job")
    shutil.copytree(ROOT / "docs/examples/rules", workplace / "my-rules")
    return workplace


@pytest.fixture
def job(workplace: Path, made_run: Path) -> Path:
    """`runs/job`, a copy of the run."""
    shutil.copytree(made_run, workplace / "runs/job")
    return workplace / "runs/job"
