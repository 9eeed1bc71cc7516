"""What device streams did: kernels, copies, sets and whole graphs, as rows of the device staging file."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from traceengine.importers import nsys_format as raw
from traceengine.importers.nsys_host import Export, span
from traceengine.importers.nsys_names import json_args, lookup, null_if, process_of

DEVICE_STAGE = pa.schema(
    [
        ("process", pa.int64()),
        ("device", pa.int64()),
        ("context", pa.int64()),
        ("stream", pa.int64()),
        ("ts_ns", pa.int64()),
        ("dur_ns", pa.int64()),
        ("kind", pa.string()),
        ("name", pa.int32()),
        ("correlation_id", pa.int64()),
        ("bytes", pa.int64()),
        ("copy_kind", pa.string()),
        ("src_memory", pa.string()),
        ("dst_memory", pa.string()),
        ("grid_x", pa.int64()),
        ("grid_y", pa.int64()),
        ("grid_z", pa.int64()),
        ("block_x", pa.int64()),
        ("block_y", pa.int64()),
        ("block_z", pa.int64()),
        ("registers", pa.int64()),
        ("shared_memory_bytes", pa.int64()),
        ("graph_id", pa.int64()),
        ("graph_node_id", pa.int64()),
        ("args", pa.string()),
    ]
)

# Arrays are device memory; managed memory keeps its direction.
_COPY_KINDS = {
    "HTOD": "h2d", "DTOH": "d2h", "DTOD": "d2d", "HTOH": "h2h", "PTOP": "p2p", "HTOA": "h2d", "ATOH": "d2h", "ATOA": "d2d",
    "ATOD": "d2d", "DTOA": "d2d", "UVM_HTOD": "h2d", "UVM_DTOH": "d2h", "UVM_DTOD": "d2d",
}  # fmt: skip
_COPY_LABELS = {
    "HTOD": "Host-to-Device", "DTOH": "Device-to-Host", "DTOD": "Device-to-Device", "HTOH": "Host-to-Host", "PTOP": "Peer-to-Peer",
    "HTOA": "Host-to-Array", "ATOH": "Array-to-Host", "ATOA": "Array-to-Array", "ATOD": "Array-to-Device", "DTOA": "Device-to-Array",
    "UVM_HTOD": "Unified Host-to-Device", "UVM_DTOH": "Unified Device-to-Host", "UVM_DTOD": "Unified Device-to-Device",
}  # fmt: skip
_MEMORIES = {
    "PAGEABLE": "pageable", "PINNED": "pinned", "DEVICE": "device", "ARRAY": "array", "MANAGED": "managed", "DEVICE_STATIC": "device",
    "MANAGED_STATIC": "managed",
}  # fmt: skip


def memory_kinds(export: Export) -> dict[int, str | None]:
    """Kind of memory by value; NULL for unknown ones."""
    return {value: _MEMORIES.get(name.rsplit("_KIND_", 1)[-1]) for value, name in export.enums.names("ENUM_CUDA_MEM_KIND").items()}


def device_rows(export: Export) -> Iterator[pa.RecordBatch]:
    """Every device operation of the export."""
    yield from _kernels(export)
    yield from _copies(export)
    yield from _sets(export)
    yield from _graphs(export)


def _stage(export: Export, batch: pa.RecordBatch, kind: str, name: pa.Array, **extra: pa.Array | None) -> pa.RecordBatch:
    ts, dur = span(export, batch)
    names = batch.schema.names
    given = {
        "process": process_of(batch.column("globalPid")),
        "device": batch.column("deviceId"),
        "context": batch.column("contextId"),
        "stream": pc.fill_null(batch.column("streamId"), 0),
        "ts_ns": ts,
        "dur_ns": dur,
        "kind": pa.repeat(pa.scalar(kind), batch.num_rows),
        "name": name,
        "correlation_id": null_if(batch.column("correlationId"), 0),
        "graph_node_id": null_if(batch.column("graphNodeId"), 0) if "graphNodeId" in names else None,
        **extra,
    }
    columns = [pa.nulls(batch.num_rows, field.type) if given.get(field.name) is None else given[field.name] for field in DEVICE_STAGE]
    return pa.RecordBatch.from_arrays(columns, schema=DEVICE_STAGE)


def _kernels(export: Export) -> Iterator[pa.RecordBatch]:
    for batch in export.source.batches(raw.KERNEL):
        names = pc.coalesce(batch.column("demangledName"), batch.column("shortName"), batch.column("mangledName"))
        yield _stage(
            export, batch, "kernel", export.book.of_ids("device", names, export.strings, "[unknown kernel]"),
            grid_x=batch.column("gridX"), grid_y=batch.column("gridY"), grid_z=batch.column("gridZ"),
            block_x=batch.column("blockX"), block_y=batch.column("blockY"), block_z=batch.column("blockZ"),
            registers=batch.column("registersPerThread"),
            shared_memory_bytes=pc.add(batch.column("staticSharedMemory"), batch.column("dynamicSharedMemory")),
            graph_id=null_if(batch.column("graphId"), 0),
        )  # fmt: skip


def _copies(export: Export) -> Iterator[pa.RecordBatch]:
    symbols = {value: name.rsplit("_KIND_", 1)[-1] for value, name in export.enums.names("ENUM_CUDA_MEMCPY_OPER").items()}
    kinds: dict[int, str | None] = {value: _COPY_KINDS.get(symbol) for value, symbol in symbols.items()}
    names: dict[int, str | None] = {value: f"[CUDA memcpy {_COPY_LABELS.get(symbol, 'Unknown')}]" for value, symbol in symbols.items()}
    memories = memory_kinds(export)
    for batch in export.source.batches(raw.MEMCPY):
        texts = pc.fill_null(lookup(batch.column("copyKind"), names), "[CUDA memcpy Unknown]")
        args = [
            ("copyCount", null_if(batch.column("copyCount"), 0, 1)),
            ("migrationCause", null_if(batch.column("migrationCause"), 0)),
            ("srcDeviceId", batch.column("srcDeviceId")),
            ("dstDeviceId", batch.column("dstDeviceId")),
        ]
        yield _stage(
            export, batch, "memcpy", export.book.of_texts("device", texts).codes,
            bytes=batch.column("bytes"), copy_kind=lookup(batch.column("copyKind"), kinds),
            src_memory=lookup(batch.column("srcKind"), memories), dst_memory=lookup(batch.column("dstKind"), memories),
            args=json_args(args),
        )  # fmt: skip


def _sets(export: Export) -> Iterator[pa.RecordBatch]:
    memories = memory_kinds(export)
    name = export.book.code("device", "[CUDA memset]")
    for batch in export.source.batches(raw.MEMSET):
        names = pa.repeat(pa.scalar(name, pa.int32()), batch.num_rows)
        memory = lookup(batch.column("memKind"), memories)
        yield _stage(
            export,
            batch,
            "memset",
            names,
            bytes=batch.column("bytes"),
            dst_memory=memory,
            args=json_args([("value", batch.column("value"))]),
        )


def _graphs(export: Export) -> Iterator[pa.RecordBatch]:
    """Whole graphs traced as one row: their kernels are not in the capture."""
    for batch in export.source.batches(raw.GRAPH_TRACE):
        texts = pc.binary_join_element_wise("[CUDA graph ", pc.fill_null(pc.cast(batch.column("graphId"), pa.string()), "?"), "]", "")
        yield _stage(
            export, batch, "graph", export.book.of_texts("device", texts).codes,
            graph_id=batch.column("graphId"), args=json_args([("graphExecId", batch.column("graphExecId"))]),
        )  # fmt: skip
