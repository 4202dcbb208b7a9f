"""The machine code of a launch that is traced, where a compiler for the machine is installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from memsim.errors import KernelError
from memsim.machine import Machine
from tracegen.compiled.compile import compile_kernel
from tracegen.compiled.rearrange import CompiledLaunch
from tracegen.options import Compiler
from tracegen.probes.program import Probe
from tracegen.recording.launch import BoundLaunch, Layout, Prepared
from tracegen.recording.sequences import ragged


def compiled_launch(
    prepared: Prepared, launch: BoundLaunch, machine: Machine | None, compiler: Compiler
) -> CompiledLaunch | str:
    """The machine code of a launch, or why there is none ("" where none is needed)."""
    if compiler == "none" or machine is None or not machine.compiler_target:
        return ""
    try:
        code = compile_kernel(
            prepared.source,
            launch.name,
            machine.compiler_target,
            build_options=prepared.build_options,
            group_shape=launch.group_shape,
        )
    except KernelError as error:
        return str(error)
    return CompiledLaunch(code, prepared.source, launch.program.probes, launch.layout.sites)


def by_position(layout: Layout, probes: Sequence[Probe]) -> Layout:
    """A layout whose tables take every position for a site of its own."""
    offset, feed = ragged([sorted(probe.feeds) for probe in probes])
    site = np.arange(len(probes), dtype=np.int32)
    is_access = np.array([number >= 0 for number in layout.sites.site_of], np.bool_)
    tables = layout.tables._replace(
        site=np.where(is_access, site, np.int32(-1)).astype(np.int32),
        feed_offset=offset,
        feed=feed,
        n_site=len(probes),
    )
    return replace(layout, tables=tables)
