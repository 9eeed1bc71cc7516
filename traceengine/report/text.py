"""The answer for a terminal: one screen, the answer in its first line."""

from __future__ import annotations

import io
import shutil
import sys
from typing import Literal

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

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
    waits_by_step,
)
from traceengine.report.units import duration, share, visible
from traceengine.verdict import Answer, ExperimentCard, RankVerdict

_WIDTH = 110
_BAR = 20
_LEGEND = "on path: time on the critical path. exposed: what the cause alone takes, with nothing of more use beside it."
_EVIDENCE = 8
"""Values of evidence on the card, the weightiest first; Markdown and JSON have all."""
_LISTED = 4
"""Longest list of notes, issues and the like before the rest is only counted."""


def render(answer: Answer, *, colour: bool | None = None) -> str:
    """The report; `colour` None means: when standard output is a terminal. As wide as the terminal, else 110 columns."""
    terminal = sys.stdout.isatty() if colour is None else colour
    width = max(60, min(shutil.get_terminal_size((_WIDTH, 40)).columns, 140)) if sys.stdout.isatty() else _WIDTH
    out = io.StringIO()
    system: Literal["standard"] | None = "standard" if terminal else None
    console = Console(file=out, width=width, force_terminal=terminal, color_system=system, highlight=False, emoji=False)
    verdict = answer.leading
    console.print(Text(sentence(verdict), style="bold"))
    across = job_sentence(answer)
    if across:
        console.print(Text(across, style="bold"))
    console.print()
    console.print(Text(_where(answer, verdict), style="dim"))
    console.print(_causes(verdict))
    console.print(Padding(Text(_LEGEND, style="dim"), (0, 0, 0, 2)))
    if len(answer.ranks) > 1:
        console.print(_ranks(answer))
    _list(console, "What if", combinations(answer))
    if verdict.card is not None:
        _card(console, verdict, verdict.card)
    _list(console, "Slow steps", outliers(verdict))
    _list(console, "Not advised", not_advised(verdict))
    _list(console, "Unknown", [*unaligned(answer), *notes(verdict)])
    _list(console, "Import", issues(answer))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _where(answer: Answer, verdict: RankVerdict) -> str:
    source = visible(answer.sources[0]) if len(answer.sources) == 1 else f"{len(answer.sources)} files"
    reasons = f" ({'; '.join(verdict.confidence_reasons)})" if verdict.confidence_reasons else ""
    return f"{source} · rank {verdict.rank} · {steps_line(verdict)} · confidence {verdict.confidence}{reasons}"


def _causes(verdict: RankVerdict) -> Padding:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("cause")
    for name in ("on path", "exposed", f"exposed {per(verdict)}", "steps"):
        table.add_column(name, justify="right")
    table.add_column("")
    for cause in verdict.causes:
        if cause.path_share < 0.005 and cause.exclusive_share < 0.005:
            continue
        steps = f"{cause.steps_hit}/{verdict.steps.steady}" if verdict.steps.steady else "-"
        bar = "█" * round(_BAR * cause.exclusive_share)
        style = "bold" if cause.cause == verdict.owner else ""
        spent = cause.exclusive_ns // max(verdict.steps.steady, 1)
        table.add_row(cause.cause, share(cause.path_share), share(cause.exclusive_share), duration(spent), steps, bar, style=style)
    return Padding(table, (1, 0, 0, 2))


def _ranks(answer: Answer) -> Padding:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("rank", "mean step", "owner", "exposed", "confidence", "late a step", "waits a step", "waits, step by step"):
        table.add_column(name, justify="left" if name in ("owner", "waits, step by step") else "right", no_wrap=True)
    job = {entry.rank: entry for entry in answer.job.ranks} if answer.job else {}
    for verdict in answer.ranks[:16]:
        own = job.get(verdict.rank)
        beside = (duration(own.late_ns), duration(own.wait_ns), waits_by_step(answer, verdict.rank)) if own else ("", "", "")
        step = duration(verdict.steps.mean_ns)
        table.add_row(str(verdict.rank), step, verdict.owner, share(verdict.share), verdict.confidence, *beside)
    if len(answer.ranks) > 16:
        table.add_row("…", f"{len(answer.ranks) - 16} more")
    return Padding(table, (1, 0, 0, 2))


def _card(console: Console, verdict: RankVerdict, card: ExperimentCard) -> None:
    experiment = filled(card)
    console.print()
    bound = f"saves at most {duration(card.saving_bound_ns)} {per(verdict)} by {card.bound}"
    console.print(Text("Next experiment ", style="bold") + Text(f"({experiment.kind}, {bound})"))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(ratio=1)
    table.add_row("change", experiment.change)
    table.add_row("because", experiment.hypothesis)
    table.add_row("evidence", ", ".join(f"{name} {value}" for name, value, _ in card_evidence(card)[:_EVIDENCE]))
    table.add_row("must stay", "; ".join(experiment.invariants))
    table.add_row("guards", ", ".join(experiment.guards))
    table.add_row("measure", experiment.measure[0] + (" (the whole plan: --format md)" if len(experiment.measure) > 1 else ""))
    table.add_row("stop", experiment.stop + (f"; then {experiment.rollback}" if experiment.rollback else ""))
    console.print(Padding(table, (0, 0, 0, 2)))


def _list(console: Console, title: str, lines: list[str]) -> None:
    if not lines:
        return
    console.print()
    console.print(Text(title, style="bold"))
    for line in lines[:_LISTED]:
        console.print(Padding(Text(line), (0, 0, 0, 2)))
    if len(lines) > _LISTED:
        console.print(Padding(Text(f"… and {len(lines) - _LISTED} more (--format json has all)", style="dim"), (0, 0, 0, 2)))
