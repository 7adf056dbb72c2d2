"""Real code: from PTX or TTGIR to a verdict, and to a kernel file."""
