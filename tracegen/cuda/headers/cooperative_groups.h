// Cooperative groups: the thread block and tiles of a warp. Grid-wide synchronisation is refused.
#pragma once
#include "memsim/kernel.h"
namespace cooperative_groups {
struct thread_block {
  MEMSIM_INLINE void sync() const { __syncthreads(); }
  MEMSIM_INLINE unsigned thread_rank() const {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  }
  MEMSIM_INLINE unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
  MEMSIM_INLINE unsigned num_threads() const { return size(); }
  MEMSIM_INLINE dim3 group_index() const { return blockIdx; }
  MEMSIM_INLINE dim3 thread_index() const { return threadIdx; }
  MEMSIM_INLINE dim3 group_dim() const { return blockDim; }
  MEMSIM_INLINE dim3 dim_threads() const { return blockDim; }
};
MEMSIM_DEVICE thread_block this_thread_block() { return {}; }

struct grid_group {
  MEMSIM_INLINE unsigned long long thread_rank() const {
    unsigned long long block = (blockIdx.z * gridDim.y + blockIdx.y) * (unsigned long long)gridDim.x + blockIdx.x;
    return block * blockDim.x * blockDim.y * blockDim.z + thread_block().thread_rank();
  }
  MEMSIM_INLINE unsigned long long size() const {
    return (unsigned long long)gridDim.x * gridDim.y * gridDim.z * thread_block().size();
  }
  MEMSIM_INLINE void sync() const { MEMSIM_REFUSED(grid); }
};
MEMSIM_DEVICE grid_group this_grid() { return {}; }

struct cluster_group {
  MEMSIM_INLINE void sync() const {}
  MEMSIM_INLINE unsigned block_rank() const { return 0; }
  MEMSIM_INLINE unsigned num_blocks() const { return 1; }
  MEMSIM_INLINE unsigned thread_rank() const { return thread_block().thread_rank(); }
  template <class T> MEMSIM_INLINE T *map_shared_rank(T *address, int) const { return address; }
};
MEMSIM_DEVICE cluster_group this_cluster() {
  MEMSIM_REFUSED(cluster);
  return {};
}

// Threads of one warp that arrive together, by their lanes.
struct coalesced_group {
  memsim_mask lanes;
  MEMSIM_INLINE static unsigned lane() { return thread_block().thread_rank() % MEMSIM_WARP; }
  MEMSIM_INLINE unsigned size() const { return __builtin_popcountll(lanes); }
  MEMSIM_INLINE unsigned num_threads() const { return size(); }
  MEMSIM_INLINE unsigned thread_rank() const { return rank_of(lane()); }
  MEMSIM_INLINE unsigned rank_of(unsigned lane) const { return __builtin_popcountll(lanes & (((memsim_mask)1 << lane) - 1)); }
  MEMSIM_INLINE unsigned lane_of(unsigned rank) const {
    unsigned lane = 0;
    for (unsigned left = rank + 1; lane < MEMSIM_WARP; ++lane)
      if ((lanes >> lane & 1) && --left == 0)
        break;
    return lane;
  }
  // The bits of lanes as bits of ranks.
  MEMSIM_INLINE memsim_mask ranks(memsim_mask of_lanes) const {
    memsim_mask found = 0;
    for (unsigned lane = 0; lane < MEMSIM_WARP; ++lane)
      if (of_lanes & lanes & (memsim_mask)1 << lane)
        found |= (memsim_mask)1 << rank_of(lane);
    return found;
  }
  MEMSIM_INLINE void sync() const { __syncwarp(lanes); }
  template <class T> MEMSIM_INLINE T shfl(T v, unsigned from) const { return __shfl_sync(lanes, v, lane_of(from % size())); }
  template <class T> MEMSIM_INLINE T shfl_down(T v, unsigned by) const {
    unsigned from = thread_rank() + by;
    return __shfl_sync(lanes, v, from < size() ? lane_of(from) : lane());
  }
  template <class T> MEMSIM_INLINE T shfl_up(T v, unsigned by) const {
    unsigned rank = thread_rank();
    return __shfl_sync(lanes, v, rank >= by ? lane_of(rank - by) : lane());
  }
  MEMSIM_INLINE int any(int vote) const { return __any_sync(lanes, vote); }
  MEMSIM_INLINE int all(int vote) const { return ballot(vote) == ranks(lanes); }
  MEMSIM_INLINE memsim_mask ballot(int vote) const { return ranks(__ballot_sync(lanes, vote)); }
  template <class T> MEMSIM_INLINE memsim_mask match_any(T v) const { return ranks(__match_any_sync(lanes, v)); }
};
MEMSIM_DEVICE coalesced_group coalesced_threads() { return {__activemask()}; }

// Threads of one warp that lie next to each other.
template <unsigned n, class Group = void> struct thread_block_tile : thread_block_tile<n> {};
template <unsigned n> struct thread_block_tile<n, void> {
  MEMSIM_INLINE unsigned thread_rank() const { return thread_block().thread_rank() % n; }
  MEMSIM_INLINE unsigned meta_group_rank() const { return thread_block().thread_rank() / n; }
  MEMSIM_INLINE unsigned meta_group_size() const { return (thread_block().size() + n - 1) / n; }
  MEMSIM_INLINE static constexpr unsigned size() { return n; }
  MEMSIM_INLINE static constexpr unsigned num_threads() { return n; }
  MEMSIM_INLINE unsigned first_lane() const { return thread_block().thread_rank() % MEMSIM_WARP & ~(n - 1); }
  MEMSIM_INLINE memsim_mask mask() const {
    return (n == 8 * sizeof(memsim_mask) ? MEMSIM_ALL : ((memsim_mask)1 << n % (8 * sizeof(memsim_mask))) - 1)
           << first_lane();
  }
  MEMSIM_INLINE void sync() const { __syncwarp(mask()); }
  template <class T> MEMSIM_INLINE T shfl(T v, int from) const { return __shfl_sync(mask(), v, from, n); }
  template <class T> MEMSIM_INLINE T shfl_up(T v, unsigned by) const { return __shfl_up_sync(mask(), v, by, n); }
  template <class T> MEMSIM_INLINE T shfl_down(T v, unsigned by) const { return __shfl_down_sync(mask(), v, by, n); }
  template <class T> MEMSIM_INLINE T shfl_xor(T v, unsigned with) const { return __shfl_xor_sync(mask(), v, with, n); }
  MEMSIM_INLINE int any(int vote) const { return (__ballot_sync(mask(), vote) & mask()) != 0; }
  MEMSIM_INLINE int all(int vote) const { return (__ballot_sync(mask(), !vote) & mask()) == 0; }
  template <class T> MEMSIM_INLINE memsim_mask match_any(T v) const {
    return (__match_any_sync(mask(), v) & mask()) >> first_lane();
  }
  MEMSIM_INLINE memsim_mask ballot(int vote) const { return (__ballot_sync(mask(), vote) & mask()) >> first_lane(); }
};
template <unsigned n, class Group = thread_block> MEMSIM_DEVICE thread_block_tile<n, Group> tiled_partition(const Group &) {
  static_assert(n <= MEMSIM_WARP && (n & (n - 1)) == 0, "a tile is a power of two of at most a warp");
  return {};
}

// Any of these; a tile whose size is a variable.
struct thread_group {
  unsigned n; // threads of a tile, or 0 for the block
  MEMSIM_INLINE thread_group(thread_block) : n(0) {}
  template <unsigned size> MEMSIM_INLINE thread_group(thread_block_tile<size>) : n(size) {}
  MEMSIM_INLINE explicit thread_group(unsigned n) : n(n) {}
  MEMSIM_INLINE unsigned size() const { return n ? n : thread_block().size(); }
  MEMSIM_INLINE unsigned num_threads() const { return size(); }
  MEMSIM_INLINE unsigned thread_rank() const { return thread_block().thread_rank() % size(); }
  MEMSIM_INLINE memsim_mask mask() const {
    memsim_mask low = n >= 8 * sizeof(memsim_mask) ? MEMSIM_ALL : ((memsim_mask)1 << n) - 1;
    return low << (thread_block().thread_rank() % MEMSIM_WARP / n * n);
  }
  MEMSIM_INLINE void sync() const {
    if (n)
      __syncwarp(mask());
    else
      __syncthreads();
  }
  template <class T> MEMSIM_INLINE T shfl(T v, int from) const { return __shfl_sync(mask(), v, from, n); }
  template <class T> MEMSIM_INLINE T shfl_down(T v, unsigned by) const { return __shfl_down_sync(mask(), v, by, n); }
};
template <class Group> MEMSIM_DEVICE thread_group tiled_partition(const Group &, unsigned n) { return thread_group(n); }

template <class T> struct plus {
  MEMSIM_INLINE T operator()(T a, T b) const { return a + b; }
};
template <class T> struct less {
  MEMSIM_INLINE T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T> struct greater {
  MEMSIM_INLINE T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T> struct bit_and {
  MEMSIM_INLINE T operator()(T a, T b) const { return a & b; }
};
template <class T> struct bit_or {
  MEMSIM_INLINE T operator()(T a, T b) const { return a | b; }
};
template <class T> struct bit_xor {
  MEMSIM_INLINE T operator()(T a, T b) const { return a ^ b; }
};
template <unsigned n, class T, class F>
MEMSIM_DEVICE T reduce(const thread_block_tile<n> &tile, T v, F &&combine) {
  for (unsigned by = n / 2; by > 0; by /= 2)
    v = combine(v, tile.shfl_xor(v, by));
  return v;
}
template <class T, class F> MEMSIM_DEVICE T reduce(const coalesced_group &group, T v, F &&combine) {
  T result = group.shfl(v, 0);
  for (unsigned rank = 1; rank < group.size(); ++rank)
    result = combine(result, group.shfl(v, rank));
  return result;
}
template <class Group, class T, class F> MEMSIM_DEVICE T inclusive_scan(const Group &group, T v, F &&combine) {
  for (unsigned by = 1; by < group.size(); by *= 2) {
    T before = group.shfl_up(v, by);
    if (group.thread_rank() >= by)
      v = combine(before, v);
  }
  return v;
}
template <class Group, class T> MEMSIM_DEVICE T inclusive_scan(const Group &group, T v) {
  return inclusive_scan(group, v, plus<T>());
}
// The first thread has T().
template <class Group, class T, class F> MEMSIM_DEVICE T exclusive_scan(const Group &group, T v, F &&combine) {
  T before = group.shfl_up(inclusive_scan(group, v, combine), 1);
  return group.thread_rank() == 0 ? T() : before;
}
template <class Group, class T> MEMSIM_DEVICE T exclusive_scan(const Group &group, T v) {
  return exclusive_scan(group, v, plus<T>());
}
template <class Group, class F> MEMSIM_DEVICE void invoke_one(const Group &group, F &&call) {
  if (group.thread_rank() == 0)
    call();
}
// The threads of a tile, or of those that arrive together, that have the same label.
MEMSIM_DEVICE memsim_mask memsim_lanes(const coalesced_group &group) { return group.lanes; }
template <unsigned n> MEMSIM_DEVICE memsim_mask memsim_lanes(const thread_block_tile<n> &tile) { return tile.mask(); }
template <class Group, class T> MEMSIM_DEVICE coalesced_group labeled_partition(const Group &group, T label) {
  memsim_mask lanes = memsim_lanes(group);
  return {__match_any_sync(lanes, label) & lanes};
}
template <class Group> MEMSIM_DEVICE coalesced_group binary_partition(const Group &group, bool label) {
  memsim_mask lanes = memsim_lanes(group), chosen = __ballot_sync(lanes, label) & lanes;
  return {label ? chosen : lanes & ~chosen};
}
template <class Group> MEMSIM_DEVICE void sync(const Group &group) { group.sync(); }
template <class Group, class T>
MEMSIM_DEVICE void memcpy_async(const Group &group, T *to, const T *from, unsigned long bytes) {
  memsim_copy_by(group.thread_rank(), group.size(), to, from, bytes);
}
template <class Group, class T>
MEMSIM_DEVICE void memcpy_async(const Group &group, T *to, unsigned long room, const T *from, unsigned long n) {
  memcpy_async(group, to, from, (n < room ? n : room) * sizeof(T));
}
template <class Group> MEMSIM_DEVICE void wait(const Group &group) {
  __pipeline_wait_prior(0);
  group.sync();
}
template <unsigned groups, class Group> MEMSIM_DEVICE void wait_prior(const Group &group) { wait(group); }
}
