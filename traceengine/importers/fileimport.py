"""One file's way into a run, in two steps: `stage` reads it, `finish` writes its tables once every rank has its place."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from traceengine.importers.inputs import Format, Member, members
from traceengine.importers.issues import Issue
from traceengine.importers.kineto.importer import Placement, SourceFile, StagedTrace, finish_trace, stage_trace
from traceengine.importers.progress import ProgressSink
from traceengine.run import RunWriter

if TYPE_CHECKING:
    from traceengine.importers.nsys import StagedReport


class AttachedWriter(RunWriter):
    """Writes tables below the folder of a run that another process builds."""

    def __init__(self, root: Path) -> None:
        self.target = self.root = root
        self._open = False


@dataclass(frozen=True)
class FileTask:
    """One file to import; `folder` is its scratch space."""

    path: Path
    name: str
    kind: Format
    size: int
    sha256: str
    folder: Path
    threads: int

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "path": str(self.path), "folder": str(self.folder), "kind": self.kind.value}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> FileTask:
        """From plain values."""
        return cls(**{**document, "path": Path(document["path"]), "folder": Path(document["folder"]), "kind": Format(document["kind"])})


@dataclass(frozen=True)
class RankClaim:
    """What a staged trace says about its place: `rank` None is unknown; `first_unix_ns` None is no absolute clock."""

    name: str
    rank: int | None
    rank_origin: str
    world_size: int | None
    first_unix_ns: int | None


class FileImport:
    """A file between its two steps."""

    def __init__(self, task: FileTask) -> None:
        self._task = task
        self._traces: list[StagedTrace] = []
        self._report: StagedReport | None = None

    def stage(self, progress: ProgressSink) -> list[RankClaim]:
        """Read the file. Raises InputError subclasses."""
        task = self._task
        progress.start(task.name, task.size)
        if task.kind is Format.NSYS:
            claims = self._stage_nsys()
        else:
            with task.path.open("rb") as raw:
                claims = [self._stage_member(member, raw, progress) for member in members(task.path, raw, task.kind)]
        progress.finish()
        return claims

    def _stage_nsys(self) -> list[RankClaim]:
        # Loaded only when it is needed: a PyTorch trace needs none of it, and starting up is a tenth of a small import.
        from traceengine.importers.nsys import NsysFile, NsysOptions, stage_nsys

        task = self._task
        report = stage_nsys(task.path, NsysFile(task.name, task.size, task.sha256), task.folder, NsysOptions(threads=task.threads))
        self._report = report
        return [RankClaim(task.name, claim.rank, claim.origin, None, report.first_unix_ns) for claim in report.claims]

    def _stage_member(self, member: Member, raw: IO[bytes], progress: ProgressSink) -> RankClaim:
        task = self._task
        name = task.name if task.kind is Format.TRACE else member.name
        told = 0

        def read(count: int) -> bytes:
            nonlocal told
            text = member.stream.read(count)
            position = raw.tell()
            progress.advance(max(0, position - told))
            told = max(told, position)
            return text

        source = SourceFile(
            name, task.size if task.kind is Format.TRACE else member.size, task.sha256 if task.kind is Format.TRACE else None
        )
        trace = stage_trace(source, read, lambda: member.stream.damage, task.folder / f"trace-{len(self._traces)}", task.threads)
        self._traces.append(trace)
        rank, origin = trace.claimed_rank
        return RankClaim(name, rank, origin, trace.metadata.world_size, trace.first_unix_ns)

    def finish(self, writer: RunWriter, placements: list[Placement], issues: list[list[Issue]]) -> None:
        """Write the tables; `placements` and `issues` follow the claims that `stage` gave."""
        if self._report is not None:
            from traceengine.importers.nsys import NsysOptions, RankPlace, finish_nsys

            places = tuple(RankPlace(place.rank, place.rank_origin, tuple(noted)) for place, noted in zip(placements, issues, strict=True))
            first = placements[0]
            finish_nsys(self._report, writer, places, first.source_id, first.origin_unix_ns, NsysOptions(threads=self._task.threads))
            return
        for trace, placement, noted in zip(self._traces, placements, issues, strict=True):
            finish_trace(trace, writer, placement, noted, self._task.threads)
