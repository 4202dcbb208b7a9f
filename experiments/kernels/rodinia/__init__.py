"""Rodinia's kernels in Loopy: gaussian, lud, nw, pathfinder.

Source: Che et al., *Rodinia: a benchmark suite for heterogeneous computing* (IISWC 2009). Rodinia
launches as many groups as a step has tiles. Here every step launches as many as the largest one,
because the grid of a Loopy kernel is the same at every step; superfluous groups do nothing.
"""
