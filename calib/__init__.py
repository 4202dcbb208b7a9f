"""Time models of kernels, calibrated against timings."""
