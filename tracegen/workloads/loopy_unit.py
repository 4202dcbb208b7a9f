"""What every reader of a Loopy kernel needs: functions inlined, and refusals in one line."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from typing import Any

import loopy as lp
import pyopencl as cl
from loopy.diagnostic import LoopyError
from loopy.kernel.function_interface import CallableKernel

from memsim.errors import KernelError, MemsimError, one_line


def inlined(t_unit: Any) -> Any:
    """The kernel with every function whose text Loopy knows inlined."""
    for _ in range(len(t_unit.callables_table)):
        inner = [
            str(name)
            for name, callee in t_unit.callables_table.items()
            if isinstance(callee, CallableKernel) and name not in t_unit.entrypoints
        ]
        if not inner:
            break
        for name in inner:
            if name in t_unit.callables_table:
                t_unit = lp.inline_callable_kernel(t_unit, name)
        t_unit = t_unit.with_entrypoints(t_unit.entrypoints)
    return t_unit


@contextlib.contextmanager
def as_kernel_error(name: str) -> Iterator[None]:
    """Turns what Loopy and OpenCL raise into KernelError, and keeps Loopy from printing."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    except MemsimError:
        raise
    except cl.Error as error:
        raise KernelError(f"kernel {name} cannot be run: {one_line(error)}") from error
    except (LoopyError, TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        said = f"{type(error).__name__}: {one_line(error)}"
        raise KernelError(f"kernel {name}: {said}") from error
