"""The Nsight cases of the shared material: what the importer owes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from nsys_helpers import ask, shared

from traceengine.errors import CorruptTraceError, EmptyTraceError, InputError, UnknownFormatError
from traceengine.run import Run

Importer = Callable[..., Run]


def test_a42_without_nvtx_is_imported_and_told(importer: Importer) -> None:
    run = importer(shared("cases", "A42", "profile.sqlite"))
    assert ask(run, "select count(*), sum(dur_ns) from device_event where kind = 'kernel'") == [(3, 1_800_000)]
    assert ask(run, "select count(*) from import_issue where code = 'no_nvtx' and severity = 'warning'") == [(1,)]


def test_a45_open_ranges_have_no_duration(importer: Importer) -> None:
    run = importer(shared("cases", "A45", "profile.sqlite"))
    assert ask(run, "select count(dur_ns), count(*) - count(dur_ns) from host_event where kind in ('annotation', 'op')") == [(2, 2)]
    assert ask(run, "select count(*) from host_event where kind = 'marker'") == [(1,)]
    assert ask(run, "select avg(dur_ns) from host_event where name = 'train_step'") == [(900_000.0,)]
    assert ask(run, "select count(*) from host_event where dur_ns < 0") == [(0,)]
    assert ask(run, "select count from import_issue where code = 'open_range'") == [(2,)]


@pytest.mark.parametrize(("name", "words"), [("empty_table.sqlite", "3 launches"), ("no_table.sqlite", "synthetic message")])
def test_a47_without_kernels_is_refused(name: str, words: str, importer: Importer) -> None:
    with pytest.raises(EmptyTraceError) as caught:
        importer(shared("cases", "A47", name))
    for part in ("o GPU kernels captured", "3 launches", words, name):
        assert part in str(caught.value)


def test_a48_whole_graphs_are_busy_time(importer: Importer) -> None:
    run = importer(shared("cases", "A48", "profile.sqlite"))
    assert ask(run, "select kind, count(*), sum(busy_dur_ns) from device_event group by 1 order by 1") == [
        ("graph", 3, 2_700_000),
        ("kernel", 1, 100_000),
    ]
    action = ask(run, "select action from import_issue where code = 'whole_graphs'")[0][0]
    assert "--cuda-graph-trace=node" in action


def test_a50_unknown_version_and_renamed_columns(importer: Importer) -> None:
    run = importer(shared("cases", "A50", "future.sqlite"))
    assert ask(run, "select schema_version from source") == [("9.0.0",)]
    assert ask(run, "select distinct name from device_event") == [("sm90_xmma_gemm_bf16bf16_bf16f32",)]
    told = dict(ask(run, "select code, string_agg(example, ' ') from import_issue group by 1"))
    assert "9.0.0" in told["schema_version"]
    assert "demangledNameId" in told["renamed_column"]


def test_a50_without_metadata(importer: Importer) -> None:
    run = importer(shared("cases", "A50", "no_meta.sqlite"))
    assert run.read("device_event").num_rows == 3
    assert ask(run, "select count(*) from import_issue where code = 'schema_unknown'") == [(1,)]


@pytest.mark.parametrize(("name", "error"), [("cut.sqlite", CorruptTraceError), ("text.sqlite", UnknownFormatError)])
def test_a51_damaged_files_are_refused(name: str, error: type[InputError], importer: Importer) -> None:
    with pytest.raises(error, match=name):
        importer(shared("cases", "A51", name))


def test_b18_library_ranges_are_no_steps(importer: Importer) -> None:
    run = importer(shared("cases", "B18", "profile.sqlite"))
    assert run.read("device_event").num_rows == 8
    assert ask(run, "select distinct kind, class from host_event where name like 'cub::%'") == [("op", "library_call")]
    assert ask(run, "select count(*) from host_event where class = 'step'") == [(0,)]


def test_b23_the_same_profile_gives_the_same_tables(importer: Importer) -> None:
    one, other = importer(shared("cases", "B23", "a.sqlite")), importer(shared("cases", "B23", "b.sqlite"))
    for name in ("host_event", "device_event", "thread", "device"):
        assert one.read(name).equals(other.read(name)), name
    assert ask(one, "select count(*) from host_event where class = 'step'") == [(10,)]


@pytest.mark.parametrize(("name", "ranks", "steps"), [("five.sqlite", (0,), 5), ("ten.sqlite", (0,), 10), ("two_dev.sqlite", (0, 1), 10)])
def test_b24_counts_are_per_rank(name: str, ranks: tuple[int, ...], steps: int, importer: Importer) -> None:
    run = importer(shared("cases", "B24", name))
    assert run.manifest.ranks == ranks
    per_rank = ask(run, "select rank, count(*), sum(dur_ns) from device_event group by 1 order by 1")
    assert per_rank == [(rank, steps, 900_000 * steps) for rank in ranks]
    assert ask(run, "select rank, count(*) from host_event where class = 'step' group by 1 order by 1") == [(rank, steps) for rank in ranks]
