"""`memsim compile`: a kernel's machine code for a GPU that is not there.

Nothing heavy is imported here: the help of `memsim` loads this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memsim.commands import (
    STDOUT,
    check_outputs,
    console,
    json_option,
    machine_option,
    out_option,
    working,
    wrote_json,
)
from memsim.errors import MemsimError
from tracegen.commands.kernel import KernelSpec, kernel_options

if TYPE_CHECKING:
    from tracegen.compiled import CompiledKernel, MachineCode


@click.command("compile")
@kernel_options
@machine_option
@click.option(
    "--target",
    metavar="NAME",
    help="Compile for this target, such as sm_90 or gfx90a, instead of the machine's.",
)
@click.option(
    "--launch",
    type=click.IntRange(min=0),
    metavar="I",
    help="Only the kernel of launch I, from 0, of a kernel that has several.",
)
@click.option(
    "--registers-limit",
    type=click.IntRange(min=1, max=512),
    metavar="N",
    help="Use at most N vector registers a work-item.",
)
@json_option("the report")
@out_option(
    "Write the code as text: PTX to FILE.ptx, NVIDIA's assembly to FILE.sass, AMD's to FILE.s;"
    " with - the assembly is printed instead of the report.",
    required=False,
)
def compile_(
    kernel: KernelSpec,
    machine: str,
    target: str | None,
    launch: int | None,
    registers_limit: int | None,
    json_out: Path | None,
    output: Path | None,
) -> int:
    """Compile a kernel for a machine's GPU, without that GPU.

    Prints the registers, spills and local memory that the vendor's compiler reports, the occupancy,
    and the instructions of each basic block. Needs clang, and for NVIDIA ptxas and nvdisasm: 'memsim
    doctor' reports whether they are installed. KERNEL is as in 'memsim profile'.

    \b
    Examples:
      memsim compile experiments/kernels/stencil.py:stencil7 -m v100
      memsim compile kernel.cl:name --args args.py:make -m mi250x -o kernel.s
      memsim compile experiments/kernels/stencil.py:stencil7 -m v100 --target sm_90 -o - | less
    """
    check_outputs({"--out": None if output == STDOUT else output, "--json": json_out})
    if output == json_out == STDOUT:
        raise MemsimError("--json - and --out - both write to standard output: leave out one")
    with working("compiling"):
        compiled = _compiled(kernel, machine, target, launch, registers_limit)
    if output is not None:
        text = _text(compiled, output)
        if output == STDOUT:
            click.echo(text)
            return 0
        from memsim.files import write_text

        write_text(output, text)
        click.echo(f"wrote {output}", err=True)
    _report(compiled, json_out)
    return 0


def _compiled(
    kernel: KernelSpec,
    machine: str,
    target: str | None,
    launch: int | None,
    registers_limit: int | None,
) -> list[CompiledKernel]:
    from memsim.machine import load_machine
    from tracegen.compiled import CompiledKernel
    from tracegen.machine_code.binding import bind

    on = load_machine(machine)
    chosen = target or on.compiler_target
    if not chosen:
        raise MemsimError(f"machine {on.name} has no compiler_target: name one with --target")
    launches = list(bind(kernel.load(), chosen, registers=registers_limit))
    if launch is not None:
        if launch >= len(launches):
            raise MemsimError(f"--launch must be at most {len(launches) - 1}, got {launch}")
        launches = [launches[launch]]
    kernels = {(one.name, one.group_shape): one for one in reversed(launches)}
    return [
        CompiledKernel(
            name=one.name,
            code=one.code,
            machine=on,
            group_shape=one.group_shape,
            local_memory_bytes=one.local_memory_bytes,
        )
        for one in reversed(kernels.values())
    ]


def _text(compiled: list[CompiledKernel], output: Path) -> str:
    if len(compiled) != 1:
        names = ", ".join(kernel.name for kernel in compiled)
        raise MemsimError(f"--out takes one kernel, there are {names}: name one with --launch")
    code = compiled[0].code
    texts = _texts(code)
    if output == STDOUT:
        return code.listing
    if output.suffix not in texts:
        listed = " or ".join(texts)
        raise MemsimError(f"--out for {code.target} must end in {listed}, got {output}")
    return texts[output.suffix]


def _texts(code: MachineCode) -> dict[str, str]:
    """Suffix of a file -> its text."""
    if code.intermediate:
        return {".ptx": code.intermediate, ".sass": code.listing}
    return {".s": code.listing}


def _report(compiled: list[CompiledKernel], json_out: Path | None) -> None:
    from tracegen.compiled import compiled_to_json

    if wrote_json(lambda: compiled_to_json(compiled), json_out):
        return
    screen = console()
    for kernel in compiled:
        for line in kernel.lines():
            click.echo(line)
        screen.print(kernel.table())
        for note in (*kernel.code.stand_ins, *kernel.code.notes):
            click.echo(f"note: {note}")
