"""`experiment new`: a record that fits its schema, and whose figures are the rows that its queries return."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from traceengine.cli import run
from traceengine.experiment import CONTRACT, json_schema
from traceengine.run import Run

TRACES = Path(__file__).parents[2] / "fixtures/traces"
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`slow` is a run with an experiment, `healthy` one without; `slow.json` is the record."""
    folder = tmp_path_factory.mktemp("experiment")
    assert run(["import", str(TRACES / "loader.baseline.bare.json.gz"), "-o", str(folder / "slow")]) == 0
    assert run(["import", str(TRACES / "matmul.baseline.bare.json.gz"), "-o", str(folder / "healthy")]) == 0
    assert run(["experiment", "new", str(folder / "slow"), "-o", str(folder / "slow.json")]) == 0
    return folder


@pytest.fixture
def record(place: Path) -> dict[str, Any]:
    """The record, to change at will."""
    document: dict[str, Any] = json.loads((place / "slow.json").read_text(encoding="utf-8"))
    return document


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    assert tuple(json_schema()["properties"]["contract"]["properties"]) == CONTRACT


def test_the_record_fits_the_schema(record: dict[str, Any]) -> None:
    VALIDATOR.validate(record)


def test_what_the_trace_cannot_say_is_unknown(record: dict[str, Any]) -> None:
    unknown = {"state": "unknown", "value": None, "source": None}
    assert all(fact == unknown for fact in record["contract"].values())
    assert all(fact == unknown for fact in record["budget"].values())
    assert record["change"]["settings"] == unknown
    assert record["decision"] == {"state": "planned", "outcome": None, "reason": None}
    checks = [*record["invariants"], *record["guards"], *record["plan"]]
    assert {check["state"] for check in checks} == {"planned"}
    assert [check["name"] for check in record["guards"]] == ["sample_coverage", "input_equivalence", "host_memory"]


def test_it_says_the_same_as_analyze(place: Path, record: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["analyze", str(place / "slow"), "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert record["hypothesis"]["bound"]["saving_ns"] == answer["experiment"]["saving_bound_ns"]
    assert record["change"]["statement"] == answer["experiment"]["change"]
    assert record["change"]["kind"] == answer["experiment"]["kind"]
    assert record["bottleneck"]["share"] == answer["causes"][0]["exclusive_share"]
    assert record["bottleneck"]["run"]["key"] == Run.open(place / "slow").manifest.key


def test_its_queries_return_the_rows(place: Path, record: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for query in record["bottleneck"]["queries"]:
        params = [text for name, value in query["params"].items() for text in ("--param", f"{name}={value}")]
        capsys.readouterr()
        assert run(["sql", str(place / "slow"), query["sql"], *params, "--format", "json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    segments, steps, findings = found
    bottleneck = record["bottleneck"]
    assert [row["step"] for row in steps] == bottleneck["steps"]
    assert sum(row["exclusive_ns"] for row in steps) // len(steps) == bottleneck["exposed_ns"]
    assert sum(row["dur_ns"] for row in segments) == sum(row["path_ns"] for row in steps)
    assert [row["status"] for row in findings] == ["hit"]


def test_several_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank, name in enumerate(("matmul", "loader")):
        (tmp_path / f"rank{rank}.json.gz").write_bytes((TRACES / f"{name}.baseline.bare.json.gz").read_bytes())
    assert run(["import", *map(str, sorted(tmp_path.glob("rank*.json.gz"))), "-o", str(tmp_path / "job")]) == 0
    capsys.readouterr()
    assert run(["experiment", "new", str(tmp_path / "job"), "--rank", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    VALIDATOR.validate(document)
    assert document["bottleneck"]["rank"] == 1
    assert run(["experiment", "new", str(tmp_path / "job"), "--rank", "0"]) == 2
    assert "rank 0 has no experiment worth its guards" in capsys.readouterr().err
    assert run(["experiment", "new", str(tmp_path / "job"), "--rank", "7"]) == 2
    assert "the run holds no rank 7. It holds: 0, 1." in capsys.readouterr().err


def test_a_healthy_run_has_none(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiment", "new", str(place / "healthy"), "-o", str(place / "none.json")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("traceengine: error: rank 0 has no experiment worth its guards: compute owns the step")
    assert error.count("\n") == 1
    assert not (place / "none.json").exists()


def test_a_record_is_not_overwritten(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = place / "kept.json"
    target.write_text("mine", encoding="utf-8")
    assert run(["experiment", "new", str(place / "slow"), "-o", str(target)]) == 2
    assert target.read_text(encoding="utf-8") == "mine"
    assert "pass --force" in capsys.readouterr().err
    assert run(["experiment", "new", str(place / "slow"), "-o", str(target), "--force"]) == 0
    assert json.loads(target.read_text(encoding="utf-8"))["schema_version"] == 1
    assert [path.name for path in place.iterdir() if path.name.startswith(".kept")] == []


def _passed(record: dict[str, Any]) -> None:
    record["guards"][0] |= {"state": "passed"}


def _without_hash(record: dict[str, Any]) -> None:
    record["guards"][0] |= {"state": "passed", "command": "make guard", "exit_status": 0}


def _failing_command(record: dict[str, Any]) -> None:
    record["guards"][0] |= {"state": "passed", "command": "make guard", "exit_status": 1, "artifact_sha256": "0" * 64}


def _silent(record: dict[str, Any]) -> None:
    record["guards"][0] |= {"state": "unavailable"}


def _unknown_with_value(record: dict[str, Any]) -> None:
    record["contract"]["ranks"]["value"] = 8


def _declared_without_source(record: dict[str, Any]) -> None:
    record["contract"]["ranks"] |= {"state": "declared", "value": 8}


def _measured_bound(record: dict[str, Any]) -> None:
    record["hypothesis"]["bound"]["state"] = "measured"


def _decided_without_reason(record: dict[str, Any]) -> None:
    record["decision"] |= {"state": "executed", "outcome": "keep"}


def _no_contract(record: dict[str, Any]) -> None:
    del record["contract"]["dataset"]


@pytest.mark.parametrize(
    "spoil",
    [
        _passed,
        _without_hash,
        _failing_command,
        _silent,
        _unknown_with_value,
        _declared_without_source,
        _measured_bound,
        _decided_without_reason,
        _no_contract,
    ],
)
def test_the_schema_refuses(record: dict[str, Any], spoil: Callable[[dict[str, Any]], None]) -> None:
    before = copy.deepcopy(record)
    spoil(record)
    assert record != before
    assert not VALIDATOR.is_valid(record)


def test_the_schema_accepts_evidence(record: dict[str, Any]) -> None:
    record["guards"][0] |= {"state": "passed", "command": "make guard", "exit_status": 0, "artifact": "guard.json", "artifact_sha256": "0" * 64}
    record["guards"][1] |= {"state": "unavailable", "note": "needs the data set"}
    record["contract"]["global_batch"] = {"state": "declared", "value": 256, "source": "config of the job"}
    record["decision"] = {"state": "executed", "outcome": "inconclusive", "reason": "the spread is larger than the effect"}
    VALIDATOR.validate(record)


def test_values_for_sql(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "select $a as a, $b as b, $c as c"
    capsys.readouterr()
    assert run(["sql", str(place / "slow"), sql, "--param", "a=1", "--param", "b=0.5", "--param", "c=x=y", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"a": 1, "b": 0.5, "c": "x=y"}]
    assert run(["sql", str(place / "slow"), sql, "--param", "a"]) == 2
    assert "is not NAME=VALUE" in capsys.readouterr().err
