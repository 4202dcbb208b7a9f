"""Machine code run on this processor: micro-operations, their interpreter, and what it records."""
