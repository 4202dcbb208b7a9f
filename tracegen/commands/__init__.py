"""The commands trace, profile and doctor."""
