"""Simulated jobs, analysed as a user would, beside their exact truth: one row per rank.

The truth is that of the rank looked at alone (`Execution.rank_truth`): collectives keep their recorded duration, causes go by what a
reader of the trace can see.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tests.simulate import Cause, Execution, JobSpec, Truth, simulate
from traceengine.analysis import ensure_analysis
from traceengine.classes import class_ids
from traceengine.importers import ImportRequest, import_traces
from traceengine.names import load_names
from traceengine.path.critical import rank_path
from traceengine.run import Run
from traceengine.verdict import NOT_REMOVABLE, CauseCost, RankVerdict, VerdictParameters, ranked

OWNER_TOLERANCE_SHARE = 0.02
"""Two causes whose true savings differ by less than this share of the makespan are a tie; so is a share at the threshold."""
PATH_TOLERANCE_SHARE = 0.01
"""Path time per cause may differ from the truth by this share of the makespan."""
SAVING_TOLERANCE_SHARE = 0.03
"""A replayed saving may differ from the truth by this share of the makespan."""


@dataclass(frozen=True)
class Found:
    """What the engine says of one rank: times in ns over its window. `saving_ns` is empty when the replay is withheld."""

    window_ns: int
    path_ns: Mapping[str, int]
    exclusive_ns: Mapping[str, int]
    saving_ns: Mapping[str, int]
    owner: str
    window_owner: str
    """What ranks first over the whole window."""
    apart: frozenset[str] = frozenset()
    """Causes named for slow steps that the verdict leaves out of its figures: a single event shows no rate."""


@dataclass(frozen=True)
class Comparison:
    """One rank of one job: what is true and what was found. Errors are found minus true, as shares of the true makespan."""

    job: str
    seed: int
    rank: int
    truth: Truth
    found: Found

    @property
    def kind(self) -> str:
        """The planted cause, negative, or `mixed`."""
        return self.job.rpartition("-")[0]

    @property
    def owners(self) -> frozenset[str]:
        """Every owner that is right: see `right_owners`."""
        return right_owners(self.truth)

    @property
    def owner_right(self) -> bool:
        """Whether the found owner is one of them, or the answer names one for a slow step that it leaves out."""
        return self.found.owner in self.owners or self.named_apart

    @property
    def named_apart(self) -> bool:
        """The owner is that of the other steps, and a right one of the whole window is named for a step that is left out."""
        return self.found.owner not in self.owners and bool(self.found.apart & self.owners)

    @property
    def window_right(self) -> bool:
        """Whether what ranks first over the whole window is right."""
        return self.found.window_owner in self.owners

    @property
    def window_error(self) -> float:
        """Of the window's length; clocks that drift make it differ by their drift."""
        return self.found.window_ns / self.truth.makespan_ns - 1

    def path_errors(self) -> dict[str, float]:
        """Of the path time per cause."""
        return self._errors(self.found.path_ns, {cause.value: ns for cause, ns in self.truth.totals_ns.items()})

    def exposed_errors(self) -> dict[str, float]:
        """Exposed time against exact saving, per removable cause."""
        return self._errors(_removable(self.found.exclusive_ns), self._savings())

    def saving_errors(self) -> dict[str, float]:
        """Replayed against exact saving, per removable cause; empty when the replay is withheld."""
        return self._errors(_removable(self.found.saving_ns), self._savings()) if self.found.saving_ns else {}

    def _savings(self) -> dict[str, int]:
        return _removable({cause.value: ns for cause, ns in self.truth.savings_ns.items()})

    def _errors(self, found: Mapping[str, int], true: Mapping[str, int]) -> dict[str, float]:
        return {cause: (found.get(cause, 0) - true.get(cause, 0)) / self.truth.makespan_ns for cause in sorted(set(true) | set(found))}


def _removable(values: Mapping[str, int]) -> dict[str, int]:
    return {cause: value for cause, value in values.items() if cause not in NOT_REMOVABLE}


def worst(errors: Mapping[str, float]) -> float:
    """The largest error either way."""
    return max((abs(error) for error in errors.values()), default=0.0)


def lowest(errors: Mapping[str, float]) -> float:
    """The error furthest below zero: how far a bound falls short of the truth."""
    return min((*errors.values(), 0.0))


def right_owners(truth: Truth, least_share: float | None = None) -> frozenset[str]:
    """Owners that are right for this truth under the verdict's own threshold (or `least_share`), ties included."""
    least = VerdictParameters().min_owner_share if least_share is None else least_share
    best = max((truth.saving_share(cause) for cause in truth.ranked()), default=0.0)
    good = {cause.value for cause in truth.ranked() if truth.saving_share(cause) >= max(best, least) - OWNER_TOLERANCE_SHARE}
    return frozenset(good | ({Cause.COMPUTE.value} if best < least + OWNER_TOLERANCE_SHARE else set()))


def import_job(execution: Execution, folder: Path, *ranks: int) -> Run:
    """All ranks of a job (or the given ones) as one run under `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank in ranks or execution.ranks:
        path = folder / f"rank{rank}.pt.trace.json"
        path.write_text(json.dumps(execution.to_kineto(rank)), encoding="utf-8")
        paths.append(path)
    return import_traces(ImportRequest(tuple(paths), out=folder / "run", jobs=1))


def _totals(rows: pa.Table, column: str) -> dict[str, int]:
    grouped = rows.group_by("cause").aggregate([(column, "sum")])
    return dict(zip(grouped.column("cause").to_pylist(), grouped.column(f"{column}_sum").to_pylist(), strict=True))


def _found(causes: pa.Table, what_ifs: pa.Table, verdict: RankVerdict | None) -> Found:
    path_ns, exclusive_ns = _totals(causes, "path_ns"), _totals(causes, "exclusive_ns")
    causes_only = pc.is_in(what_ifs.column("cause"), pa.array(sorted(class_ids())))
    whole = what_ifs.filter(pc.and_(causes_only, pc.is_null(what_ifs.column("step"))))
    limits = dict(zip(whole.column("cause").to_pylist(), whole.column("next_limit").to_pylist(), strict=True))
    saving_ns = _totals(whole, "saving_ns")
    owner = _first(exclusive_ns, {cause: ns for cause, ns in saving_ns.items() if limits[cause] != "unknown"})
    if verdict is None:
        return Found(sum(path_ns.values()), path_ns, exclusive_ns, saving_ns, owner, owner)
    apart = frozenset(slow.cause for slow in verdict.steps.slowest if not slow.steady)
    return Found(sum(path_ns.values()), path_ns, exclusive_ns, saving_ns, verdict.owner, owner, apart)


def _first(exclusive_ns: Mapping[str, int], saving_ns: Mapping[str, int]) -> str:
    """The owner of the whole window by the verdict's ranking, without its steady steps and quality notes."""
    total, parameters = max(sum(exclusive_ns.values()), 1), VerdictParameters()
    costs = []
    for cause, ns in sorted(exclusive_ns.items(), key=lambda item: -item[1]):
        saved = saving_ns.get(cause)
        share = None if saved is None else saved / total
        costs.append(CauseCost(cause, ns, ns / total, ns, ns / total, 0, saved, ns, None, None, None, share, None))
    least = parameters.min_owner_share
    top = next(iter(ranked(costs, least, parameters)), None)
    return top.cause if top is not None and max(top.bound_share, top.exclusive_share) >= least else "compute"


def compare_paths(spec: JobSpec, folder: Path) -> Iterator[Comparison]:
    """Simulate, import, walk and replay, without rules and verdict (0.3 s a job); one comparison per rank."""
    execution = simulate(spec)
    run = import_job(execution, folder)
    for rank in run.manifest.ranks:
        path = rank_path(run, rank, load_names())
        found = _found(path.cause_rows, path.what_if_rows, None)
        yield Comparison(spec.name, spec.seed, rank, execution.rank_truth(rank), found)


def compare_verdicts(spec: JobSpec, folder: Path) -> Iterator[Comparison]:
    """The same with the whole analysis of each rank's trace alone (1.5 s a job): the owner is the verdict's."""
    execution = simulate(spec)
    for rank in execution.ranks:
        run = import_job(execution, folder / str(rank), rank)
        verdict = ensure_analysis(run).answer.leading
        found = _found(run.read("step_cause", rank), run.read("what_if", rank), verdict)
        yield Comparison(spec.name, spec.seed, rank, execution.rank_truth(rank), found)
