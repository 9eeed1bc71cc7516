"""The connection that sorts and joins an export's rows."""

from __future__ import annotations

from pathlib import Path

import duckdb

from traceengine.importers.sql import work_connection

MEMORY_LIMIT = "96MB"
"""Memory for sorts and joins; beyond it DuckDB works on disk. Rows are read and written beside it in about 250 MB, so an
import stays under 450 MB whatever its size; twice as much saves no CPU at five million rows."""


def bounded_connection(scratch: Path, threads: int) -> duckdb.DuckDBPyConnection:
    """A connection for bounded work that spills under `scratch`."""
    connection = work_connection(scratch, threads)
    connection.execute(f"set memory_limit = '{MEMORY_LIMIT}'")  # a constant: SET takes no parameters
    return connection
