"""Views on real and hand-made traces, against independent figures. Skipped without the shared material."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers import SHARED

from traceengine.analysis import ensure_analysis
from traceengine.importers import ImportRequest, import_traces
from traceengine.sql import open_sandbox, query

TRACES, CASES = SHARED / "traces", SHARED / "cases"
pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason="shared traces are not here")
UNIONS = ("span_ns", "busy_ns", "compute_ns", "comm_ns", "memcpy_ns", "exposed_comm_ns", "exposed_memcpy_ns")
TOLERANCE_NS = 100

Ask = Callable[[str], list[dict[str, Any]]]


def _expected() -> list[tuple[Path, dict[str, Any]]]:
    if not (TRACES / "expected.json").is_file():
        return []
    groups = json.loads((TRACES / "expected.json").read_text())
    found = [(TRACES / "torch" / name, entry["devices"]) for name, entry in groups["torch"].items()]
    for folder, files in groups["torch_ranks"].items():
        found += [(TRACES / "torch_ranks" / folder / name, entry["devices"]) for name, entry in files.items()]
    return found


@contextmanager
def opened(paths: tuple[Path, ...], out: Path, *, analysed: bool) -> Iterator[Ask]:
    run = import_traces(ImportRequest(paths, out=out))
    with ensure_analysis(run).connect() if analysed else open_sandbox(run) as connection:
        yield lambda sql: query(connection, sql).to_pylist()


@pytest.mark.parametrize(("path", "devices"), _expected(), ids=lambda value: value.name if isinstance(value, Path) else "")
def test_device_time_equals_the_independent_unions(path: Path, devices: dict[str, Any], tmp_path: Path) -> None:
    with opened((path,), tmp_path / "run", analysed=False) as ask:
        found = {str(row["device"]): row for row in ask("from device_time")}
    assert set(found) == set(devices)
    for device, expected in devices.items():
        for name in UNIONS:
            assert abs(found[device][name] - expected[name]) <= TOLERANCE_NS, (device, name)


def _case(name: str) -> tuple[tuple[Path, ...], dict[str, Any]]:
    folder = CASES / name
    expected = json.loads((folder / "expected.json").read_text())
    return tuple(folder / part for part in expected["input"]), {check["name"]: check["value"] for check in expected["checks"]}


# The columns of each row are named after the checks of the case; times are in us there.
CASE_QUERIES = {
    "A02": """select (select count(*) from host_event where name = 'cudaLaunchKernel') as n_launches,
              sum(launches_without_device_event) as n_launches_without_kernel, sum(device_events) as n_kernels from coverage""",
    "A18": """select count(*) as n_linked, count(clock_fault_ns) as n_negative_launch_delay, -max(clock_fault_ns) // 1000 as min_raw_delay,
              max(delay_ns) // 1000 as delay_second_pair from launch""",
    "A21": """select (select sum(overruns) from kernel_summary) as n_overrun, (select sum(dur_ns) // 1000 from device_event) as raw_sum,
              busy_ns // 1000 as repaired_busy from device_time""",
    "A31": """select (select count(*) from device_event) as n_kernels, (select count(*) from launch) as n_linked,
              busy_ns // 1000 as gpu_busy from device_time""",
    "A32": """select count(*) as n_linked_kernels, count(distinct launch_id) as n_launch_calls,
              sum(distinct launch_dur_ns) // 1000 as launch_cpu_time, (select busy_ns // 1000 from device_time) as gpu_busy,
              (select span_ns // 1000 from device_time) as graph_span from launch""",
    "A52": """select sum(launches_without_device_event) filter (where step = 0) as launches_without_kernel_step0,
              sum(launches_without_device_event) filter (where step = 1) as launches_without_kernel_step1,
              (select wall_busy_ns // 1000 from step_device_time where step = 1) as gpu_busy_step1 from coverage""",
    "B02": """select (comm_ns - exposed_comm_ns) // 1000 as overlap, exposed_comm_ns // 1000 as exposed_comm, busy_ns // 1000 as gpu_busy
              from device_time""",
    "B04": """select (select sum(total_ns) // 1000 from kernel_summary) as kernel_sum, busy_ns // 1000 as gpu_busy from device_time""",
    "B06": """select coalesce(sum(dur_ns), 0) // 1000 as gpu_idle from gap""",
    "B07": """select compute_ns // 1000 as kernel_busy, exposed_memcpy_ns // 1000 as copy_only from device_time""",
    "B08": """select (select sum(total_ns) // 1000 from kernel_summary where class = 'comm') as comm_sum, comm_ns // 1000 as comm,
              exposed_comm_ns // 1000 as exposed_comm from device_time""",
    "B21": """select count(*) filter (where launches > 0 and device_events = 0) as steps_without_linked_kernel,
              sum(launches_without_device_event) as launches_without_kernel from coverage""",
    "B28": """select count(*) filter (where dur_ns > 1000000) as gaps_over_1ms, count(*) as gaps_all,
              sum(dur_ns) filter (where dur_ns > 1000000) // 1000 as time_in_gaps_over_1ms, sum(dur_ns) // 1000 as time_in_gaps_all
              from gap""",
    "B32": """select (select busy_ns // 1000 from device_time) as gpu_busy,
              (select sum(overhead_ns) // 1000 from thread_busy) as overhead_time,
              (select self_device_ns // 1000 from operator where name = 'aten::add') as device_time_aten_add,
              (select count(*) from device_time) as n_gpu_devices""",
    "B35": """select sum(self_device_ns) // 1000 as sum_self_gpu_time, sum(self_host_ns) // 1000 as sum_self_cpu_time,
              sum(self_device_ns) filter (where name = 'aten::cudnn_convolution') // 1000 as self_gpu_time_cudnn_convolution,
              sum(total_device_ns) filter (where name = 'aten::conv2d') // 1000 as inclusive_gpu_time_conv2d from operator""",
}


@pytest.mark.parametrize("name", CASE_QUERIES)
def test_cases_give_their_figures(name: str, tmp_path: Path) -> None:
    paths, expected = _case(name)
    with opened(paths, tmp_path / "run", analysed="step" in CASE_QUERIES[name]) as ask:
        (row,) = ask(CASE_QUERIES[name])
    assert {key: int(value) for key, value in row.items()} == {key: expected[key] for key in row}
