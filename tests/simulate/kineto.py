"""Writes an execution as the torch profiler's kineto would have recorded it (Chrome trace, modern schema)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .instructions import COMM_STREAM
from .spec import JobSpec
from .state import DeviceOp, HostRecord, RankState

Event = dict[str, Any]

BASE_UNIX_NS = 1_759_300_074_000_000_000
"""Unix time that `ts` 0 stands for."""
FIRST_TS_NS = 3_923_968_026_000_000
"""Recorded time of the start of the window on a rank with a perfect clock: large, as in real files."""
_CBID = {
    "cudaLaunchKernel": 211,
    "cudaLaunchKernelExC": 430,
    "cudaMemcpyAsync": 41,
    "cudaGraphLaunch": 311,
    "cudaStreamSynchronize": 131,
    "cudaDeviceSynchronize": 165,
    "cudaEventSynchronize": 137,
    "cudaEventRecord": 135,
    "cudaStreamWaitEvent": 147,
    "cudaMalloc": 20,
    "cudaFree": 22,
}
_FINAL_SYNC_AFTER_NS = 150_000
_THREAD_NAMES = {"autograd": "pt_autograd_0", "pin_memory": "pt_data_pin"}
_LABELS_ON_DEVICE = ("ProfilerStep#", "Optimizer.step#", "nccl:")


def to_kineto(spec: JobSpec, state: RankState) -> dict[str, Any]:
    """The trace file of one rank, ready for `json.dump`. Times are µs with ns as decimals."""
    writer = _Writer(spec, state)
    return {
        "schemaVersion": 1,
        "deviceProperties": [_device(state.rank)],
        "cupti_version": 24,
        "cuda_runtime_version": 12060,
        "cuda_driver_version": 12080,
        **({"distributedInfo": _distributed(spec, state.rank)} if writer.world_size > 1 else {}),
        "trace_id": f"{spec.seed:032X}",
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": BASE_UNIX_NS,
        "traceEvents": list(writer.events()),
        "traceName": f"{spec.name}.rank{state.rank}.pt.trace.json",
    }


def world_size(spec: JobSpec) -> int:
    """Ranks that the job says it has: a single simulated rank that communicates is one of two."""
    return max(spec.ranks, 2) if spec.comm is not None else spec.ranks


def _device(rank: int) -> Event:
    return {
        "id": rank,
        "name": "NVIDIA H100 80GB HBM3",
        "totalGlobalMem": 85_028_372_480,
        "computeMajor": 9,
        "computeMinor": 0,
        "maxThreadsPerBlock": 1024,
        "maxThreadsPerMultiprocessor": 2048,
        "regsPerBlock": 65536,
        "warpSize": 32,
        "sharedMemPerBlock": 49152,
        "numSms": 132,
    }


def _distributed(spec: JobSpec, rank: int) -> Event:
    size = world_size(spec)
    group = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": size, "ranks": list(range(size))}
    return {"backend": "nccl", "rank": rank, "world_size": size, "pg_count": 1, "pg_config": [group], "nccl_version": "2.28.9"}


def clock_error_ns(spec: JobSpec, rank: int, true_ns: int) -> int:
    """How much this rank's clock is ahead at a true time since the start of the window."""
    options = spec.trace
    offset_ns = options.clock_offset_ns[rank] if options.clock_offset_ns else 0
    drift_ppb = options.clock_drift_ppb[rank] if options.clock_drift_ppb else 0
    return offset_ns + true_ns * drift_ppb // 1_000_000_000


def recorded_clock(spec: JobSpec, rank: int) -> Callable[[int], int]:
    """From true ns since the start of the window to what this rank's clock reads, in ns."""
    return lambda true_ns: FIRST_TS_NS + true_ns + clock_error_ns(spec, rank, true_ns)


class _Writer:
    def __init__(self, spec: JobSpec, state: RankState) -> None:
        self.spec, self.state, self.options = spec, state, spec.trace
        self.world_size = world_size(spec)
        self.clock = recorded_clock(spec, state.rank)
        self.pid = 4_100 + 10 * state.rank
        self.tids = {name: self.pid + (0 if name == "main" else 100 + index) for index, name in enumerate(state.threads)}
        self.by_external: dict[int, list[DeviceOp]] = {}
        self.python_ids = 0

    def events(self) -> Iterator[Event]:
        yield from self._metadata()
        for op in self.state.ops:
            self.by_external.setdefault(op.external_id, []).append(op)
        for record in self.state.records:
            yield from self._host(record)
        for op in self.state.ops:
            yield from self._device_op(op)
        if self.options.device_annotations:
            yield from self._device_annotations()
        if self.options.final_sync:
            yield from self._final_sync()
        end_us = self._us(self.state.end_ns + 2 * _FINAL_SYNC_AFTER_NS)
        yield {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": end_us}

    # -- small pieces ------------------------------------------------------------------------------------------------

    def _us(self, true_ns: int) -> float:
        return self.clock(true_ns) / 1000

    def _span(self, start_ns: int, end_ns: int) -> Event:
        return {"ts": self._us(start_ns), "dur": (self.clock(end_ns) - self.clock(start_ns)) / 1000}

    def _complete(self, category: str, name: str, pid: int, tid: int, span: Event, args: Event) -> Event:
        return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, **span, "args": args}

    def _metadata(self) -> Iterator[Event]:
        device = self.state.rank
        names = [(self.pid, 0, "process_name", {"name": "python"}), (self.pid, 0, "process_labels", {"labels": "CPU"})]
        names += [(device, 0, "process_name", {"name": "python"}), (device, 0, "process_labels", {"labels": f"GPU {device}"})]
        for thread, tid in self.tids.items():
            if not thread.startswith("loader"):  # workers are processes of their own, and not in the trainer's trace
                names.append((self.pid, tid, "thread_name", {"name": f"thread {tid} ({_THREAD_NAMES.get(thread, 'python')})"}))
        names += [(device, number, "thread_name", {"name": f"stream {number} "}) for number in sorted(self.state.streams)]
        for pid, tid, name, args in names:
            yield {"name": name, "ph": "M", "ts": self._us(0), "pid": pid, "tid": tid, "args": args}

    # -- host --------------------------------------------------------------------------------------------------------

    def _host(self, record: HostRecord) -> Iterator[Event]:
        tid = self.tids[record.thread]
        span = self._span(record.start_ns, record.end_ns)
        if record.category == "cuda_runtime":
            args: Event = {"External id": record.external_id, "cbid": _CBID[record.name], "correlation": record.correlation}
            yield self._complete("cuda_runtime", record.name, self.pid, tid, span, args)
            yield from self._runtime_extras(record)
            return
        if record.category == "python_function":
            self.python_ids += 1
            args = {"Python parent id": None, "Python id": self.python_ids, "Ev Idx": record.external_id}
            yield self._complete(record.category, record.name, self.pid, tid, span, args)
            return
        known: dict[str, Any] = dict(record.args)
        args = {"External id": record.external_id, "Record function id": record.external_id, "Ev Idx": record.external_id}
        args |= {key: known[key] for key in ("Sequence number", "Fwd thread id") if key in known}
        if "elements" in known and self.options.comm_metadata:
            args |= self._comm_args(known)
        yield self._complete(record.category, record.name, self.pid, tid, span, args)
        if "Sequence number" in known and self.options.flows:
            yield from self._forward_backward(record, int(known["Sequence number"]), tid)

    def _forward_backward(self, record: HostRecord, sequence: int, tid: int) -> Iterator[Event]:
        start = {"id": sequence + 1, "pid": self.pid, "tid": tid, "ts": self._us(record.start_ns), "cat": "fwdbwd", "name": "fwdbwd"}
        if record.name.startswith("autograd::engine::"):
            yield {"ph": "f", **start, "bp": "e"}
        elif record.name.startswith("aten::"):
            yield {"ph": "s", **start}

    def _comm_args(self, known: dict[str, Any]) -> Event:
        ranks = list(range(self.world_size))
        args: Event = {
            "Collective name": "allreduce",
            "In msg nelems": known["elements"],
            "Out msg nelems": known["elements"],
            "Group size": self.world_size,
            "dtype": "Float",
            "In split size": "[]",
            "Out split size": "[]",
            "Process Group Name": "0",
            "Process Group Description": "default_pg",
            "Process Group Ranks": str(ranks),
            "Rank": self.state.rank,
            "Global rank start": 0,
            "Global rank stride": 1,
        }
        return args | ({"Seq": known["sequence"]} if self.options.comm_sequence else {})

    def _runtime_extras(self, record: HostRecord) -> Iterator[Event]:
        launched = record.name in ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaGraphLaunch")
        if self.options.flows and launched:
            yield {
                "ph": "s",
                "id": record.correlation,
                "pid": self.pid,
                "tid": self.tids[record.thread],
                "ts": self._us(record.start_ns),
                "cat": "ac2g",
                "name": "ac2g",
            }
        if self.options.queue_full_records and record.room_ns > record.start_ns:
            span = self._span(record.start_ns, record.room_ns)
            yield {"ph": "X", "cat": "overhead", "name": "Command Buffer Full", "pid": -1, "tid": 0, **span}
        if self.options.sync_records:
            yield from self._sync_record(record)

    def _sync_record(self, record: HostRecord) -> Iterator[Event]:
        name = {
            "cudaStreamSynchronize": "Stream Sync",
            "cudaDeviceSynchronize": "Context Sync",
            "cudaEventSynchronize": "Event Sync",
            "cudaStreamWaitEvent": "Stream Wait Event",
        }.get(record.name)
        if name is None:
            return
        stream = record.stream if record.stream is not None else -1
        args: Event = {"cuda_sync_kind": name, "stream": stream, "correlation": record.correlation, "device": self.state.rank, "context": 1}
        if record.event_key is not None:
            _, recorded = self.state.events[record.event_key]
            args |= {
                "wait_on_stream": recorded.stream,
                "wait_on_cuda_event_record_corr_id": recorded.correlation,
                "wait_on_cuda_event_id": list(self.state.events).index(record.event_key) % 97,
            }
        yield self._complete("cuda_sync", name, self.state.rank, stream, self._span(record.start_ns, record.end_ns), args)

    def _final_sync(self) -> Iterator[Event]:
        """The profiler stops with a device synchronise, outside of all steps."""
        main = self.state.threads["main"]
        start_ns = main.now_ns + _FINAL_SYNC_AFTER_NS
        span = self._span(start_ns, max(start_ns, self.state.end_ns) + 12_000)
        args = {"cbid": _CBID["cudaDeviceSynchronize"], "correlation": self.state.next_id + 1}
        yield self._complete("cuda_runtime", "cudaDeviceSynchronize", self.pid, self.tids["main"], span, args)

    # -- device ------------------------------------------------------------------------------------------------------

    def _device_op(self, op: DeviceOp) -> Iterator[Event]:
        start_ns, end_ns = op_span_ns(op)
        stream, device = op.stream.number, self.state.rank
        args: Event = {"External id": op.external_id, "queued": 0, "device": device, "context": 1, "stream": stream}
        args["correlation"] = op.correlation
        if op.work.kind == "kernel":
            args |= {
                "registers per thread": 64,
                "shared memory": 16384,
                "blocks per SM": 3.8,
                "warps per SM": 30.3,
                "grid": [512, 1, 1],
                "block": [256, 1, 1],
                "est. achieved occupancy %": 47,
            }
            if op.graph_node:
                args |= {"graph id": 1, "graph node id": op.graph_node}
        else:
            bandwidth = op.work.bytes / max(1, end_ns - start_ns)
            args |= {"bytes": op.work.bytes, "memory bandwidth (GB/s)": bandwidth}
        if op.work.collective is not None and self.options.comm_metadata:
            step, bucket = op.work.collective.split()
            buckets = self.spec.comm.buckets if self.spec.comm is not None else 1
            args |= self._comm_args({"elements": op.work.bytes // 4, "sequence": int(step) * buckets + int(bucket)})
        category = "kernel" if op.work.kind == "kernel" else "gpu_memcpy"
        yield self._complete(category, op.work.name, device, stream, self._span(start_ns, end_ns), args)
        if self.options.flows:
            flow = {"pid": device, "tid": stream, "ts": self._us(start_ns), "cat": "ac2g", "name": "ac2g", "bp": "e"}
            yield {"ph": "f", "id": op.correlation, **flow}

    def _device_annotations(self) -> Iterator[Event]:
        """Each label's range on a stream: from the first to the last operation launched inside it."""
        ranges: dict[tuple[int, int], tuple[HostRecord, int, int]] = {}
        labels = [record for record in self.state.records if record.name.startswith(_LABELS_ON_DEVICE)]
        for op in self.state.ops:
            launch_ns = op.launch.start_ns
            start_ns, end_ns = op_span_ns(op)
            for label in labels:
                if label.start_ns <= launch_ns < label.end_ns and (op.stream.number == COMM_STREAM) == label.name.startswith("nccl:"):
                    key = (label.external_id, op.stream.number)
                    _, first, last = ranges.get(key, (label, start_ns, end_ns))
                    ranges[key] = (label, min(first, start_ns), max(last, end_ns))
        for (external_id, stream), (label, start_ns, end_ns) in ranges.items():
            span = self._span(start_ns, end_ns)
            yield self._complete("gpu_user_annotation", label.name, self.state.rank, stream, span, {"External id": external_id})


def op_span_ns(op: DeviceOp) -> tuple[int, int]:
    """Start and end of a finished operation; a collective's start is its arrival."""
    assert op.started.time_ns is not None and op.ended.time_ns is not None
    return op.started.time_ns, op.ended.time_ns
