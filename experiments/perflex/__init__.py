"""Seed 000, Perflex and UIPiCK: its tables and figures on the device that is there."""
