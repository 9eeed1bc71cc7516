"""The same traces through this tool and its peers: python benchmarks/bakeoff.py --out docs/bakeoff.md

Traces and their accepted owners are read from the shared folder (TRACEENGINE_SHARED, or --traces); nothing of it is copied. Each
peer is installed from PyPI into a virtual environment of its own and used as its documentation says.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import click

from traceengine.classes import class_ids

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("TRACEENGINE_SHARED", ROOT.parent / "shared"))
SHOWN = 110

Owners = frozenset[str]
HOST = frozenset({"host_bound", "host_other", "data_wait", "logging", "checkpoint", "sync"})


@dataclass(frozen=True)
class Answer:
    """A tool's answer: class ids that it can stand for (empty: it names no owner), and its own words."""

    owners: Owners
    words: str


@dataclass(frozen=True)
class Tool:
    """A tool: how it is called on files in a scratch folder, and what its answers mean as class ids."""

    name: str
    used: str
    ask: Callable[[Path, list[Path], Path], Answer]
    meaning: dict[str, Owners] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """Files of one job with the owners that are accepted; none: no label, left out."""

    name: str
    files: tuple[Path, ...]
    accepted: Owners


def _ids(*names: str) -> Owners:
    return frozenset(names)


GPU_IDLE = {
    "nothing": _ids("compute", "healthy"),
    "dataloader": _ids("data_wait"),
    "smallbatch": _ids("host_bound"),
    "h2d_copy": _ids("h2d"),
    "unattributed": _ids("host_other", "unknown"),
}
FOURNEX = {
    "input_bound": _ids("data_wait"),
    "copy_bound": _ids("h2d", "d2h"),
    "sync_bound": _ids("sync", "logging"),
    "underutilized_gpu": _ids("host_bound", "host_other"),
    "memory_pressure": _ids("memory"),
    "shape_instability": _ids("compile"),
    "launch_bound": _ids("host_bound"),
    "insufficient_telemetry": _ids(),
    "none": _ids(),
}
NSYS_AI = {
    "cpu-bound": HOST,
    "gpu-compute-bound": _ids("compute", "healthy"),
    "comm-bound": _ids("exposed_comm", "straggler"),
    "idle": HOST,
    "compute": _ids("compute", "healthy"),
    "communication": _ids("exposed_comm", "straggler"),
    "memory": _ids("h2d", "d2h", "memory"),
    "sync": _ids("sync", "logging"),
    "none": _ids(),
}


class Failed(Exception):
    """A tool gave no answer; its last line says why."""


def run(command: list[str], timeout_s: float = 180.0) -> str:
    """Standard output of a command; Failed with the last line of its error output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"no answer within {timeout_s:.0f} s") from None
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise Failed(lines[-1].strip() if lines else f"exit code {done.returncode}")
    return done.stdout


def plain(path: Path, folder: Path) -> Path:
    """The trace without compression, as the peers want it."""
    if path.suffix != ".gz":
        return path
    target = folder / path.name.removesuffix(".gz")
    with gzip.open(path) as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink)
    return target


def ask_ours(_bin: Path, files: list[Path], _folder: Path) -> Answer:
    """`traceengine analyze TRACE... --format json`."""
    tool = Path(sys.executable).with_name("traceengine")
    document = json.loads(run([str(tool), "analyze", *map(str, files), "--no-cache", "--format", "json"]))
    verdict = document["verdict"]
    owner = "healthy" if verdict["healthy"] else verdict["owner"]
    job = document.get("job")
    if job and job["late"]:
        return Answer(_ids(owner, "straggler"), job["sentence"])
    return Answer(_ids(owner), f"{verdict['sentence']} (confidence {verdict['confidence']})")


def ask_gpu_idle(folder_bin: Path, files: list[Path], folder: Path) -> Answer:
    """`gpu-idle TRACE --json`; the first finding is the answer, none means that nothing is wrong."""
    document = json.loads(run([str(folder_bin / "gpu-idle"), str(plain(files[0], folder)), "--json"]))
    findings = document.get("findings")
    if findings is None:
        raise Failed(str(document.get("error", "no findings in its answer")))
    if not findings:
        return Answer(GPU_IDLE["nothing"], "no finding")
    return Answer(GPU_IDLE[findings[0]["cause"]], f"{findings[0]['cause']}: {findings[0]['evidence']}")


def ask_fournex(folder_bin: Path, files: list[Path], folder: Path) -> Answer:
    """`frx analyze BUNDLE --json` on a run bundle that holds the profiler trace; the steady steps, or the run without any."""
    bundle = folder / "bundle/profiler"
    bundle.mkdir(parents=True)
    plain(files[0], folder).rename(bundle / "profiler_trace.json") if files[0].suffix == ".gz" else shutil.copyfile(
        files[0], bundle / "profiler_trace.json"
    )
    result = json.loads(run([str(folder_bin / "frx"), "analyze", str(bundle.parent), "--json"]))["result"]
    scope = result["steady_state"] if result.get("steady_state", {}).get("step_count") else result["run"]
    diagnosis = scope["diagnosis"]
    primary = diagnosis.get("primary_bottleneck") or "none"
    why = diagnosis.get("why") or ""
    words = why if isinstance(why, str) else "; ".join(map(str, why))
    return Answer(FOURNEX.get(primary, _ids()), f"{primary}: {words}" if words else primary)


def ask_nsys_ai(folder_bin: Path, files: list[Path], folder: Path) -> Answer:
    """`nsys-ai diagnose EXPORT --format json`; its critical-path finding, else the first of its ranked findings."""
    copy = folder / files[0].name
    shutil.copyfile(files[0], copy)  # it writes caches beside the file
    session, out = folder / "session", folder / "findings.json"
    run([str(folder_bin / "nsys-ai"), "diagnose", str(copy), "--session", str(session), "--format", "json", "-o", str(out)], 300.0)
    findings = json.loads(out.read_text(encoding="utf-8"))["findings"]
    if not findings:
        return Answer(_ids(), "no finding")
    path = next((entry for entry in findings if entry["label"].startswith("Critical path is ")), None)
    if path is not None:
        return Answer(NSYS_AI.get(path["label"].removeprefix("Critical path is "), _ids()), f"{path['label']}; first: {findings[0]['label']}")
    return Answer(NSYS_AI.get(findings[0].get("category") or "none", _ids()), findings[0]["label"])


OURS = Tool("traceengine", "`traceengine analyze`", ask_ours)
TORCH_PEERS = (
    Tool("gpu-idle", "`gpu-idle TRACE --json`, the first finding; no finding means that nothing is wrong", ask_gpu_idle, GPU_IDLE),
    Tool("fournex", "`frx analyze BUNDLE --json`, the primary bottleneck of the steady steps (of the run without any)", ask_fournex, FOURNEX),
)
NSYS_PEERS = (
    Tool("nsys-ai", "`nsys-ai diagnose`, the critical-path finding, else the first of the ranked findings", ask_nsys_ai, NSYS_AI),
)


@dataclass(frozen=True)
class Installed:
    """A tool with its environment's bin folder and version, or why there is none."""

    tool: Tool
    folder: Path
    version: str
    why_not: str = ""


def install(tool: Tool, work: Path) -> Installed:
    """Make the peer's virtual environment, unless it is there."""
    place = work / tool.name
    binaries = place / ("Scripts" if os.name == "nt" else "bin")
    try:
        if not (place / ".ready").exists():
            venv.create(place, with_pip=True, clear=True)
            run([str(binaries / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", tool.name], 300.0)
            (place / ".ready").touch()
        script = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
        return Installed(tool, binaries, run([str(binaries / "python"), "-c", script, tool.name]).strip())
    except (Failed, OSError, subprocess.CalledProcessError) as error:
        return Installed(tool, binaries, "", f"could not be installed: {error}")


def readme_owners(readme: Path) -> dict[str, Owners]:
    """File stem → accepted class ids, from the tables of the traces' README (columns: file, what it is, accepted, ...)."""
    known = sorted(class_ids() | {"healthy"}, key=len, reverse=True)
    found: dict[str, Owners] = {}
    for line in readme.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) < 3:
            continue
        accepted = frozenset(name for name in known if re.search(rf"(?<![\w]){name}(?![\w])", cells[2]))
        if "no label" in cells[2] or not accepted:
            continue
        for part in re.split(r",\s*|\s+/\s+", cells[0]):
            for stem in _stems(part.strip().rstrip("/").split(" ")[0]):
                found[stem] = accepted | ({"healthy"} if "compute" in accepted else set())
    return found


def _stems(name: str) -> list[str]:
    """`workers0_a/b.json.gz` names two files, `torch_ranks/job` one."""
    stem = re.sub(r"\.(json(\.gz)?|sqlite)$", "", name)
    first, *others = stem.split("/")
    if first == "torch_ranks" or not others:
        return [others[-1] if others else first]
    head = first.rsplit("_", 1)[0]
    return [first, *(f"{head}_{other}" for other in others)]


def _stem(path: Path) -> str:
    return re.sub(r"\.(json(\.gz)?|sqlite)$", "", path.name)


def torch_jobs(traces: Path) -> Iterable[Job]:
    """Every trace of torch/ and torch_ranks/."""
    owners = readme_owners(traces / "README.md")
    for path in sorted((traces / "torch").glob("*.json*")):
        yield Job(path.name, (path,), owners.get(_stem(path), frozenset()))
    for folder in sorted((traces / "torch_ranks").iterdir()) if (traces / "torch_ranks").is_dir() else []:
        yield Job(f"{folder.name} (peers: rank 1)", tuple(sorted(folder.glob("*.json*"))), owners.get(folder.name, frozenset()))


def cpu_jobs(traces: Path) -> Iterable[Job]:
    """The loops with a planted cause of truth_cpu/."""
    labels = traces / "truth_cpu/labels.json"
    for case, entry in json.loads(labels.read_text(encoding="utf-8")).items() if labels.is_file() else []:
        for config in ("bare", "stack"):
            files = tuple(sorted((traces / "truth_cpu").glob(f"{case}.baseline.{config}.*json.gz")))
            accepted = entry["owner_in"]
            accepted = accepted.get("baseline", {}).get(config, []) if isinstance(accepted, dict) else accepted
            if files:
                yield Job(f"{case}.baseline.{config}", files, frozenset(accepted) | ({"healthy"} if "compute" in accepted else set()))


def nsys_jobs(traces: Path) -> Iterable[Job]:
    """Every SQLite export."""
    owners = readme_owners(traces / "README.md")
    for path in sorted([*(traces / "nsys").glob("*.sqlite"), *(traces / "nsys_cpu").glob("*.sqlite")]):
        yield Job(path.name, (path,), owners.get(_stem(path), frozenset()))


def answer_of(installed: Installed, job: Job) -> Answer:
    """A tool's answer, or why there is none. Peers read one file: of several ranks the second."""
    if installed.why_not:
        return Answer(frozenset(), installed.why_not)
    files = list(job.files) if installed.tool is OURS else [job.files[min(1, len(job.files) - 1)]]
    with tempfile.TemporaryDirectory() as folder:
        try:
            return installed.tool.ask(installed.folder, files, Path(folder))
        except (Failed, ValueError, KeyError, OSError) as error:
            words = str(error).replace(f"{folder}{os.sep}", "")
            return Answer(frozenset(), f"no answer: {words or type(error).__name__}")


def mark(answer: Answer, accepted: Owners) -> str:
    """right, wrong or none."""
    if answer.owners & accepted:
        return "right"
    return "none" if not answer.owners or answer.owners == {"unknown"} else "wrong"


def _cell(answer: Answer, accepted: Owners) -> str:
    words = " ".join(answer.words.split())
    words = words if len(words) <= SHOWN else words[: SHOWN - 1] + "…"
    return f"**{mark(answer, accepted)}** · {words}".replace("|", "\\|").replace("<", "&lt;")


def table(jobs: list[Job], tools: list[Installed]) -> tuple[str, list[list[str]]]:
    """The table as Markdown, and the marks per tool."""
    lines = [f"| trace | {' | '.join(tool.tool.name for tool in tools)} |", f"| --- |{' --- |' * len(tools)}"]
    marks: list[list[str]] = [[] for _ in tools]
    for job in jobs:
        cells = []
        for place, installed in enumerate(tools):
            answer = answer_of(installed, job)
            marks[place].append(mark(answer, job.accepted))
            cells.append(_cell(answer, job.accepted))
            click.echo(f"{job.name}: {installed.tool.name}: {marks[place][-1]}: {answer.words[:80]}", err=True)
        lines.append(f"| {job.name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n", marks


def summary(tools: list[Installed], marks: list[list[str]]) -> str:
    """Counts per tool."""
    lines = ["| tool | version | right | wrong | none | of |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    for installed, found in zip(tools, marks, strict=True):
        counts = [found.count(word) for word in ("right", "wrong", "none")]
        version = installed.version or installed.why_not
        lines.append(f"| {installed.tool.name} | {version} | {' | '.join(map(str, counts))} | {sum(counts)} |")
    return "\n".join(lines) + "\n"


def mapping(tools: Iterable[Tool]) -> str:
    """What each tool's words count as."""
    lines = []
    for tool in tools:
        lines.append(f"- {tool.name}: {tool.used}.")
        lines += [f"  - {word}: {', '.join(sorted(owners)) or 'no answer'}" for word, owners in tool.meaning.items()]
    return "\n".join(lines) + "\n"


_HEAD = """# Side by side

`python benchmarks/bakeoff.py --out docs/bakeoff.md`: the same traces through traceengine and its peers. The traces are public captures and
loops with a planted cause that are not part of this project; which owners are accepted was fixed beside the traces, not here. An answer is
*right* when one of the class ids that it can stand for is accepted, *none* when the tool names no owner or fails, else *wrong*. A peer's
word that could mean several classes counts as all of them. Traces without accepted owners are left out.

To be fair: fournex is made to collect its own telemetry while the job runs, and here reads the profiler's trace only, which it also
accepts; gpu-idle states its thresholds for an A100 and is not made for traces without a GPU. Of a job with several ranks traceengine gets
all files, and the peers, which read one, get the late rank's: they may name what that rank itself does, which is not who waits for it.
"""


SECTIONS = (
    ("PyTorch traces of jobs with devices", torch_jobs, TORCH_PEERS),
    ("PyTorch traces of CPU loops with a planted cause", cpu_jobs, TORCH_PEERS),
    ("Nsight Systems exports", nsys_jobs, NSYS_PEERS),
)


@click.command(epilog="Example: python benchmarks/bakeoff.py --out docs/bakeoff.md")
@click.option("--traces", type=click.Path(path_type=Path), default=SHARED / "traces", help="Folder with torch/, nsys/ and README.md.")
@click.option("--work", type=click.Path(path_type=Path), help="Keep the peers' environments there.")
@click.option("--only", help="Only jobs whose name contains this.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the page there instead of to stdout.")
def main(traces: Path, work: Path | None, only: str | None, out: Path | None) -> None:
    """Ask this tool and its peers the same question."""
    if not (traces / "README.md").is_file():
        raise click.ClickException(f"{traces} holds no traces: pass --traces")
    with tempfile.TemporaryDirectory() as scratch:
        place = work or Path(scratch)
        version = run([str(Path(sys.executable).with_name("traceengine")), "--version"]).split()[-1]
        sections = [_HEAD]
        for title, jobs, peers in SECTIONS:
            tools = [Installed(OURS, Path(), version), *map(partial(install, work=place), peers)]
            chosen = [job for job in jobs(traces) if job.accepted and (not only or only in job.name)]
            rows, marks = table(chosen, tools)
            sections += [f"## {title}\n", summary(tools, marks), rows]
    sections += ["## What the words count as\n", mapping((*TORCH_PEERS, *NSYS_PEERS))]
    page = "\n".join(sections)
    if out is None:
        click.echo(page, nl=False)
    else:
        out.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
