// Work-items, barriers and fences. Global offsets are 0.
#define ALONG(AXIS, REGISTER, OTHERWISE)                                                           \
  ((AXIS) == 0   ? (uint)__nvvm_read_ptx_sreg_##REGISTER##_x()                                     \
   : (AXIS) == 1 ? (uint)__nvvm_read_ptx_sreg_##REGISTER##_y()                                     \
   : (AXIS) == 2 ? (uint)__nvvm_read_ptx_sreg_##REGISTER##_z()                                     \
                 : (OTHERWISE))

uint OVERLOADED get_work_dim(void) { return 3; }
size_t OVERLOADED get_local_id(uint axis) { return ALONG(axis, tid, 0); }
size_t OVERLOADED get_group_id(uint axis) { return ALONG(axis, ctaid, 0); }
size_t OVERLOADED get_local_size(uint axis) { return ALONG(axis, ntid, 1); }
size_t OVERLOADED get_num_groups(uint axis) { return ALONG(axis, nctaid, 1); }
size_t OVERLOADED get_global_offset(uint axis) { return 0; }
size_t OVERLOADED get_global_size(uint axis)
{
  return ALONG(axis, nctaid, 1) * ALONG(axis, ntid, 1);
}
size_t OVERLOADED get_global_id(uint axis)
{
  return ALONG(axis, ctaid, 0) * ALONG(axis, ntid, 1) + ALONG(axis, tid, 0);
}

void OVERLOADED barrier(cl_mem_fence_flags flags) { __syncthreads(); }
void OVERLOADED mem_fence(cl_mem_fence_flags flags) { __nvvm_membar_cta(); }
void OVERLOADED read_mem_fence(cl_mem_fence_flags flags) { __nvvm_membar_cta(); }
void OVERLOADED write_mem_fence(cl_mem_fence_flags flags) { __nvvm_membar_cta(); }
