"""Cuts the `traceEvents` array of a trace into pieces that parse by themselves.

A cut is a guess: `}` `,` `{` `"` with white space between. Parsing proves it: if the pieces 0..k all parse as arrays of
objects, then every cut up to k lies between two events, because a cut inside a string or a nested value leaves its piece
unparsable. The end of the array is found by an exact scan of the piece that may hold it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from traceengine.errors import CorruptTraceError, UnknownFormatError

CHUNK_BYTES = 4 << 20
"""Text per piece: small enough that pieces in flight stay under 100 MB with everything made of them, large enough that
the fixed cost of a piece (about 2 ms) does not show."""

_HEAD_LIMIT = 256 << 20
_CUT = re.compile(rb"\}\s*(,)\s*\{\s*\"")
_ARRAY_KEY = re.compile(rb"\"traceEvents\"\s*:\s*\[")
_MAYBE_END = re.compile(rb"\}\s*,?\s*\]\s*(?:[,}\]]|\Z)")
_TOKEN = re.compile(rb"\"[^\"\\]*(?:\\.[^\"\\]*)*\"|[\[\]{}]", re.DOTALL)

Read = Callable[[int], bytes]


@dataclass(frozen=True)
class Chunk:
    """Piece `number` of the array, from byte `offset` of the decompressed text; `text` has its brackets on."""

    number: int
    offset: int
    text: bytes


def array_end(data: bytes, start: int = 0) -> int | None:
    """Index of the `]` that ends the array in which `data[start:]` begins, or None when it goes on."""
    depth = 0
    for token in _TOKEN.finditer(data, start):
        first = data[token.start()]
        if first in b"[{":
            depth += 1
        elif first in b"]}":
            depth -= 1
            if depth < 0:
                return token.start()
    return None


class ChunkReader:
    """Reads a trace once, front to back; `head` and `tail` are what stands around the array, complete after the last chunk."""

    def __init__(self, read: Read, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._read = read
        self._size = chunk_bytes
        self._buffer = b""
        self._offset = 0
        self._ended = False
        self.head = b""
        self.tail = b""
        self.truncated = False

    def __iter__(self) -> Iterator[Chunk]:
        self._find_array()
        number = 0
        while True:
            offset = self._offset
            text = self._next_text()
            if text is None:
                break
            if text.strip():
                yield Chunk(number, offset, b"[" + text + b"]")
                number += 1
            if self.tail or self.truncated:
                break
        self._read_tail()

    def _fill(self, wanted: int) -> None:
        """Read until the buffer holds `wanted` bytes or the input ends."""
        pieces = [self._buffer]
        have = len(self._buffer)
        while have < wanted and not self._ended:
            piece = self._read(min(self._size, wanted - have))
            self._ended = not piece
            pieces.append(piece)
            have += len(piece)
        self._buffer = b"".join(pieces)

    def _take(self, count: int) -> bytes:
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        self._offset += count
        return taken

    def _find_array(self) -> None:
        wanted = 1 << 16
        while True:
            self._fill(wanted)
            start = self._buffer.lstrip()[:1]
            if start == b"[":
                self.head = self._take(self._buffer.index(b"[") + 1)
                return
            found = _ARRAY_KEY.search(self._buffer)
            if found:
                self.head = self._take(found.end())
                return
            if self._ended or wanted >= _HEAD_LIMIT:
                raise UnknownFormatError("no traceEvents array in it", hint="Give a trace that torch.profiler's export_chrome_trace wrote.")
            wanted *= 2

    def _next_text(self) -> bytes | None:
        """Text up to the next cut; None when nothing is left."""
        self._fill(self._size)
        if not self._buffer:
            self.truncated = True
            return None
        if self._ended or _MAYBE_END.search(self._buffer):
            end = array_end(self._buffer)
            if end is not None:
                text = self._take(end)
                self.tail = self._take(1)
                return text
        if self._ended:
            self.truncated = True
            return self._take(len(self._buffer))
        return self._cut()

    def _cut(self) -> bytes:
        window = 1 << 16
        while True:
            start = max(0, len(self._buffer) - window)
            last = None
            for last in _CUT.finditer(self._buffer, start):
                pass
            if last is not None:
                text = self._take(last.start(1))
                self._take(1)
                return text
            if start == 0:
                if self._ended:
                    return self._take(len(self._buffer))
                self._fill(2 * len(self._buffer))
                if len(self._buffer) > _HEAD_LIMIT:
                    raise CorruptTraceError("one event is larger than 256 MB", hint="Record again without with_stack or record_shapes.")
            window *= 4

    def _read_tail(self) -> None:
        if self.truncated:
            return
        pieces = [self.tail, self._buffer]
        size = len(self._buffer)
        while size < _HEAD_LIMIT and (piece := self._read(self._size)):
            pieces.append(piece)
            size += len(piece)
        self.tail = b"".join(pieces)
