"""Public captures: exit 0, an exact partition, and an owner that their README accepts."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from acceptance_runs import TRACES, Answered, Trace, exposed, knob, partition_faults, share_faults

from traceengine.run import Run

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason="shared traces are not here")
COMPUTE = frozenset({"compute", "healthy"})
COPIES = frozenset({"data_wait", "h2d", "d2h"})
ANY: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Label:
    """A row of the README's table: accepted owners (none listed: no label), owners that are wrong, knobs that are wrong."""

    owner_in: frozenset[str] = ANY
    must_not: frozenset[str] = ANY
    no_knob: frozenset[str] = ANY
    notes: frozenset[str] = ANY
    """Codes of which at least one must stand under `unknown`."""


def _label(owner_in: str, must_not: str = "", no_knob: frozenset[str] = ANY, notes: str = "") -> Label:
    return Label(frozenset(owner_in.split()), frozenset(must_not.split()), no_knob, frozenset(notes.split()))


LABELS = {
    "resnet_v100_ddp1.json.gz": _label("compute healthy", "host_bound", COPIES),
    "owlv2_h100.json.gz": _label("data_wait", "compute healthy", notes="few_steps"),
    "timesformer_h100.json.gz": _label("data_wait host_other host_bound", "compute healthy", notes="few_steps"),
    "bert_small_h100.json.gz": _label("host_bound", "compute healthy", notes="few_steps"),
    "qwen_h100.json.gz": _label("compute healthy", "host_bound", notes="few_steps"),
    "nccl_metadata.json.gz": _label("host_bound", "exposed_comm"),
    "resnet_ckpt_mi300_rank0of8.json.gz": _label("exposed_comm straggler", "compute healthy", notes="one_rank"),
    "eager_b200.json.gz": _label("host_bound", notes="no_steps"),
    "resnet50_workers0_a.json.gz": _label("data_wait host_bound", "compute healthy"),
    "resnet50_workers0_b.json.gz": _label("data_wait host_bound", "compute healthy"),
    "resnet50_workers4_a.json.gz": _label("host_bound compute healthy", "data_wait", frozenset({"data_wait"})),
    "resnet50_workers4_b.json.gz": _label("host_bound compute healthy", "data_wait", frozenset({"data_wait"})),
    "copies_pinned.json.gz": _label("h2d", "compute healthy"),
    "copies_pageable.json.gz": _label("h2d d2h", "compute healthy"),
    "cuda_graphs_compile.json.gz": _label("compute healthy", "host_bound"),
    "transformer_small_h100.json.gz": _label("host_bound", "compute healthy"),
    "nanogpt_rank0_current.json.gz": _label("compute healthy"),
    "nanogpt_rank0_hook.json.gz": _label("compute healthy"),
    "gpu_only_mi210.json.gz": _label("compute healthy unknown", "host_bound", notes="no_host_events no_operators"),
    "compile_triton.json.gz": _label("compute healthy unknown", "host_bound"),
}
UNLABELLED = (
    "dlrm_a100_rank3of8.json.gz",
    "dlrm_a100_rank3of8_after.json.gz",
    "pageable_d2h.json.gz",
    "sampled_rank0.json.gz",
    "sampled_rank1.json.gz",
    "kineto_before_fix.json",
    "kineto_after_fix.json",
)
HEALTHY = ("resnet_v100_ddp1.json.gz", "qwen_h100.json.gz", "cuda_graphs_compile.json.gz", "nanogpt_rank0_current.json.gz", "nanogpt_rank0_hook.json.gz")
MEASURED_SAVING_MS = {"resnet50_workers0_a.json.gz": 177.5 - 126.7, "resnet50_workers0_b.json.gz": 152.1 - 122.9}
PINNED_SAVING_MS = 36
UNIONS = ("span_ns", "busy_ns", "compute_ns", "comm_ns", "memcpy_ns", "exposed_comm_ns", "exposed_memcpy_ns")
TOLERANCE_NS = 100

SINGLE = [Trace((path,)) for path in sorted((TRACES / "torch").glob("*.json*"))]
RANKS = [Trace((path,)) for path in sorted(TRACES.glob("torch_ranks/*/*.json*"))]


def _torch(name: str) -> Trace:
    return Trace((TRACES / "torch" / name,))


def _labelled() -> list[Any]:
    return [pytest.param(_torch(name), label, id=name) for name, label in LABELS.items()]


def _independent() -> list[Any]:
    path = TRACES / "expected.json"
    groups = json.loads(path.read_text()) if path.is_file() else {"torch": {}, "torch_ranks": {}}
    found = [(TRACES / "torch" / name, entry) for name, entry in groups["torch"].items()]
    for folder, files in groups["torch_ranks"].items():
        found += [(TRACES / "torch_ranks" / folder / name, entry) for name, entry in files.items()]
    return [pytest.param(Trace((path,)), entry, id=f"{path.parent.name}/{path.name}") for path, entry in found]


def test_every_file_is_labelled_or_known_to_be_without() -> None:
    assert {trace.paths[0].name for trace in SINGLE} == set(LABELS) | set(UNLABELLED)
    assert len(RANKS) == 8


@pytest.mark.parametrize("trace", [*SINGLE, *RANKS], ids=str)
def test_it_is_answered_and_the_path_fills_the_window_exactly(answered: Answered) -> None:
    assert answered.exit_code == 0, answered.err
    assert partition_faults(answered) == []
    assert share_faults(answered.document) == []
    assert [line for line in answered.err.splitlines() if not line.startswith("traceengine: reading ")] == []


@pytest.mark.parametrize(("trace", "label"), _labelled())
def test_owner_is_accepted(answered: Answered, label: Label) -> None:
    verdict = answered.verdict
    assert verdict["owner"] in label.owner_in, exposed(answered)
    assert verdict["owner"] not in label.must_not
    assert knob(answered) not in label.no_knob
    if label.notes:
        assert label.notes & {note["code"] for note in verdict["unknown"]}


@pytest.mark.parametrize("trace", [_torch(name) for name in HEALTHY], ids=str)
def test_a_healthy_run_gets_no_knob(answered: Answered) -> None:
    assert answered.document["experiment"] is None
    assert answered.verdict["healthy"] is True


@pytest.mark.parametrize("trace", [_torch(name) for name in UNLABELLED], ids=str)
def test_without_a_label_it_says_what_limits_the_answer(answered: Answered) -> None:
    assert answered.verdict["unknown"]
    assert answered.verdict["confidence"] != "high" or any(note["code"] == "one_rank" for note in answered.verdict["unknown"])


@pytest.mark.parametrize("trace", RANKS, ids=str)
def test_one_rank_alone_names_its_own_side(answered: Answered, trace: Trace) -> None:
    late = trace.paths[0].name.startswith("rank1.")
    assert answered.verdict["owner"] in ({"host_bound"} if late else {"exposed_comm", "straggler"}), exposed(answered)
    assert "one_rank" in {note["code"] for note in answered.verdict["unknown"]}


@pytest.mark.parametrize("trace", [_torch(name) for name in MEASURED_SAVING_MS], ids=str)
def test_the_bound_of_the_data_wait_covers_what_was_measured(answered: Answered, trace: Trace) -> None:
    causes = {cause["cause"]: cause for cause in answered.document["causes"]}
    ranked = [cause["cause"] for cause in answered.document["causes"] if cause["cause"] != "compute"]
    assert ranked[0] == "data_wait" or ranked[:2] == ["host_bound", "data_wait"]
    assert causes["data_wait"]["saving_ns"] >= MEASURED_SAVING_MS[trace.paths[0].name] * 1e6


@pytest.mark.parametrize("trace", [_torch("owlv2_h100.json.gz")], ids=str)
def test_half_of_the_owlv2_step_waits_for_data(answered: Answered) -> None:
    assert exposed(answered)["data_wait"] == pytest.approx(0.51, abs=0.02)
    experiment = answered.document["experiment"]
    assert experiment["cause"] == "data_wait"
    assert "workers" in experiment["change"]


@pytest.mark.parametrize("trace", [_torch("timesformer_h100.json.gz")], ids=str)
def test_the_time_before_the_first_device_event_is_not_lost(answered: Answered) -> None:
    before = answered.row("select (select min(ts_ns) from device_event) - min(ts_ns) as idle_ns from critical_path")["idle_ns"]
    assert before == pytest.approx(217.5e6, rel=0.01)
    assert sum(value for cause, value in exposed(answered).items() if cause in ("data_wait", "host_other", "host_bound")) > 0.4
    assert not re.search(r"idle\D{0,10}1 %", answered.out)


@pytest.mark.parametrize("trace", [_torch("copies_pageable.json.gz")], ids=str)
def test_pageable_copies_get_pinning_with_a_bound_that_covers_the_measured_pair(answered: Answered) -> None:
    experiment = answered.document["experiment"]
    assert experiment["cause"] in ("h2d", "d2h")
    assert "pin" in experiment["change"]
    assert experiment["saving_bound_ns"] >= PINNED_SAVING_MS * 1e6


@pytest.mark.parametrize("trace", [_torch("copies_pinned.json.gz")], ids=str)
def test_pinned_copies_are_not_told_to_be_pinned(answered: Answered) -> None:
    experiment = answered.document["experiment"]
    assert experiment is None or "pin_memory" not in experiment["change"]
    assert any("pin" in entry["reason"] for entry in answered.verdict["not_advised"])


@pytest.mark.parametrize(("trace", "expected"), _independent())
def test_device_unions_equal_the_independent_figures(answered: Answered, expected: dict[str, Any]) -> None:
    found = {str(row["device"]): row for row in answered.ask("from device_time")}
    assert set(found) == set(expected["devices"])
    for device, figures in expected["devices"].items():
        assert {name: found[device][name] for name in UNIONS} == {
            name: pytest.approx(figures[name], abs=TOLERANCE_NS, rel=0) for name in UNIONS
        }


@pytest.mark.parametrize(("trace", "expected"), _independent())
def test_steps_are_those_of_the_profiler(answered: Answered, expected: dict[str, Any]) -> None:
    steps = answered.document["steps"]
    if not expected["steps"]:
        assert steps["origin"] != "profiler"
        return
    rows = Run.open(answered.folder).read("step", columns=["name", "host_dur_ns"]).to_pylist()
    recorded = {entry["name"]: entry["dur_ns"] for entry in expected["steps"]}
    assert {row["name"]: row["host_dur_ns"] for row in rows}.items() <= recorded.items()
    assert steps["origin"] == "profiler"
    assert steps["count"] == len(rows) <= len(recorded)
    assert steps["count"] >= len(recorded) - 1, "at most a phantom step of no length is left out"


@pytest.mark.parametrize(("trace", "expected"), _independent())
def test_the_window_ends_with_the_device_work_of_its_last_step(answered: Answered, expected: dict[str, Any]) -> None:
    """A window that stops early would make every share look good."""
    if not expected["steps"] or not expected["devices"]:
        return
    window = answered.document["window"]
    last = answered.row(
        """select max(launch.ts_ns + launch.busy_dur_ns) as end_ns, (select max(host_ts_ns + host_dur_ns) from step where complete) as host_ns
           from launch join step using (rank, step) where step.complete"""
    )
    assert window["ts_ns"] + window["dur_ns"] >= max(last["end_ns"] or 0, last["host_ns"] or 0)


