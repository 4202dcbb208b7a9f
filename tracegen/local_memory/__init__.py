"""Accesses to local memory, which traces leave out: their bank conflicts."""
