"""The layout hash: StarPU's CRC, the fold of Augonnet et al. 2009, and layouts that must differ."""

import ctypes
import ctypes.util

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from calib.history.errors import HistoryError
from calib.history.key import (
    Csr,
    Key,
    crc32c,
    describe,
    fingerprint,
    fold,
    layout_hash,
    total_bytes,
)


def bitwise_crc(data: bytes, crc: int = 0) -> int:
    """Polynomial division, one bit at a time, over the whole message as one number."""
    n_bits = 8 * len(data)
    bits = int.from_bytes(data, "big") << 32 ^ crc << n_bits
    for bit in range(n_bits + 31, 31, -1):
        if bits >> bit & 1:
            bits ^= (0x1EDC6F41 | 1 << 32) << (bit - 32)
    return bits


@given(st.binary(max_size=20), st.integers(0, 2**32 - 1))
def test_crc_is_polynomial_division(data, crc):
    assert crc32c(data, crc) == bitwise_crc(data, crc)


def starpu_library():
    for name in ("libstarpu-1.3.so.9", ctypes.util.find_library("starpu-1.3")):
        try:
            return ctypes.CDLL(name) if name else None
        except OSError:
            continue
    return None


@pytest.mark.skipif(starpu_library() is None, reason="libstarpu-1.3 (Debian) is not installed")
def test_crc_is_the_one_that_starpu_computes():
    theirs = starpu_library().starpu_hash_crc32c_be_n
    theirs.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint32]
    theirs.restype = ctypes.c_uint32
    rng = np.random.default_rng(1)
    for _ in range(50):
        data, state = rng.bytes(int(rng.integers(0, 40))), int(rng.integers(0, 2**32))
        assert crc32c(data, state) == theirs(data, len(data), state)


def test_the_last_parameter_is_folded_first_and_arguments_after_their_parameters():
    def word(value):
        return value.to_bytes(8, "little")

    assert fold([3, 5]) == crc32c(word(3), crc32c(word(5), 0))
    assert fold(["ab", 5]) == crc32c(b"ab", crc32c(word(5), 0))
    one, two = fold(["<f8", 2, 2, 3, 24, 8, "C"]), fold(["<i4", 1, 4, 4, "C"])
    assert layout_hash([np.zeros((2, 3)), np.zeros(4, np.int32)]) == fold([one, two])


def test_what_tells_layouts_apart():
    base = np.zeros((512, 1024), np.float32)
    others = [
        np.zeros((1024, 512), np.float32),  # the example of Augonnet et al. 2009
        np.zeros((512, 1024), np.float64),
        np.zeros((512, 1024), np.int32),
        np.zeros((512, 1024), np.float32, order="F"),
        np.zeros((512, 2048), np.float32)[:, ::2],
        np.zeros(512 * 1024, np.float32),
    ]
    hashes = {layout_hash([array]) for array in (base, *others)}
    assert len(hashes) == 1 + len(others)
    assert layout_hash([base, others[0]]) != layout_hash([others[0], base])
    assert layout_hash([base]) == layout_hash([np.ones((512, 1024), np.float32)])


def test_csr_goes_by_rows_and_entries():
    matrix = scipy.sparse.csr_matrix(np.eye(5))
    same = scipy.sparse.csr_matrix(np.fliplr(np.eye(5)))
    fuller = scipy.sparse.csr_matrix(np.eye(5) + np.eye(5, k=1))
    assert describe(matrix) == ("csr", 5, 5)
    assert layout_hash([matrix]) == layout_hash([same]) == layout_hash([Csr(rows=5, nnz=5)])
    assert layout_hash([matrix]) != layout_hash([fuller])
    assert total_bytes([matrix]) == 6 * 4 + 5 * 4 + 5 * 8


def test_integers_by_value_and_other_numbers_by_type():
    assert layout_hash([np.int32(3)]) != layout_hash([np.int32(4)])
    assert layout_hash([np.int32(3)]) != layout_hash([np.int64(3)])
    assert layout_hash([np.float32(3)]) == layout_hash([np.float32(4)])
    assert layout_hash([np.float32(3)]) != layout_hash([np.float64(3)])


def test_what_has_no_layout_and_a_key_without_its_parts_are_refused():
    with pytest.raises(HistoryError, match="no layout is known for an argument of type str"):
        layout_hash(["text"])
    with pytest.raises(HistoryError, match="32 bits"):
        Key(kernel="k", device="d", layout=2**32)
    with pytest.raises(HistoryError, match="needs the names"):
        Key(kernel="", device="d", layout=1)


def test_fingerprint_changes_with_source_and_options():
    prints = {fingerprint("f", s, o) for s in ("a", "b") for o in ("", "-O0")}
    assert len(prints) == 4
    assert all(p.startswith("f-") for p in prints)
