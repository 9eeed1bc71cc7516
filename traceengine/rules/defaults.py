"""What an experiment holds where its rule says nothing else: queries/experiment.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from traceengine.errors import RuleError
from traceengine.resources import queries_dir


@dataclass(frozen=True)
class ExperimentDefaults:
    """The texts that most experiments share."""

    invariants: tuple[str, ...]
    measure: tuple[str, ...]
    stop: str
    rollback: str


@cache
def load_defaults(path: Path | None = None) -> ExperimentDefaults:
    """Load and check the defaults. Raises RuleError with the file, and the line where it is no TOML."""
    path = path or queries_dir() / "experiment.toml"
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"is not valid TOML: {error}", where=str(path)) from error
    names = tuple(ExperimentDefaults.__dataclass_fields__)
    if set(document) != set(names):
        raise RuleError(f"holds {', '.join(document)} instead of {', '.join(names)}", where=str(path), hint="Give each of them once.")
    return ExperimentDefaults(
        invariants=_texts(path, document, "invariants"),
        measure=_texts(path, document, "measure"),
        stop=_text(path, document, "stop"),
        rollback=_text(path, document, "rollback"),
    )


def _text(path: Path, document: Mapping[str, Any], key: str) -> str:
    value = document[key]
    if not isinstance(value, str) or not value.strip():
        raise RuleError(f"{key!r} must be a text that is not empty", where=str(path))
    return value


def _texts(path: Path, document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = document[key]
    if not isinstance(value, list) or not value or not all(isinstance(item, str) and item.strip() for item in value):
        raise RuleError(f"{key!r} must be a list of texts", where=str(path))
    return tuple(value)
