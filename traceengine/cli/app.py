"""The group of commands, and the one border at which errors become a line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from traceengine import __version__
from traceengine.cli.analyze import analyze_command
from traceengine.cli.doctor import doctor_command
from traceengine.cli.experiment import experiment_group
from traceengine.cli.imports import import_command
from traceengine.cli.rules import rules_group
from traceengine.cli.sql import sql_command
from traceengine.cli.tables import tables_command
from traceengine.errors import EXIT_ANSWERED, EXIT_NO_ANSWER, TraceEngineError
from traceengine.report.units import visible

_INTERRUPTED = 130
_BROKEN_PIPE = 141


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(context_settings=_SETTINGS, epilog="\b\nExample:\n  traceengine analyze trace.json.gz")
@click.version_option(__version__, prog_name="traceengine", message="%(prog)s %(version)s")
def cli() -> None:
    """Say where a training step's wall time went, and which experiment to run next.

    Exit codes: 0 answered, 1 a check fails, 2 no answer.
    """


for _command in (analyze_command, doctor_command, import_command, sql_command, tables_command, rules_group, experiment_group):
    cli.add_command(_command)


def _say(message: str) -> int:
    sys.stderr.write(f"traceengine: error: {visible(' '.join(message.split()))}\n")
    return EXIT_NO_ANSWER


def _was_interrupted(error: BaseException) -> bool:
    """Whether it only reports a Ctrl-C: the database wraps one that meets it in a Python callback into an error of its own."""
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, KeyboardInterrupt) or "KeyboardInterrupt" in str(at):
            return True
        at = at.__cause__ or at.__context__
    return False


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code. Anything that is no expected error is a bug and raises."""
    try:
        # Not `cli.main`: it would turn a closed pipe into exit code 1, which means that a check fails.
        with cli.make_context("traceengine", list(arguments)) as context:
            cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        return done.exit_code
    except TraceEngineError as error:
        if _was_interrupted(error):
            return _INTERRUPTED
        _say(str(error))
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        sys.stderr.write(f"{error.ctx.get_help() if error.ctx else ''}\n")
        return EXIT_NO_ANSWER
    except click.ClickException as error:
        hint = f" Try: {error.ctx.command_path} --help" if isinstance(error, click.UsageError) and error.ctx else ""
        return _say(error.format_message() + hint)
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader has gone; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except OSError as error:
        return _say(f"{error.filename or 'the file system'}: {error.strerror or error}.")
    return EXIT_ANSWERED


def main() -> NoReturn:
    """Entry point of the `traceengine` script."""
    sys.exit(run(sys.argv[1:]))
