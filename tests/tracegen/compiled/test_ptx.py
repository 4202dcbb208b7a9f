"""PTX instructions are numbered, with their positions in the user's text.

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
    assert origins[0] == Origin("ld.param.u32 %r9, [row_sums_param_2];", Location(2, 0))
    # clang gives line 0 to what belongs to no line.
    assert with_text(origins, "ld.param.u64 %rd5, [row_sums_param_1]").location is None


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
    _, origins = number_instructions(kernel + files, {"header.h": 0})
    assert [origin.location for origin in origins[:3]] == [Location(5, 3), Location(6, 3), None]


def test_braces_labels_tables_and_vectors() -> None:
    origins = numbered("{ .reg .f32 t; lg2.approx.f32 t, %f4;\n add.f32 %f9, t, t; }\nret;")
    assert [origin.text for origin in origins] == [
        "lg2.approx.f32 t, %f4;", "add.f32 %f9, t, t;", "ret;"
    ]  # fmt: skip
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


def test_calls_and_positions_inside_them() -> None:
    _, origins = number_instructions(SMALL)
    calls = [origin.text for origin in origins if origin.text.startswith("call")]
    assert calls == ["call.uni (retval0), twice, ( param0, param1 );"] * 2
    start = "call.uni (retval0), \n"
    assert SMALL.count(start) == 2
    inside = SMALL.replace(start, f"{start}$L__tmp7:\n\t.loc\t1 23 10\n")
    assert number_instructions(inside)[0] == number_instructions(SMALL)[0]


def test_a_body_without_end() -> None:
    with pytest.raises(ValueError, match="'k' has no end"):
        number_instructions(f"{HEADER}.entry k()\n{{ ret;\n")
