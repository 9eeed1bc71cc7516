"""Named experiments on simulated jobs: what the replay of a rank's trace promises, and what the same job with the change takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.accuracy.compare import import_job
from tests.simulate import JobSpec, simulate, with_buckets, with_cuda_graph, with_log_every, with_pinned, with_workers
from traceengine.names import load_names
from traceengine.path.changes import parse_change
from traceengine.path.critical import rank_replays


@dataclass(frozen=True)
class Planned:
    """A change in both languages: `text` for the replay, `change` for the simulator; None for jobs that cannot have it."""

    text: str
    change: Callable[[JobSpec], JobSpec | None]


@dataclass(frozen=True)
class Tried:
    """One experiment on one job; times in ns over the whole window. `promised_ns` is None when it is not estimable."""

    job: str
    experiment: str
    makespan_ns: int
    promised_ns: int | None
    true_ns: int
    bound: str
    reason: str

    @property
    def error(self) -> float:
        """Promised minus true saving as a share of the job's time; 0 where nothing was promised."""
        return 0.0 if self.promised_ns is None else (self.promised_ns - self.true_ns) / self.makespan_ns


def _workers(spec: JobSpec) -> JobSpec | None:
    if spec.loader is None or spec.loader.workers:
        return None
    # As a torch user would get it: two batches ahead, no pin-memory thread.
    return with_workers(replace(spec, loader=replace(spec.loader, prefetch=2, pin_thread=False)), 4)


def _pinned(spec: JobSpec) -> JobSpec | None:
    return None if spec.copy is None or spec.copy.pinned else with_pinned(spec)


def _log_every(spec: JobSpec) -> JobSpec | None:
    return None if spec.logging is None or spec.logging.every > 1 or spec.logging.shown == "nothing" else with_log_every(spec, 3)


def _buckets(spec: JobSpec) -> JobSpec | None:
    if spec.comm is None:
        return None
    return with_buckets(replace(spec, comm=replace(spec.comm, overlap=True)), min(4, spec.model.layers))


def _cuda_graph(spec: JobSpec) -> JobSpec | None:
    # Work inside the step that cannot be captured would be lost from the simulated graph.
    whole = spec.memory is None and spec.sync is None and spec.compile is None and spec.comm is None
    return with_cuda_graph(spec) if whole and not spec.model.cuda_graph else None


PLANNED = (
    Planned("workers=4", _workers),
    Planned("pinned=25", _pinned),
    Planned("log_every=3", _log_every),
    Planned("buckets=4", _buckets),
    Planned("cuda_graph", _cuda_graph),
)


def try_experiments(spec: JobSpec, folder: Path) -> Iterator[Tried]:
    """Every experiment that the job, on a single rank, can have."""
    spec = replace(spec, ranks=1, straggler=None, trace=replace(spec.trace, clock_offset_ns=(), clock_drift_ppb=()))
    wanted = [(planned, changed) for planned in PLANNED if (changed := planned.change(spec)) is not None]
    if not wanted:
        return
    execution = simulate(spec)
    run = import_job(execution, folder)
    _, replays = rank_replays(run, 0, load_names(), [(parse_change(planned.text),) for planned, _ in wanted])
    for (planned, changed), found in zip(wanted, replays.what_ifs, strict=True):
        promised = None if found.without is None else found.makespan - found.without
        true_ns = execution.makespan_ns - simulate(changed).makespan_ns
        yield Tried(spec.name, planned.text, execution.makespan_ns, promised, true_ns, found.bound, found.reason)
