"""Kernels in OpenCL C on which the tracer and Oclgrind must agree, access for access.

Each shows one way to reach memory; the text is what a user would write.
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


def walks() -> OpenCLWorkload:
    """Pointers that are walked, in each direction and by other steps."""
    source = """
    __kernel void walks(__global const float *a, __global const int *first, __global float *out)
    {
      const int i = get_global_id(0);
      if (i >= N) return;
      __global const float *p = a + first[i];
      float total = 0;
      for (__global const float *end = p + 3; p != end; p++)
        total += *p;
      total += *--p;
      p -= 2;
      total += *p++ * *++p;
      total += p[-1] + *(p - 2) + (-1)[p];
      __global float *q = &out[i];
      *q++ = total;
      *--q += 1;
    }
    """
    rng = np.random.default_rng(1)
    arguments = {
        "a": _floats(2, 64),
        "first": rng.integers(0, 50, N).astype(np.int32),
        "out": np.zeros(N + 1, np.float32),
    }
    return _workload(source, arguments, build_options=f"-DN={N}")


def updates() -> OpenCLWorkload:
    """Compound assignments, increments, and assignments whose value is used."""
    source = """
    __kernel void updates(__global int *a, __global int *b, __global const int *index)
    {
      int i = get_global_id(0);
      if (i < 37) {
        a[i] += b[i];
        a[i] <<= 1;
        b[i]++;
        --b[i];
        int old = a[i]--;
        b[i] = a[i] = old + b[index[i]] * 0;
        a[i] -= (b[i] |= 3);
        (*(a + i)) *= 2, b[i] ^= a[i];
        int x = a[i]++ + ++b[i];
        b[i] = x;
      }
    }
    """
    arguments = {"a": _indices(3), "b": np.zeros(N, np.int32), "index": _indices(4)}
    return _workload(source, arguments)


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


def components() -> OpenCLWorkload:
    """Stores to components, which leave the others alone; a component by number does not."""
    source = """
    __kernel void components(__global float4 *a, __global const float2 *b)
    {
      int i = get_global_id(0);
      if (i >= 37) return;
      a[i].x = 1;
      a[i].yz = b[i];
      (&a[i])->w += b[i].x;
      __global float4 *p = a + i;
      p->hi = p->lo;
      p->odd.x += 1;
      a[i][1] = a[i][0];
    }
    """
    arguments = {"a": _floats(9, 4 * N).reshape(N, 4), "b": _floats(10, 2 * N).reshape(N, 2)}
    return _workload(source, arguments)


def branches() -> OpenCLWorkload:
    """Every kind of branch, loop and jump, decided by what was read."""
    source = """
    __kernel void branches(__global const int *a, __global const int *b, __global int *out)
    {
      int i = get_global_id(0);
      if (i >= 37) return;
      int t = a[i] > 9 && b[i] < 20 || a[b[i]] == 3 ? a[i] + b[i] : b[a[i]];
      for (int j = 0; j < a[i]; j++) {
        if (b[j] % 5 == 1) continue;
        if (b[j] % 11 == 2) break;
        t += a[j];
      }
      int k = a[i];
      while (k > 0 && b[k] != 7) k -= 1 + a[k] % 3;
      if (k < 0) k = 0;
      do { t ^= b[k]; } while (++k < a[i] % 4);
      switch (b[i] % 4) {
      case 0: t += a[0];
      case 1: t += a[1]; break;
      case 2: { t += a[2]; break; }
      default: t += a[3];
      }
      for (;;) { if (a[k % 37] >= 0) { out[i] = t; return; } }
    }
    """
    arguments = {"a": _indices(11), "b": _indices(12), "out": np.zeros(N, np.int32)}
    return _workload(source, arguments)


def helpers() -> OpenCLWorkload:
    """Functions with pointer parameters, called with several arrays, nested, some with early exits."""
    source = """
    static float at(__global const float *p, int i);
    float chosen(__global const float *p, __global const float *q, int i)
    {
      if (at(p, i) > 0.5f) return at(q, i);
      return *p + 1;
    }
    __attribute__((overloadable)) int twice(int x) { return 2 * x; }
    __attribute__((overloadable)) int twice(__global const int *x) { return 2 * *x; }
    inline void put(__global float *out, float value) { *out = value; }
    static float at(__global const float *p, int i) { return p[i]; }
    void advance(__global const float **p, int *n) { *p += 1; *n = *n + 1; }
    __global const float *middle(__global const float *p) { return p + 3; }
    int mine(void) { return get_global_id(0); }
    float unused(__global const float *p) { return p[0]; }

    __kernel void other(__global float *a) { a[get_global_id(0)] = at(a, 0); }
    __kernel void helpers(__global const float *a, __global const float *b,
                          __global const int *index, __global float *out)
    {
      int i = mine(), n = 0;
      if (i >= 37) return;
      __global const float *p = a;
      advance(&p, &n);
      float t = chosen(a, b, i) + chosen(b, a, index[i]) + at(p, n) + *middle(b + i % 2);
      put(&out[i], t + twice(index + i) + twice(i));
    }
    """
    arguments = {"a": _floats(13, 64), "b": _floats(14), "index": _indices(15),
                 "out": np.zeros(N, np.float32)}  # fmt: skip
    return _workload(source, arguments, kernel="helpers")


def swapped() -> OpenCLWorkload:
    """Pointers that change places: which array an access reaches is known when it runs."""
    source = """
    __kernel void swapped(__global float *a, __global float *b, __global const int *which)
    {
      int i = get_global_id(0);
      if (i >= 37) return;
      __global float *from = a, *to = b;
      for (int turn = 0; turn < which[i] % 4; ++turn) {
        to[i] = from[i] + 1;
        __global float *old = from;
        from = to;
        to = old;
      }
      __global float *one = which[i] & 1 ? a : b;
      one[i] *= 2;
    }
    """
    arguments = {"a": _floats(16), "b": _floats(17), "which": _indices(18)}
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


def macros() -> OpenCLWorkload:
    """Accesses in macros: several in one, arguments that access, macros in macros."""
    source = """
    #define AT(array, i) (array)[(i)]
    #define NEXT(array, i) AT(array, \\
                              AT(index, i))
    #define SQUARE(x) ((x) * (x))
    #define ADD_ALL(out, ...) do { \\
        float parts[] = { __VA_ARGS__ }; \\
        for (int k = 0; k < COUNT; ++k) out += parts[k]; } while (0)
    #if defined(COUNT) && COUNT > 2
    #define IF_COUNT(x) x
    #else
    #error no COUNT
    #endif
    __kernel void macros(__global const float *a, __global const int *index, __global float *out)
    {
      int i = get_global_id(0);
      if (i >= 37) return;
      float t = SQUARE(AT(a, i)) + NEXT(a, i) + SQUARE(NEXT(a,
                                                           AT(index, i)));
      ADD_ALL(t, a[i], AT(a, 1), IF_COUNT(a[2]));
      AT(out, i) = t;
    }
    """
    arguments = {"a": _floats(21), "index": _indices(22), "out": np.zeros(N, np.float32)}
    return _workload(source, arguments, build_options=["-D", "COUNT=3"])


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


def constructs() -> OpenCLWorkload:
    """What else C has: unions, typedefs of pointers, pointers to arrays, lists of initial values."""
    source = """
    typedef __global const float *Source;
    typedef union { int i; float f; uchar bytes[4]; } Word;
    typedef struct { float m[2][3]; enum { RED, GREEN = 4 } colour; } Matrix;
    struct Two { Source one, other; int n; };
    constant float weights[] = { 1, 2, GREEN };
    static float picked(struct Two two, int i) { return i & 1 ? two.one[i] : two.other[two.n]; }
    float of_word(Word w) { return w.f; }
    __kernel __attribute__((vec_type_hint(float4)))
    void constructs(global float *restrict a, Source b, __global Word *w, __global Matrix *m,
                    __global double *d, global const long *l, volatile global int *flags)
    {
      const size_t i = get_global_id(0);
      if (i >= 37) return;
      Source list[2] = { b, b + 1 };
      struct Two two = { b, list[1], 3 };
      float values[3] = { b[i], [2] = b[i + 1] };
      float4 v = (float4)((float2)(b[i], b[2]), b[3], values[2]);
      float2 halves[] = { v.lo, { b[4], b[5] } };
      for (uint j = 0, k = 3; j < k; ++j, k -= l[i] & 1) v.x += list[j & 1][j] * weights[j];
      v.y += picked(two, i) + of_word(w[i]) + w[i].bytes[1] + w[i].i;
      w[i].f = v.y;
      w[i].bytes[i % 4] += 1;
      __global float (*row)[3] = m[i].m;
      row[1][i % 3] = row[0][2] + (*row)[1] + m[i].m[1][l[i] % 3];
      if (l[i] > 3) ; else if (l[i] > 1) v.z = d[i]; else v.z = -d[i] + m[i].colour;
      d[i] = d[(ulong) l[i]] = sizeof(d[i]) + (flags[i] ? b[6] : 0.0);
      __global float4 *whole = (__global float4 *) (a + 4 * i);
      *whole = isless(dot(*whole, v), 0.f) + select(whole->x, b[7], (int) (l[i] > 2)) + halves[1].y;
      flags[i] = as_int(a[4 * i]) ^ convert_int_rte(a[4 * i + 1]), flags[i] |= (uchar) l[i];
      bool is = flags[i] && !flags[0];
      do a[4 * i + 2] = is ? fma(b[8], b[9], mad(b[10], 2.0f, clamp(b[11], 0.f, 1.f))) : min(b[i], 3.f);
      while (0);
      { float i = b[12]; a[0 + 4 * get_global_id(0)] += i; }
    }
    """
    rng = np.random.default_rng(27)
    matrices = np.zeros(N, np.dtype([("m", "f4", 6), ("colour", "u4")]))
    matrices["m"] = rng.random((N, 6))
    arguments = {
        "a": _floats(28, 4 * N),
        "b": _floats(29, 64),
        "w": _indices(30),
        "m": matrices,
        "d": rng.random(N),
        "l": rng.integers(0, 6, N),
        "flags": np.ones(N, np.int32),
    }
    return _workload(source, arguments, global_size=16 * 3)


CASES: dict[str, Callable[[], OpenCLWorkload]] = {
    case.__name__: case
    for case in (
        walks,
        updates,
        structs,
        vectors,
        components,
        branches,
        helpers,
        swapped,
        local_memory,
        pointers_into_local_memory,
        macros,
        mathematics,
        atomics,
        in_place,
        constructs,
    )
}
