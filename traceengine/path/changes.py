"""Named experiments as changes of the replayed graph: what would be left of the recorded work, not all of it gone.

A change is written as `name` or `name=N`. Each says how far its saving can be trusted: an upper bound when the real change also
costs something that the trace does not show, an estimate when a number had to be assumed, or not estimable, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from traceengine.classes import class_ids
from traceengine.errors import UsageError
from traceengine.path.context import Context
from traceengine.path.graph import NEVER, ROOT, Graph
from traceengine.path.loader import loader_calls, made_by_workers
from traceengine.path.steps import Steps
from traceengine.path.threads import by_depth, inherit_nearest
from traceengine.path.timeline import BoolArray, IntArray

UPPER_BOUND, ESTIMATE, NOT_ESTIMABLE = "upper bound", "estimate", "not estimable"
PREFETCH = 2
"""Batches that each worker makes ahead: the default of torch's DataLoader."""
PCIE_GB_PER_S = 25
"""What pinned copies reach over PCIe 4 x16; taken when no pinned copy of the trace shows the link's rate."""
MIN_COPY_BYTES = 1_000_000
"""Smaller copies show the cost of a call and not the rate of the link."""
BUCKETS = 8
"""Collectives per step of `buckets` without a number: enough that little is left after the backward's end."""


_REMOVABLE = class_ids() - {"healthy", "unknown"}


@dataclass(frozen=True)
class Effect:
    """A changed graph, None when the change is not estimable; `bound` is one of the three words above."""

    graph: Graph | None
    bound: str
    reason: str


@dataclass(frozen=True)
class Scene:
    """What a graph was made from."""

    context: Context
    steps: Steps


Apply = Callable[[Scene, Graph, int | None], Effect]


@dataclass(frozen=True)
class Change:
    """One part of a what-if: a cause to remove, or a named experiment with its number."""

    text: str
    name: str
    number: int | None

    def apply(self, scene: Scene, graph: Graph) -> Effect:
        """The graph with this change."""
        if self.name not in EXPERIMENTS:
            return Effect(graph.without(frozenset({self.name})), UPPER_BOUND, "all of its time is gone")
        return EXPERIMENTS[self.name].apply(scene, graph, self.number)


def parse_change(text: str) -> Change:
    """A change from what a user wrote. Raises UsageError for an unknown name, or a number that is missing, too small or too much."""
    name, given, number = (part.strip() for part in text.partition("="))
    if name in _REMOVABLE and not given:
        return Change(name, name, None)
    known = EXPERIMENTS.get(name)
    if known is None:
        names = ", ".join(sorted(_REMOVABLE)), ", ".join(known.usage for known in EXPERIMENTS.values())
        raise UsageError(f"{text!r} is no class id and no named experiment", hint=f"Classes: {names[0]}. Experiments: {names[1]}.")
    valid = known.takes_number if given else not known.needs_number
    if not valid or (given and not (number.isascii() and number.isdigit() and 0 < int(number) < 10**6)):
        raise UsageError(f"{text!r} is not of the form {known.usage}", hint="N is a whole number from 1 on.")
    return Change(f"{name}={int(number)}" if given else name, name, int(number) if given else None)


def not_estimable(reason: str) -> Effect:
    """The answer where the trace cannot tell."""
    return Effect(None, NOT_ESTIMABLE, reason)


# -- pinned ------------------------------------------------------------------------------------------------------------


def _pinned(scene: Scene, graph: Graph, gb_per_s: int | None) -> Effect:
    """Pageable copies take their bytes at the pinned rate, and their calls return at once.

    Copies back that belong to a scalar read or to saving state stay: what reads them has to wait anyway.
    """
    device, host, parameters = scene.context.timeline.device, scene.context.timeline.host, scene.context.parameters
    cause = np.array(scene.context.device_cause, dtype="U16")
    memory = {"h2d": device.src_memory, "d2h": device.dst_memory}
    copies = device.kind.isin({"memcpy"})
    pageable = copies & np.logical_or.reduce([(cause == name) & side.isin({"pageable"}) for name, side in memory.items()])
    if not pageable.any():
        if (copies & (cause == "h2d") & (device.src_memory.code < 0)).any():
            return not_estimable("the copies do not say whether their host memory is pageable")
        return not_estimable("the trace holds no pageable copy of data")
    dur, told = graph.dur.copy(), []
    for name, side in memory.items():
        rate, origin = _link_rate(scene, copies & (cause == name) & side.isin({"pinned"}), gb_per_s)
        wanted = pageable & (cause == name)
        nodes = graph.is_operation & (graph.row >= 0) & (wanted & (device.bytes > 0))[graph.row]
        dur[nodes] = np.minimum(dur[nodes], (device.bytes[graph.row[nodes]] / rate).astype(np.int64))
        if wanted.any():
            told.append(f"{name} copies at {rate:.3g} GB/s, {origin}")
    # The copying call itself and the synchronise beside it in the same operator wait for the copy.
    waits = ~graph.is_operation & (graph.call >= 0) & (graph.row >= 0)
    waits[waits] = pageable[graph.row[waits]] & np.isin(graph.cause[waits], ["", "sync", *memory])
    launch = device.launch[graph.row[waits]]
    waits[waits] = (launch >= 0) & (host.parent[graph.call[waits]] == host.parent[np.maximum(launch, 0)])
    lag, active = graph.lag.copy(), dict(graph.active)
    lag[waits, 1] = NEVER
    calls = np.unique(device.launch[pageable & (device.launch >= 0)])
    issues = ~graph.is_operation & (graph.row < 0) & np.isin(graph.call, calls)
    touched = issues | waits | _followers(graph, issues | waits)
    for name in memory.keys() & active.keys():
        usual = np.where(issues, parameters.usual_copy_call_ns, 0)
        spared = np.where(touched, np.maximum(active[name] - usual, 0), 0)
        lag[:, 0] -= spared
        active[name] = active[name] - spared
    changed = replace(graph, dur=dur, lag=lag, active=active)
    return Effect(changed, ESTIMATE, f"{', '.join(told)}; making memory pinned is not counted")


def _link_rate(scene: Scene, pinned: BoolArray, gb_per_s: int | None) -> tuple[float, str]:
    """Bytes per ns of pinned copies, and where that is from."""
    if gb_per_s is not None:
        return float(gb_per_s), "as told"
    device = scene.context.timeline.device
    large = pinned & (device.bytes >= MIN_COPY_BYTES) & (device.end > device.start)
    if large.any():
        return float(device.bytes[large].sum() / (device.end - device.start)[large].sum()), "as the pinned copies of this trace"
    return float(PCIE_GB_PER_S), "as PCIe 4 x16 reaches (pinned=N tells another rate)"


def _followers(graph: Graph, chosen: BoolArray) -> BoolArray:
    """Points whose previous point on their thread is one of the chosen."""
    flag = np.concatenate([[False], chosen])
    following: BoolArray = ~graph.is_operation & flag[graph.pred[:, 0]]
    return following


# -- workers -----------------------------------------------------------------------------------------------------------


def _workers(scene: Scene, graph: Graph, workers: int | None) -> Effect:
    """Batches that the loop made itself are made by worker processes, each at the recorded time of its batch."""
    assert workers is not None
    calls = loader_calls(scene.context, scene.steps.window)
    host = scene.context.timeline.host
    if not len(calls):
        return not_estimable("the trace shows no loading of batches")
    if made_by_workers(scene.context.timeline, calls).all():
        reason = "all waiting for workers is gone: the trace does not say how many workers made the recorded batches"
        return Effect(graph.without(frozenset({"data_wait"})), UPPER_BOUND, reason)
    if not host.meaning.isin({"data_wait_single"})[calls].all():
        return not_estimable("loading is marked by a range that does not say who makes the batches")
    point = np.flatnonzero(~graph.is_operation & np.isin(graph.call, calls) & (graph.row < 0))
    if not len(point):
        return not_estimable("no batch was loaded within the analysed window")
    work = (host.end - host.start)[graph.call[point]]
    graph = graph.without(frozenset({"data_wait"}))
    grown, number, made = graph.insert(point + 1, work)
    taken = number[point + 1]
    batch = np.arange(len(point))
    pred, lag = grown.pred.copy(), grown.lag.copy()
    own = batch - workers
    asked = batch - workers * PREFETCH
    # A worker goes on when it has made its last batch and the loop has taken the one that makes room; the workers of the first
    # batches are caught evenly spread, as in a steady state.
    pred[made - 1, 0] = np.where(own >= 0, made[np.maximum(own, 0)], ROOT)
    lag[made - 1, 0] = np.where(own >= 0, 0, (batch + 1) * work // workers - work)
    pred[made - 1, 1] = np.where(asked >= 0, taken[np.maximum(asked, 0)], ROOT)
    lag[made - 1, 1] = np.where(asked >= 0, 0, NEVER)
    pred[taken - 1, 1], lag[taken - 1, 1] = made, 0
    cause = grown.cause.copy()
    cause[taken - 1] = "data_wait"
    reason = f"{workers} workers make the recorded batches in parallel; handing them over and sharing cores are not counted"
    return Effect(replace(grown, pred=pred, lag=lag, cause=cause), UPPER_BOUND, reason)


# -- log_every ---------------------------------------------------------------------------------------------------------


def _log_every(scene: Scene, graph: Graph, every: int | None) -> Effect:
    """Logging stays in every N-th step of the window and is gone from the others."""
    assert every is not None
    steps = scene.steps.steps
    if not steps:
        return not_estimable("the trace has no steps")
    logs = graph.active.get("logging")
    if (logs is None or not logs.any()) and not np.isin(graph.cause, ["logging"]).any():
        return not_estimable("the trace shows no logging")
    first = next((index for index, step in enumerate(steps) if step.complete), 0)
    dropped = (graph.within < first) | ((graph.within - first + 1) % every != 0)
    reason = f"logging stays in each {every}. step of the window"
    if every > len(steps) - first:
        reason = f"the window has fewer than {every} steps: no logging is left in it"
    return Effect(graph.without(frozenset({"logging"}), dropped), UPPER_BOUND, reason)


# -- cuda_graph --------------------------------------------------------------------------------------------------------


def _cuda_graph(scene: Scene, graph: Graph, _: int | None) -> Effect:
    """The kernels of a step under one launch: no host time from the step's first launch to its last."""
    device, host = scene.context.timeline.device, scene.context.timeline.host
    if not len(device):
        return not_estimable("the trace holds no device work")
    linked = np.flatnonzero(device.launch >= 0)
    by_graph = host.meaning.isin({"graph_launch"})[device.launch[linked]] if len(linked) else np.zeros(0, np.bool_)
    if 2 * np.count_nonzero(by_graph) >= max(len(linked), 1):
        reason = "the kernels already run in graphs" if len(linked) else "no operation of the device is linked to its launch"
        return not_estimable(reason)
    if not scene.steps.steps:
        return not_estimable("the trace has no steps to make one graph each of")
    launches = np.unique(device.launch[linked[device.kind.isin({"kernel", "memset"})[linked]]])
    issues = np.flatnonzero(~graph.is_operation & (graph.row < 0) & np.isin(graph.call, launches) & (graph.within >= 0))
    count = len(scene.steps.steps)
    first, last = np.full(count, len(graph.pred), np.int64), np.full(count, -1, np.int64)
    np.minimum.at(first, graph.within[issues], issues)
    np.maximum.at(last, graph.within[issues], issues)
    index = np.arange(len(graph.pred))
    within = np.maximum(graph.within, 0)
    inside = (graph.within >= 0) & (index > first[within]) & (index <= last[within])
    # Operations follow their launch in the order of nodes; only the points are host time.
    changed = graph.without(frozenset({"host_bound"}), inside & ~graph.is_operation)
    return Effect(changed, UPPER_BOUND, "one launch a step; whether shapes and synchronisation allow a graph is not looked at")


# -- buckets -----------------------------------------------------------------------------------------------------------


def _buckets(scene: Scene, graph: Graph, buckets: int | None) -> Effect:
    """The collectives of each step's backward in N equal ones, each started when its share of the backward is done."""
    count = buckets or BUCKETS
    backward = _backward_rows(scene)
    comm = graph.is_operation & (graph.cause == "exposed_comm") & (graph.within >= 0)
    if not comm.any():
        return not_estimable("the trace holds no collective on the device within a step")
    work = graph.is_operation & (graph.cause == "compute") & backward[graph.row] & (graph.row >= 0)
    if not work.any():
        return not_estimable("nothing in the trace says which kernels are the backward's")
    last: list[int] = []
    ready: list[int] = []
    dur: list[int] = []
    gone: list[IntArray] = []
    for step in range(graph.steps):
        mine = np.flatnonzero(comm & (graph.within == step))
        kernels = np.flatnonzero(work & (graph.within == step))
        mine = mine[graph.row[mine] >= 0]
        if len(kernels):
            mine = mine[mine > kernels[0]]
        if not len(mine) or not len(kernels):
            continue
        wire = max(0, int(graph.dur[mine].sum()) - len(mine) * scene.context.parameters.collective_fixed_ns)
        shares = -(-np.arange(1, count + 1) * len(kernels) // count) - 1
        last += [int(mine[-1]) + 1] * count
        ready += (kernels[shares] + 1).tolist()
        dur += [wire // count + scene.context.parameters.collective_fixed_ns] * count
        gone.append(mine)
    if not last:
        return not_estimable("no step holds a collective after the start of its backward")
    reason = f"{count} collectives a step, each as soon as its share of the backward is done; recorded times hold waiting for other ranks"
    return Effect(_rebucketed(scene, graph, (last, ready, dur), np.concatenate(gone), count), UPPER_BOUND, reason)


def _rebucketed(
    scene: Scene, graph: Graph, new: tuple[list[int], list[int], list[int]], gone: IntArray, count: int
) -> Graph:
    """`new`: of each new collective the last recorded one of its step, the kernel after which it is ready, its length."""
    last, ready, dur = (np.array(values, dtype=np.int64) for values in new)
    emptied = graph.dur.copy()
    emptied[gone] = 0
    grown, number, added = replace(graph, dur=emptied).insert(last, dur)
    pred, lag = grown.pred.copy(), grown.lag.copy()
    usual = scene.context.parameters.usual_stream_lag_ns
    first = np.arange(len(added)) % count == 0
    pred[added - 1, 0] = np.where(first, ROOT, np.roll(added, 1))
    lag[added - 1, 0] = np.where(first, NEVER, usual)
    after = number[ready]
    # A kernel that stands behind the step's last collective cannot hold it up.
    usable = after < added
    pred[added - 1, 1] = np.where(usable, after, ROOT)
    lag[added - 1, 1] = np.where(usable, usual, 0)
    ends = number[last[::count]] - 1
    pred[ends, 0], lag[ends, 0] = added[count - 1 :: count], 0
    cause = grown.cause.copy()
    cause[added - 1] = "exposed_comm"
    is_operation = grown.is_operation.copy()
    is_operation[added - 1] = True
    return replace(grown, pred=pred, lag=lag, cause=cause, is_operation=is_operation)


def _backward_rows(scene: Scene) -> BoolArray:
    """Device rows launched by a backward: from an autograd thread, or inside an autograd node."""
    timeline = scene.context.timeline
    host, device = timeline.host, timeline.device
    if not len(host) or not len(device):
        return np.zeros(max(len(device), 1), np.bool_)
    rows = np.arange(len(host), dtype=np.int64)
    node = inherit_nearest(np.where(host.meaning.isin({"backward_node"}), rows, -1), host.parent, by_depth(host.depth))
    autograd = np.array([role == "autograd" for role in timeline.threads.role], dtype=np.bool_)
    inside = (node >= 0) | autograd[host.thread]
    backward: BoolArray = (device.launch >= 0) & inside[np.maximum(device.launch, 0)]
    return backward


@dataclass(frozen=True)
class Experiment:
    """A named experiment: how it is written and applied, and how the default analysis writes it."""

    usage: str
    apply: Apply
    takes_number: bool
    needs_number: bool
    default: str


EXPERIMENTS: Mapping[str, Experiment] = {
    "pinned": Experiment("pinned or pinned=N (GB/s)", _pinned, True, False, "pinned"),
    "workers": Experiment("workers=N", _workers, True, True, "workers=4"),
    "buckets": Experiment("buckets or buckets=N", _buckets, True, False, "buckets"),
    "cuda_graph": Experiment("cuda_graph", _cuda_graph, False, False, "cuda_graph"),
    "log_every": Experiment("log_every=N", _log_every, True, True, "log_every=10"),
}
