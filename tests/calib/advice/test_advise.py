"""The search and the command: what is tried, what is refused and why, budgets, interrupts, outputs."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import loopy as lp
import numpy as np
import pytest
from click.testing import CliRunner
from loopy.diagnostic import LoopyError

from calib.advice import AdviseOptions, Tried, advise
from calib.advice import search as searching
from calib.advice.facts import Facts
from calib.advice.launch import is_free_of_shape, shapes
from calib.advice.report import as_json, code_text, headline, notes, page, ranking
from calib.advice.results import Advice
from calib.advice.search import Search
from calib.advice.trial import Measured, difference, outputs_of
from calib.advice.variants import Proposal, Variant, step
from calib.commands.advise import advise as advise_command
from experiments.kernels import stream
from memsim import load_machine
from memsim.errors import KernelError
from tests.calib.advice import textbook
from tests.support.command_line import RunMemsim
from tests.support.kernel_matrix import SCALE, SCALE_ARGS
from tracegen import BinaryWorkload, CudaWorkload, OpenCLWorkload, Workload
from tracegen.commands.kernel import KernelSpec

V100 = load_machine("v100")
FEW = AdviseOptions(trials=2, first_trials=2, best=1, depth=1, jobs=1)


def measure(seconds: float, spread: float = 0.0, **changes: Any) -> Measured:
    times = seconds * (1 + spread * np.array([-1.0, 1.0, -1.0, 1.0]))
    fields = {"groups_per_core": 4, "occupancy": 0.5, "registers": 32, "local_bytes": 0}
    return Measured(seconds=times, binds="DRAM", **{**fields, **changes})


def made(*tried: Tried) -> Advice:
    return Advice(kernel="knl", machine="v100", base={4: measure(1.0)}, tried=tried)


def one(what: str, seconds: float, spread: float = 0.0, **fields: Any) -> Tried:
    return Tried(what=what, remedies=(what,), measured=measure(seconds, spread), **fields)


def test_changes_are_ranked_by_gain_and_where_that_is_open_by_what_they_ask() -> None:
    advice = made(
        one("data", 0.50, 0.05, kind="layout"),
        one("simple", 0.51, 0.05),
        one("slow", 2.0),
        one("fast", 0.25, kind="layout"),
        Tried(what="broken", remedies=("x",), reason="why"),
    )
    ranked = advice.ranked("kernel", "layout", "launch")
    assert [each.what for each in ranked] == ["fast", "simple", "data", "slow"]
    assert advice.gain(ranked[0]).mean == 4.0
    assert [each.what for each in advice.failed] == ["broken"]
    assert [row[0] for row in ranking(advice, "kernel", only_gains=True)[1]] == ["simple"]
    for of, words in (
        (advice, "4 times as fast with: fast"),
        (made(one("slow", 2.0)), "no change that was tried is predicted to gain 2 %"),
        (made(), "nothing could be tried"),
    ):
        assert headline(of).endswith(words)


def test_a_gain_too_small_to_act_on_is_none() -> None:
    for seconds, is_gain in ((1 / 1.019, False), (1 / 1.021, True)):
        advice = made(one("tile", seconds, code=("knl = tiled(knl)",)))
        assert headline(advice).endswith("as fast with: tile") == is_gain
        assert bool(ranking(advice, "kernel", only_gains=True)[1]) == is_gain
        assert ("1 change is not predicted to gain 2 %: tile." in notes(advice)) != is_gain
        assert ("<pre>" in page(advice)) == is_gain


def test_a_change_without_code_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Loopy prints a kernel that it cannot schedule: not between the lines of a report, or of JSON."""
    kernel = lp.make_kernel(
        "{[i, j]: 0 <= i, j < 64}",
        """
        <> t = a[i] {id=t}
        b[i, j] = t {dep=t}
        """,
        lang_version=(2018, 2),
    )
    kernel = lp.tag_inames(kernel, {"i": "g.0", "j": "l.0"})
    variant = Variant(workload=Workload(kernel, {"a": np.ones(64, np.float32)}))
    with pytest.raises(KernelError, match="does not use all local hw axes"):
        outputs_of(variant)
    assert capfd.readouterr() == ("", "")


def test_two_changes_are_combined_in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the other one only where the first could not be predicted."""
    proposals = {
        name: lambda _, name=name: iter([Proposal(what=f"do {name}", steps=())]) for name in "abc"
    }
    monkeypatch.setattr(searching, "REMEDIES", proposals)
    monkeypatch.setattr(searching, "Facts", lambda *_: None)

    def tried(broken: tuple[str, ...]) -> list[str]:
        search = Search(None, V100, AdviseOptions(trials=4, depth=2), lambda work, _: work())
        search.start, search.final_s, search.base = time.monotonic(), 0.0, {4: measure(1.0)}

        def record(_: Any, __: Any, change: Tried) -> None:
            search.variants[len(search.tried)] = SimpleNamespace(workload=None)
            seconds = None if change.what in broken else measure(0.5)
            search.tried.append(dataclasses.replace(change, measured=seconds))

        monkeypatch.setattr(search, "_try", record)
        search._try_all(SimpleNamespace(workload=None), {}, set("abc"), ())
        search._try_together({})
        return [change.what for change in search.tried][3:]

    assert tried(()) == ["do a; do b", "do a; do c", "do b; do c"]
    assert tried(("do a; do b",)) == ["do a; do b", "do a; do c", "do b; do a", "do b; do c"]


def test_what_a_change_costs_is_shown_before_and_after() -> None:
    change = Tried(
        what="<b>tile</b>",
        remedies=("tile",),
        measured=measure(0.5, occupancy=0.25, registers=40, local_bytes=2048),
        code=("knl = advice.untag(knl, 'i')",),
    )
    advice = made(change)
    ((*_, occupancy, registers, local),) = ranking(advice, "kernel")[1]
    assert (occupancy, registers, local) == ("50 % -> 25 %", "32 -> 40", "0 B -> 2048 B")
    text = page(advice)
    assert "<b>tile" not in text
    assert "from calib import advice" in text
    assert code_text(change).startswith("from calib import advice\n")
    document = json.loads(json.dumps(as_json(advice), allow_nan=False))
    assert document["ranked"][0]["gain"] == {"mean": 2.0, "ci95": [2.0, 2.0], "trials": 4}


def test_results_may_differ_by_roundings_only() -> None:
    right = {"y": np.array([1.0, -8.0], np.float32), "n": np.array([3])}
    eps = float(np.finfo(np.float32).eps)
    near = {**right, "y": right["y"] + np.float32(8 * 900 * eps)}
    assert difference(near, right) == pytest.approx(900, rel=0.01)
    for wrong in (
        {**right, "y": right["y"] + np.float32(8 * 1100 * eps)},
        {**right, "n": np.array([4])},
        {**right, "y": np.array([np.nan, -8.0], np.float32)},
        {**right, "y": np.zeros(3, np.float32)},
    ):
        with pytest.raises(KernelError, match=r"^[yn] "):
            difference(wrong, right)


def wrong_order(facts: Facts) -> Iterator[Proposal]:
    yield Proposal(what="refused", steps=(step("lp.tag_inames", {"nothing": "unr"}),))
    yield Proposal(what="wrong", steps=(step("lp.fix_parameters"), step("lp.assume", "n >= 1")))
    yield from searching.REMEDIES["other lanes"](facts)


def unreadable(facts: Facts) -> Iterator[Proposal]:
    raise LoopyError("no such axis")
    yield


def test_a_search_keeps_what_failed_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """One remedy that cannot read the kernel, one that Loopy refuses, one whose kernel computes something else, and one that helps."""
    remedies = {"broken": unreadable, "wrong": wrong_order}
    remedies["other lanes"] = searching.REMEDIES["other lanes"]
    monkeypatch.setattr(searching, "REMEDIES", remedies)
    outputs = searching.try_variant

    def spoiled(variant: Any, reference: Any, *others: Any) -> Measured:
        if "lp.fix_parameters" in variant.code[0]:
            reference = {name: values + 1 for name, values in reference.items()}
        return outputs(variant, reference, *others)

    monkeypatch.setattr(searching, "try_variant", spoiled)
    advice = advise(textbook.sweep(128), V100, FEW)
    reasons = {each.what: each.reason for each in advice.failed}
    assert "does not exist" in reasons["refused"]
    assert reasons["wrong"].startswith("y differs from the original's by 1")
    best = advice.ranked("kernel")[0]
    assert best.what == "let lanes run along j, and groups along i_inner"
    assert not any("broken" in each.remedies for each in advice.tried)
    assert len(advice.gain(best).parts) == 0
    assert {each.kind for each in advice.tried} >= {"kernel", "upper bound"}
    # Other lanes help the load and the store at once, which is more than coalescing one of them can gain.
    gained = advice.gain(best).mean
    bounds = [one for one in advice.ranked("upper bound") if "coalesced" in one.what]
    assert bounds
    assert all(advice.gain(one).mean < gained for one in bounds)
    assert "from this access or array alone" in page(advice)


def test_a_budget_is_kept_and_what_it_did_not_last_for_is_listed() -> None:
    advice = advise(textbook.sweep(128), V100, FEW.replace(budget=1e-3))
    assert not advice.tried
    assert any("let lanes run along j" in what for what in advice.untried)
    assert "The budget did not last" in page(advice)


def test_an_interrupt_keeps_what_is_done() -> None:
    def stop(done: int, *_: Any) -> None:
        if done == 2:
            raise KeyboardInterrupt

    search = Search(textbook.sweep(128), V100, FEW, lambda work, _: work(), stop)
    advice = search.run()
    assert advice.interrupted
    assert len(advice.tried) == 2
    assert as_json(advice)["interrupted"]


@pytest.fixture
def scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    Path("scale.cl").write_text(SCALE)
    Path("args.py").write_text(SCALE_ARGS)
    return ["scale.cl:scale", "--args", "args.py:scale"]


def test_the_command_advises_on_opencl_c(scale: list[str]) -> None:
    """Groups of other shapes, the launch, and upper bounds; the text is not changed."""
    words = "-m v100 --trials 2 --first-trials 2 --jobs 1 --json advice.json --html advice.html"
    ended = CliRunner().invoke(advise_command, [*scale, *words.split()], catch_exceptions=False)
    assert ended.exit_code == 0
    assert "scale on v100" in ended.output
    document = json.loads(Path("advice.json").read_text())
    # 128 groups of 64 work-items on 80 cores: two on a core, which has room for 2048 work-items.
    assert document["base"]["occupancy"] == 2 * 64 / 2048
    changes = {row["what"]: row for row in document["ranked"]}
    assert {"groups of 32", "groups of 128", "groups of 256"} <= changes.keys()
    assert all(row["kind"] == "launch" for row in changes.values())
    bounds = {row["what"]: row for row in document["upper_bounds"]}
    assert bounds["without in[get_global_id(0)]"]["gain"]["mean"] > 1
    assert Path("advice.html").read_text().startswith("<!DOCTYPE html>")


def test_bad_input_is_one_line(scale: list[str], run_memsim: RunMemsim) -> None:
    for arguments, reason in (
        ([*scale, "-m", "no_such_gpu"], "no_such_gpu"),
        ([*scale, "-m", "v100", "--set", "q=1"], "q"),
        ([*scale, "-m", "v100", "--html", "no/page.html"], "there is no folder"),
        ([*scale, "-m", "v100", "--budget", "0"], "budget"),
        (["nowhere.py:knl", "-m", "v100"], "nowhere.py"),
    ):
        assert reason in run_memsim.refused("advise", *arguments)


@pytest.mark.parametrize(
    ("body", "free"),
    [
        ("int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = 1;", True),
        ("int i = threadIdx.x + blockIdx.x * blockDim.x; y[i] = 1; // threadIdx.y", True),
        ("for (int i = blockDim.x * blockIdx.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = 1;", True),
        ("int i = blockIdx.x * blockDim.x + threadIdx.y; y[i] = 1;", False),
        ("int i = blockIdx.x * 64 + threadIdx.x; y[i] = 1;", False),
        ("__shared__ float s[64]; y[0] = s[0];", False),
    ],
)  # fmt: skip
def test_texts_that_do_not_depend_on_the_shape_of_groups(body: str, free: bool) -> None:
    source = f"__global__ void k(float *y, int n) {{ {body} }}"
    assert is_free_of_shape(CudaWorkload(source=source, grid=4, block=64)) is free


@pytest.mark.parametrize(("place", "free"), [("global", True), ("local", False)])
def test_opencl_texts_with_local_ids_depend_on_the_shape(place: str, free: bool) -> None:
    source = SCALE.replace("get_global_id(0)]", f"get_{place}_id(0)]")
    assert is_free_of_shape(OpenCLWorkload(source=source, global_size=64, local_size=64)) is free


def test_groups_of_other_shapes_are_so_many_that_the_work_is_the_same() -> None:
    """The grid has an axis along which groups have one work-item."""
    source = "__global__ void k(float *y) { y[blockIdx.x * blockDim.x + threadIdx.x] = 1; }"
    found = list(shapes(CudaWorkload(source=source, grid=(8, 4), block=64), {}, None))
    assert (found[0][1].grid, found[0][1].block) == ((16, 4), (32, 1))
    for _, other in found:
        assert np.prod(other.grid) * np.prod(other.block) == 8 * 4 * 64


def test_combinations_that_are_not_tried_are_named_as_combinations() -> None:
    search = Search(
        stream.copy(n=1 << 12), V100, AdviseOptions(budget=1e-9), lambda work, _: work()
    )
    search.start = search.final_s = 0.0
    search._try_all(Variant(workload=search.workload), {}, {"group shape"}, ("pad",), "rows padded")
    assert search.untried
    assert all(one.startswith("rows padded; groups of") for one in search.untried)


COPY = """\
__kernel void copy(__global const float *in, __global float *out, int n)
{
  int x = get_group_id(0) * 32 + get_local_id(0), y = get_group_id(1) * 4 + get_local_id(1);
  out[n * y + x] = in[n * y + x + 1];
}
"""


def copy_rows(n: int = 256) -> OpenCLWorkload:
    """A grid of 8 x 64 groups, whose loads begin 4 bytes behind a line."""
    arguments = [np.ones(n * n + 1, np.float32), np.zeros(n * n, np.float32), np.int32(n)]
    return OpenCLWorkload(source=COPY, arguments=arguments, global_size=(n, n), local_size=(32, 4))


def test_the_launch_of_a_kernel_in_opencl_c() -> None:
    """All of it is tried. DRAM limits a copy: alignment, which saves requests to L2, changes little, and so
    do the order of groups and the size of a cache that it does not use."""
    advice = advise(copy_rows(), V100, FEW)
    for words, n, off in (
        ("in begins 124 bytes behind a line", 1, 0.1),
        ("groups ", 3, 0.1),  # along the other axis, and in strips of 4 and 8
        ("local memory takes", 2, 0.01),
    ):
        found = [each for each in advice.ranked("launch") if each.what.startswith(words)]
        assert [advice.gain(each).mean for each in found] == pytest.approx([1.0] * n, abs=off)
    assert not advice.ranked("kernel", "layout")


IN_BLOCKS = SCALE.replace("get_global_id(0)", "(B * get_group_id(0) + get_local_id(0))")


def test_a_setting_that_is_the_extent_of_a_group_is_changed() -> None:
    def made_with(settings: Any) -> OpenCLWorkload:
        b = int(settings["b"])
        source = IN_BLOCKS.replace("B", str(b))
        if b > 128:
            raise KernelError("too large")
        return OpenCLWorkload(source=source, global_size=1024, local_size=b)

    for b, expected in (("64", [32, 128]), ("128", [64])):
        settings = {"b": b, "n": "1024"}
        found = list(shapes(made_with(settings), settings, made_with))
        assert [one.local_size for _, one in found] == expected
    assert not list(shapes(made_with({"b": "64"}), {}, made_with))


def test_a_default_that_is_the_extent_of_a_group_is_changed(tmp_path: Path) -> None:
    (tmp_path / "blocks.cl").write_text(IN_BLOCKS)
    (tmp_path / "launch.py").write_text(
        "import numpy as np\nfrom tracegen import OpenCLWorkload\n"
        "def launch(block=64, n=1024, flag=True, factor=64.0):\n"
        "    x = np.ones(n, np.float32)\n"
        "    return OpenCLWorkload(arguments=[x, x.copy()], global_size=n, local_size=block,\n"
        "                          build_options=[f'-DB={block}'])\n"
    )
    spec, launch = f"{tmp_path}/blocks.cl:scale", f"{tmp_path}/launch.py:launch"
    kernel = KernelSpec(spec, {"n": "2048"}, launch)
    workload, settings = kernel.load_with_defaults()
    assert settings == {"block": "64", "n": "2048"}
    found = list(shapes(workload, settings, kernel.load))
    assert [one.local_size for _, one in found] == [32, 128]
    assert not list(shapes(workload, kernel.settings, kernel.load))


def test_compiled_kernels_have_the_shape_of_groups_that_they_have(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text("mov.u32 %r1, %ntid.x;")
    workload = BinaryWorkload(path=tmp_path / "k.ptx", kernel="k", grid=8, block=128)
    assert not list(shapes(workload, {"block": "128"}, lambda _: workload, cores=80))


def test_more_groups_are_tried_where_a_kernel_asks_how_many_there_are() -> None:
    strided = (
        "for (int i = get_global_id(0); i < n; i += get_global_size(0)) x[i] = get_local_id(0);"
    )
    source = f"__kernel void k(__global float *x, int n) {{ {strided} }}"
    few = OpenCLWorkload(source=source, global_size=1024, local_size=512)
    ((what, more),) = shapes(few, {}, None, 108)
    assert (more.global_size, more.local_size) == ((108 * 512,), (512,))
    assert what.startswith("108 groups instead of 2")
    many = dataclasses.replace(few, global_size=512 * 108)
    assert not list(shapes(many, {}, None, 108))
    one_each = dataclasses.replace(few, source=source.replace("get_global_size(0)", "1024"))
    assert not list(shapes(one_each, {}, None, 108))


def test_a_size_of_the_problem_that_is_the_extent_of_a_group_is_left_alone() -> None:
    """Half the size is no gain."""

    def made_with(settings: Any) -> OpenCLWorkload:
        n = int(settings["n"])
        arguments = [np.ones(n * n, np.float32), np.zeros(n * n, np.float32)]
        source = IN_BLOCKS.replace("B", str(n))
        return OpenCLWorkload(source=source, arguments=arguments, global_size=n * n, local_size=n)

    settings = {"n": "64"}
    assert not list(shapes(made_with(settings), settings, made_with))
