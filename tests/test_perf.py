"""tools.perf: what it counts, that it checks before it times, and what it prints."""

import json

import numpy as np
import pytest

from tools.perf import __main__ as command_line
from tools.perf import cases, check, measure, plot, providers, regression, rounding, table
from tools.perf.cases import DIRECTIONS, FORWARD, FORWARD_BACKWARD

TINY = cases.DeformConvCase(
    "T1", "test", (2, 4, 5, 6), 6, stride=2, groups=2, deformable_groups=2, bias=True
)
TINY_LOSS = cases.CrossEntropyCase("T2", "test", (3, 5))
TENSORS = {"T1": ["out", "x", "offset", "weight", "bias", "mask"], "T2": ["out", "x"]}
each_tiny = pytest.mark.parametrize("case", [TINY, TINY_LOSS], ids=lambda case: case.name)


@pytest.fixture(autouse=True)
def tiny_cases(monkeypatch):
    for case in (TINY, TINY_LOSS):
        monkeypatch.setitem(cases.CASES, case.name, case)


def settings(**changes):
    values = {"directions": DIRECTIONS, "offsets": "normal", "dtype": "float32", "threads": 1}
    return measure.Settings(**{**values, "repeat": 1, "seconds": 1.0, **changes})


def made_up(case, direction, **samples):
    return measure.Measurement(case, direction, settings(), samples)


class Wrong(providers.PaddleOps):
    """Returns results with one fault."""

    @classmethod
    def named(cls, result, fault):
        return type("Wrong", (cls,), {"result": result, "fault": staticmethod(fault)})

    def forward_backward(self):
        results = super().forward_backward()
        results[self.result] = self.fault(results[self.result])
        return results


# Bytes and operations.


def test_work_of_a_deformable_convolution_by_hand():
    case = cases.CASES["S10"]  # 1,64,64,64 -> 64, 7x7, mask
    x = out = 64 * 64 * 64
    offset, weight, mask = 98 * 64 * 64, 64 * 64 * 49, 49 * 64 * 64
    inputs = x + offset + weight + mask
    assert case.bytes(FORWARD, "float32") == 4 * (inputs + out)
    assert case.bytes(FORWARD_BACKWARD, "float16") == 2 * (3 * inputs + 2 * out)
    assert case.flops(FORWARD) == 1_644_167_168
    assert case.flops(FORWARD_BACKWARD) == 3 * 1_644_167_168


def test_work_of_a_cross_entropy_by_hand():
    case = cases.CASES["E2"]  # 64 x 20
    assert case.bytes(FORWARD, "float32") == 3 * 1280 * 4
    assert case.bytes(FORWARD_BACKWARD, "float32") == 7 * 1280 * 4  # labels get no gradient
    assert case.flops(FORWARD) == 7 * 1280


@pytest.mark.parametrize(
    "name, gflop",
    [
        ("S1", "4.95"),
        ("S2", "4.95"),
        ("S3", "4.95"),
        ("S4", "15.1"),
        ("S5", "1.52"),
        ("S6", "1.21"),
        ("S7", "8.49"),
        ("S8", "5.90"),
        ("S9", "19.8"),
        ("S10", "1.64"),
        ("S11", "0.62"),
    ],
)
def test_operations_of_the_published_cases(name, gflop):
    digits = len(gflop.split(".")[1])
    assert f"{cases.CASES[name].flops(FORWARD) / 1e9:.{digits}f}" == gflop


def test_output_shapes():
    assert cases.CASES["C1"].out == (79220, 6, 4, 4)
    assert cases.CASES["C2"].out == (5070, 6, 5, 5)
    assert cases.CASES["C3"].out == (4, 128, 100, 100)


# Data.


@each_tiny
def test_tensors_are_the_same_in_every_run_and_have_the_cases_shapes(case):
    first, second = (case.tensors("normal", "float32") for _ in range(2))
    assert {name: value.shape for name, value in first.items()} == {
        **case.inputs(),
        "grad_out": case.out,
    }
    for name, value in first.items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, second[name])


def test_offsets_are_exact_beside_a_coordinate_and_never_whole():
    for kind, largest in (("normal", 12), ("far", 10.01)):
        offset = cases.CASES["C2"].tensors(kind, "float32")["offset"]
        assert np.abs(offset).max() < largest
        position = np.float32(4095) + offset
        np.testing.assert_array_equal(position, 4095 + offset.astype(np.float64))
        assert not np.any(position == np.floor(position))
    assert not np.any(TINY.tensors("zero", "float32")["offset"])


@pytest.mark.parametrize(
    "value, nearest",
    [(1.0, 1.0), (1 + 2**-8, 1.0), (1 + 3 * 2**-8, 1 + 2**-6), (-3.1415927, -3.140625)],
)
def test_bfloat16_rounds_to_nearest_even(value, nearest):
    assert rounding.rounded(np.array([value], np.float32), "bfloat16") == np.float32(nearest)


# Checks.


@each_tiny
@pytest.mark.parametrize("offsets", cases.OFFSETS)
@pytest.mark.parametrize("dtype", cases.ITEM_BYTES)
@pytest.mark.parametrize("name", [*providers.BY_INDEX.values(), "paddle"])
def test_providers_agree_with_the_reference(case, offsets, dtype, name):
    provider = providers.PROVIDERS[name]
    if not provider.supports(case, FORWARD_BACKWARD, dtype):
        assert name == "paddle" and dtype in ("float16", "bfloat16")
        return
    tensors = case.tensors(offsets, dtype)
    expected = check.reference(case, tensors, FORWARD_BACKWARD, 1)
    assert list(expected) == TENSORS[case.name]
    loaded = provider(case, tensors, dtype, 1)
    check.check(name, loaded.arrays(loaded.forward_backward()), expected, dtype)
    out = loaded.arrays(loaded.forward())
    check.check(name, out, {"out": expected["out"]}, dtype)


@each_tiny
@pytest.mark.parametrize("name", ["torch", "onnxruntime"])
def test_peers_agree_with_the_reference(case, name):
    provider = providers.PROVIDERS[name]
    if not provider.available() or not provider.supports(case, FORWARD, "float32"):
        pytest.skip(f"{name} is not installed or has no such operator")
    for measurement in measure.measure(case, [provider], settings()):
        assert not measurement.failures


@pytest.mark.parametrize("result", TENSORS["T1"])
@pytest.mark.parametrize(
    "fault, message",
    [
        (lambda value: value * 1.0001, "differs from the reference by 1.0e-04"),
        (lambda value: value * float("nan"), "differs from the reference by nan"),
        (lambda value: value.flatten().unsqueeze(0), "shape"),
    ],
)
def test_wrong_results_are_reported_and_not_timed(result, fault, message):
    wrong = Wrong.named(result, fault)
    wrong.name = "wrong"
    forward, backward = measure.measure(TINY, [wrong, providers.Paddle], settings())
    assert list(forward.samples) == ["wrong", "paddle"] and not forward.failures
    assert list(backward.samples) == ["paddle"]
    assert backward.failures["wrong"].startswith(f"wrong: {result}: {message}")


def test_a_missing_result_is_wrong():
    with pytest.raises(check.WrongNumbers, match="mine: x: missing"):
        check.check("mine", {}, {"x": np.ones(3)}, "float32")


def test_wrong_results_make_the_exit_status(monkeypatch, capsys):
    wrong = Wrong.named("x", lambda value: -value)
    monkeypatch.setitem(providers.PROVIDERS, wrong.name, wrong)
    arguments = "--case T1 --provider paddle_ops paddle --repeat 1 --threads 1".split()
    assert command_line.main(arguments) == 1
    out, err = capsys.readouterr()
    assert "T1 forward+backward: paddle_ops: x: differs" in out
    assert "T1 forward+backward: paddle_ops: x: differs" in err


# Timing.


def test_calls_take_turns_until_their_time_is_spent(monkeypatch):
    now, order = [0.0], []
    monkeypatch.setattr(measure.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(measure.time, "sleep", lambda seconds: None)

    def call(name, seconds):
        order.append(name)
        now[0] += seconds

    calls = {"fast": lambda: call("fast", 1.0), "slow": lambda: call("slow", 4.0)}
    samples = measure.interleave(calls, 4, 6.0, {"fast": 1.0, "slow": 4.0})
    assert order == ["fast", "slow", "fast", "fast", "fast"]
    np.testing.assert_array_equal(samples["fast"], [1, 1, 1, 1])
    np.testing.assert_array_equal(samples["slow"], [4, np.nan, np.nan, np.nan])


def test_short_calls_are_repeated_within_a_sample(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(measure.time, "perf_counter", lambda: now[0])

    def call():
        now[0] += 1e-4

    samples = measure.interleave({"short": call}, 2, 1.0, {"short": 0.1})
    np.testing.assert_allclose(samples["short"], [1e-4, 1e-4], rtol=1e-6)
    assert now[0] == pytest.approx((2 + 2 * 20) * 1e-4, abs=2.1e-4)


def test_a_ratio_is_the_median_of_pairs():
    result = made_up(TINY, FORWARD, a=[1.0, 2.0, 1.0], b=[3.0, 4.0, float("nan")])
    assert result.ratio("b", "a") == 2.5
    assert result.percentile("b", 50) == 3.5


# Tables.


def published():
    seconds = {FORWARD: (0.5, 0.25), FORWARD_BACKWARD: (2.0, 0.5)}
    return [
        made_up(cases.CASES[name], direction, paddle=[slow], paddle_ops=[fast])
        for name in ("C1", "C2", "C3")
        for direction, (slow, fast) in seconds.items()
    ]


def cells(line):
    return line.strip(" |").replace("|", " ").split()


def titles(line):
    return [title.strip() for title in line.strip("|").split("|")]


def test_seed_table():
    lines = table.seed_table(published(), table.MARKDOWN).splitlines()
    columns = [
        f"{direction} {column}"
        for direction in ("forward", "backward")
        for column in ("paddle s", "paddle_ops s", "paddle / paddle_ops")
    ]
    assert titles(lines[0]) == ["", *columns]
    row = ["0.5000", "0.2500", "2", "1.5000", "0.2500", "6"]
    assert [cells(line) for line in lines[2:5]] == [[name, *row] for name in ("C1", "C2", "C3")]


def test_seed_table_without_a_time():
    measurements = published()
    del measurements[0].samples["paddle"]
    text = table.seed_table(measurements)
    assert cells(text.splitlines()[2]) == ["C1", "-", "0.2500", "-", "-", "0.2500", "-"]


@pytest.mark.parametrize("style, bar", [(table.TEXT, "-----"), (table.MARKDOWN, "|----")])
def test_table(style, bar):
    result = made_up(TINY, FORWARD, paddle_ops=[1e-3, 2e-3, 3e-3], copy=[1e-4, 2e-4, 3e-4])
    result.failures["paddle"] = "paddle: out: differs"
    lines = table.render([result], style).splitlines()
    assert lines[1].startswith(bar)
    for text in ("T1", "normal", "2 (1.4–2.6)", "0.2 (0.14–0.26)", "0.1", "wrong"):
        assert text in lines[2]
    text = "\n".join(lines)
    for part in ("T1 forward: paddle: out: differs", "paddle 3", "cpu: ", "threads: 1", "float32"):
        assert part.replace("paddle 3", f"paddle {providers.paddle.__version__}") in text


# The command line.


def test_smoke(tmp_path, capsys):
    file = tmp_path / "result.json"
    arguments = "--case T1 T2 --provider paddle_ops paddle copy --repeat 1 --threads 1"
    offsets = ["--offsets", "zero", "normal"]
    assert command_line.main([*arguments.split(), *offsets, "--json", str(file)]) == 0
    text = capsys.readouterr().out
    assert "paddle / paddle_ops" in text and "copy / paddle_ops" in text
    result = json.loads(file.read_text())
    rows = [(m["case"], m["offsets"], m["direction"]) for m in result["measurements"]]
    assert rows == [
        *(("T1", "zero", direction) for direction in DIRECTIONS),
        *(("T1", "normal", direction) for direction in DIRECTIONS),
        *(("T2", "zero", direction) for direction in DIRECTIONS),
    ]
    for measurement in result["measurements"]:
        assert list(measurement["providers"]) == ["paddle_ops", "paddle", "copy"]
        for timing in measurement["providers"].values():
            assert timing["median_s"] > 0 and timing["ratio"] > 0 and timing["gb_per_s"] > 0


def test_smoke_with_forced_indices_in_markdown(capsys):
    arguments = "--case T1 T2 --provider paddle_ops --index int32 int64 --markdown --forward"
    more = "--repeat 1 --threads 1 --dtype bfloat16"
    assert command_line.main([*arguments.split(), *more.split()]) == 0
    columns = titles(capsys.readouterr().out.splitlines()[0])
    assert columns[3] == "paddle_ops/int32 ms"
    assert columns[6:] == ["paddle_ops/int64 ms", "paddle_ops/int64 / paddle_ops/int32"]


@pytest.mark.parametrize(
    "arguments",
    [
        "--case S12",
        "--threads 0",
        "--offsets huge",
        "--case T1 --op sigmoid_cross_entropy_with_logits",
        "--case T1 --provider paddle --dtype float16",
    ],
)
def test_mistakes_in_arguments_are_told(arguments, capsys):
    with pytest.raises(SystemExit):
        command_line.main(arguments.split())
    assert "error" in capsys.readouterr().err


def _measurement(case, direction, **seconds):
    settings = measure.Settings((direction,), "normal", "float32", 1, 3, 1.0)
    samples = {name: [value] * 3 for name, value in seconds.items()}
    return measure.Measurement(cases.CASES[case], direction, settings, samples)


def test_regressions_are_lost_ratios_and_missing_ones():
    kept = [
        _measurement(case, direction, paddle_ops=1.0, paddle=2 * least)
        for (case, direction), least in regression.LEAST.items()
    ]
    assert regression.regressions(kept) == []
    slow = [_measurement("S10", FORWARD, paddle_ops=1.0, paddle=1.0), *kept[1:]]
    assert len(regression.regressions(slow)) == 1
    assert "S10 forward: 1.00 times as fast" in regression.regressions(slow)[0]
    assert regression.regressions(kept[1:]) == ["S10 forward: not measured"]


def test_plot_is_a_picture(tmp_path):
    file = tmp_path / "ratios.png"
    rows = [
        _measurement("S10", FORWARD, paddle_ops=1.0, paddle=20.0, copy=0.5),
        _measurement("E2", FORWARD_BACKWARD, paddle_ops=1.0, paddle=0.8),
    ]
    plot.plot(rows, file)
    assert file.read_bytes().startswith(b"\x89PNG")
