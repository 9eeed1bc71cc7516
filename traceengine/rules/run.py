"""Run rules on a run's tables: findings, with `unknown` wherever a needed table holds nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
import pyarrow as pa

from traceengine.errors import QueryError, RuleError, UsageError
from traceengine.rules.load import column_fault
from traceengine.rules.model import CONTRACT, STATUSES, ParamValue, Rule, RuleSet
from traceengine.schema import table
from traceengine.sql import query
from traceengine.views import keep_small_views

_FINDING = table("finding").arrow


def run_rules(
    connection: duckdb.DuckDBPyConnection, rules: RuleSet, overrides: Mapping[str, Mapping[str, ParamValue]] | None = None
) -> pa.Table:
    """Run all rules in a connection with tables and views (`traceengine.sql.open_sandbox`).

    `overrides` gives other parameter values: rule id, then parameter name. Returns rows of table `finding`, ordered by rule, rank
    and step. Raises RuleError when a rule breaks its contract on this run, UsageError for an override that fits no parameter.
    """
    overrides = overrides or {}
    _check_overrides(rules, overrides)
    keep_small_views(connection)
    ranks = _ranks(connection)
    empty: dict[str, frozenset[int]] = {}
    for name in {need for rule in rules for need in rule.needs}:
        empty[name] = ranks - _ranks_with_rows(connection, name)
    findings = [row for rule in rules for row in _findings(connection, rule, dict(overrides.get(rule.id, {})), ranks, empty)]
    return pa.Table.from_pylist(findings, schema=_FINDING)


def _check_overrides(rules: RuleSet, overrides: Mapping[str, Mapping[str, ParamValue]]) -> None:
    for rule_id, values in overrides.items():
        rule = rules.rule(rule_id)
        names = [param.name for param in rule.params]
        for name in values:
            if name not in names:
                raise UsageError(f"rule {rule_id!r} has no parameter {name!r}", hint=f"It has: {', '.join(names) or 'none'}.")


def _ranks(connection: duckdb.DuckDBPyConnection) -> frozenset[int]:
    return frozenset(rank for (rank,) in connection.sql("select distinct rank from source").fetchall())


def _ranks_with_rows(connection: duckdb.DuckDBPyConnection, name: str) -> frozenset[int]:
    ranks = connection.table(name).project("rank").distinct().fetchall()
    return frozenset(rank for (rank,) in ranks)


def _findings(
    connection: duckdb.DuckDBPyConnection,
    rule: Rule,
    overrides: dict[str, ParamValue],
    ranks: frozenset[int],
    empty: Mapping[str, frozenset[int]],
) -> Iterable[dict[str, Any]]:
    missing = {rank: [need for need in rule.needs if rank in empty[need]] for rank in ranks}
    able = {rank for rank in ranks if not missing[rank]}
    rows = [row for row in _answers(connection, rule, overrides) if row["rank"] in able] if able else []
    rows += [_unknown(rank, f"{_listed(missing[rank])} in this capture") for rank in ranks if missing[rank]]
    answered = {row["rank"] for row in rows}
    rows += [_unknown(rank, "the rule gave no answer for this rank") for rank in ranks - answered]
    rows.sort(key=_place)
    return [_finding(rule, row) for row in rows]


def _listed(needs: list[str]) -> str:
    return f"no rows of {' and '.join(needs)}"


def _unknown(rank: int, reason: str) -> dict[str, Any]:
    return {"rank": rank, "step": None, "status": "unknown", "cost_ns": None, "reason": reason}


def _answers(connection: duckdb.DuckDBPyConnection, rule: Rule, overrides: dict[str, ParamValue]) -> list[dict[str, Any]]:
    try:
        result = query(connection, rule.sql, rule.query_values(overrides))
    except QueryError as error:
        raise RuleError(f"the query fails: {error}", where=str(rule.path)) from error
    fault = column_fault(rule, result.schema)
    if fault:
        raise RuleError(fault, where=str(rule.path))
    # In a fixed order, so that the same fault is named each time.
    rows: list[dict[str, Any]] = sorted(result.to_pylist(), key=_place)
    for row in rows:
        _check_answer(rule, row)
    return rows


def _place(row: Mapping[str, Any]) -> tuple[bool, int, bool, int]:
    return row["rank"] is not None, row["rank"] or 0, row["step"] is not None, row["step"] or 0


def _check_answer(rule: Rule, row: Mapping[str, Any]) -> None:
    fault = None
    if row["rank"] is None:
        fault = "a row has no rank"
    elif row["status"] not in STATUSES:
        fault = f"status is {row['status']!r} instead of {', '.join(STATUSES)}"
    elif not row["reason"]:
        fault = "a row has no reason"
    elif row["cost_ns"] is not None and row["cost_ns"] < 0:
        fault = f"cost_ns is {row['cost_ns']}"
    elif row["status"] == "unknown" and row["cost_ns"] is not None:
        fault = "an unknown answer has a cost"
    if fault:
        raise RuleError(f"breaks its contract: {fault} (rank {row['rank']}, step {row['step']})", where=str(rule.path))


def _finding(rule: Rule, row: Mapping[str, Any]) -> dict[str, Any]:
    contract = {name: row[name] for name, _ in CONTRACT}
    evidence = {column.name: _json_value(row.get(column.name)) for column in rule.evidence}
    return contract | {"rule": rule.id, "bottleneck": rule.bottleneck, "evidence": json.dumps(evidence, ensure_ascii=False)}


def _json_value(value: Any) -> Any:
    """JSON has no NaN and no infinity: they are unknown."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
