"""Finds the compilers: clang, NVIDIA's ptxas, nvdisasm and compiler libraries, and what kernels need.

A program is run once for its version and its targets; its output is kept in the cache.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ParamSpec, TypeVar

from memsim.errors import KernelError
from tracegen.tools import cache
from tracegen.tools.process import run

P = ParamSpec("P")
T = TypeVar("T")

CLANG_VARIABLE = "MEMSIM_CLANG"
DEVICE_LIBRARIES_VARIABLE = "HIP_DEVICE_LIB_PATH"
NEWEST_CLANG = 22
OLDEST_CLANG = {"nvptx64": 14, "amdgcn": 14}
"""AMD's device libraries of Debian 12 are bitcode of version 15."""
TYPED_CLANG = (15, 14)
"""Versions of clang whose pointers may have types, as libNVVM's must; PoCL on Debian 12 brings clang 15 along."""
COST = "registers and the order of loads are unknown"
INSTALL_CLANG = "apt-get install clang-19"
INSTALL_TYPED_CLANG = "apt-get install clang-15"
INSTALL_NVIDIA = "pip install nvidia-cuda-nvcc-cu12==12.9.86 nvidia-cuda-nvdisasm==13.2.51"
INSTALL_NVRTC = "pip install nvidia-cuda-nvrtc-cu12==12.9.86 nvidia-cuda-runtime-cu12==12.9.79 nvidia-cuda-cccl-cu12==12.9.27"
INSTALL_LLVM = "apt-get install llvm-19"
INSTALL_DEVICE_LIBRARIES = "apt-get install rocm-device-libs"
_VARIABLES = (
    *(CLANG_VARIABLE, "PATH", "CUDA_HOME", "CUDA_PATH", DEVICE_LIBRARIES_VARIABLE),
    *("MEMSIM_CACHE_DIR", "XDG_CACHE_HOME"),
)
_DISTRIBUTIONS = {
    "ptxas": ("nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc"),
    "nvdisasm": ("nvidia-cuda-nvdisasm",),
    "nvrtc": ("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc"),
    "libnvvm": ("nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc"),
    "runtime": ("nvidia-cuda-runtime-cu12",),
    "libcu++": ("nvidia-cuda-cccl-cu12",),
    "crt": ("nvidia-cuda-nvcc-cu12",),
    "curand": ("nvidia-curand-cu12",),
}
CUDA_HEADERS = {"runtime": "cuda_fp16.h", "libcu++": "cuda/std/array", "crt": "crt/mma.h"}
"""A file of each of CUDA's folders of headers."""
CURAND = "curand_kernel.h"
INSTALL_CURAND = "pip install 'memsim[curand]'"
_LIBRARIES = {
    "nvrtc": ("lib/libnvrtc.so.[0-9]*", "lib64/libnvrtc.so.[0-9]*"),
    "libnvvm": ("nvvm/lib64/libnvvm.so*",),
}
_DEVICE_LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode",
    "/usr/lib/aarch64-linux-gnu/amdgcn/bitcode",
    "/usr/lib/amdgcn/bitcode",
    "/opt/rocm/amdgcn/bitcode",
)
_LIBDEVICE = "libdevice/libdevice.10.bc"


class CompilerMissing(KernelError):
    """A compiler for the target is not installed, or does not know the target.

    reason : what is wrong;  mend : the commands that install what is missing, "" where none helps
    """

    def __init__(self, reason: str, mend: str = "") -> None:
        how = f" ({mend})" if mend else ""
        super().__init__(f"{reason}{how}; {COST}")
        self.reason, self.mend = reason, mend


@dataclass(frozen=True)
class Tool:
    """A program.

    identity : changes when another version is installed at the same path
    version : `19.1.7`
    targets : what it compiles for, as its help lists them
    """

    name: str
    path: Path
    identity: str
    version: str
    targets: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True)
class NvidiaTools:
    """What a kernel is compiled with for an NVIDIA target."""

    clang: Tool
    ptxas: Tool
    nvdisasm: Tool
    libdevice: Path

    @property
    def versions(self) -> dict[str, str]:
        return {tool.name: tool.version for tool in (self.clang, self.ptxas, self.nvdisasm)}


@dataclass(frozen=True)
class AmdTools:
    """What a kernel is compiled with for an AMD target.

    libraries : folder of AMD's device libraries
    """

    clang: Tool
    libraries: Path

    @property
    def versions(self) -> dict[str, str]:
        return {self.clang.name: self.clang.version}


def _for_environment(find: Callable[P, T]) -> Callable[P, T]:
    """Keeps what a function finds for as long as the variables that determine which programs are used stay the same."""

    @functools.lru_cache(maxsize=8)
    def kept(_: tuple[str | None, ...], *arguments: P.args, **options: P.kwargs) -> T:
        return find(*arguments, **options)

    @functools.wraps(find)
    def found(*arguments: P.args, **options: P.kwargs) -> T:
        return kept(tuple(map(os.environ.get, _VARIABLES)), *arguments, **options)  # type: ignore[arg-type]

    return found


@_for_environment
def nvidia_tools() -> NvidiaTools:
    """The programs for NVIDIA's targets. Raises CompilerMissing, with how to install what is missing."""
    clang, ptxas, nvdisasm = find_clang("nvptx64"), find_tool("ptxas"), find_tool("nvdisasm")
    libdevice = find_libdevice(ptxas.path) if ptxas is not None else None
    if clang and ptxas and nvdisasm and libdevice:
        return NvidiaTools(clang, ptxas, nvdisasm, libdevice)
    parts = {"clang": clang, "ptxas": ptxas, "nvdisasm": nvdisasm, "libdevice": libdevice}
    raise _missing("NVIDIA", parts, {"clang": INSTALL_CLANG}, INSTALL_NVIDIA)


def nvrtc_tool() -> Tool:
    """NVIDIA's compiler library for CUDA C++. Raises CompilerMissing, with how to install it."""
    tool = find_library("nvrtc")
    if tool is None:
        raise CompilerMissing("NVIDIA's compiler library NVRTC is missing", INSTALL_NVRTC)
    return tool


@dataclass(frozen=True)
class NvvmTools:
    """What translates OpenCL C as NVIDIA's driver does: a clang that writes LLVM IR, and NVIDIA's library."""

    clang: Tool
    library: Tool

    def __str__(self) -> str:
        return f"{self.clang}, {self.library}"


def nvvm_tools() -> NvvmTools:
    """Raises CompilerMissing, with how to install what is missing."""
    clang, library = find_typed_clang(), find_library("libnvvm")
    if clang and library:
        return NvvmTools(clang, library)
    if library is None:
        raise CompilerMissing("NVIDIA's compiler library libNVVM is missing", INSTALL_NVIDIA)
    raise CompilerMissing(
        f"clang {TYPED_CLANG[0]}, whose LLVM IR libNVVM reads, is missing", INSTALL_TYPED_CLANG
    )


@_for_environment
def amd_tools() -> AmdTools:
    """The programs for AMD's targets. Raises CompilerMissing, with how to install what is missing."""
    clang, libraries = find_clang("amdgcn"), find_device_libraries()
    if clang and libraries:
        return AmdTools(clang, libraries)
    parts = {"clang": clang, "device libraries": libraries}
    raise _missing("AMD", parts, {"clang": INSTALL_CLANG}, INSTALL_DEVICE_LIBRARIES)


def versions_for(target: str) -> dict[str, str]:
    """The programs that compile for a target, `sm_80` or `gfx90a`, and their versions; nothing where one of them
    is missing."""
    try:
        if target.startswith("gfx"):
            return amd_tools().versions
        versions = nvidia_tools().versions
    except CompilerMissing:
        return {}
    libraries = [tool for name in _LIBRARIES if (tool := find_library(name))]
    versions |= {tool.name: tool.version for tool in libraries}
    typed = find_typed_clang() if "libnvvm" in versions else None
    return versions | {"clang for libnvvm": typed.version} if typed else versions


def _missing(
    vendor: str, parts: Mapping[str, object], commands: Mapping[str, str], otherwise: str
) -> CompilerMissing:
    """The error for missing parts.

    parts : name -> the tool, None where it is missing
    commands : name -> the command that installs it;  otherwise : the command for all other parts
    """
    names = [name for name, tool in parts.items() if not tool]
    mends = dict.fromkeys(commands.get(name, otherwise) for name in names)
    return CompilerMissing(
        f"kernels cannot be compiled for {vendor}'s GPUs without {', '.join(names)}",
        " && ".join(mends),
    )


def find_clang(architecture: str) -> Tool | None:
    """The newest clang that compiles for an architecture of LLVM's, `nvptx64` or `amdgcn`.

    MEMSIM_CLANG names another one. Raises CompilerMissing where that one does not.
    """
    given = os.environ.get(CLANG_VARIABLE)
    if given:
        path = shutil.which(given)
        tool = _clang(path, architecture) if path else None
        if tool is None or not _is_usable(tool, architecture):
            raise CompilerMissing(
                f"{CLANG_VARIABLE}={given} is no clang, {OLDEST_CLANG[architecture]} or later, that"
                f" compiles for {architecture}"
            )
        return tool
    return newest_clang(architecture)


def newest_clang(architecture: str) -> Tool | None:
    """The newest installed clang that compiles for an architecture of LLVM's."""
    candidates = [_clang(path, architecture) for path in _clang_paths()]
    usable = [tool for tool in candidates if tool and _is_usable(tool, architecture)]
    return max(usable, key=lambda tool: _numbers(tool.version), default=None)


def _is_usable(clang: Tool, architecture: str) -> bool:
    return bool(clang.targets) and _numbers(clang.version) >= (OLDEST_CLANG[architecture],)


def find_tool(name: str) -> Tool | None:
    """ptxas or nvdisasm: from NVIDIA's wheels, else from CUDA_HOME, else from PATH."""
    for path in (*_installed(name, f"bin/{name}"), shutil.which(name)):
        if path is not None and os.access(path, os.X_OK):
            tool = _examined(name, str(path), ["--help"], r"'(?:sm_|SM)([0-9]+[af]?)'", "sm_")
            if tool is not None and tool.targets:
                return tool
    return None


def objdump_tools() -> tuple[str, str]:
    """LLVM's llvm-objdump and llvm-readobj of one version, the newest there is. Raises CompilerMissing."""
    for suffix in (*(f"-{major}" for major in range(NEWEST_CLANG, 13, -1)), ""):
        paths = [shutil.which(f"llvm-{name}{suffix}") for name in ("objdump", "readobj")]
        if paths[0] and paths[1]:
            return paths[0], paths[1]
    raise CompilerMissing(
        "code objects of AMD's cannot be shown without llvm-objdump", INSTALL_LLVM
    )


def find_typed_clang() -> Tool | None:
    """The newest clang whose pointers may have types. One that MEMSIM_CLANG names is the only one."""
    if os.environ.get(CLANG_VARIABLE):
        tool = find_clang("nvptx64")
        return tool if tool and major(tool) in TYPED_CLANG else None
    paths = (shutil.which(f"clang-{number}") for number in TYPED_CLANG)
    tools = (_clang(path, "nvptx64") for path in paths if path)
    return next((tool for tool in tools if tool and tool.targets), None)


@_for_environment
def find_library(name: str) -> Tool | None:
    """NVRTC (`nvrtc`) or libNVVM (`libnvvm`): from NVIDIA's wheels, else from CUDA_HOME."""
    for path in _installed(name, *_LIBRARIES[name]):
        words = _answer(tuple(library_command(name, path)), _identity(path))
        if version := re.match(r"version (\S+)(.*)", words):
            return Tool(name, path, _identity(path), version[1], tuple(version[2].split()))
    return None


@_for_environment
def cuda_headers() -> tuple[Path, ...]:
    """The folders of CUDA's headers, of libcu++ and, where it is there, of cuRAND: of NVIDIA's wheels, else of CUDA_HOME."""
    found: dict[str, Path] = {}
    for name, file in {**CUDA_HEADERS, "curand": CURAND}.items():
        for place in _installed(name, f"include/{file}"):
            found.setdefault(name, Path(str(place)[: -len(file)]))
    return tuple(dict.fromkeys(found.values()))


def library_command(name: str, library: Path) -> list[str]:
    """The command that calls a library; see run_nvidia.py."""
    script = Path(__file__).with_name("run_nvidia.py")
    return [sys.executable, "-I", "-S", str(script), name, str(library)]


def find_libdevice(ptxas: Path) -> Path | None:
    """NVIDIA's library of mathematical functions, which lies beside ptxas, or where Debian puts it."""
    root = ptxas.resolve().parent.parent
    places = (root / "nvvm" / _LIBDEVICE, Path("/usr/lib/nvidia-cuda-toolkit") / _LIBDEVICE)
    return next((place for place in places if place.is_file()), None)


def find_device_libraries() -> Path | None:
    """The folder of AMD's device libraries; HIP_DEVICE_LIB_PATH names another one, as for clang."""
    for place in (os.environ.get(DEVICE_LIBRARIES_VARIABLE), *_DEVICE_LIBRARIES):
        if place and (Path(place) / "opencl.bc").is_file():
            return Path(place)
    return None


def _clang_paths() -> Iterator[str]:
    names = [f"clang-{major}" for major in range(NEWEST_CLANG, min(OLDEST_CLANG.values()) - 1, -1)]
    seen = set()
    for name in (*names, "clang"):
        path = shutil.which(name)
        if path is not None and (real := os.path.realpath(path)) not in seen:
            seen.add(real)
            yield path


def _clang(path: str, architecture: str) -> Tool | None:
    options = [f"--target={architecture}", "--print-supported-cpus"]
    return _examined("clang", path, options, r"^\s+((?:sm_|gfx)[0-9a-f]+)$", "")


def _installed(name: str, *patterns: str) -> Iterator[Path]:
    """The files of a tool that match: of NVIDIA's wheels, then of CUDA_HOME."""
    for distribution in _DISTRIBUTIONS[name]:
        try:
            wheel = importlib.metadata.distribution(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
        # A wheel may list thousands of files: paths are made of those that match.
        files = (row.split(",")[0] for row in (wheel.read_text("RECORD") or "").splitlines())
        ends = [f"*/{pattern}" for pattern in patterns]
        found = (file for file in files if any(fnmatchcase(file, end) for end in ends))
        paths = (Path(str(wheel.locate_file(file))) for file in found)
        yield from (path for path in paths if path.exists())
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            for pattern in patterns:
                yield from sorted(Path(os.environ[variable]).glob(pattern))


def _examined(name: str, path: str, options: list[str], pattern: str, prefix: str) -> Tool | None:
    """A program with its version and targets, None if it does not run."""
    identity = _identity(Path(path))
    said = _answer((path, "--version"), identity)
    if not said:
        return None
    version = re.search(r"(?:V|version )(\d+(?:\.\d+)+)", said)
    targets = re.findall(pattern, _answer((path, *options), identity), re.MULTILINE)
    listed = tuple(dict.fromkeys(f"{prefix}{target}" for target in targets))
    return Tool(name, Path(path), identity, version[1] if version else "?", listed)


def _identity(path: Path) -> str:
    status = path.stat()
    return f"{os.path.realpath(path)} {status.st_size} {status.st_mtime_ns}"


@functools.lru_cache(maxsize=64)
def _answer(command: tuple[str, ...], identity: str) -> str:
    """What a program prints, once for each identity; "" if it does not run."""

    def said() -> tuple[str, dict[str, str]]:
        finished = run(command)
        # clang prints its targets to the standard error, and nothing of the kind if it has none.
        return "" if finished.status else finished.output + finished.errors, {}

    try:
        return cache.kept(cache.key("answer", identity, *command), str, said)
    except KernelError:
        return ""


def major(tool: Tool) -> int:
    """19 of version 19.1.7."""
    return _numbers(tool.version)[0]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
