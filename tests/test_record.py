"""The recorded fixtures name no machine, agree with their labels, and can be made again."""

from __future__ import annotations

import functools
import getpass
import gzip
import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FIXTURES = Path(__file__).parent.parent / "fixtures"
TRACES = FIXTURES / "traces"
STORED = sorted(TRACES.glob("*.*.*.json.gz"))
LABELS: dict[str, Any] = json.loads((TRACES / "labels.json").read_text())
LOOPS: dict[str, Any] = LABELS["loops"]

OWNERS = {
    *("data_wait", "h2d", "exposed_comm", "straggler", "compile", "logging", "checkpoint"),
    *("host_bound", "compute", "memory", "sync", "host_other", "profiler", "healthy", "unknown"),
}
# Names that many machines share; they may well be words of a trace.
COMMON_NAMES = {"root", "runner", "python", "torch", "train", "user", "main", "localhost"}

each_trace = pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
each_loop = pytest.mark.parametrize("name", LOOPS)


@functools.cache
def text_of(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def steps_of(path: Path) -> list[dict[str, Any]]:
    events = json.loads(text_of(path))["traceEvents"]
    return [event for event in events if event["name"].startswith("ProfilerStep#")]


def private(text: str) -> list[str]:
    """What in a trace would point at the machine or the person that recorded it."""
    found = re.findall(r"/(?:home|root|tmp|work|usr|opt|var|Users)\b[^\"]*", text)
    found += re.findall(r"site-packages|dist-packages|torchinductor_\w+", text)
    for name in {socket.gethostname(), getpass.getuser()} - COMMON_NAMES:
        found += re.findall(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)
    return found


@each_trace
def test_a_stored_trace_names_no_machine(path: Path) -> None:
    assert private(text_of(path)) == []
    trace = json.loads(text_of(path))
    assert trace["host_name"] == "redacted"
    assert trace["traceName"] == "train.pt.trace.json"


@each_trace
def test_a_stored_trace_has_no_timestamp_in_its_gzip_header(path: Path) -> None:
    header = path.read_bytes()[:10]
    assert header[4:8] == b"\0\0\0\0"
    assert header[3] == 0


@each_trace
def test_a_stored_trace_has_at_least_three_steps(path: Path) -> None:
    assert len(steps_of(path)) >= 3


@each_trace
def test_a_stored_trace_is_small(path: Path) -> None:
    assert path.stat().st_size < 500_000


def test_labels_and_files_name_each_other() -> None:
    labelled = {trace["file"] for loop in LOOPS.values() for variant in loop["traces"].values() for trace in variant.values()}
    assert labelled == {path.name for path in STORED}
    assert sum(path.stat().st_size for path in STORED) < 3_000_000


@each_loop
def test_labels_describe_their_traces(name: str) -> None:
    loop = LOOPS[name]
    for variant, configs in loop["traces"].items():
        assert configs.keys() == loop["owner_in"][variant].keys()
        for config, trace in configs.items():
            assert trace["file"] == f"{name}.{variant}.{config}.json.gz"
            steps = steps_of(TRACES / trace["file"])
            assert trace["profiler_steps"] == len(steps)
            mean = sum(step["dur"] for step in steps) / len(steps) / 1e3
            assert trace["profiled_step_ms_mean"] == pytest.approx(mean, abs=0.001)
            assert ("with_stack" in json.loads(text_of(TRACES / trace["file"]))) == (config == "stack")


@each_loop
def test_labels_accept_known_owners_only(name: str) -> None:
    for configs in LOOPS[name]["owner_in"].values():
        for owners in configs.values():
            assert owners
            assert set(owners) <= OWNERS


@each_loop
def test_the_saving_follows_from_the_measured_times(name: str) -> None:
    loop = LOOPS[name]
    base, fixed = loop["step_ms"]["baseline"], loop["step_ms"]["fixed"]
    saved = loop["saving_by_removing_cause"]
    assert base["repeats"] == fixed["repeats"] == len(base["repeat_means"]) >= 3
    for figure in ("mean", "median"):
        expected = 100 * (1 - fixed[figure] / base[figure])
        assert saved[f"{figure}_pct"] == pytest.approx(expected, abs=0.06)
    low, high = saved["range_pct"]
    assert low <= saved["mean_pct"] <= high


@each_loop
def test_the_planted_cause_dominates_and_nothing_else_changed(name: str) -> None:
    loop = LOOPS[name]
    least = {"none": -100, "logging": 35}.get(loop["cause"], 40)
    assert loop["saving_by_removing_cause"]["mean_pct"] >= least
    losses = loop["last_loss"]
    assert losses["baseline"] > 0.01
    assert losses["fixed"] == pytest.approx(losses["baseline"], rel=1e-3)


def test_scrubbing_removes_what_names_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FIXTURES))
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu-box-7")
    monkeypatch.setattr(getpass, "getuser", lambda: "alice")
    from loops.scrub import Scrubber

    trace = Scrubber().trace(
        {
            "host_name": "gpu-box-7",
            "traceName": "/tmp/x/raw.json",
            "distributedInfo": {"hosts": ["gpu-box-7"], "rank": 0},
            "traceEvents": [
                {"name": "/home/alice/job/loops/loader.py(12): train"},
                {"name": "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py(1): f"},
                {"name": "compile_file", "args": {"path": "/tmp/torchinductor_alice/ab/cab.cpp"}},
                {"name": "thread 7 (alice on gpu-box-7)", "dur": 5216172835419.496},
                {"name": "aten::mm", "args": {"ratio": "a/b"}},
            ],
        }
    )

    assert trace["host_name"] == "redacted"
    assert trace["distributedInfo"] == {"hosts": "redacted", "rank": 0}
    assert [event["name"] for event in trace["traceEvents"]] == [
        "train.py(12): train",
        "torch/nn/modules/module.py(1): f",
        "compile_file",
        "thread 7 (redacted on redacted)",
        "aten::mm",
    ]
    assert trace["traceEvents"][2]["args"] == {"path": "cab.cpp"}
    assert trace["traceEvents"][3]["dur"] == 5216172835419.496
    assert trace["traceEvents"][4]["args"] == {"ratio": "a/b"}


def test_a_loop_records_again(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, str(FIXTURES / "record.py"), "--only", "tiny_ops"]
    command += ["--repeats", "1", "--steps", "3", "--out", str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    names = {f"tiny_ops.{v}.{c}.json.gz" for v in ("baseline", "fixed") for c in ("bare", "stack")}
    assert {path.name for path in tmp_path.iterdir()} == names | {"labels.json"}
    assert json.loads((tmp_path / "labels.json").read_text())["loops"].keys() == {"tiny_ops"}
    for path in tmp_path.glob("*.json.gz"):
        assert private(text_of(path)) == []
        assert len(steps_of(path)) == 8
