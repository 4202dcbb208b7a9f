/* Listing 3 of Baghsorkhi et al. (PPoPP 2012): y = A x in compressed sparse rows, one item a row,
 * four entries a load. A vector is loaded from a multiple of 16 bytes, so the first entries of a row
 * (prologue) and the last ones (epilogue) are loaded one by one. */
__kernel void spmv_vectorised(int n_rows, __global const int *row_start,
                              __global const int *indices, __global const float *values,
                              __global const float *x, __global float *y)
{
    float t = 0;
    int i = get_global_id(0);
    if (i < n_rows) {
        int lb = row_start[i];
        int ub = row_start[i + 1];
        int new_lb = min((lb + 3) / 4 * 4, ub);
        int new_ub = max(ub / 4 * 4, new_lb);
        for (int j = lb; j < new_lb; j++)
            t += values[j] * x[indices[j]];
        for (int j = new_lb; j < new_ub; j += 4) {
            int4 ind = ((__global const int4 *)indices)[j / 4];
            float4 value = ((__global const float4 *)values)[j / 4];
            t += value.x * x[ind.x];
            t += value.y * x[ind.y];
            t += value.z * x[ind.z];
            t += value.w * x[ind.w];
        }
        for (int j = new_ub; j < ub; j++)
            t += values[j] * x[indices[j]];
        y[i] = t;
    }
}
