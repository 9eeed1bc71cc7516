"""Cases beside a rule: tiny tables, and what the rule must answer on them (`NAME.cases.toml` beside `NAME.sql`).

```toml
[[case]]
name = "half of each step"

[case.tables]
step = '''
step | ts_ns | dur_ns
0    | 0     | 1000
'''

[[case.expect]]
status = "hit"
cost_ns = 500
evidence.share = 0.5
experiment = "num_workers = 4"
```
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from traceengine.errors import RuleError, UsageError
from traceengine.rules.experiments import Value, fill, matching_experiments
from traceengine.rules.model import STATUSES, Experiment, ParamValue, Rule, RuleSet
from traceengine.rules.run import run_rules
from traceengine.rules.tinytable import TinyTableError, rows
from traceengine.schema import TABLES
from traceengine.sql import open_table_sandbox

SUFFIX = ".cases.toml"
UNKNOWN = "unknown"
"""Written in place of a value that must be NULL."""

_TOLERANCE = 1e-6
_CASE = re.compile(r"\s*\[\[\s*case\s*\]\]")
_TOML_LINE = re.compile(r"\(at line (\d+)")
_EXPECT_KEYS = ("rank", "step", "status", "cost_ns", "reason", "evidence", "experiment")


@dataclass(frozen=True)
class Expectation:
    """What one answer must be. Keys that a case leaves out are not compared; `experiment` False means that none is advised."""

    rank: int
    step: int | None
    status: str
    given: Mapping[str, Any]
    evidence: Mapping[str, Value]


@dataclass(frozen=True)
class Case:
    """One case; `line` is where it begins in its file."""

    name: str
    path: Path
    line: int
    tables: Mapping[str, pa.Table]
    params: Mapping[str, ParamValue]
    expected: tuple[Expectation, ...]


@dataclass(frozen=True)
class CaseResult:
    """How a case went: differences in words (none: passed), statuses that were seen, experiments that were advised."""

    case: Case
    differences: tuple[str, ...]
    statuses: frozenset[str]
    advised: tuple[Experiment, ...]


@dataclass(frozen=True)
class RuleReport:
    """All cases of a rule, and what they leave untested."""

    rule: Rule
    results: tuple[CaseResult, ...]
    warnings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True when no case differs."""
        return not any(result.differences for result in self.results)


class _CasesFile:
    """A parsed file, and the lines of its parts: TOML parsers tell no positions."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
            self.document = tomllib.loads(text)
        except (OSError, UnicodeDecodeError) as error:
            raise RuleError(f"cannot be read ({error})", where=str(path)) from error
        except tomllib.TOMLDecodeError as error:
            found = _TOML_LINE.search(str(error))
            raise RuleError(f"is not valid TOML: {error}", where=f"{path}:{found.group(1) if found else 1}") from error
        self._lines = text.splitlines()
        self.starts = [number for number, line in enumerate(self._lines, 1) if _CASE.match(line)]

    def line(self, case: int, key: str = "") -> int:
        """Line of the first `key` in case number `case`, else of the case."""
        if case >= len(self.starts):
            return 1
        first = self.starts[case]
        last = self.starts[case + 1] - 1 if case + 1 < len(self.starts) else len(self._lines)
        pattern = re.compile(rf"(?<!\w){re.escape(key)}(?!\w)")
        return next((number for number in range(first, last + 1) if key and pattern.search(self._lines[number - 1])), first)

    def error(self, message: str, case: int, key: str = "", *, below: int = 0, hint: str | None = None) -> RuleError:
        """A RuleError at the line of `key`, `below` lines further down."""
        return RuleError(message, where=f"{self.path}:{self.line(case, key) + below}", hint=hint)


def cases_path(rule: Rule) -> Path:
    """Where the cases of a rule are."""
    return rule.path.with_name(rule.path.stem + SUFFIX)


def load_cases(rule: Rule) -> tuple[Case, ...]:
    """The cases beside a rule; none when there is no file. Raises RuleError with file and line."""
    path = cases_path(rule)
    if not path.exists():
        return ()
    file = _CasesFile(path)
    entries = file.document.get("case", [])
    if set(file.document) - {"case"} or not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise RuleError("holds something else than cases", where=f"{path}:1", hint="Begin each case with [[case]].")
    return tuple(_case(file, rule, number, entry) for number, entry in enumerate(entries))


def _known(file: _CasesFile, number: int, entry: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    for key in entry:
        if key not in known:
            raise file.error(f"unknown key {key!r} in {place}", number, key, hint=f"Known keys are {', '.join(known)}.")


def _case(file: _CasesFile, rule: Rule, number: int, entry: Mapping[str, Any]) -> Case:
    _known(file, number, entry, ("name", "tables", "params", "expect"), "a [[case]]")
    name = entry.get("name")
    if not isinstance(name, str) or not name.strip():
        raise file.error("the case has no name", number, hint='Add: name = "..."')
    params = entry.get("params", {})
    for key in params:
        if key not in {param.name for param in rule.params}:
            raise file.error(f"the rule has no parameter {key!r}", number, key)
    expected = entry.get("expect", [])
    expected = [expected] if isinstance(expected, dict) else expected
    if not isinstance(expected, list) or not expected:
        raise file.error(f"case {name!r} expects nothing", number, hint="Add [[case.expect]] with a status.")
    tables = {table: _table(file, number, table, text) for table, text in entry.get("tables", {}).items()}
    answers = tuple(_expectation(file, rule, number, answer) for answer in expected)
    return Case(name, file.path, file.line(number), _with_sources(tables, answers), params, answers)


def _table(file: _CasesFile, number: int, name: str, text: object) -> pa.Table:
    if name not in {entry.name for entry in TABLES}:
        raise file.error(f"{name!r} is no table", number, name, hint="`traceengine tables` lists them; views are made from tables.")
    if not isinstance(text, str):
        raise file.error(f"table {name} must be text", number, name, hint="Write a header line and a line per row between '''.")
    try:
        return rows(name, text)
    except TinyTableError as error:
        raise file.error(str(error), number, name, below=1 + error.line) from error


def _with_sources(tables: dict[str, pa.Table], answers: tuple[Expectation, ...]) -> dict[str, pa.Table]:
    """Rules answer for the ranks of table `source`: without one, for those that the case names."""
    if "source" in tables:
        return tables
    ranks = {rank for rows_of in tables.values() for rank in rows_of.column("rank").to_pylist()} | {answer.rank for answer in answers}
    return tables | {"source": rows("source", "rank | kind\n" + "\n".join(f"{rank} | torch" for rank in sorted(ranks)))}


def _expectation(file: _CasesFile, rule: Rule, number: int, entry: Mapping[str, Any]) -> Expectation:
    _known(file, number, entry, _EXPECT_KEYS, "an [[case.expect]]")
    status = entry.get("status")
    if status not in STATUSES:
        raise file.error(f"status is {status!r}", number, "status", hint=f"It is one of {', '.join(STATUSES)}.")
    evidence = entry.get("evidence", {})
    for key in evidence:
        if key not in {column.name for column in rule.evidence}:
            raise file.error(f"the rule has no evidence column {key!r}", number, key)
    given = {key: entry[key] for key in ("cost_ns", "reason", "experiment") if key in entry}
    for key, kinds in (("cost_ns", (int, str)), ("reason", (str,)), ("experiment", (str, bool))):
        if key in given and (not isinstance(given[key], kinds) or given[key] is True):
            raise file.error(f"{key} cannot be {given[key]!r}", number, key)
    return Expectation(entry.get("rank", 0), entry.get("step"), status, given, evidence)


def run_cases(rule: Rule) -> RuleReport:
    """Run the cases of a rule. Raises RuleError for cases that cannot be read, or when the rule breaks its contract."""
    results = tuple(_run(rule, case) for case in load_cases(rule))
    return RuleReport(rule, results, _warnings(rule, results))


def _run(rule: Rule, case: Case) -> CaseResult:
    with open_table_sandbox(case.tables) as connection:
        try:
            found = run_rules(connection, RuleSet((rule,)), {rule.id: case.params}).to_pylist()
        except (RuleError, UsageError) as error:
            raise RuleError(f"case {case.name!r}: {error}", where=f"{case.path}:{case.line}") from error
    answers = [row | {"evidence": json.loads(row["evidence"])} for row in found]
    differences: list[str] = []
    advised: list[Experiment] = []
    for expected in case.expected:
        row = next((row for row in answers if (row["rank"], row["step"]) == (expected.rank, expected.step)), None)
        if row is None:
            differences.append(f"{_place(expected)}: no answer; the rule answers for {_places(answers)}")
            continue
        experiment = _advised(rule, row)
        advised += [experiment] if experiment else []
        differences += [f"{_place(expected)}: {text}" for text in _differences(rule, expected, row, experiment)]
    return CaseResult(case, tuple(differences), frozenset(expected.status for expected in case.expected), tuple(advised))


def _place(expected: Expectation) -> str:
    return f"rank {expected.rank}" + ("" if expected.step is None else f", step {expected.step}")


def _places(answers: list[dict[str, Any]]) -> str:
    return "; ".join(f"rank {row['rank']}" + ("" if row["step"] is None else f", step {row['step']}") for row in answers)


def _advised(rule: Rule, row: Mapping[str, Any]) -> Experiment | None:
    """What `analyze` would advise: the first experiment whose condition holds, of a hit."""
    if row["status"] != "hit":
        return None
    return next(iter(matching_experiments(rule, _values(row))), None)


def _values(row: Mapping[str, Any]) -> dict[str, Value]:
    return {**row["evidence"], "cost_ns": row["cost_ns"], "step": row["step"]}


def _differences(rule: Rule, expected: Expectation, row: Mapping[str, Any], experiment: Experiment | None) -> list[str]:
    found = []
    if row["status"] != expected.status:
        found.append(f"status is {row['status']}, expected {expected.status} (reason: {row['reason']})")
    if "cost_ns" in expected.given and not _equal(expected.given["cost_ns"], row["cost_ns"]):
        found.append(f"cost_ns is {_word(row['cost_ns'])}, expected {expected.given['cost_ns']}")
    if "reason" in expected.given and expected.given["reason"] not in row["reason"]:
        found.append(f"reason is {row['reason']!r}, expected it to hold {expected.given['reason']!r}")
    for name, value in expected.evidence.items():
        if not _equal(value, row["evidence"].get(name)):
            found.append(f"{name} is {_word(row['evidence'].get(name))}, expected {_word(value)}")
    if "experiment" in expected.given:
        found += _experiment_difference(rule, expected.given["experiment"], row, experiment)
    return found


def _experiment_difference(rule: Rule, expected: str | bool, row: Mapping[str, Any], experiment: Experiment | None) -> list[str]:
    change = fill(rule, experiment, _values(row), lambda value, _unit: _word(value)).change if experiment else None
    if expected is False:
        return [f"it advises {change!r}, expected no experiment"] if change else []
    if change is None:
        return [f"no experiment is advised, expected {expected!r}"]
    return [] if str(expected) in change else [f"it advises {change!r}, expected it to hold {expected!r}"]


def _equal(expected: object, value: object) -> bool:
    if expected == UNKNOWN:
        return value is None or value == UNKNOWN
    if isinstance(expected, bool) or isinstance(value, bool):
        return expected is value
    if isinstance(expected, int | float) and isinstance(value, int | float):
        return math.isclose(expected, value, rel_tol=_TOLERANCE, abs_tol=1e-12)
    return expected == value


def _word(value: object) -> str:
    return UNKNOWN if value is None else str(value)


def _warnings(rule: Rule, results: tuple[CaseResult, ...]) -> tuple[str, ...]:
    if not results:
        return (f"no cases: write {cases_path(rule).name} beside it",)
    seen = frozenset[str]().union(*(result.statuses for result in results))
    found = [f"no case expects {status!r}" for status in STATUSES if status not in seen]
    reached = [experiment for result in results for experiment in result.advised]
    found += [f"no case reaches the experiment when {entry.when}" for entry in rule.experiments if entry not in reached]
    return tuple(found)
