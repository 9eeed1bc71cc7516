"""Nothing of a recorded machine's environment, command lines, output, users, hosts or folders reaches a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from nsys_helpers import SHARED, Rows, ask, call, kernel, nvtx, shared, tables, write_lines, write_parquet, write_sqlite

from traceengine.importers.nsys_names import without_paths
from traceengine.run import Run

SECRET = "planted-secret-1f7c"


def _content() -> dict[str, Rows]:
    environment = f"HOME=/home/someone\x00API_TOKEN={SECRET}\x00"
    content = tables(
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(100, 200, 1)],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(10, 20, 1)],
        NVTX_EVENTS=[nvtx(0, 300, "step 0")],
        StringIds=[
            {"id": 50, "value": environment},
            {"id": 51, "value": f"{SECRET} printed"},
            {"id": 52, "value": f"/home/{SECRET}/python3"},
        ],
        META_DATA_CAPTURE=[
            {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": f'API_TOKEN="{SECRET}"'},
            {"name": "PROCESS_0:COMMAND", "value": f"/home/{SECRET}/train.py"},
            {"name": "PROCESS_0:ARGUMENT_0", "value": f"--token={SECRET}"},
            {"name": "PROCESS_0:USER_NAME", "value": SECRET},
            {"name": "PROCESS_0:WORKING_DIR", "value": f"/{SECRET}"},
            {"name": "PROCESS_0:COLLECT_NVTX_TRACE", "value": "true"},
        ],
        ProcessStreams=[{"globalPid": 1, "filenameId": 52, "contentId": 51}],
        ANALYSIS_FILE=[{"id": 1, "filename": f"/{SECRET}", "contentId": 51}],
        TARGET_INFO_SYSTEM_ENV=[
            {"name": "Hostname", "value": SECRET},
            {"name": "DeviceEnvironment", "value": environment},
            {"name": "CpuCores", "value": "8"},
        ],
        DIAGNOSTIC_EVENT=[{"timestamp": 1, "severity": 2, "text": f"Some events are lost, see /tmp/{SECRET}/log.txt"}],
        PROCESSES=[{"globalPid": (1 << 48) | (5000 << 24), "pid": 5000, "name": f"/home/{SECRET}/bin/python3"}],
        ThreadNames=[{"nameId": 52, "globalTid": (1 << 48) | (5000 << 24) | 5001, "priority": 20}],
    )
    content["META_DATA_EXPORT"] = content["META_DATA_EXPORT"] + [
        {"name": "EXPORT_HOST", "value": SECRET},
        {"name": "EXPORT_USER", "value": SECRET},
        {"name": "EXPORT_PARAM_INPUT_PATH_ABS", "value": f"/{SECRET}/r.nsys-rep"},
    ]
    return content


def _bytes(run: Run) -> bytes:
    """Every byte of the run, and every text in it uncompressed."""
    files = [path for path in run.path.rglob("*") if path.is_file()]
    assert files
    texts = []
    for path in files:
        if path.suffix == ".parquet":
            table = pa.parquet.read_table(path)
            texts += [str(column.to_pylist()) for column in table.columns if pa.types.is_string(column.type)]
    return b"".join(path.read_bytes() for path in files) + "".join(texts).encode()


@pytest.mark.parametrize("writer", [write_sqlite, write_parquet, write_lines])
def test_a_planted_secret_stays_behind(
    writer: Callable[[Path, dict[str, Rows]], Path], importer: Callable[..., Run], tmp_path: Path
) -> None:
    name = {"write_sqlite": "t.sqlite", "write_parquet": "t_pqtdir", "write_lines": "t.jsonl"}[writer.__name__]
    run = importer(writer(tmp_path / name, _content()))
    found = _bytes(run)
    assert SECRET.encode() not in found
    assert b"someone" not in found
    assert b"CpuCores" in found, "what is allowed is there, so that the test looks at the right place"
    assert ask(run, "select process_name, name from thread") == [("python3", "python3")]
    assert ask(run, "select count(*) from source where length(host) = 16") == [(1,)]
    assert ask(run, "select example from import_issue where code = 'recorder_warning'") == [("Some events are lost, see log.txt",)]


@pytest.mark.parametrize("name", [path.name for path in sorted((SHARED / "traces" / "nsys").glob("*.sqlite"))] or ["none"])
def test_real_captures_leave_their_secret_behind(name: str, importer: Callable[..., Run]) -> None:
    path = shared("traces", "nsys", name)
    assert SECRET.encode() in path.read_bytes() or name == "graph_trace_only.sqlite"
    found = _bytes(importer(path))
    assert SECRET.encode() not in found
    for word in (b"/tmp/", b"/root", b"/home", b"wandb: Currently"):
        assert word not in found, word


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("see /tmp/a/b.log and c", "see b.log and c"),
        ("Loaded CUPTI library: /opt/x/libcupti.so.12", "Loaded CUPTI library: libcupti.so.12"),
        (r"C:\Users\me\x.log is full", "x.log is full"),
        ("50 %/s of 1/2", "50 %/s of 1/2"),
        ("dlopen(/home/me/lib.so)", "dlopen(lib.so)"),
    ],
)
def test_paths_in_messages_lose_their_folders(text: str, clean: str) -> None:
    assert without_paths(text) == clean
