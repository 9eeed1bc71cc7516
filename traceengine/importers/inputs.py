"""Which files a request means, what each is, and its decompressed bytes. By content, never by the name alone."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, cast

from isal import igzip

from traceengine.errors import EmptyTraceError, UnknownFormatError, UnreadableInputError

TRACE_SUFFIXES = (".json", ".json.gz", ".json.zst", ".pt.trace.json", ".gz", ".zst", ".zip", ".tar", ".tgz", ".sqlite", ".nsys-rep", ".db")
"""Names under which a folder is searched for traces; what a file is decides its content."""

_BLOCK = 1 << 20


class Format(StrEnum):
    """What a file's bytes are."""

    JSON = "json"
    GZIP = "gzip"
    ZSTD = "zstd"
    ZIP = "zip"
    TAR = "tar"
    SQLITE = "sqlite"
    NSYS_REPORT = "nsys-rep"


def expand_inputs(paths: Iterable[Path | str]) -> tuple[Path, ...]:
    """Files behind files, folders and globs, in a stable order and without repetitions.

    Raises UnreadableInputError for a path that is not there, or a folder without traces.
    """
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        if path.is_dir():
            for file in _traces_in(path):
                found.setdefault(file)
        elif path.exists():
            found.setdefault(path)
        else:
            matches = sorted(Path(match) for match in glob.glob(str(path), recursive=True))
            if not matches:
                raise UnreadableInputError("there is no such file", where=str(path), hint="Check the path.")
            for file in expand_inputs(matches):
                found.setdefault(file)
    return tuple(found)


def _traces_in(folder: Path) -> list[Path]:
    names = sorted(folder.iterdir())
    files = [path for path in names if path.is_file() and path.name.endswith(TRACE_SUFFIXES) and not path.name.startswith(".")]
    if not files and any(path.suffix in (".parquet", ".arrow") for path in names):
        return [folder]
    if not files:
        raise UnreadableInputError(
            f"no traces in this folder (looked for *{', *'.join(TRACE_SUFFIXES[:7])}, ...)",
            where=str(folder),
            hint="Give the folder that holds the trace files.",
        )
    return files


def sniff(path: Path) -> Format:
    """What the file is. Raises InputError subclasses when it is empty, unreadable, or nothing that can be a trace."""
    try:
        with path.open("rb") as stream:
            start = stream.read(512)
    except OSError as error:
        raise UnreadableInputError(
            f"it cannot be read ({error.strerror})", where=str(path), hint="Check the path and its permissions."
        ) from error
    if not start:
        raise EmptyTraceError(
            "the file is empty (0 bytes)", where=str(path), hint="The capture wrote nothing: record again and wait until the export ends."
        )
    return sniff_bytes(start, str(path))


def sniff_bytes(start: bytes, where: str) -> Format:
    """What bytes that begin like `start` are."""
    for magic, kind in (
        (b"\x1f\x8b", Format.GZIP),
        (b"\x28\xb5\x2f\xfd", Format.ZSTD),
        (b"PK\x03\x04", Format.ZIP),
        (b"SQLite format 3\x00", Format.SQLITE),
    ):
        if start.startswith(magic):
            return kind
    if start[257:262] == b"ustar":
        return Format.TAR
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] in (b"{", b"["):
        return Format.JSON
    if text[:1] == b"<":
        raise UnknownFormatError(
            "this is an HTML or XML page, no trace", where=where, hint="Download the trace file itself, not the page about it."
        )
    raise UnknownFormatError(
        "this is no trace", where=where, hint="Give a trace of torch.profiler (.json, .json.gz) or an Nsight Systems export (.sqlite)."
    )


@dataclass(frozen=True)
class Opened:
    """A file's raw bytes and their decompressed form."""

    raw: IO[bytes]
    text: IO[bytes]


def open_text(path: Path, kind: Format) -> Opened:
    """Open a JSON text, decompressed while it is read."""
    raw = cast("IO[bytes]", path.open("rb"))
    if kind is Format.GZIP:
        return Opened(raw, cast("IO[bytes]", igzip.GzipFile(fileobj=raw, mode="rb")))
    return Opened(raw, raw)


def sha256_of(path: Path) -> str:
    """Hash of the file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
