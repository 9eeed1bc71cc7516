"""The first screen of the README shows what `make demo` really prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from traceengine.cli import run

ROOT = Path(__file__).parents[2]


def test_the_demo_prints_what_the_readme_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TRACEENGINE_CACHE", str(tmp_path))
    monkeypatch.chdir(ROOT)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    trace = re.search(r"^DEMO := (.+)$", makefile, re.MULTILINE)
    assert trace
    assert "traceengine analyze $(DEMO)" in makefile
    blocks = re.findall(r"```console\n\$ make demo\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    assert run(["analyze", trace.group(1)]) == 0
    assert capsys.readouterr().out == blocks[0]


def test_the_demo_is_on_the_first_screen() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert lines.index("$ make demo") < 10
