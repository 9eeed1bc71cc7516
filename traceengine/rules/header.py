"""What the headers of rules and checks have in common: tables of keys, parameters, and parameters against their use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import duckdb

from traceengine.errors import RuleError
from traceengine.rules.model import Param
from traceengine.sqlfile import SqlFile
from traceengine.views import UNITS


def read_tables(file: SqlFile, key: str) -> Mapping[str, Any]:
    """The tables below `key`; empty when there are none."""
    entries = file.header.get(key, {})
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise file.error(f"{key!r} must be tables", key, hint=f"Write [{key}.NAME] and its keys below.")
    return entries


def read_params(file: SqlFile) -> tuple[Param, ...]:
    """The declared parameters."""
    return tuple(_param(file, name, entry) for name, entry in read_tables(file, "params").items())


def _param(file: SqlFile, name: str, entry: Mapping[str, Any]) -> Param:
    place = f"param {name!r}"
    file.known_keys(entry, ("default", "doc", "unit"), place)
    default = entry.get("default")
    if not isinstance(default, int | float | str | bool):
        raise file.error(f"{place} needs a default that is a number, a text or a boolean", name)
    return Param(name, default, file.text(entry, "doc", place), read_unit(file, entry, place))


def read_unit(file: SqlFile, entry: Mapping[str, Any], place: str) -> str:
    """The unit of a parameter or a column; empty when there is none."""
    unit = file.text(entry, "unit", place, "")
    if unit not in UNITS:
        raise file.error(f"{place} has the unknown unit {unit!r}", "unit", unit, hint="Units are ns, bytes, share, bytes/s.")
    return unit


def check_params(file: SqlFile, params: Iterable[Param], connection: duckdb.DuckDBPyConnection, elsewhere: Iterable[str] = ()) -> None:
    """Raise RuleError unless the SQL uses exactly the declared parameters, without those that only the texts `elsewhere` name."""
    place = file.body_place
    if not file.body.strip():
        raise RuleError("has no SELECT after its header", where=place)
    try:
        used = {name for statement in connection.extract_statements(file.body) for name in statement.named_parameters}
    except duckdb.Error as error:
        raise RuleError(f"is not valid SQL: {str(error).splitlines()[0]}", where=place) from error
    declared = {param.name for param in params}
    if used - declared:
        raise RuleError(f"uses ${min(used - declared)}, which is not declared", where=place, hint="Add a [params.NAME].")
    idle = declared - used - {word for text in elsewhere for word in re.findall(r"\w+", text)}
    if idle:
        raise file.error(f"param {min(idle)!r} is declared and not used", min(idle), hint="Remove it or use it.")
