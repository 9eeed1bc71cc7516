"""Can this capture tell? Notes on what it lacks, with what would fix it."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

LOSSY_SHARE = 0.05
"""Share of launches without device work from which on device figures of a step say little."""
DOMINANT_SHARE = 0.5
"""Share of all device time in one operation from which on it is checked against missing others."""


@dataclass(frozen=True)
class Note:
    """What the capture cannot tell. `fix` names the capture option; `lowers` the confidence; `blocks` any verdict."""

    code: str
    sentence: str
    fix: str
    lowers: bool
    blocks: bool


@dataclass(frozen=True)
class Facts:
    """A row of view rank_fact; names as there."""

    kind: str
    host_events: int
    ops: int
    python_frames: int
    device_events: int
    devices_listed: int
    unlinked_device_events: int
    launches: int | None
    launches_without_device_event: int | None
    steps: int
    complete_steps: int
    steady_steps: int
    steps_without_device_event: int
    comm_events: int
    world_size: int | None
    ranks_present: int
    truncated: bool
    largest_device_share: float | None
    stream_waits: int
    memory_events: int
    shaped_ops: int
    forward_flows: int
    ranges: int
    copies: int
    copies_with_memory_kind: int


def rank_facts(connection: duckdb.DuckDBPyConnection, rank: int) -> Facts | None:
    """What the capture of a rank holds, or None when the run has no such rank."""
    columns = ", ".join(Facts.__dataclass_fields__)
    row = connection.execute(f"select {columns} from rank_fact where rank = $rank", {"rank": rank}).fetchone()  # noqa: S608 (field names)
    return Facts(*row) if row else None


_FIXES = {
    ("torch", "steps"): "profile(schedule=schedule(wait=1, warmup=1, active=6)) and prof.step() after each optimizer update",
    ("nsys", "steps"): "an NVTX range 'step N' around each optimizer update",
    ("torch", "sides"): "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])",
    ("nsys", "sides"): "nsys profile -t cuda,nvtx,osrt (and an export without --tables or --times)",
    ("torch", "ops"): "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])",
    ("nsys", "ops"): "NVTX ranges around the parts of a step, or torch.autograd.profiler.emit_nvtx()",
    ("torch", "stacks"): "profile(with_stack=True) (not while compiling: traces grow to GB)",
    ("nsys", "stacks"): "NVTX ranges around data loading, logging and saving",
    ("torch", "loss"): "a shorter window (fewer active steps)",
    ("nsys", "loss"): "a shorter window, or a larger --cuda-flush-interval",
}
"""What a capture must ask for, by kind of source and by what was missing."""


def _fix(facts: Facts, what: str) -> str:
    return _FIXES[facts.kind if (facts.kind, what) in _FIXES else "torch", what]


def _steps(facts: Facts) -> list[Note]:
    fix = _fix(facts, "steps")
    if facts.steps == 0:
        return [Note("no_steps", "no step marker: step statistics are unavailable and the window is judged as a whole", fix, True, False)]
    if facts.steady_steps < 3:
        counted = f"{facts.steady_steps} steady step{'' if facts.steady_steps == 1 else 's'}"
        return [Note("few_steps", f"step statistics are unknown: {counted}, 3 are needed", fix, False, False)]
    return []


def _coverage(facts: Facts) -> list[Note]:
    notes = []
    if facts.truncated:
        fix = "record again and let the export finish"
        notes.append(Note("truncated", "the file ends before its events do: what is missing is unknown, not idle", fix, True, False))
    missing, launches = facts.launches_without_device_event or 0, facts.launches or 0
    if facts.device_events and facts.steps_without_device_event:
        sentence = f"{facts.steps_without_device_event} of {facts.steps} steps launch device work of which the capture holds nothing"
        blocks = facts.steps_without_device_event * 2 > facts.steps
        notes.append(Note("steps_without_device_events", sentence, _fix(facts, "loss"), True, blocks))
    elif facts.device_events and launches and missing > LOSSY_SHARE * launches:
        sentence = f"{missing} of {launches} launches have no device work in the capture: device idle time is not measured"
        notes.append(Note("launches_without_device_events", sentence, _fix(facts, "loss"), True, False))
    if (facts.largest_device_share or 0.0) > DOMINANT_SHARE and missing > LOSSY_SHARE * max(launches, 1):
        sentence = "one device operation holds most of the device time while others are missing"
        notes.append(Note("one_operation_dominates", sentence, "", True, False))
    return notes


def _sides(facts: Facts) -> list[Note]:
    notes = []
    if not (facts.device_events or facts.host_events or facts.ranges or facts.python_frames):
        sentence = "the capture holds no work of host or device: what the time was spent on is unknown"
        notes.append(Note("no_events", sentence, _fix(facts, "sides"), True, True))
    elif not facts.device_events:
        what = "devices are listed but no device event was captured" if facts.devices_listed else "no device event was captured"
        fix = _fix(facts, "sides")
        sentence = f"{what}: device figures are unknown (not zero), the path is that of the host"
        # A launch without any device row means that the capture lost them; a CPU-only loop is complete without.
        lost = bool(facts.launches)
        notes.append(Note("no_device_events", sentence, fix, lost, lost))
    elif not facts.host_events:
        sentence = "no host event was captured: why the device waits is unknown"
        notes.append(Note("no_host_events", sentence, _fix(facts, "sides"), True, False))
    elif not facts.ops:
        sentence = "the host side holds calls of the driver and no operators: what the host does between them is unknown"
        notes.append(Note("no_operators", sentence, _fix(facts, "ops"), True, False))
    if facts.host_events and not facts.python_frames:
        sentence = "without Python stacks, time that no operator or range covers has no name"
        notes.append(Note("no_stacks", sentence, _fix(facts, "stacks"), False, False))
    return notes


def _ranks(facts: Facts) -> list[Note]:
    world = facts.world_size or 1
    if facts.ranks_present == 1 and (world > 1 or facts.comm_events):
        sentence = "one rank cannot tell a slow network from waiting for a late rank"
        return [Note("one_rank", sentence, "record the same steps on every rank and pass all files", False, False)]
    if facts.ranks_present < world:
        sentence = f"{facts.ranks_present} of {world} ranks are present: a late rank may be among the missing"
        return [Note("missing_ranks", sentence, "record the same steps on every rank and pass all files", False, False)]
    return []


def rank_notes(connection: duckdb.DuckDBPyConnection, rank: int) -> tuple[Note, ...]:
    """Everything that the capture of one rank cannot tell, what blocks a verdict first."""
    facts = rank_facts(connection, rank)
    if facts is None:
        return (Note("no_source", "the run does not say where this rank came from", "import the trace again", True, True),)
    notes = [*_sides(facts), *_coverage(facts), *_steps(facts), *_ranks(facts)]
    return tuple(sorted(notes, key=lambda note: (not note.blocks, not note.lowers)))
