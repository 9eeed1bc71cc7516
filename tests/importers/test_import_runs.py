"""Whole or not at all: caching, several ranks, processes, and being killed."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest

from tests.importers.import_helpers import document, issue_codes, kernel, rows, span
from traceengine.errors import InputError, RunError, UsageError
from traceengine.importers import ImportRequest, api, import_traces
from traceengine.run import Run, RunWriter


def trace(rank: int | None, world_size: int = 4, **keys: object) -> bytes:
    """A small trace of one rank."""
    info = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": world_size}}
    events = [span("cudaLaunchKernel", 10, 2, "cuda_runtime", args={"correlation": 3}), kernel(f"k{rank}", 20, 5, 3)]
    return document(events, **info, **keys)


class Listener:
    """Adds up what it is told."""

    def __init__(self) -> None:
        self.total = self.read = self.finished = 0

    def start(self, name: str, total_bytes: int) -> None:
        self.total += total_bytes

    def advance(self, bytes_read: int) -> None:
        assert bytes_read >= 0
        self.read += bytes_read

    def finish(self) -> None:
        self.finished += 1


def test_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEENGINE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "a.json"
    path.write_bytes(trace(0))
    first = import_traces(ImportRequest((path,)))
    with mock.patch.object(api, "_run_tasks", side_effect=AssertionError("imported again")):
        again = import_traces(ImportRequest((path,)))
    assert first.path == again.path
    assert first.path.parent == tmp_path / "cache"
    assert import_traces(ImportRequest((path,), rank=5)).path != first.path
    path.write_bytes(trace(1))
    assert import_traces(ImportRequest((path,))).path != first.path
    assert all(not entry.name.startswith(".") for entry in (tmp_path / "cache").iterdir())


def test_existing_run_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(trace(0))
    import_traces(ImportRequest((path,), out=tmp_path / "run"))
    with pytest.raises(UsageError):
        import_traces(ImportRequest((path,), out=tmp_path / "run"))
    path.write_bytes(b"<html>")
    with pytest.raises(InputError):
        import_traces(ImportRequest((path,), out=tmp_path / "run", replace=True))
    assert Run.open(tmp_path / "run").read("device_event").num_rows == 1


@pytest.mark.parametrize("parallel", [False, True])
def test_ranks(tmp_path: Path, parallel: bool) -> None:
    contents = {
        "x.json": trace(2, baseTimeNanoseconds=1_000_000),
        "y.json.gz": gzip.compress(trace(0, baseTimeNanoseconds=4_000_000)),
        "rank_3.json": trace(None),
        "z.json": trace(2),
        "unknown.json": trace(None, traceName="another"),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    listener = Listener()
    with mock.patch.object(api, "_PARALLEL_BYTES", 0 if parallel else 1 << 40):
        run = import_traces(ImportRequest((tmp_path,), out=tmp_path / "run", jobs=2), listener)
    places = {row["path"]: (row["rank"], row["rank_origin"]) for row in rows(run, "source")}
    assert places["x.json"] == (2, "metadata")
    assert places["y.json.gz"] == (0, "metadata")
    assert places["rank_3.json"] == (3, "file_name")
    assert {places["z.json"], places["unknown.json"]} == {(1, "assigned"), (4, "assigned")}
    assert run.manifest.ranks == (0, 1, 2, 3, 4)
    codes = issue_codes(run)
    assert codes["double_rank"] == codes["unknown_rank"] == 1
    assert "missing_ranks" not in codes
    starts = {row["rank"]: row["ts_ns"] for row in rows(run, "device_event")}
    assert starts[0] - starts[2] == 3_000_000
    assert run.manifest.origin_unix_ns == 1_000_000 + 10_000
    assert listener.read == listener.total
    for rank in run.manifest.ranks:
        device = run.read("device_event", rank).to_pylist()
        assert [row["launch_id"] for row in device] == [0]


@pytest.mark.parametrize("parallel", [False, True])
def test_one_bad_file_fails_all(tmp_path: Path, parallel: bool) -> None:
    (tmp_path / "a.json").write_bytes(trace(0))
    (tmp_path / "b.json").write_bytes(b'{"traceEvents": [{"ph": "X" "x"}]}')
    with mock.patch.object(api, "_PARALLEL_BYTES", 0 if parallel else 1 << 40), pytest.raises(InputError, match=r"b\.json"):
        import_traces(ImportRequest((tmp_path,), out=tmp_path / "run", jobs=2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]


def test_missing_ranks(tmp_path: Path) -> None:
    for rank in (0, 3):
        (tmp_path / f"{rank}.json").write_bytes(trace(rank))
    run = import_traces(ImportRequest((tmp_path,), out=tmp_path / "run"))
    issue = next(row for row in rows(run, "import_issue") if row["code"] == "missing_ranks")
    assert (issue["count"], issue["example"], issue["severity"]) == (2, "1, 2", "warning")


def test_told_rank(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(trace(0))
    run = import_traces(ImportRequest((tmp_path / "a.json",), out=tmp_path / "run", rank=6))
    assert (rows(run, "source")[0]["rank"], rows(run, "source")[0]["rank_origin"]) == (6, "assigned")
    (tmp_path / "b.json").write_bytes(trace(1))
    with pytest.raises(UsageError):
        import_traces(ImportRequest((tmp_path,), out=tmp_path / "run2", rank=6))


IMPORT = (
    "import sys; from pathlib import Path; from traceengine.importers import *\n"
    "import_traces(ImportRequest((Path(sys.argv[1]),), out=Path(sys.argv[2]), replace=True))"
)


def hidden(folder: Path) -> list[str]:
    """What a killed import left."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


@pytest.mark.parametrize("files", [1, 2], ids=["one file", "two processes"])
def test_killed_at_any_moment(tmp_path: Path, files: int) -> None:
    source, targets = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for rank in range(files):
        events = [span(f"op{place}", 10 * place, 5, args={"n": place + rank, "x": "y" * 400}) for place in range(20_000)]
        (source / f"rank{rank}.json").write_bytes(document(events))
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", IMPORT, str(source), str(targets / "whole")], check=True)
    duration = time.monotonic() - started
    chance = random.Random(files)
    for attempt in range(6):
        target = targets / f"run-{attempt}"
        process = subprocess.Popen([sys.executable, "-c", IMPORT, str(source), str(target)], stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.2, 1.0) * duration)
        process.send_signal(signal.SIGKILL)
        process.wait()
        try:
            run = Run.open(target)
        except RunError:
            time.sleep(0.2 * (files > 1))  # its worker processes notice
            run = import_traces(ImportRequest((source,), out=target))
            assert hidden(targets) == []
        assert run.read("host_event").num_rows == 20_000 * files
        for row in rows(run, "source"):
            assert json.loads(row["metadata"])["event_counts"] == {"X|cpu_op": 20_000}


@pytest.mark.parametrize("move", [0, 1, 2])
def test_killed_while_the_run_is_moved_in(tmp_path: Path, move: int) -> None:
    path, target = tmp_path / "trace.json", tmp_path / "run"
    path.write_bytes(trace(0))
    import_traces(ImportRequest((path,), out=target))
    path.write_bytes(trace(3))
    kill = (
        "import os, signal; from pathlib import Path; moves, move = [], Path.replace\n"
        "def replace(self, target):\n"
        f"    if len(moves) == {move}: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    moves.append(move(self, target))\n"
        f"    if len(moves) == {move} == 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "Path.replace = replace\n"
    )
    killed = subprocess.run([sys.executable, "-c", kill + IMPORT, str(path), str(target)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert hidden(tmp_path)
    if move == 1:
        assert not target.exists(), "the old run is set aside and the new one is not there yet"
    else:
        assert Run.open(target).manifest.ranks == ((0,) if move == 0 else (3,))
    with pytest.raises(UsageError):
        import_traces(ImportRequest((path,), out=target))
    assert Run.open(target).manifest.ranks == ((3,) if move == 2 else (0,)), "what was there is back"
    run = import_traces(ImportRequest((path,), out=target, replace=True))
    assert run.manifest.ranks == (3,)
    assert hidden(tmp_path) == []


def test_only_what_killed_imports_left_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("TRACEENGINE_CACHE", str(cache))
    path = tmp_path / "a.json"
    path.write_bytes(trace(0))
    with RunWriter(cache / "other") as writer:
        (cache / ".mine.partial-x").mkdir()
        left = cache / ".dead.partial-y"
        left.mkdir()
        (left / ".lock").touch()
        (cache / ".link.partial-z").symlink_to(tmp_path)
        import_traces(ImportRequest((path,)))
        assert hidden(cache) == sorted([".link.partial-z", ".mine.partial-x", writer.root.name])
    os.utime(cache / ".mine.partial-x", (0, 0))
    path.write_bytes(trace(1))
    import_traces(ImportRequest((path,)))
    assert hidden(cache) == [".link.partial-z"]
    assert path.exists()


def test_workers_leave_nothing_behind(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"{rank}.json").write_bytes(trace(rank))
    with mock.patch.object(api, "_PARALLEL_BYTES", 0):
        run = import_traces(ImportRequest((tmp_path,), out=tmp_path / "run", jobs=2))
    assert sorted(path.name for path in run.path.iterdir()) == ["manifest.json", "tables"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
