"""The path, the owner and the replayed savings of simulated jobs against their exact truth (`make accuracy` runs many more)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

import pyarrow.compute as pc
import pytest

from tests.accuracy.compare import (
    PATH_TOLERANCE_SHARE,
    SAVING_TOLERANCE_SHARE,
    Comparison,
    compare_paths,
    compare_verdicts,
    import_job,
    lowest,
    right_owners,
    worst,
)
from tests.simulate import Cause, Truth, simulate
from tests.simulate.jobs import KINDS, random_spec
from traceengine.names import load_names
from traceengine.path.critical import rank_path

JOBS = range(len(KINDS) + 4)
"""Each kind of job, the first four twice."""
WITH_VERDICT = (0, 5, 12)
"""Jobs whose causes occur in every step: the verdict looks at steady steps, the truth at the whole window."""
CLOCK_DRIFT_SHARE = 2.5e-5
"""Simulated clocks drift by up to 20 ppm, so a window is as much longer or shorter."""


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Comparison]:
    """All ranks of all jobs, worked out in two processes."""
    folders = [tmp_path_factory.mktemp(f"job{seed}") for seed in JOBS]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        return list(chain.from_iterable(pool.map(compared_job, JOBS, folders)))


def compared_job(seed: int, folder: Path) -> list[Comparison]:
    """All ranks of one job."""
    return list(compare_paths(random_spec(seed), folder))


def named(rows: Sequence[Comparison]) -> list[str]:
    """Which ranks of which jobs, with what was found and what is true."""
    return [f"{row.job} rank {row.rank}: {row.found.owner}, right {sorted(row.owners)}, path {row.path_errors()}" for row in rows]


def test_windows_are_as_long_as_the_jobs(compared: Sequence[Comparison]) -> None:
    assert not named([row for row in compared if abs(row.window_error) > CLOCK_DRIFT_SHARE])


def test_owners_are_right(compared: Sequence[Comparison]) -> None:
    assert not named([row for row in compared if not row.owner_right])


def test_path_time_of_each_cause_is_right(compared: Sequence[Comparison]) -> None:
    assert not named([row for row in compared if worst(row.path_errors()) > PATH_TOLERANCE_SHARE])


def test_replays_reproduce_the_recording(compared: Sequence[Comparison]) -> None:
    assert not named([row for row in compared if not row.found.saving_ns])


def test_a_replayed_saving_is_an_upper_bound(compared: Sequence[Comparison]) -> None:
    assert not named([row for row in compared if lowest(row.saving_errors()) < -SAVING_TOLERANCE_SHARE])


def test_replayed_savings_are_exact_in_nearly_all_jobs(compared: Sequence[Comparison]) -> None:
    """Loader workers deliver when they are done, however fast the loop gets: the trace does not show how fast they could."""
    off = [row for row in compared if worst(row.saving_errors()) > SAVING_TOLERANCE_SHARE]
    assert len(off) <= 0.05 * len(compared), named(off)
    assert {row.kind for row in off} <= {"data_wait", "mixed"}


@pytest.mark.parametrize("seed", WITH_VERDICT)
def test_the_verdict_names_a_right_owner(seed: int, tmp_path: Path) -> None:
    assert not named([row for row in compare_verdicts(random_spec(seed), tmp_path) if not row.owner_right])


@pytest.mark.parametrize("seed", [3, 19])
def test_segments_fill_the_window_and_causes_sum_to_it(seed: int, tmp_path: Path) -> None:
    run = import_job(simulate(random_spec(seed)), tmp_path)
    for rank in run.manifest.ranks:
        path = rank_path(run, rank, load_names())
        window = path.steps.window
        bounds = {step.number: (step.start, step.end) for step in path.steps.steps}
        at = window.start
        for row in path.path_rows.to_pylist():
            assert row["ts_ns"] == at and row["dur_ns"] > 0 and 0 <= row["hidden_ns"] <= row["dur_ns"]
            at += row["dur_ns"]
            low, high = bounds[row["step"]]
            assert low <= row["ts_ns"] and at <= high
        assert at == window.end
        for column in ("path_ns", "exclusive_ns"):
            assert pc.sum(path.cause_rows.column(column)).as_py() == window.end - window.start
            assert pc.min(path.cause_rows.column(column)).as_py() >= 0


def truth(**savings: int) -> Truth:
    return Truth(1_000, {Cause(cause): ns for cause, ns in savings.items()}, {Cause.COMPUTE: 1_000})


@pytest.mark.parametrize(
    ("true", "owners"),
    [
        (truth(data_wait=400, h2d=100), {"data_wait"}),
        (truth(data_wait=400, h2d=385), {"data_wait", "h2d"}),
        (truth(data_wait=155), {"data_wait", "compute"}),
        (truth(data_wait=135), {"data_wait", "compute"}),
        (truth(data_wait=120), {"compute"}),
        (truth(compute=900), {"compute"}),
    ],
)
def test_right_owners(true: Truth, owners: set[str]) -> None:
    assert right_owners(true, least_share=0.15) == owners
