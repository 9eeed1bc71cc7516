"""Real traces with bytes changed: nothing but an error of the tree may come out, and never a half of a run."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from tests.importers.import_helpers import issue_codes, rows, shared_folder
from traceengine.errors import TraceEngineError
from traceengine.importers import ImportRequest, import_traces
from traceengine.importers.kineto import chunks
from traceengine.run import Run

STORED = Path(__file__).parents[2] / "fixtures" / "traces"
ROUNDS = int(os.environ.get("TRACEENGINE_MUTATIONS", "1"))
"""Changed copies of each trace; `make fuzz` asks for more."""
SEED = int(os.environ.get("TRACEENGINE_MUTATION_SEED", "1"))
LARGEST = 40_000
"""Text kept of a trace: what matters is its kinds of events, not how many."""

TOKENS = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"}{", b'"},{"', b'{"', b"null", b"NaN", b"-Infinity", b"1e999", b"-1", b"0.0005",
    b"99999999999999999999999", b"\xff", b"\x00", b"\n", b"\xed\xa0\x80", b'"traceEvents": [', b'"ph": "B"', b'"ts": "x"', b"\\ud800", b"\xef\xbb\xbf",
)  # fmt: skip


def _traces() -> list[Path]:
    """Small real traces and the cases."""
    cases = sorted((shared_folder() / "cases").glob("A*/*.json"))
    return [*sorted(STORED.glob("*.json.gz"), key=lambda path: path.stat().st_size)[:6], *cases]


def _insert(text: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(text) + 1)
    text[place:place] = chance.choice(TOKENS)


def _remove(text: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(text))
    del text[place : place + chance.choice((1, 2, 9, 300))]


def _flip(text: bytearray, chance: random.Random) -> None:
    text[chance.randrange(len(text))] ^= 1 << chance.randrange(8)


def _copy(text: bytearray, chance: random.Random) -> None:
    start, place = chance.randrange(len(text)), chance.randrange(len(text))
    text[place:place] = text[start : start + chance.choice((1, 40, 900))]


def _cut(text: bytearray, chance: random.Random) -> None:
    del text[chance.randrange(len(text) // 2, len(text)) :]


CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (_insert, _insert, _remove, _flip, _flip, _copy, _cut)


def _mutated(path: Path, chance: random.Random) -> bytes:
    packed = path.suffix == ".gz" and chance.random() < 0.3
    raw = path.read_bytes()
    text = bytearray(raw if packed or path.suffix != ".gz" else gzip.decompress(raw)[:LARGEST])
    for _ in range(chance.choice((1, 1, 2, 5))):
        if text:
            chance.choice(CHANGES)(text, chance)
    return bytes(text)


@pytest.mark.parametrize("path", _traces(), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_changed_bytes_give_a_whole_run_or_one_sentence(path: Path, tmp_path: Path) -> None:
    for number in range(ROUNDS):
        seed = f"{SEED}/{path.parent.name}/{path.name}/{number}"
        chance = random.Random(seed)
        folder = tmp_path / str(number)
        folder.mkdir()
        changed = folder / "trace.json"
        changed.write_bytes(_mutated(path, chance))
        with mock.patch.object(chunks, "CHUNK_BYTES", chance.choice((4_000, 50_000))):
            try:
                run = import_traces(ImportRequest((changed,), out=folder / "run", jobs=1))
            except TraceEngineError as error:
                assert "\n" not in str(error), seed
                assert "trace.json" in str(error), seed
                assert error.hint, seed
                assert sorted(folder.iterdir()) == [changed], seed
                continue
        assert Run.open(folder / "run") == run, seed
        assert sorted(entry.name for entry in run.path.iterdir()) == ["manifest.json", "tables"], seed
        kept = sum(run.read(table).num_rows for table in ("host_event", "device_event", "stream_wait", "counter", "memory_event"))
        assert kept + sum(issue_codes(run).values()) > 0, seed
        assert all(row["dur_ns"] is None or row["dur_ns"] >= 0 for row in rows(run, "device_event")), seed
