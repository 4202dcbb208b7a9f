"""The 128 bytes of a tensor map (CUDA's CUtensorMap), which tells NVIDIA's unit for bulk copies where a tensor lies.

The places of its fields are those of the stores that ptxas 12.9 makes of PTX's `tensormap.replace` for sm_90a and sm_100a. Along the
axes, the first of which is the fastest, numbers of elements are stored less 1, and distances in units of 16 bytes.
"""

from __future__ import annotations

MAP_BYTES, MOST_AXES, UNIT_BYTES = 128, 5, 16
ADDRESS = 0
"""64 bits."""
FORM = 8
"""A word: from bit RANK on the number of axes less 1 (3 bits), from TYPE on that of the elements' type (4), from INTERLEAVE on 0 for
none (2), from SWIZZLE on log2 of the bytes / 16 within which parts of 16 bytes change places, 0 for none (2), and at FILL whether what is
out of bounds is not a number instead of 0."""
RANK, TYPE, INTERLEAVE, SWIZZLE, FILL = 4, 7, 11, 13, 15
DISTANCES, HIGH_DISTANCES = 12, 28
"""4 words: bits 0 to 31 of the distances between rows, planes, ...; and 4 bits each that lie above."""
SIZES = 32
"""5 words: elements of the tensor."""
STEPS = 52
"""5 fields of 3 bits: of so many elements along an axis one is copied."""
BOX = 55
"""5 bytes: elements that a copy spans."""
TYPES = ["u1", "u2", "u4", "i4", "u8", "i8", "f2", "f4", "f4", "f8", "bfloat16", "f4", "f4"]
"""By number: what numpy calls them. 8 is float32 whose subnormal numbers count as 0; 11 and 12 are TF32 likewise."""
TYPE_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4, 0, 0, 0)
HALF, BFLOAT16 = 6, 10
