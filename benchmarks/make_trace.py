"""Make a big trace from a real one: the same events again and again, later in time and with ids of their own.

    python benchmarks/make_trace.py SOURCE.json.gz OUT.json[.gz] --events 1000000

Every repetition is shifted by the length of the trace, and each id (correlation, external id, flow id, sequence
number, Python id) by a multiple of its largest value, so that links stay within a repetition.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

ID_ARGS = (
    "correlation",
    "External id",
    "external id",
    "Ev Idx",
    "Record function id",
    "Python id",
    "Python parent id",
    "Sequence number",
    "wait_on_cuda_event_record_corr_id",
)


def read(path: Path) -> dict[str, Any]:
    """The whole trace, numbers with a fraction as exact decimals."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    document: dict[str, Any] = json.loads(content, parse_float=Decimal)
    return document


def write_number(value: object) -> object:
    """Decimals as floats where a float holds them, for the standard encoder."""
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(type(value))


def event_text(event: dict[str, Any]) -> str:
    """One event in the layout of kineto: exact `ts` and `dur`."""
    times = "".join(f', "{key}": {event[key]}' for key in ("ts", "dur") if key in event)
    rest = json.dumps({key: value for key, value in event.items() if key not in ("ts", "dur")}, default=write_number)
    return f"  {rest[:-1]}{times}}}" if len(rest) > 2 else f"  {{{times[2:]}}}"


def shifted(event: dict[str, Any], round_number: int, span: Decimal, ids: dict[str, int]) -> dict[str, Any]:
    """The event of repetition `round_number`."""
    copy = dict(event)
    if event.get("ts") is not None:
        copy["ts"] = Decimal(str(event["ts"])) + span * round_number
    if "id" in event and isinstance(event["id"], int):
        copy["id"] = event["id"] + ids["id"] * round_number
    args = event.get("args")
    if isinstance(args, dict):
        moved = {key: args[key] + ids[key] * round_number for key in ID_ARGS if isinstance(args.get(key), int) and args[key] > 0}
        if moved:
            copy["args"] = {**args, **moved}
    return copy


def id_strides(events: list[dict[str, Any]]) -> dict[str, int]:
    """For every kind of id one more than its largest value."""
    largest: dict[str, int] = dict.fromkeys(("id", *ID_ARGS), 0)
    for event in events:
        if isinstance(event.get("id"), int):
            largest["id"] = max(largest["id"], event["id"])
        args = event.get("args")
        if isinstance(args, dict):
            for key in ID_ARGS:
                if isinstance(args.get(key), int):
                    largest[key] = max(largest[key], args[key])
    shared = max(largest["id"], largest["correlation"])
    largest["id"] = largest["correlation"] = shared
    return {key: value + 1 for key, value in largest.items()}


def repeated(document: dict[str, Any], wanted: int) -> Iterator[str]:
    """Lines of the `traceEvents` array."""
    events = document["traceEvents"]
    once = [event for event in events if event.get("ph") == "M" or event.get("cat") == "Trace" or event.get("s") == "g"]
    often = [event for event in events if event.get("ph") != "M" and event.get("cat") != "Trace" and event.get("s") != "g"]
    starts = [Decimal(str(event["ts"])) for event in often if event.get("ts") is not None]
    ends = [Decimal(str(event["ts"])) + Decimal(str(event.get("dur", 0))) for event in often if event.get("ts") is not None]
    span = max(ends) - min(starts) + 100
    ids = id_strides(often)
    written = 0
    for event in once:
        yield event_text(event)
        written += 1
    round_number = 0
    while written < wanted:
        for event in often:
            yield event_text(shifted(event, round_number, span, ids))
            written += 1
        round_number += 1


def write(document: dict[str, Any], wanted: int, stream: IO[str]) -> int:
    """Write the big trace; returns its number of events."""
    head = {key: value for key, value in document.items() if key not in ("traceEvents", "INFO")}
    stream.write(json.dumps(head, default=write_number)[:-1] + ', "traceEvents": [\n')
    count = 0
    for line in repeated(document, wanted):
        stream.write(",\n" + line if count else line)
        count += 1
    stream.write("\n]}\n")
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    options = parser.parse_args()
    document = read(options.source)
    opener = gzip.open if options.out.suffix == ".gz" else open
    with opener(options.out, "wt", encoding="utf-8") as stream:
        count = write(document, options.events, stream)
    print(f"{options.out}: {count} events")


if __name__ == "__main__":
    main()
