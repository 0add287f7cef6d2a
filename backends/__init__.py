"""The backends: one folder each, and the contract they all keep (kernels.py)."""
