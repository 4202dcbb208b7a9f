// Copies, transposes and sums as textbooks make them faster step by step.

template <int WIDTH> struct alignas(4 * WIDTH) Several { float value[WIDTH]; };

// A block of TILE x ROWS threads copies a tile of TILE x TILE numbers.
template <int TILE, int ROWS>
__global__ void copied(const float *in, float *out, int n) {
    const int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
    for (int k = 0; k < TILE; k += ROWS) out[(row + k) * n + column] = in[(row + k) * n + column];
}

template <int TILE, int ROWS>
__global__ void naive(const float *in, float *out, int n) {
    const int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
    for (int k = 0; k < TILE; k += ROWS) out[column * n + row + k] = in[(row + k) * n + column];
}

// A block of TILE / WIDTH x ROWS threads; PADDING numbers follow each row of the tile; TRANSPOSES or copies.
template <int TILE, int ROWS, int WIDTH, int PADDING, bool TRANSPOSES>
__global__ void staged(const float *__restrict__ in, float *__restrict__ out, int n) {
    __shared__ float tile[TILE][TILE + PADDING];
    const int first = threadIdx.x * WIDTH, row = threadIdx.y;
    const int from_column = blockIdx.x * TILE, from_row = blockIdx.y * TILE;
    const int to_column = TRANSPOSES ? from_row : from_column, to_row = TRANSPOSES ? from_column : from_row;
#pragma unroll
    for (int k = row; k < row + TILE; k += ROWS) {
        const auto read = *reinterpret_cast<const Several<WIDTH> *>(in + (from_row + k) * n + from_column + first);
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) tile[k][first + i] = read.value[i];
    }
    __syncthreads();
#pragma unroll
    for (int k = row; k < row + TILE; k += ROWS) {
        Several<WIDTH> written;
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) written.value[i] = TRANSPOSES ? tile[first + i][k] : tile[k][first + i];
        *reinterpret_cast<Several<WIDTH> *>(out + (to_row + k) * n + to_column + first) = written;
    }
}

// Sums of each block's numbers. Threads that add: every second, fourth, ... one, then the first half, ...
enum Order { SCATTERED, GATHERED, HALVES };

template <typename T, Order ORDER>
__global__ void added(const T *x, unsigned n, T *sums) {
    extern __shared__ char memory[];
    T *part = reinterpret_cast<T *>(memory);
    const unsigned me = threadIdx.x, at = blockIdx.x * blockDim.x + me;
    part[me] = at < n ? x[at] : T(0);
    __syncthreads();
    if constexpr (ORDER == HALVES) {
        for (unsigned apart = blockDim.x / 2; apart > 0; apart /= 2) {
            if (me < apart) part[me] += part[me + apart];
            __syncthreads();
        }
    } else {
        for (unsigned apart = 1; apart < blockDim.x; apart *= 2) {
            if constexpr (ORDER == SCATTERED) {
                if (me % (2 * apart) == 0) part[me] += part[me + apart];
            } else {
                const unsigned mine = 2 * apart * me;
                if (mine < blockDim.x) part[mine] += part[mine + apart];
            }
            __syncthreads();
        }
    }
    if (me == 0) sums[blockIdx.x] = part[0];
}

// Each thread begins with two numbers. The last sub-group needs no barriers; UNROLLED: nor is there a loop.
template <typename T, bool LAST_ALONE, bool UNROLLED>
__global__ void added_twice(const T *x, unsigned n, T *sums) {
    extern __shared__ char memory[];
    T *part = reinterpret_cast<T *>(memory);
    const unsigned me = threadIdx.x, at = blockIdx.x * blockDim.x * 2 + me;
    part[me] = at < n ? x[at] : T(0);
    part[me] += at + blockDim.x < n ? x[at + blockDim.x] : T(0);
    __syncthreads();
    if constexpr (UNROLLED) {
#pragma unroll
        for (unsigned apart = 512; apart > 32; apart /= 2) {
            if (blockDim.x > apart) {
                if (me < apart) part[me] += part[me + apart];
                __syncthreads();
            }
        }
    } else {
        for (unsigned apart = blockDim.x / 2; apart > (LAST_ALONE ? 32 : 0); apart /= 2) {
            if (me < apart) part[me] += part[me + apart];
            __syncthreads();
        }
    }
    if (LAST_ALONE && me < 32) {
        volatile T *mine = part + me;
#pragma unroll
        for (unsigned apart = 32; apart > 0; apart /= 2) mine[0] = mine[0] + mine[apart];
    }
    if (me == 0) sums[blockIdx.x] = part[0];
}
