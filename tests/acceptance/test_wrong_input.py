"""Wrong input: exit 2, one sentence with the file and a remedy, no traceback, nothing written."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from acceptance_runs import STORED, invoke

ERROR, PROGRESS = "traceengine: error: ", "traceengine: reading "
HTML = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>404</body></html>"
WHOLE = (STORED / "matmul.baseline.bare.json.gz").read_bytes()


def _file(name: str, content: bytes) -> Callable[[Path], Path]:
    def make(place: Path) -> Path:
        (place / name).write_bytes(content)
        return place / name

    return make


def _missing(place: Path) -> Path:
    return place / "not_here.json.gz"


def _empty_folder(place: Path) -> Path:
    (place / "no_traces").mkdir()
    (place / "no_traces/readme.txt").write_text("nothing")
    return place / "no_traces"


def _dangling(place: Path) -> Path:
    (place / "gone.json").symlink_to(place / "not_here.json")
    return place / "gone.json"


def _loop(place: Path) -> Path:
    (place / "loop.json").symlink_to(place / "loop.json")
    return place / "loop.json"


def _forbidden(place: Path) -> Path:
    path = _file("secret.json", b"{}")(place)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    return path


WRONG: dict[str, Callable[[Path], Path]] = {
    "missing file": _missing,
    "folder without traces": _empty_folder,
    "link to nothing": _dangling,
    "link to itself": _loop,
    "no permission": _forbidden,
    "empty file": _file("empty.json", b""),
    "empty gz": _file("empty.json.gz", gzip.compress(b"")),
    "web page": _file("page.html", HTML),
    "web page called trace": _file("trace.json", HTML),
    "web page in gz": _file("trace.json.gz", gzip.compress(HTML)),
    "json object that is no trace": _file("config.json", b'{"learning_rate": 0.1, "events": [1, 2]}'),
    "json array that is no trace": _file("list.json", b"[1, 2, 3]"),
    "json array of other objects": _file("rows.json", b'[{"a": 1}, {"a": 2}]'),
    "json scalar": _file("scalar.json", b"42"),
    "json string": _file("string.json", b'"traceEvents"'),
    "trace without events": _file("none.json", b'{"traceEvents": []}'),
    "events that are none": _file("odd.json", b'{"traceEvents": {"a": 1}}'),
    "events null": _file("null.json", b'{"traceEvents": null}'),
    "only metadata": _file("meta.json", b'{"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}]}'),
    "gz cut in its header": _file("cut.json.gz", WHOLE[:7]),
    "gz cut before its first event": _file("cut.json.gz", WHOLE[:60]),
    "plain json called gz": _file("fake.json.gz", b"not gzip at all"),
    "binary noise": _file("noise.bin", bytes(range(256)) * 40),
    "binary noise called json": _file("noise.json", b"\x00\xff\xfe" + bytes(range(256)) * 40),
    "binary noise called sqlite": _file("noise.sqlite", bytes(range(256)) * 40),
    "binary noise after a gzip header": _file("noise.json.gz", b"\x1f\x8b\x08\x00" + bytes(range(256)) * 40),
}
KNOWN_REMEDY = (
    "Check", "Give", "Record", "record again", "Download", "Copy", "Unpack", "Split", "Make one with", "Try", "Import", "Export", "Capture", "Run",
)  # fmt: skip


def _wrong() -> list[Any]:
    return [pytest.param(make, id=name) for name, make in WRONG.items()]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder; the cache and the output folder lie beside it and do not exist."""
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TRACEENGINE_CACHE", str(tmp_path / "cache"))
    return folder


def _left(place: Path) -> list[Path]:
    return sorted(path for path in place.parent.rglob("*") if path != place.parent / "cache")


def _error(code: int, out: str, err: str) -> str:
    """The one line."""
    assert code == 2, err
    assert out == ""
    assert "Traceback" not in err
    lines = [line for line in err.splitlines() if not line.startswith(PROGRESS)]
    assert len(lines) == 1, err
    assert lines[0].startswith(ERROR)
    return lines[0]


def _says_what_to_do(line: str, path: Path) -> None:
    assert path.name in line
    assert any(word in line.removeprefix(ERROR) for word in KNOWN_REMEDY), f"no remedy: {line}"


@pytest.mark.parametrize("make", _wrong())
def test_analyze_refuses_it(make: Callable[[Path], Path], place: Path) -> None:
    path = make(place)
    before = _left(place)
    _says_what_to_do(_error(*invoke(["analyze", str(path), "--format", "json"])), path)
    assert _left(place) == before, "nothing is written"
    assert not any((place.parent / "cache").rglob("*"))


@pytest.mark.parametrize("make", _wrong())
def test_import_refuses_it_and_leaves_no_run(make: Callable[[Path], Path], place: Path) -> None:
    path = make(place)
    before = _left(place)
    _says_what_to_do(_error(*invoke(["import", str(path), "-o", str(place.parent / "made")])), path)
    assert _left(place) == before, "no target, no hidden half beside it"


@pytest.mark.parametrize("command", [["sql", "{run}", "select 1"], ["analyze", "{run}"]], ids=["sql", "analyze"])
def test_a_folder_that_is_no_run(command: list[str], place: Path) -> None:
    folder = _empty_folder(place)
    before = _left(place)
    _says_what_to_do(_error(*invoke([part.format(run=folder) for part in command])), folder)
    assert _left(place) == before


def test_a_half_written_run_is_no_run(place: Path) -> None:
    code, _, err = invoke(["import", str(STORED / "matmul.baseline.bare.json.gz"), "-o", "job"])
    assert code == 0, err
    (place / "job/manifest.json").unlink()
    _says_what_to_do(_error(*invoke(["sql", "job", "select 1"])), place / "job")


def test_one_wrong_file_among_good_ones_gives_no_run(place: Path) -> None:
    bad = _file("rank1.json", HTML)(place)
    good = STORED / "matmul.baseline.bare.json.gz"
    before = _left(place)
    _says_what_to_do(_error(*invoke(["import", str(good), str(bad), "-o", "job"])), bad)
    assert _left(place) == before


@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_a_cut_gz_is_refused_or_answered_as_cut(part: float, place: Path) -> None:
    (place / "cut.json.gz").write_bytes(WHOLE[: int(len(WHOLE) * part)])
    code, out, err = invoke(["analyze", "cut.json.gz", "--format", "json"])
    if code == 2:
        _says_what_to_do(_error(code, out, err), place / "cut.json.gz")
        return
    document = json.loads(out)
    assert code == 0
    assert "truncated" in {note["code"] for note in document["verdict"]["unknown"]}
    assert any("cut" in issue["code"] or "truncated" in issue["code"] for issue in document["import_issues"])
    assert document["verdict"]["confidence"] != "high"


@pytest.mark.parametrize("name", ["missing file", "web page called trace", "gz cut before its first event"])
def test_the_script_itself_refuses_it(name: str, place: Path) -> None:
    path = WRONG[name](place)
    before = _left(place)
    code = "from traceengine.cli import main; main()"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code, "analyze", str(path)], capture_output=True, text=True, check=False)
    _says_what_to_do(_error(done.returncode, done.stdout, done.stderr), path)
    assert _left(place) == before


def test_importing_loads_neither_torch_nor_pandas() -> None:
    code = "import sys, traceengine, traceengine.cli; print(sorted({'torch', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_importing_the_package_alone_loads_no_engine() -> None:
    code = "import sys, traceengine; print(sorted({'torch', 'pandas', 'duckdb', 'pyarrow', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_analysing_loads_neither_torch_nor_pandas(place: Path) -> None:
    code = (
        "import sys; from traceengine.cli import run; code = run(sys.argv[1:]);"
        " print(sorted({'torch', 'pandas'} & set(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    arguments = ["analyze", str(STORED / "matmul.baseline.bare.json.gz"), "--format", "md"]
    done = subprocess.run([sys.executable, "-W", "error", "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stderr.endswith("[]\n")
