"""The OpenCL C that is added to a probed OpenCL C program."""

from __future__ import annotations

from collections.abc import Sequence

from tracegen.probes import tokens

MOST_TURNS = 1 << 30
"""Turns of the loops of one work-item; one that takes more is taken not to end."""
ENDLESS = -1
"""Reported in place of a position where a work-item takes more turns."""
BEYOND = -2
"""The same, of an index beyond an array in local, private or constant memory."""
ASTRAY = -3
"""The same, of a pointer to local, private or constant memory that lies in no array that it may point into."""

# A probe is given an address and returns one that may be accessed: the same address, or that of a
# scratch buffer where it lies in none of the arrays that the access may reach. From then on the loops
# of that work-item end soon: what is read from the scratch buffer must not keep a loop going for ever.
# So do all loops once a work-item has taken MOST_TURNS turns.
_STATE = f"""\
{tokens.MACROS}typedef struct {{
{tokens.STATE_FIELDS}  __global uint *counts; __global char *scratch;
  ulong item; uint faulted; uint turns; uint group[3]; uint grid[3];
  ulong near[TG_NEARS + 1]; __local char *spare_local; char *spare_private;
  __global char *base[TG_ARRAYS]; long bytes[TG_ARRAYS]; long start[TG_ARRAYS];
}} _tg_state;
{tokens.FUNCTIONS}static inline int _tg_go(_tg_state *tg)
{{
#ifdef TG_TRUSTED
  return 1;
#else
  if (tg->faulted)
    return ++tg->faulted < 100000;
  if ((++tg->turns & 0xffff) == 0)
  {{
    if (tg->turns >= {MOST_TURNS}u)
      _tg_report(tg, {ENDLESS}, 0, 0, 0);
    tg->faulted = *(volatile __global int *) tg->fault != 0;
  }}
  return 1;
#endif
}}
static inline int _tg_turn(_tg_state *tg, TG_TOKEN token)
{{
  _tg_event(tg, token);
  return _tg_go(tg);
}}
static inline void _tg_finish(_tg_state *tg)
{{
  tg->counts[tg->item] = _tg_counted(tg);
}}
static inline void _tg_wrong(_tg_state *tg, long position, uint array, long offset, long misaligned)
{{
  // Set once: it counts the iterations of loops from the first fault on.
  tg->faulted = max(tg->faulted, 1u);
  _tg_report(tg, position, offset, array, misaligned);
}}
"""
_INDEX = f"""\
static inline long _tg_index(_tg_state *tg, long index, ulong extent, uint subscript)
{{
#ifndef TG_TRUSTED
  if ((ulong) index >= extent)
  {{
    _tg_wrong(tg, {BEYOND}, subscript, index, 0);
    index = 0;
  }}
#endif
  return index;
}}
"""
_PROBE = """\
static inline __global char *_tg_probe(
  _tg_state *tg, TG_TOKEN at, const volatile __global void *pointer, uint set, uint size, uint count)
{
  __global char *address = (__global char *) pointer;
  uint array = _tg_first[set];
  long offset = address - tg->base[array];
  if (_tg_several[set])
  {
    for (uint other = 0; other < TG_ARRAYS; ++other)
    {
      long there = address - tg->base[other];
      if ((_tg_several[set] >> other & 1) && there >= 0 && there <= tg->bytes[other] - (long) size)
      {
        array = other;
        offset = there;
        break;
      }
    }
  }
#ifndef TG_TRUSTED
  long misaligned = offset & (_tg_unit[array] - 1);
  if (offset < 0 || offset > tg->bytes[array] - (long) size || misaligned)
  {
    _tg_wrong(tg, TG_POSITION(at), array, offset, misaligned);
    address = tg->scratch;
    offset = 0;
  }
#endif
  TG_TOKEN index = (TG_TOKEN) (_tg_several[set] ? offset + tg->start[array]
    : offset / _tg_unit[array]);
  for (uint k = 0; k < count; ++k)
    _tg_event(tg, (at + TG_AT(k)) | index);
  return address;
}
static inline const volatile __global void *_tg_moved(
  long by, const volatile __global void *pointer, long stride)
{
  return (const volatile __global char *) pointer + by * stride;
}
static inline size_t _tg_get_group_id(_tg_state *tg, uint axis)
{
  return axis < 3 ? tg->group[axis] : 0;
}
static inline size_t _tg_get_num_groups(_tg_state *tg, uint axis)
{
  return axis < 3 ? tg->grid[axis] : 1;
}
static inline size_t _tg_get_global_size(_tg_state *tg, uint axis)
{
  return axis < 3 ? tg->grid[axis] * get_local_size(axis) : 1;
}
static inline size_t _tg_get_global_id(_tg_state *tg, uint axis)
{
  return axis < 3 ? tg->group[axis] * get_local_size(axis) + get_local_id(axis) : 0;
}
static inline size_t _tg_get_global_offset(_tg_state *tg, uint axis)
{
  return 0;
}
"""
_ARGUMENTS = (
    f"{tokens.ARGUMENTS}, __global char *_tg_scratch, const uint _tg_grid0, const uint _tg_grid1,"
    " const uint _tg_grid2"
)
_PROLOGUE = f"""
  const uint _tg_b = 0;
  _tg_state _tg_own;
  _tg_state *const _tg = &_tg_own;{tokens.GROUP}\
  _tg->group[0] = _tg_group % _tg_grid0;
  _tg->group[1] = _tg_group / _tg_grid0 % _tg_grid1;
  _tg->group[2] = _tg_group / _tg_grid0 / _tg_grid1;
  _tg->grid[0] = _tg_grid0;
  _tg->grid[1] = _tg_grid1;
  _tg->grid[2] = _tg_grid2;
  _tg->item = {tokens.ITEM};
  _tg->counts = _tg_counts;
  _tg->fault = _tg_fault;
  _tg->scratch = _tg_scratch;
  _tg->faulted = _tg->turns = 0;
  _tg_begin(_tg, _tg_tokens, _tg_offsets, _tg->item);
"""
HELPER_ARGUMENTS = "_tg_state *_tg, const uint _tg_b"


def head(
    units: Sequence[int],
    sets: Sequence[tuple[int, ...]],
    which: dict[tuple[int, int], list[int]],
    chosen: Sequence[int],
    n_near: int,
    near: str,
) -> str:
    """What stands before a probed program.

    units : bytes of what an index of each array counts
    sets : the arrays that an access may reach, each set once; chosen : by position, its set
    which : (function, offset of a probe in it) -> positions that it has in the function's calls
    n_near, near : number of arrays outside global memory, and the functions that check them
    """
    masks = [sum(1 << array for array in arrays) if len(arrays) > 1 else 0 for arrays in sets]
    lines = [
        f"#define TG_ARRAYS {max(len(units), 1)}",
        f"#define TG_NEARS {n_near}",
        table("uint", "_tg_unit", units),
        table("uint", "_tg_first", [arrays[0] if arrays else 0 for arrays in sets]),
        table("ulong", "_tg_several", masks),
        table("ushort", "_tg_sets", chosen),
    ]
    for (function, offset), positions in which.items():
        known = {chosen[position] for position in positions}
        # A function may be called with several arrays: then the position of the call decides.
        value = str(known.pop()) if len(known) == 1 else f"_tg_sets[_tg_b + {offset}]"
        lines.append(f"#define TG_ARRAY_{function}_{offset} {value}")
    return "\n".join([*lines, _STATE, _INDEX, near, _PROBE])


def arguments(n_array: int) -> str:
    """The parameters that a probed kernel has besides its own."""
    numbers = range(n_array)
    return ", ".join(
        [
            _ARGUMENTS,
            *(f"const long _tg_n{k}" for k in numbers),
            *(f"const long _tg_m{k}" for k in numbers),
        ]
    )


def prologue(names: Sequence[str]) -> str:
    """What a probed kernel begins with. names : the parameters that point to each array."""
    lines = [
        f"  _tg->base[{k}] = (__global char *) {name};"
        f" _tg->bytes[{k}] = _tg_n{k}; _tg->start[{k}] = _tg_m{k};"
        for k, name in enumerate(names)
    ]
    return "\n".join([_PROLOGUE, *lines, ""])


def table(kind: str, name: str, values: Sequence[int]) -> str:
    """A table in constant memory."""
    listed = ", ".join(str(value) for value in values) or "0"
    return f"__constant {kind} {name}[] = {{ {listed} }};"
