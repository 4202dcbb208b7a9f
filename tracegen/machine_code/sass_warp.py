"""SASS that exchanges values between lanes, reads special registers, waits, jumps and ends, lowered to micro-operations."""

from __future__ import annotations

import re

from tracegen.execution import operations as o
from tracegen.execution.operations import ALWAYS, TRASH_MASK, TRASH_ROW, ZERO_ROW
from tracegen.machine_code.sass_emit import Emitter, UnknownInstruction, carries, lowers
from tracegen.machine_code.sass_integers import RELATIONS
from tracegen.machine_code.sass_text import Sass, operand

_SHUFFLES = {"IDX": 0, "UP": 1, "DOWN": 2, "BFLY": 3}
_VOTES = {"ANY": o.VOTE_ANY, "ALL": o.VOTE_ALL, "EQ": o.VOTE_EQUAL}


# --- lanes ------------------------------------------------------------------------------------------
@lowers("SHFL", " ".join(_SHUFFLES))
def _shuffle(e: Emitter, s: Sass) -> None:
    p, d, a, b, c = s.operands
    fields = {
        "a": e.whole(a),
        "b": e.whole(b),
        "c": e.whole(c),
        "y": _SHUFFLES[s.one_of(*_SHUFFLES)],
    }
    e.emit("SHUFFLE", d=e.result(d), e=e.result_mask(p), **fields)


@lowers("VOTE VOTEU", " ".join(_VOTES))
def _vote(e: Emitter, s: Sass) -> None:
    """`VOTE.ANY R0, PT, P0`: the bits of the lanes, and whether any has the predicate."""
    *results, p = s.operands
    for one in results:
        if not one.is_predicate and e.result(one) != TRASH_ROW:
            ballot(e, e.result(one), e.mask(p))
    for one in results:
        if one.is_predicate and e.result_mask(one) != TRASH_MASK:
            e.emit("VOTE", d=e.result_mask(one), m=e.mask(p), y=_VOTES[s.one_of(*_VOTES)])


def ballot(e: Emitter, d: int, mask: int) -> None:
    """A row, in participating lanes, with the bits of those of them that have the mask."""
    row = e.temporary()
    e.emit("MASK_TO_ROWS", d=row, m=mask, x=3)
    e.move(d, row)


@lowers("MATCH", "ANY ALL U64")
def _match(e: Emitter, s: Sass) -> None:
    masks, d, (a,) = carries(s)
    x = int(s.has("U64"))
    row = e.wide(a) if x else e.whole(a)
    if s.has("ANY"):
        return e.emit("MATCH_ANY", d=e.result(d), a=row, x=x)
    return e.emit(
        "MATCH_ALL", d=e.result(d), e=e.result_mask(masks[0]) if masks else TRASH_MASK, a=row, x=x
    )


_REDUCTIONS = {"SUM": "ADD", "MIN": "MIN", "MAX": "MAX", "AND": "AND", "OR": "OR", "XOR": "XOR"}


@lowers("REDUX CREDUX", f"{' '.join(_REDUCTIONS)} S32 U32 F32 ABS NAN")
def _reduce(e: Emitter, s: Sass) -> None:
    d, a = s.operands
    name = _REDUCTIONS[s.one_of(*_REDUCTIONS) or "AND"]
    if name in ("MIN", "MAX"):
        name += "_S" if s.has("S32") else "_U"
    row, chosen = e.temporary(), e.chosen
    e.chosen = 0
    if s.has("F32"):
        if chosen or s.one_of(*_REDUCTIONS) not in ("MIN", "MAX"):
            raise UnknownInstruction
        _reduce_floats(e, row, e.plain(a), s, a.absolute or s.has("ABS"), a.negative)
    elif chosen:
        _reduce_chosen(e, row, e.whole(a), chosen, name)
    else:
        e.emit("REDUCE", d=row, a=e.whole(a), y=getattr(o, f"REDUCE_{name}"))
    e.move(e.result(d), row)


def _reduce_floats(e: Emitter, d: int, a: int, s: Sass, absolute: bool, negative: bool) -> None:
    """The least or greatest float, as an integer that is greater where the float is; those that are no number count where `.NAN` says so."""
    key, sign, none = e.temporary(), e.temporary(), e.temporary_mask()
    signs = (o.ABSOLUTE_A if absolute else 0) | (o.NEGATE_A if negative else 0)
    e.emit("SELECT", d=key, a=a, b=a, m=ALWAYS, x=signs)
    e.emit("COMPARE_F32", d=none, a=key, b=key, x=o.UNORDERED)
    greatest = s.has("MAX")
    wins = 0x7FFFFFFF if greatest else -0x80000000
    loses = ~0x7F800000 if greatest else 0x7F800000  # infinity
    _ordered(e, key, sign)
    other = e.constant(wins if s.has("NAN") else loses)
    e.emit("SELECT", d=key, a=other, b=key, m=2 * none)
    e.emit("REDUCE", d=d, a=key, y=o.REDUCE_MAX_S if greatest else o.REDUCE_MIN_S)
    _ordered(e, d, sign)


def _ordered(e: Emitter, row: int, sign: int) -> None:
    """Integers whose order is that of floats, from their bits, or the other way."""
    e.emit("SHIFT_RIGHT_S", d=sign, a=row, b=e.constant(31))
    e.emit("LOGIC3", d=row, a=row, b=sign, c=e.constant(0x7FFFFFFF), y=0x78)


_STEPS: dict[str, tuple[int, str, dict[str, int]]] = {
    "ADD": (0, "ADD3", {"c": ZERO_ROW}),
    "AND": (-1, "LOGIC3", {"y": 0xC0}),
    "OR": (0, "LOGIC3", {"y": 0xFC}),
    "XOR": (0, "LOGIC3", {"y": 0x3C}),
    "MIN_S": (0x7FFFFFFF, "MINIMUM_S", {}),
    "MAX_S": (-0x80000000, "MAXIMUM_S", {}),
    "MIN_U": (-1, "MINIMUM_U", {}),
    "MAX_U": (0, "MAXIMUM_U", {}),
}
"""Reduction -> the value that changes nothing, and the micro-operation on two values."""


def _reduce_chosen(e: Emitter, d: int, a: int, chosen: int, name: str) -> None:
    """Each lane's reduction of row a over the lanes whose bits are set in its word of the row `chosen`."""
    nothing, step, fields = _STEPS[name]
    value, bit, mask = e.temporary(), e.temporary(), e.temporary_mask()
    e.move(d, e.constant(nothing))
    for lane in range(32):
        e.emit("READ_LANE", d=value, a=a, b=e.constant(lane))
        e.emit("BIT_FIELD_U", d=bit, a=chosen, b=e.constant(lane), c=e.constant(1))
        e.emit("COMPARE_U", d=mask, a=bit, b=ZERO_ROW, x=RELATIONS["NE"])
        e.emit("SELECT", d=value, a=value, b=e.constant(nothing), m=2 * mask)
        e.emit(step, d=d, a=d, b=value, **fields)


@lowers("R2UR", "BROADCAST FILL OR")
def _to_uniform(e: Emitter, s: Sass) -> None:
    """The value of the first lane, and which lanes have another, for which code then does the same again. Each lane has its own copy
    of uniform registers, so that lanes that have parted do not disturb each other; those that are together all get the value, also
    where a predicate chooses some. Without a register for the value the predicate tells whether lanes differ: before a reduction
    over chosen lanes, which then calls a function. With `.OR` lanes that had the predicate keep it."""
    masks, d, (a, *_) = carries(s)
    row = e.temporary()
    if s.has("OR") and e.result(d) == TRASH_ROW:
        raise UnknownInstruction
    e.emit("READ_FIRST_LANE", d=row, a=e.whole(a))
    for one in masks:
        if e.result(d) == TRASH_ROW:
            others = e.temporary_mask()
            e.emit("COMPARE_U", d=others, a=row, b=e.whole(a), x=RELATIONS["NE"])
            e.emit("VOTE", d=e.result_mask(one), m=2 * others, y=o.VOTE_ANY)
        else:
            differs, before = e.result_mask(one), ALWAYS
            x = RELATIONS["NE"]
            if s.has("OR"):
                before, x = 2 * differs, x | o.COMBINE_OR
            e.emit("COMPARE_U", d=differs, a=row, b=e.whole(a), m=before, x=x)
    if e.guard != ALWAYS and e.result(d) != TRASH_ROW:
        some = e.temporary_mask()
        e.emit("VOTE", guard=ALWAYS, d=some, m=e.guard, y=o.VOTE_ANY)
        e.emit("MOVE", guard=2 * some, d=e.result(d), a=row)
    else:
        e.move(e.result(d), row)


@lowers("ELECT")
def _elect(e: Emitter, s: Sass) -> None:
    """Chooses the first of the lanes: the predicate is set in it, the register has its number."""
    p, d, *_ = s.operands
    bits, first, mask = e.temporary(), e.temporary(), e.temporary_mask()
    e.emit("MASK_TO_ROWS", d=bits, m=ALWAYS, x=3)
    e.emit("LOWEST_BIT", d=first, a=bits)
    e.emit("COMPARE_U", d=mask, a=first, b=e.assembler.special("lane"), x=RELATIONS["EQ"])
    e.move(e.result(d), first)
    e.move_mask(e.result_mask(p), 2 * mask)


# --- special registers ------------------------------------------------------------------------------
_SPECIAL_ROWS = {
    "SR_LANEID": "lane", "SR_TID.X": "item_x", "SR_TID.Y": "item_y", "SR_TID.Z": "item_z", "SR_CTAID.X": "group_x",
    "SR_CTAID.Y": "group_y", "SR_CTAID.Z": "group_z", "SR_LTMASK": "lanes_below", "SR_LEMASK": "lanes_up_to",
    "SR_GTMASK": "lanes_above", "SR_GEMASK": "lanes_from", "SR_EQMASK": "this_lane", "SR_WARPID": "subgroup",
    "SR_CgaCtaId": "rank",
}  # fmt: skip
_SPECIAL_NUMBERS = {
    "SRZ": 0, "SR_SMID": 0, "SR_VIRTUALSMID": 0, "SR_SWINHI": o.LOCAL_WINDOW >> 32, "SR_SWINLO": 0,
    "SR_LWINHI": o.PRIVATE_WINDOW >> 32, "SR_LWINLO": 0, "SR_CgaSize": 1,
}  # fmt: skip
_CLOCKS = {
    "SR_CLOCKLO": 0,
    "SR_CLOCKHI": 1,
    "SR_GLOBALTIMERLO": 0,
    "SR_GLOBALTIMERHI": 1,
    "SR_CLOCK": 0,
}
_SUBGROUP_BIT = 8
"""Of SR_VIRTID, whose bits from there on are the number of the sub-group in its group, and from bit 20 on that of the core."""


@lowers("S2R S2UR CS2R CS2UR", "32 64")
def _special(e: Emitter, s: Sass) -> None:
    d, a = s.operands
    words = 2 if s.base in ("CS2R", "CS2UR") and not s.has("32") else 1
    row = e.result(d)
    if a.text in _CLOCKS:
        clock = e.temporary(2)
        e.emit("CLOCK", d=clock)
        return e.move(row, clock + (0 if words == 2 else _CLOCKS[a.text]), words)
    if a.text == "SR_VIRTID":
        subgroup = e.assembler.special("subgroup")
        return e.emit("SHIFT_LEFT", d=row, a=subgroup, b=e.constant(_SUBGROUP_BIT))
    if a.text in _SPECIAL_NUMBERS:
        e.move(row, e.constant(_SPECIAL_NUMBERS[a.text]))
    elif a.text in _SPECIAL_ROWS:
        e.move(row, e.assembler.special(_SPECIAL_ROWS[a.text]))  # type: ignore[arg-type]
    else:
        raise UnknownInstruction
    return e.move(row + 1, ZERO_ROW) if words == 2 and row != TRASH_ROW else None


# --- what has no effect here ------------------------------------------------------------------------
@lowers(
    "NOP YIELD MEMBAR ERRBAR CCTL CCTLL CCTLT FENCE ENDCOLLECTIVE PREEXIT ACQBULK PMTRIG WARPGROUP UNOP CGAERRBAR "
    "UTMACMDFLUSH UTMACCTL",
    "WARP ALL GPU SYS CTA SC E IVALL IVALLP PF PF1 PF2 PF1.5 IV RS RSLB WB U C D I IVTH VIEW ASYNC S T G DEPBAR ARRIVE MMIO VC "
    "SYNCS ALLGPU LE LDCU DEEP",
)
def _nothing(e: Emitter, s: Sass) -> None:
    """Waits, fences and hints: lanes and sub-groups see each other's stores at once. `WARPGROUP.DEPBAR` waits for a product of four
    sub-groups, so none of these goes on and has what the others read overwritten."""
    if e.yields and s.base == "WARPGROUP" and s.has("DEPBAR"):
        e.emit("REST")


@lowers("USETMAXREG", "ALLOC DEALLOC TRY_ALLOC CTAPOOL")
def _registers(e: Emitter, s: Sass) -> None:
    """There are always enough registers."""
    for one in s.operands:
        if one.is_predicate:
            e.move_mask(e.result_mask(one), ALWAYS)


@lowers("NANOSLEEP", "WARP SYNCS")
def _rest(e: Emitter, s: Sass) -> None:
    e.emit("REST")


# --- waits ------------------------------------------------------------------------------------------
@lowers("DEPBAR LDGDEPBAR", "LE")
def _wait(e: Emitter, s: Sass) -> None:
    """`LDGDEPBAR` ends a group of copies; `DEPBAR.LE SB0, 0x1` waits until at most so many groups, or accesses, are left."""
    if s.base == "LDGDEPBAR":
        return e.emit("COPIES_END", guard=ALWAYS)
    if not s.operands or not s.operands[0].text.startswith("SB"):
        return None
    board, most = int(s.operands[0].text[2:]), s.operands[1].number if len(s.operands) > 1 else 0
    if board in e.copy_slots:
        return e.emit("WAIT_COPIES", guard=ALWAYS, y=most)
    return e.emit("WAIT_SLOTS", guard=ALWAYS, y=1 << board) if most == 0 else None


@lowers("UCGABAR_ARV UCGABAR_WAIT")
def _barrier_of_cluster(e: Emitter, s: Sass) -> None:
    """A sub-group arrives at the barrier of the cluster, and then waits for all others there."""
    e.emit("BARRIER", d=TRASH_ROW, e=TRASH_MASK, x=16 | int(s.base == "UCGABAR_ARV"))


@lowers("BAR", "SYNC DEFER_BLOCKING ARV RED POPC AND OR SYNCALL")
def _barrier(e: Emitter, s: Sass) -> None:
    number, *others = s.operands or (operand("0x0"),)
    p = [one for one in others if one.is_predicate]
    count = [one for one in others if not one.is_predicate]
    plain = number.kind == "i" and number.number == 0 and not count
    x = int(s.has("ARV"))
    if s.has("RED"):
        x |= {"POPC": 1, "AND": 2, "OR": 3}[s.one_of("POPC", "AND", "OR")] << 1
    e.emit(
        "BARRIER",
        d=e.assembler.rows("barrier result", 1),
        e=e.assembler.mask("barrier result"),
        a=e.whole(count[0]) if count else ZERO_ROW,
        b=e.whole(number),
        m=e.mask(p[0]) if p else ALWAYS,
        x=x,
        y=0 if plain else 1,
    )


@lowers("B2R", "RESULT")
def _barrier_result(e: Emitter, s: Sass) -> None:
    if not s.has("RESULT"):
        raise UnknownInstruction
    for one in s.operands:
        if one.is_predicate:
            e.move_mask(e.result_mask(one), 2 * e.assembler.mask("barrier result"))
        else:
            e.move(e.result(one), e.assembler.rows("barrier result", 1))


@lowers("WARPSYNC", "ALL COLLECTIVE EXCLUSIVE")
def _synchronize(e: Emitter, s: Sass) -> None:
    """Behind `EXCLUSIVE` the lanes of each mask go on alone, one mask after the other: here only up to a reduction, or where
    all have the same."""
    lanes = None
    if s.operands and not (s.has("ALL") and s.has("COLLECTIVE")):
        lanes = s.operands[0 if s.has("COLLECTIVE") else -1]
    row = e.whole(lanes) if lanes is not None else e.constant(-1)
    e.emit("SYNC_LANES", a=row)
    if s.has("EXCLUSIVE") and e.follows == "REDUX":
        e.chosen = row
    elif s.has("EXCLUSIVE"):
        first, others = e.temporary(), e.temporary_mask()
        e.emit("READ_FIRST_LANE", d=first, a=row)
        e.emit("COMPARE_U", d=others, a=row, b=first, x=RELATIONS["NE"])
        e.emit("TRAP", guard=e.both(2 * others), y=2)


# --- divergence -------------------------------------------------------------------------------------
@lowers("BSSY", "RECONVERGENT RELIABLE")
def _join_set(e: Emitter, s: Sass) -> None:
    e.emit("JOIN_SET", d=e.result(s.operands[0]))


@lowers("BSYNC", "RECONVERGENT RELIABLE")
def _join_wait(e: Emitter, s: Sass) -> None:
    *p, barrier = s.operands
    guard = e.both(e.mask(p[0])) if p else e.guard
    e.emit("JOIN_WAIT", guard=guard, a=e.plain(barrier))


@lowers("BREAK", "RECONVERGENT RELIABLE")
def _join_leave(e: Emitter, s: Sass) -> None:
    *p, barrier = s.operands
    guard = e.both(e.mask(p[0])) if p else e.guard
    e.emit("JOIN_LEAVE", guard=guard, d=e.result(barrier))


@lowers("BMOV", "32 64 CLEAR PQUAD")
def _join_move(e: Emitter, s: Sass) -> None:
    d, a = s.operands
    if s.has("64", "PQUAD"):
        raise UnknownInstruction
    e.move(e.result(d), e.whole(a))
    if s.has("CLEAR") and a.kind == "B":
        e.move(e.result(a), ZERO_ROW)


# --- jumps ------------------------------------------------------------------------------------------
@lowers("BRA JMP", "U DIV CONV ANY ALL INC DEC NOINC REL ABS")
def _branch(e: Emitter, s: Sass) -> None:
    """`BRA.DIV R, target` serves lanes that have parted: here they wait for each other, and go the way of those that have not."""
    if not e.instruction.targets:
        raise UnknownInstruction
    label = f"{e.instruction.targets[0]:x}"
    before = s.operands[:-1]
    if s.has("DIV", "CONV") and not before:
        return _branch_apart(e, s, label)
    if s.has("DIV", "CONV"):
        e.emit("SYNC_LANES", a=e.whole(before[-1]))
        return e.emit("BRANCH", label=label) if s.has("CONV") else None
    masks = [e.mask(one) for one in before if one.is_predicate]
    if s.has("ANY", "ALL") and masks:
        raise UnknownInstruction
    return e.emit("BRANCH", m=masks[0] if masks else ALWAYS, label=label)


def _branch_apart(e: Emitter, s: Sass, label: str) -> None:
    """`BRA.DIV target` of Turing jumps where not all lanes of the sub-group are here."""
    here, mask = e.temporary(), e.temporary_mask()
    e.emit("MASK_TO_ROWS", guard=ALWAYS, d=here, m=ALWAYS, x=3)
    relation = RELATIONS["NE" if s.has("DIV") else "EQ"]
    e.emit("COMPARE_U", d=mask, a=here, b=e.constant(-1), x=relation)
    e.emit("BRANCH", m=2 * mask, label=label)


_THROUGH = re.compile(r"(U?R\d+)(?: (-?0x[0-9a-f]+))?(?: `\((.*)\))?$")


@lowers("CALL", "REL ABS NOINC INC U")
def _call(e: Emitter, s: Sass) -> None:
    """The address to return to is in registers already."""
    if e.instruction.targets:
        e.emit("BRANCH", label=f"{e.instruction.targets[0]:x}")
    elif s.has("ABS") and e.outside:
        e.emit("TRAP", y=e.outside)
    elif s.has("ABS"):  # another function outside the kernel's code, as that of malloc
        raise UnknownInstruction
    else:
        _jump(e, s, 0)


@lowers("LEPC")
def _own_address(e: Emitter, s: Sass) -> None:
    """The address to return to, before a call of a function outside."""
    targets = e.instruction.targets or (e.instruction.address,)
    e.move(e.result(s.operands[0]), e.constant(targets[0], 0), 2)


@lowers("RET", "REL ABS NODEC DEC")
def _return(e: Emitter, s: Sass) -> None:
    _jump(e, s, 0)


@lowers("BRX BRXU")
def _table_branch(e: Emitter, s: Sass) -> None:
    """Of the next instruction's address, a register and an offset the sum."""
    _jump(e, s, e.instruction.address + 16)


def _jump(e: Emitter, s: Sass, base: int) -> None:
    text = ", ".join(one.text for one in s.operands)
    match = _THROUGH.match(text)
    if match is None:
        raise UnknownInstruction
    row = e.plain(operand(match[1]), 2)
    e.emit("RETURN" if not base else "BRANCH_TABLE", a=row, y=base + int(match[2] or "0", 16))


@lowers("EXIT KILL")
def _exit(e: Emitter, s: Sass) -> None:
    e.emit("EXIT", guard=e.both(e.mask(s.operands[0])) if s.operands else e.guard)


@lowers("BPT", "TRAP INT DRAIN PAUSE")
def _trap(e: Emitter, s: Sass) -> None:
    e.emit("TRAP", y=0)


def fails(e: Emitter) -> None:
    """What stands for an unknown instruction: errors, of which those fall away whose results nobody needs."""
    results = e.instruction.writes
    if not results:
        e.emit("TRAP", guard=ALWAYS, y=2)
    for name in results:
        found = operand(name)
        field = {"e": e.result_mask(found)} if found.is_predicate else {"d": e.result(found)}
        e.emit("UNKNOWN", guard=ALWAYS, **field)
