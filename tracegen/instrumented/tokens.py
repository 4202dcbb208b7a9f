"""Tokens: what a probe writes, and the OpenCL C that writes it.

A token is `position << position_shift | index`: the position of the probe in its kernel and the
index of the element that is accessed. The counting build of a probed kernel counts the tokens of
each work-item; the recording build writes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# Both builds keep an index in range and report the first one that was not. The recording build writes as many
# tokens of a work-item as there is room for, and counts all: where two runs of one kernel differ, it is run again.
# A probe takes an index and returns it, or 0 where it lies outside its array.
PROBE_SOURCE = """\
#ifdef TG_RECORD
#define TG_AT(POSITION) ((TG_TOKEN) (POSITION) << TG_SHIFT)
#define TG_POSITION(AT) ((long) ((AT) >> TG_SHIFT))
#else
#define TG_TOKEN uint
#define TG_AT(POSITION) (POSITION)
#define TG_POSITION(AT) ((long) (AT))
#endif
typedef struct {
  __global TG_TOKEN *first;
  uint count; uint room;
  __global long *fault;
  long axis; long at;
} _tg_state;
static inline void _tg_event(_tg_state *tg, TG_TOKEN token)
{
#ifdef TG_RECORD
  if (tg->count < tg->room)
    tg->first[tg->count] = token;
#endif
  ++tg->count;
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
static inline long _tg_clamp(long index, long size)
{
  return (ulong) index < (ulong) size ? index : 0;
}
static inline long _tg_within(_tg_state *tg, long axis, long at, long extent, long index)
{
  if ((ulong) at >= (ulong) extent)
  {
    tg->axis = axis;
    tg->at = at;
    index = -1;
  }
  return index;
}
static inline long _tg_probe(_tg_state *tg, TG_TOKEN at, long index, long size)
{
  if ((ulong) index >= (ulong) size)
  {
    _tg_report(tg, TG_POSITION(at), index, tg->axis, tg->at);
    index = 0;
  }
  _tg_event(tg, at | (TG_TOKEN) index);
  return index;
}
"""
FAULT_WORDS = 8
"""Words of the report of a fault: whether there is one, position, three numbers, place of the group, work-item of it, a lock."""
ARGUMENTS = (
    "__global TG_TOKEN *_tg_tokens, __global const ulong *_tg_offsets, __global uint *_tg_counts,"
    " __global const uint *_tg_groups, __global long *_tg_fault, const uint _tg_grid0, const uint _tg_grid1"
)
PROLOGUE = """
  const uint _tg_group = _tg_groups[get_group_id(0)];
  const uint _tg_gid0 = _tg_group % _tg_grid0;
  const uint _tg_gid1 = _tg_group / _tg_grid0 % _tg_grid1;
  const uint _tg_gid2 = _tg_group / _tg_grid0 / _tg_grid1;
  const ulong _tg_item = get_local_size(0) * get_local_size(1) * get_local_size(2) * get_group_id(0)
    + (get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0);
  _tg_state _tg;
  _tg.fault = _tg_fault;
  _tg.axis = -1;
  _tg.count = 0;
#ifdef TG_RECORD
  _tg.first = _tg_tokens + _tg_offsets[_tg_item];
  _tg.room = (uint) (_tg_offsets[_tg_item + 1] - _tg_offsets[_tg_item]);
#endif
"""
EPILOGUE = """
  _tg_counts[_tg_item] = _tg.count;
"""


@dataclass(frozen=True)
class TokenEncoding:
    """Size of a token, and how it is split into a position and an index."""

    bytes: int
    position_shift: int

    @classmethod
    def smallest(cls, n_positions: int, largest_array: int) -> TokenEncoding:
        """Four bytes where every position and index fits, otherwise eight."""
        shift = 32 - max(n_positions - 1, 1).bit_length()
        return cls(4, shift) if largest_array <= 1 << shift else cls(8, 48)

    def split(self, token: int) -> tuple[int, int]:
        """The position and the index of a token."""
        return token >> self.position_shift, token & ((1 << self.position_shift) - 1)

    @property
    def dtype(self) -> Any:
        return np.uint32 if self.bytes == 4 else np.uint64

    @property
    def build_options(self) -> tuple[str, ...]:
        """The compiler options of a build that records such tokens."""
        kind = "uint" if self.bytes == 4 else "ulong"
        return "-DTG_RECORD", f"-DTG_TOKEN={kind}", f"-DTG_SHIFT={self.position_shift}"
