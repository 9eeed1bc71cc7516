"""Which cause leads: what the replay saves, exposed time where that does not decide."""

from __future__ import annotations

import pytest

from traceengine.verdict import CauseCost, VerdictParameters, ranked, saves_little

NEEDED = 0.18


def cause(name: str, exposed: float, saving: float | None, limit: str = "compute") -> CauseCost:
    """A cause of a step of 1000 ns."""
    ns = round(1000 * exposed)
    saved = None if saving is None else round(1000 * saving)
    return CauseCost(name, ns, exposed, ns, exposed, 8, saved, ns, ns, ns, ns, saving, limit)


def order(*causes: CauseCost) -> list[str]:
    by_exposed = sorted(causes, key=lambda entry: -entry.exclusive_share)
    return [entry.cause for entry in ranked(by_exposed, NEEDED, VerdictParameters())]


def test_the_larger_saving_leads_whatever_is_exposed() -> None:
    assert order(cause("compile", 0.28, 0.28), cause("host_bound", 0.16, 0.44), cause("compute", 0.56, 0.5)) == ["host_bound", "compile"]


def test_savings_that_differ_by_little_are_equal_and_exposed_time_decides() -> None:
    assert order(cause("data_wait", 0.33, 0.33), cause("host_bound", 0.10, 0.36)) == ["data_wait", "host_bound"]


def test_when_no_cause_alone_saves_enough_exposed_time_decides() -> None:
    assert order(cause("exposed_comm", 0.25, 0.0), cause("host_bound", 0.06, 0.04)) == ["exposed_comm", "host_bound"]


def test_an_unknown_saving_counts_by_its_exposed_time() -> None:
    assert order(cause("exposed_comm", 0.6, None, "unknown"), cause("host_bound", 0.2, 0.3)) == ["exposed_comm", "host_bound"]


def test_compute_and_unknown_time_never_lead() -> None:
    assert order(cause("compute", 0.7, 0.7), cause("unknown", 0.3, None)) == []


@pytest.mark.parametrize(("saving", "little"), [(None, False), (0.0, True), (0.049, True), (0.06, False)])
def test_saving_little(saving: float | None, little: bool) -> None:
    assert saves_little(cause("h2d", 0.3, saving), VerdictParameters()) is little
