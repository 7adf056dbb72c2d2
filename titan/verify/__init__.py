"""From kernel files to verdicts. Import the modules, not this package."""
