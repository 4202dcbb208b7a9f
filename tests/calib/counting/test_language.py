"""The feature language: parsing and printing, carets of errors, values of all kinds."""

from __future__ import annotations

from typing import Any

import pytest

import calib
from calib import EvaluationContext, FeatureError, parse_feature
from calib.counting.language import (
    Constraint,
    MemAccessFeature,
    OpFeature,
    PlainFeature,
    SimulatedFeature,
    WallTimeFeature,
)
from calib.features import evaluate
from calib.polynomials.quasi_polynomial import QuasiPolynomial
from experiments.kernels import matmul, stream
from memsim.errors import MemsimError
from tests.support import counted_kernels
from tests.support import loopy_kernels as kernels


def number(value: int, comparison: Any = "=") -> Constraint:
    return Constraint(comparison, QuasiPolynomial.number(value))


PAPER = "f_mem_access_global_float32_load_lstrides:{0:1;1:>15}_gstrides:{0:16}_afr:>1"
PAPERS_FEATURE = MemAccessFeature(
    memory="global",
    dtype="float32",
    direction="load",
    local_strides=((0, number(1)), (1, number(15, ">"))),
    group_strides=((0, number(16)),),
    afr=number(1, ">"),
)


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("f_op_float32_madd", OpFeature("float32", "madd")),
        ("f_mem_access", MemAccessFeature()),
        ("f_mem_access_tag:a_LD_global", MemAccessFeature(tag="a_LD", memory="global")),
        ("f_mem_access_int32_atomic", MemAccessFeature(dtype="int32", direction="atomic")),
        (PAPER, PAPERS_FEATURE),
        ("f_sync_barrier_local", PlainFeature.BARRIERS),
        ("f_sync_kernel_launch", PlainFeature.LAUNCHES),
        ("f_thread_groups", PlainFeature.GROUPS),
        ("f_cl_wall_time_nvidia_geforce", WallTimeFeature("nvidia", "geforce")),
        ("f_cl_wall_time", WallTimeFeature()),
        ("f_sim_l1_miss_sectors_local", SimulatedFeature("l1_miss_sectors", MemAccessFeature(memory="local"))),
        ("f_sim_latency_tag:x", SimulatedFeature("latency", MemAccessFeature(tag="x"))),
        ("f_sim_latency_cycles", SimulatedFeature("latency_cycles", MemAccessFeature())),
    ],
)  # fmt: skip
def test_texts_and_values(text: str, feature: Any) -> None:
    assert parse_feature(text) == feature
    assert str(feature) == text


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("1:n", "n"),
        ("1:16*n", "16*n"),
        ("1:>=n+2*nunit_nodes", "n + 2*nunit_nodes"),
        ("0:-1", "-1"),
        ("0:!=n*m", "m*n"),
    ],
)
def test_limits_may_name_sizes(text: str, limit: str) -> None:
    feature = parse_feature(f"f_mem_access_lstrides:{{{text}}}")
    assert isinstance(feature, MemAccessFeature)
    ((_, constraint),) = feature.local_strides
    assert str(constraint.limit) == limit
    assert parse_feature(str(feature)) == feature


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("f_op_float32_mad", 13, "'mad' is not an operation; did you mean madd"),
        ("f_op_float3_add", 5, "'float3' is not a type; did you mean float32"),
        ("f_op_float32", 12, "an operation must follow"),
        ("f_op_float32_add_tag:x", 16, "nothing may follow"),
        ("f_mem_access_glob_load", 13, "unknown field 'glob'; did you mean global"),
        ("f_mem_access_load_global", 18, "memory must come before direction"),
        ("f_mem_access_load_load", 18, "the field direction occurs twice"),
        ("f_mem_access_lstrides:0:1", 22, "{ must follow"),
        ("f_mem_access_lstrides:{0:1;}", 27, "expected an axis (0, 1 or 2)"),
        ("f_mem_access_lstrides:{0:1;0:2}", 27, "axis 0 occurs twice"),
        ("f_mem_access_lstrides:{0 1}", 24, ": must follow the axis"),
        ("f_mem_access_lstrides:{0:>}", 26, "a number or a size parameter"),
        ("f_mem_access_lstrides:{0:1.5}", 26, "; or } must follow"),
        ("f_mem_access_gstrides:{0:1}_lstrides:{0:1}", 28, "lstrides must come before gstrides"),
        ("f_mem_access_tag:a+b", 18, "a tag is letters"),
        ("f_mem_access_afr:", 17, "a number or a size parameter"),
        ("f_mem_accesses", 12, "a field begins with _"),
        ("f_sync_barrier_locl", 18, "did you mean f_sync_barrier_local"),
        ("f_sim_dram_byte_tag:x", 6, "unknown quantity; did you mean dram_bytes"),
        ("f_cl_wall_time_nvidia", 21, "a device must follow"),
        ("madds", 0, "unknown feature"),
        ("", 0, "unknown feature"),
    ],
)
def test_the_caret_marks_the_error(text: str, column: int, message: str) -> None:
    with pytest.raises(FeatureError) as caught:
        parse_feature(text)
    assert message in str(caught.value)
    (note,) = caught.value.__notes__
    shown, caret = note.split("\n")
    assert shown == f"  {text}"
    assert caret == " " * (column + 2) + "^"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: calib.count(counted_kernels.paper_matmul(), "f_mem_access_tag:aLd"), r"has no access tagged aLd; did you mean aLD\?"),
        (lambda: calib.count(counted_kernels.triangle(), "f_mem_access_tag:x"), "has no access tagged x; it has no tags"),
        (lambda: calib.count(counted_kernels.triangle(), "f_cl_wall_time"), "not counted from a kernel's text"),
        (lambda: calib.count("matmul", "f_op_float32_madd"), "a kernel is a loopy.TranslationUnit"),
        (lambda: evaluate("f_sim_dram_bytes", matmul.naive(64), {"n": 64}), "needs a machine"),
        (lambda: evaluate("f_sim_dram_bytes", matmul.naive(64), {"n": 32}, context=EvaluationContext(machine="v100")), "own arguments are for n = 64, not 32"),
    ],
)  # fmt: skip
def test_what_cannot_be_counted_or_simulated_is_refused(make: Any, words: str) -> None:
    with pytest.raises(MemsimError, match=words):
        make()


def test_counted_values() -> None:
    """Also those of another context: of wider sub-groups, and with average trips."""
    kernel, n = counted_kernels.paper_matmul(), {"n": 64}
    for feature, value in (("f_op_float32_madd", 64**3 / 32), (PAPER, 64**3 / 16)):
        assert evaluate(feature, kernel, n) == value
    wide = EvaluationContext(subgroup_size=64)
    assert evaluate("f_op_float32_madd", kernel, n, context=wide) == 64**3 / 64
    trips = EvaluationContext(trip_counts={"j": 2.5})
    assert evaluate("f_op_float32_madd", kernels.ragged([2] * 32), {"n": 32}, context=trips) == 2.5


def test_a_users_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    from calib.counting import language as features

    monkeypatch.setattr(features, "_REGISTERED", {})
    with pytest.raises(FeatureError, match="unknown feature"):
        evaluate("f_cells", counted_kernels.triangle(), {"n": 4})
    calib.register_feature("f_cells", lambda kernel, sizes, context: sizes["n"] ** 2 / 2)
    assert evaluate("f_cells", counted_kernels.triangle(), {"n": 4}) == 8
    with pytest.raises(FeatureError, match="did you mean f_cells"):
        parse_feature("f_cels")


@pytest.mark.parametrize("name", ["op_mine", "sim_x", "two words", "", "1st", "f_thread_groups"])
def test_invalid_feature_names_are_refused(name: str) -> None:
    with pytest.raises(FeatureError, match=r"begins like a built-in|must be letters"):
        calib.register_feature(name, lambda *_: 0.0)


def test_wall_time_is_measured(context: Any) -> None:
    small, large = stream.copy(n=1024), stream.copy(n=1 << 22)
    on = EvaluationContext(cl_context=context, timing_trials=9, statistic="minimum")
    times = [evaluate("f_cl_wall_time", each, {}, context=on) for each in (small, large)]
    assert 0 < times[0] < times[1] < 10
