"""What tests of several rooms share: kernels, traces, machines, child processes."""
