"""AMD's arithmetic as micro-operations: a table that is read once.

A line is `opcodes = step; step`, a step `[p=]OPERATION sources modifiers`. Sources: an operand by its place in the text,
where 0 is the result, with a minus where its sign changes; p, q or r, what an earlier step left; #n, a number; _, zero.
Modifiers: x and y of the micro-operation, x of a conversion as FROM>TO and perhaps rounding; m and e: an operand that
is a mask, or vcc, scc; `!` at the end: scc says whether the result is not 0. In front of the steps `hu`, `hs`, `hf`: 16-bit
operands, unsigned, signed or floating-point, `h` where the result alone has 16 bits, and with 32 behind it where it has not.

Sources: AMD, "Vega", "CDNA3" and "RDNA3" Instruction Set Architecture Reference Guides.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tracegen.execution import operations as o

LOGIC = {
    "and": 0xC0, "or": 0xFC, "xor": 0x3C, "xnor": 0xC3, "nand": 0x3F, "nor": 0x03,
    "andn1": 0x0C, "orn1": 0xCF, "and_not0": 0x0C, "or_not0": 0xCF,
    "andn2": 0x30, "orn2": 0xF3, "and_not1": 0x30, "or_not1": 0xF3,
}  # fmt: skip
"""Tables of LOGIC3 and MASK_LOGIC3; of two sources."""
_TABLE = """
v_mov_b32 v_accvgpr_write_b32 v_accvgpr_read_b32 v_accvgpr_mov_b32 s_mov_b32 s_movk_i32 = MOVE 1
v_mov_b64 s_mov_b64 = MOVE2 1
v_swap_b32 = p=MOVE 1; q=MOVE 0; MOVE p; MOVE q d=1
v_cndmask_b32 = SELECT 1 2 m=!3
v_readfirstlane_b32 = READ_FIRST_LANE 1
v_readlane_b32 = READ_LANE 1 2
v_writelane_b32 = WRITE_LANE 1 2
v_not_b32 = LOGIC3 1 y=0x0F
v_bfi_b32 = LOGIC3 1 2 3 y=0xCA
v_and_or_b32 = LOGIC3 1 2 3 y=0xEA
v_or3_b32 = LOGIC3 1 2 3 y=0xFE
v_xor3_b32 = LOGIC3 1 2 3 y=0x96
v_xad_u32 = p=LOGIC3 1 2 y=0x3C; ADD3 p 3
v_lshlrev_b32 = SHIFT_LEFT 2 1 x=WRAP
v_lshrrev_b32 = SHIFT_RIGHT_U 2 1 x=WRAP
v_ashrrev_i32 = SHIFT_RIGHT_S 2 1 x=WRAP
v_lshl_b32 = SHIFT_LEFT 1 2 x=WRAP
v_lshlrev_b64 = SHIFT_LEFT64 2 1 x=WRAP
v_lshrrev_b64 = SHIFT_RIGHT64_U 2 1 x=WRAP
v_ashrrev_i64 = SHIFT_RIGHT64_S 2 1 x=WRAP
v_lshl_or_b32 = p=SHIFT_LEFT 1 2 x=WRAP; LOGIC3 p 3 y=0xFC
v_lshl_add_u32 = p=SHIFT_LEFT 1 2 x=WRAP; ADD3 p 3
v_add_lshl_u32 = p=ADD3 1 2; SHIFT_LEFT p 3 x=WRAP
v_lshl_add_u64 = p=SHIFT_LEFT64 1 2 x=WRAP; ADD64 p 3
v_bfe_u32 = BIT_FIELD_U 1 2 3
v_bfe_i32 = BIT_FIELD_S 1 2 3
v_bfm_b32 = BIT_MASK 2 1 x=WRAP
v_alignbit_b32 = FUNNEL_RIGHT 2 3 1 x=WRAP
v_alignbyte_b32 = p=LOGIC3 3 #3 y=0xC0; p=SHIFT_LEFT p #3; FUNNEL_RIGHT 2 p 1 x=WRAP
v_bfrev_b32 s_brev_b32 = REVERSE_BITS 1
v_ffbh_u32 v_clz_i32_u32 s_flbit_i32_b32 s_clz_i32_u32 = HIGHEST_BIT 1 x=1
v_ffbh_i32 v_cls_i32 s_flbit_i32 s_cls_i32 = HIGHEST_BIT 1 x=3
v_ffbl_b32 v_ctz_i32_b32 s_ff1_i32_b32 s_ctz_i32_b32 = LOWEST_BIT 1
v_bcnt_u32_b32 = p=COUNT_ONES 1; ADD3 p 2
v_add_u32 v_add_nc_u32 v_add_nc_i32 v_add_i32 = ADD3 1 2
v_sub_u32 v_sub_nc_u32 v_sub_nc_i32 v_sub_i32 = ADD3 1 -2
v_subrev_u32 v_subrev_nc_u32 = ADD3 -1 2
v_add3_u32 = ADD3 1 2 3
v_add_co_u32 = ADD_CARRY 2 3 e=1
v_addc_co_u32 v_add_co_ci_u32 = ADD_CARRY 2 3 m=4 e=1
v_sub_co_u32 = BORROW 2 3 e=1
v_subrev_co_u32 = BORROW 3 2 e=1
v_subb_co_u32 v_sub_co_ci_u32 = BORROW 2 3 m=4 e=1
v_subbrev_co_u32 v_subrev_co_ci_u32 = BORROW 3 2 m=4 e=1
v_mul_lo_u32 v_mul_lo_i32 s_mul_i32 = MULTIPLY_ADD 1 2
s_mulk_i32 = MULTIPLY_ADD 0 1
v_mul_hi_u32 s_mul_hi_u32 = MULTIPLY_HIGH_U 1 2
v_mul_hi_i32 s_mul_hi_i32 = MULTIPLY_HIGH_S 1 2
v_mul_u32_u24 = MULTIPLY_24 1 2
v_mul_i32_i24 = MULTIPLY_24 1 2 x=1
v_mad_u32_u24 = MULTIPLY_24 1 2 3
v_mad_i32_i24 = MULTIPLY_24 1 2 3 x=1
v_mul_hi_u32_u24 = p=BIT_FIELD_U 1 _ #24; q=BIT_FIELD_U 2 _ #24; MULTIPLY_HIGH_U p q
v_mul_hi_i32_i24 = p=BIT_FIELD_S 1 _ #24; q=BIT_FIELD_S 2 _ #24; MULTIPLY_HIGH_S p q
v_mad_u64_u32 v_mad_co_u64_u32 = MULTIPLY_WIDE_U 2 3 4 e=1
v_mad_i64_i32 v_mad_co_i64_i32 = MULTIPLY_WIDE_S 2 3 4 e=1
v_min_i32 = MINIMUM_S 1 2
v_max_i32 = MAXIMUM_S 1 2
v_min_u32 = MINIMUM_U 1 2
v_max_u32 = MAXIMUM_U 1 2
v_sad_u32 = SUM_DIFFERENCES 1 2 3 x=1
v_sad_u8 = SUM_DIFFERENCES 1 2 3 x=3
v_dot4_i32_i8 = DOT4 1 2 3 x=3
v_dot4_u32_u8 = DOT4 1 2 3
v_dot4c_i32_i8 = DOT4 1 2 0 x=3
v_add_f32 = ADD_F32 1 2
v_sub_f32 = ADD_F32 1 -2
v_subrev_f32 = ADD_F32 -1 2
v_mul_f32 = MULTIPLY_F32 1 2
v_fma_f32 = FUSED_F32 1 2 3
v_fmac_f32 = FUSED_F32 1 2 0
v_fmamk_f32 s_fmamk_f32 = FUSED_F32 1 2 3
v_fmaak_f32 s_fmaak_f32 = FUSED_F32 1 2 3
v_mad_f32 = p=MULTIPLY_F32 1 2 x=FLUSH; ADD_F32 p 3 x=FLUSH
v_mac_f32 = p=MULTIPLY_F32 1 2 x=FLUSH; ADD_F32 p 0 x=FLUSH
v_madmk_f32 = p=MULTIPLY_F32 1 2 x=FLUSH; ADD_F32 p 3 x=FLUSH
v_madak_f32 = p=MULTIPLY_F32 1 2 x=FLUSH; ADD_F32 p 3 x=FLUSH
v_min_f32 v_min_num_f32 s_min_f32 s_min_num_f32 = MINIMUM_F32 1 2
v_max_f32 v_max_num_f32 s_max_f32 s_max_num_f32 = MAXIMUM_F32 1 2
v_add_f64 = ADD_F64 1 2
v_mul_f64 = MULTIPLY_F64 1 2
v_fma_f64 = FUSED_F64 1 2 3
v_fmac_f64 = FUSED_F64 1 2 0
v_min_f64 v_min_num_f64 = MINIMUM_F64 1 2
v_max_f64 v_max_num_f64 = MAXIMUM_F64 1 2
v_ldexp_f32 = SCALE_F32 1 2
v_ldexp_f64 = SCALE_F64 1 2
v_fract_f32 = FRACTION_F32 1
v_fract_f64 = FRACTION_F64 1
v_frexp_mant_f32 = FRACTION_F32 1 y=1
v_frexp_mant_f64 = FRACTION_F64 1 y=1
v_frexp_exp_i32_f32 = FRACTION_F32 1 y=2
v_frexp_exp_i32_f64 = FRACTION_F64 1 y=2 w=1
v_div_scale_f32 = DIVISION_SCALE_F32 2 3 4 e=1
v_div_scale_f64 = DIVISION_SCALE_F64 2 3 4 e=1
v_div_fmas_f32 = DIVISION_STEP_F32 1 2 3 m=vcc
v_div_fmas_f64 = DIVISION_STEP_F64 1 2 3 m=vcc
v_div_fixup_f32 = DIVISION_FIX_F32 1 2 3
v_div_fixup_f64 = DIVISION_FIX_F64 1 2 3
v_div_fixup_f16 = hf p=CONVERT 1 x=F16>F32; q=CONVERT 2 x=F16>F32; r=CONVERT 3 x=F16>F32; p=DIVISION_FIX_F32 p q r; CONVERT p x=F32>F16
v_cvt_f32_i32 = CONVERT 1 x=S32>F32
v_cvt_f32_u32 = CONVERT 1 x=U32>F32
v_cvt_i32_f32 = CONVERT 1 x=F32>S32:TO_ZERO
v_cvt_u32_f32 = CONVERT 1 x=F32>U32:TO_ZERO
v_cvt_flr_i32_f32 v_cvt_floor_i32_f32 = CONVERT 1 x=F32>S32:TO_DOWN
v_cvt_rpi_i32_f32 v_cvt_nearest_i32_f32 = p=ADD_F32 1 #0x3F000000; CONVERT p x=F32>S32:TO_DOWN
v_cvt_f64_f32 = CONVERT 1 x=F32>F64
v_cvt_f32_f64 = CONVERT 1 x=F64>F32
v_cvt_f64_i32 = CONVERT 1 x=S32>F64
v_cvt_f64_u32 = CONVERT 1 x=U32>F64
v_cvt_i32_f64 = CONVERT 1 x=F64>S32:TO_ZERO
v_cvt_u32_f64 = CONVERT 1 x=F64>U32:TO_ZERO
v_cvt_f32_f16 = hf32 CONVERT 1 x=F16>F32
v_cvt_f16_f32 = h CONVERT 1 x=F32>F16
v_cvt_f16_i16 = hs CONVERT 1 x=S16>F16
v_cvt_f16_u16 = hu CONVERT 1 x=U16>F16
v_cvt_i16_f16 = hf CONVERT 1 x=F16>S16:TO_ZERO
v_cvt_u16_f16 = hf CONVERT 1 x=F16>U16:TO_ZERO
v_cvt_pkrtz_f16_f32 v_cvt_pk_rtz_f16_f32 = PACK_F16 2 1 x=ROUND_ZERO
v_cvt_pk_bf16_f32 = PACK_F16 2 1 x=BF16
v_pack_b32_f16 = hf32 PERMUTE_BYTES 1 2 #0x5410
v_add_f16 = hf ADD_F16 1 2
v_sub_f16 = hf ADD_F16 1 -2
v_subrev_f16 = hf ADD_F16 -1 2
v_mul_f16 = hf MULTIPLY_F16 1 2
v_fma_f16 v_mad_f16 = hf FUSED_F16 1 2 3
v_fmac_f16 v_mac_f16 = hf FUSED_F16 1 2 0
v_fmamk_f16 v_fmaak_f16 v_madmk_f16 v_madak_f16 = hf FUSED_F16 1 2 3
v_min_f16 v_min_num_f16 = hf MINIMUM_F16 1 2
v_max_f16 v_max_num_f16 = hf MAXIMUM_F16 1 2
v_ldexp_f16 = hf p=CONVERT 1 x=F16>F32; q=BIT_FIELD_S 2 _ #16; p=SCALE_F32 p q; CONVERT p x=F32>F16
v_fract_f16 = hf p=CONVERT 1 x=F16>F32; p=FRACTION_F32 p; CONVERT p x=F32>F16
v_frexp_mant_f16 = hf p=CONVERT 1 x=F16>F32; p=FRACTION_F32 p y=1; CONVERT p x=F32>F16
v_frexp_exp_i16_f16 = hf p=CONVERT 1 x=F16>F32; FRACTION_F32 p y=2
v_add_u16 v_add_nc_u16 v_add_nc_i16 v_add_i16 = hu ADD3 1 2
v_sub_u16 v_sub_nc_u16 v_sub_nc_i16 v_sub_i16 = hu ADD3 1 -2
v_subrev_u16 = hu ADD3 -1 2
v_mul_lo_u16 = hu MULTIPLY_ADD 1 2
v_mad_u16 v_mad_i16 v_mad_legacy_u16 v_mad_legacy_i16 = hu MULTIPLY_ADD 1 2 3
v_mad_u32_u16 = p=BIT_FIELD_U 1 _ #16; q=BIT_FIELD_U 2 _ #16; MULTIPLY_ADD p q 3
v_mad_i32_i16 = p=BIT_FIELD_S 1 _ #16; q=BIT_FIELD_S 2 _ #16; MULTIPLY_ADD p q 3
v_lshlrev_b16 = hu p=LOGIC3 1 #15 y=0xC0; SHIFT_LEFT 2 p
v_lshrrev_b16 = hu p=LOGIC3 1 #15 y=0xC0; SHIFT_RIGHT_U 2 p
v_ashrrev_i16 = hs p=LOGIC3 1 #15 y=0xC0; SHIFT_RIGHT_S 2 p
v_min_i16 = hs MINIMUM_S 1 2
v_max_i16 = hs MAXIMUM_S 1 2
v_min_u16 = hu MINIMUM_U 1 2
v_max_u16 = hu MAXIMUM_U 1 2
v_and_b16 = hu LOGIC3 1 2 y=0xC0
v_or_b16 = hu LOGIC3 1 2 y=0xFC
v_xor_b16 = hu LOGIC3 1 2 y=0x3C
v_not_b16 = hu LOGIC3 1 y=0x0F
v_mov_b16 = hu MOVE 1
s_add_u32 s_add_co_u32 = ADD_CARRY 1 2 e=scc
s_addc_u32 s_add_co_ci_u32 = ADD_CARRY 1 2 m=scc e=scc
s_sub_u32 s_sub_co_u32 = BORROW 1 2 e=scc
s_subb_u32 s_sub_co_ci_u32 = BORROW 1 2 m=scc e=scc
s_add_u64 s_add_nc_u64 = ADD64 1 2
s_sub_u64 s_sub_nc_u64 = ADD64 1 -2
s_mul_u64 = MULTIPLY64 1 2
s_lshl_b32 = SHIFT_LEFT 1 2 x=WRAP !
s_lshr_b32 = SHIFT_RIGHT_U 1 2 x=WRAP !
s_ashr_i32 = SHIFT_RIGHT_S 1 2 x=WRAP !
s_lshl_b64 = SHIFT_LEFT64 1 2 x=WRAP !
s_lshr_b64 = SHIFT_RIGHT64_U 1 2 x=WRAP !
s_ashr_i64 = SHIFT_RIGHT64_S 1 2 x=WRAP !
s_not_b32 = LOGIC3 1 y=0x0F !
s_abs_i32 = ABSOLUTE 1 !
s_absdiff_i32 = SUM_DIFFERENCES 1 2 !
s_bcnt1_i32_b32 = COUNT_ONES 1 !
s_bfm_b32 = BIT_MASK 2 1 x=WRAP
s_sext_i32_i8 = SIGN_EXTEND_AT 1 #8
s_sext_i32_i16 = SIGN_EXTEND_AT 1 #16
s_cselect_b32 = SELECT 1 2 m=scc
s_cmov_b32 s_cmovk_i32 = SELECT 1 0 m=scc
s_pack_ll_b32_b16 = PERMUTE_BYTES 1 2 #0x5410
s_pack_lh_b32_b16 = PERMUTE_BYTES 1 2 #0x7610
s_pack_hl_b32_b16 = PERMUTE_BYTES 1 2 #0x5432
s_pack_hh_b32_b16 = PERMUTE_BYTES 1 2 #0x7632
s_bitset0_b32 = p=BIT_MASK 1 #1 x=WRAP; LOGIC3 0 p y=0x30
s_bitset1_b32 = p=BIT_MASK 1 #1 x=WRAP; LOGIC3 0 p y=0xFC
s_add_f32 = ADD_F32 1 2
s_sub_f32 = ADD_F32 1 -2
s_mul_f32 = MULTIPLY_F32 1 2
s_fmac_f32 = FUSED_F32 1 2 0
s_cvt_f32_i32 = CONVERT 1 x=S32>F32
s_cvt_f32_u32 = CONVERT 1 x=U32>F32
s_cvt_i32_f32 = CONVERT 1 x=F32>S32:TO_ZERO
s_cvt_u32_f32 = CONVERT 1 x=F32>U32:TO_ZERO
"""


@dataclass(frozen=True, eq=False)
class Step:
    """One micro-operation of an instruction.

    sources : operands, names of earlier results, `#n`, `_`
    modifiers : x, y, m, e, d, w as the table has them
    """

    name: str
    result: str
    sources: tuple[str, ...]
    modifiers: dict[str, str]
    sets_scc: bool

    @property
    def conversion(self) -> tuple[str, str]:
        """The kinds of numbers of a conversion, else empty texts."""
        source, _, rest = self.modifiers.get("x", "").partition(">")
        return (source, rest.partition(":")[0]) if rest else ("", "")

    def x(self) -> int:
        text = self.modifiers.get("x", "0")
        if ">" not in text:
            return int(text, 0) if text[0].isdigit() else int(getattr(o, text))
        source, target = self.conversion
        names = text.partition(":")[2].split("+")
        x = getattr(o, source) | getattr(o, target) << 4
        for name in filter(None, names):
            value = int(getattr(o, name))
            x |= value << 8 if name.startswith("TO_") else value
        return int(x)

    def y(self) -> int | None:
        text = self.modifiers.get("y")
        if text is None:
            return None
        return int(text, 0) if text[0].isdigit() else int(getattr(o, text))


@dataclass(frozen=True)
class Rule:
    """half : "" or what the 16-bit operands are, see above;  steps : what an instruction becomes"""

    half: str
    steps: tuple[Step, ...]


def _lines() -> Iterator[str]:
    """The table, and what follows a pattern."""
    yield from _TABLE.strip().splitlines()
    for name, table in LOGIC.items():
        yield f"v_{name}_b32 = LOGIC3 1 2 y={table}"
        yield f"s_{name}_b32 = LOGIC3 1 2 y={table} !"
    specials = {
        "rcp": "RECIPROCAL", "rcp_iflag": "RECIPROCAL", "sqrt": "ROOT", "rsq": "RECIPROCAL_ROOT", "exp": "EXP2",
        "log": "LOG2", "sin": "SINE", "cos": "COSINE",
    }  # fmt: skip
    for name, y in specials.items():
        turns = " x=TURNS" if y in ("SINE", "COSINE") else ""
        yield f"v_{name}_f32 v_s_{name}_f32 = SPECIAL 1 y={y}{turns}"
        yield f"v_{name}_f64 = SPECIAL_F64 1 y={y}"
        yield f"v_{name}_f16 = hf p=CONVERT 1 x=F16>F32; p=SPECIAL p y={y}{turns}; CONVERT p x=F32>F16"
    for name, rounding in (
        ("trunc", "ZERO"),
        ("rndne", "NEAREST"),
        ("floor", "DOWN"),
        ("ceil", "UP"),
    ):
        for unit, bits in itertools.product("vs", (16, 32, 64)):
            half = "hf " if bits == 16 else ""
            yield f"{unit}_{name}_f{bits} = {half}CONVERT 1 x=F{bits}>F{bits}:TO_{rounding}+WHOLE_NUMBER"
    for byte in range(4):
        yield f"v_cvt_f32_ubyte{byte} = p=BIT_FIELD_U 1 #{8 * byte} #8; CONVERT p x=U32>F32"
    for kind, suffix, half in (
        ("f32", "F32", ""), ("i32", "S", ""), ("u32", "U", ""), ("f16", "F16", "hf "), ("i16", "S", "hs "), ("u16", "U", "hu "),
    ):  # fmt: skip
        less, more = f"MINIMUM_{suffix}", f"MAXIMUM_{suffix}"
        for name, steps in {
            "min3": f"p={less} 1 2; {less} p 3",
            "max3": f"p={more} 1 2; {more} p 3",
            "minmax": f"p={less} 1 2; {more} p 3",
            "maxmin": f"p={more} 1 2; {less} p 3",
            "med3": f"p={more} 1 2; q={less} 1 2; p={less} p 3; {more} p q",
        }.items():
            on_gfx12 = f" v_{name}_num_{kind}" if kind[0] == "f" else ""
            yield f"v_{name}_{kind}{on_gfx12} = {half}{steps}"
    for n in range(1, 5):
        yield f"s_lshl{n}_add_u32 = p=SHIFT_LEFT 1 #{n}; ADD_CARRY p 2 e=scc"


def _step(text: str) -> Step:
    result, sources = "", []
    modifiers: dict[str, str] = {}
    name = ""
    for word in text.split():
        if match := re.fullmatch(r"([pqr])=(\w+)", word):
            result, name = match[1], match[2]
        elif not name:
            name = word
        elif "=" in word:
            key, _, value = word.partition("=")
            modifiers[key] = value
        elif word != "!":
            sources.append(word)
    return Step(name, result, tuple(sources), modifiers, text.rstrip().endswith("!"))


def _read() -> dict[str, Rule]:
    made = {}
    for line in _lines():
        opcodes, _, steps = line.partition(" = ")
        half, _, rest = steps.partition(" ")
        if not re.fullmatch(r"h[usf]?(32)?", half):
            half, rest = "", steps
        rule = Rule(half, tuple(_step(step) for step in rest.split(";")))
        made.update(dict.fromkeys(opcodes.split(), rule))
    return made


RULES = _read()
"""Opcode without the suffix of its encoding -> what it becomes."""
