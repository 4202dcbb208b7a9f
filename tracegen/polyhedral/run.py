"""The traces of one launch by walking its program."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from memsim.trace import GRANULE, Columns, GrowingColumns
from tracegen.instrumented.host import PreparedLoopy
from tracegen.instrumented.launch import LoopyLaunch
from tracegen.polyhedral import code as c
from tracegen.polyhedral import knowledge, patterns
from tracegen.polyhedral.code import CodeWriter
from tracegen.polyhedral.forms import Affine
from tracegen.polyhedral.lower import lower
from tracegen.polyhedral.walk import FRESH, GROUP, Walk, scratch, walk
from tracegen.probes.tokens import FAULT_WORDS
from tracegen.recording import snapshot
from tracegen.recording.launch import fault_of
from tracegen.recording.passes import GRANULE_ROW_BYTES, LaunchRun

ACCESS_ROW_BYTES = 18
MOST_ACCESSES = np.iinfo(np.int32).max
"""Of one sub-group: a trace numbers them with 32 bits."""


class PolyhedralRun(LaunchRun):
    """One launch that is walked instead of run."""

    tracer = "polyhedral"
    libraries = ("loopy", "numba", "numpy")
    prepared: PreparedLoopy
    launch: LoopyLaunch

    @cached_property
    def program(self) -> CodeWriter:
        """The launch's program; raises NotStatic where an access or its control needs a run."""
        sites = self.layout.sites
        return lower(
            self.prepared.instrumented.probed,
            self.launch.program,
            self.launch.settings,
            self.launch.kernel,
            self.layout.sizes,
            self._write_access,
            lambda position: sites.sites[sites.site_of[position]].name,
        )

    def whole(self) -> None:
        pass

    def complete(self) -> None:
        pass

    def columns(self, groups: snapshot.Groups) -> dict[str, Any]:
        return _Walker(self).record(groups)

    def affordable(self, groups: snapshot.Groups, wave: int, part: float = 1.0) -> snapshot.Groups:
        walker = _Walker(self)
        return snapshot.within_budget(
            groups,
            walker.count(groups),
            wave,
            lambda sample: len(walker.record(groups[sample])["granule"]),
            part,
        )

    def _write_access(
        self, code: CodeWriter, position: int, mask: int, index: Affine, elements: int
    ) -> None:
        stride, size = self.layout.tables.stride[position], self.layout.tables.size[position]
        shape = code.shape(index, int(stride), int(size))
        code.write(c.ACCESS, position, mask, code.form(index), elements, shape)

    def device(self) -> Mapping[str, Any]:
        return {}


class _Walker:
    """Walks groups of one launch, as many at a time as fit into memory."""

    def __init__(self, run: PolyhedralRun) -> None:
        launch, width = run.launch, run.subgroup_size
        self.run, self.tables = run, run.layout.tables
        self.code = run.program.finish(launch.group_shape, width)
        self.n_subgroup = -(-launch.group_items // width)
        self.scratch = scratch(self.code, self.tables)
        self.known = knowledge.room(self.tables.n_key)
        self.patterns = patterns.room(self.tables.most_granules)

    def count(self, groups: snapshot.Groups) -> npt.NDArray[np.int64]:
        """(n_group,) the tokens that an instrumented run would write for each."""
        tokens = np.zeros(len(groups), np.int64)
        self._walk(groups, _room(0, 1, 1), tokens, np.zeros(FRESH + 1, np.int64), recording=False)
        return tokens

    def record(self, groups: snapshot.Groups) -> dict[str, Any]:
        """Column name of a Trace -> array; without a copy where the trace fills what memory it may use."""
        half = self.run.options.memory_bytes // 2
        n_access = max(half // 2 // ACCESS_ROW_BYTES, 1)
        n_granule = half // 2 // GRANULE_ROW_BYTES + 64 * self.tables.most_granules
        tokens, at = np.zeros(len(groups), np.int64), np.zeros(FRESH + 1, np.int64)
        out = _room(len(groups) * self.n_subgroup, n_access, n_granule)
        lengths = self._walk(groups, out, tokens, at, recording=True)
        if at[GROUP] == len(groups):
            return _compact(self._columns(out, *lengths), half)
        pieces = GrowingColumns(memory_bytes=half, keep_hits=self.run.keep_hits)
        with contextlib.closing(pieces):
            pieces.append(out, *lengths)
            while at[GROUP] < len(groups):
                lengths = self._walk(groups, out, tokens, at, recording=True)
                pieces.append(out, *lengths)
            return pieces.finish()

    def _walk(
        self,
        groups: snapshot.Groups,
        out: Columns,
        tokens: npt.NDArray[np.int64],
        at: npt.NDArray[np.int64],
        *,
        recording: bool,
    ) -> tuple[int, int, int]:
        fault = np.zeros(FAULT_WORDS, np.int64)
        launch = self.run.launch
        grid = (*launch.grid, 1, 1)
        state = Walk(
            code=self.code,
            tables=self.tables,
            scratch=self.scratch,
            known=self.known,
            patterns=self.patterns,
            grid0=grid[0],
            grid1=grid[1],
            group_items=launch.group_items,
            subgroup_size=self.run.subgroup_size,
            recording=recording,
            reduced=self.run.reduced,
            most_accesses=MOST_ACCESSES,
        )
        end: tuple[int, int, int] = walk(state, groups, out, tokens, at, fault)
        if fault[0] == 2:
            raise KernelError(
                f"{launch.kernel}: a sub-group may make at most {MOST_ACCESSES} accesses, and one of its"
                " sub-groups makes more"
            )
        if fault[0]:
            raise fault_of(launch, fault, int(fault[5]))
        return end

    def _columns(
        self, out: Columns, n_subgroup: int, n_access: int, n_granule: int
    ) -> dict[str, Any]:
        lengths = dict.fromkeys(("site", "starts_sequence", "waits", "lanes"), n_access)
        lengths |= dict.fromkeys(GRANULE, n_granule)
        if not self.run.keep_hits:
            del lengths["lane_hits"]
        columns = {name: getattr(out, name)[:length] for name, length in lengths.items()}
        ends = out.granule_end.base
        assert ends is not None
        offset = np.zeros(n_subgroup + 1, np.int64)
        np.cumsum(out.subgroup_accesses[:n_subgroup], out=offset[1:])
        return columns | {"granule_offset": ends[: n_access + 1], "subgroup_offset": offset}


def _compact(columns: dict[str, Any], room_bytes: int) -> dict[str, Any]:
    """The columns, copied where they take less than half of their room, which limits on memory count."""
    if 2 * sum(column.nbytes for column in columns.values()) >= room_bytes:
        return columns
    return {name: column.copy() for name, column in columns.items()}


def _room(n_subgroup: int, n_access: int, n_granule: int) -> Columns:
    """Columns of the given lengths; pages are committed where they are written."""
    ends = np.empty(n_access + 1, np.int64)
    ends[0] = 0
    return Columns(
        np.empty(n_subgroup, np.int64),
        np.empty(n_access, np.int32),
        np.empty(n_access, np.bool_),
        np.empty(n_access, np.int32),
        np.empty(n_access, np.uint8),
        ends[1:],
        np.empty(n_granule, np.int64),
        np.empty(n_granule, np.uint32),
        np.empty(n_granule, np.uint8),
        np.empty(n_granule, np.uint8),
    )
