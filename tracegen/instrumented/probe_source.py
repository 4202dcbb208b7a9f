"""The OpenCL C that probed kernels are made of."""

from __future__ import annotations

# The recording build writes `position << TG_SHIFT | index` for each access, `position << TG_SHIFT`
# for each back-edge and barrier; the counting build only counts. Either keeps an index in range and
# notes the first that was not. The bound of `next` cannot be reached unless two runs of one kernel
# differ (a data race): then the lost tokens show in the count. TG_TRUSTED leaves both checks out of
# the second run of a kernel that reads nothing that it writes, and so cannot differ.
PROBE_SOURCE = """\
#ifdef TG_RECORD
typedef struct { __global TG_TOKEN *next; __global TG_TOKEN *end; __global long *fault; long axis; long at; } _tg_state;
#define TG_AT(POSITION) ((TG_TOKEN) POSITION << TG_SHIFT)
static inline void _tg_event(_tg_state *tg, TG_TOKEN token)
{
#ifndef TG_TRUSTED
  if (tg->next < tg->end)
#endif
    *tg->next++ = token;
}
#else
#define TG_TOKEN uint
#define TG_AT(POSITION) POSITION
typedef struct { uint count; __global long *fault; long axis; long at; } _tg_state;
static inline void _tg_event(_tg_state *tg, TG_TOKEN token)
{
  ++tg->count;
}
#endif
static inline long _tg_clamp(long index, long size)
{
  return (ulong) index < (ulong) size ? index : 0;
}
static inline long _tg_within(_tg_state *tg, long axis, long at, long extent, long index)
{
#ifndef TG_TRUSTED
  if ((ulong) at >= (ulong) extent)
  {
    tg->axis = axis;
    tg->at = at;
    index = -1;
  }
#endif
  return index;
}
static inline long _tg_probe(_tg_state *tg, TG_TOKEN at, long index, long size)
{
#ifndef TG_TRUSTED
  if ((ulong) index >= (ulong) size)
  {
    if (atomic_cmpxchg((volatile __global int *) tg->fault, 0, 1) == 0)
    {
#ifdef TG_RECORD
      tg->fault[1] = (long) (at >> TG_SHIFT);
#else
      tg->fault[1] = (long) at;
#endif
      tg->fault[2] = index;
      tg->fault[3] = tg->axis;
      tg->fault[4] = tg->at;
    }
    index = 0;
  }
#endif
  _tg_event(tg, at | (TG_TOKEN) index);
  return index;
}
"""
ARGUMENTS = (
    "__global TG_TOKEN *_tg_tokens, __global const ulong *_tg_offsets,"
    " __global uint *_tg_counts, __global const uint *_tg_groups, __global long *_tg_fault,"
    " const uint _tg_grid0, const uint _tg_grid1"
)
PROLOGUE = """
  const uint _tg_group = _tg_groups[get_group_id(0)];
  const uint _tg_gid0 = _tg_group % _tg_grid0;
  const uint _tg_gid1 = _tg_group / _tg_grid0 % _tg_grid1;
  const uint _tg_gid2 = _tg_group / _tg_grid0 / _tg_grid1;
  const ulong _tg_item = get_local_size(0) * get_local_size(1) * get_local_size(2)
    * get_group_id(0) + (get_local_id(2) * get_local_size(1) + get_local_id(1))
    * get_local_size(0) + get_local_id(0);
  _tg_state _tg;
  _tg.fault = _tg_fault;
  _tg.axis = -1;
#ifdef TG_RECORD
  _tg.next = _tg_tokens + _tg_offsets[_tg_item];
  _tg.end = _tg_tokens + _tg_offsets[_tg_item + 1];
#else
  _tg.count = 0;
#endif
"""
EPILOGUE = """
#ifdef TG_RECORD
  _tg_counts[_tg_item] = (uint) (_tg.next - (_tg_tokens + _tg_offsets[_tg_item]));
#else
  _tg_counts[_tg_item] = _tg.count;
#endif
"""
