"""What only all ranks together tell: which rank keeps the others waiting, and why."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb


@dataclass(frozen=True)
class JobRank:
    """One rank beside the others; ns per step. Both are None when its clock is unknown.

    `waits` has (step, wait_ns) per step, in order.
    """

    rank: int
    wait_ns: int | None
    late_ns: int | None
    waits: tuple[tuple[int, int | None], ...]


@dataclass(frozen=True)
class LateRank:
    """The rank whose lateness costs the job most: its own class of bottleneck, and what the job could save at most per step.

    `share` is the saving divided by the job's time.
    """

    rank: int
    cause: str
    late_ns: int
    steps_hit: int
    steps: int
    saving_ns: int
    share: float


@dataclass(frozen=True)
class JobVerdict:
    """All ranks together. `late` is None when no rank is clearly late for a known cause; `unaligned` are ranks without a clock."""

    ranks: tuple[JobRank, ...]
    late: LateRank | None
    residual_ns: int | None
    unaligned: tuple[int, ...]
    unmatched: int


def judge_job(connection: duckdb.DuckDBPyConnection) -> JobVerdict | None:
    """The answer across ranks; None for a run of one rank."""
    clocks = connection.execute("select rank, offset_ns, residual_ns, unmatched from clock order by rank").fetchall()
    if not clocks:
        return None
    return JobVerdict(
        _ranks(connection),
        _late(connection),
        max((residual for _, _, residual, _ in clocks if residual is not None), default=None),
        tuple(rank for rank, offset, _, _ in clocks if offset is None),
        sum(unmatched for *_, unmatched in clocks),
    )


def _ranks(connection: duckdb.DuckDBPyConnection) -> tuple[JobRank, ...]:
    rows = connection.execute("select rank, step, wait_ns, late_ns from rank_step order by rank, step").fetchall()
    found = []
    for rank in sorted({row[0] for row in rows}):
        own = [row for row in rows if row[0] == rank]
        waits = [wait for _, _, wait, _ in own if wait is not None]
        late = [late for *_, late in own if late is not None]
        found.append(
            JobRank(
                rank,
                sum(waits) // len(waits) if waits else None,
                sum(late) // len(late) if late else None,
                tuple((step, wait) for _, step, wait, _ in own),
            )
        )
    return tuple(found)


def _late(connection: duckdb.DuckDBPyConnection) -> LateRank | None:
    row = connection.execute(
        "select rank, cause, late_ns, steps_hit, steps, saving_ns, makespan_ns from late_rank where saving_ns > 0 limit 1"
    ).fetchone()
    if row is None:
        return None
    rank, cause, late_ns, steps_hit, steps, saving_ns, makespan_ns = row
    per = max(steps, 1)
    return LateRank(rank, cause, late_ns // per, steps_hit, steps, saving_ns // per, saving_ns / makespan_ns)
