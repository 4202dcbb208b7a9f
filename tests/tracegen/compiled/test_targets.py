"""What compilers write for every target can be read, where the compilers are installed."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.compiled_code import access, instructions_of
from tests.support.compilers import needs_nvidia
from tracegen.compiled.amd.gcn import read_gcn
from tracegen.compiled.amd.gcn_metadata import read_resources
from tracegen.compiled.amd.gcn_opcodes import names
from tracegen.compiled.model import BasicBlock
from tracegen.compiled.nvidia.back_end import mark_spills
from tracegen.compiled.nvidia.ptx import number_instructions
from tracegen.compiled.nvidia.sass import read_sass
from tracegen.tools.toolchain import find_clang, nvidia_tools

PROGRAMS = Path(__file__).parent / "programs"
FAST = ("sm_75", "sm_90", "sm_120", "gfx803", "gfx90a", "gfx1030")


def targets(*names: str) -> list[Any]:
    """Of each form of code one is tested in the fast suite."""
    return [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in names]


NVIDIA = targets("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
AMD = targets("gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx940", "gfx942", "gfx1030")

CLANG = ["-x", "cl", "-cl-std=CL1.2", "-O3", "-S", "-w", "-nogpulib"]


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)


@dataclass(frozen=True)
class Assembled:
    """ptx : the text;  listing : nvdisasm's of the machine code;  log : what ptxas reports"""

    ptx: str
    cubin: Path
    listing: str
    log: str


Assemble = Callable[..., Assembled]


@pytest.fixture(scope="module")
def assemble(tmp_path_factory: pytest.TempPathFactory) -> Assemble:
    """assemble(program, target, *options): once each; `many.cl` is compiled for sm_70, which later targets understand."""
    tools = nvidia_tools()

    @functools.cache
    def ptx(program: str) -> str:
        if program.endswith(".ptx"):
            return (PROGRAMS / program).read_text()
        folder = tmp_path_factory.mktemp("ptx")
        target = ["-target", "nvptx64-nvidia-nvcl", "-Xclang", "-target-cpu", "-Xclang", "sm_70"]
        words = (*target, *CLANG, "-gline-directives-only", PROGRAMS / program, "-o", "k.ptx")
        run(folder, tools.clang.path, *words)
        return (folder / "k.ptx").read_text()

    @functools.cache
    def assembled(program: str, target: str, *options: str) -> Assembled:
        if target not in tools.ptxas.targets:
            pytest.skip(f"{tools.ptxas} does not compile for {target}")
        folder, text = tmp_path_factory.mktemp(target), ptx(program)
        (folder / "k.ptx").write_text(number_instructions(text)[0])
        assembler = (tools.ptxas.path, f"-arch={target}", "-v", "-lineinfo", *options)
        log = run(folder, *assembler, "k.ptx", "-o", "k.cubin").stderr
        listing = run(folder, tools.nvdisasm.path, "-g", "-c", "k.cubin").stdout
        return Assembled(text, folder / "k.cubin", listing, log)

    return assembled


@pytest.mark.weekly(2)
@needs_nvidia
@pytest.mark.parametrize("target", NVIDIA)
def test_nvidia(target: str, assemble: Assemble) -> None:
    made = assemble("many.cl", target)
    kernels = re.findall(r"\.entry (\w+)", made.ptx)
    assert len(kernels) == 14
    for kernel in kernels:
        blocks, notes = read_sass(made.listing, kernel)
        check(blocks, notes, entry={"R1"}, ends=("EXIT", "RET", "BPT"))
        check_memory(blocks, kernel)


def check_memory(blocks: tuple[BasicBlock, ...], kernel: str) -> None:
    used = {access(one)[0] for one in instructions_of(blocks) if one.memory}
    assert ("local" in used) == (kernel in ("tiles", "atomics"))
    assert "global" in used
    assert kernel != "private_array" or "private" in used


@pytest.mark.weekly(2)
@needs_nvidia
@pytest.mark.parametrize("target", NVIDIA[1:])
def test_nvidia_beyond_opencl(target: str, assemble: Assemble) -> None:
    listing = assemble("matrix.ptx", target).listing
    for kernel in ("matrices", "table"):
        blocks, notes = read_sass(listing, kernel)
        check(blocks, notes, entry={"R1"}, ends=("EXIT", "BPT"))
    pipes = {one.pipe for one in instructions_of(read_sass(listing, "matrices")[0])}
    assert pipes >= {"tensor", "special", "barrier", "wait", "load_store"}


@pytest.mark.weekly(2)
@needs_nvidia
@pytest.mark.parametrize("target", ["sm_75", "sm_120"])
def test_spills_are_those_that_ptxas_reports(target: str, assemble: Assemble) -> None:
    made = assemble("many.cl", target, "-maxrregcount=32", "--entry=crowded")
    report = re.search(
        r"for crowded\s.*?(\d+) bytes spill stores, (\d+) bytes spill loads", made.log, re.S
    )
    assert report is not None
    blocks = mark_spills(read_sass(made.listing, "crowded")[0], number_instructions(made.ptx)[1])
    spills = [access(one) for one in instructions_of(blocks) if one.memory and one.memory.spill]
    for direction, reported in (("store", report[1]), ("load", report[2])):
        assert sum(size for _, way, size in spills if way == direction) == int(reported) > 0


@pytest.mark.weekly(2)
@pytest.mark.parametrize("target", AMD)
def test_amd(target: str, tmp_path: Path) -> None:
    clang = find_clang("amdgcn")
    if clang is None or target not in clang.targets:
        pytest.skip(f"no clang compiles for {target}")
    machine = ("-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-cl-kernel-arg-info")
    options = (*machine, *CLANG, "-gline-tables-only")
    run(tmp_path, clang.path, *options, PROGRAMS / "many.cl", "-o", "many.s")
    text = (tmp_path / "many.s").read_text()
    kernels = re.findall(r"^\s*\.amdhsa_kernel (\w+)", text, re.MULTILINE)
    assert len(kernels) == 14
    for kernel in kernels:
        blocks, notes = read_gcn(text, kernel)
        check(blocks, notes, entry=set(), ends=("s_endpgm",))
        named = [name for one in instructions_of(blocks) for name in names(one.text)]
        highest = max(int(name[1:]) for name in named if re.fullmatch(r"v\d+", name))
        assert highest < read_resources(text, kernel).registers_per_item


def check(
    blocks: tuple[BasicBlock, ...], notes: tuple[str, ...], entry: set[str], ends: tuple[str, ...]
) -> None:
    """No opcode is unknown, blocks are linked, and every register is written before it is read."""
    assert not any("unknown" in note for note in notes)
    for block in blocks:
        last = block.instructions[-1]
        assert block.successors or last.opcode.split(".")[0] in ends
    written = [entry, *(set[str]() for _ in blocks[1:])]
    waiting = [0]
    reached = {0}
    while waiting:
        index = waiting.pop()
        known = written[index].union(*(one.writes for one in blocks[index].instructions))
        for successor in blocks[index].successors:
            if not known <= written[successor] or successor not in reached:
                reached.add(successor)
                written[successor] |= known
                waiting.append(successor)
    assert reached == set(range(len(blocks)))
    for block, known in zip(blocks, written, strict=True):
        for instruction in block.instructions:
            assert set(instruction.reads) <= known, instruction.text
            known |= set(instruction.writes)


@pytest.mark.weekly(2)
@needs_nvidia
@pytest.mark.parametrize("program", ["many.cl", "matrix.ptx"])
@pytest.mark.parametrize("target", targets("sm_90", "sm_100", "sm_120"))
def test_registers_are_those_of_nvdisasms_life_ranges(
    target: str, program: str, assemble: Assemble
) -> None:
    command = [nvidia_tools().nvdisasm.path, "-plr", "-c", assemble(program, target).cubin]
    ranges = subprocess.run(command, capture_output=True, text=True)
    if "flow analysis is disabled" in ranges.stderr:
        pytest.skip("this nvdisasm follows no registers of that ptxas's code")
    compared = 0
    for text, reads, writes in life_ranges(ranges.stdout):
        (block,) = read_sass(f"\t.section\t.text.k\n{text}\n", "k")[0]
        (instruction,) = block.instructions
        if instruction.opcode.startswith("CALL"):  # which has everything that the function uses
            continue
        assert (set(instruction.reads), set(instruction.writes)) == (reads, writes), text
        compared += 1
    assert compared > 100


def life_ranges(listing: str) -> Iterator[tuple[str, set[str], set[str]]]:
    """Each instruction with the registers that nvdisasm marks as read (v, x) and written (^, x).

    The head of the table of a function names its groups of columns; the next line has the numbers.
    """
    kinds = {"GPR": "R", "PRED": "P", "UGPR": "UR", "UPRED": "UP"}
    groups: list[str] = []
    columns: dict[int, str] = {}
    for line in listing.splitlines():
        text, _, table = line.partition("// |")
        if "GPR" in table:
            groups = [kinds[name.strip()] for name in table.split("|")[:-1]]
        elif "#" in table:
            columns = dict(_columns(groups, table))
        elif re.match(r"\s+/\*[0-9a-f]+\*/", text):
            marks = {name: table[column] for column, name in columns.items()}
            yield (
                text,
                {name for name, mark in marks.items() if mark in "vx"},
                {name for name, mark in marks.items() if mark in "^x"},
            )


def _columns(groups: list[str], head: str) -> Iterator[tuple[int, str]]:
    """Column of a mark, under the last digit of its register, and the register's name."""
    start = 0
    for kind, part in zip(groups, head.split("|")[:-1], strict=True):
        for number in re.finditer(r"\d+", part):
            yield start + number.end() - 1, f"{kind}{number[0]}"
        start += len(part) + 1
