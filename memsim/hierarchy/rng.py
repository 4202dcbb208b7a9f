"""The random numbers of a trial: splitmix64, the same in numba and in plain Python.

Each stream has one 64-bit state. Streams are seeded by numpy's SeedSequence, so they are independent
of each other and of the number of workers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from memsim.compile import inner

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


@inner
def below(state, n):
    """A uniform integer in [0, n), n < 2**31; advances state[0]. The bias is below n / 2**32."""
    state[0] = state[0] + _GAMMA
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    z = z ^ (z >> np.uint64(31))
    return np.int64(((z >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


def drawn(state: npt.NDArray[np.uint64], n: int) -> npt.NDArray[np.int64]:
    """(n_stream,) the integers that `below` draws from streams with these states: a hash of them."""
    return (((mixed(state) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32)).astype(np.int64)


def mixed(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """(n,) the next numbers of streams with these states."""
    z = state + _GAMMA
    z = (z ^ (z >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))


class Stream:
    """The readable twin of `below` over one stream."""

    def __init__(self, seed: int) -> None:
        self.state = seed & (2**64 - 1)

    def below(self, n: int) -> int:
        mask = 2**64 - 1
        self.state = (self.state + int(_GAMMA)) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * int(_MIX1)) & mask
        z = ((z ^ (z >> 27)) * int(_MIX2)) & mask
        z ^= z >> 31
        return ((z >> 32) * n) >> 32


def trial_sequence(seed: int, trial: int, launch: int = 0) -> np.random.SeedSequence:
    """The seed sequence of one trial of a launch; it depends on these three numbers alone."""
    entropy = seed if launch == 0 else [seed, launch]
    return np.random.SeedSequence(entropy=entropy, spawn_key=(trial,))
