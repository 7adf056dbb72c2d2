"""One thread of a PTX kernel: its text, and the integer part of it run alone."""
