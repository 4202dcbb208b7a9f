"""A machine: its parameters, the rules they keep, and the TOML files that hold them."""
