"""What every part stands on: located text, diagnostics, data folders."""
