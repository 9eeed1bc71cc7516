"""Damaged, wrapped and wrong inputs: repaired and said, or refused in one sentence; never anything else."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tempfile
import zipfile
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.importers.import_helpers import ImportBytes, document, issue_codes, kernel, rows, span
from traceengine.errors import InputError, TraceEngineError
from traceengine.importers import ImportRequest, expand_inputs, import_traces
from traceengine.importers.kineto import chunks

GOOD = document([span(f"op{place}", 10 * place, 5) for place in range(200)], distributedInfo={"rank": 0, "world_size": 1})


def one(event: str) -> bytes:
    """A trace with a good event before and after the given text."""
    return (
        b'{"traceEvents": ['
        + json.dumps(span("a", 0, 1)).encode()
        + b",\n"
        + event.encode("latin-1")
        + b",\n"
        + json.dumps(span("z", 9, 1)).encode()
        + b"]}"
    )


def b_event(rest: str) -> str:
    """Text of a good event called b, up to its end, which `rest` is."""
    return '{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,' + rest


@pytest.mark.parametrize(
    ("event", "code", "names"),
    [
        ('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":3,"dur":1,"args":{"x":NaN,"y":-Infinity,"z":[N/A,inf]}}', None, "abz"),
        ('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":3,"dur":1,"args":{"x":inf}}', "not_finite", "abz"),
        ('{"ph":"X","cat":"cpu_op","name":"b\tc","pid":1,"tid":1,"ts":3,"dur":1}', None, "a" "z"),
        ('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":3,"dur":1,"args":{"p":"C:\\q\\w"}}', "stray_backslash", "abz"),
        ('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":3,"dur":1,}', None, "abz"),
        ('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":3,"dur":1},', "extra_comma", "abz"),
        ('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":3,"ts":4,"dur":1}', "duplicate_key", "abz"),
        ('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":"soon","dur":1}', "impossible_time", "az"),
        ('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":1e300,"dur":1}', "impossible_time", "az"),
        ('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":99999999999999999999999,"dur":1}', "impossible_time", "az"),
        ('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":3,"dur":-7}', "event_with_negative_duration", "abz"),
        ('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":3,"dur":0}', None, "abz"),
        ('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":3,"dur":99999999999999999999999}', "impossible_time", "abz"),
        ('{"ph":"X","cat":"cpu_op","name":"b","pid":123456789012345678901234,"tid":1,"ts":3,"dur":1}', None, "abz"),
        ("3, null, [1], \"x\"", "not_an_event", "az"),
        (b_event('"ts":3,"dur":1}\n') + b_event('"ts":5,"dur":1}').replace('"b"', '"c"'), "missing_comma", "abcz"),
        ('{"ph":"X","cat":"cpu_op","name":"b\xff","pid":1,"tid":1,"ts":3,"dur":1}', "invalid_utf8", "a" "z"),
        ('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":3,"dur":1,"args":{"t":"\\ud800"}}', None, "abz"),
        ('{"ph":{"x":1},"cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":3,"dur":1}', None, "az"),
        ('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":3,"dur":1,"args":"text"}', None, "abz"),
        ('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":3,"dur":1,"args":[1]}', None, "abz"),
        (b_event('"ts":3,"dur":1,"args":{"correlation":"12","External id":"x","Ev Idx":1e40}}'), None, "abz"),
        ("{}", "unknown_phase", "az"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("piece", [60, 4 << 20])
def test_repairs(import_bytes: ImportBytes, event: str, code: str | None, names: str, piece: int) -> None:
    with mock.patch.object(chunks, "CHUNK_BYTES", piece):
        run = import_bytes(one(event))
    found = {row["name"] for row in rows(run, "host_event")}
    assert set(names) <= found
    assert len(found) <= 4
    if code:
        assert code in issue_codes(run)
    for row in rows(run, "host_event"):
        if row["args"]:
            json.loads(row["args"], parse_constant=lambda word: pytest.fail(f"{word} in args"))


def test_exact_times_survive_a_repair(import_bytes: ImportBytes) -> None:
    run = import_bytes(one('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":1712345678901234.567,"dur":0.001,"args":{"x":inf}}'))
    starts = {row["name"]: row["ts_ns"] for row in rows(run, "host_event")}
    assert starts["b"] - starts["a"] == 1712345678901234567


@pytest.mark.parametrize("cut", [70, 200, 5000, len(GOOD) - 30, len(GOOD) - 1])
@pytest.mark.parametrize("piece", [500, 4 << 20])
def test_cut_anywhere(import_bytes: ImportBytes, cut: int, piece: int) -> None:
    whole = GOOD[:cut].count(b'}, {"ph"') + GOOD[:cut].rstrip(b"]}").endswith(b'"dur": 5')
    with mock.patch.object(chunks, "CHUNK_BYTES", piece):
        if not whole:
            with pytest.raises(InputError, match=r"trace\.json: .*\."):
                import_bytes(GOOD[:cut])
            return
        run = import_bytes(GOOD[:cut])
    assert rows(run, "source")[0]["truncated"] is True
    assert issue_codes(run)["truncated"] == 1
    assert run.read("host_event").num_rows == whole


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(GOOD),
        gzip.compress(GOOD[:900]) + gzip.compress(GOOD[900:]),
        gzip.compress(gzip.compress(GOOD)),
        pa.compress(GOOD, codec="zstd", asbytes=True),
        pa.compress(GOOD[:900], codec="zstd", asbytes=True) + pa.compress(GOOD[900:], codec="zstd", asbytes=True),
        b"\xef\xbb\xbf" + GOOD,
        GOOD.decode().encode("utf-16"),
        GOOD.decode().encode("utf-16-le"),
        GOOD.decode().encode("utf-16-be"),
        b"\n\n  " + GOOD + b"\n\x00\x00",
        gzip.compress(GOOD) + b"\x00" * 512,
    ],
    ids=["gzip", "members", "twice", "zstd", "frames", "bom", "utf16", "utf16le", "utf16be", "spaces", "padding"],
)
def test_wrappings(import_bytes: ImportBytes, content: bytes) -> None:
    run = import_bytes(content)
    assert run.read("host_event").num_rows == 200
    assert set(issue_codes(run)) == {"no_device_events"}


def test_damaged_wrappings(import_bytes: ImportBytes) -> None:
    packed = gzip.compress(GOOD)
    assert "damaged_compression" in issue_codes(import_bytes(packed + b"trailing junk"))
    assert "damaged_compression" in issue_codes(import_bytes(packed[:-6]))
    run = import_bytes(packed[: len(packed) // 2])
    assert 0 < run.read("host_event").num_rows < 200
    frame = pa.compress(GOOD * 50, codec="zstd", asbytes=True)
    with pytest.raises(InputError):
        import_bytes(frame[:20])
    with pytest.raises(InputError):
        import_bytes(packed[:15])


def tar_of(files: dict[str, bytes], mode: str) -> bytes:
    """An archive of these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def zip_of(files: dict[str, bytes]) -> bytes:
    """An archive of these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_archives_hold_ranks(import_bytes: ImportBytes) -> None:
    files = {
        f"job/rank{rank}.json.gz": gzip.compress(document([span("a", 1, 2)], distributedInfo={"rank": rank, "world_size": 3}))
        for rank in (2, 0)
    }
    files["job/readme.txt"] = b"hello"
    for content in (tar_of(files, "w"), tar_of(files, "w:gz"), zip_of(files)):
        run = import_bytes(content, "traces.bin")
        assert sorted(row["rank"] for row in rows(run, "source")) == [0, 2]
        assert "missing_ranks" in issue_codes(run)
    with pytest.raises(InputError, match="no traces in this archive"):
        import_bytes(zip_of({"readme.txt": b"hello"}))


def test_standard_input(tmp_path: Path) -> None:
    with mock.patch("traceengine.importers.api._standard_input", return_value=io.BytesIO(gzip.compress(GOOD))):
        run = import_traces(ImportRequest((Path("-"),), out=tmp_path / "run"))
    assert run.read("host_event").num_rows == 200
    assert rows(run, "source")[0]["path"] == "stdin"
    with (
        mock.patch("traceengine.importers.api._standard_input", return_value=io.BytesIO(b"")),
        pytest.raises(InputError, match="standard input"),
    ):
        import_traces(ImportRequest((Path("-"),), out=tmp_path / "none"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes"),
        (b"<!DOCTYPE html><html></html>", "HTML"),
        (b"hello world", "no trace"),
        (b'{"a": 1}', "no traceEvents"),
        (b"[1, 2, 3]", "no trace event"),
        (b"[]", "empty"),
        (b'{"traceEvents": []}', "empty"),
        (b'{"x": {"traceEvents": []}}', "traceEvents"),
        (b'{"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}]}', "only metadata"),
        (b'{"traceEvents": [{"ph": "X" "name"}]}', "byte"),
        (b"[" * 100_000, ""),
        (b'{"traceEvents": ' * 2000, ""),
        (b"\x1f\x8b\x08\x00", ""),
        (b"\x00" * 100, ""),
        (gzip.compress(GOOD)[:7], "cut at byte 7"),
        (b"\x28\xb5\x2f\xfd\x00", "cut or damaged"),
        (b"PK\x03\x04 broken", ""),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "in.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        import_traces(ImportRequest((path,), out=tmp_path / "out"))
    assert message in str(caught.value)
    assert "in.json" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    assert sorted(tmp_path.iterdir()) == [path]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.binary(max_size=6), st.integers(0, 8), st.booleans())
def test_any_damage_is_repaired_or_refused(place: int, inserted: bytes, removed: int, packed: bool) -> None:
    content = gzip.compress(GOOD) if packed else GOOD
    place %= len(content)
    content = content[:place] + inserted + content[place + removed :]
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(chunks, "CHUNK_BYTES", 700):
        path = Path(folder) / "trace.json"
        path.write_bytes(content)
        try:
            run = import_traces(ImportRequest((path,), out=Path(folder) / "run", jobs=1))
        except TraceEngineError as error:
            assert "trace.json" in str(error)
            assert sorted(Path(folder).iterdir()) == [path]
        else:
            assert run.read("host_event").num_rows + sum(issue_codes(run).values()) >= 1


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_bytes(content)
        with pytest.raises(TraceEngineError):
            import_traces(ImportRequest((path,), out=Path(folder) / "run", jobs=1))


def test_inputs_are_expanded(tmp_path: Path) -> None:
    for name in ("b.json", "a.json.gz", "notes.txt", ".hidden.json"):
        (tmp_path / name).write_bytes(GOOD)
    (tmp_path / "labels.json").write_text('{"a": 1}')
    wanted = (tmp_path / "a.json.gz", tmp_path / "b.json")
    assert expand_inputs([tmp_path]) == wanted
    assert expand_inputs([tmp_path / "b.json", str(tmp_path / "?.json*")]) == (tmp_path / "b.json", tmp_path / "a.json.gz")
    with pytest.raises(InputError, match="no such file"):
        expand_inputs([tmp_path / "missing.json"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"looked for \*\.json"):
        expand_inputs([tmp_path / "empty"])


def test_links_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    (tmp_path / "gone[1].json").symlink_to(tmp_path / "nowhere")
    for name in ("loop.json", "gone[1].json", "*.json"):
        with pytest.raises(InputError, match="leads to no file"):
            expand_inputs([tmp_path / name])
    with pytest.raises(InputError, match="no traces"):
        expand_inputs([tmp_path])
    (tmp_path / "a.json").write_bytes(GOOD)
    run = import_traces(ImportRequest((tmp_path,), out=tmp_path / "run"))
    issue = next(row for row in rows(run, "import_issue") if row["code"] == "skipped_file")
    assert (issue["count"], issue["example"]) == (2, "gone[1].json, loop.json")


def test_a_gzip_without_its_start(tmp_path: Path) -> None:
    path = tmp_path / "in.json.gz"
    path.write_bytes(gzip.compress(GOOD)[20:])
    with pytest.raises(InputError, match="its start is missing"):
        import_traces(ImportRequest((path,), out=tmp_path / "out"))


def test_origin_is_the_first_activity(import_bytes: ImportBytes) -> None:
    events = [{**span("Trace", 1, 9999, "Trace"), "pid": "Spans"}, span("a", 100.5, 2), kernel("k", 200, 3)]
    run = import_bytes(document(events, baseTimeNanoseconds=5_000_000_000))
    source = rows(run, "source")[0]
    assert source["first_ts_ns"] == 0
    assert source["origin_unix_ns"] == 5_000_000_000 + 100_500
    assert [row["ts_ns"] for row in rows(run, "host_event")] in ([-99_500, 0], [0, -99_500])


def test_long_events(import_bytes: ImportBytes) -> None:
    events = [span("a", 0, 1), span("long", 3, 1, args={"x": "y" * (20 << 20)}), span("z", 9, 1)]
    run = import_bytes(document(events))
    assert [row["name"] for row in rows(run, "host_event")] == ["a", "long", "z"]
    assert max(len(row["args"] or "") for row in rows(run, "host_event")) > 20 << 20
