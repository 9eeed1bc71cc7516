"""The tables and columns of an Nsight Systems export that are read; every other table is counted, never opened.

Declared once for all readers, so that every format yields the same batches: integers of 64 bits (unsigned ids keep their
bits), doubles, texts. A column that an export lacks reads as NULL; the needed ones among them are reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

KNOWN_SCHEMA_MAJOR = 3
"""Major version of the export schema whose meaning is known: all of 2022.4 to 2026.5 write 3.x."""


class RawType(StrEnum):
    """The column types that matter; a payload is a text where it is one, and NULL where it is a blob."""

    INT = "int"
    REAL = "real"
    TEXT = "text"
    PAYLOAD = "payload"


_ARROW = {RawType.INT: pa.int64(), RawType.REAL: pa.float64(), RawType.TEXT: pa.string(), RawType.PAYLOAD: pa.string()}


@dataclass(frozen=True)
class RawColumn:
    """A wanted column; `needed` when rows mean little without it, `rare` when most exports leave it NULL in every row."""

    name: str
    type: RawType = RawType.INT
    needed: bool = False
    rare: bool = False


@dataclass(frozen=True)
class RawTable:
    """A table of the export and its wanted columns."""

    name: str
    columns: tuple[RawColumn, ...]

    @property
    def arrow(self) -> pa.Schema:
        """Schema of the batches that readers yield."""
        return pa.schema([(column.name, _ARROW[column.type]) for column in self.columns])


def _raw(name: str, needed: str, ints: str = "", texts: str = "", reals: str = "") -> RawTable:
    columns = [RawColumn(column, RawType.INT, True) for column in needed.split()]
    columns += [RawColumn(column) for column in ints.split()]
    columns += [RawColumn(column, RawType.TEXT) for column in texts.split()]
    columns += [RawColumn(column, RawType.REAL) for column in reals.split()]
    return RawTable(name, tuple(columns))


KERNEL = _raw(
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "start end deviceId streamId correlationId globalPid demangledName",
    "shortName mangledName contextId greenContextId registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory"
    " dynamicSharedMemory graphNodeId graphId",
)
MEMCPY = _raw(
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "start end deviceId streamId correlationId globalPid bytes copyKind",
    "contextId srcKind dstKind srcDeviceId dstDeviceId migrationCause graphNodeId copyCount",
)
MEMSET = _raw(
    "CUPTI_ACTIVITY_KIND_MEMSET", "start end deviceId streamId correlationId globalPid bytes", "contextId value memKind graphNodeId"
)
GRAPH_TRACE = _raw(
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "start end deviceId streamId correlationId globalPid", "contextId graphId graphExecId"
)
RUNTIME = _raw("CUPTI_ACTIVITY_KIND_RUNTIME", "start end globalTid correlationId nameId", "eventClass returnValue")
SYNCHRONIZATION = _raw(
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "start end streamId correlationId globalPid syncType",
    "deviceId contextId eventId eventSyncId deprecatedSyncType",
)
CUDA_EVENT = _raw("CUPTI_ACTIVITY_KIND_CUDA_EVENT", "streamId correlationId globalPid eventId", "deviceId contextId eventSyncId timestamp")
OVERHEAD = _raw("CUPTI_ACTIVITY_KIND_OVERHEAD", "start end globalTid overheadType", "correlationId nameId")
PROFILER_OVERHEAD = _raw("PROFILER_OVERHEAD", "start end globalTid nameId")
JIT = _raw("CUPTI_ACTIVITY_KIND_JIT", "start end", "globalTid globalPid correlationId jitEntryType jitOperationType cacheSize")
GRAPH_EVENTS = _raw(
    "CUDA_GRAPH_EVENTS", "start end globalTid nameId", "graphId originalGraphId graphExecId graphNodeId originalGraphNodeId"
)
GRAPH_NODE_EVENTS = _raw("CUDA_GRAPH_NODE_EVENTS", "start end globalTid nameId", "graphNodeId originalGraphNodeId")
_NVTX = _raw("NVTX_EVENTS", "start end eventType globalTid", "textId domainId", "text")
NVTX = RawTable(
    _NVTX.name,
    (
        *_NVTX.columns,
        *(
            RawColumn(name, RawType.INT, rare=True)
            for name in ("rangeId", "category", "endGlobalTid", "uint64Value", "int64Value", "uint32Value", "int32Value")
        ),
        *(RawColumn(name, RawType.REAL, rare=True) for name in ("doubleValue", "floatValue")),
        RawColumn("jsonText", RawType.PAYLOAD, rare=True),
    ),
)
OSRT = _raw("OSRT_API", "start end globalTid nameId", "eventClass returnValue nestingLevel")
CUDNN = _raw("CUDNN_EVENTS", "start end globalTid nameId")
CUBLAS = _raw("CUBLAS_EVENTS", "start end globalTid nameId")
SCHED = _raw("SCHED_EVENTS", "start cpu isSchedIn globalTid", "threadState threadBlock")
SAMPLES = _raw("COMPOSITE_EVENTS", "id start globalTid", "cpu threadState cpuCycles")
SAMPLE_FRAMES = _raw("SAMPLING_CALLCHAINS", "id symbol stackDepth")
MEMORY_USAGE = _raw(
    "CUDA_GPU_MEMORY_USAGE_EVENTS",
    "start globalPid deviceId bytes memKind memoryOperationType",
    "contextId address correlationId streamId localMemoryPoolSize",
    "name",
)
GPU_METRICS = _raw("GPU_METRICS", "timestamp typeId metricId", reals="value")
GPU_METRIC_NAMES = _raw("TARGET_INFO_GPU_METRICS", "typeId metricId", texts="metricName")
NIC_METRIC = _raw("NET_NIC_METRIC", "start metricsListId metricsIdx", "end globalId portId", reals="value")
NIC_METRIC_NAMES = _raw("TARGET_INFO_NETWORK_METRICS", "metricsListId metricsIdx", texts="name")

STRINGS = _raw("StringIds", "id", texts="value")
PROCESSES = _raw("PROCESSES", "globalPid", "pid", "name")
THREAD_NAMES = _raw("ThreadNames", "nameId globalTid")
MPI_RANKS = _raw("MPI_RANKS", "globalTid rank")
GPU_INFO = _raw("TARGET_INFO_GPU", "id", "cuDevice smCount totalMemory", "name uuid")
CUDA_DEVICE_INFO = _raw("TARGET_INFO_CUDA_DEVICE", "gpuId cudaId pid", "numMultiprocessors", "uuid")
CONTEXT_INFO = _raw("TARGET_INFO_CUDA_CONTEXT_INFO", "processId deviceId contextId")
SESSION_START = _raw("TARGET_INFO_SESSION_START_TIME", "utcEpochNs", "systemClockNs")
SYSTEM_ENV = _raw("TARGET_INFO_SYSTEM_ENV", "", texts="name value")
ANALYSIS = _raw("ANALYSIS_DETAILS", "duration")
DIAGNOSTICS = _raw("DIAGNOSTIC_EVENT", "severity", "timestamp source globalPid", "text")
EXPORT_META = _raw("META_DATA_EXPORT", "", texts="name value")
EXPORT_META_OLD = _raw("EXPORT_META_DATA", "", texts="name value")
CAPTURE_META = _raw("META_DATA_CAPTURE", "", texts="name value")


def enum_table(name: str) -> RawTable:
    """An ENUM_* table."""
    return _raw(name, "id", texts="name label")


ENUMS = (
    "ENUM_CUDA_MEMCPY_OPER",
    "ENUM_CUDA_MEM_KIND",
    "ENUM_CUPTI_SYNC_TYPE",
    "ENUM_CUPTI_OVERHEAD_TYPE",
    "ENUM_NSYS_EVENT_CLASS",
    "ENUM_CUDA_DEV_MEM_EVENT_OPER",
    "ENUM_SAMPLING_THREAD_STATE",
    "ENUM_SAMPLING_THREAD_BLOCK",
)

DEVICE_TABLES = (KERNEL, MEMCPY, MEMSET, GRAPH_TRACE)
READ = (
    *DEVICE_TABLES, RUNTIME, SYNCHRONIZATION, CUDA_EVENT, OVERHEAD, PROFILER_OVERHEAD, JIT, GRAPH_EVENTS, GRAPH_NODE_EVENTS, NVTX,
    OSRT, CUDNN, CUBLAS, SCHED, SAMPLES, SAMPLE_FRAMES, MEMORY_USAGE, GPU_METRICS, GPU_METRIC_NAMES, NIC_METRIC, NIC_METRIC_NAMES,
    STRINGS, PROCESSES, THREAD_NAMES, MPI_RANKS, GPU_INFO, CUDA_DEVICE_INFO, CONTEXT_INFO, SESSION_START, SYSTEM_ENV, ANALYSIS,
    DIAGNOSTICS, EXPORT_META, EXPORT_META_OLD, CAPTURE_META, *(enum_table(name) for name in ENUMS),
)  # fmt: skip
"""Every table that a reader may be asked for."""

PRIVATE_TABLES = frozenset({"ProcessStreams", "ANALYSIS_FILE"})
"""Output of the recorded programs and files of the machine: left out on purpose."""

REFERENCE_PREFIXES = (
    "ENUM_",
    "TARGET_INFO_",
    "META_DATA_",
    "EXPORT_META",
    "sqlite_",
    "NVTX_PAYLOAD_",
    "UnwindMethodType",
    "ANALYSIS_",
    "NVTX_SCOPES",
)
"""Tables that describe others; not counted as left out."""
