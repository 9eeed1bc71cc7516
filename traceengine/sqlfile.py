"""SQL files with a TOML header in their leading comment: the form of views and rules.

```sql
-- /// rule
-- title = "..."
-- ///
select ...
```
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traceengine.errors import RuleError

_OPEN = re.compile(r"--\s*///\s*(\w+)\s*")
_CLOSE = re.compile(r"--\s*///\s*")
_TOML_LINE = re.compile(r"\(at line (\d+)")


@dataclass(frozen=True)
class SqlFile:
    """One file: its header as parsed TOML, its SQL, and where both stand."""

    path: Path
    header: Mapping[str, Any]
    body: str
    header_lines: tuple[str, ...]
    body_line: int

    @property
    def name(self) -> str:
        """The object's id: the file's stem."""
        return self.path.stem

    def place(self, *words: str) -> str:
        """`file:line` of the header line that holds all `words` as keys or text, else of the header's first line."""
        for number, line in enumerate(self.header_lines, start=2):
            if words and all(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", line) for word in words):
                return f"{self.path}:{number}"
        return f"{self.path}:1"

    @property
    def body_place(self) -> str:
        """`file:line` of the first line after the header."""
        return f"{self.path}:{self.body_line}"

    def error(self, message: str, *words: str, hint: str | None = None) -> RuleError:
        """A RuleError at the header line with `words`."""
        return RuleError(message, where=self.place(*words), hint=hint)

    def known_keys(self, table: Mapping[str, Any], known: Iterable[str], place: str) -> None:
        """Raise RuleError for the first key of `table` that is not known."""
        allowed = tuple(known)
        for key in table:
            if key not in allowed:
                raise self.error(f"unknown key {key!r} in {place}", key, hint=f"Known keys are {', '.join(allowed)}.")

    def text(self, table: Mapping[str, Any], key: str, place: str, default: str | None = None) -> str:
        """The text at `key`; RuleError when it is missing without a default, empty, or no text."""
        value = table.get(key, default)
        if value is None:
            raise self.error(f"{place} has no {key!r}", hint=f'Add: {key} = "..."')
        if not isinstance(value, str) or (not value.strip() and key in table):
            raise self.error(f"{key!r} of {place} must be a text that is not empty", key)
        return value

    def texts(self, table: Mapping[str, Any], key: str, place: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """The list of texts at `key`; RuleError when it is missing without a default, or no such list."""
        value = table.get(key, default)
        if value is None:
            raise self.error(f"{place} has no {key!r}", hint=f'Add: {key} = ["..."]')
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) and item for item in value):
            raise self.error(f"{key!r} of {place} must be a list of texts", key)
        return tuple(value)

    def number(self, table: Mapping[str, Any], key: str, place: str) -> int:
        """The integer at `key`; RuleError when it is missing or none."""
        value = table.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(f"{key!r} of {place} must be a whole number", key, hint=f"Add: {key} = 10")
        return value

    def flag(self, table: Mapping[str, Any], key: str, place: str) -> bool:
        """The boolean at `key`, false when it is missing."""
        value = table.get(key, False)
        if not isinstance(value, bool):
            raise self.error(f"{key!r} of {place} must be true or false", key)
        return value


def read_sql_file(path: Path, kind: str) -> SqlFile:
    """Read a file with a `-- /// {kind}` header. Raises RuleError with file and line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise RuleError(f"cannot be read ({error.strerror})", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise RuleError("is not UTF-8 text", where=str(path), hint="Save it as UTF-8.") from error
    opened = _OPEN.fullmatch(lines[0].strip()) if lines else None
    if opened is None or opened.group(1) != kind:
        raise RuleError(f"does not begin with the header line `-- /// {kind}`", where=f"{path}:1", hint="See docs/reference/ for the form.")
    end = next((index for index, line in enumerate(lines[1:], start=1) if _CLOSE.fullmatch(line.strip())), None)
    if end is None:
        raise RuleError("the header is not closed", where=f"{path}:1", hint="End it with the line `-- ///`.")
    header_lines = tuple(_uncomment(path, number, line) for number, line in enumerate(lines[1:end], start=2))
    return SqlFile(path, _parse_header(path, header_lines), "\n".join(lines[end + 1 :]).strip() + "\n", header_lines, end + 2)


def _uncomment(path: Path, number: int, line: str) -> str:
    text = line.strip()
    if not text.startswith("--"):
        raise RuleError("a header line must begin with `--`", where=f"{path}:{number}", hint="End the header with the line `-- ///`.")
    return text[2:].removeprefix(" ")


def _parse_header(path: Path, lines: tuple[str, ...]) -> Mapping[str, Any]:
    try:
        return tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError as error:
        found = _TOML_LINE.search(str(error))
        line = int(found.group(1)) + 1 if found else 1
        text = str(error).split(" (at ")[0]
        raise RuleError(f"the header is not valid TOML: {text[:1].lower()}{text[1:]}", where=f"{path}:{line}") from error


def sql_files(folder: Path) -> list[Path]:
    """All `*.sql` files under `folder`, sorted, folders included."""
    return sorted(folder.rglob("*.sql"))
