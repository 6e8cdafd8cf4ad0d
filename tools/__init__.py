"""Tools for developing the package; they are not part of what is installed."""
