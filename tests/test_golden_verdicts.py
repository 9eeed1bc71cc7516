"""The answers for the stored traces are those that were recorded and reviewed, and name an owner that the labels allow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fixtures.golden import EXPECTED, TRACES, answer_of, stored_traces, summary

RECORDED: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
LOOPS: dict[str, Any] = json.loads((TRACES / "labels.json").read_text(encoding="utf-8"))["loops"]


def test_every_stored_trace_has_an_expected_answer() -> None:
    assert sorted(RECORDED) == [path.name for path in stored_traces()]


@pytest.mark.parametrize("path", stored_traces(), ids=lambda path: path.name)
def test_answer_is_the_recorded_one(path: Path) -> None:
    assert summary(answer_of(path)) == RECORDED[path.name], "if the change is meant: make golden, and review the diff"


@pytest.mark.parametrize("name", RECORDED)
def test_the_recorded_owner_is_one_that_the_labels_allow(name: str) -> None:
    loop, variant, config = name.removesuffix(".json.gz").split(".")
    verdict = RECORDED[name]
    assert verdict["owner"] in LOOPS[loop]["owner_in"][variant][config]
