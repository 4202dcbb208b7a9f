"""`memsim count KERNEL FEATURE...`: counted features as quasi-polynomials, and their values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calib.counting.options import CountOptions
from memsim.commands import check_outputs, json_option, working, wrote_json
from memsim.errors import MemsimError
from memsim.options import command_options
from tracegen.commands import KernelSpec, kernel_options

if TYPE_CHECKING:
    from calib.counting.count_formulas import Count

GENERATOR = "uipick:"


@click.command()
@kernel_options
@click.argument("features", metavar="[FEATURE]...", nargs=-1)
@command_options(CountOptions)
@click.option(
    "--measure",
    is_flag=True,
    help="Take the iterations and branches that depend on values in memory from a trace.",
)
@click.option("--check", is_flag=True, help="Compare the counts with a trace of the launch.")
@json_option("the counts")
def count(
    kernel: KernelSpec,
    features: tuple[str, ...],
    options: CountOptions,
    measure: bool,
    check: bool,
    json_out: Path | None,
) -> int:
    """Count a kernel's operations and memory accesses, as quasi-polynomials in its sizes.

    KERNEL is FILE.py:NAME, PACKAGE.MODULE:NAME or FILE.floopy:SUBROUTINE as for 'memsim profile', or
    uipick:GENERATOR, whose settings are its tags. Without a FEATURE, the command lists the kernel's memory accesses and strides.

    \b
    Examples:
      memsim count experiments/kernels/matmul.py:tiled f_op_float32_madd --set n=512
      memsim count uipick:dg_diff f_sync_barrier_local --set variant=uPF --set dtype=float32 ...
      memsim count experiments/kernels/spmv.py:spmv f_op_float32_madd --measure
    """
    check_outputs({"--json": json_out})
    if measure and (options.trip_counts or options.taken):
        raise MemsimError("--measure replaces --trips and --both-branches: give only one of them")
    from calib.counting.feature_counts import kernel_counts

    loaded, sizes = kernel_and_sizes(kernel.spec, kernel.settings, kernel.arguments)
    subgroup_size = options.subgroup_size
    if measure:
        from calib.counting.control_flow_from_trace import measure_control_flow

        with working("tracing"):
            measured = measure_control_flow(loaded, sizes, subgroup_size=subgroup_size)
        options = options.replace(**measured)
    counts = kernel_counts(loaded)
    rows = [_row(text, counts.count(text, options), sizes) for text in features]
    if check:
        from calib.counting.trace_check import counting_check

        with working("tracing"):
            compared = counting_check(loaded, sizes, subgroup_size=subgroup_size)
        click.echo(f"{len(compared)} counts equal those of a trace", err=True)
    document = {"kernel": counts.inventory.name, "sizes": sizes, "counts": rows}
    if not wrote_json(lambda: json.dumps(document, indent=1), json_out):
        _show(counts, sizes, rows)
    return 0


def _show(counts: Any, sizes: Mapping[str, int], rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints the counts, or without any the kernel's memory accesses."""
    if not rows:
        _list(counts, sizes)
    for row in rows:
        per = f" per {row['unit']}" if row["unit"] else ""
        click.echo(f"{row['feature']}{per}\n   {row['count']}")
        at = ", ".join(f"{name} = {sizes[name]}" for name in row["parameters"])
        click.echo(f"   = {row['value']}{f' at {at}' if at else ''}")


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
    from memsim.commands import console
    from memsim.report import PlainTable

    rows = [
        (
            f"{access.direction} {access.text}{f' ({access.tag})' if access.tag else ''}",
            access.memory,
            access.dtype,
            _strides(access.local_strides),
            _strides(access.group_strides),
            access.granularity,
        )
        for access in counts.inventory.accesses
    ]
    columns = ("access", "memory", "type", "lid strides", "gid strides", "once per")
    console().print(PlainTable(f"memory accesses of {counts.inventory.name}", columns, rows))


def _strides(strides: tuple[Any, ...]) -> str:
    return ", ".join(
        f"{axis}: {'?' if stride is None else stride}" for axis, stride in enumerate(strides)
    )


def kernel_and_sizes(
    spec: str, settings: Mapping[str, str], arguments: str | None = None
) -> tuple[Any, dict[str, int]]:
    """The kernel that a command line specifies, and its sizes."""
    if spec.startswith(GENERATOR):
        from calib.kernels import ALL_GENERATORS, KernelCollection

        tags = [spec.removeprefix(GENERATOR), *(f"{k}:{v}" for k, v in settings.items())]
        generated = KernelCollection(ALL_GENERATORS).generate_kernels(tags)
        if len(generated) > 1:
            names = "; ".join(kernel.name for kernel in generated[:3])
            raise MemsimError(
                f"{spec} stands for {len(generated)} kernels ({names}, ...): choose one by --set"
            )
        return generated[0], dict(generated[0].env)
    from calib.counting.kernel_arguments import sizes_of
    from tracegen.workloads import load_kernel

    workload = load_kernel(spec, settings, arguments)
    return workload, sizes_of(workload)
