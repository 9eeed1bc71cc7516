"""Costs of one rank: noise by identity, and what is left of a cost when causes are removed."""

from __future__ import annotations

from zlib import crc32

from .spec import Cause, JobSpec

_UNIT = 1 << 32


def noise_factor_ppm(seed: int, identity: str, noise_share: float) -> int:
    """A factor in parts per million, uniform in 1 ± noise_share, that depends on nothing but seed and identity."""
    # One multiplication after the checksum: CRC alone maps neighbouring identities to related values.
    drawn = (crc32(f"{seed}|{identity}".encode()) * 2_654_435_761 + seed * 40_503) % _UNIT
    drawn ^= drawn >> 15
    return 1_000_000 + int(noise_share * 1_000_000 * (2 * drawn / _UNIT - 1))


class Costs:
    """Draws the costs of one rank and answers which causes are gone.

    A cost has the cause that a reader of the trace sees and, where it differs, the one that planted it. Removal goes
    by the planted cause, as a change of the job would; with `by_sight` it goes by the visible one, as a replay of one
    rank's trace would.
    """

    def __init__(self, spec: JobSpec, rank: int, *, by_sight: bool = False) -> None:
        self._spec = spec
        self._rank = rank
        self._by_sight = by_sight

    def gone(self, cause: Cause, planted: Cause | None = None) -> bool:
        """Whether work of this cause does not exist in the job any more."""
        return (cause if self._by_sight or planted is None else planted) in self._spec.removed

    def ns(self, identity: str, base_ns: int, cause: Cause, planted: Cause | None = None) -> int:
        """The cost with its noise; 0 when its cause is removed."""
        if self.gone(cause, planted):
            return 0
        return self.shared_ns(f"{self._rank}|{identity}", base_ns)

    def shared_ns(self, identity: str, base_ns: int) -> int:
        """A cost that all ranks draw alike."""
        if not self._spec.noise_share or not base_ns:
            return base_ns
        return base_ns * noise_factor_ppm(self._spec.seed, identity, self._spec.noise_share) // 1_000_000
