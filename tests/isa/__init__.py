"""Tests of titan/isa."""
