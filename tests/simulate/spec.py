"""What a simulated training job is made of: its costs, and the causes planted in it.

Every duration is an integer in ns. A spec holds costs only; what follows from them is worked out by `machine.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum


class Cause(StrEnum):
    """Class ids of a cause of wall time, as the engine names them."""

    DATA_WAIT = "data_wait"
    H2D = "h2d"
    EXPOSED_COMM = "exposed_comm"
    STRAGGLER = "straggler"
    COMPILE = "compile"
    LOGGING = "logging"
    CHECKPOINT = "checkpoint"
    HOST_BOUND = "host_bound"
    COMPUTE = "compute"
    MEMORY = "memory"
    SYNC = "sync"
    HOST_OTHER = "host_other"


@dataclass(frozen=True)
class Model:
    """The work of one step: `layers` forward operators, their backward twins, and the optimizer's kernels.

    Each operator costs the host `op_ns` (split around its launches), every launch `launch_ns`, and the loop leaves
    `gap_ns` of plain Python between operators. Kernels last `kernel_ns` in forward, twice that in backward.
    """

    layers: int = 8
    kernels_per_layer: int = 2
    kernel_ns: int = 300_000
    optimizer_kernels: int = 3
    op_ns: int = 14_000
    launch_ns: int = 4_500
    gap_ns: int = 3_000
    autograd_thread: bool = True
    cuda_graph: bool = False
    forward_ns: int | None = None
    """Host time of the first forward operator, when it differs from `op_ns` (a slow eager part)."""


@dataclass(frozen=True)
class Machine:
    """Costs of host and device that belong to no cause: see `machine.py` for how each is spent."""

    queue_depth: int = 1024
    launch_latency_ns: int = 6_000
    device_gap_ns: int = 1_200
    sync_return_ns: int = 9_000
    call_ns: int = 1_500


@dataclass(frozen=True)
class Loader:
    """Batches: decoded on the loop's thread (`workers` 0) or by workers with `prefetch` batches each in flight.

    `warm` means that the capture starts with every worker's first batch done; otherwise the workers are caught
    evenly staggered, as in the steady state of a starved loader. `collate_ns` is paid on the loop's thread.
    """

    batch_ns: int
    workers: int = 0
    prefetch: int = 2
    warm: bool = False
    collate_ns: int = 40_000
    pin_thread: bool = False
    pin_ns: int = 300_000


@dataclass(frozen=True)
class Copy:
    """One host-to-device copy per step that lasts `copy_ns` on the device.

    Pageable copies stage on the host for `stage_ns`, block the calling thread until done, and are followed by a
    stream synchronise. Pinned ones return at once; with `prefetch` they run a step ahead on a stream of their own.
    """

    copy_ns: int
    pinned: bool = False
    prefetch: bool = False
    stage_ns: int = 200_000
    call_ns: int = 8_000
    bytes_per_us: int = 12_000


@dataclass(frozen=True)
class Comm:
    """Gradient all-reduce in `buckets` pieces of `transfer_ns` each, released by the last rank to arrive.

    With `overlap` a bucket starts when its layers' backward is enqueued, else all start after the backward.
    """

    transfer_ns: int
    buckets: int = 1
    overlap: bool = True
    enqueue_ns: int = 40_000


@dataclass(frozen=True)
class Straggler:
    """`rank` is later than the others by `extra_ns` a step: in its loader (`data_wait`) or on its loop (`host_bound`)."""

    rank: int
    extra_ns: int
    kind: Cause = Cause.DATA_WAIT


@dataclass(frozen=True)
class CompileStall:
    """A recompilation of `stall_ns` at the start of the forward in each of `steps`."""

    stall_ns: int
    steps: tuple[int, ...]
    phases: int = 3


@dataclass(frozen=True)
class Logging:
    """Every `every` steps: `reads` blocking scalar reads, then `print_ns` of formatting and flushing.

    `shown` is how the capture shows the printing: a `range`, a `python` frame, or `nothing`.
    """

    print_ns: int
    reads: int = 1
    every: int = 1
    shown: str = "range"


@dataclass(frozen=True)
class Checkpoint:
    """Every `every` steps: `tensors` copies back to the host, then `write_ns` of writing. `shown` as in Logging."""

    write_ns: int
    every: int = 4
    tensors: int = 4
    copy_ns: int = 200_000
    shown: str = "range"


@dataclass(frozen=True)
class Allocations:
    """`count` allocations a step that miss the cache: `cudaMalloc` each, and one `cudaFree` that waits for the device."""

    malloc_ns: int
    count: int = 2
    free_ns: int = 100_000


@dataclass(frozen=True)
class Syncs:
    """`per_step` explicit device synchronisations, spread over the forward; one more after the update with `at_end`."""

    per_step: int = 1
    at_end: bool = False


@dataclass(frozen=True)
class Pause:
    """`pause_ns` at the end of each step that no event covers: garbage collection, a lock, a slow callback."""

    pause_ns: int
    every: int = 1


@dataclass(frozen=True)
class TraceOptions:
    """What the capture records besides operators, calls and device work; and each rank's clock.

    `clock_offset_ns` and `clock_drift_ppb` have one entry per rank, or are empty for perfect clocks.
    """

    sync_records: bool = True
    flows: bool = True
    python_stacks: bool = False
    comm_metadata: bool = True
    comm_sequence: bool = False
    queue_full_records: bool = True
    device_annotations: bool = True
    final_sync: bool = True
    clock_offset_ns: tuple[int, ...] = ()
    clock_drift_ppb: tuple[int, ...] = ()


@dataclass(frozen=True)
class JobSpec:
    """A training job. None in a cause's place means that the job does not have it.

    `removed` lists the causes taken out by `without`. Noise is a factor drawn for each cost by its identity
    (seed, rank, step, place), so a cost keeps its noise whatever else is removed.
    """

    name: str = "job"
    seed: int = 0
    ranks: int = 1
    steps: int = 6
    noise_share: float = 0.0
    model: Model = field(default_factory=Model)
    machine: Machine = field(default_factory=Machine)
    loader: Loader | None = None
    copy: Copy | None = None
    comm: Comm | None = None
    straggler: Straggler | None = None
    compile: CompileStall | None = None
    logging: Logging | None = None
    checkpoint: Checkpoint | None = None
    memory: Allocations | None = None
    sync: Syncs | None = None
    pause: Pause | None = None
    trace: TraceOptions = field(default_factory=TraceOptions)
    removed: frozenset[Cause] = frozenset()

    def causes(self) -> tuple[Cause, ...]:
        """Every cause that this job spends time on, removed ones included."""
        planted = {
            Cause.DATA_WAIT: self.loader,
            Cause.H2D: self.copy,
            Cause.EXPOSED_COMM: self.comm,
            Cause.STRAGGLER: self.straggler,
            Cause.COMPILE: self.compile,
            Cause.LOGGING: self.logging,
            Cause.CHECKPOINT: self.checkpoint,
            Cause.MEMORY: self.memory,
            Cause.SYNC: self.sync,
            Cause.HOST_OTHER: self.pause,
        }
        return (*(cause for cause, part in planted.items() if part is not None), Cause.HOST_BOUND, Cause.COMPUTE)


def without(spec: JobSpec, *causes: Cause) -> JobSpec:
    """The same job with these causes removed: their host and device work is gone, and nothing waits for it.

    `exposed_comm` removes the transfer time and keeps the meeting of the ranks; `straggler` removes only what makes
    the late rank late; `compute` leaves kernels of zero length; `host_bound` leaves operators, launches and Python
    of zero length.
    """
    return replace(spec, removed=spec.removed | set(causes))


def with_workers(spec: JobSpec, workers: int) -> JobSpec:
    """The named experiment `workers=N`: the same decode work, done by N worker processes."""
    if spec.loader is None:
        raise ValueError("the job has no loader")
    return replace(spec, loader=replace(spec.loader, workers=workers))


def with_pinned(spec: JobSpec, bytes_per_us: int = 25_000) -> JobSpec:
    """The named experiment `pinned`: the same bytes at pinned bandwidth, without blocking the caller."""
    if spec.copy is None:
        raise ValueError("the job has no copy")
    copy_ns = spec.copy.copy_ns * spec.copy.bytes_per_us // bytes_per_us
    return replace(spec, copy=replace(spec.copy, pinned=True, copy_ns=copy_ns, bytes_per_us=bytes_per_us))


def with_cuda_graph(spec: JobSpec) -> JobSpec:
    """The named experiment `cuda_graph`: the step's kernels under one launch."""
    return replace(spec, model=replace(spec.model, cuda_graph=True))


def with_log_every(spec: JobSpec, every: int) -> JobSpec:
    """The named experiment `log_every=N`."""
    if spec.logging is None:
        raise ValueError("the job does not log")
    return replace(spec, logging=replace(spec.logging, every=every))


def with_buckets(spec: JobSpec, buckets: int, latency_ns: int = 20_000) -> JobSpec:
    """The named experiment `buckets=N`: the same bytes in N collectives, each with `latency_ns` of fixed cost."""
    if spec.comm is None:
        raise ValueError("the job does not communicate")
    wire_ns = max(0, spec.comm.transfer_ns - latency_ns) * spec.comm.buckets
    return replace(spec, comm=replace(spec.comm, buckets=buckets, transfer_ns=wire_ns // buckets + latency_ns))
