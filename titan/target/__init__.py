"""What the target is: units, capacities, memories and limits, as data. Import the modules."""
