"""`.nsys-rep` reports: exported with the `nsys` that is at hand, because only NVIDIA's own tool reads them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from traceengine.errors import InputError, UnreadableInputError

EXPORT_TIMEOUT_S = 3600
"""An export reads about 20 MB/s; a report of several GB takes minutes, so an hour means that nsys hangs."""

_OLD_TOOL = ("version number is invalid", "newer version", "unsupported version", "not supported by this version")


def find_nsys(told: Path | None) -> str:
    """Path of the nsys to use. Raises UnreadableInputError when there is none."""
    if told is not None:
        if not told.is_file():
            raise UnreadableInputError("there is no nsys at this path", where=str(told), hint="Give the path of the nsys program.")
        return str(told)
    found = shutil.which("nsys")
    if found is None:
        raise UnreadableInputError(
            "a .nsys-rep is only readable with nsys, and no nsys is on PATH",
            hint="Give its path (--nsys PATH), or export where it is installed: nsys export -t sqlite REPORT.nsys-rep",
        )
    return found


def export_report(report: Path, folder: Path, nsys: Path | None = None) -> Path:
    """Export a report under `folder`, as Parquet where this nsys can, else as SQLite; returns the export's path.

    Raises InputError when nsys cannot; nsys may exit 0 after a failure, so the result is what counts.
    """
    program = find_nsys(nsys)
    help_text = _run([program, "export", "--help"]).stdout
    folder.mkdir(parents=True, exist_ok=True)
    kind, target = (
        ("parquetdir", folder / f"{report.stem}_pqtdir") if "parquetdir" in help_text else ("sqlite", folder / f"{report.stem}.sqlite")
    )
    done = _run([program, "export", "-t", kind, "-f", "true", "-o", str(target), str(report)])
    if done.returncode == 0 and target.exists() and (target.is_file() or any(target.iterdir())):
        return target
    said = (done.stderr.strip() or done.stdout.strip()).replace(str(report), report.name)
    if any(words in said.lower() for words in _OLD_TOOL):
        version = _run([program, "--version"]).stdout.strip() or "this nsys"
        raise InputError(
            f"the report was recorded with a newer Nsight Systems than the nsys here ({version})",
            where=str(report),
            hint="Export it with an nsys at least as new as the one that recorded it: nsys export -t sqlite REPORT.nsys-rep",
        )
    line = said.splitlines()[-1] if said else "no message"
    raise InputError(f"nsys could not export it ({line})", where=str(report), hint="Try by hand: nsys export -t sqlite REPORT.nsys-rep")


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=EXPORT_TIMEOUT_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(
            f"nsys did not run ({type(error).__name__})", where=command[0], hint="Check that this nsys works on this machine."
        ) from error
