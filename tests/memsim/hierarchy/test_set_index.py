"""Index functions: their values by arithmetic over GF(2), and even use of all sets."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from memsim.hierarchy.set_index import FUNCTIONS, set_and_slice

BINS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 128, 192, 256, 1024]
FAR = 0x7FFF_1234_5678  # of an address space of 47 bits


def remainder(value: int, polynomial: int) -> int:
    """value mod polynomial, both over GF(2), by long division."""
    degree = polynomial.bit_length() - 1
    while value.bit_length() > degree:
        value ^= polynomial << (value.bit_length() - 1 - degree)
    return value


ANY_NUMBER = sorted(set(FUNCTIONS) - {"fermi", "hopper", "scatter"})
"""Functions that use every bin equally, for any number of bins."""


@pytest.mark.parametrize("name", [*ANY_NUMBER, "fermi", "hopper"])
def test_consecutive_lines_never_collide(name: str) -> None:
    """Every aligned run of n_bins lines uses all bins, at high addresses too."""
    for n_bins in {"fermi": [32, 64], "hopper": [512]}.get(name, BINS):
        for block in (0, 1, 2, 3, 17, 1000, FAR // n_bins):
            lines = np.arange(block * n_bins, (block + 1) * n_bins, dtype=np.int64)
            found = FUNCTIONS[name](lines, n_bins)
            assert sorted(found) == list(range(n_bins)), (n_bins, block)
            if name == "modulo":
                assert list(found) == list(range(n_bins))


def test_xor_by_hand() -> None:
    lines = np.array([0b1101_0110_1011, 0b1111_0000], np.int64)
    assert list(FUNCTIONS["xor"](lines, 16)) == [0b1101 ^ 0b0110 ^ 0b1011, 0b1111]
    # Of 3 bins: line 7 is in block 2, place 1; the block's number, folded to two bits, is added.
    assert list(FUNCTIONS["xor"](np.array([7], np.int64), 3)) == [(1 + 2) % 3]


def test_xor_next_by_hand() -> None:
    """With 16 sets only the next four bits matter; with 3, the number of the run is added."""
    lines = np.array([0b1101_0110_1011, 0b1111_0000, 0b1_0000_0101], np.int64)
    assert list(FUNCTIONS["xor_next"](lines, 16)) == [0b0110 ^ 0b1011, 0b1111, 0b0101]
    assert list(FUNCTIONS["xor_next"](np.array([7], np.int64), 3)) == [(1 + 2) % 3]


def test_scattered_lines_fill_sets_as_poisson_says() -> None:
    """The share of lines beyond the 16 ways of their set, for 4096 sets with 16 lines each on average."""
    n_sets, ways = 4096, 16
    lines = np.arange(n_sets * ways, dtype=np.int64) + (FAR >> 7 >> 16 << 16)
    at = FUNCTIONS["scatter"](lines, n_sets)
    assert at.min() >= 0
    assert at.max() < n_sets
    load = np.bincount(at, minlength=n_sets)
    lost = np.where(load > ways, load, 0) / ways  # LRU loses the whole set in a sweep
    exact = 1 - sum(math.exp(-ways) * ways**k / math.factorial(k) for k in range(ways))
    assert abs(lost.mean() - exact) < 5 * lost.std() / math.sqrt(n_sets)
    assert abs(load.var() - ways) < 5 * ways * math.sqrt(2 / n_sets)
    assert (np.bincount(FUNCTIONS["xor"](lines, n_sets)) == ways).all()


def test_fermi_by_hand() -> None:
    """Bits of the byte address, as the paper numbers them: line bits begin at 7."""
    for n_sets, address, expected in (
        *((32, 0b1_0110 << 7, 0b1_0110), (32, 1 << 12, 0), (64, 1 << 12, 32)),
        *((32, 1 << 13, 1), (32, 1 << 14, 2), (32, 1 << 15, 4), (32, 1 << 16, 0)),
        *((32, 1 << 17, 8), (32, 1 << 18, 0), (64, 1 << 19, 16), (64, 1 << 20, 0)),
        (64, 1 << 19 | 1 << 17 | 1 << 13 | 1 << 12 | 0b1_1001 << 7, 32),
    ):
        assert list(FUNCTIONS["fermi"](np.array([address >> 7], np.int64), n_sets)) == [expected]


def test_hopper_by_hand() -> None:
    """Lines 625 and 1051 have one bit above the ninth: 625 is 512 + 113, and 1051 is 1024 + 27."""
    lines = np.array([0, 625, 1051, 1642, 625 ^ 1051, 7, 512, 1 << 27, 1 << 28], np.int64)
    assert list(FUNCTIONS["hopper"](lines, 512)) == [0, 0, 0, 0, 0, 7, 113, 317, 0]


def test_ipoly_is_a_remainder_of_an_irreducible_polynomial() -> None:
    index = FUNCTIONS["ipoly"]
    for bits in range(1, 17):
        # x**bits leaves the polynomial without its leading term.
        polynomial = 1 << bits | int(index(np.array([1 << bits], np.int64), 1 << bits)[0])
        for divisor in range(2, 1 << (bits // 2 + 1)):
            assert remainder(polynomial, divisor) or divisor == polynomial
        lines = np.random.default_rng(bits).integers(0, 1 << 47, size=50)
        found = index(lines, 1 << bits)
        assert list(found) == [remainder(line, polynomial) for line in lines.tolist()]


def test_a_power_of_two_stride_collides_under_modulo_and_not_under_ipoly() -> None:
    n_bins = 32
    for stride in (1, 2, n_bins, 4 * n_bins, 1 << 20):
        lines = np.arange(n_bins, dtype=np.int64) * stride
        assert len(set(FUNCTIONS["ipoly"](lines, n_bins))) == n_bins
    assert len(set(FUNCTIONS["modulo"](np.arange(n_bins) * n_bins, n_bins))) == 1


@pytest.mark.parametrize(("n_sets", "n_slices"), [(1, 1), (4, 1), (1, 6), (8, 6), (5, 3), (16, 80)])
def test_sets_of_slices(n_sets: int, n_slices: int) -> None:
    """A run of n_sets x n_slices lines uses every set of every slice."""
    n = n_sets * n_slices
    for set_index, slice_index in itertools.product(ANY_NUMBER, ANY_NUMBER):
        of = {"set_index": set_index, "slice_index": slice_index}
        for block in (0, 7):
            lines = np.arange(block * n, (block + 1) * n, dtype=np.int64)
            found = set_and_slice(lines, n_sets=n_sets, n_slices=n_slices, **of)
            assert found.dtype == np.int32
            assert sorted(found) == list(range(n)), of


def test_slice_and_set_by_hand() -> None:
    """Line 29 of 6 slices of 4 sets: slice 29 % 6 = 5, line 4 of the slice: its set 0."""
    modulo = {"set_index": "modulo", "slice_index": "modulo"}
    at = set_and_slice(np.array([29], np.int64), n_sets=4, n_slices=6, **modulo)
    assert list(at) == [5 * 4 + 0]
