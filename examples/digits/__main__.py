"""The story in order: compile, compose, train both networks, compare, draw."""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import paddle
from paddle.utils import cpp_extension

import paddle_ops

from . import model, picture, scenes, train

_FULL, _QUICK = (32_000, 2_000), (6_000, 600)


def main() -> int:
    """Run the demonstration; return the exit code."""
    arguments = _parse()
    warnings.filterwarnings("ignore", message="When training, we now always")
    started = time.time()
    print(f"Compiling the operators, or finding them compiled (Paddle {paddle.__version__}) ...")
    compile_operators()

    training, test = compose(arguments.seed, *(_QUICK if arguments.quick else _FULL))
    networks, curves, scores = {}, {}, {}
    for name, deformable in (("deformable", True), ("plain twin", False)):
        paddle.seed(arguments.seed)
        networks[name] = model.Network(deformable)
        curves[name] = train.train(networks[name], training, name)
        scores[name] = train.score(networks[name], test)

    report(networks, curves, scores, test, arguments.seed)
    heading = (
        f"Where deformable convolutions sample, after {len(training.images):,} training scenes "
        f"(seed {arguments.seed})"
    )
    picture.draw(arguments.output, networks["deformable"], test, curves, scores, heading)
    print(f"\nPicture: {arguments.output.resolve()}")
    print(f"All of it took {time.time() - started:.0f} s.")
    return verdict(curves, scores, test)


def compile_operators() -> None:
    """Compile the operators just in time; a later run finds them in Paddle's cache."""
    cpp_extension.load(
        name="paddle_ops_digits",
        sources=paddle_ops.jit.sources(),
        extra_cxx_cflags=paddle_ops.jit.cxx_flags(),
        extra_cuda_cflags=paddle_ops.jit.cuda_flags(),
        extra_ldflags=paddle_ops.jit.link_flags(),
        extra_include_paths=paddle_ops.jit.include_paths(),
    )


def compose(seed: int, training: int, test: int) -> tuple[scenes.Scenes, scenes.Scenes]:
    """Return so many training scenes and test scenes, made of different digits."""
    print(f"Composing {training:,} training and {test:,} test scenes, seed {seed} ...")
    known, unknown = scenes.load(seed)
    return (
        scenes.compose(known, training, np.random.default_rng([seed, 0])),
        scenes.compose(unknown, test, np.random.default_rng([seed, 1])),
    )


def report(networks: dict, curves: dict, scores: dict, test: scenes.Scenes, seed: int) -> None:
    """Print both networks' scores side by side."""
    chance = max(test.labels.mean(), 1 - test.labels.mean())
    print(f"\nOn {len(test.images):,} test scenes of digits that neither has seen, seed {seed}:")
    print(f"{'':26}" + "".join(f"{name:>14}" for name in networks) + f"{'guessing':>14}")
    rows = (
        ("parameters", [f"{model.count_parameters(n):,}" for n in networks.values()], ""),
        ("loss, last tenth", [f"{_end(curve):.3f}" for curve in curves.values()], ""),
        ("labels right", [f"{s.labels:.1%}" for s in scores.values()], f"{chance:.1%}"),
        ("scenes all right", [f"{s.scenes:.1%}" for s in scores.values()], ""),
        (
            "mean average precision",
            [f"{s.precision.mean():.3f}" for s in scores.values()],
            f"{test.labels.mean():.3f}",
        ),
    )
    for title, values, guessing in rows:
        print(f"{title:26}" + "".join(f"{value:>14}" for value in (*values, guessing)))


def verdict(curves: dict, scores: dict, test: scenes.Scenes) -> int:
    """Return 0 if both networks have learned, else say what is wrong and return 1."""
    code = 0
    for name, losses in curves.items():
        start, end = np.mean(losses[: max(1, len(losses) // 10)]), _end(losses)
        precision, chance = scores[name].precision.mean(), test.labels.mean()
        if not end < 0.95 * start:
            print(f"FAILED: {name}: the loss went from {start:.3f} to {end:.3f}")
            code = 1
        if not precision > chance + 0.05:
            print(f"FAILED: {name}: average precision {precision:.3f}, by chance {chance:.3f}")
            code = 1
    return code


def _end(losses: list[float]) -> float:
    return float(np.mean(losses[-max(1, len(losses) // 10) :]))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.digits", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer scenes: less than a minute")
    parser.add_argument("--seed", type=int, default=0, help="decides everything (default: 0)")
    parser.add_argument(
        "--output", type=Path, default=Path("build/digits.png"), help="the picture to write"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
