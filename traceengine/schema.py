"""Every table and column of a run, once: name, type, nullability, unit, sentence.

Arrow schemas, DuckDB DDL, column comments and the reference page are all derived from `TABLES`.
Times are integers in ns relative to the run's origin (`manifest.json` holds its Unix time). NULL means unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

SCHEMA_VERSION = 1
"""Version of the tables of a run; a run of another version is imported again."""


class ColumnType(StrEnum):
    """The few column types that a run uses."""

    INT64 = "int64"
    DOUBLE = "double"
    BOOL = "bool"
    TEXT = "text"
    JSON = "json"


class TableOrigin(StrEnum):
    """Who fills a table."""

    IMPORT = "import"
    ANALYSIS = "analysis"


_ARROW: dict[ColumnType, pa.DataType] = {
    ColumnType.INT64: pa.int64(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.BOOL: pa.bool_(),
    ColumnType.TEXT: pa.string(),
    ColumnType.JSON: pa.string(),
}
_DUCKDB: dict[ColumnType, str] = {
    ColumnType.INT64: "bigint",
    ColumnType.DOUBLE: "double",
    ColumnType.BOOL: "boolean",
    ColumnType.TEXT: "varchar",
    ColumnType.JSON: "varchar",  # as Parquet holds it; DuckDB's JSON functions take it
}


@dataclass(frozen=True)
class Column:
    """One column: `unit` is ns, bytes, share (0..1) or empty."""

    name: str
    type: ColumnType
    doc: str
    nullable: bool = True
    unit: str = ""

    @property
    def arrow(self) -> pa.Field:
        """The Arrow field of this column."""
        return pa.field(self.name, _ARROW[self.type], nullable=self.nullable)

    @property
    def duckdb_type(self) -> str:
        """The DuckDB type name of this column."""
        return _DUCKDB[self.type]


@dataclass(frozen=True)
class Table:
    """One table of a run: a row is `row`."""

    name: str
    row: str
    origin: TableOrigin
    columns: tuple[Column, ...]

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of this table."""
        return pa.schema([column.arrow for column in self.columns])

    @property
    def column_names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)


def _int(name: str, doc: str, *, key: bool = False, unit: str = "") -> Column:
    return Column(name, ColumnType.INT64, doc, nullable=not key, unit=unit)


def _ns(name: str, doc: str, *, key: bool = False) -> Column:
    return _int(name, doc, key=key, unit="ns")


def _text(name: str, doc: str, *, key: bool = False) -> Column:
    return Column(name, ColumnType.TEXT, doc, nullable=not key)


def _bool(name: str, doc: str) -> Column:
    return Column(name, ColumnType.BOOL, doc)


def _json(name: str, doc: str) -> Column:
    return Column(name, ColumnType.JSON, doc)


def _share(name: str, doc: str) -> Column:
    return Column(name, ColumnType.DOUBLE, doc, unit="share")


_RANK = _int("rank", "Rank of the process in the job; files without a known rank are numbered from the next free one.", key=True)
_STEP = _int("step", "Step in whose wall time the row falls; NULL outside all steps.")
_EVENT = _int(
    "event_id",
    "Identity of the event: unique within a rank over host_event, device_event, stream_wait and device_annotation.",
    key=True,
)

_SOURCE = Table(
    "source",
    "an imported file",
    TableOrigin.IMPORT,
    (
        _RANK,
        _int("source_id", "Number of the file in the run, from 0.", key=True),
        _text("path", "File name without its folder.", key=True),
        _text("kind", "torch or nsys.", key=True),
        _text("tool_version", "Version of the recording tool, as far as the file tells."),
        _text("schema_version", "Version of the file's own schema."),
        _int("bytes", "Size of the file.", unit="bytes"),
        _text("sha256", "Hash of the file's bytes; NULL when it was read from a pipe."),
        _text("host", "Opaque id of the host (a hash): equal for files of one host, NULL when the file does not name it."),
        _text("rank_origin", "Where the rank came from: metadata, file_name, process, assigned."),
        _int("world_size", "Number of ranks of the job."),
        _ns("origin_unix_ns", "Unix time of ts_ns = 0; NULL when the file has no absolute clock."),
        _ns("clock_offset_ns", "Added to this rank's ts_ns to align it with rank 0; NULL when not aligned."),
        _ns("first_ts_ns", "Start of the first activity."),
        _ns("last_ts_ns", "End of the last activity."),
        _bool("truncated", "True when the file ends before its events do."),
        _json(
            "metadata",
            "What the file says about the capture (versions, options, process groups), without names of hosts, users and paths.",
        ),
    ),
)
_DEVICE = Table(
    "device",
    "an accelerator",
    TableOrigin.IMPORT,
    (
        _RANK,
        _int("device", "Device number as the events use it.", key=True),
        _text("name", "Product name."),
        _text("vendor", "nvidia, amd, intel, huawei, or other."),
        _text("uuid", "Identity of the physical device."),
        _int("sm_count", "Number of multiprocessors."),
        _int("memory_bytes", "Device memory.", unit="bytes"),
    ),
)
_THREAD = Table(
    "thread",
    "a host thread",
    TableOrigin.IMPORT,
    (
        _RANK,
        _int("pid", "Process id.", key=True),
        _int("tid", "Thread id; threads that the file names by text get negative numbers.", key=True),
        _text("name", "Thread name, or the text that stood for its id."),
        _text("process_name", "Process name."),
        _text("role", "main, autograd, loader, pin_memory, comm, other."),
    ),
)
_HOST_EVENT = Table(
    "host_event",
    "an event of a host thread",
    TableOrigin.IMPORT,
    (
        _RANK,
        _EVENT,
        _int("parent_id", "Innermost event of the same thread that encloses this one; NULL at the top."),
        _int("depth", "Number of enclosing events of the same thread."),
        _int("pid", "Process id.", key=True),
        _int("tid", "Thread id.", key=True),
        _ns("ts_ns", "Start.", key=True),
        _ns("dur_ns", "Duration; NULL for a range that the capture never closed."),
        _text(
            "kind",
            "op, annotation, runtime, driver, python, os, sync, overhead, marker (an instant or a span the tool wrote about "
            "itself: never work).",
            key=True,
        ),
        _text("class", "What the name means (queries/names.csv); NULL when the name means nothing special."),
        _text("name", "Name as recorded; the empty text when there was none.", key=True),
        _int(
            "correlation_id",
            "Links a runtime or driver call to its device work within one process; NULL when not given (0 and -1 are not ids).",
        ),
        _int("external_id", "Links runtime calls and device work to the operator that caused them."),
        _int("sequence_id", "Autograd sequence number: forward operators and their backward nodes share it."),
        _int("forward_tid", "Thread number of the forward operator, for backward nodes (the profiler's own numbering)."),
        _json("args", "Every other argument of the event."),
    ),
)
_DEVICE_EVENT = Table(
    "device_event",
    "an operation on a device stream",
    TableOrigin.IMPORT,
    (
        _RANK,
        _EVENT,
        _int("device", "Device number.", key=True),
        _int("context", "Context number."),
        _int("stream", "Stream number.", key=True),
        _ns("ts_ns", "Start.", key=True),
        _ns("dur_ns", "Duration as recorded.", key=True),
        _ns(
            "busy_dur_ns",
            "Duration for time sums: as recorded, or cut at the next start on its stream when the record overruns it (an "
            "impossible record).",
            key=True,
        ),
        _text("kind", "kernel, memcpy, memset, graph (a whole CUDA graph traced as one row).", key=True),
        _text("class", "gemm, attention, conv, norm, elementwise, reduce, optimizer, embedding, comm, copy, other.", key=True),
        _text("name", "Name as recorded.", key=True),
        _int("launch_id", "host_event that launched it; NULL when the capture does not hold or cannot tell it."),
        _int("correlation_id", "Correlation id within the process."),
        _int("external_id", "Operator that caused it."),
        _int("bytes", "Bytes copied or set.", unit="bytes"),
        _text("copy_kind", "h2d, d2h, d2d, h2h, p2p for copies."),
        _text("src_memory", "pageable, pinned, device, array, managed; NULL when unknown."),
        _text("dst_memory", "pageable, pinned, device, array, managed; NULL when unknown."),
        _int("grid_x", "Grid size, x."),
        _int("grid_y", "Grid size, y."),
        _int("grid_z", "Grid size, z."),
        _int("block_x", "Block size, x."),
        _int("block_y", "Block size, y."),
        _int("block_z", "Block size, z."),
        _int("registers", "Registers per thread."),
        _int("shared_memory_bytes", "Shared memory per block.", unit="bytes"),
        _share("occupancy_share", "Estimated achieved occupancy as the profiler states it."),
        _int("graph_id", "CUDA graph that the operation belongs to."),
        _int("graph_node_id", "Node within the CUDA graph."),
        _json("args", "Every other argument of the event."),
    ),
)
_STREAM_WAIT = Table(
    "stream_wait",
    "one stream or thread waiting for another (a wait, never device work)",
    TableOrigin.IMPORT,
    (
        _RANK,
        _EVENT,
        _text("kind", "stream_wait_event, stream_sync, event_sync, context_sync.", key=True),
        _int("device", "Device number."),
        _int("context", "Context number."),
        _int("stream", "For stream_wait_event the waiting stream, for stream_sync the awaited one."),
        _int("pid", "Process of the waiting thread, when a thread waits and the file tells."),
        _int("tid", "Waiting thread, when a thread waits and the file tells."),
        _ns("ts_ns", "Start.", key=True),
        _ns("dur_ns", "Duration.", key=True),
        _int("correlation_id", "Correlation id of the waiting call."),
        _int("awaited_stream", "Stream on which the awaited event was recorded."),
        _int("awaited_event", "Identity of the awaited CUDA event."),
        _int("record_correlation_id", "Correlation id of the call that recorded the awaited event."),
        _int("call_id", "host_event of the waiting call; NULL when the capture does not hold it."),
        _json("args", "Every other argument of the record."),
    ),
)
_DEVICE_ANNOTATION = Table(
    "device_annotation",
    "a host range projected on a device stream (a label, never work)",
    TableOrigin.IMPORT,
    (
        _RANK,
        _EVENT,
        _int("device", "Device number.", key=True),
        _int("stream", "Stream number.", key=True),
        _ns("ts_ns", "Start.", key=True),
        _ns("dur_ns", "Duration.", key=True),
        _text("name", "Name as recorded.", key=True),
        _int("external_id", "Operator or range that it projects."),
        _json("args", "Every other argument."),
    ),
)
_FLOW = Table(
    "flow",
    "one end of an arrow between two events",
    TableOrigin.IMPORT,
    (
        _RANK,
        _text("kind", "Category of the arrow (ac2g, fwdbwd, ...).", key=True),
        _text("phase", "s start, t step, f finish.", key=True),
        _int("flow_id", "Identity of the arrow within its kind.", key=True),
        _int("pid", "Process id, or device number on the device side."),
        _int("tid", "Thread id, or stream number on the device side."),
        _ns("ts_ns", "Time of the bound event.", key=True),
    ),
)
_COLLECTIVE = Table(
    "collective",
    "one rank's part in a collective, as its enqueueing call describes it",
    TableOrigin.IMPORT,
    (
        _RANK,
        _EVENT,
        _text("op", "allreduce, allgather, reduce_scatter, alltoall, broadcast, send, recv, barrier, ... as recorded.", key=True),
        _text("group_name", "Process group."),
        _text("group_desc", "Description of the process group."),
        _int("sequence", "Sequence number within the group, when the file has one."),
        _int("in_elements", "Elements sent."),
        _int("out_elements", "Elements received."),
        _int("bytes", "Bytes of the larger side; NULL when the element type is unknown.", unit="bytes"),
        _text("dtype", "Element type."),
        _int("group_size", "Number of ranks in the group."),
        _ns("ts_ns", "Start of the enqueueing call.", key=True),
        _ns("dur_ns", "Duration of the enqueueing call.", key=True),
        _int("device_event_id", "The collective's device operation; NULL when there is none or it cannot be told."),
        _json("args", "Every other argument."),
    ),
)
_MEMORY_EVENT = Table(
    "memory_event",
    "an allocation or a release",
    TableOrigin.IMPORT,
    (
        _RANK,
        _int("pid", "Process id."),
        _int("tid", "Thread id."),
        _ns("ts_ns", "Time.", key=True),
        _text("device_type", "cpu, cuda, ... as far as the file tells."),
        _int("device", "Device number; NULL for host memory."),
        _int("address", "Address of the block; NULL when not recorded or beyond 63 bits."),
        _int("bytes", "Size of the block, negative for a release.", unit="bytes"),
        _int("allocated_bytes", "Allocated after the event.", unit="bytes"),
        _int("reserved_bytes", "Reserved after the event.", unit="bytes"),
        _json("args", "Every other argument."),
    ),
)
_COUNTER = Table(
    "counter",
    "a sample of a counter",
    TableOrigin.IMPORT,
    (
        _RANK,
        _int("pid", "Process id or device number that the sample belongs to."),
        _ns("ts_ns", "Time.", key=True),
        _text("name", "Counter.", key=True),
        _text("series", "Series within the counter."),
        Column("value", ColumnType.DOUBLE, "Value as recorded; NULL when it is not a number."),
    ),
)
_IMPORT_ISSUE = Table(
    "import_issue",
    "something the importer repaired, dropped or could not tell",
    TableOrigin.IMPORT,
    (
        _RANK,
        _int("source_id", "File that it was seen in.", key=True),
        _text("code", "Stable id of the issue.", key=True),
        _text("severity", "info, warning, error.", key=True),
        _int("count", "How many events it touches.", key=True),
        _text("example", "One instance, with its place in the file when known."),
        _text("action", "What was done, and what to do about it.", key=True),
    ),
)
_STEP_TABLE = Table(
    "step",
    "a training step",
    TableOrigin.ANALYSIS,
    (
        _RANK,
        _int("step", "Number of the step as recorded, else counted from 0.", key=True),
        _text("name", "Name of the marker."),
        _ns("ts_ns", "Start of the step's wall time: the end of the one before.", key=True),
        _ns(
            "dur_ns",
            "Wall time: until the next step's marker starts and the device work launched in this step has ended, whichever is later.",
            key=True,
        ),
        _text("origin", "profiler, nvtx, inferred.", key=True),
        _bool("complete", "False when the capture cuts the step; such a step is left out of statistics."),
        _ns("host_ts_ns", "Start of the marker on the host."),
        _ns("host_dur_ns", "Duration of the marker on the host."),
        _ns("device_end_ns", "End of the last device operation launched in the step; NULL without device work."),
        _int("launches", "Calls in the step that should have device work."),
        _int("launches_without_device_event", "Those of them whose device work is missing in the capture."),
        _ns("backlog_ns", "Time at the start of the first step in which the device still worked on what was launched before it."),
    ),
)
_CRITICAL_PATH = Table(
    "critical_path",
    "a segment of the critical path; the segments of a rank fill its window without overlap or hole",
    TableOrigin.ANALYSIS,
    (
        _RANK,
        _int("seq", "Position on the path, from 0.", key=True),
        _STEP,
        _ns("ts_ns", "Start.", key=True),
        _ns("dur_ns", "Duration, above 0.", key=True),
        _ns(
            "hidden_ns",
            "Part of a host segment during which a device operation ran: removing the segment cannot save that part.",
            key=True,
        ),
        _text("resource", "host:PID/TID or device:DEVICE/stream:STREAM; unknown when the capture cannot tell.", key=True),
        _text("cause", "Class id (docs/reference/classes.md).", key=True),
        _text("detail", "What the resource did: the operation, or the kind of gap.", key=True),
        _int("event_id", "Event of the segment; NULL for a gap."),
        _text("scope", "Innermost range or Python frame around it; NULL when none."),
        _text("edge", "Why the path came here: end, stream, launch, sync, event, inferred, thread, overlap, graph, host.", key=True),
        _text("state", "measured, or estimated where an edge was inferred.", key=True),
    ),
)
_STEP_CAUSE = Table(
    "step_cause",
    "the time of one cause in one step (step NULL: outside all steps)",
    TableOrigin.ANALYSIS,
    (
        _RANK,
        _STEP,
        _text("cause", "Class id.", key=True),
        _ns("path_ns", "Time of its segments on the critical path; over all causes this sums to the step.", key=True),
        _ns(
            "exclusive_ns",
            "Exposed time: moments that the cause alone owns. A host segment owns only moments in which no device operation ran; "
            "the others belong to what the device did. Over all causes this sums to the step, too.",
            key=True,
        ),
    ),
)
_WHAT_IF = Table(
    "what_if",
    "a replay with causes removed, for one step or (step NULL) for the whole window",
    TableOrigin.ANALYSIS,
    (
        _RANK,
        _STEP,
        _text("cause", "Class id that was removed, or a named experiment such as `workers=4`; several are joined by +.", key=True),
        _ns("makespan_ns", "Time as recorded (of the replay with nothing removed).", key=True),
        _ns("without_ns", "Time of the replay.", key=True),
        _ns(
            "saving_ns",
            "Difference: what removing it could save at most, never a measurement. A step may lose what another one gains.",
            key=True,
        ),
        _text("bound", "How far the saving can be trusted: `upper bound` or `estimate`. What is not estimable has no row.", key=True),
        _text("reason", "What the saving leaves out, or what was assumed.", key=True),
        _text(
            "next_limit",
            "Of the whole window: class id with the most time on the critical path of the replayed run; `unknown` when that run hangs on"
            " recorded times that the trace does not explain, so that the saving is unknown.",
        ),
    ),
)
_CLOCK = Table(
    "clock",
    "a rank's clock against the reference rank's, from the ends of matched collectives; empty for one rank",
    TableOrigin.ANALYSIS,
    (
        _RANK,
        _int("reference_rank", "Rank whose clock the others are compared with; NULL when no matched collective connects this one."),
        _ns("offset_ns", "By how much this clock is ahead at pivot_ns; NULL when unknown: nothing across ranks is said of this rank."),
        Column("drift", ColumnType.DOUBLE, "By how much it gains, in seconds per second; 0 when the window is too short to tell."),
        _ns("pivot_ns", "Time on this clock at which offset_ns holds."),
        _ns("residual_ns", "Robust spread of the ends around that line: differences between ranks below three of these mean nothing."),
        _int("pairs", "Ends of collectives that were compared; 0 for the reference itself.", key=True),
        _int("unmatched", "Collectives of this rank that no other rank's was found for.", key=True),
    ),
)
_COLLECTIVE_PART = Table(
    "collective_part",
    "one rank's part in a collective that was matched across ranks",
    TableOrigin.ANALYSIS,
    (
        _RANK,
        _int("collective_id", "Number of the collective, equal on all its ranks, in the order of the last arrivals.", key=True),
        _STEP,
        _text("op", "As recorded: the collective's name, else the kernel's or the range's.", key=True),
        _text("kind", "Its kind in names.csv: allreduce, allgather, reduce_scatter, alltoall, broadcast, ...; NULL when unknown."),
        _text("group_name", "Ranks that take part, or the process group; NULL when the capture does not say."),
        _text("matched_by", "sequence, order or time.", key=True),
        _int("event_id", "The part's device operation, or host range where there is no device.", key=True),
        _bool("on_device", "Whether event_id is of device_event."),
        _ns("ts_ns", "Arrival: start of the part, on this rank's clock.", key=True),
        _ns("dur_ns", "Duration of the part.", key=True),
        _ns("aligned_ts_ns", "Arrival on the reference's clock.", key=True),
        _ns("wait_ns", "Time until the last rank arrived: someone else's lateness.", key=True),
        _ns("transfer_ns", "The rest of dur_ns: the network's share, where complete.", key=True),
        _int("bytes", "Larger side; NULL when unknown.", unit="bytes"),
        _int("group_size", "Ranks in the group; NULL when unknown."),
        _int("ranks_present", "Ranks of the group whose part was found.", key=True),
        _bool("complete", "All ranks were found: else a missing one may have come later still. NULL when group_size is unknown."),
        _bool("last", "This rank arrived last."),
        Column("algorithm_bandwidth", ColumnType.DOUBLE, "bytes divided by transfer_ns; NULL when unknown.", unit="bytes/s"),
        Column(
            "bus_bandwidth",
            ColumnType.DOUBLE,
            "The same times 2(n-1)/n for allreduce, (n-1)/n for allgather, reduce_scatter and alltoall, 1 for broadcast and reduce.",
            unit="bytes/s",
        ),
    ),
)
_LATENESS = Table(
    "lateness",
    "a rank that clearly arrived last at a collective, and what of its own path made it late",
    TableOrigin.ANALYSIS,
    (
        _RANK,
        _int("collective_id", "The collective.", key=True),
        _STEP,
        _ns("late_ns", "How long after the median of the others; of collectives in flight together only what this one adds.", key=True),
        _ns("margin_ns", "How long after the rank before it.", key=True),
        _text("cause", "Class id of which its path had more since the collective before; unknown when none explains half.", key=True),
        _ns("cause_ns", "How much more, at most late_ns.", key=True),
        _int("waiting_ranks", "Ranks that waited.", key=True),
    ),
)
_JOB_WHAT_IF = Table(
    "job_what_if",
    "a replay of all ranks together in which a late rank has no more of a cause than the others",
    TableOrigin.ANALYSIS,
    (
        _RANK,
        _text("cause", "Class id.", key=True),
        _ns("makespan_ns", "Time of the job as recorded, from the first rank's window to the end of the last one's.", key=True),
        _ns("saving_ns", "What it would be shorter by, at most.", key=True),
    ),
)
_FINDING = Table(
    "finding",
    "the answer of a rule for one step, or for the window (step NULL)",
    TableOrigin.ANALYSIS,
    (
        _RANK,
        _text("rule", "Id of the rule.", key=True),
        _text("bottleneck", "Class id that the rule speaks of.", key=True),
        _STEP,
        _text("status", "hit, clear, unknown.", key=True),
        _ns("cost_ns", "Wall time on the critical path; NULL when unknown."),
        _text("reason", "Why, in one sentence.", key=True),
        _json("evidence", "The rule's evidence columns."),
    ),
)
_VERDICT = Table(
    "verdict",
    "the decision for one rank",
    TableOrigin.ANALYSIS,
    (
        _RANK,
        _text("owner", "Class id that owns the path, or unknown.", key=True),
        _text("confidence", "high, medium, low.", key=True),
        _text("runner_up", "Class id that takes over next."),
        _share("share", "Owner's share of the window."),
        _ns("saving_bound_ns", "Upper bound of what removing the owner could save per step."),
    ),
)

TABLES: tuple[Table, ...] = (
    _SOURCE,
    _DEVICE,
    _THREAD,
    _HOST_EVENT,
    _DEVICE_EVENT,
    _STREAM_WAIT,
    _DEVICE_ANNOTATION,
    _FLOW,
    _COLLECTIVE,
    _MEMORY_EVENT,
    _COUNTER,
    _IMPORT_ISSUE,
    _STEP_TABLE,
    _CRITICAL_PATH,
    _STEP_CAUSE,
    _WHAT_IF,
    _CLOCK,
    _COLLECTIVE_PART,
    _LATENESS,
    _JOB_WHAT_IF,
    _FINDING,
    _VERDICT,
)
"""All tables of a run, in the order in which the docs list them."""

_BY_NAME = {table.name: table for table in TABLES}


def table(name: str) -> Table:
    """The table called `name`; raises KeyError for any other name."""
    return _BY_NAME[name]
