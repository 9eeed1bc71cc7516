"""Cost of an Nsight import: a replicated export of some million rows, against a plain copy of the same tables.

    python benchmarks/import_nsys.py --source EXPORT.sqlite --rows 5000000 --repeats 3

Each contender runs in a process of its own, in turns, and is judged by CPU seconds and peak memory (wall time says little
on a shared machine). `copy` is what a plain tool does: Python's sqlite3, rows into Arrow, Parquet with zstd. `warm` is
`nsys-ai warm`, if that program is installed.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SHIFT_NS = 400_000_000
"""Time between two copies: longer than the captures that are replicated, so that copies do not overlap."""
CORRELATION_STEP = 100_000
EVENTS = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "NVTX_EVENTS",
    "OSRT_API",
)
CPU_TARGET = 0.7
MEMORY_TARGET_MIB = 450


def quoted(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def replicate(source: Path, target: Path, rows: int) -> int:
    """Copy `source` with its event tables repeated until they hold `rows` rows; returns the number of rows."""
    shutil.copy(source, target)
    database = sqlite3.connect(target)
    database.execute("pragma journal_mode = off")
    database.execute("pragma synchronous = off")
    present = {row[0] for row in database.execute("select name from sqlite_master where type = 'table'")}
    tables = [name for name in EVENTS if name in present]
    once = sum(database.execute(f"select count(*) from {quoted(name)}").fetchone()[0] for name in tables)
    copies = max(1, -(-rows // once))
    for name in tables:
        columns = [row[1] for row in database.execute("select * from pragma_table_info(?)", (name,))]
        content = database.execute(f"select * from {quoted(name)}").fetchall()
        times = [index for index, column in enumerate(columns) if column in ("start", "end")]
        ids = [index for index, column in enumerate(columns) if column == "correlationId"]
        insert = f"insert into {quoted(name)} values ({', '.join('?' * len(columns))})"
        for copy in range(1, copies):
            database.executemany(insert, (_moved(row, copy, times, ids) for row in content))
    if "ANALYSIS_DETAILS" in present:
        database.execute("update ANALYSIS_DETAILS set duration = duration + ?", (copies * SHIFT_NS,))
    database.commit()
    database.close()
    return once * copies


def _moved(row: tuple[object, ...], copy: int, times: list[int], ids: list[int]) -> list[object]:
    values = list(row)
    for indexes, step in ((times, SHIFT_NS), (ids, CORRELATION_STEP)):
        for index in indexes:
            value = values[index]
            if isinstance(value, int):
                values[index] = value + copy * step
    return values


def plain_copy(source: Path, folder: Path) -> None:
    """The event tables, all columns, by Python's sqlite3 into Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"INTEGER": pa.int64(), "REAL": pa.float64()}
    database = sqlite3.connect(f"file:{source}?mode=ro", uri=True)
    present = {row[0] for row in database.execute("select name from sqlite_master where type = 'table'")}
    folder.mkdir(parents=True)
    for name in EVENTS:
        if name not in present:
            continue
        columns = database.execute("select * from pragma_table_info(?)", (name,)).fetchall()
        schema = pa.schema([(row[1], types.get(row[2], pa.string())) for row in columns])
        cursor = database.execute(f"select * from {quoted(name)}")
        with pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd") as writer:
            while rows := cursor.fetchmany(65_536):
                arrays = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


def imported(source: Path, folder: Path) -> None:
    """What this project does: every table of a run."""
    from traceengine.importers.nsys import NsysOptions, import_nsys
    from traceengine.run import Manifest, RunWriter

    with RunWriter(folder) as writer:
        summary = import_nsys(source, writer, 0, NsysOptions(threads=1))
        writer.commit(Manifest.new("benchmark", summary.origin_unix_ns, summary.ranks, (source.name,)))


def measure(command: list[str]) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and peak MiB of a process."""
    start = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start, usage.ru_maxrss / 1024


def main() -> int:
    """Run the contenders in turns and print a table; exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="a SQLite export to replicate")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=("copy", "import"), help="run one contender in this process (used internally)")
    parser.add_argument("--out", type=Path, help="folder for --only")
    arguments = parser.parse_args()
    if arguments.only:
        (plain_copy if arguments.only == "copy" else imported)(arguments.source, arguments.out)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        big = Path(scratch) / "big.sqlite"
        rows = replicate(arguments.source, big, arguments.rows)
        print(f"{rows} rows, {big.stat().st_size / 1e6:.0f} MB")
        contenders = {name: [sys.executable, __file__, "--source", str(big), "--only", name] for name in ("copy", "import")}
        results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in contenders}
        warm = shutil.which("nsys-ai")
        for repeat in range(arguments.repeats):
            for name, command in contenders.items():
                results[name].append(measure([*command, "--out", str(Path(scratch) / f"{name}{repeat}")]))
                shutil.rmtree(Path(scratch) / f"{name}{repeat}")
            if warm:
                results.setdefault("warm", []).append(measure([warm, "warm", str(big)]))
    return report(results)


def report(results: dict[str, list[tuple[float, float, float]]]) -> int:
    """Print medians and the verdict on the targets."""
    medians = {name: [statistics.median(column) for column in zip(*runs, strict=True)] for name, runs in results.items()}
    print(f"{'':8}{'CPU s':>8}{'wall s':>8}{'peak MiB':>10}")
    for name, (cpu, wall, peak) in medians.items():
        print(f"{name:8}{cpu:8.1f}{wall:8.1f}{peak:10.0f}")
    ratio = medians["import"][0] / medians["copy"][0]
    print(f"import / copy: {ratio:.2f} of the CPU (target {CPU_TARGET}), peak {medians['import'][2]:.0f} MiB (target {MEMORY_TARGET_MIB})")
    return int(ratio > CPU_TARGET or medians["import"][2] > MEMORY_TARGET_MIB)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    raise SystemExit(main())
