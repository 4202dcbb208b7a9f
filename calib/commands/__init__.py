"""The commands of calib, one a module; each is cheap to import, for the group's help loads it."""
