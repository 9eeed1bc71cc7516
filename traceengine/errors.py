"""All errors that traceengine raises on purpose.

```
TraceEngineError                 anything a user can be told about; exit code 2
├── UsageError                   a wrong argument or a wrong combination of arguments
├── InputError                   a file that cannot be read as what it should be
│   ├── UnreadableInputError     missing, not a file, no permission
│   ├── UnknownFormatError       readable, but no trace format we know
│   ├── EmptyTraceError          a trace without a single usable event
│   └── CorruptTraceError        damaged beyond a certain repair (names the byte or row)
├── RunError                     a run folder that is missing, half written or of another version
├── RuleError                    a rule file that breaks its contract (names file and line)
├── QueryError                   SQL that failed, or that the sandbox refused
└── CheckFailed                  an expectation that does not hold; exit code 1
```

Every error says what happened, where, and what to do. Only the command line maps them to an exit code.
"""

from __future__ import annotations

EXIT_ANSWERED = 0
EXIT_CHECK_FAILED = 1
EXIT_NO_ANSWER = 2


class TraceEngineError(Exception):
    """Root of all expected errors.

    `message` is what happened; `where` names a file and, if known, a byte, row or line; `hint` says what to do.
    """

    exit_code: int = EXIT_NO_ANSWER

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.message = message
        self.where = where
        self.hint = hint
        super().__init__(self.render())

    def render(self) -> str:
        """One line: `where: message. hint`."""
        text = f"{self.where}: {self.message}" if self.where else self.message
        if not text.endswith((".", "!", "?")):
            text += "."
        return f"{text} {self.hint}" if self.hint else text


class UsageError(TraceEngineError):
    """A wrong argument or a wrong combination of arguments."""


class InputError(TraceEngineError):
    """A file that cannot be read as what it should be."""


class UnreadableInputError(InputError):
    """The path is missing, is no file, or may not be read."""


class UnknownFormatError(InputError):
    """The file is readable, but in no trace format that we know."""


class EmptyTraceError(InputError):
    """The file is a trace without a single usable event."""


class CorruptTraceError(InputError):
    """The file is damaged and no repair is certain; `where` names the byte or row."""


class RunError(TraceEngineError):
    """A run folder is missing, half written, or of another version."""


class RuleError(TraceEngineError):
    """A rule file breaks its contract; `where` names file and line."""


class QueryError(TraceEngineError):
    """SQL failed, or the sandbox refused it."""


class CheckFailed(TraceEngineError):
    """An expectation does not hold."""

    exit_code = EXIT_CHECK_FAILED
