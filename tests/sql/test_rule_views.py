"""Views that rules share: what they say of small, readable tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers import build_run

from traceengine.sql import open_sandbox, query


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Asks a run of three ranks: 0 with a device, 1 with gloo on the host, 2 with enqueueing ranges and no communication kernel."""
    run = build_run(
        Path(tmp_path_factory.mktemp("views")) / "run",
        host_event="""
            rank | event_id | parent_id | ts_ns | dur_ns | kind       | class         | name           | sequence_id | forward_tid | args
            0    | 0        |           | 0     | 100    | op         |               | aten::mm       |             |             | {"Input Dims":[[2,3],[3,4]],"Input type":["float","float"]}
            0    | 1        | 0         | 10    | 5      | runtime    | launch        | cudaLaunch     |             |             |
            0    | 2        |           | 200   | 100    | op         | backward_node | evaluate: Mm   | 7           | 1           |
            0    | 3        | 2         | 210   | 80     | op         |               | MmBackward0    | 7           | 1           |
            0    | 4        | 3         | 220   | 30     | op         |               | aten::linear   | 8           | 0           |
            0    | 5        | 4         | 225   | 20     | op         |               | aten::addmm    | 8           | 0           |
            0    | 6        |           | 400   | 50     | op         |               | aten::linear   | 9           | 0           |
            1    | 0        |           | 5     | 70     | annotation | comm_range    | gloo:all_reduce|             |             |
            2    | 0        |           | 5     | 70     | annotation | comm_range    | nccl:all_reduce|             |             |
        """,
        device_event="""
            rank | event_id | ts_ns | dur_ns | kind   | class | name                       | launch_id | copy_kind | bytes
            0    | 0        | 20    | 40     | kernel | gemm  | sgemm                      | 1         |           |
            0    | 1        | 70    | 60     | kernel | gemm  | sgemm                      |           |           |
            0    | 2        | 140   | 30     | kernel | comm  | ncclDevKernel_SendRecv     |           |           |
            0    | 3        | 180   | 10     | kernel | comm  | ncclDevKernel_Generic      |           |           |
            2    | 0        | 0     | 10     | kernel | gemm  | sgemm                      |           |           |
        """,
        collective="""
            rank | event_id | op   | bytes | group_size | device_event_id
            0    | 9        | recv | 512   | 2          | 2
        """,
        device="rank | device | memory_bytes\n0 | 0 | 1000",
        memory_event="""
            rank | ts_ns | device_type | device | bytes | allocated_bytes | reserved_bytes
            0    | 0     | cuda        | 0      | 100   | 100             | 400
            0    | 1     | cuda        | 0      | 200   | 300             | 400
            0    | 2     | cpu         |        | 900   | 900             | 0
        """,
    )
    with open_sandbox(run) as connection:
        yield lambda sql: query(connection, sql).to_pylist()


def test_runs_of_collectives_with_what_describes_them(ask: Any) -> None:
    found = ask("select rank, side, event_id, op, kind, bytes, group_size, dur_ns from collective_run order by rank, event_id")
    assert [tuple(row.values()) for row in found] == [
        (0, "device", 2, "recv", "send_recv", 512, 2, 30),
        (0, "device", 3, "ncclDevKernel_Generic", None, None, None, 10),
        (1, "host", 0, "gloo:all_reduce", "allreduce", None, None, 70),
    ]


def test_kernel_time_by_operator_and_shapes(ask: Any) -> None:
    found = ask("select class, op, shapes, types, count, total_ns from kernel_op where rank = 0 and class = 'gemm' order by total_ns")
    assert [tuple(row.values()) for row in found] == [
        ("gemm", "aten::mm", "[[2,3],[3,4]]", '["float","float"]', 1, 40),
        ("gemm", None, None, None, 1, 60),
    ]
    assert sum(row["total_share"] for row in ask("select total_share from kernel_op where rank = 0")) == pytest.approx(1)


def test_memory_and_recomputation(ask: Any) -> None:
    full, host_only, _ = ask("from memory_pressure order by rank")
    assert (full["capacity_bytes"], full["peak_allocated_bytes"], full["peak_reserved_bytes"]) == (1000, 300, 400)
    assert full["fragmentation_share"] == pytest.approx(0.25)
    # Of the operators inside the backward node only the outermost forward one counts; the forward pass itself does not.
    assert (full["recompute_ns"], full["recompute_share"]) == (30, pytest.approx(0.3))
    assert {value for name, value in host_only.items() if name != "rank"} == {None}
