"""The one way in: `import_traces` turns trace files into a run."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from traceengine.errors import RunError, UsageError
from traceengine.importers.inputs import Format, expand_inputs, open_text, sha256_of, sniff
from traceengine.importers.kineto.importer import Placement, SourceFile, StagedTrace, finish_trace, stage_trace
from traceengine.importers.progress import ProgressSink, SilentProgress
from traceengine.names import load_names
from traceengine.run import Manifest, Run, RunWriter
from traceengine.schema import SCHEMA_VERSION

IMPORTER_VERSION = 1
"""Raised whenever the importers write other tables from the same bytes, so that cached runs are made again."""

_RANK_IN_NAME = re.compile(r"rank[_\-.]?(\d{1,6})(?!\d)", re.IGNORECASE)


@dataclass(frozen=True)
class ImportRequest:
    """What to import and where to.

    `paths`: files, folders, globs. `out`: the run's folder, or None for the cache (`TRACEENGINE_CACHE`, else
    `XDG_CACHE_HOME/traceengine/runs`), where equal inputs give the stored run. `rank` is told to a single trace.
    `jobs`: threads and processes, None for the machine's cores.
    """

    paths: tuple[Path, ...]
    out: Path | None = None
    replace: bool = False
    rank: int | None = None
    jobs: int | None = None
    use_cache: bool = True


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
    files = expand_inputs(request.paths)
    if not files:
        raise UsageError("no trace was given", hint="Give a trace file, a folder or a glob.")
    if request.rank is not None and len(files) > 1:
        raise UsageError(f"one rank was told for {len(files)} files", hint="Give the rank with a single file only.")
    kinds = [sniff(file) for file in files]
    hashes = [sha256_of(file) for file in files]
    key = _key(hashes, request.rank)
    target = request.out or cache_folder() / key
    if request.out is None and request.use_cache and (stored := _stored(target, key)):
        return stored
    sources = [SourceFile(file.name, file.stat().st_size, digest) for file, digest in zip(files, hashes, strict=True)]
    with RunWriter(target, replace=request.replace or request.out is None) as writer:
        threads = request.jobs or os.cpu_count() or 1
        staged = [
            _stage(file, kind, source, writer, threads, progress or SilentProgress())
            for file, kind, source in zip(files, kinds, sources, strict=True)
        ]
        placements = _place(staged, request.rank)
        for trace, placement in zip(staged, placements, strict=True):
            finish_trace(trace, writer, placement, threads)
        ranks = tuple(sorted(placement.rank for placement in placements))
        return writer.commit(Manifest.new(key, placements[0].origin_unix_ns, ranks, tuple(source.name for source in sources)))


def _key(hashes: list[str], rank: int | None) -> str:
    parts = [str(IMPORTER_VERSION), str(SCHEMA_VERSION), load_names().digest, *hashes, str(rank)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _stored(target: Path, key: str) -> Run | None:
    try:
        run = Run.open(target)
    except RunError:
        return None
    return run if run.manifest.key == key else None


def _stage(file: Path, kind: Format, source: SourceFile, writer: RunWriter, threads: int, progress: ProgressSink) -> StagedTrace:
    opened = open_text(file, kind)
    progress.start(source.name, source.size)
    told = 0

    def read(count: int) -> bytes:
        nonlocal told
        block = opened.text.read(count)
        position = opened.raw.tell()
        progress.advance(position - told)
        told = position
        return block

    with opened.raw:
        staged = stage_trace(source, read, writer.root / f".staging-{source.sha256}", threads)
    progress.finish()
    return staged


def _place(staged: list[StagedTrace], told: int | None) -> list[Placement]:
    """Give every trace a rank of its own, and all of them one origin."""
    starts = [trace.first_unix_ns for trace in staged if trace.first_unix_ns is not None]
    origin = min(starts, default=None)
    claims: list[tuple[int, str] | None] = []
    for trace in staged:
        named = _RANK_IN_NAME.search(trace.source.name)
        if told is not None:
            claims.append((told, "assigned"))
        elif trace.metadata.rank is not None:
            claims.append((trace.metadata.rank, "metadata"))
        else:
            claims.append((int(named.group(1)), "file_name") if named else None)
    taken: set[int] = set()
    placed: list[tuple[int, str] | None] = []
    for claim in claims:
        fits = claim is not None and claim[0] not in taken
        placed.append(claim if fits else None)
        if claim is not None and fits:
            taken.add(claim[0])
    placements = []
    for source_id, (trace, place) in enumerate(zip(staged, placed, strict=True)):
        if place is None:
            rank = next(number for number in range(len(staged) + len(taken) + 1) if number not in taken)
            taken.add(rank)
            place = (rank, "assigned")
        placements.append(Placement(place[0], place[1], source_id, origin if trace.first_unix_ns is not None else None))
    return placements
