"""docs/answer.md names every key of the JSON answer, and none that does not exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.helpers import build_run
from traceengine.analysis import combine, ensure_analysis
from traceengine.report.json import document

ROOT = Path(__file__).resolve().parent.parent
OPAQUE = {"evidence"}
"""Objects whose keys depend on the rule."""


def _keys(value: object, prefix: str = "") -> set[str]:
    if isinstance(value, dict):
        found = set()
        for key, inner in value.items():
            name = f"{prefix}.{key}" if prefix else key
            found |= {name} if key in OPAQUE or not isinstance(inner, dict | list) or not inner else _keys(inner, name)
        return found
    if isinstance(value, list):
        inner_keys = [_keys(item, f"{prefix}[]") for item in value]
        return set().union(*inner_keys)
    return {prefix}


def _documented() -> set[str]:
    rows = re.findall(r"^\| (`.*?`) \| (.*?) \|$", (ROOT / "docs" / "answer.md").read_text(encoding="utf-8"), re.M)
    names: set[str] = set()
    for cell, text in rows:
        paths = re.findall(r"`([^`]+)`", cell)
        names.update(paths)
        for path in paths:
            if path.endswith("[]"):
                names.update(f"{path}.{inner}" for inner in re.findall(r"`([a-z_]+)(?:\[\])?`", text))
    return names


def _prompt_rank(first: int) -> str:
    """Rank 1 computes and then waits in each step's collective for rank 0, whose loader makes it late."""
    rows = []
    for step, (start, end) in enumerate(((0, 95), (100, 195), (200, 295), (300, 695))):
        length = 100 if step < 3 else 400
        event = first + 3 * step
        rows.append(f"{event} | | {start}000000 | {length}000000 | 0 | annotation | step | ProfilerStep#{step} | 1 | 1")
        rows.append(f"{event + 1} | {event} | {start + 1}000000 | 19000000 | 1 | op | | aten::mm | 1 | 1")
        rows.append(f"{event + 2} | | {start + 20}000000 | {end - start - 20}000000 | 0 | annotation | comm_range | gloo:all_reduce | 1 | 9")
    return "\n".join(rows)


@pytest.fixture
def answer(tmp_path: Path) -> dict[str, object]:
    run = build_run(
        tmp_path / "run",
        source="path | rank\nt.json | 0\nu.json | 1",
        thread="pid | tid | role | rank\n1 | 1 | main | 0\n1 | 9 | comm | 0\n1 | 1 | main | 1\n1 | 9 | comm | 1",
        host_event="""
            event_id | parent_id | ts_ns | dur_ns | depth | kind | class | name | rank | tid
            0 | | 0 | 100000000 | 0 | annotation | step | ProfilerStep#0 | 0 | 1
            1 | 0 | 1000 | 70000000 | 1 | annotation | data_wait | enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ | 0 | 1
            2 | 0 | 71000000 | 20000000 | 1 | op | | aten::mm | 0 | 1
            3 | | 100000000 | 100000000 | 0 | annotation | step | ProfilerStep#1 | 0 | 1
            4 | 3 | 100001000 | 70000000 | 1 | annotation | data_wait | enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ | 0 | 1
            5 | 3 | 171000000 | 20000000 | 1 | op | | aten::mm | 0 | 1
            6 | | 200000000 | 100000000 | 0 | annotation | step | ProfilerStep#2 | 0 | 1
            7 | 6 | 200001000 | 70000000 | 1 | annotation | data_wait | enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ | 0 | 1
            8 | 6 | 271000000 | 20000000 | 1 | op | | aten::mm | 0 | 1
            9 | | 300000000 | 400000000 | 0 | annotation | step | ProfilerStep#3 | 0 | 1
            10 | 9 | 300001000 | 370000000 | 1 | annotation | data_wait | enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ | 0 | 1
            11 | 9 | 671000000 | 20000000 | 1 | op | | aten::mm | 0 | 1
            12 | | 93000000 | 2000000 | 0 | annotation | comm_range | gloo:all_reduce | 0 | 9
            13 | | 193000000 | 2000000 | 0 | annotation | comm_range | gloo:all_reduce | 0 | 9
            14 | | 293000000 | 2000000 | 0 | annotation | comm_range | gloo:all_reduce | 0 | 9
            15 | | 693000000 | 2000000 | 0 | annotation | comm_range | gloo:all_reduce | 0 | 9
        """
        + _prompt_rank(20),
        import_issue="source_id | code | example\n0 | odd | here",
    )
    return document(combine(ensure_analysis(run), ["data_wait"]))


def test_every_key_is_documented(answer: dict[str, object]) -> None:
    keys = {re.sub(r"\[\]$", "", key) for key in _keys(answer)}
    documented = {re.sub(r"\[\]$", "", name) for name in _documented()}
    assert not {key for key in keys if key not in documented and not key.startswith("ranks[]")}


def test_documented_keys_exist(answer: dict[str, object]) -> None:
    text = json.dumps(answer)
    for name in _documented():
        assert f'"{re.split(r"[.]", name)[-1].removesuffix("[]")}"' in text, name


def test_answer_of_the_example(answer: dict[str, object]) -> None:
    verdict = answer["verdict"]
    assert isinstance(verdict, dict)
    assert verdict["owner"] == "data_wait"
    assert verdict["bound"] == "replay"
    steps = answer["steps"]
    assert isinstance(steps, dict)
    assert steps["slowest"][0]["step"] == 3
