"""`memsim count KERNEL FEATURE...`: counted features as quasi-polynomials, and their values.

Imports nothing heavy: the group's help loads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memsim.commands import STDOUT, check_outputs, output_path, setting_option, working
from memsim.errors import MemsimError

if TYPE_CHECKING:
    from calib.counting.count_formulas import Count

GENERATOR = "uipick:"
UNITS = ("work-item", "sub-group", "work-group", "kernel")


@click.command()
@click.argument("spec", metavar="KERNEL")
@click.argument("features", metavar="[FEATURE]...", nargs=-1)
@setting_option
@click.option(
    "--subgroup-size",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    metavar="N",
    help="Lanes of a sub-group.",
)
@click.option(
    "--granularity",
    type=click.Choice(UNITS),
    help="Count once per this. [default: what each feature is counted by]",
)
@click.option("--index-arithmetic", is_flag=True, help="Count operations in subscripts too.")
@click.option(
    "--trips",
    multiple=True,
    metavar="LOOP=AVERAGE",
    help="Average trips of a loop that values from memory bound; repeat for more.",
)
@click.option(
    "--both-branches",
    is_flag=True,
    help="Count both branches where a value from memory decides.",
)
@click.option(
    "--measure", is_flag=True, help="Trace the launch for what only values in memory decide."
)
@click.option("--check", is_flag=True, help="Compare the counts with a trace of the launch.")
@output_path("--json", "json_out", help="Write the counts as JSON; - for the console.")
def count(
    spec: str,
    features: tuple[str, ...],
    settings: dict[str, str],
    subgroup_size: int,
    granularity: str | None,
    index_arithmetic: bool,
    trips: tuple[str, ...],
    both_branches: bool,
    measure: bool,
    check: bool,
    json_out: Path | None,
) -> int:
    """Count what a kernel does, as a quasi-polynomial of its sizes.

    KERNEL is FILE.py:NAME or PACKAGE.MODULE:NAME as for 'memsim profile', or uipick:GENERATOR, whose
    settings are its tags. Without a FEATURE the kernel's memory accesses are listed, with strides.

    \b
    Examples:
      memsim count experiments/kernels/matmul.py:tiled f_op_float32_madd --set n=512
      memsim count uipick:dg_diff f_sync_barrier_local --set variant=uPF --set dtype=float32 ...
      memsim count experiments/kernels/spmv.py:spmv f_op_float32_madd --measure
    """
    check_outputs({"--json": json_out})
    if measure and (trips or both_branches):
        raise MemsimError("--measure finds what --trips and --both-branches give: take one")
    from calib.counting.feature_counts import kernel_counts
    from calib.counting.options import CountOptions

    kernel, sizes = _kernel(spec, settings)
    options: dict[str, Any] = {
        "trip_counts": dict(_trips(each) for each in trips),
        "taken": "both" if both_branches else {},
    }
    if measure:
        from calib.counting.control_flow_from_trace import measure_control_flow

        with working("tracing"):
            options = measure_control_flow(kernel, sizes, subgroup_size=subgroup_size)
    options |= {
        "subgroup_size": subgroup_size,
        "granularity": granularity,
        "index_arithmetic": index_arithmetic,
    }
    chosen = CountOptions(**options)
    counts = kernel_counts(kernel)
    found = {text: counts.count(text, chosen) for text in features or ()}
    if check:
        from calib.counting.trace_check import counting_check

        with working("tracing"):
            compared = counting_check(kernel, sizes, subgroup_size=subgroup_size)
        click.echo(f"{len(compared)} counts equal those of a trace", err=True)
    rows = [_row(text, each, sizes) for text, each in found.items()]
    if json_out is not None:
        text = json.dumps(
            {"kernel": counts.inventory.name, "sizes": sizes, "counts": rows}, indent=1
        )
        if json_out == STDOUT:
            click.echo(text)
            return 0
        json_out.write_text(text + "\n", encoding="utf-8")
        click.echo(f"wrote {json_out}", err=True)
    if not features:
        _list(counts, sizes)
    for row in rows:
        per = f" per {row['unit']}" if row["unit"] else ""
        click.echo(f"{row['feature']}{per}\n   {row['count']}")
        at = ", ".join(f"{name} = {sizes[name]}" for name in row["parameters"])
        click.echo(f"   = {row['value']}{f' at {at}' if at else ''}")
    return 0


def _row(text: str, count: Count, sizes: Mapping[str, int]) -> dict[str, Any]:
    value = count.value(sizes)
    return {
        "feature": text,
        "unit": count.unit,
        "count": str(count),
        "parameters": list(count.parameters),
        "value": int(value) if value.denominator == 1 else float(value),
    }


def _list(counts: Any, sizes: Mapping[str, int]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from memsim.commands import console

    table = Table(title=f"memory accesses of {counts.inventory.name}")
    for column in ("access", "memory", "type", "lid strides", "gid strides", "once per"):
        table.add_column(column)
    for access in counts.inventory.accesses:
        name = f"{access.direction} {access.text}"
        table.add_row(
            escape(f"{name} ({access.tag})" if access.tag else name),
            access.memory,
            access.dtype,
            _strides(access.local_strides),
            _strides(access.group_strides),
            access.granularity,
        )
    console().print(table)


def _strides(strides: tuple[Any, ...]) -> str:
    return ", ".join(
        f"{axis}: {'?' if stride is None else stride}" for axis, stride in enumerate(strides)
    )


def _trips(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    try:
        if name and equals:
            return name, float(value)
    except ValueError:
        pass
    raise MemsimError(f"--trips must be LOOP=AVERAGE, got {text!r}")


def _kernel(spec: str, settings: Mapping[str, str]) -> tuple[Any, dict[str, int]]:
    """The kernel and its sizes."""
    if spec.startswith(GENERATOR):
        from calib.kernels import ALL_GENERATORS, KernelCollection

        tags = [spec.removeprefix(GENERATOR), *(f"{k}:{v}" for k, v in settings.items())]
        found = KernelCollection(ALL_GENERATORS).generate_kernels(tags)
        if len(found) > 1:
            names = "; ".join(kernel.name for kernel in found[:3])
            raise MemsimError(
                f"{spec} is {len(found)} kernels ({names}, ...): --set what tells them apart"
            )
        return found[0], dict(found[0].env)
    from calib.counting.kernel_arguments import sizes_of
    from tracegen.workloads import load_kernel

    workload = load_kernel(spec, settings)
    return workload, sizes_of(workload)
