"""`traceengine doctor`."""

from __future__ import annotations

from pathlib import Path

import click

from traceengine.cli.session import analysed_inputs, nsys_option
from traceengine.doctor import examine
from traceengine.report.checkup import render_json, render_text


@click.command("doctor", epilog="\b\nExample:\n  traceengine doctor trace.json.gz")
@click.argument("inputs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="TRACE...|RUN")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True, help="Form of the answer.")
@nsys_option
def doctor_command(inputs: tuple[Path, ...], form: str, nsys: Path | None) -> None:
    """Say what a capture can and cannot answer, and how to record one that can."""
    with analysed_inputs(inputs, (), use_cache=True, nsys=nsys) as analysis, analysis.connect() as connection:
        checkups = tuple(examine(connection, rank) for rank in analysis.run.manifest.ranks)
    click.echo((render_text if form == "text" else render_json)(checkups).rstrip("\n"))
