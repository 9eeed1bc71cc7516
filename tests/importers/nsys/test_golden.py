"""Totals of real exports against NVIDIA's own `nsys stats` and independent unions."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from nsys_helpers import SHARED, ask, shared

from traceengine.run import Run

GPU_FILES = ("h100_2gpu_1s", "mfu_2gpu_before", "mfu_2gpu_after")
Totals = Counter[str]


def _stats(name: str, report: str, key: str, *columns: str) -> dict[str, tuple[float, ...]]:
    path = shared("traces", "nsys", f"{name}.nsys_stats", f"stats_{report}.csv")
    sums: dict[str, tuple[float, ...]] = {}
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            label = re.sub(r"_v\d{4,}$", "", row[key])
            values = tuple(float(row[column]) for column in columns)
            sums[label] = tuple(a + b for a, b in zip(sums.get(label, (0.0,) * len(values)), values, strict=True))
    return sums


@pytest.fixture(scope="module", params=GPU_FILES)
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Run]:
    from nsys_helpers import import_one

    path = shared("traces", "nsys", f"{request.param}.sqlite")
    return request.param, import_one(path, tmp_path_factory.mktemp("golden") / "run")


def test_kernels_equal_nsys_stats(imported: tuple[str, Run]) -> None:
    name, run = imported
    mine = {row[0]: row[1:] for row in ask(run, "select name, sum(dur_ns), count(*) from device_event where kind = 'kernel' group by name")}
    assert mine == _stats(name, "cuda_gpu_kern_sum", "Name", "Total Time (ns)", "Instances")


def test_copies_equal_nsys_stats(imported: tuple[str, Run]) -> None:
    name, run = imported
    mine = {
        row[0]: row[1:]
        for row in ask(run, "select name, sum(dur_ns), count(*) from device_event where kind in ('memcpy', 'memset') group by 1")
    }
    assert mine == _stats(name, "cuda_gpu_mem_time_sum", "Operation", "Total Time (ns)", "Count")
    sizes = {
        row[0]: float(row[1])
        for row in ask(run, "select name, round(sum(bytes) / 1e6, 3) from device_event where kind in ('memcpy', 'memset') group by 1")
    }
    told = _stats(name, "cuda_gpu_mem_size_sum", "Operation", "Total (MB)")
    # The report rounds each operation up to 0.001 MB: only sums of large ones can be compared.
    large = {key for key, size in sizes.items() if size > 100}
    assert large
    assert {key: sizes[key] for key in large} == {key: told[key][0] for key in large}


def test_calls_equal_nsys_stats(imported: tuple[str, Run]) -> None:
    name, run = imported
    mine = {
        row[0]: row[1:]
        for row in ask(run, "select name, sum(dur_ns), count(*) from host_event where kind in ('runtime', 'driver') group by 1")
    }
    assert mine == _stats(name, "cuda_api_sum", "Name", "Total Time (ns)", "Num Calls")


def test_ranges_equal_nsys_stats(imported: tuple[str, Run]) -> None:
    name, run = imported
    mine = {
        row[0]: row[1:]
        for row in ask(run, "select name, sum(dur_ns), count(*) from host_event where kind in ('op', 'annotation') group by 1")
    }
    assert mine == _stats(name, "nvtx_sum", "Range", "Total Time (ns)", "Instances")


def test_unions_equal_expected(imported: tuple[str, Run]) -> None:
    name, run = imported
    expected = json.loads(shared("traces", "expected.json").read_text())["nsys"][f"{name}.sqlite"]
    copies = ask(run, "select copy_kind, count(*), sum(dur_ns), sum(bytes) from device_event where kind = 'memcpy' group by 1")
    short = {"Host-to-Device": "h2d", "Device-to-Host": "d2h", "Device-to-Device": "d2d"}
    assert {row[0]: row[1:] for row in copies} == {short[key]: (v["count"], v["ns"], v["bytes"]) for key, v in expected["copies"].items()}
    processes = {
        row[0]: f"{row[1]}:{row[2]}"
        for row in ask(run, "select distinct rank, h.pid, d.device from host_event h join device d using (rank)")
    }
    for rank, key in processes.items():
        assert _unions(run, rank) == expected["devices"][key], key


def _unions(run: Run, rank: int) -> dict[str, int]:
    """The definitions of expected.json, by merging sorted intervals."""
    rows = ask(run, f"select ts_ns, ts_ns + busy_dur_ns, kind, class from device_event where rank = {rank}")
    comm = [(a, b) for a, b, kind, meaning in rows if meaning == "comm"]
    copies = [(a, b) for a, b, kind, meaning in rows if kind == "memcpy"]
    compute = [(a, b) for a, b, kind, meaning in rows if meaning != "comm" and kind != "memcpy"]
    every = [(a, b) for a, b, _, _ in rows]
    return {
        "span_ns": max(b for _, b in every) - min(a for a, _ in every),
        "busy_ns": _length(every),
        "compute_ns": _length(compute),
        "comm_ns": _length(comm),
        "memcpy_ns": _length(copies),
        "exposed_comm_ns": _length(compute + comm) - _length(compute),
        "exposed_memcpy_ns": _length(every) - _length(compute + comm),
    }


def _length(spans: list[tuple[int, int]]) -> int:
    total, until = 0, -(1 << 62)
    for start, end in sorted(spans):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


def test_launches_join_within_their_process(imported: tuple[str, Run]) -> None:
    """Correlation ids repeat across processes: a launch must be of the operation's own rank, before it, and carry its id."""
    _, run = imported
    wrong = ask(
        run,
        "select count(*) from device_event d join host_event h on d.rank = h.rank and d.launch_id = h.event_id "
        "where h.correlation_id <> d.correlation_id or h.ts_ns > d.ts_ns",
    )
    assert wrong == [(0,)]
    assert ask(run, "select count(*) > 0 from device_event where launch_id is not null") == [(True,)]


def test_pinned_copies_are_not_pageable(importer: Callable[..., Run]) -> None:
    run = importer(shared("traces", "nsys", "h100_2gpu_1s.sqlite"))
    rows = ask(run, "select src_memory, sum(bytes) from device_event where copy_kind = 'h2d' group by 1 order by 2 desc")
    assert rows[0][0] == "pinned"
    assert dict(rows)["pageable"] < 10_000 < 50_900_000_000 < rows[0][1]


def test_whole_graphs_are_device_work(importer: Callable[..., Run]) -> None:
    run = importer(shared("traces", "nsys", "graph_trace_only.sqlite"))
    assert ask(run, "select count(*), sum(dur_ns) > 7_800_000_000 from device_event where kind = 'graph'") == [(10, True)]
    assert ask(run, "select kind, count(*) from stream_wait group by 1") == [("context_sync", 2)], "type 0 is resolved by its call"
    assert ask(run, "select count(*) from import_issue where code = 'whole_graphs'") == [(1,)]
    assert ask(run, "select name, sm_count from device") == [("NVIDIA A100-SXM4-80GB", 108)]
    assert ask(run, "select count(*) from device_event where kind = 'graph' and launch_id is null") == [(0,)]


def test_stream_waits_are_no_host_waits(importer: Callable[..., Run]) -> None:
    run = importer(shared("traces", "nsys", "h100_2gpu_1s.sqlite"))
    kinds = dict(ask(run, "select kind, count(*) from stream_wait group by 1"))
    assert kinds == {"stream_wait_event": 236, "stream_sync": 8}
    assert ask(run, "select count(*) from stream_wait where kind = 'stream_wait_event' and tid is not null") == [(0,)]
    assert ask(run, "select count(*) from stream_wait where kind = 'stream_sync' and (tid is null or call_id is null)") == [(0,)]
    assert ask(run, "select rank, device, count(*) from stream_wait group by all order by all") == [(0, 0, 122), (1, 1, 122)], (
        "recorded as device 0 for both"
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("c22_dataloader_fork", {"data_wait": 78, "work": 13, "log": 2, "checkpoint_save": 6}),
        ("c22_logsave_w0", {"data_wait": 46, "work": 11, "log": 14, "checkpoint_save": 26}),
        ("c22_compute_w0", {"data_wait": 29, "work": 43, "log": 0.5, "checkpoint_save": 18}),
        ("c22_worker_nvtx_fork", {"data_wait": 41, "work": 42, "log": 0, "checkpoint_save": 14}),
    ],
)
def test_phase_shares_of_cpu_captures(name: str, expected: dict[str, float], importer: Callable[..., Run]) -> None:
    run = importer(shared("traces", "nsys_cpu", f"{name}.sqlite"))
    sums = dict(ask(run, "select name, sum(dur_ns) from host_event where kind = 'annotation' group by 1"))
    steps = ask(run, "select sum(dur_ns), count(*) from host_event where class = 'step'")[0]
    assert steps[1] == 12
    sums["work"] = sum(sums[part] for part in ("forward", "backward", "optimizer"))
    for phase, percent in expected.items():
        assert 100 * sums.get(phase, 0) / steps[0] == pytest.approx(percent, abs=1.0), phase


def test_two_processes_are_two_ranks(importer: Callable[..., Run]) -> None:
    run = importer(shared("traces", "nsys_cpu", "c22_ddp_gloo.sqlite"))
    assert run.manifest.ranks == (0, 1)
    assert ask(run, "select rank, rank_origin from source order by 1") == [(0, "metadata"), (1, "metadata")]
    straggling = ask(run, "select rank, count(*), median(dur_ns) from host_event where name = 'straggle' group by 1")
    assert straggling[0][:2] == (1, 8)
    assert straggling[0][2] >= 10_000_000, "it sleeps 10 ms, and is traced while it does"
    assert ask(run, "select rank, count(*) from host_event where class = 'step' group by 1 order by 1") == [(0, 8), (1, 8)]
    assert ask(run, "select rank, role from thread where pid = tid order by 1") == [(0, "main"), (1, "main")]


def test_every_shared_export_is_covered() -> None:
    """A new file must be added to a test above."""
    folder = SHARED / "traces" / "nsys"
    if not folder.is_dir():
        pytest.skip("no shared material (TRACEENGINE_SHARED)")
    assert {path.stem for path in Path(folder).glob("*.sqlite")} == {*GPU_FILES, "graph_trace_only"}
