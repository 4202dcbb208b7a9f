"""The files that a CUDA C++ or HIP program includes, and the folders in which its compilers find them.

A compiler reads copies of the user's files, in which host code may be left out, and headers of the host's libraries, which
a kernel does not need, as empty files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

MOST_FILES, MOST_CHARACTERS = 4000, 1 << 26
MOST_AROUND = 8
"""Folders around a file in which its project's headers are looked for."""
COPIES, EMPTY = "user", "empty"
_TORCH = re.compile(r"(?:torch|ATen|c10)/")
HEADERS = Path(__file__).parent / "headers"
_OF_TORCH = HEADERS / "torch.h"
"""The folders of copies, each under its absolute path, and of empty headers."""
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([\"<])([^\">\n]+)[\">]", re.MULTILINE)
_LIBRARIES = re.compile(
    r"(?:boost|opencv\d*|nccl|rccl|mpi|omp|openacc|cublas\w*|cusparse\w*|cusolver\w*|cufft\w*|curand\w*|cudnn\w*|cutensor\w*"
    r"|cupti\w*|nvml|npp\w*|hipblas\w*|rocblas\w*|hipsparse\w*|rocsparse\w*|hipfft\w*|rocfft\w*|hiprand\w*|rocrand\w*|miopen"
    r"|nvToolsExt\w*|nvtx3|GL|GLFW|GLES\d?|glut|freeglut|glad|SDL\d?|cuda_gl_interop|cuda_profiler_api|cutil(?!_math)\w*"
    r"|helper_(?!math\.)\w+|sys|netinet|arpa|windows|Windows|unistd|getopt|pthread|dirent|fcntl|sched|malloc|alloca|strings|dlfcn|direct|io"
    r"|conio|process|intrin|\w*mmintrin|immintrin|x86intrin|cpuid|hdf5|netcdf|png|jpeglib|tiffio|zlib|lz4|zstd|tbb|fmt|spdlog"
    r"|gtest|gflags|glog|benchmark|Eigen|nlohmann|cxxopts|CLI|pybind11|Python|torch|ATen|c10|thrust|rocthrust|cub|hipcub|rocprim"
    r"|R|Rcpp\w*|mex|matrix|vulkan|d3d\w*|dxgi\w*|X11|xcb)(?:/.*|\.h(?:pp|xx)?)?$"
)
_STANDARD = re.compile(
    r"c?(?:assert|complex|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|setjmp|signal|stdalign|stdarg|stdatomic"
    r"|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|tgmath|threads|time|uchar|wchar|wctype)(?:\.h)?$|(?:algorithm|any"
    r"|array|atomic|barrier|bit|bitset|charconv|chrono|codecvt|compare|concepts|condition_variable|coroutine|deque|exception"
    r"|execution|expected|filesystem|format|forward_list|fstream|functional|future|initializer_list|iomanip|ios|iosfwd"
    r"|iostream|istream|iterator|latch|list|map|memory|memory_resource|mutex|new|numbers|numeric|optional|ostream|queue|random"
    r"|ranges|ratio|regex|scoped_allocator|semaphore|set|shared_mutex|source_location|span|sstream|stack|stdexcept|stop_token"
    r"|streambuf|string_view|system_error|thread|tuple|type_traits|typeindex|typeinfo|unordered_map|unordered_set|utility"
    r"|valarray|variant|vector|version|cxxabi\.h|execinfo\.h|bits/stdc\+\+\.h)$"
)
_CUDA = re.compile(
    r"(?:cuda(?:_runtime(?:_api)?)?|device_launch_parameters|vector_(?:types|functions)|driver_types|device_functions"
    r"|math_functions|builtin_types|host_defines|sm_\d+_\w+)\.h$"
)
"""Headers of CUDA that only declare what NVRTC knows of itself, or what the host needs."""


def included(
    path: str, text: str, folders: Sequence[str]
) -> tuple[dict[str, str], tuple[str, ...], dict[str, str]]:
    """Absolute path -> text of the files that a program includes, directly or not, whether or not a condition skips them;
    the names of those that are not among the user's; and folders that nobody named, with a header that is found there alone.

    folders : of the user's headers, in the order of the search
    """
    found: dict[str, str] = {}
    around: dict[str, str] = {}
    missing: dict[str, None] = {}
    waiting, read = [(path, text)], len(text)
    while waiting:
        includer, content = waiting.pop(0)
        for kind, name in _INCLUDE.findall(content):
            beside = [os.path.dirname(includer), os.path.dirname(path)] if kind == '"' else []
            places = (os.path.normpath(os.path.join(place, name)) for place in (*beside, *folders))
            place = next((place for place in places if os.path.isfile(place)), None)
            if place is None and (folder := _folder_around(name, os.path.dirname(path))):
                around.setdefault(folder, name)
                place = os.path.normpath(os.path.join(folder, name))
            if place is None:
                missing[name] = None
            elif place != path and place not in found and len(found) < MOST_FILES:
                found[place] = _read(place)
                read += len(found[place])
                if read > MOST_CHARACTERS:
                    return found, tuple(missing), around
                waiting.append((place, found[place]))
    return found, tuple(missing), around


def _folder_around(name: str, folder: str) -> str | None:
    """The nearest folder of a project from which a header is found that is of no known library and none of ours: a file's own
    folder and those around it, up to that of a repository, each with its folders `include` and `src`."""
    if is_left_out(name) or (HEADERS / name).is_file():
        return None
    around = [folder, *map(str, Path(folder).parents)][:MOST_AROUND]
    of_repository = (k for k, place in enumerate(around) if os.path.exists(f"{place}/.git"))
    places = around[: next(of_repository, 1) + 1]
    listed = [os.path.join(place, inside) for place in places for inside in (".", "include", "src")]
    found = next((place for place in listed if os.path.isfile(os.path.join(place, name))), None)
    return os.path.normpath(found) if found else None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            return file.read(MOST_CHARACTERS)
    except OSError:
        return ""


def is_left_out(name: str) -> bool:
    """Whether a header is of the host: of the standard libraries, of CUDA's interface, or of another known library."""
    return any(pattern.match(name) for pattern in (_STANDARD, _CUDA, _LIBRARIES))


def text_of_host(name: str) -> str:
    """The text of a header of the host's libraries: empty, but for what kernels use of PyTorch's."""
    return _OF_TORCH.read_text(encoding="utf-8") if _TORCH.match(name) else ""


def write(
    folder: Path,
    texts: Mapping[str, str],
    headers: Sequence[str],
    text_of: Callable[[str], str | None],
) -> None:
    """Writes copies of files, and headers of the host. text_of : name -> text, None where it is not written"""
    for path, text in texts.items():
        _write(Path(copy(folder, path)), text)
    for name in headers:
        content = text_of(name)
        if content is not None and ".." not in name.split("/"):
            _write(folder / EMPTY / name, content)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def copy(folder: Path, path: str) -> str:
    """Where the copy of a file or folder with an absolute path lies."""
    return f"{folder / COPIES}{path}"


def originals(text: str, folder: Path) -> str:
    """What a compiler wrote, with the user's paths in place of those of copies."""
    return text.replace(str(folder / COPIES), "")


def places(folder: Path, named: Iterable[str]) -> Iterator[str]:
    """Folders of headers, the copies of each before it."""
    for place in named:
        yield copy(folder, place)
        yield place


def options(folder: Path, given: Sequence[str]) -> Iterator[str]:
    """The options of a build, with the copies of each folder of headers before the folder."""
    for word in given:
        if word.startswith("-I"):
            yield from (f"-I{place}" for place in places(folder, [word[2:]]))
        else:
            yield word
