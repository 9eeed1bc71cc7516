"""One cache for the session; the traces of all collected tests are analysed ahead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from acceptance_runs import Answered, Answers, Trace


@pytest.fixture(scope="session")
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    """Answers for all traces that the collected tests name in their parameter `trace`."""
    named = [item.callspec.params["trace"] for item in request.session.items if hasattr(item, "callspec") and "trace" in item.callspec.params]
    found = Answers(tmp_path_factory.mktemp("runs"), [trace for trace in named if isinstance(trace, Trace)])
    yield found
    found.close()


@pytest.fixture
def answered(trace: Trace, answers: Answers) -> Answered:
    """The answer for the test's trace."""
    return answers(trace)
