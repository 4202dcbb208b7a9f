"""The OpenCL C that probed Loopy kernels are made of."""

from __future__ import annotations

from tracegen.probes import tokens

# A probe takes an index and returns it, or 0 where it lies outside its array.
PROBE_SOURCE = f"""\
{tokens.MACROS}typedef struct {{
{tokens.STATE_FIELDS}  long axis; long at;
}} _tg_state;
{tokens.FUNCTIONS}static inline long _tg_clamp(long index, long size)
{{
  return (ulong) index < (ulong) size ? index : 0;
}}
static inline long _tg_within(_tg_state *tg, long axis, long at, long extent, long index)
{{
#ifndef TG_TRUSTED
  if ((ulong) at >= (ulong) extent)
  {{
    tg->axis = axis;
    tg->at = at;
    index = -1;
  }}
#endif
  return index;
}}
static inline long _tg_probe(_tg_state *tg, TG_TOKEN at, long index, long size)
{{
#ifndef TG_TRUSTED
  if ((ulong) index >= (ulong) size)
  {{
    _tg_report(tg, TG_POSITION(at), index, tg->axis, tg->at);
    index = 0;
  }}
#endif
  _tg_event(tg, at | (TG_TOKEN) index);
  return index;
}}
"""
ARGUMENTS = f"{tokens.ARGUMENTS}, const uint _tg_grid0, const uint _tg_grid1"
PROLOGUE = f"""{tokens.GROUP}\
  const uint _tg_gid0 = _tg_group % _tg_grid0;
  const uint _tg_gid1 = _tg_group / _tg_grid0 % _tg_grid1;
  const uint _tg_gid2 = _tg_group / _tg_grid0 / _tg_grid1;
  const ulong _tg_item = {tokens.ITEM};
  _tg_state _tg;
  _tg.fault = _tg_fault;
  _tg.axis = -1;
  _tg_begin(&_tg, _tg_tokens, _tg_offsets, _tg_item);
"""
EPILOGUE = """
  _tg_counts[_tg_item] = _tg_counted(&_tg);
"""
