"""From an export to its answer: what the path makes of Nsight's own records, and verdicts of real exports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nsys_helpers import PROCESS, THREAD, ask, call, import_one, kernel, nvtx, shared, tables, write_sqlite

from traceengine.analysis import Analysis, ensure_analysis
from traceengine.run import Run

Importer = Callable[..., Run]
MS = 1_000_000


def _answered(importer: Importer, tmp_path: Path, **content: Any) -> Analysis:
    return ensure_analysis(importer(write_sqlite(tmp_path / "t.sqlite", tables(**content))))


def _path(analysis: Analysis) -> dict[str, int]:
    with analysis.connect() as connection:
        return dict(connection.execute("select cause, sum(dur_ns)::bigint from critical_path group by 1").fetchall())


def test_the_path_follows_an_event_to_the_stream_that_recorded_it(importer: Importer, tmp_path: Path) -> None:
    """The gemm of stream 9 waits for the copy of stream 7, and the event's handle was used before on an idle stream."""
    copy = {"start": 2 * MS, "end": 60 * MS, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 2, "globalPid": PROCESS}
    event = {"globalPid": PROCESS, "deviceId": 0, "contextId": 1, "eventId": 5}
    wait = {"deviceId": 0, "contextId": 1, "globalPid": PROCESS, "streamId": 9, "syncType": 2, "eventId": 5, "eventSyncId": 70}
    launches = [(1, 0.1), (2, 1), (3, 1.2), (4, 1.4), (5, 1.6), (6, 1.8)]
    names = {2: 11, 3: 12, 5: 13, 1: 12, 4: 12}
    analysis = _answered(
        importer,
        tmp_path,
        NVTX_EVENTS=[nvtx(0, 101 * MS, "step 0")],
        CUPTI_ACTIVITY_KIND_RUNTIME=[
            *(call(int(at * MS), int((at + 0.1) * MS), number, nameId=names.get(number, 1)) for number, at in launches),
            call(2 * MS, 100 * MS, 8, nameId=14),
        ],
        CUPTI_ACTIVITY_KIND_MEMCPY=[{**copy, "bytes": 1 << 20, "copyKind": 1, "srcKind": 1, "dstKind": 2}],
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(60 * MS, 100 * MS, 6, streamId=9)],
        CUPTI_ACTIVITY_KIND_CUDA_EVENT=[
            {**event, "correlationId": 1, "streamId": 11, "eventSyncId": 69},
            {**event, "correlationId": 3, "streamId": 7, "eventSyncId": 70},
            {**event, "correlationId": 4, "streamId": 11, "eventSyncId": 71},
        ],
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=[{**wait, "start": int(1.6 * MS), "end": int(1.7 * MS), "correlationId": 5}],
        StringIds=[
            {"id": 11, "value": "cudaMemcpyAsync_v3020"},
            {"id": 12, "value": "cudaEventRecord_v3020"},
            {"id": 13, "value": "cudaStreamWaitEvent_v3020"},
            {"id": 14, "value": "cudaDeviceSynchronize_v3020"},
        ],
    )
    assert ask(analysis.run, "select record_correlation_id, awaited_stream from stream_wait where kind = 'stream_wait_event'") == [(3, 7)]
    path = _path(analysis)
    assert path["h2d"] == 58 * MS + MS // 10, "the copy, and the call that issued it"
    assert path["compute"] == 40 * MS


def test_whole_graphs_are_launched_and_walked(importer: Importer, tmp_path: Path) -> None:
    graph = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": PROCESS, "graphId": 1, "graphExecId": 2}
    analysis = _answered(
        importer,
        tmp_path,
        NVTX_EVENTS=[nvtx(0, 101 * MS, "step 0")],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(MS, 2 * MS, 1, nameId=11), call(2 * MS, 100 * MS, 2, nameId=12, globalTid=THREAD)],
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE=[{**graph, "start": 3 * MS, "end": 100 * MS, "correlationId": 1}],
        StringIds=[{"id": 11, "value": "cudaGraphLaunch_v10000"}, {"id": 12, "value": "cudaDeviceSynchronize_v3020"}],
    )
    launched = ask(analysis.run, "select h.name, h.class from device_event d join host_event h on h.event_id = d.launch_id")
    assert launched == [("cudaGraphLaunch", "graph_launch")]
    assert _path(analysis)["compute"] == 97 * MS


@pytest.mark.parametrize(
    ("parts", "owners"),
    [
        (("nsys", "h100_2gpu_1s.sqlite"), {"h2d"}),
        (("nsys", "mfu_2gpu_before.sqlite"), {"compute"}),
        (("nsys", "mfu_2gpu_after.sqlite"), {"compute"}),
        (("nsys_cpu", "c22_dataloader_fork.sqlite"), {"data_wait"}),
        (("nsys_cpu", "c22_logsave_w0.sqlite"), {"data_wait"}),
    ],
)
def test_verdicts_of_real_exports(parts: tuple[str, str], owners: set[str], tmp_path: Path) -> None:
    analysis = ensure_analysis(import_one(shared("traces", *parts), tmp_path / "run"))
    assert {verdict.owner for verdict in analysis.answer.ranks} == owners
    with analysis.connect() as connection:
        blamed = connection.execute(
            "select count(*) from finding where bottleneck in ('sync', 'host_bound') and status = 'hit' and rule like '%sync%'"
        ).fetchall()
        shares = dict(
            connection.execute("select cause, sum(path_ns) / (select sum(path_ns) from step_cause) from step_cause group by 1").fetchall()
        )
    assert blamed == [(0,)]
    if "logsave" in parts[1]:
        assert shares["checkpoint"] == pytest.approx(0.26, abs=0.01)
        assert shares["logging"] == pytest.approx(0.14, abs=0.01)
