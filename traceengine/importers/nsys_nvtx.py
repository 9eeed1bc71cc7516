"""NVTX: ranges, marks, domains, categories and names, as rows of the host staging file.

Domains and categories are per process and may stand anywhere in the table, so rows keep their domain's number and are
joined with `Domains.relation` when they are written.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from traceengine.importers import nsys_format as raw
from traceengine.importers.nsys_host import ANNOTATION, MARKER, OP, OS, Export, host_rows, span
from traceengine.importers.nsys_names import json_args, null_if, process_of, tid_of
from traceengine.names import LOADING

_CATEGORY, _THREAD_NAME, _DOMAIN, _DOMAIN_END = 33, 39, 75, 76
_RANGES = (59, 60, 70, 71)
_MARKS = (34, 65)
_DEVICE_NAMES = (97, 98, 99)
_KNOWN = (_CATEGORY, _THREAD_NAME, _DOMAIN, _DOMAIN_END, *_RANGES, *_MARKS, *_DEVICE_NAMES)

_SYNTHETIC = {"GIL Trace": None, "Python Backtrace": MARKER, "NCCL": OP}
"""Domains that tools write: their ranges are no user's. The GIL domain holds waits (OS) and holdings (marks)."""

_RANK_DOMAIN = re.compile(r"rank[ _-]?(\d{1,6})", re.IGNORECASE)
_RANGE_CLASSES = LOADING | {
    "step",
    "optimizer_step",
    "optimizer_zero",
    "comm_range",
    "forward",
    "backward",
    "checkpoint",
    "logging",
    "h2d_range",
}
"""Meanings of ranges that people put around a part of their loop; other names under emit_nvtx are operators."""
_LIBRARY_CLASSES = frozenset({"library_call", "comm_op"})
_PAYLOADS = ("uint64Value", "int64Value", "uint32Value", "int32Value", "doubleValue", "floatValue")
_NVTX_SCHEMA = raw.NVTX.arrow


@dataclass
class NvtxFindings:
    """What was seen on the way: names of domains, categories and threads, and counts for the issues."""

    domains: dict[tuple[int, int], str] = field(default_factory=dict)
    categories: dict[tuple[int, int, int], str] = field(default_factory=dict)
    thread_names: dict[tuple[int, int], str] = field(default_factory=dict)
    ranges: Counter[int] = field(default_factory=Counter)
    steps: Counter[int] = field(default_factory=Counter)
    open_ranges: int = 0
    open_example: str | None = None
    unnamed: int = 0
    unknown_types: Counter[int] = field(default_factory=Counter)

    def ranks(self) -> dict[int, int]:
        """Ranks that processes name by a domain of their own (`rank0`)."""
        found: dict[int, int] = {}
        for (process, _), name in self.domains.items():
            match = _RANK_DOMAIN.fullmatch(name)
            if match:
                found[process] = int(match.group(1))
        return found

    def relation(self) -> pa.Table:
        """Rows (process, domain, kind, holding_kind, args) for the named domains; `kind` NULL keeps the row's own."""
        rows = []
        for (process, domain), name in sorted(self.domains.items()):
            gil = name == "GIL Trace"
            rows.append(
                {
                    "process": process,
                    "domain": domain,
                    "kind": OS if gil else _SYNTHETIC.get(name),
                    "is_gil": gil,
                    "args": json.dumps({"domain": name}),
                }
            )
        schema = pa.schema(
            [("process", pa.int64()), ("domain", pa.int64()), ("kind", pa.int8()), ("is_gil", pa.bool_()), ("args", pa.string())]
        )
        return pa.Table.from_pylist(rows, schema=schema)


def nvtx_rows(export: Export, found: NvtxFindings) -> Iterator[pa.RecordBatch]:
    """Ranges and marks; `found` is complete after the last batch."""
    for batch in export.source.batches(raw.NVTX):
        kinds = batch.column("eventType")
        _collect(export, batch.filter(pc.is_in(kinds, pa.array([_CATEGORY, _THREAD_NAME, _DOMAIN], pa.int64()))), found)
        unknown = batch.filter(pc.invert(pc.fill_null(pc.is_in(kinds, pa.array(_KNOWN, pa.int64())), False)))
        found.unknown_types.update(unknown.column("eventType").to_pylist())
        wanted = pc.is_in(kinds, pa.array((*_RANGES, *_MARKS), pa.int64()))
        rows = batch if pc.all(wanted).as_py() else batch.filter(wanted)
        if rows.num_rows:
            yield _rows(export, rows, found)


def _rows(export: Export, rows: pa.RecordBatch, found: NvtxFindings) -> pa.RecordBatch:
    ts, dur = span(export, rows)
    is_mark = pc.is_in(rows.column("eventType"), pa.array(_MARKS, pa.int64()))
    if export.end_ns is not None:
        # Recorders that lack a range's end write the end of the collection.
        dur = pc.if_else(pc.greater_equal(rows.column("end"), export.end_ns), pa.scalar(None, pa.int64()), dur)
    dur = pc.if_else(is_mark, pa.scalar(0, pa.int64()), dur)
    texts = _texts(export, rows)
    parts = export.book.of_texts("range", texts)
    process = process_of(rows.column("globalTid"))
    kinds = _kinds(export, parts.codes, parts.recorded, is_mark)
    _count(export, found, process, parts.codes, dur, is_mark)
    return host_rows(
        process, tid_of(rows.column("globalTid")), ts, dur, kinds, parts.codes,
        recorded=parts.recorded, domain=rows.column("domainId"), sequence_id=parts.sequences, args=_args(rows),
    )  # fmt: skip


def _texts(export: Export, rows: pa.RecordBatch) -> pa.Array:
    """The text, or the registered string; both occur in one file."""
    texts, ids = rows.column("text"), rows.column("textId")
    if ids.null_count == len(ids):
        return pc.fill_null(texts, "")
    encoded = ids.dictionary_encode()
    registered = pa.array([export.strings.get(number) for number in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)
    return pc.fill_null(pc.coalesce(texts, registered), "")


def _kinds(export: Export, codes: pa.Array, recorded: pa.Array, is_mark: pa.Array) -> pa.Array:
    encoded = codes.dictionary_encode()
    classes = [export.book.classes[code] for code in encoded.dictionary.to_pylist()]
    library = pa.array([name in _LIBRARY_CLASSES for name in classes]).take(encoded.indices)
    ranges = pa.array([name in _RANGE_CLASSES for name in classes]).take(encoded.indices)
    is_op = pc.or_(library, pc.and_(recorded.is_valid(), pc.invert(ranges)))
    span_kind = pc.if_else(is_op, pa.scalar(OP, pa.int8()), pa.scalar(ANNOTATION, pa.int8()))
    return pc.if_else(is_mark, pa.scalar(MARKER, pa.int8()), span_kind)


def _count(export: Export, found: NvtxFindings, process: pa.Array, codes: pa.Array, dur: pa.Array, is_mark: pa.Array) -> None:
    pairs = pa.table({"process": process, "name": codes, "open": pc.is_null(dur), "mark": is_mark}).group_by(
        ["process", "name", "open", "mark"]
    )
    for row in pairs.aggregate([([], "count_all")]).to_pylist():
        text = export.book.texts[row["name"]]
        if not text:
            found.unnamed += row["count_all"]
        if row["mark"]:
            continue
        found.ranges[row["process"]] += row["count_all"]
        if export.book.classes[row["name"]] == "step":
            found.steps[row["process"]] += row["count_all"]
        if row["open"]:
            found.open_ranges += row["count_all"]
            found.open_example = min(text, found.open_example) if found.open_example is not None else text


def _args(rows: pa.RecordBatch) -> pa.Array | None:
    """What has no column: identity, category and payload of a range, and the thread on which it ended."""
    end_thread = rows.column("endGlobalTid")
    moved = pc.if_else(pc.equal(end_thread, rows.column("globalTid")), pa.scalar(None, pa.int64()), end_thread)
    fields = [
        ("rangeId", null_if(rows.column("rangeId"), 0)),
        ("category", null_if(rows.column("category"), 0)),
        ("endTid", pc.bit_wise_and(moved, 0xFFFFFF)),
        *((key, rows.column(key)) for key in _PAYLOADS),
        ("payload", rows.column("jsonText")),
    ]
    return json_args(fields)


def _collect(export: Export, rows: pa.RecordBatch, found: NvtxFindings) -> None:
    if not rows.num_rows:
        return
    processes, tids = process_of(rows.column("globalTid")).to_pylist(), tid_of(rows.column("globalTid")).to_pylist()
    texts = _texts(export, rows).to_pylist()
    kinds, domains, categories = (rows.column(name).to_pylist() for name in ("eventType", "domainId", "category"))
    for process, tid, kind, text, domain, category in zip(processes, tids, kinds, texts, domains, categories, strict=True):
        if kind == _DOMAIN:
            found.domains[(process, domain or 0)] = text
        elif kind == _CATEGORY:
            found.categories[(process, domain or 0, category or 0)] = text
        else:
            found.thread_names[(process, tid)] = text
