"""Cost of walk and replay against the number of events, and against HTA's critical path on the same step.

    python benchmarks/path.py [--events 100000,1000000] [--hta]

Makes traces by replicating a stored trace (benchmarks/make_trace.py), imports them, and measures CPU seconds and peak memory of
the path and of ten what-ifs in a process of their own. With --hta it also runs HolisticTraceAnalysis' critical path, when that
package is installed, on the same file. Ratios of one run are what counts: the machines are shared.
"""

from __future__ import annotations

import json
import resource
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
replays = replay(context, steps, [(cause,) for cause in sys.argv[2].split(",")]); marks.append(("replay", time.process_time()))
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
analysis.critical_path_analysis(rank=0, annotation="ProfilerStep", instance_id=1)
print(json.dumps({"load_cpu_s": round(loaded - began, 2), "path_cpu_s": round(time.process_time() - loaded, 2)}))
"""


def _child(code: str, *arguments: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(done.stderr.strip().splitlines()[-1])
    answer: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def measure(trace: Path, events: int, folder: Path) -> tuple[Path, dict[str, float]]:
    """Replicate, import and analyse: the replicated file, and figures of the analysis."""
    big = folder / f"trace_{events}.json"
    subprocess.run(
        [sys.executable, str(Path(__file__).parent / "make_trace.py"), str(trace), str(big), "--events", str(events)], check=True
    )
    run = folder / f"run_{events}"
    code = "import sys; from pathlib import Path; from traceengine.importers import ImportRequest, import_traces\n"
    code += "import_traces(ImportRequest((Path(sys.argv[1]),), out=Path(sys.argv[2])))"
    subprocess.run([sys.executable, "-c", code, str(big), str(run)], check=True)
    return big, _child(_OURS, str(run), ",".join(CAUSES))


@click.command()
@click.argument("trace", type=click.Path(exists=True, path_type=Path))
@click.option("--events", default="100000,1000000", show_default=True, help="Sizes, separated by commas.")
@click.option("--hta", is_flag=True, help="Also run HTA's critical path on the smallest file.")
def main(trace: Path, events: str, hta: bool) -> None:
    """Print one line a size."""
    sizes = [int(part) for part in events.split(",")]
    with tempfile.TemporaryDirectory() as name:
        for index, size in enumerate(sizes):
            big, figures = measure(trace, size, Path(name))
            click.echo(f"{size:>9} events  {json.dumps(figures)}")
            if hta and index == 0:
                click.echo(f"{size:>9} events  HTA {json.dumps(_child(_HTA, str(big)))}")
            big.unlink()
    click.echo(f"peak of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


if __name__ == "__main__":
    main()
