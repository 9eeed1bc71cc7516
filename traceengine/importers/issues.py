"""What an import repaired, dropped or could not tell: collected here, written as table `import_issue`."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from traceengine.schema import table

INFO = "info"
WARNING = "warning"
ERROR = "error"


@dataclass(frozen=True)
class Issue:
    """One kind of trouble in one file: `count` events of it, one of them as `example`."""

    code: str
    severity: str
    count: int
    action: str
    example: str | None = None


def issue_rows(rank: int, source_id: int, issues: list[Issue]) -> pa.Table:
    """Rows of table `import_issue`, sorted by code."""
    ordered = sorted(issues, key=lambda issue: (issue.code, issue.example or ""))
    rows = [
        {
            "rank": rank,
            "source_id": source_id,
            "code": issue.code,
            "severity": issue.severity,
            "count": issue.count,
            "example": issue.example,
            "action": issue.action,
        }
        for issue in ordered
    ]
    return pa.Table.from_pylist(rows, schema=table("import_issue").arrow)
