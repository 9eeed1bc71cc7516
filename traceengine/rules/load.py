"""Load rule files and check everything about them that can be checked without a trace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from traceengine.classes import class_ids
from traceengine.errors import QueryError, RuleError
from traceengine.rules.defaults import load_defaults
from traceengine.rules.experiments import condition_error, placeholders
from traceengine.rules.header import check_params, read_params, read_tables, read_unit
from traceengine.rules.model import (
    CONTRACT,
    EVIDENCE_STATES,
    EVIDENCE_TYPES,
    KINDS_OF_CHANGE,
    PLACEHOLDER_COLUMNS,
    EvidenceColumn,
    Experiment,
    Param,
    Rule,
    RuleSet,
)
from traceengine.schema import TABLES
from traceengine.sql import open_empty_sandbox, query
from traceengine.sqlfile import SqlFile, read_sql_file, sql_files
from traceengine.views import keep_small_views, load_views

_ID = re.compile(r"[a-z][a-z0-9_]*")
_RULE_KEYS = ("title", "bottleneck", "needs", "why", "params", "evidence", "experiment")
_EXPERIMENT_KEYS = ("when", "hypothesis", "change", "kind", "invariants", "guards", "measure", "stop", "rollback")


def load_rules(folders: Iterable[Path]) -> RuleSet:
    """Load all rules of the folders, folders within them included. Raises RuleError with file and line for the first fault."""
    rules: dict[str, Rule] = {}
    with open_empty_sandbox() as connection:
        keep_small_views(connection)
        for folder in folders:
            if not folder.is_dir():
                raise RuleError("is no folder", where=str(folder), hint="Pass a folder with *.sql rule files.")
            for path in sql_files(folder):
                rule = load_rule(path, connection)
                if rule.id in rules:
                    raise RuleError(f"the id {rule.id!r} is taken by {rules[rule.id].path}", where=f"{path}:1", hint="Rename the file.")
                rules[rule.id] = rule
    return RuleSet(tuple(rules[name] for name in sorted(rules)))


def load_rule(path: Path, connection: duckdb.DuckDBPyConnection) -> Rule:
    """Load and check one file; `connection` sees the empty tables and views (`open_empty_sandbox`)."""
    file = read_sql_file(path, "rule")
    header = file.header
    file.known_keys(header, _RULE_KEYS, "the header")
    params = read_params(file)
    evidence = tuple(_evidence(file, name, entry, params) for name, entry in read_tables(file, "evidence").items())
    rule = Rule(
        id=file.name,
        path=path,
        title=file.text(header, "title", "the header"),
        bottleneck=file.text(header, "bottleneck", "the header"),
        needs=file.texts(header, "needs", "the header"),
        why=file.text(header, "why", "the header"),
        params=params,
        evidence=evidence,
        experiments=tuple(_experiment(file, entry, evidence, params) for entry in _experiments(file)),
        sql=file.body,
    )
    _check_names(file, rule)
    _check_query(file, rule, connection)
    return rule


def _experiments(file: SqlFile) -> list[Mapping[str, Any]]:
    entries = file.header.get("experiment", [])
    if not isinstance(entries, list):
        raise file.error("'experiment' must be a list of tables", "experiment", hint="Write [[experiment]] and its keys below.")
    return entries


def _evidence(file: SqlFile, name: str, entry: Mapping[str, Any], params: tuple[Param, ...]) -> EvidenceColumn:
    place = f"evidence {name!r}"
    file.known_keys(entry, ("type", "unit", "doc", "state"), place)
    if name in dict(CONTRACT):
        raise file.error(f"{place} is a column of the contract already", name, hint="Choose another name.")
    if name in {param.name for param in params}:
        raise file.error(f"{place} has the name of a param", name, hint="Choose another name.")
    kind = file.text(entry, "type", place)
    if kind not in EVIDENCE_TYPES:
        raise file.error(f"{place} has the unknown type {kind!r}", kind, hint=f"Types are {', '.join(EVIDENCE_TYPES)}.")
    state = file.text(entry, "state", place, "measured")
    if state not in EVIDENCE_STATES:
        raise file.error(f"{place} has the unknown state {state!r}", "state", state, hint=f"States are {', '.join(EVIDENCE_STATES)}.")
    return EvidenceColumn(name, kind, read_unit(file, entry, place), file.text(entry, "doc", place), state)


def _experiment(file: SqlFile, entry: Mapping[str, Any], evidence: tuple[EvidenceColumn, ...], params: tuple[Param, ...]) -> Experiment:
    place = "an [[experiment]]"
    file.known_keys(entry, _EXPERIMENT_KEYS, place)
    shared = load_defaults()
    experiment = Experiment(
        when=file.text(entry, "when", place),
        hypothesis=file.text(entry, "hypothesis", place),
        change=file.text(entry, "change", place),
        kind=file.text(entry, "kind", place),
        guards=file.texts(entry, "guards", place),
        stop=file.text(entry, "stop", place, shared.stop),
        invariants=file.texts(entry, "invariants", place, shared.invariants),
        measure=file.texts(entry, "measure", place, shared.measure),
        rollback=file.text(entry, "rollback", place, shared.rollback),
    )
    if experiment.kind not in KINDS_OF_CHANGE:
        raise file.error(f"unknown kind of change {experiment.kind!r}", "kind", hint=f"Kinds are {', '.join(KINDS_OF_CHANGE)}.")
    known = {*PLACEHOLDER_COLUMNS, *(column.name for column in evidence)}
    for name in placeholders(experiment):
        if name not in known:
            raise file.error(f"{{{name}}} is no evidence column", f"{{{name}}}", hint=f"Declare [evidence.{name}].")
    fault = condition_error(experiment.when, evidence, params)
    if fault:
        raise file.error(f"the condition {experiment.when!r} fails: {fault}", "when", experiment.when)
    return experiment


def _check_names(file: SqlFile, rule: Rule) -> None:
    if not _ID.fullmatch(rule.id):
        raise RuleError(f"{rule.id!r} is no rule id", where=f"{rule.path}:1", hint="Name the file in snake_case.")
    if rule.bottleneck not in class_ids():
        raise file.error(f"unknown bottleneck {rule.bottleneck!r}", "bottleneck", hint="Classes: docs/reference/classes.md.")
    known = {entry.name for entry in TABLES} | {view.name for view in load_views()}
    for name in rule.needs:
        if name not in known:
            raise file.error(f"needs {name!r}, which is no table or view", "needs", name, hint="`traceengine tables` lists them.")


def _check_query(file: SqlFile, rule: Rule, connection: duckdb.DuckDBPyConnection) -> None:
    place = file.body_place
    check_params(file, rule.params, connection, [experiment.when for experiment in rule.experiments])
    try:
        schema = query(connection, rule.sql, rule.query_values()).schema
    except QueryError as error:
        raise RuleError(f"the query fails: {error}", where=place) from error
    fault = column_fault(rule, schema)
    if fault:
        raise RuleError(fault, where=place, hint="Return rank, step, status, cost_ns, reason, then the evidence in declared order.")


def column_fault(rule: Rule, schema: pa.Schema) -> str | None:
    """What is wrong with the result's columns, or None."""
    expected = [name for name, _ in rule.columns]
    if schema.names != expected:
        return f"returns the columns {', '.join(schema.names)} instead of {', '.join(expected)}"
    for name, kind in rule.columns:
        if schema.field(name).type != kind:
            return f"column {name!r} is {schema.field(name).type} instead of {kind}: cast it"
    return None
