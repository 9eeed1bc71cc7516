"""`traceengine experiment`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from traceengine.cli.rules import rules_option
from traceengine.cli.session import analysed, say
from traceengine.errors import TraceEngineError, UsageError
from traceengine.experiment import new_record, render
from traceengine.experiment.start import verdict_of
from traceengine.report.story import filled, sentence
from traceengine.run import Run


@click.group("experiment", epilog="\b\nExample:\n  traceengine experiment new runs/job -o experiment.json")
def experiment_group() -> None:
    """The record of a guarded experiment."""


@experiment_group.command("new", epilog="\b\nExample:\n  traceengine experiment new runs/job -o experiment.json")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the record there instead of to stdout.")
@click.option("--rank", type=int, metavar="N", help="Rank whose experiment to write; that of the answer unless given.")
@click.option("--force", is_flag=True, help="Replace FILE.")
@rules_option
def new_command(run: Path, output: Path | None, rank: int | None, force: bool, folders: tuple[Path, ...]) -> None:
    """Write the next experiment of a run as JSON (docs/experiment.md).

    What the trace cannot say (entry point, data, batch, budget, ...) stays `unknown` for you to fill in. A run without an
    experiment worth its guards gives one sentence, no file, and exit code 2.
    """
    if output is not None and output.exists() and not force:
        raise UsageError("it is there already", where=str(output), hint="Choose another -o, or pass --force to replace it.")
    analysis = analysed(Run.open(run), folders)
    verdict = verdict_of(analysis.answer, rank)
    if verdict.card is None:
        raise TraceEngineError(f"rank {verdict.rank} has no experiment worth its guards: {sentence(verdict)}")
    with analysis.connect() as connection:
        text = render(new_record(connection, analysis.run, verdict, verdict.card, filled(verdict.card)))
    if output is None:
        click.echo(text, nl=False)
        return
    _write_whole(output, text)
    say("info", f"{output}: {verdict.card.rule.bottleneck}, {verdict.card.rule.title}; fill in what is unknown before you measure.")


def _write_whole(path: Path, text: str) -> None:
    """Write the file whole or not at all."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False) as stream:
        partial = Path(stream.name)
        try:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
            partial.chmod(0o644)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
