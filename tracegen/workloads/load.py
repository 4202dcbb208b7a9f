"""Loads the kernel that a command names, with its settings.

`file.py:NAME` or `package.module:NAME` for Python, `file.cl:NAME` for OpenCL C, `file.floopy:NAME`
for Fortran.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from memsim.errors import KernelError, MemsimError
from tracegen.workloads.fortran import SUFFIX, load_fortran
from tracegen.workloads.opencl import OpenCLWorkload
from tracegen.workloads.settings import convert
from tracegen.workloads.workload import Workload

OPENCL_SUFFIXES = (".cl", ".ocl", ".opencl")
WORKLOADS = (Workload, OpenCLWorkload)


def load_kernel(
    spec: str, settings: Mapping[str, str] | None = None, args: str | None = None
) -> Workload | OpenCLWorkload:
    """The workload that `spec` names.

    In Python, NAME is a loopy.TranslationUnit (settings are then the values of its scalar
    arguments, and its arrays are made up, `made_up.py`), a workload, or a callable that returns
    either (settings are then its keyword arguments, converted by its annotations). In OpenCL C it is
    a kernel, in Fortran a subroutine.

    args : FILE.py:NAME of a callable that takes the settings and returns what the kernel is launched
        with. OpenCL C needs one, which returns an OpenCLWorkload; for Fortran it returns a mapping from
        argument to value

    Raises KernelError in one line where the file, the name or a setting is wrong.
    """
    place, _, name = spec.rpartition(":")
    if Path(spec).suffix in (*OPENCL_SUFFIXES, SUFFIX):
        place, name = spec, ""
    given = dict(settings or {})
    if Path(place).suffix in OPENCL_SUFFIXES:
        return _opencl(Path(place), name, given, args)
    if not place or not name:
        raise KernelError(
            "a kernel is FILE.py:NAME or PACKAGE.MODULE:NAME, FILE.cl:NAME or FILE.floopy:NAME,"
            f" got {spec!r}"
        )
    if Path(place).suffix == SUFFIX:
        return _fortran(Path(place), name, given, args)
    if args is not None:
        raise KernelError(
            f"{spec} brings its own arguments: --args is for kernels in OpenCL C and Fortran"
        )
    with _importing(place) as module:
        found = _attribute(module, name, place)
        source = getattr(module, "__file__", None)
        if _is_unit(found) or isinstance(found, WORKLOADS):
            return _workload(found, given, spec, source)
        if not callable(found):
            raise KernelError(
                f"{spec} is {_a(found)}; a kernel is a loopy.TranslationUnit, or a callable that"
                " returns a tracegen.Workload"
            )
        arguments = _arguments(found, given, name)
        with _one_line(f"{spec} failed"):
            made = found(**arguments)
        if not (_is_unit(made) or isinstance(made, WORKLOADS)):
            raise KernelError(f"{spec} must return a tracegen.Workload, got {_a(made)}")
        with contextlib.suppress(TypeError):
            source = inspect.getsourcefile(inspect.unwrap(found)) or source
        return _workload(made, {}, spec, source)


def _opencl(path: Path, name: str, given: dict[str, str], args: str | None) -> OpenCLWorkload:
    if not path.is_file():
        raise KernelError(f"no such kernel file: {path}")
    if args is None:
        raise KernelError(
            f"{path} says nothing of its launch: --args FILE.py:NAME names a callable that returns a"
            " tracegen.OpenCLWorkload"
        )
    made = _made(args, given)
    if not isinstance(made, OpenCLWorkload):
        raise KernelError(f"{args} must return a tracegen.OpenCLWorkload, got {_a(made)}")
    if made.path is not None and Path(made.path).resolve() != path.resolve():
        raise KernelError(f"{args} is for {made.path}, not for {path}")
    if name and made.kernel not in (None, name):
        raise KernelError(f"{args} is for kernel {made.kernel}, not for {name}")
    return dataclasses.replace(made, path=path, kernel=name or made.kernel)


def _fortran(path: Path, name: str, given: dict[str, str], args: str | None) -> Workload:
    unit = load_fortran(path, name)
    if args is None:
        from tracegen.workloads.made_up import arguments

        return Workload(unit, arguments(unit, given), source_file=str(path))
    made = _made(args, given)
    if not isinstance(made, Mapping):
        raise KernelError(f"{args} must return a mapping from argument to value, got {_a(made)}")
    return Workload(unit, dict(made), source_file=str(path))


def _made(spec: str, given: dict[str, str]) -> Any:
    """The return value of the callable that --args names."""
    place, _, name = spec.rpartition(":")
    if not place or not name:
        raise KernelError(f"--args is FILE.py:NAME or PACKAGE.MODULE:NAME, got {spec!r}")
    with _importing(place) as module:
        found = _attribute(module, name, place)
        if not callable(found):
            raise KernelError(f"{spec} is {_a(found)}; --args names a callable")
        arguments = _arguments(found, given, name)
        with _one_line(f"{spec} failed"):
            return found(**arguments)


def _workload(
    found: Any, settings: Mapping[str, str], spec: str, source: str | None
) -> Workload | OpenCLWorkload:
    if isinstance(found, WORKLOADS) and settings:
        raise KernelError(f"{spec} is a finished Workload; it takes no settings")
    if isinstance(found, OpenCLWorkload):
        return found
    if isinstance(found, Workload):
        if found.source_file is None and source is not None:
            return dataclasses.replace(found, source_file=source)
        return found
    from tracegen.workloads.made_up import arguments

    return Workload(found, arguments(found, settings), source_file=source)


def _arguments(function: Callable[..., Any], given: Mapping[str, str], name: str) -> dict[str, Any]:
    parameters = {
        key: parameter
        for key, parameter in inspect.signature(function).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    listed = ", ".join(parameters) or "none"
    for key in given:
        if key not in parameters:
            raise KernelError(f"{name} has no parameter {key}; it has {listed}")
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in given:
            raise KernelError(f"{name} needs a value for {key}: --set {key}=VALUE")
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError):
        hints = {}
    values = {}
    for key, text in given.items():
        default = parameters[key].default
        hint = hints.get(key, str if default in (None, inspect.Parameter.empty) else type(default))
        values[key] = convert(key, text, hint)
    return values


def _attribute(module: ModuleType, name: str, place: str) -> Any:
    if hasattr(module, name):
        return getattr(module, name)
    available = [
        key
        for key, value in vars(module).items()
        if not key.startswith("_")
        and (
            _is_unit(value)
            or isinstance(value, WORKLOADS)
            or (inspect.isfunction(value) and value.__module__ == module.__name__)
        )
    ]
    raise KernelError(f"{place} has no {name}; it has {', '.join(available) or 'no kernel at all'}")


def _is_unit(value: Any) -> bool:
    # Without importing loopy: a module that holds a TranslationUnit has imported it.
    loopy = sys.modules.get("loopy")
    return loopy is not None and isinstance(value, loopy.TranslationUnit)


@contextlib.contextmanager
def _importing(place: str) -> Iterator[ModuleType]:
    """The module, with its folder on the path while it is used and no byte code written."""
    as_file = place.endswith(".py") or "/" in place
    written, path = sys.dont_write_bytecode, list(sys.path)
    sys.dont_write_bytecode = True
    try:
        with _one_line(f"cannot import {place}"):
            module = _import_file(Path(place)) if as_file else _import_module(place)
        yield module
    finally:
        sys.dont_write_bytecode = written
        sys.path[:] = path


def _import_module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise KernelError(f"no such kernel file: {path}")
    path = path.resolve()
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    sys.path.insert(0, str(root))
    if len(parts) > 1:
        # A file of a package may import its neighbours by the package's name.
        with contextlib.suppress(ModuleNotFoundError):
            module = importlib.import_module(".".join(parts))
            if module.__file__ is not None and Path(module.__file__).resolve() == path:
                return module
    name = f"_kernel_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise KernelError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _one_line(what: str) -> Iterator[None]:
    try:
        yield
    except MemsimError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        raise KernelError(f"{what}: {type(error).__name__}: {text}") from error


def _a(value: Any) -> str:
    return f"a {type(value).__name__}"
