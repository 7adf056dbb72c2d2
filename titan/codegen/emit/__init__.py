"""From a verified sync program and its tile operations to source text of one target."""
