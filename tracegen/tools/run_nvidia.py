"""Calls NVIDIA's compiler libraries in a process of its own: what they do with a program stays there.

    python run_nvidia.py nvrtc LIBRARY                                 its version, and what it compiles for
    python run_nvidia.py nvrtc LIBRARY SOURCE NAME KERNEL PTX OPTION...   writes PTX, and prints the symbol
    python run_nvidia.py libnvvm LIBRARY                               its version
    python run_nvidia.py libnvvm LIBRARY IR PTX OPTION...              writes PTX

Only the standard library is imported. The calls are those of NVIDIA's documentations of NVRTC and libNVVM.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class _Failed(Exception):
    """The library refuses a call, or a program."""


class _Library:
    """A library whose functions begin with a prefix, and a program in it."""

    def __init__(self, prefix: str, path: str) -> None:
        self.prefix, self.functions = prefix, ctypes.CDLL(path)
        self.program = ctypes.c_void_p()

    def call(self, name: str, *arguments: Any) -> None:
        """Raises _Failed with the library's reason, for a program with what it has written on it."""
        status = getattr(self.functions, self.prefix + name)(*arguments)
        if status:
            has_log = self.program and not name.startswith("GetProgramLog")
            log = self.text("ProgramLog").decode("utf-8", "replace").strip() if has_log else ""
            raise _Failed(log or self._reason(status))

    def numbers(self, name: str, n: int) -> list[int]:
        """What a call writes through pointers to integers."""
        found = [ctypes.c_int() for _ in range(n)]
        self.call(name, *map(ctypes.byref, found))
        return [one.value for one in found]

    def compile(self, options: Sequence[str]) -> None:
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        self.call("CompileProgram", self.program, len(options), words)

    def text(self, what: str) -> bytes:
        """What the library has written, without the zero at its end."""
        size = ctypes.c_size_t()
        self.call(f"Get{what}Size", self.program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self.call(f"Get{what}", self.program, text)
        return text.value

    def _reason(self, status: int) -> str:
        message = getattr(self.functions, f"{self.prefix}GetErrorString")
        message.restype = ctypes.c_char_p
        return str(message(status).decode())


def _nvrtc(path: str, *words: str) -> None:
    library = _Library("nvrtc", path)
    if not words:
        version = library.numbers("Version", 2)
        (n,) = library.numbers("GetNumSupportedArchs", 1)
        targets = (ctypes.c_int * n)()
        library.call("GetSupportedArchs", targets)
        print(f"version {version[0]}.{version[1]}", *(f"sm_{target}" for target in targets))
        return
    source, name, kernel, ptx, *options = words
    text = Path(source).read_bytes()
    created = (ctypes.byref(library.program), text, name.encode(), 0, None, None)
    library.call("CreateProgram", *created)
    library.call("AddNameExpression", library.program, kernel.encode())
    library.compile(options)
    symbol = ctypes.c_char_p()
    library.call("GetLoweredName", library.program, kernel.encode(), ctypes.byref(symbol))
    Path(ptx).write_bytes(library.text("PTX"))
    print((symbol.value or b"").decode())


def _libnvvm(path: str, *words: str) -> None:
    library = _Library("nvvm", path)
    if not words:
        print("version", ".".join(map(str, library.numbers("IRVersion", 4))))
        return
    source, ptx, *options = words
    ir = Path(source).read_bytes()
    library.call("CreateProgram", ctypes.byref(library.program))
    size = ctypes.c_size_t(len(ir))
    library.call("AddModuleToProgram", library.program, ir, size, b"kernel")
    library.compile(options)
    Path(ptx).write_bytes(library.text("CompiledResult"))


if __name__ == "__main__":
    try:
        {"nvrtc": _nvrtc, "libnvvm": _libnvvm}[sys.argv[1]](*sys.argv[2:])
    except (OSError, _Failed) as error:
        sys.exit(str(error))
