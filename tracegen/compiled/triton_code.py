"""Compiles a Triton kernel for a GPU that is not there, as Triton's own launcher specialises it.

Triton's compiler needs no driver: it writes PTX for NVIDIA's targets, which our ptxas assembles, and the final assembly for
AMD's. What its launcher does before it compiles (specialisation on values that are 1 or divisible by 16, constants,
options) is done by its own functions; their names are those of Triton 3.9.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memsim.errors import KernelError
from tracegen.compiled.amd.back_end import is_wide
from tracegen.compiled.binary import CompiledText, amd_code, assembled
from tracegen.compiled.nvidia.nvidia_ptx import number
from tracegen.tools import cache
from tracegen.workloads.checks import MOST_PER_AXIS, is_whole, short
from tracegen.workloads.triton_file import check_installed, why_missing
from tracegen.workloads.workload import TritonWorkload

KNOWN_TRITON = "3.9"
"""The version of Triton whose launcher's functions these are."""
NEWEST_PTX = 88
"""Version of PTX that ptxas 12.9 reads."""
_ALIGNED = 1 << 20
"""An address such as ours and PyTorch's: a multiple of 16."""
_TYPES = {"bool": "int1", "float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5"}
_COUNTS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Options that are whole numbers."""
_NUMBERS = {"fp16": "f2", "fp32": "f4", "fp64": "f8", "i1": "u1", "u1": "u1"}


@dataclass(frozen=True, kw_only=True)
class TritonCode:
    """A kernel that Triton has compiled.

    kernel : its symbol;  text : PTX, or AMD's assembly;  file : of the kernel
    given : name -> value of the parameters that the code has, then of those that Triton adds, for which zeros are enough
    grid, threads, cluster : of the launch;  shared_bytes : dynamic shared memory of a group
    settings : name -> value of the integers
    """

    kernel: str
    text: str
    file: str
    given: dict[str, Any]
    grid: tuple[int, ...]
    threads: int
    cluster: tuple[int, ...]
    shared_bytes: int
    settings: dict[str, int]

    def code(self, target: str, registers: int | None) -> CompiledText:
        """The machine code, with the text of the user's file."""
        if target.startswith("sm_"):
            code = assembled(self.text, self.kernel, target, self.file, registers)
        else:
            code = amd_code(self.text, self.kernel, target, self.file)
        text = Path(self.file).read_text(encoding="utf-8", errors="replace")
        return CompiledText(code=code, file=self.file, text=text)


class _Pointer:
    """An array as Triton's specialisation sees it."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def data_ptr(self) -> int:
        return _ALIGNED


def compile_triton(workload: TritonWorkload, target: str) -> TritonCode:
    """Raises KernelError in one line where Triton is missing or another version, or refuses the kernel or its arguments."""
    check_installed()
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # 3.9's default, about which it warns
    import triton

    try:
        return _compiled(workload, target)
    except KernelError:
        raise
    except (ImportError, AttributeError) as error:
        if triton.__version__.startswith(KNOWN_TRITON):
            raise
        raise KernelError(
            f"the compiler of Triton {triton.__version__} is not known here ({error}); {KNOWN_TRITON} is"
        ) from error


def _compiled(workload: TritonWorkload, target: str) -> TritonCode:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, make_backend
    from triton.runtime.jit import create_function_from_signature

    function, given = _unwrapped(workload)
    is_nvidia = target.startswith("sm_")
    gpu = (
        GPUTarget("cuda", number(target), 32)
        if is_nvidia
        else GPUTarget("hip", target, 64 if is_wide(target) else 32)
    )
    what = f"kernel {function.__name__}"
    options = {"ptx_version": NEWEST_PTX} if is_nvidia and number(target) >= 90 else {}
    try:
        backend = make_backend(gpu)
        bind = create_function_from_signature(function.signature, function.params, backend)
        arrays = {k: v for k, v in given.items() if isinstance(v, np.ndarray)}
        seen = {k: _Pointer(_element(what, k, v)) if k in arrays else v for k, v in given.items()}
        values, specialised, extra = bind(**seen, **options)
        chosen, signature, constants, attributes = function._pack_args(
            backend, extra, values, specialised, None
        )
    except (AssertionError, OverflowError, TypeError, KeyError, ValueError, RuntimeError) as error:
        reason = _line(error)
        unfit = re.fullmatch(r"failed to specialize argument of type: (\w+)", reason)
        for name, value in given.items():
            if unfit and type(value).__name__ == unfit[1]:
                raise KernelError(
                    f"argument {name} of {what} takes an array, a number or None, got {short(value)}"
                ) from error
        raise KernelError(f"{what}: {reason}") from error
    values = {k: arrays.get(k, v) for k, v in values.items()}
    source = ASTSource(function, signature, constants, attributes)
    key = cache.key(
        "triton", triton.__version__, source.hash(), str(gpu), str(chosen), function.file_name
    )
    try:
        made = cache.kept(key, _Made, lambda: (_made(source, backend, gpu, chosen), {}))
    except Exception as error:  # whatever the compiler raises for a text that it refuses
        reason = _line(error)
        missing = re.search(r"NameError\('(\w+) is not defined", reason)
        why = why_missing(function.fn.__module__, missing[1]) if missing else ""
        raise KernelError(
            f"{what}: Triton cannot compile it for {target}: {reason}{why}"
        ) from error
    named = {
        k: _value(what, k, values[k], kind) for k, kind in signature.items() if kind != "constexpr"
    }
    grid = _grid(what, workload.grid, given)
    scratch = made.global_scratch_size * int(np.prod(grid))
    named |= {
        "global scratch": np.zeros(scratch, np.uint8) if scratch else None,
        "profile scratch": None,
    }
    integers = {k: int(v) for k, v in values.items() if isinstance(v, int | np.integer)}
    return TritonCode(
        kernel=made.kernel,
        text=made.text,
        file=function.file_name,
        given=named,
        grid=(grid[0] * made.num_ctas, *grid[1:]),
        cluster=(made.num_ctas,),
        threads=made.num_warps * gpu.warp_size,
        shared_bytes=made.shared,
        settings=integers,
    )


def _unwrapped(workload: TritonWorkload) -> tuple[Any, dict[str, Any]]:
    """The function itself, and all its arguments, constants and options by name."""
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    kernel, settings = workload.kernel, dict(workload.settings)
    heuristics: dict[str, Any] = {}
    while not isinstance(kernel, JITFunction):
        if isinstance(kernel, Autotuner):
            if not 0 <= workload.config < len(kernel.configs):
                raise KernelError(
                    f"config must be from 0 to {len(kernel.configs) - 1}, got {workload.config}"
                )
            settings = kernel.configs[workload.config].all_kwargs() | settings
        elif isinstance(kernel, Heuristics):
            heuristics |= kernel.values
        else:
            raise KernelError(
                f"a TritonWorkload needs a @triton.jit function, got {short(workload.kernel)}"
            )
        kernel = kernel.fn
    if workload.config and not workload.configurations:
        raise KernelError(
            f"{kernel.__name__} has no autotuner: config {workload.config} is none of its"
        )
    given = workload.arguments
    if not isinstance(given, Mapping):
        if len(given) > len(kernel.arg_names):
            raise KernelError(
                f"kernel {kernel.__name__} takes {len(kernel.arg_names)} arguments, got {len(given)}"
            )
        given = dict(zip(kernel.arg_names, given, strict=False))
    known = {name: _plain(value) for name, value in given.items()} | settings
    for name, value in heuristics.items():
        if name in known:
            continue
        try:
            known[name] = value(known)
        except Exception as error:  # the user's own function
            why = f"failed: {type(error).__name__}: {_line(error)}"
            if isinstance(error, KeyError):
                why = f"needs a value for {error.args[0]}"
            raise KernelError(
                f"kernel {kernel.__name__}: its heuristic for {name} {why}"
            ) from error
    for name, value in known.items():
        if name in _COUNTS and not is_whole(value, MOST_PER_AXIS):
            raise KernelError(f"{name} must be a whole number, got {short(value)}")
    unknown = [p.name for p in kernel.params if p.name not in known and not p.has_default]
    if unknown:
        raise KernelError(f"kernel {kernel.__name__} needs a value for {', '.join(unknown)}")
    return kernel, {
        name: value
        for name, value in known.items()
        if value is not None or name in kernel.arg_names
    }


def _plain(value: Any) -> Any:
    """A numpy array of a tensor of PyTorch's, with bfloat16 as ml_dtypes has it; a number of Python's of numpy's."""
    if isinstance(value, np.generic) and not value.dtype.fields:
        return value.item()
    if not hasattr(value, "detach"):
        return value
    tensor = value.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":
        return tensor.view(__import__("torch").int16).numpy().view(_BFLOAT16)
    return tensor.numpy()


_BFLOAT16 = np.dtype([("bfloat16", np.uint16)])
"""What numpy has for bfloat16 without ml_dtypes."""


def _element(what: str, name: str, array: Any) -> Any:
    """Triton's type of an array's elements."""
    import triton.language as tl

    called = array.dtype.names[0] if array.dtype.names else array.dtype.name
    dtype = getattr(tl, _TYPES.get(called, called), None)
    if not isinstance(dtype, tl.dtype):
        raise KernelError(
            f"{what}: argument {name} has elements of {array.dtype}, which Triton has not"
        )
    return dtype


@dataclass(frozen=True)
class _Made:
    """What Triton's stages write: the text and the symbol of the kernel, and sizes by Triton's names."""

    text: str
    kernel: str
    shared: int
    num_warps: int
    num_ctas: int
    global_scratch_size: int


def _made(source: Any, backend: Any, gpu: Any, options: Any) -> _Made:
    """Triton's stages up to the text."""
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(
        gpu, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
    )
    stages: dict[str, Any] = {}
    metadata: dict[str, Any] = {**vars(options), "target": gpu}
    backend.add_stages(stages, options, source.language)
    for name, stage in stages.items():
        module = stage(module, metadata)
        if name in ("ptx", "amdgcn"):
            break
    sizes = ("shared", "num_warps", "num_ctas", "global_scratch_size")
    return _Made(str(module), metadata["name"], *(int(metadata.get(k) or 0) for k in sizes))


def _value(what: str, name: str, value: Any, kind: str) -> Any:
    """An argument with the size that its type has."""
    if kind.startswith("*"):
        return value
    numpy = _NUMBERS.get(kind) or (
        f"{kind[0]}{int(kind[1:]) // 8}" if re.fullmatch(r"[iu]\d+", kind) else ""
    )
    if not numpy:
        raise KernelError(
            f"{what}: argument {name} is a {kind.partition('<')[0]}, which cannot be traced"
        )
    return np.dtype(numpy).type(value)


def _grid(what: str, grid: Any, given: Mapping[str, Any]) -> tuple[int, ...]:
    """Groups along each axis."""
    if callable(grid):
        try:
            grid = grid(given)
        except Exception as error:  # the user's own function
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise KernelError(f"{what}: its grid cannot be computed: {reason}") from error
    listed = (grid,) if isinstance(grid, int | np.integer) else grid
    if not isinstance(listed, tuple | list) or not 1 <= len(listed) <= 3:
        raise KernelError(f"{what}: a grid is one to three whole numbers, got {short(grid)}")
    if not all(isinstance(n, int | np.integer) and n > 0 for n in listed):
        raise KernelError(
            f"{what}: a grid is one to three whole numbers of at least 1, got {short(grid)}"
        )
    return tuple(int(n) for n in listed)


def _line(error: BaseException) -> str:
    """The reason in one line; Triton's errors show the text before it."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = str(cause.args[0]) if isinstance(cause, KeyError) and cause.args else str(cause)
    words = [line.strip() for line in text.splitlines() if line.strip()]
    at = next((line for line in str(error).splitlines() if line.startswith("at ")), "")
    return f"{at} {words[-1] if words else type(cause).__name__}".strip()
