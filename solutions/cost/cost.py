# %% [markdown]
# # Cost: why attention is quadratic, and what to do about it
#
# **After this unit you can**
#
# - count the scores, bytes and multiply-adds of attention, and say from which length on the square rules;
# - compute attention one block of keys at a time: the same answer, in memory that grows in a straight line;
# - merge the patches of a camera image into fewer tokens, and predict what that saves;
# - check a prediction against a measurement.
#
# **Time:** about 90 minutes.
# **Before you start:** the unit *attention*. You need the softmax, masks (`True` = may attend) and `@`.
# **Points:** 21, of which tests give 16, a question 1 and a written answer 4.
#
# **How it works.** Write code where you see `YOUR CODE HERE`. Below each of your cells stands a check.
# Run it as often as you like: it tells you what is wrong, and says so when all is well. When your
# notebook is graded, more tests run, on inputs that you do not see. Stuck? Each task has three folded
# hints: the idea, the shapes, and almost the code.

# %% nbgrader={"grade_id": "imports", "locked": true}
import time
import tracemalloc

import numpy as np

from minitx import figures
from minitx.course import check, quiz

answers = {}  # your answers to the questions near the end

# %% [markdown]
# ## 1. Count before you run
#
# Every query is compared with every key. With $n$ tokens that read each other there are $n$ queries and $n$
# keys, so there are $n \cdot n$ scores. Twice the tokens, four times the scores.

# %% nbgrader={"grade_id": "figure-tables", "locked": true}
figure = figures.score_tables((8, 16, 32))

# %% [markdown]
# Three numbers tell what one attention costs. Let there be $n$ queries and $m$ keys, in each of the heads of
# each of the sequences of a batch.
#
# 1. **Scores.** Each head of each sequence has a table of its own, with $n \cdot m$ numbers.
# 2. **Bytes.** A float32 takes 4 bytes, a float16 takes 2.
# 3. **Multiply-adds.** One multiplication together with the addition that follows it counts as one. A score
#    is a dot product of two vectors with $d_k$ numbers: $d_k$ multiply-adds. Later each weight multiplies a
#    value with $d_v$ numbers.
#
# The exponentials of the softmax are left out of the count. There is one for each score.
#
# **Your task:** write `attention_cost`.
#
# <details><summary>Hint 1: the idea</summary>
#
# There are two products of matrices: queries with keys, and weights with values. In both, every pair of a
# query and a key takes part. How many multiply-adds does one pair need in the first, and how many in the
# second?
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# The scores are `(batch, heads, n, m)`. In the first product each of them adds up $d_k$ terms. In the second
# each of them meets $d_v$ numbers.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# scores        = batch times heads times n times m
# bytes         = scores times the bytes of one number
# multiply_adds = scores times (d_k plus d_v)
# ```
#
# </details>


# %% nbgrader={"grade_id": "attention-cost", "solution": true}
def attention_cost(
    batch: int, heads: int, n: int, m: int, d_k: int, d_v: int, bytes_each: int
) -> dict[str, int]:
    """What one attention costs when its whole table of scores is built.

    q is (batch, heads, n, d_k), k is (batch, heads, m, d_k), v is (batch, heads, m, d_v).
    bytes_each: the bytes of one number.
    Returns {"scores": how many, "bytes": of all scores, "multiply_adds": of both products}.
    """
    ### BEGIN SOLUTION
    scores = batch * heads * n * m
    return {"scores": scores, "bytes": scores * bytes_each, "multiply_adds": scores * (d_k + d_v)}
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-attention-cost", "grade": true, "points": 0.5}
### Test: two queries, three keys, counted on paper (0.5 points)
### Hint: 6 scores in each of 4 heads. Each score takes 5 multiply-adds, and each weight meets 1 number.
COSTS = ("scores", "bytes", "multiply_adds")
cost = attention_cost(batch=1, heads=4, n=2, m=3, d_k=5, d_v=1, bytes_each=4)
scores, size, work = check.entries("attention_cost", cost, COSTS)
check.array('cost["scores"]', scores, 24, axes=())
check.array('cost["bytes"]', size, 96, axes=())
check.array('cost["multiply_adds"]', work, 144, axes=())

"attention_cost: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-attention-cost-hidden", "grade": true, "points": 1.5}
# When your notebook is graded, this cell asks attention_cost about other sizes.
### BEGIN HIDDEN TESTS


def some_attention(label):
    """Random sizes, no two alike, and what your function says about them."""
    names = ("batch", "heads", "n", "m", "d_k", "d_v")
    given = dict(zip(names, map(int, check.rng(label).permutation(np.arange(3, 20))[:6]), strict=True))
    told = attention_cost(**given, bytes_each=2)
    return given, check.entries("attention_cost", told, ("scores", "bytes", "multiply_adds"))


### Test: every head of every sequence has a table of its own (0.5 points)
### Hint: How many tables are there, and how many rows and columns has each?
### Belief: square-of-queries
given, (told, _, _) = some_attention("cost scores")
table = np.empty([given[name] for name in ("batch", "heads", "n", "m")])
check.array("scores", told, table.size, axes=())

### Test: bytes belong to the table of scores (0.5 points)
### Hint: A score is one number.
### Belief: table-of-vectors
given, (_, told, _) = some_attention("cost bytes")
table = np.empty([given[name] for name in ("batch", "heads", "n", "m")], dtype=np.float16)
check.array("bytes", told, table.nbytes, axes=())

### Test: both products count, each with its own size (0.5 points)
### Hint: The second product mixes the values. How many numbers has a value?
### Belief: scores-only
given, (_, _, told) = some_attention("cost work")
work = sum(
    given["d_k"] + given["d_v"] for _ in np.ndindex(given["batch"], given["heads"], given["n"], given["m"])
)
check.array("multiply_adds", told, work, axes=())
### END HIDDEN TESTS

# %% [markdown]
# Now real sizes. A car looks around with four cameras, and keeps four frames of each: 16 images. In
# Alpamayo-R1 each image becomes 180 tokens, so there are 2,880 image tokens. Its language model has 32 heads
# of queries in each layer, of 128 numbers each. Before you run the cell, guess: how large is the table of
# scores of *one* layer, in 16-bit numbers?

# %% nbgrader={"grade_id": "watch-cameras", "locked": true}
for cameras in (1, 2, 4, 8):
    image_tokens = cameras * 4 * 180
    camera_cost = attention_cost(1, 32, image_tokens, image_tokens, 128, 128, bytes_each=2)
    print(
        f"{cameras} cameras: {image_tokens:5,} tokens, {camera_cost['scores']:13,} scores in a layer,"
        f" {camera_cost['bytes'] / 1e6:6,.0f} MB,"
        f" {camera_cost['multiply_adds'] / 1e9:6,.1f} billion multiply-adds"
    )

# %% [markdown]
# Half a gigabyte for one layer, and there are 36 layers. No one stores that. Section 3 shows how to do
# without the table. A causal mask leaves about half of the scores, $n(n+1)/2$. Half of a square still grows
# like a square.

# %% [markdown]
# ## 2. Is it the square that costs?
#
# Attention is one part of a layer. The other parts treat each token alone, so their work grows in a straight
# line. A layer of the original transformer, with the model's width $d$ and $n$ tokens, does this:
#
# | part | matrices | multiply-adds |
# |---|---|---|
# | projections | four of $d \times d$: for queries, keys, values, and the output | $4\,n\,d^2$ |
# | attention | all heads together | ? |
# | MLP | one of $d \times d_\mathrm{ff}$, and one back of $d_\mathrm{ff} \times d$ | ? |
#
# The $h$ heads share the width: each has $d_k = d_v = d / h$. Biases, norms and exponentials are left out.
#
# **Your task:** write `layer_cost` and `break_even`. The second one gives the number of tokens at which
# attention costs as much as projections and MLP together. Below that, the straight line rules; above it, the
# square.
#
# <details><summary>Hint 1: the idea</summary>
#
# For attention take your formula from section 1 with one sequence, $m = n$ and $d_k = d_v = d / h$. What
# becomes of $h$? For `break_even`, set attention equal to the rest and solve for $n$. One $n$ cancels.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# A product of `(n, a)` with `(a, b)` takes $n \cdot a \cdot b$ multiply-adds. The MLP is `(n, d)` with
# `(d, d_ff)` and then `(n, d_ff)` with `(d_ff, d)`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# projections = 4 n d d
# attention   = n n d for the scores, and n n d for mixing the values
# mlp         = n d d_ff, twice
#
# break even:  2 n n d = 4 n d d + 2 n d d_ff      divide both sides by 2 n d
# ```
#
# </details>


# %% nbgrader={"grade_id": "layer-cost", "solution": true}
def layer_cost(n: int, d_model: int, n_heads: int, d_ff: int) -> dict[str, int]:
    """The multiply-adds of one layer for one sequence of n tokens that read each other.

    Each head has d_model / n_heads numbers, for keys and for values.
    Returns {"projections": ..., "attention": ..., "mlp": ...}.
    """
    ### BEGIN SOLUTION
    head_dim = d_model // n_heads
    attention = attention_cost(1, n_heads, n, n, head_dim, head_dim, 1)["multiply_adds"]
    return {"projections": 4 * n * d_model**2, "attention": attention, "mlp": 2 * n * d_model * d_ff}
    ### END SOLUTION


def break_even(d_model: int, d_ff: int) -> float:
    """The number of tokens at which attention costs as much as projections and MLP together."""
    ### BEGIN SOLUTION
    return 2 * d_model + d_ff
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-layer-cost", "grade": true, "points": 0.5}
### Test: a layer of width 6 with two heads, counted on paper (0.5 points)
### Hint: projections 4 x 10 x 36. Attention: 100 pairs, 3 + 3 multiply-adds in each of 2 heads.
PARTS = ("projections", "attention", "mlp")
parts = check.entries("layer_cost", layer_cost(n=10, d_model=6, n_heads=2, d_ff=5), PARTS)
for part, told, right in zip(PARTS, parts, (1440, 1200, 600), strict=True):
    check.array(f'layer_cost(...)["{part}"]', told, right, axes=())
check.array("break_even(6, 5)", break_even(6, 5), 17, axes=())

"layer_cost and break_even: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-layer-cost-hidden", "grade": true, "points": 2}
# When your notebook is graded, this cell asks about other layers.
### BEGIN HIDDEN TESTS


def work_of(n, d_model, d_ff):
    """The multiply-adds of a layer's products, from the shapes of the two factors."""

    def product(rows, inner, columns):
        return len(range(rows)) * inner * columns

    return {
        "projections": sum(product(n, d_model, d_model) for _ in "qkvo"),
        "attention": product(n, d_model, n) + product(n, n, d_model),
        "mlp": product(n, d_model, d_ff) + product(n, d_ff, d_model),
    }


def layer_parts(n, d_model, n_heads, d_ff):
    return check.entries(
        "layer_cost", layer_cost(n, d_model, n_heads, d_ff), ("projections", "attention", "mlp")
    )


### Test: projections and MLP of another layer (0.5 points)
### Hint: Count the matrices: four in the attention, two in the MLP.
### Belief: mlp-one-way
n, d_ff = (int(size) for size in check.rng("layer").integers(30, 90, size=2))
projections, _, mlp = layer_parts(n, 24, 4, d_ff)
check.array("projections", projections, work_of(n, 24, d_ff)["projections"], axes=())
check.array("mlp", mlp, work_of(n, 24, d_ff)["mlp"], axes=())

### Test: attention grows with the square of the tokens (0.5 points)
### Hint: Every token meets every other one. How many pairs is that?
### Belief: attention-in-a-line
n = int(check.rng("layer square").integers(30, 90))
for tokens in (n, 2 * n, 7 * n):
    _, attention, _ = layer_parts(tokens, 24, 4, 50)
    check.array("attention", attention, work_of(tokens, 24, 50)["attention"], axes=())

### Test: more heads of less width cost the same (0.5 points)
### Hint: Eight heads of 3 numbers, or two heads of 12: how many multiply-adds does one pair of tokens need?
### Belief: heads-cost-extra
n = int(check.rng("layer heads").integers(30, 90))
for heads in (1, 2, 8, 24):
    _, attention, _ = layer_parts(n, 24, heads, 50)
    check.array("attention", attention, work_of(n, 24, 50)["attention"], axes=())

### Test: at break-even the two sides cost the same (0.5 points)
### Hint: Both sides contain n and d. What is left when they are divided out?
### Belief: square-always-rules
d_ff = 2 * int(check.rng("break-even").integers(20, 60))
for width in (8, 30):
    sides = [work_of(n, width, d_ff) for n in range(1, 300)]
    even = 1 + next(i for i, side in enumerate(sides) if 2 * side["attention"] >= sum(side.values()))
    check.array("break_even", break_even(width, d_ff), even, axes=())
### END HIDDEN TESTS

# %% [markdown]
# The cell below draws both sides for the original transformer ($d = 512$, $d_\mathrm{ff} = 2048$; Vaswani and
# others 2017, section 3). A sentence of 50 words is far to the left of the break-even: attention is under two
# percent of its work. Section 4 of that paper compares with recurrent layers, $n\,d^2$ against $n^2 d$, and
# finds attention cheaper as long as $n < d$. Sentences were short then. Camera tokens are not.

# %% nbgrader={"grade_id": "watch-layer", "locked": true}
token_counts = [2**power for power in range(4, 17)]
layer_counts = [layer_cost(words_read, 512, 8, 2048) for words_read in token_counts]
figure = figures.growth(
    token_counts,
    {
        "projections and MLP": [layer_work["projections"] + layer_work["mlp"] for layer_work in layer_counts],
        "attention": [layer_work["attention"] for layer_work in layer_counts],
    },
    unit="multiply-adds in a layer",
    mark=(break_even(512, 2048), f"break-even: {break_even(512, 2048):,} tokens"),
)
for words_read in (50, 3072, 50_000):
    work_shares = layer_cost(words_read, 512, 8, 2048)
    attention_share = work_shares["attention"] / sum(work_shares.values())
    print(f"{words_read:6,} words: attention is {attention_share:6.1%} of the layer's work")

# %% [markdown]
# ### Spot the bug in a sentence
#
# The tutorial that this course belongs to says: *doubling the number of camera tokens quadruples attention's
# cost.* People often hear: *the model takes four times as long.* Before you run the cell, decide for which of
# these lengths that is nearly true. The width is that of Alpamayo-R1's language model, 4096.

# %% nbgrader={"grade_id": "demo-doubling", "locked": true}
print(f"break-even at {break_even(4096, 12_288):,} tokens")
for tokens_before in (720, 2_880, 20_480, 200_000):
    work_before, work_after = (
        layer_cost(tokens_before, 4096, 32, 12_288),
        layer_cost(2 * tokens_before, 4096, 32, 12_288),
    )
    attention_ratio = work_after["attention"] / work_before["attention"]
    layer_ratio = sum(work_after.values()) / sum(work_before.values())
    print(
        f"{tokens_before:7,} tokens doubled: attention times {attention_ratio:.2f},"
        f" the whole layer times {layer_ratio:.2f}"
    )

# %% [markdown]
# The sentence is right about attention, and wrong about the layer. At 2,880 tokens the layer's work a little
# more than doubles. (That model's MLP has three matrices and its keys have fewer heads, so its own break-even
# lies a little elsewhere.) The scores are the part that grows fastest. Whether they are the part that *costs*
# depends on where you stand. There are three reasons to mind them all the same: their memory, their growth,
# and the encoder of the images. It is narrower, so its break-even comes earlier, and it reads every patch.

# %% [markdown]
# ## 3. The same answer without the table
#
# The output of a query is a weighted average over all keys. Can one compute it with only a few keys in
# memory at a time?
#
# ### Spot the bug
#
# A colleague cuts the keys in two halves, lets each half answer, and averages the two answers. Both halves
# have the same number of keys, so that looks fair. Before you run the cell: is it exact?


# %% nbgrader={"grade_id": "demo-halves", "locked": true}
def whole_table(q, k, v):
    """Attention as in the unit `attention`, with all scores at once."""
    table = np.einsum("bhid,bhjd->bhij", q, k, optimize=True) / q.shape[-1] ** 0.5
    weights = np.exp(table - table.max(axis=-1, keepdims=True))
    return weights @ v / weights.sum(axis=-1, keepdims=True)


half_q, half_k, half_v = np.random.default_rng(3).normal(size=(3, 1, 1, 6, 8))
half_one = whole_table(half_q, half_k[:, :, :3], half_v[:, :, :3])
half_two = whole_table(half_q, half_k[:, :, 3:], half_v[:, :, 3:])
half_right = whole_table(half_q, half_k, half_v)
print("largest error of the average:", np.abs((half_one + half_two) / 2 - half_right).max().round(2))

# %% [markdown]
# It is not. The two answers are averages themselves, and one of them may stand for much more weight than the
# other: the half with the well-matching keys should count for more. Each half must say, beside its answer,
# **how much weight it had**: the sum of its exponentials, before the division.
#
# That is the whole trick. Go through the keys block by block, and carry three things along for every query:
#
# - `top`, the largest score so far;
# - `total`, the sum of $e^{\mathrm{score} - \mathrm{top}}$ so far;
# - `mixed`, the sum of $e^{\mathrm{score} - \mathrm{top}}$ times the value so far.
#
# At the end, `mixed / total` is the output. This is the *online softmax*, the heart of FlashAttention (Dao
# and others, 2022). Nothing is approximated.

# %% nbgrader={"grade_id": "figure-blocks", "locked": true}
figure = figures.blocks_of_keys(n=4, m=10, block=4)

# %% [markdown]
# **The trap.** Why `top` at all? Because $e^{1000}$ is infinite. All exponentials are taken relative to the
# largest score. But the largest score *so far* may grow with a new block. What was summed up relative to the
# old `top` must then be carried over to the new one. Since
# $e^{s - \mathrm{new}} = e^{s - \mathrm{old}} \cdot e^{\mathrm{old} - \mathrm{new}}$, one factor does it for
# the whole sum.
#
# **The other trap.** At the start `top` is $-\infty$, and a mask may hide a whole block from a query. Then
# old and new `top` are both $-\infty$, and $-\infty - (-\infty)$ is `nan`.
#
# **Your task:** write `absorb`, which takes one block into the state.
#
# <details><summary>Hint 1: the idea</summary>
#
# Work out the scores of the block, and give hidden places $-\infty$. Find the new top. Multiply what you
# carry by $e^{\mathrm{old} - \mathrm{new}}$. Add what the block brings, relative to the new top.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# The block's scores are `(batch, heads, n, block)`. `top` and `total` are `(batch, heads, n)`: the largest
# and the sum over the last axis. `mixed` is `(batch, heads, n, d_v)`; the factor needs a new last axis to
# meet it.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# scores  = q times k transposed, divided by the root of d_k; -inf where not allowed
# new_top = the larger of top and the largest score of each row
# base    = new_top, but 0 where new_top is -inf        (so that nothing becomes nan)
# shrink  = exp(top - base)
# raised  = exp(scores - base)
# total   = shrink times total, plus the sum of raised over its last axis
# mixed   = shrink times mixed, plus raised times v
# ```
#
# </details>


# %% nbgrader={"grade_id": "absorb", "solution": true}
def absorb(
    top: np.ndarray,
    total: np.ndarray,
    mixed: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    allowed: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The state after one more block of keys and values.

    top, total: (batch, heads, n), mixed: (batch, heads, n, d_v): the state so far, at first -inf, 0, 0.
    q: (batch, heads, n, d_k), k: (batch, heads, block, d_k), v: (batch, heads, block, d_v).
    allowed: booleans that broadcast to (batch, heads, n, block); True = may attend.
    Returns the new (top, total, mixed). A query that was never allowed a key keeps (-inf, 0, 0).
    No input is changed.
    """
    ### BEGIN SOLUTION
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(allowed, scores, -np.inf)
    new_top = np.maximum(top, scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    return new_top, shrink * total + raised.sum(axis=-1), shrink[..., None] * mixed + raised @ v
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-absorb", "grade": true, "points": 1}
# One query with d_k = 1, so its scores are q times k. The block's keys are the logarithms of 1, 2 and 4.
### Test: the first block, worked out by hand (0.5 points)
### Hint: The largest score is log(4). Relative to it the exponentials are 1/4, 2/4 and 4/4.
q = np.ones((1, 1, 1, 1))
k = np.log([1.0, 2.0, 4.0]).reshape(1, 1, 3, 1)
v = np.array([[8.0, 0.0], [4.0, 4.0], [0.0, 2.0]]).reshape(1, 1, 3, 2)
everything = np.ones((1, 3), dtype=bool)
state = (np.full((1, 1, 1), -np.inf), np.zeros((1, 1, 1)), np.zeros((1, 1, 1, 2)))
top, total, mixed = check.parts("absorb", absorb(*state, q, k, v, everything), ("top", "total", "mixed"))
check.array("top", top, [[[np.log(4.0)]]], axes=("batch", "head", "query"))
check.array("total", total, [[[1.75]]], axes=("batch", "head", "query"))
check.array("mixed", mixed, [[[[4.0, 4.0]]]], axes=("batch", "head", "query", "value"))

### Test: a later block with a larger score shrinks what was there (0.5 points)
### Hint: The old top is log(2), the new one log(4): what was summed up counts half.
q = np.ones((1, 1, 1, 1))
k = np.log([1.0, 2.0, 4.0]).reshape(1, 1, 3, 1)
v = np.array([[8.0, 0.0], [4.0, 4.0], [0.0, 2.0]]).reshape(1, 1, 3, 2)
everything = np.ones((1, 3), dtype=bool)
state = (np.full((1, 1, 1), np.log(2.0)), np.full((1, 1, 1), 3.0), np.full((1, 1, 1, 2), 10.0))
top, total, mixed = check.parts("absorb", absorb(*state, q, k, v, everything), ("top", "total", "mixed"))
check.array("top", top, [[[np.log(4.0)]]], axes=("batch", "head", "query"))
check.array("total", total, [[[3.25]]], axes=("batch", "head", "query"))
check.array("mixed", mixed, [[[[9.0, 9.0]]]], axes=("batch", "head", "query", "value"))

"absorb: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-absorb-hidden", "grade": true, "points": 3.5}
# When your notebook is graded, this cell tests absorb: several blocks, masks, scores of any size, float32.
### BEGIN HIDDEN TESTS
QUERIES = ("batch", "head", "query")
NAMES = ("top", "total", "mixed")


def state_of(q, k, v, allowed):
    """What the state must be after all these keys, from the whole table of scores."""
    scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[3])
    allowed = np.broadcast_to(allowed, scores.shape)
    top = np.max(scores, axis=3, where=allowed, initial=-np.inf)
    base = np.where(allowed.any(axis=3), top, 0.0)
    raised = np.where(allowed, np.exp(np.minimum(scores - base[..., None], 0.0)), 0.0)
    return top, np.einsum("bhij->bhi", raised), np.einsum("bhij,bhje->bhie", raised, v)


def nothing_yet(q, v):
    """The state before the first block."""
    shape = q.shape[:3]
    empty = np.zeros((*shape, v.shape[3]), dtype=q.dtype)
    return np.full(shape, -np.inf, dtype=q.dtype), np.zeros(shape, dtype=q.dtype), empty


def absorbed(state, *given):
    return check.parts("absorb", absorb(*state, *given), NAMES)


def compare_states(got, right, **options):
    options = {"atol": 1e-6, **options}
    check.array("top", got[0], right[0], axes=QUERIES, **options)
    check.array("total", got[1], right[1], axes=QUERIES, **options)
    check.array("mixed", got[2], right[2], axes=(*QUERIES, "value"), **options)


def blocks_of(label, n, m, d_k=6, d_v=7):
    rng = check.rng(label)
    return rng.normal(size=(2, 3, n, d_k)), rng.normal(size=(2, 3, m, d_k)), rng.normal(size=(2, 3, m, d_v))


ALL = np.ones((1, 1), dtype=bool)

### Test: one block from nothing (0.5 points)
### Hint: Scores are divided by the root of d_k. Nothing is divided by the total yet.
### Belief: unscaled-scores
q, k, v = blocks_of("one block", n=4, m=5)
compare_states(absorbed(nothing_yet(q, v), q, k, v, ALL), state_of(q, k, v, True))

### Test: three blocks of different size are like all keys at once (0.5 points)
### Hint: Has everything that you carry been brought to the new top, total and mixed alike?
### Belief: rescales-nothing
q, k, v = blocks_of("three blocks", n=4, m=11, d_k=1)
k = np.sort(k, axis=2) * np.sign(check.rng("three signs").normal(size=(2, 3, 1, 1)))
state = nothing_yet(q, v)
for part in (slice(0, 5), slice(5, 7), slice(7, 11)):
    state = absorbed(state, q, k[:, :, part], v[:, :, part], ALL)
compare_states(state, state_of(q, k, v, True))

### Test: the top is the largest score of all blocks, not of the last one (0.5 points)
### Hint: A later block may have smaller scores than an earlier one.
### Belief: top-of-this-block
q, k, v = blocks_of("falling", n=4, m=8, d_k=1)
q, k = np.abs(q) + 0.5, -np.sort(np.abs(k), axis=2)
before = state_of(q, k[:, :, :5], v[:, :, :5], True)
state = absorbed(tuple(map(np.copy, before)), q, k[:, :, 5:], v[:, :, 5:], ALL)
compare_states(state, state_of(q, k, v, True))

### Test: scores of a thousand do no harm, in whatever order they come (0.5 points)
### Hint: Every exponential is taken relative to the largest score so far, and so is never above 1.
### Belief: no-top
q, k, v = blocks_of("large", n=4, m=9, d_k=1)
q = np.sign(q) * 40.0
k = np.round(50.0 * k) / 2 + np.repeat(check.rng("large offsets").permutation([-30.0, 0.0, 30.0]), 3)[:, None]
state = nothing_yet(q, v)
for first in (0, 3, 6):
    state = absorbed(state, q, k[:, :, first : first + 3], v[:, :, first : first + 3], ALL)
compare_states(state, state_of(q, k, v, True))

### Test: a hidden key adds nothing, whatever its score (0.5 points)
### Hint: Which score has the exponential 0?
### Belief: hidden-scores-zero
q, k, v = blocks_of("hidden", n=4, m=6, d_k=1)
mask = check.rng("hidden mask").random(size=(2, 1, 4, 6)) < 0.6
mask[..., 1], mask[..., 4] = True, False
k[:, :, 4] = 900.0
first = absorbed(nothing_yet(q, v), q, k[:, :, :3], v[:, :, :3], mask[..., :3])
compare_states(absorbed(first, q, k[:, :, 3:], v[:, :, 3:], mask[..., 3:]), state_of(q, k, v, mask))

### Test: a block that is hidden altogether is no trouble, first or later (0.5 points)
### Hint: What is -inf minus -inf? Whom does it concern?
### Belief: hidden-block-nan
q, k, v = blocks_of("empty blocks", n=4, m=6, d_k=1)
mask = np.ones((2, 3, 4, 6), dtype=bool)
mask[0, :, 1, :3] = False
mask[1, :, 2, 3:] = False
mask[1, 1, 3] = False
first = absorbed(nothing_yet(q, v), q, k[:, :, :3], v[:, :, :3], mask[..., :3])
compare_states(absorbed(first, q, k[:, :, 3:], v[:, :, 3:], mask[..., 3:]), state_of(q, k, v, mask))

### Test: the inputs stay as they were, and float32 stays float32 (0.5 points)
### Hint: Look for +=, *= and assignments to parts of the state. And what is the dtype after each step?
### Belief: state-in-place
q, k, v = (array.astype(np.float32) for array in blocks_of("inputs", n=4, m=5, d_k=1))
k[...] = np.float32(0.25)
state = state_of(q, np.zeros_like(k), v, True)
state = tuple(np.asarray(part, dtype=np.float32) for part in state)
held = [np.copy(array) for array in (*state, q, k, v)]
got = absorbed(state, q, k, v, ALL)
both_k = np.concatenate([np.zeros_like(k), k], axis=2)
compare_states(got, state_of(q, both_k, np.concatenate([v, v], axis=2), True), rtol=1e-4, atol=1e-5)
for name, part in zip(NAMES, got, strict=True):
    check.dtype(name, part, np.float32)
for name, now, copy in zip((*NAMES, "q", "k", "v"), (*state, q, k, v), held, strict=True):
    check.unchanged(name, now, copy)
### END HIDDEN TESTS

# %% [markdown]
# Now put the blocks together. Beside the output return one more number for each query, the **log-sum**: the
# logarithm of the sum of $e^{\mathrm{score}}$ over all its keys. It says how much weight the answer stands
# for. You have `top` and `total`; the logarithm of $e^{\mathrm{top}} \cdot \mathrm{total}$ is what?
#
# **Your task:** write `attention_in_blocks`. Use your `absorb`, and never build the whole table.
#
# <details><summary>Hint 1: the idea</summary>
#
# Begin with the empty state, absorb one block of keys after the other, divide once at the end. With
# `causal=True`, say for each block which of *its* keys each query may see. The number of a key counts from
# the first key of all, not from the first key of its block.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# The empty state is `(batch, heads, n)`, `(batch, heads, n)` and `(batch, heads, n, d_v)`, in q's dtype. The
# mask of a block is `(n, keys in the block)`; the last block may be shorter than the others.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# state = (all -inf, all 0, all 0)
# for each block of keys, from the number `first` on:
#     keys    = the numbers first, first + 1, ... of this block
#     allowed = key number (row) <= query number (column) + (m - n)   if causal, else all True
#     state   = absorb(*state, q, the block of k, the block of v, allowed)
# output  = mixed / total        (0 where total is 0)
# log_sum = top + log(total)     (-inf where total is 0)
# ```
#
# </details>


# %% nbgrader={"grade_id": "blocks", "solution": true}
def attention_in_blocks(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, block: int, causal: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """softmax(q k^T / sqrt(d_k)) v, with the scores of one block of keys in memory at a time.

    q: (batch, heads, n, d_k), k: (batch, heads, m, d_k), v: (batch, heads, m, d_v).
    block: how many keys a block has; the last one may have fewer.
    causal: query i may attend to the keys up to number i + (m - n).
    Returns the output (batch, heads, n, d_v) and the log-sum (batch, heads, n).
    A query with no allowed key has output 0 and log-sum -inf.
    """
    ### BEGIN SOLUTION
    n, m = q.shape[2], k.shape[2]
    top = np.full(q.shape[:3], -np.inf, dtype=q.dtype)
    state = (top, np.zeros_like(top), np.zeros((*top.shape, v.shape[3]), dtype=q.dtype))
    for first in range(0, m, block):
        part = slice(first, min(first + block, m))
        allowed = np.ones((n, part.stop - first), dtype=bool)
        if causal:
            allowed = np.arange(m)[None, part] <= np.arange(n)[:, None] + (m - n)
        state = absorb(*state, q, k[:, :, part], v[:, :, part], allowed)
    top, total, mixed = state
    total = np.where(total > 0, total, 1.0)  # a query without keys: 0 / 1, and -inf + 0
    return mixed / total[..., None], top + np.log(total)
    ### END SOLUTION


# %% nbgrader={"grade_id": "helper-peak", "locked": true}
def peak_bytes(function, *arguments, **options):
    """What the function returns, and how many bytes it held beyond its inputs, at most, while it ran."""
    tracemalloc.start()
    try:
        answer = function(*arguments, **options)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return answer, peak


# %% nbgrader={"grade_id": "test-blocks", "grade": true, "points": 1}
### Test: equal keys in blocks of two give the plain average (0.5 points)
### Hint: Five keys: blocks of 2, 2 and 1. All scores are 0, so the log-sum is log(5).
rng = check.rng("plain average")
q, k, v = rng.normal(size=(2, 3, 4, 6)), np.zeros((2, 3, 5, 6)), rng.normal(size=(2, 3, 5, 7))
output, log_sum = check.parts(
    "attention_in_blocks", attention_in_blocks(q, k, v, block=2), ("output", "log_sum")
)
average = np.repeat(v.mean(axis=2, keepdims=True), 4, axis=2)
check.array("output", output, average, axes=("batch", "head", "query", "value"), atol=1e-6)
check.array("log_sum", log_sum, np.full((2, 3, 4), np.log(5.0)), axes=("batch", "head", "query"), atol=1e-6)

### Test: three queries and five keys, causal (0.5 points)
### Hint: All scores are 0. The queries see 3, 4 and 5 keys: look at the logarithms.
q, k, v = np.zeros((2, 3, 3, 6)), np.ones((2, 3, 5, 6)), np.arange(5.0) * np.ones((2, 3, 1, 1))
v = np.swapaxes(v, 2, 3)
output, log_sum = check.parts(
    "attention_in_blocks", attention_in_blocks(q, k, v, block=2, causal=True), ("output", "log_sum")
)
counts = np.broadcast_to(np.log([3.0, 4.0, 5.0]), (2, 3, 3))
check.array("log_sum", log_sum, counts, axes=("batch", "head", "query"), atol=1e-6)
means = np.broadcast_to(np.array([[1.0], [1.5], [2.0]]), (2, 3, 3, 1))
check.array("output", output, means, axes=("batch", "head", "query", "value"), atol=1e-6)

"attention_in_blocks: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-blocks-hidden", "grade": true, "points": 3}
# When your notebook is graded, this cell compares with attention over the whole table, and measures memory.
### BEGIN HIDDEN TESTS
VALUES = ("batch", "head", "query", "value")


def all_at_once(q, k, v, allowed=True):
    """Output and log-sum from the whole table of scores."""
    scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[3])
    allowed = np.broadcast_to(allowed, scores.shape)
    log_sum = np.logaddexp.reduce(np.where(allowed, scores, -np.inf), axis=3)
    base = np.where(allowed.any(axis=3), log_sum, 0.0)
    weights = np.where(allowed, np.exp(np.minimum(scores - base[..., None], 0.0)), 0.0)
    return np.einsum("bhij,bhje->bhie", weights, v), log_sum


def compare_blocks(q, k, v, block, allowed=True, **options):
    right, right_sum = all_at_once(q, k, v, allowed)
    got = attention_in_blocks(q, k, v, block, **options)
    output, log_sum = check.parts("attention_in_blocks", got, ("output", "log_sum"))
    check.array("output", output, right, axes=VALUES, atol=1e-6)
    check.array("log_sum", log_sum, right_sum, axes=VALUES[:3], atol=1e-6)


def many(label, n, m, d_k=6, d_v=7):
    rng = check.rng(label)
    return rng.normal(size=(2, 3, n, d_k)), rng.normal(size=(2, 3, m, d_k)), rng.normal(size=(2, 3, m, d_v))


def lower(n, m):
    return np.arange(m)[None, :] - np.arange(n)[:, None] <= m - n


### Test: any size of block gives the same output (0.5 points)
### Hint: What becomes of the last keys when the block does not divide their number?
### Belief: drops-the-rest
for block in (1, 3, 4, 11, 40):
    compare_blocks(*many("any block", n=4, m=11), block)

### Test: the log-sum belongs to the scores as they are (0.5 points)
### Hint: The exponentials in total are relative to top. Which logarithm brings top back?
### Belief: log-sum-without-top
q, k, v = many("log-sum", n=4, m=9, d_k=1)
compare_blocks(8.0 * np.round(4.0 * q), np.round(16.0 * k) + 5.0, v, 4)

### Test: causal counts keys from the first one of all (0.5 points)
### Hint: Print the mask of the second block. Which keys may query 0 see in it?
### Belief: causal-in-each-block
compare_blocks(*many("causal blocks", n=7, m=7), 3, lower(7, 7), causal=True)

### Test: causal with more keys than queries lines up the last ones (0.5 points)
### Hint: The queries are the newest tokens: the last query sees every key.
### Belief: top-left-blocks
compare_blocks(*many("causal cache", n=3, m=8), 3, lower(3, 8), causal=True)
compare_blocks(*many("causal step", n=1, m=8), 3, lower(1, 8), causal=True)

### Test: queries without any key get 0 and -inf (0.5 points)
### Hint: With more queries than keys, the first queries see nothing. What is 0 divided by 0?
### Belief: empty-queries-nan
compare_blocks(*many("no keys", n=6, m=4), 3, lower(6, 4), causal=True)

### Test: memory grows with the block, not with the number of keys (0.5 points)
### Hint: Is there an array in your function with as many rows as queries and as many columns as keys?
rng = check.rng("memory")
q, k, v = (rng.normal(size=(1, 1, size, 8)).astype(np.float32) for size in (12, 320, 320))
peaks = []
for m in (32, 320):
    measured = peak_bytes(attention_in_blocks, q, k[:, :, :m], v[:, :, :m], 8)
    got, held = check.parts("peak_bytes", measured, ("answer", "bytes"))
    output, _ = check.parts("attention_in_blocks", got, ("output", "log_sum"))
    right, _ = all_at_once(q, k[:, :, :m], v[:, :, :m])
    check.array("output", output, right, axes=VALUES, rtol=1e-3, atol=1e-4, dtype=np.float32)
    peaks.append(float(np.asarray(held)))
grown, table = peaks[1] - peaks[0], 12 * (320 - 32) * 4
assert grown < 0.6 * table, f"with ten times the keys, {grown:,.0f} more bytes; a table grows by {table:,}"
### END HIDDEN TESTS

# %% [markdown]
# ### Predicted and measured
#
# Your `attention_cost` predicts how the table grows. The cell below measures the memory that both ways really
# hold, for one head in float32. What slope do you expect for each?

# %% nbgrader={"grade_id": "watch-memory", "locked": true}
memory_lengths = [128, 256, 512, 1024, 2048]
table_predicted, table_measured, block_measured = [], [], []
for tokens_held in memory_lengths:
    memory_q, memory_k, memory_v = (
        np.random.default_rng(0).normal(size=(3, 1, 1, tokens_held, 32)).astype("f4")
    )
    table_predicted.append(attention_cost(1, 1, tokens_held, tokens_held, 32, 32, 4)["bytes"])
    table_output, held_bytes = peak_bytes(whole_table, memory_q, memory_k, memory_v)
    table_measured.append(held_bytes)
    (block_output, _), held_bytes = peak_bytes(attention_in_blocks, memory_q, memory_k, memory_v, 64)
    block_measured.append(held_bytes)
    largest_gap = np.abs(table_output - block_output).max()
    print(f"{tokens_held:5,} tokens: largest largest_gap of the outputs {largest_gap:.1e}")
figure = figures.growth(
    memory_lengths,
    {"one table, predicted": table_predicted},
    points={"whole table, measured": table_measured, "blocks of 64, measured": block_measured},
    unit="bytes",
)

# %% [markdown]
# The measured table lies above the prediction, for NumPy holds a few tables at once on the way. But it has
# the same slope, that of a square. The blocks follow a straight line. The outputs are the same up to
# rounding: **exact, and in linear memory.**
#
# What did *not* become linear? Count the multiply-adds. Every query still meets every key. FlashAttention is
# faster on real hardware since the table never travels to the large, slow memory and back. It does not skip
# work.
#
# And the colleague with the two halves? With the log-sums it works: a half that stands for more weight
# counts for more. This is how one long row of keys is shared among many processors (*Flash-Decoding*).

# %% nbgrader={"grade_id": "watch-halves", "locked": true}
half_outputs, log_sums = zip(
    attention_in_blocks(half_q, half_k[:, :, :3], half_v[:, :, :3], 2),
    attention_in_blocks(half_q, half_k[:, :, 3:], half_v[:, :, 3:], 2),
    strict=True,
)
half_weights = np.exp(np.array(log_sums) - np.logaddexp(*log_sums))  # (half, batch, head, query)
print("weight of the first half for each query:", half_weights[0].ravel().round(2))
half_joined = (half_weights[..., None] * np.array(half_outputs)).sum(axis=0)
print(f"largest error: {np.abs(half_joined - half_right).max():.0e}")

# %% [markdown]
# ## 4. Fewer tokens
#
# Blocks save memory, not work. The way to save work is to have fewer tokens. A camera image is cut into
# small square **patches**, and each patch becomes a vector. In the language model of Alpamayo-R1 an image of
# 320 by 576 pixels is cut into patches of 16 pixels: 20 rows and 36 columns, 720 patches. Then each square of
# two by two neighbours is joined into **one** token: the four vectors are put side by side in one vector that
# is four times as wide, and a small learned network brings that back to the model's width. Nothing is thrown
# away by the joining itself.

# %% nbgrader={"grade_id": "figure-merge", "locked": true}
figure = figures.merged_grid(rows=4, columns=6, merge=2)

# %% [markdown]
# **The trap.** The patches come as one long list, row after row. Four patches in a row of that list are not
# a square. In the figure, token 0 is made of the patches 0, 1, **6, 7**.
#
# **Your task:** write `merge_patches`.
#
# <details><summary>Hint 1: the idea</summary>
#
# Lay the list out as a grid. Cut the rows into groups of `merge`, and the columns too. Bring the two axes
# that count inside a square next to each other. Only then join.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `(batch, rows * columns, d)` becomes `(batch, rows / merge, merge, columns / merge, merge, d)`. Axes 2 and 4
# count inside a square. In the right order the axes are: batch, row of squares, column of squares, row
# inside, column inside, d.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# grid   = patches reshaped to (batch, rows / merge, merge, columns / merge, merge, d)
# grid   = its axes in the order 0, 1, 3, 2, 4, 5
# answer = grid reshaped to (batch, rows / merge * columns / merge, merge * merge * d)
# ```
#
# </details>


# %% nbgrader={"grade_id": "merge", "solution": true}
def merge_patches(patches: np.ndarray, rows: int, columns: int, merge: int) -> np.ndarray:
    """One token for each square of merge x merge neighbouring patches.

    patches: (batch, rows * columns, d), row after row. merge divides both rows and columns.
    Returns (batch, rows / merge * columns / merge, merge * merge * d): tokens row after row, and inside a
    token the vectors of its patches side by side, row after row.
    """
    ### BEGIN SOLUTION
    batch, _, d = patches.shape
    high, wide = rows // merge, columns // merge
    grid = patches.reshape(batch, high, merge, wide, merge, d)
    return grid.transpose(0, 1, 3, 2, 4, 5).reshape(batch, high * wide, merge * merge * d)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-merge", "grade": true, "points": 0.5}
### Test: the grid of the picture, four rows and six columns (0.5 points)
### Hint: Every patch holds its own number. Compare each token with the picture.
patches = np.arange(24.0).reshape(1, 24, 1)
squares = [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11], [12, 13, 18, 19], [14, 15, 20, 21], [16, 17, 22, 23]]
check.array("tokens", merge_patches(patches, 4, 6, 2), [squares], axes=("batch", "token", "feature"))

"merge_patches: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-merge-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell tests merge_patches on other grids.
### BEGIN HIDDEN TESTS


def compare_merged(label, batch, rows, columns, merge, d):
    """The student's tokens against a loop over squares and the patches in them."""
    given = check.rng(label).normal(size=(batch, rows, columns, d))
    squares = [
        given[:, i : i + merge, j : j + merge].reshape(batch, -1)
        for i in range(0, rows, merge)
        for j in range(0, columns, merge)
    ]
    got = merge_patches(given.reshape(batch, rows * columns, d), rows, columns, merge)
    check.array("tokens", got, np.stack(squares, axis=1), axes=("batch", "token", "feature"))


### Test: squares, not runs of the list (0.5 points)
### Hint: Which patches are the neighbours of patch 0 to the right, below, and below right?
### Belief: merges-a-run
compare_merged("merge two", batch=2, rows=4, columns=6, merge=2, d=3)

### Test: squares of three by three, in a grid that is higher than wide (0.5 points)
### Hint: First all numbers of one patch, then those of the next one.
### Belief: features-first
compare_merged("merge three", batch=2, rows=9, columns=6, merge=3, d=4)
### END HIDDEN TESTS

# %% [markdown]
# What will it save? **Predict** before you measure. A sequence has `text` tokens, which stay, and `image`
# patches, of which `merge * merge` become one token.
#
# - The **scores** of a layer: how many times fewer?
# - The **cache**: a model that writes keeps the keys and values of every token. How many times smaller is it?
# - The **work** of a layer, by your `layer_cost`: how many times less?
#
# **Your task:** write `saving`.
#
# <details><summary>Hint 1: the idea</summary>
#
# Find the number of tokens before and after. Each of the three is a ratio, before divided by after. One grows
# with the square, one in a straight line, and one is a mixture.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# Tokens before: `text + image`. After: `text` and one for each square of `merge * merge` patches.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# before = text + image
# after  = text + image divided by (merge times merge)
# scores = (before / after) squared
# cache  = before / after
# work   = the sum of layer_cost before, divided by the sum of layer_cost after
# ```
#
# </details>


# %% nbgrader={"grade_id": "saving", "solution": true}
def saving(text: int, image: int, merge: int, d_model: int, n_heads: int, d_ff: int) -> dict[str, float]:
    """How many times less a layer needs when squares of merge x merge patches become one token.

    text: tokens that stay; image: patches before merging, a multiple of merge * merge.
    Returns {"scores": ..., "cache": ..., "work": ...}, each before / after.
    """
    ### BEGIN SOLUTION
    before, after = text + image, text + image // merge**2
    work = [sum(layer_cost(n, d_model, n_heads, d_ff).values()) for n in (before, after)]
    return {"scores": (before / after) ** 2, "cache": before / after, "work": work[0] / work[1]}
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-saving", "grade": true, "points": 0.5}
### Test: 40 words and 160 patches, merged two by two (0.5 points)
### Hint: 200 tokens become 80. With d_model 10 and d_ff 30 the break-even is at 50 tokens.
SAVINGS = ("scores", "cache", "work")
saved = check.entries("saving", saving(text=40, image=160, merge=2, d_model=10, n_heads=2, d_ff=30), SAVINGS)
for name, told, right in zip(SAVINGS, saved, (6.25, 2.5, 2.5 * 250 / 130), strict=True):
    check.array(f'saving(...)["{name}"]', told, right, axes=())

"saving: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-saving-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell asks for other predictions.
### BEGIN HIDDEN TESTS


def predicted_savings(label, merge):
    """Random sizes; the right ratios, and yours."""
    rng = check.rng(label)
    text, squares, width = (int(size) for size in rng.integers(20, 60, size=3))
    before, after, even = text + squares * merge**2, text + squares, 2 * 2 * width + 50
    right = ((before / after) ** 2, before / after, before * (before + even) / (after * (after + even)))
    got = saving(text, squares * merge**2, merge, 2 * width, 2, 50)
    return right, check.entries("saving", got, ("scores", "cache", "work"))


### Test: scores and cache, with text that is not merged (0.5 points)
### Hint: Both are ratios of all tokens, text and image. One of the two is squared.
### Belief: text-forgotten
for merge in (2, 3):
    right, told = predicted_savings(f"saving {merge}", merge)
    check.array("scores", told[0], right[0], axes=())
    check.array("cache", told[1], right[1], axes=())

### Test: the work of a layer is neither a line nor a square (0.5 points)
### Hint: Add up the three parts of layer_cost, before and after.
### Belief: work-is-a-square
for merge in (2, 3):
    right, told = predicted_savings(f"work {merge}", merge)
    check.array("work", told[2], right[2], axes=())
### END HIDDEN TESTS

# %% [markdown]
# Now **measure**. One camera, four frames, 20 by 36 patches each: 2,880 patches, which become 720 tokens. The
# layer is small (width 256, four heads), and its attention is yours. One run takes a second or so.

# %% nbgrader={"grade_id": "watch-merging", "locked": true}
maker = np.random.default_rng(1)
camera_patches = maker.normal(size=(4, 720, 64)).astype("f4")
widen = {size: maker.normal(size=(size, 256)).astype("f4") / size**0.5 for size in (64, 256)}
square_weights = maker.normal(size=(4, 256, 256)).astype("f4") / 16
up_weights = maker.normal(size=(256, 1024)).astype("f4") / 16
down_weights = maker.normal(size=(1024, 256)).astype("f4") / 32


def timed(function, *arguments):
    """What the function returns, and the fastest of two runs in seconds."""
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        answer = function(*arguments)
        seconds.append(time.perf_counter() - start)
    return answer, min(seconds)


def project(x):
    return [(x @ w).reshape(1, len(x), 4, 64).transpose(0, 2, 1, 3) for w in square_weights[:3]]


def rest_of_layer(x, read):
    x = x + read[0].transpose(1, 0, 2).reshape(len(x), 256) @ square_weights[3]
    return x + np.maximum(x @ up_weights, 0) @ down_weights


def time_layer(some_patches):
    """The number of tokens, and the seconds of attention and of the whole layer."""
    x = some_patches.reshape(-1, some_patches.shape[-1])
    x = x @ widen[x.shape[1]]
    (q, k, v), first = timed(project, x)
    (read, _), middle = timed(attention_in_blocks, q, k, v, 60)
    _, last = timed(rest_of_layer, x, read)
    print(f"{len(x):5,} tokens: attention {middle:.3f} s, whole layer {first + middle + last:.3f} s")
    return {"tokens": len(x), "attention": middle, "layer": first + middle + last}


unmerged = time_layer(camera_patches)
two_by_two = time_layer(merge_patches(camera_patches, 20, 36, 2))
expected_saving = saving(0, 2880, 2, 256, 4, 1024)
figure = figures.before_and_after(
    ["tokens (cache)", "attention", "whole layer"],
    [expected_saving["cache"], expected_saving["scores"], expected_saving["work"]],
    [unmerged[part] / two_by_two[part] for part in ("tokens", "attention", "layer")],
)

# %% [markdown]
# A count is not a time. The exponentials are not in it, and neither are the trips to memory, which take
# longer when arrays no longer fit the processor's cache. So attention's share is larger than its share of the
# count. But the prediction tells you the size of the effect before you have written a line of the model. A
# measurement that is far off tells you that something else is going on.
#
# At last the sizes of the car, with 100 words of text. The language model keeps 147,456 bytes for each token
# in its cache: 36 layers, keys and values, 8 heads of 128 numbers, 2 bytes each.

# %% nbgrader={"grade_id": "watch-car", "locked": true}
bytes_per_token = 36 * 2 * 8 * 128 * 2
print("16 images of 20 x 36 patches, and 100 words")
for merged_by in (1, 2, 4):
    in_all = 16 * (20 // merged_by) * (36 // merged_by)
    saved = saving(100, 16 * 720, merged_by, 4096, 32, 12_288)
    mebibytes = in_all * bytes_per_token / 2**20
    print(
        f"merged {merged_by} x {merged_by}: {in_all:6,} image tokens, cache {mebibytes:5,.0f} MiB,"
        f" scores {saved['scores']:6.1f} times fewer, a layer's work {saved['work']:5.1f} times less"
    )

# %% [markdown]
# **Try this:** how many words may the text have until merging four by four instead of two by two saves less
# than a tenth of the cache? And why would nobody merge ten by ten? (A pedestrian who is 100 m away is a few
# patches high.)

# %% [markdown]
# ## 5. Check yourself
#
# These two questions are for practice. Put a letter in place of the question mark and run the cell again:
# it says at once whether you are right, and why.

# %% nbgrader={"grade_id": "show-c2", "locked": true}
quiz.show("c2")

# %% practice=true
answers["c2"] = "?"
quiz.explain("c2", answers["c2"])

# %% nbgrader={"grade_id": "show-q2", "locked": true}
quiz.show("q2")

# %% practice=true
answers["q2"] = "?"
quiz.explain("q2", answers["q2"])

# %% [markdown]
# The next question is **graded**, for one point. Put your letter in place of the question mark. The lines
# from `if` on are there for a question that is still open; leave them as they are. Your feedback will say
# whether you are right, and if not, what speaks against your answer.

# %% nbgrader={"grade_id": "show-g2", "locked": true}
quiz.show("g2")

# %% nbgrader={"grade_id": "answer-g2", "solution": true}
answers["g2"] = "?"
if answers["g2"] == "?":
    ### BEGIN SOLUTION
    answers["g2"] = "a"
    ### END SOLUTION

# %% nbgrader={"grade_id": "test-g2", "grade": true, "points": 0}
### Test: question g2 has an answer (0 points)
### Hint: One of the letters a, b, c and d, between quotation marks.
quiz.answered("g2", answers)

"g2: there is an answer. Your feedback will say whether it is right."

# %% nbgrader={"grade_id": "test-g2-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell compares your answer with the right one.
### BEGIN HIDDEN TESTS
### Test: the answer to question g2 (1 point)
### Hint: Read the question once more, and what speaks against your answer.
quiz.graded("g2", answers, key="a")
### END HIDDEN TESTS

# %% [markdown]
# ## 6. In your own words
#
# *Four points, graded by hand. Six to ten sentences.*
#
# A colleague plans a car with eight cameras in place of four, and says: "Attention is quadratic, so our
# driving model will take four times as long. But never mind, with FlashAttention it is linear, and the small
# error of the approximation will not hurt."
#
# 1. Where does the square come from? What exactly is quadratic in the number of tokens?
# 2. Why is "four times as long" not what you expect of the whole model? What decides it?
# 3. What does going through the keys block by block make linear, and what not? Is there an error?

# %% [markdown] nbgrader={"grade_id": "written-cost", "grade": true, "solution": true, "points": 4}
# ### BEGIN SOLUTION
# **A model answer.** Every token's query is compared with every token's key, so n tokens make n times n
# scores in each head. The number of scores grows with the square, and so do the multiply-adds that make them
# and that mix the values with them. The projections and the MLP treat every token alone, and their work grows
# in a straight line. So a layer's work is a sum of a line and a square. Which of the two rules depends on the
# number of tokens against the model's width: they are equal at 2 d + d_ff tokens, about twenty thousand for a
# width of 4096. At 5,760 camera tokens we are far below, so the time will be a little more than doubled, not
# quadrupled. Going through the keys in blocks makes the memory linear, since the table of scores is never
# stored: only a maximum, a sum and a mixture for each query. The number of scores that are computed, and the
# multiply-adds, stay quadratic. There is no approximation: when the maximum grows, what was summed up before
# is rescaled, and the result is the same up to rounding.
#
# **Marks.**
#
# - 1 point: the square is that of the scores, each query with each key; not of the features, the weights of
#   the model, or the softmax of one row.
# - 1 point: the rest of the layer is linear, and the length against the width decides (break-even, or any
#   right argument that the line rules here); a doubling costs between two and four times.
# - 1 point: blocks make memory linear; work (multiply-adds, scores computed) stays quadratic.
# - 1 point: exact, with the reason: rescaling by the new maximum, or the sum carried along.
#
# Half a point each for the right claim without its reason. No point for "FlashAttention does fewer
# operations".
# ### END SOLUTION

# %% [markdown]
# ## Where this shows up
#
# - **Camera tokens.** Tokens per image are the first number to look at in a driving model. Every one of them
#   passes through every layer, lies in the cache, and is read at each step of the reasoning and of the
#   action expert.
# - **The table is gone.** All serious implementations compute attention in blocks, this course's library
#   among them: `minitx.functional.attention` carries your three numbers along, in both directions. For
#   gradients it keeps the output and the log-sum of every query, and computes the weights again.
# - **Long texts, one query.** While a model writes, there is a single query against thousands of keys. The
#   keys are shared among processors, and the parts are joined by their log-sums, as you did with two halves.
# - **Linear in the map.** Where a few learned queries read many tokens (a cross-attention), the cost is
#   $n \cdot m$ with a small $n$: a line. This is another way to compress.
