"""From a scheduled tile program to a pipeline that can be verified."""
