"""The second engine: every execution enumerated, without a solver and without the first engine."""
