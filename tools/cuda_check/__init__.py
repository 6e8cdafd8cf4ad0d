"""What CUDA's compilers make of the sources: see __main__.py."""
