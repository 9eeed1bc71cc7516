"""What a capture can and cannot answer, and how to record one that can."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from traceengine.errors import RunError
from traceengine.quality import Facts, Note, rank_facts, rank_notes


@dataclass(frozen=True)
class Capability:
    """One question: `answer` is yes, partly, no, or n/a where it does not arise; `fix` is what the capture must ask for, or empty."""

    question: str
    answer: str
    why: str
    fix: str


@dataclass(frozen=True)
class Checkup:
    """The examination of one rank."""

    rank: int
    facts: Facts
    capabilities: tuple[Capability, ...]
    notes: tuple[Note, ...]
    recipe: str


def _yes(question: str, why: str) -> Capability:
    return Capability(question, "yes", why, "")


def _torch(option: str) -> str:
    return f"torch.profiler.profile({option})"


def _fix(facts: Facts, torch_option: str, nsys: str) -> str:
    return _torch(torch_option) if facts.kind == "torch" else nsys


def _steps(facts: Facts) -> Capability:
    question = "How long does a step take, and how much does it vary?"
    fix = "schedule=torch.profiler.schedule(wait=1, warmup=1, active=6)"
    fix = _fix(facts, fix, "6 or more NVTX ranges of the form step N, one around each update")
    if facts.steps == 0:
        return Capability(question, "no", "no step marker", fix)
    if facts.steady_steps < 3:
        return Capability(question, "partly", f"{facts.steady_steps} steady steps, statistics need 3", fix)
    return _yes(question, f"{facts.steady_steps} steady steps")


def _device(facts: Facts) -> Capability:
    question = "Is the device busy, and with what?"
    if not facts.device_events:
        fix = _fix(facts, "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]", "nsys profile -t cuda,nvtx,osrt")
        return Capability(question, "no", "no device event", fix)
    missing = facts.launches_without_device_event or 0
    if facts.truncated or missing:
        why = "the file is cut" if facts.truncated else f"{missing} of {facts.launches} launches have no device work"
        return Capability(question, "partly", why, "record fewer active steps, and let the export finish")
    return _yes(question, f"{facts.device_events} device operations")


def _host(facts: Facts) -> Capability:
    question = "What does the host do while the device waits?"
    fix = _fix(facts, "activities=[ProfilerActivity.CPU, ...]", "NVTX ranges around the parts of a step")
    if not facts.host_events and not facts.ranges:
        return Capability(question, "no", "no host event", fix)
    if not facts.ops:
        what = f"{facts.ranges} ranges" if facts.ranges else "calls of the driver"
        return Capability(question, "partly", f"{what} and no operators", fix)
    return _yes(question, f"{facts.ops} operators, {facts.ranges} ranges")


def _names(facts: Facts) -> Capability:
    question = "Which code logs, saves or waits without an operator?"
    if facts.python_frames:
        return _yes(question, f"{facts.python_frames} Python frames")
    fix = _fix(facts, "with_stack=True", "NVTX ranges around logging and saving")
    return Capability(question, "partly" if facts.ranges else "no", "no Python stacks", fix)


def _copies(facts: Facts) -> Capability:
    question = "Are copies pinned or pageable?"
    if not facts.copies:
        return Capability(question, "no", "no copy in the capture", "")
    if not facts.copies_with_memory_kind:
        return Capability(question, "no", "the copies' names say neither (ROCm does not)", "")
    return _yes(question, f"{facts.copies_with_memory_kind} of {facts.copies} copies say it")


def _streams(facts: Facts) -> Capability:
    question = "What do streams wait for?"
    if not facts.device_events:
        return Capability(question, "no", "no device event", "")
    if facts.stream_waits:
        return _yes(question, f"{facts.stream_waits} records")
    fix = _torch("experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)")
    return Capability(question, "partly", "no records of events and waits: dependencies between streams are inferred", fix)


def _ranks(facts: Facts) -> Capability:
    question = "Is the network slow, or is a rank late?"
    world = facts.world_size or 1
    if world <= 1 and not facts.comm_events:
        return Capability(question, "n/a", "one rank without communication: there is no network to judge", "")
    if facts.ranks_present < max(world, 2):
        present = f"{facts.ranks_present} of {world} ranks" if world > 1 else "one rank, and it communicates"
        return Capability(question, "no", present, "record the same steps on every rank and pass all files")
    return _yes(question, f"{facts.ranks_present} ranks")


def _memory(facts: Facts) -> Capability:
    question = "Where does memory go?"
    if facts.memory_events:
        return _yes(question, f"{facts.memory_events} allocator events")
    return Capability(question, "no", "no allocator events", _fix(facts, "profile_memory=True", "--cuda-memory-usage=true"))


def _shapes(facts: Facts) -> Capability:
    question = "Which shapes do slow operators have?"
    if facts.shaped_ops:
        return _yes(question, f"{facts.shaped_ops} operators with shapes")
    return Capability(question, "no", "no shapes", _fix(facts, "record_shapes=True", "emit_nvtx(record_shapes=True)"))


_QUESTIONS = (_steps, _device, _host, _names, _copies, _streams, _ranks, _memory, _shapes)

_RECIPES = {
    "torch": """\
with torch.profiler.profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
    schedule=torch.profiler.schedule(wait=1, warmup=1, active=6),
    record_shapes=True,      # shapes of slow operators
    profile_memory=True,     # where memory goes
    with_stack=False,        # True names logging and saving; never while compiling
    experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True),
    on_trace_ready=lambda prof: prof.export_chrome_trace(f"rank{rank}.json.gz"),
) as prof:
    for batch in loader:
        train_step(batch)
        prof.step()          # once per optimizer update, on every rank""",
    "nsys": """\
nsys profile -t cuda,nvtx,osrt --cuda-graph-trace=node --cuda-memory-usage=true \\
    -o rank%q{RANK} python train.py     # NVTX ranges: 'step N', 'data_wait', 'logging', 'checkpoint'
nsys export -t sqlite -o rank0.sqlite rank0.nsys-rep""",
}


def examine(connection: duckdb.DuckDBPyConnection, rank: int) -> Checkup:
    """Examine one rank of an analysed run."""
    facts = rank_facts(connection, rank)
    if facts is None:
        raise RunError(f"the run has no rank {rank}", hint="`traceengine sql RUN 'select distinct rank from source'` lists them.")
    recipe = _RECIPES.get(facts.kind, _RECIPES["torch"])
    return Checkup(rank, facts, tuple(question(facts) for question in _QUESTIONS), rank_notes(connection, rank), recipe)
