/* Merge sort of unsigned keys. A pass merges pairs of sorted runs of `width` keys from source to
 * target; an item finds its part of a pair by binary search along a diagonal of the merge matrix
 * (Green, McColl and Bader, GPU Merge Path, ICS 2012). The last runs may be short, or missing. */

/* Straight from global memory: each item writes `per_item` keys, which divides 2 width. */
__kernel void merge_global(int n, int width, int per_item,
                           __global const uint *restrict source, __global uint *restrict target)
{
    int first = get_global_id(0) * per_item;
    if (first >= n)
        return;
    int begin = first / (2 * width) * (2 * width);
    int middle = min(begin + width, n);
    int end = min(begin + 2 * width, n);
    int diagonal = first - begin;
    int low = max(0, diagonal - (end - middle));
    int high = min(diagonal, middle - begin);
    while (low < high) {
        int half_way = (low + high) / 2;
        uint left = source[begin + half_way];
        uint right = source[middle + diagonal - 1 - half_way];
        if (left <= right)
            low = half_way + 1;
        else
            high = half_way;
    }
    int i = begin + low;
    int j = middle + diagonal - low;
    int stop = min(first + per_item, end);
    uint left = 0, right = 0;
    if (i < middle)
        left = source[i];
    if (j < end)
        right = source[j];
    for (int k = first; k < stop; k++) {
        if (j >= end || (i < middle && left <= right)) {
            target[k] = left;
            i++;
            if (i < middle)
                left = source[i];
        } else {
            target[k] = right;
            j++;
            if (j < end)
                right = source[j];
        }
    }
}

/* Through local memory: a group writes TILE keys, which divides 2 width. It finds where its part of
 * each run begins and ends, copies both parts, and every item merges PER_ITEM keys from there. */
__kernel void merge_local(int n, int width, __global const uint *restrict source, __global uint *restrict target)
{
    __local uint tile[TILE];
    __local int corner[2];
    int item = get_local_id(0);
    int first = get_group_id(0) * TILE;
    int begin = first / (2 * width) * (2 * width);
    int middle = min(begin + width, n);
    int end = min(begin + 2 * width, n);
    int stop = min(first + TILE, end);
    if (item < 2) {
        int diagonal = (item == 0 ? first : stop) - begin;
        int low = max(0, diagonal - (end - middle));
        int high = min(diagonal, middle - begin);
        while (low < high) {
            int half_way = (low + high) / 2;
            uint left = source[begin + half_way];
            uint right = source[middle + diagonal - 1 - half_way];
            if (left <= right)
                low = half_way + 1;
            else
                high = half_way;
        }
        corner[item] = low;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    int a = begin + corner[0];
    int n_a = corner[1] - corner[0];
    int b = middle + (first - begin) - corner[0];
    int n_b = stop - first - n_a;
    for (int k = item; k < n_a + n_b; k += TILE / PER_ITEM) {
        int from = k < n_a ? a + k : b + k - n_a;
        tile[k] = source[from];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    int diagonal = min(item * PER_ITEM, n_a + n_b);
    int low = max(0, diagonal - n_b);
    int high = min(diagonal, n_a);
    while (low < high) {
        int half_way = (low + high) / 2;
        if (tile[half_way] <= tile[n_a + diagonal - 1 - half_way])
            low = half_way + 1;
        else
            high = half_way;
    }
    uint merged[PER_ITEM];
    int i = low, j = n_a + diagonal - low;
    for (int k = 0; k < PER_ITEM; k++) {
        merged[k] = 0;
        if (i < n_a && (j >= n_a + n_b || tile[i] <= tile[j]))
            merged[k] = tile[i++];
        else if (j < n_a + n_b)
            merged[k] = tile[j++];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < PER_ITEM; k++)
        tile[item * PER_ITEM + k] = merged[k];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = item; k < stop - first; k += TILE / PER_ITEM)
        target[first + k] = tile[k];
}

/* Sorts tiles of TILE keys in local memory: the runs that passes begin with. */
__kernel void sort_tiles(int n, __global const uint *restrict source, __global uint *restrict target)
{
    __local uint tile[TILE];
    int item = get_local_id(0);
    int first = get_group_id(0) * TILE;
    for (int k = item; k < TILE; k += TILE / PER_ITEM)
        tile[k] = first + k < n ? source[first + k] : UINT_MAX;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint merged[PER_ITEM];
    for (int width = 1; width < TILE; width *= 2) {
        for (int part = 0; part < PER_ITEM; part++) {
            /* Where key `place` goes: its own place in its run, and how many of the other run go
             * before it; equal keys of the left run go first. */
            int place = item + part * (TILE / PER_ITEM);
            merged[part] = tile[place];
        }
        int goes_to[PER_ITEM];
        for (int part = 0; part < PER_ITEM; part++) {
            int place = item + part * (TILE / PER_ITEM);
            int begin = place / (2 * width) * (2 * width);
            int is_left = place - begin < width;
            int low = is_left ? begin + width : begin;
            int other = low;
            int high = low + width;
            while (low < high) {
                int half_way = (low + high) / 2;
                if (tile[half_way] < merged[part] || (!is_left && tile[half_way] == merged[part]))
                    low = half_way + 1;
                else
                    high = half_way;
            }
            goes_to[part] = begin + (place - begin) % width + low - other;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int part = 0; part < PER_ITEM; part++)
            tile[goes_to[part]] = merged[part];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int k = item; k < TILE && first + k < n; k += TILE / PER_ITEM)
        target[first + k] = tile[k];
}
