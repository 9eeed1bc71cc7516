"""Where the SQL files and name lists live: beside the package in a checkout, inside it when installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def queries_dir() -> Path:
    """Folder with names.csv, views/, rules/ and reports/."""
    installed = _PACKAGE / "_queries"
    return installed if installed.is_dir() else _PACKAGE.parent / "queries"
