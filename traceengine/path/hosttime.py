"""Host threads for the replay: points where a thread meets the device or another thread, and its own time between them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from traceengine.path.context import COPY_CAUSES, Context, background_communication, hand_over_threads
from traceengine.path.loader import Arrivals, arrivals_of, loader_calls
from traceengine.path.steps import Steps
from traceengine.path.timeline import BoolArray, IntArray, sorted_unique

WAIT, PLAIN, HAND_OVER = 0, 1, 2
"""Order of points at one moment: what a wait releases, then what others may wait for, then what waits for those."""


@dataclass(frozen=True)
class Points:
    """Points of all threads, sorted by (thread, time, priority). -1 is "none"."""

    thread: IntArray
    time: IntArray
    priority: IntArray
    previous: IntArray
    awaits_row: IntArray
    awaits_point: IntArray
    cause: npt.NDArray[np.str_]
    """Cause of the blocking call behind a WAIT."""
    step: IntArray
    """Index of the step that this point ends; -1 for none."""
    call: IntArray
    """Host row of the launch, the blocking call or the loader call that the point belongs to; -1 for none."""


@dataclass(frozen=True)
class HostTime:
    """Points, the active time since each point's previous one, in all and by cause, and the point of each launch."""

    points: Points
    lag: IntArray
    active: dict[str, IntArray]
    """By cause, for causes that have any."""
    launch_point: IntArray
    """By device row."""
    arrivals: Arrivals
    arrival_point: IntArray
    """By batch of `arrivals`: the point at which the loop's thread has it."""


@dataclass(frozen=True)
class _Draft:
    """Unsorted points. `pair` ties a hand-over to its source: same number, source first."""

    thread: IntArray
    time: IntArray
    priority: IntArray
    awaits_row: IntArray
    pair: IntArray
    cause: npt.NDArray[np.str_]
    step: IntArray
    call: IntArray

    @classmethod
    def of(cls, thread: IntArray, time: IntArray, priority: int) -> _Draft:
        """Points of one priority; every other column is "none" (see dataclasses.replace)."""
        none = np.full(len(time), -1, np.int64)
        empty = np.full(len(time), "", dtype="U16")
        rank = np.full(len(time), priority, np.int64)
        return cls(thread.astype(np.int64), time.astype(np.int64), rank, none, none, empty, none, none)


@dataclass(frozen=True)
class _Blocked:
    """Stretches in which a thread waited: no time of its own."""

    thread: IntArray
    start: IntArray
    end: IntArray


def _launches(context: Context, steps: Steps, rows: IntArray) -> _Draft:
    """One point per launching call: the moment it had issued its (first) operation."""
    host, device = context.timeline.host, context.timeline.device
    linked = rows[device.launch[rows] >= 0]
    calls, index = np.unique(device.launch[linked], return_inverse=True)
    first = np.full(len(calls), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(first, index, device.start[linked])
    inside = (host.start[calls] >= steps.window.start) & (host.start[calls] < steps.window.end)
    calls, first = calls[inside], first[inside]
    issued = np.minimum(np.minimum(host.end[calls], first), steps.window.end)
    issued = np.where(first < host.start[calls], first, issued)
    keep = issued >= steps.window.start
    return replace(_Draft.of(host.thread[calls[keep]], issued[keep], PLAIN), call=calls[keep])


def _waits(context: Context, steps: Steps, launches: _Draft, threads: IntArray) -> tuple[_Draft, _Blocked]:
    host, device, window = context.timeline.host, context.timeline.device, steps.window
    awaits = context.waits.host_awaits
    calls = np.flatnonzero(awaits >= 0)
    calls = calls[np.isin(host.thread[calls], threads)]
    release = np.minimum(device.end[awaits[calls]], host.end[calls])
    calls, release = (part[(release > window.start) & (release <= window.end)] for part in (calls, release))
    issued = dict(zip(launches.call.tolist(), launches.time.tolist(), strict=True))
    # A copy call waits once its copy is issued; a launch that a full queue held up waits before.
    begin = np.array([max(int(host.start[call]), issued.get(int(call), 0)) for call in calls.tolist()], dtype=np.int64)
    begin = np.where(begin < release, begin, host.start[calls])
    useful = release > begin
    calls, release, begin = calls[useful], release[useful], begin[useful]
    cause = np.array([_call_cause(context, int(call)) for call in calls], dtype="U16")
    draft = replace(_Draft.of(host.thread[calls], release, WAIT), awaits_row=awaits[calls], cause=cause, call=calls)
    return draft, _Blocked(host.thread[calls], np.maximum(begin, window.start), release)


def _call_cause(context: Context, call: int) -> str:
    row = int(context.tree.cause[call])
    return context.causes.text(row) or "" if row >= 0 else ""


def _stretches(context: Context, thread: int, low: int, high: int) -> tuple[IntArray, IntArray]:
    """Unoccupied stretches of a thread within [low, high]."""
    first, last = int(context.occupied.first[thread]), int(context.occupied.first[thread + 1])
    start, end = context.occupied.start[first:last], context.occupied.end[first:last]
    begin = np.concatenate([[low], end])
    finish = np.concatenate([start, [high]])
    begin, finish = np.clip(begin, low, high), np.clip(finish, low, high)
    keep = finish > begin
    return begin[keep], finish[keep]


def _last_busy(context: Context, thread: int, moments: IntArray) -> IntArray:
    """End of the thread's last occupied stretch before each moment, cut there; -1 for none."""
    first, last = int(context.occupied.first[thread]), int(context.occupied.first[thread + 1])
    start, end = context.occupied.start[first:last], context.occupied.end[first:last]
    index = np.searchsorted(start, moments, side="left") - 1
    if not len(start):
        return np.full(len(moments), -1, np.int64)
    return np.where(index >= 0, np.minimum(end[np.maximum(index, 0)], moments), -1)


def _hand_overs(context: Context, steps: Steps, loop_end: int) -> tuple[list[_Draft], list[_Blocked]]:
    """Where a thread resumes after another one of the loop's was active last, as the walk hands over."""
    window = steps.window
    drafts, blocked, pairs = [], [], 0
    threads = hand_over_threads(context.timeline, window)
    for thread in threads:
        begin, finish = _stretches(context, thread, window.start, loop_end if thread == window.thread else window.end)
        if thread != window.thread and len(finish):
            # Idle until the end: nobody waits for this thread any more.
            begin, finish = (part[finish < window.end] for part in (begin, finish))
        others = [other for other in threads if other != thread]
        if not len(begin) or not others:
            continue
        since = np.stack([_last_busy(context, other, finish) for other in others])
        best = since.argmax(axis=0)
        moment = since.max(axis=0)
        taken = moment > begin
        source = np.array(others, dtype=np.int64)[best[taken]]
        moment, begin = moment[taken], begin[taken]
        pair = np.arange(pairs, pairs + len(moment))
        pairs += len(moment)
        same = np.full(len(moment), thread, np.int64)
        drafts += [replace(_Draft.of(source, moment, PLAIN), pair=pair), replace(_Draft.of(same, moment, HAND_OVER), pair=pair)]
        blocked.append(_Blocked(same, begin, moment))
    return drafts, blocked


def _batch_points(context: Context, calls: IntArray) -> _Draft:
    """The end of each loader call."""
    host = context.timeline.host
    return replace(_Draft.of(host.thread[calls], host.end[calls], PLAIN), call=calls)


def _step_points(steps: Steps, loop_end: int) -> _Draft:
    """The starts of the steps after the first, and the loop's end: each ends the step before it."""
    window = steps.window
    times = [step.host_start for step in steps.steps[1:]] + ([loop_end] if steps.steps else [])
    index = np.arange(len(times), dtype=np.int64)
    time = np.array(times, dtype=np.int64)
    inside = (time > window.start) & (time <= window.end)
    end = _Draft.of(np.array([window.thread]), np.array([loop_end]), PLAIN)
    marks = replace(_Draft.of(np.full(int(inside.sum()), window.thread), time[inside], PLAIN), step=index[inside])
    return marks if len(marks.time) and int(marks.time.max()) == loop_end else _concat([marks, end])


def _concat(drafts: list[_Draft]) -> _Draft:
    return _Draft(*(np.concatenate([getattr(draft, name) for draft in drafts]) for name in _Draft.__dataclass_fields__))


def _sorted_points(draft: _Draft) -> tuple[Points, IntArray]:
    """Points in order, and the new position of each drafted one."""
    order = np.lexsort((draft.priority, draft.time, draft.thread))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    thread = draft.thread[order]
    previous = np.arange(-1, len(order) - 1, dtype=np.int64)
    previous[np.concatenate([[True], thread[1:] != thread[:-1]])[: len(order)]] = -1
    pair, priority = draft.pair[order], draft.priority[order]
    source = np.full(int(pair.max(initial=-1)) + 1, -1, np.int64)
    is_source = (pair >= 0) & (priority == PLAIN)
    source[pair[is_source]] = np.flatnonzero(is_source)
    awaits_point = np.where((pair >= 0) & (priority == HAND_OVER), source[np.maximum(pair, 0)] if len(source) else -1, -1)
    points = Points(
        thread,
        draft.time[order],
        priority,
        previous,
        draft.awaits_row[order],
        awaits_point.astype(np.int64),
        draft.cause[order],
        draft.step[order],
        draft.call[order],
    )
    return points, position


@dataclass(frozen=True)
class _Pieces:
    """A thread's window in pieces with one cause each, -1 for waiting; piece i lasts from edge i to edge i + 1."""

    edges: IntArray
    cause: IntArray


def _pieces(context: Context, steps: Steps, thread: int, blocked: _Blocked, causes: dict[str, int]) -> _Pieces:
    window, intervals = steps.window, context.intervals
    first, last = int(intervals.first[thread]), int(intervals.first[thread + 1])
    mine = blocked.thread == thread
    low, high = blocked.start[mine], blocked.end[mine]
    communication = background_communication(context.timeline, window)
    cuts = [intervals.time[first:last], low, high, communication.starts, communication.ends, np.array([window.start, window.end])]
    edges = sorted_unique(np.clip(np.concatenate(cuts), window.start, window.end))
    middle = edges[:-1]
    index = np.searchsorted(intervals.time[first:last], middle, side="right") - 1
    owner = np.where(index >= 0, intervals.owner[first:last][np.maximum(index, 0)] if last > first else -1, -1)
    waiting = _covered(low, high, middle)
    cause = _piece_causes(context, thread, owner, middle, np.diff(edges), high, window.end, causes)
    free = np.ones(len(middle), np.bool_)
    busy = owner >= 0
    free[busy] = (context.tree.work[owner[busy]] < 0) & (context.tree.cause[owner[busy]] < 0)
    cause = np.where(free & _covered(communication.starts, communication.ends, middle), causes["exposed_comm"], cause)
    return _Pieces(edges, np.where(waiting, -1, cause))


def _covered(start: IntArray, end: IntArray, moments: IntArray) -> BoolArray:
    """Whether an interval covers the time just after each moment."""
    opened = np.searchsorted(np.sort(start), moments, side="right")
    closed = np.searchsorted(np.sort(end), moments, side="right")
    return opened > closed


def _piece_causes(
    context: Context, thread: int, owner: IntArray, moment: IntArray, length: IntArray, released: IntArray, end: int, causes: dict[str, int]
) -> IntArray:
    tree, parameters = context.tree, context.parameters
    result = np.full(len(owner), causes["host_bound"], np.int64)
    busy = np.flatnonzero(owner >= 0)
    caused = tree.cause[owner[busy]]
    own = np.where(caused >= 0, context.causes.code[np.maximum(caused, 0)], -1)
    translate = np.array([causes[value] for value in context.causes.values] + [-1], dtype=np.int64)
    work = tree.work[owner[busy]]
    copy_of = np.full(len(context.timeline.host) + 1, -1, np.int64)
    for row, moved in context.copy_of_call.items():
        copy_of[row] = causes[moved] if moved in COPY_CAUSES else -1
    copy = copy_of[work]
    cpu_only = len(context.timeline.device) == 0
    plain = np.where(cpu_only & (length[busy] >= parameters.tiny_op_ns), causes["compute"], causes["host_bound"])
    result[busy] = np.where(own >= 0, translate[own], np.where(copy >= 0, copy, plain))
    free = np.ones(len(owner), np.bool_)
    free[busy] = (work < 0) & (caused < 0)
    first, last = int(context.occupied.first[thread]), int(context.occupied.first[thread + 1])
    starts, ends = context.occupied.start[first:last], context.occupied.end[first:last]
    nxt = np.searchsorted(starts, moment, side="right")
    until = np.append(starts, end)[nxt]
    since = np.concatenate([[moment[:1].min(initial=0)], ends])[nxt] if len(moment) else moment
    released = np.sort(released)
    last_release = np.searchsorted(released, moment, side="right") - 1
    since = np.maximum(since, np.where(last_release >= 0, np.append(released, 0)[np.maximum(last_release, 0)], 0))
    annotated = np.zeros(len(owner), np.bool_)
    annotated[busy] = tree.annotated[owner[busy]]
    long_gap = free & (until - since > parameters.host_gap_ns) & ~annotated
    result[free] = causes["host_bound"]
    result[long_gap] = causes["host_other"]
    if context.ranges_only:
        phase = busy[free[busy] & tree.phase[owner[busy]]]
        result[phase] = causes["compute"]
    return result


def _spent(pieces: _Pieces, wanted: IntArray, moments: IntArray) -> IntArray:
    """Time in pieces whose cause is in `wanted`, from the window's start to each moment."""
    length = np.where(np.isin(pieces.cause, wanted), np.diff(pieces.edges), 0)
    total = np.concatenate([[0], np.cumsum(length)])
    index = np.clip(np.searchsorted(pieces.edges, moments, side="right") - 1, 0, len(pieces.edges) - 2)
    partial = np.where(length[index] > 0, np.clip(moments - pieces.edges[index], 0, length[index]), 0)
    return total[index] + partial


def build_host_time(context: Context, steps: Steps, rows: IntArray) -> HostTime:
    """Points and active times of every thread that launches something or takes part in the loop."""
    host, device, window = context.timeline.host, context.timeline.device, steps.window
    launch_point = np.full(len(device), -1, np.int64)
    if window.thread < 0:
        none = np.zeros(0, np.int64)
        return HostTime(_sorted_points(_Draft.of(none, none, PLAIN))[0], none, {}, launch_point, Arrivals.none(), none)
    last_end = max((step.host_end for step in steps.steps if step.host_start < window.end), default=window.end)
    loop_end = min(last_end, window.end)
    launches = _launches(context, steps, rows)
    threads = np.unique(np.concatenate([launches.thread, np.array(hand_over_threads(context.timeline, window), dtype=np.int64)]))
    waits, waiting = _waits(context, steps, launches, threads)
    hands, handed = _hand_overs(context, steps, loop_end)
    batches = loader_calls(context, window)
    points, position = _sorted_points(_concat([launches, _batch_points(context, batches), waits, *hands, _step_points(steps, loop_end)]))
    blocked = _Blocked(*(np.concatenate([getattr(part, name) for part in (waiting, *handed)]) for name in _Blocked.__dataclass_fields__))
    names = sorted({"host_bound", "host_other", "compute", "exposed_comm", *COPY_CAUSES.values(), *context.causes.values})
    causes = {name: code for code, name in enumerate(names)}
    lag = np.zeros(len(points.time), np.int64)
    active = {name: np.zeros(len(points.time), np.int64) for name in names}
    for thread in np.unique(points.thread).tolist():
        mine = np.flatnonzero(points.thread == thread)
        pieces = _pieces(context, steps, int(thread), blocked, causes)
        for name, code in causes.items():
            active[name][mine] = np.diff(_spent(pieces, np.array([code]), points.time[mine]), prepend=0)
            lag[mine] += active[name][mine]
    call_point = np.full(len(host), -1, np.int64)
    call_point[launches.call] = position[: len(launches.time)]
    linked = device.launch >= 0
    launch_point[linked] = call_point[device.launch[linked]]
    active = {name: spent for name, spent in active.items() if spent.any()}
    arrival_point = position[len(launches.time) : len(launches.time) + len(batches)]
    return HostTime(points, lag, active, launch_point, arrivals_of(context.timeline, batches, context.parameters), arrival_point)
