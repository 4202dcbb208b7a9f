"""Every shipped kernel through every command on machines of each maker: a result, or one line."""

from __future__ import annotations

import importlib
import inspect
from collections import Counter
from pathlib import Path

import pytest

from tests.support.kernel_matrix import KERNELS, MACHINES, SHIPPED, Cell, Shipped, prepare, walk
from tracegen import OpenCLWorkload, Workload

pytestmark = [
    pytest.mark.filterwarnings("default::memsim.errors.SnapshotWarning"),
    pytest.mark.filterwarnings("ignore:Aff.is_equal with implicit:DeprecationWarning"),
]

SAMPLE = {
    ("matmul.py:tiled", "v100"),
    ("graphs.py:bfs_level", "mi250x"),
    ("merge_sort.cl:sort_tiles", "v100"),
    ("rodinia/elimination.py:lud", "cpu-pocl"),
    ("f.floopy:neighbours", "mi250x"),
    ("f.floopy:neighbours", "arc_b580"),
}


def cells_of(
    kernel: Shipped, machine: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> list[Cell]:
    prepare(folder)
    found = list(walk(kernel, machine, folder, lambda: tuple(capsys.readouterr())))  # type: ignore[arg-type]
    for cell in found:
        words = " ".join(cell.words)
        assert cell.accepted, f"memsim {words}\nended with code {cell.code}:\n{cell.error}"
    return found


def test_every_builder_is_in_the_matrix() -> None:
    """All functions of experiments.kernels that return a workload."""
    listed = {kernel.spec.replace(".cl:", ".py:") for kernel in SHIPPED}
    for path in sorted(KERNELS.rglob("*.py")):
        inside = path.relative_to(KERNELS)
        name = ".".join(["experiments", "kernels", *inside.with_suffix("").parts])
        module = importlib.import_module(name)
        for function, value in vars(module).items():
            made_here = inspect.isfunction(value) and value.__module__ == name
            if function.startswith("_") or function.endswith("_of") or not made_here:
                continue
            made = inspect.signature(value, eval_str=True).return_annotation
            if made in (Workload, OpenCLWorkload):
                assert f"{inside}:{function}" in listed
    for path in KERNELS.rglob("*.cl"):
        source = path.read_text(encoding="utf-8")
        assert any(k.spec.startswith(path.name) for k in SHIPPED) or "spmv" in path.name, source


@pytest.mark.parametrize(
    ("kernel", "machine"),
    [*{(k.spec, m): (k, m) for k in SHIPPED for m in MACHINES if (k.spec, m) in SAMPLE}.values()],
    ids=lambda value: value if isinstance(value, str) else value.spec,
)
def test_a_sample(
    kernel: Shipped, machine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = Counter(cell.command for cell in cells_of(kernel, machine, tmp_path, capsys))
    assert {"trace", "profile", "predict", "count", "blocks", "compile"} <= commands.keys()


@pytest.mark.slow
def test_every_kernel_on_every_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    total, refusals = 0, Counter[str]()
    for number, kernel in enumerate(SHIPPED):
        for machine in MACHINES:
            folder = tmp_path / f"{number}-{machine}"
            folder.mkdir()
            found = cells_of(kernel, machine, folder, capsys)
            total += len(found)
            refusals.update(f"{c.command}: {c.refusal[8:88]}" for c in found if c.code)
    print(f"{len(SHIPPED)} kernels, {len(MACHINES)} machines, {total} runs")
    print(f"{refusals.total()} refused:", *refusals.most_common(), sep="\n")
