"""From a job to the instructions of each host thread of one rank."""

from __future__ import annotations

from .costs import Costs
from .instructions import (
    COMM_STREAM,
    COMPUTE_STREAM,
    COPY_STREAM,
    Await,
    Call,
    Close,
    DeviceWork,
    Instruction,
    Launch,
    Open,
    RecordEvent,
    Signal,
    StreamWait,
    Wait,
    Work,
)
from .spec import Cause, JobSpec
from .writer import Args, Writer

GEMM = "ampere_sgemm_128x64_nn"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>"
OPTIMIZER = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::FusedAdamMathFunctor<float, 4, false> >"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
_FORWARD_OPS = (("aten::addmm", GEMM), ("aten::relu", POINTWISE), ("aten::layer_norm", NORM))
_BACKWARD_OPS = (
    ("AddmmBackward0", "aten::mm"),
    ("ReluBackward0", "aten::threshold_backward"),
    ("NativeLayerNormBackward0", "aten::native_layer_norm_backward"),
)

Programs = dict[str, list[Instruction]]


def programs(spec: JobSpec, rank: int, *, by_sight: bool = False) -> Programs:
    """The instructions of every host thread of `rank`, by thread name; the loop's thread is `main`."""
    return _Rank(spec, Costs(spec, rank, by_sight=by_sight), rank).build()


class _Rank(Writer):
    """Writes the programs of one rank, step by step."""

    def __init__(self, spec: JobSpec, costs: Costs, rank: int) -> None:
        super().__init__(spec, costs)
        self.autograd: list[Instruction] = []
        self.threads: Programs = {"main": self.main}
        self.sequence = 0
        late = spec.straggler
        self.late = late if late is not None and late.rank == rank else None

    def build(self) -> Programs:
        if self.spec.model.autograd_thread:
            self.threads["autograd"] = self.autograd
        if self.has_batches() and self.spec.loader is not None and self.spec.loader.workers:
            self.loader_threads(self.spec.loader.workers)
        for step in range(self.spec.steps):
            self.step = step
            with self.event(f"ProfilerStep#{self.step + 1}", "user_annotation"):
                self.one_step()
        return self.threads

    def one_step(self) -> None:
        self.next_batch()
        self.python_gap("after_batch")
        self.copy_in()
        self.late_on_host()
        self.compile_stall()
        if self.spec.model.cuda_graph:
            self.graph()
            self.all_reduce_rest(0)
        else:
            self.forward()
            self.backward()
        self.optimizer()
        self.sync_at_end()
        self.log()
        self.save()
        self.pause()

    # -- input -------------------------------------------------------------------------------------------------------

    def has_batches(self) -> bool:
        return bool(self.batch_ns(0, 1))

    def batch_ns(self, step: int, workers: int) -> int:
        """Decode time of the batch of `step`; lateness of a starved rank counts once per step, hence per worker."""
        total = 0
        if self.spec.loader is not None:
            total += self.costs.ns(f"{step}|batch", self.spec.loader.batch_ns, Cause.DATA_WAIT)
        if self.late is not None and self.late.kind is Cause.DATA_WAIT:
            extra_ns = self.late.extra_ns * workers
            total += self.costs.ns(f"{step}|late batch", extra_ns, Cause.DATA_WAIT, Cause.STRAGGLER)
        return total

    def loader_threads(self, workers: int) -> None:
        loader = self.spec.loader
        assert loader is not None
        ready = "decoded" if loader.pin_thread else "batch"
        for worker in range(workers):
            out: list[Instruction] = []
            for step in range(worker, self.spec.steps, workers):
                before = step - workers * loader.prefetch
                if before >= 0:
                    out.append(Wait(f"taken {before}"))
                out += [Work(self.batch_ns(step, workers), Cause.DATA_WAIT, "decode"), Signal(f"{ready} {step}")]
            self.threads[f"loader {worker}"] = out
        if loader.pin_thread:
            self.threads["pin_memory"] = self.pin_thread(loader.pin_ns)

    def pin_thread(self, pin_ns: int) -> list[Instruction]:
        out: list[Instruction] = []
        for step in range(self.spec.steps):
            ns = self.costs.ns(f"{step}|pin", pin_ns, Cause.DATA_WAIT)
            pinning: list[Instruction] = [Open("aten::pin_memory", "cpu_op"), Work(ns, Cause.DATA_WAIT, "pin"), Close()]
            out += [Wait(f"decoded {step}"), *pinning, Signal(f"batch {step}")]
        return out

    def next_batch(self) -> None:
        if not self.has_batches():
            return
        loader = self.spec.loader
        workers = loader.workers if loader is not None else 0
        kind = "MultiProcessing" if workers else "SingleProcess"
        with self.event(f"enumerate(DataLoader)#_{kind}DataLoaderIter.__next__", "user_annotation"):
            if workers:
                self.out.append(Wait(f"batch {self.step}", Cause.DATA_WAIT, "batch_wait"))
            else:
                self.out.append(Work(self.batch_ns(self.step, 1), Cause.DATA_WAIT, "decode"))
                with self.event("aten::stack"):
                    self.work("stack", 20_000, Cause.DATA_WAIT, "op")
            if loader is not None:
                self.work("collate", loader.collate_ns, Cause.DATA_WAIT, "collate")
        self.out.append(Signal(f"taken {self.step}"))

    def copy_in(self) -> None:
        copy = self.spec.copy
        if copy is None or self.costs.gone(Cause.H2D):
            return
        if copy.prefetch:
            if self.step:
                self.event_call(StreamWait, f"copied {self.step}", COMPUTE_STREAM, Cause.H2D)
            if self.step + 1 < self.spec.steps:
                self.copy_call(COPY_STREAM)
                self.event_call(RecordEvent, f"copied {self.step + 1}", COPY_STREAM, Cause.H2D)
        else:
            self.copy_call(COMPUTE_STREAM)

    def copy_call(self, stream: int) -> None:
        copy = self.spec.copy
        assert copy is not None
        source = "Pinned" if copy.pinned else "Pageable"
        ns = self.ns("copy", copy.copy_ns, Cause.H2D)
        size = ns * copy.bytes_per_us // 1000
        work = DeviceWork("memcpy", f"Memcpy HtoD ({source} -> Device)", ns, self.spec.machine.device_gap_ns, Cause.H2D, size)
        stage_ns = self.ns("stage", copy.call_ns if copy.pinned else copy.stage_ns, Cause.H2D)
        latency_ns = self.spec.machine.launch_latency_ns + (0 if copy.pinned else stage_ns)
        return_ns = self.ns("copy return", self.spec.machine.sync_return_ns, Cause.H2D)
        with self.event("aten::to"), self.event("aten::_to_copy"), self.event("aten::copy_"):
            self.work("copy_", 5_000, Cause.H2D, "op")
            self.out.append(
                Launch("cudaMemcpyAsync", stage_ns, latency_ns, stream, (work,), Cause.H2D, "copy_call", not copy.pinned, return_ns)
            )
            if not copy.pinned:
                self.out.append(Await("cudaStreamSynchronize", return_ns // 2, Cause.H2D, stream=stream))

    # -- forward, backward, optimizer --------------------------------------------------------------------------------

    def late_on_host(self) -> None:
        if self.late is None or self.late.kind is not Cause.HOST_BOUND or self.costs.gone(Cause.HOST_BOUND, Cause.STRAGGLER):
            return
        with self.event("aten::nonzero_static"):
            self.work("late", self.late.extra_ns, Cause.HOST_BOUND, "op", Cause.STRAGGLER)

    def compile_stall(self) -> None:
        stall = self.spec.compile
        if stall is None or self.step not in stall.steps or self.costs.gone(Cause.COMPILE):
            return
        with self.event("_compile.compile_inner (dynamo_timed)"):
            for phase in range(stall.phases):
                with self.event(("bytecode_tracing", "compile_fx_inner", "GraphLowering.compile_to_module")[phase % 3] + " (dynamo_timed)"):
                    self.work(f"compile {phase}", stall.stall_ns // stall.phases, Cause.COMPILE, "compile")

    def forward(self) -> None:
        model, memory = self.spec.model, self.spec.memory
        for layer in range(model.layers):
            if memory is not None and layer < memory.count and not self.costs.gone(Cause.MEMORY):
                with self.event("aten::empty"):
                    self.out.append(Call("cudaMalloc", self.ns(f"malloc {layer}", memory.malloc_ns, Cause.MEMORY), Cause.MEMORY))
            for part in range(model.kernels_per_layer):
                name, kernel = _FORWARD_OPS[part % 3]
                place = f"forward {layer} {part}"
                first = layer == part == 0 and model.forward_ns is not None
                op_ns = model.forward_ns if first and model.forward_ns is not None else model.op_ns
                args = self.sequence_args(layer, part, 0)
                self.op(place, name, self.kernel(place, kernel, model.kernel_ns), op_ns, args)
            self.sync_after(layer)
        if memory is not None and not self.costs.gone(Cause.MEMORY):
            self.out.append(Await("cudaFree", self.ns("free", memory.free_ns, Cause.MEMORY), Cause.MEMORY, "free"))

    def sync_after(self, layer: int) -> None:
        sync, layers = self.spec.sync, self.spec.model.layers
        if sync is None or self.costs.gone(Cause.SYNC):
            return
        if (layer + 1) * sync.per_step // layers > layer * sync.per_step // layers:
            return_ns = self.ns(f"sync {layer}", self.spec.machine.sync_return_ns, Cause.SYNC)
            self.out.append(Await("cudaDeviceSynchronize", return_ns, Cause.SYNC))

    def sync_at_end(self) -> None:
        if self.spec.sync is not None and self.spec.sync.at_end and not self.costs.gone(Cause.SYNC):
            return_ns = self.ns("sync end", self.spec.machine.sync_return_ns, Cause.SYNC)
            self.out.append(Await("cudaDeviceSynchronize", return_ns, Cause.SYNC))

    def backward(self) -> None:
        model = self.spec.model
        if model.autograd_thread:
            self.main.append(Signal(f"backward {self.step}"))
            self.out = self.autograd
            self.out.append(Wait(f"backward {self.step}"))
        started = 0
        for done, layer in enumerate(reversed(range(model.layers)), start=1):
            for part in reversed(range(model.kernels_per_layer)):
                self.backward_op(layer, part)
            started = self.all_reduce_ready(started, done)
        self.all_reduce_rest(started)
        if model.autograd_thread:
            self.out.append(Signal(f"backward done {self.step}"))
            self.out = self.main
            self.out.append(Wait(f"backward done {self.step}"))
        self.python_gap("after_backward")
        self.sequence += model.layers * model.kernels_per_layer

    def sequence_args(self, layer: int, part: int, forward_thread: int) -> Args:
        number = self.sequence + layer * self.spec.model.kernels_per_layer + part
        return (("Sequence number", number), ("Fwd thread id", forward_thread))

    def backward_op(self, layer: int, part: int) -> None:
        model = self.spec.model
        node, name = _BACKWARD_OPS[part % 3]
        place = f"backward {layer} {part}"
        args = self.sequence_args(layer, part, 1)
        with self.event(f"autograd::engine::evaluate_function: {node}", args=args):
            self.work(f"node {place}", 1_500, Cause.HOST_BOUND, "op")
            with self.event(node, args=args):
                kernel = GEMM if part % 3 == 0 else POINTWISE
                self.op(place, name, self.kernel(place, kernel, 2 * model.kernel_ns), model.op_ns)

    def graph(self) -> None:
        """Forward and backward under one `cudaGraphLaunch`."""
        model = self.spec.model
        work: list[DeviceWork] = []
        for layer in range(model.layers):
            for part in range(model.kernels_per_layer):
                place = f"forward {layer} {part}"
                work.append(self.kernel(place, _FORWARD_OPS[part % 3][1], model.kernel_ns))
        for layer in reversed(range(model.layers)):
            for part in reversed(range(model.kernels_per_layer)):
                place = f"backward {layer} {part}"
                work.append(self.kernel(place, GEMM if part % 3 == 0 else POINTWISE, 2 * model.kernel_ns))
        call_ns = self.ns("graph", 4 * model.launch_ns, Cause.HOST_BOUND)
        latency_ns = self.ns("graph latency", 2 * self.spec.machine.launch_latency_ns, Cause.HOST_BOUND)
        with self.event("CUDAGraph::replay"):
            self.work("replay", model.op_ns, Cause.HOST_BOUND, "op")
            self.out.append(Launch("cudaGraphLaunch", call_ns, latency_ns, COMPUTE_STREAM, tuple(work), Cause.HOST_BOUND, graph_id=1))
        self.python_gap("after_graph")

    def all_reduce_ready(self, started: int, layers_done: int) -> int:
        comm = self.spec.comm
        if comm is None or not comm.overlap:
            return 0
        while started < comm.buckets and layers_done * comm.buckets >= (started + 1) * self.spec.model.layers:
            self.all_reduce(started)
            started += 1
        return started

    def all_reduce_rest(self, started: int) -> None:
        """The buckets not yet started; then the compute stream waits for the last of them."""
        comm = self.spec.comm
        if comm is None:
            return
        for bucket in range(started, comm.buckets):
            self.all_reduce(bucket)
        self.event_call(RecordEvent, f"reduced {self.step}", COMM_STREAM, Cause.HOST_BOUND)
        self.event_call(StreamWait, f"reduced {self.step}", COMPUTE_STREAM, Cause.HOST_BOUND)

    def all_reduce(self, bucket: int) -> None:
        comm = self.spec.comm
        assert comm is not None
        place = f"all_reduce {bucket}"
        transfer_ns = 0
        if not self.costs.gone(Cause.EXPOSED_COMM):
            transfer_ns = self.costs.shared_ns(f"{self.step}|{place}", comm.transfer_ns)
        elements = max(1, comm.transfer_ns // 1000) * 25_000
        key = f"{self.step} {bucket}"
        gap_ns = 0 if self.costs.gone(Cause.EXPOSED_COMM) else self.spec.machine.device_gap_ns
        work = DeviceWork("kernel", ALL_REDUCE, transfer_ns, gap_ns, Cause.EXPOSED_COMM, 4 * elements, key)
        half_ns = comm.enqueue_ns // 2
        args = (("elements", elements), ("sequence", self.step * comm.buckets + bucket))
        with self.event("c10d::allreduce_"), self.event("record_param_comms", args=args):
            self.work(f"enqueue {place}", half_ns, Cause.HOST_BOUND, "comm_enqueue")
            self.event_call(RecordEvent, f"ready {key}", COMPUTE_STREAM, Cause.HOST_BOUND)
            self.event_call(StreamWait, f"ready {key}", COMM_STREAM, Cause.HOST_BOUND)
            with self.event("nccl:all_reduce", "user_annotation"):
                call_ns = self.ns(f"launch {place}", self.spec.model.launch_ns, Cause.HOST_BOUND)
                latency_ns = self.ns(f"latency {place}", self.spec.machine.launch_latency_ns, Cause.HOST_BOUND)
                self.work(f"enqueued {place}", half_ns, Cause.HOST_BOUND, "comm_enqueue")
                self.out.append(Launch("cudaLaunchKernelExC", call_ns, latency_ns, COMM_STREAM, (work,), Cause.HOST_BOUND))

    def optimizer(self) -> None:
        model = self.spec.model
        with self.event("Optimizer.step#AdamW.step", "user_annotation"):
            for part in range(model.optimizer_kernels):
                place = f"optimizer {part}"
                self.op(place, "aten::_fused_adamw_", self.kernel(place, OPTIMIZER, model.kernel_ns), model.op_ns)

    # -- what follows the update -------------------------------------------------------------------------------------

    def log(self) -> None:
        logging = self.spec.logging
        if logging is None or (self.step + 1) % logging.every or self.costs.gone(Cause.LOGGING):
            return
        for read in range(logging.reads):
            with self.event("aten::item"), self.event("aten::_local_scalar_dense"):
                self.work(f"item {read}", 4_000, Cause.LOGGING, "op")
                self.to_host(f"item {read}", 1_500, Cause.LOGGING)
        shown = {"range": ("logging", "user_annotation"), "python": ("<built-in function print>", "python_function")}
        self.shown_work("print", logging.print_ns, Cause.LOGGING, shown.get(logging.shown))

    def save(self) -> None:
        checkpoint = self.spec.checkpoint
        if checkpoint is None or (self.step + 1) % checkpoint.every or self.costs.gone(Cause.CHECKPOINT):
            return
        shown = {"range": ("save_checkpoint", "user_annotation"), "python": ("torch/serialization.py(900): save", "python_function")}
        event = shown.get(checkpoint.shown)
        if event is not None:
            self.out.append(Open(*event))
        for tensor in range(checkpoint.tensors):
            with self.event("aten::to"), self.event("aten::copy_"):
                self.work(f"tensor {tensor}", 4_000, Cause.CHECKPOINT, "op")
                self.to_host(f"tensor {tensor}", checkpoint.copy_ns, Cause.CHECKPOINT)
        if event is None:
            self.work("write", checkpoint.write_ns, Cause.HOST_OTHER, "write", Cause.CHECKPOINT)
        else:
            self.work("write", checkpoint.write_ns, Cause.CHECKPOINT, "write")
            self.out.append(Close())

    def pause(self) -> None:
        pause = self.spec.pause
        if pause is not None and (self.step + 1) % pause.every == 0:
            self.work("pause", pause.pause_ns, Cause.HOST_OTHER, "pause")
