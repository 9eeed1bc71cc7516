"""The analysis of a run: paths of all ranks, findings, verdicts; kept with the run, or in memory where it cannot be written."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from traceengine import __version__
from traceengine.names import load_names
from traceengine.path.changes import NOT_ESTIMABLE, parse_change
from traceengine.path.critical import rank_path, rank_replays
from traceengine.path.replay import WhatIf
from traceengine.ranks.job import RankTables, across_ranks
from traceengine.resources import queries_dir
from traceengine.rules import RuleSet, load_rules, run_rules
from traceengine.run import Run, write_table
from traceengine.schema import SCHEMA_VERSION, TableOrigin, table
from traceengine.sql import open_sandbox
from traceengine.sqlfile import sql_files
from traceengine.verdict import Answer, Combination, job_answer

ANALYSIS_VERSION = 7
"""Raised whenever the same tables lead to other results, so that stored analyses are made again."""


@dataclass(frozen=True)
class Analysis:
    """An analysed run. `overlay` holds the tables that could not be stored; empty when the run's folder has them."""

    run: Run
    rules: RuleSet
    overlay: Mapping[str, pa.Table]

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A sandboxed connection over all tables and views, results included."""
        return open_sandbox(self.run, self.overlay)

    @cached_property
    def answer(self) -> Answer:
        """The verdicts."""
        with self.connect() as connection:
            return job_answer(connection, self.rules)


def combine(analysis: Analysis, wanted: Sequence[str]) -> Answer:
    """The answer with replays of the leading rank: each of `wanted` (class ids, named experiments) alone, then all together.

    Raises UsageError for a name that is neither.
    """
    changes = tuple({change.text: change for change in map(parse_change, wanted)}.values())
    sets = [(change,) for change in changes] + ([changes] if len(changes) > 1 else [])
    answer = analysis.answer
    steps, replays = rank_replays(analysis.run, answer.leading_rank, load_names(), sets)
    with analysis.connect() as connection:
        rows = connection.execute("select step from steady_step where rank = $rank", {"rank": answer.leading_rank}).fetchall()
    steady = {step for (step,) in rows}
    chosen = [index for index, step in enumerate(steps.steps) if step.number in steady]
    return replace(answer, combinations=tuple(_combination(entry, chosen, trusted=replays.trusted) for entry in replays.what_ifs))


def _combination(entry: WhatIf, steps: Sequence[int], *, trusted: bool) -> Combination:
    if not trusted:
        return Combination(entry.changes, None, NOT_ESTIMABLE, "the replay does not reproduce the recording", None)
    return Combination(entry.changes, _saving(entry, steps), entry.bound, entry.reason, entry.limit)


def _saving(entry: WhatIf, steps: Sequence[int]) -> int | None:
    if entry.without is None:
        return None
    if not steps:
        return max(0, entry.makespan - entry.without)
    return max(0, sum(entry.step_dur[index] - entry.step_without[index] for index in steps) // len(steps))


@cache
def default_rules() -> RuleSet:
    """The rules that come with the tool; reading and checking them takes most of a second, and is done once."""
    return load_rules([queries_dir() / "rules"])


def _key(rules: Sequence[Path]) -> str:
    """Identity of everything besides the run that the results depend on."""
    ours = [path for folder in ("views", "quality") for path in sql_files(queries_dir() / folder)]
    digest = hashlib.sha256("\n".join([__version__, str(ANALYSIS_VERSION), str(SCHEMA_VERSION), load_names().digest]).encode())
    for path in [*ours, *rules]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _empty(name: str) -> pa.Table:
    return table(name).arrow.empty_table()


def _path_tables(run: Run) -> dict[str, pa.Table]:
    names = load_names()
    paths = (rank_path(run, rank, names) for rank in run.manifest.ranks)
    own = {path.rank: RankTables(path.step_rows, path.path_rows, path.cause_rows, path.what_if_rows) for path in paths}
    job = across_ranks(run, names, own)
    ranks = list(job.ranks.values())
    return {
        "step": pa.concat_tables([_empty("step"), *(rank.step for rank in ranks)]),
        "critical_path": pa.concat_tables([_empty("critical_path"), *(rank.critical_path for rank in ranks)]),
        "step_cause": pa.concat_tables([_empty("step_cause"), *(rank.step_cause for rank in ranks)]),
        "what_if": pa.concat_tables([_empty("what_if"), *(rank.what_if for rank in ranks)]),
        "clock": job.clock,
        "collective_part": job.collective_part,
        "lateness": job.lateness,
        "job_what_if": job.job_what_if,
    }


def _verdict_table(answer: Answer) -> pa.Table:
    rows = [
        {
            "rank": verdict.rank,
            "owner": verdict.owner,
            "confidence": verdict.confidence,
            "runner_up": verdict.runner_up,
            "share": verdict.share,
            "saving_bound_ns": verdict.saving_bound_ns,
        }
        for verdict in answer.ranks
    ]
    return pa.Table.from_pylist(rows, schema=table("verdict").arrow)


def _compute(run: Run, rules: RuleSet) -> dict[str, pa.Table]:
    tables = {entry: _empty(entry) for entry in ("finding", "verdict")} | _path_tables(run)
    with open_sandbox(run, tables) as connection:
        tables["finding"] = run_rules(connection, rules)
    with open_sandbox(run, tables) as connection:
        tables["verdict"] = _verdict_table(job_answer(connection, rules))
    return tables


def _store(run: Run, tables: Mapping[str, pa.Table], document: dict[str, Any]) -> bool:
    """Keep the results with the run; False where its folder cannot be written."""
    try:
        with run.analysis_writer(document) as root:
            for name, rows in tables.items():
                for rank in run.manifest.ranks:
                    mask = pa.compute.equal(rows.column("rank"), rank)
                    write_table(root, name, rank, rows.filter(mask))
    except OSError:
        return False
    return True


def ensure_analysis(run: Run, rules: RuleSet | None = None) -> Analysis:
    """Analyse a run, or take the stored analysis when it was made by the same version with the same rules."""
    rules = default_rules() if rules is None else rules
    document = {"key": _key([rule.path for rule in rules]), "tool_version": __version__}
    if (run.analysis_manifest() or {}).get("key") == document["key"]:
        return Analysis(run, rules, {})
    tables = _compute(run, rules)
    assert all(table(name).origin is TableOrigin.ANALYSIS for name in tables)
    stored = _store(run, tables, document)
    return Analysis(run, rules, {} if stored else tables)
