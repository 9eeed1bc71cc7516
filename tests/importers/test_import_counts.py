"""Every event of every stored trace is in a table or counted, as the slow reference reader counts it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.importers import reference
from tests.importers.import_helpers import ImportBytes, document, issue_codes, kernel, rows, shared_folder, span
from traceengine.importers import ImportRequest, import_traces

TRACES = shared_folder() / "traces"
FILES = sorted(path for folder in ("torch", "torch_ranks/nanogpt_h100_8ranks", "truth_cpu") for path in (TRACES / folder).glob("*.json*"))
FILES = [path for path in FILES if path.name != "labels.json"]


@pytest.mark.skipif(not FILES, reason="the shared traces are not here")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_counts_equal_the_reference(tmp_path: Path, path: Path) -> None:
    events = reference.load(path)
    run = import_traces(ImportRequest((path,), out=tmp_path / "run"))
    assert json.loads(rows(run, "source")[0]["metadata"])["event_counts"] == reference.counts(events)
    wanted = reference.table_counts(events)
    assert {name: run.read(name).num_rows for name in wanted} == wanted
    origin = min(reference.nanoseconds(event["ts"]) for event in events if reference.is_host(event) or reference.is_device(event))
    first = min(
        reference.nanoseconds(event["ts"]) for event in events if event.get("ph") == "X" and event.get("cat") not in ("Trace", "overhead")
    )
    shift = 0 if rows(run, "source")[0]["first_ts_ns"] == 0 else rows(run, "source")[0]["first_ts_ns"]
    assert origin <= first
    assert sorted(row["ts_ns"] + first - shift for row in rows(run, "device_event")) == sorted(
        reference.nanoseconds(event["ts"]) for event in events if reference.is_device(event)
    )


def test_private_names_stay_behind(import_bytes: ImportBytes) -> None:
    path = "/home/alice/proj/train.py(3): main;/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py(9): _call"
    events = [
        span("aten::mm", 1, 5, args={"Call stack": path, "kernel_file": "/tmp/torchinductor_alice/ab/x.py"}),
        span("/home/alice/proj/train.py(3): main", 0, 9, "python_function"),
        span("/home/alice/.venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py(700): __next__", 2, 1, "python_function"),
        span("C:\\Users\\alice\\train.py(3): main", 4, 1, "python_function"),
    ]
    keys = {"host_name": "secret-host", "username": "alice", "traceName": "/home/alice/x.json", "trace_id": "AB", "tw_job": "secret"}
    run = import_bytes(document(events, **keys))
    everything = "".join(json.dumps(run.read(name).to_pylist()) for name in ("source", "host_event", "thread", "import_issue"))
    assert "alice" not in everything
    assert "secret" not in everything
    names = {row["name"] for row in rows(run, "host_event")}
    assert "torch/utils/data/dataloader.py(700): __next__" in names
    assert {row["class"] for row in rows(run, "host_event")} >= {"data_wait"}
    args = json.loads(next(row["args"] for row in rows(run, "host_event") if row["name"] == "aten::mm"))
    assert args == {"Call stack": "train.py(3): main;torch/nn/modules/module.py(9): _call", "kernel_file": "x.py"}
    assert json.loads(rows(run, "source")[0]["metadata"])["trace_id"] == "AB"
    assert rows(run, "source")[0]["host"] not in (None, "secret-host")


def test_unknown_kinds_are_counted(import_bytes: ImportBytes) -> None:
    events = [span("a", 0, 1), span("b", 1, 1, "brand_new"), {"ph": "n", "cat": "x", "name": "c", "pid": 1, "tid": 1, "ts": 3, "id": 4}]
    run = import_bytes(document(events))
    assert issue_codes(run)["unknown_category"] == issue_codes(run)["unknown_phase"] == 1
    example = {row["code"]: row["example"] for row in rows(run, "import_issue")}
    assert example["unknown_category"] == "brand_new: b"


@pytest.mark.parametrize(
    ("category", "table", "kind"),
    [
        ("Operator", "host_event", "op"),
        ("cpu_op", "host_event", "op"),
        ("Runtime", "host_event", "runtime"),
        ("cuda_driver", "host_event", "driver"),
        ("xpu_runtime", "host_event", "runtime"),
        ("mtia_runtime", "host_event", "runtime"),
        ("hpu_op", "device_event", "kernel"),
        ("Kernel", "device_event", "kernel"),
        ("Memcpy", "device_event", "memcpy"),
        ("Memset", "device_event", "memset"),
        ("privateuse1_kernel", "device_event", "kernel"),
        ("user_annotation", "host_event", "annotation"),
        ("overhead", "host_event", "overhead"),
        ("Trace", "host_event", "marker"),
        ("python_function", "host_event", "python"),
        ("cuda_runtime", "host_event", "runtime"),
        ("hip_runtime", "host_event", "runtime"),
        ("hpu_runtime", "host_event", "runtime"),
        ("glow_runtime", "host_event", "runtime"),
        ("xpu_driver", "host_event", "driver"),
        ("cpu_instant_event", "host_event", "marker"),
        ("xpu_kernel", "device_event", "kernel"),
        ("xpu_memcpy", "device_event", "memcpy"),
        ("mtia_ccp_events", "device_event", "kernel"),
        ("gpu_memcpy", "device_event", "memcpy"),
        ("gpu_memset", "device_event", "memset"),
    ],
)
def test_spellings(import_bytes: ImportBytes, category: str, table: str, kind: str) -> None:
    run = import_bytes(document([span("first", 0, 1), {**span("x", 5, 1, category), "args": {"device": 0, "stream": 1}}]))
    assert [row["kind"] for row in rows(run, table) if row["name"] == "x"] == [kind]


def test_labels_of_the_device_and_metadata_of_the_file(import_bytes: ImportBytes) -> None:
    label = {**kernel("ProfilerStep#1", 5, 9), "cat": "gpu_user_annotation"}
    device = {"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 80, "numSms": 132}
    info = {"backend": "nccl", "rank": 1, "world_size": 2, "pg_count": 1, "nccl_version": "2.21.5"}
    events = [
        span("a", 0, 1),
        label,
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "ts": 0, "args": {"name": "thread 1 (pt_autograd_0)"}},
        {"ph": "C", "name": "use", "pid": 0, "ts": 3, "args": {"GPU 0": 4.5, "GPU 1": 5}},
        {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "mark", "pid": 1, "tid": 1, "ts": 4, "args": {"n": 1}},
    ]
    run = import_bytes(document(events, deviceProperties=[device], distributedInfo=info, my_key={"vllm": "0.9"}))
    assert [(row["name"], row["dur_ns"]) for row in rows(run, "device_annotation")] == [("ProfilerStep#1", 9000)]
    assert [(row["name"], row["sm_count"], row["memory_bytes"]) for row in rows(run, "device")] == [("NVIDIA H100", 132, 80)]
    source = rows(run, "source")[0]
    kept = json.loads(source["metadata"])
    assert (source["rank"], source["world_size"]) == (1, 2)
    assert kept["distributedInfo"]["nccl_version"] == "2.21.5"
    issue = next(row for row in rows(run, "import_issue") if row["code"] == "metadata_left_out")
    assert (issue["severity"], issue["count"], issue["example"]) == ("info", 1, "my_key")
    assert [row["name"] for row in rows(run, "thread")] == ["thread 1 (pt_autograd_0)"]
    assert sorted(row["value"] for row in rows(run, "counter")) == [4.5, 5]
    assert [row["kind"] for row in rows(run, "host_event") if row["name"] == "mark"] == ["marker"]
    assert kept["event_counts"]["M|None"] == 1


def test_ranges_decide_by_name(import_bytes: ImportBytes) -> None:
    names = {"ProfilerStep#3": "step", "Optimizer.step#SGD.step": "optimizer_step", "gloo:all_reduce": "comm_range", "aten::mm": None}
    run = import_bytes(document([span(name, 10 * place, 5, "Operator") for place, name in enumerate(names)]))
    assert {row["name"]: row["class"] for row in rows(run, "host_event")} == names
    assert [row["kind"] for row in rows(run, "host_event")] == ["annotation"] * 3 + ["op"]


def test_begin_and_end_become_one_event(import_bytes: ImportBytes) -> None:
    def edge(phase: str, name: str, ts: float) -> dict[str, object]:
        return {"ph": phase, "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts}

    events = [
        edge("B", "outer", 1),
        edge("B", "inner", 2),
        edge("E", "inner", 3),
        edge("E", "outer", 9),
        edge("B", "open", 10),
        edge("E", "x", 11),
    ]
    run = import_bytes(document(events))
    host = {row["name"]: row for row in rows(run, "host_event")}
    assert {name: row["dur_ns"] for name, row in host.items()} == {"outer": 8000, "inner": 1000, "open": None}
    assert host["inner"]["parent_id"] == host["outer"]["event_id"]
    assert issue_codes(run)["range_without_end"] == issue_codes(run)["end_without_begin"] == 1
    assert json.loads(rows(run, "source")[0]["metadata"])["event_counts"] == {"B|cpu_op": 3, "E|cpu_op": 3}


def test_sync_records_are_waits(import_bytes: ImportBytes) -> None:
    call = span("cudaStreamSynchronize", 10, 50, "cuda_runtime", args={"correlation": 5})
    wait = {**kernel("Stream Synchronize", 12, 40, 5), "cat": "cuda_sync"}
    wait["args"] |= {"cuda_sync_kind": "Stream Synchronize"}
    event = {**kernel("Stream Wait Event", 3, 1, 6), "cat": "cuda_sync"}
    event["args"] |= {"cuda_sync_kind": "Stream Wait Event", "wait_on_stream": 20, "wait_on_cuda_event_id": 9}
    event["args"] |= {"wait_on_cuda_event_record_corr_id": 2}
    run = import_bytes(document([call, wait, event]))
    assert run.read("device_event").num_rows == 0
    found = {row["kind"]: row for row in rows(run, "stream_wait")}
    assert found["stream_sync"]["call_id"] == rows(run, "host_event")[0]["event_id"]
    assert (found["stream_sync"]["pid"], found["stream_sync"]["tid"]) == (1, 1)
    waited = found["stream_wait_event"]
    assert (waited["stream"], waited["awaited_stream"], waited["awaited_event"], waited["record_correlation_id"]) == (7, 20, 9, 2)
    assert waited["call_id"] is None


def test_collective_is_linked_by_external_id(import_bytes: ImportBytes) -> None:
    args = {
        "External id": 8, "Collective name": "allreduce", "In msg nelems": 100, "Out msg nelems": 100, "dtype": "BFloat16",
        "Group size": 8, "Process Group Name": "0", "Process Group Description": "default_pg", "Seq": 4,
    }  # fmt: skip
    device = kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 20, 50, 3)
    device["args"]["External id"] = 8
    run = import_bytes(document([span("record_param_comms", 1, 5, args=args), device]))
    row = rows(run, "collective")[0]
    assert (row["op"], row["bytes"], row["group_size"], row["sequence"], row["group_desc"]) == ("allreduce", 200, 8, 4, "default_pg")
    assert row["device_event_id"] == rows(run, "device_event")[0]["event_id"]
    assert row["event_id"] == rows(run, "host_event")[0]["event_id"]


def test_device_fields(import_bytes: ImportBytes) -> None:
    device = kernel("k", 1, 5, 3)
    device["args"] |= {
        "grid": [4, 5, 6], "block": [1, 2, 3], "registers per thread": 30, "shared memory": 64, "est. achieved occupancy %": 50,
        "graph id": 7, "graph node id": 8, "context": 1,
    }  # fmt: skip
    copy = {**kernel("Memcpy DtoH (Device -> Pinned)", 9, 5, 4), "cat": "gpu_memcpy"}
    copy["args"]["bytes"] = 77
    run = import_bytes(document([device, copy]))
    row, moved = rows(run, "device_event")
    assert [row[key] for key in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")] == [4, 5, 6, 1, 2, 3]
    assert (row["registers"], row["shared_memory_bytes"], row["occupancy_share"]) == (30, 64, 0.5)
    assert (row["graph_id"], row["graph_node_id"], row["context"]) == (7, 8, 1)
    assert (moved["copy_kind"], moved["src_memory"], moved["dst_memory"], moved["bytes"]) == ("d2h", "device", "pinned", 77)


@pytest.mark.parametrize(
    ("name", "kind", "source", "target"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "h2d", "pageable", "device"),
        ("Memcpy HtoD (Host -> Device)", "h2d", None, "device"),
        ("Memcpy DtoD (Device -> Device)", "d2d", "device", "device"),
        ("Memcpy PtoP (Device -> Device)", "p2p", "device", "device"),
        ("Memcpy HtoA (Pinned -> Array)", "h2d", "pinned", "array"),
        ("CopyHostToDevice", "h2d", None, None),
        ("CopyDeviceToHost", "d2h", None, None),
        ("Memcpy M2D(Memory -> Device)", "h2d", None, "device"),
        ("Memcpy D2M", "d2h", None, None),
        ("something else", None, None, None),
    ],
)
def test_directions_of_copies(import_bytes: ImportBytes, name: str, kind: str | None, source: str | None, target: str | None) -> None:
    run = import_bytes(document([{**kernel(name, 1, 5), "cat": "gpu_memcpy"}]))
    row = rows(run, "device_event")[0]
    assert (row["copy_kind"], row["src_memory"], row["dst_memory"], row["class"]) == (kind, source, target, "copy")


def test_memory_and_flow(import_bytes: ImportBytes) -> None:
    args = {"Total Reserved": 9, "Total Allocated": 8, "Bytes": -4, "Addr": 7, "Device Id": 1, "Device Type": 1}
    memory = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 3, "args": args}
    flows = [
        {"ph": phase, "id": 5, "pid": pid, "tid": tid, "ts": 2, "cat": "ac2g", "name": "ac2g"}
        for phase, pid, tid in (("s", 1, 1), ("f", 0, "stream 7"))
    ]
    run = import_bytes(document([span("a", 0, 9), memory, *flows]))
    row = rows(run, "memory_event")[0]
    assert (row["bytes"], row["allocated_bytes"], row["reserved_bytes"], row["address"], row["device"], row["device_type"]) == (
        -4,
        8,
        9,
        7,
        1,
        "cuda",
    )
    assert sorted((row["phase"], row["flow_id"], row["tid"]) for row in rows(run, "flow")) == [("f", 5, 7), ("s", 5, 1)]
