"""Random kernels in OpenCL C: pointers that walk, helper functions, jumps, updates in any mixture.

The arithmetic means nothing; what counts is which work-item reads and writes what, when. Indices are
kept in range by a mask, and each work-item writes only to its own elements.
"""

from __future__ import annotations

from random import Random

import numpy as np

from tracegen import OpenCLWorkload

N_ITEM = 40
_HELPERS = """\
static int masked(int i) { return i & 63; }
static int at(__global const int *p, int i) { return p[masked(i)]; }
static int both(__global const int *p, __global const int *q, int i)
{
  int t = at(p, i);
  if (t % 3 == 1) return t;
  for (int k = 0; k < (t & 3); ++k) { if (at(q, k) % 7 == 2) break; t += q[k]; }
  return t + at(p, t);
}
static int put(__global int *p, int v) { *p += v; return p[0]; }
"""


def random_opencl_c(rng: Random) -> OpenCLWorkload:
    """A kernel of some statements on arrays of 64 integers and 64 vectors."""
    writer = _Writer(rng)
    body = writer.block(rng.randint(2, 5), "  ")
    exit_early = "  if (i >= 37) return;\n" if rng.random() < 0.7 else ""
    source = f"""{_HELPERS}
__kernel void random_kernel(__global const int *a, __global const int *b, __global int *mine,
                            __global int4 *v, __global int *other)
{{
  const int i = get_global_id(0);
{exit_early}  int t = i, u = 1;
  __global const int *p = a + i;
  __global int *m = mine + 4 * i;
{body}  mine[4 * i + 3] = t + u;
}}
"""
    values = np.random.default_rng(rng.randrange(1 << 30))

    def integers(n: int) -> np.ndarray:
        return values.integers(0, 64, n).astype(np.int32)

    return OpenCLWorkload(
        source=source,
        arguments={
            "a": integers(64 + N_ITEM),
            "b": integers(64),
            "mine": integers(4 * N_ITEM),
            "v": integers(4 * N_ITEM).reshape(-1, 4),
            "other": integers(4 * N_ITEM),
        },
        global_size=N_ITEM,
        local_size=8,
    )


class _Writer:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.n_loop = 0
        self.depth = 0

    def block(self, n_statement: int, indent: str, in_loop: bool = False) -> str:
        return "".join(self.statement(indent, in_loop) for _ in range(n_statement))

    def statement(self, indent: str, in_loop: bool) -> str:
        kinds = ["assign", "assign", "update", "store", "walk", "vector"]
        if self.depth < 2:
            kinds += ["if", "for", "while", "do", "switch"]
        if in_loop:
            kinds.append("jump")
        kind = self.rng.choice(kinds)
        if kind in ("if", "for", "while", "do", "switch"):
            self.depth += 1
            text: str = getattr(self, f"_{kind}")(indent)
            self.depth -= 1
            return text
        if kind == "jump":
            jump = self.rng.choice(["break", "continue"])
            return f"{indent}if ({self.condition()}) {jump};\n"
        return f"{indent}{getattr(self, f'_{kind}')()};\n"

    def _assign(self) -> str:
        return f"{self.rng.choice('tu')} {self.rng.choice(['=', '+=', '^='])} {self.expression()}"

    def _update(self) -> str:
        place = self.own()
        return self.rng.choice(
            [f"{place}++", f"--{place}", f"t = {place}-- + 1", f"{place} += {self.expression()}"]
        )

    def _store(self) -> str:
        value = self.expression()
        return self.rng.choice(
            [f"{self.own()} = {value}", f"t = {self.own()} = {value}", f"u += put(m + 1, {value})"]
        )

    def _walk(self) -> str:
        # p stays within 16 elements of where it began: it is set back first.
        return self.rng.choice(
            ["p = a + i, t += *p++", "t += *++p, p--", "u ^= p[1] + *(p + 2)", "t -= *p"]
        )

    def _vector(self) -> str:
        value = self.expression()
        return self.rng.choice(
            [
                f"v[i].x = {value}",
                "v[i].zw = v[i].xy",
                f"t += v[masked({value}) % 40].y",
                "v[i] += vload4(i, other)",
                f"vstore2((int2)({value}, u), 0, m)",
                "t += vload3(0, a + i).z",
            ]
        )

    def _if(self, indent: str) -> str:
        then = self.block(self.rng.randint(1, 2), indent + "  ")
        text = f"{indent}if ({self.condition()}) {{\n{then}{indent}}}"
        if self.rng.random() < 0.5:
            text += f" else {{\n{self.block(1, indent + '  ')}{indent}}}"
        return text + "\n"

    def _for(self, indent: str) -> str:
        name = self._counter()
        limit = self.rng.choice(["3", f"(at(b, {name}) & 3)", f"({self.expression()} & 3)"])
        return self._loop(indent, f"for (int {name} = 0; {name} < {limit}; {name}++)")

    def _while(self, indent: str) -> str:
        name = self._counter()
        head = f"while ({name}++ < 3 && {self.condition()})"
        return f"{indent}int {name} = 0;\n{self._loop(indent, head)}"

    def _do(self, indent: str) -> str:
        name = self._counter()
        end = f" while (++{name} < 3 && {self.condition()});"
        return f"{indent}int {name} = 0;\n{self._loop(indent, 'do', end)}"

    def _loop(self, indent: str, head: str, end: str = "") -> str:
        body = self.block(self.rng.randint(1, 2), indent + "  ", in_loop=True)
        return f"{indent}{head} {{\n{body}{indent}}}{end}\n"

    def _switch(self, indent: str) -> str:
        cases = ""
        for case in range(self.rng.randint(1, 3)):
            end = self.rng.choice(["break; ", ""])
            cases += f"{indent}case {case}: t += {self.expression()}; {end}\n"
        return (
            f"{indent}switch ({self.expression()} & 3) {{\n{cases}{indent}default: u ^= t;\n"
            f"{indent}}}\n"
        )

    def _counter(self) -> str:
        self.n_loop += 1
        return f"k{self.n_loop}"

    def own(self) -> str:
        return self.rng.choice(["mine[4 * i]", "m[1]", "(*(m + 2))", "m[0]", "(4 * i)[mine]"])

    def expression(self, depth: int = 0) -> str:
        kind = self.rng.random()
        if depth > 2 or kind < 0.4:
            return self.operand(depth)
        left, right = (self.expression(depth + 1) for _ in range(2))
        if kind < 0.8:
            return f"({left} {self.rng.choice('+-*^')} {right})"
        if kind < 0.92:
            return f"({self.condition(depth + 1)} ? {left} : {right})"
        return f"max({left}, {right})"

    def operand(self, depth: int) -> str:
        if depth > 2:
            return self.rng.choice(["t", "u", "i", "3", "a[i]", "b[2]", "m[0]"])
        index = self.expression(depth + 1)
        return self.rng.choice(
            [
                "t",
                "u",
                str(self.rng.randint(0, 9)),
                f"a[masked({index})]",
                f"b[{index} & 63]",
                f"at({self.rng.choice('ab')}, {index})",
                f"both({self.rng.choice(['a, b', 'b, a', 'p, b', 'b, b'])}, {self.small(index)})",
                f"*(({index} & 1 ? a : b) + i)",
                "m[0]",
                "other[i]",
            ]
        )

    def small(self, index: str) -> str:
        return f"({index}) & 15"

    def condition(self, depth: int = 0) -> str:
        text = f"({self.expression(depth + 1)} & 7) {self.rng.choice(['<', '>', '=='])} 3"
        if self.rng.random() < 0.3:
            sign = self.rng.choice(["&&", "||"])
            text += f" {sign} ({self.expression(depth + 1)} & 1)"
        return f"({text})"
