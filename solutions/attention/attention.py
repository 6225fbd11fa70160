# %% [markdown]
# # Attention: a soft lookup
#
# **After this unit you can**
#
# - turn scores into weights with a softmax that survives scores of any size;
# - write scaled dot-product attention for batches and heads in NumPy, with masks;
# - spot the causal mask that is right in training and wrong with a cache;
# - choose queries, keys and values so that attention gives the answers you want.
#
# **Time:** about 80 minutes.
# **Before you start:** NumPy arrays with several axes, broadcasting, and the `@` operator.
# Deep learning is not needed.
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
# ## 1. A lookup that always has an answer
#
# A Python dictionary finds a value when your query is *equal* to one of its keys. Otherwise it raises
# `KeyError`. On the road nothing is ever quite equal. You want to ask "how fast does the traffic ahead of
# me move?" and hear something sensible, whatever happens to be in view.
#
# Attention does that in three steps.
#
# 1. It compares the **query** with every **key**. Each comparison gives a **score**: a large one for a
#    good match.
# 2. It turns the scores into **weights**: numbers that are not negative and sum to one.
# 3. It returns the average of the **values**, each counted with its weight.
#
# The figure puts that question to four road users, whose values are their speeds. On the left the best
# match takes everything. On the right every road user has a say, and the best match has the largest.

# %% nbgrader={"grade_id": "figure-lookup", "locked": true}
figure = figures.hard_and_soft_lookup(
    scores=[2.0, 1.1, 0.2, -1.0],
    values=[14, 11, 3, 19],
    labels=["car ahead, my lane", "truck ahead, next lane", "bus at its stop", "oncoming car"],
    unit=" m/s",
)

# %% [markdown]
# Why soft? Because of learning. Move a key a little: the soft answer moves a little too, so a gradient can
# tell every key which way to go. The hard answer does not move at all until another key suddenly wins.

# %% [markdown]
# ## 2. From scores to weights
#
# The softmax makes weights of the scores $s_1, \dots, s_m$ of one query:
#
# $$\mathrm{softmax}(s)_j = \frac{e^{s_j}}{e^{s_1} + e^{s_2} + \dots + e^{s_m}}$$
#
# Scores come in arrays with several axes. The **last axis counts the keys**. All axes before it only count
# rows, and each row is a softmax of its own.
#
# **The trap.** $e^{710}$ is too large for a float64, and $e^{89}$ for a float32. The result is `inf`, and
# `inf / inf` is `nan`. Models do produce such scores. The way out is a property of the formula: add the
# same number to *all* scores of a row, and the fraction stays what it was. Which number makes every
# exponential safe?
#
# A score of `-inf` is welcome: $e^{-\infty} = 0$, so its key gets exactly no weight. Every row you are
# given has at least one finite score.
#
# **Your task:** write `softmax`.
#
# <details><summary>Hint 1: the idea</summary>
#
# An exponential is safe when its argument is not above 0. Shift each row so that its largest score
# becomes 0.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# The scores are `(..., m)`. The largest score of each row, kept as a column with `keepdims=True`, is
# `(..., 1)`, and broadcasts against the scores. So does the sum of each row.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# shifted = the scores minus the largest score of their row
# raised  = e to the power of shifted
# answer  = raised divided by the sum of its row
# ```
#
# </details>


# %% nbgrader={"grade_id": "softmax", "solution": true}
def softmax(scores: np.ndarray) -> np.ndarray:
    """Weights from scores: not negative, and along the last axis they sum to one.

    scores: (..., m). Any of them may be -inf, but not all of a row.
    Returns a new array of the same shape and dtype, and leaves `scores` as it was.
    """
    ### BEGIN SOLUTION
    shifted = scores - scores.max(axis=-1, keepdims=True)
    raised = np.exp(shifted)
    return raised / raised.sum(axis=-1, keepdims=True)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-softmax", "grade": true, "points": 1}
### Test: known scores give known weights (0.5 points)
### Hint: The exponential of log(5) is 5. Divide each exponential by the sum of its own row.
scores = np.log([[1.0, 2.0, 5.0], [3.0, 3.0, 2.0]])
check.array(
    "softmax(scores)",
    softmax(scores),
    [[0.125, 0.25, 0.625], [0.375, 0.375, 0.25]],
    axes=("query", "key"),
    atol=1e-6,
)

### Test: scores of a thousand are no problem (0.5 points)
### Hint: exp(1000) is inf, and exp(-1000) is 0. What may you do to a row that leaves its weights alone?
scores = np.array([[1000.0, 1000.0, -1000.0], [-1000.0, -1000.0, -1000.0]])
check.array(
    "softmax(scores)",
    softmax(scores),
    [[0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]],
    axes=("query", "key"),
    atol=1e-6,
)

"softmax: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-softmax-hidden", "grade": true, "points": 2.5}
# When your notebook is graded, this cell tests softmax on more inputs: more axes, other sizes of scores.
### BEGIN HIDDEN TESTS


def weights_of(small):
    """The softmax of scores that need no shift."""
    raised = np.exp(small)
    return raised / np.sum(raised, axis=-1, keepdims=True)


### Test: with four axes, every row has weights of its own (0.5 points)
### Hint: Which axis counts the keys? That one alone is summed over.
### Belief: softmax-over-queries
scores = check.rng("softmax rows").normal(size=(2, 3, 4, 5))
check.array("softmax", softmax(scores.copy()), weights_of(scores), atol=1e-6)

### Test: very large and very negative scores keep their weights (0.5 points)
### Hint: Adding one number to all scores of a row changes no weight. Choose it so that exp is safe.
### Belief: softmax-without-shift
small = check.rng("softmax large").integers(-8, 9, size=(2, 3, 4, 5)) / 4
check.array("softmax", softmax(small + 1000.0), weights_of(small), atol=1e-6)
check.array("softmax", softmax(small - 1000.0), weights_of(small), atol=1e-6)

### Test: rows of very different size do not disturb each other (0.5 points)
### Hint: Each row needs a shift of its own.
### Belief: softmax-global-shift
rng = check.rng("softmax offsets")
small = rng.integers(-8, 9, size=(2, 3, 4, 5)) / 4
offsets = rng.permutation(250.0 * np.arange(-12, 12)).reshape(2, 3, 4, 1)
check.array("softmax", softmax(small + offsets), weights_of(small), atol=1e-6)

### Test: a score of minus infinity gets no weight (0.5 points)
### Hint: exp(-inf) is 0, and -inf minus a finite number is still -inf.
rng = check.rng("softmax infinity")
scores = rng.normal(size=(2, 3, 4, 5))
scores[rng.random(size=scores.shape) < 0.4] = -np.inf
scores[..., 2] = rng.normal(size=(2, 3, 4))
check.array("softmax", softmax(scores.copy()), weights_of(scores), atol=1e-6)

### Test: softmax leaves its input as it was (0.5 points)
### Hint: Look for -=, /= and out=: they write into the array that you were given.
### Belief: softmax-in-place
scores = check.rng("softmax input").normal(size=(2, 3, 4, 5))
before = np.copy(scores)
check.array("softmax", softmax(scores), weights_of(before), atol=1e-6)
check.unchanged("scores", scores, before)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Scaled dot-product attention
#
# In a transformer the score of a query and a key is their dot product. All queries and all keys together
# are one product of matrices, and the whole of attention is one line:
#
# $$\mathrm{attention}(q, k, v) = \mathrm{softmax}\!\left(\frac{q\,k^\top}{\sqrt{d_k}}\right) v$$
#
# There are $n$ queries, and $m$ keys that each bring a value. A query and a key must have the same size,
# $d_k$, or they could not be compared. A value may have another size, $d_v$. The figure shows one head.
# In your arrays two more axes stand in front: `(batch, heads, ...)`. Each head of each batch element does
# the same on its own.

# %% nbgrader={"grade_id": "figure-shapes", "locked": true}
figure = figures.shapes_in_one_head(n=3, m=5, d_k=4, d_v=2)

# %% [markdown]
# ### Why divide by the square root of $d_k$?
#
# Say that the numbers in q and k are independent, with mean 0 and variance 1. A dot product adds $d_k$
# products of them. The variance of that sum is $d_k$, so a typical score has the size $\sqrt{d_k}$. The
# figure shows the weights of one random query over eight random keys. Without the scale, a large $d_k$
# gives nearly all the weight to one key: the softmax is saturated, small changes of the scores do nothing,
# and learning stalls. In the paper that introduced the transformer (Vaswani and others, 2017,
# "Attention Is All You Need", section 3.2.1) $d_k$ is 64, so scores are divided by 8.

# %% nbgrader={"grade_id": "figure-scale", "locked": true}
figure = figures.scale_and_saturation(d_ks=(4, 64, 1024))

# %% [markdown]
# ### Masks: who may look where
#
# A **mask** says which keys a query may read. Some tokens are padding, and some lie in the future. Four
# rules hold here.
#
# 1. A mask is boolean, and **True means "may attend"**. Other libraries differ, even within themselves:
#    in PyTorch, True means "may attend" for `scaled_dot_product_attention` and "ignore" for
#    `nn.MultiheadAttention`. No program can notice that a mask is turned round, so look it up every time.
# 2. A hidden key gets a weight of exactly 0, whatever its score. The weights of the allowed keys still
#    sum to one. Which score leads to a weight of 0? (It is not 0.)
# 3. A query that may not look at any key gets weights 0 and output 0, and no `nan`. This happens: a batch
#    of scenes is padded, and a padded row has nothing to read.
# 4. `causal=True` hides the future. When a mask is given too, a key must be allowed by both.

# %% [markdown]
# ### Spot the bug
#
# With `causal=True` a token reads itself and the tokens before it. Below is a mask that many programs
# build for this. With five queries and five keys it is right.
#
# Now a model writes text, one token after the other. It keeps the keys and values of old tokens in a
# *cache*, and makes queries for the new tokens only. So there are fewer queries than keys.
#
# Before you run the cell: tokens 0, 1 and 2 are in the cache, and tokens 3 and 4 are new. Which keys
# should the two new queries see? Which will this mask show them?


# %% nbgrader={"grade_id": "demo-top-left", "locked": true}
def top_left(n, m):
    """A causal mask that is often seen; True = may attend."""
    return ~np.triu(np.ones((n, m), dtype=bool), k=1)


figure = figures.masks_side_by_side(
    [top_left(5, 5), top_left(2, 5)],
    ["5 queries, 5 keys: right", "2 new queries, 5 keys: wrong"],
)

# %% [markdown]
# A dot means "may look". In the right-hand mask the newest token sees keys 0 and 1 alone, not even its own.
# The two corners at the *top left* were laid on each other, as if the new tokens were the first ones. With a
# single new query only key 0 is left, so the output is simply the first value. Nothing raises an error.
#
# New tokens are the *last* ones. So lay the corners at the **bottom right** on each other: query $i$ of $n$
# may see the keys up to number $i + (m - n)$. With $n = m$ that is the usual triangle. Both readings are in
# use: FlashAttention changed from the top left to the bottom right in its version 2.1, and in PyTorch
# `is_causal=True` means the top left.

# %% [markdown]
# ### Your task: write `scaled_dot_product_attention`
#
# Take two passes. First leave `mask` and `causal` aside and run the first check. Then add them and run the
# second one. Use your `softmax`.
#
# One more thing: float32 inputs must give float32 results. Models run in float32 or less, and one step that
# widens the numbers doubles the memory of all that follow. When in doubt, look at `.dtype`.
#
# <details><summary>Hint 1: the idea</summary>
#
# Make the table of scores: one row for each query, one column for each key. Collect in a second table,
# of booleans, what is allowed. Give hidden places a score that becomes the weight 0. Then softmax, then the
# average of the values.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `@` multiplies the last two axes and treats the ones before as a batch. `q` is `(batch, heads, n, d_k)`;
# `k` with its last two axes exchanged is `(batch, heads, d_k, m)`; so the scores are `(batch, heads, n, m)`.
# The table of what causal allows is `(n, m)`: compare the numbers of the keys, as a row, with the numbers
# of the queries, as a column. It broadcasts against the mask and against the scores.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# scores  = q times (k with its last two axes exchanged), divided by the root of d_k
#           (take the root as a plain Python float: a NumPy float64 widens float32 arrays)
# allowed = True everywhere
#           if causal:       and key number <= query number + (m - n)
#           if mask is given: and the mask
# scores  = -inf where not allowed
#           in rows without any allowed key: any finite number, so that softmax makes no nan
# weights = the softmax of the scores, and 0 where not allowed
# output  = weights times v
# ```
#
# </details>


# %% nbgrader={"grade_id": "attention", "solution": true}
def scaled_dot_product_attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray | None = None,
    causal: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """The average of the values, weighted by how well each key matches the query.

    q: (batch, heads, n, d_k), k: (batch, heads, m, d_k), v: (batch, heads, m, d_v).
    mask: booleans that broadcast to (batch, heads, n, m); True = may attend.
    causal: query i may attend to the keys up to number i + (m - n).
    Returns the output (batch, heads, n, d_v) and the weights (batch, heads, n, m).
    A query with no allowed key gets weights 0 and output 0. No input is changed.
    """
    ### BEGIN SOLUTION
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5  # (batch, heads, n, m)
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    scores = np.where(allowed, scores, -np.inf)
    weights = softmax(np.where(some, scores, 0.0))  # a row without keys is 0 for now, so that it is no nan
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-attention", "grade": true, "points": 1}
### Test: one query and two keys, worked out by hand (0.5 points)
### Hint: The dot products are 2 log(3) and 0. With d_k = 4 the scores are log(3) and 0.
q = np.array([[2 * np.log(3.0), 0.0, 0.0, 0.0]]).reshape(1, 1, 1, 4)
k = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]).reshape(1, 1, 2, 4)
v = np.array([[4.0, 0.0, 8.0], [0.0, 4.0, 8.0]]).reshape(1, 1, 2, 3)
output, weights = check.parts(
    "scaled_dot_product_attention", scaled_dot_product_attention(q, k, v), ("output", "weights")
)
check.array("weights", weights, [[[[0.75, 0.25]]]], atol=1e-6)
check.array("output", output, [[[[3.0, 1.0, 8.0]]]], axes=("batch", "head", "query", "value"), atol=1e-6)

### Test: keys that are all alike give the plain average of the values (0.5 points)
### Hint: Here batch 2, heads 3, n 4, m 5, d_k 6, d_v 7. Equal scores must give equal weights.
rng = check.rng("equal keys")
q = rng.normal(size=(2, 3, 4, 6))
k = np.ones((2, 3, 5, 6))
v = rng.normal(size=(2, 3, 5, 7))
average = np.repeat(v.mean(axis=2, keepdims=True), 4, axis=2)
output, weights = check.parts(
    "scaled_dot_product_attention", scaled_dot_product_attention(q, k, v), ("output", "weights")
)
check.array("weights", weights, np.full((2, 3, 4, 5), 0.2), atol=1e-6)
check.array("output", output, average, axes=("batch", "head", "query", "value"), atol=1e-6)

"attention without masks: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-masks", "grade": true, "points": 1}
# All queries are zero in this cell. So all scores are equal, and the allowed keys share the weight evenly.
### Test: a hidden key gets no weight, and the others share it (0.5 points)
### Hint: This is rules 1 and 2: the hidden weights are exactly 0, and each row sums to one.
q, k = np.zeros((2, 3, 2, 6)), np.ones((2, 3, 4, 6))
v = check.rng("masked values").normal(size=(2, 3, 4, 7))
mask = np.array([[True, False, True, False], [True, True, True, False]])
output, weights = scaled_dot_product_attention(q, k, v, mask=mask)
shares = [[1 / 2, 0, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3, 0]]
check.array("weights", weights, np.broadcast_to(shares, (2, 3, 2, 4)), atol=1e-6)
check.array("output", output, shares @ v, axes=("batch", "head", "query", "value"), atol=1e-6)

### Test: causal with three queries and five keys (0.5 points)
### Hint: The last query is the newest token: it sees all five keys.
q, k, v = np.zeros((2, 3, 3, 6)), np.ones((2, 3, 5, 6)), np.ones((2, 3, 5, 7))
output, weights = scaled_dot_product_attention(q, k, v, causal=True)
shares = [[1 / 3, 1 / 3, 1 / 3, 0, 0], [1 / 4, 1 / 4, 1 / 4, 1 / 4, 0], [1 / 5, 1 / 5, 1 / 5, 1 / 5, 1 / 5]]
check.array("weights", weights, np.broadcast_to(shares, (2, 3, 3, 5)), atol=1e-6)

"attention with masks: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-attention-hidden", "grade": true, "points": 8}
# When your notebook is graded, this cell tests attention on more inputs: random arrays, several masks at
# once, scores far from zero, queries that may see nothing, float32.
### BEGIN HIDDEN TESTS
VALUES = ("batch", "head", "query", "value")


def attend(*arrays, **options):
    """The student's output and weights."""
    name = "scaled_dot_product_attention"
    return check.parts(name, scaled_dot_product_attention(*arrays, **options), ("output", "weights"))


def expected_attention(q, k, v, allowed=True):
    """Output and weights, computed here; allowed broadcasts to (batch, heads, n, m)."""
    scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[3])
    allowed = np.broadcast_to(allowed, scores.shape)
    top = np.max(scores, axis=3, keepdims=True, where=allowed, initial=-1e300)
    raised = np.where(allowed, np.exp(np.minimum(scores - top, 0.0)), 0.0)
    total = raised.sum(axis=3, keepdims=True)
    weights = raised / np.where(total > 0, total, 1.0)
    return np.einsum("bhij,bhje->bhie", weights, v), weights


def compare(q, k, v, allowed=True, **options):
    """The student's output and weights against those computed here."""
    expected_output, expected_weights = expected_attention(q, k, v, allowed)
    output, weights = attend(q, k, v, **options)
    check.array("weights", weights, expected_weights, atol=1e-6)
    check.array("output", output, expected_output, axes=VALUES, atol=1e-6)


def arrays(label, n, m, d_k, d_v=7):
    """Random q, k and v with batch 2 and 3 heads. With d_k = 1 a wrong scale shows in no score."""
    rng = check.rng(label)
    return rng.normal(size=(2, 3, n, d_k)), rng.normal(size=(2, 3, m, d_k)), rng.normal(size=(2, 3, m, d_v))


def random_mask(label, n, m):
    """A mask in which every query may see at least one key and may not see at least one."""
    rng = check.rng(label)
    mask = rng.random(size=(2, 3, n, m)) < 0.5
    order = rng.permuted(np.broadcast_to(np.arange(m), mask.shape), axis=3)
    np.put_along_axis(mask, order[..., :1], True, axis=3)
    np.put_along_axis(mask, order[..., 1:2], False, axis=3)
    return mask


def triangle(n, m):
    return np.arange(m)[None, :] <= np.arange(n)[:, None] + (m - n)


### Test: scores are scaled by the square root of the key size (1 point)
### Hint: How large is a typical dot product of two vectors of d_k random numbers?
### Belief: no-scale
compare(*arrays("scale", n=4, m=5, d_k=6))

### Test: a query that matches one key strongly gets the value of that key (0.5 points)
### Hint: Each row of scores belongs to one query. The weights of that row average the values.
### Belief: average-keys
rng = check.rng("strong match")
order = rng.permuted(np.broadcast_to(np.arange(6), (2, 3, 6)), axis=2)[..., :5]
k = np.eye(6)[order]
asked = rng.integers(0, 5, size=(2, 3, 4))
q = 300.0 * np.take_along_axis(k, asked[..., None], axis=2)
v = rng.normal(size=(2, 3, 5, 7))
expected = np.take_along_axis(v, asked[..., None], axis=2)
output, _ = attend(q, k, v)
check.array("output", output, expected, axes=VALUES, atol=1e-6)

### Test: two keys that match equally well share the weight (0.5 points)
### Hint: A soft lookup does not choose a winner.
### Belief: hard-lookup
rng = check.rng("tie")
k = np.eye(6)[np.broadcast_to([4, 2, 0, 2, 5], (2, 3, 5))]
q = np.zeros((2, 3, 4, 6))
q[..., 2] = 300.0
v = rng.normal(size=(2, 3, 5, 7))
expected = np.repeat((v[:, :, 1:2] + v[:, :, 3:4]) / 2, 4, axis=2)
output, weights = attend(q, k, v)
check.array("weights", weights, np.broadcast_to([0, 0.5, 0, 0.5, 0], (2, 3, 4, 5)), atol=1e-6)
check.array("output", output, expected, axes=VALUES, atol=1e-6)

### Test: float32 inputs give float32 results (0.5 points)
### Hint: Look at the dtype after each step. What is the type of the number that you divide by?
### Belief: float64-creep
q, k, v = (array.astype(np.float32) for array in arrays("float32", n=4, m=5, d_k=6))
k[...] = k[:, :, :1]  # keys that are all alike: the weights are known whatever the scale
output, weights = attend(q, k, v)
check.array("weights", weights, np.full((2, 3, 4, 5), 0.2), atol=1e-5, dtype=np.float32)
check.dtype("output", output, np.float32)
output, weights = attend(q, k, v, causal=True)
check.dtype("output", output, np.float32)
check.dtype("weights", weights, np.float32)

### Test: attention leaves its inputs as they were (0.5 points)
### Hint: Look for -=, /= and assignments to parts of q, k, v or mask.
### Belief: scales-in-place
q, k, v = arrays("inputs", n=4, m=5, d_k=6)
mask = random_mask("inputs mask", n=4, m=5)
k[...] = k[:, :, :1]
before = [np.copy(array) for array in (q, k, v, mask)]
_, weights = attend(q, k, v)
check.array("weights", weights, np.full((2, 3, 4, 5), 0.2), atol=1e-6)
attend(q, k, v, mask=mask, causal=True)
for name, now, copy in zip(("q", "k", "v", "mask"), (q, k, v, mask), before, strict=True):
    check.unchanged(name, now, copy)

### Test: True in the mask means "may attend" (0.5 points)
### Hint: Which keys get weight: those marked True, or those marked False?
### Belief: mask-polarity
mask = random_mask("polarity", n=4, m=5)
_, weights = attend(*arrays("polarity", n=4, m=5, d_k=1), mask=mask)
check.array("keys that get weight", np.asarray(weights) > 1e-9, mask)

### Test: under a mask the allowed weights still sum to one (0.5 points)
### Hint: Does the softmax know about the mask when it divides by the sum?
### Belief: mask-after-softmax
mask = random_mask("sums", n=4, m=5)
_, weights = attend(*arrays("sums", n=4, m=5, d_k=1), mask=mask)
seen = np.where(mask, weights, 0.0)
check.array("sum of the allowed weights", seen.sum(axis=3), np.ones((2, 3, 4)), axes=VALUES[:3], atol=1e-6)

### Test: a hidden key gets no weight whatever the scores are (0.5 points)
### Hint: Which score gives a weight of exactly 0, however large or small the others are?
### Belief: zero-masked-scores
rng = check.rng("hidden key")
q = rng.integers(1, 4, size=(2, 3, 4, 1)).astype(float)
k = rng.integers(0, 4, size=(2, 3, 5, 1)) - 30000.0
k[:, :, 2] = 2000.0
v = rng.normal(size=(2, 3, 5, 7))
v[:, :, 2] = 1e6
mask = np.ones((2, 3, 4, 5), dtype=bool)
mask[..., 2] = False
compare(q, k, v, mask, mask=mask)

### Test: every batch element has its own padding (0.5 points)
### Hint: A padding mask has the shape (batch, 1, 1, m) and broadcasts over heads and queries.
### Belief: first-mask-for-all
mask = (np.arange(5) < np.array([[3], [4]])).reshape(2, 1, 1, 5)
compare(*arrays("padding", n=4, m=5, d_k=1), mask, mask=mask)

### Test: a query with no allowed key gets zeros (1 point)
### Hint: An average over nothing: what do your weights hold in such a row?
### Belief: empty-rows-nan
mask = random_mask("empty rows", n=4, m=5)
mask[0, :, 1] = False
mask[1, 2, 3] = False
compare(*arrays("empty rows", n=4, m=5, d_k=1), mask, mask=mask)

### Test: causal shows every token itself and what came before (0.5 points)
### Hint: Draw the table for three tokens. Which keys may query 0 see, and which query 2?
### Belief: diagonal-masked
compare(*arrays("causal", n=5, m=5, d_k=1), triangle(5, 5), causal=True)

### Test: causal with a cache lets new queries see all old keys (1 point)
### Hint: The queries are the newest tokens. Line them up with the last keys.
### Belief: top-left-causal
compare(*arrays("cache", n=3, m=7, d_k=1), triangle(3, 7), causal=True)
compare(*arrays("one step", n=1, m=7, d_k=1), triangle(1, 7), causal=True)

### Test: a mask and causal hold at the same time (0.5 points)
### Hint: A key must be allowed by both.
### Belief: mask-or-causal
mask = random_mask("both", n=5, m=5)
mask[..., 0] = True
mask[..., 3:, 1] = False
mask[..., 0, 4] = True
compare(*arrays("both", n=5, m=5, d_k=1), mask & triangle(5, 5), mask=mask, causal=True)
### END HIDDEN TESTS

# %% [markdown]
# ### Watch your own attention
#
# Three questions about a traffic scene. Each key describes a road user by six features, and each query is
# large where it wants a feature. The values are distance in metres and speed in metres per second. Guess
# the largest weight of each row before you run the cell.

# %% nbgrader={"grade_id": "watch-scene", "locked": true}
scene_questions = ["ahead, my lane?", "behind, left lane?", "a traffic light?"]
scene_things = [
    "car ahead, mine",
    "truck ahead, left",
    "car behind, left",
    "bicycle ahead, right",
    "red light ahead",
]
# The features: my lane, left lane, right lane, ahead, behind, light.
scene_keys = np.array(
    [
        [1, 0, 0, 1, 0, 0],  # car ahead, mine
        [0, 1, 0, 1, 0, 0],  # truck ahead, left
        [0, 1, 0, 0, 1, 0],  # car behind, left
        [0, 0, 1, 1, 0, 0],  # bicycle ahead, right
        [0, 0, 0, 1, 0, 1],  # red light ahead
    ],
    dtype=float,
)
scene_values = np.array([[25.0, 13.0], [40.0, 11.0], [15.0, 16.0], [8.0, 5.0], [60.0, 0.0]])
scene_queries = 6.0 * np.array([[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1]])

scene_answers, scene_weights = scaled_dot_product_attention(
    scene_queries[None, None], scene_keys[None, None], scene_values[None, None]
)
scene_panel = figures.attention_heatmap(
    scene_weights[0, 0], scene_questions, scene_things, "Who answers which question?"
)
for scene_question, (scene_distance, scene_speed) in zip(scene_questions, scene_answers[0, 0], strict=True):
    print(f"{scene_question:20s} distance {scene_distance:5.1f} m, speed {scene_speed:5.1f} m/s")

# %% [markdown]
# The first question has one good match and three half matches, which share a feature with it. They all add
# to the answer, so the distance is not quite that of the car. Make the factor 6 larger and the lookup gets
# harder; make it smaller and everything blurs.
#
# Now six tokens of a sentence, with random queries and keys, so only the pattern means something. Left:
# every token reads every other. Right: with `causal=True` everything above the diagonal is exactly 0
# (hatched), and each row still sums to one.

# %% nbgrader={"grade_id": "watch-causal", "locked": true}
six_tokens = ["the", "light", "is", "red", "so", "stop"]
token_q, token_k, token_v = np.random.default_rng(7).normal(size=(3, 1, 1, 6, 16))
_, free_weights = scaled_dot_product_attention(token_q, token_k, token_v)
_, causal_weights = scaled_dot_product_attention(token_q, token_k, token_v, causal=True)
causal_figure = figures.heatmaps_side_by_side(
    [free_weights[0, 0], causal_weights[0, 0]], ["no mask", "causal"], six_tokens, six_tokens
)

# %% [markdown]
# ## 4. A dictionary, as attention
#
# If attention is a soft lookup, then a hard lookup is attention with very sharp weights. Build one. A map
# stores the speed limit and the width of each lane under the number of the lane:
#
# | lane | limit (m/s) | width (m) |
# |---|---|---|
# | 12 | 13.9 | 3.25 |
# | 7 | 8.3 | 2.75 |
# | 31 | 27.8 | 3.75 |
# | 8 | 13.9 | 3.00 |
#
# **Your task:** write `dictionary_as_attention`. It looks nothing up. It *chooses* arrays q, k and v so that
# attention does the lookup. Four things to mind:
#
# - You choose $d_k$, and how a lane number becomes a vector.
# - Every answer must be right to within 0.001. Values lie between -100 and 100. A dictionary may have up to
#   1000 entries, and each entry that gets a little weight spoils the answer a little.
# - Attention divides by $\sqrt{d_k}$, whether that suits you or not.
# - The dictionary is written before anyone asks: k depends on the keys alone, and v on the values alone.
#   Only q knows the queries. (It may know the keys too.)
#
# <details><summary>Hint 1: the idea</summary>
#
# Weights go with the exponential of the scores. If the right key leads by 20, every other key gets less than
# $e^{-20}$, about two billionths. So make vectors for which the right key leads by 20 or more.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# Give every entry a direction of its own: with $d_k = m$, row $j$ of k has a 1 in column $j$ and 0 elsewhere.
# A query that points in the direction of entry $j$ has a dot product with key $j$ alone. Comparing the
# queries, as a column, with the keys, as a row, gives a table `(n, m)` of booleans. In the end put two axes
# of size 1 in front of each array.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# k = the identity matrix of size m
# q = the table "query i equals key j", times the lead that you want, times the root of d_k
# v = the values as they are
# ```
#
# </details>


# %% nbgrader={"grade_id": "dictionary", "solution": true}
def dictionary_as_attention(
    keys: np.ndarray, values: np.ndarray, queries: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrays with which attention looks the queries up in a dictionary.

    keys: (m,) whole numbers, no two alike. values: (m, d_v), row j belongs to key j.
    queries: (n,) whole numbers, each of them among the keys.
    Returns q (1, 1, n, d_k), k (1, 1, m, d_k) and v (1, 1, m, d_v); d_k is yours to choose.
    """
    ### BEGIN SOLUTION
    m = len(keys)
    matches = queries[:, None] == keys[None, :]  # (n, m)
    lead = 30.0
    q = matches * (lead * m**0.5)
    k = np.eye(m)
    return q[None, None], k[None, None], values[None, None]
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-dictionary", "grade": true, "points": 0.5}
### Test: three questions to the map of lanes (0.5 points)
### Hint: If the numbers are close but blurred, the right key does not lead by enough.
lanes = np.array([12, 7, 31, 8])
limits = np.array([[13.9, 3.25], [8.3, 2.75], [27.8, 3.75], [13.9, 3.0]])
q, k, v = check.parts(
    "dictionary_as_attention", dictionary_as_attention(lanes, limits, np.array([31, 7, 31])), ("q", "k", "v")
)
check.array("v", v, limits[None, None], axes=("batch", "head", "key", "value"))
output, weights = scaled_dot_product_attention(q, k, v)
check.array(
    "answers",
    output,
    [[[[27.8, 3.75], [8.3, 2.75], [27.8, 3.75]]]],
    axes=("batch", "head", "query", "value"),
    rtol=0,
    atol=1e-3,
)

"dictionary: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-dictionary-hidden", "grade": true, "points": 2}
# When your notebook is graded, this cell asks more of your dictionary. It uses an attention of its own.
### BEGIN HIDDEN TESTS


def ask(keys, values, queries):
    """The student's q, k and v, with the sizes that are not free checked."""
    got = dictionary_as_attention(keys.copy(), values.copy(), queries.copy())
    q, k, v = check.parts("dictionary_as_attention", got, ("q", "k", "v"))
    d_k = np.shape(k)[-1]
    assert np.shape(q) == (1, 1, len(queries), d_k), f"q has the shape {np.shape(q)}"
    assert np.shape(k) == (1, 1, len(keys), d_k), f"k has the shape {np.shape(k)}"
    return q, k, v


def answers_to(q, k, v):
    """Attention over one batch element and one head, computed here."""
    q, k, v = (np.asarray(array, dtype=float)[0, 0] for array in (q, k, v))
    scores = q @ k.T / np.sqrt(q.shape[1])
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised @ v / raised.sum(axis=1, keepdims=True)


def dictionary(label, m, n, d_v):
    """Random keys and values, and for the queries the numbers of the entries that they ask for."""
    rng = check.rng(label)
    keys = rng.choice(np.arange(1, 5 * m), size=m, replace=False)
    values = rng.uniform(-100, 100, size=(m, d_v))
    return keys, values, rng.integers(0, m, size=n)


### Test: every query finds its own entry (0.5 points)
### Hint: Work out the weights by hand for one query. How much is left for the wrong keys?
### Belief: dictionary-too-soft
keys, values, asked = dictionary("small dictionary", m=7, n=4, d_v=3)
got = answers_to(*ask(keys, values, keys[asked]))
check.array("answers", got, values[asked], axes=("query", "value"), rtol=0, atol=1e-3)

### Test: three hundred entries are as exact as seven (0.5 points)
### Hint: What does attention divide by, and how does that grow with your vectors?
### Belief: dictionary-forgets-scale
keys, values, asked = dictionary("large dictionary", m=300, n=40, d_v=3)
got = answers_to(*ask(keys, values, keys[asked]))
check.array("answers", got, values[asked], axes=("query", "value"), rtol=0, atol=1e-3)

### Test: v holds what is stored, and nothing is picked out in advance (0.5 points)
### Hint: v has one row for each entry, in the order in which the entries came.
### Belief: answer-in-values
keys, values, asked = dictionary("stored values", m=6, n=6, d_v=3)
_, _, v = ask(keys, values, keys[asked])
check.array("v", v, values[None, None], axes=("batch", "head", "key", "value"), atol=1e-6)

### Test: the keys stay the same when other questions are asked (0.5 points)
### Hint: Could k be written down before the queries are known?
### Belief: keys-made-to-fit
keys, values, asked = dictionary("other questions", m=6, n=6, d_v=3)
_, k, v = ask(keys, values, keys[asked])
later = check.rng("later questions").permutation(6)
q, _, _ = ask(keys, values, keys[later])
check.array("answers", answers_to(q, k, v), values[later], axes=("query", "value"), rtol=0, atol=1e-3)
### END HIDDEN TESTS

# %% [markdown]
# **Try this:** ask for a lane that is not on the map. A dictionary raises `KeyError`. What does yours
# return, and why? A soft lookup cannot say "not found". A model that must be able to say it needs an entry
# for it.

# %% [markdown]
# ## 5. Check yourself
#
# These two questions are for practice. Put a letter in place of the question mark and run the cell again:
# it says at once whether you are right, and why.

# %% nbgrader={"grade_id": "show-c1", "locked": true}
quiz.show("c1")

# %% practice=true
answers["c1"] = "?"
quiz.explain("c1", answers["c1"])

# %% nbgrader={"grade_id": "show-q1", "locked": true}
quiz.show("q1")

# %% practice=true
answers["q1"] = "?"
quiz.explain("q1", answers["q1"])

# %% [markdown]
# The next question is **graded**, for one point. Put your letter in place of the question mark. The lines
# from `if` on are there for a question that is still open; leave them as they are. Your feedback will say
# whether you are right, and if not, what speaks against your answer.

# %% nbgrader={"grade_id": "show-g1", "locked": true}
quiz.show("g1")

# %% nbgrader={"grade_id": "answer-g1", "solution": true}
answers["g1"] = "?"
if answers["g1"] == "?":
    ### BEGIN SOLUTION
    answers["g1"] = "c"
    ### END SOLUTION

# %% nbgrader={"grade_id": "test-g1", "grade": true, "points": 0}
### Test: question g1 has an answer (0 points)
### Hint: One of the letters a, b, c and d, between quotation marks.
quiz.answered("g1", answers)

"g1: there is an answer. Your feedback will say whether it is right."

# %% nbgrader={"grade_id": "test-g1-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell compares your answer with the right one.
### BEGIN HIDDEN TESTS
### Test: the answer to question g1 (1 point)
### Hint: Read the question once more, and what speaks against your answer.
quiz.graded("g1", answers, key="c")
### END HIDDEN TESTS

# %% [markdown]
# ## 6. In your own words
#
# *Four points, graded by hand. Six to ten sentences.*
#
# A driving model has a token for your car, and one token for every other road user.
#
# 1. What do the **query**, the **key** and the **value** of a token each do? Explain all three with one
#    example from traffic.
# 2. A query and a key must have the same size. A value may have another. Why?

# %% [markdown] nbgrader={"grade_id": "written-roles", "grade": true, "solution": true, "points": 4}
# ### BEGIN SOLUTION
# **A model answer.** My car is about to change to the left lane. The query of my token describes what it
# wants to know, say "who is close to me on the left?". The key of every token describes that token in the
# terms in which others ask about it: a van behind me on the left has a key that points the same way as my
# query, and a parked car has one that does not. Query and key meet in a dot product, and that decides how
# much of each token I read. The value of a token is what I get when I read it, for instance the van's gap and
# speed, which need not look like anything that it was found by. My result is the average of the values,
# mostly the van's. A dot product needs two vectors of one size, so query and key have the same size. A value
# is never compared with anything, it is only multiplied by a weight and added up, so its size is free; it
# becomes the size of the output.
#
# **Marks.**
#
# - 1 point, query: it belongs to the token that asks, and says what this token is looking for.
# - 1 point, key: it belongs to the token that is read, and is what queries are compared with; together with
#   the query it decides how much is read.
# - 1 point, value: it is what is handed over and averaged; it does not decide how much is read.
# - 1 point, sizes: query and key meet in a dot product; values are only weighted and added, and give the
#   output its size.
#
# Half a point each where the idea is right but the example does not show it. No point for the three words
# explained by the formula alone, and none for a role given to the wrong token.
# ### END SOLUTION

# %% [markdown]
# ## Where this shows up
#
# - **Sensor encoders.** The cells of a bird's-eye view are the queries; what the cameras see gives the keys
#   and values. There are far fewer or far more queries than keys, so $n \neq m$ is the normal case.
# - **Prediction.** Road users read the lanes of a map. Scenes have different numbers of lanes, so they are
#   padded, and a mask keeps the padding out. In an empty scene a query has nothing to read: your zeros.
# - **Language models that reason about a scene.** They are causal, and they read a cache while they write.
#   There it matters which corner the mask is laid on.
# - **Action experts.** In Alpamayo-R1 the tokens of 64 future waypoints read the cached keys and values of
#   everything that the model has seen and written, and each other too, in one softmax. There are fewer
#   queries than keys, and yet no causal mask: a waypoint may look at later waypoints.
#
# You now have the part that does the work in all of them. What it costs when $n$ and $m$ grow, how it gets
# to know about order, and how heads and layers are put together is what the next units are about.
