// One step of an n-body simulation, all pairs, in the way of L. Nyland, M. Harris and J. Prins, Fast N-Body Simulation
// with CUDA, GPU Gems 3 (2007), chapter 31: a thread for each body, and tiles of bodies in shared memory.
#include <cuda_runtime.h>

template <typename Real> struct Body;
template <> struct Body<float> { using Type = float4; };
template <> struct Body<double> { using Type = double4; };

__device__ inline float inverse_root(float x) { return rsqrtf(x); }
__device__ inline double inverse_root(double x) { return rsqrt(x); }

// body : position and mass of each; velocity : of each, and an unused word
template <typename Real, int TILE>
__global__ void step(int n_tiles, const typename Body<Real>::Type* __restrict__ body,
                     typename Body<Real>::Type* moved, typename Body<Real>::Type* velocity, Real softening2, Real dt)
{
    using Type = typename Body<Real>::Type;
    __shared__ Type tile[TILE];
    const int i = blockIdx.x * TILE + threadIdx.x;
    Type own = body[i];
    Real ax = 0, ay = 0, az = 0;
    for (int t = 0; t < n_tiles; ++t) {
        tile[threadIdx.x] = body[t * TILE + threadIdx.x];
        __syncthreads();
#pragma unroll 128
        for (int k = 0; k < TILE; ++k) {
            const Type other = tile[k];
            const Real dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            const Real near = inverse_root(dx * dx + dy * dy + dz * dz + softening2);
            const Real weight = other.w * (near * near * near);
            ax += dx * weight;
            ay += dy * weight;
            az += dz * weight;
        }
        __syncthreads();
    }
    Type v = velocity[i];
    v.x += ax * dt;
    v.y += ay * dt;
    v.z += az * dt;
    own.x += v.x * dt;
    own.y += v.y * dt;
    own.z += v.z * dt;
    moved[i] = own;
    velocity[i] = v;
}
