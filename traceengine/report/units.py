"""Numbers as people read them; the only place where units change."""

from __future__ import annotations

import unicodedata

UNKNOWN = "unknown"


def duration(value_ns: float | None) -> str:
    """Nanoseconds as ns, µs, ms or s with three significant digits."""
    if value_ns is None:
        return UNKNOWN
    for limit, unit, scale in ((1e3, "ns", 1.0), (1e6, "µs", 1e3), (1e9, "ms", 1e6)):
        if abs(value_ns) < limit * 0.9995:
            return f"{_digits(value_ns / scale)} {unit}"
    return f"{_digits(value_ns / 1e9)} s"


def size(value: float | None) -> str:
    """Bytes with a decimal unit."""
    if value is None:
        return UNKNOWN
    for limit, unit in ((1e3, "B"), (1e6, "kB"), (1e9, "MB"), (1e12, "GB")):
        if abs(value) < limit:
            return f"{_digits(value / (limit / 1e3))} {unit}"
    return f"{_digits(value / 1e12)} TB"


def share(value: float | None) -> str:
    """A share as per cent; what is above zero never reads as 0 %."""
    if value is None:
        return UNKNOWN
    if 0 < value < 0.005:
        return "<1 %"
    return f"{100 * value:.0f} %"


def _digits(value: float) -> str:
    if value == round(value) and abs(value) < 1000:
        return f"{value:.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def show(value: int | float | str | bool | None, unit: str) -> str:
    """A value of evidence with its unit."""
    if value is None or isinstance(value, str):
        return UNKNOWN if value is None else shorten(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    match unit:
        case "ns":
            return duration(value)
        case "bytes":
            return size(value)
        case "bytes/s":
            return f"{size(value)}/s"
        case "share":
            return share(value)
        case _:
            return str(value) if isinstance(value, int) else _digits(value)


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Categories of characters that a terminal obeys or hides: controls, direction marks, line separators."""


def visible(text: str) -> str:
    """Text of a trace for a terminal: what would be obeyed or hidden is written as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii") if unicodedata.category(character) in _UNSEEN else character
        for character in text
    )


def shorten(text: str, width: int = 60) -> str:
    """Text on one line, cut at `width` characters."""
    flat = visible(" ".join(text.split()))
    return flat if len(flat) <= width else flat[: width - 1] + "…"
