"""Trace quality: when each check of queries/quality speaks, and how a faulty check is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import build_run

from traceengine.errors import RuleError
from traceengine.quality import SOURCE_KINDS, load_checks, rank_notes
from traceengine.run import Run
from traceengine.sql import open_sandbox

CODES = [check.code for check in load_checks()]

WORK = "ts_ns | dur_ns | kind\n0 | 10 | op\n20 | 5 | python"
KERNEL = "ts_ns | dur_ns | launch_id\n5 | 10 | 0"
TWO = "ts_ns | dur_ns\n0 | 1\n1 | 1"
STEPS = "ts_ns | dur_ns | launches | launches_without_device_event\n"
GOOD = {"host_event": WORK, "device_event": KERNEL, "step": STEPS + "\n".join(f"{at} | 10 | 10 | 0" for at in (0, 10, 20))}


def _steps(*steps: tuple[int, int]) -> str:
    return STEPS + "\n".join(f"{10 * at} | 10 | {launches} | {missing}" for at, (launches, missing) in enumerate(steps))


CASES: dict[str, tuple[dict[str, str], set[str], set[str]]] = {
    # name: tables that differ from a good capture; codes that are expected; those of them that lower (+) or block (!)
    "nothing is missing": ({}, set(), set()),
    "markers alone": ({"host_event": "kind\nmarker", "device_event": "ts_ns"}, {"no_events"}, {"!no_events"}),
    "a loop without a device": ({"device_event": "ts_ns", "step": _steps(*[(0, 0)] * 3)}, {"no_device_events"}, set()),
    "device rows are lost": ({"device_event": "ts_ns"}, {"no_device_events"}, {"!no_device_events"}),
    "no host": ({"host_event": "ts_ns"}, {"no_host_events"}, {"+no_host_events"}),
    "calls alone": ({"host_event": "kind\nruntime\npython"}, {"no_operators"}, {"+no_operators"}),
    "no stacks": ({"host_event": "kind\nop"}, {"no_stacks"}, set()),
    "cut": ({"source": "kind | truncated\ntorch | true"}, {"truncated"}, {"+truncated"}),
    "a step without device rows": (
        {"step": _steps((10, 10), (10, 0), (10, 0)), "device_event": TWO},
        {"steps_without_device_events"},
        {"+steps_without_device_events"},
    ),
    "most steps without": (
        {"step": _steps((10, 10), (10, 10), (10, 0)), "device_event": TWO},
        {"steps_without_device_events"},
        {"!steps_without_device_events"},
    ),
    "half of the steps is not most": (
        {"step": _steps((10, 10), (10, 10), (10, 0), (10, 0)), "device_event": TWO},
        {"steps_without_device_events"},
        {"+steps_without_device_events"},
    ),
    "a twentieth of the launches is lost": ({"step": _steps((20, 1), (20, 1), (20, 1))}, set(), set()),
    "more of them": (
        {"step": _steps((20, 2), (20, 1), (20, 1)), "device_event": TWO},
        {"launches_without_device_events"},
        {"+launches_without_device_events"},
    ),
    "one operation is left": (
        {"step": _steps((20, 2), (20, 1), (20, 1))},
        {"launches_without_device_events", "one_operation_dominates"},
        {"+launches_without_device_events", "+one_operation_dominates"},
    ),
    "no steps": ({"step": "ts_ns"}, {"no_steps"}, {"+no_steps"}),
    "two steps": ({"step": _steps((9, 0), (9, 0))}, {"few_steps"}, set()),
    "one rank of many": ({"source": "kind | world_size\ntorch | 8"}, {"one_rank"}, set()),
    "one rank that communicates": ({"device_event": "ts_ns | dur_ns | class\n0 | 1 | comm\n1 | 1 | gemm"}, {"one_rank"}, set()),
    "two of eight": ({"source": "rank | kind | world_size\n0 | torch | 8\n1 | torch | 8"}, {"missing_ranks"}, set()),
    "two of two": ({"source": "rank | kind | world_size\n0 | torch | 2\n1 | torch | 2"}, set(), set()),
}


def _run(folder: Path, tables: dict[str, str]) -> Run:
    return build_run(folder, **(GOOD | tables))


@pytest.mark.parametrize("name", CASES)
def test_when_a_check_speaks(tmp_path: Path, name: str) -> None:
    tables, codes, weight = CASES[name]
    with open_sandbox(_run(tmp_path / "run", tables)) as connection:
        notes = rank_notes(connection, 0)
    assert {note.code for note in notes} == codes
    assert {("!" if note.blocks else "+") + note.code for note in notes if note.blocks or note.lowers} == weight
    assert [note.blocks for note in notes] == sorted((note.blocks for note in notes), reverse=True)


def test_every_check_speaks_in_a_case() -> None:
    assert {code for _, codes, _ in CASES.values() for code in codes} == set(CODES)


@pytest.mark.parametrize("kind", [*SOURCE_KINDS, "else"])
def test_the_fix_is_that_of_the_source(tmp_path: Path, kind: str) -> None:
    with open_sandbox(_run(tmp_path / "run", {"source": f"kind\n{kind}", "step": "ts_ns"})) as connection:
        (note,) = rank_notes(connection, 0)
    check = next(check for check in load_checks() if check.code == "no_steps")
    assert note.fix == check.fix.get(kind, check.fix["torch"])


def test_a_rank_that_is_not_in_the_run_is_unknown(tmp_path: Path) -> None:
    with open_sandbox(_run(tmp_path / "run", {})) as connection:
        (note,) = rank_notes(connection, 7)
    assert (note.code, note.blocks) == ("no_source", True)


CHECK = """\
-- /// check
-- order = 1
-- why = "Why."
-- effect = "lowers the confidence"
--
-- [fix]
-- torch = "t"
-- nsys = "n"
--
-- [params.few]
-- default = 3
-- doc = "Reason."
-- ///
select rank, 'few' as sentence, true as lowers, false as blocks from rank_fact where steps < $few
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("/// check", "/// rule", ":1: does not begin with the header line `-- /// check`"),
        ("order = 1", 'order = "1"', ":2: 'order' of the header must be a whole number"),
        ('-- why = "Why."\n', "", ":1: the header has no 'why'"),
        ("effect =", "effects =", ":4: unknown key 'effects' in the header"),
        ('-- nsys = "n"\n', "", "[fix] has no 'nsys'"),
        ("-- nsys =", "-- nsight =", ":8: unknown key 'nsight' in [fix]"),
        ("$few", "$some", ":14: uses $some, which is not declared"),
        ("$few", "3", "param 'few' is declared and not used"),
        ("rank_fact", "step", "the query fails: no table or view is called 'step'"),
        ("'few' as sentence", "1 as sentence", "returns rank int64, sentence int32"),
    ],
)
def test_a_faulty_check_is_named_with_file_and_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "few.sql"
    path.write_text(CHECK)
    assert [check.code for check in load_checks(tmp_path)] == ["few"]
    load_checks.cache_clear()
    assert old in CHECK
    path.write_text(CHECK.replace(old, new, 1))
    with pytest.raises(RuleError) as caught:
        load_checks(tmp_path)
    assert str(caught.value).startswith(f"{path}:")
    assert message in str(caught.value)
