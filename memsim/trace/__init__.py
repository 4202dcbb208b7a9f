"""The trace of a launch: its data model, its file, and how addresses become granules."""
