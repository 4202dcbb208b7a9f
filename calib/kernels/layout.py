"""The array layout of kernels whose access pattern is specified by strides."""

from __future__ import annotations

from dataclasses import dataclass

from calib.kernels.building import require_multiple
from calib.kernels.collection import TagError


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A flat array that a 2-D grid of work-items covers once: item (i0, i1) is at s0 i0 + s1 i1.

    stride_0, stride_1 : elements between neighbours along each axis; the larger one is the width of
        a row
    """

    stride_0: int
    stride_1: int

    @property
    def width(self) -> int:
        return max(self.stride_0, self.stride_1)

    @property
    def domain(self) -> str:
        """Bounds of i0 and i1; the number of rows, `rows`, is a parameter."""
        across = self.width // min(self.stride_0, self.stride_1)
        if self.stride_0 <= self.stride_1:
            return f"0 <= i0 < {across} and 0 <= i1 < rows"
        return f"0 <= i0 < rows and 0 <= i1 < {across}"

    @property
    def index(self) -> str:
        return f"{self.stride_0} * i0 + {self.stride_1} * i1"

    @property
    def shape(self) -> str:
        return f"{self.width} * rows"

    def rows_unit(self, lsize_0: int, lsize_1: int) -> int:
        """The unit of which the number of rows must be a multiple."""
        return lsize_1 if self.stride_0 <= self.stride_1 else lsize_0

    def rows(self, nelements: int, lsize_0: int, lsize_1: int) -> int:
        """The number of rows with `nelements` elements; raises TagError if groups do not fit."""
        least = min(self.stride_0, self.stride_1)
        if self.width % least:
            raise TagError(
                f"one stride must be a multiple of the other, got {self.stride_0} and"
                f" {self.stride_1}"
            )
        across = lsize_0 if self.stride_0 <= self.stride_1 else lsize_1
        require_multiple(
            lid_stride=(self.width, least * across),
            nelements=(nelements, self.width * self.rows_unit(lsize_0, lsize_1)),
        )
        return nelements // self.width
