"""A slow and obvious reader of kineto traces, with the standard library alone: what the importer is compared with."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

Event = dict[str, Any]

HOST_CATEGORIES = {
    "cpu_op", "operator", "user_annotation", "python_function", "cuda_runtime", "runtime", "cuda_driver", "overhead", "trace",
}  # fmt: skip
DEVICE_CATEGORIES = {"kernel", "gpu_memcpy", "memcpy", "gpu_memset", "memset"}
UNNESTED_CATEGORIES = {"overhead", "trace"}
CALL_CATEGORIES = {"cuda_runtime", "runtime", "cuda_driver"}


def load(path: Path) -> list[Event]:
    """All events of a well-formed trace; times as exact decimals."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    document = json.loads(content, parse_float=Decimal)
    return document if isinstance(document, list) else document["traceEvents"]


def counts(events: list[Event]) -> dict[str, int]:
    """Events per `phase|category`."""
    return dict(sorted(Counter(f"{event.get('ph')}|{event.get('cat')}" for event in events).items()))


def nanoseconds(value: object) -> int:
    """A time of the file in ns."""
    return int((Decimal(str(value)) * 1000).to_integral_value())


def category(event: Event) -> str:
    """Category in lower case."""
    return (event.get("cat") or "").lower()


def is_host(event: Event) -> bool:
    """Whether the event is a row of host_event."""
    if event.get("ph") == "X":
        return category(event) in HOST_CATEGORIES
    return event.get("ph") == "i" and event.get("name") != "[memory]"


def is_device(event: Event) -> bool:
    """Whether the event is a row of device_event."""
    return event.get("ph") == "X" and category(event) in DEVICE_CATEGORIES


def table_counts(events: list[Event]) -> dict[str, int]:
    """Rows per table that a well-formed trace must give."""
    found = Counter[str]()
    for event in events:
        if is_host(event):
            found["host_event"] += 1
        elif is_device(event):
            found["device_event"] += 1
        elif category(event) == "cuda_sync":
            found["stream_wait"] += 1
        elif category(event) == "gpu_user_annotation":
            found["device_annotation"] += 1
        elif event.get("ph") in ("s", "t", "f"):
            found["flow"] += 1
        elif event.get("name") == "[memory]":
            found["memory_event"] += 1
        elif event.get("ph") == "C":
            found["counter"] += len(event["args"])
    return {name: count for name, count in found.items() if count}


@dataclass(frozen=True)
class Span:
    """A nested host event: where it lies, and its enclosing event by position in the list (None at the top)."""

    name: str
    thread: tuple[str, str]
    start: int
    end: int
    parent: str | None
    depth: int


def nested(events: list[Event]) -> list[Span]:
    """Innermost enclosing event of each host event, by trying all others. For traces whose events nest and whose names are unique."""
    spans = [
        (
            event["name"],
            (str(event["pid"]), str(event["tid"])),
            nanoseconds(event["ts"]),
            nanoseconds(event["ts"]) + nanoseconds(event["dur"]),
        )
        for event in events
        if event.get("ph") == "X" and is_host(event) and category(event) not in UNNESTED_CATEGORIES
    ]
    found = []
    for name, thread, start, end in spans:
        around = [
            (other_end - other_start, other_name)
            for other_name, other_thread, other_start, other_end in spans
            if other_name != name and other_thread == thread and other_start <= start and other_end >= end
        ]
        found.append(Span(name, thread, start, end, min(around)[1] if around else None, len(around)))
    return found


def launches(events: list[Event]) -> dict[str, str | None]:
    """Launching call of each device event, by name. For traces whose correlation ids belong to one call."""
    calls = {event["args"]["correlation"]: event["name"] for event in events if category(event) in CALL_CATEGORIES}
    return {event["name"]: calls.get(event["args"]["correlation"]) for event in events if is_device(event)}
