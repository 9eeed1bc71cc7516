"""The replay: it returns what was recorded, each change leaves what it should, and the next limit has a name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.accuracy.compare import SAVING_TOLERANCE_SHARE, import_job
from tests.accuracy.experiments import PLANNED, Tried, try_experiments
from tests.path.tiny import SMALL, Event, Op, Tiny
from tests.simulate import Checkpoint, Comm, Copy, JobSpec, Loader, Logging, Model, simulate
from tests.simulate.classics import CLASSICS
from tests.simulate.jobs import random_spec
from traceengine.errors import UsageError
from traceengine.names import load_names
from traceengine.path.changes import EXPERIMENTS, Effect, Scene, parse_change
from traceengine.path.context import build_context
from traceengine.path.critical import rank_replays
from traceengine.path.graph import build_graph
from traceengine.path.limit import path_time
from traceengine.path.parameters import PathParameters
from traceengine.path.replay import Replays, Runner, WhatIf, replay
from traceengine.path.steps import find_steps
from traceengine.path.timeline import load_timeline
from traceengine.run import Run

MS = 1_000_000
FAST = Model(layers=4, kernel_ns=200_000)


def scene_of(run: Run, rank: int = 0) -> Scene:
    timeline = load_timeline(run, rank)
    return Scene(build_context(timeline, load_names(), PathParameters()), find_steps(timeline, False))


def replays(spec: JobSpec, folder: Path, *texts: str) -> Replays:
    """Replays of rank 0, one for each text; parts joined by + are applied together."""
    run = import_job(simulate(spec), folder)
    return rank_replays(run, 0, load_names(), [tuple(parse_change(part) for part in text.split("+")) for text in texts])[1]


def saving(what_if: WhatIf) -> int:
    assert what_if.without is not None, what_if.reason
    return what_if.makespan - what_if.without


# -- as recorded -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 7, 16, 17, 18])
def test_with_nothing_changed_every_node_ends_as_recorded(seed: int, tmp_path: Path) -> None:
    scene = scene_of(import_job(simulate(random_spec(seed)), tmp_path))
    graph = build_graph(scene.context, scene.steps)
    values = np.array(Runner().run(graph)[1:]) + scene.steps.window.start
    ends = scene.context.timeline.device.end[graph.row[graph.is_operation]]
    assert (values[graph.is_operation] == ends).all() and len(ends) > 10
    marks = graph.step[~graph.is_operation]
    starts = np.array([step.host_start for step in scene.steps.steps[1:]])
    assert set(starts) <= set(values[~graph.is_operation][marks >= 0])


def test_a_new_node_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    scene = scene_of(import_job(simulate(CLASSICS["item_every_step"]), tmp_path))
    graph = build_graph(scene.context, scene.steps)
    grown, number, new = graph.insert(np.array([1, 5, 5, len(graph.pred)]), np.array([1, 2, 3, 4]))
    values = np.array(Runner().run(grown))
    assert (values[number] == np.array(Runner().run(graph))).all()
    assert new.tolist() == [1, 6, 7, len(grown.pred) - 1] and grown.dur[new - 1].tolist() == [1, 2, 3, 4]


# -- named experiments -------------------------------------------------------------------------------------------------

JOBS = (
    JobSpec("decoded_by_the_loop", steps=8, noise_share=0.05, model=FAST, loader=Loader(12 * MS)),
    JobSpec("pageable", steps=6, noise_share=0.05, model=FAST, copy=Copy(8 * MS, bytes_per_us=5_000)),
    JobSpec("logs", steps=7, noise_share=0.05, model=FAST, logging=Logging(5 * MS, 2)),
    JobSpec("late_collectives", steps=6, noise_share=0.05, model=FAST, comm=Comm(3 * MS, 2, overlap=False)),
    JobSpec("slow_host", steps=6, noise_share=0.05, model=replace(FAST, kernel_ns=8_000, op_ns=60_000)),
)
EFFECT = dict(zip((job.name for job in JOBS), (planned.text for planned in PLANNED[:1]), strict=False)) | {
    "pageable": "pinned=25", "logs": "log_every=3", "late_collectives": "buckets=4", "slow_host": "cuda_graph",
}  # fmt: skip


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> list[Tried]:
    return [row for job in JOBS for row in try_experiments(job, tmp_path_factory.mktemp(job.name))]


def test_a_named_experiment_saves_what_the_changed_job_saves(tried: list[Tried]) -> None:
    assert {row.experiment for row in tried} == {planned.text for planned in PLANNED}
    for row in tried:
        assert row.promised_ns is not None, row
        # The simulated graph leaves the optimizer out; the bound is for a graph of the whole step.
        most = 0.1 if row.experiment == "cuda_graph" else SAVING_TOLERANCE_SHARE
        assert -SAVING_TOLERANCE_SHARE <= row.error <= most, row


def test_the_experiment_made_for_a_job_saves_much_of_it(tried: list[Tried]) -> None:
    found = {(row.job, row.experiment): row for row in tried}
    for job, experiment in EFFECT.items():
        row = found[job, experiment]
        assert row.promised_ns is not None and row.promised_ns > 0.1 * row.makespan_ns, row


def not_told(spec: JobSpec, folder: Path) -> Iterator[tuple[str, str]]:
    for what_if in replays(spec, folder, *(experiment.default for experiment in EXPERIMENTS.values())).what_ifs:
        if what_if.without is None:
            assert what_if.bound == "not estimable" and what_if.limit is None and not what_if.step_without
            yield what_if.changes[0], what_if.reason


def test_what_the_trace_cannot_tell_is_not_estimable_with_a_reason(tmp_path: Path) -> None:
    told = dict(not_told(CLASSICS["one_graph"], tmp_path))
    assert told == {
        "pinned": "the trace holds no pageable copy of data",
        "workers=4": "the trace shows no loading of batches",
        "buckets": "the trace holds no collective on the device within a step",
        "cuda_graph": "the kernels already run in graphs",
        "log_every=10": "the trace shows no logging",
    }


def test_more_workers_save_at_most_all_waiting_for_them(tmp_path: Path) -> None:
    found = replays(CLASSICS["data_wait_workers"], tmp_path, "workers=8", "data_wait").what_ifs
    assert saving(found[0]) == saving(found[1]) > 0 and found[0].bound == "upper bound"


def test_the_rate_of_the_link_is_that_of_the_trace_or_as_told(tmp_path: Path) -> None:
    assumed, told, slow = replays(JOBS[1], tmp_path, "pinned", "pinned=25", "pinned=1").what_ifs
    assert saving(assumed) == saving(told) > saving(slow) and assumed.bound == "estimate"
    assert "PCIe" in assumed.reason and "as told" in told.reason


def test_a_window_shorter_than_the_cadence_says_so(tmp_path: Path) -> None:
    rare, gone = replays(JOBS[2], tmp_path, "log_every=100", "logging").what_ifs
    assert saving(rare) == saving(gone) and "fewer than 100 steps" in rare.reason


def test_changes_are_tried_alone_and_together(tmp_path: Path) -> None:
    spec = replace(JOBS[2], loader=Loader(4 * MS))
    logging, waiting, both = replays(spec, tmp_path, "log_every=3", "data_wait", "log_every=3+data_wait").what_ifs
    assert max(saving(logging), saving(waiting)) < saving(both) <= saving(logging) + saving(waiting)
    assert both.changes == ("log_every=3", "data_wait") and both.bound == "upper bound"


def test_together_with_one_that_is_not_estimable_nothing_is(tmp_path: Path) -> None:
    (both,) = replays(CLASSICS["data_wait"], tmp_path, "data_wait+buckets").what_ifs
    assert both.without is None and both.reason == "the trace holds no collective on the device within a step"


@pytest.mark.parametrize("text", ["", "nothing", "workers", "workers=", "workers=0", "workers=-1", "workers=two", "workers=²", "cuda_graph=2",
                                  "data_wait=3", "healthy", "unknown", "pinned=1e9", "log_every=99999999"])  # fmt: skip
def test_what_is_no_change_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_change(text)
    assert refused.value.hint


def test_changes_are_written_as_they_are_read() -> None:
    for text in ("data_wait", "pinned", "pinned=12", "workers=4", "buckets", "buckets=3", "cuda_graph", "log_every=10"):
        assert parse_change(f" {text} ").text == text
    assert parse_change("workers = 04").text == "workers=4"


# -- workers -----------------------------------------------------------------------------------------------------------


def test_a_faster_loop_does_not_make_workers_faster(tmp_path: Path) -> None:
    spec = JobSpec("starved", steps=10, noise_share=0.05, model=FAST, loader=Loader(20 * MS, workers=2))
    found = replays(spec, tmp_path, "host_bound", "data_wait")
    host, waiting = found.what_ifs
    assert found.drift == 0 and saving(waiting) > 0.3 * waiting.makespan
    assert saving(host) < 0.02 * host.makespan


def test_workers_that_a_stall_held_up_go_on_at_their_pace(tmp_path: Path) -> None:
    spec = JobSpec("stalled", steps=12, model=FAST, loader=Loader(20 * MS, workers=1), checkpoint=Checkpoint(90 * MS, every=6))
    execution = simulate(spec)
    (found,) = replays(spec, tmp_path, "checkpoint").what_ifs
    true = next(ns for cause, ns in execution.rank_truth(0).savings_ns.items() if cause == "checkpoint")
    assert abs(saving(found) - true) <= SAVING_TOLERANCE_SHARE * execution.makespan_ns


# -- the next limit ----------------------------------------------------------------------------------------------------


def test_the_next_limit_is_what_takes_most_of_the_rest(tmp_path: Path) -> None:
    limits = {what_if.changes[0]: what_if.limit for what_if in replays(CLASSICS["data_wait"], tmp_path, "data_wait", "compute").what_ifs}
    assert limits == {"data_wait": "compute", "compute": "data_wait"}


def test_the_path_of_a_replay_sums_to_its_end(tmp_path: Path) -> None:
    scene = scene_of(import_job(simulate(random_spec(18)), tmp_path))
    graph = build_graph(scene.context, scene.steps)
    values = Runner().run(graph)
    # Synchronised calls return a moment after their work: such a lag may be negative, and then counts as nothing.
    assert sum(path_time(graph, values).values()) == pytest.approx(max(values), rel=0.001)


def test_a_run_that_hangs_on_unexplained_times_has_an_unknown_limit() -> None:
    """Kernels without a launch keep their recorded times, whatever is removed."""
    events = [Event(0, 0, 20, "op", ""), Event(0, 20, 25, "op", "logging")]
    tiny = Tiny(events, [Op(0, 500, 520, "kernel", ""), Op(0, 900, 950, "kernel", "")])
    timeline = tiny.timeline()
    context = build_context(timeline, load_names(), SMALL)
    found = replay(context, find_steps(timeline, False), [(parse_change("logging"),)])
    assert [(what_if.limit, saving(what_if)) for what_if in found.what_ifs] == [("unknown", 0)]


def test_an_effect_says_its_bound_in_one_of_three_words(tmp_path: Path) -> None:
    scene = scene_of(import_job(simulate(CLASSICS["pageable_copy"]), tmp_path))
    graph = build_graph(scene.context, scene.steps)
    effects: list[Effect] = [parse_change(experiment.default).apply(scene, graph) for experiment in EXPERIMENTS.values()]
    assert {effect.bound for effect in effects} <= {"upper bound", "estimate", "not estimable"}
    assert all(effect.reason and (effect.graph is None) == (effect.bound == "not estimable") for effect in effects)
