"""The hot loops of the memory hierarchy: caches, partitions, address translation, DRAM."""
