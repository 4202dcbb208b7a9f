"""The commands replay, machines, compare and export, and what the commands of all packages share."""
