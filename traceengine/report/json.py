"""The answer as JSON; the form is documented in docs/answer.md and versioned by `schema_version`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from traceengine.report.story import filled, job_sentence, sentence
from traceengine.verdict import SCHEMA_VERSION, Answer, ExperimentCard, RankVerdict


def render(answer: Answer) -> str:
    """The document as text."""
    return json.dumps(document(answer), indent=1, ensure_ascii=False) + "\n"


def document(answer: Answer) -> dict[str, Any]:
    """The document: the leading rank's verdict at the top, every rank's under `ranks`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "sources": list(answer.sources),
        "rank": answer.leading_rank,
        **_rank(answer.leading),
        "job": _job(answer),
        "what_if": [asdict(entry) for entry in answer.combinations],
        "import_issues": [asdict(issue) for issue in answer.issues],
        "ranks": [{"rank": verdict.rank, **_rank(verdict)} for verdict in answer.ranks] if len(answer.ranks) > 1 else [],
    }


def _job(answer: Answer) -> dict[str, Any] | None:
    job = answer.job
    if job is None:
        return None
    return {
        "sentence": job_sentence(answer),
        "late": asdict(job.late) if job.late else None,
        "residual_ns": job.residual_ns,
        "unaligned": list(job.unaligned),
        "unmatched": job.unmatched,
        "ranks": [{"rank": entry.rank, "wait_ns": entry.wait_ns, "late_ns": entry.late_ns} for entry in job.ranks],
    }


def _rank(verdict: RankVerdict) -> dict[str, Any]:
    return {
        "verdict": {
            "owner": verdict.owner,
            "healthy": verdict.healthy,
            "confidence": verdict.confidence,
            "confidence_reasons": list(verdict.confidence_reasons),
            "runner_up": verdict.runner_up,
            "share": verdict.share,
            "saving_bound_ns": verdict.saving_bound_ns,
            "bound": verdict.bound,
            "bound_state": "estimated" if verdict.saving_bound_ns is not None else "unknown",
            "sentence": sentence(verdict),
            "unknown": [{"code": note.code, "sentence": note.sentence, "fix": note.fix} for note in verdict.unknown],
            "not_advised": [asdict(entry) for entry in verdict.not_advised],
        },
        "window": {"ts_ns": verdict.window_ts_ns, "dur_ns": verdict.window_dur_ns},
        "steps": asdict(verdict.steps),
        "causes": [asdict(cause) for cause in verdict.causes],
        "findings": [asdict(finding) for finding in verdict.findings],
        "experiment": _experiment(verdict.card) if verdict.card else None,
    }


def _experiment(card: ExperimentCard) -> dict[str, Any]:
    experiment = filled(card)
    return {
        "rule": card.rule.id,
        "cause": card.rule.bottleneck,
        "hypothesis": experiment.hypothesis,
        "change": experiment.change,
        "kind": experiment.kind,
        "saving_bound_ns": card.saving_bound_ns,
        "bound": card.bound,
        "evidence": {column.name: card.evidence.get(column.name) for column in card.rule.evidence if column.name != "not_advised"},
        "invariants": list(experiment.invariants),
        "guards": list(experiment.guards),
        "measure": list(experiment.measure),
        "stop": experiment.stop,
        "rollback": experiment.rollback,
    }
