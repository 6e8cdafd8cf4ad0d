"""Checks the CUDA kernels on a real GPU, then times them: python -m tools.gpu_check --help.

Needs nvcc, pybind11 and a CUDA build of PyTorch, which holds the arrays and, with torchvision, is
what the kernels are compared with; no Paddle. What is expected comes from the CPU's kernels in
float64.
"""
