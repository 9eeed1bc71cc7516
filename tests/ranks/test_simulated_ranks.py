"""Jobs with a late rank, clocks that are off and captures that lack edges: who is late, why, and how long the others waited."""

from __future__ import annotations

import pytest

from tests.ranks.simulated import Job, run_job, straggler_spec, true_saving, true_waits
from tests.simulate import Cause

SEEDS = (3, 4, 8, 13, 51)
"""Each takes three seconds; docs/decisions/ranks.md has what 106 of them gave."""


@pytest.fixture(scope="module", params=[(seed, drop) for seed in SEEDS[:3] for drop in (False, True)] + [(seed, True) for seed in SEEDS[3:]])
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Job:
    seed, drop = request.param
    return run_job(straggler_spec(seed), tmp_path_factory.mktemp(f"job{seed}"), drop=drop)


def test_clocks_waits_and_the_late_rank(job: Job) -> None:
    spec = job.execution.spec
    assert spec.straggler is not None
    with job.analysis.connect() as connection:
        clocks = connection.execute("select rank, offset_ns from clock order by rank").fetchall()
        ends = connection.execute("select max(aligned_ts_ns + dur_ns) - min(aligned_ts_ns + dur_ns) from collective_part group by collective_id")
        assert max(apart for (apart,) in ends.fetchall()) <= 20_000
        assert all(offset is not None for _, offset in clocks)
        waits = dict(connection.execute("select rank, sum(wait_ns)::bigint from collective_part group by rank").fetchall())
        negative = connection.execute("select count(*) from collective_part where wait_ns < 0 or transfer_ns < 0").fetchone()
        partition = connection.execute(
            "select sum(dur_ns)::bigint, max(ts_ns + dur_ns) - min(ts_ns) from critical_path group by rank"
        ).fetchall()
        shares = connection.execute(
            "select sum(exclusive_ns)::bigint, sum(path_ns)::bigint from step_cause group by rank, step"
        ).fetchall()
    assert negative == (0,)
    assert all(total == span for total, span in partition)
    assert all(exclusive == path for exclusive, path in shares)
    truth = {rank: true_waits(job, rank) for rank in range(spec.ranks)}
    for rank, wanted in truth.items():
        assert waits.get(rank, 0) == pytest.approx(wanted, rel=0.02, abs=60_000 * spec.steps)
    late = job.analysis.answer.job
    assert late is not None
    if true_saving(job) > 0.05 * job.execution.makespan_ns:
        assert late.late is not None
        assert (late.late.rank, late.late.cause) == (spec.straggler.rank, spec.straggler.kind.value)
        assert job.analysis.answer.leading_rank == spec.straggler.rank


def test_the_saving_is_an_upper_bound(job: Job) -> None:
    if any(job.missing.values()):
        pytest.skip("what was not captured cannot be saved")
    late = job.analysis.answer.job
    assert late is not None and late.late is not None
    assert late.late.share >= job.execution.truth.savings_ns[Cause.STRAGGLER] / job.execution.makespan_ns - 0.03
