"""Loads Python files with Triton kernels on computers that have no GPU, and no PyTorch.

Such files often call PyTorch and launch their kernels where they are imported. Where PyTorch is missing, a stand-in takes its
place, which has every attribute, can be called, yields itself and is false; it has no values, so nothing depends on them. The
statements of the file, and of the files of its package that it imports, are executed one after another, and those that fail
because of the stand-in, because another library is missing or because there is no GPU are left out: what is wanted is the
kernel alone. Of decorators that fail, the function is left.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import warnings
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
    """Whether a value is a Triton kernel, also under an autotuner, Triton's or one derived from it."""
    of_triton = any(kind.__module__.startswith("triton.runtime") for kind in type(value).__mro__)
    return of_triton and hasattr(value, "fn")


class _Module(ModuleType):
    """A file that is being loaded, or one that it imports.

    _memsim_lost : name -> why the statement that makes it failed
    _memsim_bare : name of a function -> which of its decorators failed, and why
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._memsim_lost: dict[str, str] = {}
        self._memsim_bare: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        if name in self._memsim_lost:
            raise KernelError(self._memsim_lost[name])
        raise AttributeError(f"module {self.__name__} has no attribute {name}")

    def become_plain(self) -> None:
        """Makes it a module like any other, as Triton wants of those that kernels name; it still says why a name is missing."""
        vars(self)["__getattr__"] = self.__getattr__
        self.__class__ = ModuleType  # type: ignore[assignment]

    def execute(self, path: Path) -> None:
        """Executes the statements of a file that do not fail."""
        for statement in _statements(path):
            error = _failure(statement, path, vars(self))
            if error is None:
                continue
            reason = self._reason(error, statement, path)
            if _without_decorators(statement, path, vars(self)):
                self._memsim_bare[statement.name] = reason  # type: ignore[attr-defined]
            else:
                self._memsim_lost |= dict.fromkeys(_made_names(statement) - {*vars(self)}, reason)

    def _reason(self, error: BaseException, statement: ast.stmt, path: Path) -> str:
        """Why a statement failed: where a name is missing, why that is."""
        if isinstance(error, NameError) and error.name in self._memsim_lost:
            return self._memsim_lost[error.name]
        text = " ".join(str(error).split())
        if isinstance(error, KernelError):
            return text
        return f"line {statement.lineno} of {path.name} failed: {type(error).__name__}: {text}"


def why_missing(module: str, name: str) -> str:
    """Why a name is missing in a file that was loaded, if it is known, after a colon."""
    loaded = sys.modules.get(module)
    lost = getattr(loaded, "_memsim_lost", {})
    return f": {lost[name]}" if name in lost else ""


def failed_decorator(module: ModuleType, name: str) -> str | None:
    """Which decorator a function is without, and why."""
    return getattr(module, "_memsim_bare", {}).get(name)


@contextlib.contextmanager
def importing(path: Path) -> Iterator[ModuleType]:
    """The module of a file, with its folder on the path while it is used, and that of the packages that it lies in."""
    check_installed()
    path = path.resolve()
    module = _Module(f"_triton_file_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    known, before, written = set(sys.modules), list(sys.path), sys.dont_write_bytecode
    module.__package__, root = _enter_packages(path.parent)
    # Files of a package may have the names of Python's own modules.
    sys.path.insert(len(sys.path) if module.__package__ else 0, str(path.parent))
    sys.dont_write_bytecode = True
    finder = _Neighbours(root)
    sys.meta_path.insert(0, finder)
    try:
        with _torch(), _no_launches(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module.execute(path)
        with _torch():
            yield module
    finally:
        sys.meta_path.remove(finder)
        sys.path[:], sys.dont_write_bytecode = before, written
        for name in finder.found | {*_names(module.__package__)}:
            if name not in known:
                sys.modules.pop(name, None)


def _statements(path: Path) -> Iterator[ast.stmt]:
    """Those of a file. What is imported from one module is imported name by name, as some may not be there."""
    for node in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
        if isinstance(node, ast.ImportFrom):
            for name in node.names:
                yield ast.copy_location(ast.ImportFrom(node.module, [name], node.level), node)
        else:
            yield node


def _code(statement: ast.stmt, path: Path) -> Any:
    return compile(ast.Module([statement], []), str(path), "exec", dont_inherit=True)


def _failure(statement: ast.stmt, path: Path, names: dict[str, Any]) -> BaseException | None:
    """Executes a statement; why it failed, if it did. What fails without a GPU is tried as if there were one."""
    outer = _StandIn.has_gpu
    try:
        for _StandIn.has_gpu in (False, True):
            try:
                exec(_code(statement, path), names)
            except (Exception, SystemExit) as error:
                failure = error
            else:
                return None
        return failure
    finally:
        _StandIn.has_gpu = outer


def _without_decorators(statement: ast.stmt, path: Path, names: dict[str, Any]) -> bool:
    """Whether a function that failed can be defined without those of its decorators that fail, or that fail with it."""
    if not isinstance(statement, ast.FunctionDef):
        return False
    listed, kept = statement.decorator_list, list[ast.expr]()
    for one in reversed(listed):  # in the order in which they are applied
        statement.decorator_list = [one, *kept]
        if _failure(statement, path, names) is None:
            kept.insert(0, one)
    statement.decorator_list = kept
    return len(kept) < len(listed) and _failure(statement, path, names) is None


class _Neighbours(importlib.abc.MetaPathFinder):
    """Finds what lies in a folder, without what is installed there. found : names of these modules"""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.found: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return None
        place = Path(spec.loader.path).resolve()
        if (
            not place.is_relative_to(self.root)
            or "site-packages" in place.relative_to(self.root).parts
        ):
            return None
        spec.loader = _Neighbour(name, spec.loader.path)
        self.found.add(name)
        return spec


class _Neighbour(importlib.machinery.SourceFileLoader):
    def create_module(self, spec: Any) -> ModuleType:
        is_package = spec.submodule_search_locations is not None
        if is_package and all(isinstance(one, _PLAIN) for one in _statements(Path(self.path))):
            return _Package(spec.name)
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if isinstance(module, _Module):
            module.execute(Path(self.path))
            module.become_plain()


_PLAIN = ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.Expr
"""Statements of a package that only collects what its files have."""


class _Package(ModuleType):
    """A package that the file lies in, or one that only collects. Of its own statements only those are executed that make a
    name that is asked for: all together import far more than a kernel needs."""

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":
            raise AttributeError(name)
        path = Path(self.__path__[0], "__init__.py")
        for statement in _statements(path):
            wanted = name == "__all__" or not _made_names(statement).isdisjoint((name, "*"))
            if wanted and (self.__name__, name) not in _asked:
                _asked.add((self.__name__, name))
                try:
                    exec(_code(statement, path), vars(self))
                finally:
                    _asked.remove((self.__name__, name))
        if name not in vars(self):
            raise AttributeError(f"module {self.__name__} has no attribute {name}")
        return vars(self)[name]


_asked: set[tuple[str, str]] = set()
"""Packages and names for which statements are being executed."""


def _made_names(statement: ast.stmt) -> set[str]:
    """The names that a statement makes, and others that only its functions know."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    nodes = list(ast.walk(statement))
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    names |= {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    aliases = [node for node in nodes if isinstance(node, ast.alias)]
    return names | {one.asname or one.name.partition(".")[0] for one in aliases}


def _names(package: str) -> list[str]:
    """Of a package and of those that it lies in, the outermost first."""
    parts = package.split(".") if package else []
    return [".".join(parts[: k + 1]) for k in range(len(parts))]


def _enter_packages(folder: Path) -> tuple[str, Path]:
    """The dotted name of the packages that a folder lies in, which can be imported from now on, and the outermost's folder."""
    root, parts = folder, list[str]()
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.insert(0, folder.name)
        root, folder = folder, folder.parent
    package = ".".join(parts)
    for name in _names(package):
        if name not in sys.modules:
            sys.modules[name] = made = _Package(name)
            made.__path__ = [str(folder.joinpath(*name.split(".")))]
    return package, root


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
    """Has every attribute, can be called, and is false, as what is not there. A Triton kernel that it decorates is left as it is."""

    __path__: list[str] = []  # noqa: RUF012
    __version__ = "2.8.0"  # files compare it
    hip = None  # version.hip
    warp_size = 32
    has_gpu = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(f"{self.__name__}.{name}")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if len(arguments) == 1 and not named and hasattr(arguments[0], "arg_names"):
            return arguments[0]
        if self.__name__ == "torch.cuda.is_available":
            return self.has_gpu
        return self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return ()

    def __bool__(self) -> bool:
        return False

    def __float__(self, *_: Any) -> Any:
        raise TypeError(f"{self.__name__} is not installed, and has no value")

    __iter__ = __len__ = __index__ = __lt__ = __gt__ = __le__ = __ge__ = __float__


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
