"""Innermost enclosing event of every host event, in one pass over events sorted by thread, start and descending end.

Rule for slices that overlap without one holding the other (they come from different instruments, from rounding, or from
frames that were never closed):

1. an overlap of less than `ROUNDING_NS` is rounding: the two are siblings;
2. a range that starts inside a Python frame and outlives it (`__enter__` starts it, `__exit__` ends it) is no child of
   that frame: the frame's parent encloses it;
3. otherwise the later one is the child of the earlier one and counts, for nesting, only up to its parent's end;
4. a Python frame that outlives the frame that called it was never closed: its duration is cut at its caller's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

ROUNDING_NS = 1_000
"""Old traces hold whole µs, and newer ones round start and duration apart: an overlap below 1 µs says nothing."""

SKIP, PYTHON, ANNOTATION, WORK = 0, 1, 2, 3
"""Instruments: not nested at all, Python frames, ranges, everything else."""


@dataclass
class Nested:
    """Answer for one batch, one entry per event: parent id (-1: none), depth (-1: not nested), repaired durations by position."""

    parents: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    cut_durations: dict[int, int] = field(default_factory=dict)


class Nester:
    """Keeps the open events of the current thread between batches."""

    def __init__(self) -> None:
        self.overlaps = 0
        self.unclosed_frames = 0
        self._thread: int | None = None
        self._ends: list[int] = []
        self._true_ends: list[int] = []
        self._ids: list[int] = []
        self._kinds: list[int] = []

    def add(self, first_id: int, threads: Sequence[int], starts: Sequence[int], durations: Sequence[int], kinds: Sequence[int]) -> Nested:
        """Nest the next events in order; the event at position p has id `first_id + p`."""
        answer = Nested()
        ends, ids, stack_kinds, true_ends = self._ends, self._ids, self._kinds, self._true_ends
        parents, depths = answer.parents, answer.depths
        for position, kind in enumerate(kinds):
            if kind == SKIP:
                parents.append(-1)
                depths.append(-1)
                continue
            if threads[position] != self._thread:
                self._thread = threads[position]
                for stack in (ends, ids, stack_kinds, true_ends):
                    stack.clear()
            start = starts[position]
            end = true_end = start + durations[position]
            while ends and ends[-1] <= start:
                ends.pop()
                ids.pop()
                stack_kinds.pop()
                true_ends.pop()
            if ends and end > ends[-1]:
                end, true_end = self._overlap(start, end, kind)
                if true_end != start + durations[position]:
                    answer.cut_durations[position] = true_end - start
            parents.append(ids[-1] if ids else -1)
            depths.append(len(ids))
            ends.append(end)
            ids.append(first_id + position)
            stack_kinds.append(kind)
            true_ends.append(true_end)
        return answer

    def _overlap(self, start: int, end: int, kind: int) -> tuple[int, int]:
        """Apply the rule to an event that outlives the innermost open one; returns its end for nesting and its true end."""
        while self._ends and end > self._ends[-1] and self._may_close(start, kind):
            for stack in (self._ends, self._ids, self._kinds, self._true_ends):
                stack.pop()
        if not self._ends or end <= self._ends[-1]:
            return end, end
        parent_end = self._ends[-1]
        true_end = end
        if kind == PYTHON:
            caller_end = self._caller_end()
            if caller_end is not None and end - caller_end >= ROUNDING_NS:
                self.unclosed_frames += 1
                true_end = caller_end
        elif end - parent_end >= ROUNDING_NS and self._kinds[-1] != PYTHON:
            self.overlaps += 1
        return min(parent_end, true_end), true_end

    def _may_close(self, start: int, kind: int) -> bool:
        return self._ends[-1] - start < ROUNDING_NS or (kind == ANNOTATION and self._kinds[-1] == PYTHON)

    def _caller_end(self) -> int | None:
        for kind, end in zip(reversed(self._kinds), reversed(self._true_ends), strict=True):
            if kind == PYTHON:
                return end
        return None
