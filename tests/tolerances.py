"""Every number the tests compare with, once, each with the reason for its size.

A test never writes a tolerance of its own; if one of these is too tight, the operator is wrong
or the reason below is, and the reason is what has to change first.
"""

import numpy as np

# Central differences in fp64. The operators are linear in each single coordinate between kinks
# (deform_conv2d) or smooth with |f'''| < 0.2 (cross entropy), so the truncation error is at most
# delta^2 / 6 * 0.2 < 1e-11, and the rounding error eps * |f| / delta is about 1e-10 for outputs
# of order 10. A fault as small as one part in a million of a gradient shows. (Paddle allowed 5e-3
# and a wrong pos_weight gradient of 5e-4 lived there for years.)
NUMERIC_DELTA = 1e-5
FP64_GRAD = 1e-6

# An element much smaller than the largest one is compared with this share of the largest: its
# own finite difference has no more digits than that (1e-10 absolute against FP64_GRAD).
FP64_GRAD_FLOOR = 1e-3

# fp64 against the fp64 reference: a few hundred terms, added in another order, cost
# sqrt(300) * 2^-53 ~ 2e-15; two decimal digits of reserve for long sums with cancellation.
FP64_VALUE = 1e-12

# fp32 against the fp64 reference, ||got - ref|| / ||ref||, whatever the reduction length. 2^-24
# is 6e-8: a blocked or pairwise sum stays near it, a single running fp32 sum over 1e5 terms of
# one sign reaches 1e-5 and must fail.
FP32_NORM = 2e-6

# fp32, one element, in units of the largest element: an output is a sum whose terms are as large
# as the largest output, so cancellation can cost a single element more than the norm shows.
FP32_ELEMENT = 1e-5

# Half types: at most one unit in the last place from the correctly rounded value ...
HALF_ULPS = 1
# ... where the fp32 arithmetic inside decides a value that cancels to almost nothing, an error
# of FP32_NORM in units of the largest element is fp32's own and not the rounding's.
HALF_CANCELLATION = FP32_NORM

# Elementary functions in fp32 (exp, log1p): 2 ulp each, three of them in a row.
FP32_ELEMENTARY = 5e-7

# Published vectors are decimal numbers with at least six significant digits.
PUBLISHED = 2e-6

# Other libraries in fp32 have their own rounding beside ours: twice FP32_ELEMENT.
PEER = 2e-5

# A model exported to ONNX, in units of the largest element: ONNX Runtime sums in float32 in an
# order of its own, which costs what it costs our own results.
ONNX = FP32_ELEMENT


def default_output(dtype):
    """(atol, rtol) of check_output for a NumPy dtype; uint16 stands for bfloat16."""
    dtype = np.dtype(dtype)
    if dtype == np.float64:
        return FP64_VALUE, FP64_VALUE
    if dtype == np.float32:
        return FP32_ELEMENT, FP32_ELEMENT
    if dtype == np.float16:  # half an ulp to round, one to be off: 2^-11 + 2^-10
        return 1e-5, 1.5e-3
    if dtype == np.uint16:  # 2^-9 + 2^-8
        return 1e-5, 1.2e-2
    return 0.0, 0.0


def default_grad(dtype):
    """(max_relative_error, floor) of check_grad: error in units of max(|a|, floor * max|a|)."""
    dtype = np.dtype(dtype)
    if dtype == np.float64:
        return FP64_GRAD, FP64_GRAD_FLOOR
    if dtype == np.float32:
        return FP32_ELEMENT, 1.0
    if dtype == np.float16:
        return 1.5e-3, 1e-2
    return 1.2e-2, 1e-2
