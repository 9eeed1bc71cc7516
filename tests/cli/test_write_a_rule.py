"""docs/write-a-rule.md does what it says: its commands run in order, and print what it shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/write-a-rule.md"
TRACE = ROOT / "fixtures/traces/checkpoint.baseline.bare.json.gz"
BLOCKS = re.findall(r"```(sh|text)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
_MARK = "=== end of block ==="


def test_every_block_is_a_command_or_its_output() -> None:
    kinds = [kind for kind, _ in BLOCKS]
    assert kinds == ["sh", "text"] * (len(kinds) // 2)
    assert len(kinds) >= 14


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    shutil.copy(TRACE, tmp_path / "trace.json.gz")
    commands = [text for kind, text in BLOCKS if kind == "sh"]
    script = f"echo '{_MARK}'\n".join(commands)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRACEENGINE_")}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment | {"PATH": path, "TRACEENGINE_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    printed = done.stdout.split(_MARK + "\n")
    for (command, shown), output in zip(_pairs(), printed, strict=True):
        assert output == shown, f"{command}\n{done.stderr}"


def _pairs() -> list[tuple[str, str]]:
    texts = [text for _, text in BLOCKS]
    return list(zip(texts[::2], texts[1::2], strict=True))


def test_the_example_passes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from traceengine.cli import run

    monkeypatch.delenv("TRACEENGINE_RULES", raising=False)
    assert run(["rules", "test", str(ROOT / "docs/examples/rules")]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("pass  ") == 4
    assert printed.err == ""
