// Kernels that exercise what compilers write: loops, tiles, atomics, divergence, calls, spills.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

#ifdef __NVPTX__
#define LOCAL_ID(axis) \
  ((int)((axis) == 0 ? __nvvm_read_ptx_sreg_tid_x() : __nvvm_read_ptx_sreg_tid_y()))
#define GROUP_ID(axis) \
  ((int)((axis) == 0 ? __nvvm_read_ptx_sreg_ctaid_x() : __nvvm_read_ptx_sreg_ctaid_y()))
#define BARRIER() __syncthreads()
#else
#define LOCAL_ID(axis) \
  ((int)((axis) == 0 ? __builtin_amdgcn_workitem_id_x() : __builtin_amdgcn_workitem_id_y()))
#define GROUP_ID(axis) \
  ((int)((axis) == 0 ? __builtin_amdgcn_workgroup_id_x() : __builtin_amdgcn_workgroup_id_y()))
#define BARRIER() __builtin_amdgcn_s_barrier()
#endif
#define ID (64 * GROUP_ID(0) + LOCAL_ID(0))

__kernel void vectors(__global float4 const *in, __global float4 *out)
{
  out[ID] = in[ID] * 2.0f;
}

__kernel void strided_sum(__global float const *in, __global float *out, int n, int stride)
{
  float sum = 0;
  for (int k = 0; k < n; ++k)
    sum += in[ID + (long)k * stride];
  out[ID] = sum;
}

__kernel void unrolled(__global double const *restrict in, __global double *restrict out, int n)
{
  double sum = 0;
#pragma unroll 8
  for (int k = 0; k < n; ++k)
    sum = sum * 0.5 + in[ID + k];
  out[ID] = sum;
}

__kernel void tiles(__global float const *a, __global float const *b, __global float *c, int n)
{
  __local float left[16][17], right[16][17];
  int x = LOCAL_ID(0), y = LOCAL_ID(1);
  int column = 16 * GROUP_ID(0) + x, row = 16 * GROUP_ID(1) + y;
  float sum = 0;
  for (int start = 0; start < n; start += 16)
  {
    left[y][x] = a[row * n + start + x];
    right[y][x] = b[(start + y) * n + column];
    BARRIER();
    for (int k = 0; k < 16; ++k)
      sum += left[y][k] * right[k][x];
    BARRIER();
  }
  c[row * n + column] = sum;
}

__kernel void atomics(__global int *counts, __global int const *data, __global float *olds, int n,
                      __local int *part)
{
  part[LOCAL_ID(0)] = 0;
  BARRIER();
  if (ID < n)
  {
    __sync_fetch_and_add(counts + data[ID], 1);
    __sync_fetch_and_max(part + (data[ID] & 15), ID);
    olds[ID] = __sync_fetch_and_add(counts, 3);
  }
  BARRIER();
  olds[ID] += __sync_val_compare_and_swap(counts + 5, 3, part[LOCAL_ID(0)]);
}

__kernel void diverging(__global int const *in, __global int *out, int n)
{
  if (ID >= n)
    return;
  int value = in[ID], steps = 0;
  while (value > 1)
  {
    if (value & 1)
    {
      value = 3 * value + 1;
      if (value > 1000)
        steps += in[value & 1023];
    }
    else
      value >>= 1;
    if (++steps > 500)
      break;
  }
  out[ID] = steps;
}

__kernel void cases(__global int const *in, __global float *out, __global float const *p)
{
  int i = ID;
  float result = 0;
  switch (in[i])
  {
    case 0: result = p[i] * 2; break;
    case 1: result = p[i + 1] / 3; break;
    case 2: result = p[i] - p[2 * i]; break;
    case 3: result = p[i * i]; break;
    case 4: out[3] = 2; result = 7; break;
    case 5: result = p[7] + p[9]; break;
    case 6:
      for (int k = 0; k < i; ++k)
        out[k] = p[k];
      break;
  }
  out[i] = result;
}

__kernel void divisions(__global double *a, __global float *b, __global int *c, __global long *d)
{
  int i = ID;
  a[i] = a[i] / a[i + 1] + __builtin_sqrt(a[i]);
  b[i] = b[i] / b[i + 1] + __builtin_sqrtf(b[i]);
  c[i] = c[i] / (c[i + 1] | 1) + c[i] % 7;
  d[i] = d[i] * d[i + 1] / (d[i + 2] | 1);
}

__kernel void conversions(__global float *f, __global double *d, __global int *k, __global uint *u,
                          __global short *s, __global uchar *c, __global long *l)
{
  int i = ID;
  f[i] = __builtin_fminf(f[i], 2.0f) + __builtin_fmaxf(f[i + 1], f[i + 2]) + (float)u[i + 5];
  f[i] += __builtin_fabsf(f[i + 3]) + __builtin_floorf(f[i + 4]) + __builtin_truncf(f[i + 5]);
  d[i] = __builtin_fmin(d[i], 2.0) + __builtin_floor(d[i + 1]) + f[i] + k[i] + u[i];
  f[i + 9] = (float)d[i + 3];
  k[i + 5] = (int)d[i + 4];
  k[i] = __builtin_popcount(k[i]) + __builtin_clz(k[i + 1]) + __builtin_ctz(k[i + 2]);
  k[i] += (k[i + 3] < 0 ? -k[i + 3] : k[i + 3]) + (u[i] >> 13 | u[i] << 19) + (u[i + 1] * 7u >> 2);
  u[i] = (ulong)u[i] * u[i + 1] >> 32;
  u[i + 4] = (uint)f[i + 4];
  u[i + 6] = (u[i + 6] ^ u[i + 7]) & ~u[i + 8];
  f[i + 5] = d[i] > 2.0 ? f[i] : f[i + 7];
  s[i] += s[i + 1];
  c[i] += s[i];
  l[i] = (l[i] >> 5) + (long)d[i + 6];
  d[i + 7] = (double)l[i + 1];
}

__attribute__((noinline)) float helper(__global float const *p, int n)
{
  float sum = 0;
  for (int k = 0; k < n; ++k)
    sum += p[k] * sum;
  return sum;
}

__kernel void calls(__global float const *a, __global float *b, int n)
{
  b[ID] = helper(a, n + ID) + helper(a + 5, ID);
}

// Many values at a time, so that few registers mean spills.
__kernel void crowded(__global double const *a, __global double *b, int n)
{
  double values[20];
#pragma unroll
  for (int k = 0; k < 20; ++k)
    values[k] = a[ID + k * n];
  for (int step = 0; step < n; ++step)
  {
#pragma unroll
    for (int k = 0; k < 20; ++k)
      values[k] = values[k] * values[(k + 7) % 20] + values[k * 3 % 20];
  }
#pragma unroll
  for (int k = 0; k < 20; ++k)
    b[ID + k * n] = values[k];
}

__kernel void private_array(__global int const *a, __global int *b, int n)
{
  int table[32];
  for (int k = 0; k < 32; ++k)
    table[k] = a[ID * 32 + k];
  for (int k = 0; k < n; ++k)
    table[table[k & 31] & 31] += k;
  b[ID] = table[n & 31];
}

__constant float table[64] = {1, 2, 3, 4, 5};

__kernel void constants(__global float *b, __constant float *c, __global int const *index)
{
  b[ID] = table[index[ID] & 63] + c[3] + c[index[ID]];
}

__kernel void either(__global float *a, __global float *b, int n, __global float *c)
{
  __global float *p = n & 1 ? a : b;
  c[ID] = p[ID];
  for (int k = 0; k < n; ++k)
  {
    a += ID;
    c[k] += *a;
  }
}
