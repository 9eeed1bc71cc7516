"""How right the answers are: simulated jobs against their exact truth, recorded pairs against what was measured, labels.

    python benchmarks/accuracy.py --jobs 240 --out docs/accuracy.md

The simulated jobs come from `tests/simulate`; pairs and labels from `fixtures/traces` and, when there, from a folder of further
captures (`TRACEENGINE_SHARED`). Two processes; five to eight minutes. The page names no file of that folder.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests/acceptance")]

from acceptance.test_real_traces import LABELS  # noqa: E402

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
from tests.accuracy.experiments import PLANNED, Tried, try_experiments  # noqa: E402
from tests.simulate.jobs import random_spec  # noqa: E402
from traceengine.analysis import combine, ensure_analysis  # noqa: E402
from traceengine.importers import ImportRequest, import_traces  # noqa: E402
from traceengine.verdict import RankVerdict, VerdictParameters  # noqa: E402

SHARED = Path(os.environ.get("TRACEENGINE_SHARED", ROOT.parent / "shared"))
TOLERANCE_POINTS = 8
"""A bound and a measured saving differ by at most this many points of the step where the fix takes the cause off the loop's thread."""
CAUSES = {"recompile": "compile", "straggler": "data_wait"}
"""Class ids of what labels call otherwise; a straggler's own trace shows why it is late."""
UNSEEN_AS = {"logging": "host_other", "checkpoint": "host_other"}
"""What a capture without Python stacks sees of a cause."""
NOT_ESTIMABLE = {
    "k2": "recomputation inside operators: the same work made less",
    "e2": "graph breaks: the same operators made cheaper",
}
"""Loops whose fix makes work cheaper that the trace does not tell apart, with the reason."""
CHEAPER = {"tiny_ops": "the batched products remain (0.12 ms a step), and recording makes the step 1.3 ms instead of 0.8"}
"""Loops whose fix makes the cause cheaper: an upper bound."""
NEGATIVE = {"b": "the loader is hidden: nothing to save", "h": "nothing was removed: noise", "matmul": "nothing was removed: noise"}
REMARKS = {
    "loader": "the fix leaves the augmentation in the loader; the bound removes all of the wait",
    "logging": "norms and histograms that the logging computes are operators of the step in the recording",
    "checkpoint": "a save took 31 ms in the recording; 35 ms in the mean of the repeats without it",
    "d": "two saves in eight steps, each 27 ms in the recording and 31 ms without it; bare, 5 ms of each are operators that read as compute",
    "c": "the repeats differ by 18 points, and histograms that the logging computes read as compute",
    "a": "corrected for the drift of the machine the measurement is 65.9 %",
}
"""By loop: what explains a difference of more than 3 points."""


def simulated(seed: int, with_verdict: bool) -> tuple[list[Comparison], list[Tried]]:
    """All ranks of one job, and its named experiments."""
    with tempfile.TemporaryDirectory() as folder:
        compare = compare_verdicts if with_verdict else compare_paths
        ranks = list(compare(random_spec(seed), Path(folder) / "job"))
        return ranks, list(try_experiments(random_spec(seed), Path(folder) / "experiments"))


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
    owners: frozenset[str]


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
                yield _pair(loop, file, config, label["cause"], saving, label["owner_in"]["baseline"][config])


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
                    owners = ["data_wait"] if rank else label["owner_in"]
                    yield _pair(loop, file, config, label["cause"], label["saving_by_removing_cause"]["fixed"], owners)


def _pair(loop: str, file: Path, config: str, cause: str, saving: dict[str, Any], owners: list[str]) -> Pair:
    word = cause.partition(":")[0].partition(" ")[0]
    low, high = saving["range_pct"]
    return Pair(loop, file, config, CAUSES.get(word, word), saving["mean_pct"] / 100, low / 100, high / 100, frozenset(owners))


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


@dataclass(frozen=True)
class Experimented:
    """A public pair of captures before and after a change: what a what-if promises, and what the captures themselves show."""

    what: str
    promised: float
    bound: str
    measured: float


PAIRS = (
    ("single-process loader to 4 workers, GPU, first pair", "torch/resnet50_workers0_a.json.gz", "workers=4", 1 - 126.7 / 177.5),
    ("single-process loader to 4 workers, GPU, second pair", "torch/resnet50_workers0_b.json.gz", "workers=4", 1 - 122.9 / 152.1),
    ("pageable to pinned copies both ways, 5 GB/s link", "torch/copies_pageable.json.gz", "pinned=5", 1 - 30.8 / 67.5),
)
"""What, capture before, change, measured saving of the median step."""


def experimented(what: str, file: str, change: str, measured: float) -> Experimented:
    """Replay the change on the capture before it."""
    with tempfile.TemporaryDirectory() as folder:
        run = import_traces(ImportRequest((SHARED / "traces" / file,), out=Path(folder) / "run", jobs=1))
        answer = combine(ensure_analysis(run), [change])
    entry, mean_ns = answer.combinations[0], answer.leading.steps.mean_ns
    assert entry.saving_ns is not None and mean_ns
    return Experimented(f"{what} (`{change}`)", entry.saving_ns / mean_ns, entry.bound, measured)


@dataclass(frozen=True)
class Labelled:
    """An owner that was found where the accepted ones are known."""

    source: str
    accepted: frozenset[str]
    found: str


def labelled(source: str, file: Path, accepted: frozenset[str]) -> Labelled:
    """The owner of one capture."""
    with tempfile.TemporaryDirectory() as folder:
        run = import_traces(ImportRequest((file,), out=Path(folder) / "run", jobs=1))
        return Labelled(source, accepted, ensure_analysis(run).answer.leading.owner)


def label_files() -> Iterator[tuple[str, Path, frozenset[str]]]:
    """Labelled captures besides the baselines of pairs: the fixed variants, and public captures."""
    folder = ROOT / "fixtures/traces"
    for loop, label in json.loads((folder / "labels.json").read_text(encoding="utf-8"))["loops"].items():
        for config, owners in label["owner_in"]["fixed"].items():
            yield "stored loops", folder / f"{loop}.fixed.{config}.json.gz", frozenset(owners)
    for name, public in LABELS.items():
        file = SHARED / "traces/torch" / name
        if file.exists():
            yield "public captures", file, public.owner_in


# -- the page ----------------------------------------------------------------------------------------------------------


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def percent(share: float) -> str:
    """A share with one decimal."""
    return f"{100 * share:.1f} %"


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole} ({percent(part / whole)})" if whole else "none"


def simulated_part(rows: Sequence[Comparison], jobs: int, with_verdict: bool) -> list[str]:
    """The table of simulated jobs, and every miss by seed."""
    kinds = [*sorted({row.kind for row in rows}), "all"]
    lines = table(
        ["kind", "ranks", "owner right", "path within 1 %", "worst path error", "saving within 3 %", "lowest saving error", "highest"],
        (_kind(kind, [row for row in rows if kind in (row.kind, "all")]) for kind in kinds),
    )
    misses = [f"- `{row.job}` rank {row.rank}: {', '.join(miss)}" for row in rows if (miss := _misses(row))]
    needed = percent(VerdictParameters().min_owner_share)
    low = sum(lowest(row.saving_errors()) < -SAVING_TOLERANCE_SHARE for row in rows)
    withheld = sum(not row.found.saving_ns for row in rows)
    verdict = "verdict's" if with_verdict else "first of the ranking over the whole window (no verdict in this run)"
    apart = sum(row.named_apart for row in rows)
    return [
        f"{jobs} jobs (seeds 0 to {jobs - 1}), {len(rows)} ranks, each looked at alone. The owner is the {verdict}; one is right when its",
        f"exact saving is within {percent(OWNER_TOLERANCE_SHARE)} of the largest, or of the {needed} that an owner needs. The truth is that of the",
        "whole window, the verdict that of the steady steps: where a single slow step holds the largest saving, the answer is right when it",
        f"names its cause for that step ({apart} ranks). Errors are shares of the job's time.",
        "A saving is replayed with one cause removed; the truth runs the job without it.",
        "",
        f"Owner right: {_of(sum(row.owner_right for row in rows), len(rows))}; "
        f"first in the ranking over the whole window: {_of(sum(row.window_right for row in rows), len(rows))}. "
        f"Saving within 3 %: {_of(sum(worst(row.saving_errors()) <= SAVING_TOLERANCE_SHARE for row in rows), len(rows))}. "
        f"A bound more than 3 % below the truth: {low}. Replay withheld: {withheld}.",
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
        percent(max(max((*row.saving_errors().values(), 0.0)) for row in rows)),
    ]


def _misses(row: Comparison) -> list[str]:
    found = []
    if not row.owner_right or not row.window_right:
        true = ", ".join(f"{cause} {percent(row.truth.saving_share(cause))}" for cause in row.truth.ranked()[:2])
        found.append(f"owner {row.found.owner}, of the window {row.found.window_owner}, true savings {true}")
    if worst(row.path_errors()) > PATH_TOLERANCE_SHARE:
        found.append("path " + _listed(row.path_errors(), PATH_TOLERANCE_SHARE))
    if worst(row.saving_errors()) > SAVING_TOLERANCE_SHARE:
        found.append("saving " + _listed(row.saving_errors(), SAVING_TOLERANCE_SHARE))
    return found


def _listed(errors: dict[str, float], least: float) -> str:
    return ", ".join(f"{cause} {100 * error:+.1f} %" for cause, error in errors.items() if abs(error) > least)


def experiments_part(rows: Sequence[Tried]) -> list[str]:
    """The table of named experiments on simulated jobs, and every miss by seed."""
    lines = []
    for planned in PLANNED:
        mine = [row for row in rows if row.experiment == planned.text]
        told = [row for row in mine if row.promised_ns is not None]
        errors = [row.error for row in told] or [0.0]
        near = sum(abs(error) <= SAVING_TOLERANCE_SHARE for error in errors) if told else 0
        bound = ", ".join(sorted({row.bound for row in told}))
        lines.append([f"`{planned.text}`", str(len(mine)), str(len(told)), bound, str(near), percent(min(errors)), percent(max(errors))])
    off = [row for row in rows if abs(row.error) > SAVING_TOLERANCE_SHARE]
    return [
        "Each job on one rank, and the same job with the change: what the replay of the recording promises against what it takes. The",
        "simulated graph holds forward and backward only; the bound is for a graph of the whole step.",
        "",
        *table(["experiment", "jobs", "estimable", "called", "within 3 %", "lowest error", "highest"], lines),
        "",
        *([f"- `{row.job}` `{row.experiment}`: {100 * row.error:+.1f} %" for row in off] or ["No miss."]),
        "",
        *(f"- not estimable: {reason}" for reason in sorted({row.reason for row in rows if row.promised_ns is None})),
    ]


def pairs_part(rows: Sequence[Predicted]) -> list[str]:
    """The table of recorded pairs."""
    return table(
        ["loop", "capture", "owner", "cause, seen as", "steps", "answer", "bound", "measured (range)", "difference", "within"],
        (_pair_row(row) for row in rows),
    )


def _pair_row(row: Predicted) -> list[str]:
    pair = row.pair
    shown = row.share is not None and pair.loop not in NOT_ESTIMABLE and pair.loop not in NEGATIVE
    points = 100 * (row.share - pair.measured) if row.share is not None and shown else None
    if pair.loop in NOT_ESTIMABLE:
        answer, within = "not estimable", ""
    elif pair.loop in NEGATIVE:
        answer, within = "nothing to remove", "yes" if row.owner in pair.owners else "no"
    elif pair.loop in CHEAPER:
        answer, within = "upper bound", "yes" if points is not None and points >= 0 else "no"
    else:
        answer, within = "removes", "yes" if points is not None and abs(points) <= TOLERANCE_POINTS else "no"
    return [
        pair.loop,
        pair.config,
        row.owner,
        f"{pair.cause}, {row.seen_as or 'not seen'}",
        str(row.steps),
        answer,
        percent(row.share) if row.share is not None and shown else "",
        f"{percent(pair.measured)} ({percent(pair.low)} to {percent(pair.high)})",
        f"{points:+.1f}" if points is not None else "",
        within,
    ]


def deviations(rows: Sequence[Predicted]) -> list[str]:
    """What explains the differences, loop by loop."""
    texts = {**NOT_ESTIMABLE, **CHEAPER, **NEGATIVE, **REMARKS}
    loops = dict.fromkeys(row.pair.loop for row in rows)
    return [f"- {loop}: {texts[loop]}" for loop in loops if loop in texts]


def captures_part(rows: Sequence[Experimented]) -> list[str]:
    """The table of public pairs."""
    return table(
        ["change", "promised", "called", "measured", "difference"],
        ([row.what, percent(row.promised), row.bound, percent(row.measured), f"{100 * (row.promised - row.measured):+.1f}"] for row in rows),
    )


def confusion_part(rows: Sequence[Labelled]) -> list[str]:
    """Found against accepted owners, over all sources."""
    sources = Counter(row.source for row in rows)
    right = Counter(row.source for row in rows if row.found in row.accepted)
    counts = Counter((_label(row), row.found) for row in rows)
    found = sorted({row.found for row in rows})
    lines = table(["source", "owners", "right"], ([source, str(sources[source]), str(right[source])] for source in sources))
    matrix = table(
        ["label, found", *found],
        ([label, *(str(counts[label, name] or "") for name in found)] for label in sorted({_label(row) for row in rows})),
    )
    return [*lines, "", *matrix]


def _label(row: Labelled) -> str:
    """The found owner when it is accepted; else the accepted ones."""
    return row.found if row.found in row.accepted else " or ".join(sorted(row.accepted - {"healthy"}))


@dataclass(frozen=True)
class Results:
    """Everything that stands on the page."""

    comparisons: Sequence[Comparison]
    tried: Sequence[Tried]
    pairs: Sequence[Predicted]
    captures: Sequence[Experimented]
    labels: Sequence[Labelled]

    def owners(self) -> list[Labelled]:
        """Owners of all sources."""
        jobs = [Labelled("simulated ranks", row.owners, row.found.owner) for row in self.comparisons if not row.named_apart]
        loops = [Labelled(f"{'stored' if _is_stored(row) else 'further'} loops", row.pair.owners, row.owner) for row in self.pairs]
        return [*jobs, *loops, *self.labels]


def _is_stored(row: Predicted) -> bool:
    return row.pair.file.is_relative_to(ROOT)


def page(results: Results, jobs: int, with_verdict: bool) -> str:
    """The whole page."""
    lines = [
        "# How right the answers are",
        "",
        "Made by `make accuracy`; do not edit.",
        "",
        "## Simulated jobs",
        "",
        *simulated_part(results.comparisons, jobs, with_verdict),
        "",
        "## Named experiments on simulated jobs",
        "",
        *experiments_part(results.tried),
        "",
        "## Recorded loops",
        "",
        "CPU loops with a planted cause, recorded with it; the saving was measured without a profiler by running the loop without the",
        "cause. The bound is what the replay without the cause saves per mean step, from the profiled baseline alone. Loops with a letter",
        "for a name come from a folder of further pairs that is not in the repository. A fix that removes the cause from the loop's thread",
        f"must come within {TOLERANCE_POINTS} points; one that makes work cheaper is an upper bound, or not estimable from a trace.",
        "",
        *pairs_part(results.pairs),
        "",
        "What explains the differences:",
        "",
        *deviations(results.pairs),
    ]
    if results.captures:
        text = "Public captures on GPUs before and after a change; measured on the medians of their own steps, so with the profiler on."
        lines += ["", "## Recorded pairs of captures", "", text, "", *captures_part(results.captures)]
    lines += ["", "## Owners", "", "The label is the found owner when it is one that is accepted.", "", *confusion_part(results.owners())]
    return "\n".join(lines) + "\n"


# -- running -----------------------------------------------------------------------------------------------------------


def collect(jobs: int, with_verdict: bool, processes: int) -> Results:
    """Run everything in worker processes, with progress on standard error."""
    pairs = [*stored_pairs(), *shared_pairs()]
    work: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [(simulated, (seed, with_verdict)) for seed in range(jobs)]
    work += [(predicted, (pair,)) for pair in pairs] + [(labelled, told) for told in label_files()]
    work += [(experimented, told) for told in PAIRS if (SHARED / "traces" / told[1]).exists()]
    # The long ones last would leave one process idle.
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool, Progress(console=Console(stderr=True)) as progress:
        futures: list[Future[Any]] = [pool.submit(function, *arguments) for function, arguments in reversed(work)]
        task = progress.add_task("accuracy", total=len(futures))
        for done in as_completed(futures):
            done.result()
            progress.advance(task)
    found: dict[Callable[..., Any], list[Any]] = {}
    for (function, _), future in zip(work, reversed(futures), strict=True):
        found.setdefault(function, []).append(future.result())
    ranks = found.get(simulated, [])
    return Results(
        [row for rows, _ in ranks for row in rows],
        [row for _, rows in ranks for row in rows],
        found.get(predicted, []),
        found.get(experimented, []),
        found.get(labelled, []),
    )


def main() -> None:
    """Parse the command line, run everything, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=240, help="how many simulated jobs")
    parser.add_argument("--paths-only", action="store_true", help="simulated jobs without rules and verdict: a quarter of the time")
    parser.add_argument("--processes", type=int, default=2, help="worker processes")
    parser.add_argument("--out", type=Path, help="write the page here instead of to standard output")
    told = parser.parse_args()
    text = page(collect(told.jobs, not told.paths_only, told.processes), told.jobs, not told.paths_only)
    if told.out is None:
        print(text, end="")
    else:
        told.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
