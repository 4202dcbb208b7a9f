"""Models of time as expressions of features, and their calibration."""
