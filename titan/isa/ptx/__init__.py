"""PTX modules: the parser, and the module as data."""
