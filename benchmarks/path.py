"""Cost of walk and replay against the number of events, and against HTA's critical path on the same step.

    python benchmarks/path.py TRACE [--events 100000,300000,1000000,3000000] [--hta PYTHON]

Makes traces by replicating a stored trace (benchmarks/make_trace.py), imports them, and measures CPU seconds and peak memory of
the path and of ten what-ifs in a process of their own. With --hta PYTHON, an interpreter that has HolisticTraceAnalysis, it also
runs that tool's critical path of one step on TRACE itself, and this one's path of the whole window of the same file. Ratios of one
run are what counts: the machines are shared.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import click

CAUSES = ("data_wait", "h2d", "d2h", "exposed_comm", "compile", "logging", "checkpoint", "host_bound", "host_other", "sync")

_OURS = """
import json, resource, sys, time
from pathlib import Path
from traceengine.names import load_names
from traceengine.path.changes import parse_change
from traceengine.path.parameters import PathParameters
from traceengine.path.replay import replay
from traceengine.path.steps import find_steps
from traceengine.path.timeline import load_timeline
from traceengine.path.context import build_context
from traceengine.path.walk import walk
from traceengine.run import Run
run = Run.open(Path(sys.argv[1]))
marks = [("start", time.process_time())]
timeline = load_timeline(run, run.manifest.ranks[0]); marks.append(("load", time.process_time()))
steps = find_steps(timeline, False); context = build_context(timeline, load_names(), PathParameters())
marks.append(("context", time.process_time()))
segments = walk(context, steps.window); marks.append(("walk", time.process_time()))
replays = replay(context, steps, [(parse_change(cause),) for cause in sys.argv[2].split(",")]); marks.append(("replay", time.process_time()))
parts = {b[0]: round(b[1] - a[1], 2) for a, b in zip(marks, marks[1:])}
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(json.dumps({"cpu_s": round(marks[-1][1] - marks[0][1], 2), **parts, "peak_mib": peak, "segments": len(segments), "drift": replays.drift}))
"""

_HTA = """
import json, sys, time
from hta.trace_analysis import TraceAnalysis
began = time.process_time()
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
loaded = time.process_time()
graph, ok = analysis.critical_path_analysis(rank=0, annotation="ProfilerStep", instance_id=1)
print(json.dumps({"load_cpu_s": round(loaded - began, 2), "path_cpu_s": round(time.process_time() - loaded, 2), "ok": bool(ok)}))
"""


def _child(code: str, *arguments: str, python: str = sys.executable) -> dict[str, float]:
    done = subprocess.run([python, "-c", code, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(done.stderr.strip().splitlines()[-1])
    answer: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def imported(trace: Path, run: Path) -> Path:
    """Import in a process of its own."""
    code = "import sys; from pathlib import Path; from traceengine.importers import ImportRequest, import_traces\n"
    code += "import_traces(ImportRequest((Path(sys.argv[1]),), out=Path(sys.argv[2])))"
    subprocess.run([sys.executable, "-c", code, str(trace), str(run)], check=True)
    return run


def measure(trace: Path, events: int, folder: Path) -> dict[str, float]:
    """Replicate, import and analyse: figures of the analysis."""
    big = folder / f"trace_{events}.json"
    subprocess.run(
        [sys.executable, str(Path(__file__).parent / "make_trace.py"), str(trace), str(big), "--events", str(events)], check=True
    )
    run = imported(big, folder / f"run_{events}")
    big.unlink()
    return _child(_OURS, str(run), ",".join(CAUSES))


@click.command()
@click.argument("trace", type=click.Path(exists=True, path_type=Path))
@click.option("--events", default="100000,300000,1000000,3000000", show_default=True, help="Sizes, separated by commas.")
@click.option("--hta", metavar="PYTHON", help="Interpreter with HolisticTraceAnalysis; its path of one step of TRACE is measured, too.")
def main(trace: Path, events: str, hta: str | None) -> None:
    """Print one line a size."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in (int(part) for part in events.split(",") if part):
            click.echo(f"{size:>9} events  {json.dumps(measure(trace, size, folder))}")
        if hta:
            click.echo(f"    TRACE itself  {json.dumps(_child(_OURS, str(imported(trace, folder / 'run')), ','.join(CAUSES)))}")
            click.echo(f"    HTA, one step {json.dumps(_child(_HTA, str(trace), python=hta))}")


if __name__ == "__main__":
    main()
