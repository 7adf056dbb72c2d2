"""What a kernel computes on tiles: the tile language, its operations and their exact meaning."""
