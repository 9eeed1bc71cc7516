"""Inputs distilled from bug reports: figures by SQL over tables and views, verdicts by the JSON answer.

Each column of a query is named after a check of the case's expected.json, and is in its unit. Times there are in µs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from acceptance_runs import CASES, Answered, Trace, exposed, invoke, knob, partition_faults, share_faults

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="shared cases are not here")
COMPUTE = ("compute", "healthy")
REAL_WORK = "kind in ('op', 'runtime', 'driver', 'python', 'annotation', 'sync')"


@dataclass(frozen=True)
class Figures:
    """A query with one row. `names` are checks of the case; a column `x__y` answers check `x` for file `y`."""

    sql: str
    files: tuple[str, ...] = ("trace.json",)
    fails: str = ""
    """Why the product cannot answer yet."""


def _us(column: str, name: str) -> str:
    return f"{column} / 1e3 as {name}"


def _union(rows: str) -> str:
    """Time that intervals [a, b) cover, by running maximum; `rows` is a SELECT of columns a and b."""
    return f"""(select sum(greatest(b - greatest(a, coalesce(seen, a)), 0)) from (
        select a, b, max(b) over (order by a, b rows between unbounded preceding and 1 preceding) as seen from ({rows})))"""


def _busy_by_marker(step: int) -> str:
    """Device time between the edges of a step's marker; the step's own wall time also holds the end of its device work."""
    inside = f"""select greatest(device_event.ts_ns, step.host_ts_ns) as a,
        least(device_event.ts_ns + device_event.busy_dur_ns, step.host_ts_ns + step.host_dur_ns) as b
        from device_event, step where step.step = {step}"""
    return f"{_union(f'from ({inside}) where b > a')} / 1e3"


DEVICE_IDLE = "(select sum(wall_idle_ns) / 1e3 from step_device_time) as gpu_idle"
BUSY = "(select busy_ns / 1e3 from device_time) as gpu_busy"
KERNELS = "(select count(*) from device_event where kind = 'kernel') as n_kernels"
LINKED = "(select count(*) from launch) as n_linked"

FIGURES: dict[str, Figures] = {
    "A18": Figures(
        """select count(*) as n_linked, count(clock_fault_ns) as n_negative_launch_delay, -max(clock_fault_ns) / 1e3 as min_raw_delay,
           max(delay_ns) / 1e3 as delay_second_pair from launch"""
    ),
    "A19": Figures(
        f"""select (select sum(count) from import_issue where code like 'lost_device_event%') as n_lost_kernels,
            (select count(*) from device_event where kind = 'kernel') as n_kernels_valid,
            (select span_ns / 1e3 from device_time) as "window", {BUSY},
            (select (span_ns - busy_ns) / 1e3 from device_time) as gpu_idle"""
    ),
    "A21": Figures(
        f"""select (select sum(overruns) from kernel_summary) as n_overrun, (select sum(dur_ns) / 1e3 from device_event) as raw_sum,
            {_union("select ts_ns as a, ts_ns + dur_ns as b from device_event")} / 1e3 as raw_union, busy_ns / 1e3 as repaired_busy
            from device_time"""
    ),
    "A24": Figures(
        f"""select (select parent.name from host_event join host_event as parent on parent.event_id = host_event.parent_id
            where host_event.name = 'aten::addmm') as parent_of_addmm,
            (select parent.name from host_event join host_event as parent on parent.event_id = host_event.parent_id
            where host_event.name = 'aten::linear') as parent_of_linear,
            (select self_ns / 1e3 from host_self_time where name = 'aten::linear') as self_time_linear, {BUSY}""",
        ("shuffled.json",),
    ),
    "A28": Figures(
        """select (select dur_ns / 1e3 from step) as step_time, (select max(busy_ns) from device_time) as gpu_busy,
           (select self_host_ns / 1e3 from operator order by self_host_ns desc limit 1) as cpu_top_op_self"""
    ),
    "A29": Figures(
        """select (select count(*) from step) as n_steps_total, (select count(*) from step where complete) as n_steps_complete,
           (select median(dur_ns) / 1e3 from step where complete) as median_step, (select avg(dur_ns) / 1e3 from step where complete) as mean_step,
           (select count(*) from device_event where kind = 'kernel' and launch_id is null) as unassigned_kernels"""
    ),
    "A30": Figures(f"""select (select count(*) from step) as n_steps, {BUSY}, (select span_ns / 1e3 from device_time) as "window" """),
    "A31": Figures(
        f"select {KERNELS}, {LINKED}, (select count(*) from device_event where launch_id is null) as n_unlinked, {BUSY}",
    ),
    "A32": Figures(
        f"""select {KERNELS}, count(*) as n_linked_kernels, count(distinct launch_id) as n_launch_calls,
            (select sum(dur_ns) / 1e3 from host_event where class = 'graph_launch') as launch_cpu_time, {BUSY},
            (select span_ns / 1e3 from device_time) as graph_span from launch"""
    ),
    "A34": Figures(
        f"""select (select (max(ts_ns + dur_ns) - min(ts_ns)) / 1e3 from critical_path) as "window",
            (select count(*) from host_event where kind = 'op') as n_cpu_ops, {BUSY},
            (select count(distinct pid) from host_event where {REAL_WORK}) + (select count(distinct device) from device_event)
            as n_processes"""
    ),
    "A35": Figures(
        """select (select sum(count) from import_issue where code like '%frame%') as n_overrunning_frames,
           (select dur_ns / 1e3 from host_event where name like '%my_op%' and kind = 'python') as clamped_dur,
           (select self_ns / 1e3 from host_self_time where name like '%: step') as self_time_step,
           (select self_ns / 1e3 from host_self_time where name like '%<module>') as self_time_module"""
    ),
    "A36": Figures(
        f"""select (select count(*) from host_event) as n_slices,
            {_union("select ts_ns as a, ts_ns + dur_ns as b from host_event")} / 1e3 as thread_busy"""
    ),
    "A37": Figures(
        f"""select {KERNELS}, {LINKED}, comm_ns / 1e3 as comm_time, compute_ns / 1e3 as compute_time,
            (select total_ns / 1e3 from copy_summary where copy_kind = 'h2d') as h2d_time from device_time"""
    ),
    "B02": Figures(
        f"""select (comm_ns - exposed_comm_ns) / 1e3 as overlap, exposed_comm_ns / 1e3 as exposed_comm, {BUSY}, {DEVICE_IDLE}
            from device_time"""
    ),
    "B04": Figures(f"""select (select sum(total_ns) / 1e3 from kernel_summary) as kernel_sum, {BUSY},
                       (select wall_busy_share from step_device_time) as gpu_util"""),
    "B06": Figures("select coalesce(sum(dur_ns), 0) / 1e3 as gpu_idle from gap"),
    "B07": Figures(f"select compute_ns / 1e3 as kernel_busy, exposed_memcpy_ns / 1e3 as copy_only, {DEVICE_IDLE} from device_time"),
    "B08": Figures(
        """select (select sum(total_ns) / 1e3 from kernel_summary where class = 'comm') as comm_sum, comm_ns / 1e3 as comm,
           exposed_comm_ns / 1e3 as exposed_comm from device_time"""
    ),
    "B09": Figures(
        "select (comm_ns - exposed_comm_ns) / comm_ns as overlap_ratio, exposed_comm_ns / 1e3 as exposed_comm from device_time"
    ),
    "B10": Figures(
        """select (select coalesce(sum(path_ns), 0) / 1e3 from step_cause where cause = 'data_wait') as data_wait_per_step,
           (select sum(wall_busy_ns) / sum(step_dur_ns) from step_device_time) as gpu_util"""
    ),
    "B12": Figures(
        f"""select (select sum(dur_ns) / 1e3 from host_event where class like 'data_wait%') as data_wait, {DEVICE_IDLE},
            (select sum(exclusive_ns) / 1e3 from step_cause where cause = 'data_wait') as exposed_data_wait"""
    ),
    "B16": Figures(
        """select (select list(launched_busy_ns / 1e3 order by step) from step_device_time) as gpu_time_per_step,
           (select list(host_dur_ns / 1e3 order by step) from step) as cpu_step,
           (select (max(first_ns) - min(first_ns)) / (count(*) - 1) / 1e3 from (select min(ts_ns) as first_ns from launch group by step))
           as gpu_step_period"""
    ),
    "B21": Figures(
        """select count(*) filter (where launches > 0 and device_events = 0) as steps_without_linked_kernel,
           count(*) filter (where not exists (from device_event, step where step.step = coverage.step
           and device_event.ts_ns >= step.host_ts_ns and device_event.ts_ns < step.host_ts_ns + step.host_dur_ns))
           as steps_without_kernel_start,
           sum(launches_without_device_event) as launches_without_kernel,
           (select largest_device_share from rank_fact) as share_of_largest_event from coverage where step is not null"""
    ),
    "B28": Figures(
        """select count(*) filter (where dur_ns > 1000000) as gaps_over_1ms, count(*) as gaps_all,
           sum(dur_ns) filter (where dur_ns > 1000000) / 1e3 as time_in_gaps_over_1ms, sum(dur_ns) / 1e3 as time_in_gaps_all from gap"""
    ),
    "B30": Figures(
        f"""select {_busy_by_marker(0)} as gpu_busy_step0_by_time, {_busy_by_marker(1)} as gpu_busy_step1_by_time,
           (select sum(dur_ns) / 1e3 from critical_path where step = 1 and cause = 'sync') as sync_in_step1"""
    ),
    "B31": Figures(
        """select (select path_ns / 1e3 from step_cause where cause = 'compile' and step = 2) as compile_time_step2,
            (select list(launched_busy_ns / 1e3 order by step) from step_device_time) as gpu_busy_per_step,
            (select median(dur_ns) / 1e3 from steady_step) as median_step,
            (select arg_max(cause, exclusive_ns) from step_cause where step = 2) as verdict_step2,
            (select any_value(cause) from (select step, arg_max(cause, exclusive_ns) as cause from step_cause where step <> 2 group by step))
            as verdict_other"""
    ),
    "B32": Figures(
        f"""select {BUSY}, (select sum(overhead_ns) / 1e3 from thread_busy) as overhead_time,
            (select self_device_ns / 1e3 from operator where name = 'aten::add') as device_time_aten_add,
            (select count(*) from device_time) as n_gpu_devices"""
    ),
    "B34": Figures(
        """select (select median(dur_ns) / 1e3 from step where complete) as median_step, (select avg(dur_ns) / 1e3 from step where complete) as mean_step,
           (select list(step order by step) from step_outlier) as outlier_steps,
           (select any_value(cause) from step_outlier having count(distinct cause) = 1) as verdict_outliers"""
    ),
    "B35": Figures(
        """select sum(self_device_ns) / 1e3 as sum_self_gpu_time, sum(self_host_ns) / 1e3 as sum_self_cpu_time,
           sum(self_device_ns) filter (where name = 'aten::cudnn_convolution') / 1e3 as self_gpu_time_cudnn_convolution,
           sum(total_device_ns) filter (where name = 'aten::conv2d') / 1e3 as inclusive_gpu_time_conv2d from operator"""
    ),
}


def _trace(case: str, *files: str) -> Trace:
    return Trace(tuple(CASES / case / file for file in files or ("trace.json",)))


def _expected(case: str) -> dict[str, Any]:
    return {check["name"]: check for check in json.loads((CASES / case / "expected.json").read_text())["checks"]}


def _figures() -> list[Any]:
    return [pytest.param(_trace(case, *figures.files), figures.sql, id=case) for case, figures in FIGURES.items()]


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if isinstance(value, str) or value is None else float(value)


@pytest.mark.parametrize(("trace", "sql"), _figures())
def test_figures(answered: Answered, trace: Trace, sql: str) -> None:
    checks = _expected(trace.paths[0].parent.name)
    row = answered.row(sql)
    assert row, "a query without a check shows nothing"
    for name, value in row.items():
        wanted = checks[name]["value"]
        if isinstance(wanted, str) or wanted is None or isinstance(wanted, list):
            assert _plain(value) == _plain(wanted), name
        else:
            assert float(value) == pytest.approx(wanted, abs=checks[name].get("tolerance", 1e-9), rel=0), name


# Owners.

OWNERS: dict[str, tuple[str, ...]] = {
    "P01": ("data_wait",),
    "P02": ("h2d",),
    "P03": ("exposed_comm", "straggler"),
    "P04": COMPUTE,
    "P05": COMPUTE,
    "P07": ("exposed_comm", "straggler"),
    "P08": ("data_wait",),
    "B07": ("h2d",),
    "B10": COMPUTE,
    "B11/annotation.json": ("data_wait",),
    "B11/cpu_op.json": ("data_wait",),
    "B16": COMPUTE,
    "B31": ("compile", *COMPUTE),
    "B34": COMPUTE,
}
NOT_OWNERS: dict[str, tuple[str, ...]] = {
    "B06": ("host_bound", "host_other", "data_wait", "sync"),
    "B07": ("data_wait",),
    "B10": ("data_wait",),
    "B12": ("data_wait",),
    "A28": ("data_wait",),
}
def _named(case: str) -> Trace:
    name, _, file = case.partition("/")
    return _trace(name, file or "trace.json")


def _owners(table: dict[str, tuple[str, ...]]) -> list[Any]:
    return [pytest.param(_named(case), names, id=case) for case, names in table.items()]


@pytest.mark.parametrize(("trace", "owner_in"), _owners(OWNERS))
def test_owner(answered: Answered, owner_in: tuple[str, ...]) -> None:
    assert answered.verdict["owner"] in owner_in, exposed(answered)


@pytest.mark.parametrize(("trace", "wrong"), _owners(NOT_OWNERS))
def test_owner_is_not(answered: Answered, wrong: tuple[str, ...]) -> None:
    assert answered.verdict["owner"] not in wrong, exposed(answered)
    assert knob(answered) not in wrong


@pytest.mark.parametrize("trace", [_trace(f"P0{number}") for number in range(1, 9)], ids=str)
def test_hand_made_steps_are_partitioned(answered: Answered) -> None:
    assert partition_faults(answered) == []
    assert share_faults(answered.document) == []
    assert answered.document["window"]["dur_ns"] == 300_000_000


@pytest.mark.parametrize("trace", [_named(case) for case in FIGURES if case not in ("A24",)] + [_trace("A24", "sorted.json")], ids=str)
def test_cases_are_partitioned_and_no_share_passes_one(answered: Answered) -> None:
    assert partition_faults(answered) == []
    assert share_faults(answered.document) == []


# What the cases say in words.


def _codes(answered: Answered) -> set[str]:
    return {note["code"] for note in answered.verdict["unknown"]}


def _issues(answered: Answered) -> dict[str, int]:
    return {issue["code"]: issue["count"] for issue in answered.document["import_issues"]}


def _p06(answered: Answered) -> None:
    """30 ms of forward and 60 ms of backward in another thread, three times: neither is lost."""
    spent = answered.row(
        """select sum(dur_ns) filter (where resource = 'host:100/100' and detail = 'aten::mm') as forward_ns,
           sum(dur_ns) filter (where resource = 'host:100/200') as backward_ns from critical_path"""
    )
    assert 0.99 * 3 * 30e6 <= spent["forward_ns"] <= 3 * 31e6
    assert 0.99 * 3 * 12 * 4.95e6 <= spent["backward_ns"] <= 3 * 62e6, "with the pauses between its operators, 60 to 61 ms a step"


def _a18(answered: Answered) -> None:
    assert "device_before_launch" in _issues(answered)
    assert answered.row("select min(delay_ns) as least from launch")["least"] >= 0


def _a19(answered: Answered) -> None:
    window = answered.document["window"]["dur_ns"]
    assert window <= 400_000, "from the first launch to the last end; the records at 0 are not in it"


def _a21(answered: Answered) -> None:
    assert _issues(answered)["overrunning_device_event"] == 1
    first = answered.ask("select total_ns, overruns from kernel_summary order by total_ns desc limit 1")[0]
    assert first["total_ns"] <= 500_000


def _a28(answered: Answered) -> None:
    assert "no_device_events" in _codes(answered)
    assert answered.ask("from device_time") == []
    assert "device" not in answered.verdict["sentence"].lower()
    assert answered.verdict["confidence"] != "high"


def _a29(answered: Answered) -> None:
    steps = answered.document["steps"]
    assert (steps["count"], steps["complete"], steps["median_ns"], steps["mean_ns"]) == (4, 3, 1_000_000, 1_000_000)


def _a30(answered: Answered) -> None:
    steps = answered.document["steps"]
    assert (steps["count"], steps["complete"]) == (0, 0)
    assert (steps["median_ns"], steps["p95_ns"], steps["mean_ns"]) == (None, None, None)
    assert "no_steps" in _codes(answered)
    assert "a step" not in answered.verdict["sentence"]
    assert "window" in answered.verdict["sentence"]


def _a31(answered: Answered) -> None:
    assert _issues(answered)["unlinked_device_event"] == 4


def _a34(answered: Answered) -> None:
    assert answered.document["window"]["dur_ns"] == 500_000
    assert answered.document["steps"]["count"] == 0


def _a35(answered: Answered) -> None:
    assert answered.row("select min(self_ns) as least from host_self_time")["least"] >= 0
    assert answered.row("select arg_max(name, self_ns) as name from host_self_time")["name"].endswith("<module>")


def _a36(answered: Answered) -> None:
    assert _issues(answered)["overlapping_slices"] >= 1
    assert answered.row("select min(self_ns) as least from host_self_time")["least"] >= 0


def _b08(answered: Answered) -> None:
    claimed = sum(
        finding["cost_ns"] or 0 for finding in answered.document["findings"] if finding["bottleneck"] in ("exposed_comm", "straggler", "p2p")
    )
    assert claimed <= 300_000


def _b09(answered: Answered) -> None:
    assert [f["status"] for f in answered.document["findings"] if f["bottleneck"] == "exposed_comm"] == ["hit"]


def _b11(answered: Answered) -> None:
    per_step = answered.ask("select step, path_ns from step_cause where cause = 'data_wait' order by step")
    assert [row["path_ns"] for row in per_step] == [600_000] * 4
    assert exposed(answered)["data_wait"] == pytest.approx(0.6, abs=1e-9)
    assert [row["busy"] for row in answered.ask("select launched_busy_ns as busy from step_device_time order by step")] == [300_000] * 4


def _b12(answered: Answered) -> None:
    """60 % of wait on the host; removing it can save no more than the 100 µs in which the device is idle."""
    (wait,) = [cause for cause in answered.document["causes"] if cause["cause"] == "data_wait"]
    assert wait["exclusive_share"] == pytest.approx(0.05, abs=1e-9)
    assert wait["saving_ns"] is None or wait["saving_ns"] <= 100_000


def _b16(answered: Answered) -> None:
    assert answered.ask("from step_outlier") == []
    assert answered.document["steps"]["slowest"] == []


def _b21(answered: Answered) -> None:
    assert answered.verdict["owner"] == "unknown"
    assert "steps_without_device_events" in _codes(answered)
    assert answered.document["experiment"] is None


def _b30(answered: Answered) -> None:
    """The host synchronises from 100 µs before to 300 µs after the end of the last step."""
    for finding in answered.document["findings"]:
        waited = finding["evidence"].get("host_wait_ns")
        assert waited is None or waited * 2 <= 100_000, "time outside the window counts"


def _b31(answered: Answered) -> None:
    assert answered.row("select sum(path_ns) as total from step_cause where cause = 'compile'")["total"] <= 4_000_000
    assert answered.row("select cause from step_outlier where step = 2")["cause"] == "compile"
    others = answered.ask("select step, arg_max(cause, exclusive_ns) as cause from step_cause where step <> 2 group by step")
    assert {row["cause"] for row in others} == {"compute"}
    (slow,) = answered.document["steps"]["slowest"]
    assert (slow["step"], slow["cause"]) == (2, "compile")
    assert answered.verdict["owner"] in ("compile", *COMPUTE)


def _b34(answered: Answered) -> None:
    typical = answered.ask("select cause, step_median_ns from path_cost order by step_median_ns desc")
    assert typical[0]["cause"] == "compute"
    assert {row["cause"]: row["step_median_ns"] for row in typical}["data_wait"] == 50_000


WORDS: dict[str, Callable[[Answered], None]] = {
    "P06": _p06,
    "A18": _a18,
    "A19": _a19,
    "A21": _a21,
    "A28": _a28,
    "A29": _a29,
    "A30": _a30,
    "A31": _a31,
    "A34": _a34,
    "A35": _a35,
    "A36": _a36,
    "B08": _b08,
    "B09": _b09,
    "B11/annotation.json": _b11,
    "B11/cpu_op.json": _b11,
    "B12": _b12,
    "B16": _b16,
    "B21": _b21,
    "B30": _b30,
    "B31": _b31,
    "B34": _b34,
}


def _words() -> list[Any]:
    return [pytest.param(_named(case), check, id=case) for case, check in WORDS.items()]


@pytest.mark.parametrize(("trace", "check"), _words())
def test_what_it_says(answered: Answered, check: Callable[[Answered], None]) -> None:
    check(answered)


@pytest.mark.skipif(not CASES.is_dir(), reason="shared cases are not here")
def test_the_order_of_events_changes_nothing(answers: Callable[[Trace], Answered]) -> None:
    shuffled, in_order = (answers(_trace("A24", file)).document for file in ("shuffled.json", "sorted.json"))
    for document in (shuffled, in_order):
        del document["sources"]
    assert shuffled == in_order


@pytest.mark.parametrize(("trace", "delay_us"), [(_trace("A33", "rank0.json"), 20), (_trace("A33", "rank1.json"), 50)], ids=str)
def test_the_same_correlation_id_in_two_files_links_within_each(answered: Answered, delay_us: int) -> None:
    assert answered.row("select count(*) as pairs, max(delay_ns) / 1e3 as delay_us from launch") == {"pairs": 1, "delay_us": delay_us}


@pytest.mark.parametrize("trace", [_trace("A33", "rank0.json", "rank1.json")], ids=str)
def test_two_ranks_in_one_run_link_within_each_file(answered: Answered) -> None:
    rows = answered.ask("select rank, delay_ns / 1e3 as delay_us from launch order by rank")
    assert rows == [{"rank": 0, "delay_us": 20}, {"rank": 1, "delay_us": 50}]


@pytest.mark.parametrize("trace", [_trace("A33", "merged.json")], ids=str)
def test_the_same_correlation_id_in_a_merged_file_is_flagged_or_right(answered: Answered) -> None:
    delays = sorted(row["delay_ns"] // 1000 for row in answered.ask("select delay_ns from launch"))
    flagged = _issues(answered).get("ambiguous_correlation", 0)
    assert (flagged, delays) in ((1, []), (0, [20, 50]))


@pytest.mark.parametrize("trace", [_trace("P01"), _trace("A30")], ids=str)
def test_the_command_sql_prints_a_list_of_objects(answered: Answered) -> None:
    code, out, _ = invoke(["sql", str(answered.folder), "select rank, busy_ns from device_time", "--format", "json"])
    assert code == 0
    assert json.loads(out) == answered.ask("select rank, busy_ns from device_time")
