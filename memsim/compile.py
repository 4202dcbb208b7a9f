"""How the hot loops are compiled: one place for every option, and why."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import itertools
import pickle
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import caching, cgutils, codegen, compiler, types
from numba.core.runtime import rtsys
from numba.core.types.misc import unliteral
from numba.extending import intrinsic

from memsim.progress import COMPILING, report

_IMPORT = re.compile(rb"^(?:import|from)\b[^\n(\\]*(?:\([^)]*\)|(?:\\\n[^\n\\]*)*)", re.MULTILINE)
"""An import at the left margin. To parse whole modules took a tenth of the time of every start."""


@functools.cache
def _imported(module: str) -> tuple[str, ...]:
    """The modules that a module imports when it is loaded, itself first.

    Imports inside functions and under TYPE_CHECKING do not count: their modules cannot be inlined,
    and whether such an import has run depends on the process. For the same reason modules are
    located by their files: some may not be loaded yet.
    """
    names = []
    for node in _imports(_source(module)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.append(node.module)
            for alias in node.names:
                names.append(f"{node.module}.{alias.name}")
                names.append(_home(node.module, alias.name))
    return module, *(name for name in names if _file(name) is not None)


def _imports(source: bytes) -> Iterator[ast.stmt]:
    """The statements at the left margin of a module that import something."""
    for text in _IMPORT.findall(source):
        with contextlib.suppress(SyntaxError):  # a line of a docstring
            yield from ast.parse(text).body


@functools.cache
def _home(package: str, name: str) -> str:
    """The module from which a package's face, `__init__.pyi`, takes a name; else the package."""
    file = _file(package)
    stub = None if file is None else file.with_suffix(".pyi")
    if stub is not None and stub.name == "__init__.pyi" and stub.is_file():
        for node in _imports(stub.read_bytes()):
            if isinstance(node, ast.ImportFrom) and name in (alias.name for alias in node.names):
                return f"{package}.{node.module}"
    return package


def _file(module: str) -> Path | None:
    """The source of a module; None where it has none, or its top-level package is not loaded."""
    if module in sys.modules:
        file = getattr(sys.modules[module], "__file__", None)
        return None if file is None else Path(file)
    top, *inside = module.split(".")
    for folder in getattr(sys.modules.get(top), "__path__", ()):
        path = Path(folder, *inside)
        for source in (path / "__init__.py", path.with_name(f"{path.name}.py")):
            if source.is_file():
                return source
    return None


@functools.cache
def _source(module: str) -> bytes:
    path = _file(module)
    if path is None:
        raise OSError(f"module {module} has no source file, so its hot loops cannot be compiled")
    return path.read_bytes()


def fingerprint(module: str) -> str:
    """Eight hexadecimal digits that change with any source that a module's hot loops may inline.

    These are the module itself and all modules of its own package and of memsim that it imports,
    directly or through others; a hot loop inlines from no other package. Raises OSError where a
    source cannot be read.
    """
    digest = hashlib.sha256()
    for name in sorted(_closure(module)):
        digest.update(f"{name}\n".encode())
        digest.update(hashlib.sha256(_source(name)).digest())
    return digest.hexdigest()[:8]


def _closure(module: str) -> set[str]:
    packages = {module.partition(".")[0], __name__.partition(".")[0]}
    reached: set[str] = set()
    waiting = [module, __name__]
    while waiting:
        name = waiting.pop()
        if name not in reached and name.partition(".")[0] in packages:
            reached.add(name)
            waiting += _imported(name)
    return reached


_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",  # C division
    # Indices are trusted, because the edges of the package check them. NUMBA_BOUNDSCHECK=1 overrides
    # this where tests put it to the proof.
    "boundscheck": False,
    # No reference counts: the loops unpack tuples of arrays for every request, and counting
    # references cost 900 ns a request where the work itself takes 30. So nothing here may allocate.
    "_nrt": False,
    "no_cfunc_wrapper": True,  # nothing calls it
}


nth = np.uint64
"""`array[nth(i)]` for an i that is never negative: numba then omits the code for negative indices, which
took a third of the time of a replay."""


def hot(function: Any) -> Any:
    """Compile a hot loop; it may not allocate. Where another one calls it, it is a part of that (see `_Part`)."""
    return _cached(nb.njit(**_OPTIONS)(_marked(function)), _part(function))


def compiled(function: Any) -> Any:
    """Compile a function that may allocate arrays, with the error model of Python."""
    return _cached(nb.njit(nogil=True, boundscheck=False)(_marked(function)))


def inner(function: Any) -> Any:
    """Compile a function that hot loops call: it is always inlined.

    Python cannot call it: numba would compile the code that unpacks Python's arguments for each of
    these functions, a third of the time to compile a replay.
    """
    return _part(function, forceinline=True)


def choice(functions: Sequence[Any]) -> Any:
    """A function for hot loops: it calls the one of these whose number is its first argument, with the other arguments."""
    first = functions[0]
    n = next((n for n, one in enumerate(functions) if one is not first), len(functions))
    other = choice(functions[n:]) if n < len(functions) else None

    def chosen(number, *arguments):  # type: ignore[no-untyped-def]
        if other is None or number < n:  # once for neighbours that are the same
            return first(*arguments)
        return other(number - n, *arguments)

    return inner(chosen)


def _part(function: Any, **options: Any) -> Any:
    """The function, compiled as a part of the loops that call it.

    It is compiled once for the types of its arguments, not again for each constant that it is called with:
    LLVM sees the constant in the loop.
    """
    dispatcher = nb.njit(pipeline_class=_Parts, no_cpython_wrapper=True, **_OPTIONS, **options)(
        function
    )
    if isinstance(dispatcher, nb.core.dispatcher.Dispatcher):  # else NUMBA_DISABLE_JIT is set
        template = dispatcher.get_call_template

        def get_call_template(args: Any, kws: Any) -> Any:
            named = {name: unliteral(one) for name, one in kws.items()}
            return template(tuple(map(unliteral, args)), named)

        dispatcher.get_call_template = get_call_template
    return dispatcher


class _Part(codegen.JITCodeLibrary):  # type: ignore[misc]
    """The LLVM IR of a function that hot loops call; the loop at the top is optimised, and made machine code, as a whole.

    Numba would do both for every function, and again in all that call it. With that, the loops of a replay took 1.5
    times as long to compile, and those of the interpreter 1.9 times; they were as fast.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing: an environment holds Python's objects, of which a hot loop has none."""


class _Parts(compiler.Compiler):  # type: ignore[misc]
    """Numba's compiler, for such functions."""

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


class _RepairedCache(caching.FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function, which compiles anew what a damaged file contains.

    A full disk or a crash leaves empty files. Numba itself raises whatever pickle does with them.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # Without numba's `target_context.refresh()`, which takes 0.3 s in every process: of what it installs,
        # machine code that is loaded needs the runtime alone, which allocates arrays. To compile calls it.
        rtsys.initialize(target_context)
        try:
            kept = self._load_overload(sig, target_context)
        except Exception:  # pickle raises whatever a damaged file leads it to
            self._forget()
            kept = None
        if kept is None:
            report(COMPILING, next(_n_compiled))
        return kept

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError:  # a full or read-only disk: the function is compiled again next time
            self._forget()

    def _forget(self) -> None:
        try:
            self.flush()
        except OSError:
            self.disable()


_n_compiled = itertools.count(1)
"""Reported, so that whoever waits for the result learns why it takes seconds longer than it will the next time."""


def _cached(dispatcher: Any, part: Any = None) -> Any:
    """The function, compiled once per installation where a folder for the machine code can be written.

    part : what compiled loops call in its place
    """
    if isinstance(dispatcher, nb.core.dispatcher.Dispatcher):  # else NUMBA_DISABLE_JIT is set
        if part is not None:
            dispatcher.get_call_template = part.get_call_template
            dispatcher.get_overload = part.get_overload
        try:
            dispatcher._cache = _RepairedCache(dispatcher.py_func)
        except (RuntimeError, OSError):  # no folder can be written: compiled in every process
            return dispatcher
    return dispatcher


def damaged_cache_files(folder: Path) -> list[Path]:
    """The files of numba's cache below a folder that are empty, cut short or otherwise not readable.

    They are compiled again, and replaced, when they are needed.
    """
    damaged = []
    for index in sorted(folder.rglob("*.nbi")):
        try:
            with index.open("rb") as file:
                pickle.load(file)  # numba's version
                rest = file.read()
            _, files = pickle.loads(rest)
            codes = [index.parent / name for name in files.values()]
            damaged += [code for code in codes if code.exists() and not _whole(code)]
        except Exception:  # pickle raises whatever a damaged file leads it to
            damaged.append(index)
    return damaged


def _whole(pickled: Path) -> bool:
    """Whether a file ends as a pickle does; one that was cut short does not."""
    return pickled.read_bytes()[-1:] == pickle.STOP


def _marked(function: Any) -> Any:
    """The function, its name extended by the fingerprint of all its sources.

    Numba caches machine code under the function's name, and recompiles it only if the function's own
    file has changed, not if another file has from which code was inlined.
    """
    function.__qualname__ += f"_{fingerprint(function.__module__)}"
    return function


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Load array[index] into the caches of the CPU; no other effect.

    A replay reads hundreds of streams at the same time, more than any CPU prefetches by itself, but it
    knows the next element of each: without prefetching, two thirds of the time were spent waiting for
    memory.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        data = context.make_array(kind)(context, builder, arguments[0])
        at = cgutils.get_item_pointer(
            context, builder, kind, data, [arguments[1]], wraparound=False
        )
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, word, word, word]),
            "llvm.prefetch.p0i8",
        )
        for_reading, keep, data_cache = word(0), word(3), word(1)
        builder.call(function, [builder.bitcast(at, byte), for_reading, keep, data_cache])
        return context.get_dummy_value()

    return types.void(array, index), emit


prefetch: Any = (lambda array, index: None) if nb.config.DISABLE_JIT else _prefetch
