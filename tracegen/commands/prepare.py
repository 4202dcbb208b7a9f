"""Compiles what `memsim profile` needs, so that no first command of a user waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracegen.commands.kernel import KernelSpec

MACHINES = ("v100", "a100", "mi250x")
"""Loops are compiled for the features of a machine; these three have those of most others."""


def gather(n: int = 1 << 19) -> Any:
    """A kernel whose addresses depend on data, so that it is run and recorded; with a loop and a store."""
    import loopy as lp
    import numpy as np

    from tracegen import Workload

    kernel = lp.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < 4}"],
        "out[i] = sum(j, table[index[i] + j])",
        name="gather",
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
    index = np.arange(n, dtype=np.int32)[::-1].copy()
    return Workload(kernel, {"table": np.ones(n + 4, np.float32), "index": index})


def shift(n: int = 1 << 12) -> Any:
    """A kernel whose addresses are affine, so that it is traced without being run."""
    import loopy as lp
    import numpy as np

    from tracegen import Workload

    kernel = lp.make_kernel(
        "{[i]: 0 <= i < n - 1}", "out[i] = x[i + 1]", name="shift", lang_version=(2018, 2)
    )
    kernel = lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
    return Workload(kernel, {"x": np.ones(n, np.float32)})


def prepare_loops() -> None:
    """Compiles the interpreter's loops in another process, and meanwhile those of a replay in this one; what the last
    machine needs besides is the other's too, which ends first.

    Raises MemsimError where kernels cannot be traced or replayed at all.
    """
    import tracegen.execution.prepare
    from tracegen.own_process import Limits, in_own_process

    *most, last = MACHINES

    def other() -> None:
        tracegen.execution.prepare.prepare()
        _replay_shift(last)

    in_own_process(other, Limits(), "the interpreter", lambda: _replay_shift(*most))


def _replay_shift(*machines: str) -> None:
    """Replays a kernel that is traced without the interpreter."""
    import memsim
    from tracegen.commands.kernel import trace_snapshots
    from tracegen.options import TraceOptions
    from tracegen.own_process import Limits

    options = TraceOptions(start=True, tracer="polyhedral")
    for name in machines:
        machine = memsim.load_machine(name)
        memsim.replay(trace_snapshots(_spec(shift), machine, options, 3, Limits()), machine)


def prepare(name: str) -> None:
    """Traces two small kernels for a machine and profiles one; what is compiled for it is kept for later
    processes.

    Raises MemsimError where kernels cannot be traced or replayed at all.
    """
    import memsim
    from memsim.commands import progress_bar, timed
    from memsim.report import summarise
    from tracegen.commands.kernel import trace_snapshots
    from tracegen.options import TraceOptions
    from tracegen.own_process import Limits

    machine = memsim.load_machine(name)
    trace_snapshots(_spec(shift), machine, TraceOptions(start=True), 3, Limits())
    traces = trace_snapshots(_spec(gather), machine, TraceOptions(start=True), 3, Limits())
    with progress_bar("replaying") as progress:
        replay = memsim.replay(traces, machine, progress=progress)
    summarise(timed(replay, traces, machine).dataset)


def _spec(kernel: Callable[..., Any]) -> KernelSpec:
    from tracegen.commands.kernel import KernelSpec

    return KernelSpec(f"{__name__}:{kernel.__name__}", {}, None)
