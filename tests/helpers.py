"""Tiny runs from readable text, for tests.

    run = build_run(tmp_path / "run", device_event='''
        stream | ts_ns | dur_ns | kind   | class
        7      | 0     | 100    | kernel | gemm
    ''')

A row gives the columns that matter; the others get a default that is valid and means nothing in particular. An empty cell is NULL.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from traceengine.rules.tinytable import rows
from traceengine.run import Manifest, Run, RunWriter, write_table
from traceengine.schema import TableOrigin, table

__all__ = ["SHARED", "build_run", "rows"]

SHARED = Path(os.environ.get("TRACEENGINE_SHARED", Path(__file__).parents[2] / "shared"))
"""Material that may or may not be here; tests that need it skip without."""

def build_run(path: Path, **tables: str | pa.Table) -> Run:
    """Write a run with the given tables (text as in `rows`, or Arrow); analysis tables too, without an analysis of their own."""
    arrow = {name: rows(name, content) if isinstance(content, str) else content for name, content in tables.items()}
    ranks = sorted({rank for content in arrow.values() for rank in content.column("rank").to_pylist()}) or [0]
    if "source" not in arrow:
        arrow["source"] = rows("source", "rank | kind\n" + "\n".join(f"{rank} | torch" for rank in ranks))
    with RunWriter(path) as writer:
        for name, content in arrow.items():
            if table(name).origin is TableOrigin.IMPORT:
                for rank, part in _by_rank(content):
                    writer.write(name, rank, part)
        run = writer.commit(Manifest.new("test", None, tuple(ranks), ("trace.json",)))
    with run.analysis_writer({"key": "test"}) as root:
        for name, content in arrow.items():
            if table(name).origin is TableOrigin.ANALYSIS:
                for rank, part in _by_rank(content):
                    write_table(root, name, rank, part)
    return run


def _by_rank(content: pa.Table) -> list[tuple[int, pa.Table]]:
    ranks = content.column("rank")
    return [(rank, content.filter(pc.equal(ranks, rank))) for rank in sorted(set(ranks.to_pylist()))]
