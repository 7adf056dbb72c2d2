"""Where text came from: sources, spans and the located YAML tree.

Import the modules, not this package.
"""
