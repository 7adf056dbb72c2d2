"""What users write and what becomes of it: kernels, protocols, their lowering to sync programs."""
