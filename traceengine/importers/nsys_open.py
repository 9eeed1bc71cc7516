"""Which reader an Nsight path needs, and what to say about the formats that cannot be read."""

from __future__ import annotations

from pathlib import Path

from traceengine.errors import UnknownFormatError, UnreadableInputError
from traceengine.importers.nsys_arrow import ArrowFolder, ArrowStreams, ParquetFolder
from traceengine.importers.nsys_jsonl import TABLE_KEY, JsonLines
from traceengine.importers.nsys_source import NsysSource
from traceengine.importers.nsys_sqlite import SqliteSource

_EXPORT = "Make a readable export: nsys export -t sqlite REPORT.nsys-rep"
_REFUSED = {
    ".qdstrm": (
        "an unprocessed recording",
        "Turn it into a report first: QdstrmImporter -i FILE.qdstrm, then nsys export -t sqlite FILE.nsys-rep",
    ),
    ".qdrep": ("a report of Nsight Systems before 2021.4", "Open it with its own nsys: nsys export -t sqlite FILE.qdrep"),
    ".h5": ("an HDF export, which writes 0 where a value is missing", _EXPORT),
    ".hdf": ("an HDF export, which writes 0 where a value is missing", _EXPORT),
    ".txt": ("a text export, which is protobuf text and not the tables", _EXPORT),
}
_SNIFF_BYTES = 65_536


def is_nsys(path: Path) -> bool:
    """True when the path is something of Nsight Systems: readable, or to be refused with advice."""
    if path.is_dir():
        return any(path.glob("*.parquet")) or any(path.glob("*.arrow"))
    if path.suffix in (".nsys-rep", ".qdstrm", ".qdrep", ".h5", ".hdf", ".arrows", ".jsonl", ".sqlite", ".sqlite3", ".db"):
        return True
    with path.open("rb") as stream:
        start = stream.read(_SNIFF_BYTES)
    return start.startswith(b"SQLite format 3\x00") or _is_json_lines(start) or _is_old_json(start)


def open_nsys(path: Path, scratch: Path) -> NsysSource:
    """Open an export, by its content. `scratch` takes what must be unpacked; a report is exported before (`nsys_report`).

    Raises UnreadableInputError, UnknownFormatError (with the command that makes a readable export) or CorruptTraceError.
    """
    if not path.exists():
        raise UnreadableInputError("there is no such file", where=str(path), hint="Check the path.")
    if path.is_dir():
        return _open_folder(path)
    if path.suffix in _REFUSED:
        what, hint = _REFUSED[path.suffix]
        raise UnknownFormatError(f"this is {what}", where=str(path), hint=hint)
    return _open_file(path, scratch)


def _open_folder(path: Path) -> NsysSource:
    if any(path.glob("*.parquet")):
        return ParquetFolder(path)
    if any(path.glob("*.arrow")):
        return ArrowFolder(path)
    raise UnknownFormatError("the folder holds neither .parquet nor .arrow tables", where=str(path), hint=_EXPORT)


def _open_file(path: Path, scratch: Path) -> NsysSource:
    with path.open("rb") as stream:
        start = stream.read(_SNIFF_BYTES)
    if start.startswith(b"SQLite format 3\x00") or path.suffix in (".sqlite", ".sqlite3", ".db"):
        return SqliteSource(path)
    if start.startswith(b"\xff\xff\xff\xff") or path.suffix == ".arrows":
        return ArrowStreams(path)
    if _is_json_lines(start) or path.suffix == ".jsonl":
        return JsonLines(path, scratch / "lines")
    if _is_old_json(start):
        raise UnknownFormatError(
            "this is a JSON export of Nsight Systems before 2025.6, which holds raw events and not the tables",
            where=str(path),
            hint=_EXPORT,
        )
    raise UnknownFormatError("this is no Nsight Systems export", where=str(path), hint=_EXPORT)


def _is_json_lines(start: bytes) -> bool:
    first = start.lstrip().split(b"\n", 1)[0]
    return first.startswith(b"{") and f'"{TABLE_KEY}"'.encode() in first and b'"traceEvents"' not in first


def _is_old_json(start: bytes) -> bool:
    """Raw events of the old exporter: objects one after the other that begin with their type."""
    return start.lstrip().startswith((b'{"Type":', b'{"type":', b'{ "Type":')) and b'"traceEvents"' not in start
