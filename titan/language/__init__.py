"""What a user writes and what it becomes: kernels, protocols, their lowering to sync programs."""
