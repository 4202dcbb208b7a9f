"""Small whole files of other tools, which tests damage: Accel-Sim, PPT-GPU, CSV, counters, GPGPU-Sim."""

from __future__ import annotations

ACCEL_SIM = """\
-kernel name = k
-grid dim = (2,1,1)
-block dim = (64,1,1)
-shmem = 0
-nregs = 8
-accelsim tracer version = 3
#traces format = ...
#BEGIN_TB
thread block = 0,0,0
warp = 0
insts = 3
0000 ffffffff 1 R4 LDG.E 1 R2 4 1 0x7000 4
0010 0000000f 1 R4 LDG.E.64 1 R4 8 2 0x7000 8 8 -64
0020 ffffffff 0 BAR.SYNC 1 R255 0
warp = 1
insts = 1
0030 00000003 0 STG.E 2 R2 R4 4 0 0x7000 0x7100
#END_TB
#BEGIN_TB
thread block = 1,0,0
warp = 0
insts = 0
#END_TB
"""
CSV = """\
# kernel = gather
# subgroup_size = 32
group,subgroup,site,direction,bytes,mask,addresses
0,0,a[i],load,4,ffffffff,0x1000+4
0,0,,barrier,,,
0,1,b[i],store,8,3,4096 0x2000
1,0,c,atomic,4,,64 64 96
"""
PPT_GPU = """\
LDG.E.SYS 7f0000 7f0004 0x7f0100
=====
STG.E.64 7f0000 7f0004
=====
LDL 1000
"""
NSIGHT_LEAD = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC"'
NSIGHT_RAW = f"""\
==PROF== Connected to process 4711 (/usr/bin/app)
the program's own "output
{NSIGHT_LEAD},"dram__bytes_read.sum","gpu__time_duration.sum","lts__t_sectors_op_read.sum","l1tex__t_sector_hit_rate.pct"
"","","","","","","","","","","","Mbyte","nsecond","Ksector","%"
"0","4711","app","host","void spmv<double>(int const *, double *)","1","7","(128, 1, 1)","(512, 1, 1)","0","7.0","1,234.5","117,344","2,000.25","65.77"
"1","4711","app","host","void spmv<double>(int const *, double *)","1","7","(128, 1, 1)","(512, 1, 1)","0","7.0","1.5","9","n/a","0"
"""
NSIGHT_DETAILS = f"""\
{NSIGHT_LEAD},"Section Name","Metric Name","Metric Unit","Metric Value","Rule Name"
"0","1","app","host","k","1","7","(128, 1, 1)","(8, 2, 1)","0","7.0","Command line profiler metrics","dram__bytes_read.sum","byte","1,024",""
"0","1","app","host","k","1","7","(128, 1, 1)","(8, 2, 1)","0","7.0","Memory Workload Analysis","L2 Hit Rate","%","83.25",""
"0","1","app","host","k","1","7","(128, 1, 1)","(8, 2, 1)","0","7.0","Occupancy","","","",""
"0","1","app","host","k","1","7","(128, 1, 1)","(8, 2, 1)","0","7.0","Speed Of Light","Duration","nsecond","fast",""
"""
NSIGHT_SOURCE = """\
"Kernel Name","spmv"
"File Path","/home/u/spmv.cu"
"Line No","Address","Source","# Samples","Instructions Executed","L1 Tag Requests Global","L2 Theoretical Sectors Global","L2 Theoretical Sectors Global Ideal"
"11","","double a = val[j];","7","4,096","2048","57344","16384"
"","0x7f00","LDG.E.64 R2, [R4]","7","2048","2048","57344","16384"
"12","-","}","0","0","0","0","0"
"""
ROCPROF_1 = """\
Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,wave_size,sig,obj,FetchSize,L2CacheHit,TCC_HIT[0],TCC_HIT[1],VALUBusy,DispatchNs,BeginNs,EndNs,CompleteNs
0,"laplacian(double*, double const*, int) [clone .kd]",0,0,0,7,7,65536,256,0,0,20,4,16,64,0x0,0x7f2b4d282500,2048.5,81.25,100,28,99,1,2,3,4
1,"laplacian(double*, double const*, int) [clone .kd]",0,0,0,7,7,65536,256,0,0,20,4,16,64,0x0,0x7f2b4d282500,2047.5,81.75,101,29,99,5,6,7,8
"""
ROCPROF_2 = """\
Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Kernel_Name,Start_Timestamp,End_Timestamp,TCC_MISS_sum
3,0,1,7,7,1000,256,0,"laplacian.kd",1,2,77
"""
ROCPROF_3 = """\
"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id","Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"
1,1,"Agent 5",1,20,20,128,9,"laplacian(double*)",128,0,0,64,0,80,"TCC_EA0_RDREQ_sum",10,1000,1100
1,1,"Agent 5",1,20,20,128,9,"laplacian(double*)",128,0,0,64,0,80,"TCC_HIT",2,1000,1100
1,1,"Agent 5",1,20,20,128,9,"laplacian(double*)",128,0,0,64,0,80,"TCC_HIT",3.000000,1000,1100
1,1,"Agent 5",1,20,20,128,9,"laplacian(double*)",128,0,0,64,0,80,"SQ_WAVES",2,1000,1100
2,2,"Agent 5",1,20,20,256,9,"other",128,0,0,64,0,80,"WRITE_SIZE",2.48342814e-02,1000,1100
"""
GPGPUSIM = """\
-gpgpu_n_clusters 46
-gpgpu_n_mem 16
-gpgpu_n_sub_partition_per_mchannel 2 # slices
-gpgpu_clock_domains 1320.0:1320.0:1320.0:3500.0
-gpgpu_shader_registers 65536
-gpgpu_shader_core_pipeline 1024:32
-gpgpu_shader_cta 32
-gpgpu_coalesce_arch 75
-gpgpu_cache:dl1 S:4:128:64,L:T:m:L:L,A:256:32,16:0,32
-gpgpu_l1_latency 20
-gpgpu_shmem_size 65536
-gpgpu_cache:dl2 S:64:128:16,L:B:m:L:P,A:192:4,32:0,32
-gpgpu_l2_rop_latency 160
-dram_latency 100
-gpgpu_dram_buswidth 2
-gpgpu_dram_burst_length 16
-gpgpu_mem_addr_mapping dramid@8;00000000.00000000.00000000.00000000.0000RRRR.RRRRRRRR.RBBBCCCC.BCCSSSSS
-gpgpu_dram_timing_opt "nbk=16:CCD=1:RCD=20:RP=20:
                        CL=20:WL=8"
"""
