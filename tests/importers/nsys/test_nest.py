"""Nesting on columns against the plain one-by-one rule."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from traceengine.importers.kineto.nest import ANNOTATION, SKIP, WORK, Nester
from traceengine.importers.nsys_nest import ColumnNester

EVENT = st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 25), st.sampled_from([WORK, ANNOTATION, SKIP]))
LARGE = st.tuples(st.integers(0, 1), st.integers(0, 30_000), st.integers(0, 20_000), st.sampled_from([WORK, ANNOTATION]))


def _both(events: list[tuple[int, int, int, int]], sizes: list[int]) -> None:
    ordered = sorted(events, key=lambda event: (event[0], event[1], -event[2]))
    slow, quick = Nester(), ColumnNester()
    expected: list[tuple[int, int]] = []
    got: list[tuple[int, int]] = []
    position = 0
    while position < len(ordered):
        batch = ordered[position : position + sizes[position % len(sizes)]]
        threads, starts, durations, kinds = (list(column) for column in zip(*batch, strict=True))
        answer = slow.add(position, threads, starts, durations, kinds)
        expected += zip((-1 if p is None else p for p in answer.parents), (-1 if d is None else d for d in answer.depths), strict=True)
        parents, depths = quick.add(position, *(np.array(column, np.int64) for column in (threads, starts, durations, kinds)))
        got += zip(parents.tolist(), depths.tolist(), strict=True)
        position += len(batch)
    quick.finish()
    assert got == expected
    assert quick.overlaps == slow.overlaps


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENT, max_size=25), st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_any_intervals_in_any_batches(events: list[tuple[int, int, int, int]], sizes: list[int]) -> None:
    _both(events, sizes)


@settings(max_examples=200, deadline=None)
@given(st.lists(LARGE, max_size=25), st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_overlaps_above_rounding(events: list[tuple[int, int, int, int]], sizes: list[int]) -> None:
    _both(events, sizes)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_proper_nesting(data: st.DataObject) -> None:
    """A random tree of calls, some of zero length, some touching."""
    events: list[tuple[int, int, int, int]] = []

    def fill(start: int, end: int, depth: int) -> None:
        while start < end and len(events) < 60:
            length = data.draw(st.integers(0, end - start))
            events.append((0, start, length, WORK))
            if depth < 6 and length > 1:
                fill(start, start + length, depth + 1)
            start += length + data.draw(st.integers(0, 3))
            if length == 0:
                start += 1

    fill(0, 64, 0)
    _both(events, [data.draw(st.integers(1, 20))])
