"""The time of a kernel from its basic blocks, its replay and the latency hidden factor."""
