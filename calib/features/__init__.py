"""Feature values of kernels: counted, simulated or timed, gathered into tables."""
