"""The bakeoff reads labels as they stand, and marks every tool by the same measure."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
README = """
| file (torch/) | what it is | visible label: owner must be in | must not |
| --- | --- | --- | --- |
| big.json.gz | a model | compute | host_bound |
| pair_a/b.json.gz | a pair | data_wait first, or second to host_bound | compute |
| one.json.gz / other.json.gz | copies | one: h2d; other: h2d or d2h | compute |
| bare, traced | device only | compute or unknown | host_bound |
| old(.._after).json.gz | old | no label: look | crash |
| torch_ranks/eight/ | ranks | job: exposed_comm/straggler with rank 1 late (host_bound there) | "slow" |
"""


@pytest.fixture(scope="module")
def bakeoff() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("bakeoff", ROOT / "benchmarks/bakeoff.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["bakeoff"] = module
    spec.loader.exec_module(module)
    return module


def test_labels(bakeoff: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(README, encoding="utf-8")
    assert bakeoff.readme_owners(tmp_path / "README.md") == {
        "big": {"compute", "healthy"},
        "pair_a": {"data_wait", "host_bound"},
        "pair_b": {"data_wait", "host_bound"},
        "one": {"h2d", "d2h"},
        "other": {"h2d", "d2h"},
        "bare": {"compute", "unknown", "healthy"},
        "traced": {"compute", "unknown", "healthy"},
        "eight": {"exposed_comm", "straggler", "host_bound"},
    }


@pytest.mark.parametrize(
    ("owners", "accepted", "word"),
    [
        ({"data_wait"}, {"data_wait", "h2d"}, "right"),
        ({"compute"}, {"data_wait"}, "wrong"),
        ({"data_wait", "host_bound"}, {"host_bound"}, "right"),
        (set(), {"host_bound"}, "none"),
        ({"unknown"}, {"host_bound"}, "none"),
        ({"unknown"}, {"unknown", "compute"}, "right"),
    ],
)
def test_marks(bakeoff: ModuleType, owners: set[str], accepted: set[str], word: str) -> None:
    assert bakeoff.mark(bakeoff.Answer(frozenset(owners), ""), frozenset(accepted)) == word


def test_words_mean_classes(bakeoff: ModuleType) -> None:
    known = bakeoff.class_ids() | {"healthy"}
    for tool in (*bakeoff.TORCH_PEERS, *bakeoff.NSYS_PEERS):
        assert tool.meaning
        assert all(owners <= known for owners in tool.meaning.values())


def test_a_peer_that_fails_gives_no_answer(bakeoff: ModuleType, tmp_path: Path) -> None:
    def ask(*_: object) -> None:
        bakeoff.run([sys.executable, "-c", "raise SystemExit('broken pipe dream')"])

    tool = bakeoff.Tool("peer", "", ask)
    job = bakeoff.Job("job", (tmp_path / "t.json",), frozenset({"compute"}))
    answer = bakeoff.answer_of(bakeoff.Installed(tool, tmp_path, "1"), job)
    assert bakeoff.mark(answer, job.accepted) == "none"
    assert "broken pipe dream" in answer.words
    assert bakeoff.answer_of(bakeoff.Installed(tool, tmp_path, "", "could not be installed"), job).words == "could not be installed"
