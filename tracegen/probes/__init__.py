"""What all tracers share: a kernel's probes as data, and the contract of a launch."""
