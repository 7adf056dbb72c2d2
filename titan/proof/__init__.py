"""Certificates of verdicts: what writes them is untrusted, what checks them is small."""
