"""Which experiments follow from a finding, and their texts with the finding's values in place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import duckdb
import pyarrow as pa

from traceengine.errors import RuleError
from traceengine.rules.model import CONTRACT, EVIDENCE_TYPES, PLACEHOLDER_COLUMNS, EvidenceColumn, Experiment, Param, Rule
from traceengine.sql import bare_sandbox

Value = int | float | str | bool | None
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


_PARAM_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


def _row(evidence: tuple[EvidenceColumn, ...], params: tuple[Param, ...], row: Mapping[str, Value]) -> pa.Table:
    """What a condition sees: contract columns and evidence of `row`, and the parameters by name."""
    contract = [(name, kind) for name, kind in CONTRACT if name in PLACEHOLDER_COLUMNS]
    fields = contract + [(column.name, EVIDENCE_TYPES[column.type]) for column in evidence]
    known = {name: row.get(name) for name, _ in fields} | {param.name: param.default for param in params}
    return pa.Table.from_pylist([known], schema=pa.schema(fields + [(param.name, _PARAM_TYPES[type(param.default)]) for param in params]))


def _holds(condition: str, row: pa.Table) -> bool:
    """Whether `condition` is true for the one row; NULL is not true. Raises duckdb.Error for a bad condition."""
    with bare_sandbox().cursor() as connection:
        answer = connection.from_arrow(row).project(duckdb.SQLExpression(condition).alias("holds"))
        if [str(kind) for kind in answer.types] != ["BOOLEAN"]:
            raise duckdb.BinderException("it is not a boolean")
        return bool(answer.fetchall() == [(True,)])


def condition_error(condition: str, evidence: tuple[EvidenceColumn, ...], params: tuple[Param, ...]) -> str | None:
    """What is wrong with a condition over these evidence columns and parameters, or None."""
    try:
        _holds(condition, _row(evidence, params, {}))
    except duckdb.Error as error:
        return str(error).splitlines()[0]
    return None


def matching_experiments(rule: Rule, row: Mapping[str, Value]) -> list[Experiment]:
    """The rule's experiments whose `when` is true for `row`: evidence and parameters by name, and step and cost_ns where known."""
    table = _row(rule.evidence, rule.params, row)
    matching = []
    for experiment in rule.experiments:
        try:
            if _holds(experiment.when, table):
                matching.append(experiment)
        except duckdb.Error as error:
            raise RuleError(f"the condition {experiment.when!r} fails: {str(error).splitlines()[0]}", where=str(rule.path)) from error
    return matching


def _texts(experiment: Experiment) -> tuple[str, ...]:
    singles = (experiment.hypothesis, experiment.change, experiment.stop, experiment.rollback)
    return (*singles, *experiment.invariants, *experiment.guards, *experiment.measure)


def placeholders(experiment: Experiment) -> set[str]:
    """Names in braces in the experiment's texts."""
    return {name for text in _texts(experiment) for name in _PLACEHOLDER.findall(text)}


def fill(rule: Rule, experiment: Experiment, row: Mapping[str, Value], show: Callable[[Value, str], str]) -> Experiment:
    """The experiment with every `{name}` replaced by `show(value, unit)`; `show` also says how an unknown (None) reads."""
    units = {"cost_ns": "ns"} | {column.name: column.unit for column in rule.evidence}

    def put(text: str) -> str:
        return _PLACEHOLDER.sub(lambda found: show(row.get(found.group(1)), units.get(found.group(1), "")), text)

    def put_all(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(put(text) for text in texts)

    return replace(
        experiment,
        hypothesis=put(experiment.hypothesis),
        change=put(experiment.change),
        stop=put(experiment.stop),
        rollback=put(experiment.rollback),
        invariants=put_all(experiment.invariants),
        guards=put_all(experiment.guards),
        measure=put_all(experiment.measure),
    )
