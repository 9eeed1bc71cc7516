"""How an importer tells how far it is, without knowing who listens."""

from __future__ import annotations

from typing import Protocol


class ProgressSink(Protocol):
    """Told about each file: its name, its size, the bytes read, its end."""

    def start(self, name: str, total_bytes: int) -> None:
        """A file of `total_bytes` bytes (0: unknown) begins."""

    def advance(self, bytes_read: int) -> None:
        """`bytes_read` more bytes of the file as it lies on disk were read."""

    def finish(self) -> None:
        """The file is done."""


class SilentProgress:
    """Listens to nothing."""

    def start(self, name: str, total_bytes: int) -> None:
        """Nothing."""

    def advance(self, bytes_read: int) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""
