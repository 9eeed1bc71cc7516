"""The pieces that programs are written of: operators with their launch, event calls, blocking copies back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .costs import Costs
from .instructions import COMPUTE_STREAM, Await, Close, DeviceWork, Instruction, Launch, Open, RecordEvent, StreamWait, Work
from .spec import Cause, JobSpec

Args = tuple[tuple[str, object], ...]


class Writer:
    """Appends to `out`, the program of the current thread, at `step`. Costs of a removed cause leave nothing."""

    def __init__(self, spec: JobSpec, costs: Costs) -> None:
        self.spec, self.costs = spec, costs
        self.main: list[Instruction] = []
        self.out = self.main
        self.step = 0

    @contextmanager
    def event(self, name: str, category: str = "cpu_op", args: Args = ()) -> Iterator[None]:
        self.out.append(Open(name, category, args))
        yield
        self.out.append(Close())

    def ns(self, place: str, base_ns: int, cause: Cause, planted: Cause | None = None) -> int:
        return self.costs.ns(f"{self.step}|{place}", base_ns, cause, planted)

    def work(self, place: str, base_ns: int, cause: Cause, detail: str, planted: Cause | None = None) -> None:
        ns = self.ns(place, base_ns, cause, planted)
        if ns:
            self.out.append(Work(ns, cause, detail))

    def python_gap(self, place: str) -> None:
        self.work(f"gap {place}", self.spec.model.gap_ns, Cause.HOST_BOUND, "python_gap")

    def kernel(self, place: str, name: str, base_ns: int) -> DeviceWork:
        ns = self.ns(f"kernel {place}", base_ns, Cause.COMPUTE)
        gap_ns = 0 if self.costs.gone(Cause.COMPUTE) else self.spec.machine.device_gap_ns
        return DeviceWork("kernel", name, ns, gap_ns, Cause.COMPUTE)

    def launch(self, place: str, work: DeviceWork) -> None:
        """`cudaLaunchKernel` of one kernel on the compute stream."""
        call_ns = self.ns(f"launch {place}", self.spec.model.launch_ns, Cause.HOST_BOUND)
        latency_ns = self.ns(f"latency {place}", self.spec.machine.launch_latency_ns, Cause.HOST_BOUND)
        self.out.append(Launch("cudaLaunchKernel", call_ns, latency_ns, COMPUTE_STREAM, (work,), Cause.HOST_BOUND))

    def event_call(self, kind: type[RecordEvent] | type[StreamWait], key: str, stream: int, cause: Cause) -> None:
        ns = self.ns(f"{kind.__name__} {key}", self.spec.machine.call_ns, cause)
        self.out.append(kind(key, stream, ns, cause))

    def op(self, place: str, name: str, work: DeviceWork, op_ns: int, args: Args = ()) -> None:
        """A dispatched operator that launches one kernel; the Python gap after it is the caller's loop."""
        with self.event(name, args=args):
            self.work(f"op {place}", op_ns * 3 // 5, Cause.HOST_BOUND, "op")
            self.launch(place, work)
            self.work(f"op end {place}", op_ns - op_ns * 3 // 5, Cause.HOST_BOUND, "op")
        self.python_gap(place)

    def to_host(self, place: str, copy_ns: int, cause: Cause) -> None:
        """A copy back on the compute stream, and the wait for it."""
        name = "Memcpy DtoH (Device -> Pageable)"
        ns = self.ns(f"d2h {place}", copy_ns, cause)
        work = DeviceWork("memcpy", name, ns, self.spec.machine.device_gap_ns, cause, max(4, copy_ns * 10))
        call_ns = self.ns(f"call {place}", 2 * self.spec.model.launch_ns, cause)
        latency_ns = self.spec.machine.launch_latency_ns
        self.out.append(Launch("cudaMemcpyAsync", call_ns, latency_ns, COMPUTE_STREAM, (work,), cause, "copy_call"))
        return_ns = self.ns(f"return {place}", self.spec.machine.sync_return_ns, cause)
        self.out.append(Await("cudaStreamSynchronize", return_ns, cause, stream=COMPUTE_STREAM))

    def shown_work(self, place: str, ns: int, planted: Cause, event: tuple[str, str] | None) -> None:
        """Host work in a named event, or in none: then a reader can only see a pause."""
        if event is None:
            self.work(place, ns, Cause.HOST_OTHER, place, planted)
        else:
            with self.event(*event):
                self.work(place, ns, planted, place)
