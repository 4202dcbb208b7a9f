"""Which slice and set of a cache a line address falls into; which channel of memory.

Each function maps addresses (n,) int64 to (n,) int32. `xor` and `ipoly` are rotations or
permutations of `modulo` within aligned blocks of n_bins, so that consecutive lines never collide.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Lines = npt.NDArray[np.int64]
Bins = npt.NDArray[np.int32]

# Irreducible polynomials over GF(2), degree -> coefficients without the leading one (Rau, "Pseudo-
# randomly interleaved memory", ISCA 1991, uses such remainders as bank indices).
_POLYNOMIALS = {
    1: 0b1, 2: 0b11, 3: 0b011, 4: 0b0011, 5: 0b00101, 6: 0b000011, 7: 0b0000011, 8: 0b00011011,
    9: 0b000010001, 10: 0b0000001001, 11: 0b00000000101, 12: 0b000001010011, 13: 0b0000000011011,
    14: 0b00010001000011, 15: 0b000000000000011, 16: 0b0000000000101011,
}  # fmt: skip
_ADDRESS_BITS = 48


def modulo(line: Lines, n_bins: int) -> Bins:
    """line mod n_bins."""
    return (line % n_bins).astype(np.int32)


def xor(line: Lines, n_bins: int) -> Bins:
    """All upper bits folded onto the index; for n_bins no power of two, added instead of xored."""
    if n_bins == 1:
        return np.zeros(len(line), np.int32)
    bits = (n_bins - 1).bit_length()
    if n_bins == 1 << bits:
        folded = line & (n_bins - 1)
        upper = line >> bits
        while upper.any():
            folded = folded ^ (upper & (n_bins - 1))
            upper = upper >> bits
        return folded.astype(np.int32)
    return _rotated(line, n_bins, lambda block: _fold(block, bits))


def ipoly(line: Lines, n_bins: int) -> Bins:
    """The line address as a polynomial over GF(2), modulo an irreducible one of degree log2(n_bins).

    For n_bins no power of two the remainder of the block number rotates the block.
    """
    if n_bins == 1:
        return np.zeros(len(line), np.int32)
    bits = (n_bins - 1).bit_length()
    if n_bins == 1 << bits:
        return _remainder(line, bits).astype(np.int32)
    return _rotated(line, n_bins, lambda block: _remainder(block, bits))


def _rotated(line: Lines, n_bins: int, offset: Callable[[Lines], Lines]) -> Bins:
    block = line // n_bins
    return ((line - block * n_bins + offset(block)) % n_bins).astype(np.int32)


def _fold(value: Lines, bits: int) -> Lines:
    folded = np.zeros_like(value)
    while value.any():
        folded = folded ^ (value & ((1 << bits) - 1))
        value = value >> bits
    return folded


def _remainder(value: Lines, bits: int) -> Lines:
    polynomial = (1 << bits) | _POLYNOMIALS[min(bits, max(_POLYNOMIALS))]
    remainder = np.zeros_like(value)
    power = 1
    for position in range(_ADDRESS_BITS):
        remainder = remainder ^ np.where((value >> position) & 1, power, 0)
        power <<= 1
        if power >> bits:
            power ^= polynomial
    return remainder


FUNCTIONS: dict[str, Callable[[Lines, int], Bins]] = {
    "modulo": modulo,
    "xor": xor,
    "ipoly": ipoly,
}
"""Every index function by the name that machine files use; a new one is a line here."""


def set_and_slice(
    line: Lines, *, n_sets: int, n_slices: int, set_index: str, slice_index: str
) -> Bins:
    """The set of each line, counted over all slices: slice * n_sets + set within the slice.

    line : (n,) int64 true line addresses; n_sets is of one slice.
    """
    piece = FUNCTIONS[slice_index](line, n_slices)
    within = FUNCTIONS[set_index](line // n_slices, n_sets)
    return (piece * np.int32(n_sets) + within).astype(np.int32)
