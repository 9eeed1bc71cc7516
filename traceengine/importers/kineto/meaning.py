"""What names mean for the importer: classes by names.csv, directions of copies, names without private folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from traceengine.importers.kineto.routes import DEVICE, HOST, route
from traceengine.names import LOADING, Names

_RANGE_CLASSES = LOADING | {"step", "optimizer_step", "optimizer_zero", "comm_range"}
"""Older exporters write these ranges as operators: the name decides."""

_DIRECTION = re.compile(r"\b(?:memcpy\s*)?([hdpams])(?:to|2)([hdpams])\b|copy(host|device|peer)to(host|device|peer)", re.IGNORECASE)
_BETWEEN = re.compile(r"\(([\w ]+?)\s*->\s*([\w ]+?)\)")
_SIDES = {"h": "h", "m": "h", "s": "d", "d": "d", "a": "d", "host": "h", "device": "d", "pageable": "h", "pinned": "h", "array": "d"}
_MEMORIES = {
    "pageable": "pageable",
    "pinned": "pinned",
    "device": "device",
    "array": "array",
    "managed": "managed",
    "device static": "device",
    "managed static": "managed",
}
_LIBRARY = re.compile(r"^.*[/\\](?:site|dist)-packages[/\\]")
_FOLDER = re.compile(r"^(?:/(?:[^/]+/)+|[A-Za-z]:\\Users\\(?:[^\\]+\\)+)")

NAME_SCHEMA = pa.schema(
    [(key, pa.string()) for key in ("ph", "cat", "name", "kind", "class", "clean_name", "copy_kind", "src_memory", "dst_memory")]
)


@dataclass(frozen=True)
class Copy:
    """Direction and memories of a copy, as far as its name says."""

    kind: str | None
    source: str | None
    target: str | None


def copy_of(name: str) -> Copy:
    """Read a copy's name: `Memcpy HtoD (Pageable -> Device)`, `CopyHostToDevice`, `Memcpy M2D`."""
    between = _BETWEEN.search(name)
    source, target = (between.group(1).lower(), between.group(2).lower()) if between else (None, None)
    direction = _DIRECTION.search(name)
    if direction:
        letters = (direction.group(1) or direction.group(3)).lower(), (direction.group(2) or direction.group(4)).lower()
    else:
        letters = (source or "", target or "")
    if any(side in ("p", "peer") for side in letters):
        kind: str | None = "p2p"
    else:
        sides = _SIDES.get(letters[0]), _SIDES.get(letters[1])
        kind = f"{sides[0]}2{sides[1]}" if all(sides) else None
    return Copy(kind, _MEMORIES.get(source or ""), _MEMORIES.get(target or ""))


def clean_frame(name: str) -> str:
    """A Python frame's name without the folders that lead to a package or a script."""
    short = _LIBRARY.sub("", name)
    return _FOLDER.sub("", short) if short == name else short


def _target(table: str, kind: str) -> str | None:
    if table == DEVICE:
        return "device"
    if table == HOST:
        return "python" if kind == "python" else "host"
    return None


def name_table(names: Names, rows: Sequence[tuple[str | None, str | None, str]]) -> pa.Table:
    """For each (phase, category, name) what it means; names that mean nothing special and are clean have no row."""
    found: list[dict[str, str | None]] = []
    for (phase, category, name), (target, kind) in zip(rows, _targets(rows), strict=True):
        if target is None:
            continue
        meaning = names.classify(target, [name])[0]
        if meaning is None and kind == "annotation":
            meaning = names.classify("range", [name])[0]
        kind_override = "annotation" if kind == "op" and meaning in _RANGE_CLASSES else None
        clean = clean_frame(name) if kind == "python" else name
        copy = copy_of(name) if kind == "memcpy" else Copy(None, None, None)
        if meaning or clean != name or copy.kind or copy.source:
            found.append(
                {
                    "ph": phase,
                    "cat": category,
                    "name": name,
                    "kind": kind_override,
                    "class": meaning,
                    "clean_name": clean if clean != name else None,
                    "copy_kind": copy.kind,
                    "src_memory": copy.source,
                    "dst_memory": copy.target,
                }
            )
    return pa.Table.from_pylist(found, schema=NAME_SCHEMA)


def _targets(rows: Iterable[tuple[str | None, str | None, str]]) -> Iterable[tuple[str | None, str | None]]:
    known: dict[tuple[str | None, str | None], tuple[str | None, str | None]] = {}
    for phase, category, name in rows:
        key = (phase, category)
        if key not in known or name == "[memory]":
            way = route(phase, category, None, name == "[memory]")
            known[key] = (_target(way.table, way.kind), way.kind)
        yield known[key]
