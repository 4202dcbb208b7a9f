"""Kernels that somebody has compiled: PTX, cubins, and AMD's assembly and code objects.

PTX is assembled by ptxas for the machine, a cubin and a code object are shown by their makers' disassemblers. Files come from
anywhere: what they say of sizes is checked before memory is taken.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePath

from msgspec import structs

from memsim.errors import KernelError, one_line
from memsim.files import temporary_folder
from tracegen.compiled.amd import back_end as amd
from tracegen.compiled.amd.gcn_metadata import USER_REGISTERS
from tracegen.compiled.build_options import read_options
from tracegen.compiled.model import Instruction, Location, MachineCode
from tracegen.compiled.nvidia import back_end as nvidia
from tracegen.compiled.nvidia.nvidia_ptx import number
from tracegen.compiled.nvidia.sass import read_sass, without_encodings
from tracegen.compiled.request import Request
from tracegen.compiled.source_files import FILE
from tracegen.tools import cache
from tracegen.tools.process import run
from tracegen.tools.toolchain import INSTALL_LLVM, nvidia_tools, objdump_tools

MOST_BYTES = 256 << 20
MOST_SHARED_BYTES, MOST_STACK_BYTES, MOST_VARIABLE_BYTES = 1 << 20, 1 << 20, 1 << 30
"""Of a block, of a thread, and of a program's variables."""
_ENTRY = re.compile(r"^\s*(?:\.(?:visible|weak)\s+)?\.entry\s+([\w$]+)", re.MULTILINE)
_AMD_TARGET = re.compile(r'^\s*\.amdgcn_target "[^"\n]*\b(gfx\w+)', re.MULTILINE)
_PTX_TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.MULTILINE)
_POSITION = re.compile(r'^[ \t]*//## File "([^"]*)", line \d+.*$', re.MULTILINE)
_LOC = re.compile(r"^[ \t]*\.loc[ \t]+(\d+)[^\n]*\n?", re.MULTILINE)
_INLINE = re.compile(r"// begin inline asm.*?// end inline asm", re.DOTALL)
_AMD_POSITION = re.compile(r"^; ([^\n]*/[^\n]*):\d+(?: \(.*\))?$", re.MULTILINE)
_AMD_MADE_FOR = re.compile(r"^amdhsa\.target: .*\b(gfx\w+)", re.MULTILINE)
_NVIDIA, _AMD = 190, 224
"""ELF's numbers of processors."""
_ABI_OF_HOPPER = 8
"""From this version of the format on, the target stands elsewhere in the flags."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompiledText:
    """The code of a kernel, and the text whose lines its instructions have.

    file, text : of the user's source where it lies beside the code, else of the code itself; "" where it has no lines
    types : of the parameters in PTX, `u32`, `f32`, `b64` and so on; empty in machine code, which does not say them
    """

    code: MachineCode
    file: str
    text: str
    types: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _PtxRequest(Request):
    """A kernel in PTX. named : the file whose lines are wanted"""

    named: str

    @property
    def lines_before(self) -> Mapping[str, int]:
        return {PurePath(self.named).name: 0}


def read_file(
    path: Path, kernel: str | None, target: str, registers: int | None = None
) -> CompiledText:
    """A kernel of a file, for a target. Raises KernelError where the file has no such kernel, or is for another GPU."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise KernelError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise KernelError(f"{path} has more than {MOST_BYTES} bytes")
    try:
        return _READERS[path.suffix](data, path, kernel, target, registers)
    except (struct.error, IndexError, KeyError, ValueError, RecursionError, OverflowError) as error:
        kind = path.suffix[1:]
        raise KernelError(f"{path} is damaged, or no {kind}: {one_line(error)}") from None


def _one(path: Path, kernel: str | None, known: list[str]) -> str:
    """The kernel that is meant."""
    listed = ", ".join(known) or "none"
    if not known:
        raise KernelError(f"{path} has no kernel")
    if kernel is None and len(known) != 1:
        raise KernelError(f"{path} has the kernels {listed}: name one")
    if kernel is not None and kernel not in known:
        raise KernelError(f"{path} has no kernel {kernel}; it has {listed}")
    return kernel or known[0]


def _text_beside(path: Path, name: str) -> str:
    """The text of a source that the code names, if it lies beside the code; files elsewhere are not opened."""
    source = path.parent / PurePath(name).name
    if not PurePath(name).name or not source.is_file() or source.stat().st_size > MOST_BYTES:
        return ""
    return source.read_text(encoding="utf-8", errors="replace")


def _ptx(
    data: bytes, path: Path, kernel: str | None, target: str, registers: int | None
) -> CompiledText:
    text = data.decode("utf-8", "replace")
    files = {key: name or folder for key, folder, name in FILE.findall(text)}
    named = Counter(files.get(key, "") for key in _LOC.findall(text))
    file = max(named, key=lambda name: named[name], default="")
    source = _text_beside(path, file)
    if not source:
        file, source, text = str(path), text, _with_own_lines(text, path.name)
    kernel = _one(path, kernel, _ENTRY.findall(text))
    code = assembled(text, kernel, target, file, registers)
    return CompiledText(code=code, file=file, text=source, types=_types(text, kernel))


def _types(ptx: str, kernel: str) -> tuple[str, ...]:
    """The type of each parameter of a kernel."""
    found = re.search(rf"\.entry\s+{re.escape(kernel)}\s*\(([^)]*)\)", ptx)
    listed = re.findall(r"\.param((?:\s+\.\w+(?:\s+\d+)?)+)\s", found[1] if found else "")
    return tuple(next(iter(re.findall(r"\.([usfb]\d+)\b", declared)), "") for declared in listed)


def _with_own_lines(ptx: str, name: str) -> str:
    """PTX whose instructions have the lines of the PTX itself."""
    made, begins = [], True
    for count, line in enumerate(_LOC.sub("\n", FILE.sub("", ptx)).split("\n"), 1):
        words = line.partition("//")[0].strip()
        if begins and re.match(r"[@a-z{]", words) and words.endswith(";"):
            made.append(f".loc 1 {count} 1")
        made.append(line)
        begins = not words or words[-1] in ";{}:"
    return "\n".join([*made, f'.file 1 "{name}"', ""])


def assembled(
    ptx: str, kernel: str, target: str, file: str, registers: int | None = None
) -> MachineCode:
    """The machine code of a kernel in PTX, in which instructions have the lines of a file."""
    if not target.startswith("sm_"):
        raise KernelError(f"kernel {kernel} is PTX, for NVIDIA's GPUs, not for {target}")
    made_for = _PTX_TARGET.search(ptx)
    wanted = made_for[1] if made_for else ""
    if wanted and number(wanted) > number(target):
        raise KernelError(f"kernel {kernel}: its PTX is for {wanted} and later, not for {target}")
    if wanted[-1:] in ("a", "f") and number(wanted) != number(target):
        raise KernelError(f"kernel {kernel}: its PTX is for {wanted} alone, not for {target}")
    # LLVM takes the lines of inline assembly for lines of the source: only the first position there is the user's.
    ptx = _INLINE.sub(
        lambda block: _LOC.sub("", block[0]) if block[0].count(".loc") else block[0], ptx
    )
    request = _PtxRequest(
        text=ptx,
        kernel=kernel,
        target=wanted if wanted[-1:] in ("a", "f") else target,
        options=read_options(()),
        group_shape=None,
        registers_limit=registers,
        by="ptx",
        named=file,
    )
    return dataclasses.replace(nvidia.machine_code(request), target=target)


def _cubin(
    data: bytes, path: Path, kernel: str | None, target: str, registers: int | None
) -> CompiledText:
    from tracegen.compiled.nvidia.cubin import read_cubin

    flags = _elf_flags(data, path, _NVIDIA)
    own = flags >> 8 & 255 if data[8] >= _ABI_OF_HOPPER else flags & 255
    if not (own // 10 == number(target) // 10 and own <= number(target)):
        raise KernelError(f"{path} has code for sm_{own}, which {target} does not run")
    names = [match.decode() for match in re.findall(rb"\0\.nv\.info\.([\w$.]+)(?=\0)", data)]
    kernel = _one(path, kernel, list(dict.fromkeys(names)))
    cubin = read_cubin(data, kernel)
    sizes = {
        "shared memory of a block": (cubin.static_local_bytes, MOST_SHARED_BYTES),
        "stack of a thread": (cubin.stack_bytes, MOST_STACK_BYTES),
        "variables": (sum(one.size_bytes for one in cubin.variables.values()), MOST_VARIABLE_BYTES),
    }
    for what, (size, most) in sizes.items():
        if size > most:
            raise KernelError(
                f"{path}: kernel {kernel} has {size} bytes of {what}, of at most {most}"
            )
    tool = nvidia_tools().nvdisasm

    def made() -> tuple[MachineCode, Mapping[str, str]]:
        listing = nvidia.disassembled(data, tool)
        blocks, notes = read_sass(_of_file(listing, _main_file(listing, _POSITION)), kernel, own)
        code = MachineCode(
            kernel=kernel,
            target=f"sm_{own}",
            blocks=tuple(block.with_each(_with_line) for block in blocks),
            registers_per_item=cubin.registers,
            local_memory_bytes=cubin.static_local_bytes,
            private_bytes=cubin.stack_bytes,
            listing=without_encodings(listing),
            binary=data,
            tools={tool.name: tool.version},
            notes=notes,
        )
        return code, {}

    key = cache.key("cubin", hashlib.sha256(data).hexdigest(), kernel, tool.identity)
    code = cache.kept(key, MachineCode, made)
    file = _main_file(code.listing, _POSITION)
    return CompiledText(code=code, file=file, text=_text_beside(path, file))


def _main_file(listing: str, position: re.Pattern[str]) -> str:
    """The file that most lines of a listing come from, "" if it has none."""
    files = Counter(match[1] for match in position.finditer(listing))
    return max(files, key=lambda name: files[name], default="")


def _of_file(listing: str, file: str) -> str:
    """A listing with the positions in one file alone."""
    return _POSITION.sub(lambda match: match[0] if match[1] == file else "", listing)


def _with_line(one: Instruction) -> Instruction:
    """An instruction whose origin is a line of the source."""
    return structs.replace(one, location=Location(one.origin) if one.origin else None, origin=None)


def _elf_flags(data: bytes, path: Path, machine: int) -> int:
    """The flags of an ELF file for a kind of processor."""
    if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", data, 18)[0] != machine:
        raise KernelError(f"{path} is no ELF file for this maker's GPUs")
    return int(struct.unpack_from("<I", data, 48)[0])


def _amdgcn(
    data: bytes, path: Path, kernel: str | None, target: str, registers: int | None
) -> CompiledText:
    listing = data.decode("utf-8", "replace")
    made_for = _AMD_TARGET.search(listing)
    if made_for and made_for[1] != target:
        raise KernelError(f"{path} has code for {made_for[1]}, which {target} does not run")
    kernel = _one(path, kernel, amd.KERNEL.findall(listing))
    files = Counter(name or folder for _, folder, name in FILE.findall(listing))
    file = max(files, key=lambda name: files[name], default="")
    return CompiledText(
        code=amd_code(listing, kernel, target, file or None),
        file=file,
        text=_text_beside(path, file),
    )


def amd_code(listing: str, kernel: str, target: str, file: str | None) -> MachineCode:
    """The machine code of a kernel in AMD's assembly, in which instructions have the lines of a file."""
    return amd.read_code(listing, kernel, target, {PurePath(file).name: 0} if file else None)


def _hsaco(
    data: bytes, path: Path, kernel: str | None, target: str, registers: int | None
) -> CompiledText:
    """A code object as the assembly that clang would have written, by LLVM's tools."""
    _elf_flags(data, path, _AMD)
    objdump, readobj = objdump_tools()
    with temporary_folder() as folder:
        (folder / "kernel").write_bytes(data)
        shown = run([objdump, "-d", "-l", "--symbolize-operands", "kernel"], folder)
        notes = run([readobj, "--notes", "--elf-output-style=LLVM", "kernel"], folder)
        symbols = run([objdump, "-t", "kernel"], folder)
    metadata = notes.output.partition("---\n")[2].partition("\n...")[0]
    made_for = _AMD_MADE_FOR.search(metadata)
    if made_for is None:
        raise KernelError(f"{path} has no metadata of kernels for AMD's GPUs")
    if made_for[1] != target:
        raise KernelError(f"{path} has code for {made_for[1]}, which {target} does not run")
    if shown.status:
        reason = " ".join(shown.errors.split())
        raise KernelError(f"{objdump} cannot read {path} ({INSTALL_LLVM}): {reason}")
    kernel = _one(path, kernel, re.findall(r"^    \.symbol: +'?([\w.$]+)\.kd'?", metadata, re.M))
    file = _main_file(shown.output, _AMD_POSITION)
    listing = "\n".join(
        [
            *(f'\t.file 1 "{file}"', *_as_written(shown.output, file)),
            *_descriptor(data, symbols.output, kernel),
            *(".amdgpu_metadata", metadata, ".end_amdgpu_metadata", ""),
        ]
    )
    if "s_getpc_b64" in listing:
        raise KernelError(f"{path}: code objects with variables or functions are not run")
    code = amd_code(listing, kernel, target, file or None)
    return CompiledText(code=code, file=file, text=_text_beside(path, file))


def _as_written(shown: str, file: str) -> Iterator[str]:
    """What llvm-objdump shows, with labels and positions as clang writes them."""
    for line in shown.splitlines():
        if label := re.match(r"(?:[0-9a-f]+ )?<([\w.$]+)>:", line):
            yield f"{label[1]}:"
        elif position := _AMD_POSITION.match(line):
            if position[1] == file:
                yield f"\t.loc 1 {line.rpartition(':')[2].split()[0]} 0"
        elif line.startswith("\t"):
            yield line.partition("//")[0].rstrip()


def _descriptor(data: bytes, symbols: str, kernel: str) -> Iterator[str]:
    """The directives of a kernel's descriptor. Source: LLVM, "User Guide for AMDGPU Backend", section "Kernel Descriptor"."""
    found = re.search(
        rf"^([0-9a-f]+) .* (\S+)\t[0-9a-f]+ (?:\.\w+ )?{re.escape(kernel)}\.kd$", symbols, re.M
    )
    start, count, names = (
        struct.unpack_from("<Q", data, 40)[0],
        *struct.unpack_from("<HH", data, 60),
    )
    heads = [struct.unpack_from("<IIQQQQ", data, start + 64 * k) for k in range(count)]
    at = None
    for name, _, _, base, offset, size in heads:
        called = data[heads[names][4] + name :].partition(b"\0")[0].decode("latin-1")
        if found and called == found[2] and 0 <= int(found[1], 16) - base <= size - 64:
            at = offset + int(found[1], 16) - base
    if at is None:
        raise KernelError(f"the code object has no descriptor of kernel {kernel}")
    one, two, properties, preload = struct.unpack_from("<IIHH", data, at + 48)
    yield f".amdhsa_kernel {kernel}"
    for bit, name in enumerate(USER_REGISTERS):
        yield f".amdhsa_user_sgpr_{name} {properties >> bit & 1}"
    yield f".amdhsa_user_sgpr_count {two >> 1 & 31}"
    for bit, axis in enumerate("xyz"):
        yield f".amdhsa_system_sgpr_workgroup_id_{axis} {two >> 7 + bit & 1}"
    yield f".amdhsa_system_vgpr_workitem_id {two >> 11 & 3}"
    yield f".amdhsa_float_denorm_mode_32 {one >> 16 & 3}"
    yield f".amdhsa_user_sgpr_kernarg_preload_length {preload & 127}"
    yield f".amdhsa_user_sgpr_kernarg_preload_offset {preload >> 7}"
    yield ".end_amdhsa_kernel"


_READERS: dict[str, Callable[[bytes, Path, str | None, str, int | None], CompiledText]] = {
    ".ptx": _ptx,
    ".cubin": _cubin,
    ".amdgcn": _amdgcn,
    ".hsaco": _hsaco,
}
