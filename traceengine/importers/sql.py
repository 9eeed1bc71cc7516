"""The importers' SQL, one statement a file under queries/import/, and the connection that runs it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import duckdb

from traceengine.resources import queries_dir

MEMORY_LIMIT = "192MB"
"""Memory of one connection: a group of parts needs about 60 MB; what is above is for traces with huge arguments."""


@cache
def statement(name: str) -> str:
    """Text of queries/import/NAME.sql."""
    return (queries_dir() / "import" / f"{name}.sql").read_text(encoding="utf-8")


def work_connection(scratch: Path, threads: int) -> duckdb.DuckDBPyConnection:
    """A connection for bounded work: spills under `scratch`, loads no extension."""
    return duckdb.connect(
        ":memory:",
        config={
            "threads": threads,
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": str(scratch / "spill"),
            "preserve_insertion_order": True,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
