"""Measurement kernels: tags select as in the paper, and every kernel computes what it documents."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import loopy as lp
import numpy as np
import pyopencl as cl
import pytest

import calib
from calib.kernels import ALL_GENERATORS, KernelCollection, MatchCondition
from calib.kernels.collection import Built, Choice, Generator, MeasurementKernel, Number, TagError
from tests.support.small_kernels import BY_NAME, REMOVED, SMALL, small
from tracegen.devices import choice as opencl

pytestmark = pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning")

COLLECTION = KernelCollection(ALL_GENERATORS)


def run(kernel: MeasurementKernel) -> dict[str, Any]:
    context = opencl.choose()
    unit = lp.set_options(kernel.kernel, return_dict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        executor = unit.executor(context)
        _, outputs = executor(cl.CommandQueue(context), out_host=True, **kernel.arguments())
    return dict(outputs)


def test_every_generator_of_the_paper_is_there_and_documented() -> None:
    assert set(SMALL) | set(REMOVED) == set(BY_NAME)
    assert len(BY_NAME) >= 20
    for generator in ALL_GENERATORS:
        assert len(generator.description) > 20, generator.name
        assert generator.description.endswith((".", ")"))
        assert all(tag.isidentifier() for tag in generator.tags)
        assert generator.arguments


@pytest.mark.weekly(3)
@pytest.mark.parametrize("name", sorted(SMALL))
def test_the_first_variant_computes_its_definition(name: str) -> None:
    check(name, small(name)[:1])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SMALL))
def test_every_variant_computes_its_definition(name: str) -> None:
    check(name, small(name)[1:])


def check(name: str, kernels: list[MeasurementKernel]) -> None:
    for kernel in kernels:
        outputs = run(kernel)
        if name == "empty":
            assert outputs == {}
            continue
        assert kernel.check is not None
        kernel.check(outputs)
        (array,) = outputs.values()
        where = tuple(extent // 2 for extent in array.shape)
        if "lid_stride_0" in kernel.variant and kernel.variant["lid_stride_0"] == 2:
            where = (array.shape[0] // 2 & ~1,)
        array[where] += 1
        with pytest.raises(AssertionError):
            kernel.check(outputs)


@pytest.mark.weekly(3)
@pytest.mark.parametrize("name", sorted(SMALL))
def test_sizes_share_one_kernel(name: str) -> None:
    """Only `env` differs, so that counts and builds are made once."""
    generator = BY_NAME[name]
    sizes = [key for key, value in generator.arguments.items() if isinstance(value, Number)]
    size = "nelements" if "nelements" in sizes else sizes[0]
    if size in ("lsize_0", "lsize_1"):
        pytest.skip("has no size")
    base = {tag.partition(":")[0]: (tag.partition(":")[2].split(",")[0],) for tag in SMALL[name]}
    doubled = {**base, size: (str(2 * int(base[size][0])),)}
    for a, b in zip(generator.generate(base), generator.generate(doubled), strict=True):
        assert a.kernel is b.kernel
        assert a.env != b.env


def generator(name: str, *tags: str) -> Generator:
    def build(*, n: int, fast: bool) -> Built:
        return Built(kernel=name, env={"n": n}, arguments=dict)

    return Generator(
        name=name,
        tags=frozenset(tags),
        arguments={"n": Number((1, 2)), "fast": Choice((True, False))},
        build=build,
    )


FOUR = (
    generator("one", "matmul"),
    generator("two", "matmul", "square"),
    generator("three", "stencil"),
    generator("four", "matmul", "square", "tiled"),
)


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        ({"generator_match_cond": MatchCondition.IDENTICAL}, lambda g, u: g == u),
        ({"generator_match_cond": MatchCondition.SUBSET}, lambda g, u: g - u == set()),
        ({"generator_match_cond": MatchCondition.INTERSECT}, lambda g, u: len(g & u) > 0),
        ({"generator_match_cond": MatchCondition.SUPERSET}, lambda g, u: u - g == set()),
        ({}, lambda g, u: u - g == set()),
    ],
)
def test_match_conditions_are_their_definitions_for_every_set_of_tags(
    options: dict[str, Any], holds: Callable[[set[str], set[str]], bool]
) -> None:
    collection = KernelCollection(FOUR, **options)
    known = ["matmul", "square", "stencil", "tiled"]
    for count in range(1, 5):
        for user in itertools.combinations(known, count):
            wanted = {g.name for g in FOUR if holds(set(g.tags), set(user))}
            if wanted:
                assert {g.name for g in collection.matching(user)[0]} == wanted
            else:
                with pytest.raises(TagError, match="no generator's tags"):
                    collection.matching(user)


def test_variants_are_the_product_of_allowed_values() -> None:
    collection = KernelCollection(FOUR)
    assert len(collection.generate_kernels(["stencil"])) == 4
    kernels = collection.generate_kernels(["stencil", "fast:true", "n:5,7,9"])
    assert [(k.variant["n"], k.variant["fast"]) for k in kernels] == [
        (5, True),
        (7, True),
        (9, True),
    ]
    assert len({kernel.name for kernel in kernels}) == 3


def test_the_papers_example_gives_four_kernels_and_eight_without_prefetch() -> None:
    tags = ["matmul_sq", "dtype:float32", "lsize_0:16", "lsize_1:16", "groups_fit:True"]
    sizes = "n:2048,2560,3072,3584"
    kernels = COLLECTION.generate_kernels([*tags, "prefetch:True", sizes])
    assert [kernel.env for kernel in kernels] == [{"n": n} for n in (2048, 2560, 3072, 3584)]
    assert len(COLLECTION.generate_kernels([*tags, sizes])) == 8
    madd = ["flops_madd_pattern", "dtype:float32", "lsize_0:16", "lsize_1:16", "groups_fit:True"]
    madd += ["lid_stride_0:1", "lid_stride_1:2048", "nelements:524288,786432,1048576,1310720"]
    assert len(COLLECTION.generate_kernels([*madd, "m:1024,1152,1280,1408"])) == 16


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        (["matmull_sq"], "did you mean matmul_sq"),
        (["matmul_sq", "prefech:True"], "did you mean prefetch"),
        (["matmul_sq", "prefetch:maybe"], "must be one of True, False, got 'maybe'"),
        (["matmul_sq", "n:many"], "must be an integer of at least 1, got 'many'"),
        (["matmul_sq", "n:0"], "at least 1"),
        (["matmul_sq", "n:64", "n:128"], "given twice"),
        (["matmul_sq", "n:"], "WORD or ARGUMENT:VALUE"),
        (["matmul_sq", "n:100", "groups_fit:True"], "n must be a multiple of 16 here, got 100"),
        (["matmul_sq", "n:64", "lsize_0:64", "lsize_1:64"], "at most 1024 items"),
        (["gmem_pattern", "lid_stride_0:3"], "multiple of the other"),
        (["finite_diff", "n:100"], "multiple of 14"),
    ],
)
def test_wrong_tags_are_refused(tags: list[str], words: str) -> None:
    with pytest.raises(TagError, match=words):
        COLLECTION.generate_kernels(tags)
    with pytest.raises(TagError, match="list of texts"):
        COLLECTION.generate_kernels(tags[0])


def test_prefetched_loads_keep_their_tags() -> None:
    (kernel,) = COLLECTION.generate_kernels(
        ["matmul_sq", "prefetch:True", "dtype:float32", "groups_fit:True", "n:64"]
    )
    for tag in ("mmPFa", "mmPFb"):
        assert calib.count(kernel.kernel, f"f_mem_access_tag:{tag}").at(n=64) == 64**3 // 16


def test_a_transposed_layout_swaps_the_axes() -> None:
    (kernel,) = COLLECTION.generate_kernels(
        [
            "gmem_pattern", "dtype:float32", "n_arrays:1", "nelements:65536", "lid_stride_0:256",
            "lid_stride_1:1",
        ]
    )  # fmt: skip
    outputs = run(kernel)
    assert kernel.check is not None
    kernel.check(outputs)
    assert np.array_equal(outputs["out"], kernel.arguments()["in0"])
