"""Every shipped kernel through every command on machines of each maker: a result, or one line."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from tests.support.cuda_kernels import needs_clang
from tests.support.kernel_matrix import KERNELS, MACHINES, SHIPPED, Shipped, prepare, walk
from tests.support.weeks import part_of
from tracegen import OpenCLWorkload, Workload

pytestmark = [
    pytest.mark.filterwarnings("default::memsim.errors.SnapshotWarning"),
    pytest.mark.filterwarnings("ignore:.* with implicit conversion:DeprecationWarning"),
]

SAMPLE = (
    ("matmul.py:tiled", "n=50 tile=8 dtype=float64", "v100"),
    ("f.floopy:neighbours", "", "mi250x"),
    ("rodinia/elimination.py:lud", "n=64", "cpu-pocl"),
    ("convolution.cu:convolution", "image_size=64", "v100"),
    ("graphs.py:bfs_level", "n=1000", "mi250x"),
    ("f.floopy:neighbours", "n=1000", "arc_b580"),
    ("merge_sort.cl:sort_tiles", "n=5000", "v100"),
)
"""Kernel, settings and machine of those that run outside the slow suite, one of them each week."""
A_WEEK = 1


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
        names = (f"{path.name}:", f":{path.stem}")
        listed_here = any(name in k.spec for k in SHIPPED for name in names)
        assert listed_here or "spmv" in path.name, source


def marks(kernel: Shipped, machine: str) -> list[pytest.MarkDecorator]:
    runs = (kernel.spec, kernel.settings, machine) in part_of(SAMPLE, A_WEEK)
    slow = [] if runs else [pytest.mark.slow]
    return slow + [needs_clang] * (".cu:" in kernel.spec)


@pytest.mark.parametrize(
    ("kernel", "machine"),
    [pytest.param(k, m, marks=marks(k, m)) for k in SHIPPED for m in MACHINES],
    ids=lambda value: value if isinstance(value, str) else f"{value.spec} {value.settings}",
)
def test_every_command(
    kernel: Shipped,
    machine: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With -s, prints how each command line ended as it goes."""
    prepare(tmp_path)
    commands, wrong = set(), []
    for cell in walk(kernel, machine, tmp_path, lambda: tuple(capsys.readouterr())):  # type: ignore[arg-type]
        line = f"{cell.code} {cell.command}: memsim {' '.join(cell.words)}"
        if request.config.option.capture == "no":
            with capsys.disabled():
                print(f"\n{line}: {cell.refusal}", end="", flush=True)
        commands.add(cell.command)
        if not cell.accepted:
            wrong.append(f"{line}\n{cell.error}")
    assert not wrong, "\n".join(wrong)
    assert {"trace", "profile", "predict", "count", "blocks", "compile"} <= commands
