"""Verdicts on AMD assembly."""
