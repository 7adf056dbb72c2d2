"""How verdicts are rendered. Import the modules, not this package."""
