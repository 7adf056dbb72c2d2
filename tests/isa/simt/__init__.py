"""Tests of titan/isa/simt."""
