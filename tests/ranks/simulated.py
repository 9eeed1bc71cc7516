"""Simulated jobs of several ranks whose clocks are off and whose captures lack edges, beside their exact truth."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.simulate import Cause, Execution, JobSpec, simulate
from tests.simulate.jobs import PLANTS, random_spec
from tests.simulate.kineto import op_span_ns
from traceengine.analysis import Analysis, ensure_analysis
from traceengine.importers import ImportRequest, import_traces

MS = 1_000_000


@dataclass(frozen=True)
class Job:
    """A simulated job, what the engine made of it, and which collectives each rank's capture lacks at its edges."""

    execution: Execution
    analysis: Analysis
    missing: dict[int, set[str]]


def straggler_spec(seed: int, ranks: int | None = None) -> JobSpec:
    """A job with one late rank, clocks up to 50 ms and 20 ppm off."""
    rng = Random(seed)
    base = random_spec(seed * 1000)
    spec = PLANTS["straggler"](replace(base, comm=None, straggler=None, ranks=1), rng, int(rng.uniform(2, 30) * MS))
    if ranks is not None:
        assert spec.straggler is not None
        spec = replace(spec, ranks=ranks, straggler=replace(spec.straggler, rank=rng.randrange(ranks)))
    count = spec.ranks
    trace = replace(
        spec.trace,
        clock_offset_ns=tuple(rng.randint(-50 * MS, 50 * MS) for _ in range(count)),
        clock_drift_ppb=tuple(rng.randint(-20_000, 20_000) for _ in range(count)),
    )
    return replace(spec, name=f"straggler-{seed}", seed=seed, trace=trace)


def run_job(spec: JobSpec, folder: Path, *, drop: bool) -> Job:
    """Simulate, record every rank, import and analyse."""
    execution, rng, missing, paths = simulate(spec), Random(spec.seed), {}, []
    for rank in range(spec.ranks):
        document = execution.to_kineto(rank)
        missing[rank] = _drop_edges(execution, rank, document, rng) if drop else set()
        path = folder / f"rank{rank}.json"
        path.write_text(json.dumps(document))
        paths.append(path)
    return Job(execution, ensure_analysis(import_traces(ImportRequest(tuple(paths), out=folder / "run", jobs=1))), missing)


def _drop_edges(execution: Execution, rank: int, document: dict[str, Any], rng: Random) -> set[str]:
    """Take up to three of the first and of the last collectives from a rank's trace, and no more than a third of all."""
    kernels = sorted((e for e in document["traceEvents"] if e.get("cat") == "kernel" and "nccl" in e["name"].lower()), key=lambda e: e["ts"])
    keys = [op.work.collective for op in sorted(collective_ops(execution, rank), key=lambda op: op_span_ns(op)[0])]
    assert len(keys) == len(kernels)
    most = min(3, len(keys) // 6)
    first, last = rng.randint(0, most), rng.randint(0, most)
    chosen = [*range(min(first, len(keys))), *range(max(first, len(keys) - last), len(keys))]
    gone = {id(kernels[index]) for index in chosen}
    document["traceEvents"] = [event for event in document["traceEvents"] if id(event) not in gone]
    return {str(keys[index]) for index in chosen}


def collective_ops(execution: Execution, rank: int) -> list[Any]:
    """Device operations of the rank that are collectives."""
    return [op for op in execution.ranks[rank].ops if op.work.collective is not None]


def true_waits(job: Job, rank: int) -> int:
    """Sum over the rank's captured collectives of the time until the last captured rank arrived, in ns."""
    starts: dict[str, list[int]] = {}
    for other in range(job.execution.spec.ranks):
        for op in collective_ops(job.execution, other):
            if op.work.collective not in job.missing[other]:
                starts.setdefault(op.work.collective, []).append(op_span_ns(op)[0])
    own = {op.work.collective: op_span_ns(op)[0] for op in collective_ops(job.execution, rank)}
    return sum(max(starts[key]) - start for key, start in own.items() if key not in job.missing[rank] and len(starts.get(key, ())) > 1)


def true_saving(job: Job) -> int:
    """What the job takes less without its straggler, in ns."""
    return job.execution.truth.savings_ns[Cause.STRAGGLER]
