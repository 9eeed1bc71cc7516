"""What a host thread of the simulated job can do, in program order."""

from __future__ import annotations

from typing import NamedTuple

from .spec import Cause

COMPUTE_STREAM = 7
COPY_STREAM = 20
COMM_STREAM = 23


class Work(NamedTuple):
    """Occupy the thread for `ns`. `detail` says what kind of work it is (op, python_gap, decode, ...)."""

    ns: int
    cause: Cause
    detail: str


class Open(NamedTuple):
    """Begin a recorded event: a label, never work by itself. `category` is the recorder's (cpu_op, user_annotation, ...)."""

    name: str
    category: str
    args: tuple[tuple[str, object], ...] = ()


class Close(NamedTuple):
    """End the innermost open event."""


class DeviceWork(NamedTuple):
    """One operation for a device stream: kind is kernel, memcpy, memset. A collective has a key shared by all ranks."""

    kind: str
    name: str
    ns: int
    gap_ns: int
    cause: Cause
    bytes: int = 0
    collective: str | None = None
    args: tuple[tuple[str, object], ...] = ()


class Launch(NamedTuple):
    """A call that enqueues device work on a stream. Blocks first while the stream's queue is full.

    The device may start `latency_ns` after the call found room. With `blocking` the call returns only
    `return_ns` after the work has ended. Several operations under one launch are a CUDA graph.
    """

    call: str
    call_ns: int
    latency_ns: int
    stream: int
    work: tuple[DeviceWork, ...]
    cause: Cause
    detail: str = "launch_call"
    blocking: bool = False
    return_ns: int = 0
    graph_id: int = 0


class Call(NamedTuple):
    """A runtime call without device work, such as `cudaMalloc`."""

    call: str
    ns: int
    cause: Cause


class RecordEvent(NamedTuple):
    """`cudaEventRecord`: the event is done when everything enqueued so far on `stream` is."""

    key: str
    stream: int
    ns: int
    cause: Cause


class StreamWait(NamedTuple):
    """`cudaStreamWaitEvent`: later work on `stream` waits for the event."""

    key: str
    stream: int
    ns: int
    cause: Cause


class Await(NamedTuple):
    """A call that blocks until device work is done: of `stream`, of event `key`, or (both None) of the whole device."""

    call: str
    return_ns: int
    cause: Cause
    detail: str = "sync_return"
    stream: int | None = None
    key: str | None = None


class Signal(NamedTuple):
    """Tell other threads of the rank that `key` has happened."""

    key: str


class Wait(NamedTuple):
    """Block until `key` has happened. With a cause, the wait itself is that cause's time; else whoever signals is."""

    key: str
    cause: Cause | None = None
    detail: str = "wait"


Instruction = Work | Open | Close | Launch | Call | RecordEvent | StreamWait | Await | Signal | Wait
