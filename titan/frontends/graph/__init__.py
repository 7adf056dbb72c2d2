"""From the loop of a TTGIR kernel to a loop for the schedulers."""
