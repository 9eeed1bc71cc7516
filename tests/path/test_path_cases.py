"""Hand-made jobs through the whole road: the path covers every moment, and each cause has the time that it must have.

Among them are the steps on which a path that follows recorded operators alone loses most of the time: a device-bound step with
the host running ahead, one exposed all-reduce, a blocking copy, a data wait with 19 ms of device work.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

from tests.accuracy.compare import PATH_TOLERANCE_SHARE, compare_paths, import_job, worst
from tests.simulate import simulate
from tests.simulate.classics import CLASSICS
from traceengine.names import load_names
from traceengine.path.critical import RankPath, rank_path


def path_of_classic(name: str, folder: Path) -> RankPath:
    run = import_job(simulate(CLASSICS[name]), folder)
    return rank_path(run, 0, load_names())


@pytest.mark.parametrize("name", CLASSICS)
def test_causes_have_their_true_time_and_owners_are_right(name: str, tmp_path: Path) -> None:
    for row in compare_paths(CLASSICS[name], tmp_path):
        assert worst(row.path_errors()) <= PATH_TOLERANCE_SHARE, row.path_errors()
        assert row.owner_right, (row.found.owner, row.owners)


@pytest.mark.parametrize(
    ("name", "cause", "milliseconds"),
    [
        ("queued_ahead", "compute", 260.0),
        ("exposed_all_reduce", "exposed_comm", 70.0),
        ("exposed_all_reduce_no_events", "exposed_comm", 70.0),
        ("pageable_copy", "h2d", 60.0),
        ("data_wait", "data_wait", 79.0),
        ("data_wait", "compute", 19.0),
    ],
)
def test_every_moment_of_every_step_is_covered(name: str, cause: str, milliseconds: float, tmp_path: Path) -> None:
    path = path_of_classic(name, tmp_path)
    rows = path.path_rows
    assert pc.sum(rows.column("dur_ns")).as_py() == path.steps.window.end - path.steps.window.start
    assert "unknown" not in rows.column("cause").to_pylist()
    for step in path.steps.steps:
        inside = rows.filter(pc.equal(rows.column("step"), step.number))
        assert pc.sum(inside.column("dur_ns")).as_py() == step.end - step.start
    spent = pc.sum(rows.filter(pc.equal(rows.column("cause"), cause)).column("dur_ns")).as_py()
    assert spent / len(path.steps.steps) / 1e6 == pytest.approx(milliseconds, rel=0.01)


def test_a_host_far_ahead_of_its_device_is_not_on_the_path(tmp_path: Path) -> None:
    path = path_of_classic("queued_ahead", tmp_path)
    first = path.steps.steps[0]
    assert first.host_end - first.host_start < (first.end - first.start) / 10
    rows = path.path_rows
    on_device = pc.starts_with(rows.column("resource"), "device:")
    assert pc.sum(rows.filter(on_device).column("dur_ns")).as_py() > 0.99 * pc.sum(rows.column("dur_ns")).as_py()


def test_a_full_queue_leads_the_path_to_the_device(tmp_path: Path) -> None:
    rows = path_of_classic("queue_full", tmp_path).path_rows
    held = pc.and_(pc.equal(rows.column("detail"), "sync_return"), pc.equal(rows.column("cause"), "compute"))
    assert not pc.any(held).as_py()
    host = rows.filter(pc.starts_with(rows.column("resource"), "host:"))
    assert (pc.sum(host.column("dur_ns")).as_py() or 0) < 0.02 * pc.sum(rows.column("dur_ns")).as_py()
