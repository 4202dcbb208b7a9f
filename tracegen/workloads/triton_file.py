"""Loads Python files with Triton kernels on computers that have no GPU, and no PyTorch.

Such files often call PyTorch and launch their kernels where they are imported. Where PyTorch is missing, a stand-in takes its
place, which has every attribute, can be called, and yields itself; it has no values, so nothing depends on them. The
statements of the file are executed one after another, and those that fail because of the stand-in or because there is no GPU
are left out: what is wanted is the kernel alone.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from memsim.errors import KernelError

TORCH = "torch"


def is_triton(path: Path) -> bool:
    """Whether a Python file imports Triton, and not Loopy."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return False
    nodes = list(ast.walk(tree))
    names = [one.name for node in nodes if isinstance(node, ast.Import) for one in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    packages = {name.partition(".")[0] for name in names}
    return path.suffix == ".py" and "triton" in packages and "loopy" not in packages


def is_kernel(value: Any) -> bool:
    """Whether a value is a Triton kernel, also under the autotuner."""
    return type(value).__module__.startswith("triton.runtime") and hasattr(value, "fn")


class _Module(ModuleType):
    """A file that is being loaded. failed : its statements that failed, and why"""

    failed: list[str]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not self.failed:
            raise AttributeError(name)
        known = ", ".join(key for key, one in vars(self).items() if is_kernel(one)) or "none"
        raise KernelError(
            f"{self.__file__} has no {name} (its Triton kernels: {known}); {self.failed[0]}"
        )


@contextlib.contextmanager
def importing(path: Path) -> Iterator[ModuleType]:
    """The module of a file, with its folder on the path while it is used, and that of the packages that it lies in."""
    check_installed()
    path = path.resolve()
    module = _Module(f"_triton_file_{path.stem}")
    module.__file__, module.failed = str(path), []
    sys.modules[module.__name__] = module
    known, before, written = set(sys.modules), list(sys.path), sys.dont_write_bytecode
    module.__package__ = _enter_packages(path.parent)
    sys.path.insert(0, str(path.parent))
    sys.dont_write_bytecode = True
    try:
        with _torch(), _no_launches():
            for node in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
                code = compile(ast.Module([node], []), str(path), "exec", dont_inherit=True)
                try:
                    exec(code, vars(module))
                except (Exception, SystemExit) as error:
                    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
                    module.failed.append(f"line {node.lineno} failed: {reason}")
            yield module
    finally:
        sys.path[:], sys.dont_write_bytecode = before, written
        own = f"{module.__package__}.".partition(".")[0]
        for name in [*sys.modules]:
            if own and name.partition(".")[0] == own and name not in known:
                del sys.modules[name]


def _enter_packages(folder: Path) -> str:
    """The dotted name of the packages that a folder lies in, which can be imported from now on.

    Their own statements are not executed: these import far more than a kernel needs.
    """
    names: list[str] = []
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        names.insert(0, folder.name)
        folder = folder.parent
    for k in range(len(names)):
        name = ".".join(names[: k + 1])
        if name not in sys.modules:
            sys.modules[name] = package = ModuleType(name)
            package.__path__ = [str(folder.joinpath(*names[: k + 1]))]
    return ".".join(names)


def check_installed() -> None:
    """Raises KernelError where Triton is not installed."""
    if importlib.util.find_spec("triton") is None:
        raise KernelError(
            "a kernel in Triton needs Triton's compiler: pip install 'memsim[triton]'"
        )


@contextlib.contextmanager
def _no_launches() -> Iterator[None]:
    """Launches fail while a file is loaded: there is no GPU, and its host code is not wanted."""
    from triton.runtime.jit import JITFunction

    run = JITFunction.run

    def refused(*_: Any, **__: Any) -> None:
        raise KernelError("a launch is left out")

    JITFunction.run = refused
    try:
        yield
    finally:
        JITFunction.run = run


class _StandIn(ModuleType):
    """Has every attribute and can be called. A Triton kernel that it decorates is left as it is."""

    __path__: list[str] = []  # noqa: RUF012
    __version__ = "2.8.0"  # files compare it

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(f"{self.__name__}.{name}")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if len(arguments) == 1 and not named and hasattr(arguments[0], "arg_names"):
            return arguments[0]
        if self.__name__.endswith(".is_available"):  # of a GPU
            return False
        return self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return ()

    def __bool__(self) -> bool:
        raise TypeError(f"{self.__name__} is not installed, and has no value")

    __iter__ = __len__ = __index__ = __float__ = __lt__ = __gt__ = __le__ = __ge__ = __bool__


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module of PyTorch's name."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] != TORCH:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == "torch._inductor.runtime.triton_helpers":
            from triton.language import math
            from triton.language.extra import libdevice

            vars(module).update(libdevice=libdevice, math=math)


@contextlib.contextmanager
def _torch() -> Iterator[None]:
    """PyTorch, or where it is not installed, a stand-in."""
    if importlib.util.find_spec(TORCH) is not None:
        yield
        return
    finder = _Finder()
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [one for one in sys.modules if one.partition(".")[0] == TORCH]:
            del sys.modules[name]
