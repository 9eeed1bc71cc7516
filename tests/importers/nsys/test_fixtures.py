"""Our own recordings: two formats of one report, what was planted in them, nothing of the machine."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nsys_helpers import ask
from test_formats import same

from traceengine.run import Run

FOLDER = Path(__file__).parents[3] / "fixtures" / "traces" / "nsys"
LABELS = json.loads((FOLDER / "labels.json").read_text())


@pytest.mark.parametrize("name", sorted(LABELS))
def test_both_formats_give_the_same_tables(name: str, importer: Callable[..., Run]) -> None:
    same(importer(FOLDER / f"{name}.sqlite"), importer(FOLDER / f"{name}_pqtdir"))


@pytest.mark.parametrize("name", sorted(LABELS))
def test_what_was_planted_is_there(name: str, importer: Callable[..., Run]) -> None:
    label = LABELS[name]
    run = importer(FOLDER / f"{name}.sqlite")
    assert ask(run, "select count(*) from host_event where class = 'step' and kind = 'annotation'") == [(label["steps"],)]
    assert ask(run, "select count from import_issue where code = 'open_range'") == [(label["open_ranges"],)]
    assert ask(run, "select count(*) from host_event where kind = 'marker' and name = 'train_begin'") == [(label["marks"],)]
    inside = ask(
        run, "select class, sum(dur_ns)::bigint from host_event where kind = 'annotation' and class <> 'step' group by 1 order by 2 desc"
    )
    assert inside[0][0] in label["owner_in"]
    assert ask(run, "select distinct args from host_event where name = 'getitem'") == [('{"domain": "data"}',)]
    assert ask(run, "select count(*) from host_event where kind = 'os'")[0][0] > 10


def _texts(path: Path) -> list[str]:
    """Every text of an export."""
    if path.is_dir():
        columns = [column for file in path.glob("*.parquet") for column in pq.read_table(file).columns]
        return [value for column in columns if pa.types.is_string(column.type) for value in column.to_pylist() if value]
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    tables = [row[0] for row in database.execute("select name from sqlite_master where type = 'table'")]
    found = [value for name in tables for row in database.execute(f'select * from "{name}"') for value in row if isinstance(value, str)]
    database.close()
    return found


@pytest.mark.parametrize("name", sorted(LABELS))
@pytest.mark.parametrize("form", [".sqlite", "_pqtdir"])
def test_fixtures_are_small_and_hold_nothing_of_the_machine(name: str, form: str) -> None:
    path = FOLDER / f"{name}{form}"
    texts = _texts(path)
    assert "data_wait" in texts
    for text in texts:
        assert not re.search(r"/(?:home|root|tmp|work|usr|opt)\b|\b[A-Z_]{3,}=|\x00", text), text
    size = path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in path.iterdir())
    assert size <= 1 << 20
