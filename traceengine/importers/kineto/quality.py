"""What an import has to say about a trace: every repair, every loss, everything that could not be told."""

from __future__ import annotations

import duckdb

from traceengine.importers.issues import INFO, WARNING, Issue
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
        return issues + _device(connection, operations, _first_launch(connection, job.files("host_event")))
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


def _first_launch(connection: duckdb.DuckDBPyConnection, host_events: list[str]) -> int | None:
    """Start of the first call that gives work to a device, in the run's ns."""
    row = connection.execute(statement("first_launch"), {"host_events": host_events}).fetchone() if host_events else None
    return row[0] if row else None


def _device(connection: duckdb.DuckDBPyConnection, operations: list[str], first_launch: int | None) -> list[Issue]:
    row = connection.execute(statement("device_quality"), {"operations": operations, "first_launch": first_launch}).fetchone()
    if row is None:
        return []
    unlinked, unlinked_name, earlier, earlier_name, overrunning, overrunning_name, repeated = row
    lost = "Kept in the device's timeline; the capture does not hold their launch."
    before = "Kept in the device's timeline; they were launched before the capture began."
    silent = "Kept in the device's timeline; this kind of capture records no launches."
    overrun = "Impossible on one stream: busy_dur_ns ends where the next operation starts."
    twice = "Of a key that occurs twice in an event the last one counts."
    found = (
        Issue("unlinked_device_event", WARNING, unlinked, lost, unlinked_name),
        Issue("no_launch_calls", INFO, earlier if first_launch is None else 0, silent, earlier_name),
        Issue("launched_before_capture", INFO, earlier if first_launch is not None else 0, before, earlier_name),
        Issue("overrunning_device_event", WARNING, overrunning, overrun, overrunning_name),
        Issue("repeated_key", WARNING, repeated, twice, "device or stream"),
    )
    return [issue for issue in found if issue.count]
