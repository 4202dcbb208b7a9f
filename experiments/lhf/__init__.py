"""The latency hidden factor (Yuan et al. 2010): its paper's figures, and times measured elsewhere."""
