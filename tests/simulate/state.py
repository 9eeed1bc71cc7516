"""The state of a run: pieces of time with their dependencies, device operations, streams, threads, what was recorded."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from .instructions import DeviceWork, Instruction
from .spec import Cause


class Piece:
    """An uninterrupted piece of work of one thread or stream, and what had to happen before it could start.

    The time between `before_ns` and `start_ns` is a gap of cause `gap_cause`. For the transfer of a collective,
    `last` is the transfer on the rank that arrived last.
    """

    __slots__ = ("before", "before_ns", "cause", "detail", "end_ns", "gap_cause", "gap_detail", "last", "rank", "resource", "start_ns")

    def __init__(self, rank: int, resource: str, start_ns: int, end_ns: int, cause: Cause, detail: str) -> None:
        self.rank, self.resource = rank, resource
        self.start_ns, self.end_ns = start_ns, end_ns
        self.cause, self.detail = cause, detail
        self.before: Piece | None = None
        self.before_ns = start_ns
        self.gap_cause, self.gap_detail = cause, "device_gap"
        self.last: Piece | None = None


class Future:
    """Something that happens once, at a time that may still be unknown, with the piece that made it happen."""

    __slots__ = ("piece", "time_ns", "waiters")

    def __init__(self) -> None:
        self.time_ns: int | None = None
        self.piece: Piece | None = None
        self.waiters: list[HostThread] = []


class DeviceOp:
    """An enqueued device operation. `started` and `ended` are known as soon as all that they depend on is."""

    __slots__ = (
        "after",
        "correlation",
        "dependents",
        "ended",
        "external_id",
        "graph_node",
        "launch",
        "missing",
        "piece",
        "started",
        "stream",
        "submit_ns",
        "work",
    )

    def __init__(self, work: DeviceWork, stream: Stream, launch: Piece, submit_ns: int) -> None:
        self.work, self.stream, self.launch, self.submit_ns = work, stream, launch, submit_ns
        self.started, self.ended = Future(), Future()
        self.after: list[DeviceOp] = []
        self.dependents: list[DeviceOp] = []
        self.missing = 0
        self.piece: Piece | None = None
        self.correlation = 0
        self.external_id = 0
        self.graph_node = 0


@dataclass
class Stream:
    """A device stream of one rank: its operations, first operations of its launches, and the waits for the next one."""

    rank: int
    number: int
    ops: list[DeviceOp]
    launches: list[DeviceOp]
    waits: list[DeviceOp]


@dataclass
class HostRecord:
    """What the recorder saw on a host thread. `device` holds the operations that the call launched or waited for."""

    thread: str
    name: str
    category: str
    start_ns: int
    end_ns: int = -1
    args: tuple[tuple[str, object], ...] = ()
    correlation: int = 0
    external_id: int = 0
    room_ns: int = -1
    """When a launch found room in the queue (its start, unless the queue was full)."""
    stream: int | None = None
    waits_for: DeviceOp | None = None
    event_key: str | None = None


class RankState:
    """Everything of one rank: threads, streams, events, signals, records."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.streams: dict[int, Stream] = {}
        self.events: dict[str, tuple[DeviceOp | None, HostRecord]] = {}
        self.signals: dict[str, Future] = {}
        self.records: list[HostRecord] = []
        self.ops: list[DeviceOp] = []
        self.threads: dict[str, HostThread] = {}
        self.next_id = 0
        self.end_ns = 0
        self.end_piece: Piece | None = None

    def stream(self, number: int) -> Stream:
        if number not in self.streams:
            self.streams[number] = Stream(self.rank, number, [], [], [])
        return self.streams[number]

    def signal(self, key: str) -> Future:
        return self.signals.setdefault(key, Future())

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id


class HostThread:
    """One host thread: a cursor over its program, its clock, its last piece, its open events."""

    def __init__(self, name: str, program: list[Instruction], start_ns: int) -> None:
        self.name, self.program, self.now_ns = name, program, start_ns
        self.last: Piece | None = None
        self.open: list[HostRecord] = []
        self.done = False
        self.steps: Generator[Future | None, None, None] | None = None
