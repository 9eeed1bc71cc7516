"""Views against slow and obvious computations on small inputs, and their headers against their results."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers import build_run
from hypothesis import given, settings
from hypothesis import strategies as st

from traceengine.errors import RuleError
from traceengine.schema import table
from traceengine.sql import open_empty_sandbox, open_sandbox, query
from traceengine.views import load_views

Interval = tuple[int, int]


def ask(sql: str, **tables: str | pa.Table) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        run = build_run(Path(folder) / "run", **tables)
        with open_sandbox(run) as connection:
            result: list[dict[str, Any]] = query(connection, sql).to_pylist()
            return result


def covered(intervals: list[Interval]) -> set[int]:
    """All ns that one of the intervals covers: the slow, obvious union."""
    return {at for start, end in intervals for at in range(start, end)}


@pytest.mark.parametrize("view", load_views(), ids=lambda view: view.name)
def test_header_and_result_agree(view: Any) -> None:
    with open_empty_sandbox() as connection:
        found = query(connection, f"describe {view.name}").to_pylist()
        declared = [(column.name, column.type) for column in view.columns]
        assert [(row["column_name"], row["column_type"].lower()) for row in found] == declared
        assert query(connection, f"from {view.name}").num_rows == 0, "an empty table gives no rows, never zeros"
    for column in view.columns:
        assert column.doc.endswith("."), f"{column.name} needs a sentence"
        assert (column.unit == "ns") == column.name.endswith("_ns")
        assert (column.unit == "share") == column.name.endswith("_share")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ('sentence = "A."', "declares no columns"),
        ('sentence = "A."\n-- need = []', "unknown key 'need'"),
        ('sentence = "A."\n-- needs = ["nothing"]\n-- columns.a = {type = "bigint", doc = "A."}', "needs 'nothing'"),
        ('sentence = "A."\n-- needs = ["v"]\n-- columns.a = {type = "bigint", doc = "A."}', "need each other"),
        ('sentence = "A."\n-- columns.a = {type = "int", doc = "A."}', "unknown type 'int'"),
        ('sentence = "A."\n-- columns.a = {type = "bigint", unit = "s", doc = "A."}', "unknown unit 's'"),
    ],
)
def test_a_bad_view_header_is_named(tmp_path: Path, header: str, message: str) -> None:
    (tmp_path / "v.sql").write_text(f"-- /// view\n-- {header}\n-- ///\nselect 1 as a\n")
    with pytest.raises(RuleError, match=message):
        load_views(tmp_path)


device_events = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.integers(0, 15),
        st.sampled_from(["compute", "comm", "memcpy", "memset"]),
        st.integers(0, 1),
        st.integers(0, 2),
    ),
    max_size=12,
)


def device_table(events: list[tuple[int, int, str, int, int]]) -> pa.Table:
    kinds = {"compute": ("kernel", "gemm"), "comm": ("kernel", "comm"), "memcpy": ("memcpy", "copy"), "memset": ("memset", "other")}
    records = [
        dict.fromkeys(table("device_event").column_names)
        | {"rank": 0, "event_id": number, "device": device, "stream": stream, "ts_ns": ts, "dur_ns": dur, "busy_dur_ns": dur}
        | {"kind": kinds[part][0], "class": kinds[part][1], "name": part}
        for number, (ts, dur, part, device, stream) in enumerate(events)
    ]
    return pa.Table.from_pylist(records, schema=table("device_event").arrow)


@settings(max_examples=25, deadline=None)
@given(device_events)
def test_device_time_and_gap_equal_the_obvious_unions(events: list[tuple[int, int, str, int, int]]) -> None:
    found = {row["device"]: row for row in ask("from device_time", device_event=device_table(events))}
    gaps: dict[int, set[int]] = defaultdict(set)
    for row in ask("from gap", device_event=device_table(events)):
        gaps[row["device"]] |= set(range(row["ts_ns"], row["ts_ns"] + row["dur_ns"]))
    assert set(found) == {event[3] for event in events}
    for device, row in found.items():
        parts = {
            name: covered([(ts, ts + dur) for ts, dur, part, on, _ in events if on == device and part in parts])
            for name, parts in {"compute": ("compute", "memset"), "comm": ("comm",), "memcpy": ("memcpy",)}.items()
        }
        edges = [at for ts, dur, _, on, _ in events if on == device for at in (ts, ts + dur)]
        busy = parts["compute"] | parts["comm"] | parts["memcpy"]
        expected = {
            "span_ns": max(edges) - min(edges),
            "busy_ns": len(busy),
            "compute_ns": len(parts["compute"]),
            "comm_ns": len(parts["comm"]),
            "memcpy_ns": len(parts["memcpy"]),
            "exposed_comm_ns": len(parts["comm"] - parts["compute"]),
            "exposed_memcpy_ns": len(parts["memcpy"] - parts["compute"] - parts["comm"]),
        }
        assert {name: row[name] for name in expected} == expected
        assert gaps[device] == set(range(min(edges), max(edges))) - busy


@settings(max_examples=15, deadline=None)
@given(device_events, st.lists(st.integers(1, 25), min_size=1, max_size=4))
def test_step_device_time_equals_the_obvious_intersection(events: list[tuple[int, int, str, int, int]], lengths: list[int]) -> None:
    starts = [sum(lengths[:number]) for number in range(len(lengths))]
    steps = "step | ts_ns | dur_ns\n" + "\n".join(f"{n} | {start} | {lengths[n]}" for n, start in enumerate(starts))
    rows = ask("from step_device_time", device_event=device_table(events), step=steps)
    assert len(rows) == len(lengths) * len({event[3] for event in events})
    for row in rows:
        window = set(range(starts[row["step"]], starts[row["step"]] + lengths[row["step"]]))
        busy = covered([(ts, ts + dur) for ts, dur, _, on, _ in events if on == row["device"]])
        assert row["wall_busy_ns"] == len(window & busy)
        assert row["wall_idle_ns"] == len(window - busy)
        assert row["launched_busy_ns"] == 0


def test_work_belongs_to_the_step_that_launched_it() -> None:
    rows = ask(
        "from step_device_time",
        step="step | ts_ns | dur_ns | host_ts_ns | host_dur_ns\n0 | 0 | 150 | 0 | 20\n1 | 150 | 100 | 50 | 20",
        host_event="event_id | ts_ns | dur_ns | kind | class\n1 | 10 | 5 | runtime | launch\n2 | 30 | 5 | runtime | launch\n"
        "3 | 60 | 5 | runtime | launch\n4 | 90 | 5 | runtime | launch",
        device_event="event_id | ts_ns | dur_ns | launch_id\n11 | 20 | 80 | 1\n12 | 100 | 50 | 2\n13 | 150 | 90 | 3\n14 | 240 | 10 | 4",
    )
    assert [(row["step"], row["launched_busy_ns"], row["wall_busy_ns"]) for row in rows] == [(0, 130, 130), (1, 90, 100)]


def test_launch_delay_is_never_negative() -> None:
    rows = ask(
        "select event_id, delay_ns, clock_fault_ns from launch order by event_id",
        host_event="event_id | ts_ns | dur_ns | kind\n1 | 1003 | 5 | runtime\n2 | 2010 | 5 | runtime",
        device_event="event_id | ts_ns | dur_ns | launch_id\n11 | 1000 | 20 | 1\n12 | 2050 | 100 | 2\n13 | 3000 | 5 |",
    )
    assert [(row["delay_ns"], row["clock_fault_ns"]) for row in rows] == [(None, 3), (40, None)]


NESTED = """
    event_id | parent_id | depth | ts_ns | dur_ns | kind    | class  | name         | external_id
    1        |           | 0     | 100   | 400    | op      |        | conv2d       | 1
    2        | 1         | 1     | 110   | 380    | op      |        | convolution  | 2
    3        | 2         | 2     | 120   | 360    | op      |        | _convolution | 3
    4        | 3         | 3     | 130   | 340    | op      |        | cudnn        | 4
    5        | 4         | 4     | 200   | 10     | runtime | launch | cudaLaunchKernel | 4
    6        |           | 0     | 600   | 50     | op      |        | to           | 6
    7        | 6         | 1     | 600   | 50     | python  |        | frame        |
    8        | 7         | 2     | 610   | 30     | op      |        | to           | 7
"""


def test_nested_operators_share_no_time() -> None:
    rows = ask(
        "from operator",
        host_event=NESTED,
        device_event="ts_ns | dur_ns | launch_id | external_id\n220 | 500 | 5 | 4\n800 | 30 | | 7\n900 | 5 | |",
    )
    by_name = {row["name"]: row for row in rows}
    figures = ("count", "self_host_ns", "total_host_ns", "self_device_ns", "total_device_ns")
    assert {name: tuple(row[figure] for figure in figures) for name, row in by_name.items()} == {
        "conv2d": (1, 20, 400, 0, 500),
        "convolution": (1, 20, 380, 0, 500),
        "_convolution": (1, 20, 360, 0, 500),
        "cudnn": (1, 340, 340, 500, 500),
        "to": (2, 50, 50, 30, 30),
    }


@st.composite
def call_trees(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Properly nested events of one thread, with ties of starts and ends, and zero durations at the leaves."""
    events: list[dict[str, Any]] = []

    def grow(start: int, end: int, depth: int, parent: int | None) -> None:
        at = start
        while at < end and len(events) < 14 and draw(st.booleans()):
            begin = draw(st.integers(at, end - 1))
            finish = draw(st.integers(begin, end))
            event_id = len(events) + 1
            kind = draw(st.sampled_from(["op", "op", "runtime", "annotation", "python"]))
            events.append(
                {"event_id": event_id, "parent_id": parent, "depth": depth, "ts_ns": begin, "dur_ns": finish - begin, "kind": kind}
                | {"name": draw(st.sampled_from("ab"))}
            )
            if depth < 4:
                grow(begin, finish, depth + 1, event_id)
            at = finish

    grow(0, 60, 0, None)
    return events


@settings(max_examples=30, deadline=None)
@given(call_trees(), st.data())
def test_operator_equals_the_walk_up_the_tree(events: list[dict[str, Any]], data: st.DataObject) -> None:
    by_id = {event["event_id"]: event for event in events}

    def ancestors(event: dict[str, Any]) -> list[dict[str, Any]]:
        chain = []
        while event["parent_id"] is not None:
            event = by_id[event["parent_id"]]
            chain.append(event)
        return chain

    ops = [event for event in events if event["kind"] == "op"]
    calls = [event for event in events if event["kind"] == "runtime"]
    work = [(call, data.draw(st.integers(0, 9))) for call in calls]
    expected: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    for op in ops:
        inner = [other for other in ops if next((up for up in ancestors(other) if up["kind"] == "op"), None) is op]
        own = sum(dur for call, dur in work if next((up for up in ancestors(call) if up["kind"] == "op"), None) is op)
        within = sum(dur for call, dur in work if op in ancestors(call))
        outermost = not any(up["kind"] == "op" and up["name"] == op["name"] for up in ancestors(op))
        row = [1, op["dur_ns"] - sum(other["dur_ns"] for other in inner), op["dur_ns"] * outermost, own, within * outermost]
        expected[op["name"]] = [a + b for a, b in zip(expected[op["name"]], row, strict=True)]

    host = [{**dict.fromkeys(table("host_event").column_names), "rank": 0, "pid": 1, "tid": 1, **event} for event in events]
    device = device_table([(100, dur, "compute", 0, 0) for _, dur in work])
    launches = pa.array([call["event_id"] for call, _ in work], pa.int64())
    device = device.set_column(device.schema.get_field_index("launch_id"), "launch_id", launches)
    rows = ask("from operator", host_event=pa.Table.from_pylist(host, schema=table("host_event").arrow), device_event=device)
    figures = ("count", "self_host_ns", "total_host_ns", "self_device_ns", "total_device_ns")
    assert {row["name"]: [row[figure] for figure in figures] for row in rows} == dict(expected)


def test_self_time_of_host_events() -> None:
    rows = ask(
        "select event_id, child_ns, self_ns from host_self_time order by event_id",
        host_event="event_id | parent_id | ts_ns | dur_ns | kind\n1 | | 0 | 100 | annotation\n"
        "2 | 1 | 10 | 30 | op\n3 | 1 | 50 | 20 | op\n4 | | 200 | | annotation",
    )
    assert [(row["child_ns"], row["self_ns"]) for row in rows] == [(50, 50), (0, 30), (0, 20), (0, None)]


def test_kernel_summary_ranks_by_possible_durations() -> None:
    rows = ask(
        "select name, count, total_ns, max_ns, total_share, overruns from kernel_summary",
        device_event="ts_ns | dur_ns | busy_dur_ns | name\n0 | 1600 | 100 | fmha\n100 | 200 | 200 | gemm\n300 | 100 | 100 | gemm",
    )
    assert rows == [
        {"name": "gemm", "count": 2, "total_ns": 300, "max_ns": 200, "total_share": 0.75, "overruns": 0},
        {"name": "fmha", "count": 1, "total_ns": 100, "max_ns": 100, "total_share": 0.25, "overruns": 1},
    ]


def test_copy_summary_keeps_unknown_sizes_unknown() -> None:
    rows = ask(
        "from copy_summary",
        device_event="ts_ns | dur_ns | kind | copy_kind | src_memory | bytes\n0 | 100 | memcpy | h2d | pinned | 1000\n"
        "0 | 300 | memcpy | h2d | pinned |\n0 | 50 | memcpy | d2h | | \n0 | 9 | kernel | | |",
    )
    figures = ("copy_kind", "src_memory", "count", "bytes", "without_bytes", "total_ns", "bytes_per_s")
    assert [tuple(row[figure] for figure in figures) for row in rows] == [
        ("h2d", "pinned", 2, 1000, 1, 400, 1e10),
        ("d2h", None, 1, None, 1, 50, None),
    ]


def test_thread_busy_counts_work_and_not_labels() -> None:
    rows = ask(
        "from thread_busy",
        thread="pid | tid | name | role\n1 | 1 | loop | main",
        host_event="ts_ns | dur_ns | kind\n0 | 1000 | annotation\n0 | 900 | python\n100 | 50 | op\n"
        "120 | 100 | runtime\n300 | 7 | overhead\n305 | 10 | overhead",
    )
    assert rows == [
        {"rank": 0, "pid": 1, "tid": 1, "name": "loop", "role": "main", "span_ns": 215, "busy_ns": 120, "op_ns": 50, "call_ns": 100}
        | {"os_ns": 0, "overhead_ns": 15}
    ]


def test_coverage_counts_launches_without_their_work() -> None:
    rows = ask(
        "select step, complete, launches, launches_without_device_event, device_events, device_starts, clock_faults from coverage",
        step="step | ts_ns | dur_ns | complete\n0 | 0 | 100 | true\n1 | 100 | 100 | false",
        host_event="event_id | ts_ns | dur_ns | kind | class\n1 | 10 | 5 | runtime | launch\n2 | 20 | 5 | runtime | launch\n"
        "3 | 110 | 5 | runtime | graph_launch\n4 | 500 | 5 | runtime | launch\n5 | 120 | 5 | op |",
        device_event="event_id | ts_ns | dur_ns | launch_id\n11 | 105 | 10 | 1\n12 | 100 | 5 | 3\n13 | 190 | 5 | ",
    )
    assert [tuple(row.values()) for row in rows] == [
        (0, True, 2, 1, 1, 0, 0),
        (1, False, 1, 0, 1, 3, 1),
        (None, None, 1, 1, 0, 0, 0),
    ]


def test_cause_shares_add_up() -> None:
    rows = ask(
        "from cause_share",
        critical_path="rank | ts_ns | dur_ns | cause | state\n0 | 0 | 60 | data_wait | measured\n"
        "0 | 60 | 30 | compute | estimated\n0 | 90 | 10 | compute | measured",
    )
    assert [(row["cause"], row["path_ns"], row["path_share"], row["segments"], row["estimated_ns"]) for row in rows] == [
        ("data_wait", 60, 0.6, 1, 0),
        ("compute", 40, 0.4, 2, 30),
    ]
