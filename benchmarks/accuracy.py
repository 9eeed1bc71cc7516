"""How right the answers are: simulated jobs against their exact truth, recorded pairs of loops against what was measured.

    python benchmarks/accuracy.py --jobs 240 --out docs/accuracy.md

The simulated jobs come from `tests/simulate`; the pairs from `fixtures/traces` and, when there, from a folder of further
pairs (`TRACEENGINE_SHARED`). Two processes; about five minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.accuracy.compare import (  # noqa: E402
    OWNER_TOLERANCE_SHARE,
    PATH_TOLERANCE_SHARE,
    SAVING_TOLERANCE_SHARE,
    Comparison,
    compare_paths,
    compare_verdicts,
    lowest,
    worst,
)
from tests.simulate.jobs import random_spec  # noqa: E402
from traceengine.analysis import ensure_analysis  # noqa: E402
from traceengine.importers import ImportRequest, import_traces  # noqa: E402
from traceengine.verdict import RankVerdict, VerdictParameters  # noqa: E402

SHARED = Path(os.environ.get("TRACEENGINE_SHARED", ROOT.parent / "shared"))
CAUSES = {"recompile": "compile", "straggler": "data_wait"}
"""Class ids of what labels call otherwise; a straggler's own trace shows why it is late."""
UNSEEN_AS = {"logging": "host_other", "checkpoint": "host_other"}
"""What a capture without Python stacks sees of a cause."""
REMARKS = {
    "b": "the loader is hidden: nothing to save",
    "h": "nothing was removed: the noise of the machine",
    "matmul": "nothing was removed: the noise of the machine",
    "k2": "recomputation inside operators: the same work made less, not estimable",
    "e2": "graph breaks: the same operators made cheaper, not estimable",
    "tiny_ops": "the same arithmetic in fewer operators: an upper bound of the dispatch",
    "d": "two saves in eight steps; without stacks the short gaps of a save are no unnamed time but host_bound",
}
"""By loop: why bound and measurement need not agree."""


def simulated(job: tuple[int, bool]) -> list[Comparison]:
    """All ranks of one job."""
    seed, with_verdict = job
    with tempfile.TemporaryDirectory() as folder:
        return list((compare_verdicts if with_verdict else compare_paths)(random_spec(seed), Path(folder)))


# -- pairs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """A recorded loop with a planted cause, and what removing it saved without a profiler (shares of the mean step)."""

    loop: str
    file: Path
    config: str
    cause: str
    measured: float
    low: float
    high: float


@dataclass(frozen=True)
class Predicted:
    """What was said of a pair's baseline; `share` is None when the cause was not seen."""

    pair: Pair
    owner: str
    seen_as: str | None
    share: float | None
    steps: int


def stored_pairs() -> Iterable[Pair]:
    """Pairs of fixtures/traces."""
    folder = ROOT / "fixtures/traces"
    for loop, label in json.loads((folder / "labels.json").read_text(encoding="utf-8"))["loops"].items():
        saving = label["saving_by_removing_cause"]
        for config in ("bare", "stack"):
            file = folder / f"{loop}.baseline.{config}.json.gz"
            if file.exists():
                yield _pair(loop, file, config, label["cause"], saving)


def shared_pairs() -> Iterable[Pair]:
    """Pairs of the shared folder; of several ranks the late one."""
    folder = SHARED / "traces/truth_cpu"
    if not folder.exists():
        return
    for loop, label in json.loads((folder / "labels.json").read_text(encoding="utf-8")).items():
        for config in ("bare", "stack"):
            for rank in ("", ".rank1"):
                file = folder / f"{loop}.baseline.{config}{rank}.json.gz"
                if file.exists():
                    yield _pair(loop, file, config, label["cause"], label["saving_by_removing_cause"]["fixed"])


def _pair(loop: str, file: Path, config: str, cause: str, saving: dict[str, Any]) -> Pair:
    word = cause.partition(":")[0].partition(" ")[0]
    low, high = saving["range_pct"]
    return Pair(loop, file, config, CAUSES.get(word, word), saving["mean_pct"] / 100, low / 100, high / 100)


def predicted(pair: Pair) -> Predicted:
    """Analyse a pair's baseline. The share is the bound per step of the mean steady step."""
    with tempfile.TemporaryDirectory() as folder:
        run = import_traces(ImportRequest((pair.file,), out=Path(folder) / "run", jobs=1))
        verdict = ensure_analysis(run).answer.leading
    seen = seen_as(pair, verdict)
    cost = next((cause for cause in verdict.causes if cause.cause == seen), None)
    mean_ns = verdict.steps.mean_ns
    share = cost.bound_ns / mean_ns if cost is not None and mean_ns else None
    return Predicted(pair, verdict.owner, seen, share, verdict.steps.steady)


def seen_as(pair: Pair, verdict: RankVerdict) -> str | None:
    """The class under which a capture shows the cause: the larger of its own and the unnamed host time without stacks."""
    if pair.cause == "compute":
        return None
    names = {pair.cause} | ({UNSEEN_AS[pair.cause]} if pair.cause in UNSEEN_AS and pair.config == "bare" else set())
    costs = [cause for cause in verdict.causes if cause.cause in names]
    return max(costs, key=lambda cause: cause.bound_ns).cause if costs else None


# -- the page ----------------------------------------------------------------------------------------------------------


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def percent(share: float) -> str:
    """A share with one decimal."""
    return f"{100 * share:.1f} %"


def simulated_part(rows: Sequence[Comparison], jobs: int, with_verdict: bool) -> list[str]:
    """The table of simulated jobs, and every miss by seed."""
    lines = table(
        ["kind", "ranks", "owner right", "path within 1 %", "worst path error", "saving within 3 %", "lowest saving error"],
        (_kind(kind, [row for row in rows if kind in (row.kind, "all")]) for kind in [*sorted({row.kind for row in rows}), "all"]),
    )
    misses = [f"- `{row.job}` rank {row.rank}: {', '.join(miss)}" for row in rows if (miss := _misses(row))]
    by = "the verdict" if with_verdict else "the largest exposed time"
    needed = percent(VerdictParameters().min_owner_share)
    return [
        f"{jobs} jobs (seeds 0 to {jobs - 1}), {len(rows)} ranks, each looked at alone. The owner is that of {by}; one is right when its",
        f"exact saving is within {percent(OWNER_TOLERANCE_SHARE)} of the largest, or of the {needed} that an owner needs.",
        "Errors are shares of the job's time. A saving is replayed with one cause removed; the truth runs the job without it.",
        "",
        *lines,
        "",
        "Every miss:" if misses else "No miss.",
        "",
        *misses,
    ]


def _kind(kind: str, rows: Sequence[Comparison]) -> list[str]:
    return [
        kind,
        str(len(rows)),
        f"{sum(row.owner_right for row in rows)}",
        f"{sum(worst(row.path_errors()) <= PATH_TOLERANCE_SHARE for row in rows)}",
        percent(max(worst(row.path_errors()) for row in rows)),
        f"{sum(worst(row.saving_errors()) <= SAVING_TOLERANCE_SHARE for row in rows)}",
        percent(min(lowest(row.saving_errors()) for row in rows)),
    ]


def _misses(row: Comparison) -> list[str]:
    found = []
    if not row.owner_right:
        true = ", ".join(f"{cause} {percent(row.truth.saving_share(cause))}" for cause in row.truth.ranked()[:2])
        found.append(f"owner {row.found.owner}, true savings {true}")
    if worst(row.path_errors()) > PATH_TOLERANCE_SHARE:
        found.append("path " + _listed(row.path_errors(), PATH_TOLERANCE_SHARE))
    if worst(row.saving_errors()) > SAVING_TOLERANCE_SHARE:
        found.append("saving " + _listed(row.saving_errors(), SAVING_TOLERANCE_SHARE))
    return found


def _listed(errors: dict[str, float], least: float) -> str:
    return ", ".join(f"{cause} {100 * error:+.1f} %" for cause, error in errors.items() if abs(error) > least)


def pairs_part(rows: Sequence[Predicted]) -> list[str]:
    """The table of recorded pairs."""
    return table(
        ["loop", "capture", "owner", "cause, seen as", "steps", "bound", "measured (range)", "bound - measured", "remark"],
        (
            [
                row.pair.loop,
                row.pair.config,
                row.owner,
                f"{row.pair.cause}, {row.seen_as or 'not seen'}",
                str(row.steps),
                percent(row.share) if row.share is not None else "unknown",
                f"{percent(row.pair.measured)} ({percent(row.pair.low)} to {percent(row.pair.high)})",
                f"{100 * (row.share - row.pair.measured):+.1f}" if row.share is not None else "",
                REMARKS.get(row.pair.loop, ""),
            ]
            for row in rows
        ),
    )


def page(comparisons: Sequence[Comparison], pairs: Sequence[Predicted], jobs: int, with_verdict: bool) -> str:
    """The whole page."""
    lines = ["# How right the answers are", "", "Made by `make accuracy`; do not edit.", "", "## Simulated jobs", ""]
    lines += simulated_part(comparisons, jobs, with_verdict)
    lines += ["", "## Recorded loops", ""]
    lines += [
        "CPU loops with a planted cause, recorded with it; the saving was measured without a profiler by running the loop without the",
        "cause. The bound is what the replay without the cause saves per mean step, from the profiled baseline alone. Loops with a letter",
        "for a name come from a folder of further pairs that is not in the repository.",
        "",
        *pairs_part(pairs),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Parse the command line, run everything, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=240, help="how many simulated jobs")
    parser.add_argument("--paths-only", action="store_true", help="no rules and verdict: a quarter of the time")
    parser.add_argument("--out", type=Path, help="write the page here instead of to standard output")
    told = parser.parse_args()
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        pairs = [*stored_pairs(), *shared_pairs()]
        waiting = pool.map(predicted, pairs)
        comparisons = list(
            chain.from_iterable(pool.map(simulated, [(seed, not told.paths_only) for seed in range(told.jobs)], chunksize=4))
        )
        text = page(comparisons, list(waiting), told.jobs, not told.paths_only)
    if told.out is None:
        print(text, end="")
    else:
        told.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
