"""A simulator of training jobs whose critical path, bottleneck and savings are known exactly.

`simulate(spec)` runs a job by discrete events; `execution.truth` says what owns it and what each cause costs, found by
running the same job without it; `execution.to_kineto(rank)` writes what a profiler would have recorded.
"""

from .execution import Execution, Segment, Truth, simulate, totals_ns
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
    with_buckets,
    with_cuda_graph,
    with_log_every,
    with_pinned,
    with_workers,
    without,
)

__all__ = [
    "Allocations",
    "Cause",
    "Checkpoint",
    "Comm",
    "CompileStall",
    "Copy",
    "Execution",
    "JobSpec",
    "Loader",
    "Logging",
    "Machine",
    "Model",
    "Pause",
    "Segment",
    "Straggler",
    "Syncs",
    "TraceOptions",
    "Truth",
    "simulate",
    "totals_ns",
    "with_buckets",
    "with_cuda_graph",
    "with_log_every",
    "with_pinned",
    "with_workers",
    "without",
]
