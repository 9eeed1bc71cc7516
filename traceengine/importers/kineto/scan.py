"""Second look at a staged trace: which events there are, where each kind goes, and which threads they name."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceengine.importers.issues import WARNING, Issue
from traceengine.importers.kineto.metadata import integer
from traceengine.importers.kineto.routes import DEVICE, HOST, LABEL, UNKNOWN, WAIT, Route, route
from traceengine.importers.sql import statement

KIND_ORDER = {"annotation": 0, "python": 1, "op": 2, "runtime": 3, "driver": 4, "overhead": 5, "marker": 6}
_EPOCH_NS = 1_000_000_000_000_000_000
"""ts of this size (2001 and later, in ns) without a base can only be Unix time; clocks since boot are far smaller."""

CODES = {HOST: 1, DEVICE: 2, WAIT: 3, LABEL: 4}
"""Numbers of the tables whose events have an identity; 0 stands for the others."""

_ROUTE_SCHEMA = pa.schema(
    [
        ("ph", pa.string()),
        ("cat", pa.string()),
        ("pid", pa.string()),
        ("is_memory", pa.bool_()),
        ("target", pa.string()),
        ("code", pa.int32()),
        ("kind", pa.string()),
        ("kind_order", pa.int32()),
    ]
)


@dataclass(frozen=True)
class LaneMap:
    """Numbers of device streams: `codes[lane]` is the code of the lane's table; lanes sort by code, device, stream."""

    rows: tuple[tuple[int, int, int], ...]

    @property
    def codes(self) -> npt.NDArray[np.int32]:
        """Code of each lane."""
        return np.array([code for code, _, _ in self.rows], dtype=np.int32)

    @property
    def table(self) -> pa.Table:
        """The relation `lane_map`."""
        columns = list(zip(*self.rows, strict=True)) or [(), (), ()]
        arrays = [pa.array(column, pa.int64()) for column in columns]
        return pa.table([*arrays, pa.array(range(len(self.rows)), pa.int64())], names=["code", "device", "stream", "lane"])


@dataclass(frozen=True)
class Group:
    """Events of one phase, category and process; times are the file's own, in ns."""

    phase: str | None
    category: str | None
    process: str | None
    events: int
    odd_numbers: int
    timed: int
    first_ns: int | None
    last_ns: int | None
    example: str | None
    route: Route
    is_memory: bool


@dataclass(frozen=True)
class Scan:
    """What is in the file. `first_ns` is the start of its first activity on the file's own clock, None without any."""

    groups: tuple[Group, ...]
    first_ns: int | None
    last_ns: int | None

    @property
    def event_counts(self) -> dict[str, int]:
        """Events per `phase|category`."""
        counts: dict[str, int] = {}
        for group in self.groups:
            key = f"{group.phase}|{group.category}"
            counts[key] = counts.get(key, 0) + group.events
        return dict(sorted(counts.items()))

    @property
    def is_epoch(self) -> bool:
        """Whether the file's own times are Unix times."""
        return self.first_ns is not None and self.first_ns > _EPOCH_NS

    def count(self, table: str) -> int:
        """Events that go to `table`."""
        return sum(group.events for group in self.groups if group.route.table == table)


def scan(connection: duckdb.DuckDBPyConnection, parts: list[str]) -> Scan:
    """Count the events of staged `parts`."""
    rows = connection.execute(statement("event_groups"), {"parts": parts}).fetchall()
    groups = tuple(
        Group(
            phase, category, process, events, odd, timed, first, last, example, route(phase, category, process, bool(memory)), bool(memory)
        )
        for phase, category, process, memory, events, odd, timed, first, last, example in rows
    )
    active = [
        group for group in groups if group.route.table in (HOST, DEVICE, WAIT, LABEL) and group.route.kind not in ("marker", "overhead")
    ]
    firsts = [group.first_ns for group in active if group.first_ns is not None]
    lasts = [group.last_ns for group in active if group.last_ns is not None]
    return Scan(groups, min(firsts, default=None), max(lasts, default=None))


def route_table(scanned: Scan) -> pa.Table:
    """The relation `route`: where each phase, category and process goes."""
    keys: dict[tuple[str | None, str | None, str | None, bool], Route] = {}
    for group in scanned.groups:
        keys[(group.phase, group.category, group.process, group.is_memory)] = group.route
    rows = [
        {
            "ph": phase,
            "cat": category,
            "pid": process,
            "is_memory": is_memory,
            "target": way.table,
            "code": CODES.get(way.table, 0),
            "kind": way.kind,
            "kind_order": KIND_ORDER.get(way.kind, 9),
        }
        for (phase, category, process, is_memory), way in keys.items()
    ]
    return pa.Table.from_pylist(rows, schema=_ROUTE_SCHEMA)


@dataclass(frozen=True)
class ThreadMap:
    """Numbers for the texts of process and thread: texts that are no numbers get negative ones."""

    numbers: dict[tuple[str | None, str | None], tuple[int, int]]

    @property
    def table(self) -> pa.Table:
        """The relation `thread_map`; `thread_number` counts the pairs in order."""
        pairs = list(self.numbers)
        order = {pair: position for position, pair in enumerate(sorted(set(self.numbers.values())))}
        return pa.table(
            {
                "pid": pa.array([pid for pid, _ in pairs], pa.string()),
                "tid": pa.array([tid for _, tid in pairs], pa.string()),
                "pid_number": pa.array([self.numbers[pair][0] for pair in pairs], pa.int64()),
                "tid_number": pa.array([self.numbers[pair][1] for pair in pairs], pa.int64()),
                "thread_number": pa.array([order[self.numbers[pair]] for pair in pairs], pa.int64()),
            }
        )


def read_threads(connection: duckdb.DuckDBPyConnection, parts: list[str]) -> ThreadMap:
    """Every process and thread that the events name."""
    pairs = [(pid, tid) for pid, tid, _ in connection.execute(statement("event_threads"), {"parts": parts}).fetchall()]
    processes = _numbers([pid for pid, _ in pairs])
    threads = _numbers([tid for _, tid in pairs])
    return ThreadMap({(pid, tid): (processes[pid], threads[tid]) for pid, tid in pairs})


def read_lanes(connection: duckdb.DuckDBPyConnection, parts: list[str]) -> LaneMap:
    """Every device stream; the relation `route` must be there."""
    return LaneMap(tuple(connection.execute(statement("event_lanes"), {"parts": parts}).fetchall()))


def _numbers(texts: list[str | None]) -> dict[str | None, int]:
    distinct = set(texts)
    words = sorted(text or "" for text in distinct if integer(text) is None)
    negative = {word: -(position + 1) for position, word in enumerate(dict.fromkeys(words))}
    found: dict[str | None, int] = {}
    for text in distinct:
        number = integer(text)
        found[text] = number if number is not None else negative[text or ""]
    return found


def group_issues(scanned: Scan) -> list[Issue]:
    """Events that no table takes, and numbers that are none."""
    issues = []
    if odd := sum(group.odd_numbers for group in scanned.groups):
        issues.append(Issue("not_finite", WARNING, odd, "NaN and Infinity in arguments count as unknown."))
    for group in scanned.groups:
        if group.route.table != UNKNOWN:
            continue
        what = "phase" if group.route.kind == "phase" else "category"
        value = group.phase if what == "phase" else group.category
        issues.append(
            Issue(
                f"unknown_{what}",
                WARNING,
                group.events,
                f"Left out: events of {what} {value!r} have no table here.",
                f"{value}: {group.example}",
            )
        )
    return issues
