"""Kernels in OpenCL C on which the tracer and Oclgrind must agree, access for access.

Each shows one way to reach memory; pointers that walk, calls, jumps and updates are in random ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegen import OpenCLWorkload

N = 37
"""Work-items with work: the last group of 16 is not full."""


def _workload(source: str, arguments: dict[str, Any], **options: Any) -> OpenCLWorkload:
    return OpenCLWorkload(
        **{"source": source, "arguments": arguments, "global_size": 48, "local_size": 16, **options}
    )


def _floats(seed: int, n: int = N) -> Any:
    return np.random.default_rng(seed).random(n, np.float32)


def _indices(seed: int, n: int = N) -> Any:
    return np.random.default_rng(seed).integers(0, n, n).astype(np.int32)


STRUCTS = """
typedef struct { float x, y; } Pair;
struct Cell { int id; Pair pair[2]; float4 v; char tag; };
typedef struct Cell Cell;
"""


def structs() -> OpenCLWorkload:
    """Members, arrays in structs, structs in structs, and structs copied whole."""
    source = f"""{STRUCTS}
    float sum(Pair p) {{ return p.x + p.y; }}
    __kernel void structs(__global Cell *c, __global const Pair *pairs, __global const int *index,
                          __global float *out)
    {{
      int i = get_global_id(0);
      if (i >= 37) return;
      float t = c[i].id + c[i].pair[i % 2].y + (c + i)->pair->x + c[i].v.y + pairs[index[i]].x;
      Pair mine = pairs[i];
      t += mine.x + sum(pairs[index[i]]);
      c[i].pair[1] = mine;
      c[i].pair[0] = pairs[index[i]];
      __global Cell *own = &c[i];
      own->tag = own->id > 3 ? 1 : 2;
      own->pair[own->id & 1].x += 2;
      __global float *inner = &own->pair[0].y;
      inner[1] = t;
      out[i] = t + (*own).tag;
    }}
    """
    cells = np.zeros(N, np.dtype([("id", "i4"), ("pair", "f4", 4), ("pad", "V12"), ("v", "f4", 4),
                                  ("tag", "i1"), ("end", "V15")]))  # fmt: skip
    cells["id"] = np.arange(N)
    arguments = {
        "c": cells,
        "pairs": _floats(5, 2 * N).reshape(N, 2),
        "index": _indices(6),
        "out": np.zeros(N, np.float32),
    }
    return _workload(source, arguments)


def vectors() -> OpenCLWorkload:
    """Vector elements, their components, vload and vstore of several widths."""
    source = """
    __kernel void vectors(__global float4 *a, __global const float *b, __global float *out,
                          __global const half *h, __global uchar *bytes)
    {
      int i = get_global_id(0);
      if (i >= 37) return;
      float4 v = a[i];
      v += a[i].wzyx;
      v.x += a[i].y + a[i].s3;
      v.lo += vload2(i, b);
      v.xyz += vload3(i, b);
      v += vload4(i + 1, b - 4);
      v += convert_float4(vload4(0, bytes + 4 * i));
      v.w += vload_half(i, h);
      vstore4(v, i, out);
      vstore2(v.hi, 0, out + 4 * i);
      vstore3(v.xyz, 0, &out[4 * i]);
      vstore4(convert_uchar4_sat(v), i, bytes);
      a[i] = (float4)(b[i], v.x, 1, 2);
    }
    """
    arguments = {
        "a": _floats(7, 4 * N).reshape(N, 4),
        "b": _floats(8, 4 * N),
        "out": np.zeros(4 * N + 16, np.float32),
        "h": np.arange(N, dtype=np.float16),
        "bytes": np.arange(4 * N, dtype=np.uint8),
    }
    return _workload(source, arguments)


def pointers_into_local_memory() -> OpenCLWorkload:
    """A transpose of 8 x 8 tiles: each access to local memory goes through a pointer that moves."""
    source = """
    void put(__local int *p, int value) { *p = value; }
    __kernel void pointers_into_local_memory(__global const int *in, __global int *out,
                                             __local int *tile)
    {
      __local int pairs[64][2]; __local int *last = &pairs[63][1] + 1;
      int i = get_local_id(0), group = get_group_id(0) * 64;
      __local int *p = tile + 8 * (i / 8);
      put(p += i % 8, in[group + i]);
      (last - 2 * i)[-1] = 1;
      barrier(CLK_LOCAL_MEM_FENCE);
      __local int (*rows)[8] = (__local int (*)[8]) tile;
      p = &pairs[0][0];
      for (int k = 0; k < i; ++k) ++p, p++;
      out[group + i] = rows[i % 8][i / 8] + *++p + vload2(i / 2, tile).y;
    }
    """
    given = np.concatenate([np.random.default_rng(k).permutation(64) for k in range(2)])
    arguments = {"in": given.astype(np.int32), "out": np.zeros(128, np.int32), "tile": 256}
    return _workload(source, arguments, global_size=128, local_size=64)


def local_memory() -> OpenCLWorkload:
    """Local, constant and private memory are not traced; barriers and 2-D groups."""
    source = """
    __constant int table[4] = { 3, 2, 1, 0 };
    __kernel void local_memory(__global const float *restrict a, __constant float *scale,
                               __local float *tile, __global float *restrict out, int width)
    {
      __local float sums[4];
      const int x = get_local_id(0), y = get_local_id(1);
      int column = get_global_id(0), row = get_group_id(1) * get_local_size(1) + y;
      float kept[2] = { a[0], 1 };
      tile[y * 8 + x] = a[row * width + column] * scale[table[x % 4]];
      barrier(CLK_LOCAL_MEM_FENCE);
      if (x == 0) {
        float t = 0;
        for (int j = 0; j < 8; ++j) t += tile[y * 8 + j];
        sums[y] = t;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      int at = get_num_groups(0) * 8 * row + get_global_size(0) - 1 - column;
      out[at] = sums[y] + kept[y % 2];
    }
    """
    arguments = {"a": _floats(19, 16 * 8), "scale": _floats(20, 4), "tile": 4 * 32,
                 "out": np.zeros(16 * 8, np.float32), "width": 16}  # fmt: skip
    return _workload(source, arguments, global_size=(16, 8), local_size=(8, 4))


def mathematics() -> OpenCLWorkload:
    """Functions that return a second result through a pointer."""
    source = """
    __kernel void mathematics(__global const float *a, __global float *out, __global int *exponent)
    {
      int i = get_global_id(0);
      if (i >= 37) return;
      float whole;
      float t = fract(a[i], &out[i]) + modf(a[i], &whole) + frexp(a[i], exponent + i);
      out[i] = t + whole + as_float(exponent[i] * 0) + M_PI_F + fmin(a[i], FLT_MAX);
    }
    """
    arguments = {"a": 9 * _floats(23), "out": np.zeros(N, np.float32),
                 "exponent": np.zeros(N, np.int32)}  # fmt: skip
    return _workload(source, arguments)


def atomics() -> OpenCLWorkload:
    """Atomic functions: old values used, arguments that read."""
    source = """
    __kernel void atomics(__global int *counts, __global const int *a, volatile __global uint *most)
    {
      int i = get_global_id(0);
      if (i >= 37) return;
      atomic_inc(&counts[a[i] % 4]);
      atomic_add(counts + 4, a[i]);
      atomic_max(most, (uint) a[i]);
      atom_sub(&counts[a[a[i]] % 2], 1);
    }
    """
    arguments = {"counts": np.zeros(5, np.int32), "a": _indices(24),
                 "most": np.zeros(1, np.uint32)}  # fmt: skip
    return _workload(source, arguments)


def in_place() -> OpenCLWorkload:
    """One array under two names, and one under no name at all."""
    source = """
    __kernel void in_place(__global float *a, __global float *same, __global float *none)
    {
      int i = get_global_id(0);
      if (i >= 37) return;
      same[i] = a[i] + 1;
      a[i] = same[i] * (none ? none[i] : 2);
    }
    """
    array = _floats(25)
    return _workload(source, {"a": array, "same": array, "none": _floats(26)})


CASES: dict[str, Callable[[], OpenCLWorkload]] = {
    case.__name__: case
    for case in (
        structs,
        vectors,
        local_memory,
        pointers_into_local_memory,
        mathematics,
        atomics,
        in_place,
    )
}
