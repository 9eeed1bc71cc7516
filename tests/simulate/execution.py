"""One execution of a job: what happened, and the exact truth about it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from .kineto import op_span_ns, to_kineto
from .machine import Simulation
from .nsys import write_nsys_sqlite
from .program import programs
from .spec import Cause, JobSpec, without
from .starts import thread_starts
from .state import Piece, RankState

OWNER_MIN_SHARE = 0.05
"""Below this share of the makespan no cause owns the job: it is bound by `compute`."""


@dataclass(frozen=True)
class Segment:
    """A stretch of a critical path, ns since the start of the window. `resource` is a thread name or `stream N`."""

    rank: int
    start_ns: int
    dur_ns: int
    resource: str
    cause: Cause
    detail: str


@dataclass(frozen=True)
class Truth:
    """What is exactly true of a job, or of one rank looked at alone.

    `savings_ns` is makespan minus the makespan without the cause, for each cause that exists; `totals_ns` the time of
    each cause on the critical path, whose sum is the makespan.
    """

    makespan_ns: int
    savings_ns: Mapping[Cause, int]
    totals_ns: Mapping[Cause, int]

    @property
    def owner(self) -> Cause:
        """The cause with the largest saving, `compute` when none reaches 5 % of the makespan."""
        ranked = self.ranked()
        return ranked[0] if ranked and self.saving_share(ranked[0]) >= OWNER_MIN_SHARE else Cause.COMPUTE

    def ranked(self) -> list[Cause]:
        """Causes other than compute, largest saving first."""
        causes = [cause for cause in self.savings_ns if cause is not Cause.COMPUTE]
        return sorted(causes, key=lambda cause: (-self.savings_ns[cause], cause))

    def saving_share(self, cause: Cause) -> float:
        """Saving as a share of the makespan; 0 for a cause that the job does not have."""
        return self.savings_ns.get(cause, 0) / self.makespan_ns

    def owners(self, tolerance_share: float = 0.02) -> frozenset[Cause]:
        """Every answer that is right within `tolerance_share` of the makespan, on the owner and on its threshold."""
        best = max([self.saving_share(cause) for cause in self.ranked()], default=0.0)
        good = {cause for cause in self.ranked() if self.saving_share(cause) >= max(best, OWNER_MIN_SHARE) - tolerance_share}
        if best < OWNER_MIN_SHARE + tolerance_share:
            good.add(Cause.COMPUTE)
        return frozenset(good)


def simulate(spec: JobSpec) -> Execution:
    """Run the job. The same spec gives the same execution, to the ns."""
    simulation = Simulation(spec)
    for rank in range(spec.ranks):
        simulation.add_rank(rank, programs(spec, rank), thread_starts(spec, rank))
    simulation.run()
    return Execution(spec, simulation.ranks)


class Execution:
    """A finished run: `ranks[r]` holds the records, device operations and pieces of rank r."""

    def __init__(self, spec: JobSpec, ranks: dict[int, RankState]) -> None:
        self.spec, self.ranks = spec, ranks

    @property
    def makespan_ns(self) -> int:
        """From the start of the first step (0) to the end of all host and device work of the last, over all ranks."""
        return max(state.end_ns for state in self.ranks.values())

    def steps(self, rank: int) -> list[tuple[int, int, int]]:
        """(number, start_ns, end_ns) of the rank's step ranges on the host."""
        records = self.ranks[rank].records
        return [(int(r.name.partition("#")[2]), r.start_ns, r.end_ns) for r in records if r.name.startswith("ProfilerStep#")]

    def to_kineto(self, rank: int) -> dict[str, Any]:
        """The trace that the torch profiler would have written on `rank`, ready for `json.dump`."""
        return to_kineto(self.spec, self.ranks[rank])

    def to_nsys_sqlite(self, path: Path, rank: int = 0) -> None:
        """Write the SQLite export that Nsight Systems would have made of `rank`, to a new file."""
        write_nsys_sqlite(self.spec, self.ranks[rank], path)

    # -- critical paths ----------------------------------------------------------------------------------------------

    def path(self, rank: int, *, alone: bool = True) -> list[Segment]:
        """The critical path of one rank, in order, without hole or overlap, from 0 to the rank's end.

        Waiting in a collective for a later rank is `exposed_comm` when the rank is looked at `alone`, else `straggler`.
        Communication while a compute kernel of the same device runs counts as `compute` (detail `hidden_comm`).
        """
        state = self.ranks[rank]
        segments = list(_walk(state.end_piece, state.end_ns, cross=False))[::-1]
        return [part for segment in segments for part in self._label(segment, alone)]

    def job_path(self) -> list[Segment]:
        """The critical path of the job: from the last rank's end, changing to the late rank at each collective."""
        state = max(self.ranks.values(), key=lambda state: state.end_ns)
        segments = list(_walk(state.end_piece, state.end_ns, cross=True))[::-1]
        return [part for segment in segments for part in self._label(segment, True)]

    def _label(self, segment: Segment, alone: bool) -> Iterator[Segment]:
        if segment.detail not in ("comm_wait", "kernel") or segment.cause is not Cause.EXPOSED_COMM:
            yield segment
            return
        if segment.detail == "comm_wait" and not alone:
            segment = replace(segment, cause=Cause.STRAGGLER)
        starts, ends = self._compute_intervals[segment.rank]
        at, end = segment.start_ns, segment.start_ns + segment.dur_ns
        index = max(0, bisect_right(starts, at) - 1)
        for start, stop in zip(starts[index:], ends[index:], strict=True):
            if start >= end:
                break
            if stop <= at:
                continue
            if start > at:
                yield replace(segment, start_ns=at, dur_ns=start - at)
            begin, at = max(start, at), min(stop, end)
            yield replace(segment, start_ns=begin, dur_ns=at - begin, cause=Cause.COMPUTE, detail="hidden_comm")
        if at < end:
            yield replace(segment, start_ns=at, dur_ns=end - at)

    @cached_property
    def _compute_intervals(self) -> dict[int, tuple[list[int], list[int]]]:
        """Per rank the starts and ends of its compute kernels; they share one stream, so they are disjoint and in order."""
        found = {}
        for rank, state in self.ranks.items():
            pieces = [op.piece for op in state.ops if op.work.collective is None and op.work.kind == "kernel" and op.piece]
            found[rank] = ([piece.start_ns for piece in pieces], [piece.end_ns for piece in pieces])
        return found

    # -- truth -------------------------------------------------------------------------------------------------------

    @cached_property
    def truth(self) -> Truth:
        """The truth of the whole job; the path is `job_path`."""
        savings = {cause: self.makespan_ns - simulate(without(self.spec, cause)).makespan_ns for cause in self._causes()}
        return Truth(self.makespan_ns, savings, totals_ns(self.job_path()))

    def rank_truth(self, rank: int) -> Truth:
        """The truth of one rank whose trace is looked at alone: collectives keep their recorded duration.

        This is what a replay of one rank's trace should find. Causes go by sight: a straggler's extra is `data_wait` or
        `host_bound`, printing that no event shows is `host_other`.
        """
        frozen = {}
        for op in self.ranks[rank].ops:
            if op.work.collective is not None:
                start_ns, end_ns = op_span_ns(op)
                frozen[op.work.collective] = end_ns - start_ns
        causes = set(self._causes()) - {Cause.STRAGGLER}
        if self.spec.straggler is not None and self.spec.straggler.rank == rank:
            causes.add(self.spec.straggler.kind)
        if any(part is not None and part.shown == "nothing" for part in (self.spec.logging, self.spec.checkpoint)):
            causes.add(Cause.HOST_OTHER)
        end_ns = self.ranks[rank].end_ns
        savings = {}
        for cause in sorted(causes):
            changed = without(self.spec, cause)
            simulation = Simulation(changed, {} if cause is Cause.EXPOSED_COMM else frozen)
            simulation.add_rank(rank, programs(changed, rank, by_sight=True), thread_starts(changed, rank))
            simulation.run()
            savings[cause] = end_ns - simulation.ranks[rank].end_ns
        return Truth(end_ns, savings, totals_ns(self.path(rank)))

    def _causes(self) -> list[Cause]:
        return [cause for cause in self.spec.causes() if cause not in self.spec.removed]


def totals_ns(path: Iterable[Segment]) -> dict[Cause, int]:
    """Time per cause on a path."""
    totals: dict[Cause, int] = {}
    for segment in path:
        totals[segment.cause] = totals.get(segment.cause, 0) + segment.dur_ns
    return totals


def _walk(piece: Piece | None, at_ns: int, *, cross: bool) -> Iterator[Segment]:
    """From the end back to 0 along the binding dependencies; with `cross` through the rank that a collective waited for."""
    while piece is not None and at_ns > 0:
        start_ns = max(piece.start_ns, 0)
        if at_ns > start_ns:
            yield Segment(piece.rank, start_ns, at_ns - start_ns, piece.resource, piece.cause, piece.detail)
            at_ns = start_ns
        if cross and piece.last is not None:
            piece = piece.last
            continue
        if piece.before_ns < at_ns:
            before_ns = max(piece.before_ns, 0)
            yield Segment(piece.rank, before_ns, at_ns - before_ns, piece.resource, piece.gap_cause, piece.gap_detail)
            at_ns = before_ns
        piece = piece.before
    if at_ns > 0:
        raise RuntimeError(f"the path breaks off {at_ns} ns after the start of the window")
