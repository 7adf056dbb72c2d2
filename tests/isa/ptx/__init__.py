"""Tests of titan/isa/ptx."""
