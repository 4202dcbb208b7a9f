"""What addresses, predicates and branches depend on; the rest of the code need not run to know what it accesses.

A micro-operation is needed if it decides where lanes go or what they access, or if a needed one behind it may read what it
writes: liveness of the variables that are really used (strong liveness: Nielson, Nielson and Hankin, Principles of Program
Analysis, section 2.1.4, there `faint variables`), lane by lane. Loads and stores stay, to be recorded; where nobody needs the value
they are marked SKIPPED. Values stored to local and private memory are needed if any load there is. Of global
memory this is not assumed, nor of what is copied from there to local memory, or of products of matrices, which are stored there
beside barriers and addresses that are needed: the interpreter notes which arrays, and which parts of local memory, needed loads read
and skipped stores write, and where one is both, the launch is run again with `local_values` or `global_values`, and then with `products`.

Where a mask says which lanes work, as AMD's exec, a variable may be needed by lanes that work at this place, by others, or by
both: what is written under the mask is new for the former alone, and the mask's changes turn some into others.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Iterable, Iterator

import numpy as np

from tracegen.execution import idle_lanes
from tracegen.execution import operations as o
from tracegen.execution.code import INSTRUCTION_BITS, Code
from tracegen.execution.flow import follow
from tracegen.execution.operations import ACCESSES, ALWAYS, BY_NUMBER, OPERATIONS, MicroOperation

ROOTS = frozenset(
    [
        "BLOCK",
        "BRANCH",
        "BRANCH_TABLE",
        "RETURN",
        "EXIT",
        "JOIN_SET",
        "JOIN_WAIT",
        "JOIN_LEAVE",
        "SYNC_LANES",
        "BARRIER",
        "WAIT_SLOTS",
        "WAIT_COUNT",
        "TRAP",
        "COPIES_END",
        "WAIT_COPIES",
        "REST",
    ]
)
"""Operations that are needed for what they do, not for what they write."""
_WAITS = frozenset(("WAIT_SLOTS", "WAIT_COUNT", "COPIES_END", "WAIT_COPIES"))
TENSOR_OPERATIONS = ("TENSOR_LOAD", "TENSOR_STORE", "TENSOR_MULTIPLY", "TENSOR_COPY")
_STAY = frozenset((*ACCESSES, "TENSOR_MULTIPLY"))
"""These are recorded or counted, though nobody needs what they compute."""
PRODUCTS = frozenset((*TENSOR_OPERATIONS, "MATRIX_MULTIPLY", "BLOCK_MULTIPLY"))
_LOADS = frozenset(("LOAD", "TENSOR_LOAD", "MATRIX_MULTIPLY"))
"""These take values from a memory."""
WHOLE = frozenset(("READ_LANE", "READ_FIRST_LANE", "MASK_TO_ROWS", "ROWS_TO_MASK", "VOTE_WHOLE"))
"""What these write, they write in all lanes, whatever the guard."""
PARTIAL = frozenset(("WRITE_LANE", "PERMUTE_LANES"))
"""These may keep what stands in the row; permuted lanes do not if those without a source become zero (bit 0 of x)."""
_X, _Y, _Z = (o.COLUMNS[name] for name in "xyz")


@dataclasses.dataclass(frozen=True)
class _Use:
    """Of one micro-operation: bits of the variables that it writes and reads, rows first and then masks.

    values : what an access reads besides its address;  kills : of what it writes, what keeps nothing of before
    space : of an access, else -1
    works_alone : whether it writes for lanes of exec alone
    everywhere : of what it reads, what it reads of lanes that do not work, too
    widens : of one that writes exec: whether no lane is taken away
    changed : masks that are no longer what they were, or the first rows of such;  made : the one that gets `lanes`, see idle_lanes
    """

    name: str
    writes: int
    kills: int
    reads: int
    values: int
    space: int
    successors: tuple[int, ...]
    works_alone: bool = False
    everywhere: int = 0
    writes_exec: bool = False
    widens: bool = False
    changed: int = 0
    made: int = 0
    lanes: int = idle_lanes.UNKNOWN


def sliced(
    code: Code,
    *,
    local_values: bool = False,
    global_values: bool = False,
    products: bool = False,
    accesses: bool = True,
    left_out: frozenset[int] = frozenset(),
) -> Code:
    """The code without what addresses, predicates and branches do not depend on.

    local_values : whether values stored to local memory are needed that derive from global memory alone, as a list of tiles
    global_values : whether values stored to global memory are needed, since loads may read them again
    products : whether also those that may derive from products of matrices are
    accesses : False leaves out accesses, too, and waits for them: what is left decides where lanes go. Stores and atomic
        operations stay where a needed load may read global memory, so that the interpreter notes what both access
    left_out : stores, by their place in the code, whose values are not wanted
    """
    uses = uses_of(code)
    spaces = {o.GLOBAL} if global_values else set()
    roots, stay = (ROOTS, _STAY) if accesses else (ROOTS - _WAITS, frozenset())
    if accesses and not products and (data := _stored_data(uses, local_values)):
        needed, kept = _all_needed(uses, spaces, roots, stay, left_out | data)
        if not any(one and use.name in PRODUCTS for one, use in zip(needed, uses, strict=True)):
            return _without(code, uses, needed, kept)
    return _without(code, uses, *_all_needed(uses, spaces, roots, stay, left_out))


def _all_needed(
    uses: list[_Use], spaces: set[int], roots: frozenset[str], stay: frozenset[str], left_out: frozenset[int],
) -> tuple[list[bool], frozenset[str]]:  # fmt: skip
    """Which micro-operations are needed, where a load that is needed makes stores to its space so, and which accesses stay.

    spaces : whose values are needed anyway;  left_out : stores that no load makes needed
    """
    spaces = set(spaces)
    while True:
        needed, loaded = _needed(uses, spaces, roots, stay, left_out)
        more = {space for space in loaded if space != o.GLOBAL}
        if o.GENERIC in more:
            more |= {o.LOCAL, o.PRIVATE}
        noted = stay | ({"STORE", "ATOMIC"} if loaded & {o.GLOBAL, o.GENERIC} else set())
        if more <= spaces and noted == stay:
            return needed, stay
        spaces |= more
        stay = noted


def _stored_data(uses: list[_Use], products_alone: bool) -> frozenset[int]:
    """Stores to local memory whose values may derive from global memory, and to both of what may derive from products of matrices;
    or the latter alone."""
    found = set()
    spaces = {0: (), 1: () if products_alone else (o.LOCAL,), 2: (o.LOCAL, o.GLOBAL)}

    def step(k: int, here: dict[int, int]) -> dict[int, int]:
        use = uses[k]
        stored = max((here.get(one, 0) for one in _bits(use.values)), default=0)
        if use.name == "STORE" and use.space in spaces[stored]:
            found.add(k)
        derives = max((here.get(one, 0) for one in _bits(use.reads)), default=0)
        if use.name in PRODUCTS:
            derives = 2
        elif use.name == "LOAD" and use.space == o.GLOBAL:
            derives = max(derives, 1)
        for variable in _bits(use.writes):
            if derives:
                here[variable] = max(
                    derives, 0 if use.kills >> variable & 1 else here.get(variable, 0)
                )
            elif use.kills >> variable & 1:
                here.pop(variable, None)
        return here

    def joined(one: dict[int, int], other: dict[int, int], _: int) -> dict[int, int]:
        return {key: max(one.get(key, 0), other.get(key, 0)) for key in {*one, *other}}

    follow([use.successors for use in uses], {}, step, joined)
    return frozenset(found)


def uses_of(code: Code) -> list[_Use]:
    """What each micro-operation reads and writes; it is kept with the code, for four analyses ask for it."""
    kept: dict[str, list[_Use]] = code.__dict__
    if "_uses" not in kept:
        kept["_uses"] = list(_uses(code))
    return kept["_uses"]


def _uses(code: Code) -> Iterator[_Use]:
    block = OPERATIONS["BLOCK"].number
    starts = {at: to for at, to in code.places.items() if code.table[to, 0] == block}
    # Calls end basic blocks, so lanes return to the beginning of one, whose address the caller has as a constant.
    named = set(code.constants.values())
    jumps = {
        "BRANCH_TABLE": tuple(sorted(set(starts.values()))),
        "RETURN": tuple(
            sorted({to for at, to in starts.items() if at in named} or set(starts.values()))
        ),
    }
    n = len(code.table)
    executing = 2 * next(iter(code.masks), -1)
    for k, numbers in enumerate(code.table.tolist()):
        row = MicroOperation(*numbers)
        operation = BY_NUMBER[row.op]
        name = operation.name

        def mask(number: int) -> int:
            return 1 << code.n_rows + number if number > o.TRASH_MASK else 0

        def rows(first: int, count: int) -> int:
            return ((1 << count) - 1) << first if first >= o.FIRST_ROW else 0

        written, read, values = widths(name, row)
        writes = united(rows(getattr(row, field), count) for field, count in written.items())
        writes |= united(mask(getattr(row, field)) for field in operation.masks_written)
        reads = united(rows(getattr(row, field), count) for field, count in read.items())
        reads |= mask(row.guard >> 1)
        reads |= united(mask(getattr(row, field) >> 1) for field in operation.masks_read)
        stored = united(rows(getattr(row, field), count) for field, count in values.items())
        masks_read = reads >> code.n_rows << code.n_rows
        works_alone = (
            executing >= 0
            and row.guard not in (ALWAYS, executing ^ 1)
            and name not in WHOLE
            and name != "WRITE_LANE"
        )
        everywhere = reads if executing >= 0 else 0
        if (works_alone or name == "READ_FIRST_LANE") or _is_within(name, row, executing):
            everywhere = masks_read
        keeps = row.guard not in (ALWAYS, executing) and name not in WHOLE
        keeps = (
            keeps
            or (name in PARTIAL and not (name == "PERMUTE_LANES" and row.x & 1))
            or (name == "LOAD" and row.x & (o.HIGH_HALF | o.KEEP_HALF) != 0)
        )
        if row.guard == executing and writes >> code.n_rows:
            keeps = True  # bits of masks, of which others read the whole
        following = (k + 1,) if k + 1 < n else ()
        if name == "BRANCH":
            always = row.guard == row.m == ALWAYS
            following = (row.y,) if always else (*following, row.y)
        elif name in jumps:
            following = (*following, *jumps[name])
        elif name in ("EXIT", "TRAP") and row.guard == ALWAYS:
            following = ()
        yield _Use(
            name, writes, 0 if keeps else writes, reads, stored, _space(name, row), following,
            works_alone, everywhere, executing >= 0 and bool(writes & mask(executing >> 1)),
            change(name, row, executing)[1],
            *(_masks_changed(name, row, code, writes, executing >> 1) if executing >= 0 else ()),
        )  # fmt: skip


def _masks_changed(
    name: str, row: MicroOperation, code: Code, writes: int, executing: int
) -> tuple[int, int, int]:
    """See _Use; exec is none of them."""
    exec_bit = 1 << code.n_rows + executing
    rows = writes & (1 << code.n_rows) - 1
    changed = writes & ~exec_bit | (rows >> 1 if code.lanes > 32 else 0)
    lanes = idle_lanes.lanes_of(name, row, code.n_rows, executing)
    if lanes == idle_lanes.UNKNOWN:
        return changed, 0, lanes
    made = 1 << row.d + (0 if rows else code.n_rows)
    return changed, made & ~exec_bit, lanes & ~exec_bit


def _space(name: str, row: MicroOperation) -> int:
    if name in TENSOR_OPERATIONS:
        return o.TENSOR
    if name == "MATRIX_MULTIPLY":
        return o.LOCAL
    return row.x & 7 if name in ACCESSES else -1


def _is_within(name: str, row: MicroOperation, executing: int) -> bool:
    """Whether it is a comparison in all lanes whose result counts in those of exec alone."""
    combined = row.x & (o.COMBINE_OR | o.COMBINE_XOR) == o.COMBINE_AND
    return name.startswith("COMPARE") and row.m == executing and combined


def change(name: str, row: MicroOperation, executing: int) -> tuple[bool, bool]:
    """Whether a new exec has no lanes that the old one has not, and whether it has all of those."""
    if name != "MASK_LOGIC3" or executing not in (row.m, row.n):
        return False, False
    old_at = 4 if row.m == executing else 2
    table = [row.x >> k & 1 for k in range(8)]
    return (
        not any(table[k] for k in range(8) if not k & old_at),
        all(table[k] for k in range(8) if k & old_at),
    )


def united(parts: Iterable[int]) -> int:
    """The bits that any of them has."""
    return functools.reduce(operator.or_, parts, 0)


def widths(name: str, row: MicroOperation) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """How many rows an operation writes, reads, and reads as values of an access, by field."""
    operation = BY_NUMBER[row.op]
    written, read = dict(operation.rows_written), dict(operation.rows_read)
    if name == "CONVERT":
        wide = (o.U64, o.S64, o.F64)
        return (
            {"d": 2 if row.x >> 4 & 15 in wide else 1},
            {"a": 2 if row.x & 15 in wide else 1},
            {},
        )
    if name == "MASK_TO_ROWS" and row.x & 2:
        written["d"] = 1
    if name in ("MATCH_ANY", "MATCH_ALL"):
        read = {"a": 2 if row.x & 1 else 1}
    if name == "LOAD_CONSTANT":
        written["d"] = _words(row)
    if name == "TENSOR_MULTIPLY":
        first, more = 1 if row.x & o.IN_TENSOR_MEMORY else 2, 3 if row.x >> o.SCALES & 7 else 1
        return {}, {"e": 1}, {"a": first, "b": 2, "c": 1, "d": more}
    if name == "TENSOR_COPY":
        return {}, {}, {"a": 1, "b": 2}
    if name == "MATRIX_MULTIPLY":
        n, factors = fragment_rows(row.x, row.y)
        return {"d": n}, {**factors, "c": n, "e": 2 if row.x >> o.SCALES & 7 else 0}, {}
    if name == "BLOCK_MULTIPLY":
        n, factors = block_rows(row.x, row.y)
        return {"d": n}, {**factors, "c": n}, {}
    if name in TENSOR_OPERATIONS:
        n = row.x >> o.TENSOR_COUNT & 0xFF
        return ({"d": n}, {"a": 1}, {}) if name == "TENSOR_LOAD" else ({}, {"a": 1}, {"c": n})
    if name not in ACCESSES:
        return written, read, {}
    if row.x & 7 == o.BULK:
        return (
            ({"d": 1} if name == "LOAD" else {}),
            {"a": 2, "b": row.y & 7 or 1, "c": 1, "e": 2 if name == "LOAD" else 1},
            {},
        )
    if row.x & 7 in (o.LOCAL, o.PRIVATE):
        read = {"a": 1, "b": 1}
    else:
        read = {"a": 1 if row.x & o.ADDRESS_32 else 2, "b": 2}
    if name == "LOAD":
        return {"d": _words(row)}, read, {}
    if name == "STORE":
        return {}, read, {"c": _words(row)}
    written = {} if row.x & o.NO_RESULT else {"d": _words(row)}
    operation_number, values = row.x >> o.ATOMIC_OPERATION & 15, {"c": _words(row)}
    if operation_number == o.ATOMIC_COMPARE:
        values["e"] = _words(row)
    elif operation_number in (o.ATOMIC_ARRIVE_HOPPER, o.ATOMIC_DROP_HOPPER):
        values["e"] = 1
    return written, read, values


def fragment_rows(x: int, y: int) -> tuple[int, dict[str, int]]:
    """How many rows of sums MATRIX_MULTIPLY has, and of both factors, or their descriptors."""
    n, m, depth = y & 511, y >> 9 & 31, y >> 14
    first, second = (o.FACTOR_BITS[o.FACTORS[x >> at & 15]] for at in (0, 4))
    of_first = m * depth * first // 1024 if x & o.FIRST_IN_ROWS else 2
    of_second = n * depth * second // 1024 if x & o.SECOND_IN_ROWS else 2
    bits = 16 if x & o.HALF_SUMS else max(first // 64 * 64, 32)
    return m * n * bits // 1024, {"a": of_first, "b": of_second}


def block_rows(x: int, y: int) -> tuple[int, dict[str, int]]:
    """How many rows of sums BLOCK_MULTIPLY has, and of both factors."""
    rows, blocks, depth, each = y & 63, y >> 6 & 31, y >> 11 & 255, y >> 19
    first, second = (o.FACTOR_BITS[o.FACTORS[x >> at & 15]] for at in (0, 4))
    lanes = max(rows * blocks * depth // each, 32)  # those of gfx11 have whole rows, twice
    factors = {"a": -(-each * first // 32), "b": -(-each * second // 32)}
    return rows * rows * blocks // lanes * (first // 64 + 1), factors


def _words(row: MicroOperation) -> int:
    return max((row.x >> o.BYTES & 63) // 4, 1)


def _needed(
    uses: list[_Use], needed_spaces: set[int], roots: frozenset[str], stay: frozenset[str], left_out: frozenset[int],
) -> tuple[list[bool], set[int]]:  # fmt: skip
    """Which micro-operations are needed, of accesses whether their value is; and the spaces that needed loads read.

    roots : that are needed anyway;  stay : accesses that are recorded though nobody needs their value
    left_out : stores whose values are not needed though their space is
    """
    entering: list[tuple[int, idle_lanes.Needs]] = [(0, {0: 0})] * (len(uses) + 1)
    predecessors: list[list[int]] = [[] for _ in uses]
    for k, use in enumerate(uses):
        for successor in use.successors:
            predecessors[successor].append(k)
    needed = [False] * len(uses)
    loaded: set[int] = set()
    waiting = list(range(len(uses)))
    queued = [True] * len(uses)
    while waiting:
        k = waiting.pop()
        queued[k] = False
        use = uses[k]
        working, idle = _behind(use, entering)
        others = idle[0]
        wanted = use.writes & (working if use.works_alone else working | others) != 0
        reads = use.reads
        if use.space >= 0:
            is_bulk = use.space == o.BULK
            to, source = (o.LOCAL, o.GLOBAL) if use.name == "LOAD" else (o.GLOBAL, o.LOCAL)
            stores = (use.name not in _LOADS or is_bulk) and (
                (to if is_bulk else use.space) in needed_spaces
                or (use.space == o.GENERIC and bool(needed_spaces))
            )
            stores = stores and k not in left_out
            needed[k] = needed[k] or wanted or stores
            if wanted or (stores and is_bulk):
                loaded.add(source if is_bulk else use.space)
            if stores and use.name in ("TENSOR_MULTIPLY", "TENSOR_COPY"):
                loaded |= {o.LOCAL, o.TENSOR}
            reads |= use.values if needed[k] else 0
            if not needed[k] and use.name not in stay:
                reads = 0
        elif wanted or use.name in roots:
            needed[k] = True
        else:
            reads = 0
        if reads or needed[k] or use.name in stay:
            working = working & ~use.kills | reads
            kills, everywhere = (0 if use.works_alone else use.kills), reads & use.everywhere
            if kills or everywhere:
                idle = {masks: bits & ~kills | everywhere for masks, bits in idle.items()}
        before = entering[k]
        idle = idle_lanes.simplest(idle_lanes.joined(idle, before[1]))
        entering[k] = (working | before[0], idle)
        if entering[k] != before:
            for one in predecessors[k]:
                if not queued[one]:
                    queued[one] = True
                    waiting.append(one)
    return needed, loaded


def _behind(
    use: _Use, entering: list[tuple[int, idle_lanes.Needs]]
) -> tuple[int, idle_lanes.Needs]:
    """What lanes that work, and those that do not, need behind a micro-operation, said of the lanes and masks before it."""
    working, idle = 0, {0: 0}
    for successor in use.successors:
        working, idle = (
            working | entering[successor][0],
            idle_lanes.joined(idle, entering[successor][1]),
        )
    if use.changed and len(idle) > 1:
        idle = idle_lanes.before_mask(idle, use.changed, use.made, use.lanes)
    if use.writes_exec:
        others = idle[0]
        idle = idle_lanes.before_exec(idle, working, use.lanes)
        working = working if use.widens else working | others
    return working, idle


def _without(code: Code, uses: list[_Use], needed: list[bool], stay: frozenset[str]) -> Code:
    """The code with the needed micro-operations and the accesses that stay."""
    kept = [k for k, use in enumerate(uses) if needed[k] or use.name in stay]
    place = np.searchsorted(np.array(kept), np.arange(len(uses) + 1)).tolist()
    table = code.table[kept].copy()
    for row, k in zip(table, kept, strict=True):
        if uses[k].name == "BRANCH":
            row[_Y] = place[row[_Y]]
        elif uses[k].space >= 0 and not needed[k]:
            row[_X] |= o.SKIPPED
    numbers = code.table[:, _Z] & (1 << INSTRUCTION_BITS) - 1
    skipped = set(numbers.tolist()) - set((table[:, _Z] & (1 << INSTRUCTION_BITS) - 1).tolist())
    return dataclasses.replace(
        code,
        table=table,
        places={address: place[at] for address, at in code.places.items()},
        skipped=frozenset(skipped),
    )


def address_loads(code: Code) -> list[frozenset[int]]:
    """Of each access of the code, the loads from whose values its address may derive; both by their number among the accesses.

    Which lanes work, as guards and AMD's exec say, is no part of an address, and lanes that work read what such lanes wrote.
    """
    uses = uses_of(code)
    executing = next(iter(code.masks), -1)
    guards = [int(guard) >> 1 for guard in code.table[:, 1]]
    lanes = [1 << code.n_rows + guard | 1 << code.n_rows + max(executing, 0) for guard in guards]
    number_of: dict[int, int] = {}
    for k, use in enumerate(uses):
        if use.name in ACCESSES:
            number_of[k] = len(number_of)
    found = [0] * len(number_of)

    def step(k: int, here: dict[int, int]) -> dict[int, int]:
        """Variable -> bits of loads."""
        use, read = uses[k], 0
        for variable in _bits(use.reads & ~lanes[k]):
            read |= here.get(variable, 0)
        if k in number_of:
            found[number_of[k]] |= read
            read = 1 << number_of[k] if use.name != "STORE" else 0
        half = use.name == "LOAD" and code.table[k, _X] & (o.HIGH_HALF | o.KEEP_HALF)
        merges = half or use.name in PARTIAL
        kills = use.writes if guards[k] == executing and not merges else use.kills
        for variable in _bits(use.writes):
            before = 0 if kills >> variable & 1 else here.get(variable, 0)
            here[variable] = before | read
        return here

    follow([use.successors for use in uses], {}, step, _joined)
    return [frozenset(_bits(bits)) for bits in found]


def _joined(one: dict[int, int], other: dict[int, int], _: int) -> dict[int, int]:
    return {key: one.get(key, 0) | other.get(key, 0) for key in one.keys() | other.keys()}


def _bits(value: int) -> Iterator[int]:
    while value:
        low = value & -value
        yield low.bit_length() - 1
        value ^= low
