// f = the 7-point Laplacian of u in double precision, TILE points along y in each work-item.
//
// ORDER 0: every point loads its neighbours; TILE must be 1
// ORDER 1: point after point, with the values above and below kept for the next one
// ORDER 2: the plane below, then the points' own plane, then the plane above
// GX, GY, GZ : axes of the grid of groups that run along x, y and z;  FIRST_Y : where y begins

#ifndef FIRST_Y
#define FIRST_Y 0
#endif
#ifdef NONTEMPORAL
#define STORE(place, value) __builtin_nontemporal_store(value, &place)
#else
#define STORE(place, value) place = value
#endif

__kernel void laplacian(
    __global double *f, __global const double *u, const int nx, const int ny, const int nz,
    const double along_x, const double along_y, const double along_z, const double centre)
{
  const int i = get_local_id(0) + get_group_id(GX) * get_local_size(0);
  const int j = FIRST_Y + TILE * (get_local_id(1) + get_group_id(GY) * get_local_size(1));
  const int k = get_local_id(2) + get_group_id(GZ) * get_local_size(2);
  if (i == 0 || i >= nx - 1 || k == 0 || k >= nz - 1)
    return;
#if ORDER == 0
  if (j == 0 || j >= ny - 1)
    return;
#endif

  const int plane = nx * ny;
  const ulong at = i + nx * j + plane * k;

#if ORDER == 0
  const double sum = u[at] * centre + (u[at - 1] + u[at + 1]) * along_x
        + (u[at - nx] + u[at + nx]) * along_y + (u[at - plane] + u[at + plane]) * along_z;
  STORE(f[at], sum);
#else
  double sum[TILE];
  double own;
  for (int n = 0; n < TILE; ++n)
    sum[n] = 0;

#if ORDER == 1
  for (int n = 0; n < TILE; ++n) {
    own = u[at + n * nx];
    sum[n] += own * centre + (u[at - 1 + n * nx] + u[at + 1 + n * nx]) * along_x;
    if (n == 0)
      sum[n] += u[at - nx + n * nx] * along_y;
    if (n > 0)
      sum[n - 1] += own * along_y;
    if (n < TILE - 1)
      sum[n + 1] += own * along_y;
    if (n == TILE - 1)
      sum[n] += u[at + nx + n * nx] * along_y;
    sum[n] += (u[at - plane + n * nx] + u[at + plane + n * nx]) * along_z;
  }
#else
  for (int n = 0; n < TILE; ++n)
    sum[n] += u[at - plane + n * nx] * along_z;
  sum[0] += j > 0 ? u[at - nx] * along_y : 0;
  for (int n = 0; n < TILE; ++n) {
    sum[n] += u[at - 1 + n * nx] * along_x;
    own = u[at + n * nx];
    sum[n] += own * centre;
    sum[n] += u[at + 1 + n * nx] * along_x;
    if (n > 0)
      sum[n - 1] += own * along_y;
    if (n < TILE - 1)
      sum[n + 1] += own * along_y;
  }
  sum[TILE - 1] += j < ny - TILE ? u[at + TILE * nx] * along_y : 0;
  for (int n = 0; n < TILE; ++n)
    sum[n] += u[at + plane + n * nx] * along_z;
#endif

  for (int n = 0; n < TILE; ++n)
    if (j + n > 0 && j + n < ny - 1)
      STORE(f[at + n * nx], sum[n]);
#endif
}
