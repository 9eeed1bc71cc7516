"""What a rule file says, as data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from traceengine.errors import UsageError

STATUSES = ("hit", "clear", "unknown")
"""What a rule can answer."""

KINDS_OF_CHANGE = ("correctness repair", "system optimization", "training change")
"""What an experiment can be."""

CONTRACT: tuple[tuple[str, pa.DataType], ...] = (
    ("rank", pa.int64()),
    ("step", pa.int64()),
    ("status", pa.string()),
    ("cost_ns", pa.int64()),
    ("reason", pa.string()),
)
"""The columns that every rule returns first; step is NULL for an answer about the window, cost_ns NULL when unknown."""

PLACEHOLDER_COLUMNS = ("step", "cost_ns")
"""Contract columns that texts and conditions of an experiment may use besides the evidence."""

EVIDENCE_TYPES: dict[str, pa.DataType] = {"bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_(), "varchar": pa.string()}
"""Types of evidence columns, as DuckDB and as Arrow name them."""

EVIDENCE_STATES = ("measured", "estimated")
"""What the numbers of an evidence column can be: read off the trace, or computed from a model of what would happen."""

ParamValue = int | float | str | bool


@dataclass(frozen=True)
class Param:
    """A threshold or setting of a rule: what it is by default and why."""

    name: str
    default: ParamValue
    doc: str
    unit: str = ""


@dataclass(frozen=True)
class EvidenceColumn:
    """A column of evidence: DuckDB type, unit (ns, bytes, share, bytes/s or empty), sentence, and what its numbers are."""

    name: str
    type: str
    unit: str
    doc: str
    state: str = "measured"


@dataclass(frozen=True)
class Experiment:
    """One controlled change: `when` is a SQL condition on the evidence; texts may hold `{evidence}` placeholders."""

    when: str
    hypothesis: str
    change: str
    kind: str
    guards: tuple[str, ...]
    stop: str
    invariants: tuple[str, ...] = ()
    measure: tuple[str, ...] = ()
    rollback: str = ""


@dataclass(frozen=True)
class Rule:
    """One rule file; `id` is the file's stem."""

    id: str
    path: Path
    title: str
    bottleneck: str
    needs: tuple[str, ...]
    why: str
    params: tuple[Param, ...]
    evidence: tuple[EvidenceColumn, ...]
    experiments: tuple[Experiment, ...]
    sql: str

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        """Names and Arrow types of the result: the contract, then the evidence."""
        return (*CONTRACT, *((column.name, EVIDENCE_TYPES[column.type]) for column in self.evidence))

    def values(self, overrides: dict[str, ParamValue] | None = None) -> dict[str, ParamValue]:
        """Values of the parameters, defaults replaced by `overrides` of this rule."""
        return {param.name: param.default for param in self.params} | (overrides or {})

    def query_values(self, overrides: dict[str, ParamValue] | None = None) -> dict[str, ParamValue]:
        """The same for the parameters that the SQL names; others stand only in conditions of experiments."""
        return {name: value for name, value in self.values(overrides).items() if re.search(rf"\${name}\b", self.sql)}


@dataclass(frozen=True)
class RuleSet:
    """Rules in the order of their ids."""

    rules: tuple[Rule, ...]

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def rule(self, rule_id: str) -> Rule:
        """The rule of that id; UsageError when there is none."""
        for rule in self.rules:
            if rule.id == rule_id:
                return rule
        raise UsageError(f"no rule is called {rule_id!r}", hint="`traceengine rules list` names them.")
