"""What `experiment.json` holds, as data; its form is `experiment.schema.json` beside this file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

SCHEMA_VERSION = 1
"""Rises when a name changes its meaning or goes; new names may come at any time."""

Value = int | float | str | bool | None

CONTRACT = (
    "entry_point",
    "code_revision",
    "environment",
    "hardware",
    "dataset",
    "shapes",
    "compute_dtype",
    "storage_dtype",
    "reduction_dtype",
    "microbatch",
    "accumulation",
    "ranks",
    "global_batch",
    "evaluation_protocol",
    "measurement_boundary",
)
"""What must be known before two measurements can be compared."""


@dataclass(frozen=True)
class Fact:
    """A value that may be unknown: `state` is measured, estimated, declared or unknown; `source` says where it was read."""

    state: str
    value: Value
    source: str | None

    @classmethod
    def unknown(cls) -> Fact:
        """Not known yet."""
        return cls("unknown", None, None)

    @classmethod
    def measured(cls, value: Value, source: str) -> Fact:
        """Read off the trace; unknown when it is None there."""
        return cls.unknown() if value is None else cls("measured", value, source)


@dataclass(frozen=True)
class Check:
    """A guard or a step of the plan. States above `scaffolded` need a command, its exit status and an artifact's hash."""

    name: str
    state: str = "planned"
    command: str | None = None
    exit_status: int | None = None
    artifact: str | None = None
    artifact_sha256: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Query:
    """SQL that returns rows of the run, for `traceengine sql RUN SQL --param NAME=VALUE`."""

    what: str
    sql: str
    params: Mapping[str, Value]


@dataclass(frozen=True)
class RunLink:
    """The run that the evidence lies in: `key` identifies its inputs and importer, so equal keys mean equal tables."""

    name: str
    key: str
    schema_version: int
    sources: tuple[Mapping[str, Value], ...]


@dataclass(frozen=True)
class Constraint:
    """The bottleneck, what shows it, and the rows behind it. Times in ns, shares 0..1."""

    run: RunLink
    rank: int
    cause: str
    rule: str
    reason: str
    owner: str
    confidence: str
    confidence_reasons: tuple[str, ...]
    share: float
    exposed_ns: int
    per: str
    runner_up: str | None
    steps: tuple[int, ...]
    median_step_ns: int | None
    evidence: tuple[Mapping[str, Value], ...]
    queries: tuple[Query, ...]


@dataclass(frozen=True)
class Bound:
    """What the change could save at most, and what that rests on (replay or exposed time); never a promise."""

    state: str
    saving_ns: int | None
    per: str
    rests_on: str


@dataclass(frozen=True)
class Hypothesis:
    """Why the change should help, and by how much at most."""

    statement: str
    bound: Bound


@dataclass(frozen=True)
class Change:
    """The one change; `settings` are the execution settings declared as changed, `diff` names the patch."""

    statement: str
    kind: str
    settings: Fact
    diff: Fact


@dataclass(frozen=True)
class Budget:
    """What may be spent before the experiment stops without a result."""

    device_time_ns: Fact
    wall_time_ns: Fact
    windows: Fact


@dataclass(frozen=True)
class Decision:
    """keep, revert or inconclusive, once the measurements are in."""

    state: str = "planned"
    outcome: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Limits:
    """What the capture cannot tell, and what was considered and not advised."""

    unknown: tuple[Mapping[str, str], ...]
    not_advised: tuple[Mapping[str, str], ...]


@dataclass(frozen=True)
class Record:
    """One guarded experiment."""

    schema_version: int
    tool_version: str
    title: str
    contract: Mapping[str, Fact]
    bottleneck: Constraint
    hypothesis: Hypothesis
    change: Change
    invariants: tuple[Check, ...]
    guards: tuple[Check, ...]
    plan: tuple[Check, ...]
    budget: Budget
    stop: str
    rollback: str
    decision: Decision
    limits: Limits


def render(record: Record) -> str:
    """The document as text."""
    return json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n"


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of `experiment.json`, as shipped."""
    text = resources.files(__package__).joinpath("experiment.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
