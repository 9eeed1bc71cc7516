"""`traceengine sql`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from traceengine.cli.session import analysed
from traceengine.cli.tabular import FORMATS, write_rows
from traceengine.errors import UsageError
from traceengine.run import Run
from traceengine.sql import query


@click.command("sql", epilog='\b\nExample:\n  traceengine sql runs/job "select device, busy_ns from device_time" --format json')
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("statement", required=False, metavar="[SQL|-]")
@click.option("--file", "file", type=click.Path(path_type=Path), help="Read the SQL from a file.")
@click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="Value for $NAME in the SQL; repeatable.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="table unless given; parquet needs -o.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file instead of stdout.")
def sql_command(
    run: Path, statement: str | None, file: Path | None, params: tuple[str, ...], form: str | None, output: Path | None
) -> None:
    """Run one SELECT over the tables and views of a run.

    The SQL reads the run and nothing else: no files, no network, no changes. `-` reads it from stdin;
    `traceengine tables` says what there is.
    """
    text = _statement(statement, file)
    with analysed(Run.open(run)).connect() as connection:
        rows = query(connection, text, dict(map(_param, params)))
    write_rows(rows, form or ("parquet" if output and output.suffix == ".parquet" else "table"), output)


def _param(text: str) -> tuple[str, int | float | str]:
    """NAME=VALUE; a value that reads as a number is one."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--param {text!r} is not NAME=VALUE", hint="For example: --param rank=0")
    for number in (int, float):
        try:
            return name, number(value)
        except ValueError:
            continue
    return name, value


def _statement(statement: str | None, file: Path | None) -> str:
    if (statement is None) == (file is None):
        raise UsageError("give the SQL once: as an argument, - for stdin, or --file")
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise UsageError("is not UTF-8 text", where=str(file)) from error
    return sys.stdin.read() if statement == "-" else str(statement)
