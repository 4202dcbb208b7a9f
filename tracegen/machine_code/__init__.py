"""Machine code as data, lowered to micro-operations, and bound to its arguments."""
