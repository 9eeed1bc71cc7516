"""Carry out the cards of three recorded loops as printed, and set what they saved against their bounds.

    python benchmarks/cards.py --out docs/cards-tried.md        (needs torch)

For each loop: record it, let `analyze` print its card, make the one change, run the guards, then time un-profiled windows of
both variants that take turns, each in a process of its own.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import importlib
import inspect
import itertools
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import click

sys.path.insert(0, str(Path(__file__).parents[1] / "fixtures"))

from loops.registry import LOOPS
from record import record

from traceengine.analysis import ensure_analysis
from traceengine.importers import ImportRequest, import_traces
from traceengine.report import text
from traceengine.report.units import duration, share, size
from traceengine.verdict import Answer

WARM_UP = 5
UPDATES = 20
_LINE = "traceengine-window "
_HEAD = """# Three cards, carried out

`python benchmarks/cards.py --out docs/cards-tried.md` records three loops of `fixtures/loops`, takes the card that `analyze` prints, makes
the change, runs the guards and times both variants. The machine is shared and noisy: recordings and windows of one loop differ by tens of
per cent with what else runs, so both variants take turns, and the spread of the base windows stands beside each result.

"""

Finish = Callable[[], None]


@contextlib.contextmanager
def more_workers(evidence: dict[str, Any]) -> Iterator[Finish]:
    """DataLoader(num_workers=N, persistent_workers=True); the rest of the loop is untouched."""
    module = importlib.import_module("loops.loader")
    original = module.DataLoader
    added = {"num_workers": evidence["suggested_workers"], "persistent_workers": True}
    with mock.patch.object(module, "DataLoader", lambda dataset, **options: original(dataset, **(options | added))):
        yield lambda: None


@contextlib.contextmanager
def log_less(evidence: dict[str, Any]) -> Iterator[Finish]:
    """Every N-th step writes its full record; the losses between are summed as tensors and read once."""
    module = importlib.import_module("loops.logging")
    original, every = module.log_step, evidence["log_every"]
    losses: list[Any] = []

    def log_step(step: int, loss: Any, model: Any, out: Any, console: Any) -> None:
        losses.append(loss.detach())
        if (step + 1) % every == 0:
            original(step, loss, model, out, console)
            out.write(json.dumps({"mean_loss": (sum(losses) / len(losses)).item()}) + "\n")
            losses.clear()

    with mock.patch.object(module, "log_step", log_step):
        yield lambda: None


@contextlib.contextmanager
def save_beside(_evidence: dict[str, Any]) -> Iterator[Finish]:
    """A thread writes a copy of the state, at the same cadence; a save waits for the one before it."""
    module = importlib.import_module("loops.checkpoint")
    original = module.save_checkpoint
    running: list[threading.Thread] = []

    class State:
        """What was copied, in the form that the loop's own function saves."""

        def __init__(self, state: Any) -> None:
            self._state = copy.deepcopy(state)

        def state_dict(self) -> Any:
            return self._state

    def finish() -> None:
        while running:
            running.pop().join()

    def save_checkpoint(path: Path, step: int, model: Any, optimizer: Any) -> None:
        finish()
        copied = State(model.state_dict()), State(optimizer.state_dict())
        running.append(threading.Thread(target=original, args=(path, step, *copied)))
        running[0].start()

    with mock.patch.object(module, "save_checkpoint", save_checkpoint):
        yield finish


@dataclass(frozen=True)
class Trial:
    """One card: how its change is made, and how many updates a window needs to hold whole periods of it."""

    loop: str
    change: Callable[[dict[str, Any]], contextlib.AbstractContextManager[Finish]]
    guard: Callable[[Trial, dict[str, Any]], list[str]]
    missing: str

    def updates(self, evidence: dict[str, Any]) -> int:
        """Updates of a window: as printed, or two log intervals."""
        return max(UPDATES, 2 * int(evidence.get("log_every") or 0))

    def run(self, variant: str, evidence: dict[str, Any], workdir: Path, steps: int, tick: Callable[[], object]) -> float:
        """Train; returns the last loss. What the change left running is waited for."""
        train = LOOPS[self.loop].train()
        if variant == "base":
            return train("baseline", workdir, steps, tick)
        with self.change(evidence) as finish:
            loss = train("baseline", workdir, steps, tick)
            finish()
        return loss


def window(trial: Trial, variant: str, evidence: dict[str, Any]) -> dict[str, Any]:
    """One window in this process: wall time of its updates in ns (what the change leaves running included), peak memory."""
    stamps: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        updates = trial.updates(evidence)
        trial.run(variant, evidence, Path(folder), WARM_UP + updates, lambda: stamps.append(time.perf_counter_ns()))
        end = time.perf_counter_ns() if trial.loop == "checkpoint" else stamps[-1]
    marks = stamps[WARM_UP - 1 :]
    own, child = (resource.getrusage(who).ru_maxrss * 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    each = [after - before for before, after in itertools.pairwise(marks)]
    return {"updates": each, "mean": (end - marks[0]) / updates, "own": own, "child": child}


def _same_batches(trial: Trial, evidence: dict[str, Any]) -> list[str]:
    """Digests of every batch in order, both variants."""
    import torch.nn.functional as functional

    digests: dict[str, list[str]] = {}
    original = functional.cross_entropy
    for variant in ("base", "changed"):
        seen = digests.setdefault(variant, [])

        def watch(outputs: Any, classes: Any, seen: list[str] = seen) -> Any:
            seen.append(hashlib.sha256(outputs.detach().numpy().tobytes() + classes.numpy().tobytes()).hexdigest())
            return original(outputs, classes)

        with mock.patch.object(functional, "cross_entropy", watch):
            trial.run(variant, evidence, Path(), 12, lambda: None)
    same = digests["base"] == digests["changed"]
    return [
        f"sample_coverage, input_equivalence: {'passed' if same else 'FAILED'}: outputs and labels of {len(digests['base'])} batches "
        f"of 8 are {'byte-equal in the same order' if same else 'not equal'} (equal weights, so equal inputs)"
    ]


def _same_records(trial: Trial, evidence: dict[str, Any]) -> list[str]:
    """The records at logged steps, both variants; and the mean of the losses between."""
    records: dict[str, list[dict[str, Any]]] = {}
    for variant in ("base", "changed"):
        with tempfile.TemporaryDirectory() as folder:
            trial.run(variant, evidence, Path(folder), 2 * evidence["log_every"], lambda: None)
            lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
        records[variant] = [json.loads(line) for line in lines]
    base = {entry["step"]: entry for entry in records["base"]}
    logged = [entry for entry in records["changed"] if "step" in entry]
    means = [entry["mean_loss"] for entry in records["changed"] if "mean_loss" in entry]
    equal = all(base[entry["step"]] == entry for entry in logged) and len(logged) == 2
    every = evidence["log_every"]
    true = [statistics.fmean(base[step]["loss"] for step in range(at * every, (at + 1) * every)) for at in range(len(means))]
    off = max(abs(mean - expected) / expected for mean, expected in zip(means, true, strict=True))
    return [
        f"values_equal_at_logged_steps: {'passed' if equal else 'FAILED'}: {len(logged)} records of {len(base)}, all fields equal",
        f"observability_kept: {'passed' if off < 1e-5 else 'FAILED'} for the loss (mean of each interval, off by {off:.0e} at most); "
        "norms and histograms between logged steps are lost, which somebody must agree to",
    ]


def _same_state(trial: Trial, evidence: dict[str, Any]) -> list[str]:
    """The checkpoints of both variants, loaded again and compared."""
    import torch

    states = {}
    for variant in ("base", "changed"):
        with tempfile.TemporaryDirectory() as folder:
            trial.run(variant, evidence, Path(folder), 12, lambda: None)
            states[variant] = torch.load(Path(folder) / "last.pt", weights_only=True)

    def leaves(state: Any, path: str = "") -> Iterator[tuple[str, Any]]:
        if isinstance(state, dict | list):
            for key, value in state.items() if isinstance(state, dict) else enumerate(state):
                yield from leaves(value, f"{path}/{key}")
        else:
            yield path, state

    base, changed = (dict(leaves(states[variant])) for variant in ("base", "changed"))
    equal = base.keys() == changed.keys() and all(
        torch.equal(base[key], changed[key]) if isinstance(base[key], torch.Tensor) else base[key] == changed[key] for key in base
    )
    return [
        f"checkpoint_complete: {'passed' if equal else 'FAILED'}: {len(base)} entries loaded again, all equal to those of the base variant "
        f"(step {states['changed']['step']})",
        "resumable: not run; the entries are those that the base variant resumes from",
        "recovery_point_bound: the same cadence; one save is in flight at most, so a crash can lose one interval more than before",
    ]


TRIALS = {
    "loader": Trial(
        "loader",
        more_workers,
        _same_batches,
        "The card could be carried out as printed. It does not say how many cores the workers may use: a trace does not hold that number, "
        "and workers beyond the free cores only take turns.",
    ),
    "logging": Trial(
        "logging",
        log_less,
        _same_records,
        "Windows of 20 updates, as printed, may hold no logged step at all at this interval: two whole intervals were used instead. "
        "The card does not say which metrics to accumulate: the loss was, histograms cannot be.",
    ),
    "checkpoint": Trial(
        "checkpoint",
        save_beside,
        _same_state,
        "The card does not say what happens when a save still runs at the next one, or at the end of a window: here the loop waits in both "
        "cases, inside the timed window. The bound takes the saving thread for free; on a loop that computes on the CPU it is not.",
    ),
}


def card_of(answer: Answer) -> str:
    """The card as `analyze` prints it."""
    lines = text.render(answer).splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("Next experiment"))
    end = next((index for index, line in enumerate(lines[start:], start) if not line.strip()), len(lines))
    return "\n".join(lines[start:end])


def measure(trial: Trial, evidence: dict[str, Any], windows: int) -> dict[str, list[dict[str, Any]]]:
    """Windows of both variants, taking turns, each in a fresh process; the order swaps each time."""
    found: dict[str, list[dict[str, Any]]] = {"base": [], "changed": []}
    for turn in range(windows):
        for variant in ("base", "changed") if turn % 2 == 0 else ("changed", "base"):
            command = [sys.executable, __file__, "--window", trial.loop, variant, json.dumps(evidence)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            line = next(line for line in done.stdout.splitlines() if line.startswith(_LINE))
            found[variant].append(json.loads(line.removeprefix(_LINE)))
            click.echo(f"{trial.loop}: window {turn + 1}/{windows} {variant}: {found[variant][-1]['mean'] / 1e6:.2f} ms", err=True)
    return found


def _figures(windows: list[dict[str, Any]]) -> tuple[str, ...]:
    pooled = [each for entry in windows for each in entry["updates"]]
    means = [entry["mean"] for entry in windows]
    cut = statistics.quantiles(pooled, n=20)[-1]
    memory = f"{size(max(entry['own'] for entry in windows))} + {size(max(entry['child'] for entry in windows))}"
    return (
        duration(statistics.median(pooled)),
        duration(cut),
        duration(statistics.fmean(means)),
        f"{duration(min(means))} … {duration(max(means))}",
        memory,
    )


def carried_out(trial: Trial, windows: int) -> str:
    """One section of the page."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / f"{trial.loop}.baseline.stack.json.gz"
        record(LOOPS[trial.loop], "baseline", "stack", trace)
        answer = ensure_analysis(import_traces(ImportRequest((trace,), out=Path(folder) / "run"))).answer
    card = answer.leading.card
    if card is None:
        raise click.ClickException(f"{trial.loop}: the recording gave no card")
    evidence = dict(card.evidence)
    guards = trial.guard(trial, evidence)
    found = measure(trial, evidence, windows)
    means = {variant: [entry["mean"] for entry in entries] for variant, entries in found.items()}
    each = [base - changed for base, changed in zip(means["base"], means["changed"], strict=True)]
    saved = statistics.fmean(each)
    spread = (max(means["base"]) - min(means["base"])) / statistics.fmean(means["base"])
    bound = card.saving_bound_ns or 0
    steps = answer.leading.steps
    recorded = bound / (steps.mean_ns or 1)
    width = max(means["base"]) - min(means["base"])
    decision = "keep, it saves more than that spread" if saved > width else "revert, it saves no more than that spread"
    won = sum(difference > 0 for difference in each)
    rows = "".join(f"| {variant} | {' | '.join(_figures(found[variant]))} |\n" for variant in ("base", "changed"))
    return f"""## {trial.loop}

{LOOPS[trial.loop].what}.

```text
{card_of(answer)}
```

The change as made:

```python
{inspect.getsource(trial.change).strip()}
```

{windows} windows of {trial.updates(evidence)} updates each after {WARM_UP} warm-up updates, taking turns, no profiler:

| variant | median update | P95 | mean of windows | range of window means | peak memory: process + largest child |
| --- | --- | --- | --- | --- | --- |
{rows}
{"Saved" if saved > 0 else "Lost"} {duration(abs(saved))} an update, {share(abs(saved) / statistics.fmean(means["base"]))} of it; \
the changed variant was faster in {won} of {windows} pairs of windows ({duration(min(each))} … {duration(max(each))}). The bound was \
{duration(bound)} of the recording's {duration(steps.mean_ns)} a step, {share(recorded)} ({card.bound}). The base windows alone spread by \
{share(spread)}. By the card's stop condition: {decision}.

Guards:

{"".join(f"- {guard}{chr(10)}" for guard in guards)}
What the card lacked: {trial.missing}"""


@click.command(epilog="Example: python benchmarks/cards.py --only loader --out docs/cards-tried.md")
@click.option("--only", multiple=True, type=click.Choice(list(TRIALS)), help="These loops.")
@click.option("--windows", type=click.IntRange(3), default=6, show_default=True, help="Windows of each variant.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the sections there instead of to stdout.")
@click.option("--window", "single", nargs=3, hidden=True)
def main(only: tuple[str, ...], windows: int, out: Path | None, single: tuple[str, str, str] | None) -> None:
    """Record three loops, carry out their cards, and say what each saved."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    import torch

    torch.set_num_threads(1)
    if single:
        loop, variant, evidence = single
        print(_LINE + json.dumps(window(TRIALS[loop], variant, json.loads(evidence))))
        return
    sections = [carried_out(TRIALS[name], windows) for name in only or tuple(TRIALS)]
    head = _HEAD + f"Measured with torch {torch.__version__.split('+')[0]} on {os.cpu_count()} shared {platform.machine()} cores, one thread a process; load average {os.getloadavg()[0]:.1f} at the end."
    page = "\n\n".join([head, *sections]).rstrip() + "\n"
    if out is None:
        print(page)
    else:
        out.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
