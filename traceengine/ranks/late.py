"""Why a rank is late: what its own path did since the collective before, more than the paths of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from traceengine.ranks.parts import IntArray, Parts
from traceengine.ranks.waits import Arrival, Collective

MIN_LATE_NS = 20_000
"""Ranks arrive within this of each other even when nothing is wrong: launches take 5 to 20 µs."""
RESIDUALS = 3
"""A rank is called late only by more than so many residuals of the clocks."""
MIN_EXPLAINED = 0.5
"""Share of the lateness that one cause must explain to be named."""
UNKNOWN, COMPUTE = "unknown", "compute"


@dataclass(frozen=True)
class Lateness:
    """A rank that came last to a collective, clearly: `late_ns` behind the median of the others, `margin_ns` behind the next.

    Of collectives in flight together only what the later one adds counts: the sum over all rows is time, each moment once.
    `cause` is the class of which its path had more exposed time than the median of the others since the collective before, by
    `cause_ns` (at most late_ns); "unknown" when no cause explains half of it. `waited` is the number of ranks that waited.
    """

    collective: int
    rank: int
    step: int
    late_ns: int
    margin_ns: int
    cause: str
    cause_ns: int
    waited: int


class _Path:
    """Exposed time per cause of one rank's path up to any moment: what a device operation hides of a host segment is compute.

    Within a segment the hidden part is taken as spread evenly.
    """

    def __init__(self, rows: pa.Table, causes: Sequence[str]) -> None:
        self.start = rows.column("ts_ns").to_numpy().astype(np.int64)
        self._length = rows.column("dur_ns").to_numpy().astype(np.int64)
        number = {cause: at for at, cause in enumerate(causes)}
        code = np.array([number[cause] for cause in rows.column("cause").to_pylist()], np.int64)
        hidden = rows.column("hidden_ns").to_numpy().astype(np.int64)
        self._spent = np.zeros((len(rows) + 1, len(causes)), np.int64)
        place = np.arange(len(rows))
        np.add.at(self._spent, (place, code), self._length - hidden)
        self._spent[place, number[COMPUTE]] += hidden
        self._sums = np.concatenate([np.zeros((1, len(causes)), np.int64), np.cumsum(self._spent, axis=0)])

    def until(self, time_ns: int) -> IntArray:
        """Time per cause from the path's begin to `time_ns`."""
        at = int(np.searchsorted(self.start, time_ns, side="right"))
        sums: IntArray = self._sums[at].copy()
        if at:
            over = max(int(self.start[at - 1] + self._length[at - 1]) - time_ns, 0)
            sums -= np.round(self._spent[at - 1] * (over / max(int(self._length[at - 1]), 1))).astype(np.int64)
        return sums


def late_ranks(entries: Sequence[Collective], by_rank: Mapping[int, Parts], paths: Mapping[int, pa.Table]) -> tuple[Lateness, ...]:
    """Every clear lateness and its cause. `paths` is table critical_path per rank, on the rank's own clock."""
    causes = sorted({COMPUTE, *(cause for rows in paths.values() for cause in rows.column("cause").to_pylist())})
    walked = {rank: _Path(rows, causes) for rank, rows in paths.items()}
    before: dict[int, int] = {}
    covered = min((entry.last_ns - entry.late_ns for entry in entries), default=0)
    found = []
    for entry in entries:
        late_ns = entry.last_ns - max(entry.last_ns - entry.late_ns, covered)
        covered = max(covered, entry.last_ns)
        if late_ns > max(MIN_LATE_NS, RESIDUALS * entry.residual_ns):
            found.append(_lateness(entry, late_ns, by_rank, walked, causes, before))
        for arrival in entry.arrivals:
            end = int(by_rank[arrival.rank].end[arrival.index])
            before[arrival.rank] = max(before.get(arrival.rank, end), end)
    return tuple(found)


def _lateness(
    entry: Collective,
    late_ns: int,
    by_rank: Mapping[int, Parts],
    walked: Mapping[int, _Path],
    causes: Sequence[str],
    before: Mapping[int, int],
) -> Lateness:
    spent = {
        arrival.rank: _spent(arrival, by_rank[arrival.rank], walked[arrival.rank], before.get(arrival.rank)) for arrival in entry.arrivals
    }
    others = [value for rank, value in spent.items() if rank != entry.late_rank]
    usual = np.median(np.stack(others), axis=0).astype(np.int64)
    excess = spent[entry.late_rank] - usual
    at = int(np.argmax(excess))
    cause_ns = min(int(excess[at]), late_ns)
    named = cause_ns >= MIN_EXPLAINED * late_ns
    late = next(arrival for arrival in entry.arrivals if arrival.rank == entry.late_rank)
    return Lateness(
        entry.number,
        entry.late_rank,
        int(by_rank[entry.late_rank].step[late.index]),
        late_ns,
        min(entry.margin_ns, late_ns),
        causes[at] if named else UNKNOWN,
        cause_ns if named else 0,
        sum(arrival.wait_ns > max(MIN_LATE_NS, RESIDUALS * entry.residual_ns) for arrival in entry.arrivals),
    )


def _spent(arrival: Arrival, parts: Parts, path: _Path, before: int | None) -> IntArray:
    """Time per cause on the rank's path from the end of its collective before to its arrival, on its own clock."""
    start = int(parts.start[arrival.index])
    if before is None:
        before = int(path.start[0]) if len(path.start) else start
    return path.until(start) - path.until(min(before, start))
