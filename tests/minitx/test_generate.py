"""Generation: each row of a batch is what it is alone, settings do what they say, and wrong input is refused."""

from types import SimpleNamespace

import numpy as np
import pytest

import minitx
from minitx import Tensor, generate, models, stream
from minitx.nn import Module

VOCAB, CONTEXT = 11, 24


def gpt(positions="learned", **changes):
    config = models.GPTConfig(
        VOCAB, CONTEXT, 2, 4, 16, **{"n_kv_heads": 2, "positions": positions, **changes}
    )
    return talkative(models.GPT(config, rng=3))


def llama():
    return talkative(models.Llama(models.LlamaConfig(VOCAB, CONTEXT, 2, 4, 2, 16, 24), rng=3))


def talkative(model):
    """Large weights, and token vectors of one length: greedy texts then differ and do not run into a loop."""
    rng = np.random.default_rng(4)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.array_to_update()[...] = 0.7 * rng.standard_normal(parameter.shape)
    tokens = model.tokens.weight.array_to_update()
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    return model


MODELS = {"learned": gpt(), "rotary": gpt("rotary"), "alibi": gpt("alibi", dropout=0.5), "llama": llama()}
PROMPTS = [[1, 2, 3, 4, 5, 6, 7], [10], [3, 3, 9], [0, 8]]


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


class Counter(Module):
    """Says that id + 1 follows, and keeps what it was asked. Only the last real id of a row is right."""

    def __init__(self, vocab=10, context=50):
        self.config = SimpleNamespace(vocab_size=vocab, context=context)
        self.calls = []

    def new_cache(self, batch, capacity):
        return SimpleNamespace(rows=batch, fork=lambda rows: self.new_cache(len(rows), capacity))

    def forward(self, ids, *, cache=None, lengths=None):
        self.calls.append((ids.tolist(), None if lengths is None else lengths.tolist(), self.training))
        logits = np.zeros((*ids.shape, self.config.vocab_size), np.float32)
        counts = np.full(len(ids), ids.shape[1]) if lengths is None else lengths
        for row, count in enumerate(counts):
            logits[row, count:, 0] = 900
            logits[row, count - 1, (ids[row, count - 1] + 1) % self.config.vocab_size] = 500
        return Tensor(logits)


def greedy_by_hand(model, prompt, n):
    """The argmax of the last position, over the whole text each time."""
    text = list(prompt)
    model.eval()
    for _ in range(n):
        with minitx.no_grad():
            text.append(int(np.argmax(model(np.array([text])).numpy()[0, -1])))
    return text


# What comes out


def test_greedy_is_the_likeliest_token_again_and_again(model):
    for prompt in PROMPTS:
        assert generate(model, prompt, 12, temperature=0) == greedy_by_hand(model, prompt, 12)


def test_a_batch_of_different_prompts_gives_each_what_it_gets_alone(model):
    together = generate(model, PROMPTS, 12, temperature=0)
    assert together == [generate(model, prompt, 12, temperature=0) for prompt in PROMPTS]
    assert len({tuple(row[-12:]) for row in together}) > 1


def test_a_drawn_batch_gives_each_row_what_it_gets_alone_with_its_seed(model):
    settings = {"temperature": 1.3, "top_k": 7, "top_p": 0.9}
    together = generate(model, PROMPTS, 12, seed=40, **settings)
    assert together == [generate(model, p, 12, seed=40 + i, **settings) for i, p in enumerate(PROMPTS)]
    assert together == generate(model, PROMPTS, 12, seed=[40, 41, 42, 43], **settings)


def test_without_the_cache_the_ids_are_the_same(model):
    for settings in ({"temperature": 0}, {"seed": 5, "temperature": 1.5}):
        cached = generate(model, PROMPTS, 12, **settings)
        assert cached == generate(model, PROMPTS, 12, use_cache=False, **settings)


def test_seeds_decide_the_text():
    model = MODELS["rotary"]
    assert generate(model, [1], 20, seed=1) == generate(model, [1], 20, seed=1)
    assert generate(model, [1], 20, seed=1) != generate(model, [1], 20, seed=2)
    assert generate(model, [1], 20) != generate(model, [1], 20)
    same_prompt = generate(model, [[1]] * 3, 20, seed=1)
    assert len(set(map(tuple, same_prompt))) == 3


def test_a_stream_is_the_same_one_at_a_time(model):
    for settings in ({"temperature": 0}, {"seed": 7}):
        assert [3, 3, 9, *stream(model, [3, 3, 9], 9, **settings)] == generate(
            model, [3, 3, 9], 9, **settings
        )
        rows = [list(prompt) for prompt in PROMPTS]
        for step in stream(model, PROMPTS, 9, **settings):
            for row, token in zip(rows, step, strict=True):
                row.append(token)
        assert rows == generate(model, PROMPTS, 9, **settings)


def test_what_is_returned_has_the_form_of_what_was_passed():
    model = Counter()
    assert generate(model, [1, 2], 2) == [1, 2, 3, 4]
    assert generate(model, (1, 2), 2) == [1, 2, 3, 4]
    assert generate(model, [[1, 2], [5]], 2) == [[1, 2, 3, 4], [5, 6, 7]]
    for ids, expected in (([1, 2], [1, 2, 3, 4]), ([[1, 2], [5, 6]], [[1, 2, 3, 4], [5, 6, 7, 8]])):
        for given in (np.array(ids), np.array(ids, np.uint8), Tensor(np.array(ids))):
            got = generate(model, given, 2)
            assert got.dtype == np.int64
            np.testing.assert_array_equal(got, expected)
    assert generate(model, np.array([[1, 2], [5, 6]]), 3, stop=4) == [[1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert all(type(token) is int for token in generate(model, np.array([[1], [2]]), 2, stop=4)[0])


def test_no_new_tokens_gives_the_prompt():
    model = Counter()
    assert generate(model, [1, 2], 0) == [1, 2]
    assert list(stream(model, [[1], [2, 3]], 0)) == []
    assert model.calls == []


def test_the_prompt_is_not_changed():
    prompts = [[1, 2], [3]]
    array = np.array([1, 2])
    generate(Counter(), prompts, 3)
    generate(Counter(), array, 3, use_cache=False)
    assert prompts == [[1, 2], [3]]
    assert array.tolist() == [1, 2]


# What the model is asked


def test_with_a_cache_each_token_is_read_once_and_rows_that_have_ended_not_at_all():
    model = Counter()
    assert generate(model, [[1, 2, 3], [7]], 4, stop=9) == [[1, 2, 3, 4, 5, 6, 7], [7, 8, 9]]
    asked = [(ids, lengths) for ids, lengths, _ in model.calls]
    assert asked == [
        ([[1, 2, 3], [7, 0, 0]], [3, 1]),
        ([[4], [8]], None),
        ([[5]], None),
        ([[6]], None),
    ]


def test_without_a_cache_the_whole_text_is_read_each_time():
    model = Counter()
    generate(model, [[1, 2], [7]], 2, use_cache=False)
    assert [call[:2] for call in model.calls] == [
        ([[1, 2], [7, 0]], [2, 1]),
        ([[1, 2, 3], [7, 8, 0]], [3, 2]),
    ]


def test_nothing_is_computed_before_an_id_is_asked_for():
    model = Counter()
    ids = stream(model, [1], 40)
    assert model.calls == []
    assert [next(ids), next(ids)] == [2, 3]
    assert len(model.calls) == 2


def test_dropout_is_off_during_a_step_and_as_it_was_between_steps():
    model = Counter()
    for token in stream(model, [1], 2):
        assert token
        assert model.training
        assert minitx.is_recording()
    assert [training for _, _, training in model.calls] == [False, False]
    real = gpt(dropout=0.5)
    assert generate(real, [1, 2], 10, temperature=0) == greedy_by_hand(gpt(dropout=0.5), [1, 2], 10)
    assert all(module.training for module in real.modules())
    real.blocks[0].eval()
    generate(real, [1], 1)
    assert not real.blocks[0].training
    assert real.training


def test_after_a_model_fails_dropout_and_gradients_are_as_before():
    class Failing(Counter):
        def forward(self, ids, **options):
            raise RuntimeError("no")

    model = Failing()
    with pytest.raises(RuntimeError, match="no"):
        generate(model, [1], 1)
    assert model.training
    assert minitx.is_recording()


def test_a_model_whose_forward_was_replaced_is_asked_through_it():
    """The short way to the last position's logits is for a Decoder's own forward only."""

    class Always(models.GPT):
        def forward(self, ids, **options):
            logits = np.zeros((*np.shape(ids), VOCAB), np.float32)
            logits[..., 6] = 1
            return Tensor(logits)

    model = Always(MODELS["learned"].config, rng=0)
    assert generate(model, [1], 3, temperature=0) == [1, 6, 6, 6]


def test_a_padded_vocabulary_gives_no_id_behind_its_end():
    model = gpt()
    model.tokens.weight.array_to_update()[7:] *= 30
    assert max(generate(model, [1, 2], 20, seed=0)) >= 7
    for settings in ({"seed": 0}, {"temperature": 0}):
        assert max(generate(model, [[1, 2], [3]], 20, vocab_size=7, **settings)[0]) < 7


# Where rows end


def test_a_row_ends_with_its_stop_id_which_belongs_to_it():
    model = Counter()
    assert generate(model, [1], 8, stop=4) == [1, 2, 3, 4]
    assert generate(model, [1], 8, stop=[6, 4]) == [1, 2, 3, 4]
    assert generate(model, [1], 8, stop=np.array([6, 4])) == [1, 2, 3, 4]
    assert generate(model, [4], 3, stop=4) == [4, 5, 6, 7], "an id of the prompt ends nothing"
    assert generate(model, [1], 3, stop=[]) == [1, 2, 3, 4]


def test_a_row_ends_with_a_sequence_of_ids_among_the_new_ones():
    model = Counter()
    assert generate(model, [1], 8, stop=[[3, 4]]) == [1, 2, 3, 4]
    assert generate(model, [3], 3, stop=[[3, 4]]) == [3, 4, 5, 6], "half of it is in the prompt"
    assert generate(model, [1], 8, stop=[[4, 3], (2, 3, 4, 5), 9]) == [1, 2, 3, 4, 5]
    assert generate(model, [1], 8, stop=[7, [5, 6], [3, 5]]) == [1, 2, 3, 4, 5, 6]


def test_rows_of_a_batch_end_by_themselves():
    model = Counter()
    prompts = [[1], [6], [3], [0]]
    assert generate(model, prompts, 4, stop=[4, [7, 8]]) == [[1, 2, 3, 4], [6, 7, 8], [3, 4], [0, 1, 2, 3, 4]]
    steps = list(stream(model, prompts, 4, stop=[4, [7, 8]]))
    assert steps == [[2, 7, 4, 1], [3, 8, None, 2], [4, None, None, 3], [None, None, None, 4]]


def test_rows_that_go_on_when_others_have_ended_get_what_they_get_alone(model):
    for settings in ({"temperature": 0}, {"seed": 2, "temperature": 2.0}):
        alone = [
            generate(
                model,
                prompt,
                14,
                stop=[0, 5],
                **{**settings, **({"seed": 2 + i} if "seed" in settings else {})},
            )
            for i, prompt in enumerate(PROMPTS)
        ]
        assert generate(model, PROMPTS, 14, stop=[0, 5], **settings) == alone


def test_a_function_may_say_where_a_row_ends():
    seen = []

    def stop(row, token):
        seen.append((row, token))
        return token == (4 if row else 2)

    assert generate(Counter(), [[1], [1]], 5, stop=stop) == [[1, 2], [1, 2, 3, 4]]
    assert seen == [(0, 2), (1, 2), (1, 3), (1, 4)]


# Longer than the context


@pytest.mark.parametrize("name", ["rotary", "alibi", "llama"])
def test_a_window_lets_a_text_outgrow_the_context(name):
    model = MODELS[name]
    settings = {"window": 6, "sinks": 2, "temperature": 0}
    text = generate(model, [1, 2, 3], 3 * CONTEXT, **settings)
    assert len(text) == 3 + 3 * CONTEXT
    assert len(set(text[CONTEXT:])) > 2
    assert text[:9] == generate(model, [1, 2, 3], 6, temperature=0), "as long as all fits into the window"
    long_prompt = text[: 2 * CONTEXT]
    assert generate(model, long_prompt, CONTEXT + 3, **settings) == text, "whatever the prompt's length"
    rows = generate(model, [[1, 2, 3], [5], text[:15]], 20, **settings)
    assert rows == [generate(model, row, 20, **settings) for row in ([1, 2, 3], [5], text[:15])]


def test_windows_that_make_no_sense_are_refused():
    rotary = MODELS["rotary"]
    for settings, says in (
        ({"window": 0}, "window must be at least 1"),
        ({"window": 4, "sinks": -1}, "sinks must be at least 0"),
        ({"sinks": 2}, "give a window"),
        ({"window": 20, "sinks": 5}, r"at most the context of the model, 24, got 5 \+ 20"),
        ({"window": 4, "use_cache": False}, "needs use_cache=True"),
    ):
        with pytest.raises(ValueError, match=says):
            stream(rotary, [1], 2, **settings)
    with pytest.raises(ValueError, match=r"LearnedPositions .* cannot move in a window"):
        stream(MODELS["learned"], [1], 2, window=4)


# Wrong input: refused at the call, before anything is computed


@pytest.mark.parametrize(
    ("ids", "settings", "error", "says"),
    [
        ([1] * 51, {}, ValueError, "Prompt 0 has 51 tokens, more than the context of the model, 50"),
        (
            [1] * 48,
            {},
            ValueError,
            "48 tokens, and with max_new_tokens = 3 that is 51, .* 50. Ask for 2 at most",
        ),
        ([[1], [1] * 49], {}, ValueError, "Prompt 1 has 49 tokens"),
        ([], {}, ValueError, "ids is empty"),
        ([[]], {}, ValueError, "Prompt 0 is empty"),
        ([[1], []], {}, ValueError, "Prompt 1 is empty"),
        (np.zeros((0,), int), {}, ValueError, "ids is empty"),
        (np.zeros((2, 0), int), {}, ValueError, "Prompt 0 is empty"),
        (np.zeros((1, 2, 3), int), {}, ValueError, r"ids must have shape \(n,\) or \(B, n\)"),
        (np.array(3), {}, ValueError, r"ids must have shape"),
        ([[[1]]], {}, ValueError, "prompt 0 must have shape"),
        ([[1, [2]]], {}, TypeError, "Prompt 0 must be one sequence"),
        ([[1], 2], {}, ValueError, r"prompt 1 must have shape"),
        ([1, [2]], {}, TypeError, "Prompt 0 must be one sequence"),
        ("text", {}, TypeError, "got str; encode a text first"),
        (3, {}, TypeError, "got int"),
        (None, {}, TypeError, "got NoneType"),
        ([1.0, 2.0], {}, TypeError, "must hold integers, got float64"),
        ([True], {}, TypeError, "must hold integers, got bool"),
        (["a"], {}, TypeError, "must hold integers"),
        ([1, 10], {}, IndexError, r"0 \.\.\. 9, .* prompt 0 has 10 at place 1"),
        ([[1], [2, 3, -1]], {}, IndexError, "prompt 1 has -1 at place 2"),
        ([10**30], {}, TypeError, "must hold integers, got object"),
        ([1], {"max_new_tokens": -1}, ValueError, "max_new_tokens must be at least 0, got -1"),
        ([1], {"max_new_tokens": 2.5}, TypeError, "max_new_tokens must be an integer, got 2.5"),
        ([1], {"temperature": -1}, ValueError, "temperature"),
        ([1], {"top_p": 0}, ValueError, "top_p"),
        ([1], {"top_k": -3}, ValueError, "top_k"),
        ([1], {"seed": -1}, ValueError, "seed must be at least 0"),
        ([[1], [2]], {"seed": [1, 2, 3]}, ValueError, "each of 2 rows, got 3"),
        ([1], {"stop": "end"}, TypeError, "got the text 'end'"),
        ([1], {"stop": [[]]}, ValueError, "cannot be empty"),
        ([1], {"stop": ["end"]}, TypeError, "got 'end' among them"),
        ([1], {"stop": [[1, 2.5]]}, TypeError, "among them"),
        ([1], {"stop": 1.5}, TypeError, "among them"),
        ([1], {"vocab_size": 11}, ValueError, "vocab_size must be at most that of the model, 10, got 11"),
        ([1], {"vocab_size": 0}, ValueError, "vocab_size must be at least 1"),
    ],
)
def test_wrong_input_is_refused(ids, settings, error, says):
    model = Counter()
    for function in (stream, generate):
        with pytest.raises(error, match=says):
            function(
                model,
                ids,
                settings.get("max_new_tokens", 3),
                **{k: v for k, v in settings.items() if k != "max_new_tokens"},
            )
    assert model.calls == []


def test_a_text_may_fill_the_context_to_its_end(model):
    assert len(generate(model, [1] * 4, CONTEXT - 4, temperature=0)) == CONTEXT


def test_weights_that_are_nan_give_an_error_that_names_the_row():
    model = gpt()
    model.tokens.weight.array_to_update()[5] = np.nan
    with pytest.raises(ValueError, match="logits of row 0 hold nan"):
        generate(model, [1, 2], 3, temperature=0)


@pytest.mark.parametrize("positions", ["learned", "rotary", "alibi"])
def test_a_compiled_step_writes_the_same_batch_whose_rows_end_at_different_times(positions):
    pytest.importorskip("numba")
    config = models.GPTConfig(19, 48, 2, 4, 16, n_kv_heads=2, positions=positions)
    model = models.GPT(config, rng=0)
    prompts = [[3, 1, 4], [1], [5, 9, 2, 6, 5]]
    settings = {"temperature": 1.5, "seed": 7, "stop": [2, 11]}
    plain = generate(model, prompts, 20, **settings)
    assert len({len(row) for row in plain}) > 1
    assert generate(model, prompts, 20, compiled=True, **settings) == plain
    assert len(generate(model, prompts, 20, compiled="int8", **settings)) == 3


def test_a_compiled_step_is_refused_where_it_cannot_be():
    model = models.GPT(models.GPTConfig(19, 48, 2, 4, 16, positions="rotary"), rng=0)
    with pytest.raises(ValueError, match="needs a cache without a window"):
        generate(model, [1], 3, compiled=True, use_cache=False)
    with pytest.raises(ValueError, match="needs a cache without a window"):
        generate(model, [1], 3, compiled=True, window=4)
