// The fp64 star stencil of range 4, POINTS_Y x POINTS_Z points of a thread one after another. The pointers
// may alias, so that a compiler cannot move the loads of a point above the store of the one before.
#ifndef POINTS_Y
#define POINTS_Y 1
#define POINTS_Z 1
#endif

extern "C" __global__ void star25_points(
    const double *src, double *dst, const int nx, const int ny, const int nz,
    const int pitch, const int plane, const int first)
{
  const int x = blockDim.x * blockIdx.x + threadIdx.x;
  for (int point_z = 0; point_z < POINTS_Z; ++point_z)
    for (int point_y = 0; point_y < POINTS_Y; ++point_y) {
      const int y = POINTS_Y * (blockDim.y * blockIdx.y + threadIdx.y) + point_y;
      const int z = POINTS_Z * (blockDim.z * blockIdx.z + threadIdx.z) + point_z;
      if (x < nx && y < ny && z < nz) {
        const int at = first + plane * z + pitch * y + x;
        dst[at] = 0.25 * (src[at]
            + src[at - 1] + src[at + 1] + src[at - 2] + src[at + 2]
            + src[at - 3] + src[at + 3] + src[at - 4] + src[at + 4]
            + src[at - pitch] + src[at + pitch] + src[at - 2 * pitch] + src[at + 2 * pitch]
            + src[at - 3 * pitch] + src[at + 3 * pitch] + src[at - 4 * pitch] + src[at + 4 * pitch]
            + src[at - plane] + src[at + plane] + src[at - 2 * plane] + src[at + 2 * plane]
            + src[at - 3 * plane] + src[at + 3 * plane] + src[at - 4 * plane] + src[at + 4 * plane]);
      }
    }
}
