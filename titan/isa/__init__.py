"""What instructions of real machines say: readers of PTX and GCN, and machines that run them."""
