"""Traces through the public road, each once per session: `traceengine analyze ... --format json`, then SQL over the run.

The command runs in two worker processes while the tests read what is ready; all of them share one cache folder.
"""

from __future__ import annotations

import io
import json
import os
import warnings
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache, lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
from helpers import SHARED

from traceengine.cli import run as command
from traceengine.cli import session
from traceengine.importers import ImportRequest, import_traces
from traceengine.run import Run
from traceengine.sql import open_sandbox, query

ROOT = Path(__file__).parents[2]
TRACES, CASES, STORED = SHARED / "traces", SHARED / "cases", ROOT / "fixtures/traces"
PROCESSES = 2


@dataclass(frozen=True)
class Trace:
    """Files that are analysed together; `text` asks for the terminal's form, too."""

    paths: tuple[Path, ...]
    text: bool = False

    def __str__(self) -> str:
        """Folder and name, as a test's id."""
        first = self.paths[0]
        return f"{first.parent.name}/{first.name}{'+' if len(self.paths) > 1 else ''}"


@dataclass(frozen=True)
class Answered:
    """What the command did, and the run that it left in the cache."""

    exit_code: int
    out: str
    err: str
    text: str
    folder: Path

    @property
    def document(self) -> dict[str, Any]:
        """The JSON answer; fails when there is none."""
        assert self.exit_code == 0, self.err
        document: dict[str, Any] = json.loads(self.out)
        return document

    @property
    def verdict(self) -> dict[str, Any]:
        """Its verdict."""
        verdict: dict[str, Any] = self.document["verdict"]
        return verdict

    def ask(self, sql: str) -> list[dict[str, Any]]:
        """Rows of one SELECT over tables and views."""
        rows: list[dict[str, Any]] = query(_connection(self.folder), sql).to_pylist()
        return rows

    def row(self, sql: str) -> dict[str, Any]:
        """The only row of one SELECT."""
        (found,) = self.ask(sql)
        return found


@lru_cache(maxsize=64)
def _connection(folder: Path) -> duckdb.DuckDBPyConnection:
    """The views take a tenth of a second to make, and several tests ask about one run."""
    return open_sandbox(Run.open(folder))


def invoke(arguments: Iterable[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command line."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = command(list(arguments))
    return code, out.getvalue(), err.getvalue()


def _prepare(cache_folder: str) -> None:
    os.environ["TRACEENGINE_CACHE"] = cache_folder
    os.environ.pop("TRACEENGINE_RULES", None)
    warnings.simplefilter("error")
    # Checking the rule files takes as long as a small trace; they are the same for every call here.
    session.rule_set = cache(session.rule_set)


def _answer(trace: Trace) -> Answered:
    names = [str(path) for path in trace.paths]
    code, out, err = invoke(["analyze", *names, "--format", "json"])
    text = invoke(["analyze", *names])[1] if trace.text else ""
    folder = import_traces(ImportRequest(trace.paths)).path if code == 0 else Path()
    return Answered(code, out, err, text, folder)


class Answers:
    """Answers by trace, computed ahead in the order in which they were announced."""

    def __init__(self, cache_folder: Path, announced: Iterable[Trace]) -> None:
        self._pool = ProcessPoolExecutor(PROCESSES, get_context("spawn"), _prepare, (str(cache_folder),))
        self._pending: dict[Trace, Future[Answered]] = {}
        for trace in announced:
            self._submit(trace)

    def _submit(self, trace: Trace) -> Future[Answered]:
        if trace not in self._pending:
            self._pending[trace] = self._pool.submit(_answer, trace)
        return self._pending[trace]

    def __call__(self, trace: Trace) -> Answered:
        """The answer for a trace; what the command raised is raised here."""
        return self._submit(trace).result()

    def close(self) -> None:
        """Stop the workers."""
        self._pool.shutdown(cancel_futures=True)


def partition_faults(answered: Answered) -> list[str]:
    """Why the path is no exact partition of the window, in words; empty when it is one. Plain integers, segment by segment."""
    document, run = answered.document, Run.open(answered.folder)
    window, faults, spent = document["window"], [], 0
    at = window["ts_ns"]
    for segment in sorted(run.read("critical_path", document["rank"]).to_pylist(), key=lambda segment: segment["ts_ns"]):
        if segment["ts_ns"] != at:
            faults.append(f"segment {segment['seq']} starts at {segment['ts_ns']}, not at {at}")
        if segment["dur_ns"] <= 0 or not 0 <= segment["hidden_ns"] <= segment["dur_ns"]:
            faults.append(f"segment {segment['seq']} has {segment}")
        at = segment["ts_ns"] + segment["dur_ns"]
        spent += segment["dur_ns"]
    if spent != window["dur_ns"] or at != window["ts_ns"] + window["dur_ns"]:
        faults.append(f"the segments sum to {spent} and end at {at}, the window is {window}")
    causes = run.read("step_cause", document["rank"]).to_pylist()
    for step in run.read("step", document["rank"]).to_pylist():
        for name in ("path_ns", "exclusive_ns"):
            total = sum(cause[name] for cause in causes if cause["step"] == step["step"])
            if step["complete"] and total != step["dur_ns"]:
                faults.append(f"{name} of step {step['step']} sums to {total}, the step took {step['dur_ns']}")
    return faults


def share_faults(value: object, name: str = "") -> list[str]:
    """Every share in the document that is no share."""
    if isinstance(value, dict):
        return [fault for key, inner in value.items() for fault in share_faults(inner, f"{name}.{key}")]
    if isinstance(value, list):
        return [fault for inner in value for fault in share_faults(inner, f"{name}[]")]
    is_share = name.endswith(("_share", ".share")) and isinstance(value, int | float)
    return [f"{name} is {value}"] if is_share and not -1e-12 <= float(value) <= 1 + 1e-12 else []  # type: ignore[arg-type]


def exposed(answered: Answered) -> dict[str, float]:
    """Share of the steady steps by cause."""
    return {cause["cause"]: cause["exclusive_share"] for cause in answered.document["causes"]}


def knob(answered: Answered) -> str | None:
    """Class of the experiment that is advised, or None."""
    experiment = answered.document["experiment"]
    return experiment["cause"] if experiment else None
