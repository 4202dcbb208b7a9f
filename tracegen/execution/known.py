"""What is known of rows and masks at a place of the code, as groups differ: see tracegen.execution.affine."""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

from tracegen.execution.operations import ALWAYS, COMBINE_OR, COMBINE_XOR, NEVER, MicroOperation

Step = tuple[tuple[int, int], ...]
"""(axis, what is gained along it), axis by axis, none of them 0. An axis is a word of tracegen.execution.place_numbers."""
Path = tuple[Any, ...]
STILL: Step = ()


class Name(NamedTuple):
    """Which number a row is half of: the one that an operation wrote last, shifted left."""

    origin: Any
    shift: int = 0


class Value(NamedTuple):
    """A row. step : None where nothing is known;  number : if it is a constant of the launch, without a step
    word : if it is the same in all lanes, and the place of the group alone tells which number it is
    name : of a low half with a step; of a high half that of its low half
    guard : of the lanes for which this is known: a mask, as long as it stays, or the path of Lanes
    lanes : of a scalar that holds Lanes, the path of these
    among : steps, of the least or greatest of numbers that have these: it gains no less than the least and no more than the greatest
    still : in other lanes it is the same in all groups, too, but no number is known
    is_sign : of a high half: it is all sign, so that of the low half shifted left by one bit, too"""

    step: Step | None
    number: int | None = None
    name: Name | None = None
    is_high: bool = False
    guard: Any = ALWAYS
    lanes: Path | None = None
    among: tuple[Step, ...] = ()
    still: bool = False
    word: int | None = None
    is_sign: bool = False


class Carry(NamedTuple):
    """A mask: the carry of a sum. terms : (field, row) of what has a step;  low : name of the sum, and where it was computed
    guard : of the lanes for which this is known, as of Value
    is_half : a sum of three has two carries, of which this is one"""

    terms: tuple[tuple[str, Value], ...]
    low: Name
    guard: Any = ALWAYS
    is_half: bool = False


class Fixed(NamedTuple):
    """A mask that is the same in all lanes and all groups."""

    is_set: bool


class Decided(NamedTuple):
    """A mask that is the same in all lanes, and the place of the group alone tells which."""

    word: int


class Lanes(NamedTuple):
    """A mask that is the same in all groups, and subset of others: AMD's code chooses by `exec` which lanes work, keeps copies, and
    goes back to them.

    path : names of where the lanes that begin have become fewer. A mask is a part of each whose path is the beginning of its own.
        A name stands for the mask that was made there last
    """

    path: Path


SAME, ANY = Value(STILL), Value(None)
Known = dict[int, Any]
"""Rows, and masks as ~mask, that are not the same in all groups, and rows that are constant. A mask of which nothing is known: ANY."""


def folded(step: Step, bits: int) -> Step:
    half = 1 << bits - 1
    both = ((axis, (one + half) % (2 * half) - half) for axis, one in step)
    return tuple((axis, one) for axis, one in both if one)


def sum_of(*steps: Step, bits: int) -> Step:
    total: dict[int, int] = {}
    for axis, one in itertools.chain(*steps):
        total[axis] = total.get(axis, 0) + one
    return folded(tuple(sorted(total.items())), bits)


def times(step: Step, factor: int, bits: int) -> Step:
    return folded(tuple((axis, one * factor) for axis, one in step), bits)


def high_of(low: Name | None, high: Value) -> Step | None:
    """The step of a number of 64 bits, of which one row is the high half; None if it is not that of this low half."""
    if low is None or not high.is_high or high.name is None or high.step is None:
        return None
    if high.name == low:
        return high.step
    if high.is_sign and Name(high.name.origin, high.name.shift + 1) == low:
        return times(high.step, 2, 64)
    return None


def constant(number: int, n: int) -> list[Value]:
    """A number of n rows."""
    return [Value(STILL, number >> 32 * k & 0xFFFFFFFF) for k in range(n)]


def reading(name: str, row: MicroOperation) -> int:
    """The guard of the lanes whose operands matter: of a comparison that is combined with a mask, as AMD's are with exec, those of it."""
    combined = name.startswith("COMPARE") and not row.x & (COMBINE_OR | COMBINE_XOR)
    return row.m if combined and row.guard == ALWAYS else row.guard


def unsure(state: Known, number: int) -> bool:
    """Whether a source mask may differ between groups."""
    return isinstance(state.get(~(number >> 1), SAME), Carry) or state.get(~(number >> 1)) == ANY


def guard_of(state: Known, number: int) -> Any:
    """Of which lanes is known what is written under a guard: ALWAYS, a path, or the guard."""
    held = state.get(~(number >> 1))
    if not isinstance(held, Lanes) or number & 1:
        return number
    return held.path or ALWAYS


def holds(known: Any, state: Known, number: int) -> bool:
    """Whether what is known of some lanes is known of those of a guard."""
    guard = guard_of(state, number)
    if isinstance(known, tuple) and isinstance(guard, tuple):
        return guard[: len(known)] == known
    return bool(known == guard)


def _narrower(one: Any, other: Any) -> Any:
    """The guard of lanes for which both hold; None if that is no path."""
    paths = [() if guard == ALWAYS else guard for guard in (one, other)]
    if one == other:
        return one
    if not all(isinstance(path, tuple) for path in paths):
        return None
    short, long = sorted(paths, key=len)
    return long if long[: len(short)] == short else None


def _common(one: Path, other: Path) -> Path:
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    return one[:same]


def _below(path: Path, name: Any) -> Path:
    """The path of a part of a mask that is made at a place. What was made there before has the same name, and is forgotten."""
    return (*(path[: path.index(name)] if name in path else path), name)


def narrowed(at: int, name: str, row: MicroOperation, state: Known, n_rows: int) -> Known:
    """The masks that an operation writes of which it is known whose parts they are. n_rows : that hold a mask"""
    if name == "VOTE_WHOLE":
        held = state.get(~(row.m >> 1))
        if isinstance(held, Fixed):
            return {~row.d: Fixed(held.is_set != bool(row.m & 1))}
        is_all = held == Lanes(()) and not row.m & 1  # what begins has lanes
        return {~row.d: Fixed(True)} if is_all else {}
    if name == "ROWS_TO_MASK":
        held = [state.get(row.a + k, SAME).number for k in range(n_rows)]
        if all(one in (0, 0xFFFFFFFF) and one == held[0] for one in held):
            return {~row.d: Fixed(held[0] != 0)}
        first, *others = (state.get(row.a + k, SAME).lanes for k in range(n_rows))
        is_whole = first is not None and all(one == first for one in others)
        return {~row.d: Lanes(first)} if is_whole else {}
    if name != "MASK_LOGIC3":
        return {}
    numbers = []
    for bit, number in zip((4, 2, 1), (row.m, row.n, row.y), strict=True):
        held = state.get(~(number >> 1))
        if isinstance(held, Fixed):
            number = NEVER if held.is_set == bool(number & 1) else ALWAYS
        numbers.append((bit, number))
    sources = [
        (bit, state.get(~(number >> 1))) for bit, number in numbers if number not in (ALWAYS, NEVER)
    ]
    fixed = sum(bit for bit, number in numbers if number == ALWAYS)
    negated = sum(bit for bit, number in numbers if number & 1 and number != NEVER)
    cases = {}  # which sources have a bit -> whether the result has it
    for chosen in range(1 << len(sources)):
        bits = [bit for k, (bit, _) in enumerate(sources) if chosen >> k & 1]
        cases[frozenset(bits)] = row.x >> ((sum(bits) ^ negated) | fixed) & 1
    if len(set(cases.values())) == 1:
        return {~row.d: Fixed(cases.popitem()[1] == 1)}
    paths = {bit: held.path for bit, held in sources if isinstance(held, Lanes)}
    within = {
        bit: path
        for bit, path in paths.items()
        if not any(result for has, result in cases.items() if bit not in has)
    }
    for bit, path in within.items():
        if all(result for has, result in cases.items() if bit in has):
            return {~row.d: Lanes(path)}
    if within:
        return {~row.d: Lanes(_below(max(within.values(), key=len), ("at", at)))}
    if not paths or any(result for has, result in cases.items() if not has & set(paths)):
        return {}
    union = functools.reduce(_common, paths.values())
    for bit, path in paths.items():  # one of them contains the others, and the result all of it
        if path == union and all(result for has, result in cases.items() if bit in has):
            return {~row.d: Lanes(path)}
    return {~row.d: Lanes(_below(union, ("at", at)))}


def is_still(known: Any) -> bool:
    """Whether a row is the same in all groups, in all lanes."""
    return bool(
        known.still or (known.guard == ALWAYS and known.step == STILL and not known.is_high)
    )


def lose(state: Known, key: int) -> None:
    """What was known of some lanes is known no more."""
    if key >= 0 and state[key].still:
        del state[key]
    else:
        state[key] = ANY


def forget_lanes(state: Known, name: Any) -> None:
    """A mask is made again where it was made before: what was known of the lanes of that is not of those of this one."""
    for key, known in list(state.items()):
        if isinstance(known, Lanes):
            if name in known.path:
                del state[key]
        elif isinstance(known, Fixed | Decided):
            continue
        elif isinstance(known.guard, tuple) and name in known.guard:
            lose(state, key)
        elif key >= 0 and known.lanes and name in known.lanes:
            del state[key]


def forget(state: Known, origin: Any) -> None:
    """A number is computed again: what was known of the one before is not of this one."""
    for key, known in state.items():
        if isinstance(known, Carry):
            if any(
                _is_of(name, origin) for name in (known.low, *(one.name for _, one in known.terms))
            ):
                state[key] = ANY
        elif key >= 0 and _is_of(known.name, origin):
            state[key] = ANY if known.is_high else known._replace(name=None)


def _is_of(name: Name | None, origin: Any) -> bool:
    """Whether a name is that of a number that was computed at a place, or of a product of it."""
    if name is None:
        return False
    place, what = name.origin
    return name.origin == origin or (place == "product" and _is_of(what[0], origin))


def joined(one: Known, other: Known, place: Any) -> Known:
    """What is known where two ways meet. place : its name

    Rows with the same names on either way are parts of the same number behind it, too.
    """
    if one == other:
        return one
    made: Known = {}
    names: dict[Any, Name] = {}
    for key in sorted({*one, *other}):
        first, second = one.get(key, SAME), other.get(key, SAME)
        if key < 0:
            made |= _joined_masks(key, first, second, place)
            continue
        guard = _narrower(first.guard, second.guard)
        if (
            first.step is None
            or second.step is None
            or first.step != second.step
            or (first.is_high, first.is_sign) != (second.is_high, second.is_sign)
            or guard is None
        ):
            made[key] = ANY
        elif first.step == STILL and not first.is_high:
            still = is_still(first) and is_still(second)
            one_, other_ = (each._replace(guard=guard, still=False) for each in (first, second))
            if one_ == other_:
                made[key] = one_._replace(still=still and guard != ALWAYS)
            elif not still:
                made[key] = SAME._replace(guard=guard)
        elif first.name is None or second.name is None:
            made[key] = ANY if first.is_high else Value(first.step, guard=guard)
        else:
            both = first.name, second.name
            if both not in names:
                at, row = first.name.origin
                source = one.get(row, SAME)
                stays = at != place or (
                    source == other.get(row)
                    and source.name
                    and source.name.origin == first.name.origin
                )
                kept = both[0] == both[1] and stays
                names[both] = first.name if kept else Name((place, key))
            made[key] = Value(
                first.step, None, names[both], first.is_high, guard, is_sign=first.is_sign
            )
        now = made.get(key)
        if isinstance(now, Value) and now.step not in (None, STILL):
            made[key] = now._replace(word=first.word if first.word == second.word else None)
    for key in [key for key, known in made.items() if isinstance(known, Lanes)]:
        _rename_lanes(made, key, one.get(key), other.get(key), place)
    return made


def _joined_masks(key: int, first: Any, second: Any, place: Any) -> Known:
    if first == second:
        return {key: first}
    if all(isinstance(one, Lanes) for one in (first, second)):
        return {key: Lanes(_below(_common(first.path, second.path), ("join", place, key)))}
    same = all(one == SAME or isinstance(one, Lanes | Fixed) for one in (first, second))
    return {} if same else {key: ANY}


def _rename_lanes(made: Known, key: int, first: Any, second: Any, place: Any) -> None:
    """Where a mask has come on two ways, it is another one. If one way is that of a loop, on which it has become a part of what it
    was here, what was known of those lanes is known of these."""
    path = made[key].path
    if first == second or not path or path[-1] != ("join", place, key):
        return
    narrows = first.path == path and second.path[: len(path)] == path
    for other, known in list(made.items()):
        if isinstance(known, Lanes):
            if other != key and path[-1] in known.path:
                del made[other]
        elif isinstance(known, Fixed | Decided):
            continue
        elif isinstance(known.guard, tuple) and path[-1] in known.guard:
            if not narrows or known.guard[-1] != path[-1]:
                lose(made, other)
        elif other >= 0 and known.lanes and path[-1] in known.lanes:
            del made[other]
