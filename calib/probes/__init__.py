"""A machine's parameters, measured by running small kernels on it (seed 001, section 2.1).

No kernel here reads a clock: latencies come from event times of long dependent chains, the least of
many repeats, for whatever disturbs a chain makes it slower. What a probe cannot tell it says.

`bench` runs chains, `change_points` finds edges in curves, `survey` runs the probes one after the
other, `measured_machine` makes a machine of what they found.
"""
