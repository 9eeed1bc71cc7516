"""Certain repairs of damaged JSON, event by event, and a count of each kind. What is not certain is refused with its byte.

| damage | repair |
| --- | --- |
| bytes that are no UTF-8, lone surrogates | the replacement character |
| raw control characters in a text | kept, escaped |
| a lone backslash (Windows paths) | a backslash: all of that text's backslashes are literal |
| `NaN`, `Infinity`, `inf`, `nan`, `N/A` | null |
| a comma too many, a comma missing between events | as if it were right |
| a key that occurs twice | the last one counts |
| a time that is no number, or beyond 64 bits of ns | null |
| a value in the list of events that is no object | left out |
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from traceengine.errors import CorruptTraceError
from traceengine.importers.issues import WARNING, Issue
from traceengine.importers.kineto.chunks import scan_events

_PIECES = re.compile(r"(\"[^\"\\]*(?:\\.[^\"\\]*)*\")", re.DOTALL)
_BAD_ESCAPE = re.compile(r"\\(?![\"\\/bfnrtu])|\\u(?![0-9a-fA-F]{4})")
_WINDOWS_PATH = re.compile(r"^[A-Za-z]:\\(?!\\)")
_BACKSLASH = re.compile(r"\\\\|\\\"|\\")
_NOT_A_VALUE = re.compile(r"(?<![\w.+-])[-+]?(?:NaN|nan|Infinity|infinity|inf|N/A|NA|None|undefined)(?![\w/])")
_EXTRA_COMMA = re.compile(r",(?=\s*[,}\]])|(?<=[\[{])\s*,")
_LIMIT_US = Decimal(9_000_000_000_000_000)
"""Largest time in µs: 285 years, and safely inside 64 bits of ns."""

_RAW_WINDOWS_PATH = re.compile(rb"\"[A-Za-z]:\\[^\\\"]")

_ACTIONS = {
    "invalid_utf8": "Bytes that are no UTF-8 were replaced.",
    "control_character": "Control characters inside a text were kept.",
    "stray_backslash": "Backslashes that escape nothing were taken as they stand.",
    "not_finite": "Kept as unknown: no number was written there.",
    "extra_comma": "A comma too many was ignored.",
    "missing_comma": "A comma was missing between two events.",
    "duplicate_key": "Of a key that occurs twice the last one counts.",
    "impossible_time": "Kept as unknown: the time is no number of this world.",
    "not_an_event": "Left out: a value in the list of events that is no event.",
    "damaged_tail": "Left out: what the file says about itself behind its events cannot be read.",
    "trailing_bytes": "Left out: bytes behind the end of the trace.",
    "odd_field": "Kept as unknown: the field does not hold what it should.",
}


def looks_misread(text: bytes) -> bool:
    """Whether a text that parses is still wrong: a Windows path whose single backslashes happen to be valid escapes."""
    # Most traces hold no backslash at all, and looking for one byte costs next to nothing.
    return b"\\" in text and b":\\" in text and _RAW_WINDOWS_PATH.search(text) is not None


class _Number(float):
    """A JSON number with a fraction, with the digits that were written."""

    digits: str

    def __new__(cls, digits: str) -> _Number:
        number = super().__new__(cls, digits)
        number.digits = digits
        return number


@dataclass
class Repairs:
    """Counts of repairs, with the first example of each."""

    where: str
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def note(self, code: str, example: str) -> None:
        """Count one repair."""
        self.counts[code] = self.counts.get(code, 0) + 1
        self.examples.setdefault(code, example)

    def issues(self) -> list[Issue]:
        """What was repaired."""
        return [Issue(code, WARNING, count, _ACTIONS[code], self.examples[code]) for code, count in sorted(self.counts.items())]

    def events(self, text: bytes, offset: int) -> bytes:
        """The inside of a valid array from the damaged inside `text` that begins at byte `offset`."""
        scanned = scan_events(text)
        kept: list[bytes] = []
        before = 0
        for start, end in scanned.events:
            self._check_gap(text[before:start], offset + before, wanted=int(before > 0))
            if (event := self._event(text[start:end], offset + start)) is not None:
                kept.append(event)
            before = end
        self._check_gap(text[before:], offset + before, wanted=0)
        return b",\n".join(kept)

    def _check_gap(self, gap: bytes, offset: int, *, wanted: int) -> None:
        commas = gap.count(b",")
        if words := gap.replace(b",", b" ").split():
            try:
                for word in words:
                    json.loads(word)
            except ValueError as error:
                raise CorruptTraceError(
                    f"no event can be read at byte {offset}", where=self.where, hint="Record the trace again, or cut the file there."
                ) from error
            self.note("not_an_event", f"byte {offset}")
        elif commas > wanted:
            self.note("extra_comma", f"byte {offset}")
        elif commas < wanted:
            self.note("missing_comma", f"byte {offset}")

    def _event(self, raw: bytes, offset: int) -> bytes | None:
        place = f"byte {offset}"
        event = self.value(raw, place)
        if not isinstance(event, dict):
            self.note("not_an_event", place)
            return None
        for key in ("ts", "dur"):
            if key in event:
                event[key] = self._time(event[key], place)
        for key in ("ph", "cat", "name", "pid", "tid", "id"):
            if isinstance(event.get(key), dict | list):
                self.note("odd_field", f"{place}: {key}")
                event[key] = None
        return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="replace")

    def _time(self, value: object, place: str) -> str | None:
        """A time as exact decimal text, or None."""
        if value is None:
            return None
        try:
            number = Decimal(value.digits if isinstance(value, _Number) else str(value))
        except InvalidOperation:
            number = Decimal("nan")
        if isinstance(value, bool | dict | list) or not number.is_finite() or abs(number) > _LIMIT_US:
            self.note("impossible_time", place)
            return None
        return f"{number:f}"

    def value(self, raw: bytes, place: str) -> Any:
        """One JSON value, repaired when that is certain. Raises CorruptTraceError when it is not."""
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            text = raw.decode("utf-8", errors="replace")
            self.note("invalid_utf8", place)
        if _may_stand(text):
            try:
                return self._loads(text, place)
            except (ValueError, RecursionError):
                pass
        try:
            return self._loads(self._mended(text, place), place)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deep"
            raise CorruptTraceError(
                f"the event at {place} cannot be read ({reason})", where=self.where, hint="Record the trace again, or cut the file there."
            ) from error

    def _loads(self, text: str, place: str) -> Any:
        def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
            found = dict(items)
            if len(found) < len(items):
                self._note_duplicates(items, place)
            return found

        def constant(word: str) -> None:
            self.note("not_finite", f"{place}: {word}")

        return json.loads(text, strict=False, parse_float=_Number, parse_constant=constant, object_pairs_hook=pairs)

    def _note_duplicates(self, items: list[tuple[str, Any]], place: str) -> None:
        seen: dict[str, Any] = {}
        for key, value in items:
            if key in seen and seen[key] != value:
                self.note("duplicate_key", f"{place}: {_difference(key, seen[key], value)}")
            seen[key] = value

    def _mended(self, text: str, place: str) -> str:
        pieces = _PIECES.split(text)
        for position, piece in enumerate(pieces):
            if position % 2:
                pieces[position] = self._mended_string(piece, place)
                continue
            if _NOT_A_VALUE.search(piece):
                self.note("not_finite", f"{place}: {piece.strip(' :,{}[]')[:40]}")
                piece = _NOT_A_VALUE.sub("null", piece)
            if _EXTRA_COMMA.search(piece):
                self.note("extra_comma", place)
                piece = _EXTRA_COMMA.sub("", piece)
            pieces[position] = piece
        return "".join(pieces)

    def _mended_string(self, piece: str, place: str) -> str:
        inner = piece[1:-1]
        if not (_BAD_ESCAPE.search(inner) or _WINDOWS_PATH.match(inner)):
            return piece
        self.note("stray_backslash", f"{place}: {inner[:80]}")
        return '"' + _BACKSLASH.sub(lambda found: found[0] if len(found[0]) == 2 else "\\\\", inner) + '"'


def _may_stand(text: str) -> bool:
    """Whether a text may be tried as it is: a Windows path must be mended before its backslashes become something else."""
    return not re.search(r"\"[A-Za-z]:\\[^\\\"]", text) and not _BAD_ESCAPE.search(text)


def _difference(key: str, first: object, last: object) -> str:
    if isinstance(first, dict) and isinstance(last, dict):
        for name in first:
            if name in last and first[name] != last[name]:
                return _difference(f"{key}.{name}", first[name], last[name])
    return f"{key} is {str(first)[:40]} and {str(last)[:40]}"
