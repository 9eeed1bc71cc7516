"""The answer in words, shared by all forms of the report."""

from __future__ import annotations

from traceengine.classes import class_ids
from traceengine.path.changes import UPPER_BOUND
from traceengine.report.units import duration, share, shorten, show
from traceengine.rules.experiments import fill
from traceengine.rules.model import Experiment
from traceengine.verdict import Answer, CauseCost, Combination, ExperimentCard, RankVerdict, VerdictParameters, saves_little


def step_time(verdict: RankVerdict) -> str:
    """Mean time of a steady step, or the window's time when there are no steps."""
    total = sum(cause.path_ns for cause in verdict.causes)
    return duration(total // verdict.steps.steady) if verdict.steps.steady else duration(total)


def per(verdict: RankVerdict) -> str:
    """What figures are per."""
    return "a step" if verdict.steps.steady else "of the window"


def steps_of(count: int, what: str = "") -> str:
    """A number of steps in words."""
    return f"{count} {what + ' ' if what else ''}step{'' if count == 1 else 's'}"


def sentence(verdict: RankVerdict) -> str:
    """The answer in one sentence."""
    if verdict.owner == "unknown":
        return _unknown(verdict)
    owner = next(cause for cause in verdict.causes if cause.cause == verdict.owner)
    if verdict.owner == "compute":
        return _compute(verdict, owner)
    reason = next((finding.reason for finding in verdict.findings if finding.bottleneck == verdict.owner and finding.status == "hit"), "")
    why = f": {reason}" if reason else ""
    alone = f"it alone takes {share(owner.exclusive_share)} ({duration(owner.exposed_ns)} of {step_time(verdict)})"
    return f"{verdict.owner} owns the {_whole(verdict)}{why}; {alone}, {_saving(verdict, owner)}."


def _whole(verdict: RankVerdict) -> str:
    return "step" if verdict.steps.steady else "window"


def _unknown(verdict: RankVerdict) -> str:
    blocking = next((note.sentence for note in verdict.unknown if note.blocks), None)
    if blocking:
        return f"unknown: {blocking}."
    part = next((cause.exclusive_share for cause in verdict.causes if cause.cause == "unknown"), None)
    if part is None:
        return "unknown: the capture holds nothing to judge."
    return f"unknown: for {share(part)} of the {_whole(verdict)} the capture does not show a cause, and no cause has more."


def _compute(verdict: RankVerdict, owner: CauseCost) -> str:
    head = f"compute owns the {_whole(verdict)}: it takes {share(owner.exclusive_share)} of {step_time(verdict)}"
    lone = [slow for slow in verdict.steps.slowest if not slow.steady and slow.step != verdict.steps.first]
    apart = f", step {lone[0].step} apart ({duration(lone[0].extra_ns)} more {lone[0].cause})" if lone else ""
    if verdict.healthy:
        return f"{head}; nothing else costs 5 % or more{apart}, so there is no knob to turn: stop, or look at the kernels."
    rest = next((cause for cause in verdict.causes if cause.cause == verdict.runner_up), None)
    if rest is not None:
        return f"{head}; next is {rest.cause} with {share(rest.exclusive_share)} ({duration(rest.exposed_ns)} {per(verdict)}){apart}."
    hidden = next((cause for cause in verdict.causes if cause.cause == "unknown"), None)
    return f"{head}; for {share(hidden.exclusive_share)} the capture does not show a cause{apart}." if hidden else f"{head}{apart}."


def _saving(verdict: RankVerdict, owner: CauseCost) -> str:
    if saves_little(owner, VerdictParameters()):
        little = duration(verdict.saving_bound_ns) if verdict.saving_bound_ns else "nothing"
        return f"but removed alone it saves {little} ({verdict.bound}, estimated): something else takes nearly as long"
    return f"and removing it saves at most {duration(verdict.saving_bound_ns)} {per(verdict)} ({verdict.bound}, estimated)"


def job_sentence(answer: Answer) -> str | None:
    """What all ranks together tell, in one sentence; None for one rank."""
    job = answer.job
    if job is None:
        return None
    if len(job.unaligned) == len(answer.ranks):
        return "Across ranks nothing is known: no two of these traces have a collective in common."
    late = job.late
    if late is None or late.share < VerdictParameters().min_runner_up_share:
        return _nobody_late(answer)
    hit = f"in {late.steps_hit} of {steps_of(late.steps)}, " if late.steps else ""
    return (
        f"Across ranks: the others wait for rank {late.rank}, {hit}{duration(late.late_ns)} {'a step' if late.steps else 'in all'}, because"
        f" of its {late.cause}; were it as quick as they are, the job would save at most {duration(late.saving_ns)}"
        f" {'a step' if late.steps else 'in all'} (replay of all ranks, estimated)."
    )


def _nobody_late(answer: Answer) -> str:
    """Waits without a culprit are said, too: nobody late and long waits would contradict each other."""
    waits = {entry.rank: entry.wait_ns or 0 for entry in answer.job.ranks} if answer.job else {}
    if not waits:
        return "Across ranks: no rank keeps the others waiting for a known cause; without steps there is nothing to count it by."
    rank = max(waits, key=lambda rank: waits[rank])
    whole = next((verdict.steps.mean_ns for verdict in answer.ranks if verdict.rank == rank), None)
    if whole and waits[rank] >= VerdictParameters().min_runner_up_share * whole:
        return (
            f"Across ranks: rank {rank} waits {duration(waits[rank])} a step for others, and no cause explains half of it; are these the"
            f" same steps of one job?"
        )
    return "Across ranks: no rank keeps the others waiting for 5 % of the time or more."


_SHADES = " ▁▂▃▄▅▆▇█"


def waits_by_step(answer: Answer, rank: int) -> str:
    """One character a step: the share of the step in which the rank waited for others; ? where unknown."""
    job = answer.job
    own = next((entry for entry in job.ranks if entry.rank == rank), None) if job else None
    verdict = next(entry for entry in answer.ranks if entry.rank == rank)
    whole = verdict.steps.mean_ns or 0
    if own is None or not whole:
        return ""
    return "".join("?" if wait is None else _SHADES[min(8, round(8 * wait / whole))] for _, wait in own.waits[:_SHOWN_STEPS])


_SHOWN_STEPS = 24


def unaligned(answer: Answer) -> list[str]:
    """Ranks of which nothing can be said beside the others."""
    if answer.job is None or not answer.job.unaligned:
        return []
    ranks = ", ".join(map(str, answer.job.unaligned))
    return [f"clock of rank {ranks}: no collective of it was found on another rank, so that nothing across ranks is said of it"]


def steps_line(verdict: RankVerdict) -> str:
    """Steps and their times on one line."""
    steps = verdict.steps
    if not steps.count:
        return f"no steps found · window {duration(verdict.window_dur_ns)}"
    counted = f"{steps_of(steps.count)} ({steps.complete} complete, {steps.steady} steady, {steps.origin})"
    if steps.median_ns is None:
        return f"{counted} · step statistics unknown"
    return f"{counted} · median {duration(steps.median_ns)}, P95 {duration(steps.p95_ns)}, mean {duration(steps.mean_ns)}"


def filled(card: ExperimentCard) -> Experiment:
    """The card's experiment with the trace's values in its texts."""
    return fill(card.rule, card.experiment, card.evidence, show)


_IN_TABLE = frozenset({"share", "per_step_ns", "path_per_step_ns", "steps_hit", "bound_ns", "not_advised"})
"""Evidence that the table of causes or the bound shows already."""


def card_evidence(card: ExperimentCard) -> list[tuple[str, str, str]]:
    """Known evidence that is not shown elsewhere, as (name in words, value, sentence)."""
    rows = []
    for column in card.rule.evidence:
        value = card.evidence.get(column.name)
        if value is not None and column.name not in _IN_TABLE:
            words = column.name.removesuffix("_ns").removesuffix("_share") if column.unit in ("ns", "share") else column.name
            rows.append((words.replace("_", " "), show(value, column.unit), column.doc))
    return rows


def issues(answer: Answer) -> list[str]:
    """What the import repaired or could not tell, once for all ranks, without what `notes` says already."""
    said = {note.code for note in answer.leading.unknown}
    counts: dict[tuple[str, str], list[int]] = {}
    for issue in answer.issues:
        if issue.severity != "info" and issue.code not in said:
            counts.setdefault((issue.code, issue.action), []).append(issue.count)
    return [
        f"{code}{f' ({sum(each)})' if sum(each) else ''}{f' on {len(each)} ranks' if len(each) > 1 else ''}: {action}"
        for (code, action), each in counts.items()
    ]


def notes(verdict: RankVerdict) -> list[str]:
    """What the capture cannot tell, each with what would."""
    return [f"{note.sentence}" + (f" → {note.fix}" if note.fix else "") for note in verdict.unknown]


def not_advised(verdict: RankVerdict) -> list[str]:
    """Rejected advice with its reason."""
    return [entry.reason for entry in verdict.not_advised]


def outliers(verdict: RankVerdict) -> list[str]:
    """Slow steps, each with what it had more of."""
    return [
        f"step {slow.step}: {duration(slow.dur_ns)}, {duration(slow.extra_ns)} more {slow.cause}"
        + ("" if slow.steady else " (left out of the figures: warm-up or a single event)")
        for slow in verdict.steps.slowest
    ]


def combinations(answer: Answer) -> list[str]:
    """Replays that were asked for, each with how far it can be trusted, what limits the run then, and what it leaves out."""
    return [_what_if(entry, per(answer.leading)) for entry in answer.combinations]


def _what_if(entry: Combination, period: str) -> str:
    names = " + ".join(cause if cause not in class_ids() else f"without {cause}" for cause in entry.causes)
    if entry.saving_ns is None:
        return f"{names}: {entry.bound}: {entry.reason}"
    much = f"{'at most' if entry.bound == UPPER_BOUND else 'about'} {duration(entry.saving_ns)} {period}" if entry.saving_ns else "nothing"
    saved = f"saves {much} (replay, {entry.bound})"
    then = "; then time that the trace does not explain is the limit: the saving is unknown" if entry.next_limit == "unknown" else ""
    after = f"; then {entry.next_limit} is the limit" if entry.next_limit and not then else ""
    return f"{names}: {saved}{then}{after}. {entry.reason[:1].upper()}{entry.reason[1:]}."


def detail(text: str) -> str:
    """A name for a line of its own."""
    return shorten(text, 80)
