"""Samples and allocations: GPU metrics, network counters, device memory, as rows of the run's own tables without a rank."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from traceengine.importers import nsys_format as raw
from traceengine.importers.nsys_device import memory_kinds
from traceengine.importers.nsys_host import Export
from traceengine.importers.nsys_names import json_args, lookup, null_if, process_of

COUNTER_STAGE = pa.schema(
    [("pid", pa.int64()), ("ts_ns", pa.int64()), ("name", pa.string()), ("series", pa.string()), ("value", pa.float64())]
)
MEMORY_STAGE = pa.schema(
    [
        ("process", pa.int64()),
        ("device", pa.int64()),
        ("ts_ns", pa.int64()),
        ("memory", pa.string()),
        ("address", pa.int64()),
        ("bytes", pa.int64()),
        ("args", pa.string()),
    ]
)
_GPU_OF_TYPE = 0xFF
"""The low byte of a metric's typeId is the number of its GPU."""


def counter_rows(export: Export) -> Iterator[pa.RecordBatch]:
    """GPU metrics (series = GPU number) and network counters (series = port)."""
    names = {
        (row["typeId"], row["metricId"]): row["metricName"]
        for batch in export.source.batches(raw.GPU_METRIC_NAMES)
        for row in batch.to_pylist()
    }
    by_metric = {metric: name for (_, metric), name in names.items()}
    for batch in export.source.batches(raw.GPU_METRICS):
        pairs = zip(batch.column("typeId").to_pylist(), batch.column("metricId").to_pylist(), strict=True)
        texts = [names.get(pair) or by_metric.get(pair[1]) or f"metric {pair[1]}" for pair in pairs]
        gpu = pc.bit_wise_and(batch.column("typeId"), _GPU_OF_TYPE)
        yield _counters(export, gpu, batch.column("timestamp"), texts, pc.cast(gpu, pa.string()), batch.column("value"))
    network = {
        (row["metricsListId"], row["metricsIdx"]): row["name"]
        for batch in export.source.batches(raw.NIC_METRIC_NAMES)
        for row in batch.to_pylist()
    }
    for batch in export.source.batches(raw.NIC_METRIC):
        pairs = zip(batch.column("metricsListId").to_pylist(), batch.column("metricsIdx").to_pylist(), strict=True)
        texts = [network.get(pair) or f"network metric {pair[0]}.{pair[1]}" for pair in pairs]
        port = pc.cast(batch.column("portId"), pa.string())
        yield _counters(export, pa.nulls(batch.num_rows, pa.int64()), batch.column("start"), texts, port, batch.column("value"))


def _counters(export: Export, pid: pa.Array, time: pa.Array, names: list[str], series: pa.Array, value: pa.Array) -> pa.RecordBatch:
    columns = [pid, pc.subtract(time, export.shift_ns), pa.array(names, pa.string()), series, value]
    return pa.RecordBatch.from_arrays(columns, schema=COUNTER_STAGE)


def memory_rows(export: Export) -> Iterator[pa.RecordBatch]:
    """Allocations and releases of device and pinned memory; releases have negative sizes."""
    operations = export.enums.names("ENUM_CUDA_DEV_MEM_EVENT_OPER")
    releases = pa.array([value for value, name in operations.items() if "DEALLOC" in name.upper()], pa.int64())
    memories = memory_kinds(export)
    for batch in export.source.batches(raw.MEMORY_USAGE):
        size = batch.column("bytes")
        signed = pc.if_else(pc.is_in(batch.column("memoryOperationType"), releases), pc.negate(size), size)
        address = batch.column("address")
        args = [
            ("name", batch.column("name")),
            ("contextId", batch.column("contextId")),
            ("correlationId", null_if(batch.column("correlationId"), 0)),
            ("localMemoryPoolSize", null_if(batch.column("localMemoryPoolSize"), 0)),
        ]
        columns = [
            process_of(batch.column("globalPid")),
            batch.column("deviceId"),
            pc.subtract(batch.column("start"), export.shift_ns),
            lookup(batch.column("memKind"), memories),
            pc.if_else(pc.less(address, 0), pa.scalar(None, pa.int64()), address),
            signed,
            json_args(args) or pa.nulls(batch.num_rows, pa.string()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=MEMORY_STAGE)
