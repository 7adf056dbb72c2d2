"""When and on which warps each operation runs; schedulers, and the checker that trusts none."""
