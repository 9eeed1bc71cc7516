"""Identity, parent, busy time and launch of every event, from narrow keys alone: the wide rows are never sorted.

```
keys of all parts ─▶ sorted host keys ─▶ identity, parent, depth ─┬▶ by part: what the host rows need
                                                                  └▶ by correlation id: calls
keys of all parts ─▶ sorted device keys ─▶ identity, busy time ───┬▶ by part
                                                                  └▶ by correlation id: operations ─▶ launch ─▶ by part
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceengine.importers.kineto.extsort import KEY, Exchange, Records, RecordSorter
from traceengine.importers.kineto.nest import ANNOTATION, PYTHON, SKIP, WORK, Nester
from traceengine.importers.kineto.scan import KIND_ORDER, LaneMap
from traceengine.importers.sql import statement

ROW_BITS = 24
"""A row's number is its part's number shifted by this, plus its place in the part."""

PARTS_PER_GROUP = 2
"""Parts whose rows are written together: about 75,000 rows, which become one row group of each table."""

OVERRUN_ROUNDING_NS = 1_000
"""A device record is impossible when it outlives the whole next one on its stream by this much; below it is rounding."""

HOST_RESULT = np.dtype([("row", "i8"), ("event_id", "i8"), ("parent_id", "i8"), ("depth", "i4"), ("cut_ns", "i8")])
DEVICE_RESULT = np.dtype([("row", "i8"), ("event_id", "i8"), ("busy_ns", "i8")])
LINK_RESULT = np.dtype([("row", "i8"), ("launch_id", "i8"), ("launch_thread", "i4")])
_CALL = np.dtype([("correlation", "i8"), ("event_id", "i8"), ("ts", "i8"), ("end", "i8"), ("thread", "i4"), ("later_choice", "u1")])
_OPERATION = np.dtype([("correlation", "i8"), ("row", "i8"), ("ts", "i8"), ("is_wait", "u1")])

_IS_LAUNCH, _IN_GRAPH, _IS_CALL = 1, 2, 4
_CALLS_PER_BUCKET = 250_000
_CODE_HOST, _CODE_DEVICE, _CODE_WAIT = 1, 2, 3
_INSTRUMENT = np.full(16, WORK, np.int8)
_INSTRUMENT[KIND_ORDER["python"]] = PYTHON
_INSTRUMENT[KIND_ORDER["annotation"]] = ANNOTATION
_INSTRUMENT[KIND_ORDER["overhead"]] = SKIP
_INSTRUMENT[KIND_ORDER["marker"]] = SKIP


@dataclass
class LinkFacts:
    """What the links between calls and operations showed."""

    ambiguous_ids: int = 0
    ambiguous_example: int | None = None
    before_launch: int = 0
    smallest_delay_ns: int = 0


def groups_of(parts: list[str]) -> list[list[str]]:
    """Parts by group. The n-th part holds the rows of number n, so a row's group follows from its number."""
    return [parts[start : start + PARTS_PER_GROUP] for start in range(0, len(parts), PARTS_PER_GROUP)]


def _group(rows: Records) -> Records:
    """Group of each row number."""
    return (rows >> ROW_BITS) // PARTS_PER_GROUP


class Identities:
    """Gives every event its identity; afterwards `results` of a group of parts can be read in any order."""

    def __init__(self, scratch: Path, lanes: LaneMap, calls: int) -> None:
        self._lanes = lanes
        self._buckets = 1 + calls // _CALLS_PER_BUCKET
        self._host = RecordSorter(scratch / "host")
        self._device = RecordSorter(scratch / "device")
        self.host = Exchange(scratch / "host-results", HOST_RESULT)
        self.device = Exchange(scratch / "device-results", DEVICE_RESULT)
        self.links = Exchange(scratch / "links", LINK_RESULT)
        self._calls = Exchange(scratch / "calls", _CALL)
        self._operations = Exchange(scratch / "operations", _OPERATION)
        self.nester = Nester()
        self.facts = LinkFacts()

    def add_keys(self, connection: duckdb.DuckDBPyConnection, parts: list[str]) -> None:
        """Take the keys of some parts."""
        relation = connection.sql(statement("event_keys"), params={"parts": parts})
        for batch in relation.to_arrow_reader(1 << 17):
            columns = {name: _numpy(batch, name) for name in batch.schema.names}
            is_host = columns["code"] == _CODE_HOST
            order = columns["kind_order"]
            is_call = is_host & ((order == KIND_ORDER["runtime"]) | (order == KIND_ORDER["driver"]))
            columns["flags"] = columns["is_launch"] * _IS_LAUNCH + columns["in_graph"] * _IN_GRAPH + is_call * _IS_CALL
            self._host.add(_records({**columns, "lane": columns["thread"]}, np.flatnonzero(is_host)))
            self._device.add(_records(columns, np.flatnonzero(~is_host)))

    def resolve(self) -> None:
        """Sort, nest, number and link everything that was added."""
        next_id = self._resolve_host()
        self._resolve_device(next_id)
        for bucket in range(self._buckets):
            self._link(self._calls.read(bucket), self._operations.read(bucket))

    def _resolve_host(self) -> int:
        next_id = 0
        for keys in self._host.slices():
            instruments = _INSTRUMENT[keys["kind_order"]]
            nested = self.nester.add(next_id, keys["lane"].tolist(), keys["ts"].tolist(), keys["dur"].tolist(), instruments.tolist())
            results = np.empty(len(keys), HOST_RESULT)
            results["row"] = keys["row"]
            results["event_id"] = np.arange(next_id, next_id + len(keys))
            results["parent_id"] = nested.parents
            results["depth"] = nested.depths
            results["cut_ns"] = -1
            for position, duration in nested.cut_durations.items():
                results["cut_ns"][position] = duration
            self.host.add(_group(keys["row"]), results)
            self._add_calls(keys, results["event_id"])
            next_id += len(keys)
        return next_id

    def _add_calls(self, keys: Records, event_ids: Records) -> None:
        chosen = ((keys["flags"] & _IS_CALL) != 0) & (keys["correlation"] > 0)
        keys = keys[chosen]
        calls = np.empty(len(keys), _CALL)
        calls["correlation"], calls["event_id"], calls["ts"] = keys["correlation"], event_ids[chosen], keys["ts"]
        calls["end"], calls["thread"] = keys["ts"] + keys["dur"], keys["lane"]
        calls["later_choice"] = (keys["flags"] & _IS_LAUNCH) == 0
        self._calls.add(calls["correlation"] % self._buckets, calls)

    def _resolve_device(self, first_id: int) -> None:
        next_id = first_id
        for keys, following in _with_next(self._device.slices()):
            results = np.empty(len(keys), DEVICE_RESULT)
            results["row"] = keys["row"]
            results["event_id"] = np.arange(next_id, next_id + len(keys))
            results["busy_ns"] = _busy(keys, following)
            self.device.add(_group(keys["row"]), results)
            self._add_operations(keys)
            next_id += len(keys)

    def _add_operations(self, keys: Records) -> None:
        codes = self._lanes.codes[keys["lane"]]
        chosen = np.isin(codes, (_CODE_DEVICE, _CODE_WAIT)) & (keys["correlation"] > 0)
        keys, codes = keys[chosen], codes[chosen]
        operations = np.empty(len(keys), _OPERATION)
        operations["correlation"], operations["row"], operations["ts"] = keys["correlation"], keys["row"], keys["ts"]
        operations["is_wait"] = codes == _CODE_WAIT
        self._operations.add(operations["correlation"] % self._buckets, operations)

    def _link(self, calls: Records, operations: Records) -> None:
        """Join operations to calls of the same correlation id; ids that several calls claim are left alone and counted."""
        if not len(calls) or not len(operations):
            return
        calls = calls[np.lexsort((calls["event_id"], calls["later_choice"], calls["correlation"]))]
        firsts = np.flatnonzero(np.concatenate([[True], calls["correlation"][1:] != calls["correlation"][:-1]]))
        best = calls[firsts]
        owner = np.repeat(np.arange(len(firsts)), np.diff([*firsts.tolist(), len(calls)]))
        rival = (calls["later_choice"] == best["later_choice"][owner]) & (
            (calls["thread"] != best["thread"][owner]) | (calls["end"] > best["end"][owner])
        )
        ambiguous = np.zeros(len(firsts), bool)
        ambiguous[owner[rival]] = True
        place = np.minimum(np.searchsorted(best["correlation"], operations["correlation"]), len(best) - 1)
        found = best["correlation"][place] == operations["correlation"]
        doubtful = np.unique(place[found & ambiguous[place]])
        if len(doubtful):
            self.facts.ambiguous_ids += len(doubtful)
            self.facts.ambiguous_example = int(best["correlation"][doubtful[0]])
        linked = found & ~ambiguous[place]
        operations, launches = operations[linked], best[place[linked]]
        delay = (operations["ts"] - launches["ts"])[operations["is_wait"] == 0]
        self.facts.before_launch += int((delay < 0).sum())
        self.facts.smallest_delay_ns = min(self.facts.smallest_delay_ns, int(delay.min(initial=0)))
        results = np.empty(len(operations), LINK_RESULT)
        results["row"], results["launch_id"], results["launch_thread"] = operations["row"], launches["event_id"], launches["thread"]
        self.links.add(_group(operations["row"]), results)


def _records(columns: dict[str, Any], chosen: npt.NDArray[np.int64]) -> Records:
    """The chosen rows of some columns as keys."""
    records = np.empty(len(chosen), KEY)
    for name in KEY.names or ():
        records[name] = columns[name][chosen]
    return records


def _numpy(batch: pa.RecordBatch, name: str) -> Any:
    return batch.column(name).to_numpy(zero_copy_only=False)


def _with_next(slices: Iterator[Records]) -> Iterator[tuple[Records, Records]]:
    """Each slice with, for every record, the one after it: the last one of all is followed by one of no lane."""
    end = np.zeros(1, KEY)
    end["lane"] = -1
    held: Records | None = None
    for records in slices:
        if held is not None:
            yield held, np.concatenate([held[1:], records[:1]])
        held = records
    if held is not None and len(held):
        yield held, np.concatenate([held[1:], end])


def _busy(keys: Records, following: Records) -> Records:
    """Durations for time sums. Work on one stream is serial: a record that holds the whole next one is impossible, and
    counts only until that one starts. Kernels of one CUDA graph may share a stream's number and run side by side."""
    plain = ((keys["flags"] | following["flags"]) & _IN_GRAPH) == 0
    holds_next = keys["ts"] + keys["dur"] >= following["ts"] + following["dur"] + OVERRUN_ROUNDING_NS
    impossible = (keys["lane"] == following["lane"]) & plain & (following["ts"] > keys["ts"]) & holds_next
    return np.where(impossible, following["ts"] - keys["ts"], keys["dur"])
