"""Shared by all tests: `helpers` is importable from every folder, and random tests draw the same examples each time.

A change is judged by examples that anybody can draw again; `make fuzz` draws new ones to find what these miss.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("new", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
