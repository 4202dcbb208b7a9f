"""PolyBench's kernels as its GPU port launches them: one work-item an entry, row or column.

After Grauer-Gray et al., *Auto-tuning a high-level language targeted to GPU codes* (InPar 2012).
What that port's host code loops over, the kernels' host code loops over here: LU, Gram-Schmidt and
doitgen are one workload of many launches, each with the same grid.
"""
