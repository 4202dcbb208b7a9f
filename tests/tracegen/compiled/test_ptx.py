"""PTX instructions are numbered, with their positions in the user's text and their arrays.

`small.ptx` is what clang 14 writes for the kernels of test_sass.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tracegen.compiled.model import Location
from tracegen.compiled.nvidia.ptx import Origin, number_instructions

SMALL = (Path(__file__).parent / "listings" / "small.ptx").read_text()

HEADER = """\
.version 7.0
.target sm_80
.address_size 64
"""


def numbered(
    body: str, parameters: str = ".param .u64 k_param_0, .param .u64 k_param_1"
) -> list[Origin]:
    _, origins = number_instructions(f"{HEADER}.visible .entry k({parameters})\n{{\n{body}\n}}\n")
    return origins


def with_text(origins: list[Origin], start: str) -> Origin:
    (result,) = (origin for origin in origins if origin.text.startswith(start))
    return result


def test_every_instruction_is_on_a_line_of_its_number() -> None:
    text, origins = number_instructions(SMALL)
    lines = text.splitlines()
    result = {
        int(line.split()[2]): lines[index + 1]
        for index, line in enumerate(lines)
        if line.startswith(".loc")
    }
    assert result == {number: origin.text for number, origin in enumerate(origins, 1)}
    assert not any(origin.text.startswith((".", "{", "}", "//")) for origin in origins)


def test_only_the_numbers_change() -> None:
    text, origins = number_instructions(SMALL)

    def words(ptx: str) -> list[str]:
        ptx = re.sub(r"//[^\n]*|\.loc\b[^\n]*|\.file\b[^\n]*|\.section[^{]*\{[^}]*\}", "", ptx)
        return ptx.replace(", debug", "").split()

    assert words(text) == words(SMALL)
    assert ".file 1 " in text
    assert ".section" not in text
    assert ".target sm_70\n" in text
    assert len(origins) == 74


def test_locations() -> None:
    _, origins = number_instructions(SMALL)
    assert with_text(origins, "ld.global.f64").location == Location(8, 12)
    assert with_text(origins, "st.global.f64").location == Location(9, 10)
    assert origins[0] == Origin(
        "ld.param.u32 %r9, [row_sums_param_2];", Location(2, 0), None, "row_sums"
    )
    # clang gives line 0 to what belongs to no line.
    assert with_text(origins, "ld.param.u64 %rd5, [row_sums_param_1]").location is None
    assert {origin.function for origin in origins} == {"row_sums", "reversed", "twice", "calls"}


def test_positions_outside_the_users_file_are_unknown_unless_inlined_into_it() -> None:
    body = """\
    .loc 2 5 3
    mov.u32 %r1, %tid.x;
    .loc 2 6 3, function_name $L__info_string0, inlined_at 1 10 7
    mov.u32 %r2, %tid.y;
    .loc 1 4 2, function_name $L__info_string1, inlined_at 1 11 7
    mov.u32 %r3, %tid.z;
    ret;"""
    kernel = f"{HEADER}.visible .entry k()\n{{\n{body}\n}}\n"
    files = '.file 1 "/a/k.cl"\n.file 2 "/a/header.h"\n'

    _, origins = number_instructions(kernel + files)
    assert [origin.location for origin in origins] == [
        None, Location(10, 7), Location(4, 2), Location(4, 2)
    ]  # fmt: skip
    _, origins = number_instructions(kernel + files, source="header.h")
    assert [origin.location for origin in origins[:3]] == [Location(5, 3), Location(6, 3), None]


def test_calls_and_braces() -> None:
    _, origins = number_instructions(SMALL)
    calls = [origin.text for origin in origins if origin.text.startswith("call")]
    assert calls == ["call.uni (retval0), twice, ( param0, param1 );"] * 2

    origins = numbered("{ .reg .f32 t; lg2.approx.f32 t, %f4;\n add.f32 %f9, t, t; }\nret;")
    assert [origin.text for origin in origins] == [
        "lg2.approx.f32 t, %f4;", "add.f32 %f9, t, t;", "ret;"
    ]  # fmt: skip


def test_labels_tables_and_vectors() -> None:
    body = """\
    ts: .branchtargets L0, L1;
    .pragma "nounroll";
    ld.global.v2.f32 {%f1, %f2}, [%rd1]; /* a ; b */
    brx.idx %r3, ts;
    L0: @!%p1 bra L1;
    L1: ret;"""
    texts = [origin.text for origin in numbered(body)]
    assert texts == [
        "ld.global.v2.f32 {%f1, %f2}, [%rd1];", "brx.idx %r3, ts;", "@!%p1 bra L1;", "ret;"
    ]  # fmt: skip


def test_positions_inside_a_call() -> None:
    start = "call.uni (retval0), \n"
    assert SMALL.count(start) == 2
    inside = SMALL.replace(start, f"{start}$L__tmp7:\n\t.loc\t1 23 10\n")
    assert number_instructions(inside)[0] == number_instructions(SMALL)[0]


def test_a_body_without_end() -> None:
    with pytest.raises(ValueError, match="'k' has no end"):
        number_instructions(f"{HEADER}.entry k()\n{{ ret;\n")


def test_arrays_of_a_kernel_and_of_the_function_it_calls() -> None:
    _, origins = number_instructions(SMALL, {"row_sums": ["in", "out", ""], "calls": ["a", "b"]})
    arrays = {
        origin.text: origin.array
        for origin in origins
        if origin.text.startswith(("ld.global", "st.global"))
    }
    assert arrays == {
        "ld.global.f64 %fd6, [%rd9];": "in",
        "st.global.f64 [%rd8], %fd8;": "out",
        # The names of this kernel's parameters are not given.
        "ld.global.f32 %f1, [%rd4];": None,
        "st.global.f32 [%rd9], %f2;": None,
        # `twice` is called with both arrays.
        "ld.global.f32 %f1, [%rd3];": None,
        "st.global.f32 [%rd4], %f5;": "b",
    }


def test_a_function_that_is_called_with_one_array() -> None:
    both = "st.param.b64 	[param0+0], %rd2;"
    assert SMALL.count(both) == 1
    _, origins = number_instructions(SMALL.replace(both, both.replace("%rd2", "%rd1")))
    load = [
        origin
        for origin in origins
        if origin.function == "twice" and origin.text.startswith("ld.global")
    ]
    assert [origin.array for origin in load] == ["calls_param_0"]


LOAD = "ld.param.u64 %rd1, [k_param_0]; ld.param.u64 %rd2, [k_param_1];"


@pytest.mark.parametrize(
    ("body", "array"),
    [
        ("cvta.to.global.u64 %rd3, %rd1; add.s64 %rd4, %rd3, %rd9; {access}", "k_param_0"),
        ("mad.wide.s32 %rd4, %r1, 4, %rd2; {access}", "k_param_1"),
        ("sub.s64 %rd4, %rd1, %rd9; {access}", "k_param_0"),
        ("selp.b64 %rd4, %rd1, %rd1, %p1; {access}", "k_param_0"),
        ("selp.b64 %rd4, %rd1, %rd2, %p1; {access}", None),
        # The product of a parameter and the difference from it are no addresses of its array.
        ("mul.lo.s64 %rd3, %rd2, 8; add.s64 %rd4, %rd1, %rd3; {access}", "k_param_0"),
        ("shl.b64 %rd3, %rd2, 3; add.s64 %rd4, %rd1, %rd3; {access}", "k_param_0"),
        ("sub.s64 %rd3, %rd9, %rd2; add.s64 %rd4, %rd1, %rd3; {access}", "k_param_0"),
        # A loaded pointer is unknown.
        ("ld.global.u64 %rd4, [%rd1]; {access}", None),
        # Later instructions count too: a loop may bring their results back.
        ("{access} add.s64 %rd4, %rd4, 4; mov.u64 %rd4, %rd2;", "k_param_1"),
    ],
)
@pytest.mark.parametrize(
    "access",
    [
        "ld.global.f32 %f1, [%rd4+16];",
        "st.global.v2.f32 [%rd4], {%f1, %f2};",
        "@%p1 atom.global.add.u32 %r2, [%rd4], 1;",
        "red.global.add.u32 [%rd4], 1;",
        "cp.async.ca.shared.global [%r4], [%rd4], 4;",
    ],
)
def test_where_an_address_comes_from(body: str, array: str | None, access: str) -> None:
    origins = numbered(f"{LOAD} {body.format(access=access)} ret;")
    assert with_text(origins, access).array == array


def test_a_parameter_that_is_no_pointer() -> None:
    body = f"{LOAD} add.s64 %rd4, %rd1, %rd2; ld.global.u8 %r1, [%rd4]; ret;"
    text = f"{HEADER}.entry k(.param .u64 k_param_0, .param .u64 k_param_1)\n{{\n{body}\n}}\n"
    access = "ld.global.u8"
    assert with_text(number_instructions(text)[1], access).array is None
    assert with_text(number_instructions(text, {"k": ["bytes", ""]})[1], access).array == "bytes"
