"""`.nsys-rep` reports: exported with the `nsys` that is at hand, because only NVIDIA's own tool reads them."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from traceengine.errors import InputError, UnreadableInputError

REPORT_SUFFIX = ".nsys-rep"

EXPORT_TIMEOUT_S = 3600
"""An export reads about 20 MB/s; a report of several GB takes minutes, so an hour means that nsys hangs."""

_OLD_TOOL = ("version number is invalid", "newer version", "unsupported version", "not supported by this version")
_KINDS = {"parquetdir": "report_pqtdir", "sqlite": "report.sqlite"}
"""Forms of an export, the preferred one first, and how it is called in its folder."""
_VERSION = re.compile(r"\d{4}\.\d+(?:\.\d+)*")
_RECORDER = re.compile(rb"Report (\d{4})@(\d+)@(\d+)")
"""How a report's first bytes name the version that made it: `NVIDIA Tegra Profiler Report 2023@4@4@54-...`."""
_HEADER_BYTES = 256


def find_nsys(told: Path | None, report: Path) -> str:
    """Absolute path of the nsys to use for `report`. Raises UnreadableInputError when there is none."""
    if told is not None:
        program = told / "nsys" if told.is_dir() else told
        if not program.is_file():
            raise UnreadableInputError("there is no nsys at this path", where=str(told), hint="Give the path of the nsys program.")
        return str(program.absolute())
    found = shutil.which("nsys")
    if found is None:
        raise UnreadableInputError(
            "only nsys reads a .nsys-rep, and no nsys is on PATH",
            where=str(report),
            hint=f"Give its path with --nsys PATH, or run where it is installed: nsys export -t sqlite {report.name}",
        )
    return found


def kept_export(report: Path, digest: str, folder: Path, nsys: Path | None = None) -> Path:
    """The export of a report under `folder`/`digest`: the one that is there, else a new one. `digest`: SHA-256 of the report's bytes.

    A folder appears only when its export is whole. Raises as `export_report`.
    """
    place = folder / digest
    if place.is_dir():
        for name in _KINDS.values():
            if (place / name).exists():
                return place / name
        shutil.rmtree(place)
    folder.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=".export-", dir=folder))
    try:
        name = export_report(report, building, nsys).name
        try:
            building.rename(place)
        except OSError:
            # Another import of the same report was faster; what it made is as good.
            if not (place / name).exists():
                raise
        return place / name
    finally:
        shutil.rmtree(building, ignore_errors=True)


def export_report(report: Path, folder: Path, nsys: Path | None = None) -> Path:
    """Export a report under `folder`, as Parquet where this nsys can, else as SQLite; returns the export's path.

    Raises UnreadableInputError without an nsys, InputError when it cannot; nsys may exit 0 after a failure, so the result is
    what counts.
    """
    program = find_nsys(nsys, report)
    known = _run([program, "export", "--help"])
    kind = "parquetdir" if "parquetdir" in known.stdout + known.stderr else "sqlite"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / _KINDS[kind]
    done = _run([program, "export", "-t", kind, "-f", "true", "-o", str(target), str(report)])
    if done.returncode == 0 and target.exists() and (target.is_file() or any(target.iterdir())):
        return target
    raise _failure(program, report, done)


def _failure(program: str, report: Path, done: subprocess.CompletedProcess[str]) -> InputError:
    said = (done.stderr.strip() or done.stdout.strip()).replace(str(report), report.name)
    version = _version(program)
    if any(words in said.lower() for words in _OLD_TOOL):
        recorder = _recorder(report)
        return InputError(
            f"the nsys here ({version or 'of an unknown version'}) is too old for it",
            where=str(report),
            hint=f"It needs nsys {recorder or 'of the version that recorded it'} or newer: give that with --nsys PATH,"
            f" or run there: nsys export -t sqlite {report.name}",
        )
    line = said.splitlines()[-1] if said else "no message"
    named = f"nsys {version}" if version else "nsys"
    return InputError(f"{named} could not export it ({line})", where=str(report), hint=f"Try by hand: nsys export -t sqlite {report.name}")


def _recorder(report: Path) -> str | None:
    """Version that made the report, as far as its first bytes tell."""
    with report.open("rb") as stream:
        found = _RECORDER.search(stream.read(_HEADER_BYTES))
    return b".".join(found.groups()).decode() if found else None


def _version(program: str) -> str | None:
    found = _VERSION.search(_run([program, "--version"]).stdout)
    return found.group() if found else None


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(  # noqa: S603
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=EXPORT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(
            f"nsys did not run ({type(error).__name__})", where=command[0], hint="Check that this nsys works on this machine."
        ) from error
