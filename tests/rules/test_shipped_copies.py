"""The shipped rules for copies: what they advise, and what they call a bound."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import build_run

from traceengine.resources import queries_dir
from traceengine.rules import load_rules, matching_experiments, run_rules
from traceengine.sql import open_sandbox

SIZE = 10_000_000
STEPS = "step | ts_ns | dur_ns\n" + "\n".join(f"{step} | {step * 1000} | 1000" for step in range(4))


def _answers(tmp_path: Path, cost: dict[str, int], memory: dict[str, str]) -> dict[str, tuple[dict[str, Any], list[str]]]:
    """Evidence and the advised changes per direction; `cost` is exposed time per step, `memory` the copies' host side."""
    path = ["step | ts_ns | dur_ns | cause"]
    exposed = ["step | cause | path_ns | exclusive_ns"]
    copies = ["ts_ns | dur_ns | kind | class | copy_kind | bytes | src_memory | dst_memory"]
    for step in range(4):
        at = step * 1000
        for cause, spent in cost.items():
            path.append(f"{step} | {at} | {spent} | {cause}")
            exposed.append(f"{step} | {cause} | {spent} | {spent}")
            at += spent
        for way, side in memory.items():
            sides = f"{side} | device" if way == "h2d" else f"device | {side}"
            copies.append(f"{step * 1000} | {max(cost.get(way, 1), 1)} | memcpy | {way} | {way} | {SIZE} | {sides}")
    run = build_run(
        tmp_path / "run", critical_path="\n".join(path), step_cause="\n".join(exposed), step=STEPS, device_event="\n".join(copies)
    )
    rules = load_rules([queries_dir() / "rules"])
    with open_sandbox(run) as connection:
        rows = run_rules(connection, rules).to_pylist()
    found = {}
    for row in rows:
        if row["rule"] in ("h2d", "d2h"):
            evidence = json.loads(row["evidence"]) | {"status": row["status"]}
            found[row["rule"]] = evidence, [entry.change for entry in matching_experiments(rules.rule(row["rule"]), evidence)]
    return found


def test_pinning_counts_every_pageable_direction(tmp_path: Path) -> None:
    answers = _answers(tmp_path, {"h2d": 480, "d2h": 520}, {"h2d": "pageable", "d2h": "pageable"})
    for way in ("h2d", "d2h"):
        evidence, changes = answers[way]
        assert (evidence["status"], evidence["bound_ns"], evidence["compute_ns"]) == ("hit", 1000, 0)
        assert "pin" in changes[0]


def test_pinned_copies_beside_compute_are_prefetched(tmp_path: Path) -> None:
    evidence, changes = _answers(tmp_path, {"h2d": 400, "compute": 600}, {"h2d": "pinned"})["h2d"]
    assert (evidence["bound_ns"], evidence["compute_ns"]) == (None, 600)
    assert evidence["not_advised"] == "pinning memory: the copies are pinned already"
    assert "side stream" in changes[0]


def test_pinned_copies_with_nothing_to_hide_behind_must_shrink(tmp_path: Path) -> None:
    _, changes = _answers(tmp_path, {"h2d": 980, "compute": 20}, {"h2d": "pinned"})["h2d"]
    assert "compact" in changes[0]


@pytest.mark.parametrize(("cost", "status"), [(49, "clear"), (50, "hit")])
def test_near_the_threshold(tmp_path: Path, cost: int, status: str) -> None:
    evidence, _ = _answers(tmp_path, {"h2d": cost, "compute": 1000 - cost}, {"h2d": "pageable"})["h2d"]
    assert evidence["status"] == status
    assert (evidence["not_advised"] is not None) == (status == "clear")


def test_one_direction_pinned_one_pageable(tmp_path: Path) -> None:
    answers = _answers(tmp_path, {"h2d": 300, "d2h": 300, "compute": 400}, {"h2d": "pinned", "d2h": "pageable"})
    assert (answers["h2d"][0]["bound_ns"], answers["d2h"][0]["bound_ns"]) == (None, 300)
