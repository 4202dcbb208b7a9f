// Plain kernels of applications, a few lines each, with the groups of those that sarchlab/mgpusim timed on an MI300A.

__global__ void added(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ sum, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[i] = a[i] + b[i];
}

__global__ void rectified(const float *x, float *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] > 0 ? x[i] : 0;
}

// 16 x 16 threads move 64 x 64 numbers, each four rows of four; tiles of a diagonal are worked on together.
__global__ void transposed(const float4 *__restrict__ x, float4 *__restrict__ out, unsigned row) {
    __shared__ float4 tile[64][16];
    const unsigned across = threadIdx.x, down = threadIdx.y;
    const unsigned tile_row = blockIdx.x, tile_column = (blockIdx.x + blockIdx.y) % gridDim.x;
    const float4 *from = x + (tile_row * 16 + down) * row * 4 + tile_column * 16 + across;
    for (unsigned k = 0; k < 4; ++k) tile[down * 4 + k][across] = from[k * row];
    __syncthreads();
    float4 *to = out + (tile_column * 16 + down) * row * 4 + tile_row * 16 + across;
    const float4 a = tile[across * 4][down], b = tile[across * 4 + 1][down];
    const float4 c = tile[across * 4 + 2][down], d = tile[across * 4 + 3][down];
    to[0] = make_float4(a.x, b.x, c.x, d.x);
    to[row] = make_float4(a.y, b.y, c.y, d.y);
    to[2 * row] = make_float4(a.z, b.z, c.z, d.z);
    to[3 * row] = make_float4(a.w, b.w, c.w, d.w);
}

__global__ void convolved(unsigned *image, float *mask, int *out, unsigned width, unsigned height, unsigned side) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, x = i % width, y = i / width;
    if (x >= width || y >= height) return;
    float sum = 0;
    for (unsigned j = 0; j < side; ++j)
        for (unsigned k = 0; k < side; ++k)
            sum += (float)image[(y + j) * (width + side - 1) + x + k] * mask[j * side + k];
    out[i] = (int)(sum + 0.5f);
}

__global__ void filtered(float *out, float *weights, float *x, float *before, unsigned taps) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (unsigned k = 0; k < taps; ++k) sum += weights[k] * (i >= k ? x[i - k] : before[taps - (k - i)]);
    out[i] = sum;
}

// 64 threads smooth 16 rows of 64 points, with the eight neighbours of each.
__global__ void smoothed(float *x, float *out, int row, float centre, float beside, float diagonal) {
    __shared__ float tile[18][66];
    const int column = threadIdx.y, first = blockIdx.x * 16, at = blockIdx.y * 64 + column + 1;
    for (int k = 0; k < 18; ++k) tile[k][column + 1] = x[(first + k) * row + at];
    if (column == 0)
        for (int k = 0; k < 18; ++k) tile[k][0] = x[(first + k) * row + at - 1];
    else if (column == 63)
        for (int k = 0; k < 18; ++k) tile[k][65] = x[(first + k) * row + at + 1];
    __syncthreads();
    for (int k = 1; k < 17; ++k) {
        const float *above = tile[k - 1] + column, *here = tile[k] + column, *below = tile[k + 1] + column;
        out[(first + k) * row + at] = centre * here[1] + beside * (above[1] + below[1] + here[0] + here[2]) +
                                      diagonal * (above[0] + above[2] + below[0] + below[2]);
    }
}

__global__ void nearest(float *points, float *centres, int *chosen, int n, int n_centre, int n_feature) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int best = 0;
    float least = 3.4e38f;
    for (int c = 0; c < n_centre; ++c) {
        float distance = 0;
        for (int f = 0; f < n_feature; ++f) {
            const float apart = points[f * n + i] - centres[c * n_feature + f];
            distance += apart * apart;
        }
        if (distance < least) {
            least = distance;
            best = c;
        }
    }
    chosen[i] = best;
}

__global__ void multiplied(const float *__restrict__ values, const float *__restrict__ x, const int *__restrict__ columns,
                           const int *__restrict__ starts, int n, float *__restrict__ out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = starts[i]; k < starts[i + 1]; ++k) sum += values[k] * x[columns[k]];
    out[i] = sum;
}

// The patch of side x side pixels below each pixel, as a column of a matrix; written for any step, gap and border.
__global__ void unfolded(float *image, float *out, uint2 size, uint2 side, uint2 step, uint2 border, uint2 gap,
                         unsigned n_channel, unsigned n_image) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const int width = size.x, height = size.y, mask_width = side.x, mask = side.x * side.y;
    const int across = (size.x - ((side.x - 1) * gap.x + 1) + 2 * border.x) / step.x + 1;
    const int down = (size.y - ((side.y - 1) * gap.y + 1) + 2 * border.y) / step.y + 1;
    const int which = i / (across * down), patch = i % (across * down), column = patch % across, row = patch / across;
    if (which >= (int)n_image) return;
    for (int k = 0; k < mask * (int)n_channel; ++k) {
        const int channel = k / mask;
        const int x = column * step.x - border.x + gap.x * (k % mask_width);
        const int y = row * step.y - border.y + gap.y * (k % mask / mask_width);
        float pixel = 0;
        if (x >= 0 && y >= 0 && x < width && y < height) pixel = image[((which * n_channel + channel) * height + y) * width + x];
        out[k * (across * down * (int)n_image) + i] = pixel;
    }
}

// All groups stage the same bodies in global memory.
__global__ void moved(float4 *at, float4 *velocity, int n, float seconds, float softening, float4 *staged, float4 *to, float4 *faster) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 here = at[i], before = velocity[i];
    float3 pull = make_float3(0, 0, 0);
    for (int first = 0; first < n; first += blockDim.x) {
        staged[threadIdx.x] = at[first + threadIdx.x];
        __syncthreads();
        for (unsigned j = 0; j < blockDim.x; ++j) {
            const float x = staged[j].x - here.x, y = staged[j].y - here.y, z = staged[j].z - here.z;
            const float inverse = 1.0f / sqrtf(x * x + y * y + z * z + softening);
            const float weight = staged[j].w * inverse * inverse * inverse;
            pull.x += weight * x;
            pull.y += weight * y;
            pull.z += weight * z;
        }
        __syncthreads();
    }
    const float half = 0.5f * seconds * seconds;
    to[i] = make_float4(here.x + before.x * seconds + pull.x * half, here.y + before.y * seconds + pull.y * half,
                        here.z + before.z * seconds + pull.z * half, here.w);
    faster[i] = make_float4(before.x + pull.x * seconds, before.y + pull.y * seconds, before.z + pull.z * seconds, before.w);
}
