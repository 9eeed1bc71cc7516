"""The answer in words, shared by all forms of the report."""

from __future__ import annotations

from traceengine.report.units import duration, share, shorten, show
from traceengine.rules.experiments import fill
from traceengine.rules.model import Experiment
from traceengine.verdict import Answer, ExperimentCard, RankVerdict, VerdictParameters, saves_little


def step_time(verdict: RankVerdict) -> str:
    """Mean time of a steady step, or the window's time when there are no steps."""
    total = sum(cause.path_ns for cause in verdict.causes)
    return duration(total // verdict.steps.steady) if verdict.steps.steady else duration(total)


def per(verdict: RankVerdict) -> str:
    """What figures are per."""
    return "a step" if verdict.steps.steady else "of the window"


def sentence(verdict: RankVerdict) -> str:
    """The answer in one sentence."""
    if verdict.owner == "unknown":
        blocking = next((note.sentence for note in verdict.unknown if note.blocks), None)
        part = next((share(cause.exclusive_share) for cause in verdict.causes if cause.cause == "unknown"), "all")
        return f"unknown: {blocking or f'{part} of the time, more than any cause has, is nothing that the capture shows'}."
    owner = next(cause for cause in verdict.causes if cause.cause == verdict.owner)
    part = f"{share(owner.exclusive_share)} of {'a step' if verdict.steps.steady else 'the window'}"
    if verdict.owner == "compute":
        head = f"compute owns the critical path: {part} ({step_time(verdict)})"
        if verdict.healthy:
            return f"{head}; nothing else costs 5 % or more, so there is no knob to turn: stop, or look at the kernels."
        rest = next((cause for cause in verdict.causes if cause.cause == verdict.runner_up), None)
        if rest is None:
            hidden = next((cause for cause in verdict.causes if cause.cause == "unknown"), None)
            return f"{head}; {share(hidden.exclusive_share)} has no cause that the capture shows." if hidden else f"{head}."
        return f"{head}; next is {rest.cause} with {share(rest.exclusive_share)} ({duration(rest.exposed_ns)} {per(verdict)})."
    reason = next((finding.reason for finding in verdict.findings if finding.bottleneck == verdict.owner and finding.status == "hit"), "")
    why = f", {reason}" if reason else ""
    if saves_little(owner, VerdictParameters()):
        little = duration(verdict.saving_bound_ns) if verdict.saving_bound_ns else "nothing"
        saving = f"removed alone it saves {little} ({verdict.bound}, estimated), because something else takes nearly as long"
    else:
        saving = f"removing it saves at most {duration(verdict.saving_bound_ns)} {per(verdict)} ({verdict.bound}, estimated)"
    return f"{verdict.owner} owns the critical path: {part} ({duration(owner.exposed_ns)} of {step_time(verdict)}){why}; {saving}."


def steps_line(verdict: RankVerdict) -> str:
    """Steps and their times on one line."""
    steps = verdict.steps
    if not steps.count:
        return f"no steps found · window {duration(verdict.window_dur_ns)}"
    counted = f"{steps.count} steps ({steps.complete} complete, {steps.steady} steady, {steps.origin})"
    if steps.median_ns is None:
        return f"{counted} · step statistics unknown"
    return f"{counted} · median {duration(steps.median_ns)}, P95 {duration(steps.p95_ns)}, mean {duration(steps.mean_ns)}"


def filled(card: ExperimentCard) -> Experiment:
    """The card's experiment with the trace's values in its texts."""
    return fill(card.rule, card.experiment, card.evidence, show)


def card_evidence(card: ExperimentCard) -> list[tuple[str, str, str]]:
    """Known evidence as (name, value, sentence)."""
    rows = []
    for column in card.rule.evidence:
        value = card.evidence.get(column.name)
        if value is not None and column.name not in ("not_advised", "bound_ns"):
            rows.append((column.name, show(value, column.unit), column.doc))
    return rows


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
    """Replays that were asked for."""
    verdict = answer.leading
    lines = []
    for entry in answer.combinations:
        saved = f"at most {duration(entry.saving_ns)} {per(verdict)} (replay, estimated)" if entry.saving_ns is not None else "unknown"
        lines.append(f"without {' + '.join(entry.causes)}: {saved}")
    return lines


def detail(text: str) -> str:
    """A name for a line of its own."""
    return shorten(text, 80)
