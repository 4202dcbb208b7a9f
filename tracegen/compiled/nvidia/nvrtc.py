"""CUDA C++ to PTX by NVIDIA's compiler library NVRTC, with CUDA's own headers and libcu++, where they are installed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tracegen.compiled.build_options import with_folder
from tracegen.compiled.request import PRINTF, CompileError, shortened
from tracegen.cuda import HEADERS, CudaProgram, host_code, includes
from tracegen.cuda.options import STANDARD
from tracegen.cuda.program import LAUNCH, UNKNOWN
from tracegen.tools.process import Finished, run
from tracegen.tools.toolchain import CURAND, cuda_headers, library_command, nvrtc_tool

MOST_TRIES, LONGEST_SECONDS = 100, 600
_OWN = HEADERS / "nvrtc"
_ERROR = re.compile(
    r"^(?P<file>[^\n]*)\((?P<line>\d+)\): (?:catastrophic )?error: (?P<reason>[^\n]*)", re.MULTILINE
)
_NO_FILE = re.compile(r'cannot open source file "([^"]+)"')
_FROM_TOOLKIT = re.compile(
    r"cub/(?!device/)|nv/|cuda/|cuda\.h$"
    r"|thrust/(?:(?:detail|iterator|random|type_traits)/|(?:functional|pair|tuple|type_traits|version)\.h$)"
)
_CUB = "".join(
    f"#include <cub/{room}/{room}_{part}.cuh>\n"
    for room, parts in {
        "block": "adjacent_difference discontinuity exchange histogram load merge_sort radix_rank radix_sort reduce scan store",
        "warp": "exchange load merge_sort reduce scan store",
    }.items()
    for part in parts.split()
)
"""What of CUB kernels use: the rest is for the host."""
_THRUST = """#ifndef THRUST_DEVICE_SYSTEM
#define THRUST_DEVICE_SYSTEM 4 // C++: CUDA's has functions of the host
#endif
#include <cuda/std/{needed}>
#pragma push_macro("_CCCL_HOST")
#undef _CCCL_HOST
#define _CCCL_HOST __device__
cudaError_t cudaGetDevice(int *);
cudaError_t cudaSetDevice(int);
cudaError_t cudaGetLastError();
#include_next <thrust/{name}.h>
#pragma pop_macro("_CCCL_HOST")
"""
"""NVRTC takes no function that is for the host alone."""
_TEXTS = {"cub/cub.cuh": _CUB} | {
    f"thrust/{name}.h": _THRUST.format(name=name, needed=needed)
    for name, needed in {"complex": "complex", "random": "limits", "swap": "utility"}.items()
}
_LIBRARY = re.compile(
    "(?:algorithm|array|bit|complex|functional|initializer_list|iterator|limits|numeric|optional|span|tuple|type_traits"
    "|utility|variant)$"
)
"""What of the C++ library kernels use, which libcu++ has; NVRTC takes seconds to read it."""
_FOR_HOST = (
    "algorithm", "array", "atomic", "cassert", "cfloat", "cmath", "complex", "cstddef", "cstdint", "cstdlib", "exception",
    "functional", "iterator", "limits", "math.h", "memory", "mutex", "ostream", "sstream", "stdexcept", "string",
    "system_error", "tuple", "type_traits", "utility", "vector",
)  # fmt: skip
"""What CUB and Thrust include of it for the host."""
_NO_MEMBER = re.compile(r'namespace "std" has no member "(\w+)"')
_HEADERS = {
    name: header
    for header, names in {
        "array": "array", "optional": "optional nullopt make_optional", "tuple": "tuple make_tuple tie tuple_size tuple_element apply",
        "utility": "pair make_pair exchange index_sequence make_index_sequence", "variant": "variant visit monostate",
    }.items()
    for name in names.split()
}  # fmt: skip
"""Members of the C++ library that programs have from a header of the host's which includes another one."""
_PLACES = {"algorithm": "cuda/std/detail/libcxx/include/algorithm"}
_TABLE = re.compile(r"^\.[^\n]*\bmemsim_parameters\[[^\n]*?= \{([^}]*)\};", re.MULTILINE)
_OF_ONE = re.compile(
    r"\b(?:wgmma|setmaxnreg|tcgen05|tensormap[._]replace|block_scale|kind::f8f6f4)"
)
_OF_TABLE = re.compile(
    r"^\.[^\n]*\w*memsim_(?:parameters|type|plain|describe)[^\n]*\n", re.MULTILINE
)


class Translated(NamedTuple):
    """A program in PTX.

    program : without host code that does not compile here
    symbol : of the kernel;  table : see `headers/nvrtc/signature.h`
    refusal : why code for the device was left out, None where none was
    """

    program: CudaProgram
    ptx: str
    symbol: str
    table: list[int]
    refusal: CompileError | None


class _Error(NamedTuple):
    path: str
    line: int
    reason: str


def translated(program: CudaProgram, target: str, folder: Path) -> Translated:
    """Raises CompileError with the user's line where code for the device does not compile.

    libcu++ is read only where the program does not compile without.
    """
    edited = {path: host_code.without_launches(text) for path, text in program.texts.items()}
    program, has_library, brought = replace(program, edited=edited), False, ""
    errors: list[_Error] = []
    log = ""
    refusal: CompileError | None = None
    for _ in range(MOST_TRIES):
        finished = _run(program, target, folder, has_library, brought)
        if not finished.status:
            ptx = (folder / "kernel.ptx").read_text(encoding="utf-8")
            ptx = includes.originals(ptx, folder)
            return _translated(program, ptx, finished.output.strip(), refusal)
        log = includes.originals(finished.errors, folder)
        errors = [
            _Error(os.path.normpath(m["file"]), int(m["line"]), m["reason"])
            for m in _ERROR.finditer(log)
        ]
        needed = {_HEADERS[name] for name in _members(errors) if name in _HEADERS}
        more = "".join(f"#include <cuda/std/{one}>\n" for one in sorted(needed))
        if more and more not in brought:
            brought += more
            continue
        named = [one for one in errors if not _of_directive(one)]
        leaner = _with_header(program, errors) or program.without(named)
        if leaner is None and not has_library and any(map(_LIBRARY.match, program.missing)):
            has_library, leaner = True, program
        leaner = leaner or program.with_unknown(errors) or program.without_declarations(named)
        if (
            leaner is None and program.options.standard == STANDARD
        ):  # nvcc takes some of C++20 with it
            leaner = replace(program, options=replace(program.options, standard="-std=c++20"))
        if leaner is None:
            refusal = refusal or _refusal(program, errors, log)
            leaner = program.without_others(named) or program.without_header(errors)
        if leaner is None:
            break
        program = leaner
    raise refusal or _refusal(program, errors, log)


def _of_directive(error: _Error) -> bool:
    """Whether an error is about a directive, which is no code that could be left out."""
    return bool(_NO_FILE.match(error.reason)) or error.reason.startswith("#error")


def _members(errors: Sequence[_Error]) -> Iterator[str]:
    """Of the namespace std, which the program has not."""
    for one in errors:
        if found := _NO_MEMBER.match(one.reason):
            yield found[1]


def _run(
    program: CudaProgram, target: str, folder: Path, has_library: bool, brought: str
) -> Finished:
    """brought : lines before the program"""

    def text_of(name: str) -> str | None:
        if name in _TEXTS:
            return _TEXTS[name]
        if _FROM_TOOLKIT.match(name) or (name == CURAND and has_curand):
            return None
        if not has_library or not _LIBRARY.match(name):
            return includes.text_of_host(name)
        return f"#include <{_PLACES.get(name, f'cuda/std/{name}')}>\n"

    has_curand = any((place / CURAND).exists() for place in cuda_headers())
    main = includes.copy(folder, program.path)
    texts = {path: PRINTF.sub("_print", text) for path, text in program.texts.items()}
    before = brought + "".join(map(_directive, program.options.given))
    before += "".join(UNKNOWN.format(name) for name in program.unknown)
    behind = f'#line 1 "{LAUNCH}"\nMEMSIM_SIGNATURE({program.pointer})\n'
    texts[program.path] = f'{before}\n#line 1 "{main}"\n{texts[program.path]}\n{behind}'
    includes.write(folder, texts, program.left_out, text_of)
    options = program.options
    places = (folder / includes.EMPTY, *cuda_headers(), _OWN)
    command = [
        *library_command("nvrtc", nvrtc_tool().path),
        *(
            main,
            main,
            program.pointer,
            "kernel.ptx",
            f"--gpu-architecture=compute_{target[3:]}{_own(program, target)}",
        ),
        *(f"--pre-include={_OWN / 'first.h'}", "-default-device", "--device-int128"),
        *("-lineinfo", "-w", "-Dregister="),
        *(options.standard, *options.arithmetic),
        *includes.options(folder, [one for one in options.given if not _directive(one)]),
        *(f"-I{place}" for place in (*places, *includes.places(folder, program.around))),
    ]
    return run(command, folder, LONGEST_SECONDS)


def _directive(option: str) -> str:
    """`-DNAME=VALUE` or `-UNAME` as a line of the program, so that headers which come before it do not meet the name; "" for others."""
    name, _, value = option[2:].replace("\n", " ").partition("=")
    if option.startswith("-D"):
        return f"#define {name} {value if '=' in option else 1}\n"
    return f"#undef {name}\n" if option.startswith("-U") else ""


def _own(program: CudaProgram, target: str) -> str:
    """`a` where the program has what only one architecture runs, from Hopper on."""
    return "a" if int(target[3:]) >= 90 and any(map(_OF_ONE.search, program.texts.values())) else ""


def _with_header(program: CudaProgram, errors: Sequence[_Error]) -> CudaProgram | None:
    """The program with empty headers, one of which a header of a library includes."""
    for error in errors:
        found = _NO_FILE.match(error.reason)
        if found and found[1] not in program.missing and includes.is_left_out(found[1]):
            missing = dict.fromkeys((*program.missing, found[1], *_FOR_HOST))
            return replace(program, missing=tuple(missing))
    return None


def _translated(
    program: CudaProgram, ptx: str, symbol: str, refusal: CompileError | None
) -> Translated:
    table = _TABLE.search(ptx)
    if table is None:
        raise CompileError("NVRTC's code has no table of parameters")
    data = bytes(map(int, table[1].split(",")))
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]
    return Translated(program, _OF_TABLE.sub("", ptx), symbol, words, refusal)


def _refusal(program: CudaProgram, errors: Sequence[_Error], log: str) -> CompileError:
    """The first error in the user's files, which the others follow from; else the first one."""
    own = [one for one in errors if one.path in program.texts] or errors
    if not own:
        lines = [line.strip() for line in log.splitlines() if line.strip()]
        return CompileError(f"{program.file}: {lines[0] if lines else 'NVRTC failed'}")
    path, line, reason = own[0]
    name = program.name_of(path) if path in program.texts else path
    return CompileError(f"{name}:{line}: {shortened(with_folder(reason))}")
