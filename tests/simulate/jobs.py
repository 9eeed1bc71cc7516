"""Jobs to simulate: a random one per seed, and small hand-made ones whose answer anyone can work out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from .spec import (
    Allocations,
    Cause,
    Checkpoint,
    Comm,
    CompileStall,
    Copy,
    JobSpec,
    Loader,
    Logging,
    Machine,
    Model,
    Pause,
    Straggler,
    Syncs,
    TraceOptions,
)

MS = 1_000_000
US = 1_000


def device_work_ns(model: Model) -> int:
    """Kernel time of one step without noise: forward, twice that for backward, and the optimizer."""
    return (3 * model.layers * model.kernels_per_layer + model.optimizer_kernels) * model.kernel_ns


def _loader(spec: JobSpec, rng: Random, cost_ns: int) -> JobSpec:
    """A loader that takes `cost_ns` of each step where nothing hides it."""
    workers = rng.choice((0, 0, 1, 2, 4))
    wait_ns = cost_ns + (device_work_ns(spec.model) if workers else 0)
    loader = Loader(max(1, workers) * wait_ns, workers, prefetch=rng.choice((1, 2)), pin_thread=workers > 0 and rng.random() < 0.5)
    return replace(spec, loader=loader)


def _hidden_loader(spec: JobSpec, rng: Random, _: int) -> JobSpec:
    workers = rng.choice((2, 4))
    batch_ns = int(workers * device_work_ns(spec.model) * rng.uniform(0.3, 0.75))
    return replace(spec, loader=Loader(batch_ns, workers, warm=True, pin_thread=rng.random() < 0.5))


def _copy(spec: JobSpec, rng: Random, cost_ns: int) -> JobSpec:
    pinned = rng.random() < 0.3
    return replace(spec, copy=Copy(cost_ns, pinned=pinned, bytes_per_us=25_000 if pinned else 5_000))


def _hidden_copy(spec: JobSpec, rng: Random, _: int) -> JobSpec:
    copy_ns = int(device_work_ns(spec.model) * rng.uniform(0.1, 0.6))
    return replace(spec, copy=Copy(copy_ns, pinned=True, prefetch=True, bytes_per_us=25_000))


def _comm(spec: JobSpec, rng: Random, cost_ns: int) -> JobSpec:
    buckets = rng.randint(1, 4)
    overlap = rng.random() < 0.4
    # Overlapped buckets hide under the backward until the last; only what goes beyond it is exposed.
    total_ns = cost_ns + (device_work_ns(spec.model) // 2 if overlap and buckets > 1 else 0)
    return replace(spec, comm=Comm(total_ns // buckets, buckets, overlap), ranks=max(spec.ranks, rng.choice((1, 2, 4))))


def _hidden_comm(spec: JobSpec, rng: Random, _: int) -> JobSpec:
    buckets = rng.randint(3, 4)
    transfer_ns = int(device_work_ns(spec.model) * rng.uniform(0.005, 0.03))
    return replace(spec, comm=Comm(transfer_ns, buckets), ranks=rng.choice((1, 2)))


def _straggler(spec: JobSpec, rng: Random, cost_ns: int) -> JobSpec:
    ranks = rng.choice((2, 4, 8))
    kind = rng.choice((Cause.DATA_WAIT, Cause.HOST_BOUND))
    # The late rank's host must be later than its device's backlog, or nobody notices: read a scalar every step.
    comm = Comm(int(0.02 * device_work_ns(spec.model)), rng.randint(1, 3), overlap=True)
    late = Straggler(rng.randrange(ranks), cost_ns, kind)
    return replace(spec, ranks=ranks, comm=comm, straggler=late, logging=Logging(20 * US))


def _compile(spec: JobSpec, rng: Random, cost_ns: int) -> JobSpec:
    steps = tuple(sorted(rng.sample(range(1, spec.steps), rng.randint(1, 2))))
    return replace(spec, compile=CompileStall(cost_ns * spec.steps // len(steps) + device_work_ns(spec.model), steps))


def _logging(spec: JobSpec, rng: Random, cost_ns: int) -> JobSpec:
    every = rng.choice((1, 1, 2))
    return replace(spec, logging=Logging(cost_ns * every, rng.randint(1, 4), every, rng.choice(("range", "python"))))


def _checkpoint(spec: JobSpec, rng: Random, cost_ns: int) -> JobSpec:
    every = rng.choice((2, 3, 4))
    write_ns = cost_ns * spec.steps // (spec.steps // every)
    return replace(spec, checkpoint=Checkpoint(write_ns, every, shown=rng.choice(("range", "python"))))


def _host_bound(spec: JobSpec, rng: Random, cost_ns: int) -> JobSpec:
    """Operators so slow, or kernels so short, that the device waits for each launch."""
    model = spec.model
    kernels = 2 * model.layers * model.kernels_per_layer + model.optimizer_kernels
    op_ns = (device_work_ns(model) + cost_ns) // kernels
    if rng.random() < 0.5:
        model = replace(model, kernel_ns=rng.randint(2, 12) * US)
        op_ns = rng.randint(15, 60) * US
    return replace(spec, model=replace(model, op_ns=op_ns, gap_ns=rng.randint(1, 20) * US))


def _memory(spec: JobSpec, rng: Random, cost_ns: int) -> JobSpec:
    count = rng.randint(1, min(4, spec.model.layers))
    return replace(spec, memory=Allocations(2 * cost_ns // count, count))


def _sync(spec: JobSpec, rng: Random, cost_ns: int) -> JobSpec:
    """Synchronisation that costs: after the update, so that the host's slow start into the next step is exposed.

    A faster host would save as much, and in the first step nothing else can: many steps make the two a near tie.
    """
    slow_ns = min(cost_ns, int(0.3 * device_work_ns(spec.model)))
    return replace(spec, steps=12, sync=Syncs(rng.randint(0, 2), at_end=True), model=replace(spec.model, forward_ns=slow_ns))


def _harmless_sync(spec: JobSpec, rng: Random, _: int) -> JobSpec:
    """Scalar reads and synchronisations that wait only for work that would be waited for anyway."""
    return replace(spec, sync=Syncs(1), logging=Logging(10 * US)) if rng.random() < 0.5 else replace(spec, sync=Syncs(1))


def _pause(spec: JobSpec, rng: Random, cost_ns: int) -> JobSpec:
    every = rng.choice((1, 2))
    return replace(spec, pause=Pause((cost_ns + device_work_ns(spec.model)) * every, every))


def _graph(spec: JobSpec, _: Random, __: int) -> JobSpec:
    return replace(spec, model=replace(spec.model, cuda_graph=True))


def _full_queue(spec: JobSpec, rng: Random, _: int) -> JobSpec:
    return replace(spec, machine=replace(spec.machine, queue_depth=rng.randint(4, 24)))


def _healthy(spec: JobSpec, _: Random, __: int) -> JobSpec:
    return spec


Plant = Callable[[JobSpec, Random, int], JobSpec]
PLANTS: dict[str, Plant] = {
    "data_wait": _loader,
    "h2d": _copy,
    "exposed_comm": _comm,
    "straggler": _straggler,
    "compile": _compile,
    "logging": _logging,
    "checkpoint": _checkpoint,
    "host_bound": _host_bound,
    "memory": _memory,
    "sync": _sync,
    "host_other": _pause,
}
"""What makes a job slow, by the cause it plants. A `cost_ns` is what it should add to a step."""
NEGATIVES: dict[str, Plant] = {
    "healthy": _healthy,
    "hidden_loader": _hidden_loader,
    "hidden_copy": _hidden_copy,
    "hidden_comm": _hidden_comm,
    "harmless_sync": _harmless_sync,
    "cuda_graph": _graph,
    "full_queue": _full_queue,
}
"""What looks like a cause and costs nothing, or next to nothing."""
_REPLACES = {
    "hidden_loader": {"data_wait"},
    "hidden_copy": {"h2d"},
    "hidden_comm": {"exposed_comm", "straggler"},
    "harmless_sync": {"sync", "logging", "straggler"},
}
"""Negatives that would take the place of a planted cause's parameters."""
KINDS = (*PLANTS, *NEGATIVES, "mixed", "mixed")


def random_spec(seed: int) -> JobSpec:
    """The job of this seed. Consecutive seeds go through all kinds: each cause alone, each negative, and mixtures."""
    rng = Random(seed)
    kind = KINDS[seed % len(KINDS)]
    spec = _base(seed, rng)
    step_ns = device_work_ns(spec.model)
    if kind == "mixed":
        chosen = rng.sample(list(PLANTS), rng.randint(2, 3))
        chosen += [name for name in rng.sample(list(NEGATIVES), 1) if not _REPLACES.get(name, set()) & set(chosen)]
        # What sets the model goes first, so that the others are sized by it.
        chosen.sort(key=lambda name: name not in ("host_bound", "sync", "cuda_graph"))
    else:
        chosen = [kind]
    for name in chosen:
        cost_ns = int(step_ns * rng.uniform(0.12, 1.2) / len(chosen))
        spec = (PLANTS | NEGATIVES)[name](spec, rng, cost_ns)
    return _sized(replace(spec, name=f"{kind}-{seed}", trace=_trace(rng, spec.ranks)))


def _base(seed: int, rng: Random) -> JobSpec:
    """A device-bound job whose host is two to eight times faster than its device."""
    kernel_ns = rng.randint(80, 500) * US
    model = Model(
        layers=rng.randint(4, 10),
        kernels_per_layer=rng.randint(1, 3),
        kernel_ns=kernel_ns,
        optimizer_kernels=rng.randint(1, 4),
        op_ns=int(kernel_ns * rng.uniform(0.05, 0.3)),
        launch_ns=rng.randint(3, 9) * US,
        gap_ns=rng.randint(1, 6) * US,
        autograd_thread=rng.random() < 0.8,
    )
    machine = Machine(launch_latency_ns=rng.randint(4, 9) * US, device_gap_ns=rng.randint(800, 1_900))
    return JobSpec(seed=seed, steps=rng.randint(4, 12), noise_share=rng.choice((0.0, 0.02, 0.05, 0.1)), model=model, machine=machine)


def _trace(rng: Random, ranks: int) -> TraceOptions:
    skewed = ranks > 1 and rng.random() < 0.5
    return TraceOptions(
        sync_records=rng.random() < 0.5,
        flows=rng.random() < 0.8,
        comm_metadata=rng.random() < 0.8,
        comm_sequence=rng.random() < 0.5,
        queue_full_records=rng.random() < 0.5,
        device_annotations=rng.random() < 0.7,
        final_sync=rng.random() < 0.7,
        clock_offset_ns=tuple(rng.randint(-5 * MS, 5 * MS) if rank else 0 for rank in range(ranks)) if skewed else (),
        clock_drift_ppb=tuple(rng.randint(-20_000, 20_000) if rank else 0 for rank in range(ranks)) if skewed else (),
    )


def _sized(spec: JobSpec, most_kernels: int = 900) -> JobSpec:
    """Fewer layers for many ranks, so that every job stays at a few thousand events."""
    model = spec.model
    per_layer = 2 * model.kernels_per_layer * spec.steps * spec.ranks
    layers = max(2, min(model.layers, most_kernels // per_layer))
    memory = spec.memory if spec.memory is None else replace(spec.memory, count=min(spec.memory.count, layers))
    return replace(spec, model=replace(model, layers=layers), memory=memory)
