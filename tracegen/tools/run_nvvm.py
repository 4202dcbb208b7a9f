"""Calls NVIDIA's libNVVM in a process of its own: what it does with a program stays there.

    python run_nvvm.py LIBRARY                     its version
    python run_nvvm.py LIBRARY IR PTX OPTION...    writes PTX

Only the standard library is imported. The calls are those of NVIDIA's libNVVM documentation.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path


class _Failed(Exception):
    """The library refuses a call, or a program."""


def main(library: str, *words: str) -> None:
    """Raises _Failed with the library's reason."""
    nvvm = ctypes.CDLL(library)
    if words:
        ir, ptx, *options = words
        Path(ptx).write_bytes(_compiled(nvvm, Path(ir).read_bytes(), options))
        return
    numbers = [ctypes.c_int() for _ in range(4)]
    _check(nvvm, nvvm.nvvmIRVersion(*map(ctypes.byref, numbers)))
    print("version", ".".join(str(number.value) for number in numbers))


def _compiled(nvvm: ctypes.CDLL, ir: bytes, options: list[str]) -> bytes:
    program = ctypes.c_void_p()
    _check(nvvm, nvvm.nvvmCreateProgram(ctypes.byref(program)))
    words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    for call, arguments in (
        ("AddModuleToProgram", (ir, ctypes.c_size_t(len(ir)), b"kernel")),
        ("CompileProgram", (len(options), words)),
    ):
        if status := getattr(nvvm, f"nvvm{call}")(program, *arguments):
            log = _text(nvvm, program, "ProgramLog").decode("utf-8", "replace").strip()
            raise _Failed(log or _reason(nvvm, status))
    return _text(nvvm, program, "CompiledResult")


def _text(nvvm: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    """What the library has written, without the zero at its end."""
    size = ctypes.c_size_t()
    _check(nvvm, getattr(nvvm, f"nvvmGet{what}Size")(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _check(nvvm, getattr(nvvm, f"nvvmGet{what}")(program, text))
    return text.value


def _check(nvvm: ctypes.CDLL, status: int) -> None:
    if status:
        raise _Failed(_reason(nvvm, status))


def _reason(nvvm: ctypes.CDLL, status: int) -> str:
    nvvm.nvvmGetErrorString.restype = ctypes.c_char_p
    return str(nvvm.nvvmGetErrorString(status).decode())


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, _Failed) as error:
        sys.exit(str(error))
