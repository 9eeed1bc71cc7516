"""`traceengine rules list|show`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from traceengine.cli.session import rule_set
from traceengine.cli.tabular import write_rows
from traceengine.rules import Rule

_LIST = pa.schema([("rule", pa.string()), ("bottleneck", pa.string()), ("title", pa.string())])
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
    """List the rules, or show one."""


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
