"""Real code: from PTX and a launch to a verdict."""
