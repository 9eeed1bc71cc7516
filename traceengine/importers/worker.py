"""Imports some files in a process of its own, told and answering in lines of JSON.

```
{"stage": [task, ...], "caller": process}       ->  {"advance": n} ...  {"claims": [[claim, ...], ...]}
{"finish": {"root": DIR, "places": [...]}}      ->  {"done": true}
```
A failure is answered as {"error": {...}}. JSON and no pickle, so that nothing but data crosses the border.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from traceengine import errors
from traceengine.importers.fileimport import AttachedWriter, FileImport, FileTask, RankClaim
from traceengine.importers.issues import Issue
from traceengine.importers.kineto.importer import Placement
from traceengine.importers.placement import Placed
from traceengine.importers.progress import ProgressSink


class _Telling:
    """Progress as lines."""

    def start(self, name: str, total_bytes: int) -> None:
        """The caller has started the bar."""

    def advance(self, bytes_read: int) -> None:
        """Say it."""
        _say({"advance": bytes_read})

    def finish(self) -> None:
        """The caller ends the bar."""


def _say(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _told(line: str) -> dict[str, Any]:
    document = json.loads(line)
    return document if isinstance(document, dict) else {}


def _listen(orders: queue.Queue[dict[str, Any]]) -> None:
    """Pass the orders on. The caller keeps the pipe open until it has ended this process, so its end means a killed caller."""
    for line in sys.stdin:
        orders.put(_told(line))
    os._exit(1)


def main() -> None:
    """Serve one caller, and end with it."""
    orders: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(orders,), name="orders", daemon=True).start()
    try:
        order = orders.get()
        if os.getppid() != order["caller"]:
            return
        tasks = [FileTask.from_json(task) for task in order["stage"]]
        imports = [FileImport(task) for task in tasks]
        claims = [[asdict(claim) for claim in each.stage(_Telling())] for each in imports]
        _say({"claims": claims})
        order = orders.get()["finish"]
        writer = AttachedWriter(Path(order["root"]))
        for each, places in zip(imports, order["places"], strict=True):
            placements = [Placement(**place["placement"]) for place in places]
            each.finish(writer, placements, [[Issue(**issue) for issue in place["issues"]] for place in places])
        _say({"done": True})
    except errors.TraceEngineError as error:
        _say({"error": {"type": type(error).__name__, "message": error.message, "where": error.where, "hint": error.hint}})


class Worker:
    """The caller's side of one worker process."""

    def __init__(self, tasks: list[FileTask]) -> None:
        self.tasks = tasks
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from traceengine.importers.worker import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._send({"stage": [task.to_json() for task in tasks], "caller": os.getpid()})

    def claims(self, progress: ProgressSink) -> list[list[RankClaim]]:
        """Wait for the first step. Raises what the worker met."""
        answer = self._answer("claims", progress)
        return [[RankClaim(**claim) for claim in claims] for claims in answer]

    def finish(self, root: Path, places: list[list[Placed]]) -> None:
        """Start the second step; `places` follow the claims."""
        plain = [
            [{"placement": asdict(one.placement), "issues": [asdict(issue) for issue in one.issues]} for one in each] for each in places
        ]
        self._send({"finish": {"root": str(root), "places": plain}})

    def wait(self, progress: ProgressSink) -> None:
        """Wait for the second step. Raises what the worker met."""
        self._answer("done", progress)

    def stop(self) -> None:
        """End the process, whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _send(self, document: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(document) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._died() from error

    def _answer(self, wanted: str, progress: ProgressSink) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            document = _told(line)
            if "advance" in document:
                progress.advance(document["advance"])
            elif "error" in document:
                told = document["error"]
                kind = getattr(errors, told["type"], errors.InputError)
                raise kind(told["message"], where=told["where"], hint=told["hint"])
            elif wanted in document:
                return document[wanted]
        raise self._died()

    def _died(self) -> errors.InputError:
        names = ", ".join(task.name for task in self.tasks)
        code = self._process.wait()
        return errors.InputError(
            f"the process that imported it ended early (code {code})", where=names, hint="Import with --jobs 1 to see why."
        )
