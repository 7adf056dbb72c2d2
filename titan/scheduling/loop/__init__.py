"""What is computed: operations, dependences and bounds on the initiation interval."""
