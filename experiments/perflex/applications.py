"""The three applications of Stevens and Klöckner 2020, section 8: their variants, sizes and
models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calib.kernels import ALL_GENERATORS, KernelCollection, MeasurementKernel

LINEAR = "c_overhead + c_gmem + c_onchip"
OVERLAP = "c_overhead + overlap(c_gmem, c_onchip, p_edge)"
"""Equations (7) and (8) of the paper."""

SIMULATED_GMEM = (
    "p_l1 * f_sim_l1_sectors + p_l2 * f_sim_l1_miss_sectors + p_below * f_sim_l2_miss_sectors"
)
"""Global memory by simulated misses, with the same three costs for every access pattern."""

Tags = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of the variants.

    own : the sizes to which the `own` models are fitted
    tests : the sizes that all models predict; at the last one the variants are also measured with
        their on-chip work removed
    """

    own: tuple[int, ...]
    tests: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Application:
    """One application.

    model : the shipped model file with the costs and the measurement kernels (Figure 6)
    whole : tags of the variants; sizes are added
    cpu, gpu : sizes for CPUs and for GPUs
    variant : the argument in which the variants differ, or the first of two
    labels : value of that argument -> name of the variant
    own : tag -> parameter of the `own` model, which has one cost for each variant
    paper_error : geometric mean of the relative error over five GPUs, in percent
    size : the argument that is the size
    """

    name: str
    title: str
    model: str
    whole: Tags
    cpu: Sizes
    gpu: Sizes
    variant: str
    labels: Mapping[str, str]
    own: Mapping[str, str]
    paper_error: float
    size: str

    def kernels(self, part: str, *, on_gpu: bool = False) -> list[MeasurementKernel]:
        """The kernels of one part: "own" or "test"."""
        sizes = self.gpu if on_gpu else self.cpu
        chosen = {"own": sizes.own, "test": sizes.tests}[part]
        size_tag = f"{self.size}:{','.join(map(str, chosen))}"
        return kernels(tuple((*one, size_tag) for one in self.whole))

    def label(self, kernel: MeasurementKernel) -> str:
        return self.labels[str(kernel.variant[self.variant])]

    def own_costs(self) -> str:
        """The expression of the `own` model: one cost for each variant and one for a launch."""
        terms = [f"{parameter} * f_mem_access_tag:{tag}" for tag, parameter in self.own.items()]
        return " + ".join([*terms, "p_launch * f_sync_kernel_launch"])


def kernels(tags: Tags) -> list[MeasurementKernel]:
    """The measurement kernels that several lists of tags select."""
    collection = KernelCollection(ALL_GENERATORS)
    return [kernel for one in tags for kernel in collection.generate_kernels(one)]


_MATMUL = ("dtype:float32", "groups_fit:True")
_FD16 = ("dtype:float32", "lsize_0:16", "lsize_1:16")
_FD18 = ("dtype:float32", "lsize_0:18", "lsize_1:18")

MATMUL = Application(
    name="matmul",
    title="Matrix product",
    model="matmul",
    whole=(("matmul_sq", *_MATMUL),),
    cpu=Sizes(own=(64, 96, 128, 160), tests=(80, 112, 144)),
    gpu=Sizes(own=(1024, 1536, 2048, 2560), tests=(1280, 1792, 2304)),
    variant="prefetch",
    labels={"True": "prefetch", "False": "no prefetch"},
    own={"mmPFa": "p_PF", "mmnoPFb": "p_noPF"},
    paper_error=4.3,
    size="n",
)
DG = Application(
    name="dg",
    title="DG differentiation",
    model="dg",
    whole=(("dg_diff", "dtype:float32"),),
    cpu=Sizes(own=(64, 128, 256, 384), tests=(96, 192, 320)),
    gpu=Sizes(own=(32768, 65536, 131072), tests=(49152, 98304, 114688)),
    variant="variant",
    labels={
        "noPF": "no prefetch",
        "uPF": "u prefetched",
        "dPF": "diff_mat prefetched",
        "dPFT": "diff_mat, u transposed",
    },
    own={"dgnoPFu": "p_noPF", "dguPFu": "p_uPF", "dgdPFu": "p_dPF", "dgdPFTu": "p_dPFT"},
    paper_error=7.5,
    size="nelements",
)
FINITE_DIFF = Application(
    name="finite_diff",
    title="Finite differences",
    model="finite_diff",
    whole=tuple(("finite_diff", *tile) for tile in (_FD16, _FD18)),
    cpu=Sizes(own=(224, 448, 672, 896), tests=(336, 560, 784)),
    gpu=Sizes(own=(4032, 6048, 8064), tests=(5040, 7056, 7840)),
    variant="lsize_0",
    labels={"16": "16 x 16", "18": "18 x 18"},
    own={"fd16u": "p_16", "fd18u": "p_18"},
    paper_error=6.7,
    size="n",
)
APPLICATIONS = {one.name: one for one in (MATMUL, DG, FINITE_DIFF)}
