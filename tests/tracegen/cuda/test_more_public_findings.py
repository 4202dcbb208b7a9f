"""What the authors of ten more public code bases measured on their kernels, and what is predicted of the same kernels.

The ten, their findings and how each is judged were written down before the first of them was compiled. None is among those of
`test_public_code.py` and `test_public_findings.py`. MEMSIM_SUITES names a folder that contains the checked-out repositories.

| repository, commit | kind | what its authors say |
|---|---|---|
| simveit/effective_scan e21df5e0e268287966b2272f20d7d92353d83e0d | prefix sums of blocks | H100, 2^30 integers, GB/s: 824, 1289, 1617, 1976, 3057 |
| simveit/effective_transpose 994b2b5acaa67f80e411df3e8274b6ae13fd1949 | transposes by bulk copies (TMA) | H100, 32768^2, GB/s: naive 875, swizzled 1252, swizzled and eight elements a thread 2771 |
| R100001/Programming-Massively-Parallel-Processors a972fb50d5d8695844ab3d5621e3ec54c2388367 | convolutions | RTX 3080, 8192^2, masks of 3, 5, 7, 11, ms: global memory 1.57, 2.80, 4.72, 10.07; mask in constant memory 1.66, 2.52, 4.35, 9.38; tiles 1.76, 2.56, 4.49, 15.24; tiles of 2^26 numbers in blocks of 32, 64, 128, 512, 1024: 2.34, 1.25, 1.15, 1.25, 2.33 |
| ProjectPhysX/FluidX3D 8986874e626e0aebd317ab16c420b39e30dfa273 | lattice Boltzmann, OpenCL C | 256^3 cells, million a second in single (half) precision: A100 SXM4 80 GB 10228 (18448), V100 PCIe 5128 (10325), H100 SXM5 17602 (29561), MI210 6517 (9547), RX 7900 XTX 3665 (7644), T4 1356 (2869) |
| amd/HPCTrainingExamples aaaa72d4dca9a9c3587be883deaf2d0f109fcbfb | y A x, HIP | MI210, 32768^2 doubles: a thread a row 70 ms, of requests L1 has 0 % and L2 93.5 %; a thread a column 12.4 ms, L1 50 %; a block a row 7.7 ms; 64 KB of LDS a block 140 ms, 2 KB 50 ms |
| cihangirtezcan/CUDA_AES 74872788f29a881e35a0cf5f61df1d4d0df94bb8 | AES in counter mode | RTX 2070 Super (the chip of a T4, with as many cores): 878.6 Gbit/s, no bank conflicts |
| Liu-xiandong/How_to_optimize_in_GPU 5d2def3e082c4e1364c3ade54451b7b9d1d6f044 | matrix times vector, additions | V100: 16384 rows of 32, 128, 16 columns in 10.34, 14.28, 6.90 us; additions of 2^25 numbers 827, as float2 838, float4 844 GB/s |
| NVIDIA/ising-gpu 39ed987763d801d50fccceb27bd2f0efb8f016ad | Monte Carlo of spins, 4 bits each | flips a ns and GPU, on two: V100 383, A100 521, H100 900 |
| linkedin/Liger-Kernel ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c | norms, Triton | RTX 3090, softmax of 2048 rows of 1024, 2048, 4096 floats 21.5, 41.0, 79.9 us, of bfloat16 13.3, 22.5, 41.0; H100, layer norm of 4096 rows of 4096 floats 51.0, of 16384 184.8 us (some of an older version) |
| yencal/gpu-histogram-optimization b71f5c0444b70f7ce464e778a9cb7bd9f20e4118 | histograms of bytes | H100, 2^30 bytes, 256 bins: atomics in global memory 276 ms, in shared 1.53, 16 bytes a load 0.47 |

Judged so: times and rates within 30 % (additions 10 %, global atomics a factor of 1.5); where the authors say a sequence, its order,
too (of steps that differ by more than a tenth); hit rates within 4 points; bank conflicts by the notes of the trace. Sizes here may
be smaller where arrays remain many times larger than L2, which changes no rate. The RTX 2070 Super is a T4 at 1770 MHz.
"""
