"""The family of input faults in the shared cases: what each file must give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.importers.import_helpers import issue_codes, rows, shared_folder
from traceengine.errors import TraceEngineError
from traceengine.importers import ImportRequest, import_traces
from traceengine.run import Run

CASES = shared_folder() / "cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not here")
US = 1000


def load(tmp_path: Path, case: str, *names: str) -> Run:
    """Import files of a case."""
    paths = tuple(CASES / case / name for name in names or ("trace.json",))
    return import_traces(ImportRequest(paths, out=tmp_path / "run"))


def expected(case: str) -> dict[str, object]:
    """Expected figures by name."""
    document = json.loads((CASES / case / "expected.json").read_text())
    return {check["name"]: check["value"] for check in document["checks"]}


def union(run: Run, kinds: tuple[str, ...] = ("kernel", "memcpy", "memset"), key: str = "busy_dur_ns") -> int:
    """Union of device operations in ns."""
    total, end = 0, None
    for row in sorted(rows(run, "device_event"), key=lambda row: row["ts_ns"]):
        if row["kind"] in kinds:
            start = row["ts_ns"] if end is None else max(row["ts_ns"], end)
            stop = row["ts_ns"] + row[key]
            total += max(0, stop - start)
            end = stop if end is None else max(end, stop)
    return total


def warnings(run: Run) -> list[str]:
    """Codes of the issues that call for attention."""
    return [row["code"] for row in rows(run, "import_issue") if row["severity"] == "warning"]


def kernels(run: Run) -> int:
    """Number of kernels."""
    return sum(row["kind"] == "kernel" for row in rows(run, "device_event"))


def test_a02_cut_in_an_event(tmp_path: Path) -> None:
    run = load(tmp_path, "A02")
    assert kernels(run) == 4
    launches = [row for row in rows(run, "host_event") if row["class"] == "launch"]
    linked = {row["launch_id"] for row in rows(run, "device_event")}
    assert len(launches) == 6
    assert sum(row["event_id"] not in linked for row in launches) == 2
    assert rows(run, "source")[0]["truncated"] is True
    assert issue_codes(run)["truncated"] == 1
    assert union(run) == 1800 * US


def test_a03_words_for_numbers(tmp_path: Path) -> None:
    run = load(tmp_path, "A03")
    assert len(rows(run, "device_event")) == 4
    assert sum(row["bytes"] for row in rows(run, "device_event") if row["copy_kind"] == "h2d") == 4200
    assert union(run) == 240 * US
    assert issue_codes(run)["not_finite"] == 4
    assert {row["src_memory"] for row in rows(run, "device_event") if row["kind"] == "memcpy"} == {"pageable", "pinned"}


def test_a05_windows_paths(tmp_path: Path) -> None:
    run = load(tmp_path, "A05")
    names = [row["name"] for row in rows(run, "host_event") if row["kind"] == "python"]
    assert len(names) == 5
    assert kernels(run) == 1
    assert any("new_model.py(12)" in name for name in names)
    assert not [name for name in names if any(char < " " for char in name)]
    assert "D:\\beta\\f.py(4): g" in names
    assert "stray_backslash" in issue_codes(run)


def test_a08_not_utf8(tmp_path: Path) -> None:
    run = load(tmp_path, "A08")
    assert kernels(run) == 3
    assert len({row["name"] for row in rows(run, "device_event")}) == 2
    assert union(run) == 300 * US
    assert issue_codes(run)["invalid_utf8"] == 2


def test_a10_repeated_keys(tmp_path: Path) -> None:
    run = load(tmp_path, "A10")
    source = rows(run, "source")[0]
    assert sum(json.loads(source["metadata"])["event_counts"].values()) == 5
    assert [row["stream"] for row in rows(run, "device_event")] == [9]
    issue = next(row for row in rows(run, "import_issue") if row["code"] == "duplicate_key")
    assert "distributedInfo.rank is 0 and 3" in issue["example"]
    assert "repeated_key" in issue_codes(run)


def test_a12_files_without_rank(tmp_path: Path) -> None:
    run = load(tmp_path, "A12", "host1_4001.1700000000000.pt.trace.json", "rank1_trace.json")
    sources = {row["path"]: row for row in rows(run, "source")}
    assert len(sources) == 2
    assert kernels(run) == 3
    assert sources["rank1_trace.json"]["rank"] == 1
    assert sources["rank1_trace.json"]["rank_origin"] == "file_name"
    assert sources["host1_4001.1700000000000.pt.trace.json"]["rank"] != 1
    assert sources["host1_4001.1700000000000.pt.trace.json"]["rank_origin"] == "assigned"
    assert "unknown_rank" in issue_codes(run)


def test_a13_bare_array(tmp_path: Path) -> None:
    run = load(tmp_path, "A13")
    host, device = rows(run, "host_event"), rows(run, "device_event")
    assert len(host) + len(device) == 3
    assert sum(row["dur_ns"] for row in host + device) == 68 * US
    assert max(row["ts_ns"] + row["dur_ns"] for row in host + device) - min(row["ts_ns"] for row in host + device) == 145 * US
    assert rows(run, "source")[0]["origin_unix_ns"] is None
    assert all(row["pid"] < 0 for row in host)
    assert not warnings(run)


def test_a15_epoch_times(tmp_path: Path) -> None:
    run = load(tmp_path, "A15")
    origin = rows(run, "source")[0]["origin_unix_ns"]
    operations = rows(run, "device_event") + rows(run, "host_event")
    starts = sorted(origin + row["ts_ns"] for row in operations)
    ends = sorted(origin + row["ts_ns"] + row["dur_ns"] for row in operations)
    assert starts == expected("A15")["start_ns"]
    assert ends == expected("A15")["end_ns"]
    assert not warnings(run)


def test_a17_bases_differ(tmp_path: Path) -> None:
    run = load(tmp_path, "A17", "rank0.json", "rank1.json")
    starts = {row["rank"]: row["ts_ns"] for row in rows(run, "device_event") if row["class"] == "comm"}
    assert starts[1] - starts[0] == 5000 * US
    assert len({row["origin_unix_ns"] for row in rows(run, "source")}) == 1
    assert rows(run, "source")[0]["origin_unix_ns"] + starts[1] == expected("A17")["abs_start_ns_rank1"]


def test_a18_kernel_before_launch(tmp_path: Path) -> None:
    run = load(tmp_path, "A18")
    calls = {row["event_id"]: row["ts_ns"] for row in rows(run, "host_event")}
    delays = [row["ts_ns"] - calls[row["launch_id"]] for row in rows(run, "device_event")]
    assert sorted(delays) == [-3 * US, 40 * US]
    assert issue_codes(run)["device_before_launch"] == 1


def test_a19_flood_of_zeros(tmp_path: Path) -> None:
    run = load(tmp_path, "A19")
    operations = rows(run, "device_event")
    assert len(operations) == 2
    assert sum(count for code, count in issue_codes(run).items() if code.startswith("lost_device_event")) == 3
    assert max(row["ts_ns"] + row["dur_ns"] for row in operations) - min(row["ts_ns"] for row in operations) == 300 * US
    assert union(run) == 200 * US
    assert rows(run, "source")[0]["last_ts_ns"] < 1_000_000 * US


def test_a21_impossible_duration(tmp_path: Path) -> None:
    run = load(tmp_path, "A21")
    assert issue_codes(run)["overrunning_device_event"] == 1
    assert sum(row["dur_ns"] for row in rows(run, "device_event")) == 1_600_400 * US
    assert union(run, key="dur_ns") == 1_600_100 * US
    assert union(run) == 500 * US


def test_a24_order_does_not_matter(tmp_path: Path) -> None:
    first = import_traces(ImportRequest((CASES / "A24" / "sorted.json",), out=tmp_path / "a"))
    second = import_traces(ImportRequest((CASES / "A24" / "shuffled.json",), out=tmp_path / "b"))
    for table in ("host_event", "device_event", "thread"):
        assert rows(first, table) == rows(second, table)
    by_id = {row["event_id"]: row for row in rows(first, "host_event")}
    parents = {row["name"]: by_id[row["parent_id"]]["name"] for row in by_id.values() if row["parent_id"] is not None}
    assert parents["aten::addmm"] == "aten::linear"
    assert parents["aten::linear"] == "ProfilerStep#0"
    assert union(first) == 350 * US


def test_a25_numbers_as_text(tmp_path: Path) -> None:
    run = load(tmp_path, "A25")
    assert len(rows(run, "thread")) == 1
    assert {row["stream"] for row in rows(run, "device_event")} == {7}
    assert union(run) == 130 * US
    launch = next(row for row in rows(run, "host_event") if row["class"] == "launch")
    linked = next(row for row in rows(run, "device_event") if row["launch_id"] == launch["event_id"])
    assert linked["ts_ns"] - launch["ts_ns"] == 20 * US


def test_a26_odd_events(tmp_path: Path) -> None:
    run = load(tmp_path, "A26")
    assert kernels(run) == 1
    assert union(run) == 100 * US
    codes = issue_codes(run)
    assert codes["lost_device_event_without_start"] == codes["event_without_duration"] == codes["unknown_phase"] == 1
    assert "" in {row["name"] for row in rows(run, "host_event")}


@pytest.mark.parametrize("name", ["empty_object.json", "metadata_only.json", "no_events.json", "zero_bytes.json"])
def test_a27_empty(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceEngineError) as caught:
        load(tmp_path, "A27", name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a28_no_device(tmp_path: Path) -> None:
    run = load(tmp_path, "A28")
    assert "no_device_events" in issue_codes(run)
    assert run.read("device_event").num_rows == 0


def test_a29_work_from_before_the_capture(tmp_path: Path) -> None:
    run = load(tmp_path, "A29")
    assert issue_codes(run)["launched_before_capture"] == 1
    assert not warnings(run)


def test_a31_links(tmp_path: Path) -> None:
    run = load(tmp_path, "A31")
    assert kernels(run) == 5
    assert sum(row["launch_id"] is not None for row in rows(run, "device_event")) == 1
    assert issue_codes(run)["unlinked_device_event"] == 4
    assert union(run) == 310 * US


def test_a32_graph(tmp_path: Path) -> None:
    run = load(tmp_path, "A32")
    assert len({row["launch_id"] for row in rows(run, "device_event")} - {None}) == 1
    assert kernels(run) == 4
    assert union(run) == 720 * US
    assert "ambiguous_correlation" not in issue_codes(run)


def test_a33_shared_ids(tmp_path: Path) -> None:
    merged = load(tmp_path, "A33", "merged.json")
    assert not [row for row in rows(merged, "device_event") if row["launch_id"] is not None]
    assert issue_codes(merged)["ambiguous_correlation"] == 1
    both = import_traces(ImportRequest((CASES / "A33" / "rank0.json", CASES / "A33" / "rank1.json"), out=tmp_path / "both"))
    calls = {(row["rank"], row["event_id"]): row["ts_ns"] for row in rows(both, "host_event")}
    delays = {row["rank"]: row["ts_ns"] - calls[(row["rank"], row["launch_id"])] for row in rows(both, "device_event")}
    assert delays == {0: 20 * US, 1: 50 * US}


def test_a34_pseudo_events(tmp_path: Path) -> None:
    run = load(tmp_path, "A34")
    source = rows(run, "source")[0]
    assert source["last_ts_ns"] - source["first_ts_ns"] == 500 * US
    assert sum(row["kind"] == "op" for row in rows(run, "host_event")) == 1
    assert union(run) == 450 * US
    assert len({row["pid"] for row in rows(run, "thread")}) + len({row["device"] for row in rows(run, "device_event")}) == 2
    assert [(row["series"], row["value"]) for row in rows(run, "counter")] == [("GPU Utilization", 55.0)]
    assert not warnings(run)


def self_times(run: Run) -> dict[str, int]:
    """Duration minus the children's, each clamped to its parent."""
    host = {row["event_id"]: row for row in rows(run, "host_event")}
    ends: dict[int, int] = {}
    left = {}
    for key, row in sorted(host.items()):
        end = row["ts_ns"] + (row["dur_ns"] or 0)
        if row["parent_id"] is not None:
            end = min(end, ends[row["parent_id"]])
            left[row["parent_id"]] -= end - row["ts_ns"]
        ends[key] = end
        left[key] = end - row["ts_ns"]
    return {host[key]["name"]: value for key, value in left.items()}


def test_a35_frame_that_never_closed(tmp_path: Path) -> None:
    run = load(tmp_path, "A35")
    assert issue_codes(run)["unclosed_frame"] == 1
    cut = [row for row in rows(run, "host_event") if "recorded_dur_ns" in (row["args"] or "")]
    assert [row["dur_ns"] for row in cut] == [150 * US]
    times = self_times(run)
    assert min(times.values()) >= 0
    assert 50 * US in times.values()
    assert 8700 * US in times.values()


def test_a36_partial_overlap(tmp_path: Path) -> None:
    run = load(tmp_path, "A36")
    host = rows(run, "host_event")
    assert sorted(row["dur_ns"] for row in host) == [100 * US, 200 * US, 400 * US, 500 * US]
    assert min(self_times(run).values()) >= 0
    assert "overlapping_slices" in issue_codes(run)


def test_a37_rocm(tmp_path: Path) -> None:
    run = load(tmp_path, "A37")
    device = rows(run, "device_event")
    assert kernels(run) == 3
    assert sum(row["launch_id"] is not None for row in device) == 4
    assert {row["stream"] for row in device} == {0}
    assert sum(row["dur_ns"] for row in device if row["class"] == "comm") == 100 * US
    assert sum(row["dur_ns"] for row in device if row["kind"] == "kernel" and row["class"] != "comm") == 250 * US
    assert sum(row["dur_ns"] for row in device if row["copy_kind"] == "h2d") == 30 * US


def test_a39_members_and_documents(tmp_path: Path) -> None:
    assert kernels(load(tmp_path, "A39", "multi.json.gz")) == 6
    with pytest.raises(TraceEngineError, match="2 or more JSON documents"):
        import_traces(ImportRequest((CASES / "A39" / "two_docs.json.gz",), out=tmp_path / "two"))


def test_a40_cut_gzip(tmp_path: Path) -> None:
    run = load(tmp_path, "A40", "trace.json.gz")
    assert 0 < kernels(run) < 400
    assert rows(run, "source")[0]["truncated"] is True
    issue = next(row for row in rows(run, "import_issue") if row["code"] == "truncated")
    assert "byte 13075" in issue["example"]


def test_a52_dropped_kernels(tmp_path: Path) -> None:
    run = load(tmp_path, "A52")
    linked = {row["launch_id"] for row in rows(run, "device_event")}
    missing = [row for row in rows(run, "host_event") if row["class"] == "launch" and row["event_id"] not in linked]
    assert len(missing) == 3
