"""The traces in fixtures/traces: owners that their labels accept, the recorded answers, the names that scripts rely on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from acceptance_runs import STORED, Answered, Trace, exposed, knob, partition_faults, share_faults

from fixtures.golden import EXPECTED, summary_of

LOOPS: dict[str, Any] = json.loads((STORED / "labels.json").read_text())["loops"]
RECORDED: dict[str, Any] = json.loads(EXPECTED.read_text())
SCREEN_LINES, SCREEN_COLUMNS = 45, 110
NUMBER, TEXT, LIST = (int, float), (str,), (list,)
UNKNOWN = type(None)
NAMES: dict[str, tuple[type, ...]] = {
    "schema_version": (int,),
    "verdict.owner": TEXT,
    "verdict.confidence": TEXT,
    "verdict.runner_up": (str, UNKNOWN),
    "verdict.share": (float, UNKNOWN),
    "verdict.saving_bound_ns": (int, UNKNOWN),
    "verdict.sentence": TEXT,
    "verdict.unknown": LIST,
    "verdict.not_advised": LIST,
    "window.ts_ns": (int,),
    "window.dur_ns": (int,),
    "steps.count": (int,),
    "steps.complete": (int,),
    "steps.origin": TEXT,
    "steps.median_ns": (int, UNKNOWN),
    "steps.p95_ns": (int, UNKNOWN),
    "steps.mean_ns": (int, UNKNOWN),
    "causes": LIST,
    "experiment": (dict, UNKNOWN),
    "import_issues": LIST,
}
CAUSE_NAMES = {"cause": TEXT, "path_ns": (int,), "path_share": NUMBER, "saving_ns": (int, UNKNOWN)}
_SHOWN_BY_ONE_RANK = "data_wait h2d exposed_comm compile logging checkpoint host_bound compute memory sync d2h host_other profiler"
CLASSES = frozenset([*_SHOWN_BY_ONE_RANK.split(), "straggler", "p2p", "pipeline_bubble", "healthy", "unknown"])
KINDS = ("correctness repair", "system optimization", "training change")


def _stored() -> list[Trace]:
    return [Trace((path,), text=True) for path in sorted(STORED.glob("*.json.gz"))]


def _at(document: Any, path: str) -> Any:
    for part in path.split("."):
        document = document[part]
    return document


def test_every_stored_trace_is_labelled_and_recorded() -> None:
    names = {trace.paths[0].name for trace in _stored()}
    assert names == set(RECORDED)
    assert names == {entry["file"] for loop in LOOPS.values() for variant in loop["traces"].values() for entry in variant.values()}


@pytest.mark.parametrize("trace", _stored(), ids=str)
def test_owner_is_accepted(answered: Answered, trace: Trace) -> None:
    loop, variant, config = trace.paths[0].name.removesuffix(".json.gz").split(".")
    assert answered.verdict["owner"] in LOOPS[loop]["owner_in"][variant][config], exposed(answered)
    if LOOPS[loop]["cause"] == "none":
        assert knob(answered) is None


@pytest.mark.parametrize("trace", _stored(), ids=str)
def test_the_answer_is_the_recorded_one(answered: Answered, trace: Trace) -> None:
    assert summary_of(answered.document) == RECORDED[trace.paths[0].name], "if the change is meant: make golden, and review the diff"


@pytest.mark.parametrize("trace", _stored(), ids=str)
def test_the_path_fills_the_window_exactly(answered: Answered) -> None:
    assert partition_faults(answered) == []
    assert share_faults(answered.document) == []


@pytest.mark.parametrize("trace", _stored(), ids=str)
def test_the_names_that_scripts_rely_on(answered: Answered) -> None:
    document = answered.document
    for path, types in NAMES.items():
        assert type(_at(document, path)) in types, path
    for cause in document["causes"]:
        assert cause["cause"] in CLASSES
        for name, types in CAUSE_NAMES.items():
            assert isinstance(cause[name], types), name
    assert document["verdict"]["owner"] in CLASSES
    assert document["verdict"]["confidence"] in ("high", "medium", "low")
    assert "\n" not in document["verdict"]["sentence"]
    experiment = document["experiment"]
    if experiment:
        assert experiment["kind"] in KINDS
        for part in ("hypothesis", "change", "stop", "guards", "invariants", "measure", "evidence"):
            assert experiment[part], part
        assert "{" not in experiment["hypothesis"] + experiment["change"], "every placeholder is filled"
        assert not re.search(r"\b\d+(\.\d+)?\s*(x|×)(?!\w)", experiment["hypothesis"] + experiment["change"]), "no promised multiplier"


@pytest.mark.parametrize("trace", _stored(), ids=str)
def test_the_text_fits_one_screen_and_answers_in_its_first_line(answered: Answered) -> None:
    lines = answered.text.rstrip("\n").split("\n")
    assert len(lines) <= SCREEN_LINES
    assert max(map(len, lines)) <= SCREEN_COLUMNS
    sentence = answered.verdict["sentence"]
    assert " ".join(lines[: lines.index("")]) == sentence
    assert sentence.startswith(answered.verdict["owner"])
    assert "\x1b" not in answered.text, "no colour when not a terminal"


@pytest.mark.parametrize("trace", [Trace((STORED / "recompile.baseline.bare.json.gz",), text=True)], ids=str)
def test_each_recompilation_is_counted_once(answered: Answered) -> None:
    """A new length on every third of nine steps: forward and backward compile three times, and take the compile time together."""
    evidence = answered.document["experiment"]["evidence"]
    assert evidence["compilations"] == 6
    (cause,) = [cause for cause in answered.document["causes"] if cause["cause"] == "compile"]
    assert evidence["compilations"] * evidence["compile_ns"] == pytest.approx(cause["path_ns"], rel=0.02)
