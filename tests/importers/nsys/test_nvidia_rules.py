"""What the rules of `nsys analyze` find in real exports, found again in the tables of a run."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from nsys_helpers import ask, import_one, shared

from traceengine.run import Run

CHUNKS = 30
LOW = 0.5
GAP_NS = 1_000_000

# NVIDIA's device time is that of operations. Its rules would add what the profiler took, which these exports do not show on devices.
DEVICE_TIME = """
  with activity as (
    select rank, ts_ns, ts_ns + busy_dur_ns as end_ns from device_event where busy_dur_ns is not null
  )
"""


@pytest.fixture(scope="module", params=("h100_2gpu_1s", "mfu_2gpu_before", "mfu_2gpu_after"))
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    path = shared("traces", "nsys", f"{request.param}.sqlite")
    return path.with_suffix(".nsys_stats"), import_one(path, tmp_path_factory.mktemp("rules") / "run")


def _found(folder: Path, rule: str) -> list[dict[str, str]]:
    with (folder / f"analyze_{rule}.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def _pids(run: Run) -> dict[int, int]:
    return dict(ask(run, "select rank, any_value(pid) from host_event where kind = 'runtime' group by 1"))


def test_synchronising_calls(imported: tuple[Path, Run]) -> None:
    folder, run = imported
    ours = ask(
        run,
        "select dur_ns, ts_ns, pid, tid from host_event where kind = 'runtime'"
        " and regexp_matches(name, '^cuda(Device|Stream)Synchronize') order by all",
    )
    theirs = [tuple(int(row[key]) for key in ("Duration (ns)", "Start (ns)", "PID", "TID")) for row in _found(folder, "cuda_api_sync")]
    assert ours == sorted(theirs)
    assert ours


def test_asynchronous_copies_of_pageable_memory(imported: tuple[Path, Run]) -> None:
    """A copy whose call lies before the capture is not theirs to find; here it has no launch either."""
    folder, run = imported
    ours = ask(
        run,
        "select d.dur_ns, d.ts_ns, h.pid, d.stream from device_event d"
        " join host_event h on h.rank = d.rank and h.event_id = d.launch_id"
        " where d.kind = 'memcpy' and 'pageable' in (d.src_memory, d.dst_memory) and h.name like 'cudaMemcpy%Async%' order by all",
    )
    keys = ("Duration (ns)", "Start (ns)", "PID", "Stream ID")
    assert ours == sorted(tuple(int(row[key]) for key in keys) for row in _found(folder, "cuda_memcpy_async"))
    assert ours


def test_gaps_of_the_device(imported: tuple[Path, Run]) -> None:
    folder, run = imported
    pids = _pids(run)
    gaps = ask(
        run,
        DEVICE_TIME
        + "select rank, ts_ns - until_ns, until_ns from ("
        + " select rank, ts_ns, max(end_ns) over (partition by rank order by ts_ns, end_ns"
        + "   rows between unbounded preceding and 1 preceding) as until_ns from activity)"
        + f" where ts_ns - until_ns >= {GAP_NS}",
    )
    ours = sorted((gap, start, pids[rank]) for rank, gap, start in gaps)
    assert ours == sorted(
        tuple(int(row[key]) for key in ("Duration (ns)", "Start (ns)", "PID")) for row in _found(folder, "gpu_gaps_gap_1")
    )


def test_stretches_of_low_use(imported: tuple[Path, Run]) -> None:
    folder, run = imported
    pids = _pids(run)
    ours = []
    for rank, pid in pids.items():
        spans = ask(run, DEVICE_TIME + f"select ts_ns, end_ns from activity where rank = {rank}")
        ours += [(used, start, pid) for used, start in _low(spans)]
    theirs = [(float(row["In-Use (%)"]), int(row["Start (ns)"]), int(row["PID"])) for row in _found(folder, "gpu_time_util")]
    assert sorted(ours) == sorted(theirs)


def _low(spans: list[tuple[Any, ...]]) -> list[tuple[float, int]]:
    """Use in percent and start of the chunks that are used less than half."""
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    size = -(-(last - first) // CHUNKS)
    found = []
    for number in range(CHUNKS):
        low, high = first + number * size, first + (number + 1) * size
        used = sum(max(0, min(end, high) - max(start, low)) for start, end in spans) / size
        if used < LOW:
            found.append((round(100 * used, 1), low))
    return found
