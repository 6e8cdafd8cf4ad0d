"""Checks the providers of a case, then times them in turn, so that noise hits all alike."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Callable, Iterator, Sequence

import numpy as np

from tools.perf import memory
from tools.perf.cases import FORWARD, FORWARD_BACKWARD, Case
from tools.perf.check import Arrays, WrongNumbers, check, reference
from tools.perf.provider import Provider

# A sample lasts at least this long: shorter calls are repeated within it.
_SAMPLE_SECONDS = 2e-3
_MOST_CALLS = 1000
_SURELY_LONG = 0.5
# Before each sample: idle threads of the library before it stop spinning and free their cores.
_REST_SECONDS = 5e-3


@dataclass(frozen=True)
class Settings:
    """How a run measures."""

    directions: tuple[str, ...]
    offsets: str
    dtype: str
    threads: int
    # the most rounds, and the time after which a provider sits out the rest of them
    repeat: int
    seconds: float
    # whether the memory of a call is measured too, in a process for each provider
    memory: bool = False


@dataclass
class Measurement:
    """One case in one direction. A round that a provider sat out is NaN."""

    case: Case
    direction: str
    settings: Settings
    # seconds for one call, by provider and round
    samples: dict[str, list[float]] = field(default_factory=dict)
    # what is wrong with a provider that was therefore not timed
    failures: dict[str, str] = field(default_factory=dict)
    # peak bytes beyond inputs and results, by provider
    extra_bytes: dict[str, int] = field(default_factory=dict)
    # whether there was a reference
    checked: bool = True

    def percentile(self, provider: str, percent: float) -> float:
        """Return a percentile of a provider's time in seconds; the 50th is the median."""
        return float(np.nanpercentile(self.samples[provider], percent))

    def ratio(self, provider: str, base: str) -> float:
        """Return the median, over the rounds with both, of provider's time / base's time."""
        pairs = np.divide(self.samples[provider], self.samples[base])
        return float(np.nanmedian(pairs))

    def gflop_per_s(self, provider: str) -> float:
        """Return the formula's operations by the median time."""
        return self.case.flops(self.direction) / self.percentile(provider, 50) / 1e9

    def gb_per_s(self, provider: str) -> float:
        """Return the bytes of the case's tensors by the median time."""
        moved = self.case.bytes(self.direction, self.settings.dtype)
        return moved / self.percentile(provider, 50) / 1e9


def measure(
    case: Case,
    providers: Sequence[type[Provider]],
    settings: Settings,
    progress: Callable[[str], None] = lambda what: None,
) -> Iterator[Measurement]:
    """Measure one case in each direction; `progress` is told what is being done."""
    tensors = case.tensors(settings.offsets, settings.dtype)
    widest = FORWARD_BACKWARD if FORWARD_BACKWARD in settings.directions else FORWARD
    progress(f"{case.name}: reference")
    expected = reference(case, tensors, widest, settings.threads)
    loaded = {
        provider.name: provider(case, tensors, settings.dtype, settings.threads)
        for provider in providers
        if any(provider.supports(case, way, settings.dtype) for way in settings.directions)
    }
    for direction in settings.directions:
        measurement = Measurement(case, direction, settings, checked=expected is not None)
        calls, first = {}, {}
        for name, provider in loaded.items():
            if not provider.supports(case, direction, settings.dtype):
                continue
            progress(f"{case.name} {direction}: checking {name}")
            try:
                first[name] = _check(provider, direction, settings, expected)
            except WrongNumbers as error:
                measurement.failures[name] = str(error)
            else:
                calls[name] = partial(provider.run, direction)
        progress(f"{case.name} {direction}: timing")
        measurement.samples = interleave(calls, settings.repeat, settings.seconds, first)
        if settings.memory:
            progress(f"{case.name} {direction}: memory")
            measurement.extra_bytes = _memory(case, direction, settings, list(calls))
        yield measurement


def _memory(case: Case, direction: str, settings: Settings, names: list[str]) -> dict[str, int]:
    how = (direction, settings.offsets, settings.dtype, settings.threads)
    measured = {name: memory.extra_bytes(case.name, name, *how) for name in names}
    return {name: size for name, size in measured.items() if size is not None}


def _check(
    provider: Provider, direction: str, settings: Settings, expected: Arrays | None
) -> float:
    """Check one provider and return the seconds of its call, which has warmed it up, too."""
    start = time.perf_counter()
    results = provider.run(direction)
    elapsed = time.perf_counter() - start
    if expected is not None and provider.computes:
        names = {"out"} if direction == FORWARD else set(expected)
        if settings.offsets == "zero" and not provider.paddle_boundary:
            # with padding, zero offsets put samples exactly on row and column -1
            names.discard("offset")
        wanted = {name: value for name, value in expected.items() if name in names}
        check(provider.name, provider.arrays(results), wanted, settings.dtype)
    return elapsed


def interleave(
    calls: dict[str, Callable[[], object]],
    repeat: int,
    seconds: float,
    first: dict[str, float],
) -> dict[str, list[float]]:
    """Time the calls in turn, a sample of each in a round, and return seconds for one call.

    Every call takes part in the first round, and then for as long as its own samples would not add
    up to more than `seconds`. Who begins changes from round to round. `first` are the seconds of
    each call's first run.
    """
    samples: dict[str, list[float]] = {name: [] for name in calls}
    numbers = {name: _calls_in_a_sample(call, first[name]) for name, call in calls.items()}
    left = dict.fromkeys(calls, seconds)
    names = list(calls)
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for turn in range(repeat):
            start = turn % max(len(names), 1)
            for name in names[start:] + names[:start]:
                if turn and left[name] < samples[name][0] * numbers[name]:
                    samples[name].append(float("nan"))
                    continue
                time.sleep(_REST_SECONDS)
                elapsed = _time(calls[name], numbers[name])
                left[name] -= elapsed
                samples[name].append(elapsed / numbers[name])
    finally:
        if collecting:
            gc.enable()
    return samples


def _calls_in_a_sample(call: Callable[[], object], first: float) -> int:
    """Return how many calls make a sample long enough for the clock."""
    # The first run of a fast call says little: it was mostly preparation.
    elapsed = first if first > _SURELY_LONG else min(_time(call, 1) for _ in range(2))
    return int(np.clip(_SAMPLE_SECONDS / elapsed, 1, _MOST_CALLS))


def _time(call: Callable[[], object], number: int) -> float:
    """Return the seconds that a number of calls take; freeing the last result is not counted."""
    result = None
    start = time.perf_counter()
    for _ in range(number):
        result = call()
    elapsed = time.perf_counter() - start
    del result
    return elapsed
