"""Registers of AMD's sub-groups as rows and masks, and the operands of one instruction as the encodings modify them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from memsim.errors import KernelError
from tracegen.compiled.model import MachineCode
from tracegen.execution import operations as o
from tracegen.execution.code import Assembler
from tracegen.machine_code import gcn_lanes
from tracegen.machine_code.gcn_table import LOGIC
from tracegen.machine_code.gcn_text import Kind, Parsed, number

_REGISTER = re.compile(r"(v|s|a|ttmp)(?:(\d+)|\[(\d+):(\d+)\])$")
_USED = re.compile(r"\b([vsa]|ttmp)(?:(\d+)\b|\[\d+:(\d+)\])")
_MASK = re.compile(r"(vcc|exec)(_lo|_hi)?$")
_DESCRIBES = re.compile(r"s_(?!mov_b64)\w+ s(?:(\d+)|\[(\d+):(\d+)\])[, ]")
_TESTS = re.compile(r"s_cbranch_vcc|s_(?!and_saveexec)\w+ .*\bvcc")
_SIGNED = re.compile(r"(-(?=[va-z|])|neg\()?(\||abs\()?(sext\()?([^|)]*)")
_PART = re.compile(r"(BYTE|WORD)_(\d)")
_APERTURES = {"src_shared_base": o.LOCAL_WINDOW, "src_private_base": o.PRIVATE_WINDOW}
_TEMPORARIES = 80
Unit = Literal["vector", "scalar"]

NOT_A = 0x0F
AND, OR, XOR, AND_NOT = (LOGIC[name] for name in ("and", "or", "xor", "andn2"))
"""Tables of LOGIC3 and MASK_LOGIC3 that do not depend on the third source; AND_NOT is a & ~b."""


_CONDITIONS = {
    "f": 0, "lt": o.LESS, "eq": o.EQUAL, "le": o.LESS | o.EQUAL, "gt": o.GREATER, "lg": o.LESS | o.GREATER,
    "ne": o.LESS | o.GREATER, "ge": o.GREATER | o.EQUAL, "o": o.LESS | o.EQUAL | o.GREATER, "u": o.UNORDERED,
    "t": 15, "tru": 15,
}  # fmt: skip


def relation(condition: str) -> int:
    """The bits of a comparison by its name; nlt and the like hold also where one is not a number."""
    known = _CONDITIONS.get(condition)
    return 15 & ~_CONDITIONS[condition[1:]] if known is None else known


class UnknownInstruction(Exception):
    """The tables have no such instruction, or not with these modifiers."""


Lower = Callable[["Wave", re.Match[str]], bool | None]


def by_patterns(*patterns: tuple[str, Lower]) -> Callable[[Wave], bool]:
    """A function that lowers the instructions whose opcode matches; it returns False if the instruction is another one."""
    compiled = [(re.compile(pattern), lower) for pattern, lower in patterns]

    @lru_cache(maxsize=1 << 12)
    def found(opcode: str) -> tuple[Lower, re.Match[str]] | None:
        matches = ((lower, pattern.match(opcode)) for pattern, lower in compiled)
        return next(((lower, match) for lower, match in matches if match), None)

    def lower_one(wave: Wave) -> bool:
        known = found(wave.parsed.opcode)
        return known is not None and known[0](wave, known[1]) is not False

    return lower_one


@lru_cache(maxsize=1 << 12)
def _register(text: str) -> tuple[str, int] | None:
    """The file of a register, and its number or that of the first one."""
    match = _REGISTER.match(text)
    return (match[1], int(match[2] or match[3])) if match else None


@lru_cache(maxsize=1 << 12)
def _signs(text: str) -> tuple[bool, bool, bool, str]:
    """Whether an operand changes its sign, drops it, is extended with it; and the operand without that."""
    match = _SIGNED.match(text)
    assert match is not None
    return bool(match[1]), bool(match[2]), bool(match[3]), match[4]


class Source(NamedTuple):
    """An operand's row, and what happens to its sign: changed, dropped first."""

    row: int
    negate: bool = False
    absolute: bool = False


class Wave:
    """What lowering knows of a sub-group, and of the instruction that it lowers.

    exec, vcc, scc : masks as sources, 2 * number
    generation : 9 of gfx90a, 11 of gfx1100
    saturates : whether numbers that are too large for 8 bits become the largest one
    flush : modifiers of arithmetic in 32 bits: FLUSH where subnormal numbers are dropped
    guard : of the instruction's micro-operations;  all_of_buffer : the same before lanes beyond a buffer's end were left out
    number : of the instruction;  counter_read : of the latest s_getpc_b64;  successors : numbers of the blocks that may run after this one
    functions : label of a block -> number of its first instruction
    table_entries : scalar registers that hold the address of an entry of the global offset table
    names : rows that stand for operands of a name
    described : scalar registers that are the last of a buffer's description in memory, not of private memory's
    tests_whole_masks : whether a scalar instruction asks which lanes vcc has, those that are not active too
    last : kind of registers -> the largest number of one
    indexed : SRC0 or DST of vector instructions -> the scalar register whose value is added to the number of that register
    """

    def __init__(self, code: MachineCode) -> None:
        self.kernel, self.target = code.kernel, code.target
        self.generation = int(code.target[3:-2])
        self.lanes = 64 if self.generation < 10 else 32
        self.out = Assembler(lanes=self.lanes)
        self.exec = 2 * self.out.mask("exec", "exec")
        self.vcc, self.scc = 2 * self.out.mask("vcc"), 2 * self.out.mask("scc")
        last = {"v": 3, "s": 31, "a": 0, "ttmp": 15}
        count = 0
        self.functions: dict[str, int] = {}
        self.tests_whole_masks = False
        self.described: set[int] = set()
        for block in code.blocks:
            self.functions[block.label] = count
            count += len(block.instructions)
            for instruction in block.instructions:
                if (match := _DESCRIBES.match(instruction.text)) is not None:
                    lowest, highest = match[1] or match[2], match[1] or match[3]
                    self.described.update(range(int(lowest), int(highest) + 1))
                self.tests_whole_masks |= _TESTS.match(instruction.text) is not None
                for kind, one, end in _USED.findall(instruction.text):
                    last[kind] = max(last[kind], int(one or end))
        self.last = last
        self.files = {kind: self.out.rows(kind, count + 1) for kind, count in last.items()}
        self.spare = self.out.rows("temporaries", _TEMPORARIES)
        self.flush, self.saturates = 0, False
        self.number = self.counter_read = 0
        self.successors: tuple[int, ...] = ()
        self.table_entries: set[str] = set()
        self.indexed: dict[str, str] = {}

    def begin(self, parsed: Parsed) -> None:
        """An instruction begins, or the second one of a pair."""
        self.parsed = parsed
        self.unit: Unit = "scalar" if parsed.opcode.startswith("s_") else "vector"
        self.guard = self.all_of_buffer = o.ALWAYS if self.unit == "scalar" else self.exec
        self.first_source = 1
        self.used = 0
        self.masks_used = 0
        self.pending: list[Callable[[], None]] = []
        self.names: dict[str, int] = {}
        self.forget()

    def forget(self) -> None:
        """Operands are read anew."""
        self._sources: dict[tuple[int, Kind], Source] = {}

    def end(self) -> None:
        """Writes results that were computed elsewhere to where they belong."""
        for write in self.pending:
            write()

    def emit(self, name: str, *, guard: int | None = None, **fields: Any) -> None:
        """A micro-operation of the instruction's guard, or another one. fields : rows, masks and numbers"""
        self.out.emit(name, guard=self.guard if guard is None else guard, **fields)

    def emit_always(self, name: str, **fields: Any) -> None:
        """A micro-operation of all lanes, whatever exec says."""
        self.out.emit(name, **fields)

    def unknown(self, why: str = "") -> UnknownInstruction:
        return UnknownInstruction(why)

    # --- rows -------------------------------------------------------------------------------------
    def temporary(self, count: int = 1) -> int:
        self.used += count
        if self.used > _TEMPORARIES:
            raise KernelError(f"an instruction needs more than {_TEMPORARIES} temporary registers")
        return self.spare + self.used - count

    def constant(self, value: int, words: int = 1) -> int:
        return self.out.constant(*(value >> 32 * k for k in range(words)))

    def operand(self, index: int) -> str:
        try:
            return self.parsed.operands[index]
        except IndexError:
            if self.parsed.opcode == "v_cndmask_b32":  # a pair leaves out the name of the mask
                return "vcc"
            raise self.unknown("an operand is missing") from None

    def read(self, text: str, kind: Kind = "b32") -> int:
        """The first row of an operand without modifiers."""
        if text in self.names:
            return self.names[text]
        if register := _register(text):
            return self.files[register[0]] + register[1]
        words = 2 if kind.endswith("64") else 1
        value = number(text, kind)
        if value is not None:
            return self.constant(value, words)
        if text in _APERTURES:
            return self.constant(_APERTURES[text], 2)
        if match := _MASK.match(text):
            row = self._mask_row(match[1], match[2])
            if row is not None:
                return row
            pair = self.temporary(2)
            self.emit(
                "MASK_TO_ROWS", guard=o.ALWAYS, d=pair, m=self._named(match[1]), x=self._one_row
            )
            if self.lanes == 32 and not match[2]:
                self.emit("MOVE", guard=o.ALWAYS, d=pair + 1, a=self.out.rows(f"{match[1]}_hi", 1))
            return pair + (match[2] == "_hi")
        if text in ("m0", "flat_scratch_lo", "flat_scratch_hi", "flat_scratch", "xnack_mask"):
            return self.out.rows(text.removesuffix("_lo").removesuffix("_hi"), 2) + text.endswith(
                "_hi"
            )
        if text in ("null", "off"):
            return o.ZERO_ROW
        if text in ("scc", "src_scc"):
            row = self.temporary()
            self.emit("SELECT", guard=o.ALWAYS, d=row, a=self.constant(1), m=self.scc)
            return row
        raise self.unknown(f"operand {text}")

    def result(self, text: str, words: int = 1) -> int:
        """The first row of a result. Where that is a mask it is written when the instruction ends."""
        match = _MASK.match(text)
        if text == "null":
            return o.TRASH_ROW
        if not match or self._mask_row(match[1], match[2]) is not None:
            return self.read(text, "b64" if words == 2 else "b32")
        pair, target = self.temporary(2), self._named(match[1])
        if self.lanes == 64 and match[2]:
            self.emit("MASK_TO_ROWS", guard=o.ALWAYS, d=pair, m=target)
        self.pending.append(
            lambda: self.emit("ROWS_TO_MASK", guard=o.ALWAYS, d=target >> 1, a=pair)
        )
        if self.lanes == 32 and not match[2]:
            high = self.out.rows(f"{match[1]}_hi", 1)
            self.pending.append(lambda: self.emit("MOVE", guard=o.ALWAYS, d=high, a=pair + 1))
        return pair + (match[2] == "_hi")

    @property
    def _one_row(self) -> int:
        return 2 if self.lanes == 32 else 0

    def _named(self, mask: str) -> int:
        return self.vcc if mask == "vcc" else self.exec

    def _mask_row(self, mask: str, half: str) -> int | None:
        """With 32 lanes the high halves of masks are ordinary registers."""
        return self.out.rows(f"{mask}_hi", 1) if self.lanes == 32 and half == "_hi" else None

    # --- masks ------------------------------------------------------------------------------------
    def is_mask(self, text: str) -> bool:
        """Whether a name is that of a whole mask."""
        return text in (("vcc", "exec") if self.lanes == 64 else ("vcc_lo", "exec_lo"))

    def new_mask(self) -> int:
        """The number of a mask that holds a value within one instruction."""
        self.masks_used += 1
        return self.out.temporary_mask(self.masks_used)

    def read_mask(self, text: str) -> int:
        """An operand as a source mask."""
        if self.is_mask(text):
            return self._named(text[:4].rstrip("_"))
        if text in ("0", "-1"):
            return o.ALWAYS if text == "-1" else o.NEVER
        mask = self.new_mask()
        self.emit("ROWS_TO_MASK", guard=o.ALWAYS, d=mask, a=self.read(text, "b64"))
        return 2 * mask

    def result_mask(self, text: str, of_active: bool = False) -> int:
        """The number of the mask that a result goes to. Scalar registers get it when the instruction ends.

        of_active : whether they get the bits of active lanes alone
        """
        if self.is_mask(text):
            return self._named(text[:4].rstrip("_")) >> 1
        mask = self.new_mask()
        if text != "null":
            row, x = self.result(text, self.lanes // 32), self._one_row | of_active
            guard = self.guard if of_active else o.ALWAYS
            self.pending.insert(
                0, lambda: self.emit("MASK_TO_ROWS", guard=guard, d=row, m=2 * mask, x=x)
            )
        return mask

    # --- sources as vector encodings modify them --------------------------------------------------
    def source(self, index: int, kind: Kind = "b32") -> Source:
        """An operand with its sign, with the part that SDWA and the lane that DPP choose."""
        if (index, kind) not in self._sources:
            self._sources[index, kind] = self._modified(index, kind)
        return self._sources[index, kind]

    def _modified(self, index: int, kind: Kind) -> Source:
        text = self.operand(index)
        if self.unit == "scalar":
            return Source(self.read(text, kind))
        negate, absolute, extends, plain = _signs(text)
        is_number, place, parsed = (
            number(text, kind) is not None,
            index - self.first_source,
            self.parsed,
        )
        row = self.read(text if is_number else plain, kind)
        selected = (
            parsed.modifiers.get(f"src{place}_sel", "DWORD") if parsed.form == "sdwa" else "DWORD"
        )
        if selected != "DWORD":
            row = self.part(row, selected, extends)
        if "dpp" in parsed.form and place == 0:
            row = gcn_lanes.data_parallel(self, row, kind)
        if is_number:
            return Source(row)
        return Source(row, negate != bool(parsed.listed("neg", (0, 0, 0))[min(place, 2)]), absolute)

    def part(self, row: int, selected: str, signed: bool = False) -> int:
        """A byte or a half of a row, extended."""
        match = _PART.match(selected)
        if match is None:
            raise self.unknown(f"selector {selected}")
        bits = 8 if match[1] == "BYTE" else 16
        made = self.temporary()
        first, count = self.constant(bits * int(match[2])), self.constant(bits)
        self.emit("BIT_FIELD_S" if signed else "BIT_FIELD_U", d=made, a=row, b=first, c=count)
        return made

    def plain(self, source: Source, kind: Kind) -> int:
        """A row whose sign has been changed as the operand says."""
        if not source.negate and not source.absolute:
            return source.row
        words = 2 if kind == "f64" else 1
        made = self.temporary(words)
        if words == 2:
            self.emit("MOVE", d=made, a=source.row)
        sign = self.constant(0x8000 if kind == "f16" else 0x80000000)
        table = (OR if source.negate else AND_NOT) if source.absolute else XOR
        self.emit("LOGIC3", d=made + words - 1, a=source.row + words - 1, b=sign, y=table)
        return made

    def logic(self, d: int, a: int, b: int, table: int, c: int = o.ZERO_ROW) -> None:
        self.emit("LOGIC3", d=d, a=a, b=b, c=c, y=table)

    def mask_logic(self, d: int, m: int, n: int, table: int) -> None:
        """Combines whole masks."""
        self.emit("MASK_LOGIC3", guard=o.ALWAYS, d=d, m=m, n=n, x=table)

    def set_scc(self, row: int, words: int = 1) -> None:
        """The flag says whether a result is not 0."""
        name = "COMPARE64_U" if words == 2 else "COMPARE_U"
        self.emit(name, guard=o.ALWAYS, d=self.scc >> 1, a=row, x=o.LESS | o.GREATER)
