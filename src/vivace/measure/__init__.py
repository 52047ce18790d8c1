"""Records -> numbers: pure functions, no I/O. `samples` -> `estimate`, `row`, `compare`."""
