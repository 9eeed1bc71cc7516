"""`traceengine rules list|show|test`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from traceengine.analysis import ensure_analysis
from traceengine.cli.session import own_rule_folders, rule_set, say
from traceengine.cli.tabular import write_rows
from traceengine.errors import CheckFailed, UsageError
from traceengine.report.units import show, visible
from traceengine.rules import Rule, RuleSet, run_rules
from traceengine.rules.cases import RuleReport, run_cases
from traceengine.run import Run

_LIST = pa.schema([("rule", pa.string()), ("bottleneck", pa.string()), ("title", pa.string())])
_PATH = click.Path(path_type=Path)
_FORMS = {"text": "table", "md": "md", "json": "json"}


def rules_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--rules DIR`, repeatable; TRACEENGINE_RULES holds more folders."""
    return click.option(
        "--rules",
        "folders",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Folder with rules of your own; repeatable. TRACEENGINE_RULES names more of them.",
    )(command)


@click.group("rules", epilog="\b\nExample:\n  traceengine rules list")
def rules_group() -> None:
    """List the rules, show one, or test your own."""


@rules_group.command("list", epilog="\b\nExample:\n  traceengine rules list --format json")
@rules_option
@click.option("--format", "form", type=click.Choice(tuple(_FORMS)), default="text", show_default=True, help="Form of the list.")
def list_command(folders: tuple[Path, ...], form: str) -> None:
    """List all rules: id, bottleneck class, title."""
    rules = rule_set(folders)
    records = [{"rule": rule.id, "bottleneck": rule.bottleneck, "title": rule.title} for rule in rules]
    write_rows(pa.Table.from_pylist(records, schema=_LIST), _FORMS[form])


@rules_group.command("show", epilog="\b\nExample:\n  traceengine rules show data_wait")
@click.argument("rule")
@rules_option
def show_command(rule: str, folders: tuple[Path, ...]) -> None:
    """Show one rule: why, parameters, evidence, experiments, SQL."""
    click.echo(render_rule(rule_set(folders).rule(rule)), nl=False)


@rules_group.command("test", epilog="\b\nExample:\n  traceengine rules test my-rules --run runs/job")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[DIR...]")
@rules_option
@click.option("--run", "runs", multiple=True, type=_PATH, metavar="RUN", help="Also show the answers there; repeatable.")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True, help="Form of the result.")
def test_command(paths: tuple[Path, ...], folders: tuple[Path, ...], runs: tuple[Path, ...], form: str) -> None:
    """Check the rules of DIR, and run the cases beside them (docs/write-a-rule.md).

    A case file NAME.cases.toml holds tiny tables and the answers that NAME.sql must give on them. Exit code 1 when a case
    fails, 2 for a rule or case file that cannot be read; what the cases leave untested is a warning.
    """
    named = own_rule_folders((*paths, *folders))
    if not named:
        raise UsageError("no folder with rules is named", hint="For example: traceengine rules test my-rules")
    rules = rule_set((*paths, *folders))
    own = RuleSet(tuple(rule for rule in rules if any(rule.path.is_relative_to(folder) for folder in named)))
    if not len(own):
        raise UsageError("no *.sql file is there", where=", ".join(map(str, named)), hint="A rule is a file NAME.sql.")
    reports = [run_cases(rule) for rule in own]
    answers = [answer for run in runs for answer in _answers(Run.open(run), own)]
    click.echo(_as_json(reports, answers) if form == "json" else _as_text(own, reports, answers), nl=False)
    for report in reports:
        for warning in report.warnings:
            say("warning", f"{report.rule.id}: {warning}")
    failed = sum(bool(result.differences) for report in reports for result in report.results)
    if failed:
        raise CheckFailed(f"{failed} of {sum(len(report.results) for report in reports)} cases fail")


def _answers(run: Run, rules: RuleSet) -> list[dict[str, Any]]:
    """What the rules answer on a run, with the tables of its analysis."""
    analysis = ensure_analysis(run)
    with analysis.connect() as connection:
        rows = run_rules(connection, rules).to_pylist()
    return [{"run": run.path.name, **row, "evidence": json.loads(row["evidence"])} for row in rows]


def _as_json(reports: list[RuleReport], answers: list[dict[str, Any]]) -> str:
    cases = [
        {"rule": report.rule.id, "case": result.case.name, "passed": not result.differences, "differences": list(result.differences)}
        for report in reports
        for result in report.results
    ]
    warnings = [{"rule": report.rule.id, "warning": warning} for report in reports for warning in report.warnings]
    return json.dumps({"cases": cases, "warnings": warnings, "answers": answers}, indent=1, ensure_ascii=False) + "\n"


def _as_text(rules: RuleSet, reports: list[RuleReport], answers: list[dict[str, Any]]) -> str:
    lines = []
    for report in reports:
        for result in report.results:
            lines.append(f"{'FAIL' if result.differences else 'pass'}  {report.rule.id}: {visible(result.case.name)}")
            lines += [f"      {visible(difference)} ({result.case.path.name}:{result.case.line})" for difference in result.differences]
    for answer in answers:
        step = "" if answer["step"] is None else f", step {answer['step']}"
        lines.append(f"{answer['run']}, rank {answer['rank']}{step}: {answer['rule']} {answer['status']}: {visible(answer['reason'])}")
        shown = [f"cost {show(answer['cost_ns'], 'ns')}"]
        columns = rules.rule(answer["rule"]).evidence
        shown += [f"{column.name} {show(answer['evidence'].get(column.name), column.unit)}" for column in columns]
        lines.append(f"      {', '.join(shown)}")
    return "".join(f"{line}\n" for line in lines)


def _declared(name: str, unit: str, doc: str, default: str = "") -> str:
    return f"  {name}{f' = {default}' if default else ''}{f' ({unit})' if unit else ''}: {doc}"


def render_rule(rule: Rule) -> str:
    """A rule as text."""
    lines = [f"{rule.id}: {rule.title}", f"bottleneck: {rule.bottleneck}", f"needs: {', '.join(rule.needs) or 'nothing'}"]
    lines += [f"why: {rule.why}"]
    lines += ["", "parameters:"] if rule.params else []
    lines += [_declared(param.name, param.unit, param.doc, str(param.default)) for param in rule.params]
    lines += ["", "evidence:"] if rule.evidence else []
    lines += [_declared(column.name, column.unit, column.doc) for column in rule.evidence]
    for experiment in rule.experiments:
        lines += ["", f"experiment when {experiment.when}:", f"  hypothesis: {experiment.hypothesis}", f"  change: {experiment.change}"]
        lines += [f"  kind: {experiment.kind}", f"  guards: {', '.join(experiment.guards)}", f"  stop: {experiment.stop}"]
        lines += [f"  rollback: {experiment.rollback}"] if experiment.rollback else []
    return "\n".join([*lines, "", rule.sql.rstrip(), ""])
