"""Gives every trace of a run a rank of its own, and says where that went wrong: double, missing, unknown ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traceengine.importers.fileimport import RankClaim
from traceengine.importers.issues import INFO, WARNING, Issue
from traceengine.importers.kineto.importer import Placement

_NAMED_GAPS = 20
"""Missing ranks that are listed by number; with more the first ones are."""


@dataclass(frozen=True)
class Placed:
    """A trace's place, and what there is to say about it."""

    placement: Placement
    issues: list[Issue]


@dataclass(frozen=True)
class Told:
    """What is known besides the traces: a rank that the user gave for the only one, and issues of the whole request."""

    rank: int | None = None
    issues: Sequence[Issue] = ()


def place_claims(claims: list[tuple[int, RankClaim]], told: Told) -> list[Placed]:
    """Places of `(source_id, claim)` in order. A rank goes to the first that claims it; the others get the next free one."""
    starts = [claim.first_unix_ns for _, claim in claims if claim.first_unix_ns is not None]
    origin = min(starts, default=None)
    wanted = [told.rank if told.rank is not None else claim.rank for _, claim in claims]
    taken = {rank for rank in wanted if rank is not None}
    owners: set[int] = set()
    placed: list[Placed] = []
    for (source_id, claim), rank in zip(claims, wanted, strict=True):
        issues: list[Issue] = []
        rank_origin = "assigned" if told.rank is not None else claim.rank_origin
        if rank is None or rank in owners:
            free = next(number for number in range(len(claims) + len(taken) + 1) if number not in taken)
            issues.append(_unplaced(claim, rank, free, alone=len(claims) == 1))
            taken.add(free)
            rank, rank_origin = free, claim.rank_origin if claim.rank_origin == "process" else "assigned"
        owners.add(rank)
        place = Placement(rank, rank_origin, source_id, origin if claim.first_unix_ns is not None else None)
        placed.append(Placed(place, issues))
    if placed:
        placed[0].issues.extend([*told.issues, *_gaps(claims, owners)])
    return placed


def _unplaced(claim: RankClaim, rank: int | None, free: int, *, alone: bool) -> Issue:
    if rank is not None:
        return Issue("double_rank", WARNING, 1, f"Another file has rank {rank} already: this one is numbered {free}.", claim.name)
    action = f"Neither the file nor its name says the rank: it is numbered {free}."
    return Issue("unknown_rank", INFO if alone or claim.rank_origin == "process" else WARNING, 1, action, claim.name)


def _gaps(claims: list[tuple[int, RankClaim]], ranks: set[int]) -> list[Issue]:
    sizes = {claim.world_size for _, claim in claims if claim.world_size}
    issues = []
    if len(sizes) > 1:
        listed = ", ".join(map(str, sorted(sizes)))
        issues.append(Issue("different_world_sizes", WARNING, len(sizes), "These files are not of one job.", listed))
    size = max(sizes, default=0)
    missing = [rank for rank in range(size) if rank not in ranks]
    if missing:
        listed = ", ".join(map(str, missing[:_NAMED_GAPS])) + (", ..." if len(missing) > _NAMED_GAPS else "")
        action = f"The job has {size} ranks; what the missing ones did is unknown."
        issues.append(Issue("missing_ranks", WARNING if len(claims) > 1 else INFO, len(missing), action, listed))
    return issues
