"""The micro-operations that machine code is lowered to: one set for NVIDIA's and AMD's GPUs.

A micro-operation works on *rows* and *masks* of one sub-group. A row holds 32 bits of every lane; 64-bit values take
two rows that follow each other, the low half first. A mask holds one bit a lane: predicates, `vcc`, `exec`. Scalar and
uniform registers are rows whose lanes are all equal. Rows 0 and 1 are zero and are never written; what nobody
needs is written to TRASH_ROW and the rows behind it, or to TRASH_MASK. Mask 0 is always true.

The lanes that take part are those that are active and whose guard is set; results of others are kept. A result mask
is written for these lanes alone, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

ZERO_ROW, TRASH_ROW, FIRST_ROW = 0, 2, 6
"""Two zero rows, four rows for results that nobody needs, then those of the program."""
TRUE_MASK, TRASH_MASK, FIRST_MASK = 0, 1, 2
ALWAYS, NEVER = 2 * TRUE_MASK, 2 * TRUE_MASK + 1


class MicroOperation(NamedTuple):
    """One row of the table that the interpreter reads; fields that an operation does not use are 0.

    op : number of the operation
    guard, m, n : source masks, as 2 * number, plus 1 where the mask is negated
    d, e : results: rows or masks, as the operation's signature says
    a, b, c : source rows
    x : modifiers, bits of the operation's own
    y : an immediate number: an offset in bytes, the micro-operation to branch to
    z : number of the machine instruction that it implements
    """

    op: int
    guard: int = ALWAYS
    d: int = 0
    e: int = 0
    a: int = ZERO_ROW
    b: int = ZERO_ROW
    c: int = ZERO_ROW
    m: int = ALWAYS
    n: int = ALWAYS
    x: int = 0
    y: int = 0
    z: int = 0


@dataclass(frozen=True)
class Operation:
    """What an operation reads and writes, and what it does.

    rows_written, rows_read : field -> how many rows;  masks_written, masks_read : fields
    """

    name: str
    number: int
    signature: str
    meaning: str
    rows_written: dict[str, int]
    rows_read: dict[str, int]
    masks_written: tuple[str, ...]
    masks_read: tuple[str, ...]


# Modifiers of arithmetic: of which operands the sign is changed, or dropped first.
NEGATE_A, NEGATE_B, NEGATE_C = 1, 2, 4
ABSOLUTE_A, ABSOLUTE_B, ABSOLUTE_C = 8, 16, 32
SATURATE, FLUSH = 64, 128
"""The result is clamped to [0, 1]; subnormal operands and results become zero of their sign."""
ROUND_DOWN, ROUND_UP, ROUND_ZERO = 1 << 8, 2 << 8, 3 << 8
ROUNDING = 3 << 8
"""Of floating-point arithmetic; without it, to nearest, ties to even."""
BF16 = 1 << 10
"""Packed 16-bit arithmetic: operands are bfloat16."""
HALVES_A, HALVES_B, HALVES_C = 11, 13, 15
"""Packed 16-bit arithmetic: bit positions of two bits a source: 0 both halves in order, 1 the low half twice, 2 the high
half twice, 3 the source is one float32."""
NEGATE_HIGH_A, NEGATE_HIGH_B, NEGATE_HIGH_C = 1 << 17, 1 << 18, 1 << 19
"""Packed 16-bit arithmetic: the high half changes its sign, in addition to what NEGATE_* does to both."""

# Comparisons, in x: a condition, of floating-point numbers also whether it holds if one is not a number.
LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
"""The condition holds if one of the named relations holds: LESS | EQUAL is <=; LESS | GREATER is != of numbers."""
# The result is combined with mask m.
COMBINE_AND, COMBINE_OR, COMBINE_XOR = 0 << 20, 1 << 20, 2 << 20
"""Of comparisons, in x. Without another mask: COMBINE_AND with ALWAYS."""

WRAP = 1
"""Of shifts, in x: the distance is taken modulo the width. Without it, distances beyond the width shift everything out."""

# Kinds of numbers, of conversions.
U8, S8, U16, S16, U32, S32, U64, S64, F16, BFLOAT16, F32, F64, E4M3, E5M2, E4M3FNUZ, E5M2FNUZ = range(16)  # fmt: skip
TO_NEAREST, TO_DOWN, TO_UP, TO_ZERO = range(4)
"""Of conversions: x is from | to << 4 | rounding << 8, with NEGATE_SOURCE, ABSOLUTE_SOURCE, FLUSH_SOURCE, SATURATE_TO and the
byte or half of the source at SOURCE_PART."""
NEGATE_SOURCE, ABSOLUTE_SOURCE, FLUSH_SOURCE, WHOLE_NUMBER, SATURATE_TO = (
    1 << k for k in range(10, 15)
)
"""WHOLE_NUMBER: the result is a whole floating-point number (FRND, v_floor_f32). SATURATE_TO of floats: to [0, 1], of those of 8 bits: to the
largest number, beyond which else is infinity, or no number."""
SOURCE_PART = 16
"""Bit position of two bits: which byte of the row an 8-bit source is, or which half a 16-bit one is."""

RECIPROCAL, ROOT, RECIPROCAL_ROOT, EXP2, LOG2, SINE, COSINE, TANH = range(8)
"""Of SPECIAL, in y. SINE and COSINE take radians or, with TURNS in x, turns: of NVIDIA's code, which has divided by 2 pi, and AMD's."""
TURNS = 1 << 11

SHUFFLE_INDEX, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_BUTTERFLY = range(4)
VOTE_ANY, VOTE_ALL, VOTE_EQUAL = range(3)
(
    REDUCE_ADD, REDUCE_MIN_S, REDUCE_MAX_S, REDUCE_MIN_U, REDUCE_MAX_U, REDUCE_AND, REDUCE_OR, REDUCE_XOR,
) = range(8)  # fmt: skip

# Memory: x.
GLOBAL, LOCAL, PRIVATE, CONSTANT, GENERIC, BULK, TENSOR = range(7)
"""The space, in the lowest three bits, named as OpenCL names it: LOCAL is shared by a group.

BULK: the first participating lane starts a copy between global and local memory (NVIDIA's TMA), done at once: LOAD into
local memory, STORE and ATOMIC to global memory. Rank y & 7 is 0 for bytes that follow each other: row a (64 bits) is where they
lie in global memory, row b how many there are. Else a is the address of a tensor map (see tracegen.execution.tensor_maps) and b
the first of y & 7 rows with coordinates. Row c is an address in local memory; with PREFETCH in y nothing is copied. A LOAD
writes to row d how many bytes it has brought; row e is the address of the barrier in memory that code waits at for it, and the row behind
it, if not 0, has a bit for each group of the cluster to which the bytes come, at the same place in its local memory. With FROM_LOCAL in
y, a is an address in local memory instead, and the copy is no access. What is
accessed is recorded in equal parts for the living sub-groups of the group, or groups, as the unit that copies is the core's, no sub-group's.
TENSOR: of no access, but what the TENSOR_ operations work on."""
PREFETCH, FROM_LOCAL = 8, 16
BYTES = 3
"""Bit position of the bytes that a lane accesses: 1, 2, 4, 8, 12, 16, 32 (six bits)."""
SIGN_EXTEND = 1 << 9
"""Of loads of 1 and 2 bytes."""
HIGH_HALF = 1 << 10
"""Loads of 1 and 2 bytes write the high half of the row and keep the low one; stores take the high half. With KEEP_HALF and
not HIGH_HALF the low half is written and the high one kept (AMD's d16)."""
KEEP_HALF = 1 << 11
ADDRESS_64, ADDRESS_32 = 0 << 12, 1 << 12
"""Row a is the low half of an address of 64 bits, or a row of 32 bits that is extended (unsigned) and added to the 64 bits
of row b; with SIGNED_32 it is extended with its sign. In LOCAL, PRIVATE and CONSTANT memory addresses have 32 bits, which
are those of a plus those of b."""
SIGNED_32 = 1 << 13
SCALE = 14
"""Bit position of two bits: row a of an ADDRESS_32 is multiplied by 1, 4, 8 or 16."""
ONE_LANE = 1 << 16
"""A scalar load: done once for the sub-group, the first lane's address; its result goes to all lanes, whatever the guard."""
BYPASS_L1 = 1 << 17
NONTEMPORAL = 1 << 29
"""Of stores: caches replace their lines first."""
SKIPPED = 1 << 18
"""Set by slicing: the access is recorded, but its value is neither read nor written."""
SPILL = 1 << 19
FLOATING = 1 << 20
"""Of atomics: the operands are floating-point numbers; their kind follows from the bytes, with BF16 packed bfloat16 and, at 4 bytes
with PACKED, two halves."""
PACKED = 1 << 21
NO_RESULT = 1 << 22
"""Of atomics: nobody gets the old value."""
COUNTED = 1 << 23
"""Of stores and atomics without a result: WAIT_COUNT counts them among the loads (AMD's vmcnt before gfx10)."""
ANY_GROUP = 1 << 30
"""In LOCAL memory: the address says to which group of the cluster it belongs, else it is that of the lane's own; see GROUP_BITS."""
IN_TURN = 1 << 28
"""Of atomics in LOCAL memory: the lanes that operate on one word are served one after another."""
ATOMIC_OPERATION = 24
"""Bit position of four bits."""
(
    ATOMIC_ADD, ATOMIC_MIN_S, ATOMIC_MAX_S, ATOMIC_MIN_U, ATOMIC_MAX_U, ATOMIC_AND, ATOMIC_OR, ATOMIC_XOR,
    ATOMIC_EXCHANGE, ATOMIC_COMPARE, ATOMIC_INCREMENT, ATOMIC_DECREMENT, ATOMIC_SUBTRACT, ATOMIC_ARRIVE, ATOMIC_ARRIVE_HOPPER,
    ATOMIC_DROP_HOPPER,
) = range(16)  # fmt: skip
"""ATOMIC_COMPARE: row b is what is compared (as many rows as the value), c the new value; the others take the operand from c.
INCREMENT: old >= operand ? 0 : old + 1. DECREMENT: old == 0 or old > operand ? operand : old - 1.
ARRIVE: of NVIDIA's barriers in memory, of 64 bits, of n threads, of which m have not come. On an A100 2^30 - n are the low 32 bits, and
2^31 - m those above; bit 63 is the phase, which changes where m becomes 0, and then m is n. From an H100 on 2^20 - n are
bits 1 to 20, the bytes that are awaited bits 21 to 42, 2^20 - m bits 43 to 62; the phase changes where both are 0. Its operand
has how many come in the low half, and how many more bytes are awaited in the high half; of DROP they come to no later phase. Row e of both, in LOCAL memory, if
it is not 0, has a bit for each group of the cluster: then they come to the barrier at this place in the memory of each."""

LOCAL_WINDOW, PRIVATE_WINDOW = 1 << 52, 1 << 53
"""Where GENERIC addresses of local and private memory begin; their low 32 bits are 0. Each window has 2^24 bytes, and that of local
memory so many for each group of a cluster."""
GROUP_BITS = 24
"""From this bit on, an address in LOCAL memory has the number of the group in its cluster whose memory it is (PTX ISA 8.8, mapa)."""
MOST_IN_CLUSTER = 16

TENSOR_PACKED, TENSOR_COUNT, IN_TENSOR_MEMORY = 8, 8, 8
"""Of operations on tensor memory, in x: a flag, the position of eight bits with a count of registers, and a flag; see TENSOR_LOAD."""
FIRST_IN_ROWS, SECOND_IN_ROWS, FIRST_ACROSS, SECOND_ACROSS, HALF_SUMS, WHOLE_SUMS = (
    1 << k for k in range(8, 14)
)
"""Of MATRIX_MULTIPLY, in x."""
HIGH_HALVES = 1 << 18
"""Of BLOCK_MULTIPLY, in x."""
SCALES, SCALE_IS_FLOAT = 14, 1 << 17
"""Of both kinds of products, in x: the position of three bits, into how many blocks the depth is divided whose elements have a scale each;
and whether a scale is a float of 8 bits without a sign, else the exponent of a power of two, plus 127."""
PAIRED = 1 << 19
"""Of TENSOR_MULTIPLY and TENSOR_COPY, in x: of a pair of groups, whose numbers in their cluster differ in the lowest bit. Each has half of the
rows of the first factor and of the sums, 128, and half of the columns of the second factor, all at the same places."""
FACTORS = ["f16", "bf16", "tf32", "e4m3", "e5m2", "u8", "s8", "f64", "e2m1", "f32", "e4m3fnuz", "e5m2fnuz"]  # fmt: skip
"""The formats of factors of MATRIX_MULTIPLY and BLOCK_MULTIPLY, by their number, and their bits."""
FACTOR_BITS = dict(zip(FACTORS, (16, 16, 32, 8, 8, 8, 8, 64, 4, 32, 8, 8), strict=True))

SLOT = 20
"""Of WAIT_SLOTS and accesses: see WAIT_SLOTS."""

_DEFINITIONS = """
MOVE            d <- a              | d = a
MOVE2           d2 <- a2            | d = a, 64 bits
SELECT          d <- a b m          | d = m ? a : b; with NEGATE_* and ABSOLUTE_* in x of floats, the sign bit is changed
ADD3            d <- a b c          | d = a + b + c, 32 bits; x: NEGATE_*
ADD_CARRY       d D:e D:y <- a b c m n | the sum of a, b, c (negated ones as ~a + 1 in 64 bits) and the carries m and n, 1 where set;
                                    |   e: the sum of the 32-bit values has a carry (the sum >> 32 is not 0), y: the sum >> 32 exceeds 1
BORROW          d D:e <- a b m      | d = a - b - m; e: it borrows (a < b + m as unsigned numbers)
MULTIPLY_ADD    d <- a b c          | d = a * b + c, the low 32 bits; x: NEGATE_C, NEGATE_A (of the product)
MULTIPLY_WIDE_U d2 D:e <- a b c2 m  | d = a * b + c + carry m, 64 bits, of unsigned numbers; e: it carries out of 64 bits
MULTIPLY_WIDE_S d2 D:e <- a b c2 m  | the same of signed numbers (the carry is that of the 64-bit addition)
MULTIPLY_HIGH_U d <- a b            | the high half of the unsigned product
MULTIPLY_HIGH_S d <- a b            | the high half of the signed product
ADD64           d2 <- a2 b2         | d = a + b, 64 bits; x: NEGATE_*
MULTIPLY64      d2 <- a2 b2         | d = a * b, the low 64 bits
MULTIPLY_24     d <- a b c          | d = a * b + c of the low 24 bits of a and b; x: 0 unsigned, 1 signed
DOT4            d <- a b c          | d = c + the sum of the products of the 4 bytes of a and b; x: bit 0 a signed, bit 1 b signed
LOGIC3          d <- a b c          | bitwise: bit k of y is the result where the bits of a, b, c are k = 4a + 2b + c
SHIFT_LEFT      d <- a b            | d = a << b; x: WRAP
SHIFT_RIGHT_U   d <- a b            | d = a >> b, zeros come in; x: WRAP
SHIFT_RIGHT_S   d <- a b            | d = a >> b, the sign comes in; x: WRAP
FUNNEL_LEFT     d <- a b c          | the high half of (c:a) << b; c is the high half; x: WRAP (modulo 32), else distances are clamped to 32
FUNNEL_RIGHT    d <- a b c          | the low half of (c:a) >> b; x: WRAP (modulo 32), else distances are clamped to 32
SHIFT_LEFT64    d2 <- a2 b          | 64 bits; x: WRAP (modulo 64)
SHIFT_RIGHT64_U d2 <- a2 b          | 64 bits, zeros come in; x: WRAP
SHIFT_RIGHT64_S d2 <- a2 b          | 64 bits, the sign comes in; x: WRAP
BIT_FIELD_U     d <- a b c          | c bits of a from bit b on, zeros above; b and c modulo 32; c = 0: 0
BIT_FIELD_S     d <- a b c          | the same with the sign above
BIT_MASK        d <- a b            | b ones from bit a on; x: WRAP, else what exceeds 32 is cut off
SIGN_EXTEND_AT  d <- a b            | the low b bits of a with their sign; b clamped to 32; x: WRAP modulo 32
PERMUTE_BYTES   d <- a b c          | byte k of d is byte (c >> 4k) & 7 of (b:a), b the high half; with bit 3 set its sign bit eight times
MINIMUM_S       d <- a b            | of signed numbers
MAXIMUM_S       d <- a b            | of signed numbers
MINIMUM_U       d <- a b            | of unsigned numbers
MAXIMUM_U       d <- a b            | of unsigned numbers
MINIMUM64_S     d2 <- a2 b2         | of signed numbers of 64 bits
MAXIMUM64_S     d2 <- a2 b2         | of signed numbers of 64 bits
MINIMUM64_U     d2 <- a2 b2         | of unsigned numbers of 64 bits
MAXIMUM64_U     d2 <- a2 b2         | of unsigned numbers of 64 bits
ABSOLUTE        d <- a              | of a signed number, modulo 2^32
COUNT_ONES      d <- a              | the bits that are set
HIGHEST_BIT     d <- a              | number of the highest set bit, 2^32 - 1 where none is; x: bit 0: counted from bit 31 down; bit 1: of a
                                    |   signed number the highest bit that differs from the sign
LOWEST_BIT      d <- a              | number of the lowest set bit, 2^32 - 1 where none is
REVERSE_BITS    d <- a              | bit k becomes bit 31 - k
SUM_DIFFERENCES d <- a b c          | d = c + |a - b| of signed numbers; x: bit 0 unsigned; bit 1: the sum over the four bytes
COMPARE_S       D:d D:e <- a b m    | d = relation(a, b) combined with m, e = not relation(a, b) combined with m; signed
COMPARE_U       D:d D:e <- a b m    | the same of unsigned numbers
COMPARE64_S     D:d D:e <- a2 b2 m  | the same of signed numbers of 64 bits
COMPARE64_U     D:d D:e <- a2 b2 m  | the same of unsigned numbers of 64 bits
COMPARE_F32     D:d D:e <- a b m    | the same of floats; x: also NEGATE_A/B << 0, ABSOLUTE_A/B << 0 moved up by 8 bits, FLUSH moved up by 8
COMPARE_F64     D:d D:e <- a2 b2 m  | the same of doubles
COMPARE_F16     D:d D:e <- a b m    | packed: d of the low halves, e of the high halves, each combined with m; HALVES_* at bit 24 (a), 26 (b)
CLASS_F32       D:d <- a b          | AMD's v_cmp_class: b bits choose classes of a: signalling NaN, quiet NaN, -inf, -normal, -subnormal,
                                    |   -0, +0, +subnormal, +normal, +inf
CLASS_F64       D:d <- a2 b         | the same of doubles
MASK_LOGIC3     D:d <- m n y        | bit k of x is the result where m, n, y are k = 4m + 2n + y; y is a source mask as m is
MASK_TO_ROWS    d2 <- m             | rows d and d + 1: the bits of lanes 0 to 31 and 32 to 63 of the mask, whole, in all active lanes
                                    |   whatever the guard; x: bit 0: only of active lanes whose guard is set (a ballot); bit 1: one row only
ROWS_TO_MASK    D:d <- a2           | the mask whose bits are those of lane 0 of row a and, with 64 lanes, of row a + 1; written whole
VOTE            D:d <- m            | of the participating lanes: y VOTE_ANY, VOTE_ALL, VOTE_EQUAL; the same in all lanes
VOTE_WHOLE      D:d <- m            | d, whole, is all ones where any bit of m is set, else zero (AMD's scc of a mask); ignores guard
ADD_F32         d <- a b            | floats; x: NEGATE_*, ABSOLUTE_*, SATURATE, FLUSH, ROUNDING, of the following too
MULTIPLY_F32    d <- a b            | floats
FUSED_F32       d <- a b c          | a * b + c with one rounding
MINIMUM_F32     d <- a b            | the number where one is not a number
MAXIMUM_F32     d <- a b            | the number where one is not a number
ADD_F64         d2 <- a2 b2         | doubles
MULTIPLY_F64    d2 <- a2 b2         | doubles
FUSED_F64       d2 <- a2 b2 c2      | doubles
MINIMUM_F64     d2 <- a2 b2         | doubles
MAXIMUM_F64     d2 <- a2 b2         | doubles
ADD_F16         d <- a b            | two halves (or bfloat16s) at once; x: HALVES_*, BF16 and the others; also of the following
MULTIPLY_F16    d <- a b            | two halves
FUSED_F16       d <- a b c          | two halves
MINIMUM_F16     d <- a b            | two halves
MAXIMUM_F16     d <- a b            | two halves
SPECIAL         d <- a              | of floats, as exact as the host computes them; y: RECIPROCAL and so on; x: NEGATE_A, ABSOLUTE_A, SATURATE
SPECIAL_F64     d2 <- a2            | of doubles; y: RECIPROCAL, ROOT, RECIPROCAL_ROOT
SPECIAL_HIGH    d <- a              | the high half of the reciprocal or reciprocal root of the double whose high half is a and low half 0
FRACTION_F32    d <- a              | y: 0 a - floor(a); 1 the mantissa in [0.5, 1); 2 the exponent as an integer
FRACTION_F64    d2 <- a2            | the same of doubles; of 2, only row d is written
SCALE_F32       d <- a b            | a * 2^b, b a signed integer
SCALE_F64       d2 <- a2 b          | the same of doubles
DIVISION_CHECK  D:d <- a b          | NVIDIA's FCHK: a / b needs the slow path: exponents that leave the range of the fast one
DIVISION_SCALE_F32 d D:e <- a b c   | AMD's v_div_scale_f32: see the instruction set; a: src0, b: denominator, c: numerator
DIVISION_SCALE_F64 d2 D:e <- a2 b2 c2 | AMD's v_div_scale_f64
DIVISION_STEP_F32 d <- a b c m      | AMD's v_div_fmas_f32: a * b + c, where m times 2^64 if c is 2 or more, else 2^-64, rounded once
DIVISION_STEP_F64 d2 <- a2 b2 c2 m  | AMD's v_div_fmas_f64: the same with 2^128
DIVISION_FIX_F32 d <- a b c         | AMD's v_div_fixup_f32
DIVISION_FIX_F64 d2 <- a2 b2 c2     | AMD's v_div_fixup_f64
CONVERT         d2 <- a2            | from one kind of number to another; x: kinds, rounding, modifiers. 8 and 16-bit results take the low
                                    |   bits of d; results of 32 bits or less write row d alone; out of range: the nearest; not a number: 0
PACK_F16        d <- a b            | the halves (BF16: bfloat16) of floats: a in the high half, b in the low half; x: ROUND_ZERO, NEGATE_*, bit 10
SHUFFLE         d D:e <- a b c      | y: SHUFFLE_*; b lane or distance, c clamp | segment mask << 8 as in PTX's shfl; e: the source is in range. A lane
                                    |   that does not participate gives 0
READ_LANE       d <- a b            | all lanes get that of lane b (its value in lane 0) of row a, whatever the guard
READ_FIRST_LANE d <- a              | all lanes get that of the first participating lane (lane 0 where there is none)
WRITE_LANE      d <- a b            | lane b of row d becomes lane 0 of row a; other lanes are kept
PERMUTE_LANES   d <- a c m          | d = a of lane c (each lane has its own number, the bits of which are not cut off); where it exceeds the lanes
                                    |   or m is not set in the source lane: x bit 0: zero, else d is kept
SCATTER_LANES   d <- a c            | lane c of d gets a; the highest lane wins; lanes that nobody names get 0 (ds_permute)
MATCH_ANY       d <- a b            | the participating lanes whose a (x bit 0: a and b are 64 bits at a2) equals this lane's, as bits
MATCH_ALL       d D:e <- a b        | the participating lanes if all have one value, else 0; e: whether they have
REDUCE          d <- a              | of the participating lanes, y: REDUCE_*; the same in all lanes
LOAD            d4 <- a2 b2         | memory: x; y: an offset in bytes that is added
STORE           <- a2 b2 c4         | memory
ATOMIC          d2 <- a2 b2 c2      | memory; ATOMIC_COMPARE: see there: the compared value is at row e
LOAD_CONSTANT   d4 <- a             | from constant bank n >> 1 at a + y; x: BYTES, SIGN_EXTEND
CLOCK           d2 <-               | micro-operations executed so far
BLOCK           <-                  | a basic block begins, or the code behind an access: y is its segment; see the interpreter
BRANCH          <- m                | participating lanes where m is set go on at micro-operation y
BRANCH_TABLE    <- a                | lanes go on at the micro-operation that instruction address a + y has (an index times 16)
RETURN          <- a                | as BRANCH_TABLE: a is an address of an instruction
EXIT            <-                  | participating lanes end
JOIN_SET        d <-                | BSSY: row d gets the active lanes as bits
JOIN_WAIT       <- a                | BSYNC: lanes wait until all living lanes named in their row a wait here or have left it
JOIN_LEAVE      d <- d              | BREAK: participating lanes leave row d of all lanes
SYNC_LANES      <- a                | WARPSYNC: lanes wait until all living lanes of the bits in a wait here
BARRIER         D:e d <- a b m      | y: 0 all of the group; else a named barrier: b its number, a the sub-groups times lanes that it needs (0: all);
                                    |   x: bit 0 arrives only; reduction of m: bits 1-2: 1 count (d), 2 and (e), 3 or (e);
                                    |   bit 3: only recorded, where row a is the number of work-items; bit 4: of the cluster, at which a
                                    |   sub-group first arrives, and then waits until all that live have arrived as often
WAIT_SLOTS      <-                  | waits for the accesses in scoreboards y (bits 0 to 5); accesses name theirs at SLOT of z; 7: none
WAIT_COUNT      <-                  | waits until at most y loads (x 0) or scalar loads (x 1) or stores (x 2) are outstanding
TRAP            <-                  | ends the run with an error: y 0 a trap, 1 an assertion, 2 an instruction that is not known
COPIES_END      <- a                | NVIDIA's LDGDEPBAR: the accesses with slot 6 since the last one form a group of copies; with x, of the
                                    |   barrier in memory whose address the first participating lane has in a
WAIT_COPIES     <- a                | waits until at most the y latest groups of copies are outstanding; with x, for the latest one of that barrier,
                                    |   of this sub-group or, with bit 1, of each: what is copied in parts comes as a whole
REST            <-                  | participating lanes go on when the other sub-groups of the group have gone as far as they can; with x, not of a
                                    |   sub-group that has started a copy of a tile to local memory, which goes on at once
TENSOR_LOAD     d <- a              | lanes get x >> 8 registers from tensor memory, at lane a >> 16 and column a & 65535, plus y; x & 7, of lane l and
                                    |   register k: 0 lane l, column k; 1 lane l / 4 + 8 (l / 2 % 2), column 2 k + l % 2; 2 lane l / 4 + 8 (k % 2), column
                                    |   4 (k / 2) + l % 4; 3 lane l / 4 + 8 (k / 2 % 2), column 8 (k / 4) + 2 (l % 4) + k % 2; 4 lane l % 16, column k. x & 8: a register has the low halves of two columns
TENSOR_STORE    <- a c              | the same the other way
TENSOR_MULTIPLY <- a2 b2 c d e      | the lowest participating lane starts a product of tiles. a, b: descriptors of the factors in local memory (x & 8: a
                                    |   is where the first one lies in tensor memory), c: where the sums are there, d: whether it is added to them, e: the
                                    |   descriptor of the instruction; x & 7: 0 of halves, bfloat16 or TF32, 1 of 8-bit floats, 2 of 8-bit integers, 3 of
                                    |   4-bit floats. With SCALES, the rows behind d say where the scales of both factors lie
MATRIX_MULTIPLY d <- a b c e m      | d = c + the product of matrices; y: columns | rows << 9 | depth << 14; x & 15, x >> 4 & 15: the formats of both
                                    |   factors (FACTORS). a, b: the first of the rows with fragments where x says so (*_IN_ROWS), else descriptors of
                                    |   wgmma of tiles in local memory, of which four sub-groups take 16 rows each (*_ACROSS: elements follow each other
                                    |   across the depth). d, c: sums in fragments: floats, of f64 doubles, with HALF_SUMS two halves a row, with
                                    |   WHOLE_SUMS integers; where m is not set, c is left out. With SCALES, e: rows with the scales of both
                                    |   factors. Fragments: PTX ISA, mma and wgmma
TENSOR_COPY     <- a b2             | the lowest participating lane starts a copy of 32 rows of 16 bytes, whose descriptor is b, to 4 columns of 32 lanes of
                                    |   tensor memory from a on, and to the same of the other lanes
BLOCK_MULTIPLY  d <- a b c m        | d = c + the products of square blocks of 4, 16 or 32 rows by AMD's matrix instructions; y: rows | blocks << 6 |
                                    |   depth << 11 | elements << 19: so many along the depth each lane has. Lanes form groups of as many as
                                    |   a block has rows; lane i of a group has elements of row i of a, and of column i of b, of the group's
                                    |   block, or of those that follow along the depth. Formats, m and WHOLE_SUMS as MATRIX_MULTIPLY has them, of
                                    |   all rows; with HALF_SUMS sums are low halves of rows, with HIGH_HALVES high ones, and the others stay
UNKNOWN         d D:e <-            | the result of an instruction that is not known: as TRAP with y 2 where it is executed
"""


def _read(text: str) -> dict[str, Operation]:
    made: dict[str, Operation] = {}
    for line in text.strip().splitlines():
        named, _, meaning = line.partition("|")
        if not named.strip():
            last = list(made)[-1]
            made[last] = Operation(
                **{**made[last].__dict__, "meaning": f"{made[last].meaning} {meaning.strip()}"}
            )
            continue
        name, _, signature = named.strip().partition(" ")
        results, _, sources = signature.partition("<-")
        rows = re.findall(r"(?<![\w:])([a-e])(\d?)(?!\w)", results)
        read = re.findall(r"(?<![\w:])([a-e])(\d?)(?!\w)", sources)
        made[name] = Operation(
            name=name,
            number=len(made),
            signature=" ".join(signature.split()),
            meaning=meaning.strip(),
            rows_written={field: int(n or 1) for field, n in rows},
            rows_read={field: int(n or 1) for field, n in read},
            masks_written=tuple(re.findall(r"D:(\w)", results)),
            masks_read=tuple(re.findall(r"(?<![\w:])([mny])(?!\w)", sources)),
        )
    return made


OPERATIONS = _read(_DEFINITIONS)
"""Name -> operation; the numbers are the order of the table above."""
BY_NUMBER = {operation.number: operation for operation in OPERATIONS.values()}


def numbers(*names: str) -> tuple[int, ...]:
    """The numbers of operations, in the order of their names here."""
    return tuple(OPERATIONS[name].number for name in names)


ACCESSES = ("LOAD", "STORE", "ATOMIC")
GATHERING = frozenset(numbers("BARRIER", "JOIN_WAIT", "SYNC_LANES"))
"""Behind these, lanes go on that came there from different blocks, so a segment begins."""
COLUMNS = {name: k for k, name in enumerate(MicroOperation._fields)}
"""Of a table of micro-operations."""
