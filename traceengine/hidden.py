"""Hidden folders beside their place: written out of sight, moved in when whole, swept when their writer was killed.

A writer holds a lock on a file in its folder. The system lets go of the lock when the process ends, however it ends, so a
folder whose lock is free was left behind.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from glob import escape
from pathlib import Path

_LOCK = ".lock"
_KEPT = "run"
"""What a folder of kind `old` holds: the run that was there before."""

_KINDS = ("partial", "old")
_UNLOCKED_LIFE_S = 3600
"""A hidden folder without a lock file is about to get one, within moments; after an hour it is left."""


class HiddenFolder:
    """A new folder `.NAME.KIND-*` in `parent`, locked until it is released or the process ends."""

    def __init__(self, parent: Path, name: str, kind: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f".{name}.{kind}-", dir=parent))
        self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def move_to(self, target: Path) -> None:
        """Give the folder its place, which must be free or an empty folder."""
        self.path.chmod(0o755)
        self.path.replace(target)
        # Only now: whoever is killed before leaves a folder that is known to be left.
        (target / _LOCK).unlink(missing_ok=True)
        os.close(self._lock)

    def remove(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def sweep(parent: Path, name: str | None = None) -> None:
    """Remove what killed writers left in `parent`, of one place `name` or of all.

    A run that was set aside while its successor never arrived goes back to its place.
    """
    for kind in _KINDS:
        for folder in parent.glob(f".{'*' if name is None else escape(name)}.{kind}-*"):
            if folder.is_dir() and not folder.is_symlink() and _is_left(folder):
                _put_back(folder, folder.name[1:].rpartition(f".{kind}-")[0])
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        return _age_s(folder) > _UNLOCKED_LIFE_S
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _age_s(folder: Path) -> float:
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0


def _put_back(folder: Path, name: str) -> None:
    kept, place = folder / _KEPT, folder.parent / name
    if kept.is_dir() and not place.exists():
        kept.replace(place)


def swap_in(new: HiddenFolder, target: Path) -> None:
    """Move `new` to `target`, replacing what is there."""
    old = HiddenFolder(target.parent, target.name, "old")
    try:
        if target.exists():
            target.replace(old.path / _KEPT)
        new.move_to(target)
    finally:
        old.remove()
