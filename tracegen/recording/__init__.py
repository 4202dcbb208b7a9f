"""From what probed work-items recorded to the accesses of sub-groups."""
