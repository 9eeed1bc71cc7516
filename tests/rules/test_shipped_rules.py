"""The shipped rules: where each hits, stays clear, cannot tell, and what it advises. One run holds a rank per case.

A case gives the exposed time per cause of a step of 1000 ns (compute takes the rest), and rows of other tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from helpers import build_run, rows

from traceengine.resources import queries_dir
from traceengine.rules import RuleSet, load_rules, matching_experiments, run_rules
from traceengine.sql import open_sandbox

RULES = load_rules([queries_dir() / "rules"])
MS = 1_000_000
STEP = 10 * MS
STEPS = 4
MIB = 1_048_576


@dataclass(frozen=True)
class Case:
    """`cost` is exposed time per step in % by cause, the same in each step of `in_steps`; tables are as in `helpers.rows`."""

    rule: str
    status: str
    cost: dict[str, int] = field(default_factory=dict)
    advises: str | None = None
    """Words of the first experiment that follows; None: not asked."""
    evidence: dict[str, Any] = field(default_factory=dict)
    in_steps: tuple[int, ...] = tuple(range(STEPS))
    tables: dict[str, str] = field(default_factory=dict)
    resource: str = "host:1/1"


def each(line: str, count: int = STEPS, every: int = STEP, at: int = 0) -> str:
    """The line, `count` times, with {at} and {n} in place."""
    return "\n".join(line.format(at=at + every * n, n=n) for n in range(count))


HOST = "ts_ns | dur_ns | kind | class | name | depth\n"
DEVICE = "ts_ns | dur_ns | kind | class | name\n"
COPY = "ts_ns | dur_ns | kind | class | copy_kind | bytes | src_memory | dst_memory\n"
COMM = "event_id | ts_ns | dur_ns | kind | class | name\n"
DESCRIBED = "device_event_id | op | bytes | group_size\n"
SINGLE = HOST + each("{at} | 5000000 | op | data_wait_single | next | 0")
WORKERS = HOST + each("{at} | 5000000 | op | data_wait_workers | next | 0")
LAUNCHED = DEVICE + each("{at} | 5000 | kernel | gemm | sm80_s16816gemm", 40, 1_000_000)
OPS = each("{at} | 1000 | op | | aten::mm | 0", 40, 1_000_000)
H2D = {"h2d": 40}


def small_comm(count: int, size: int | None) -> dict[str, str]:
    runs = COMM + each("{n} | {at} | 100000 | kernel | comm | ncclDevKernel_AllReduce", count, STEP * STEPS // count)
    sizes = {"collective": DESCRIBED + each(f"{{n}} | allreduce | {size} | 8", count)} if size else {}
    return {"device_event": runs} | sizes


CASES: dict[str, Case] = {
    # data_wait
    "data: single process": Case("data_wait", "hit", {"data_wait": 50}, "num_workers=2", {"suggested_workers": 2, "recurs": True}, tables={"host_event": SINGLE}),
    "data: near miss": Case("data_wait", "clear", {"data_wait": 4}, tables={"host_event": SINGLE}),
    "data: at the threshold": Case("data_wait", "hit", {"data_wait": 5}, tables={"host_event": SINGLE}),
    "data: none": Case("data_wait", "clear"),
    "data: one step alone": Case("data_wait", "hit", {"data_wait": 90}, "", {"recurs": False}, (2,), {"host_event": SINGLE}),
    "data: workers": Case("data_wait", "hit", {"data_wait": 50}, "num_workers = 3 times", {"worker_factor": 3}, tables={"host_event": WORKERS}),
    "data: workers never suffice": Case("data_wait", "hit", {"data_wait": 90}, "decode and resize once", tables={"host_event": WORKERS}),
    "data: workers once": Case("data_wait", "hit", {"data_wait": 90}, "persistent_workers", in_steps=(1,), tables={"host_event": WORKERS}),
    "data: a range": Case("data_wait", "hit", {"data_wait": 30}, "background thread", {"loader": "range"}),
    # copies
    "h2d: pageable": Case("h2d", "hit", H2D, "pin_memory=True", {"pageable_share": 1.0}, tables={"device_event": COPY + each(f"{{at}} | 4000000 | memcpy | copy | h2d | {40 * MIB} | pageable | device")}),
    "h2d: pinned": Case("h2d", "hit", H2D, "side stream", tables={"device_event": COPY + each(f"{{at}} | 4000000 | memcpy | copy | h2d | {40 * MIB} | pinned | device")}),
    "h2d: nothing to hide behind": Case("h2d", "hit", {"h2d": 98}, "compact", tables={"device_event": COPY + each(f"{{at}} | 9000000 | memcpy | copy | h2d | {40 * MIB} | pinned | device")}),
    "h2d: many small": Case("h2d", "hit", H2D, "one contiguous", tables={"device_event": COPY + each("{at} | 10000 | memcpy | copy | h2d | 64 | pinned | device", 400, 100_000)}),
    "h2d: near miss": Case("h2d", "clear", {"h2d": 4}),
    "d2h: pageable": Case("d2h", "hit", {"d2h": 40}, "pinned", tables={"device_event": COPY + each(f"{{at}} | 4000000 | memcpy | copy | d2h | {MIB} | device | pageable")}),
    "d2h: pinned": Case("d2h", "hit", {"d2h": 40}, "side stream", tables={"device_event": COPY + each(f"{{at}} | 4000000 | memcpy | copy | d2h | {MIB} | device | pinned")}),
    "d2h: nothing to hide behind": Case("d2h", "hit", {"d2h": 98}, "only what is read", tables={"device_event": COPY + each(f"{{at}} | 9000000 | memcpy | copy | d2h | {MIB} | device | pinned")}),
    "d2h: many small": Case("d2h", "hit", {"d2h": 40}, "gather what is read", tables={"device_event": COPY + each("{at} | 10000 | memcpy | copy | d2h | 64 | device | pinned", 400, 100_000)}),
    "d2h: none": Case("d2h", "clear", {}, evidence={"copies": 0, "pageable_share": None}),
    "p2p: small": Case("p2p", "hit", {"p2p": 20}, "pack the tensors", tables={"device_event": COPY + each("{at} | 100000 | memcpy | copy | p2p | 4096 | device | device")}),
    "p2p: large": Case("p2p", "hit", {"p2p": 20}, "side stream", tables={"device_event": COPY + each(f"{{at}} | 2000000 | memcpy | copy | p2p | {40 * MIB} | device | device")}),
    "p2p: near miss": Case("p2p", "clear", {"p2p": 4}),
    # communication
    "comm: small ones": Case("exposed_comm", "hit", {"exposed_comm": 40}, "bucket_cap_mb=1)", {"bucket_mib": 1}, tables=small_comm(400, 4096)),
    "comm: sizes unknown": Case("exposed_comm", "hit", {"exposed_comm": 40}, "bucket_cap_mb=100", {"median_bytes": None}, tables=small_comm(400, None)),
    "comm: accumulation": Case("exposed_comm", "hit", {"exposed_comm": 40}, "no_sync", {"batches_per_update": 2.0}, tables=small_comm(8, 40 * MIB) | {"host_event": HOST + each("{at} | 10 | op | data_wait_single | next | 0", 8) + "\n" + each("{at} | 10 | annotation | optimizer_step | Optimizer.step | 0", 4)}),
    "comm: not hidden": Case("exposed_comm", "hit", {"exposed_comm": 40}, "start it earlier", tables={"device_event": COMM + each("{n} | {at} | 4500000 | kernel | comm | ncclDevKernel_AllReduce")}),
    "comm: the link": Case("exposed_comm", "hit", {"exposed_comm": 30}, "another algorithm", tables={"device_event": COMM + each("{n} | {at} | 9000000 | kernel | comm | ncclDevKernel_AllReduce")}),
    "comm: near miss": Case("exposed_comm", "clear", {"exposed_comm": 4}, tables=small_comm(4, 40 * MIB)),
    "straggler: one rank": Case("straggler", "unknown", {"exposed_comm": 40}, tables=small_comm(4, 40 * MIB)),
    "straggler: no collective": Case("straggler", "clear"),
    "bubble: waits": Case("pipeline_bubble", "hit", {"exposed_comm": 40}, "double the micro-batches", tables={
        "device_event": "event_id | ts_ns | dur_ns | kind | class | name\n0 | 0 | 500000 | kernel | comm | ncclDevKernel_SendRecv\n" + "\n".join(f"{n} | {n * STEP} | 4000000 | kernel | comm | ncclDevKernel_SendRecv" for n in (1, 2, 3)),
        "collective": DESCRIBED + each("{n} | recv | 4096 | 2")}, resource="device:0/stream:7"),
    "bubble: as fast as the link": Case("pipeline_bubble", "clear", {"exposed_comm": 40}, tables={"device_event": COMM + each("{n} | {at} | 4000000 | kernel | comm | ncclDevKernel_SendRecv"), "collective": DESCRIBED + each("{n} | recv | 4096 | 2")}, resource="device:0/stream:7"),
    "bubble: too few": Case("pipeline_bubble", "unknown", {"exposed_comm": 40}, tables={"device_event": COMM + each("{n} | {at} | 4000000 | kernel | comm | ncclDevKernel_SendRecv", 2), "collective": DESCRIBED + each("{n} | recv | 4096 | 2", 2)}, resource="device:0/stream:7"),
    "bubble: none": Case("pipeline_bubble", "clear"),
    # compilation
    "compile: recompiles": Case("compile", "hit", {"compile": 40}, "mark the changing dimension", {"compilations": 4, "frame": "0/3", "graph_breaks_per_step": 1.0}, tables={"host_event": HOST + each("{at} | 4000000 | op | compile_phase | _compile.compile_inner | 0") + "\n" + each("{at} | 1000 | op | compiled_region | Torch-Compiled Region: 0/{n} | 0") + "\n" + each("{at} | 1000 | op | compiled_region | Torch-Compiled Region: 0/0 | 0", at=2000)}),
    "compile: once": Case("compile", "hit", {"compile": 90}, "warm-up", in_steps=(1,), tables={"host_event": HOST + f"{STEP} | 9000000 | op | compile_phase | _compile.compile_inner | 0"}),
    "compile: modules": Case("compile", "hit", {"compile": 10}, "CUDA_MODULE_LOADING", tables={"host_event": HOST + each("{at} | 1000000 | runtime | module_load | cuModuleLoadData | 0")}),
    "compile: capture": Case("compile", "hit", {"compile": 10}, "captured inputs", tables={"host_event": HOST + each("{at} | 1000000 | runtime | graph_capture | cudaGraphInstantiate | 0")}),
    "compile: autotune": Case("compile", "hit", {"compile": 10}, "choose before", {"autotune_ns": 4 * MS}, tables={"host_event": HOST + each("{at} | 1000000 | op | autotune | CachingAutotuner.benchmark_all_configs | 0")}),
    "compile: near miss": Case("compile", "clear", {"compile": 4}),
    # logging and saving
    "logging: every step": Case("logging", "hit", {"logging": 40}, "log every 20 steps", {"log_every": 20, "reads_per_step": 1.0, "file_syncs": None}, tables={"host_event": HOST + each("{at} | 1000 | op | scalar_copy | aten::_local_scalar_dense | 0")}),
    "logging: once": Case("logging", "hit", {"logging": 90}, "writer thread", in_steps=(2,)),
    "logging: near miss": Case("logging", "clear", {"logging": 4}),
    "checkpoint: one process": Case("checkpoint", "hit", {"checkpoint": 50}, "asynchronously", {"saving_steps": 2, "steps_between_saves": 2.0, "suggested_every": 25}, (0, 2)),
    "checkpoint: ranks": Case("checkpoint", "hit", {"checkpoint": 50}, "sharded", in_steps=(0, 2), tables={"source": "kind | world_size\ntorch | 8"}),
    "checkpoint: a little in each": Case("checkpoint", "hit", {"checkpoint": 5}, "save every", {"saving_steps": None}),
    "checkpoint: near miss": Case("checkpoint", "clear", {"checkpoint": 4}),
    # the host
    "host: short kernels": Case("host_bound", "hit", {"host_bound": 60}, "reduce-overhead", {"short_share": 1.0, "compiled": False}, tables={"device_event": LAUNCHED, "host_event": HOST + OPS}),
    "host: compiled": Case("host_bound", "hit", {"host_bound": 60}, "as a CUDA graph", {"compiled": True}, tables={"device_event": LAUNCHED, "host_event": HOST + each("{at} | 1000 | op | compiled_region | Torch-Compiled Region: 0/0 | 0")}),
    "host: graph breaks": Case("host_bound", "hit", {"host_bound": 60}, "graph breaks", tables={"host_event": HOST + each("{at} | 1000 | op | compiled_region | Torch-Compiled Region: 0/0 | 0", 16, STEP // 4)}),
    "host: optimizer": Case("host_bound", "hit", {"host_bound": 60}, "fused=True", {"optimizer_share": 0.4}, tables={"host_event": HOST + OPS + "\n" + each("{at} | 4000000 | annotation | optimizer_step | Optimizer.step#Adam.step | 0")}),
    "host: operators": Case("host_bound", "hit", {"host_bound": 60}, "torch.compile(model)", {"short_share": None}, tables={"host_event": HOST + OPS}),
    "host: no operators": Case("host_bound", "hit", {"host_bound": 60}, "double the microbatch"),
    "host: near miss": Case("host_bound", "clear", {"host_bound": 4}, tables={"host_event": HOST + OPS}),
    "other: collector": Case("host_other", "hit", {"host_other": 40}, "gc.freeze", {"gc_share": 1.0}, tables={"host_event": HOST + each("{at} | 4000000 | python | gc | <built-in function collect> | 0")}),
    "other: system call": Case("host_other", "hit", {"host_other": 40}, "background thread", {"os_call": "fsync", "os_share": 1.0, "gc_ns": None}, tables={"host_event": HOST + each("{at} | 4000000 | os | | fsync | 0")}),
    "other: after the optimizer": Case("host_other", "hit", {"host_other": 40}, "skip everything", tables={"host_event": HOST + each("{at} | 0 | annotation | optimizer_step | Optimizer.step | 0")}),
    "other: no name": Case("host_other", "hit", {"host_other": 40}, "with_stack=True", {"os_share": None, "os_call": None}),
    "other: near miss": Case("host_other", "clear", {"host_other": 4}),
    "sync: device": Case("sync", "hit", {"sync": 20}, "torch.cuda.synchronize()", {"device_calls_per_step": 1.0}, tables={"host_event": HOST + each("{at} | 2000000 | runtime | device_sync | cudaDeviceSynchronize | 0")}),
    "sync: stream": Case("sync", "hit", {"sync": 20}, "wait_event", tables={"host_event": HOST + each("{at} | 2000000 | runtime | stream_sync | cudaStreamSynchronize | 0")}),
    "sync: near miss": Case("sync", "clear", {"sync": 4}),
    # memory
    "memory: empty_cache": Case("memory", "hit", {"memory": 20}, "remove torch.cuda.empty_cache", {"empty_caches": 4}, tables={"host_event": HOST + each("{at} | 2000000 | python | empty_cache | empty_cache | 0")}),
    "memory: full": Case("memory", "hit", {"memory": 20}, "every second block", {"reserved_share": 0.95}, tables={"device": "device | memory_bytes\n0 | 100", "memory_event": "ts_ns | device_type | device | allocated_bytes | reserved_bytes\n0 | cuda | 0 | 94 | 95"}),
    "memory: fragmented": Case("memory", "hit", {"memory": 20}, "expandable_segments", {"frees": 4, "empty_caches": None, "fragmentation_share": 0.5}, tables={"host_event": HOST + each("{at} | 2000000 | runtime | free_call | cudaFree | 0"), "device": "device | memory_bytes\n0 | 100", "memory_event": "ts_ns | device_type | device | allocated_bytes | reserved_bytes\n0 | cuda | 0 | 50 | 100"}),
    "memory: near miss": Case("memory", "clear", {"memory": 4}, evidence={"calls": 0, "reserved_share": None}),
    # compute and the profiler
    "compute: no matrix units": Case("compute", "hit", {}, "float32_matmul_precision", {"matrix_share": 0.0}, tables={"device_event": DEVICE + each("{at} | 9000000 | kernel | gemm | volta_sgemm_64x64_nt")}),
    "compute: matrix units": Case("compute", "hit", {}, "", {"matrix_share": 1.0}, tables={"device_event": DEVICE + each("{at} | 9000000 | kernel | gemm | sm80_xmma_gemm_bf16bf16_bf16f32")}),
    "compute: pointwise": Case("compute", "hit", {}, "torch.compile(model)", {"pointwise_share": 1.0, "matrix_share": None}, tables={"device_event": DEVICE + each("{at} | 9000000 | kernel | elementwise | vectorized_elementwise"), "host_event": HOST + OPS}),
    "compute: recomputes": Case("compute", "hit", {}, "half as many blocks", {"recompute_share": 0.5, "reserved_share": 0.4}, tables={
        "host_event": "ts_ns | dur_ns | kind | class | name | sequence_id | forward_tid | depth\n0 | 100 | op | backward_node | autograd::engine::evaluate_function: X | 1 | 1 | 0\n10 | 50 | op | | aten::linear | 9 | 0 | 1",
        "device": "device | memory_bytes\n0 | 100", "memory_event": "ts_ns | device_type | device | allocated_bytes | reserved_bytes\n0 | cuda | 0 | 40 | 40"}),
    "compute: little": Case("compute", "clear", {"data_wait": 96}),
    "profiler: frames": Case("profiler", "hit", {"profiler": 20}, "with_stack=False", {"frames_share": 0.5}, tables={"host_event": HOST + each("{at} | 2000000 | overhead | profiler_cost | Buffer Flush | 0") + "\n" + each("{at} | 10 | python | | f | 0")}),
    "profiler: nsys": Case("profiler", "hit", {"profiler": 20}, "nsys profile", tables={"source": "kind\nnsys", "host_event": HOST + each("{at} | 2000000 | overhead | profiler_cost | Nsight: flush | 0")}),
    "profiler: torch": Case("profiler", "hit", {"profiler": 20}, "fewer active steps", {"records": 4}, tables={"host_event": HOST + each("{at} | 2000000 | overhead | profiler_cost | Buffer Flush | 0")}),
    "profiler: near miss": Case("profiler", "clear", {"profiler": 4}),
}  # fmt: skip
NAMES = list(CASES)


def _with_rank(name: str, content: str, rank: int) -> pa.Table:
    table = rows(name, content)
    return table.set_column(table.schema.get_field_index("rank"), table.schema.field("rank"), pa.array([rank] * table.num_rows, pa.int64()))


def _base(case: Case) -> dict[str, str]:
    path, exposed = ["step | ts_ns | dur_ns | cause | resource | event_id"], ["step | cause | path_ns | exclusive_ns"]
    for step in range(STEPS):
        cost = {cause: percent * STEP // 100 for cause, percent in case.cost.items()} if step in case.in_steps else {}
        at = step * STEP
        for cause, spent in [*cost.items(), ("compute", STEP - sum(cost.values()))]:
            event = step if case.resource.startswith("device") and cause != "compute" else ""
            path.append(f"{step} | {at} | {spent} | {cause} | {case.resource} | {event}")
            exposed.append(f"{step} | {cause} | {spent} | {spent}")
            at += spent
    steps = "step | ts_ns | dur_ns\n" + each(f"{{n}} | {{at}} | {STEP}")
    return {"critical_path": "\n".join(path), "step_cause": "\n".join(exposed), "step": steps, "source": "kind\ntorch"} | case.tables


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], dict[str, Any]]]:
    """Findings by case and rule; the rank of a case is its number."""
    tables: dict[str, list[pa.Table]] = {}
    for rank, case in enumerate(CASES.values()):
        for name, content in _base(case).items():
            tables.setdefault(name, []).append(_with_rank(name, content, rank))
    run = build_run(tmp_path_factory.mktemp("rules") / "run", **{name: pa.concat_tables(parts) for name, parts in tables.items()})
    with open_sandbox(run) as connection:
        found = run_rules(connection, RULES).to_pylist()
    yield {(NAMES[row["rank"]], row["rule"]): row | {"evidence": json.loads(row["evidence"])} for row in found}


@pytest.mark.parametrize("name", NAMES)
def test_case(answers: dict[tuple[str, str], dict[str, Any]], name: str) -> None:
    case = CASES[name]
    finding = answers[name, case.rule]
    assert finding["status"] == case.status, finding
    assert (finding["cost_ns"] is None) == (case.status == "unknown")
    assert {key: finding["evidence"][key] for key in case.evidence} == {
        key: pytest.approx(value) if isinstance(value, float) else value for key, value in case.evidence.items()
    }
    if case.advises is not None:
        rule = RULES.rule(case.rule)
        matching = matching_experiments(rule, finding["evidence"])
        first = "" if not matching else matching[0].change
        for key, value in finding["evidence"].items():
            first = first.replace(f"{{{key}}}", str(value))
        assert (case.advises in first) if case.advises else not matching, first


PARTS = """
    rank | collective_id | op        | ts_ns | dur_ns | wait_ns | transfer_ns | last
    0    | 0             | allreduce | 0     | 400    | 350     | 50          | false
    1    | 0             | allreduce | 350   | 50     | 0       | 50          | true
    2    | 1             | allreduce | 0     | 400    | 350     | 50          | false
    3    | 1             | allreduce | 350   | 50     | 0       | 50          | true
    4    | 2             | allreduce | 0     | 400    | 350     | 50          | false
    5    | 2             | allreduce | 350   | 50     | 0       | 50          | true
    4    | 3             | allreduce | 500   | 400    | 350     | 50          | false
    6    | 3             | allreduce | 850   | 50     | 0       | 50          | true
    7    | 4             | allreduce | 0     | 60     | 10      | 50          | false
    8    | 4             | allreduce | 10    | 50     | 0       | 50          | true
"""
LATE = "rank | collective_id | late_ns | cause\n1 | 0 | 350 | data_wait\n3 | 1 | 350 | unknown"
STRAGGLER_COST = {0: 350, 2: 350, 4: 350, 7: 10}
STRAGGLERS = {
    0: ("hit", "the collectives wait for rank 1, late because of its data_wait", "on rank {late_rank}, make the change"),
    1: ("clear", "this rank does not wait for others", None),
    2: ("hit", "the collectives wait for rank 3", "start the job once with the devices"),
    4: ("hit", "the collectives wait for late ranks, now one, now another", "even out the work per step"),
    7: ("clear", "the waiting for other ranks is short, or hidden behind compute", None),
    9: ("unknown", "no collective of this rank was found on another one", None),
}


@pytest.fixture(scope="module")
def stragglers(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """The rule's findings by rank: 0 waits for 1, 2 for 3, 4 for 5 and 6 in turn, 7 hardly for 8; 9 is alone."""
    path, exposed, steps, runs = (
        ["rank | ts_ns | dur_ns | cause"],
        ["rank | step | cause | path_ns | exclusive_ns"],
        ["rank | step | ts_ns | dur_ns"],
        ["rank | ts_ns | dur_ns | class"],
    )
    for rank in range(10):
        waited = STRAGGLER_COST.get(rank, 0)
        path.append(f"{rank} | 0 | 1000 | compute")
        exposed += [f"{rank} | 0 | straggler | {waited} | {waited}", f"{rank} | 0 | compute | {1000 - waited} | {1000 - waited}"]
        steps.append(f"{rank} | 0 | 0 | 1000")
        runs.append(f"{rank} | 0 | 50 | comm")
    run = build_run(
        tmp_path_factory.mktemp("stragglers") / "run",
        critical_path="\n".join(path), step_cause="\n".join(exposed), step="\n".join(steps), device_event="\n".join(runs),
        collective_part=PARTS,
        lateness=LATE,
    )
    with open_sandbox(run) as connection:
        found = run_rules(connection, RuleSet((RULES.rule("straggler"),))).to_pylist()
    return {row["rank"]: row | {"evidence": json.loads(row["evidence"])} for row in found}


@pytest.mark.parametrize("rank", STRAGGLERS)
def test_waiting_for_a_late_rank(stragglers: dict[int, dict[str, Any]], rank: int) -> None:
    status, reason, change = STRAGGLERS[rank]
    finding = stragglers[rank]
    assert (finding["status"], finding["reason"]) == (status, reason)
    assert finding["cost_ns"] == (None if status == "unknown" else STRAGGLER_COST.get(rank, 0))
    if change:
        first = matching_experiments(RULES.rule("straggler"), finding["evidence"])[0]
        assert first.change.startswith(change)


def test_every_rule_has_a_hit_and_a_clear_case() -> None:
    for rule in RULES:
        if rule.id != "straggler":  # has cases of its own
            assert {"hit", "clear"} <= {case.status for case in CASES.values() if case.rule == rule.id}, rule.id


def test_every_experiment_is_the_first_of_a_case(answers: dict[tuple[str, str], dict[str, Any]], stragglers: dict[int, dict[str, Any]]) -> None:
    findings = [(case.rule, answers[name, case.rule]) for name, case in CASES.items()]
    findings += [("straggler", finding) for finding in stragglers.values()]
    matching = [(rule, matching_experiments(RULES.rule(rule), finding["evidence"])) for rule, finding in findings if finding["status"] == "hit"]
    first = {(rule, experiments[0].when) for rule, experiments in matching if experiments}
    assert {(rule.id, experiment.when) for rule in RULES for experiment in rule.experiments} == first


def test_without_any_path_every_rule_is_unknown(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = build_run(tmp_path_factory.mktemp("empty") / "run", host_event="ts_ns | dur_ns\n0 | 1")
    with open_sandbox(run) as connection:
        assert {row["status"] for row in run_rules(connection, RULES).to_pylist()} == {"unknown"}
