"""The analysis behind the commands, loaded when a command needs it: `tables` and `--help` do without."""

from __future__ import annotations

import importlib
from typing import Any

from traceengine.errors import UsageError
from traceengine.run import Run

_REPORTS = {"text": "traceengine.report.text", "md": "traceengine.report.markdown", "json": "traceengine.report.json"}
REPORT_FORMATS = tuple(_REPORTS)


def ensure_analysis(run: Run) -> Run:
    """The run with an analysis of this version stored in it."""
    try:
        module: Any = importlib.import_module("traceengine.analysis")
    except ModuleNotFoundError:
        return run
    analysed: Run = module.ensure_analysis(run)
    return analysed


def render_answer(run: Run, form: str) -> str:
    """The answer of an analysed run in one of REPORT_FORMATS."""
    try:
        module: Any = importlib.import_module("traceengine.analysis")
        report: Any = importlib.import_module(_REPORTS[form])
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not part of this version") from error
    return str(report.render(module.answer(run)))
