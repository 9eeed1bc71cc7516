"""Random traces, whole or in tiny pieces, give what the slow reference reader says."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.importers import reference
from tests.importers.import_helpers import rows
from traceengine.importers import ImportRequest, import_traces
from traceengine.importers.kineto import chunks, extsort, identity

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="@"), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def traces(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Events that nest on each thread, with kernels linked to some of them, and all else that kineto writes."""
    events: list[dict[str, Any]] = []
    base = draw(st.sampled_from([0, 1_600_000_000_000_000, 5_000_000_000]))
    category = st.sampled_from(["cpu_op", "user_annotation", "python_function", "cuda_runtime", "overhead", "Operator", "Runtime"])

    def fill(thread: int, start: int, end: int, depth: int) -> None:
        at = start
        while end - at > 40 and depth < 4 and draw(st.booleans()):
            first = draw(st.integers(at + 1, end - 30))
            last = draw(st.integers(first + 20, end - 1))
            number = len(events)
            args = {"correlation": number + 1, "External id": number + 1, draw(texts): draw(values)}
            kind = draw(category)
            name = f"{draw(texts)}#{number}"
            times = {"ts": f"@{base * 1000 + first}@", "dur": f"@{last - first}@"}
            events.append({"ph": "X", "cat": kind, "name": name, "pid": 5, "tid": thread, "args": args, **times})
            if kind != "overhead":
                fill(thread, first, last, depth + 1)
            at = last

    for thread in range(draw(st.integers(1, 3))):
        fill(thread, 0, 4000, 0)
    calls = [event for event in events if event["cat"] in ("cuda_runtime", "Runtime")]
    for number in range(draw(st.integers(0, 6))):
        correlation = (
            draw(st.sampled_from([event["args"]["correlation"] for event in calls])) if calls and draw(st.booleans()) else 9000 + number
        )
        kind = draw(st.sampled_from(["kernel", "gpu_memcpy", "gpu_memset", "Kernel"]))
        args = {"device": draw(st.integers(0, 1)), "stream": draw(st.integers(1, 3)), "correlation": correlation, "x": draw(values)}
        times = {"ts": f"@{base * 1000 + draw(st.integers(1, 9000))}@", "dur": f"@{draw(st.integers(1, 500))}@"}
        events.append({"ph": "X", "cat": kind, "name": f"k{number}", "pid": 0, "tid": 7, "args": args, **times})
    events += [{"ph": "C", "name": "c", "pid": 5, "ts": base, "args": {"a": 1, "b": 2.5}}] * draw(st.integers(0, 2))
    events += [{"ph": "s", "id": 3, "pid": 5, "tid": 0, "ts": base, "cat": "ac2g", "name": "ac2g"}] * draw(st.integers(0, 2))
    events.append({"ph": "X", "cat": "cpu_op", "name": "always#", "pid": 5, "tid": 99, "ts": base, "dur": 1, "args": {}})
    random.Random(draw(st.integers(0, 9))).shuffle(events)
    return events


def as_text(events: list[dict[str, Any]], indent: int | None, plain_text: bool) -> str:
    """JSON with exact times: numbers of µs with three decimals, never through a float."""
    text = json.dumps({"traceEvents": events, "deviceProperties": []}, indent=indent, ensure_ascii=not plain_text)
    pieces = text.split('@"')
    exact = []
    for piece in pieces:
        head, quote, number = piece.rpartition('"@')
        exact.append(f"{head}{int(number) // 1000}.{int(number) % 1000:03d}" if quote and number.isdigit() else piece)
    return "".join(exact)


def as_read(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same events with the times that the text holds."""

    def time(value: Any) -> Any:
        return f"{int(value[1:-1]) // 1000}.{int(value[1:-1]) % 1000:03d}" if isinstance(value, str) and value.startswith("@") else value

    return [{**event, "ts": time(event["ts"]), **({"dur": time(event["dur"])} if "dur" in event else {})} for event in events]


@settings(max_examples=60, deadline=None)
@given(traces(), st.sampled_from([None, 1]), st.booleans(), st.sampled_from([97, 400, 1 << 20]), st.sampled_from([30, 1 << 16]))
def test_random_traces_equal_the_reference(
    events: list[dict[str, Any]], indent: int | None, plain_text: bool, piece: int, window: int
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(chunks, "CHUNK_BYTES", piece),
        mock.patch.object(chunks, "CUT_WINDOW_BYTES", window),
        mock.patch.object(extsort, "RUN_ROWS", 7),
        mock.patch.object(extsort, "SLICE_ROWS", 4),
        mock.patch.object(extsort, "_SAMPLE", 2),
        mock.patch.object(extsort, "_READ_ROWS", 3),
        mock.patch.object(identity, "_CALLS_PER_BUCKET", 3),
        mock.patch.object(identity, "PARTS_PER_GROUP", 3),
    ):
        path = Path(folder) / "trace.json"
        path.write_text(as_text(events, indent, plain_text), encoding="utf-8")
        run = import_traces(ImportRequest((path,), out=Path(folder) / "run", jobs=2))
        read = as_read(events)
        assert json.loads(rows(run, "source")[0]["metadata"])["event_counts"] == reference.counts(read)
        wanted = reference.table_counts(read)
        assert {name: run.read(name).num_rows for name in wanted} == wanted
        host = rows(run, "host_event")
        names = {row["event_id"]: row["name"] for row in host}
        first = min(reference.nanoseconds(event["ts"]) for event in read if event["ph"] == "X" and event["cat"] != "overhead")
        found = {
            row["name"]: (row["ts_ns"] + first, row["dur_ns"], names.get(row["parent_id"]), row["depth"])
            for row in host
            if row["kind"] not in ("overhead", "marker")
        }
        wanted_spans = {span.name: (span.start, span.end - span.start, span.parent, span.depth) for span in reference.nested(read)}
        assert found == wanted_spans
        linked = {row["name"]: names.get(row["launch_id"]) for row in rows(run, "device_event")}
        assert linked == reference.launches(read)
        identities = [row["event_id"] for name in ("host_event", "device_event") for row in rows(run, name)]
        assert sorted(identities) == list(range(len(identities)))
        for row in host:
            original = next(event for event in read if event["name"] == row["name"])
            assert set(json.loads(row["args"])) == set(original["args"])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 30)), max_size=60), st.integers(1, 9))
def test_sorting_in_runs_is_sorting(items: list[tuple[int, int, int]], run_rows: int) -> None:
    import numpy as np

    records = np.zeros(len(items), extsort.KEY)
    for place, (lane, ts, dur) in enumerate(items):
        records[place]["lane"], records[place]["ts"], records[place]["dur"], records[place]["row"] = lane, ts, dur, place
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(extsort, "RUN_ROWS", run_rows),
        mock.patch.object(extsort, "SLICE_ROWS", 4),
        mock.patch.object(extsort, "_SAMPLE", 2),
        mock.patch.object(extsort, "_READ_ROWS", 3),
    ):
        sorter = extsort.RecordSorter(Path(folder) / "runs")
        for start in range(0, len(records), 3):
            sorter.add(records[start : start + 3])
        got = [(int(row["lane"]), int(row["ts"]), -int(row["dur"])) for piece in sorter.slices() for row in piece]
    assert got == sorted((lane, ts, -dur) for lane, ts, dur in items)
