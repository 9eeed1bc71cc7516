"""Ids, strings, enums and names of an export: global ids cut into process and thread, texts into codes with a meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceengine.importers.nsys_format import STRINGS, enum_table
from traceengine.importers.nsys_source import NsysSource
from traceengine.names import Names

NO_PROCESS = -1
"""Process of rows that name none."""
NONE_32 = 0xFFFFFFFF
"""What the export writes for "no stream" and "no event"."""

_LOW_24 = 0xFFFFFF
_API_VERSION = re.compile(r"_v\d{4,}$")
_PATH = re.compile(r"(?<![\w%.])(?:[A-Za-z]:)?(?:[/\\][^\s/\\,;:()'\"]+)+[/\\]?")
_SUFFIX = re.compile(r", (?:seq|op_id|sizes|input_op_ids) = ")
_SUFFIX_STARTS = ("seq = ", "op_id = ", "sizes = ", "input_op_ids = ")
_SEQUENCE = re.compile(r", seq = (\d{1,18})(?!\d)")

# Values that NVIDIA documents; the export's own ENUM tables come first.
_DOCUMENTED: dict[str, dict[int, str]] = {
    "ENUM_CUDA_MEMCPY_OPER": {
        1: "CUDA_MEMCPY_KIND_HTOD", 2: "CUDA_MEMCPY_KIND_DTOH", 3: "CUDA_MEMCPY_KIND_HTOA", 4: "CUDA_MEMCPY_KIND_ATOH",
        5: "CUDA_MEMCPY_KIND_ATOA", 6: "CUDA_MEMCPY_KIND_ATOD", 7: "CUDA_MEMCPY_KIND_DTOA", 8: "CUDA_MEMCPY_KIND_DTOD",
        9: "CUDA_MEMCPY_KIND_HTOH", 10: "CUDA_MEMCPY_KIND_PTOP", 11: "CUDA_MEMCPY_KIND_UVM_HTOD",
        12: "CUDA_MEMCPY_KIND_UVM_DTOH", 13: "CUDA_MEMCPY_KIND_UVM_DTOD",
    },
    "ENUM_CUDA_MEM_KIND": {
        0: "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", 1: "CUDA_MEMOPR_MEMORY_KIND_PINNED", 2: "CUDA_MEMOPR_MEMORY_KIND_DEVICE",
        3: "CUDA_MEMOPR_MEMORY_KIND_ARRAY", 4: "CUDA_MEMOPR_MEMORY_KIND_MANAGED", 5: "CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC",
        6: "CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC", 7: "CUDA_MEMOPR_MEMORY_KIND_UNKNOWN",
    },
    "ENUM_CUPTI_SYNC_TYPE": {
        1: "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", 2: "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT",
        3: "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", 4: "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE",
    },
    "ENUM_CUPTI_OVERHEAD_TYPE": {
        2: "OVERHEAD_DRIVER_COMPILER", 3: "OVERHEAD_CUPTI_BUFFER_FLUSH", 4: "OVERHEAD_CUPTI_INSTRUMENTATION", 5: "OVERHEAD_CUPTI_RESOURCE",
        6: "OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING", 7: "OVERHEAD_LAZY_FUNCTION_LOADING", 8: "OVERHEAD_COMMAND_BUFFER_FULL",
    },
    "ENUM_NSYS_EVENT_CLASS": {
        0: "TRACE_PROCESS_EVENT_CUDA_RUNTIME", 1: "TRACE_PROCESS_EVENT_CUDA_DRIVER", 27: "TRACE_PROCESS_EVENT_OS_RUNTIME",
        31: "TRACE_PROCESS_EVENT_OS_RUNTIME_START", 32: "TRACE_PROCESS_EVENT_OS_RUNTIME_FINISH",
    },
    "ENUM_CUDA_DEV_MEM_EVENT_OPER": {0: "CUDA_DEV_MEM_EVENT_OPR_ALLOCATION", 1: "CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION"},
}  # fmt: skip


def process_of(global_id: pa.Array) -> pa.Array:
    """Process key (machine, VM and process id) of global ids; NO_PROCESS where there is none."""
    return pc.fill_null(pc.shift_right(global_id, 24), NO_PROCESS)


def tid_of(global_id: pa.Array) -> pa.Array:
    """Thread id of global ids; 0 where there is none."""
    return pc.fill_null(pc.bit_wise_and(global_id, _LOW_24), 0)


def pid_of(process: int) -> int:
    """Process id of a process key; ids of more than 24 bits are cut by the export itself."""
    return process & _LOW_24


class Enums:
    """The ENUM_* tables of an export, with the documented values where it has none."""

    def __init__(self, source: NsysSource) -> None:
        self._source = source
        self._tables: dict[str, dict[int, str]] = {}
        self._labels: dict[str, dict[int, str]] = {}

    def names(self, table: str) -> dict[int, str]:
        """Symbol of each value."""
        self._load(table)
        return self._tables[table]

    def label(self, table: str, value: int | None) -> str | None:
        """Readable label of a value, or None."""
        self._load(table)
        return None if value is None else self._labels[table].get(value)

    def _load(self, table: str) -> None:
        if table in self._tables:
            return
        symbols = dict(_DOCUMENTED.get(table, {}))
        labels: dict[int, str] = {}
        for batch in self._source.batches(enum_table(table)):
            for value, name, label in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                symbols[value] = name
                labels[value] = label or name
        self._tables[table], self._labels[table] = symbols, labels


class Strings:
    """StringIds: read whole, given out only for ids that imported columns name (they also hold environments and output)."""

    def __init__(self, source: NsysSource) -> None:
        self._values: dict[int, str] = {}
        for batch in source.batches(STRINGS):
            self._values.update(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))

    def get(self, number: int | None) -> str | None:
        """Text of an id."""
        return None if number is None else self._values.get(number)


@dataclass(frozen=True)
class NameParts:
    """Texts of a column as codes of the clean name, the recorded text where something was cut off, and the sequence number in it."""

    codes: pa.Array
    recorded: pa.Array
    sequences: pa.Array


class NameBook:
    """Every name of the run once, with its meaning by queries/names.csv. A code stands for a text and its target."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._codes: dict[tuple[str, str], int] = {}
        self.texts: list[str] = []
        self.classes: list[str | None] = []

    def code(self, target: str, text: str) -> int:
        """Code of a text; target `range` falls back to the rows of `host`."""
        key = (target, text)
        found = self._codes.get(key)
        if found is None:
            meaning = self._names.classify(target, [text])[0]
            if meaning is None and target == "range":
                meaning = self._names.classify("host", [text])[0]
            found = self._codes[key] = len(self.texts)
            self.texts.append(text)
            self.classes.append(meaning)
        return found

    def of_ids(self, target: str, ids: pa.Array, strings: Strings, unknown: str = "") -> pa.Array:
        """Codes for string ids. Names of calls lose their `_vNNNN`, and the folders of files in them (`dlopen(/a/b.so)`)."""
        encoded = ids.dictionary_encode()
        texts = [strings.get(number) or unknown for number in encoded.dictionary.to_pylist()]
        table = [self.code(target, text if target == "device" else _clean_call(text)) for text in texts]
        return self._spread(table, encoded.indices, target, unknown)

    def of_texts(self, target: str, texts: pa.Array) -> NameParts:
        """Codes for recorded texts, cut from what torch's emit_nvtx adds to a name. NULL counts as the empty text."""
        bases, recorded, sequences = split_suffix(pc.fill_null(texts, ""))
        encoded = bases.dictionary_encode()
        codes = [self.code(target, text) for text in encoded.dictionary.to_pylist()]
        return NameParts(self._spread(codes, encoded.indices, target, ""), recorded, sequences)

    def _spread(self, table: list[int], indices: pa.Array, target: str, missing: str) -> pa.Array:
        """Codes of the rows; `missing` where they have none."""
        if indices.null_count:
            table = [*table, self.code(target, missing)]
            indices = pc.fill_null(indices, pa.scalar(len(table) - 1, indices.type))
        return pa.array(table, pa.int32()).take(indices)

    def columns(self) -> tuple[pa.Array, pa.Array]:
        """Texts and classes by code."""
        return pa.array(self.texts, pa.string()), pa.array(self.classes, pa.string())


def _clean_call(text: str) -> str:
    return without_paths(_API_VERSION.sub("", text)) if "/" in text or "\\" in text else _API_VERSION.sub("", text)


def without_paths(text: str) -> str:
    """The text with the last part of each path only."""
    return _PATH.sub(lambda match: match.group().replace("\\", "/").rstrip("/").rsplit("/", 1)[-1], text)


def split_suffix(texts: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Names without what emit_nvtx adds (`, seq = 1, op_id = 2, sizes = [...]`), the whole text where it does, the number of `seq`.

    Nearly every text of such a capture is a different one, so this works on whole columns: all but names that hold a
    comma themselves are cut at their first comma.
    """
    count = len(texts)
    pieces = pc.split_pattern(texts, ", ", max_splits=1)
    offsets = pieces.offsets.to_numpy()
    has_rest = np.diff(offsets) > 1
    if not has_rest.any():
        return texts, pa.nulls(count, pa.string()), pa.nulls(count, pa.int64())
    rest = pieces.values.take(pa.array(offsets[:-1] + 1, mask=~has_rest))
    starts = [pc.fill_null(pc.starts_with(rest, word), False).to_numpy(zero_copy_only=False) for word in _SUFFIX_STARTS]
    is_suffix = np.logical_or.reduce(starts)
    cut = pa.array(is_suffix)
    first = pieces.values.take(pa.array(offsets[:-1]))
    bases = pc.if_else(cut, first, texts)
    recorded = pc.if_else(cut, texts, pa.scalar(None, pa.string()))
    number = pc.utf8_slice_codeunits(pc.if_else(pa.array(starts[0]), rest, pa.scalar(None, pa.string())), len("seq = "))
    sequences = _leading_int(number)
    odd = np.flatnonzero(has_rest & ~is_suffix & pc.fill_null(pc.match_substring(rest, " = "), False).to_numpy(zero_copy_only=False))
    return _split_odd(texts, odd, bases, recorded, sequences) if len(odd) else (bases, recorded, sequences)


def _leading_int(texts: pa.Array) -> pa.Array:
    """The number before the first comma; NULL for NULL and for what is none."""
    pieces = pc.split_pattern(texts, ",", max_splits=1)
    offsets = pieces.offsets.to_numpy()
    digits = pieces.values.take(pa.array(offsets[:-1], mask=np.diff(offsets) < 1))
    return pc.cast(pc.if_else(pc.match_substring_regex(digits, "^[0-9]{1,18}$"), digits, pa.scalar(None, pa.string())), pa.int64())


def _split_odd(
    texts: pa.Array, odd: np.ndarray, bases: pa.Array, recorded: pa.Array, sequences: pa.Array
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Cut the names that hold a comma themselves, one by one."""
    mask = np.zeros(len(texts), bool)
    cuts = [(text, _SUFFIX.search(text)) for text in texts.take(pa.array(odd)).to_pylist()]
    mask[odd] = True
    names = [text[: cut.start()] if cut else text for text, cut in cuts]
    wholes = [text if cut else None for text, cut in cuts]
    found = [_SEQUENCE.search(text, cut.start()) if cut else None for text, cut in cuts]
    numbers = [int(match.group(1)) if match else None for match in found]
    return (
        pc.replace_with_mask(bases, mask, pa.array(names, pa.string())),
        pc.replace_with_mask(recorded, mask, pa.array(wholes, pa.string())),
        pc.replace_with_mask(sequences, mask, pa.array(numbers, pa.int64())),
    )


def json_args(fields: Iterable[tuple[str, pa.Array]]) -> pa.Array | None:
    """JSON objects of the non-NULL fields of each row; NULL where all are, None when that holds for every row."""
    parts = [_json_field(key, array) for key, array in fields if array.null_count < len(array)]
    if not parts:
        return None
    body = pc.binary_join_element_wise(*parts, "")
    whole = pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(body, 1), "}", "")
    return pc.if_else(pc.equal(pc.binary_length(body), 0), pa.scalar(None, pa.string()), whole)


def _json_field(key: str, array: pa.Array) -> pa.Array:
    """`,"key":value` per row, the empty text where the value is NULL."""
    if pa.types.is_string(array.type):
        encoded = array.dictionary_encode()
        dumped = pa.array([json.dumps(text) for text in encoded.dictionary.to_pylist()], pa.string())
        values = dumped.take(encoded.indices)
    elif pa.types.is_floating(array.type):
        finite = pc.if_else(pc.is_finite(array), array, pa.scalar(None, array.type))
        values = pc.cast(finite, pa.string())
    else:
        values = pc.cast(array, pa.string())
    return pc.fill_null(pc.binary_join_element_wise(f",{json.dumps(key)}:", values, ""), "")


def lookup(array: pa.Array, table: dict[int, str | None]) -> pa.Array:
    """Text of each value by a small table."""
    encoded = array.dictionary_encode()
    return pa.array([table.get(value) for value in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def null_if(array: pa.Array, *values: int) -> pa.Array:
    """NULL in place of the values that stand for "none"."""
    return pc.if_else(pc.is_in(array, pa.array(values, array.type)), pa.scalar(None, array.type), array)
