"""What an import has to say about a trace: every repair, every loss, everything that could not be told."""

from __future__ import annotations

import duckdb

from traceengine.importers.issues import WARNING, Issue
from traceengine.importers.kineto.identity import Identities, LinkFacts
from traceengine.importers.kineto.nest import Nester
from traceengine.importers.kineto.routes import DEVICE
from traceengine.importers.kineto.tables import TableJob
from traceengine.importers.sql import statement


def quality_issues(job: TableJob, connection: duckdb.DuckDBPyConnection, identities: Identities) -> list[Issue]:
    """Issues of the finished tables."""
    operations = job.files(DEVICE)
    issues = _nesting(identities.nester) + _links(identities.facts) + _lost(connection, job.parts)
    if operations:
        return issues + _device(connection, operations)
    action = "Nothing is known about any device; record with ProfilerActivity.CUDA (or the device's own) to know."
    return [*issues, Issue("no_device_events", WARNING, 0, action)]


def _nesting(nester: Nester) -> list[Issue]:
    issues = []
    if nester.overlaps:
        action = "Kept with their own times; for nesting the later one ends with the one it starts in."
        issues.append(Issue("overlapping_slices", WARNING, nester.overlaps, action))
    if nester.unclosed_frames:
        action = "Cut at the end of the frame that called it, because a frame cannot outlive its caller."
        issues.append(Issue("unclosed_frame", WARNING, nester.unclosed_frames, action))
    return issues


def _links(facts: LinkFacts) -> list[Issue]:
    issues = []
    if facts.ambiguous_ids:
        action = "Not linked: several calls claim the same correlation id."
        issues.append(Issue("ambiguous_correlation", WARNING, facts.ambiguous_ids, action, f"correlation {facts.ambiguous_example}"))
    if facts.before_launch:
        action = "Kept linked; host and device clocks disagree, so such a delay enters no figure."
        issues.append(Issue("device_before_launch", WARNING, facts.before_launch, action, f"{facts.smallest_delay_ns} ns"))
    return issues


def _lost(connection: duckdb.DuckDBPyConnection, parts: list[str]) -> list[Issue]:
    issues = []
    for reason, events, example in connection.execute(statement("lost_host_events"), {"parts": parts}).fetchall():
        kept = reason in ("without duration", "with negative duration")
        action = "Kept with an unknown duration." if kept else "Left out: it has no place in time."
        issues.append(Issue("event_" + reason.replace(" ", "_"), WARNING, events, action, example))
    for reason, events, example in connection.execute(statement("lost_device_events"), {"parts": parts}).fetchall():
        action = "Left out of every sum and of the window: such a record says nothing about time, so device figures are lower bounds."
        issues.append(Issue("lost_device_event_" + reason.replace(" ", "_"), WARNING, events, action, example))
    return issues


def _device(connection: duckdb.DuckDBPyConnection, operations: list[str]) -> list[Issue]:
    row = connection.execute(statement("device_quality"), {"operations": operations}).fetchone()
    if row is None:
        return []
    unlinked, unlinked_name, overrunning, overrunning_name, repeated = row
    found = (
        (
            "unlinked_device_event",
            WARNING,
            unlinked,
            "Kept in the device's timeline; the capture does not hold their launch.",
            unlinked_name,
        ),
        (
            "overrunning_device_event",
            WARNING,
            overrunning,
            "Impossible on one stream: busy_dur_ns ends where the next operation starts.",
            overrunning_name,
        ),
        ("repeated_key", WARNING, repeated, "Of a key that occurs twice in an event the last one counts.", "device or stream"),
    )
    return [Issue(code, severity, count, action, example) for code, severity, count, action, example in found if count]
