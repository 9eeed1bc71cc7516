"""Table `thread`: which host threads a rank has and what part each plays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from traceengine.importers.nsys_ranks import RankClaim, ThreadLabels
from traceengine.importers.sql import statement
from traceengine.run import RunWriter
from traceengine.schema import table

# The kernel keeps 15 characters of a thread's name.
_NAME_ROLES = (
    ("pin_memory", ("pin_memory", "pt_data_pin")),
    ("loader", ("pt_data_worker", "pt_data_work", "dataloader", "data_loader")),
    ("autograd", ("pt_autograd",)),
    ("comm", ("gloo", "nccl", "rccl", "watchdog", "heartbeat", "processgroup", "pt_mpi")),
)


@dataclass(frozen=True)
class Activity:
    """What one thread did, in numbers of events."""

    pid: int
    tid: int
    steps: int
    optimizer_steps: int
    backward_nodes: int
    collectives: int
    ranges: int
    calls: int
    events: int


def write_threads(connection: duckdb.DuckDBPyConnection, writer: RunWriter, rank: int, claim: RankClaim, labels: ThreadLabels) -> None:
    """Write the threads of a rank whose host events are written."""
    events: Path = writer.part_path("host_event", rank, 0)
    if not events.exists():
        return
    activities = [Activity(*row) for row in connection.execute(statement("nsys_thread_activity"), {"events": str(events)}).fetchall()]
    by_pid = {process & 0xFFFFFF: process for process in reversed(claim.processes)}
    main = max(activities, key=lambda activity: _main_order(activity, claim.process & 0xFFFFFF), default=None)
    rows = []
    for activity in activities:
        process = by_pid[activity.pid]
        name = labels.threads.get((process, activity.tid))
        rows.append(
            {
                "rank": rank,
                "pid": activity.pid,
                "tid": activity.tid,
                "name": name,
                "process_name": labels.processes.get(process),
                "role": "main" if activity is main else _role(activity, name),
            }
        )
    writer.write("thread", rank, pa.Table.from_pylist(rows, schema=table("thread").arrow))


def _main_order(activity: Activity, pid: int) -> tuple[int, ...]:
    """The loop's thread holds the step markers; without them the optimizer, else most ranges that are not backward's, calls, events."""
    own = int(activity.pid == pid)
    forward = activity.ranges - 2 * activity.backward_nodes
    return (
        own,
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
    if activity.collectives and 2 * activity.collectives >= activity.ranges + activity.calls:
        return "comm"
    return "autograd" if activity.backward_nodes else "other"
