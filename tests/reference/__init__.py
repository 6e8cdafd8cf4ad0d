"""Naive float64 references in NumPy. They share no code with the package, on purpose."""
