"""From what a user names to an analysed run: open, import, analyse."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from traceengine.analysis import Analysis, ensure_analysis
from traceengine.cli.progress import StderrProgress
from traceengine.errors import UsageError
from traceengine.importers import ImportRequest, import_traces
from traceengine.report.units import visible
from traceengine.resources import queries_dir
from traceengine.rules import RuleSet, load_rules
from traceengine.run import MANIFEST, Run


def nsys_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--nsys PATH`: which nsys exports a `.nsys-rep`."""
    return click.option(
        "--nsys",
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="The nsys program that exports .nsys-rep reports; the one on PATH unless given.",
    )(command)


def rule_set(folders: tuple[Path, ...] = ()) -> RuleSet:
    """The built-in rules and those of `folders` and of TRACEENGINE_RULES (separated as in PATH)."""
    return load_rules([queries_dir() / "rules", *own_rule_folders(folders)])


def own_rule_folders(folders: tuple[Path, ...]) -> list[Path]:
    """Folders of TRACEENGINE_RULES, then `folders`; each once, however it is written."""
    named = [Path(part) for part in os.environ.get("TRACEENGINE_RULES", "").split(os.pathsep) if part]
    return list({folder.resolve(): folder for folder in [*named, *folders]}.values())


def is_run(path: Path) -> bool:
    """True for a finished run's folder."""
    return (path / MANIFEST).is_file()


def import_with_progress(request: ImportRequest) -> Run:
    """Import, and say on stderr how far it is."""
    with StderrProgress() as progress:
        return import_traces(request, progress)


def say(kind: str, message: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"traceengine: {kind}: {visible(' '.join(message.split()))}\n")


def warn_of_issues(run: Run) -> None:
    """Say on stderr what the importer repaired, dropped or could not tell."""
    for row in run.read("import_issue").to_pylist():
        example = f" ({row['example']})" if row["example"] else ""
        say(row["severity"], f"rank {row['rank']}: {row['code']}, {row['count']} times{example}: {row['action']}")


def analysed(run: Run, folders: tuple[Path, ...] = ()) -> Analysis:
    """The run with its analysis, computed when it is missing or out of date, with the rules of `rule_set`."""
    return ensure_analysis(run, rule_set(folders))


@contextmanager
def analysed_inputs(paths: tuple[Path, ...], folders: tuple[Path, ...], *, use_cache: bool, nsys: Path | None = None) -> Iterator[Analysis]:
    """The analysis behind the arguments of `analyze`: one run, or traces that are imported into the cache.

    `nsys`: the program that exports reports of Nsight Systems, None for the one on PATH.
    """
    runs = [path for path in paths if is_run(path)]
    if runs and len(paths) > 1:
        raise UsageError(f"{runs[0]} is a run, and there are other arguments", hint="Give one run, or only traces.")
    if use_cache:
        yield analysed(Run.open(runs[0]) if runs else import_with_progress(ImportRequest(paths, nsys=nsys)), folders)
        return
    with tempfile.TemporaryDirectory(prefix="traceengine-") as folder:
        place = Path(folder) / "run"
        request = ImportRequest(paths, out=place, use_cache=False, nsys=nsys)
        run = _shadow(Run.open(runs[0]), place) if runs else import_with_progress(request)
        yield analysed(run, folders)


def _shadow(run: Run, place: Path) -> Run:
    """A run that shares the tables of `run` and has no analysis yet."""
    place.mkdir()
    shutil.copyfile(run.path / MANIFEST, place / MANIFEST)
    if (run.path / "tables").is_dir():
        (place / "tables").symlink_to((run.path / "tables").resolve(), target_is_directory=True)
    return Run.open(place)
