"""A tiny trace and the run made from it, for the commands."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

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


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with `trace.json.gz`; the cache is beside it."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "trace.json.gz").write_bytes(gzip.compress(json.dumps(TRACE).encode()))
    monkeypatch.chdir(place)
    monkeypatch.setenv("TRACEENGINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TRACEENGINE_RULES", raising=False)
    return place
