"""Clocks of ranks, from the ends of collectives: the last rank to arrive releases all, so that they end nearly together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from traceengine.ranks.parts import ROOTED, IntArray, Parts

MIN_DRIFT_PAIRS = 10
"""Fewer ends than this give an offset and no drift."""
MIN_DRIFT_SPAN_NS = 1_000_000_000
"""Within a second, a drift of 20 ppm moves a clock by 20 µs: within what ends differ by."""
MAX_DRIFT = 1e-3
"""Clocks of machines gain or lose some 1e-5; what looks like more is something else."""
_POINTS = 300
"""Ends of which the slope is taken: all pairs of them are compared."""


@dataclass(frozen=True)
class Clock:
    """A rank's clock against the reference rank's: `t - offset_ns - drift * (t - pivot_ns)` is the reference's time.

    `drift` is seconds per second, 0.0 when the window is too short to tell. `residual_ns` is the robust spread (1.4826 times the
    median deviation) of the ends around this line, `pairs` their number; the reference itself has 0 of both.
    """

    offset_ns: int
    drift: float
    pivot_ns: int
    residual_ns: int
    pairs: int

    def aligned(self, time_ns: int) -> int:
        """The reference's time, in ns."""
        return time_ns - self.offset_ns - round(self.drift * (time_ns - self.pivot_ns))

    def aligned_all(self, times: IntArray) -> IntArray:
        """The same for many."""
        return times - self.offset_ns - np.round(self.drift * (times - self.pivot_ns)).astype(np.int64)


REFERENCE = Clock(0, 0.0, 0, 0, 0)


def spread(values: IntArray) -> int:
    """Robust standard deviation: 1.4826 times the median distance from the median. 0 for one value."""
    return round(1.4826 * float(np.median(np.abs(values - np.median(values))))) if len(values) else 0


def fit_clock(times: IntArray, reference: IntArray) -> Clock:
    """Clock that reads `times` when the reference's reads `reference`: medians, and the median of slopes (Theil-Sen) as drift."""
    difference = times - reference
    pivot = int(np.median(times))
    slope = 0.0
    if len(times) >= MIN_DRIFT_PAIRS and int(np.ptp(times)) >= MIN_DRIFT_SPAN_NS:
        chosen = np.unique(np.linspace(0, len(times) - 1, min(len(times), _POINTS)).astype(np.int64))
        x, y = times[chosen].astype(np.float64), difference[chosen].astype(np.float64)
        i, j = np.triu_indices(len(chosen), 1)
        apart = np.abs(x[j] - x[i]) > 0.1 * np.ptp(x)
        slope = float(np.median((y[j] - y[i])[apart] / (x[j] - x[i])[apart]))
        if abs(slope) > MAX_DRIFT:
            slope = 0.0
    flat = difference - np.round(slope * (times - pivot)).astype(np.int64)
    return Clock(int(np.median(flat)), slope, pivot, spread(flat), len(times))


def fit_clocks(by_rank: Mapping[int, Parts], matches: Sequence[Mapping[int, int]]) -> dict[int, Clock]:
    """Clocks of all ranks that matched collectives connect with the lowest such rank, which is the reference.

    Each rank is compared with the already known rank with which it shares most collectives, on that rank's corrected clock.
    """
    shared: dict[int, dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for parts in matches:
        together = [(rank, index) for rank, index in parts.items() if by_rank[rank].kind[index] not in ROOTED]
        for rank, index in together:
            for other, there in together:
                if rank != other:
                    shared[rank][other].append((index, there))
    if not shared:
        return {}
    clocks = {min(shared): REFERENCE}
    while True:
        reach = [
            (-len(both), rank, known)
            for rank, partners in shared.items()
            if rank not in clocks
            for known, both in partners.items()
            if known in clocks
        ]
        if not reach:
            return clocks
        _, rank, known = min(reach)
        indices = np.array(shared[rank][known], np.int64)
        own_end, known_end = by_rank[rank].end[indices[:, 0]], by_rank[known].end[indices[:, 1]]
        order = np.argsort(own_end, kind="stable")
        clocks[rank] = fit_clock(own_end[order], clocks[known].aligned_all(known_end[order]))
