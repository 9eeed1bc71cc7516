"""Bytes of a trace as UTF-8 text, whatever it lies in: gzip (also several members), zstd, UTF-16, a byte order mark.

A stream that is cut or damaged gives what comes before the damage and says so in `damage`; it does not raise.
"""

from __future__ import annotations

import codecs
import io
import zlib
from typing import IO, Protocol, cast

import pyarrow as pa
from isal import isal_zlib

BLOCK_BYTES = 1 << 18
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZLIB_ERRORS = cast("tuple[type[Exception], ...]", (isal_zlib.error, zlib.error))


class TextStream(Protocol):
    """What the importers read from."""

    @property
    def damage(self) -> str | None:
        """Why the stream may have ended early; None while nothing is wrong."""

    def read(self, count: int) -> bytes:
        """At most `count` bytes; nothing at the end."""


class PlainStream:
    """Bytes as they are."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self.damage: str | None = None

    def read(self, count: int) -> bytes:
        """The next bytes."""
        return self._raw.read(count)


class GzipStream:
    """All members of a gzip file, one after the other."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._input = b""
        self._position = 0
        self._member: isal_zlib.Decompress | None = None
        self._ended = False
        self.damage: str | None = None

    def read(self, count: int) -> bytes:
        """The next decompressed bytes."""
        while not self._ended:
            # A member may hold back text that did not fit into the last answer: ask it before reading on.
            if self._member is not None and (text := self._inflate(count)):
                return text
            if not self._input and not self._ended:
                self._input = self._raw.read(BLOCK_BYTES)
                self._position += len(self._input)
                if not self._input:
                    self._stop("the compressed data is cut" if self._member is not None else None)
            if self._member is None and not self._ended:
                self._begin()
        return b""

    def _begin(self) -> None:
        """Start the next member, when there is one."""
        while len(self._input) < len(GZIP_MAGIC) and (more := self._raw.read(BLOCK_BYTES)):
            self._input += more
            self._position += len(more)
        if not self._input.startswith(GZIP_MAGIC):
            junk = self._input.strip(b"\x00")
            self._stop("bytes follow the compressed data" if junk else None)
            return
        self._member = isal_zlib.decompressobj(wbits=31)

    def _inflate(self, count: int) -> bytes:
        member = self._member
        assert member is not None
        try:
            text: bytes = member.decompress(self._input, count)
        except _ZLIB_ERRORS:
            self._stop("the compressed data is damaged")
            return b""
        self._input = member.unused_data if member.eof else member.unconsumed_tail
        if member.eof:
            self._member = None
        return text

    def _stop(self, damage: str | None) -> None:
        self._ended = True
        if damage:
            self.damage = f"{damage} at byte {self._position - len(self._input)} of the file"


class ZstdStream:
    """A zstd file, also of several frames."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
        self._ended = False
        self.damage: str | None = None

    def read(self, count: int) -> bytes:
        """The next decompressed bytes."""
        if self._ended:
            return b""
        try:
            text: bytes = self._stream.read(min(count, BLOCK_BYTES))
        except (OSError, pa.ArrowException):
            self._ended = True
            self.damage = f"the compressed data is cut or damaged before byte {self._raw.tell()} of the file"
            return b""
        self._ended = not text
        return text


class _Recoded:
    """UTF-16 as UTF-8."""

    def __init__(self, stream: TextStream, start: bytes, encoding: str) -> None:
        self._stream = stream
        self._start = start
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._ready = b""

    @property
    def damage(self) -> str | None:
        """Damage of the bytes below."""
        return self._stream.damage

    def read(self, count: int) -> bytes:
        """The next bytes of the text."""
        while not self._ready:
            block = self._start or self._stream.read(count)
            self._start = b""
            self._ready = self._decoder.decode(block, final=not block).encode("utf-8", errors="replace")
            if not block:
                break
        text, self._ready = self._ready[:count], self._ready[count:]
        return text


class _Prefixed:
    """A stream some of whose first bytes were read already."""

    def __init__(self, stream: TextStream, start: bytes) -> None:
        self._stream = stream
        self._start = start

    @property
    def damage(self) -> str | None:
        """Damage of the bytes below."""
        return self._stream.damage

    def read(self, count: int) -> bytes:
        """The next bytes."""
        if self._start:
            text, self._start = self._start[:count], self._start[count:]
            return text
        return self._stream.read(count)


def _first(stream: TextStream, count: int) -> bytes:
    pieces = b""
    while len(pieces) < count and (piece := stream.read(count - len(pieces))):
        pieces += piece
    return pieces


def open_stream(raw: IO[bytes]) -> TextStream:
    """The decompressed bytes of `raw`, told by its first bytes; also for gzip within gzip."""
    stream: TextStream = PlainStream(raw)
    for _ in range(3):
        start = _first(stream, 4)
        stream = _Prefixed(stream, start)
        if start.startswith(GZIP_MAGIC):
            stream = GzipStream(as_file(stream))
        elif start.startswith(ZSTD_MAGIC):
            stream = ZstdStream(as_file(stream))
        else:
            break
    return stream


def decode_text(stream: TextStream) -> TextStream:
    """Text as UTF-8 without a byte order mark, told by its first bytes."""
    start = _first(stream, 4)
    if start[:3] == codecs.BOM_UTF8:
        return _Prefixed(stream, start[3:])
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return _Recoded(stream, start, "utf-16")
    if len(start) == 4 and start[0] and not start[1] and start[2] and not start[3]:
        return _Recoded(stream, start, "utf-16-le")
    if len(start) == 4 and not start[0] and start[1] and not start[2] and start[3]:
        return _Recoded(stream, start, "utf-16-be")
    return _Prefixed(stream, start)


def as_file(stream: TextStream) -> IO[bytes]:
    """The stream for libraries that want a file."""
    return io.BufferedReader(_Readable(stream), BLOCK_BYTES)


class _Readable(io.RawIOBase):
    def __init__(self, stream: TextStream) -> None:
        super().__init__()
        self._stream = stream
        self._position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Bytes read so far."""
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill `buffer` from the stream."""
        text = self._stream.read(len(buffer))
        buffer[: len(text)] = text
        self._position += len(text)
        return len(text)
