"""`traceengine import`."""

from __future__ import annotations

from pathlib import Path

import click

from traceengine.cli.session import analysed, import_with_progress, nsys_option, warn_of_issues
from traceengine.importers import ImportRequest


@click.command("import", epilog="\b\nExample:\n  traceengine import trace.json.gz -o runs/first")
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="TRACE...")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="RUN", help="Folder of the run.")
@click.option("--force", is_flag=True, help="Replace a run that exists.")
@click.option("--rank", type=click.IntRange(min=0), help="Rank of a single trace that does not name its own.")
@nsys_option
@click.option("--jobs", type=click.IntRange(min=1), help="Threads to use; all cores unless given.")
def import_command(traces: tuple[Path, ...], output: Path, force: bool, rank: int | None, nsys: Path | None, jobs: int | None) -> None:
    """Read traces of one job into a run: a folder of Parquet tables.

    A TRACE is a file, a folder of files or a pattern. The run's path goes to stdout.
    """
    run = import_with_progress(ImportRequest(traces, out=output, replace=force, rank=rank, jobs=jobs, nsys=nsys))
    analysed(run)
    warn_of_issues(run)
    click.echo(run.path)
