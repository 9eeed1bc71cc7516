"""CPU seconds and peak memory of importing a PyTorch trace, beside the bare JSON parsers and HolisticTraceAnalysis.

    python benchmarks/import_torch.py SOURCE.json.gz [--events 1000000 3000000] [--hta PYTHON] [--rounds 3]

The files are SOURCE repeated with ids of their own (make_trace.py). Every reading runs in a process of its own, start-up
included, and the readers take turns, because CPU seconds on a shared machine drift by half from minute to minute: compare
within a round. Of each reader the median round is shown. `--hta` names a Python that has HolisticTraceAnalysis installed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from make_trace import read, write

READERS = {
    "traceengine": (
        "import sys, tempfile; from pathlib import Path; from traceengine.importers import ImportRequest, import_traces\n"
        "with tempfile.TemporaryDirectory() as folder: import_traces(ImportRequest((Path(sys.argv[1]),), out=Path(folder) / 'run'))"
    ),
    "orjson.loads": "import sys, orjson; orjson.loads(open(sys.argv[1], 'rb').read())",
    "json.loads": "import sys, json; json.loads(open(sys.argv[1], 'rb').read())",
}
# What its users call, and all that it does before it answers a question: read, align, drop partial steps, decode names.
HTA = "import sys; from hta.trace_analysis import TraceAnalysis; TraceAnalysis(trace_files={0: sys.argv[1]})"


@dataclass(frozen=True)
class Measured:
    """One reading: CPU seconds of the process and its children, and its peak memory."""

    cpu_s: float
    peak_mib: float


def measure(python: str, code: str, path: Path) -> Measured:
    """Run `code` on `path` in a new process."""
    process = subprocess.Popen([python, "-c", code, str(path)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{python} failed on {path} ({process.returncode})")
    return Measured(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def rounds_of(path: Path, rounds: int, hta: str | None) -> dict[str, list[Measured]]:
    """All readings of a file, readers in turn."""
    found: dict[str, list[Measured]] = {name: [] for name in READERS}
    for _ in range(rounds):
        for name, code in READERS.items():
            found[name].append(measure(sys.executable, code, path))
    if hta:
        found["HolisticTraceAnalysis"] = [measure(hta, HTA, path)]
    return found


def table(events: int, found: dict[str, list[Measured]]) -> list[str]:
    """Rows of the result, as Markdown."""
    bare = [one.cpu_s for one in found["orjson.loads"]]
    lines = []
    for name, measured in found.items():
        cpu = statistics.median(one.cpu_s for one in measured)
        ratio = statistics.median(one.cpu_s / base for one, base in zip(measured, bare, strict=False))
        peak = max(one.peak_mib for one in measured)
        lines.append(f"| {events:,} | {name} | {cpu:.1f} | {events / cpu / 1e6:.2f} M | {ratio:.2f} | {peak:.0f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000, 3_000_000])
    parser.add_argument("--hta")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the readings here")
    options = parser.parse_args()
    document = read(options.source)
    print("| events | reader | CPU s | events per CPU s | CPU vs orjson.loads | peak MiB |\n| --- | --- | --- | --- | --- | --- |")
    kept = {}
    with tempfile.TemporaryDirectory() as folder:
        for wanted in options.events:
            path = Path(folder) / f"{wanted}.json"
            with path.open("w", encoding="utf-8") as stream:
                events = write(document, wanted, stream)
            found = rounds_of(path, options.rounds, options.hta)
            print("\n".join(table(events, found)), flush=True)
            kept[events] = {name: [vars(one) for one in measured] for name, measured in found.items()}
            path.unlink()
    if options.json:
        options.json.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
