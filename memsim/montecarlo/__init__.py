"""The stochastic replay: one plan, many random orderings, and the result with its intervals."""
