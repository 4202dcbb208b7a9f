"""Passes of a merge sort, from global memory or through local memory.

The next read of a merge depends on the keys, which Loopy's loops cannot express, so the kernels are
OpenCL C (`merge_sort.cl`). The input of a pass has sorted runs, as the earlier passes would leave
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.kernels.parameters import require_group, require_indexable, require_positive
from memsim.errors import KernelError
from tracegen import OpenCLWorkload

SOURCE = Path(__file__).with_suffix(".cl")
Keys = npt.NDArray[np.uint32]


def global_pass(
    n: int = 1 << 20, width: int = 1 << 12, per_item: int = 8, block_size: int = 128
) -> OpenCLWorkload:
    """Merge pairs of runs of `width` keys; each work-item writes `per_item` consecutive keys.

    per_item : a power of two; at most 2 `width` is used
    """
    _require_powers(width=width, per_item=per_item)
    require_group(block_size)
    per_item = min(per_item, 2 * width)
    runs = sorted_runs(n, width)
    target = np.zeros_like(runs)
    groups = -(-n // (per_item * block_size))
    return OpenCLWorkload(
        path=SOURCE,
        kernel="merge_global",
        arguments={
            "n": np.int32(n),
            "width": np.int32(width),
            "per_item": np.int32(per_item),
            "source": runs,
            "target": target,
        },
        global_size=groups * block_size,
        local_size=block_size,
        build_options=_options(1, 1),
        check=_sorted_to(2 * width),
    )


def local_pass(
    n: int = 1 << 20, width: int = 1 << 12, tile: int = 1024, per_item: int = 4
) -> OpenCLWorkload:
    """Merge pairs of runs of `width` keys through local memory, `tile` keys in each group.

    tile : a power of two, at most 2 `width`; a group has tile / per_item work-items
    """
    _require_powers(width=width, tile=tile, per_item=per_item)
    _require_tile(tile, per_item)
    if tile > 2 * width:
        raise KernelError(f"tile must be at most twice the width {width}, got {tile}")
    runs = sorted_runs(n, width)
    return OpenCLWorkload(
        path=SOURCE,
        kernel="merge_local",
        arguments={
            "n": np.int32(n),
            "width": np.int32(width),
            "source": runs,
            "target": np.zeros_like(runs),
        },
        global_size=-(-n // tile) * (tile // per_item),
        local_size=tile // per_item,
        build_options=_options(tile, per_item),
        check=_sorted_to(2 * width),
    )


def sort_tiles(n: int = 1 << 20, tile: int = 1024, per_item: int = 4) -> OpenCLWorkload:
    """Sort tiles of keys in local memory, the first runs of a merge sort."""
    _require_powers(tile=tile, per_item=per_item)
    _require_tile(tile, per_item)
    keys = sorted_runs(n, 1)
    return OpenCLWorkload(
        path=SOURCE,
        kernel="sort_tiles",
        arguments={"n": np.int32(n), "source": keys, "target": np.zeros_like(keys)},
        global_size=-(-n // tile) * (tile // per_item),
        local_size=tile // per_item,
        build_options=_options(tile, per_item),
        check=_sorted_to(tile),
    )


def sorted_runs(n: int, width: int) -> Keys:
    """n uniform keys, the same in every call, sorted in runs of `width`; the last run may be
    shorter."""
    require_positive(n=n, width=width)
    require_indexable(source=2 * n)
    keys = np.random.default_rng(0).integers(0, 1 << 32, n, dtype=np.uint32)
    return _in_runs(keys, width)


def _in_runs(keys: Keys, width: int) -> Keys:
    whole = len(keys) // width * width
    body = np.sort(keys[:whole].reshape(-1, width), axis=1).reshape(-1)
    return np.concatenate([body, np.sort(keys[whole:])])


def _sorted_to(width: int) -> Any:
    def check(outputs: Mapping[str, Any]) -> None:
        target = outputs["target"]
        np.testing.assert_array_equal(target, _in_runs(sorted_runs(len(target), 1), width))

    return check


def _options(tile: int, per_item: int) -> tuple[str, ...]:
    return f"-DTILE={tile}", f"-DPER_ITEM={per_item}"


def _require_powers(**parameters: int) -> None:
    for name, value in parameters.items():
        if value < 1 or value & (value - 1):
            raise KernelError(f"{name} must be a power of two, got {value}")


def _require_tile(tile: int, per_item: int) -> None:
    if tile // per_item < 2:  # two work-items search for the ends of a group's part
        raise KernelError(f"tile must be at least twice per_item {per_item}, got {tile}")
    require_group(tile // per_item)
