"""From what a user names to an analysed run: open, import, analyse; a run that may not be written is analysed in a shadow of it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from traceengine.cli.engine import ensure_analysis
from traceengine.cli.progress import StderrProgress
from traceengine.errors import UsageError
from traceengine.importers import ImportRequest, import_traces
from traceengine.run import MANIFEST, Run


def is_run(path: Path) -> bool:
    """True for a finished run's folder."""
    return (path / MANIFEST).is_file()


def import_with_progress(request: ImportRequest) -> Run:
    """Import, and say on stderr how far it is."""
    with StderrProgress() as progress:
        return import_traces(request, progress)


def say(kind: str, message: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"traceengine: {kind}: {' '.join(message.split())}\n")


def warn_of_issues(run: Run) -> None:
    """Say on stderr what the importer repaired, dropped or could not tell."""
    for row in run.read("import_issue").to_pylist():
        example = f" ({row['example']})" if row["example"] else ""
        say(row["severity"], f"rank {row['rank']}: {row['code']}, {row['count']} times{example}: {row['action']}")


@contextmanager
def analysed(run: Run, *, again: bool = False) -> Iterator[Run]:
    """The run with its analysis, computed when it is missing, out of date, or wanted `again`.

    A run in a folder that may not be written is analysed in a temporary folder that shares its tables.
    """
    if again or not os.access(run.path, os.W_OK):
        with tempfile.TemporaryDirectory(prefix="traceengine-") as folder:
            yield ensure_analysis(_shadow(run, Path(folder), with_analysis=not again))
    else:
        yield ensure_analysis(run)


def _shadow(run: Run, folder: Path, *, with_analysis: bool) -> Run:
    shutil.copyfile(run.path / MANIFEST, folder / MANIFEST)
    shared = ("tables", "analysis") if with_analysis else ("tables",)
    for name in shared:
        if (run.path / name).is_dir():
            (folder / name).symlink_to((run.path / name).resolve(), target_is_directory=True)
    return Run.open(folder)


@contextmanager
def analysed_inputs(paths: tuple[Path, ...], *, use_cache: bool) -> Iterator[Run]:
    """The analysed run behind the arguments of `analyze`: one run, or traces that are imported into the cache."""
    runs = [path for path in paths if is_run(path)]
    if runs and len(paths) > 1:
        raise UsageError(f"{runs[0]} is a run, and there are other arguments", hint="Give one run, or only traces.")
    if runs:
        with analysed(Run.open(runs[0]), again=not use_cache) as run:
            yield run
    elif use_cache:
        with analysed(import_with_progress(ImportRequest(paths))) as run:
            yield run
    else:
        with tempfile.TemporaryDirectory(prefix="traceengine-") as folder:
            yield ensure_analysis(import_with_progress(ImportRequest(paths, out=Path(folder) / "run")))
