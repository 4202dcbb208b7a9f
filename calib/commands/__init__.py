"""The commands of calib, one per module. Each is cheap to import, as the group's help loads it."""
