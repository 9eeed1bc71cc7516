"""Traces of inference servers: the same categories, other ranges, and graph replays instead of launches."""

from __future__ import annotations

from pathlib import Path

from tests.importers.import_helpers import document, issue_codes, kernel, span
from traceengine.analysis import ensure_analysis
from traceengine.importers import ImportRequest, import_traces
from traceengine.run import Run


def _served(folder: Path, name: str, requests: int, ranges: tuple[str, str], **keys: object) -> Run:
    """Requests of an inference server: a range of the scheduler, one of the device's context, a graph launch and its kernels."""
    outer, context = ranges
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": 0, "dur": 10_000},
    ]
    for request in range(requests):
        at, correlation = 1000 * request, 100 + request
        events += [
            span(outer, at, 995, "user_annotation"),
            span("vllm::unified_attention_with_output", at + 10, 40),
            span("cudaGraphLaunch", at + 60, 20, "cuda_runtime", args={"correlation": correlation}),
            span("cudaEventSynchronize", at + 90, 900, "cuda_runtime", args={"correlation": 1000 + request}),
            span(context, at + 80, 990, "gpu_user_annotation", pid=0, tid=7),
            kernel("fmha_v2_flash_attention", at + 80, 300, correlation),
            kernel("cross_device_reduce_1stage", at + 380, 100, correlation),
            kernel("void sglang::topk_softmax", at + 480, 590, correlation),
            {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": at + 5, "args": {"Bytes": 512}},
        ]
    path = folder / name
    path.write_bytes(document(events, **keys))
    return import_traces(ImportRequest((path,), out=folder / "run"))


def test_every_event_is_kept_and_the_verdict_needs_no_steps(tmp_path: Path) -> None:
    run = _served(tmp_path, "host_77.17.pt.trace.json", 8, ("execute_context_1(128)_generation_3(3)", "execute_context_1(128)_generation_3(3)"))
    assert run.read("device_event").num_rows == 24
    assert run.read("device_annotation").num_rows == 8
    assert run.read("memory_event").num_rows == 8
    assert {row["class"] for row in run.read("device_event").to_pylist()} >= {"attention", "comm"}
    assert not {"unknown_category", "unknown_phase", "unlinked_device_event"} & set(issue_codes(run))
    verdict = ensure_analysis(run).answer.leading
    assert verdict.owner == "compute"


def test_the_rank_of_a_tensor_parallel_server(tmp_path: Path) -> None:
    run = _served(tmp_path, "1719.33-TP-3.trace.json", 3, ("forward_decode", "forward_decode"), distributedInfo={"rank": 3, "world_size": 8})
    assert run.manifest.ranks == (3,)
    assert run.read("source").to_pylist()[0]["world_size"] == 8
