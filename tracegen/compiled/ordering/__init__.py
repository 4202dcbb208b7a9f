"""The accesses of a trace in the order of the machine's instructions."""
