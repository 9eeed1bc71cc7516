"""Start an experiment: the record of a verdict's card, with everything that nobody has filled in yet marked unknown."""

from __future__ import annotations

import duckdb

from traceengine import __version__
from traceengine.errors import UsageError
from traceengine.experiment.record import (
    CONTRACT,
    SCHEMA_VERSION,
    Bound,
    Budget,
    Change,
    Check,
    Constraint,
    Decision,
    Fact,
    Hypothesis,
    Limits,
    Query,
    Record,
    RunLink,
    Value,
)
from traceengine.rules import EvidenceColumn, Experiment
from traceengine.run import Run
from traceengine.verdict import Answer, ExperimentCard, RankVerdict

_ROLLBACK = "undo the one change"


def verdict_of(answer: Answer, rank: int | None) -> RankVerdict:
    """The verdict of `rank`, or of the leading rank. Raises UsageError for a rank that the run does not hold."""
    if rank is None:
        return answer.leading
    for verdict in answer.ranks:
        if verdict.rank == rank:
            return verdict
    held = ", ".join(str(verdict.rank) for verdict in answer.ranks)
    raise UsageError(f"the run holds no rank {rank}", hint=f"It holds: {held}.")


def new_record(connection: duckdb.DuckDBPyConnection, run: Run, verdict: RankVerdict, card: ExperimentCard, texts: Experiment) -> Record:
    """The record of `card`; `texts` is its experiment with the trace's values in place, `connection` sees the run's tables."""
    per = "step" if verdict.steps.steady else "window"
    return Record(
        schema_version=SCHEMA_VERSION,
        tool_version=__version__,
        title=f"{card.rule.bottleneck}: {card.rule.title}",
        contract=_contract(connection, verdict.rank),
        bottleneck=_constraint(connection, run, verdict, card, per),
        hypothesis=Hypothesis(texts.hypothesis, _bound(card, per)),
        change=Change(texts.change, texts.kind, Fact.unknown(), Fact.unknown()),
        invariants=tuple(Check(text) for text in texts.invariants),
        guards=tuple(Check(text) for text in texts.guards),
        plan=tuple(Check(text) for text in texts.measure),
        budget=Budget(Fact.unknown(), Fact.unknown(), Fact.unknown()),
        stop=texts.stop,
        rollback=texts.rollback or _ROLLBACK,
        decision=Decision(),
        limits=Limits(
            tuple({"code": note.code, "sentence": note.sentence, "fix": note.fix} for note in verdict.unknown),
            tuple({"cause": entry.cause, "reason": entry.reason} for entry in verdict.not_advised),
        ),
    )


def _bound(card: ExperimentCard, per: str) -> Bound:
    return Bound("unknown" if card.saving_bound_ns is None else "estimated", card.saving_bound_ns, per, card.bound)


def _contract(connection: duckdb.DuckDBPyConnection, rank: int) -> dict[str, Fact]:
    """Only what the trace itself says is known: the number of ranks and the devices."""
    values = dict.fromkeys(CONTRACT, Fact.unknown())
    world = connection.execute("select max(world_size) from source where rank = $rank", {"rank": rank}).fetchone()
    devices = connection.execute(
        "select name, count(*) from device where rank = $rank and name is not null group by name order by name", {"rank": rank}
    ).fetchall()
    named = ", ".join(f"{count} x {name}" for name, count in devices) or None
    values["ranks"] = Fact.measured(world[0] if world else None, "source.world_size")
    values["hardware"] = Fact.measured(named, "device.name")
    return values


def _constraint(connection: duckdb.DuckDBPyConnection, run: Run, verdict: RankVerdict, card: ExperimentCard, per: str) -> Constraint:
    cause = next(entry for entry in verdict.causes if entry.cause == card.rule.bottleneck)
    finding = next(entry for entry in verdict.findings if entry.rule == card.rule.id)
    rows = connection.execute("select step from steady_step where rank = $rank order by step", {"rank": verdict.rank}).fetchall()
    columns = (column for column in card.rule.evidence if column.name != "not_advised")
    return Constraint(
        run=_link(connection, run, verdict.rank),
        rank=verdict.rank,
        cause=cause.cause,
        rule=card.rule.id,
        reason=finding.reason,
        owner=verdict.owner,
        confidence=verdict.confidence,
        confidence_reasons=verdict.confidence_reasons,
        share=cause.exclusive_share,
        exposed_ns=cause.exposed_ns,
        per=per,
        runner_up=verdict.runner_up,
        steps=tuple(step for (step,) in rows),
        median_step_ns=verdict.steps.median_ns,
        evidence=tuple(_evidence(column, finding.evidence.get(column.name)) for column in columns),
        queries=_queries(verdict.rank, cause.cause, card.rule.id),
    )


def _evidence(column: EvidenceColumn, value: Value) -> dict[str, Value]:
    state = "unknown" if value is None else column.state
    return {"name": column.name, "state": state, "value": value, "unit": column.unit, "doc": column.doc}


def _link(connection: duckdb.DuckDBPyConnection, run: Run, rank: int) -> RunLink:
    rows = connection.execute("select path, kind, sha256 from source where rank = $rank order by source_id", {"rank": rank}).fetchall()
    sources: tuple[dict[str, Value], ...] = tuple({"file": path, "kind": kind, "sha256": sha256} for path, kind, sha256 in rows)
    return RunLink(run.path.name, run.manifest.key, run.manifest.schema_version, sources)


def _queries(rank: int, cause: str, rule: str) -> tuple[Query, ...]:
    at: dict[str, Value] = {"rank": rank, "cause": cause}
    return (
        Query(
            "segments of the critical path that belong to the cause, with their events",
            "select step, ts_ns, dur_ns, hidden_ns, resource, detail, scope, event_id from critical_path "
            "where rank = $rank and cause = $cause order by ts_ns",
            at,
        ),
        Query(
            "exposed time of the cause in each steady step",
            "select step, path_ns, exclusive_ns from step_cause semi join steady_step using (rank, step) "
            "where rank = $rank and cause = $cause order by step",
            at,
        ),
        Query(
            "the rule's finding",
            "select status, cost_ns, reason, evidence from finding where rank = $rank and rule = $rule and step is null",
            {"rank": rank, "rule": rule},
        ),
    )
