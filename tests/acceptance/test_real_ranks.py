"""Real and distilled jobs of several ranks: who is late, by how much, and what the clocks say."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import SHARED

from traceengine.analysis import Analysis, ensure_analysis
from traceengine.importers import ImportRequest, import_traces

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared material is not here")
NANOGPT = SHARED / "traces" / "torch_ranks" / "nanogpt_h100_8ranks"
LOOPS = SHARED / "traces" / "truth_cpu"


@pytest.fixture(scope="module")
def nanogpt(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return ensure_analysis(import_traces(ImportRequest((NANOGPT,), out=tmp_path_factory.mktemp("nanogpt") / "run")))


def _cases(folder: Path, *files: str) -> tuple[Path, ...]:
    return tuple(folder / file for file in files)


def test_rank_one_is_late_on_its_host_side(nanogpt: Analysis) -> None:
    job = nanogpt.answer.job
    assert job is not None and job.late is not None
    assert (job.late.rank, job.late.cause) == (1, "host_bound")
    assert nanogpt.answer.leading.rank == 1
    assert job.unaligned == () and job.unmatched == 0
    owners = {verdict.rank: verdict.owner for verdict in nanogpt.answer.ranks}
    assert owners.pop(1) == "host_bound"
    assert set(owners.values()) == {"straggler"}


def test_invariants_hold(nanogpt: Analysis) -> None:
    with nanogpt.connect() as connection:
        (offset, residual) = connection.execute("select max(abs(offset_ns)), max(residual_ns) from clock").fetchone() or (None, None)
        assert offset <= residual <= 20_000, "the ranks are of one machine"
        apart = connection.execute(
            "select quantile_cont(apart, 0.9) from (select max(aligned_ts_ns + dur_ns) - min(aligned_ts_ns + dur_ns) as apart"
            " from collective_part group by collective_id)"
        ).fetchone()
        assert apart is not None and apart[0] <= 6 * residual
        wrong = connection.execute(
            "select count(*) from collective_part where wait_ns < 0 or transfer_ns < 0 or wait_ns + transfer_ns <> dur_ns"
        ).fetchone()
        assert wrong == (0,)
        (bandwidth,) = connection.execute("select max(bus_bandwidth) from collective_cost where bytes > 1e8").fetchone() or (0,)
        assert 100e9 < bandwidth < 450e9, "bytes/s that eight H100 on NVLink can carry"


@pytest.mark.parametrize("config", ["bare", "stack"])
def test_the_late_loader_of_two_gloo_ranks(config: str, tmp_path: Path) -> None:
    files = _cases(LOOPS, f"f3.baseline.{config}.rank0.json.gz", f"f3.baseline.{config}.rank1.json.gz")
    answer = ensure_analysis(import_traces(ImportRequest(files, out=tmp_path / "run"))).answer
    assert answer.job is not None and answer.job.late is not None
    assert (answer.job.late.rank, answer.job.late.cause) == (1, "data_wait")
    assert answer.leading.owner == "data_wait"
    assert {verdict.rank: verdict.owner for verdict in answer.ranks}[0] == "straggler"
    if config == "bare":  # recording stacks makes the loader slower by half
        assert answer.job.late.late_ns == pytest.approx(52_600_000, rel=0.05)
    assert answer.job.late.share == pytest.approx(0.836, abs=0.08), "measured without the profiler"


@pytest.mark.parametrize("config", ["bare", "stack"])
def test_nobody_is_late_once_it_is_fixed(config: str, tmp_path: Path) -> None:
    files = _cases(LOOPS, f"f3.fixed.{config}.rank0.json.gz", f"f3.fixed.{config}.rank1.json.gz")
    job = ensure_analysis(import_traces(ImportRequest(files, out=tmp_path / "run"))).answer.job
    assert job is not None
    assert job.late is None or job.late.share < 0.05


def _case(name: str, folder: Path) -> Analysis:
    return ensure_analysis(import_traces(ImportRequest(tuple(sorted((SHARED / "cases" / name).glob("rank*.json"))), out=folder / "run")))


def test_waits_for_the_last_rank(tmp_path: Path) -> None:
    analysis = _case("B13", tmp_path)
    with analysis.connect() as connection:
        rows = connection.execute("select wait_ns, transfer_ns, last from collective_part order by rank").fetchall()
    assert rows == [(400_000, 100_000, False), (390_000, 100_000, False), (0, 100_000, True), (380_000, 100_000, False)]
    assert analysis.answer.leading_rank == 2


def test_equal_step_times_hide_no_late_rank(tmp_path: Path) -> None:
    analysis = _case("B14", tmp_path)
    with analysis.connect() as connection:
        assert connection.execute("select wait_ns from collective_part order by rank").fetchall() == [(200_000,), (0,), (200_000,), (200_000,)]
        late = connection.execute("select rank, cause, cause_ns from lateness").fetchall()
        assert connection.execute("select distinct dur_ns from step").fetchall() == [(600_000,)]
    assert late == [(1, "compute", 200_000)]


def test_groups_and_sequences_pair_collectives(tmp_path: Path) -> None:
    with _case("B15", tmp_path).connect() as connection:
        rows = connection.execute(
            "select count(*), max(aligned_ts_ns) - min(aligned_ts_ns), any_value(matched_by) from collective_part"
            " group by collective_id order by collective_id"
        ).fetchall()
    assert sorted(rows) == [(2, 0, "sequence"), (2, 30_000, "sequence")]
