"""The object around `traceEvents`, read after the events: what stands before and behind the array must be one object."""

from __future__ import annotations

import re
from typing import Any

from traceengine.errors import CorruptTraceError, UnknownFormatError
from traceengine.importers.kineto.chunks import ChunkReader, scan_events
from traceengine.importers.kineto.repair import Repairs

_SECOND = re.compile(rb"\s*[{\[]")
_OUTSIDE = "the text around traceEvents"


def read_document(reader: ChunkReader, repairs: Repairs) -> tuple[dict[str, Any], bool]:
    """The object without its events, and whether the file ends inside it. A bare array has an empty one.

    Raises UnknownFormatError when there is more than one document, or when traceEvents is no key of the top level.
    """
    if reader.head.lstrip()[:1] == b"[":
        _check_rest(reader.tail[1:], repairs)
        return {}, False
    document, cut = _parse(reader, repairs)
    if not isinstance(document, dict) or document.pop("traceEvents", None) != []:
        raise UnknownFormatError("traceEvents is no key of its top level", where=repairs.where, hint="Give a trace of torch.profiler.")
    return document, cut


def _parse(reader: ChunkReader, repairs: Repairs) -> tuple[Any, bool]:
    if reader.truncated_at is not None:
        return repairs.value(reader.head + b"]}", _OUTSIDE), True
    text = reader.head + reader.tail
    end = scan_events(text).events
    if not end:
        # The object is never closed: the file was cut behind its events.
        return repairs.value(reader.head + b"]}", _OUTSIDE), True
    _check_rest(text[end[0][1] :], repairs)
    try:
        return repairs.value(text[: end[0][1]], _OUTSIDE), False
    except CorruptTraceError:
        repairs.note("damaged_tail", f"after the last event, byte {len(text)}")
        return repairs.value(reader.head + b"]}", _OUTSIDE), False


def _check_rest(rest: bytes, repairs: Repairs) -> None:
    if _SECOND.match(rest):
        raise UnknownFormatError(
            "it holds 2 or more JSON documents, one after the other (several ranks wrote into one file?)",
            where=repairs.where,
            hint="Split it into one file per trace.",
        )
    if rest.strip(b" \t\r\n\x00"):
        repairs.note("trailing_bytes", f"{len(rest)} bytes after the end of the trace")
