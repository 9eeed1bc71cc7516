"""Helpers of the importer's tests."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from traceengine.run import Run

ImportBytes = Callable[..., Run]


def shared_folder() -> Path:
    """Folder of the larger examples; tests that need it are skipped without."""
    told = os.environ.get("TRACEENGINE_SHARED")
    return Path(told) if told else Path(__file__).resolve().parents[2].parent / "shared"


def document(events: list[dict[str, Any]], **keys: Any) -> bytes:
    """Text of a trace with these events."""
    return json.dumps({"schemaVersion": 1, **keys, "traceEvents": events}).encode()


def span(name: str, ts: Any, dur: Any, category: str = "cpu_op", **fields: Any) -> dict[str, Any]:
    """A complete event of the main thread."""
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, **fields}


def kernel(name: str, ts: Any, dur: Any, correlation: int | None = None, **fields: Any) -> dict[str, Any]:
    """A kernel on device 0, stream 7."""
    args = {"device": 0, "stream": 7} | ({} if correlation is None else {"correlation": correlation})
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args, **fields}


def issue_codes(run: Run) -> dict[str, int]:
    """Issues of a run with their counts."""
    return {row["code"]: row["count"] for row in run.read("import_issue").to_pylist()}


def rows(run: Run, table: str) -> list[dict[str, Any]]:
    """Rows of a table, by identity where there is one."""
    found = run.read(table).to_pylist()
    return sorted(found, key=lambda row: row.get("event_id", 0))
