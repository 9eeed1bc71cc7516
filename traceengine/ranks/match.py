"""Which parts of different ranks are one collective.

By sequence number in the process group where the capture has it. Else by order: two ranks' lists are laid on each other at every
shift, because either may lack the first or last ones; the shift must agree in kind and size, and of several that do, the one whose
steps agree and whose ends differ by the steadiest amount is the true one. What is left over is matched by time once the clocks are
known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from traceengine.ranks.clock import Clock, fit_clocks, spread
from traceengine.ranks.parts import IntArray, Parts

MAX_SHIFT = 512
"""Parts that one rank may have before the first, or behind the last, of the other."""
MIN_AGREEMENT = 0.9
"""Share of pairs that must agree in kind and size for a shift to count: sizes of one collective may differ between ranks."""
UNCERTAIN_NS = 20_000
"""Ends of one collective differ by up to this even with equal clocks: shifts whose spread differs by less cannot be told apart."""
NEAR_NS = 50_000
"""Parts that are matched by time alone end within this, or five times the clocks' residual, of each other."""
MIN_PAIRS = 3
"""Fewer pairs than this are believed only when their steps agree."""
_LONG = 2000
"""Longer lists that agree at no shift are not searched for common stretches: that costs their product."""


@dataclass(frozen=True)
class Match:
    """One collective: index of the part of each rank that takes part in it, and how the parts were found (sequence, order, time)."""

    group: str
    parts: dict[int, int]
    how: str


@dataclass(frozen=True)
class Matching:
    """Matched collectives in no particular order, the clock of each rank, and what was left over per rank."""

    matches: tuple[Match, ...]
    clocks: dict[int, Clock]
    unmatched: dict[int, int]


def match_parts(ranks: Sequence[Parts]) -> Matching:
    """Match the parts of all ranks. A rank without any matched part has no clock: nothing across ranks can be said of it."""
    by_rank = {parts.rank: parts for parts in ranks}
    found: list[Match] = []
    for group, lists in _groups(ranks).items():
        found += _match_group(group, lists, by_rank)
    clocks = fit_clocks(by_rank, [match.parts for match in found])
    matches = _match_by_time(found, by_rank, clocks)
    if len(matches) > len(found):
        clocks = fit_clocks(by_rank, [match.parts for match in matches])
    used = {(rank, index) for match in matches for rank, index in match.parts.items()}
    left = {parts.rank: sum((parts.rank, index) not in used for index in range(len(parts))) for parts in ranks}
    return Matching(tuple(matches), clocks, left)


def _groups(ranks: Sequence[Parts]) -> dict[str, dict[int, IntArray]]:
    """Indices of the parts per group and rank, for groups that at least two of the ranks have."""
    found: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for parts in ranks:
        for index, group in enumerate(parts.group):
            found[group][parts.rank].append(index)
    return {
        group: {rank: np.array(indices, np.int64) for rank, indices in lists.items()} for group, lists in found.items() if len(lists) > 1
    }


def _match_group(group: str, lists: dict[int, IntArray], by_rank: dict[int, Parts]) -> list[Match]:
    reference = max(lists, key=lambda rank: (len(lists[rank]), -rank))
    matched: dict[int, dict[int, int]] = {int(index): {reference: int(index)} for index in lists[reference]}
    how: dict[int, str] = {}
    for rank, indices in lists.items():
        if rank == reference:
            continue
        pairs, by = _pair(by_rank[reference], lists[reference], by_rank[rank], indices)
        for own, other in pairs:
            matched[own][rank] = other
            how[own] = by
    return [Match(group, parts, how[index]) for index, parts in matched.items() if len(parts) > 1]


def _pair(a: Parts, left: IntArray, b: Parts, right: IntArray) -> tuple[list[tuple[int, int]], str]:
    """Pairs of indices into `a` and `b`."""
    if (a.sequence[left] >= 0).all() and (b.sequence[right] >= 0).all():
        _, own_at, other_at = np.intersect1d(a.sequence[left], b.sequence[right], return_indices=True)
        pairs = zip(left[own_at].tolist(), right[other_at].tolist(), strict=True)
        return [(i, j) for i, j in pairs if a.signature[i] == b.signature[j]], "sequence"
    codes: dict[str, int] = {}
    own = np.array([codes.setdefault(a.signature[i], len(codes)) for i in left.tolist()], np.int64)
    other = np.array([codes.setdefault(b.signature[j], len(codes)) for j in right.tolist()], np.int64)
    shifts = _agreeing_shifts(own, other)
    if not shifts:
        return _common_stretches(own, other, left, right), "order"
    shift = _best_shift(shifts, a, left, b, right)
    if shift is None:
        return [], "order"
    at, to = _overlap(len(own), len(other), shift)
    same = own[at] == other[to]
    return list(zip(left[at][same].tolist(), right[to][same].tolist(), strict=True)), "order"


def _overlap(n: int, m: int, shift: int) -> tuple[slice, slice]:
    """Element j of the second list lies on element j + shift of the first."""
    low, high = max(0, shift), min(n, m + shift)
    return slice(low, high), slice(low - shift, high - shift)


def _agreeing_shifts(own: IntArray, other: IntArray) -> list[int]:
    n, m = len(own), len(other)
    needed = max(1, min(n, m) // 2)
    found = []
    for shift in range(max(-MAX_SHIFT, needed - m), min(MAX_SHIFT, n - needed) + 1):
        at, to = _overlap(n, m, shift)
        agreement = float((own[at] == other[to]).mean())
        if agreement >= MIN_AGREEMENT:
            found.append((agreement, shift))
    best = max((agreement for agreement, _ in found), default=0.0)
    return [shift for agreement, shift in found if agreement >= best - 0.02]


def _best_shift(shifts: Sequence[int], a: Parts, left: IntArray, b: Parts, right: IntArray) -> int | None:
    """The shift whose steps agree, and of several the one with the steadiest difference of ends; None when two are alike."""
    ranked = []
    for shift in shifts:
        at, to = _overlap(len(left), len(right), shift)
        i, j = left[at], right[to]
        known = (a.step[i] >= 0) & (b.step[j] >= 0)
        steps = float((a.step[i] == b.step[j])[known].mean()) if known.any() else 0.0
        ranked.append((-round(steps, 1), spread(b.end[j] - a.end[i]), -len(i), shift))
    ranked.sort()
    best = ranked[0]
    same_steps = best[0] == -1.0
    alike = len(ranked) > 1 and best[0] == ranked[1][0] and ranked[1][1] - best[1] < UNCERTAIN_NS
    # A few pairs always fit some line; only the numbers of their steps say that they belong together.
    few = -best[2] < MIN_PAIRS
    return best[3] if same_steps or not (alike or few) else None


def _common_stretches(own: IntArray, other: IntArray, left: IntArray, right: IntArray) -> list[tuple[int, int]]:
    if max(len(own), len(other)) > _LONG:
        return []
    blocks = SequenceMatcher(None, own.tolist(), other.tolist(), autojunk=False).get_matching_blocks()
    return [(int(left[block.a + k]), int(right[block.b + k])) for block in blocks for k in range(block.size)]


def _match_by_time(found: list[Match], by_rank: dict[int, Parts], clocks: dict[int, Clock]) -> list[Match]:
    """`found`, and parts that are left over: added to a match that lacks their rank, or matched among each other."""
    used = {(rank, index) for match in found for rank, index in match.parts.items()}
    ends: dict[tuple[str, str], list[tuple[int, Match]]] = defaultdict(list)
    matches = list(found)
    for match in matches:
        rank, index = next(iter(match.parts.items()))
        if rank in clocks:
            parts = by_rank[rank]
            ends[match.group, parts.signature[index]].append((clocks[rank].aligned(int(parts.end[index])), match))
    loose = [
        (clocks[rank].aligned(int(parts.end[index])), rank, index)
        for rank, parts in by_rank.items()
        if rank in clocks
        for index in range(len(parts))
        if (rank, index) not in used
    ]
    for end, rank, index in sorted(loose):
        parts = by_rank[rank]
        key = (parts.group[index], parts.signature[index])
        near = [(abs(at - end), place) for place, (at, match) in enumerate(ends[key]) if rank not in match.parts]
        distance, place = min(near, default=(None, -1))
        if distance is not None and distance <= max(NEAR_NS, 5 * clocks[rank].residual_ns):
            ends[key][place][1].parts[rank] = index
        else:
            match = Match(key[0], {rank: index}, "time")
            ends[key].append((end, match))
            matches.append(match)
    return [match for match in matches if len(match.parts) > 1]
