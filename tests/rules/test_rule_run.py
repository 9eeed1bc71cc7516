"""Findings: hit, clear and unknown, per rank and step; and the experiments that follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import build_run

from traceengine.errors import RuleError, UsageError
from traceengine.rules import fill, load_rules, matching_experiments, run_rules
from traceengine.schema import table
from traceengine.sql import open_sandbox

PATH = """
    rank | ts_ns | dur_ns | cause
    0    | 0     | 60     | data_wait
    0    | 60    | 40     | compute
    1    | 0     | 100    | compute
"""
STEPS = """
    rank | step | ts_ns | dur_ns
    0    | 0    | 0     | 100
    1    | 0    | 0     | 100
"""


def findings(folder: Path, tmp_path: Path, overrides: dict[str, dict[str, float]] | None = None, **tables: str) -> list[dict[str, Any]]:
    run = build_run(tmp_path / "run", **tables)
    with open_sandbox(run) as connection:
        result = run_rules(connection, load_rules([folder]), overrides)
    assert result.schema == table("finding").arrow
    return [row | {"evidence": json.loads(row["evidence"])} for row in result.to_pylist()]


def test_hit_and_clear_per_rank(folder: Path, tmp_path: Path) -> None:
    hit, clear = findings(folder, tmp_path, critical_path=PATH, step=STEPS)
    assert hit == {
        "rank": 0,
        "rule": "loader",
        "bottleneck": "data_wait",
        "step": None,
        "status": "hit",
        "cost_ns": 60,
        "reason": "waits on the path",
        "evidence": {"waits": 1, "loader": "single"},
    }
    assert (clear["rank"], clear["status"], clear["cost_ns"]) == (1, "clear", 0)


def test_an_override_moves_the_threshold(folder: Path, tmp_path: Path) -> None:
    rows = findings(folder, tmp_path, {"loader": {"min_share": 0.61}}, critical_path=PATH, step=STEPS)
    assert [row["status"] for row in rows] == ["clear", "clear"]


def test_near_miss_at_the_threshold(folder: Path, tmp_path: Path) -> None:
    rows = findings(folder, tmp_path, {"loader": {"min_share": 0.6}}, critical_path=PATH, step=STEPS)
    assert rows[0]["status"] == "hit"


def test_an_override_must_fit(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no parameter 'max'"):
        findings(folder, tmp_path, {"loader": {"max": 1.0}}, critical_path=PATH, step=STEPS)


def test_an_empty_needed_table_is_unknown_for_that_rank_only(folder: Path, tmp_path: Path) -> None:
    rows = findings(folder, tmp_path, critical_path=PATH, step="rank | step | ts_ns | dur_ns\n1 | 0 | 0 | 100")
    assert [(row["rank"], row["status"], row["cost_ns"], row["reason"]) for row in rows] == [
        (0, "unknown", None, "no rows of step in this capture"),
        (1, "clear", 0, "waits on the path"),
    ]
    assert rows[0]["evidence"] == {"waits": None, "loader": None}


def test_a_rank_without_an_answer_is_unknown(folder: Path, tmp_path: Path) -> None:
    path = folder / "loader.sql"
    path.write_text(path.read_text().replace("from critical_path", "from critical_path where rank = 0"))
    rows = findings(folder, tmp_path, critical_path=PATH, step=STEPS)
    assert [(row["rank"], row["status"]) for row in rows] == [(0, "hit"), (1, "unknown")]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("'clear' end", "'fine' end", "status is 'fine'"),
        ("'waits on the path' as reason", "null::varchar as reason", "a row has no reason"),
        ("0)::bigint as cost_ns", "0)::bigint - 1000 as cost_ns", "cost_ns is -940"),
        ("'clear' end", "'unknown' end", "an unknown answer has a cost"),
        ("  rank,\n", "  null::bigint as rank,\n", "a row has no rank"),
        ("'single' as loader", "any_value(detail)::bigint::varchar as loader", "the query fails"),
    ],
)
def test_an_answer_that_breaks_the_contract_is_an_error(folder: Path, tmp_path: Path, old: str, new: str, message: str) -> None:
    path = folder / "loader.sql"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(RuleError) as caught:
        findings(folder, tmp_path, critical_path=PATH, step=STEPS)
    assert message in str(caught.value)
    assert "loader.sql" in str(caught.value)


def test_not_a_number_is_unknown_evidence(folder: Path, tmp_path: Path) -> None:
    path = folder / "loader.sql"
    text = path.read_text().replace('"varchar"', '"double"').replace("'single' as loader", "'nan'::double as loader")
    path.write_text(text.replace("loader = 'single' and", "loader > 0 and").replace("loader = 'workers'", "loader > 0"))
    assert findings(folder, tmp_path, critical_path=PATH, step=STEPS)[0]["evidence"]["loader"] is None


def test_experiments_follow_from_evidence(folder: Path) -> None:
    rule = load_rules([folder]).rule("loader")
    single, workers = rule.experiments
    assert matching_experiments(rule, {"waits": 2, "loader": "single"}) == [single]
    assert matching_experiments(rule, {"waits": 1, "loader": "single"}) == []
    assert matching_experiments(rule, {"waits": 1, "loader": "workers"}) == [workers]
    assert matching_experiments(rule, {"waits": None, "loader": "single"}) == []
    assert matching_experiments(rule, {"waits": 9, "loader": "'; drop table x; --"}) == []


def test_texts_are_filled_with_values_and_units(folder: Path) -> None:
    rule = load_rules([folder]).rule("loader")
    filled = fill(rule, rule.experiments[0], {"waits": 3, "cost_ns": 60}, lambda value, unit: f"<{value} {unit}>")
    assert filled.hypothesis == "Workers hide <3 > waits of <60 ns>."
    assert filled.change == "num_workers = 4"
    unknown = fill(rule, rule.experiments[0], {"waits": None}, lambda value, unit: "unknown" if value is None else str(value))
    assert unknown.hypothesis == "Workers hide unknown waits of unknown."
