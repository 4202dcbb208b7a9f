	.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"
	.file	0 "/home/user" "small.cl" md5 0x6ce9594710f9163693c911e17eb95701
row_sums:                               ; @row_sums
.Lfunc_begin0:
	.loc	0 2 0                           ; small.cl:2:0
; %bb.0:
	.loc	0 3 11 prologue_end             ; small.cl:3:11
	s_load_dword s7, s[4:5], 0x10
	v_lshl_add_u32 v0, s6, 6, v0
	.loc	0 4 9                           ; small.cl:4:9
	s_waitcnt lgkmcnt(0)
	v_cmp_gt_i32_e32 vcc, s7, v0
	s_and_saveexec_b64 s[0:1], vcc
	s_cbranch_execz .LBB0_5
; %bb.1:
	.loc	0 3 11                          ; small.cl:3:11
	s_load_dwordx4 s[0:3], s[4:5], 0x0
	.loc	0 7 21                          ; small.cl:7:21
	s_cmp_lt_i32 s7, 1
	v_pk_mov_b32 v[2:3], 0, 0
	s_cbranch_scc1 .LBB0_4
; %bb.2:
	.loc	0 0 21 is_stmt 0                ; small.cl:0:21
	v_mul_lo_u32 v2, v0, s7
	.loc	0 7 3                           ; small.cl:7:3
	v_ashrrev_i32_e32 v3, 31, v2
	v_lshlrev_b64 v[2:3], 3, v[2:3]
	s_waitcnt lgkmcnt(0)
	v_mov_b32_e32 v1, s1
	v_add_co_u32_e32 v4, vcc, s0, v2
	v_addc_co_u32_e32 v5, vcc, v1, v3, vcc
	v_pk_mov_b32 v[2:3], 0, 0
.LBB0_3:                                ; =>This Inner Loop Header: Depth=1
	.loc	0 8 12 is_stmt 1                ; small.cl:8:12
	global_load_dwordx2 v[6:7], v[4:5], off
	.loc	0 7 21                          ; small.cl:7:21
	s_add_i32 s7, s7, -1
	v_add_co_u32_e32 v4, vcc, 8, v4
	v_addc_co_u32_e32 v5, vcc, 0, v5, vcc
	s_cmp_eq_u32 s7, 0
	.loc	0 8 9                           ; small.cl:8:9
	s_waitcnt vmcnt(0)
	v_add_f64 v[2:3], v[2:3], v[6:7]
	s_cbranch_scc0 .LBB0_3
.LBB0_4:
	.loc	0 9 3                           ; small.cl:9:3
	v_ashrrev_i32_e32 v1, 31, v0
	v_lshlrev_b64 v[0:1], 3, v[0:1]
	s_waitcnt lgkmcnt(0)
	v_mov_b32_e32 v4, s3
	v_add_co_u32_e32 v0, vcc, s2, v0
	v_addc_co_u32_e32 v1, vcc, v4, v1, vcc
	.loc	0 9 10 is_stmt 0                ; small.cl:9:10
	global_store_dwordx2 v[0:1], v[2:3], off
.LBB0_5:
	.loc	0 10 1 is_stmt 1                ; small.cl:10:1
	s_endpgm
	.amdhsa_kernel row_sums
		.amdhsa_user_sgpr_private_segment_buffer 1
		.amdhsa_user_sgpr_dispatch_ptr 0
		.amdhsa_user_sgpr_queue_ptr 0
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
	.end_amdhsa_kernel
.Lfunc_end:
reversed:                               ; @reversed
.Lfunc_begin1:
	.loc	0 12 0                          ; small.cl:12:0
; %bb.0:
	.loc	0 14 11 prologue_end            ; small.cl:14:11
	s_load_dwordx4 s[0:3], s[4:5], 0x0
	.loc	0 15 16                         ; small.cl:15:16
	v_lshl_add_u32 v2, s6, 6, v0
	.loc	0 15 13 is_stmt 0               ; small.cl:15:13
	v_mov_b32_e32 v3, 0
	v_lshlrev_b64 v[2:3], 2, v[2:3]
	.loc	0 15 3                          ; small.cl:15:3
	v_lshlrev_b32_e32 v0, 2, v0
	.loc	0 15 13                         ; small.cl:15:13
	s_waitcnt lgkmcnt(0)
	v_mov_b32_e32 v1, s1
	v_add_co_u32_e32 v4, vcc, s0, v2
	v_addc_co_u32_e32 v5, vcc, v1, v3, vcc
	global_load_dword v1, v[4:5], off
	.loc	0 17 27 is_stmt 1               ; small.cl:17:27
	v_sub_u32_e32 v4, 0, v0
	.loc	0 15 11                         ; small.cl:15:11
	s_waitcnt vmcnt(0)
	ds_write_b32 v0, v1
	.loc	0 16 3                          ; small.cl:16:3
	s_waitcnt lgkmcnt(0)
	s_barrier 
	.loc	0 17 27                         ; small.cl:17:27
	ds_read_b32 v4, v4 offset:252
	.loc	0 17 3 is_stmt 0                ; small.cl:17:3
	v_mov_b32_e32 v1, s3
	v_add_co_u32_e32 v0, vcc, s2, v2
	v_addc_co_u32_e32 v1, vcc, v1, v3, vcc
	.loc	0 17 25                         ; small.cl:17:25
	s_waitcnt lgkmcnt(0)
	global_store_dword v[0:1], v4, off
	.loc	0 18 1 is_stmt 1                ; small.cl:18:1
	s_endpgm
	.amdhsa_kernel reversed
		.amdhsa_user_sgpr_private_segment_buffer 1
		.amdhsa_user_sgpr_dispatch_ptr 0
		.amdhsa_user_sgpr_queue_ptr 0
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
	.end_amdhsa_kernel
.Lfunc_end:
	.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .address_space:  global
        .is_const:       true
        .offset:         0
        .size:           8
        .type_name:      'double*'
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         8
        .size:           8
        .type_name:      'double*'
        .value_kind:     global_buffer
      - .offset:         16
        .size:           4
        .type_name:      int
        .value_kind:     by_value
    .group_segment_fixed_size: 0
    .kernarg_segment_align: 8
    .kernarg_segment_size: 20
    .language:       OpenCL C
    .language_version:
      - 2
      - 0
    .max_flat_workgroup_size: 256
    .name:           row_sums
    .private_segment_fixed_size: 0
    .sgpr_count:     10
    .sgpr_spill_count: 0
    .symbol:         row_sums.kd
    .vgpr_count:     8
    .vgpr_spill_count: 0
    .wavefront_size: 64
  - .args:
      - .address_space:  global
        .is_const:       true
        .offset:         0
        .size:           8
        .type_name:      'float*'
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         8
        .size:           8
        .type_name:      'float*'
        .value_kind:     global_buffer
    .group_segment_fixed_size: 256
    .kernarg_segment_align: 8
    .kernarg_segment_size: 16
    .language:       OpenCL C
    .language_version:
      - 2
      - 0
    .max_flat_workgroup_size: 256
    .name:           reversed
    .private_segment_fixed_size: 0
    .sgpr_count:     9
    .sgpr_spill_count: 0
    .symbol:         reversed.kd
    .vgpr_count:     6
    .vgpr_spill_count: 0
    .wavefront_size: 64
	.end_amdgpu_metadata
