"""What an event name means: the rows of queries/names.csv, first match wins.

Patterns are globs (`*`, `?`) on the lower-cased name. `target` says which names a row speaks of: `device` kernels,
`host` operators, runtime calls and profiler annotations, `range` user and NVTX ranges, `python` Python frames, `collective`
collectives (their kinds), `matrix_unit` kernels of matrix products and convolutions (whether they use matrix units: tensor cores).
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa

from traceengine.errors import RuleError
from traceengine.resources import queries_dir

LOADING = frozenset({"data_wait", "data_wait_single", "data_wait_workers"})
"""Classes of waiting for, or making, the next batch."""

TARGETS = ("device", "host", "range", "python", "collective", "matrix_unit")

NAME_PATTERN = pa.schema([("target", pa.string()), ("place", pa.int64()), ("pattern", pa.string()), ("class", pa.string())])
"""Columns of `Names.table`."""


@dataclass(frozen=True)
class NameRule:
    """One row of names.csv."""

    target: str
    pattern: str
    meaning: str
    cause: str | None
    note: str


def _glob_regex(pattern: str) -> str:
    return "".join(".*" if char == "*" else "." if char == "?" else re.escape(char) for char in pattern)


@dataclass(frozen=True)
class Names:
    """The loaded list, ready to classify."""

    rules: tuple[NameRule, ...]
    digest: str

    def classify(self, target: str, names: Iterable[str | None]) -> list[str | None]:
        """Meaning of each name, or None; the order of `names` is kept."""
        matcher = self._matcher(target)
        return [None if name is None else matcher(name) for name in names]

    def table(self, targets: Iterable[str]) -> pa.Table:
        """The rows of these targets for SQL: `target`, `place` (the first match wins), `pattern` as a regular expression, `class`."""
        rows = [
            {"target": rule.target, "place": place, "pattern": _glob_regex(rule.pattern), "class": rule.meaning}
            for place, rule in enumerate(self.rules)
            if rule.target in set(targets)
        ]
        return pa.Table.from_pylist(rows, schema=NAME_PATTERN)

    def causes(self) -> dict[str, str]:
        """Cause (class id of a bottleneck) of each meaning that has one."""
        return {rule.meaning: rule.cause for rule in self.rules if rule.cause}

    def _matcher(self, target: str) -> Matcher:
        return _build_matcher(tuple(rule for rule in self.rules if rule.target == target))


class Matcher:
    """Classifies one name by a single alternation, so that cost does not grow with the number of rows in Python."""

    def __init__(self, rules: tuple[NameRule, ...]) -> None:
        self._meanings = [rule.meaning for rule in rules]
        body = "|".join(f"({_glob_regex(rule.pattern)})" for rule in rules)
        self._regex = re.compile(body, re.DOTALL) if rules else None
        self._seen: dict[str, str | None] = {}

    def __call__(self, name: str) -> str | None:
        """Meaning of `name`, or None."""
        if name not in self._seen:
            hit = self._regex.fullmatch(name.lower()) if self._regex else None
            self._seen[name] = self._meanings[hit.lastindex - 1] if hit and hit.lastindex else None
        return self._seen[name]


@cache
def _build_matcher(rules: tuple[NameRule, ...]) -> Matcher:
    return Matcher(rules)


@cache
def load_names(path: Path | None = None) -> Names:
    """Load and check a name list (default: queries/names.csv). Raises RuleError with file and line."""
    path = path or queries_dir() / "names.csv"
    content = path.read_bytes()
    rules: list[NameRule] = []
    causes: dict[str, str | None] = {}
    for line, row in enumerate(csv.DictReader(content.decode().splitlines()), start=2):
        rule = NameRule(row["target"], row["pattern"], row["class"], row["cause"] or None, row["note"] or "")
        if rule.target not in TARGETS or not rule.pattern or not rule.meaning:
            hint = f"Targets are {', '.join(TARGETS)}."
            raise RuleError(f"unknown target or empty field in {row}", where=f"{path.name}:{line}", hint=hint)
        if rule.pattern != rule.pattern.lower():
            raise RuleError("patterns are lower case", where=f"{path.name}:{line}", hint=f"Write {rule.pattern.lower()!r}.")
        if causes.setdefault(rule.meaning, rule.cause) != rule.cause:
            raise RuleError(f"class {rule.meaning!r} has two causes", where=f"{path.name}:{line}", hint="Give the row another class.")
        rules.append(rule)
    return Names(tuple(rules), hashlib.sha256(content).hexdigest())
