"""Arrivals at each collective: who waited, who came last, and what the transfer took."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from traceengine.ranks.clock import Clock
from traceengine.ranks.match import Match, Matching
from traceengine.ranks.parts import Parts

_BUS_FACTORS: dict[str, Callable[[int], float]] = {
    "allreduce": lambda n: 2 * (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "allgather": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "broadcast": lambda _: 1.0,
    "reduce_to_one": lambda _: 1.0,
    "gather_to_one": lambda n: (n - 1) / n,
    "scatter_from_one": lambda n: (n - 1) / n,
}
"""Bus bandwidth is algorithm bandwidth times this (nccl-tests, doc/PERFORMANCE.md): what each rank's link had to carry."""


@dataclass(frozen=True)
class Arrival:
    """One rank's part in a matched collective; times in ns on the reference's clock.

    `wait_ns + transfer_ns` is the part's duration: the wait ends when the last rank arrives.
    """

    rank: int
    index: int
    start_ns: int
    end_ns: int
    wait_ns: int

    @property
    def transfer_ns(self) -> int:
        """What is left after the last rank arrived."""
        return self.end_ns - self.start_ns - self.wait_ns


@dataclass(frozen=True)
class Collective:
    """A matched collective. `complete` when every rank of the group is in the run (None when the group's size is unknown).

    `late_rank` arrived last, `margin_ns` behind the one before it and `late_ns` behind the median of the others. `residual_ns` is
    how well the clocks of these ranks are known: differences below it mean nothing.
    """

    number: int
    op: str
    kind: str | None
    group: str
    how: str
    size: int
    members: int
    complete: bool | None
    arrivals: tuple[Arrival, ...]
    late_rank: int
    margin_ns: int
    late_ns: int
    residual_ns: int

    @property
    def last_ns(self) -> int:
        """Arrival of the last rank."""
        return max(arrival.start_ns for arrival in self.arrivals)

    def bandwidth(self, arrival: Arrival) -> tuple[float | None, float | None]:
        """Algorithm and bus bandwidth of the transfer in bytes/s; None without size, time or a known kind.

        Algorithm bandwidth is size divided by time, where size is the larger of input and output.
        """
        if self.size < 0 or arrival.transfer_ns <= 0:
            return None, None
        algorithm = self.size * 1e9 / arrival.transfer_ns
        factor = _BUS_FACTORS.get(self.kind or "")
        members = self.members or len(self.arrivals)
        return algorithm, algorithm * factor(members) if factor and members > 1 else None


def collectives(matching: Matching, by_rank: Mapping[int, Parts]) -> tuple[Collective, ...]:
    """Matched collectives in the order in which their last ranks arrived, numbered from 0."""
    found = [
        _collective(match, by_rank, matching.clocks) for match in matching.matches if all(rank in matching.clocks for rank in match.parts)
    ]
    found.sort(key=lambda entry: (entry.last_ns, entry.group, entry.op))
    return tuple(replace(entry, number=number) for number, entry in enumerate(found))


def _collective(match: Match, by_rank: Mapping[int, Parts], clocks: Mapping[int, Clock]) -> Collective:
    spans = {
        rank: (clocks[rank].aligned(int(by_rank[rank].start[index])), clocks[rank].aligned(int(by_rank[rank].end[index])))
        for rank, index in match.parts.items()
    }
    last = max(start for start, _ in spans.values())
    arrivals = tuple(
        Arrival(rank, match.parts[rank], start, end, min(max(last - start, 0), end - start)) for rank, (start, end) in sorted(spans.items())
    )
    order = sorted(arrivals, key=lambda arrival: (arrival.start_ns, arrival.rank))
    rank, index = next(iter(match.parts.items()))
    parts = by_rank[rank]
    members = int(parts.members[index])
    return Collective(
        -1,
        parts.op[index],
        parts.kind[index],
        match.group,
        match.how,
        int(parts.size[index]),
        members,
        len(arrivals) == members if members else None,
        arrivals,
        order[-1].rank,
        last - order[-2].start_ns,
        last - _median([arrival.start_ns for arrival in order[:-1]]),
        max(clocks[rank].residual_ns for rank in match.parts),
    )


def _median(values: Sequence[int]) -> int:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
