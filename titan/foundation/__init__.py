"""What every part rests on: located text, diagnostics, data folders."""
