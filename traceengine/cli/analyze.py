"""`traceengine analyze`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click

from traceengine.analysis import combine
from traceengine.cli.rules import rules_option
from traceengine.cli.session import analysed_inputs, nsys_option, say, warn_of_issues
from traceengine.errors import UsageError
from traceengine.report import json as json_report
from traceengine.report import markdown, text
from traceengine.verdict import Answer

_RENDER: dict[str, Callable[[Answer], str]] = {"text": text.render, "md": markdown.render, "json": json_report.render}


@click.command("analyze", epilog="\b\nExample:\n  traceengine analyze trace.json.gz --format json")
@click.argument("inputs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="TRACE...|RUN")
@click.option("--format", "form", type=click.Choice(tuple(_RENDER)), default="text", show_default=True, help="Form of the answer.")
@click.option(
    "--what-if",
    "causes",
    metavar="CHANGE,CHANGE",
    help="Also replay without these causes (class ids), or with these changes (pinned[=GB/s], workers=N, buckets[=N], cuda_graph,"
    " log_every=N): each alone, and together.",
)
@rules_option
@nsys_option
@click.option("--no-cache", is_flag=True, help="Read and compute everything again, and keep nothing.")
@click.option("--verbose", is_flag=True, help="Also say on stderr what the import met and how long this took.")
def analyze_command(
    inputs: tuple[Path, ...],
    form: str,
    causes: str | None,
    folders: tuple[Path, ...],
    nsys: Path | None,
    no_cache: bool,
    verbose: bool,
) -> None:
    """Say where the wall time went, which bottleneck owns it, and what to try next."""
    began = time.perf_counter()
    with analysed_inputs(inputs, folders, use_cache=not no_cache, nsys=nsys) as analysis:
        wanted = [cause.strip() for cause in (causes or "").split(",") if cause.strip()]
        if causes is not None and not wanted:
            raise UsageError("--what-if names nothing", hint="Give class ids or experiments: --what-if data_wait,workers=4")
        rendered = _RENDER[form](combine(analysis, wanted) if wanted else analysis.answer)
        if verbose:
            warn_of_issues(analysis.run)
            say("info", f"{', '.join(analysis.run.manifest.sources)}: answered in {time.perf_counter() - began:.1f} s")
    click.echo(rendered.rstrip("\n"))
