"""The bottleneck classes: ids that tables, rules and JSON use, with a title and a sentence (queries/classes.csv)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache

from traceengine.resources import queries_dir


@dataclass(frozen=True)
class BottleneckClass:
    """A cause of wall time on the critical path; `healthy` and `unknown` are verdicts only."""

    id: str
    title: str
    sentence: str


@cache
def load_classes() -> tuple[BottleneckClass, ...]:
    """All classes, in the order in which the docs list them."""
    with (queries_dir() / "classes.csv").open(encoding="utf-8", newline="") as stream:
        return tuple(BottleneckClass(row["id"], row["title"], row["sentence"]) for row in csv.DictReader(stream))


@cache
def class_ids() -> frozenset[str]:
    """Ids of all classes."""
    return frozenset(entry.id for entry in load_classes())
