"""How verdicts are told. Import the modules, not this package."""
