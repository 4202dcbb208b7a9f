"""Calls NVIDIA's compiler library in a process of its own: what it does with a text stays there.

    python run_nvrtc.py LIBRARY                                  its version, and what it compiles for
    python run_nvrtc.py LIBRARY SOURCE NAME KERNEL PTX OPTION...  writes PTX, and prints the kernel's symbol

Only the standard library is imported. The calls are those of NVIDIA's NVRTC documentation.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path


class _Failed(Exception):
    """The library refuses a call, or a program."""


def main(library: str, *words: str) -> None:
    """Raises _Failed with the library's reason."""
    nvrtc = ctypes.CDLL(library)
    if words:
        source, name, kernel, ptx, *options = words
        symbol, text = _compiled(nvrtc, Path(source).read_bytes(), name, kernel, options)
        Path(ptx).write_bytes(text)
        print(symbol)
        return
    major, minor, n = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    _check(nvrtc, nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    _check(nvrtc, nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(n)))
    targets = (ctypes.c_int * n.value)()
    _check(nvrtc, nvrtc.nvrtcGetSupportedArchs(targets))
    print(f"version {major.value}.{minor.value}", *(f"sm_{target}" for target in targets))


def _compiled(
    nvrtc: ctypes.CDLL, source: bytes, name: str, kernel: str, options: list[str]
) -> tuple[str, bytes]:
    """The symbol of a kernel and the PTX of its program."""
    program = ctypes.c_void_p()
    created = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), 0, None, None)
    _check(nvrtc, created)
    _check(nvrtc, nvrtc.nvrtcAddNameExpression(program, kernel.encode()))
    words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    if status := nvrtc.nvrtcCompileProgram(program, len(options), words):
        log = _text(nvrtc, program, "nvrtcGetProgramLog").decode("utf-8", "replace").strip()
        raise _Failed(log or _reason(nvrtc, status))
    symbol = ctypes.c_char_p()
    lowered = nvrtc.nvrtcGetLoweredName(program, kernel.encode(), ctypes.byref(symbol))
    _check(nvrtc, lowered)
    return (symbol.value or b"").decode(), _text(nvrtc, program, "nvrtcGetPTX")


def _text(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, call: str) -> bytes:
    """What a call writes, of a length that another one tells, without the zero at its end."""
    size = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"{call}Size")(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _check(nvrtc, getattr(nvrtc, call)(program, text))
    return text.value


def _check(nvrtc: ctypes.CDLL, status: int) -> None:
    if status:
        raise _Failed(_reason(nvrtc, status))


def _reason(nvrtc: ctypes.CDLL, status: int) -> str:
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    return str(nvrtc.nvrtcGetErrorString(status).decode())


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, _Failed) as error:
        sys.exit(str(error))
