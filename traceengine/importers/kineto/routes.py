"""Which table and kind an event belongs to, by phase and category: every spelling that kineto and its relatives write.

| source | spellings |
| --- | --- |
| kineto since 2021-11 | `cpu_op`, `kernel`, `cuda_runtime`, ... |
| kineto before | `Operator`, `Kernel`, `Runtime`, `Memcpy`, ... |
| other devices | `xpu_*`, `mtia_*`, `hpu_*`, `privateuse1_*`, Ascend's `async_npu`, ROCm under the CUDA names |
| legacy autograd exporter | no category; process `CPU functions` or `CUDA functions` |
"""

from __future__ import annotations

from dataclasses import dataclass

HOST = "host_event"
DEVICE = "device_event"
WAIT = "stream_wait"
LABEL = "device_annotation"
MEMORY = "memory_event"
COUNTER = "counter"
FLOW = "flow"
METADATA = "metadata"
RANGE_EDGE = "range_edge"
UNKNOWN = "unknown"

_SPANS: dict[str, tuple[str, str]] = {
    "cpu_op": (HOST, "op"),
    "operator": (HOST, "op"),
    "user_annotation": (HOST, "annotation"),
    "user annotation": (HOST, "annotation"),
    "python_function": (HOST, "python"),
    "python": (HOST, "python"),
    "cuda_runtime": (HOST, "runtime"),
    "runtime": (HOST, "runtime"),
    "xpu_runtime": (HOST, "runtime"),
    "mtia_runtime": (HOST, "runtime"),
    "hpu_runtime": (HOST, "runtime"),
    "glow_runtime": (HOST, "runtime"),
    "privateuse1_runtime": (HOST, "runtime"),
    "hip_runtime": (HOST, "runtime"),
    "cuda_driver": (HOST, "driver"),
    "driver": (HOST, "driver"),
    "xpu_driver": (HOST, "driver"),
    "privateuse1_driver": (HOST, "driver"),
    "overhead": (HOST, "overhead"),
    "trace": (HOST, "marker"),
    "cpu_instant_event": (HOST, "marker"),
    "kernel": (DEVICE, "kernel"),
    "mtia_ccp_events": (DEVICE, "kernel"),
    "mtia_workloadd": (HOST, "op"),
    "mtia_insight": (HOST, "marker"),
    "hpu_op": (DEVICE, "kernel"),
    "xpu_kernel": (DEVICE, "kernel"),
    "privateuse1_kernel": (DEVICE, "kernel"),
    "concurrent_kernel": (DEVICE, "kernel"),
    "gpu_memcpy": (DEVICE, "memcpy"),
    "memcpy": (DEVICE, "memcpy"),
    "xpu_memcpy": (DEVICE, "memcpy"),
    "privateuse1_memcpy": (DEVICE, "memcpy"),
    "gpu_memset": (DEVICE, "memset"),
    "memset": (DEVICE, "memset"),
    "xpu_memset": (DEVICE, "memset"),
    "privateuse1_memset": (DEVICE, "memset"),
    "cuda_sync": (WAIT, "wait"),
    "xpu_sync": (WAIT, "wait"),
    "gpu_user_annotation": (LABEL, "annotation"),
    "xpu_user_annotation": (LABEL, "annotation"),
    "cuda_profiler_range": (LABEL, "annotation"),
    "collective_comm": (DEVICE, "kernel"),
}
_LEGACY_PROCESS = {"CPU functions": (HOST, "op"), "CUDA functions": (DEVICE, "kernel")}


@dataclass(frozen=True)
class Route:
    """Target `table` and the row's `kind` in it."""

    table: str
    kind: str


def route(phase: str | None, category: str | None, process: str | None, is_memory: bool) -> Route:
    """Where an event goes. An unknown phase or category goes to UNKNOWN, whose rows are counted in import_issue."""
    if phase in ("i", "I", "R"):
        return Route(MEMORY, "memory") if is_memory else Route(HOST, "marker")
    if phase in ("s", "t", "f"):
        return Route(FLOW, phase)
    if phase == "C":
        return Route(COUNTER, "counter")
    if phase == "M":
        return Route(METADATA, "metadata")
    if phase not in ("X", "B", "E"):
        return Route(UNKNOWN, "phase")
    span = _span(category, process)
    if phase == "X":
        return Route(*span) if span else Route(UNKNOWN, "category")
    return Route(RANGE_EDGE, phase)


def _span(category: str | None, process: str | None) -> tuple[str, str] | None:
    if category is None or not category.strip():
        return _LEGACY_PROCESS.get(process or "", (HOST, "op"))
    return _SPANS.get(category.strip().lower())
