"""A caller of the raw operators is checked, too: an error, no crash and no foreign memory.

Each list runs in one child process, so that a crash is a failed test here and not its end.
"""

import child

PREAMBLE = """
import numpy as np, paddle, paddle_ops, raw
def f(*shape, dtype="float32"):
    return paddle.zeros(list(shape), dtype=dtype)
def refused(name, call):
    print("trying", name, flush=True)
    try:
        out = call()
        if hasattr(out, "numpy"):
            out.numpy()
    except Exception as error:
        text = str(error)
        print("refused", name, "named" if WORD in text and "expected" in text else text, flush=True)
        return
    print("ACCEPTED", name, flush=True)
def train(call, needs):
    # forward may ignore a list of flags that only backward reads
    for tensor in good.values():
        if hasattr(tensor, "numpy"):
            tensor.stop_gradient = False
    call(needs=needs).sum().backward()
"""

DEFORM = """
WORD = "deform_conv2d"
good = dict(x=f(2, 4, 5, 6), offset=f(2, 24, 6, 7), weight=f(6, 4, 2, 3), mask=f(2, 12, 6, 7),
            bias=f(6), paddings=(1, 1, 1, 2), deformable_groups=2)
def call(**changes):
    return raw.deform_conv2d(**{**good, **changes})
assert call().shape == [2, 6, 6, 7]
bad = dict(
    x_rank=dict(x=f(4, 5, 6)),
    x_rank_0=dict(x=f()),
    offset_rank=dict(offset=f(24, 6, 7)),
    weight_rank=dict(weight=f(6, 4, 6)),
    mask_rank=dict(mask=f(12, 6, 7)),
    bias_rank=dict(bias=f(6, 1)),
    offset_batch=dict(offset=f(1, 24, 6, 7)),
    mask_batch=dict(mask=f(1, 12, 6, 7)),
    offset_channels=dict(offset=f(2, 12, 6, 7)),
    mask_channels=dict(mask=f(2, 6, 6, 7)),
    offset_size=dict(offset=f(2, 24, 5, 6)),
    mask_size=dict(mask=f(2, 12, 5, 6)),
    weight_channels=dict(weight=f(6, 3, 2, 3)),
    bias_length=dict(bias=f(4)),
    empty_offset=dict(offset=f(0, 24, 6, 7)),
    empty_kernel=dict(weight=f(6, 4, 0, 3)),
    empty_output=dict(weight=f(6, 4, 9, 3)),
    not_divisible=dict(deformable_groups=3),
    groups_3=dict(groups=3),
    groups_0=dict(groups=0),
    deformable_groups_0=dict(deformable_groups=0),
    deformable_groups_negative=dict(deformable_groups=-2),
    stride_0=dict(strides=(0, 1)),
    stride_negative=dict(strides=(1, -1)),
    stride_empty=dict(strides=()),
    stride_long=dict(strides=(1, 1, 1)),
    dilation_0=dict(dilations=(1, 0)),
    dilation_huge=dict(dilations=(2**31 - 1, 2**31 - 1)),
    padding_two=dict(paddings=(1, 1)),
    padding_negative=dict(paddings=(-1, 1, 1, 2)),
    padding_huge=dict(paddings=(2**31 - 1, 2**31 - 1, 2**31 - 1, 2**31 - 1)),
    rule=dict(boundary_grad="mmcv"),
    x_int=dict(x=f(2, 4, 5, 6, dtype="int32")),
    weight_double=dict(weight=f(6, 4, 2, 3, dtype="float64")),
    offset_double=dict(offset=f(2, 24, 6, 7, dtype="float64")),
    offset_int=dict(offset=f(2, 24, 6, 7, dtype="int64")),
    mask_half=dict(mask=f(2, 12, 6, 7, dtype="float16")),
    bias_double=dict(bias=f(6, dtype="float64")),
)
for name, changes in bad.items():
    refused(name, lambda: call(**changes))
for needs in ((), (1,), (1, 1, 1, 1, 1, 1)):
    refused(f"needs_of_{len(needs)}", lambda: train(call, needs))
print("alive", call().shape)
"""

CROSS_ENTROPY = """
WORD = "sigmoid_cross_entropy_with_logits"
good = dict(x=f(3, 4), label=f(3, 4), pos_weight=f(3, 4))
def call(**changes):
    return raw.cross_entropy(**{**good, **changes})
assert call().shape == [3, 4]
bad = dict(
    label_shape=dict(label=f(3, 5)),
    label_smaller=dict(label=f(3, 1)),
    label_rank=dict(label=f(12)),
    label_empty=dict(label=f(0, 4)),
    pos_weight_shape=dict(pos_weight=f(4)),
    pos_weight_one=dict(pos_weight=f(1)),
    x_int=dict(x=f(3, 4, dtype="int32")),
    x_bool=dict(x=f(3, 4, dtype="bool")),
    form=dict(pos_weight_form="sum"),
    form_empty=dict(pos_weight_form=""),
)
for name, changes in bad.items():
    refused(name, lambda: call(**changes))
for needs in ((), (1,), (1, 1, 1, 1)):
    refused(f"needs_of_{len(needs)}", lambda: train(call, needs))
print("alive", call().shape)
"""


def _assert_all_refused(code):
    lines = child.run(code).splitlines()
    tried = [line.split()[1] for line in lines if line.startswith("trying")]
    refused = {line.split()[1]: line for line in lines if line.startswith("refused")}
    assert lines[-1].startswith("alive"), lines
    assert len(tried) > 5
    assert [name for name in tried if name not in refused] == []
    unnamed = [line for line in refused.values() if not line.endswith(" named")]
    assert unnamed == []


def test_deform_conv2d():
    _assert_all_refused(PREAMBLE + DEFORM)


def test_sigmoid_cross_entropy_with_logits():
    _assert_all_refused(PREAMBLE + CROSS_ENTROPY)


STATIC = """
import numpy as np, paddle, paddle_ops
from paddle_ops import _run
paddle.enable_static()
def build(x, offset, weight, **changes):
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        data = dict(X=x, Offset=offset, Weight=weight, Bias=[1], Mask=[1])
        variables = {k: paddle.static.data(k, s, "float32") for k, s in data.items()}
        for v in variables.values():
            v.stop_gradient = False
        attrs = dict(strides=[1, 1], paddings=[0] * 4, dilations=[1, 1], deformable_groups=1,
                     groups=1, boundary_grad="paddle", has_bias=False, has_mask=False)
        attrs.update(changes)
        out = _run.run("paddle_ops_deform_conv2d", variables, attrs)
        feed = {k: np.zeros([2 if d < 0 else d for d in s], "float32") for k, s in data.items()}
        return paddle.static.Executor().run(main, feed=feed, fetch_list=[out])[0].shape
assert build([2, 1, 4, 5], [2, 2, 4, 5], [1, 1, 1, 1]) == (2, 1, 4, 5)
assert build([-1, 1, -1, -1], [-1, 2, -1, -1], [1, 1, 1, 1]) == (2, 1, 2, 2)
bad = dict(
    rank=dict(x=[4, 5]),
    rank_0=dict(weight=[]),
    empty_output=dict(weight=[1, 1, 9, 9]),
    stride_0=dict(strides=[0, 1]),
    stride_empty=dict(strides=[]),
    padding_two=dict(paddings=[0, 0]),
    dilation_one=dict(dilations=[1]),
    groups_0=dict(groups=0),
    deformable_groups_0=dict(deformable_groups=0),
    rule=dict(boundary_grad="?"),
    batch=dict(offset=[1, 2, 4, 5]),
    channels=dict(offset=[2, 4, 4, 5]),
)
for name, changes in bad.items():
    print("trying", name, flush=True)
    good = dict(x=[2, 1, 4, 5], offset=[2, 2, 4, 5], weight=[1, 1, 1, 1])
    try:
        build(**{**good, **changes})
    except Exception as error:
        print("refused", name, "named", flush=True)
    else:
        print("ACCEPTED", name, flush=True)
print("alive")
"""


def test_mistakes_in_a_static_graph_do_not_abort():
    """An exception while Paddle infers shapes would end the process; a failing run must not."""
    _assert_all_refused(STATIC)
