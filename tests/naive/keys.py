"""Hashes of texts in plain integers."""

from __future__ import annotations

_MASK = 2**64 - 1


def _mixed(x: int) -> int:
    """The finalizer of SplitMix64."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK
    return x ^ (x >> 31)


def naive_hash(text: bytes) -> tuple[int, int]:
    """Hash eight bytes at a time into two words, which begin with the length and different seeds."""
    halves = []
    for seed in (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03):
        state = _mixed((seed + len(text)) & _MASK)
        for start in range(0, len(text), 8):
            state = _mixed(state ^ int.from_bytes(text[start : start + 8], "little"))
        halves.append(state)
    return halves[0], halves[1]
