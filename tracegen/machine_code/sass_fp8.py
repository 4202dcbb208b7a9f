"""SASS of floats of 8 bits (OCP's E4M3 and E5M2), lowered to micro-operations."""

from __future__ import annotations

from tracegen.execution import operations as o
from tracegen.execution.operations import ZERO_ROW
from tracegen.machine_code.sass_compare import packed
from tracegen.machine_code.sass_emit import Emitter, UnknownInstruction
from tracegen.machine_code.sass_text import Sass

FORMATS = {"E4M3": o.E4M3, "E5M2": o.E5M2}


def convert(e: Emitter, s: Sass) -> None:
    """`PACK_AB_MERGE_C d, a, b, c`: c << 16, the code of a << 8 and the code of b; `UNPACK_B_MERGE_C d, b, c`: of two halves;
    `UNPACK_B d, b`: the halves that two codes stand for, of the upper ones of b with `.H1`."""
    form = FORMATS[s.one_of(*FORMATS)]
    d, *sources = s.operands
    to_code, above, bits = form << 4 | o.SATURATE_TO, ZERO_ROW, 8
    if s.has("UNPACK_B"):
        at = {(): 0, ("H0",): 0, ("H1",): 2}.get(sources[0].suffix)
        if at is None:
            raise UnknownInstruction
        row, bits = e.plain(sources[0]), 16
        given = [(row, form | o.F16 << 4 | at + k << o.SOURCE_PART) for k in (1, 0)]
    elif s.has("UNPACK_B_MERGE_C") and s.has("F16"):
        row, above = e.plain(sources[0]), e.whole(sources[1])
        given = [(row, o.F16 | to_code | part << o.SOURCE_PART) for part in (1, 0)]
    elif (
        s.has("PACK_AB_MERGE_C")
        and s.has("F32")
        and not any(e.sign(one, "a") for one in sources[:2])
    ):
        given = [(e.number(one, "a")[0], o.F32 | to_code) for one in sources[:2]]
        above = e.whole(sources[2])
    else:
        raise UnknownInstruction
    found = [e.temporary(2), e.temporary(2)]
    for made, (row, x) in zip(found, given, strict=True):
        e.emit("CONVERT", d=made, a=row, x=x)
    packed(e, e.result(d), found, bits, above)
