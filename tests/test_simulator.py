"""The simulator keeps the rules of its own machine, and its truth is exact."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.simulate import Cause, Execution, JobSpec, simulate, totals_ns, without
from tests.simulate.classics import CLASSICS
from tests.simulate.jobs import KINDS, PLANTS, random_spec
from tests.simulate.kineto import op_span_ns, recorded_clock
from tests.simulate.nsys import FIRST_TS_NS
from tests.simulate.spec import (
    Comm,
    Copy,
    Loader,
    Logging,
    Machine,
    Model,
    with_buckets,
    with_cuda_graph,
    with_log_every,
    with_pinned,
    with_workers,
)

seeds = st.integers(0, 100_000)
some = settings(max_examples=20, deadline=None)


# -- the machine's rules ---------------------------------------------------------------------------------------------


@some
@given(seeds)
def test_operations_of_a_stream_do_not_overlap(seed: int) -> None:
    for state in simulate(random_spec(seed)).ranks.values():
        for stream in state.streams.values():
            spans = [op_span_ns(op) for op in stream.ops]
            assert all(before[1] <= after[0] for before, after in pairwise(spans))


@some
@given(seeds)
def test_a_host_thread_does_one_thing_at_a_time(seed: int) -> None:
    for state in simulate(random_spec(seed)).ranks.values():
        for thread in state.threads:
            records = [record for record in state.records if record.thread == thread]
            assert all(record.end_ns >= record.start_ns for record in records)
            open_ends: list[int] = []
            for record in records:
                while open_ends and open_ends[-1] <= record.start_ns and record.end_ns > open_ends[-1]:
                    open_ends.pop()
                assert not open_ends or record.end_ns <= open_ends[-1], record.name
                open_ends.append(record.end_ns)


@some
@given(seeds)
def test_work_starts_after_its_launch_and_after_what_its_stream_waits_for(seed: int) -> None:
    spec = random_spec(seed)
    for state in simulate(spec).ranks.values():
        calls = {record.correlation: record for record in state.records if record.correlation}
        for op in state.ops:
            assert op_span_ns(op)[0] > calls[op.correlation].start_ns
        for wait in (record for record in state.records if record.name == "cudaStreamWaitEvent"):
            if wait.waits_for is not None:
                later = [op for op in state.streams[wait.stream or 0].ops if op.launch.start_ns >= wait.end_ns]
                assert all(op_span_ns(op)[0] >= op_span_ns(wait.waits_for)[1] for op in later)


@some
@given(seeds)
def test_blocking_calls_return_after_the_work_they_wait_for(seed: int) -> None:
    for state in simulate(random_spec(seed)).ranks.values():
        blocking = [record for record in state.records if record.waits_for is not None and record.name != "cudaStreamWaitEvent"]
        for record in blocking:
            assert record.waits_for is not None
            assert record.end_ns > op_span_ns(record.waits_for)[1]
        device = [record for record in state.records if record.name == "cudaDeviceSynchronize"]
        for record in device:
            launched = [op for op in state.ops if op.launch.start_ns < record.start_ns]
            assert all(op_span_ns(op)[1] < record.end_ns for op in launched)


@pytest.mark.parametrize("depth", [1, 2, 5, 16])
def test_the_launch_queue_never_holds_more_than_its_depth(depth: int) -> None:
    for seed in range(0, 100, 7):
        spec = random_spec(seed)
        spec = replace(spec, machine=replace(spec.machine, queue_depth=depth))
        for state in simulate(spec).ranks.values():
            for stream in state.streams.values():
                launched = [op.launch.start_ns for op in stream.launches]
                started = [op_span_ns(op)[0] for op in stream.launches]
                assert all(started[index] <= launched[index + depth] for index in range(len(launched) - depth))


def test_the_host_stops_exactly_at_the_depth() -> None:
    """Launches every µs, kernels of 1 ms, 6 µs until the first one starts: the third of a queue of two waits for it."""
    model = Model(op_ns=0, launch_ns=1_000, gap_ns=0, kernel_ns=1_000_000, autograd_thread=False)
    state = simulate(JobSpec(model=model, machine=Machine(queue_depth=2, device_gap_ns=1_000))).ranks[0]
    launched = [op.launch.start_ns for op in state.ops]
    assert launched[:5] == [0, 1_000, 6_000, 6_000 + 1_001_000, 6_000 + 2 * 1_001_000]


@some
@given(seeds)
def test_a_collective_ends_on_all_ranks_together_after_the_last_arrival(seed: int) -> None:
    execution = simulate(random_spec(seed))
    parts: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for state in execution.ranks.values():
        for op in state.ops:
            if op.work.collective is not None:
                parts[op.work.collective].append((*op_span_ns(op),))
    for spans in parts.values():
        assert len(spans) == execution.spec.ranks
        assert len({end for _, end in spans}) == 1
        assert max(start for start, _ in spans) <= spans[0][1]


def test_a_deadlock_is_an_error() -> None:
    from tests.simulate.instructions import Wait
    from tests.simulate.machine import Simulation

    simulation = Simulation(JobSpec())
    simulation.add_rank(0, {"main": [Wait("never")]}, {})
    with pytest.raises(RuntimeError, match="deadlock"):
        simulation.run()


# -- truth -----------------------------------------------------------------------------------------------------------


def assert_partition(path: list[Any], end_ns: int) -> None:
    assert path[0].start_ns == 0
    assert all(segment.dur_ns > 0 for segment in path)
    assert all(before.start_ns + before.dur_ns == after.start_ns for before, after in pairwise(path))
    assert path[-1].start_ns + path[-1].dur_ns == end_ns == sum(segment.dur_ns for segment in path)


@some
@given(seeds)
def test_paths_are_exact_partitions(seed: int) -> None:
    execution = simulate(random_spec(seed))
    assert_partition(execution.job_path(), execution.makespan_ns)
    for rank, state in execution.ranks.items():
        assert_partition(execution.path(rank), state.end_ns)
        assert_partition(execution.path(rank, alone=False), state.end_ns)


def with_gap(spec: JobSpec, by_ns: int) -> JobSpec:
    return replace(spec, machine=replace(spec.machine, device_gap_ns=spec.machine.device_gap_ns + by_ns))


def assert_critical(spec: JobSpec) -> None:
    """The makespan follows the path: a cost that occurs n times on it moves the end by n, both ways (a tie may add to it).

    The makespan is convex in a cost, so n lies between its slopes to the left and to the right, and a path that was
    not the longest chain would break one of them.
    """
    execution = simulate(spec)
    path = execution.job_path()
    on_path = sum(segment.detail == "device_gap" for segment in path)
    longer = simulate(with_gap(spec, 1)).makespan_ns - execution.makespan_ns
    shorter = execution.makespan_ns - simulate(with_gap(spec, -1)).makespan_ns
    assert shorter <= on_path <= longer


@some
@given(seeds)
def test_the_path_is_critical(seed: int) -> None:
    spec = random_spec(seed)
    # The path stays on the loop's thread while it waits for a batch, whatever the worker waited for before.
    assume(not any(segment.detail == "batch_wait" for segment in simulate(spec).job_path()))
    assert_critical(spec)


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_the_path_goes_through_a_full_queue(depth: int) -> None:
    """The host waits for room, then prints for longer than the rest of the device's work takes."""
    spec = JobSpec(machine=Machine(queue_depth=depth), logging=Logging(20_000_000, reads=0))
    assert totals_ns(simulate(spec).job_path())[Cause.COMPUTE] > 6 * 10_000_000
    assert_critical(spec)


def hidden_ns(execution: Execution, rank: int, start_ns: int, end_ns: int) -> int:
    """Overlap with the compute kernels of the rank's device, kernel by kernel."""
    kernels = [op_span_ns(op) for op in execution.ranks[rank].ops if op.work.kind == "kernel" and op.work.collective is None]
    return sum(max(0, min(stop, end_ns) - max(start, start_ns)) for start, stop in kernels)


@pytest.mark.parametrize("ranks", [1, 2])
def test_communication_under_a_compute_kernel_is_compute(ranks: int) -> None:
    """Two buckets: the first runs under the backward of the second half, and the second waits for it."""
    execution = simulate(JobSpec(ranks=ranks, noise_share=0.1, comm=Comm(7_000_000, 2)))
    for rank in range(ranks):
        path = execution.path(rank)
        comm = [segment for segment in path if segment.detail in ("hidden_comm", "comm_wait", "kernel")]
        comm = [segment for segment in comm if segment.resource == "stream 23"]
        shares: dict[Cause, set[float]] = {segment.cause: set() for segment in comm}
        for segment in comm:
            overlap_ns = hidden_ns(execution, rank, segment.start_ns, segment.start_ns + segment.dur_ns)
            shares[segment.cause].add(overlap_ns / segment.dur_ns)
        assert shares == {Cause.COMPUTE: {1.0}, Cause.EXPOSED_COMM: {0.0}}


@some
@given(seeds)
def test_removing_a_cause_never_lengthens_the_job(seed: int) -> None:
    execution = simulate(random_spec(seed))
    assert all(saving >= 0 for saving in execution.truth.savings_ns.values())
    first, *others = execution.spec.causes()
    for cause in others:
        both = simulate(without(execution.spec, first, cause)).makespan_ns
        assert execution.makespan_ns - both >= max(execution.truth.savings_ns[first], execution.truth.savings_ns[cause])


@some
@given(seeds)
def test_a_rank_alone_takes_as_long_as_in_its_job(seed: int) -> None:
    """The frozen collectives of `rank_truth` change nothing by themselves, and no saving exceeds the rank's time."""
    execution = simulate(random_spec(seed))
    for rank, state in execution.ranks.items():
        truth = execution.rank_truth(rank)
        assert truth.makespan_ns == state.end_ns
        assert all(0 <= saving <= state.end_ns for saving in truth.savings_ns.values())


def test_one_rank_alone_is_the_job_when_there_is_one() -> None:
    for seed in range(40):
        spec = random_spec(seed)
        if spec.ranks == 1 and spec.straggler is None:
            execution = simulate(spec)
            assert execution.rank_truth(0).savings_ns == execution.truth.savings_ns


@some
@given(seeds)
def test_the_same_spec_gives_the_same_execution(seed: int) -> None:
    spec = random_spec(seed)
    assert spec == random_spec(seed)
    first, second = simulate(spec), simulate(spec)
    assert json.dumps(first.to_kineto(0)) == json.dumps(second.to_kineto(0))
    assert first.truth == second.truth


def test_noise_stays_with_its_cost_when_a_cause_is_removed() -> None:
    spec = replace(random_spec(0), noise_share=0.1, logging=Logging(5_000_000), copy=Copy(3_000_000))

    def kernels(execution: Execution) -> list[int]:
        return [op.work.ns for op in execution.ranks[0].ops if op.work.kind == "kernel"]

    base = kernels(simulate(spec))
    assert len(set(base)) > len(base) // 2
    assert base == kernels(simulate(without(spec, Cause.LOGGING, Cause.H2D)))


def test_random_jobs_cover_every_cause_as_owner_and_healthy_jobs() -> None:
    owners: Counter[Cause] = Counter()
    for seed in range(6 * len(KINDS)):
        truth = simulate(random_spec(seed)).truth
        owners.update(truth.owners())
    assert set(owners) == {Cause(name) for name in PLANTS} | {Cause.COMPUTE}
    assert owners[Cause.COMPUTE] >= 5 * 6


# -- hand-made jobs --------------------------------------------------------------------------------------------------

OWNERS = {
    "data_wait": Cause.DATA_WAIT,
    "data_wait_workers": Cause.DATA_WAIT,
    "hidden_loader": Cause.COMPUTE,
    "pageable_copy": Cause.H2D,
    "pinned_copy": Cause.H2D,
    "hidden_copy": Cause.COMPUTE,
    "exposed_all_reduce": Cause.EXPOSED_COMM,
    "exposed_all_reduce_no_events": Cause.EXPOSED_COMM,
    "hidden_all_reduce": Cause.COMPUTE,
    "queued_ahead": Cause.COMPUTE,
    "queue_full": Cause.COMPUTE,
    "one_graph": Cause.COMPUTE,
    "backward_thread": Cause.HOST_BOUND,
    "backward_same_thread": Cause.HOST_BOUND,
    "tiny_kernels": Cause.HOST_BOUND,
    "item_every_step": Cause.COMPUTE,
    "slow_logging": Cause.LOGGING,
    "unseen_logging": Cause.LOGGING,
    "sync_every_step": Cause.COMPUTE,
    "recompile": Cause.COMPILE,
    "late_loader_rank": Cause.STRAGGLER,
    "late_host_rank": Cause.STRAGGLER,
}


@pytest.mark.parametrize("name", CLASSICS)
def test_owner_of_a_hand_made_job(name: str) -> None:
    assert simulate(CLASSICS[name]).truth.owners() == {OWNERS[name]}


def ms_per_step(name: str, cause: Cause) -> float:
    execution = simulate(CLASSICS[name])
    return totals_ns(execution.job_path()).get(cause, 0) / execution.spec.steps / 1e6


@pytest.mark.parametrize(
    ("name", "cause", "milliseconds"),
    [
        ("data_wait", Cause.DATA_WAIT, 79.0),
        ("data_wait", Cause.COMPUTE, 19.0),
        ("pageable_copy", Cause.H2D, 60.0),
        ("exposed_all_reduce", Cause.EXPOSED_COMM, 70.0),
        ("exposed_all_reduce_no_events", Cause.EXPOSED_COMM, 70.0),
        ("hidden_copy", Cause.H2D, 0.0),
        ("hidden_all_reduce", Cause.EXPOSED_COMM, 0.2),
        ("recompile", Cause.COMPILE, 20.0),
        ("unseen_logging", Cause.HOST_OTHER, 9.0),
    ],
)
def test_path_of_a_hand_made_job(name: str, cause: Cause, milliseconds: float) -> None:
    assert ms_per_step(name, cause) == pytest.approx(milliseconds, abs=0.1)


def test_a_straggler_is_seen_by_the_others_and_explained_by_its_own_path() -> None:
    execution = simulate(CLASSICS["late_loader_rank"])
    waiting = totals_ns(execution.path(0, alone=False))[Cause.STRAGGLER]
    assert waiting == pytest.approx(5 * 30e6, rel=0.01)
    assert Cause.STRAGGLER not in totals_ns(execution.path(0))
    assert execution.rank_truth(0).owner is Cause.EXPOSED_COMM
    assert execution.rank_truth(1).owner is Cause.DATA_WAIT
    assert {segment.rank for segment in execution.job_path() if segment.cause is Cause.DATA_WAIT} == {1}


def test_a_tie_and_a_cause_at_the_threshold_accept_both_answers() -> None:
    truth = simulate(CLASSICS["data_wait"]).truth
    close = replace(truth, makespan_ns=100, savings_ns={Cause.DATA_WAIT: 30, Cause.LOGGING: 29, Cause.H2D: 20, Cause.COMPUTE: 60})
    assert close.owner is Cause.DATA_WAIT
    assert close.owners() == {Cause.DATA_WAIT, Cause.LOGGING}
    small = replace(truth, makespan_ns=100, savings_ns={Cause.DATA_WAIT: 4, Cause.COMPUTE: 90})
    assert small.owner is Cause.COMPUTE
    assert small.owners() == {Cause.DATA_WAIT, Cause.COMPUTE}
    assert replace(truth, makespan_ns=100, savings_ns={Cause.DATA_WAIT: 1, Cause.COMPUTE: 90}).owners() == {Cause.COMPUTE}


def test_named_experiments_shorten_what_they_should() -> None:
    makespan = {name: simulate(spec).makespan_ns for name, spec in CLASSICS.items()}
    assert simulate(with_workers(CLASSICS["data_wait"], 4)).makespan_ns < 0.6 * makespan["data_wait"]
    assert simulate(with_pinned(CLASSICS["pageable_copy"])).makespan_ns < 0.4 * makespan["pageable_copy"]
    assert simulate(with_cuda_graph(CLASSICS["tiny_kernels"])).makespan_ns < 0.3 * makespan["tiny_kernels"]
    assert simulate(with_log_every(CLASSICS["slow_logging"], 3)).makespan_ns < 0.8 * makespan["slow_logging"]
    many = JobSpec(steps=4, comm=Comm(transfer_ns=100_000, buckets=50, overlap=False))
    assert simulate(with_buckets(many, 2)).makespan_ns < simulate(many).makespan_ns


# -- the recorded trace ----------------------------------------------------------------------------------------------


def exact_ns(number: Decimal) -> int:
    nanoseconds = number * 1000
    assert nanoseconds == int(nanoseconds)
    return int(nanoseconds)


@some
@given(seeds)
def test_the_trace_holds_what_happened_to_the_ns(seed: int) -> None:
    execution = simulate(random_spec(seed))
    for rank, state in execution.ranks.items():
        trace = json.loads(json.dumps(execution.to_kineto(rank)), parse_float=Decimal)
        events = [event for event in trace["traceEvents"] if event.get("cat") in ("kernel", "gpu_memcpy")]
        clock = recorded_clock(execution.spec, rank)
        recorded = sorted((exact_ns(event["ts"]), exact_ns(event["ts"]) + exact_ns(event["dur"]), event["tid"]) for event in events)
        true = sorted((clock(op_span_ns(op)[0]), clock(op_span_ns(op)[1]), op.stream.number) for op in state.ops)
        assert recorded == true


@some
@given(seeds)
def test_correlations_match(seed: int) -> None:
    execution = simulate(random_spec(seed))
    for rank in execution.ranks:
        events = execution.to_kineto(rank)["traceEvents"]
        calls = [event for event in events if event.get("cat") == "cuda_runtime"]
        by_correlation = {event["args"]["correlation"]: event for event in calls}
        assert len(by_correlation) == len(calls)
        launches = Counter(event["args"]["correlation"] for event in events if event.get("cat") in ("kernel", "gpu_memcpy"))
        graphs = {key for key, count in launches.items() if count > 1}
        assert {by_correlation[key]["name"] for key in graphs} <= {"cudaGraphLaunch"}
        assert set(launches) == {key for key, event in by_correlation.items() if "Launch" in event["name"] or "Memcpy" in event["name"]}
        operators = {event["args"]["External id"] for event in events if event.get("cat") in ("cpu_op", "user_annotation")}
        assert all(event["args"]["External id"] in operators for event in events if event.get("cat") == "kernel")


def test_a_trace_names_its_steps_and_its_rank() -> None:
    execution = simulate(CLASSICS["late_host_rank"])
    for rank in range(4):
        trace = execution.to_kineto(rank)
        assert trace["distributedInfo"]["rank"] == rank
        assert trace["distributedInfo"]["world_size"] == 4
        steps = [
            event["name"]
            for event in trace["traceEvents"]
            if event["name"].startswith("ProfilerStep#") and event["cat"] == "user_annotation"
        ]
        assert steps == [f"ProfilerStep#{number}" for number, _, _ in execution.steps(rank)]


def test_clocks_of_ranks_differ_as_asked() -> None:
    spec = CLASSICS["late_loader_rank"]
    skewed = replace(spec, trace=replace(spec.trace, clock_offset_ns=(0, 2_000_000), clock_drift_ppb=(0, 10_000)))

    def kernel_ends(spec: JobSpec, rank: int) -> list[float]:
        events = simulate(spec).to_kineto(rank)["traceEvents"]
        return [event["ts"] + event["dur"] for event in events if event.get("cat") == "kernel"]

    shifts = [after - before for before, after in zip(kernel_ends(spec, 1), kernel_ends(skewed, 1), strict=True)]
    assert kernel_ends(spec, 0) == kernel_ends(skewed, 0)
    assert min(shifts) >= 2_000
    assert 2_000 < max(shifts) < 2_000 + 10
    assert max(shifts) - min(shifts) > 1


def test_loader_batches_are_not_taken_before_they_are_decoded() -> None:
    spec = JobSpec(steps=8, loader=Loader(50_000_000, workers=2, prefetch=1, pin_thread=True))
    state = simulate(spec).ranks[0]
    for step in range(8):
        ready, taken = state.signals[f"batch {step}"].time_ns, state.signals[f"taken {step}"].time_ns
        assert ready is not None
        assert taken is not None
        assert ready <= taken


@pytest.mark.parametrize("name", ["pageable_copy", "one_graph", "late_loader_rank", "queue_full"])
def test_the_nsys_export_holds_what_happened_to_the_ns(name: str, tmp_path: Path) -> None:
    execution = simulate(CLASSICS[name])
    for rank, state in execution.ranks.items():
        path = tmp_path / f"rank{rank}.sqlite"
        execution.to_nsys_sqlite(path, rank)
        with closing(sqlite3.connect(path)) as connection:
            kernels = connection.execute("select start, end, streamId from CUPTI_ACTIVITY_KIND_KERNEL").fetchall()
            present = {name for (name,) in connection.execute("select name from sqlite_master")}
            copies = []
            if "CUPTI_ACTIVITY_KIND_MEMCPY" in present:
                copies = connection.execute("select start, end, streamId from CUPTI_ACTIVITY_KIND_MEMCPY").fetchall()
            launched = connection.execute(
                """select count(*) from CUPTI_ACTIVITY_KIND_KERNEL k join CUPTI_ACTIVITY_KIND_RUNTIME r
                   on r.correlationId = k.correlationId and r.globalTid / 16777216 = k.globalPid / 16777216
                   and r.start <= k.start join StringIds s on s.id = r.nameId where s.value like 'cuda%Launch%'"""
            ).fetchone()[0]
            steps = connection.execute("select count(*) from NVTX_EVENTS where text like 'step %'").fetchone()[0]
        true = sorted((FIRST_TS_NS + op_span_ns(op)[0], FIRST_TS_NS + op_span_ns(op)[1], op.stream.number) for op in state.ops)
        assert sorted(kernels + copies) == true
        assert launched == len(kernels)
        assert steps == execution.spec.steps
        assert ("CUPTI_ACTIVITY_KIND_OVERHEAD" in present) == (name == "queue_full")
