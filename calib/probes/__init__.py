"""The parameters of a machine, measured by small kernels (Baghsorkhi et al. 2012, section 2.1).

No kernel reads a clock. Latencies come from event times of long chains of dependent loads: the least of
many repeats, because disturbances only make a chain slower. A probe without a result reports why.

`survey` runs the probes one after another, `bench` runs chains, `change_points` finds edges in curves, and
`measured_machine` makes a machine file of the findings.
"""
