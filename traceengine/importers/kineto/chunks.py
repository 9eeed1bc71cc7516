"""Cuts the `traceEvents` array of a trace into pieces that parse by themselves.

A cut is a guess: `}` `,` `{` `"` with white space between. Parsing proves it: if the pieces 0..k all parse as arrays of
objects, then every cut up to k lies between two events, because a cut inside a string or a nested value leaves its piece
unparsable. When a piece does not parse, the reader goes back to its start, which is proved, and cuts by an exact scan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from traceengine.errors import CorruptTraceError, UnknownFormatError

CHUNK_BYTES = 8 << 20
"""Text per piece: small enough that pieces in flight and all that is made of them stay under 150 MB, large enough that
the fixed cost of a piece (about 3 ms) does not show."""

LONGEST_BYTES = 256 << 20
"""Longest event, and longest text around the events."""

CUT_WINDOW_BYTES = 1 << 16
"""Bytes in which a cut is looked for first."""

_CUT = re.compile(rb"\}\s*(,)\s*\{\s*\"")
_ARRAY_KEY = re.compile(rb"\"traceEvents\"\s*:\s*\[")
_MAYBE_END = re.compile(rb"\}\s*,?\s*\]\s*(?:[,}\]]|\Z)")
_TOKEN = re.compile(rb"\"[^\"\\]*(?:\\.[^\"\\]*)*\"|[\[\]{}]", re.DOTALL)
_COMMA = re.compile(rb"\s*,?")

Read = Callable[[int], bytes]


@dataclass(frozen=True)
class Chunk:
    """Piece `number` of the array's inside, from byte `offset` of the decompressed text."""

    number: int
    offset: int
    text: bytes
    is_exact: bool = False
    before: bytes = b""
    """What was passed over between the piece before and this one."""
    after: bytes = b""
    """What was passed over behind it: white space and the comma, when there was one."""


@dataclass(frozen=True)
class Scanned:
    """Where an exact scan of an array's inside came to: `events` as (start, end), and the index of the `]` that ends it."""

    events: list[tuple[int, int]]
    array_end: int | None


def scan_events(data: bytes, limit: int | None = None) -> Scanned:
    """Find the values that stand in the array, up to the first end beyond `limit`."""
    depth = 0
    start = 0
    events: list[tuple[int, int]] = []
    for token in _TOKEN.finditer(data):
        first = data[token.start()]
        if first in b"[{":
            if depth == 0:
                start = token.start()
            depth += 1
        elif first in b"]}":
            depth -= 1
            if depth < 0:
                return Scanned(events, token.start())
            if depth == 0:
                events.append((start, token.end()))
                if limit is not None and token.end() > limit:
                    break
    return Scanned(events, None)


class ChunkReader:
    """Reads a trace front to back; `head` and `tail` are what stands around the array, complete after the last chunk.

    `truncated_at` is the byte after the last complete event when the text ends before the array does.
    """

    def __init__(self, read: Read, chunk_bytes: int | None = None) -> None:
        self._read = read
        self._size = chunk_bytes or CHUNK_BYTES
        self._buffer = b""
        self._offset = 0
        self._number = 0
        self._input_ended = False
        self._array_ended = False
        self.head = b""
        self.tail = b""
        self.truncated_at: int | None = None
        self.missing_commas: list[int] = []
        self._lost = b""
        self._gap = b""
        self._passed = b""

    def next_chunk(self, *, exact: bool = False) -> Chunk | None:
        """The next piece with something in it; None when the array is over."""
        if not self.head:
            self._find_array()
        while not self._array_ended:
            offset = self._offset
            self._fill(self._size)
            self._gap = b""
            text = self._exact_text() if exact else self._guessed_text()
            if not text.isspace() and text:
                before, self._passed = self._passed, b""
                self._number += 1
                return Chunk(self._number - 1, offset, text, exact, before, self._gap)
            self._passed += text + self._gap
        return None

    def go_back(self, chunks: Sequence[Chunk]) -> None:
        """Put back `chunks`, the last ones that were given, byte for byte; their numbers are given again."""
        given = [part for chunk in chunks for part in (chunk.before, chunk.text, chunk.after)]
        self._buffer = b"".join([*given, self._passed, self.tail, self._lost, self._buffer])
        self._passed = b""
        self._offset = chunks[0].offset - len(chunks[0].before)
        # What was seen behind a wrong cut was seen from inside a string or a value.
        self.missing_commas = [offset for offset in self.missing_commas if offset < self._offset]
        self._number = chunks[0].number
        self._array_ended = False
        self.tail = self._lost = b""
        self.truncated_at = None

    def _fill(self, wanted: int) -> None:
        """Read until the buffer holds `wanted` bytes or the input ends."""
        pieces = [self._buffer]
        have = len(self._buffer)
        while have < wanted and not self._input_ended:
            piece = self._read(wanted - have)
            self._input_ended = not piece
            pieces.append(piece)
            have += len(piece)
        self._buffer = b"".join(pieces)

    def _take(self, count: int) -> bytes:
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        self._offset += count
        return taken

    def _find_array(self) -> None:
        wanted = min(1 << 16, self._size)
        while True:
            self._fill(wanted)
            if self._buffer.lstrip()[:1] == b"[":
                self.head = self._take(self._buffer.index(b"[") + 1)
                return
            found = _ARRAY_KEY.search(self._buffer)
            if found:
                self.head = self._take(found.end())
                return
            if self._input_ended or wanted >= LONGEST_BYTES:
                raise UnknownFormatError(
                    "it has no traceEvents array", hint="Give a trace that export_chrome_trace of torch.profiler wrote."
                )
            wanted *= 2

    def _end_array(self, end: int) -> bytes:
        """The text before the array's end; everything behind it becomes the tail."""
        text = self._take(end)
        pieces = [self._take(len(self._buffer))]
        size = 0
        while size < LONGEST_BYTES and (piece := self._read(self._size)):
            pieces.append(piece)
            size += len(piece)
        self.tail = b"".join(pieces)
        self._array_ended = self._input_ended = True
        return text

    def _truncate(self, scanned: Scanned) -> bytes:
        """The complete events of a text that ends inside the array."""
        end = scanned.events[-1][1] if scanned.events else 0
        self.truncated_at = self._offset + end
        text = self._take(end)
        self._lost = self._take(len(self._buffer))
        self._array_ended = True
        return text

    def _guessed_text(self) -> bytes:
        maybe_end = _MAYBE_END.search(self._buffer)
        if maybe_end or self._input_ended:
            # The exact scan is slow: what lies well before the end is cut by a guess, like every other piece.
            end = maybe_end.start() if maybe_end else len(self._buffer)
            text = self._cut_before(end, CUT_WINDOW_BYTES) if end > CUT_WINDOW_BYTES else b""
            if text:
                return text
            scanned = scan_events(self._buffer)
            if scanned.array_end is not None:
                return self._end_array(scanned.array_end)
            if self._input_ended:
                return self._truncate(scanned)
        window = CUT_WINDOW_BYTES
        while window < 4 * len(self._buffer):
            text = self._cut_before(len(self._buffer), window)
            if text:
                return text
            window *= 4
        return self._exact_text()

    def _cut_before(self, end: int, window: int) -> bytes:
        """The text before the last guessed cut in the `window` bytes before `end`; empty when none is there."""
        cuts = [match.start(1) for match in _CUT.finditer(self._buffer, max(0, end - window), end)]
        if not cuts:
            return b""
        text = self._take(cuts[-1])
        self._gap = self._take(1)
        return text

    def _exact_text(self) -> bytes:
        while True:
            scanned = scan_events(self._buffer, self._size // 2)
            if scanned.array_end is not None:
                return self._end_array(scanned.array_end)
            if scanned.events and scanned.events[-1][1] > self._size // 2:
                text = self._take(scanned.events[-1][1])
                self._skip_comma()
                return text
            if self._input_ended:
                return self._truncate(scanned)
            if len(self._buffer) >= LONGEST_BYTES:
                raise CorruptTraceError(
                    f"one event is larger than {LONGEST_BYTES >> 20} MB, or a quote is missing, from byte {self._offset} on",
                    hint="Record again without record_shapes and with_stack, or cut the file there.",
                )
            self._fill(2 * max(len(self._buffer), self._size))

    def _skip_comma(self) -> None:
        """Pass the comma between two events; where it is missing an object follows at once."""
        gap = _COMMA.match(self._buffer)
        assert gap is not None
        if not gap[0].endswith(b",") and self._buffer[gap.end() : gap.end() + 1] == b"{":
            self.missing_commas.append(self._offset)
        self._gap = self._take(gap.end())
