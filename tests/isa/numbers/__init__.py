"""Tests of titan/isa/numbers."""
