"""Which slice and set of a cache a line address falls into; which channel of memory.

Each function maps addresses (n,) int64 to (n,) int32 in [0, n_bins). Within each aligned run of n_bins
addresses, all functions but `scatter` are rotations or permutations of `modulo`: consecutive lines never
collide.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from memsim.hierarchy.rng import mixed

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
    """All upper bits folded onto the index by xor; if n_bins is not a power of two, by addition."""
    if n_bins == 1:
        return np.zeros(len(line), np.int32)
    bits = (n_bins - 1).bit_length()
    if n_bins == 1 << bits:
        return _fold(line, bits).astype(np.int32)
    return _rotated(line, n_bins, lambda run: _fold(run, bits))


def xor_next(line: Lines, n_bins: int) -> Bins:
    """The bits next above the index xored onto it (GPGPU-Sim's index X); if n_bins is not a power of
    two, added to it."""
    bits = (n_bins - 1).bit_length()
    if n_bins == 1 << bits:
        return ((line ^ (line >> bits)) & (n_bins - 1)).astype(np.int32)
    return _rotated(line, n_bins, lambda run: run & ((1 << bits) - 1))


def fermi(line: Lines, n_bins: int) -> Bins:
    """The L1 of Fermi, 32 or 64 sets of 128-byte lines: bits 7 to 11 of the address, xored with its bits
    13, 14, 15, 17 and 19; of 64 sets, bit 12 is the index's highest.

    Nugteren et al., "A Detailed GPU Cache Model Based on Reuse Distance Theory", HPCA 2014.
    """
    folded = (line ^ ((line >> 6) & 0b111 | (line >> 7) & 0b1000 | (line >> 8) & 0b10000)) & 31
    return (folded | (line & 32 if n_bins == 64 else 0)).astype(np.int32)


_HOPPER = (
    113, 27, 374, 329, 57, 481, 477, 238, 404, 141, 428, 244, 303, 130, 240, 277, 508, 351, 317,
)  # fmt: skip
"""The set of a line whose number has a single bit, from bit 9 on."""


def hopper(line: Lines, n_bins: int) -> Bins:
    """The L1 of an H200, 512 sets of 128-byte lines: the low nine bits, xored with a number for each of the 19
    bits above that is set.

    Measured for memsim, bit by bit (`h200_l1_sets.csv` of experiments).
    """
    set_ = line & 511
    for position, number in enumerate(_HOPPER, start=9):
        set_ = set_ ^ np.where(line >> position & 1, number, 0)
    return set_.astype(np.int32)


def ipoly(line: Lines, n_bins: int) -> Bins:
    """The line address as a polynomial over GF(2), modulo an irreducible one of degree log2(n_bins).

    If n_bins is not a power of two, the remainder of the run's number rotates the run.
    """
    if n_bins == 1:
        return np.zeros(len(line), np.int32)
    bits = (n_bins - 1).bit_length()
    if n_bins == 1 << bits:
        return _remainder(line, bits).astype(np.int32)
    return _rotated(line, n_bins, lambda run: _remainder(run, bits))


def scatter(line: Lines, n_bins: int) -> Bins:
    """A hash: bins fill unevenly, with a Poisson distribution, as they do where the pages of an array
    are scattered in physical memory.

    The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), modulo n_bins.
    """
    return (mixed(line.astype(np.uint64)) % np.uint64(n_bins)).astype(np.int32)


def _rotated(line: Lines, n_bins: int, offset: Callable[[Lines], Lines]) -> Bins:
    run = line // n_bins
    return ((line - run * n_bins + offset(run)) % n_bins).astype(np.int32)


def _fold(value: Lines, bits: int) -> Lines:
    """All digits of `bits` bits combined by xor, two, four, eight at a time."""
    shift, n_bits = bits, int(value.max(initial=0)).bit_length()
    while shift < n_bits:
        value = value ^ (value >> shift)
        shift *= 2
    return value & ((1 << bits) - 1)


def _remainder(value: Lines, bits: int) -> Lines:
    remainder = np.zeros_like(value)
    n_bytes = -(-int(value.max(initial=0)).bit_length() // 8)
    for position, table in enumerate(_remainders(bits)[:n_bytes]):
        remainder ^= table[(value >> (8 * position)) & 0xFF]
    return remainder


@functools.cache
def _remainders(bits: int) -> npt.NDArray[np.int64]:
    """(n_byte, 256): the remainder of each value of each byte of an address. They add up to the address's."""
    polynomial = (1 << bits) | _POLYNOMIALS[min(bits, max(_POLYNOMIALS))]
    tables = np.zeros((_ADDRESS_BITS // 8, 256), np.int64)
    power = 1
    for position in range(_ADDRESS_BITS):
        has_bit = np.arange(256) >> position % 8 & 1
        tables[position // 8] ^= has_bit * power
        power <<= 1
        if power >> bits:
            power ^= polynomial
    return tables


FUNCTIONS: dict[str, Callable[[Lines, int], Bins]] = {
    "modulo": modulo,
    "xor": xor,
    "xor_next": xor_next,
    "ipoly": ipoly,
    "fermi": fermi,
    "hopper": hopper,
    "scatter": scatter,
}
"""Every index function by the name that machine files use; a new one is a line here."""


def set_and_slice(
    line: Lines, *, n_sets: int, n_slices: int, set_index: str, slice_index: str
) -> Bins:
    """The set of each line, counted over all slices: slice * n_sets + set within the slice.

    line : (n,) int64 true line addresses; n_sets is of one slice.
    """
    slice_ = FUNCTIONS[slice_index](line, n_slices)
    above = line // n_slices
    # Lines ascend, but for the places of pages: those of all slices follow one another.
    begins = np.flatnonzero(np.diff(above, prepend=-1))
    sets = FUNCTIONS[set_index](above[begins], n_sets)
    within = np.repeat(sets, np.diff(begins, append=len(line)))
    return (slice_ * np.int32(n_sets) + within).astype(np.int32)
