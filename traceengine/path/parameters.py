"""Thresholds of the path, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PathParameters:
    """All in ns unless said otherwise."""

    clock_slack_ns: int = 5_000
    """Host and device clocks of one capture agree to a few µs: device work that ends this much after a synchronise
    returned still counts as what it waited for."""
    inferred_within_ns: int = 100_000
    """An operation of another stream that ended this shortly before a start is taken for its missing dependency: waiting
    for an event of another stream costs up to some tens of µs."""
    inferred_min_gap_ns: int = 20_000
    """... but only if the launch and the own stream had been ready for longer than a launch takes (5-10 µs) with a margin."""
    device_gap_ns: int = 20_000
    """A gap on a stream up to this long is the device's own turn-around between operations; a longer one that nothing
    in the trace explains is unknown."""
    launch_latency_ns: int = 100_000
    """From the return of a launch to the start of its operation on an idle device takes 2-50 µs; what takes longer
    has another reason that the trace does not show."""
    usual_launch_lag_ns: int = 3_000
    """Replay: what a launch that was not the last dependency would have taken at least to reach the device."""
    usual_stream_lag_ns: int = 1_000
    """Replay: what a stream takes at least between two operations."""
    host_gap_ns: int = 1_000_000
    """A stretch without any event up to this long is Python and dispatch between operations; a longer one is the
    thread busy or blocked with something that the capture does not show."""
    tiny_op_ns: int = 10_000
    """On a capture without device work, an operator's own stretch below this is dispatch and not arithmetic: an eager
    operator costs 5-10 µs whatever its size."""
    loader_wait_ns: int = 2_000_000
    """A fetch from workers that takes longer than this waited for them: one that finds its batch ready takes 1-2 ms to unpack it."""
    loader_wait_share: float = 0.1
    """... and longer than this share of the mean time between batches, so that unpacking large batches is no wait."""
    loader_pace_slack: float = 1.25
    """Workers that took longer than this many times their pace for the batches between two waits may have been held up."""
    usual_copy_call_ns: int = 10_000
    """What-if `pinned`: what the call of a pinned copy takes; it returns at once."""
    collective_fixed_ns: int = 20_000
    """What-if `buckets`: what a collective takes however little it carries."""
