"""The answer as Markdown, for issues and pull requests."""

from __future__ import annotations

import re

from traceengine.report.story import (
    card_evidence,
    combinations,
    filled,
    issues,
    job_sentence,
    not_advised,
    notes,
    outliers,
    per,
    sentence,
    steps_line,
    unaligned,
)
from traceengine.report.units import duration, share, visible
from traceengine.verdict import Answer, ExperimentCard, RankVerdict

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def _safe(text: str) -> str:
    """Text from a trace as literal Markdown."""
    return _SPECIAL.sub(r"\\\1", visible(" ".join(text.split())))


def render(answer: Answer) -> str:
    """The report."""
    verdict = answer.leading
    source = answer.sources[0] if len(answer.sources) == 1 else f"{len(answer.sources)} files"
    across = job_sentence(answer)
    lines = [f"**{_safe(sentence(verdict))}**", "", *([_safe(across), ""] if across else [])]
    lines.append(f"{_safe(source)} · rank {verdict.rank} · {_safe(steps_line(verdict))}")
    reasons = f" ({_safe('; '.join(verdict.confidence_reasons))})" if verdict.confidence_reasons else ""
    lines += [f"Confidence: {verdict.confidence}{reasons}", "", *_causes(verdict)]
    if len(answer.ranks) > 1:
        lines += ["", *_ranks(answer)]
    if verdict.card is not None:
        lines += ["", *_card(verdict, verdict.card)]
    named = (
        ("What if", combinations(answer)),
        ("Slow steps", outliers(verdict)),
        ("Not advised", not_advised(verdict)),
        ("Unknown", [*unaligned(answer), *notes(verdict)]),
        ("Import", issues(answer)),
    )
    for title, entries in named:
        if entries:
            lines += ["", f"### {title}", "", *(f"- {_safe(entry)}" for entry in entries)]
    return "\n".join(lines) + "\n"


def _causes(verdict: RankVerdict) -> list[str]:
    rows = [f"| cause | on path | exposed | exposed {per(verdict)} | steps |", "| --- | ---: | ---: | ---: | ---: |"]
    for cause in verdict.causes:
        steps = f"{cause.steps_hit}/{verdict.steps.steady}" if verdict.steps.steady else "-"
        spent = duration(cause.exclusive_ns // max(verdict.steps.steady, 1))
        rows.append(f"| {cause.cause} | {share(cause.path_share)} | {share(cause.exclusive_share)} | {spent} | {steps} |")
    return rows


def _ranks(answer: Answer) -> list[str]:
    rows = ["| rank | mean step | owner | exposed | confidence | late a step | waits a step |"]
    rows.append("| ---: | ---: | --- | ---: | --- | ---: | ---: |")
    job = {entry.rank: entry for entry in answer.job.ranks} if answer.job else {}
    for verdict in answer.ranks:
        own = job.get(verdict.rank)
        cells = [str(verdict.rank), duration(verdict.steps.mean_ns), verdict.owner, share(verdict.share), verdict.confidence]
        cells += [duration(own.late_ns), duration(own.wait_ns)] if own else ["", ""]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _card(verdict: RankVerdict, card: ExperimentCard) -> list[str]:
    experiment = filled(card)
    lines = [
        "### Next experiment",
        "",
        f"- **Change** ({experiment.kind}): {_safe(experiment.change)}",
        f"- **Hypothesis:** {_safe(experiment.hypothesis)}",
        f"- **Saves at most** {duration(card.saving_bound_ns)} {per(verdict)} ({card.bound}, estimated).",
        "- **Evidence:** " + _safe(", ".join(f"{name} {value}" for name, value, _ in card_evidence(card))),
        "- **Must stay:** " + _safe("; ".join(experiment.invariants)),
        "- **Guards:** " + _safe(", ".join(experiment.guards)),
    ]
    lines += [f"- **Measure:** {_safe('; '.join(experiment.measure))}"] if experiment.measure else []
    lines += [f"- **Stop:** {_safe(experiment.stop)}"]
    return lines + ([f"- **Rollback:** {_safe(experiment.rollback)}"] if experiment.rollback else [])
