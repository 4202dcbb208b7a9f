"""The readable twin of a trial: the same replay in plain Python, as its specification."""
