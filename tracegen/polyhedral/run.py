"""The traces of one launch by walking its program."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from memsim.trace import GrowingColumns, room
from tracegen.instrumented.merge import new_lanes
from tracegen.instrumented.source_run import GRANULE_ROW_BYTES, SourceRun
from tracegen.instrumented.tokens import FAULT_WORDS
from tracegen.polyhedral.code import Code, CodeWriter
from tracegen.polyhedral.lower import lower
from tracegen.polyhedral.walk import FRESH, GROUP, Walk, walk
from tracegen.recording.snapshot import Groups

ACCESS_ROW_BYTES = 18


class PolyhedralRun(SourceRun):
    """One launch that is walked instead of run."""

    tracer = "polyhedral"
    libraries = ("loopy", "numba", "numpy")

    @cached_property
    def program(self) -> CodeWriter:
        """The launch's program; raises NotStatic where an access or its control needs a run."""
        layout = self.layout
        return lower(
            self.prepared.instrumented.probed,
            self.launch.program,
            self.launch.settings,
            self.launch.kernel,
            layout.sizes,
            lambda position: layout.sites[layout.site_of[position]].name,
        )

    @cached_property
    def _code(self) -> Code:
        return self.program.finish(self.launch.group_shape, self.subgroup_size)

    def columns(self, groups: Groups) -> dict[str, Any]:
        launch, tables = self.launch, self.layout.tables
        half = self.options.memory_bytes // 2
        n_granule = half // 2 // GRANULE_ROW_BYTES + 64 * tables.most_granules
        n_subgroup = -(-launch.group_items // self.subgroup_size) * len(groups)
        out = room(n_subgroup, max(half // 2 // ACCESS_ROW_BYTES, 1), n_granule)
        at, fault = np.zeros(FRESH + 1, np.int64), np.zeros(FAULT_WORDS, np.int64)
        grid = (*launch.grid, 1, 1)
        state = Walk(
            code=self._code,
            tables=tables,
            lanes=new_lanes(tables),
            values=self._code.values.copy(),
            masks=np.zeros(self._code.n_mask, np.int64),
            grid0=grid[0],
            grid1=grid[1],
            group_items=launch.group_items,
            subgroup_size=self.subgroup_size,
            reduced=self.options.reduced,
        )
        pieces = GrowingColumns(memory_bytes=half, keep_hits=self.keep_hits)
        while at[GROUP] < len(groups):
            lengths = walk(state, groups, out, at, fault)
            if fault[0]:
                raise launch.fault_of(fault, int(fault[5]))
            pieces.append(out, *lengths)
        return pieces.finish()
