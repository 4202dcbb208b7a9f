"""What the authors of ten public code bases measured on their kernels, and what is predicted of the same kernels.

The ten and their findings were written down before the first of them was run. They are of other kinds than those of
`test_public_code.py`.

| repository, commit | kind | what its authors say |
|---|---|---|
| leimao/CUDA-GEMM-Optimization 747e49b418bca18557581969c78333443055fd43 | matrix products | RTX 3090, 4096^3, TFLOPS: not coalesced 0.278, coalesced 1.72, tiled 2.66 (int4: 1.91), 1D thread tiles 8.91 (4.05), 2D 13.0 (15.0), transposed 11.1 (19.7), warp tiles 11.1 (20.2) |
| ENCCS/gpu-programming 87fab1cb29329f6fcf5bf592b96b22ca1c61cec6 | transposes | V100, 4096^2: copy 717 GiB/s, naive 311, through shared memory 674, padded 697 |
| BBuf/how-to-optim-algorithm-in-cuda 10a3a8d243037e2544686eb673fda86fba23143f | sums | A100 PCIe, 2^25 floats, us: 991, 480, 462, 244, 167, 159, 105, 102, 99.7; scalar products of halves with one atomic a thread: 422 ms, in pairs 137 ms |
| KAdamek/SMFFT 7ffca641b111e55fdbe44baea83d045ac5ff5e64 | FFT | V100: 4 GB once through takes 10.4 to 10.8 ms at every length, limited by DRAM; from shared memory 2.04 ms (32 points) to 6.80 ms (4096), reordered 2.43 to 9.47 |
| harrism/mini-nbody 38fda6717eb2f5ae1a4c59e66a1150f5881b7fad | n-body | K20c, each faster than the last: structures, float4, ftz, shared memory, unrolled |
| milakov/int_fastdiv 59b1def21ae94a1f76b57d79fea012de3347f6b4 | integer division | its class divides about twice as fast as `/` |
| NVIDIA-developer-blog/code-samples 72d62ec464442786a36754508bcb1094d197d6a5 | finite differences | K20: tiles 4 wide make the y derivative half as fast as the x derivative; 32 wide it is as fast |
| olcf/cuda-training-series 9cd77d539d85ee3457e09a083ba299b787b7a16e | row and column sums | V100: a thread a row is noticeably slower than a thread a column, a block a row approaches it; transposes: tiles have bank conflicts, padded ones none |
| puzzlef/pagerank-cuda 31c5063e323af0f6dad1a6174e953889418002da | graph | V100 PCIe: a thread a vertex below 64 edges, a block a vertex above |
| ROCm/rocm-examples 7dfb7d402794c33031be2847eaa06ee6732f07cb | histogram, HIP | shuffled thread numbers: no bank conflicts where bytes are counted |
"""
