"""The unit `autograd`: what its text says holds, its rules agree with others, its tests are fair.

That every misconception is caught and every other style accepted, in the real sandbox, is proved for all
units in tests/autograder/test_units.py.
"""

import re

import numpy as np
import pytest

import minitx
import minitx.functional as F

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plainly = pytest.importorskip("plainly")

from minitx import figures  # noqa: E402
from minitx.ops import OPS  # noqa: E402

UNIT = plainly.Unit("autograd")
played, failures = UNIT.played, UNIT.failures


@pytest.fixture(autouse=True)
def the_table_of_operations():
    """The notebook adds lines of its own to the library's table."""
    before = dict(OPS)
    yield
    OPS.clear()
    OPS.update(before)


def random(label, *shape):
    return np.random.default_rng(label).normal(size=shape)


def by_pytorch(function, grad, *inputs):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    leaves = [torch.tensor(x, requires_grad=True) for x in inputs]
    function(torch, *leaves).backward(torch.tensor(grad))
    return [leaf.grad.numpy() for leaf in leaves]


def close(got, expected):
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert one.shape == other.shape and np.allclose(one, other, rtol=1e-10, atol=1e-12)


def test_the_car_needs_70_metres_and_5_and_a_half_more_for_each_metre_a_second():
    def stops_after(v, t, k):
        return v * t + k * v**2

    assert stops_after(20, 1.5, 0.1) == pytest.approx(70)
    step = 1e-6
    for place, slope in enumerate((5.5, 20, 400)):
        above, below = ([20.0, 1.5, 0.1] for _ in range(2))
        above[place] += step
        below[place] -= step
        assert (stops_after(*above) - stops_after(*below)) / (2 * step) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize(
    ("one", "other"), [((2, 3), (3,)), ((4, 1), (2, 1, 5)), ((), (2, 3)), ((3, 1), (1, 4))]
)
def test_the_rule_of_the_product_is_that_of_pytorch(one, other):
    a, b = random(1, *one), random(2, *other)
    a, b = np.asarray(a), np.asarray(b)
    grad = random(3, *np.broadcast_shapes(one, other))
    close(played()["multiply_rule"](grad, a, b), by_pytorch(lambda _, x, y: x * y, grad, a, b))


@pytest.mark.parametrize(
    ("one", "other"),
    [((3, 4), (4, 2)), ((2, 3, 4), (4, 5)), ((4, 3), (2, 3, 5)), ((2, 3, 4, 5), (2, 1, 5, 6))],
)
def test_the_rule_of_the_matrix_product_is_that_of_pytorch(one, other):
    a, b = random(1, *one), random(2, *other)
    grad = random(3, *(a @ b).shape)
    close(played()["matmul_rule"](grad, a, b), by_pytorch(lambda _, x, y: x @ y, grad, a, b))


def test_the_rules_of_softmax_gelu_and_layer_norm_are_those_of_pytorch():
    names, x, grad = played(), 2 * random(4, 2, 3, 5), random(5, 2, 3, 5)
    weights = np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)
    close([names["softmax_rule"](grad, weights)], by_pytorch(lambda torch, s: torch.softmax(s, -1), grad, x))
    theirs = by_pytorch(lambda torch, s: torch.nn.functional.gelu(s, approximate="tanh"), grad, x)
    close([names["gelu_rule"](grad, x)], theirs)
    theirs = by_pytorch(lambda torch, s: torch.nn.functional.layer_norm(s, (5,), eps=1e-3), grad, x)
    close([names["layer_norm_rule"](grad, x, 1e-3)], theirs)


def test_the_gradients_of_a_row_of_scores_add_up_to_0_and_those_of_the_diagonal_rule_do_not(capsys):
    names = played("demo-diagonal")
    grad, weights = names["diagonal_grad"], names["diagonal_weights"]
    assert names["softmax_rule"](grad, weights).sum() == pytest.approx(0, abs=1e-15)
    assert "[0.21 0.   0.  ]   their sum: 0.21" in capsys.readouterr().out


def test_float32_cannot_tell_the_two_gelus_apart_and_float64_can():
    errors = played("demo-two-gelus")["gelu_errors"]
    assert 0.5 < errors["float32"][1] / errors["float32"][0] < 2
    assert errors["float64"][1] > 1e6 * errors["float64"][0]
    assert errors["float64"][1] == pytest.approx(9e-4, rel=0.05)


def test_the_other_rule_of_the_demonstration_is_that_of_the_other_gelu():
    other = played("demo-two-gelus")["other_gelu_rule"]
    x, grad = 2 * random(6, 40), random(7, 40)
    theirs = by_pytorch(lambda torch, s: torch.nn.functional.gelu(s), grad, x)[0]
    assert np.allclose(other(grad, x), theirs, rtol=0, atol=1e-7)


def test_check_gradients_accepts_the_five_rules_and_refuses_the_wrong_one():
    verdicts = played("demo-diagonal", "demo-two-gelus", "watch-check")["check_verdicts"]
    said = list(verdicts.values())
    assert said[:5] == ["agrees with finite differences everywhere"] * 5
    assert said[5].startswith("Gradient of argument 0 at index (0, 0): expected ")


def test_25_doublings_have_26_nodes_and_33_million_paths():
    parents = [[], *([node, node] for node in range(25))]
    assert played()["backward_order"](parents, 25) == list(range(25, -1, -1))
    paths = [1]
    for some in parents[1:]:
        paths.append(sum(paths[node] for node in some))
    assert paths[-1] == 33_554_432


def test_the_small_engine_agrees_with_the_library_and_trains(capsys):
    names = played("demo-two-gelus", "demo-diagonal", "watch-check", "watch-engine", "watch-training")
    assert max(names["engine_gaps"]) < 1e-12
    assert max(np.abs(names["by_you"][i]).max() for i in names["weight_nodes"]) > 1e-3
    assert names["curve_yours"][-1] < 0.05 * names["asked"].var() < names["curve_kept"][-1]
    share = re.search(r"largest weight: ([\d.]+)", capsys.readouterr().out)
    assert share and float(share[1]) > 0.9


def test_where_the_last_part_wins_every_gradient_of_the_small_model_is_half_as_large():
    """The error is miss times miss; nothing else in that graph is used twice. AdamW does not see a factor."""
    (known,) = [one for one in UNIT.spec.misconceptions if one.name == "last-part-wins"]
    shown = ("demo-diagonal", "demo-two-gelus", "watch-check", "watch-engine")
    right, wrong = played(*shown), played(*shown, replaced={"backward": known.code})
    for node in right["weight_nodes"]:
        assert np.allclose(wrong["by_you"][node], right["by_you"][node] / 2, rtol=1e-12, atol=0)


def test_a_detached_value_ends_the_walk():
    names = played("demo-diagonal", "demo-two-gelus", "watch-check", "watch-engine", "watch-detach")
    connected, detached = names["cut_sizes"][False], names["cut_sizes"][True]
    assert connected[0] == detached[0] and detached[1] == "none" and float(connected[1]) > 0


def test_in_a_chain_the_wrong_line_of_the_question_is_right_and_with_a_residual_it_is_not():
    source = UNIT.source("backward")
    (known,) = [one for one in UNIT.spec.misconceptions if one.name == "last-part-wins"]
    chain = [("input", [], []), *(("scale", [i], [0.5]) for i in range(10))]
    around = [("input", [], []), ("scale", [0], [0.5]), ("add", [0, 1], [])]
    gradients = [played(replaced={"backward": code})["backward"] for code in (source, known.code)]
    for nodes, same in ((chain, True), (around, False)):
        right, wrong = (some(nodes, list(range(len(nodes)))[::-1], np.ones(1))[0][0] for some in gradients)
        assert bool(right == wrong) is same


def test_the_number_of_the_softmax_rule_is_output_times_its_gradient():
    """FlashAttention's D: rowsum(dO * O) equals rowsum(P * dP)."""
    weights, values, grad = np.abs(random(1, 4, 6)), random(2, 6, 3), random(3, 4, 3)
    weights /= weights.sum(axis=-1, keepdims=True)
    inner = (weights * (grad @ values.T)).sum(axis=-1)
    assert np.allclose(inner, (grad * (weights @ values)).sum(axis=-1), rtol=0, atol=1e-12)


def test_a_query_that_sees_nothing_has_gradient_0_in_the_library_too():
    q, k, v = (minitx.Tensor(random(i, 1, 1, 3, 4), requires_grad=True) for i in range(3))
    mask = np.ones((1, 1, 3, 3), dtype=bool)
    mask[..., 1, :] = False
    output, weights = F.scaled_dot_product_attention(q, k, v, mask=mask)
    (output * output).sum().backward()
    assert q.grad is not None and not q.grad[0, 0, 1].any()
    assert not weights.numpy()[0, 0, 1].any()
    assert not played()["softmax_rule"](np.ones((1, 3)), np.zeros((1, 3))).any()


def test_a_run_that_keeps_what_the_last_one_left_fails_only_its_own_test():
    source = UNIT.source("backward").replace("gradients = {order[0]: grad}", "gradients = KEPT")
    source = source.replace(
        "    for number in order:",
        "    gradients[order[0]] = grad + gradients.get(order[0], 0)\n    for number in order:",
    )
    failed = failures(played(replaced={"backward": "KEPT = {}\n" + source}))
    assert "the start is the gradient that was given, and a second run begins with nothing" in failed


def test_a_function_that_calls_itself_fails_the_deep_graph_alone():
    code = (
        "def backward_order(parents, root):\n    done, seen = [], set()\n    def go_into(node):\n"
        "        if node not in seen:\n            seen.add(node)\n            for parent in parents[node]:\n"
        "                go_into(parent)\n            done.append(node)\n    go_into(root)\n    return done[::-1]\n"
    )
    failed = failures(played(replaced={"order": code}))
    assert list(failed) == ["a graph as deep as ten thousand operations"]
    assert failed.popitem()[1].startswith("AssertionError: ")


def test_the_figure_of_a_graph_says_what_goes_forward_and_what_comes_back():
    from matplotlib.text import Annotation

    boxes = [("a", 0, 1.0, "3", "2"), ("b", 1, 1.0, "6", "1")]
    figure = figures.computation_graph(boxes, [(0, 1), (0, 1)])
    words = [text.get_text() for text in figure.axes[0].texts if text.get_text()]
    assert words == ["a", "3", "2", "b", "6", "1"]
    assert sum(isinstance(text, Annotation) for text in figure.axes[0].texts) == 2
    with pytest.raises(ValueError, match=r"nodes from 0 to 1, got \(0, 2\)"):
        figures.computation_graph(boxes, [(0, 2)])


def test_the_figure_of_broadcasting_sums_what_it_copied():
    words = [text.get_text() for text in figures.broadcast_and_back().axes[0].texts]
    assert [words.count(number) for number in ("10", "20", "30")] == [3, 3, 3]
    assert {"5", "7", "9"} <= set(words) and {"copied", "summed"} <= set(words)
