"""Someone else's detector, before and after paddle_ops.patch_paddle.

    make drop-in                  # makes the environment first

Networks of PaddleDetection (PyPI: paddledet 2.6.0), with random weights, run one training step in
float64 with Paddle's own operators and one with those of this package, from the same state and on
the same images: outputs and gradients must agree to 1e-5. In float32 the two then take turns at
whole training steps (forward, backward, optimizer), which gives the speed-up. float64 for the
comparison, because a deep network that is not trained multiplies what float32 rounds, whoever
computes it; docs/drop_in.md has numbers.

The exit code is 1 if the two do not agree.
"""
