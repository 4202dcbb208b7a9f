"""Rodinia's kernels in Loopy: gaussian, lud, nw, pathfinder.

After Che et al., *Rodinia: a benchmark suite for heterogeneous computing* (IISWC 2009). Where Rodinia
launches as many groups as a step has tiles, these launch as many as the largest step has, and the
others find nothing to do: a Loopy kernel's grid is the same at every step.
"""
