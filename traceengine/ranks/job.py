"""All ranks of a run together: from their tables and paths to tables clock, collective_part, lateness and job_what_if."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from traceengine.names import Names
from traceengine.ranks.chain import Chain, what_ifs
from traceengine.ranks.late import late_ranks
from traceengine.ranks.match import Matching, match_parts
from traceengine.ranks.parts import Parts, load_parts
from traceengine.ranks.split import COMM, exposed_comm, split_causes, split_path, wait_windows
from traceengine.ranks.waits import Collective, collectives
from traceengine.run import Run
from traceengine.schema import table


@dataclass(frozen=True)
class RankTables:
    """What one rank's own analysis gave: tables step, critical_path, step_cause and what_if."""

    step: pa.Table
    critical_path: pa.Table
    step_cause: pa.Table
    what_if: pa.Table


@dataclass(frozen=True)
class JobTables:
    """The ranks' tables with waits for late ranks told apart, and the tables that only all ranks together give."""

    ranks: Mapping[int, RankTables]
    clock: pa.Table
    collective_part: pa.Table
    lateness: pa.Table
    job_what_if: pa.Table


def across_ranks(run: Run, names: Names, ranks: Mapping[int, RankTables]) -> JobTables:
    """Align clocks, match collectives, and say who is late; with one rank everything stays as it is."""
    empty = {name: table(name).arrow.empty_table() for name in ("clock", "collective_part", "lateness", "job_what_if")}
    if len(ranks) < 2:
        return JobTables(ranks, **empty)
    parts = {rank: load_parts(run, rank, names, tables.step) for rank, tables in ranks.items()}
    matching = match_parts(list(parts.values()))
    entries = collectives(matching, parts)
    late = late_ranks(entries, parts, {rank: tables.critical_path for rank, tables in ranks.items()})
    windows = {rank: _window(tables.critical_path, matching, rank) for rank, tables in ranks.items() if rank in matching.clocks}
    chain = Chain(entries, windows)
    makespan = chain.end_ns() - min((begin for begin, _ in windows.values()), default=0)
    late_rows = [
        {
            "rank": row.rank,
            "collective_id": row.collective,
            "step": row.step if row.step >= 0 else None,
            "late_ns": row.late_ns,
            "margin_ns": row.margin_ns,
            "cause": row.cause,
            "cause_ns": row.cause_ns,
            "waiting_ranks": row.waited,
        }
        for row in late
    ]
    saved = [
        {"rank": entry.rank, "cause": entry.cause, "makespan_ns": makespan, "saving_ns": entry.saving_ns} for entry in what_ifs(chain, late)
    ]
    return JobTables(
        {rank: _with_waits(run, rank, tables, entries, parts[rank]) for rank, tables in ranks.items()},
        _clock_table(matching, parts),
        _part_table(entries, parts),
        pa.Table.from_pylist(late_rows, schema=empty["lateness"].schema),
        pa.Table.from_pylist(saved, schema=empty["job_what_if"].schema),
    )


def _window(path: pa.Table, matching: Matching, rank: int) -> tuple[int, int]:
    """Begin and end of the rank's path on the reference's clock."""
    if not len(path):
        return 0, 0
    clock = matching.clocks[rank]
    begin, last, length = path.column("ts_ns")[0].as_py(), path.column("ts_ns")[-1].as_py(), path.column("dur_ns")[-1].as_py()
    return clock.aligned(begin), clock.aligned(last + length)


def _with_waits(run: Run, rank: int, tables: RankTables, entries: tuple[Collective, ...], parts: Parts) -> RankTables:
    windows = wait_windows(entries, parts)
    if not len(windows.start):
        return tables
    path = split_path(tables.critical_path, windows)
    exposed = exposed_comm(run.read("device_event", rank, ["ts_ns", "busy_dur_ns", "class"]))
    causes = split_causes(tables.step_cause, tables.critical_path, path, exposed, tables.step, windows)
    # The rank's own replay cannot move another rank's arrival: what it saved by removing all communication holds for neither part.
    kept = [COMM not in cause.split("+") for cause in tables.what_if.column("cause").to_pylist()]
    return RankTables(tables.step, path, causes, tables.what_if.filter(pa.array(kept, pa.bool_())))


def _clock_table(matching: Matching, parts: Mapping[int, Parts]) -> pa.Table:
    reference = min(matching.clocks, default=None)
    rows = []
    for rank in sorted(parts):
        clock = matching.clocks.get(rank)
        rows.append(
            {
                "rank": rank,
                "reference_rank": reference if clock else None,
                "offset_ns": clock.offset_ns if clock else None,
                "drift": clock.drift if clock else None,
                "pivot_ns": clock.pivot_ns if clock else None,
                "residual_ns": clock.residual_ns if clock else None,
                "pairs": clock.pairs if clock else 0,
                "unmatched": matching.unmatched[rank],
            }
        )
    return pa.Table.from_pylist(rows, schema=table("clock").arrow)


def _part_table(entries: tuple[Collective, ...], parts: Mapping[int, Parts]) -> pa.Table:
    rows = []
    for entry in entries:
        for arrival in entry.arrivals:
            own = parts[arrival.rank]
            algorithm, bus = entry.bandwidth(arrival) if entry.complete else (None, None)
            step = int(own.step[arrival.index])
            rows.append(
                {
                    "rank": arrival.rank,
                    "collective_id": entry.number,
                    "step": step if step >= 0 else None,
                    "op": entry.op,
                    "kind": entry.kind,
                    "group_name": entry.group or None,
                    "matched_by": entry.how,
                    "event_id": int(own.event_id[arrival.index]),
                    "on_device": own.on_device,
                    "ts_ns": int(own.start[arrival.index]),
                    "dur_ns": int(own.end[arrival.index] - own.start[arrival.index]),
                    "aligned_ts_ns": arrival.start_ns,
                    "wait_ns": arrival.wait_ns,
                    "transfer_ns": int(own.end[arrival.index] - own.start[arrival.index]) - arrival.wait_ns,
                    "bytes": entry.size if entry.size >= 0 else None,
                    "group_size": entry.members or None,
                    "ranks_present": len(entry.arrivals),
                    "complete": entry.complete,
                    "last": arrival.rank == entry.late_rank,
                    "algorithm_bandwidth": algorithm,
                    "bus_bandwidth": bus,
                }
            )
    return pa.Table.from_pylist(rows, schema=table("collective_part").arrow)
