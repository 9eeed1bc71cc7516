"""Which files a request means, what each is, and the traces inside it. By content, never by the name alone."""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from glob import glob
from pathlib import Path, PurePosixPath
from typing import IO

from traceengine.errors import CorruptTraceError, EmptyTraceError, UnknownFormatError, UnreadableInputError
from traceengine.importers.nsys_open import is_nsys
from traceengine.importers.streams import TextStream, as_file, decode_text, open_stream

TRACE_SUFFIXES = (".json", ".json.gz", ".json.zst", ".gz", ".zst", ".zip", ".tar", ".tgz", ".sqlite", ".nsys-rep", ".db")
"""Names under which a folder is searched for traces; what a file is decides its content."""

STDIN = Path("-")
_BLOCK = 1 << 20
_JSON_SUFFIXES = (".json", ".json.gz", ".json.zst")
_LOOK_BYTES = 4 << 20
"""How far a JSON file of a folder is searched for its list of events; the text before it is some KB in every exporter."""


class Format(StrEnum):
    """What a file is."""

    TRACE = "trace"
    ARCHIVE = "archive"
    NSYS = "nsys"


@dataclass(frozen=True)
class Member:
    """One trace in a file: its name, its size as far as known, its text."""

    name: str
    size: int
    stream: TextStream


@dataclass(frozen=True)
class Found:
    """What a request means: `files` to import, and what its folders hold besides: files without a trace, links to nothing."""

    files: tuple[Path, ...]
    skipped: tuple[Path, ...]


def expand_inputs(paths: Iterable[Path | str]) -> tuple[Path, ...]:
    """Files behind files, folders and globs, in a stable order and without repetitions; `-` is standard input.

    Raises UnreadableInputError for a path that is not there, or a folder without traces.
    """
    return find_inputs(paths).files


def find_inputs(paths: Iterable[Path | str]) -> Found:
    """As `expand_inputs`, and what a folder holds besides."""
    files: dict[Path, None] = {}
    skipped: dict[Path, None] = {}
    for path in map(Path, paths):
        if path == STDIN:
            files.setdefault(path)
        elif path.is_dir():
            found = _traces_in(path)
            files.update(dict.fromkeys(found.files))
            skipped.update(dict.fromkeys(found.skipped))
        elif path.exists():
            files.setdefault(path)
        elif path.is_symlink():
            raise UnreadableInputError("it is a link that leads to no file", where=str(path), hint="Give the file itself.")
        else:
            matches = sorted(Path(match) for match in glob(str(path), recursive=True))  # noqa: PTH207 - may be absolute
            if not matches:
                raise UnreadableInputError("there is no such file", where=str(path), hint="Check the path.")
            found = find_inputs(matches)
            files.update(dict.fromkeys(found.files))
            skipped.update(dict.fromkeys(found.skipped))
    return Found(tuple(files), tuple(path for path in skipped if path not in files))


def _traces_in(folder: Path) -> Found:
    try:
        names = sorted(folder.iterdir())
    except OSError as error:
        raise UnreadableInputError(
            f"the folder cannot be read ({error.strerror})", where=str(folder), hint="Check its permissions."
        ) from error
    candidates = [path for path in names if _is_candidate(path)]
    if not candidates and is_nsys(folder):
        return Found((folder,), ())
    files = tuple(path for path in candidates if path.is_file() and _may_hold_trace(path))
    if not files:
        looked_for = ", ".join(f"*{suffix}" for suffix in TRACE_SUFFIXES)
        raise UnreadableInputError(
            f"no traces in this folder (looked for {looked_for})", where=str(folder), hint="Give the folder that holds the trace files."
        )
    return Found(files, tuple(path for path in candidates if path not in files))


def _is_candidate(path: Path) -> bool:
    """Whether an entry of a folder is named like a trace; a link that leads nowhere is one, so that it is reported."""
    is_named = path.name.endswith(TRACE_SUFFIXES) and not path.name.startswith(".")
    return is_named and (path.is_file() or (path.is_symlink() and not path.exists()))


def _may_hold_trace(path: Path) -> bool:
    """False only for JSON files beside the traces, such as settings and labels: an object without a list of events."""
    if not path.name.endswith(_JSON_SUFFIXES):
        return True
    try:
        with path.open("rb") as raw:
            start = as_file(decode_text(open_stream(raw))).read(_LOOK_BYTES)
    except OSError:
        return True
    return not start.lstrip().startswith(b"{") or b'"traceEvents"' in start or is_nsys(path)


def sniff(path: Path) -> Format:
    """What the file is. Raises InputError subclasses when it is empty, unreadable, or nothing that can be a trace."""
    try:
        if is_nsys(path):
            return Format.NSYS
        with path.open("rb") as raw:
            start = raw.read(512)
            raw.seek(0)
            stream = open_stream(raw)
            inner = as_file(stream).read(512)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnreadableInputError(f"it cannot be read ({reason})", where=str(path), hint="Check the path and its permissions.") from error
    if not start:
        raise EmptyTraceError(
            "the file is empty (0 bytes)", where=str(path), hint="The capture wrote nothing: record again and wait until the export ends."
        )
    if start.startswith(b"PK\x03\x04") or inner[257:262] == b"ustar":
        return Format.ARCHIVE
    if not inner:
        raise CorruptTraceError(
            "the compressed file holds nothing that can be read" + (f": {stream.damage}" if stream.damage else ""),
            where=str(path),
            hint="Copy it again, or record again.",
        )
    return _sniff_text(inner, path)


def _sniff_text(start: bytes, path: Path) -> Format:
    text = start.replace(b"\x00", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")
    if text[:1] in (b"{", b"["):
        return Format.TRACE
    if text[:1] == b"<":
        raise UnknownFormatError(
            "this is an HTML or XML page, no trace", where=str(path), hint="Download the trace file itself, not the page about it."
        )
    if path.name.endswith((".gz", ".zst")) and not start.isascii():
        raise CorruptTraceError(
            f"its name ends in {path.suffix}, but it does not begin as compressed data: its start is missing or damaged",
            where=str(path),
            hint="Copy it again, or record again.",
        )
    raise UnknownFormatError(
        "this is no trace",
        where=str(path),
        hint="Give a trace of torch.profiler (.json, .json.gz) or an Nsight Systems export (.sqlite).",
    )


def members(path: Path, raw: IO[bytes], kind: Format) -> Iterator[Member]:
    """The traces inside an open file, in order; each must be read before the next one is asked for."""
    if kind is not Format.ARCHIVE:
        yield Member(path.name, path.stat().st_size, decode_text(open_stream(raw)))
        return
    found = False
    try:
        for member in _zip_members(path, raw) if zipfile.is_zipfile(path) else _tar_members(path, raw):
            found = True
            yield member
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, NotImplementedError, RuntimeError) as error:
        raise CorruptTraceError(
            f"the archive cannot be read ({error})", where=str(path), hint="Unpack it and give the trace files."
        ) from error
    if not found:
        looked_for = ", ".join(f"*{suffix}" for suffix in TRACE_SUFFIXES[:5])
        raise UnreadableInputError(
            f"no traces in this archive (looked for {looked_for})", where=str(path), hint="Give the trace files themselves."
        )


def _is_trace_name(name: str) -> bool:
    base = PurePosixPath(name).name
    return base.endswith(TRACE_SUFFIXES[:5]) and not base.startswith((".", "__MACOSX"))


def _zip_members(path: Path, raw: IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(raw) as archive:
        for info in sorted(archive.infolist(), key=lambda info: info.filename):
            if not info.is_dir() and _is_trace_name(info.filename):
                with archive.open(info) as inner:
                    yield Member(PurePosixPath(info.filename).name, info.file_size, decode_text(open_stream(inner)))


def _tar_members(path: Path, raw: IO[bytes]) -> Iterator[Member]:
    with tarfile.open(fileobj=as_file(open_stream(raw)), mode="r|") as archive:
        for info in archive:
            inner = archive.extractfile(info) if info.isfile() and _is_trace_name(info.name) else None
            if inner is not None:
                yield Member(PurePosixPath(info.name).name, info.size, decode_text(open_stream(inner)))


def sha256_of(path: Path) -> str:
    """Hash of a file's bytes, or of the names and bytes of a folder's files."""
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if not file.is_file():
            continue
        if path.is_dir():
            digest.update(file.name.encode() + b"\x00")
        with file.open("rb") as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()
