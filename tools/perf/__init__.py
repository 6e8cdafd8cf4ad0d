"""Times the operators beside other libraries that have them: python -m tools.perf --help."""
