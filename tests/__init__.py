"""The tests of all packages, in folders that mirror them."""
