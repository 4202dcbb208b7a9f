"""Kernels in Triton: values against numpy, accesses against hand counts, and how files are loaded. Needs Triton's compiler."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import memsim
import tracegen
from calib.advice import AdviseOptions, advise
from calib.prediction.basic_blocks_trace import blocks_from_trace
from calib.prediction.prediction import predict
from memsim import disk_cache
from memsim.commands.cli import main
from memsim.errors import KernelError
from tracegen.compiled.triton_code import compile_triton
from tracegen.executed.launches import checked
from tracegen.options import TraceOptions
from tracegen.tools import cache

triton = pytest.importorskip("triton")
HERE = Path(__file__).parent
KERNELS = [
    "add", "softmax", "matmul", "dropout", "layer_norm", "attention", "gather", "histogram",
    "transpose", "running_sum", "described", "grouped",
]  # fmt: skip
# Machine -> the forms of floats of 8 bits that its tensor cores multiply, and those of blocks with scales: the tensor cores of
# Blackwell multiply by these; for others Triton makes halves of the scaled numbers.
FORMS = {
    "a100": (["e5m2"], []), "h100": (["e4m3"], ["e4m3", "e2m1"]), "b200": (["e4m3"], ["e4m3", "e5m2", "e2m1"]),
    "rtx5090": ([], ["e4m3", "e5m2", "e2m1"]), "mi250x": (["e4m3"], []), "mi300x": (["e4m3", "e4m3fnuz"], ["e4m3", "e2m1"]),
    "mi355x": (["e4m3", "e5m2"], ["e4m3", "e2m1"]),
}  # fmt: skip
VALUES = [
    *((machine, name, {}) for machine in ("a100", "h100", "b200", "mi250x", "mi300x") for name in KERNELS),
    *((machine, name, {"num_ctas": 2}) for machine in ("h100", "b200") for name in ("add", "matmul", "softmax")),
    *((machine, "eight", {"form": form}) for machine, (forms, _) in FORMS.items() for form in forms),
    *((machine, "scaled", {"form": form}) for machine, (_, forms) in FORMS.items() for form in forms),
]  # fmt: skip


def _load(name: str, **settings) -> tracegen.TritonWorkload:
    given = {key: str(value) for key, value in settings.items()}
    return tracegen.load_kernel(f"{HERE}/kernels.py:{name}", given, args=f"{HERE}/args.py:{name}")


@pytest.mark.weekly(3)
@pytest.mark.parametrize(("machine", "name", "settings"), VALUES)
def test_values_are_those_of_numpy(machine, name, settings):
    workload = _load(name, **settings)
    assert "own check" in checked(workload, memsim.load_machine(machine), TraceOptions())


def test_a_wrong_result_is_seen():
    workload = _load("add")
    wrong = tracegen.TritonWorkload(
        **{**vars(workload), "arguments": [*workload.arguments[:3], workload.arguments[3] - 1]}
    )
    with pytest.raises(KernelError, match="not what the workload's check expects"):
        checked(wrong, memsim.load_machine("a100"), TraceOptions())


def test_accesses_have_the_users_lines_and_the_bytes_of_the_arrays():
    trace = tracegen.trace(_load("add", n=4096, block=1024), "a100")
    lines = (HERE / "kernels.py").read_text().splitlines()
    assert [site.array for site in trace.sites] == ["x_ptr", "y_ptr", "out_ptr"]
    for site in trace.sites:
        assert site.array in lines[site.source.user_line - 1]
    # 4 groups of 4 warps; each thread has 8 numbers, as two accesses of 16 bytes.
    counts = Counter(trace.site.tolist())
    assert counts == {0: 32, 1: 32, 2: 32}
    assert trace.n_granule == 3 * 4096 * 4 // 32


def _bytes(trace):
    """(array, direction) -> bytes of the sectors that its accesses request."""
    found = Counter()
    for site, count in zip(trace.site.tolist(), np.diff(trace.granule_offset), strict=True):
        if site >= 0:
            found[trace.sites[site].array, trace.sites[site].direction] += 32 * int(count)
    return found


@pytest.mark.parametrize(("name", "machine"), [("matmul", "a100"), ("described", "h100")])
def test_tiles_are_read_once_for_each_product(name, machine):
    """By cp.async, or as tensor descriptors describe them: A once for each column of tiles, B once for each row of tiles."""
    m, n, k = 128, 192, 256
    trace = tracegen.trace(_load(name, m=m, n=n, k=k), machine)
    found = _bytes(trace)
    assert found["a_ptr", "load"] == m * k * 2 * (n // 64)
    assert found["b_ptr", "load"] == k * n * 2 * (m // 64)
    assert found["c_ptr", "store"] == m * n * 2
    loads = [site for site in trace.sites if site.direction == "load"]
    if name == "matmul":
        lines = (HERE / "kernels.py").read_text().splitlines()
        assert all("tl.load(" in lines[site.source.user_line - 1] for site in loads)
        assert [site.name for site in loads] == ["tl.load(a_ptrs)", "tl.load(b_ptrs)"]
    else:
        assert all(site.bypasses_l1 for site in loads)


def test_tensor_cores_do_the_products_and_copies_are_counted():
    """One multiply-add for each of m n k. A copy has 16 bytes a lane; behind the last of 8 turns, those for two more are issued
    with no lane on. Loads are waited for later."""
    m, n, k = 128, 192, 256
    trace = tracegen.trace(_load("matmul", m=m, n=n, k=k), "a100")
    times = np.bincount(trace.work, minlength=len(trace.work_table))
    counts = dict(zip(trace.work_kinds, times @ trace.work_table, strict=True))
    assert counts["tensor_f16_f32"] * 32 == m * n * k
    copied = 2 * (m * k * (n // 64) + k * n * (m // 64))
    assert counts["copies"] * 32 * 16 == copied * 10 / 8
    assert not counts["conflict"]
    program = blocks_from_trace(trace)
    assert any(block.barrier and block.lag > 1 for block in program.blocks)
    prediction = predict([trace], memsim.load_machine("a100"), trials=2, jobs=1)
    floor = m * n * k / (1024 * 6) / 1.41e9  # six groups, each on a core of its own
    assert prediction.timing.floor_means_s["tensor cores"] == pytest.approx(floor)


OF_PTX = {
    r"cp\.async\.c[ag]\b": "LDGSTS", "ldmatrix": "LDSM", "mma.sync": "HMMA", "st.global": "STG", "st.shared": "STS", "bar.sync": "BAR",
}  # fmt: skip


@pytest.mark.parametrize("name", ["matmul", "attention", "softmax", "layer_norm", "transpose"])
def test_instructions_are_those_of_the_ptx(name):
    compiled = compile_triton(_load(name), "sm_80")
    blocks = compiled.code("sm_80", None).code.blocks
    found = Counter(one.opcode.partition(".")[0] for block in blocks for one in block.instructions)
    wanted = {sass: len(re.findall(rf"\b{ptx}", compiled.text)) for ptx, sass in OF_PTX.items()}
    assert {sass: found[sass] for sass in wanted} == wanted


def test_tune_tries_the_configurations_of_the_autotuner(tmp_path, capsys):
    kernel = f"{HERE}/kernels.py:matmul --args {HERE}/args.py:matmul -m a100"
    assert main(f"tune {kernel} --jobs 1".split()) == 0
    out, err = capsys.readouterr()
    assert "config" in out
    assert "config=1: BM=64 BN=32 BK=64 GROUP=8 num_warps=2" in err
    assert main(f"trace {kernel} --config 7 -o {tmp_path}/k.trace".split()) == 2
    assert "config must be from 0 to 1, got 7" in capsys.readouterr().err
    assert main(f"predict {kernel} --config 7".split()) == 2
    assert "config must be from 0 to 1, got 7" in capsys.readouterr().err
    assert main(f"export {kernel} --config 1 --set config=0 -o {tmp_path}/k".split()) == 2
    assert "--config and --set config both choose" in capsys.readouterr().err


def test_functions_with_their_kernel_take_its_settings(tmp_path):
    path = tmp_path / "products.py"
    path.write_text(
        f"import dataclasses, sys\nsys.path.insert(0, {str(HERE)!r})\nimport args, kernels\n"
        "def make(k: int = 64): return dataclasses.replace(args.matmul(k=k), kernel=kernels.matmul)\n"
    )
    workload = tracegen.load_kernel(f"{path}:make", {"k": "32", "config": "1", "num_warps": "8"})
    assert (workload.config, workload.settings) == (1, {"num_warps": 8})


@pytest.mark.parametrize(
    "content",
    [None, {}, {"text": "", "kernel": "add_kernel"}, {"content": {"text": 1}, "headers": {}}],
)
def test_what_is_kept_and_damaged_is_compiled_again(content, tmp_path, monkeypatch):
    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path))
    workload = _load("add")
    first = compile_triton(workload, "sm_80")
    (kept,) = (tmp_path / cache.KIND).glob("*.json")
    disk_cache.save(cache.KIND, kept.stem, content)
    second = compile_triton(workload, "sm_80")
    assert (second.text, second.kernel, second.threads) == (first.text, first.kernel, first.threads)


def test_specialisation_and_configurations_are_those_of_the_launcher():
    def code(name, **settings):
        trace = tracegen.trace(_load(name, **settings), "a100")
        return " ".join(trace.provenance["compiler"]["code"]["text"])

    assert "LDG.E.128" in code("add", n=4096, block=1024)  # n is divisible by 16
    assert "LDG.E.128" not in code("add", n=4095, block=1024)
    assert "HMMA.16816" in code("matmul")
    for name, settings, threads in (
        ("matmul", {"config": 0}, 128), ("matmul", {"config": 1}, 64), ("add", {"num_warps": 8}, 256),
    ):  # fmt: skip
        assert tracegen.trace(_load(name, **settings), "a100").launch.group_items == threads
    even = code("dropout", n=1024), code("dropout", n=1000)
    assert even[0] != even[1]  # by @triton.heuristics


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        ({"config": 1}, {}, "no autotuner"),
        ({"num_wraps": 4}, {}, "add: Keyword argument num_wraps"),
        ({"BLOCK": 1000}, {}, "power of 2"),
        ({"num_ctas": 32}, {}, "add"),
        ({"num_warps": 3}, {}, "num_warps must be a power of 2"),
        ({}, {"grid": (1 << 40,)}, "may have 2147483647 groups along an axis"),
        ({}, {"grid": lambda meta: "many"}, "a grid is one to three whole numbers"),
        ({}, {"grid": lambda meta: (0,)}, "of at least 1"),
        ({}, {"grid": lambda meta: meta["NONE"]}, "NONE"),
        ({}, {"arguments": [1.5]}, "needs a value for y_ptr"),
        ({}, {"arguments": [None] * 9}, "takes 5 arguments, got 9"),
        ({"num_warps": 4.0}, {}, "num_warps must be a whole number, got 4.0"),
        (
            {},
            {"arguments": ["x", "y", "z", 1]},
            "argument x_ptr of kernel add takes an array, a number or None, got 'x'",
        ),
        ({}, {"arguments": [np.zeros(9)] * 3 + [1 << 70]}, "too large"),
        ({}, {"arguments": [np.zeros(9, "c8")] * 3 + [9]}, "complex64"),
        ({}, {"kernel": len}, "needs a @triton.jit function"),
    ],
)
def test_what_does_not_fit_is_one_line(settings, changes, message):
    workload = tracegen.TritonWorkload(
        **{**vars(_load("add", **settings)), "check": None, **changes}
    )
    with pytest.raises(KernelError, match=message) as error:
        tracegen.trace(workload, "h100")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("heuristic", "why"),
    [
        (lambda known: known["m"] > 0, "needs a value for m"),
        (
            lambda known: known["n"].shape,
            "failed: AttributeError: 'int' object has no attribute 'shape'",
        ),
    ],
)
def test_a_heuristic_that_fails_is_one_line(heuristic, why):
    workload = _load("add")
    kernel = triton.heuristics({"BLOCK": heuristic})(workload.kernel)
    changed = {**vars(workload), "settings": {}, "kernel": kernel}
    with pytest.raises(KernelError, match=f"kernel add: its heuristic for BLOCK {why}"):
        tracegen.trace(tracegen.TritonWorkload(**changed), "h100")


TUTORIAL = """
import torch
import torch.nn.functional as F
from torch import nn

import triton
import triton.language as tl

DEVICE = triton.runtime.driver.active.get_active_torch_device()


@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr = 256):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor):
        y = torch.empty_like(x)
        double[(1,)](x, y, x.numel())
        return y


x = torch.rand(100, device=DEVICE)
print(Doubled.apply(x))
double[(1,)](x, x, 100)
assert torch.allclose(x, x)
while x.sum() > 0:
    x = x - 1
"""


def test_a_tutorial_loads_without_torch_and_without_a_gpu(tmp_path):
    (tmp_path / "tutorial.py").write_text(TUTORIAL)
    (tmp_path / "args.py").write_text(
        "import numpy as np, tracegen\n"
        "def make(n: int = 100):\n"
        "    x, y = np.ones(n, np.float32), np.zeros(n, np.float32)\n"
        "    return tracegen.TritonWorkload(arguments=[x, y, n], grid=(1,))\n"
    )
    args = f"{tmp_path}/args.py:make"
    workload = tracegen.load_kernel(f"{tmp_path}/tutorial.py:double", {"BLOCK": "128"}, args=args)
    assert tracegen.trace(workload, "a100").n_granule == 2 * -(-400 // 32)
    assert not any(name.partition(".")[0] == "torch" for name in sys.modules)
    with pytest.raises(KernelError, match="has no triple; it has double"):
        tracegen.load_kernel(f"{tmp_path}/tutorial.py:triple", {}, args=args)
    with pytest.raises(KernelError, match="is a kernel in Triton: --args"):
        tracegen.load_kernel(f"{tmp_path}/tutorial.py:double")


def test_a_file_of_a_package_loads_without_the_rest_of_it(tmp_path):
    """What it imports from its neighbours is there; what their packages import beside is not executed."""
    inner = tmp_path / "norms" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("raise ImportError('of everything')")
    (inner / "__init__.py").write_text("raise ImportError('of everything')")
    (inner / "sizes.py").write_text(
        "import torch\nBLOCK = 64 if torch.cuda.is_available() else 128\n"
    )
    (inner / "twice.py").write_text(
        "import torch\nimport triton\nimport triton.language as tl\nfrom norms.inner.sizes import BLOCK\n"
        "from .sizes import BLOCK as SAME\nSIZE = tl.constexpr(BLOCK if torch.__version__ else SAME)\n"
        "@triton.jit\ndef twice(x_ptr):\n    at = x_ptr + tl.arange(0, SIZE)\n    tl.store(at, 2 * tl.load(at))\n"
    )
    (tmp_path / "args.py").write_text(
        "import numpy as np, tracegen\n"
        "def make():\n    return tracegen.TritonWorkload(arguments=[np.ones(128, np.float32)], grid=(1,))\n"
    )
    workload = tracegen.load_kernel(f"{inner}/twice.py:twice", {}, args=f"{tmp_path}/args.py:make")
    assert tracegen.trace(workload, "a100").n_granule == 2 * 128 // 8
    assert not any(name.startswith("norms") for name in sys.modules)


def test_the_readmes_example_runs(tmp_path, monkeypatch):
    text = (HERE.parents[2] / "tracegen/README.md").read_text()
    section = text.partition("## Trace Triton\n")[2].partition("\n## ")[0]
    for name, body in re.findall(r"^```py\n# (\w+\.py)\n(.*?)^```$", section, re.M | re.S):
        (tmp_path / name).write_text(body)
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"^    memsim (.*)$", section, re.M)
    assert main(command.split()) == 0


def test_advice_is_a_stage_more_or_less():
    options = AdviseOptions(trials=2, first_trials=2, best=1, jobs=1)
    advice = advise(_load("matmul", m=64, n=64, k=512), memsim.load_machine("a100"), options)
    gains = {one.what.split()[0]: advice.gain(one).mean for one in advice.ranked("launch")}
    assert {"num_stages=4", "num_stages=2", "num_warps=8", "num_warps=2"} <= set(gains)
    assert gains["num_stages=2"] < 1 <= gains["num_stages=4"]  # copies of k / 32 = 16 turns


def test_commands_take_kernels_in_triton():
    def memsim_says(*words):
        command = [sys.executable, "-m", "memsim.commands.start", *words]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=250)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    kernel = [f"{HERE}/kernels.py:add", "--args", f"{HERE}/args.py:add", "-m", "a100"]
    assert "registers" in memsim_says("compile", *kernel)
    assert "x_ptr" in memsim_says("profile", *kernel, "--quick", "--set", "n=65536")


LIBRARY = {
    "__init__.py": "from absent import everything\nfrom .tools import widths as SIZES\nraise ImportError('of everything')\n",
    "tools/__init__.py": "import absent\nfrom .sizes import WARPS, half, widths\nfrom .autotuner import absent, tuned\n",
    "tools/sizes.py": """
import torch
from absent import Version

def chosen():
    if torch.cuda.is_available():
        return "hip" if torch.version.hip else "cuda"
    raise RuntimeError("a GPU is needed")

DEVICE = chosen()
IS_EXACT = bool(torch.are_deterministic_algorithms_enabled())
WARPS = [n for n in (4, 2, 64) if n * torch.cuda.get_device_properties(0).warp_size <= 1024]
widths = [16 if IS_EXACT or DEVICE != "cuda" else 128]
if Version("3") > Version("2"):
    half = lambda x: x / 2
""",
    "tools/autotuner.py": """
import triton
from triton.runtime.autotuner import Autotuner

class Tuned(Autotuner):
    pass

def tuned(configs):
    return lambda fn: Tuned(fn, fn.arg_names, configs, [], None, None)
""",
    "tools/places.py": "import triton\nfrom absent import other\n\n@triton.jit\ndef group():\n    return triton.language.program_id(0)\n",
    "ops/__init__.py": "raise ImportError('of everything')\n",
    "ops/copy.py": "raise ImportError('Python has a module of this name')\n",
    "ops/scaled.py": """
import triton
import triton.language as tl
from absent import Unknown, unknown
from library import SIZES
from library.tools import WARPS, half, tuned
from library.tools import places

CONFIGS = [triton.Config({"BLOCK": n}, num_warps=w) for n in SIZES for w in WARPS]

@tuned(CONFIGS)
@triton.jit
def scaled(x_ptr, BLOCK: tl.constexpr):
    at = x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(at, 2 * tl.load(at))

def registered(of):
    def register(function):
        raise RuntimeError(f"no {of}")
    return register

@registered("device")
@tuned(CONFIGS)
@triton.jit
def called(x_ptr, BLOCK: tl.constexpr):
    at = x_ptr + places.group() * BLOCK + tl.arange(0, BLOCK)
    tl.store(at, 2 * tl.load(at))

@unknown
@triton.jit
def plain(x_ptr, BLOCK: tl.constexpr):
    at = x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(at, 2 * tl.load(at))

@triton.jit
def halved(x_ptr, BLOCK: tl.constexpr):
    at = x_ptr + tl.arange(0, BLOCK)
    tl.store(at, half(tl.load(at)))

if unknown:
    def never(x_ptr):
        pass
""",
}


@pytest.fixture
def library(tmp_path):
    """Loads a kernel of a package that needs PyTorch, a GPU and a library, none of which is there."""
    for name, text in LIBRARY.items():
        path = tmp_path / "library" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "args.py").write_text(
        "import numpy as np, tracegen\n"
        "def make():\n    return tracegen.TritonWorkload(arguments=[np.ones(256, np.float32)], grid=2)\n"
    )

    def load(name, **settings):
        place = f"{tmp_path}/library/ops/scaled.py:{name}"
        return tracegen.load_kernel(place, settings, args=f"{tmp_path}/args.py:make")

    yield load
    assert not any(name.partition(".")[0] in ("library", "torch") for name in sys.modules)


def test_what_a_package_cannot_do_here_does_not_keep_its_kernels_from_loading(library):
    """Its autotuner is derived from Triton's, and its configurations come from its neighbours."""
    workload = library("scaled")
    assert workload.configurations == [
        f"BLOCK=128 num_warps={n} num_ctas=1 num_stages=3" for n in (4, 2)
    ]
    assert tracegen.trace(workload, "a100").n_granule == 2 * 256 // 8


def test_a_decorator_that_fails_is_left_out_with_a_warning(library):
    with pytest.warns(
        UserWarning, match=r"plain is without .*: line 4 .* No module named 'absent'"
    ):
        workload = library("plain", BLOCK="128")
    assert tracegen.trace(workload, "a100").n_granule == 2 * 256 // 8


def test_a_decorator_that_fails_with_the_function_is_left_out_alone(library):
    """What a registration returns fails; the autotuner inside it stays. The kernel calls a function of a neighbour by its module."""
    with pytest.warns(UserWarning, match=r"called is without .* failed: RuntimeError: no device"):
        workload = library("called")
    assert len(workload.configurations) == 2
    assert tracegen.trace(workload, "a100").n_granule == 2 * 256 // 8


def test_why_a_name_is_missing_is_said(library):
    """The cause may lie in a neighbour."""
    cause = r"line 3 of sizes.py failed: ModuleNotFoundError: No module named 'absent'"
    with pytest.raises(KernelError, match=rf"half is not defined.*{cause}") as error:
        tracegen.trace(library("halved", BLOCK="32"), "a100")
    assert "\n" not in str(error.value)
    with pytest.raises(KernelError, match=r"has no never: line 4 of scaled.py failed: .*; it has"):
        library("never")
