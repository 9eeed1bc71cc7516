"""The command line: the only place that prints or exits."""

from traceengine.cli.app import cli, main, run

__all__ = ["cli", "main", "run"]
