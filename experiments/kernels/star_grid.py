"""The grid and the arrays of a star stencil: dst = 0.25 * (sum of 6 radius + 1 points of src)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.kernels.parameters import data, require_indexable, require_positive

_ALIGN_ELEMENTS = 32  # 256 bytes of float64


@dataclass(frozen=True, kw_only=True)
class StarGrid:
    """The interior of a star stencil, and its place in flat arrays, in elements.

    radius : neighbours in each direction of each axis
    lead : before the allocation's first row;  first : before the first interior element, which is aligned
        to 256 bytes
    """

    radius: int
    interior: tuple[int, int, int]
    pitch: int
    plane: int
    lead: int
    first: int
    n_element: int

    @classmethod
    def checked(cls, radius: int, nx: int, ny: int, nz: int, pitch: int) -> StarGrid:
        """pitch : elements from one row to the next, 0 for nx + 2 radius"""
        require_positive(radius=radius, nx=nx, ny=ny, nz=nz)
        halo = 2 * radius
        pitch = pitch or nx + halo
        require_positive(pitch=pitch - nx - halo + 1)
        plane = pitch * (ny + halo)
        corner = radius * (plane + pitch + 1)  # from the allocation's start to the interior's
        lead = -corner % _ALIGN_ELEMENTS
        n_element = lead + plane * (nz + halo)
        require_indexable(src=n_element)
        return cls(
            radius=radius,
            interior=(nx, ny, nz),
            pitch=pitch,
            plane=plane,
            lead=lead,
            first=lead + corner,
            n_element=n_element,
        )

    def arrays(self, filled: bool) -> dict[str, Any]:
        src = data(self.n_element, np.float64) if filled else np.zeros(self.n_element)
        return {"src": src, "dst": np.zeros(src.shape, src.dtype)}

    def check(self, src: Any) -> Callable[[Mapping[str, Any]], None]:
        def check(outputs: Mapping[str, Any]) -> None:
            shape = (-1, self.plane // self.pitch, self.pitch)
            source, result = (flat[self.lead :].reshape(shape) for flat in (src, outputs["dst"]))
            inside = [slice(self.radius, self.radius + extent) for extent in self.interior[::-1]]
            expected = source[tuple(inside)].copy()
            for axis in range(3):
                for distance in range(-self.radius, self.radius + 1):
                    part = list(inside)
                    part[axis] = slice(part[axis].start + distance, part[axis].stop + distance)
                    expected += source[tuple(part)] if distance else 0
            np.testing.assert_allclose(
                result[tuple(inside)], 0.25 * expected, rtol=0, atol=700 * np.finfo(np.float64).eps
            )

        return check
