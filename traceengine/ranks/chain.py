"""The job as a chain of collectives, replayed with a rank's lateness removed.

Between collectives each rank takes its own time; a collective starts when its last rank arrives and then takes as long as it was
recorded to. With nothing removed this gives every recorded end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from traceengine.ranks.late import Lateness
from traceengine.ranks.waits import Collective


@dataclass(frozen=True)
class _Arrival:
    """A rank arrives `gap_ns` after the end of collective `after` (None: after the window's begin), and leaves `transfer_ns` later."""

    rank: int
    after: int | None
    gap_ns: int
    transfer_ns: int


class Chain:
    """The recorded job; `windows` is (begin, end) of each rank on the reference's clock."""

    def __init__(self, entries: Sequence[Collective], windows: Mapping[int, tuple[int, int]]) -> None:
        self._begin = {rank: begin for rank, (begin, _) in windows.items()}
        ended: dict[int, list[tuple[int, int]]] = {rank: [] for rank in windows}
        self._arrivals: list[tuple[int, tuple[_Arrival, ...]]] = []
        for entry in entries:
            found = []
            for arrival in entry.arrivals:
                after, since = self._before(ended[arrival.rank], arrival.start_ns, self._begin[arrival.rank])
                found.append(_Arrival(arrival.rank, after, arrival.start_ns - since, arrival.end_ns - entry.last_ns))
                ended[arrival.rank].append((arrival.end_ns, entry.number))
            self._arrivals.append((entry.number, tuple(found)))
        self._tails = {}
        for rank, (begin, end) in windows.items():
            after, since = self._before(ended[rank], end, begin)
            self._tails[rank] = (after, end - since)

    @staticmethod
    def _before(ended: Sequence[tuple[int, int]], time_ns: int, begin_ns: int) -> tuple[int | None, int]:
        """The rank's collective that ended last before `time_ns`, and its end."""
        # A rank's collectives end nearly in order: the last few of them hold the answer.
        best = max(((end, number) for end, number in ended[-32:] if end <= time_ns), default=None)
        return (best[1], best[0]) if best else (None, begin_ns)

    def end_ns(self, sooner: Mapping[tuple[int, int], int] | None = None) -> int:
        """End of the job when rank r reaches collective k sooner by `sooner[k, r]`, in ns on the reference's clock.

        It then reaches those sooner, too, that it reached after k and that waited for the same collective before.
        """
        sooner = sooner or {}
        left: dict[tuple[int, int], int] = {}
        carried: dict[tuple[int, int | None], int] = {}
        for number, arrivals in self._arrivals:
            at = {}
            for arrival in arrivals:
                key = (arrival.rank, arrival.after)
                carried[key] = carried.get(key, 0) + sooner.get((number, arrival.rank), 0)
                at[arrival.rank] = self._since(arrival.rank, arrival.after, left) + max(arrival.gap_ns - carried[key], 0)
            last = max(at.values())
            for arrival in arrivals:
                left[number, arrival.rank] = last + arrival.transfer_ns
        return max((self._since(rank, after, left) + tail for rank, (after, tail) in self._tails.items()), default=0)

    def _since(self, rank: int, after: int | None, left: Mapping[tuple[int, int], int]) -> int:
        return self._begin[rank] if after is None else left[after, rank]


@dataclass(frozen=True)
class JobWhatIf:
    """What the job would take less if `rank` had no more of `cause` before its late arrivals than the others."""

    rank: int
    cause: str
    saving_ns: int


def what_ifs(chain: Chain, late: Sequence[Lateness]) -> tuple[JobWhatIf, ...]:
    """One replay per late rank and named cause, most saving first."""
    recorded = chain.end_ns()
    causes = sorted({(row.rank, row.cause) for row in late if row.cause_ns})
    found = [JobWhatIf(rank, cause, recorded - chain.end_ns(_sooner(late, {(rank, cause)}))) for rank, cause in causes]
    return tuple(sorted(found, key=lambda entry: (-entry.saving_ns, entry.rank, entry.cause)))


def _sooner(late: Sequence[Lateness], chosen: Collection[tuple[int, str]]) -> dict[tuple[int, int], int]:
    return {(row.collective, row.rank): row.cause_ns for row in late if (row.rank, row.cause) in chosen}
