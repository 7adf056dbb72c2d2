"""What is ordered in every run? The happens-before engine: decides a program from one run of it."""
