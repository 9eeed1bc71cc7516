"""Importing exports below the test's own folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from nsys_helpers import import_one

from traceengine.importers.nsys import NsysOptions
from traceengine.run import Run


@pytest.fixture
def importer(tmp_path: Path) -> Callable[..., Run]:
    """`importer(path, options=None)`: a run of its own for each call."""
    numbers = iter(range(1000))

    def run(path: Path, options: NsysOptions | None = None) -> Run:
        return import_one(path, tmp_path / f"run{next(numbers)}", options)

    return run
