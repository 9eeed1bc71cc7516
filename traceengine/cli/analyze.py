"""`traceengine analyze`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from traceengine.cli.engine import REPORT_FORMATS, render_answer
from traceengine.cli.session import analysed_inputs, say, warn_of_issues


@click.command("analyze", epilog="\b\nExample:\n  traceengine analyze trace.json.gz --format json")
@click.argument("inputs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="TRACE...|RUN")
@click.option("--format", "form", type=click.Choice(REPORT_FORMATS), default="text", show_default=True, help="Form of the answer.")
@click.option("--no-cache", is_flag=True, help="Read and compute everything again, and keep nothing.")
@click.option("--verbose", is_flag=True, help="Also say on stderr what the import met and how long this took.")
def analyze_command(inputs: tuple[Path, ...], form: str, no_cache: bool, verbose: bool) -> None:
    """Say where the wall time went, which bottleneck owns it, and what to try next."""
    began = time.perf_counter()
    with analysed_inputs(inputs, use_cache=not no_cache) as run:
        rendered = render_answer(run, form)
        if verbose:
            warn_of_issues(run)
            say("info", f"{', '.join(run.manifest.sources)}: answered in {time.perf_counter() - began:.1f} s")
    click.echo(rendered.rstrip("\n"))
