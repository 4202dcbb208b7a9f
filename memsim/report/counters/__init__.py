"""A replay counted as the vendors' profilers count, and beside what they measured."""
