"""What the object around the events says: rank, clock, devices, versions. Names of hosts, users and paths stay behind."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

_PLAIN_KEYS = (
    "schemaVersion",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "trace_id",
    "record_shapes",
    "with_stack",
    "with_flops",
    "with_modules",
    "profile_memory",
    "cuda_runtime_version",
    "cuda_driver_version",
    "cupti_version",
    "hip_runtime_version",
    "hip_driver_version",
    "roctracer_version",
    "torch_version",
    "pytorch_version",
)
_UNDERSTOOD_KEYS = ("traceEvents", "distributedInfo", "deviceProperties", "host_name")
_GROUP_KEYS = ("pg_name", "pg_desc", "backend_config", "pg_size", "ranks", "uid")
_INT64 = 1 << 63


@dataclass(frozen=True)
class DeviceProperties:
    """One entry of deviceProperties."""

    device: int
    name: str | None
    vendor: str | None
    uuid: str | None
    sm_count: int | None
    memory_bytes: int | None


@dataclass(frozen=True)
class TraceMetadata:
    """What a trace says about itself. `base_ns` is added to every `ts` to get Unix time."""

    rank: int | None
    world_size: int | None
    base_ns: int | None
    host: str | None
    schema_version: str | None
    devices: tuple[DeviceProperties, ...]
    kept: dict[str, Any]
    left_out: tuple[str, ...]
    """Keys whose values stay behind: free text that may name people, hosts or folders."""


def integer(value: object) -> int | None:
    """An integer of 64 bits from a number or a numeric text, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = int(value.strip())
        except ValueError:
            return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and -_INT64 <= value < _INT64 else None


def read_metadata(document: dict[str, Any]) -> TraceMetadata:
    """Understand the object around the events; unknown shapes are ignored."""
    distributed = _object(document.get("distributedInfo"))
    host = document.get("host_name")
    host_id = hashlib.sha256(host.encode()).hexdigest()[:16] if isinstance(host, str) and host not in ("", "redacted") else None
    version = document.get("schemaVersion")
    return TraceMetadata(
        rank=_natural(distributed.get("rank")),
        world_size=_natural(distributed.get("world_size")),
        base_ns=integer(document.get("baseTimeNanoseconds")),
        host=host_id,
        schema_version=str(version) if isinstance(version, int | str) else None,
        devices=_devices(document),
        kept=_kept(document, distributed),
        left_out=tuple(sorted(set(document) - set(_PLAIN_KEYS) - set(_UNDERSTOOD_KEYS))),
    )


def _natural(value: object) -> int | None:
    number = integer(value)
    return number if number is not None and number >= 0 else None


def _object(value: object) -> dict[str, Any]:
    """An object, also when it was written as JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return []
    return value if isinstance(value, list) else []


def _kept(document: dict[str, Any], distributed: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {key: document[key] for key in _PLAIN_KEYS if isinstance(document.get(key), int | float | str)}
    if distributed:
        groups = [
            {key: group[key] for key in _GROUP_KEYS if key in group}
            for group in _list(distributed.get("pg_config"))
            if isinstance(group, dict)
        ]
        kept["distributedInfo"] = {
            key: distributed[key]
            for key in ("backend", "rank", "world_size", "pg_count", "nccl_version")
            if isinstance(distributed.get(key), int | str)
        } | ({"pg_config": groups} if groups else {})
    return kept


def _devices(document: dict[str, Any]) -> tuple[DeviceProperties, ...]:
    found: dict[int, DeviceProperties] = {}
    for entry in _list(document.get("deviceProperties")):
        if not isinstance(entry, dict) or (number := integer(entry.get("id"))) is None or number < 0:
            continue
        name = entry.get("name") if isinstance(entry.get("name"), str) else None
        uuid = entry.get("uuid")
        found[number] = DeviceProperties(
            number,
            name,
            _vendor(name, document),
            uuid if isinstance(uuid, str) else None,
            integer(entry.get("numSms")) or integer(entry.get("computeUnits")),
            integer(entry.get("totalGlobalMem")),
        )
    return tuple(found[number] for number in sorted(found))


def _vendor(name: str | None, document: dict[str, Any]) -> str | None:
    text = (name or "").lower()
    for vendor, words in (
        ("nvidia", ("nvidia", "tesla", "geforce", "quadro", "titan", "rtx")),
        ("amd", ("amd", "instinct", "radeon", "gfx", "mi2", "mi3")),
        ("intel", ("intel", "arc", "data center gpu")),
        ("huawei", ("ascend", "huawei")),
    ):
        if any(word in text for word in words):
            return vendor
    return vendor_of_tool(document)


def vendor_of_tool(document: dict[str, Any]) -> str | None:
    """Vendor by the recording library that the file names."""
    if "cupti_version" in document or "cuda_runtime_version" in document:
        return "nvidia"
    if any(key in document for key in ("roctracer_version", "hip_runtime_version", "rocprofiler-sdk_version")):
        return "amd"
    return None
