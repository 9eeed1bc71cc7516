"""What single rows of an export become: identities, links, ranks, meanings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from nsys_helpers import META, PID, PROCESS, THREAD, Rows, ask, call, global_ids, kernel, nvtx, tables, write_sqlite

from traceengine.importers.nsys_names import split_suffix
from traceengine.run import Run

Importer = Callable[..., Run]


def _import(importer: Importer, folder: Path, **content: Rows) -> Run:
    return importer(write_sqlite(folder / "t.sqlite", tables(**content)))


def _issues(run: Run) -> dict[str, tuple[int, str]]:
    return {row[0]: row[1:] for row in ask(run, "select code, sum(count)::bigint, min(example) from import_issue group by 1")}


def test_correlation_ids_repeat_across_processes(importer: Importer, tmp_path: Path) -> None:
    other = global_ids(6000)
    run = _import(
        importer,
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(100, 200, 1), kernel(300, 400, 1, globalPid=other)],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(10, 20, 1), call(250, 260, 1, globalTid=other | 6001)],
    )
    assert run.manifest.ranks == (0, 1)
    linked = ask(
        run, "select d.ts_ns, h.ts_ns from device_event d join host_event h on d.rank = h.rank and d.launch_id = h.event_id order by 1"
    )
    assert linked == [(100, 10), (300, 250)]


def test_of_a_runtime_call_and_its_driver_call_the_outer_one_launches(importer: Importer, tmp_path: Path) -> None:
    run = _import(
        importer,
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(100, 200, 1), kernel(300, 400, 2)],
        CUPTI_ACTIVITY_KIND_RUNTIME=[
            call(12, 18, 1, eventClass=1, nameId=3),
            call(10, 20, 1),
            call(30, 40, 2),
            call(50, 60, 2, globalTid=global_ids(PID, 9)),
        ],
        StringIds=[{"id": 3, "value": "cuLaunchKernel"}],
    )
    rows = ask(run, "select d.ts_ns, h.kind, h.name from device_event d left join host_event h on d.launch_id = h.event_id order by 1")
    assert rows == [(100, "runtime", "cudaLaunchKernel"), (300, None, None)], "two threads with one id: unknown, not a guess"
    assert _issues(run)["ambiguous_launch"][0] == 1


def test_a_process_with_two_devices_is_two_ranks(importer: Importer, tmp_path: Path) -> None:
    run = _import(
        importer,
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(100, 200, 1), kernel(100, 300, 2, deviceId=1, contextId=2)],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(10, 20, 1), call(30, 40, 2)],
    )
    assert ask(run, "select rank, device, sum(dur_ns)::bigint from device_event group by all order by 1") == [(0, 0, 100), (1, 1, 200)]
    launches = "select rank, ts_ns from host_event where class = 'launch' order by 1"
    assert ask(run, launches) == [(0, 10), (1, 30)], "a call for the other device is no launch here"
    assert ask(run, "select count(*) from host_event") == [(4,)]


def test_mpi_says_the_ranks(importer: Importer, tmp_path: Path) -> None:
    other = global_ids(6000)
    run = _import(
        importer,
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(100, 200, 1), kernel(300, 400, 1, globalPid=other)],
        MPI_RANKS=[{"globalTid": THREAD, "rank": 5}, {"globalTid": other | 1, "rank": 2}],
    )
    assert ask(run, "select rank, dur_ns, ts_ns from device_event order by 1") == [(2, 100, 300), (5, 100, 100)]
    assert ask(run, "select distinct rank_origin from source") == [("metadata",)]


def test_devices_are_followed_to_the_machine(importer: Importer, tmp_path: Path) -> None:
    other = global_ids(6000)
    run = _import(
        importer,
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(100, 200, 1), kernel(300, 400, 1, globalPid=other)],
        TARGET_INFO_GPU=[
            {"id": n, "name": f"GPU {n}", "uuid": f"u{n}", "cuDevice": n, "smCount": 100 + n, "totalMemory": 7} for n in (0, 1)
        ],
        TARGET_INFO_CUDA_DEVICE=[{"gpuId": 0, "cudaId": 0, "pid": 6000, "uuid": "u0"}, {"gpuId": 1, "cudaId": 0, "pid": PID, "uuid": "u1"}],
    )
    assert ask(run, "select rank, device, name, uuid, sm_count from device order by 1") == [
        (0, 0, "GPU 1", "u1", 101),
        (1, 0, "GPU 0", "u0", 100),
    ]


def test_every_rank_says_device_0_and_nothing_tells_which(importer: Importer, tmp_path: Path) -> None:
    run = _import(
        importer,
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(100, 200, 1), kernel(300, 400, 1, globalPid=global_ids(6000))],
        TARGET_INFO_GPU=[{"id": n, "name": "GPU", "uuid": f"u{n}", "cuDevice": n, "smCount": 100, "totalMemory": 7} for n in (0, 1)],
    )
    assert ask(run, "select name, uuid from device") == [("GPU", None), ("GPU", None)]


def _sync(start: int, end: int, kind: int, correlation: int, **more: Any) -> dict[str, Any]:
    row = {"start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": correlation, "globalPid": PROCESS}
    return {**row, "syncType": kind, "eventId": 4294967295, "eventSyncId": 0, **more}


def test_waits_find_the_record_they_wait_for(importer: Importer, tmp_path: Path) -> None:
    """By synchronisation id where there is one, else by the handle's last record before: handles are used again."""
    events = {"streamId": 7, "globalPid": PROCESS, "deviceId": 0, "contextId": 1}
    run = _import(
        importer,
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(100, 200, 1)],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(i * 10, i * 10 + 5, i) for i in range(1, 8)],
        CUPTI_ACTIVITY_KIND_CUDA_EVENT=[
            {**events, "correlationId": 2, "eventId": 77, "eventSyncId": 501},
            {**events, "correlationId": 4, "eventId": 77, "eventSyncId": 502, "streamId": 9},
            {**events, "correlationId": 3, "eventId": 88, "eventSyncId": None},
        ],
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=[
            _sync(51, 52, 2, 5, eventId=77, eventSyncId=501, streamId=11),
            _sync(61, 62, 1, 6, eventId=88, streamId=4294967295),
            _sync(71, 90, 4, 7, streamId=4294967295),
        ],
    )
    rows = ask(
        run,
        "select kind, stream, awaited_stream, awaited_event, record_correlation_id, tid, call_id is not null "
        "from stream_wait order by ts_ns",
    )
    assert rows == [
        ("stream_wait_event", 11, 7, 77, 2, None, True),
        ("event_sync", None, 7, 88, 3, 5001, True),
        ("context_sync", None, None, None, None, 5001, True),
    ]


def test_nvtx_text_registered_strings_and_domains_per_process(importer: Importer, tmp_path: Path) -> None:
    other = global_ids(6000, 6001)
    run = _import(
        importer,
        tmp_path,
        NVTX_EVENTS=[
            nvtx(0, None, "alpha", eventType=75, domainId=1),
            nvtx(0, None, "beta", eventType=75, domainId=1, globalTid=other),
            nvtx(10, 20, None, textId=3, domainId=1),
            nvtx(10, 20, "plain", domainId=1, globalTid=other),
            nvtx(30, 60, "moved", eventType=60, rangeId=4, endGlobalTid=global_ids(PID, 7)),
            nvtx(35, None, "here", eventType=34),
            nvtx(70, 80, "paid", int64Value=9),
            nvtx(90, 95, "odd", eventType=200),
        ],
        StringIds=[{"id": 3, "value": "registered"}],
    )
    rows = {row[0]: row[1:] for row in ask(run, "select name, kind, dur_ns, args from host_event")}
    assert rows["registered"] == ("annotation", 10, json.dumps({"domain": "alpha"}))
    assert rows["plain"] == ("annotation", 10, json.dumps({"domain": "beta"}))
    assert json.loads(rows["moved"][2]) == {"rangeId": 4, "endTid": 7}
    assert rows["here"][:2] == ("marker", 0)
    assert json.loads(rows["paid"][2]) == {"int64Value": 9}
    assert "odd" not in rows
    assert _issues(run)["unknown_nvtx_type"] == (1, "eventType 200")


def test_ranges_of_tools_are_no_user_ranges(importer: Importer, tmp_path: Path) -> None:
    names = {1: "GIL Trace", 2: "Python Backtrace", 3: "NCCL"}
    domains = [nvtx(0, None, name, eventType=75, domainId=number) for number, name in names.items()]
    run = _import(
        importer,
        tmp_path,
        NVTX_EVENTS=[
            *domains,
            nvtx(0, 100, "step 3"),
            nvtx(10, 50, "Holding GIL", domainId=1),
            nvtx(50, 60, "Waiting for GIL", domainId=1),
            nvtx(20, None, "", eventType=34, domainId=2),
            nvtx(70, 80, "ncclAllReduce", domainId=3),
        ],
    )
    rows = ask(run, "select name, kind, class, depth from host_event order by ts_ns")
    assert rows == [
        ("step 3", "annotation", "step", 0),
        ("Holding GIL", "marker", None, None),
        ("", "marker", None, None),
        ("Waiting for GIL", "os", None, 1),
        ("ncclAllReduce", "op", "comm_op", 1),
    ]


def test_a_collective_knows_the_kernel_launched_in_its_range(importer: Importer, tmp_path: Path) -> None:
    run = _import(
        importer,
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(100, 200, 1, demangledName=3), kernel(300, 400, 2, demangledName=3), kernel(500, 600, 3)],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(12, 14, 1), call(32, 34, 2), call(36, 38, 3)],
        NVTX_EVENTS=[nvtx(10, 20, "ncclAllReduce"), nvtx(30, 40, "ncclSend"), nvtx(50, 60, "ncclRecv"), nvtx(61, 62, "ncclGroupEnd")],
        StringIds=[{"id": 3, "value": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"}],
    )
    rows = ask(run, "select op, d.ts_ns from collective c left join device_event d on c.device_event_id = d.event_id order by c.ts_ns")
    assert rows == [("allreduce", 100), ("send", 300), ("recv", None)]


def test_emit_nvtx_operators_and_their_sequence_numbers(importer: Importer, tmp_path: Path) -> None:
    run = _import(
        importer,
        tmp_path,
        NVTX_EVENTS=[
            nvtx(0, 100, "ProfilerStep#4, op_id = 1"),
            nvtx(10, 60, "aten::item, op_id = 2"),
            nvtx(20, 50, "aten::_local_scalar_dense, seq = 12, op_id = 3, sizes = [[1, 2]]"),
        ],
    )
    rows = ask(run, "select name, kind, class, sequence_id, depth from host_event order by ts_ns")
    assert rows == [
        ("ProfilerStep#4, op_id = 1", "annotation", "step", None, 0),
        ("aten::item, op_id = 2", "op", "scalar_read", None, 1),
        ("aten::_local_scalar_dense, seq = 12, op_id = 3, sizes = [[1, 2]]", "op", "scalar_copy", 12, 2),
    ]


NAME = st.text(st.sampled_from("ab:(), =#1"), max_size=12)
PARTS = st.lists(st.sampled_from([", seq = 12", ", seq = x", ", op_id = 3", ", sizes = [[1, 2], []]", ", input_op_ids = []"]), max_size=3)


@given(st.lists(st.tuples(NAME, PARTS), max_size=12))
def test_suffixes_are_cut_as_one_by_one(texts: list[tuple[str, list[str]]]) -> None:
    whole = [name + "".join(parts) for name, parts in texts]
    bases, recorded, sequences = split_suffix(pa.array(whole, pa.string()))
    expected = []
    for text in whole:
        cut = re.search(r", (?:seq|op_id|sizes|input_op_ids) = ", text)
        number = (
            re.search(r", seq = ([0-9]{1,18})(?=,|$)", text[cut.start() :]) if cut and text[cut.start() :].startswith(", seq") else None
        )
        later = re.search(r", seq = (\d{1,18})(?!\d)", text[cut.start() :]) if cut else None
        expected.append((text[: cut.start()] if cut else text, text if cut else None, {int(m.group(1)) for m in (number, later) if m}))
    for base, kept, sequence, (want, want_kept, want_numbers) in zip(
        bases.to_pylist(), recorded.to_pylist(), sequences.to_pylist(), expected, strict=True
    ):
        assert (base, kept) == (want, want_kept)
        assert sequence is None or sequence in want_numbers


def test_overheads_speak_kinetos_words(importer: Importer, tmp_path: Path) -> None:
    row = {"start": 10, "end": 20, "globalTid": THREAD, "correlationId": 1, "nameId": 3}
    run = _import(
        importer,
        tmp_path,
        NVTX_EVENTS=[nvtx(0, 100, "step 0")],
        CUPTI_ACTIVITY_KIND_OVERHEAD=[{**row, "overheadType": kind} for kind in (2, 6, 7, 8, 3, 1)],
        PROFILER_OVERHEAD=[{"start": 1, "end": 5, "globalTid": THREAD, "nameId": 3}],
        CUPTI_ACTIVITY_KIND_JIT=[{"start": 30, "end": 40, "globalPid": PROCESS, "jitOperationType": 2}],
        StringIds=[{"id": 3, "value": "Something"}],
    )
    causes = dict(ask(run, "select name, class from host_event where kind = 'overhead'"))
    assert causes == {
        "Driver Compiler": "compile_phase",
        "Runtime Triggered Module Loading": "module_load",
        "Lazy Function Loading": "module_load",
        "Command Buffer Full": "queue_full",
        "Buffer Flush": "profiler_cost",
        "Something": None,
        "Nsight: Something": "profiler_cost",
        "CUDA JIT": "compile_phase",
    }


def test_scheduling_gives_the_times_off_the_cpu(importer: Importer, tmp_path: Path) -> None:
    def switch(at: int, into: int, tid: int = THREAD, **more: Any) -> dict[str, Any]:
        return {"start": at, "cpu": 3, "isSchedIn": into, "globalTid": tid, "threadState": 1, "threadBlock": None, **more}

    other = global_ids(PID, 9)
    run = _import(
        importer,
        tmp_path,
        NVTX_EVENTS=[nvtx(0, 100, "step 0")],
        SCHED_EVENTS=[switch(40, 1), switch(10, 0), switch(5, 1), switch(50, 0, other), switch(90, 0), switch(55, 1, other)],
        ENUM_SAMPLING_THREAD_STATE=[{"id": 1, "name": "Blocked", "label": "Blocked"}],
    )
    rows = ask(run, "select tid, ts_ns, dur_ns, depth, args from host_event where kind = 'os' order by 1")
    assert [row[:4] for row in rows] == [(9, 50, 5, 0), (5001, 10, 30, 1)]
    assert json.loads(rows[1][4]) == {"cpu": 3, "threadState": "Blocked"}


def test_samples_are_marks_with_the_innermost_function(importer: Importer, tmp_path: Path) -> None:
    run = _import(
        importer,
        tmp_path,
        NVTX_EVENTS=[nvtx(0, 100, "step 0")],
        COMPOSITE_EVENTS=[
            {"id": 1, "start": 10, "globalTid": THREAD, "cpu": 2, "cpuCycles": 1},
            {"id": 2, "start": 20, "globalTid": THREAD, "cpuCycles": 0},
        ],
        SAMPLING_CALLCHAINS=[{"id": 1, "symbol": 3, "stackDepth": 0}, {"id": 1, "symbol": 4, "stackDepth": 1}],
        StringIds=[{"id": 3, "value": "/usr/lib/inner"}, {"id": 4, "value": "outer"}],
    )
    assert ask(run, "select name, ts_ns, dur_ns from host_event where kind = 'marker'") == [("inner", 10, 0)]


def test_memory_and_counters(importer: Importer, tmp_path: Path) -> None:
    block = {"globalPid": PROCESS, "deviceId": 0, "contextId": 1, "memKind": 2, "memoryOperationType": 0, "name": "pool"}
    run = _import(
        importer,
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(100, 200, 1)],
        CUDA_GPU_MEMORY_USAGE_EVENTS=[
            {**block, "start": 20, "bytes": 50, "address": 2},
            {**block, "start": 10, "bytes": 100, "address": 1},
            {**block, "start": 30, "bytes": 100, "address": 1, "memoryOperationType": 1},
            {**block, "start": 15, "bytes": 7, "address": 5, "memKind": 1},
            {**block, "start": 40, "bytes": 500, "address": 3, "memoryOperationType": 1},
            {**block, "start": 50, "bytes": 500, "address": (1 << 64) - 16},
        ],
        GPU_METRICS=[{"timestamp": 5, "typeId": (7 << 8) | 1, "metricId": 3, "value": 41}],
        TARGET_INFO_GPU_METRICS=[{"typeId": (7 << 8) | 1, "metricId": 3, "metricName": "SMs Active"}],
        NET_NIC_METRIC=[{"start": 6, "end": 7, "globalId": 1, "portId": 2, "metricsListId": 1, "metricsIdx": 4, "value": 8}],
        TARGET_INFO_NETWORK_METRICS=[{"metricsListId": 1, "metricsIdx": 4, "name": "IB: Bytes received"}],
    )
    rows = ask(run, "select ts_ns, device_type, device, address, bytes, allocated_bytes from memory_event order by 1")
    assert rows == [
        (10, "cuda", 0, 1, 100, 100),
        (15, "cpu", None, 5, 7, 7),
        (20, "cuda", 0, 2, 50, 150),
        (30, "cuda", 0, 1, -100, 50),
        (40, "cuda", 0, 3, -500, None),
        (50, "cuda", 0, None, 500, None),
    ], "a release of a block from before the capture: the sum is unknown from there"
    counters = ask(run, "select name, series, pid, ts_ns, value from counter order by 1")
    assert counters == [("IB: Bytes received", "2", None, 6, 8.0), ("SMs Active", "1", 1, 5, 41.0)]


def test_enums_of_the_export_come_first(importer: Importer, tmp_path: Path) -> None:
    copy = {
        "start": 1,
        "end": 2,
        "deviceId": 0,
        "contextId": 1,
        "streamId": 7,
        "correlationId": 1,
        "globalPid": PROCESS,
        "bytes": 8,
        "copyCount": 3,
    }
    run = _import(
        importer,
        tmp_path,
        CUPTI_ACTIVITY_KIND_MEMCPY=[
            {**copy, "copyKind": 1, "srcKind": 0, "dstKind": 2},
            {**copy, "copyKind": 99, "srcKind": 44, "dstKind": 7},
        ],
        ENUM_CUDA_MEM_KIND=[{"id": 44, "name": "CUDA_MEMOPR_MEMORY_KIND_PINNED", "label": "Pinned"}],
        ENUM_CUDA_MEMCPY_OPER=[{"id": 99, "name": "CUDA_MEMCPY_KIND_DTOH", "label": "Device-to-Host"}],
    )
    rows = ask(run, "select copy_kind, src_memory, dst_memory, name, args from device_event order by copy_kind")
    assert rows == [
        ("d2h", "pinned", None, "[CUDA memcpy Device-to-Host]", '{"copyCount":3}'),
        ("h2d", "pageable", "device", "[CUDA memcpy Host-to-Device]", '{"copyCount":3}'),
    ]


def test_filtered_and_shifted_exports(importer: Importer, tmp_path: Path) -> None:
    content = tables(
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(1_100, 1_200, 1)],
        NVTX_EVENTS=[nvtx(1_000, 1_500, "a"), nvtx(1_000, 11_000, "open")],
        ANALYSIS_DETAILS=[{"duration": 10_000}],
        TARGET_INFO_SESSION_START_TIME=[{"utcEpochNs": 5_000_000}],
    )
    content["META_DATA_EXPORT"] = [
        *META,
        {"name": "EXPORT_PARAM_TABLES_TO_EXPORT", "value": "CUPTI*,NVTX*"},
        {"name": "EXPORT_PARAM_TIMES_TO_EXPORT", "value": "1/2"},
        {"name": "EXPORT_PARAM_TIME_SHIFT", "value": "1000"},
    ]
    run = importer(write_sqlite(tmp_path / "t.sqlite", content))
    assert ask(run, "select name, ts_ns, dur_ns from host_event order by dur_ns") == [("a", 0, 500), ("open", 0, None)]
    assert ask(run, "select ts_ns from device_event") == [(100,)]
    assert ask(run, "select origin_unix_ns from source") == [(5_000_000,)]
    assert _issues(run)["filtered_export"][0] == 2


def test_records_that_end_before_they_start_are_counted(importer: Importer, tmp_path: Path) -> None:
    run = _import(
        importer, tmp_path, CUPTI_ACTIVITY_KIND_KERNEL=[kernel(100, 200, 1), kernel(300, 250, 2)], NVTX_EVENTS=[nvtx(50, 10, "r")]
    )
    assert run.read("device_event").num_rows == 1
    assert ask(run, "select dur_ns from host_event") == [(None,)]
    assert _issues(run)["lost_device_event_without_end"][0] == 1


def test_work_before_its_launch_is_told(importer: Importer, tmp_path: Path) -> None:
    run = _import(
        importer,
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(100, 200, 1), kernel(250, 300, 2), kernel(360, 400, 3), kernel(470, 480, 4)],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(120, 130, 1), call(240, 260, 2), call(390, 395, 3), call(470, 475, 4)],
    )
    assert _issues(run)["device_before_launch"] == (2, "-30 ns")
    assert ask(run, "select count(launch_id) from device_event") == [(4,)]


def test_helpers_of_a_single_rank_belong_to_it(importer: Importer, tmp_path: Path) -> None:
    worker = global_ids(7000, 7000)
    run = _import(
        importer,
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(100, 200, 1)],
        NVTX_EVENTS=[nvtx(0, 300, "step 0"), nvtx(10, 20, "getitem", globalTid=worker)],
        PROCESSES=[{"globalPid": PROCESS, "pid": PID, "name": "python"}, {"globalPid": global_ids(7000), "pid": 7000, "name": "python"}],
        ThreadNames=[{"nameId": 3, "globalTid": worker}],
        StringIds=[{"id": 3, "value": "pt_data_worker"}],
    )
    assert ask(run, "select pid, role from thread order by 1") == [(PID, "main"), (7000, "loader")]


def test_cpu_only_workers_with_ranges_are_no_ranks_when_steps_are_marked(importer: Importer, tmp_path: Path) -> None:
    worker = global_ids(7000, 7000)
    run = _import(importer, tmp_path, NVTX_EVENTS=[nvtx(0, 300, "step 0"), nvtx(10, 20, "getitem", globalTid=worker)])
    assert run.manifest.ranks == (0,)
    assert ask(run, "select distinct pid from host_event order by 1") == [(PID,), (7000,)]


def test_an_invalid_name_is_kept_readable_and_told(importer: Importer, tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "t.sqlite", tables(CUPTI_ACTIVITY_KIND_KERNEL=[kernel(1, 2, 1)]))
    import sqlite3

    with sqlite3.connect(path) as database:
        database.execute("update StringIds set value = cast(x'6b65ff72' as text) where id = 2")
    database.close()
    run = importer(path)
    assert ask(run, "select name from device_event") == [("ke�r",)]
    assert _issues(run)["invalid_utf8"] == (1, "ke�r")
