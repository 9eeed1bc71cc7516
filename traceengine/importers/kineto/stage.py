"""First pass over a trace: its events as typed rows in Parquet parts on disk, and the object around them.

Pieces are parsed by DuckDB in a few threads of their own (its parser holds no interpreter lock); a piece is shown to it
as a file that lives in memory. Memory is (threads + 1) pieces, whatever the size of the trace.
"""

from __future__ import annotations

import io
import json
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
from fsspec.spec import AbstractFileSystem

from traceengine.errors import CorruptTraceError, EmptyTraceError, UnknownFormatError
from traceengine.importers.issues import WARNING, Issue
from traceengine.importers.kineto.chunks import Chunk, ChunkReader, Read
from traceengine.importers.sql import statement

_PROTOCOL = "traceenginechunk"


class _ChunkFiles(AbstractFileSystem):  # type: ignore[misc]
    """Pieces in flight, by number, as files."""

    protocol = _PROTOCOL
    cachable = False

    def __init__(self) -> None:
        super().__init__(skip_instance_cache=True)
        self._texts: dict[str, bytes] = {}

    def put(self, chunk: Chunk) -> str:
        """Show a piece; returns its URL."""
        self._texts[str(chunk.number)] = chunk.text
        return f"{_PROTOCOL}://{chunk.number}"

    def drop(self, chunk: Chunk) -> None:
        """Forget a piece."""
        self._texts.pop(str(chunk.number), None)

    def info(self, path: str, **_options: object) -> dict[str, object]:
        """Size of a piece."""
        key = path.rsplit("/", 1)[-1]
        if key not in self._texts:
            raise FileNotFoundError(path)
        return {"name": path, "size": len(self._texts[key]), "type": "file"}

    def exists(self, path: str, **_options: object) -> bool:
        """Whether the piece is there."""
        return path.rsplit("/", 1)[-1] in self._texts

    def glob(self, path: str, **_options: object) -> list[str]:
        """A piece's name matches itself."""
        return [path]

    def _open(self, path: str, *_args: object, **_options: object) -> io.BytesIO:
        return io.BytesIO(self._texts[path.rsplit("/", 1)[-1]])


@dataclass
class Staged:
    """What the first pass leaves: Parquet `parts`, the `document` around the events, and what was repaired."""

    parts: list[str]
    document: dict[str, Any]
    truncated: bool
    issues: list[Issue] = field(default_factory=list)


class Stager:
    """Parses the pieces of one trace into `folder`."""

    def __init__(self, folder: Path, where: str, threads: int) -> None:
        self._folder = folder
        self._where = where
        self._threads = threads
        self._files = _ChunkFiles()
        self._local = threading.local()
        self._parts: list[str] = []

    def run(self, read: Read) -> Staged:
        """Read everything. Raises InputError subclasses when the text is no trace or damaged."""
        self._folder.mkdir(parents=True, exist_ok=True)
        reader = ChunkReader(read)
        waiting: deque[tuple[Chunk, Future[str]]] = deque()
        with ThreadPoolExecutor(self._threads, thread_name_prefix="parse") as pool:
            for chunk in reader:
                waiting.append((chunk, pool.submit(self._parse, chunk)))
                if len(waiting) > self._threads:
                    self._collect(*waiting.popleft())
            while waiting:
                self._collect(*waiting.popleft())
        if not self._parts:
            raise EmptyTraceError(
                "its traceEvents array is empty", where=self._where, hint="Record some steps while the profiler is active."
            )
        issues = []
        if reader.truncated:
            issues.append(
                Issue("truncated", WARNING, 1, "Kept the complete events; the capture's end is missing, so record again if it matters.")
            )
        return Staged(self._parts, _document(reader, self._where), reader.truncated, issues)

    def _parse(self, chunk: Chunk) -> str:
        """Parse one piece in a thread of the pool; returns the part's path."""
        if not hasattr(self._local, "connection"):
            self._local.connection = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "512MB"})
            self._local.connection.register_filesystem(self._files)
        part = str(self._folder / f"part-{chunk.number:06d}.parquet")
        url = self._files.put(chunk)
        try:
            self._local.connection.execute(statement("stage_chunk"), {"chunk": url, "part": part, "number": chunk.number})
        finally:
            self._files.drop(chunk)
        return part

    def _collect(self, chunk: Chunk, future: Future[str]) -> None:
        try:
            self._parts.append(future.result())
        except duckdb.Error as error:
            raise CorruptTraceError(
                f"the events from byte {chunk.offset} on cannot be parsed ({_first_line(error)})",
                where=self._where,
                hint="Record the trace again, or cut the file there.",
            ) from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _document(reader: ChunkReader, where: str) -> dict[str, Any]:
    """The object around the array, `traceEvents` left out; empty for a bare array."""
    head, tail = reader.head, reader.tail
    if head.lstrip()[:1] == b"[":
        return {}
    if reader.truncated:
        tail = b"]}"
    try:
        document = json.loads((head + tail).decode("utf-8", errors="replace"), strict=False)
    except ValueError as error:
        raise UnknownFormatError(
            f"what stands around traceEvents is no JSON object ({error})", where=where, hint="Export the trace again."
        ) from error
    if not isinstance(document, dict) or document.pop("traceEvents", None) != []:
        raise UnknownFormatError("traceEvents is not a key of its top level", where=where, hint="Give a trace of torch.profiler.")
    return document
