"""Runs the programs of all ranks by discrete events, in integer ns.

Rules of the machine:

- A host thread does its instructions one after another. A launch first waits until its stream's queue has room: at
  most `queue_depth` launches of a stream may not have started.
- A device operation starts when the previous one on its stream has ended (plus the device's own gap), the events
  that its stream waits for are done, and its launch has reached the device.
- A collective starts on each rank as any operation does; it ends on all ranks `ns` after the last start.
- A blocking call returns a little after the device work that it waits for.

Every piece of time remembers what it waited for: `before`, and the moment on it. That is the binding dependency, so
the critical path can be read off backwards without a search.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Mapping

from .instructions import Await, Call, Close, Launch, Open, RecordEvent, Signal, StreamWait, Wait, Work
from .program import Programs
from .spec import Cause, JobSpec
from .state import DeviceOp, Future, HostRecord, HostThread, Piece, RankState, Stream


class Simulation:
    """One run of the job. `frozen` gives fixed durations to collectives, for a rank simulated alone."""

    def __init__(self, spec: JobSpec, frozen: Mapping[str, int] | None = None) -> None:
        self.spec, self.frozen = spec, frozen
        self.ranks: dict[int, RankState] = {}
        self.ready: list[tuple[int, int, HostThread]] = []
        self.counter = 0
        self.meeting: dict[str, list[DeviceOp]] = {}

    def add_rank(self, rank: int, programs: Programs, starts_ns: Mapping[str, int]) -> None:
        """Add a rank with its threads; a thread starts at 0 unless `starts_ns` says otherwise."""
        state = self.ranks[rank] = RankState(rank)
        for name, program in programs.items():
            thread = HostThread(name, program, starts_ns.get(name, 0))
            thread.steps = self._thread(state, thread)
            state.threads[name] = thread
            self._wake(thread, thread.now_ns)

    def run(self) -> None:
        """Run to the end. Raises RuntimeError when threads wait for each other for ever."""
        while self.ready:
            time_ns, _, thread = heapq.heappop(self.ready)
            thread.now_ns = max(thread.now_ns, time_ns)
            assert thread.steps is not None
            wanted = next(thread.steps, self)
            if isinstance(wanted, Future):
                if wanted.time_ns is None:
                    wanted.waiters.append(thread)
                else:
                    self._wake(thread, max(thread.now_ns, wanted.time_ns))
            elif wanted is None:
                self._wake(thread, thread.now_ns)
        for state in self.ranks.values():
            self._finish(state)

    def _finish(self, state: RankState) -> None:
        stuck = [thread.name for thread in state.threads.values() if not thread.done]
        if stuck or any(op.piece is None for op in state.ops):
            raise RuntimeError(f"rank {state.rank}: deadlock of {stuck}")
        main = state.threads["main"]
        state.end_ns, state.end_piece = main.now_ns, main.last
        for op in state.ops:
            if op.piece is not None and op.piece.end_ns > state.end_ns:
                state.end_ns, state.end_piece = op.piece.end_ns, op.piece

    def _wake(self, thread: HostThread, time_ns: int) -> None:
        self.counter += 1
        heapq.heappush(self.ready, (time_ns, self.counter, thread))

    def _happen(self, future: Future, time_ns: int, piece: Piece | None) -> None:
        future.time_ns, future.piece = time_ns, piece
        for thread in future.waiters:
            self._wake(thread, max(thread.now_ns, time_ns))
        future.waiters.clear()

    # -- host threads ------------------------------------------------------------------------------------------------

    def _thread(self, state: RankState, thread: HostThread) -> Generator[Future | None, None, None]:
        """Do the program. Yields a Future to wait for, or None to let threads that are behind in time go first."""
        for step in thread.program:
            if isinstance(step, Work):
                self._work(state, thread, thread.now_ns, step.ns, step.cause, step.detail)
            elif isinstance(step, Open):
                record = self._record(state, thread, step.name, step.category)
                record.args = step.args
                thread.open.append(record)
            elif isinstance(step, Close):
                thread.open.pop().end_ns = thread.now_ns
            elif isinstance(step, Launch):
                yield None
                yield from self._launch(state, thread, step)
            elif isinstance(step, Call):
                self._call(state, thread, step.call, step.ns, step.cause)
            elif isinstance(step, (RecordEvent, StreamWait)):
                yield None
                self._event(state, thread, step)
            elif isinstance(step, Await):
                yield None
                yield from self._await(state, thread, step)
            elif isinstance(step, Signal):
                self._happen(state.signal(step.key), thread.now_ns, thread.last)
            else:
                yield from self._wait(state, thread, step)
        thread.done = True

    def _work(self, state: RankState, thread: HostThread, start_ns: int, ns: int, cause: Cause, detail: str) -> Piece:
        """A piece of host work that follows the thread's last piece without a hole, unless the caller rebinds it."""
        piece = Piece(state.rank, thread.name, start_ns, start_ns + ns, cause, detail)
        piece.before = thread.last
        thread.last = piece
        thread.now_ns = piece.end_ns
        return piece

    def _record(self, state: RankState, thread: HostThread, name: str, category: str) -> HostRecord:
        record = HostRecord(thread.name, name, category, thread.now_ns)
        record.external_id = state.new_id()
        if category == "cuda_runtime":
            record.correlation = record.external_id
            record.external_id = thread.open[-1].external_id if thread.open else 0
        state.records.append(record)
        return record

    def _call(self, state: RankState, thread: HostThread, name: str, ns: int, cause: Cause) -> HostRecord:
        record = self._record(state, thread, name, "cuda_runtime")
        self._work(state, thread, thread.now_ns, ns, cause, "call")
        record.end_ns = thread.now_ns
        return record

    def _event(self, state: RankState, thread: HostThread, step: RecordEvent | StreamWait) -> None:
        """Events are kept after the run under the same key, with the last operation that they stand for."""
        stream = state.stream(step.stream)
        name = "cudaEventRecord" if isinstance(step, RecordEvent) else "cudaStreamWaitEvent"
        record = self._call(state, thread, name, step.ns, step.cause)
        record.stream, record.event_key = step.stream, step.key
        if isinstance(step, RecordEvent):
            state.events[step.key] = (stream.ops[-1] if stream.ops else None, record)
            return
        record.waits_for = state.events[step.key][0]
        if record.waits_for is not None:
            stream.waits.append(record.waits_for)

    def _launch(self, state: RankState, thread: HostThread, step: Launch) -> Generator[Future, None, None]:
        record = self._record(state, thread, step.call, "cuda_runtime")
        stream = state.stream(step.stream)
        called_ns, before = thread.now_ns, thread.last
        depth = self.spec.machine.queue_depth
        if len(stream.launches) >= depth:
            oldest = stream.launches[-depth]
            yield oldest.started
            if thread.now_ns > called_ns:
                before = oldest.started.piece
        record.room_ns = thread.now_ns
        piece = self._work(state, thread, thread.now_ns, step.call_ns, step.cause, step.detail)
        piece.before = before
        record.stream = step.stream
        submit_ns = piece.start_ns + step.latency_ns
        for node, work in enumerate(step.work):
            op = self._enqueue(state, stream, DeviceOp(work, stream, piece, submit_ns))
            op.correlation, op.external_id = record.correlation, record.external_id
            op.graph_node = node + 1 if step.graph_id else 0
            if node == 0:
                stream.launches.append(op)
        if step.blocking:
            yield from self._block(state, thread, [stream.ops[-1]], step.return_ns, step.cause, "copy_return")
            record.waits_for = stream.ops[-1]
        record.end_ns = thread.now_ns

    def _await(self, state: RankState, thread: HostThread, step: Await) -> Generator[Future, None, None]:
        record = self._record(state, thread, step.call, "cuda_runtime")
        if step.key is not None:
            awaited = [op] if (op := state.events[step.key][0]) is not None else []
        elif step.stream is not None:
            awaited = state.stream(step.stream).ops[-1:]
        else:
            awaited = [stream.ops[-1] for stream in state.streams.values() if stream.ops]
        yield from self._block(state, thread, awaited, step.return_ns, step.cause, step.detail)
        record.stream, record.event_key = step.stream, step.key
        record.waits_for = awaited[0] if awaited else None
        record.end_ns = thread.now_ns

    def _block(
        self, state: RankState, thread: HostThread, awaited: list[DeviceOp], return_ns: int, cause: Cause, detail: str
    ) -> Generator[Future, None, None]:
        """Wait for all of `awaited`, then return. What ended last after the call began is what the return follows."""
        called_ns, before, latest_ns = thread.now_ns, thread.last, thread.now_ns
        for op in awaited:
            yield op.ended
            assert op.piece is not None
            if op.piece.end_ns > latest_ns:
                latest_ns, before = op.piece.end_ns, op.piece
        assert thread.now_ns == max(called_ns, latest_ns)
        self._work(state, thread, latest_ns, return_ns, cause, detail).before = before

    def _wait(self, state: RankState, thread: HostThread, step: Wait) -> Generator[Future, None, None]:
        future = state.signal(step.key)
        called_ns = thread.now_ns
        yield future
        if thread.now_ns == called_ns:
            return
        if step.cause is None:
            thread.last = future.piece
        else:
            self._work(state, thread, called_ns, thread.now_ns - called_ns, step.cause, step.detail)

    # -- device ------------------------------------------------------------------------------------------------------

    def _enqueue(self, state: RankState, stream: Stream, op: DeviceOp) -> DeviceOp:
        op.after = stream.ops[-1:] + stream.waits
        stream.waits = []
        stream.ops.append(op)
        state.ops.append(op)
        for earlier in op.after:
            if earlier.ended.time_ns is None:
                earlier.dependents.append(op)
                op.missing += 1
        if not op.missing:
            self._start(op)
        return op

    def _start(self, op: DeviceOp) -> None:
        """All that the operation waits for has a known end: place it in time."""
        start_ns, before, gap_ns = op.submit_ns, op.launch, 0
        for earlier in op.after:
            assert earlier.piece is not None
            if earlier.piece.end_ns + op.work.gap_ns > start_ns:
                start_ns, before, gap_ns = earlier.piece.end_ns + op.work.gap_ns, earlier.piece, op.work.gap_ns
        op.piece = piece = Piece(op.stream.rank, f"stream {op.stream.number}", start_ns, start_ns, op.work.cause, op.work.kind)
        piece.before, piece.before_ns = before, start_ns - gap_ns
        if before is op.launch:
            piece.before_ns = min(start_ns, op.launch.end_ns)
            piece.gap_cause, piece.gap_detail = op.launch.cause, "launch_latency"
        if op.work.collective is not None and self.frozen is None:
            self._happen(op.started, start_ns, piece)
            self._arrive(op.work.collective, op)
            return
        ns = op.work.ns
        if op.work.collective is not None and self.frozen is not None:
            ns = self.frozen.get(op.work.collective, 0)
        self._happen(op.started, start_ns, piece)
        self._end(op, start_ns + ns)

    def _arrive(self, key: str, op: DeviceOp) -> None:
        """The last rank to arrive releases all: each one's piece is split into waiting and transfer."""
        arrived = self.meeting.setdefault(key, [])
        arrived.append(op)
        if len(arrived) < len(self.ranks):
            return
        pieces = [op.piece for op in arrived if op.piece is not None]
        latest = max(pieces, key=lambda piece: piece.start_ns)
        for op, piece in zip(arrived, pieces, strict=True):
            if piece.start_ns < latest.start_ns:
                piece.detail, piece.end_ns = "comm_wait", latest.start_ns
                op.piece = Piece(piece.rank, piece.resource, latest.start_ns, latest.start_ns, piece.cause, "kernel")
                op.piece.before, op.piece.last = piece, latest
        for op in arrived:
            self._end(op, latest.start_ns + op.work.ns)

    def _end(self, op: DeviceOp, end_ns: int) -> None:
        assert op.piece is not None
        op.piece.end_ns = end_ns
        self._happen(op.ended, end_ns, op.piece)
        for later in op.dependents:
            later.missing -= 1
            if not later.missing:
                self._start(later)
