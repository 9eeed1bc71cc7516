"""Small jobs without noise whose bottleneck and times can be worked out by hand."""

from __future__ import annotations

from .jobs import MS, US
from .spec import Cause, Comm, CompileStall, Copy, JobSpec, Loader, Logging, Machine, Model, Straggler, Syncs, TraceOptions

_SHORT = Model(layers=1, kernels_per_layer=1, optimizer_kernels=1, kernel_ns=4_750 * US)
"""19 ms of device work a step: forward 4.75, backward 9.5, optimizer 4.75."""
_READ = Logging(0, reads=1)
"""A scalar read each step, which keeps the host from running ahead."""
_PLAIN = TraceOptions(sync_records=False, queue_full_records=False)


def _named(*specs: JobSpec) -> dict[str, JobSpec]:
    return {spec.name: spec for spec in specs}


CLASSICS: dict[str, JobSpec] = _named(
    JobSpec("data_wait", steps=4, model=_SHORT, loader=Loader(79 * MS, collate_ns=0), logging=_READ),
    JobSpec("data_wait_workers", steps=4, model=_SHORT, loader=Loader(2 * 98 * MS, workers=2, collate_ns=0), logging=_READ),
    JobSpec("hidden_loader", steps=6, loader=Loader(10 * MS, workers=2, warm=True)),
    JobSpec("pageable_copy", steps=4, model=_SHORT, copy=Copy(60 * MS, bytes_per_us=3_000)),
    JobSpec("pinned_copy", steps=4, model=_SHORT, copy=Copy(30 * MS, pinned=True, bytes_per_us=25_000)),
    JobSpec("hidden_copy", steps=6, copy=Copy(8 * MS, pinned=True, prefetch=True)),
    JobSpec("exposed_all_reduce", steps=4, model=_SHORT, comm=Comm(70 * MS), logging=_READ),
    JobSpec("exposed_all_reduce_no_events", steps=4, model=_SHORT, comm=Comm(70 * MS), logging=_READ, trace=_PLAIN),
    JobSpec("hidden_all_reduce", steps=4, model=Model(layers=20), comm=Comm(200 * US, 10)),
    JobSpec("queued_ahead", steps=4, model=Model(layers=6, kernels_per_layer=1, optimizer_kernels=8, kernel_ns=10 * MS)),
    JobSpec("queue_full", steps=4, machine=Machine(queue_depth=8)),
    JobSpec("one_graph", steps=4, model=Model(layers=5, optimizer_kernels=0, cuda_graph=True)),
    JobSpec("backward_thread", steps=4, model=Model(layers=4, kernel_ns=50 * US, op_ns=2 * MS, forward_ns=30 * MS)),
    JobSpec("backward_same_thread", steps=4, model=Model(layers=4, kernel_ns=50 * US, op_ns=2 * MS, autograd_thread=False)),
    JobSpec("tiny_kernels", steps=4, model=Model(layers=20, kernel_ns=3 * US, op_ns=30 * US)),
    JobSpec("item_every_step", steps=6, logging=_READ),
    JobSpec("slow_logging", steps=6, logging=Logging(9 * MS, reads=3)),
    JobSpec("unseen_logging", steps=6, logging=Logging(9 * MS, shown="nothing")),
    JobSpec("sync_every_step", steps=6, sync=Syncs(1)),
    JobSpec("recompile", steps=6, compile=CompileStall(120 * MS, (3,))),
    JobSpec("late_loader_rank", steps=5, ranks=2, comm=Comm(1 * MS), straggler=Straggler(1, 30 * MS), logging=_READ),
    JobSpec("late_host_rank", steps=5, ranks=4, comm=Comm(1 * MS), straggler=Straggler(2, 30 * MS, Cause.HOST_BOUND), logging=_READ),
)
"""By name. What each one's answer is stands in `tests/test_simulator.py`."""
