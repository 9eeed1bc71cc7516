"""The one way in: `import_traces` turns trace files into a run."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from traceengine.errors import EmptyTraceError, RunError, UsageError
from traceengine.hidden import sweep
from traceengine.importers.fileimport import FileImport, FileTask, RankClaim
from traceengine.importers.inputs import STDIN, Format, Found, find_inputs, sha256_of, sniff
from traceengine.importers.issues import INFO, Issue
from traceengine.importers.nsys_report import REPORT_SUFFIX, export_report, kept_export
from traceengine.importers.placement import Placed, Told, place_claims
from traceengine.importers.progress import ProgressSink, SilentProgress
from traceengine.importers.worker import Worker
from traceengine.names import load_names
from traceengine.run import Manifest, Run, RunWriter
from traceengine.schema import SCHEMA_VERSION

IMPORTER_VERSION = 2
"""Raised whenever the importers write other tables from the same bytes, so that cached runs are made again."""

_PARALLEL_BYTES = 8 << 20
"""Below this size of all files together a second process (0.3 s to start) does not pay."""


@dataclass(frozen=True)
class ImportRequest:
    """What to import and where to.

    `paths`: files, folders, globs, `-` for standard input. `out`: the run's folder, or None for the cache
    (`TRACEENGINE_CACHE`, else `XDG_CACHE_HOME/traceengine/runs`), where equal inputs give the stored run. `rank` is told
    to a single trace. `jobs`: threads and processes, None for the machine's cores. `use_cache`: False takes no stored run and
    keeps no export. `nsys`: the program that exports `.nsys-rep` reports, None for the one on PATH.
    """

    paths: tuple[Path, ...]
    out: Path | None = None
    replace: bool = False
    rank: int | None = None
    jobs: int | None = None
    use_cache: bool = True
    nsys: Path | None = None


def cache_folder() -> Path:
    """Where runs without an `out` live."""
    told = os.environ.get("TRACEENGINE_CACHE")
    if told:
        return Path(told)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "traceengine" / "runs"


def import_traces(request: ImportRequest, progress: ProgressSink | None = None) -> Run:
    """Import traces into a run. Nothing is written unless all of it is.

    Raises InputError subclasses for files that cannot be read, UsageError for a wrong request.
    """
    found = find_inputs(request.paths)
    files = found.files
    if not files:
        raise UsageError("no trace was given", hint="Give a trace file, a folder or a glob.")
    if request.rank is not None and (len(files) > 1 or request.rank < 0):
        raise UsageError(f"rank {request.rank} was told for {len(files)} files", hint="Give one file and a rank of 0 or more.")
    with _on_disk(files) as named:
        kinds = [sniff(path) for path, _ in named]
        hashes = [sha256_of(path) for path, _ in named]
        _refuse_copies([name for _, name in named], hashes)
        key = _key(hashes, request.rank)
        target = request.out or cache_folder() / key
        if request.out is None and request.use_cache and (stored := _stored(target, key)):
            return stored
        if request.out is None:
            # Every other import into the cache has another name.
            sweep(target.parent)
        with RunWriter(target, replace=request.replace or request.out is None) as writer:
            jobs = _jobs(request)
            scratch = writer.root / ".staging"
            tasks = [
                _task(path, name, kind, digest, scratch / str(number), request)
                for number, ((path, name), kind, digest) in enumerate(zip(named, kinds, hashes, strict=True))
            ]
            skipped = _skipped(found)
            placed = _run_tasks(tasks, writer, Told(request.rank, skipped), jobs, progress or SilentProgress())
            shutil.rmtree(scratch, ignore_errors=True)
            ranks = tuple(sorted(one.placement.rank for one in placed))
            origin = next((one.placement.origin_unix_ns for one in placed if one.placement.origin_unix_ns is not None), None)
            return writer.commit(Manifest.new(key, origin, ranks, tuple(name for _, name in named)))


def _refuse_copies(names: Sequence[str], hashes: Sequence[str]) -> None:
    """One rank's trace given twice would be two ranks that never wait for each other."""
    seen: dict[str, str] = {}
    for name, digest in zip(names, hashes, strict=True):
        if digest in seen:
            raise UsageError(f"holds the same bytes as {seen[digest]}", where=name, hint="Give each rank's trace once.")
        seen[digest] = name


@contextmanager
def _on_disk(files: tuple[Path, ...]) -> Iterator[list[tuple[Path, str]]]:
    """Files with their names; standard input is kept in a temporary file, because its format shows only at its end."""
    with tempfile.TemporaryDirectory(prefix="traceengine-stdin-") if STDIN in files else _nothing() as folder:
        named = []
        for path in files:
            if path != STDIN:
                named.append((path, path.name))
                continue
            kept = Path(folder) / "stdin"
            with kept.open("wb") as stream:
                shutil.copyfileobj(_standard_input(), stream)
            if not kept.stat().st_size:
                raise EmptyTraceError("nothing came in (0 bytes)", where="standard input", hint="Pipe a trace into it, or name a file.")
            named.append((kept, "stdin"))
        yield named


@contextmanager
def _nothing() -> Iterator[str]:
    yield ""


def _standard_input() -> IO[bytes]:
    return sys.stdin.buffer


def _jobs(request: ImportRequest) -> int:
    return max(1, request.jobs or os.cpu_count() or 1)


def _task(path: Path, name: str, kind: Format, digest: str, scratch: Path, request: ImportRequest) -> FileTask:
    return FileTask(_readable(path, digest, scratch, request), name, kind, _size(path), digest, scratch, _jobs(request))


def exports_folder() -> Path:
    """Where exports of reports are kept, one folder per report, called by the hash of its bytes."""
    return cache_folder() / "exports"


def _readable(path: Path, digest: str, scratch: Path, request: ImportRequest) -> Path:
    """The file itself, or a report's export: kept in the cache, or in `scratch` without one or where it cannot be written."""
    if path.suffix != REPORT_SUFFIX:
        return path
    folder = exports_folder()
    if request.use_cache and _writable(folder):
        return kept_export(path, digest, folder, request.nsys)
    return export_report(path, scratch / "export", request.nsys)


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.stat().st_size


def _key(hashes: list[str], rank: int | None) -> str:
    parts = [str(IMPORTER_VERSION), str(SCHEMA_VERSION), load_names().digest, *hashes, str(rank)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _stored(target: Path, key: str) -> Run | None:
    try:
        run = Run.open(target)
    except RunError:
        return None
    return run if run.manifest.key == key else None


def _skipped(found: Found) -> list[Issue]:
    if not found.skipped:
        return []
    action = "Left out: files of the folder that hold no list of events, and links that lead to no file."
    return [Issue("skipped_file", INFO, len(found.skipped), action, ", ".join(path.name for path in found.skipped[:5]))]


def _run_tasks(tasks: list[FileTask], writer: RunWriter, told: Told, jobs: int, progress: ProgressSink) -> list[Placed]:
    if len(tasks) > 1 and jobs > 1 and sum(task.size for task in tasks) >= _PARALLEL_BYTES:
        return _in_workers(tasks, writer, told, jobs, progress)
    imports = [FileImport(task) for task in tasks]
    claims = [each.stage(progress) for each in imports]
    placed = _place(claims, told)
    for each, places in zip(imports, placed, strict=True):
        each.finish(writer, [one.placement for one in places], [one.issues for one in places])
    return [one for places in placed for one in places]


def _place(claims: list[list[RankClaim]], told: Told) -> list[list[Placed]]:
    """Places by file and claim."""
    flat = place_claims([(source_id, claim) for source_id, each in enumerate(claims) for claim in each], told)
    remaining = iter(flat)
    return [[next(remaining) for _ in each] for each in claims]


def _in_workers(tasks: list[FileTask], writer: RunWriter, told: Told, jobs: int, progress: ProgressSink) -> list[Placed]:
    """Share the files out, biggest first, to processes with one thread each."""
    shares: list[list[int]] = [[] for _ in range(min(jobs, len(tasks)))]
    for number in sorted(range(len(tasks)), key=lambda number: -tasks[number].size):
        min(shares, key=lambda share: sum(tasks[other].size for other in share)).append(number)
    single = [FileTask(**{**vars(task), "threads": 1}) for task in tasks]
    progress.start(f"{len(tasks)} files", sum(task.size for task in tasks))
    workers: list[Worker] = []
    try:
        workers.extend(Worker([single[number] for number in share]) for share in shares)
        claims: list[list[RankClaim]] = [[] for _ in tasks]
        for worker, share in zip(workers, shares, strict=True):
            for number, each in zip(share, worker.claims(progress), strict=True):
                claims[number] = each
        placed = _place(claims, told)
        for worker, share in zip(workers, shares, strict=True):
            worker.finish(writer.root, [placed[number] for number in share])
        for worker in workers:
            worker.wait(progress)
    finally:
        for worker in workers:
            worker.stop()
    progress.finish()
    return [one for places in placed for one in places]
