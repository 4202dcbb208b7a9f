"""Bank conflicts that follow from a kernel's text, against counts by hand."""

from __future__ import annotations

import math

import pytest

from tracegen.local_memory.accesses import local_accesses

KERNEL = """
__kernel void k(__global float *x, __local float *s, const int n) {
  __local %(type)s t[4096];
  const int i = get_local_id(0), j = get_local_id(1);
  %(body)s
}
"""
TERMS = " + ".join(f"i * {k}" for k in range(300))
TURNS = "".join(f"for (int a{k} = 0; a{k} < 1 << 30; a{k}++) " for k in range(6))


def passes(
    body: str,
    kind: str = "float",
    shape: tuple[int, ...] = (32,),
    lanes: int = 32,
    size: int = 4,
    before: str = "",
    **values: int,
) -> list[float | None]:
    """The passes that conflicts add to each access, in the order in which they are met."""
    text = before + KERNEL % {"type": kind, "body": body}
    accesses = local_accesses(text, "k", (4, 4), shape, lanes, values)
    found = [one.conflicts(size) for one in accesses]
    return [one and one.passes for one in found]


@pytest.mark.parametrize(
    ("kind", "size", "stride", "expected"),
    [
        ("float", 4, 0, 0),  # one word for all lanes
        ("float", 4, 1, 0),
        ("float", 4, 2, 1),  # two words a bank
        ("float", 4, 3, 0),
        ("float", 4, 32, 31),
        ("double", 8, 1, 0),  # two portions of 16 lanes, each without conflicts
        ("double", 8, 2, 2),  # in each portion two words a bank
        ("float4", 16, 1, 0),  # four portions of 8 lanes
        ("float4", 16, 3, 0),
        ("float4", 16, 2, 4),  # 8 lanes, 32 bytes apart: two words a bank, four times
        ("float", 16, 4, 0),  # four loads that the compiler made one
        ("float", 4, 4, 3),
        ("char", 1, 4, 0),
        ("char", 1, 1, 0),  # four lanes share a word
    ],
)
@pytest.mark.parametrize("lanes", [32, 64])
def test_strides(kind: str, size: int, stride: int, expected: float, lanes: int) -> None:
    """Half of a sub-group of 64 lanes has the conflicts of one of 32; passes are per 32 lanes."""
    found = passes(f"x[i] = t[{stride} * i];", kind, shape=(lanes,), lanes=lanes, size=size)
    assert found == [expected]


@pytest.mark.parametrize("pad", range(5))
@pytest.mark.parametrize(
    "load",
    [
        "u[i][j]",
        "(&u[i][0])[j]",
        "*(&u[0][0] + i * (32 + PAD) + j)",
        "(*(u + i))[j]",
        "u[i]\n  [j]",
    ],
)
def test_a_column_has_as_many_conflicts_as_its_pitch_has_factors_of_the_banks(
    pad: int, load: str
) -> None:
    body = f"__local float u[32][32 + {pad}]; u[j][i] = 0; x[0] = {load};".replace("PAD", str(pad))
    assert passes(body, shape=(32, 32)) == [0, math.gcd(32 + pad, 32) - 1]


def test_a_loop_counts_with_the_mean_of_its_turns() -> None:
    body = "for (int k = 0; k < n; k++) x[i] += t[i * k];"
    assert passes(body, n=0) == []
    assert passes(body, n=5) == [(0 + 0 + 1 + 0 + 3) / 5]
    # After sixteen executions no more are looked at.
    sixteen = sum(math.gcd(k, 32) - 1 for k in range(1, 16)) / 16
    assert passes(body, n=1000) == [sixteen]


REDUCTION = """
for (int s = 16; s > 0; s >>= 1) {
  if (i < s) t[2 * i] += t[2 * (i + s)];
  barrier(CLK_LOCAL_MEM_FENCE);
}
"""


def test_only_the_lanes_that_access_conflict() -> None:
    """Lanes 0 to s - 1, two words apart: from 17 lanes on two of them share a bank."""
    assert passes(REDUCTION) == [0.0] * 3
    assert passes(REDUCTION.replace("16", "32"), shape=(64,), lanes=64) == [0.5 / 6] * 3
    whole = "if (i >= n) return; t[32 * i] = 0;"
    assert [passes(whole, n=n)[0] for n in (1, 2, 32)] == [0, 1, 31]


@pytest.mark.parametrize(
    "body",
    [
        "int a = 2; a *= 4; t[a * i] = 0;",
        "int a = 4; a++; ++a; a += 2; t[a * i] = 0;",
        "t[(n > 3 ? 8 : 1) * i] = 0;",
        "t[helper(i)] = 0;",
        "through(t + 1, i);",
        "int a = 1; while (a < 8) { t[0] = 0; a <<= 1; } t[a * i] = 0;",
        "int a = 0; do { t[0] = 0; a += 2; } while (a != 8); t[a * i] = 0;",
        "int a = 8; for (int k = 0; k < 9; k++) { if (k == 2) continue; if (k == 4) break; t[0] = 0; a = k; }"
        " t[(a + 5) * i] = 0;",
        "__local float *p = t; p += 8 * i; *p = 0;",
        "s[8 * i] = 0;",
        "atomic_xchg((__local float *) &t[8 * i], 1.0f);",
        "vstore4(v, 2 * i, t);",
        'printf("a, (b", 1); t[8 * i] = 0;',
        "uint a = -1; a = a / 536870911u; t[a * i] = 0;",
        "t[i * 8 % 256 + ((i & 7) ^ (i & 7))] = 0;",
        "t[mad24(i, 8, 1)] = 0; /* a comment, with ( */",
    ],
)
def test_eight_words_apart(body: str) -> None:
    """32 lanes, 8 words apart, lie in 4 banks: 8 words in each."""
    helpers = """
    int helper(const int at) { int r = at; if (at > 3) return r * 8; return at << 3; }
    void through(__local float *p, int at) { p[8 * at] = 1; }
    """
    assert passes(body, before=helpers, n=7)[-1] == 7


@pytest.mark.parametrize(
    "body",
    [
        "t[(int) x[i]] = 0;",
        "int a = x[i]; t[a] = 0;",
        "int a = 1; if (x[i] > 0) a = 2; t[a * i] = 0;",
        "int a = 1; while (x[a] > 0) { t[0] = 0; a *= 2; } t[a * i] = 0;",
        "int a = 1; set(&a); t[a * i] = 0;",
        "int a = 1; switch (n) { case 0: a = 2; } t[a * i] = 0;",
        "t[m * i] = 0;",
    ],
)
def test_what_depends_on_memory_is_not_known(body: str) -> None:
    assert passes(body, n=1)[-1] is None


def test_both_ways_of_an_unknown_condition_are_looked_at() -> None:
    assert passes("if (x[i] > 0) t[2 * i] = 0; else t[4 * i] = 0;") == [1, 3]


def test_text_that_cannot_be_read_leaves_the_accesses_behind_it_unknown() -> None:
    assert passes("t[2 * i] = 0; for (;;;) t[i] = 0;") == [1]
    assert passes("t[2 * i] = 0; while (1) t[4 * i] = 0; t[i] = 0;") == [1, 3, 0]
    assert local_accesses("no kernel", "k", (1,), (32,), 32, {}) == []


def test_octal_numbers() -> None:
    assert passes("x[i] = t[02 * i + 010];") == [1]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (TURNS + "{ q = " + TERMS + "; if (i > 1 << 30) t[i] = 1; }", (1024,)),
        (TURNS + "{ q = " + TERMS + "; if (i > 1 << 30) t[i] = 1; }", (1 << 20,)),
        ("while (1) { if (i > 1 << 30) t[i] = 1; }", (1024,)),
        (f"q = {' ' * 100_000}3;", (32,)),
        (f"q = {'(' * 5000}3{')' * 5000};", (32,)),
        (f"q = 0{' + i' * 5000};", (32,)),
    ],
    ids=["loops", "a large group", "while", "blanks", "brackets", "terms"],
)
def test_a_text_that_never_ends_is_followed_for_a_while(body: str, shape: tuple[int, ...]) -> None:
    assert passes("t[0] = 1; int q; " + body, shape=shape)[:1] == [0]
