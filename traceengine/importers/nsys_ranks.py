"""Which ranks an export holds, and their devices and threads."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from traceengine.importers import nsys_format as raw
from traceengine.importers.nsys_names import NO_PROCESS, Strings, pid_of
from traceengine.importers.nsys_source import NsysSource

_LOW_24 = 0xFFFFFF
_FOLDER = re.compile(r"^.*[/\\]")
_NVIDIA = "nvidia"


@dataclass(frozen=True)
class RankClaim:
    """One rank of the export: its process, its device (None without device work), other processes that belong to it.

    `rank` is what the report says, or None; `origin` how that is known.
    """

    process: int
    device: int | None
    rank: int | None
    origin: str
    others: tuple[int, ...] = ()

    @property
    def processes(self) -> tuple[int, ...]:
        """All processes of the rank, its own first."""
        return (self.process, *self.others)


@dataclass(frozen=True)
class Population:
    """Which processes did what, in numbers of events."""

    device_work: Counter[tuple[int, int]]
    ranges: Counter[int]
    steps: Counter[int]
    host: Counter[int]


def find_ranks(seen: Population, told: dict[int, int]) -> tuple[RankClaim, ...]:
    """Ranks in order of process and device.

    Each process and device with device work is one; without device work each process with a step range, else with any
    range, else with any host event. `told` holds ranks that the report names, by process. When there is only one rank,
    the other processes are its helpers (loader workers) and belong to it.
    """
    lone = lone_process(seen)
    pairs: list[tuple[int, int | None]] = sorted(
        {(lone if process == NO_PROCESS else process, device) for process, device in seen.device_work}
    )
    if not pairs:
        processes = sorted(seen.steps) or sorted(seen.ranges) or sorted(seen.host, key=lambda process: -seen.host[process])[:1]
        pairs = [(process, None) for process in processes]
    shared = Counter(process for process, _ in pairs)
    claims = []
    for process, device in pairs:
        rank = told.get(process) if shared[process] == 1 else None
        others = tuple(sorted(other for other in seen.host if other not in shared)) if len(pairs) == 1 else ()
        claims.append(RankClaim(process, device, rank, "process" if rank is None else "metadata", others))
    named = [claim.rank for claim in claims if claim.rank is not None]
    if len(named) != len(set(named)) or (named and len(named) < len(claims)):
        claims = [RankClaim(claim.process, claim.device, None, "process", claim.others) for claim in claims]
    return tuple(claims)


def lone_process(seen: Population) -> int:
    """Process of device rows that name none: the only one with host events, or NO_PROCESS."""
    known = [process for process in seen.host if process != NO_PROCESS]
    return known[0] if len(known) == 1 else NO_PROCESS


def mpi_ranks(source: NsysSource) -> dict[int, int]:
    """Ranks that MPI tracing recorded, by process."""
    found: dict[int, int] = {}
    for batch in source.batches(raw.MPI_RANKS):
        for row in batch.to_pylist():
            if row["globalTid"] is not None and row["rank"] is not None:
                found[row["globalTid"] >> 24] = row["rank"]
    return found


@dataclass(frozen=True)
class Devices:
    """The export's descriptions of devices: by process-local number, and by number of the machine."""

    gpus: tuple[dict[str, Any], ...]
    local: dict[tuple[int, int], dict[str, Any]]

    def row(self, claim: RankClaim, alone: bool) -> dict[str, Any]:
        """Row of table `device` for the claim's device. `alone`: no other process uses the same number.

        The number in events is the process's own: with one visible device per process every one says 0. So it is followed
        to the machine's device where the export says how, or where there is only one way.
        """
        device = claim.device or 0
        row: dict[str, Any] = {"device": device, "name": None, "vendor": _NVIDIA, "uuid": None, "sm_count": None, "memory_bytes": None}
        described = self.local.get((pid_of(claim.process), device))
        gpu: dict[str, Any] | None = None
        if described is not None:
            row["uuid"] = described["uuid"]
            row["sm_count"] = described["numMultiprocessors"]
            gpu = next((entry for entry in self.gpus if entry["id"] == described["gpuId"]), None)
        elif len(self.gpus) == 1:
            gpu = self.gpus[0]
        elif alone:
            gpu = next((entry for entry in self.gpus if entry["cuDevice"] == device), None) or next(
                (entry for entry in self.gpus if entry["id"] == device), None
            )
        elif self.gpus and len({(entry["name"], entry["smCount"], entry["totalMemory"]) for entry in self.gpus}) == 1:
            gpu = {**self.gpus[0], "uuid": None}
        if gpu is not None:
            row["name"] = gpu["name"]
            row["uuid"] = row["uuid"] or gpu["uuid"]
            row["sm_count"] = row["sm_count"] or gpu["smCount"]
            row["memory_bytes"] = gpu["totalMemory"]
        return row


def read_devices(source: NsysSource) -> Devices:
    """Read the TARGET_INFO tables about devices."""
    gpus = [row for batch in source.batches(raw.GPU_INFO) for row in batch.to_pylist()]
    local = {(row["pid"], row["cudaId"]): row for batch in source.batches(raw.CUDA_DEVICE_INFO) for row in batch.to_pylist()}
    return Devices(tuple(gpus), local)


@dataclass(frozen=True)
class ThreadLabels:
    """Names of processes and threads."""

    processes: dict[int, str]
    threads: dict[tuple[int, int], str]

    def relation(self) -> pa.Table:
        """Rows (process, tid, name)."""
        rows = [{"process": process, "tid": tid, "name": name} for (process, tid), name in sorted(self.threads.items())]
        return pa.Table.from_pylist(rows, schema=pa.schema([("process", pa.int64()), ("tid", pa.int64()), ("name", pa.string())]))


def read_labels(source: NsysSource, strings: Strings, named_by_nvtx: dict[tuple[int, int], str]) -> ThreadLabels:
    """Names without folders. Of several names of a thread one that is not its process's counts; a name given by NVTX comes first."""
    processes: dict[int, str] = {}
    for batch in source.batches(raw.PROCESSES):
        for row in batch.to_pylist():
            if row["globalPid"] is not None and row["name"]:
                processes.setdefault(row["globalPid"] >> 24, _FOLDER.sub("", row["name"]))
    best: dict[tuple[int, int], tuple[bool, str]] = {}
    for batch in source.batches(raw.THREAD_NAMES):
        for row in batch.to_pylist():
            name = strings.get(row["nameId"])
            if row["globalTid"] is None or not name:
                continue
            key = (row["globalTid"] >> 24, row["globalTid"] & _LOW_24)
            short = _FOLDER.sub("", name)
            best[key] = max(best.get(key, (False, "")), (short != processes.get(key[0]), short))
    threads = {key: name for key, (_, name) in best.items()}
    return ThreadLabels(processes, {**threads, **named_by_nvtx})
