"""Tokens: what a probe writes, and the OpenCL C that writes it.

A token is `position << position_shift | index`: the position of the probe in its kernel and the
index of the element that is accessed. The counting build of a probed kernel counts the tokens of
each work-item; the recording build writes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# Both builds keep an index in range and report the first one that was not. The recording build writes the
# tokens of a work-item from number `skip` on, `room` of them, and counts all: where two runs of one kernel
# differ, or where not all tokens fit into memory, it is run again. TG_TRUSTED leaves all checks out of
# the second run of a kernel that reads nothing that it writes, and so cannot differ from the first.
MACROS = """\
#ifdef TG_RECORD
#define TG_AT(POSITION) ((TG_TOKEN) (POSITION) << TG_SHIFT)
#define TG_POSITION(AT) ((long) ((AT) >> TG_SHIFT))
#else
#define TG_TOKEN uint
#define TG_AT(POSITION) (POSITION)
#define TG_POSITION(AT) ((long) (AT))
#endif
"""
STATE_FIELDS = """\
#ifdef TG_RECORD
  __global TG_TOKEN *first;
#endif
#ifdef TG_TRUSTED
  __global TG_TOKEN *next;
#else
  uint count; uint skip; uint room;
#endif
  __global long *fault;
"""
FUNCTIONS = """\
static inline void _tg_event(_tg_state *tg, TG_TOKEN token)
{
#ifdef TG_TRUSTED
  *tg->next++ = token;
#else
#ifdef TG_RECORD
  const uint at = tg->count - tg->skip;
  if (at < tg->room)
    tg->first[at] = token;
#endif
  ++tg->count;
#endif
}
static inline void _tg_begin(
  _tg_state *tg, __global TG_TOKEN *tokens, __global const ulong *offsets, ulong item)
{
#ifdef TG_RECORD
  tg->first = tokens + offsets[2 * item];
#endif
#ifdef TG_TRUSTED
  tg->next = tg->first;
#else
  tg->count = 0;
#ifdef TG_RECORD
  tg->skip = (uint) offsets[2 * item + 1];
  tg->room = (uint) (offsets[2 * item + 2] - offsets[2 * item]);
#endif
#endif
}
static inline uint _tg_counted(const _tg_state *tg)
{
#ifdef TG_TRUSTED
  return (uint) (tg->next - tg->first);
#else
  return tg->count;
#endif
}
static inline void _tg_report(_tg_state *tg, long position, long first, long second, long third)
{
  // Of all reports that of the first work-item stays, so that the error is the same in every run. `waits` is
  // volatile to keep the unlocking inside the loop: lanes in lockstep would wait for one another otherwise.
  const long group = (long) get_group_id(0);
  const long item = (long) ((get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0));
  volatile __global long *fault = tg->fault;
  volatile __global int *lock = (volatile __global int *) (fault + 7);
  for (volatile int waits = 1; waits;)
  {
    if (fault[0] && (fault[5] < group || (fault[5] == group && fault[6] <= item)))
      return;
    if (atomic_cmpxchg(lock, 0, 1))
      continue;
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    if (!fault[0] || group < fault[5] || (group == fault[5] && item < fault[6]))
    {
      fault[1] = position;
      fault[2] = first;
      fault[3] = second;
      fault[4] = third;
      fault[6] = item;
      mem_fence(CLK_GLOBAL_MEM_FENCE);
      fault[5] = group;
      mem_fence(CLK_GLOBAL_MEM_FENCE);
      fault[0] = 1;
    }
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    atomic_xchg(lock, 0);
    waits = 0;
  }
}
"""
FAULT_WORDS = 8
"""Of the report of a fault: whether there is one, position, three numbers, place of the group, work-item of it, a lock."""
ARGUMENTS = (
    "__global TG_TOKEN *_tg_tokens, __global const ulong *_tg_offsets, __global uint *_tg_counts,"
    " __global const uint *_tg_groups, __global long *_tg_fault"
)
GROUP = """
  const uint _tg_group = _tg_groups[get_group_id(0)];
"""
ITEM = (
    "get_local_size(0) * get_local_size(1) * get_local_size(2) * get_group_id(0)"
    " + (get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0)"
    " + get_local_id(0)"
)


@dataclass(frozen=True)
class TokenEncoding:
    """Size of a token, and how it is split into a position and an index.

    trusted : the recording run cannot differ from the counting run, which checked every index
    """

    bytes: int
    position_shift: int
    trusted: bool = False

    @classmethod
    def smallest(cls, n_positions: int, largest_array: int, trusted: bool) -> TokenEncoding:
        """Four bytes where every position and index fits, otherwise eight."""
        shift = 32 - max(n_positions - 1, 1).bit_length()
        fits = largest_array <= 1 << shift
        return cls(4, shift, trusted) if fits else cls(8, 48, trusted)

    def split(self, token: int) -> tuple[int, int]:
        """The position and the index of a token."""
        return token >> self.position_shift, token & ((1 << self.position_shift) - 1)

    @property
    def dtype(self) -> Any:
        return np.uint32 if self.bytes == 4 else np.uint64

    @property
    def build_options(self) -> list[str]:
        """The compiler options of a build that records such tokens."""
        kind = "uint" if self.bytes == 4 else "ulong"
        options = ["-DTG_RECORD", f"-DTG_TOKEN={kind}", f"-DTG_SHIFT={self.position_shift}"]
        return [*options, "-DTG_TRUSTED"] if self.trusted else options
