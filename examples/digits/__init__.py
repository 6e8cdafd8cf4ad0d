"""Which digits are there? A small network with deformable convolutions learns to tell.

    make demo                     # makes the environment first; minutes on two cores
    make demo DEMO_ARGS=--quick   # less than a minute of training, for CI

The program compiles the operators through paddle.utils.cpp_extension.load, composes scenes of
scikit-learn's handwritten digits, each placed, scaled, rotated and sheared at random, and trains
two networks on them to name the digits in a scene (ten labels, several of them true at once):

- one with deformable convolutions, paddle_ops.nn.DeformConv2D, whose offsets and masks come from
  a branch that starts at zero, that is, as a plain convolution;
- its twin, in which plain convolutions take the deformable ones' places, and which is a little
  wider instead, so that both have about as many parameters.

Both see the same scenes in the same order and minimise paddle_ops.nn.BCEWithLogitsLoss in the same
way. Their scores on scenes of digits that neither has seen are printed side by side, and a picture
shows where the deformable layers sample. Both networks are only a few layers deep on purpose: a
plain network needs depth to cover a large digit, a deformable one can spread its taps.

The seed decides everything but the last digits of a sum, which another processor may round
otherwise. By default Paddle's own operators use one thread and those of paddle_ops all cores: the
scores do not depend on that, but the speeds in the progress bars are no measurement.

The exit code is 1 if the loss did not fall or the scores are no better than chance.
"""
