"""Rules on races, stale reads, deadlocks, barrier misuse, leaks (TTN2xx): one module a rule."""
