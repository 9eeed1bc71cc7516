"""Shared by all tests: `helpers` is importable from every folder, and the folder of shared material is found when present."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

SHARED = Path(os.environ.get("TRACEENGINE_SHARED", Path(__file__).parents[2] / "shared"))
