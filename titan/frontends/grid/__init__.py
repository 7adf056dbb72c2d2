"""What the CTAs of a launch do to global memory: races, and what one hands over to another."""
