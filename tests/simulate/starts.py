"""When threads start that run ahead of the window."""

from __future__ import annotations

from .spec import Cause, JobSpec


def thread_starts(spec: JobSpec, rank: int) -> dict[str, int]:
    """When loader workers start, relative to the window: before it, so that the capture begins in a steady state."""
    loader = spec.loader
    if loader is None:
        return {}
    late = spec.straggler
    late_ns = late.extra_ns * loader.workers if late is not None and late.rank == rank and late.kind is Cause.DATA_WAIT else 0
    batch_ns = loader.batch_ns + late_ns
    starts: dict[str, int] = {}
    for worker in range(loader.workers):
        lead_ns = 2 * (batch_ns + loader.pin_ns) if loader.warm else batch_ns - (worker + 1) * batch_ns // loader.workers
        starts[f"loader {worker}"] = -lead_ns
    starts["pin_memory"] = min(starts.values(), default=0)
    return starts
