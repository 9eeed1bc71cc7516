"""Progress on stderr: a bar on a terminal, one plain line per file otherwise."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from traceengine.report.units import size, visible


class StderrProgress:
    """Shows what an importer reads. Used as a context manager, so that a bar is cleared whatever happens."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        if sys.stderr.isatty():
            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)

    def __enter__(self) -> StderrProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, name: str, total_bytes: int) -> None:
        """A file begins."""
        if self._bar is None:
            sys.stderr.write(f"traceengine: reading {visible(name)} ({size(total_bytes)})\n")
        else:
            self._task = self._bar.add_task(visible(name), total=total_bytes or None)

    def advance(self, bytes_read: int) -> None:
        """`bytes_read` more bytes were read."""
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, bytes_read)

    def finish(self) -> None:
        """The file is done."""
        if self._bar is not None and self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None
