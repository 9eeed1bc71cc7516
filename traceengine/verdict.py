"""Findings and path costs → one verdict per rank: owner, bound, runner-up, confidence, unknowns, the next experiment.

Causes are ranked by what the replay without them saves, and by exposed time where that does not decide: see `ranked`.
Compute is what a training step is for: it owns the verdict unless a cause that could be removed costs at least
`min_owner_share` of the steady steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import duckdb

from traceengine.job import JobVerdict, judge_job
from traceengine.quality import Note, rank_notes
from traceengine.rules import Experiment, Rule, RuleSet, matching_experiments
from traceengine.rules.experiments import Value

SCHEMA_VERSION = 1
"""Version of the answer's JSON form."""

NOT_REMOVABLE = frozenset({"compute", "unknown"})


@dataclass(frozen=True)
class VerdictParameters:
    """Thresholds of the decision, each with its reason."""

    min_owner_share: float = 0.18
    """A removable cause owns the verdict from this share of the steady steps on. Repeated runs of one loop differ by 10 to
    15 % on shared machines: a saving that does not stand clear of that could not be shown by the experiment that follows."""
    min_owner_share_without_statistics: float = 0.25
    """The same below `min_steps` steady steps: the edges of the window, which hold warm-up and work that the capture cut and
    read as idle, then weigh most, and no other step confirms the share."""
    min_runner_up_share: float = 0.05
    """Below this share a cause is not named as what comes next, and a saving is called little."""
    max_unknown_share: float = 0.5
    """When more of the time than this is unknown, so is the owner."""
    clear_margin: float = 0.10
    """Owner and runner-up closer than this (share of the steady steps) could swap in a repetition."""
    min_card_share: float = 0.10
    """Below this share an experiment is not worth its guards: its effect would drown in the spread of the windows."""
    min_steps: int = 3
    """Fewer steady steps give shares but no statistics."""


@dataclass(frozen=True)
class CauseCost:
    """One cause of a rank: see view path_cost. Per step (of the window without steps): `saving_ns` is what the replay
    without the cause saves, None when the replay does not reproduce the recording, when what is then left of the run is time
    that the trace does not explain, or when the cause is unknown; `exposed_ns` is its exposed time. `saving_share` is the
    saving as a share of a step. `saving_limit` is the class id that limits the run without the cause, `unknown` for
    unexplained time."""

    cause: str
    path_ns: int
    path_share: float
    exclusive_ns: int
    exclusive_share: float
    steps_hit: int
    saving_ns: int | None
    exposed_ns: int
    step_min_ns: int | None
    step_median_ns: int | None
    step_max_ns: int | None
    saving_share: float | None
    saving_limit: str | None

    @property
    def bound_ns(self) -> int:
        """What removing the cause could save at most: by replay, else its exposed time."""
        return self.exposed_ns if self.saving_ns is None else self.saving_ns

    @property
    def bound(self) -> str:
        """What the bound rests on."""
        return "exposed time" if self.saving_ns is None else "replay"

    @property
    def bound_share(self) -> float:
        """`bound_ns` as a share of a step."""
        return self.exclusive_share if self.saving_share is None else self.saving_share


@dataclass(frozen=True)
class StepStats:
    """Steps of a rank; times are None below three steady steps: unknown."""

    count: int
    complete: int
    steady: int
    origin: str
    first: int | None
    median_ns: int | None
    p95_ns: int | None
    mean_ns: int | None
    slowest: tuple[StepOutlier, ...]


@dataclass(frozen=True)
class StepOutlier:
    """A step that took more than 1.5 times the median, and the cause that it has more of than the others."""

    step: int
    dur_ns: int
    cause: str
    extra_ns: int
    steady: bool


@dataclass(frozen=True)
class Finding:
    """A rule's answer for the window of one rank."""

    rule: str
    bottleneck: str
    status: str
    cost_ns: int | None
    reason: str
    evidence: Mapping[str, Value]


@dataclass(frozen=True)
class ExperimentCard:
    """The one guarded change to try next; texts are filled with the trace's values by the report."""

    rule: Rule
    experiment: Experiment
    evidence: Mapping[str, Value]
    saving_bound_ns: int | None
    bound: str
    share: float


@dataclass(frozen=True)
class NotAdvised:
    """Advice that was considered and rejected."""

    cause: str
    reason: str


@dataclass(frozen=True)
class RankVerdict:
    """Everything that is said about one rank."""

    rank: int
    owner: str
    healthy: bool
    confidence: str
    confidence_reasons: tuple[str, ...]
    runner_up: str | None
    share: float | None
    saving_bound_ns: int | None
    bound: str | None
    window_ts_ns: int
    window_dur_ns: int
    steps: StepStats
    causes: tuple[CauseCost, ...]
    findings: tuple[Finding, ...]
    unknown: tuple[Note, ...]
    not_advised: tuple[NotAdvised, ...]
    card: ExperimentCard | None


@dataclass(frozen=True)
class ImportIssue:
    """A row of table import_issue, without its place."""

    rank: int
    code: str
    severity: str
    count: int
    example: str | None
    action: str


@dataclass(frozen=True)
class Combination:
    """A replay that was asked for: what these changes together save per steady step (of the window without steps).

    `causes` are class ids that are removed and named experiments. `saving_ns` is None when that is not estimable; `bound` and
    `reason` say how far it can be trusted, `next_limit` what the replayed run then waits for (class id or `unknown`).
    """

    causes: tuple[str, ...]
    saving_ns: int | None
    bound: str
    reason: str
    next_limit: str | None


@dataclass(frozen=True)
class Answer:
    """The answer for a run: one verdict per rank, and the rank whose verdict stands for the job."""

    sources: tuple[str, ...]
    ranks: tuple[RankVerdict, ...]
    leading_rank: int
    issues: tuple[ImportIssue, ...] = field(default=())
    combinations: tuple[Combination, ...] = field(default=())
    job: JobVerdict | None = None

    @property
    def leading(self) -> RankVerdict:
        """The verdict that stands for the job: that of the rank that the others wait for, else of the one with the longest steps."""
        return next(verdict for verdict in self.ranks if verdict.rank == self.leading_rank)


def _causes(connection: duckdb.DuckDBPyConnection, rank: int, parameters: VerdictParameters) -> tuple[CauseCost, ...]:
    rows = connection.execute(
        "select cause, path_ns, path_share, exclusive_ns, exclusive_share, steps, steps_hit,"
        " step_min_ns, step_median_ns, step_max_ns, replay_ns, next_limit"
        " from path_cost where rank = $rank order by exclusive_ns desc, cause",
        {"rank": rank},
    ).fetchall()
    total = max(sum(row[1] for row in rows), 1)
    shown = {row[0] for row in rows if row[4] >= parameters.min_runner_up_share}
    # Time without any event that the recording hides behind the device may be the wait for just that device work.
    rows = [(*row[:-1], "unknown" if row[-1] == "host_other" and "host_other" not in shown else row[-1]) for row in rows]
    return tuple(
        CauseCost(
            cause,
            path_ns,
            path_share,
            exclusive_ns,
            exclusive_share,
            hit,
            None if replay is None or limit == "unknown" else replay // max(steps, 1),
            exclusive_ns // max(steps, 1),
            low,
            middle,
            high,
            None if replay is None or limit == "unknown" else replay / total,
            limit,
        )
        for cause, path_ns, path_share, exclusive_ns, exclusive_share, steps, hit, low, middle, high, replay, limit in rows
    )


def _steps(connection: duckdb.DuckDBPyConnection, rank: int, parameters: VerdictParameters) -> StepStats:
    counted = connection.execute(
        "select count(*), count(*) filter (where complete), any_value(origin), min(step) from step where rank = $rank", {"rank": rank}
    ).fetchone()
    timed = connection.execute(
        "select count(*), median(dur_ns), quantile_cont(dur_ns, 0.95), avg(dur_ns) from steady_step where rank = $rank", {"rank": rank}
    ).fetchone()
    count, complete, origin, first = counted or (0, 0, None, None)
    steady, median, p95, mean = timed or (0, None, None, None)
    known = steady >= parameters.min_steps
    return StepStats(
        count,
        complete,
        steady,
        origin or "unknown",
        first,
        round(median) if known else None,
        round(p95) if known else None,
        round(mean) if known else None,
        _outliers(connection, rank) if known else (),
    )


def _outliers(connection: duckdb.DuckDBPyConnection, rank: int) -> tuple[StepOutlier, ...]:
    rows = connection.execute(
        "select step, dur_ns, cause, extra_ns, steady from step_outlier where rank = $rank order by dur_ns desc, step limit 5",
        {"rank": rank},
    ).fetchall()
    return tuple(StepOutlier(*row) for row in rows)


def _findings(connection: duckdb.DuckDBPyConnection, rank: int) -> tuple[Finding, ...]:
    rows = connection.execute(
        "select rule, bottleneck, status, cost_ns, reason, evidence from finding where rank = $rank and step is null order by rule",
        {"rank": rank},
    ).fetchall()
    return tuple(
        Finding(rule, bottleneck, status, cost, reason, json.loads(evidence) if evidence else {})
        for rule, bottleneck, status, cost, reason, evidence in rows
    )


def ranked(causes: Sequence[CauseCost], needed: float, parameters: VerdictParameters) -> list[CauseCost]:
    """Removable causes, the one to remove first in front; `causes` come by exposed time, most first.

    What counts is the saving by replay (exposed time where the replay cannot tell). Savings that differ by less than what is
    called little are equal: then the one with more exposed time leads, for that time is lost for certain. When no cause alone
    saves what an owner needs, several hold the run together: each is hidden behind another, and exposed time ranks them.
    """
    removable = [cause for cause in causes if cause.cause not in NOT_REMOVABLE]
    best = max((cause.bound_share for cause in removable), default=0.0)
    if best < needed:
        return removable
    least = max(best - parameters.min_runner_up_share, needed)
    leading = [cause for cause in removable if cause.bound_share >= least]
    return leading + sorted((cause for cause in removable if cause.bound_share < least), key=lambda cause: -cause.bound_share)


def _weight(cause: CauseCost) -> float:
    """The share of a step by which a cause is judged: of saving and exposed time the larger."""
    return max(cause.bound_share, cause.exclusive_share)


def _owner(causes: Sequence[CauseCost], top: CauseCost | None, notes: Sequence[Note], needed: float, parameters: VerdictParameters) -> str:
    """Owner's class id; `top` is the first of the ranked causes."""
    share = {cause.cause: cause.exclusive_share for cause in causes}
    if not causes or any(note.blocks for note in notes) or share.get("unknown", 0.0) > parameters.max_unknown_share:
        return "unknown"
    if top is not None and _weight(top) >= needed:
        return top.cause
    # Compute that owns less than what nobody knows owns nothing.
    return "unknown" if share.get("unknown", 0.0) > share.get("compute", 0.0) else "compute"


def saves_little(cause: CauseCost, parameters: VerdictParameters) -> bool:
    """True when the replay without the cause saves hardly any of a step: something else takes over at once."""
    return cause.saving_share is not None and cause.saving_share < parameters.min_runner_up_share


def _confidence(
    owner: CauseCost | None, runner_up: CauseCost | None, steps: StepStats, notes: Sequence[Note], parameters: VerdictParameters
) -> tuple[str, tuple[str, ...]]:
    reasons = [note.sentence for note in notes if note.lowers]
    if steps.count and steps.steady < parameters.min_steps:
        reasons.append(f"only {steps.steady} steady step{'' if steps.steady == 1 else 's'}")
    if owner is None or owner.cause == "unknown":
        return "low", (*reasons, "the capture cannot tell the owner")
    if owner.cause != "compute":
        above = _weight(owner) - parameters.min_owner_share
        if saves_little(owner, parameters):
            reasons.append("removed alone it saves little, because the host or another resource takes nearly as long")
        margin = _weight(owner) - (_weight(runner_up) if runner_up else 0.0)
        if runner_up and runner_up.cause not in NOT_REMOVABLE and margin < parameters.clear_margin:
            reasons.append(f"{runner_up.cause} costs nearly as much")
        if above < 0.03:
            reasons.append("it is close to the smallest share that can own a verdict")
    elif runner_up and parameters.min_owner_share - _weight(runner_up) < 0.03:
        reasons.append(f"{runner_up.cause} is close to the share that would make it the owner")
    # A window without one whole step may hold anything: warm-up, evaluation, half a step.
    level = "high" if not reasons else "medium" if len(reasons) == 1 and steps.steady else "low"
    return level, tuple(reasons)


def _card(
    causes: Sequence[CauseCost], findings: Sequence[Finding], rules: RuleSet, target: CauseCost | None, parameters: VerdictParameters
) -> ExperimentCard | None:
    """The experiment for `target`, the removable cause that ranks first, when that is worth one."""
    if target is None or saves_little(target, parameters):
        return None
    for finding in findings:
        if finding.bottleneck != target.cause or finding.status != "hit":
            continue
        recording = finding.evidence.get("profiler_share")
        if isinstance(recording, float) and _weight(target) - recording < parameters.min_card_share:
            # What recording the events cost may be all of it; an owner by a clear margin is worth the test even so.
            if _weight(target) < parameters.min_owner_share:
                return None
        elif _weight(target) < parameters.min_card_share:
            return None
        rule = rules.rule(finding.rule)
        row = {**finding.evidence, "cost_ns": finding.cost_ns, "step": None}
        matching = matching_experiments(rule, row)
        if matching:
            bound = finding.evidence.get("bound_ns")
            if isinstance(bound, int):
                return ExperimentCard(rule, matching[0], row, bound, "exposed time", target.exclusive_share)
            return ExperimentCard(rule, matching[0], row, target.bound_ns, target.bound, target.exclusive_share)
    return None


def _not_advised(findings: Sequence[Finding], target: CauseCost | None, parameters: VerdictParameters) -> tuple[NotAdvised, ...]:
    found = []
    if target is not None and _weight(target) >= parameters.min_card_share and saves_little(target, parameters):
        found.append(NotAdvised(target.cause, f"{target.cause} alone: something else takes nearly as long and would be the limit at once"))
    for finding in findings:
        reason = finding.evidence.get("not_advised")
        # Rules of both directions of copies may reject the same advice for the same reason.
        if isinstance(reason, str) and all(entry.reason != reason for entry in found):
            found.append(NotAdvised(finding.bottleneck, reason))
    return tuple(found)


def _is_healthy(owner: str, causes: Sequence[CauseCost], confidence: str, parameters: VerdictParameters) -> bool:
    """True when compute owns, nothing else is worth a name, and the capture could have told."""
    others = any(cause.exclusive_share >= parameters.min_runner_up_share for cause in causes if cause.cause != "compute")
    return owner == "compute" and not others and confidence != "low"


def judge(connection: duckdb.DuckDBPyConnection, rank: int, rules: RuleSet, parameters: VerdictParameters) -> RankVerdict:
    """The verdict for one rank; `connection` sees the run's tables, findings included."""
    causes = _causes(connection, rank, parameters)
    steps = _steps(connection, rank, parameters)
    findings = _findings(connection, rank)
    notes = rank_notes(connection, rank)
    counted = steps.steady >= parameters.min_steps
    needed = parameters.min_owner_share if counted else parameters.min_owner_share_without_statistics
    removable = next(iter(ranked(causes, needed, parameters)), None)
    owner = _owner(causes, removable, notes, needed, parameters)
    owned = next((cause for cause in causes if cause.cause == owner), None)
    others = [c for c in causes if c.cause not in (owner, "unknown") and c.exclusive_share >= parameters.min_runner_up_share]
    runner_up = others[0] if others else None
    confidence, reasons = _confidence(owned, removable if owner == "compute" else runner_up, steps, notes, parameters)
    # That one rank cannot tell who is late is among the notes already.
    said = {"straggler"} if any(note.code == "one_rank" for note in notes) else set()
    unanswered = (finding for finding in findings if finding.status == "unknown" and finding.bottleneck not in said)
    notes += tuple(Note("rule_unknown", f"{finding.bottleneck}: {finding.reason}", "", False, False) for finding in unanswered)
    window = connection.execute(
        "select coalesce(min(ts_ns), 0), coalesce(sum(dur_ns), 0)::bigint from critical_path where rank = $rank", {"rank": rank}
    ).fetchone() or (0, 0)
    return RankVerdict(
        rank,
        owner,
        _is_healthy(owner, causes, confidence, parameters),
        confidence,
        reasons,
        runner_up.cause if runner_up else None,
        owned.exclusive_share if owned and owner != "unknown" else None,
        owned.bound_ns if owned and owner not in NOT_REMOVABLE else None,
        owned.bound if owned and owner not in NOT_REMOVABLE else None,
        window[0],
        window[1],
        steps,
        causes,
        findings,
        notes,
        _not_advised(findings, removable, parameters),
        None if owner == "unknown" else _card(causes, findings, rules, removable, parameters),
    )


def job_answer(connection: duckdb.DuckDBPyConnection, rules: RuleSet, parameters: VerdictParameters | None = None) -> Answer:
    """The answer for all ranks of a run."""
    parameters = parameters or VerdictParameters()
    sources = connection.execute("select rank, path from source order by source_id, rank").fetchall()
    ranks = sorted({rank for rank, _ in sources})
    verdicts = tuple(judge(connection, rank, rules, parameters) for rank in ranks)
    issues = connection.execute("select rank, code, severity, count, example, action from import_issue order by rank, code").fetchall()
    job = judge_job(connection)
    slowest = max(verdicts, key=lambda verdict: (verdict.steps.mean_ns or 0, verdict.window_dur_ns, -verdict.rank))
    late = job.late if job else None
    leading = late.rank if late and late.share >= parameters.min_runner_up_share else slowest.rank
    names = tuple(dict.fromkeys(path for _, path in sources))
    return Answer(names, verdicts, leading, tuple(ImportIssue(*issue) for issue in issues), job=job)
