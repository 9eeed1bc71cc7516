"""First pass over a trace: its events as typed rows in Parquet parts on disk, and the object around them.

Pieces are parsed by DuckDB in a few threads of their own (its parser holds no interpreter lock); a piece is shown to it
as a file that lives in memory. Memory is (threads + 1) pieces, whatever the size of the trace.
"""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
from fsspec.spec import AbstractFileSystem

from traceengine.errors import CorruptTraceError, EmptyTraceError, InputError
from traceengine.importers.issues import WARNING, Issue
from traceengine.importers.kineto.chunks import Chunk, ChunkReader, Read
from traceengine.importers.kineto.document import read_document
from traceengine.importers.kineto.repair import Repairs, looks_misread
from traceengine.importers.sql import statement

_PROTOCOL = "traceenginechunk"
_OBJECT_BYTES = 1 << 20


class _Bracketed(io.RawIOBase):
    """A text between brackets as a file; the text itself is handed over without a copy."""

    def __init__(self, text: bytes) -> None:
        super().__init__()
        self._text = text
        self._position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Bytes before the next one."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a byte."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self._text) + 2}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        """The next bytes, perhaps fewer than asked for."""
        end = len(self._text) + 1
        if self._position == 0:
            piece = b"["
        elif self._position < end:
            whole = self._position == 1 and not 0 <= size < len(self._text)
            start = self._position - 1
            piece = self._text if whole else self._text[start : None if size < 0 else start + size]
        else:
            piece = b"]" if self._position == end else b""
        self._position += len(piece)
        return piece


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
        return {"name": path, "size": len(self._texts[key]) + 2, "type": "file"}

    def exists(self, path: str, **_options: object) -> bool:
        """Whether the piece is there."""
        return path.rsplit("/", 1)[-1] in self._texts

    def glob(self, path: str, **_options: object) -> list[str]:
        """A piece's name matches itself."""
        return [path]

    def _open(self, path: str, *_args: object, **_options: object) -> _Bracketed:
        return _Bracketed(self._texts[path.rsplit("/", 1)[-1]])


@dataclass
class Staged:
    """What the first pass leaves: Parquet `parts`, the `document` around the events, and what was repaired."""

    parts: list[str]
    document: dict[str, Any]
    truncated: bool
    issues: list[Issue] = field(default_factory=list)


class _MisreadError(Exception):
    """A piece that would parse, but not into what was meant."""


class Stager:
    """Parses the pieces of one trace into `folder`."""

    def __init__(self, folder: Path, where: str, threads: int) -> None:
        self._folder = folder
        self._where = where
        self._threads = threads
        self._files = _ChunkFiles()
        self._local = threading.local()
        self._parts: list[str] = []
        self._repairs = Repairs(where)

    def run(self, read: Read, damage: Callable[[], str | None]) -> Staged:
        """Read everything; `damage` says afterwards why the text may end early.

        Raises InputError subclasses when the text is no trace or damaged.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        reader = ChunkReader(read)
        try:
            with ThreadPoolExecutor(self._threads, thread_name_prefix="parse") as pool:
                self._read_all(reader, pool)
        except InputError as error:
            if error.where is None:
                raise type(error)(error.message, where=self._where, hint=error.hint) from error
            raise
        if not self._parts:
            raise self._nothing(reader, damage())
        document, cut = read_document(reader, self._repairs)
        for offset in reader.missing_commas:
            self._repairs.note("missing_comma", f"byte {offset}")
        issues = self._repairs.issues()
        truncated = reader.truncated_at is not None or cut
        if truncated:
            at = "inside the text behind the events" if reader.truncated_at is None else f"after byte {reader.truncated_at} of the text"
            action = "Kept the complete events before it; what the capture saw later is missing, so record again if it matters."
            issues.append(Issue("truncated", WARNING, 1, action, f"it ends {at}" + (f": {damage()}" if damage() else "")))
        elif damage():
            issues.append(Issue("damaged_compression", WARNING, 1, "All events were there before the damage.", damage()))
        return Staged(self._parts, document, truncated, issues)

    def _nothing(self, reader: ChunkReader, damage: str | None) -> InputError:
        if reader.truncated_at is not None or damage:
            message = f"the file ends before its first complete event ({damage or f'byte {reader.truncated_at}'})"
            return CorruptTraceError(message, where=self._where, hint="Copy it again, or record again and wait until the export ends.")
        return EmptyTraceError("its traceEvents array is empty", where=self._where, hint="Record some steps while the profiler is active.")

    def _read_all(self, reader: ChunkReader, pool: ThreadPoolExecutor) -> None:
        waiting: deque[tuple[Chunk, Future[str]]] = deque()
        exact = False
        while True:
            chunk = reader.next_chunk(exact=exact)
            exact = False
            if chunk is not None and chunk.is_exact:
                self._parts.append(self._parse_or_repair(chunk, pool))
                continue
            if chunk is not None:
                waiting.append((chunk, pool.submit(self._parse, chunk)))
            while waiting and (chunk is None or len(waiting) > self._threads):
                if not self._collect(waiting, reader):
                    exact = True
                    break
            if chunk is None and not exact:
                return

    def _parse(self, chunk: Chunk) -> str:
        """Parse one piece in a thread of the pool; returns the part's path."""
        if looks_misread(chunk.text):
            raise _MisreadError
        if not hasattr(self._local, "connection"):
            self._local.connection = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "512MB"})
            self._local.connection.register_filesystem(self._files)
        part = str(self._folder / f"part-{chunk.number:06d}.parquet")
        url = self._files.put(chunk)
        try:
            # DuckDB reads into buffers of twice the longest object that it is told to expect.
            parameters = {"chunk": url, "part": part, "number": chunk.number, "object_bytes": max(_OBJECT_BYTES, len(chunk.text))}
            self._local.connection.execute(statement("stage_chunk"), parameters)
        finally:
            self._files.drop(chunk)
        return part

    def _collect(self, waiting: deque[tuple[Chunk, Future[str]]], reader: ChunkReader) -> bool:
        """Take the oldest result. False: it did not parse, and the reader stands at its start again."""
        chunk, future = waiting.popleft()
        try:
            self._parts.append(future.result())
        except (duckdb.Error, _MisreadError):
            chunks = [chunk]
            for later, result in waiting:
                chunks.append(later)
                if result.exception() is None:
                    Path(result.result()).unlink()
            waiting.clear()
            reader.go_back(chunks)
            return False
        return True

    def _parse_or_repair(self, chunk: Chunk, pool: ThreadPoolExecutor) -> str:
        """Parse a piece whose cuts are certain; what does not parse now is damaged."""
        try:
            return pool.submit(self._parse, chunk).result()
        except (duckdb.Error, _MisreadError):
            text = self._repairs.events(chunk.text, chunk.offset)
        try:
            return pool.submit(self._parse, Chunk(chunk.number, chunk.offset, text, is_exact=True)).result()
        except (duckdb.Error, _MisreadError) as error:
            raise CorruptTraceError(
                f"the events from byte {chunk.offset} on cannot be read ({str(error).splitlines()[0] if str(error) else 'misread'})",
                where=self._where,
                hint="Record the trace again, or cut the file there.",
            ) from error
