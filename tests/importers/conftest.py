"""Fixtures of the importer's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.importers.import_helpers import ImportBytes
from traceengine.importers import ImportRequest, import_traces
from traceengine.run import Run


@pytest.fixture
def import_bytes(tmp_path: Path) -> ImportBytes:
    """Import a text as one file; returns the run."""
    number = 0

    def run(content: bytes, name: str = "trace.json", **options: Any) -> Run:
        nonlocal number
        number += 1
        folder = tmp_path / f"in-{number}"
        folder.mkdir()
        path = folder / name
        path.write_bytes(content)
        return import_traces(ImportRequest((path,), out=tmp_path / f"run-{number}", jobs=options.pop("jobs", 2), **options))

    return run
