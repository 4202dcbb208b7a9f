"""The kernels of the probes, in OpenCL 1.2 without extensions.

The first argument of each is the buffer of words, and the last one an output that depends on all loads, so
that no compiler removes them.
"""

CHASE = """
__kernel void chase(__global const uint *next, uint start, uint steps, __global uint *out)
{
  uint p = start;
  for (uint i = 0; i < steps; i += 8) {
    p = next[p]; p = next[p]; p = next[p]; p = next[p];
    p = next[p]; p = next[p]; p = next[p]; p = next[p];
  }
  out[0] = p;
}
"""

LINK = """
__kernel void link(__global uint *next, __global const uint *from, __global const uint *to, uint n,
                   __global uint *out)
{
  uint i = get_global_id(0);
  if (i < n) next[from[i]] = to[i];
}
"""

# Every group walks a separate ring once.
WALKS = """
__kernel void walks(__global const uint *next, __global const uint *start, uint steps,
                    __global uint *out)
{
  uint p = start[get_group_id(0)];
  for (uint i = 0; i < steps; ++i) p = next[p];
  out[get_group_id(0)] = p;
}
"""

# A chain of dependent additions. It measures the clock where an addition takes one cycle. The local
# memory of a group limits how many groups a core can run.
ADDITIONS = """
__kernel void additions(__global const uint *unused, uint start, uint steps, __local uint *room,
                        __global uint *out)
{
  uint a = start;
  room[get_local_id(0)] = start;
  for (uint i = 0; i < steps; i += 8) {
    a += a >> 31 ^ i; a ^= a + 1; a ^= a + 3; a ^= a + 5;
    a ^= a + 7; a ^= a + 9; a ^= a + 11; a ^= a + 13;
  }
  out[get_group_id(0)] = a + room[get_local_id(0)];
}
"""

# Each round walks a large ring, which evicts the small one. It then touches the lines of the small
# ring (mode 0: not at all, 1: loads, 2: stores), and walks the small ring `passes` times.
PREPARED = """
__kernel void prepared(__global uint *next, uint large, uint n_large, uint small_start, uint n_small,
                       uint mode, uint rounds, uint passes, __global const uint *order,
                       __global uint *out)
{
  uint p = large, s = small_start, sum = 0;
  for (uint r = 0; r < rounds; ++r) {
    for (uint i = 0; i < n_large; ++i) p = next[p];
    uint bias = p == 0xffffffffu;
    if (mode == 1)
      for (uint i = 0; i < n_small; ++i) sum += next[order[i] + 1 + bias];
    if (mode == 2)
      for (uint i = 0; i < n_small; ++i) next[order[i] + 1 + bias] = r;
    s += (p == 0xffffffffu) + (sum == 0xfffffff1u);
    for (uint k = 0; k < passes; ++k)
      for (uint i = 0; i < n_small; ++i) s = next[s];
  }
  out[0] = p + s + sum;
}
"""

# Stores to every line of a region, repeatedly. The arithmetic takes no longer than a store.
STORES = """
__kernel void stores(__global uint *data, uint n_lines, uint line_words, uint rounds,
                     __global uint *out)
{
  for (uint r = 0; r < rounds; ++r)
    for (uint i = 0; i < n_lines; ++i) data[i * line_words] = r;
}
"""

# Every group reads a separate part of the data repeatedly.
READS = """
__kernel void reads(__global const float4 *data, uint n_each, uint rounds, __global float *out)
{
  uint items = get_local_size(0);
  __global const float4 *mine = data + (size_t) get_group_id(0) * n_each;
  float4 a = 0, b = 0, c = 0, d = 0;
  for (uint r = 0; r < rounds; ++r)
    for (uint i = get_local_id(0); i + 3 * items < n_each; i += 4 * items) {
      a += mine[i]; b += mine[i + items]; c += mine[i + 2 * items]; d += mine[i + 3 * items];
    }
  a += b + c + d;
  out[get_global_id(0)] = a.x + a.y + a.z + a.w;
}
"""

# Batches of addresses. The work-items of a group, whose number is a power of two, load a batch
# together. The next batch depends on every loaded value, through a bit that is 0 in all words.
BATCHES = """
__kernel void batches(__global const uint *data, __global const uint *address,
                      __global const uint *offset, uint n_batches, __local uint *part,
                      __global uint *out)
{
  uint lane = get_local_id(0), lanes = get_local_size(0);
  uint sum = 0, carried = 0;
  for (uint b = 0; b < n_batches; ++b) {
    uint value = 0;
    for (uint k = offset[b] + lane; k < offset[b + 1]; k += lanes)
      value |= data[address[k] + carried];
    part[lane] = value >> 31;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint s = lanes / 2; s > 0; s /= 2) {
      if (lane < s) part[lane] |= part[lane + s];
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    carried = part[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    sum += value;
  }
  out[get_global_id(0)] = sum;
}
"""

NOTHING = """
__kernel void nothing(__global const uint *unused, __global uint *out)
{
  if (get_global_id(0) == 0xffffffffu) out[0] = 1;
}
"""
