"""Is every access through another proxy justified? The proxy-effect graph and the fewest fences."""
