"""The kernel language: what the user wrote, as a protocol or a sync program. Import the modules."""
