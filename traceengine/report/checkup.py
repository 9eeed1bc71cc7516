"""The examination of a capture, as text and JSON."""

from __future__ import annotations

import io
import json
from dataclasses import asdict

from rich.console import Console

from traceengine.doctor import Checkup

SCHEMA_VERSION = 1
_WIDTH = 110


def render_text(checkups: tuple[Checkup, ...]) -> str:
    """One list per rank that differs from the one before, then how to record a capture that answers everything."""
    out = io.StringIO()
    console = Console(file=out, width=_WIDTH, highlight=False, emoji=False, markup=False)
    shown: list[tuple[object, ...]] = []
    for checkup in checkups:
        if checkup.capabilities in shown:
            continue
        shown.append(checkup.capabilities)
        alike = [other.rank for other in checkups if other.capabilities == checkup.capabilities]
        console.print(f"rank {', '.join(map(str, alike[:8]))}{' …' if len(alike) > 8 else ''}")
        for entry in checkup.capabilities:
            console.print(f"  {entry.answer:6}  {entry.question}  {entry.why}", soft_wrap=True)
            if entry.fix:
                # Never cut or wrapped: it is there to be copied.
                console.print(f"          → {entry.fix}", soft_wrap=True)
        console.print()
    console.print("A capture that answers all of them:")
    console.print()
    for line in checkups[0].recipe.splitlines():
        console.print(f"  {line}", soft_wrap=True)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def render_json(checkups: tuple[Checkup, ...]) -> str:
    """The document, versioned."""
    return json.dumps({"schema_version": SCHEMA_VERSION, "ranks": [asdict(checkup) for checkup in checkups]}, indent=1) + "\n"
