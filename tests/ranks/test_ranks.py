"""Clocks, matching, waits and the job's replay against slow and obvious computations."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceengine.ranks.chain import Chain
from traceengine.ranks.clock import Clock, fit_clock
from traceengine.ranks.match import match_parts
from traceengine.ranks.parts import Parts
from traceengine.ranks.split import Windows, split_path, wait_windows
from traceengine.ranks.waits import Collective, collectives
from traceengine.schema import table

Planned = list[tuple[str, list[int], int]]
"""Collectives of a job on a perfect clock: signature, arrival of each rank, transfer."""


def parts_of(rank: int, planned: Planned, kept: range, offset: int, drift: float = 0.0, *, sequence: bool = False, steps: int = 0) -> Parts:
    """What rank `rank` records of the collectives `kept`, on its own clock."""

    def clock(times: list[int]) -> np.ndarray:
        return np.array([time + offset + round(drift * time) for time in times], np.int64)

    chosen = [planned[index] for index in kept]
    n = len(chosen)
    return Parts(
        rank,
        np.arange(n),
        clock([starts[rank] for _, starts, _ in chosen]),
        clock([max(starts) + transfer for _, starts, transfer in chosen]),
        tuple(signature for signature, _, _ in chosen),
        ("g",) * n,
        ("allreduce",) * n,
        tuple(signature for signature, _, _ in chosen),
        np.array(list(kept) if sequence else [-1] * n, np.int64),
        np.array([index // steps for index in kept] if steps else [-1] * n, np.int64),
        np.full(n, 1000),
        np.full(n, len(planned[0][1]) if planned else 0),
        True,
    )


@st.composite
def jobs(draw: st.DrawFn) -> tuple[Planned, list[range], list[int]]:
    """A job of irregular steps, which parts each rank captured, and clock offsets."""
    ranks, count = draw(st.integers(2, 4)), draw(st.integers(6, 24))
    planned, now = [], 0
    for _ in range(count):
        now += draw(st.integers(200_000, 3_000_000))
        starts = [now + draw(st.integers(0, 400_000)) for _ in range(ranks)]
        transfer = draw(st.integers(1_000, 90_000))
        planned.append((draw(st.sampled_from("ab")), starts, transfer))
        now = max(starts) + transfer
    kept = [range(draw(st.integers(0, count // 6)), count - draw(st.integers(0, count // 6))) for _ in range(ranks)]
    offsets = [draw(st.integers(-50_000_000, 50_000_000)) for _ in range(ranks)]
    return planned, kept, offsets


@settings(max_examples=150)
@given(jobs(), st.sampled_from(["sequence", "steps", "neither"]))
def test_matches_are_true_ones(job: tuple[Planned, list[range], list[int]], known: str) -> None:
    planned, kept, offsets = job
    ranks = [
        parts_of(rank, planned, kept[rank], offsets[rank], sequence=known == "sequence", steps=3 if known == "steps" else 0)
        for rank in range(len(kept))
    ]
    matching = match_parts(ranks)
    for match in matching.matches:
        assert len({kept[rank][index] for rank, index in match.parts.items()}) == 1, "parts of one collective only"
    if known == "sequence":
        wanted = sum(sum(index in span for span in kept) > 1 for index in range(len(planned)))
        assert len(matching.matches) == wanted
    for rank, clock in matching.clocks.items():
        reference = min(matching.clocks)
        assert clock.offset_ns == offsets[rank] - offsets[reference]
        assert clock.residual_ns == 0
    parts = {part.rank: part for part in ranks}
    _check_waits(collectives(matching, parts), planned, kept, ranks)


def _check_waits(entries: tuple[Collective, ...], planned: Planned, kept: list[range], ranks: list[Parts]) -> None:
    for entry in entries:
        first = entry.arrivals[0]
        signature, starts, transfer = planned[kept[first.rank][first.index]]
        assert entry.op == signature
        present = [starts[arrival.rank] for arrival in entry.arrivals]
        for arrival in entry.arrivals:
            # A missing rank's lateness cannot be told from the transfer.
            assert arrival.wait_ns == max(present) - starts[arrival.rank]
            assert arrival.wait_ns + arrival.transfer_ns == max(starts) + transfer - starts[arrival.rank]
        assert starts[entry.late_rank] == max(present)
        assert entry.complete == (len(present) == len(starts))


@given(st.integers(-50_000_000, 50_000_000), st.integers(-20_000, 20_000), st.integers(10, 60), st.randoms(use_true_random=False))
def test_offset_and_drift(offset: int, drift_ppb: int, count: int, random: object) -> None:
    times = np.sort(np.array([random.randint(0, 20_000_000_000) for _ in range(count)], np.int64))  # type: ignore[attr-defined]
    jitter = np.array([random.randint(0, 10_000) for _ in range(count)], np.int64)  # type: ignore[attr-defined]
    own = times + offset + np.round(times * drift_ppb / 1e9).astype(np.int64) + jitter
    clock = fit_clock(own, times)
    assert np.abs(clock.aligned_all(own) - times).max() <= 20_000
    assert [clock.aligned(int(time)) for time in own] == clock.aligned_all(own).tolist()


def test_a_short_window_has_no_drift() -> None:
    times = np.arange(0, 100_000_000, 5_000_000)
    assert fit_clock(times + 7, times) == Clock(7, 0.0, int(np.median(times + 7)), 0, 20)


@settings(max_examples=60)
@given(jobs())
def test_the_chain_gives_every_recorded_end(job: tuple[Planned, list[range], list[int]]) -> None:
    planned, _, _ = job
    count = len(planned[0][1])
    ranks = {rank: parts_of(rank, planned, range(len(planned)), 0, sequence=True) for rank in range(count)}
    entries = collectives(match_parts(list(ranks.values())), ranks)
    last = planned[-1]
    windows = {rank: (0, max(last[1]) + last[2] + 1000 * rank) for rank in range(count)}
    chain = Chain(entries, windows)
    assert chain.end_ns() == max(end for _, end in windows.values())
    # One rank sooner at one collective: nothing ends later, and no more is saved than it is sooner by.
    for entry in entries[:4]:
        saved = chain.end_ns() - chain.end_ns({(entry.number, entry.late_rank): 50_000})
        assert 0 <= saved <= min(50_000, entry.margin_ns)


def test_waiting_becomes_straggler_and_the_partition_stays() -> None:
    schema = table("critical_path").arrow
    base = {"rank": 0, "step": 0, "hidden_ns": 0, "resource": "r", "detail": "nccl", "edge": "stream", "state": "measured"}
    rows = [
        {**base, "seq": 0, "ts_ns": 0, "dur_ns": 100, "cause": "compute"},
        {**base, "seq": 1, "ts_ns": 100, "dur_ns": 900, "cause": "exposed_comm", "hidden_ns": 9},
        {**base, "seq": 2, "ts_ns": 1000, "dur_ns": 10, "cause": "compute"},
    ]
    windows = Windows(np.array([50, 400, 990]), np.array([200, 500, 2000]), np.array([3, 4, 5]))
    found = split_path(pa.Table.from_pylist(rows, schema=schema), windows).to_pylist()
    assert [(row["seq"], row["ts_ns"], row["dur_ns"], row["cause"], row["detail"]) for row in found] == [
        (0, 0, 100, "compute", "nccl"),
        (1, 100, 100, "straggler", "wait for rank 3"),
        (2, 200, 200, "exposed_comm", "nccl"),
        (3, 400, 100, "straggler", "wait for rank 4"),
        (4, 500, 490, "exposed_comm", "nccl"),
        (5, 990, 10, "straggler", "wait for rank 5"),
        (6, 1000, 10, "compute", "nccl"),
    ]
    assert sum(row["hidden_ns"] for row in found) == 9


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 40)), max_size=6), st.integers(0, 250), st.integers(0, 60))
def test_time_inside_windows(spans: list[tuple[int, int]], start: int, length: int) -> None:
    apart, at = [], -1
    for low, width in sorted(spans):
        if low > at:
            apart.append((low, low + width))
            at = low + width
    windows = Windows(*(np.array(side, np.int64) for side in zip(*apart, strict=True)), np.zeros(len(apart), np.int64)) if apart else None
    if windows is None:
        windows = Windows(*(np.zeros(0, np.int64),) * 3)
    moments = {time for low, high in apart for time in range(low, high)}
    wanted = sum(time in moments for time in range(start, start + length))
    assert windows.inside(np.array([start]), np.array([start + length])).tolist() == [wanted]


@pytest.mark.parametrize("late", [30_000, 5_000])
def test_waits_within_the_clocks_error_are_no_waits(late: int) -> None:
    """Ends differ by a few µs: three residuals of them hide a lateness below."""
    planned: Planned = [("a", [index * 1_000_000, index * 1_000_000 + late], 10_000) for index in range(12)]
    ranks = {rank: parts_of(rank, planned, range(12), 0, sequence=True) for rank in range(2)}
    windows = wait_windows(collectives(match_parts(list(ranks.values())), ranks), ranks[0])
    assert len(windows.start) == (12 if late > 20_000 else 0)
