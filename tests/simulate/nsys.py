"""Writes an execution as Nsight Systems would have exported it (SQLite, schema 3.25), one rank a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from .kineto import BASE_UNIX_NS, clock_error_ns, op_span_ns
from .spec import JobSpec
from .state import DeviceOp, HostRecord, RankState

Value = int | str | None
FIRST_TS_NS = 5_000_000_000
"""Session time of the start of the window."""
_RUNTIME_VERSION = {
    "cudaLaunchKernel": "v7000",
    "cudaLaunchKernelExC": "v11060",
    "cudaGraphLaunch": "v10000",
    "cudaMalloc": "v3020",
    "cudaFree": "v3020",
}
_SYNC_TYPE = {"cudaEventSynchronize": 1, "cudaStreamWaitEvent": 2, "cudaStreamSynchronize": 3, "cudaDeviceSynchronize": 4}
_PAGEABLE, _PINNED, _DEVICE = 0, 1, 2
_HTOD, _DTOH = 1, 2
_NO_STREAM = 4_294_967_295
_PUSH_POP = 59
_QUEUE_FULL = 8
_ENUMS = {
    "ENUM_CUDA_MEMCPY_OPER": ("CUDA_MEMCPY_KIND", ("UNKNOWN", "HTOD", "DTOH")),
    "ENUM_CUDA_MEM_KIND": ("CUDA_MEMOPR_MEMORY_KIND", ("PAGEABLE", "PINNED", "DEVICE", "ARRAY", "MANAGED")),
    "ENUM_CUPTI_SYNC_TYPE": (
        "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE",
        ("UNKNOWN", "EVENT_SYNCHRONIZE", "STREAM_WAIT_EVENT", "STREAM_SYNCHRONIZE", "CONTEXT_SYNCHRONIZE"),
    ),
}
_TABLES: dict[str, str] = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "CUPTI_ACTIVITY_KIND_KERNEL": """start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
        demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER,
        cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL,
        gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
        staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL,
        localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER,
        sharedMemoryLimitConfig INTEGER, graphId INTEGER""",
    "CUPTI_ACTIVITY_KIND_MEMCPY": """start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
        bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER,
        srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER,
        graphNodeId INTEGER, virtualAddress INTEGER, copyCount INTEGER""",
    "CUPTI_ACTIVITY_KIND_RUNTIME": """start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
        globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER""",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": """start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
        deprecatedSyncType INTEGER, syncType INTEGER NOT NULL, eventId INTEGER NOT NULL, eventSyncId INTEGER""",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": """timestamp INTEGER, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
        greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, eventId INTEGER NOT NULL,
        eventSyncId INTEGER""",
    "CUPTI_ACTIVITY_KIND_OVERHEAD": """start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
        globalTid INTEGER, correlationId INTEGER, nameId INTEGER, overheadType INTEGER NOT NULL""",
    "NVTX_EVENTS": """start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER,
        color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER,
        uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL,
        jsonTextId INTEGER, jsonText TEXT, binaryData TEXT""",
    "ThreadNames": "nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER",
    "PROCESSES": "globalPid INTEGER, pid INTEGER, name TEXT",
    "TARGET_INFO_GPU": """id INTEGER NOT NULL, name TEXT, uuid TEXT, smCount INTEGER, totalMemory INTEGER,
        computeMajor INTEGER, computeMinor INTEGER, cuDevice INTEGER""",
    "TARGET_INFO_CUDA_DEVICE": """gpuId INTEGER NOT NULL, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL, uuid TEXT,
        numMultiprocessors INTEGER""",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT, systemClockNs INTEGER",
    "META_DATA_CAPTURE": "name TEXT NOT NULL, value TEXT",
    "META_DATA_EXPORT": "name TEXT NOT NULL, value TEXT",
    "ENUM_CUDA_MEMCPY_OPER": "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT",
    "ENUM_CUDA_MEM_KIND": "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT",
    "ENUM_CUPTI_SYNC_TYPE": "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT",
    "ENUM_CUPTI_OVERHEAD_TYPE": "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT",
}


def write_nsys_sqlite(spec: JobSpec, state: RankState, path: Path) -> None:
    """Write one rank's export to a new file. Tables without rows are absent, as in a lazy export."""
    writer = _Export(spec, state)
    writer.fill()
    with closing(sqlite3.connect(path)) as connection:
        for table, columns in _TABLES.items():
            rows = writer.rows.get(table)
            if rows:
                connection.execute(f"create table {table} ({columns})")
                connection.executemany(f"insert into {table} values ({', '.join('?' * len(rows[0]))})", rows)
        connection.commit()


class _Export:
    """Collects rows by table, in the column order of `_TABLES`."""

    def __init__(self, spec: JobSpec, state: RankState) -> None:
        self.spec, self.state = spec, state
        self.rows: dict[str, list[tuple[Value, ...]]] = {}
        self.strings: dict[str, int] = {}
        self.pid = 400 + state.rank
        self.global_pid = (1 << 48) | (self.pid << 24)
        self.tids = {name: self.global_pid | (self.pid + index) for index, name in enumerate(state.threads)}
        self.event_ids = {key: index + 1 for index, key in enumerate(state.events)}

    def fill(self) -> None:
        for record in self.state.records:
            if record.category == "cuda_runtime":
                self._runtime(record)
            elif record.category != "python_function":
                self._range(record)
        for op in self.state.ops:
            self._device_op(op)
        self._about()
        self._add_all("StringIds", [(number, text) for text, number in self.strings.items()])

    def _add_all(self, table: str, rows: Iterable[tuple[Value, ...]]) -> None:
        self.rows.setdefault(table, []).extend(rows)

    def _add(self, table: str, *row: Value) -> None:
        self.rows.setdefault(table, []).append(row)

    def _string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings) + 1)

    def _ns(self, true_ns: int) -> int:
        return FIRST_TS_NS + true_ns + clock_error_ns(self.spec, self.state.rank, true_ns)

    def _range(self, record: HostRecord) -> None:
        text = _range_text(record)
        span = (self._ns(record.start_ns), self._ns(record.end_ns))
        unused = (None,) * 9
        self._add("NVTX_EVENTS", *span, _PUSH_POP, None, None, None, text, self.tids[record.thread], None, None, 0, *unused)

    def _runtime(self, record: HostRecord) -> None:
        start_ns, end_ns, tid = self._ns(record.start_ns), self._ns(record.end_ns), self.tids[record.thread]
        name = self._string(f"{record.name}_{_RUNTIME_VERSION.get(record.name, 'v3020')}")
        self._add("CUPTI_ACTIVITY_KIND_RUNTIME", start_ns, end_ns, 0, tid, record.correlation, name, 0, None)
        if record.room_ns > record.start_ns and self.spec.trace.queue_full_records:
            full = self._string("Command Buffer Full")
            room_ns = self._ns(record.room_ns)
            self._add("CUPTI_ACTIVITY_KIND_OVERHEAD", start_ns, room_ns, 103, tid, record.correlation, full, _QUEUE_FULL)
        if not self.spec.trace.sync_records:
            return
        event = self.event_ids.get(record.event_key or "")
        common = (self.state.rank, 1, None, record.stream if record.stream is not None else _NO_STREAM, record.correlation, self.global_pid)
        if record.name == "cudaEventRecord":
            self._add("CUPTI_ACTIVITY_KIND_CUDA_EVENT", 0, *common, event, event)
        elif record.name in _SYNC_TYPE:
            sync = (None, _SYNC_TYPE[record.name], event or 0, event)
            self._add("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", start_ns, end_ns, *common, *sync)

    def _device_op(self, op: DeviceOp) -> None:
        start_ns, end_ns = (self._ns(time_ns) for time_ns in op_span_ns(op))
        common = (start_ns, end_ns, self.state.rank, 1, 0, op.stream.number, op.correlation, self.global_pid)
        node = op.graph_node or None
        if op.work.kind == "kernel":
            names = (self._string(op.work.name), self._string(op.work.name.split("<")[0].split("(")[0].removeprefix("void ")), None)
            shape = (1, 1, 64, 512, 1, 1, 256, 1, 1, 16384, 0, 0, 0, op.correlation, 32768, node, 0, 1 if node else None)
            self._add("CUPTI_ACTIVITY_KIND_KERNEL", *common, *names, *shape)
            return
        to_device = "HtoD" in op.work.name
        host = _PINNED if "Pinned" in op.work.name else _PAGEABLE
        kinds = (_HTOD, None, host, _DEVICE) if to_device else (_DTOH, None, _DEVICE, host)
        self._add("CUPTI_ACTIVITY_KIND_MEMCPY", *common, op.work.bytes, *kinds, *(None,) * 7, 1)

    def _about(self) -> None:
        for thread, tid in self.tids.items():
            name = {"autograd": "pt_autograd_0", "pin_memory": "pt_data_pin"}.get(thread, "python3")
            if not thread.startswith("loader"):
                self._add("ThreadNames", self._string(name), 20, tid)
        self._add("PROCESSES", self.global_pid, self.pid, "python3")
        rank = self.state.rank
        self._add("TARGET_INFO_GPU", rank, "NVIDIA H100 80GB HBM3", f"gpu-{rank}", 132, 85_028_372_480, 9, 0, rank)
        self._add("TARGET_INFO_CUDA_DEVICE", rank, rank, self.pid, f"gpu-{rank}", 132)
        self._add("TARGET_INFO_SESSION_START_TIME", BASE_UNIX_NS - FIRST_TS_NS, None, None, FIRST_TS_NS)
        graph = [("CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node")]
        self._add_all("META_DATA_CAPTURE", [("PROCESS_0:COLLECT_CUDA_TRACE", "true"), ("PROCESS_0:COLLECT_NVTX_TRACE", "true"), *graph])
        versions = [("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"), ("EXPORT_PRODUCT_VERSION", "2026.2.1.210")]
        self._add_all("META_DATA_EXPORT", [*versions, ("EXPORT_SCHEMA_VERSION", "3.25.0"), ("EXPORT_PARAM_LAZY", "true")])
        for table, (prefix, names) in _ENUMS.items():
            self._add_all(table, [(number, f"{prefix}_{name}", name) for number, name in enumerate(names)])
        self._add("ENUM_CUPTI_OVERHEAD_TYPE", _QUEUE_FULL, "OVERHEAD_COMMAND_BUFFER_FULL", "Command buffer full")


def _range_text(record: HostRecord) -> str:
    """The range's text: `emit_nvtx` numbers operators; steps and data waits are ranges that the user's loop pushes."""
    if record.category == "cpu_op":
        return f"{record.name}, op_id = {record.external_id}"
    if record.name.startswith("enumerate(DataLoader)#"):
        return "data_wait"
    return record.name.replace("ProfilerStep#", "step ")
