"""Machine instructions that a launch executes: how often each, and in which loops of the source."""
