"""Every format of one report gives the same tables; what cannot be read is refused with the way out."""

from __future__ import annotations

import hashlib
import os
import random
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nsys_helpers import (
    PROCESS,
    Rows,
    ask,
    call,
    global_ids,
    import_one,
    kernel,
    nvtx,
    shared,
    tables,
    write_arrow_folder,
    write_lines,
    write_parquet,
    write_sqlite,
    write_streams,
)

from traceengine.cli.app import run as run_command
from traceengine.errors import CorruptTraceError, EmptyTraceError, InputError, UnknownFormatError, UnreadableInputError
from traceengine.importers import ImportRequest, import_traces
from traceengine.run import Run
from traceengine.schema import TABLES, TableOrigin

WRITERS: dict[str, Callable[[Path, dict[str, Rows]], Path]] = {
    "t.sqlite": write_sqlite,
    "t_pqtdir": write_parquet,
    "t_arwdir": write_arrow_folder,
    "t.arrows": write_streams,
    "t.jsonl": write_lines,
}
PSEUDO_PID = 18302628885633695744
"""An id of the analyser with its top bit set: negative in SQLite."""


def _content() -> dict[str, Rows]:
    return tables(
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(1_000 * i + 100, 1_000 * i + 700, i) for i in range(1, 20)],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(1_000 * i, 1_000 * i + 50, i) for i in range(1, 20)],
        NVTX_EVENTS=[nvtx(1_000 * i - 10, 1_000 * i + 900, f"step {i}") for i in range(1, 20)],
        OSRT_API=[
            {"start": 5, "end": 9, "globalTid": PSEUDO_PID, "nameId": 3, "eventClass": 27, "returnValue": 0, "nestingLevel": None},
            {
                "start": 1_005,
                "end": 1_009,
                "globalTid": global_ids(5000, 5001),
                "nameId": 3,
                "eventClass": 27,
                "returnValue": 1,
                "nestingLevel": 1,
            },
        ],
        StringIds=[{"id": 3, "value": "poll"}],
    )


def same(one: Run, other: Run, but: tuple[str, ...] = ("source",)) -> None:
    """All import tables equal, apart from what names the file."""
    for entry in TABLES:
        if entry.origin is TableOrigin.IMPORT and entry.name not in but:
            assert one.read(entry.name).equals(other.read(entry.name)), entry.name


@pytest.mark.parametrize("name", list(WRITERS))
def test_formats_give_identical_tables(name: str, importer: Callable[..., Run], tmp_path: Path) -> None:
    content = _content()
    reference = importer(write_sqlite(tmp_path / "reference.sqlite", content))
    run = importer(WRITERS[name](tmp_path / name, content))
    same(reference, run)
    assert reference.read("device_event").num_rows == 19
    assert ask(run, "select count(*) from device_event where launch_id is not null") == [(19,)]
    assert ask(run, "select count(*), count(distinct pid) from host_event where kind = 'os'") == [(2, 2)]


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False))
def test_row_order_does_not_matter(shuffler: random.Random) -> None:
    """Row order is not guaranteed since 2025.6: ids, parents and links must not depend on it."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        content = _content()
        one = import_one(write_sqlite(folder / "one.sqlite", content), folder / "a")
        for rows in content.values():
            shuffler.shuffle(rows)
        other = import_one(write_sqlite(folder / "other.sqlite", content), folder / "b")
        same(one, other)


@pytest.mark.parametrize("name", ["c22_dataloader_fork_pqtdir", "c22_dataloader_fork_arwdir"])
def test_formats_of_a_real_capture_are_identical(name: str, importer: Callable[..., Run]) -> None:
    reference = importer(shared("traces", "nsys_cpu", "c22_dataloader_fork.sqlite"))
    run = importer(shared("traces", "nsys_cpu", name))
    # The database was exported by another version and lists one more table of enumerations, which is not imported.
    same(reference, run)
    assert run.read("host_event").num_rows == 12_647


def test_sqlite_columns_that_start_with_nulls(importer: Callable[..., Run], tmp_path: Path) -> None:
    """A column whose first values are NULL and later ones text: its type must not come from the first rows."""
    rows: Rows = [nvtx(i, i + 1, None, textId=None) for i in range(70_000)] + [nvtx(70_001, 70_005, "late")]
    run = importer(write_sqlite(tmp_path / "t.sqlite", tables(NVTX_EVENTS=rows)))
    assert ask(run, "select name, dur_ns from host_event where name <> ''") == [("late", 4)]


def test_a_blob_under_a_text_column_is_no_text(importer: Callable[..., Run], tmp_path: Path) -> None:
    rows: Rows = [nvtx(1, 2, "a", jsonText=b"\x00\xff\x10"), nvtx(3, 4, "b")]
    run = importer(write_sqlite(tmp_path / "t.sqlite", tables(NVTX_EVENTS=rows)))
    assert ask(run, "select name from host_event order by ts_ns") == [("a",), ("b",)]


def test_a_cut_last_line_is_left_out_and_told(importer: Callable[..., Run], tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t.jsonl", _content())
    text = path.read_text()
    path.write_text(text[:-30])
    run = importer(path)
    assert ask(run, "select truncated from source") == [(True,)]
    assert ask(run, "select count(*) from import_issue where code = 'truncated'") == [(1,)]


def test_a_damaged_line_in_the_middle_is_refused_with_its_number(importer: Callable[..., Run], tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t.jsonl", _content())
    lines = path.read_text().splitlines()
    lines[4] = lines[4][:-5]
    path.write_text("\n".join(lines))
    with pytest.raises(CorruptTraceError, match="line 5"):
        importer(path)


@pytest.mark.parametrize(
    ("name", "content", "error", "words"),
    [
        ("a.qdstrm", b"QDSTRM", UnknownFormatError, "QdstrmImporter"),
        ("a.h5", b"\x89HDF", UnknownFormatError, "nsys export -t sqlite"),
        ("a.txt", b"Type: 1", UnknownFormatError, "nsys export -t sqlite"),
        ("a.json", b'{"Type":48,"NvtxEvent":{}}\n', UnknownFormatError, "2025.6"),
        ("a.sqlite", b"this is not a database\n", UnknownFormatError, "SQLite"),
        ("a.arrows", b"\xff\xff\xff\xff\x10\x00\x00\x00garbage", CorruptTraceError, "byte 0"),
        ("a.jsonl", b'{"a": 1}\n', UnknownFormatError, "table"),
    ],
)
def test_refusals_name_the_file_and_the_way_out(
    name: str, content: bytes, error: type[InputError], words: str, importer: Callable[..., Run], tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(error) as caught:
        importer(path)
    assert name in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_parquet_and_arrow_name_their_file(importer: Callable[..., Run], tmp_path: Path) -> None:
    folder = write_parquet(tmp_path / "t_pqtdir", _content())
    file = folder / "NVTX_EVENTS.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(CorruptTraceError, match=r"NVTX_EVENTS\.parquet"):
        importer(folder)


def test_a_cut_database_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "t.sqlite", _content())
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(CorruptTraceError, match="ends at byte"):
        import_one(path, tmp_path / "run")
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.sqlite"]


def test_missing_path_and_empty_database(importer: Callable[..., Run], tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError):
        importer(tmp_path / "no.sqlite")
    with pytest.raises(EmptyTraceError):
        importer(write_sqlite(tmp_path / "t.sqlite", tables()))


# --- .nsys-rep ---------------------------------------------------------------------------------------------------------


def _fake_nsys(folder: Path, body: str) -> Path:
    """A program that answers like nsys."""
    program = folder / "nsys"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


REPORT = b"\x01NVIDIA Tegra Profiler Report 2024@6@1@90-246135548v0."


def _report(folder: Path, content: bytes = b"report") -> Path:
    path = folder / "r.nsys-rep"
    path.write_bytes(content)
    return path


def _copying(export: Path, kinds: str, count: Path) -> str:
    """What a working nsys does: it tells its forms, and every export adds a line to `count`."""
    return f'if [ "$2" = "--help" ]; then echo "{kinds}"; exit 0; fi\necho "$4" "$3" >> "{count}"\ncp -r "{export}" "$7"'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a PATH without nsys."""
    monkeypatch.setenv("TRACEENGINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'none'}:/bin:/usr/bin")
    monkeypatch.setattr("traceengine.importers.nsys_report.shutil.which", lambda name: None)
    return tmp_path / "cache"


@pytest.mark.parametrize(("kinds", "write"), [("sqlite, parquetdir", write_parquet), ("sqlite, hdf", write_sqlite)])
def test_reports_are_exported_once_in_the_best_form(kinds: str, write: Callable[..., Path], cache: Path, tmp_path: Path) -> None:
    count = tmp_path / "count"
    nsys = _fake_nsys(tmp_path, _copying(write(tmp_path / "ready", _content()), kinds, count))
    report = _report(tmp_path)
    run = import_traces(ImportRequest((report,), out=tmp_path / "a", nsys=nsys))
    assert run.read("device_event").num_rows == 19
    assert ask(run, "select path, bytes, kind from source") == [("r.nsys-rep", 6, "nsys")]
    again = import_traces(ImportRequest((report,), out=tmp_path / "b"))
    assert again.read("device_event").equals(run.read("device_event")), "the export that is kept needs no nsys"
    assert len(count.read_text().splitlines()) == 1
    digest = hashlib.sha256(b"report").hexdigest()
    assert [entry.name for entry in (cache / "exports").iterdir()] == [digest]
    import_traces(ImportRequest((_report(tmp_path, b"other"),), out=tmp_path / "c", nsys=nsys))
    assert len(count.read_text().splitlines()) == 2, "other bytes, another export"


def test_without_the_cache_no_export_is_kept(cache: Path, tmp_path: Path) -> None:
    nsys = _fake_nsys(tmp_path, _copying(write_parquet(tmp_path / "ready", _content()), "parquetdir", tmp_path / "count"))
    run = import_traces(ImportRequest((_report(tmp_path),), out=tmp_path / "run", use_cache=False, nsys=nsys))
    assert run.read("device_event").num_rows == 19
    assert not (cache / "exports").exists()
    assert {entry.name for entry in run.path.iterdir()} == {"manifest.json", "tables"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('if [ "$1" = "--version" ]; then echo "version 2022.4.2.1-df"; fi; echo "Version number is invalid" >&2; exit 0', r"the nsys here \(2022\.4\.2\.1\) .* needs nsys 2024\.6\.1 or newer"),
        ('echo "Version number is invalid" >&2; exit 1', "of an unknown version"),
        ('echo "out of luck" >&2; exit 1', "out of luck"),
        ("exit 0", "no message"),
        ('mkdir -p "$7"', "could not export"),
    ],
)  # fmt: skip
def test_a_failing_nsys_is_told_even_when_it_exits_0(body: str, words: str, cache: Path, tmp_path: Path) -> None:
    nsys = _fake_nsys(tmp_path, body)
    with pytest.raises(InputError, match=words) as caught:
        import_traces(ImportRequest((_report(tmp_path, REPORT),), out=tmp_path / "run", nsys=nsys))
    assert "nsys export -t sqlite r.nsys-rep" in str(caught.value)
    assert not list((cache / "exports").iterdir())
    assert not (tmp_path / "run").exists()


def test_an_nsys_that_cannot_run_is_told(cache: Path, tmp_path: Path) -> None:
    broken = tmp_path / "nsys"
    broken.write_text("#!/bin/sh\n")
    with pytest.raises(InputError, match="did not run"):
        import_traces(ImportRequest((_report(tmp_path),), out=tmp_path / "run", nsys=broken))
    with pytest.raises(UnreadableInputError, match="there is no nsys at this path"):
        import_traces(ImportRequest((_report(tmp_path),), out=tmp_path / "run", nsys=tmp_path / "nowhere"))


@pytest.mark.parametrize("command", ["analyze", "doctor", "import"])
def test_the_commands_take_nsys(command: str, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [command, str(_report(tmp_path)), *(("-o", str(tmp_path / "run")) if command == "import" else ())]
    assert run_command(arguments) == 2
    said = capsys.readouterr().err
    assert "no nsys is on PATH" in said
    assert "--nsys PATH" in said
    assert "nsys export -t sqlite r.nsys-rep" in said
    nsys = _fake_nsys(tmp_path, _copying(write_parquet(tmp_path / "ready", _content()), "parquetdir", tmp_path / "count"))
    assert run_command([*arguments, "--nsys", str(nsys.parent)]) == 0
    assert capsys.readouterr().out


def test_uint64_ids_keep_their_bits(tmp_path: Path) -> None:
    from traceengine.importers.nsys_format import PROCESSES
    from traceengine.importers.nsys_source import conform, map_columns

    batch = pa.record_batch(
        {"globalPid": pa.array([PSEUDO_PID, PROCESS], pa.uint64()), "pid": pa.array([1, 2], pa.int32()), "name": ["a", "b"]}
    )
    read: dict[str, Any] = conform(batch, PROCESSES, map_columns(PROCESSES, batch.schema.names)).to_pydict()
    assert read["globalPid"] == [PSEUDO_PID - (1 << 64), PROCESS]
    assert os.sep not in read["name"]
