"""Third pass: the run's tables from the staged events, a group of parts at a time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import duckdb
import numpy as np
import pyarrow as pa

from traceengine.importers.kineto.extsort import Records
from traceengine.importers.kineto.identity import DEVICE_RESULT, LINK_RESULT, Identities, groups_of
from traceengine.importers.kineto.routes import COUNTER, DEVICE, FLOW, HOST, LABEL, MEMORY, WAIT
from traceengine.importers.sql import statement, work_connection
from traceengine.run import RunWriter

_IDENTIFIED = {HOST: "host_events", DEVICE: "device_events", WAIT: "stream_waits", LABEL: "device_annotations"}
_PLAIN = {FLOW: "flows", MEMORY: "memory_events", COUNTER: "counters"}
DTYPE_BYTES = {
    "byte": 1, "char": 1, "bool": 1, "int8": 1, "uint8": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
    "short": 2, "int16": 2, "half": 2, "float16": 2, "bfloat16": 2,
    "int": 4, "int32": 4, "float": 4, "float32": 4,
    "long": 8, "long int": 8, "int64": 8, "double": 8, "float64": 8, "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip
"""Bytes of an element by c10's names of its type."""


@dataclass(frozen=True)
class TableJob:
    """Where rows come from and go to. `origin_ns` is the file's own time of ts_ns = 0; `relations` are the small lookup tables."""

    parts: list[str]
    scratch: Path
    writer: RunWriter
    rank: int
    origin_ns: int
    relations: dict[str, pa.Table]
    threads: int

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A single-threaded connection that knows the lookup tables."""
        connection = work_connection(self.scratch, 1)
        for name, rows in self.relations.items():
            connection.register(f"given_{name}", rows)
            connection.execute(f"create temp table {name} as from given_{name}")
            connection.unregister(f"given_{name}")
        return connection

    def files(self, name: str) -> list[str]:
        """What was written of table `name`, in order."""
        folder = self.writer.part_path(name, self.rank, 0).parent
        return [str(path) for path in sorted(folder.glob("part-*.parquet"))]


def write_event_tables(job: TableJob, identities: Identities, targets: set[str]) -> None:
    """Write the tables in `targets`, groups in parallel."""
    connections: SimpleQueue[duckdb.DuckDBPyConnection] = SimpleQueue()
    for _ in range(job.threads):
        connections.put(job.connect())

    def write(group: int, parts: list[str]) -> None:
        with _borrowed(connections) as connection:
            _write_group(job, connection, group, parts, identities, targets)

    with ThreadPoolExecutor(job.threads, thread_name_prefix="write") as pool:
        for future in [pool.submit(write, group, parts) for group, parts in enumerate(groups_of(job.parts))]:
            future.result()
    while not connections.empty():
        connections.get().close()


@contextmanager
def _borrowed(connections: SimpleQueue[duckdb.DuckDBPyConnection]) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = connections.get()
    try:
        yield connection
    finally:
        connections.put(connection)


def _write_group(
    job: TableJob, connection: duckdb.DuckDBPyConnection, group: int, parts: list[str], identities: Identities, targets: set[str]
) -> None:
    host = identities.host.read(group)
    if len(host):
        _with_result(job, connection, HOST, group, parts, _arrow(host))
    operations = _joined(identities.device.read(group), identities.links.read(group))
    if operations.num_rows:
        for target in (DEVICE, WAIT, LABEL):
            if target in targets:
                _with_result(job, connection, target, group, parts, operations)
    for target, name in _PLAIN.items():
        if target in targets:
            copy_rows(job, connection, target, name, group, parts=parts, origin=job.origin_ns)


def _with_result(job: TableJob, connection: duckdb.DuckDBPyConnection, target: str, group: int, parts: list[str], result: pa.Table) -> None:
    connection.register("result", result)
    copy_rows(job, connection, target, _IDENTIFIED[target], group, parts=parts, origin=job.origin_ns)
    connection.unregister("result")


def copy_rows(job: TableJob, connection: duckdb.DuckDBPyConnection, target: str, name: str, part: int, **parameters: object) -> None:
    """Run a statement that writes part `part` of table `target`; without rows no file stays."""
    file = job.writer.part_path(target, job.rank, part)
    row = connection.execute(statement(name), {"rank": job.rank, "file": str(file), **parameters}).fetchone()
    if row is None or not row[0]:
        file.unlink(missing_ok=True)


def _arrow(records: Records) -> pa.Table:
    return pa.table({name: np.ascontiguousarray(records[name]) for name in records.dtype.names or ()})


def _joined(device: Records, links: Records) -> pa.Table:
    """Device results with their launches; -1 where there is none."""
    device = device[np.argsort(device["row"])] if len(device) else np.empty(0, DEVICE_RESULT)
    launch = np.full(len(device), -1, np.int64)
    thread = np.full(len(device), -1, np.int32)
    links = links if len(links) else np.empty(0, LINK_RESULT)
    place = np.searchsorted(device["row"], links["row"])
    launch[place] = links["launch_id"]
    thread[place] = links["launch_thread"]
    return _arrow(device).append_column("launch_id", pa.array(launch)).append_column("launch_thread", pa.array(thread))
