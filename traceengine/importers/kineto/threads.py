"""Table `thread`: which host threads there are and what part each plays."""

from __future__ import annotations

import json
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from traceengine.importers.kineto.tables import TableJob
from traceengine.importers.sql import statement
from traceengine.schema import table

_NAME_ROLES = (
    ("pin_memory", ("pin_memory", "pin memory")),
    ("loader", ("pt_data_worker", "dataloader", "data_loader")),
    ("comm", ("gloo", "nccl", "rccl", "watchdog", "heartbeat", "processgroup", "pt_mpi")),
)


@dataclass(frozen=True)
class Activity:
    """What one thread did, in numbers of events."""

    pid: int
    tid: int
    operations: int
    steps: int
    optimizer_steps: int
    backward_nodes: int
    collectives: int
    calls: int
    events: int


Numbers = dict[tuple[str | None, str | None], tuple[int, int]]


def write_threads(job: TableJob, connection: duckdb.DuckDBPyConnection, numbers: Numbers) -> None:
    """Write table `thread`; `numbers` maps the texts of the file to the numbers of the tables."""
    host_events = job.files("host_event")
    if not host_events:
        return
    rows = connection.execute(statement("thread_activity"), {"events": host_events}).fetchall()
    activities = [Activity(*row) for row in rows]
    process_names, thread_names = _names(connection, job.parts, numbers)
    texts = {pair: tid for (_, tid), pair in numbers.items() if tid is not None and pair[1] < 0}
    main = max(activities, key=_main_order, default=None)
    documents = []
    for activity in activities:
        pair = (activity.pid, activity.tid)
        name = thread_names.get(pair) or texts.get(pair)
        role = "main" if activity is main else _role(activity, name)
        documents.append(
            {
                "rank": job.rank,
                "pid": activity.pid,
                "tid": activity.tid,
                "name": name,
                "process_name": process_names.get(activity.pid),
                "role": role,
            }
        )
    job.writer.write("thread", job.rank, pa.Table.from_pylist(documents, schema=table("thread").arrow))


def _main_order(activity: Activity) -> tuple[int, ...]:
    """The loop's thread holds the step markers; without them the optimizer, else most operators, calls, events."""
    forward = activity.operations - 2 * activity.backward_nodes
    return (
        activity.steps,
        activity.optimizer_steps,
        forward,
        activity.calls,
        int(activity.pid == activity.tid),
        activity.events,
        -activity.tid,
    )


def _role(activity: Activity, name: str | None) -> str:
    lowered = (name or "").lower()
    for role, words in _NAME_ROLES:
        if any(word in lowered for word in words):
            return role
    if activity.collectives and 2 * activity.collectives >= activity.operations + activity.calls:
        return "comm"
    return "autograd" if activity.backward_nodes else "other"


def _names(connection: duckdb.DuckDBPyConnection, parts: list[str], numbers: Numbers) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
    """Names of processes and threads from the file's metadata events."""
    processes: dict[int, str] = {}
    threads: dict[tuple[int, int], str] = {}
    for pid, tid, kind, args in connection.execute(statement("metadata_events"), {"parts": parts}).fetchall():
        try:
            document = json.loads(args) if args else None
        except ValueError:
            continue
        value = document.get("name") if isinstance(document, dict) else None
        if not isinstance(value, str) or not value:
            continue
        pair = numbers[(pid, tid)]
        if kind == "process_name":
            processes[pair[0]] = value
        elif kind == "thread_name":
            threads[pair] = value
    return processes, threads
