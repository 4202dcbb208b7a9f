"""Changes of the launch, for kernels in any language: the text of the kernel stays as it is."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import floordiv, mul
from pathlib import Path
from typing import Any

import numpy as np

from calib.advice.altered_traces import misalignment, reordered, shifted
from calib.advice.bounds import Change, altered
from calib.advice.trial import Changed
from calib.prediction import Prediction
from memsim.errors import MemsimError
from memsim.machine import Machine
from memsim.trace import Trace
from tracegen import BinaryWorkload, TritonWorkload, Workload, trace_snapshots
from tracegen.options import TraceOptions

LINE_BYTES = 128
STRIPS = (4, 8)
TRITON_DEFAULTS = {
    "NVIDIA": {"num_stages": 3, "num_warps": 4},
    "AMD": {"num_stages": 2, "num_warps": 4},
}
"""Of Triton 3's compilers (`CUDAOptions`, `HIPOptions`)."""
Shape = tuple[int, ...]
_TRITON_OPTION = re.compile(r"\b(num_stages|num_warps)=(\d+)")


def launch_changes(
    workload: Any, prediction: Prediction, traces: Sequence[Trace], tracing: TraceOptions
) -> Iterator[Change]:
    """Everything that can be changed about the launch of a kernel."""
    yield from occupancy(prediction)
    yield from cache_split(prediction)
    yield from alignment(traces[0])
    if not isinstance(workload, Workload):  # of Loopy kernels the tags of inames are changed
        yield from group_order(workload, prediction.machine, traces[0], tracing)


def occupancy(prediction: Prediction) -> Iterator[Change]:
    """Fewer resident groups on a core, which leave each more of the caches."""
    groups = prediction.timing.residents.groups_per_core
    for fewer in dict.fromkeys((groups // 2, groups // 4)):
        if fewer:
            yield Change(
                what=f"{fewer} instead of {groups} resident groups on a core",
                remedy="occupancy",
                alter=partial(_with_options, groups_per_core=fewer),
                code=("# let each group reserve more local memory than it uses",),
            )


def cache_split(prediction: Prediction) -> Iterator[Change]:
    """Other divisions of the storage that the first level shares with local memory."""
    machine = prediction.machine
    level = next((one for one in machine.levels if one.storage_bytes), None)
    if level is None:
        return
    taken = prediction.occupancy.local_memory_carveout_bytes
    larger = [size for size in level.local_carveouts_bytes if size > taken]
    for size in dict.fromkeys(larger[:1] + larger[-1:]):
        if level.size_beside(size) > 0:
            yield Change(
                what=f"local memory takes {size // 1024} instead of {taken // 1024} KiB of"
                f" {level.name}'s storage",
                remedy="cache preference",
                alter=partial(_with_what_if, text=f"{level.name}={level.size_beside(size)}B"),
                code=(f"# prefer local memory: {size // 1024} KiB",),
            )


def alignment(trace: Trace) -> Iterator[Change]:
    """Arrays at which most accesses begin in the middle of a line, moved so that they begin with one."""
    for array in trace.arrays:
        off = misalignment(trace, array.name, LINE_BYTES)
        if off:
            by = LINE_BYTES - off
            yield Change(
                what=f"{array.name} begins {by} bytes behind a line, so that accesses begin with one",
                remedy="alignment",
                alter=altered(partial(shifted, array=array.name, by_bytes=by)),
                code=(
                    f"# allocate {by} bytes more, and pass {array.name} {by} bytes behind a line",
                ),
            )


def group_order(
    workload: Any, machine: Machine, trace: Trace, tracing: TraceOptions
) -> Iterator[Change]:
    """Groups of a grid with two axes in another order; groups that run together are then others."""
    grid = [extent for extent in trace.launch.grid if extent > 1]
    if len(grid) != 2 or math.prod(grid) != trace.launch.n_groups:
        return
    columns, rows = grid
    ids = np.arange(columns * rows)
    orders = {
        "groups along the second axis of the grid first": ids.reshape(rows, columns).T.ravel()
    }
    for strip in STRIPS:
        if rows > strip and rows % strip == 0:
            blocks = ids.reshape(rows // strip, strip, columns).transpose(0, 2, 1)
            orders[f"groups in strips of {strip} along the second axis of the grid"] = (
                blocks.ravel()
            )
    for what, order in orders.items():
        retraced = partial(_retraced, workload=workload, machine=machine, tracing=tracing)
        yield Change(
            what=what,
            remedy="group order",
            alter=partial(retraced, order=order),
            code=("# derive the group's place from its linear id in this order",),
        )


def _retraced(
    start: Changed,
    *,
    workload: Any,
    machine: Machine,
    tracing: TraceOptions,
    order: np.ndarray[Any, Any],
) -> Changed:
    """Traces the groups that run together in another order. order : group ids in the order of starting"""
    n = start.traces[0].n_groups
    first = (len(order) - n) // 2
    chosen = sorted(int(one) for one in order[first : first + n])
    tracing = tracing.replace(groups=chosen)
    (trace,) = trace_snapshots(workload, machine, snapshots=1, options=tracing)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return replace(start, traces=[reordered(trace, place[np.unique(trace.workgroup)])])


def _with_options(start: Changed, **changes: Any) -> Changed:
    return replace(start, options=start.options.replace(**changes))


def _with_what_if(start: Changed, *, text: str) -> Changed:
    return replace(start, what_if=text)


Reload = Callable[[Mapping[str, str]], Any]
"""(settings) -> the workload with these settings of `--set`."""


def shapes(
    workload: Any, settings: Mapping[str, str], reload: Reload | None, cores: int = 0
) -> Iterator[tuple[str, Any]]:
    """Workloads with a group for each of `cores`, where a text asks how many there are, and with groups of other shapes:
    where the text of a kernel cannot depend on them, and where a setting is the extent of a group, and of nothing
    else: the arguments stay the same."""
    if isinstance(workload, (Workload, TritonWorkload, BinaryWorkload)):
        return
    if strides_over_grid(workload):
        yield from _more_groups(workload, cores)
    if is_free_of_shape(workload):
        yield from _free_shapes(workload)
        return
    local = launch_shape(workload)[0]
    for name, text in settings.items():
        if reload is None or not text.isdecimal() or int(text) not in local or int(text) < 2:
            continue
        for value in (int(text) // 2, 2 * int(text)):
            try:
                other = reload({**settings, name: str(value)})
            except MemsimError:
                continue
            shape = launch_shape(other)[0]
            if shape != local and _same_arguments(workload, other):
                yield f"{name}={value}: groups of {_text(shape)}", other


def triton_options(workload: Any, machine: Machine) -> Iterator[tuple[str, Any]]:
    """Kernels in Triton with a stage of their software pipelines more and less, and with twice and half the warps."""
    if not isinstance(workload, TritonWorkload):
        return
    now: dict[str, Any] = dict(TRITON_DEFAULTS.get(machine.vendor, TRITON_DEFAULTS["NVIDIA"]))
    if workload.configurations:
        now |= dict(_TRITON_OPTION.findall(workload.configurations[workload.config]))
    now |= workload.settings
    stages, warps = int(now["num_stages"]), int(now["num_warps"])
    for name, old, values in (
        ("num_stages", stages, (stages + 1, stages - 1)),
        ("num_warps", warps, (2 * warps, warps // 2)),
    ):
        for value in values:
            if value > 0:
                settings = {**workload.settings, name: value}
                yield f"{name}={value} instead of {old}", replace(workload, settings=settings)


def _same_arguments(workload: Any, other: Any) -> bool:
    """Whether two workloads compute the same: a size of the problem may be the extent of a group."""
    left, right = (
        list(one.values()) if isinstance(one, Mapping) else list(one)
        for one in (workload.arguments, other.arguments)
    )
    return len(left) == len(right) and all(map(np.array_equal, left, right))


def launch_shape(workload: Any) -> tuple[Shape, Shape]:
    """Work-items of a group, and of the launch, along each axis."""
    if hasattr(workload, "local_size"):
        local, total = _as_long(_tuple(workload.local_size), _tuple(workload.global_size))
        return local, total
    local, grid = _as_long(_tuple(workload.block), _tuple(workload.grid))
    return local, tuple(map(mul, grid, local))


def _with_shape(workload: Any, local: Shape, total: Shape) -> Any:
    if hasattr(workload, "local_size"):
        return replace(workload, local_size=local, global_size=total)
    return replace(workload, block=local, grid=tuple(map(floordiv, total, local)))


def _free_shapes(workload: Any) -> Iterator[tuple[str, Any]]:
    local, total = launch_shape(workload)
    for factors in ((0.5,), (2,), (0.25,), (4,), (2, 0.5), (0.5, 2)):
        padded = (*factors, *(1,) * (len(local) - len(factors)))
        new = tuple(int(a * f) for a, f in zip(local, padded, strict=False))
        fits = 32 <= math.prod(new) <= 1024 and 0 not in new
        if fits and not any(whole % part for whole, part in zip(total, new, strict=True)):
            yield f"groups of {_text(new)}", _with_shape(workload, new, total)


def _more_groups(workload: Any, cores: int) -> Iterator[tuple[str, Any]]:
    local, total = launch_shape(workload)
    n_groups = math.prod(map(floordiv, total, local))
    if not 0 < n_groups < cores:
        return
    times = -(-cores // n_groups)
    groups = tuple(map(floordiv, total, local))
    more = (groups[0] * times, *groups[1:])
    what = (
        f"{times * n_groups} groups instead of {n_groups}, among which the kernel divides its work"
    )
    yield what, _with_shape(workload, local, tuple(map(mul, more, local)))


def _as_long(*shapes: Shape) -> tuple[Shape, ...]:
    """Shapes of equally many axes."""
    n = max(map(len, shapes))
    return tuple((*shape, *(1,) * (n - len(shape))) for shape in shapes)


def _text(shape: Shape) -> str:
    return " x ".join(map(str, shape))


def _tuple(value: Any) -> Shape:
    return tuple(value) if isinstance(value, (tuple, list)) else (int(value),)


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OPENCL = re.compile(
    r"\b(?:get_local_id|get_local_size|get_group_id|get_num_groups|reqd_work_group_size|__?local|barrier"
    r"|work_group_barrier|sub_group_\w+|work_group_\w+)\b"
)
_AXIS = r"\s*\.\s*([xyz])"
_GLOBAL_ID = re.compile(
    rf"blockIdx{_AXIS}\s*\*\s*blockDim\s*\.\s*\1\s*\+\s*threadIdx\s*\.\s*\1"
    rf"|threadIdx{_AXIS}\s*\+\s*blockIdx\s*\.\s*\2\s*\*\s*blockDim\s*\.\s*\2"
    rf"|blockDim{_AXIS}\s*\*\s*blockIdx\s*\.\s*\3\s*\+\s*threadIdx\s*\.\s*\3"
)
_WHOLE_GRID = re.compile(
    rf"gridDim{_AXIS}\s*\*\s*blockDim\s*\.\s*\1|blockDim{_AXIS}\s*\*\s*gridDim\s*\.\s*\2"
)
_OPENCL_GRID = re.compile(r"\bget_global_size\b")
_CUDA = re.compile(
    r"\b(?:blockIdx|blockDim|threadIdx|gridDim|__shared__|__sync\w*|__launch_bounds__|__shfl\w*"
    r"|__ballot\w*|__any\w*|__all\w*|cooperative_groups|warpSize|hipBlockDim_\w|hipThreadIdx_\w)\b"
)


def is_free_of_shape(workload: Any) -> bool:
    """Whether an OpenCL C or CUDA C++ text uses global ids alone, so that groups may have any shape.

    The whole file is read, without what it includes: a file with any use of a group's shape, local memory
    or a barrier counts as dependent, and so does one with `#include "..."`.
    """
    text = _text_of(workload)
    if text is None or re.search(r'#\s*include\s*"', text):
        return False
    text = _COMMENT.sub(" ", text)
    if hasattr(workload, "local_size"):
        return not _OPENCL.search(text)
    return not _CUDA.search(_WHOLE_GRID.sub("0", _GLOBAL_ID.sub("0", text)))


def strides_over_grid(workload: Any) -> bool:
    """Whether a text asks for the number of its work-items, as one does that computes the same with any number of groups."""
    text = _COMMENT.sub(" ", _text_of(workload) or "")
    opencl = hasattr(workload, "local_size")
    return bool((_OPENCL_GRID if opencl else _WHOLE_GRID).search(text))


def _text_of(workload: Any) -> str | None:
    source, path = getattr(workload, "source", None), getattr(workload, "path", None)
    if source is not None:
        return str(source)
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace") if path else None
    except OSError:
        return None
