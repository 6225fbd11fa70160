# %% [markdown]
# # Expert: from a language model's cache to the wheel
#
# **After this unit you can**
#
# - write cross-attention: tokens of one kind read tokens of another kind, padding left out;
# - write a layer that reads a language model's cache, and say what it may see and where it stands;
# - make actions out of noise in a few steps (flow matching), and take each step's keys back;
# - count what the cache saves, and let your own code steer a car in a trained model.
#
# **Time:** about 85 minutes.
# **Before you start:** the unit *cache*. You need its slots and lengths, and `True` = may attend.
# **Points:** 21, of which tests give 16, a question 1 and a written answer 4.
#
# **How it works.** Write code where you see `YOUR CODE HERE`. Below each of your cells stands a check.
# Run it as often as you like: it tells you what is wrong, and says so when all is well. When your
# notebook is graded, more tests run, on inputs that you do not see. Stuck? Each task has three folded
# hints: the idea, the shapes, and almost the code.

# %% nbgrader={"grade_id": "imports", "locked": true}
import numpy as np

import minitx.functional as F
from minitx import figures, kernels
from minitx.course import check, quiz

kernels.use("numpy")  # the models below are tiny: compiling fast kernels would take longer than running them
answers = {}  # your answers to the questions near the end

# %% [markdown]
# ## 1. One kind of token reads another
#
# A language model has looked at the road and has written what it thinks. Text does not turn a wheel. A second
# model, the **action expert**, has to make numbers of it: how hard to brake, how far to steer, at 64 moments
# of the next seconds. Its tokens are these moments, called **waypoints**.
#
# The waypoints must read what the language model knows. You know attention in which tokens read *each other*.
# In **cross-attention** there are two sets of tokens. One set asks; the other is read.
#
# - The **queries** are made of the tokens that ask, `x`.
# - The **keys and values** are made of the tokens that are read, the `context`.
#
# So there are as many outputs as *askers*, however long the context is. The two sets may have different
# widths, for each has matrices of its own. Contexts of a batch differ in length, and short ones are padded:
# `real` says which tokens are no padding.
#
# **Your task:** write `cross_attention`, with several heads. `F.attention` is the library's version of what
# you wrote in the unit *attention*. It returns a tensor, and `.numpy()` makes an array of it. A query that
# may read nothing at all gets 0.
#
# <details><summary>Hint 1: the idea</summary>
#
# Multiply `x` by one matrix and `context` by two. Split all three into heads. Attend, with a mask that hides
# padded keys. Then put the heads side by side again and multiply by the last matrix.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# q is `(batch, head, n, head_dim)`, k and v are `(batch, head, m, head_dim)`. `real` is `(batch, m)`, and the
# mask speaks of keys: `(batch, 1, 1, m)`. The same padding holds for every head and every query.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# split a matrix product:  reshape to (batch, tokens, heads, rest), then swap the middle two axes
# q = split(x W_q)        k = split(context W_k)        v = split(context W_v)
# output = attention of q, k, v with real as the mask (batch, 1, 1, m)
# answer = swap the middle two axes of output back, join heads and features, times W_o
# ```
#
# </details>


# %% nbgrader={"grade_id": "cross", "solution": true}
def cross_attention(x: np.ndarray, context: np.ndarray, real: np.ndarray, w: dict, heads: int) -> np.ndarray:
    """Each token of x reads the real tokens of its row's context.

    x: (batch, n, d), the tokens that ask. context: (batch, m, d_context), the tokens that are read.
    real: (batch, m) booleans, False for padding.
    w: matrices "q" (d, head * head_dim), "k" and "v" (d_context, head * head_dim), "o" (head * head_dim, d).
    Returns (batch, n, d); where a row has no real token, its attention is 0.
    """
    ### BEGIN SOLUTION
    batch, n, _ = x.shape

    def split(y):
        return y.reshape(batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)  # (batch, head, token, ...)

    q, k, v = split(x @ w["q"]), split(context @ w["k"]), split(context @ w["v"])
    output = F.attention(q, k, v, mask=real[:, None, None, :]).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-cross", "grade": true, "points": 1}
TOKENS = ("batch", "token", "feature")

### Test: a mean over the real tokens of the context (0.5 points)
### Hint: All scores are 0, so both tokens of x get the mean of [2, 0] and [4, 2]. The third is padding.
plain = {"q": np.zeros((3, 2)), "k": np.zeros((2, 2)), "v": np.eye(2), "o": np.eye(2, 3)}
context = np.array([[[2.0, 0], [4, 2], [100, 100]]])
output = cross_attention(np.ones((1, 2, 3)), context, np.array([[True, True, False]]), plain, 1)
check.array("output", output, [[[3, 1, 0], [3, 1, 0]]], axes=TOKENS)

### Test: each of two tokens finds what it asks for (0.5 points)
### Hint: The first one asks for the second context token, which passes on 7, and the other one for the first.
seeking = {"q": 50 * np.eye(2), "k": np.eye(2), "v": np.array([[5.0, 0], [7, 0]]), "o": np.eye(2)}
output = cross_attention(
    np.array([[[0.0, 1], [1, 0]]]), np.eye(2)[None], np.array([[True, True]]), seeking, 1
)
check.array("output", output, [[[7, 0], [5, 0]]], axes=TOKENS)

"cross_attention: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-cross-hidden", "grade": true, "points": 2}
# When your notebook is graded, this cell tests cross_attention: several heads, other sizes, padding.
### BEGIN HIDDEN TESTS
TOKENS = ("batch", "token", "feature")


def read_alone(x, context, w, heads):
    """Tokens (n, d) read real tokens (m, d_context), one head after the other."""
    size = w["q"].shape[1] // heads
    mixed = np.zeros((len(x), heads * size))
    for head in range(heads if len(context) else 0):
        own = slice(head * size, (head + 1) * size)
        scores = (x @ w["q"][:, own]) @ (context @ w["k"][:, own]).T / np.sqrt(size)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        mixed[:, own] = weights / weights.sum(axis=1, keepdims=True) @ (context @ w["v"][:, own])
    return mixed @ w["o"]


def reading(label, n, lengths, m=None, d=10, d_context=10, heads=3, size=4, sharp=2.0):
    """Tokens, contexts with large rubbish as padding at any place, matrices, and right answers.

    m: how wide the contexts are; by default there is padding in every row.
    """
    rng = check.rng(label)
    batch, m = len(lengths), m or max(lengths) + 1
    sizes = {"q": (d, heads * size), "k": (d_context, heads * size), "o": (heads * size, d)}
    sizes["v"] = sizes["k"]
    w = {name: rng.normal(size=of) / np.sqrt(of[0]) for name, of in sorted(sizes.items())}
    w["q"] *= sharp
    x, context = rng.normal(size=(batch, n, d)), 9 * rng.normal(size=(batch, m, d_context))
    valid = np.zeros((batch, m), dtype=bool)
    for b, length in enumerate(lengths):
        valid[b, rng.permutation(m)[:length]] = True
    context[valid] /= 9
    wanted = [read_alone(x[b], context[b, valid[b]], w, heads) for b in range(batch)]
    return x, context, valid, w, np.stack(wanted)


### Test: contexts of another width and another length than the tokens that read (0.5 points)
### Hint: There are as many outputs as tokens in x. Are the heads side by side, token by token?
### Belief: heads-in-a-row
x, context, valid, w, wanted = reading("widths", 4, [7, 7], m=7, d=10, d_context=6)
check.array("output", cross_attention(x, context, valid, w, 3), wanted, axes=TOKENS)

### Test: who asks and who answers, where both are equally wide (0.5 points)
### Hint: Queries are made of x, keys and values of the context.
### Belief: the-context-asks
x, context, valid, w, wanted = reading("equal widths", 3, [6] * 4, m=6, heads=2, size=5)
check.array("output", cross_attention(x, context, valid, w, 2), wanted, axes=TOKENS)

### Test: padding is not read, and every row has its own (0.5 points)
### Hint: A padded token has a key, too. Only a mask keeps it out of the softmax.
### Belief: padding-made-zero
x, context, valid, w, wanted = reading("padding", 4, [5, 2, 7], d=10, d_context=9)
check.array("output", cross_attention(x, context, valid, w, 3), wanted, axes=TOKENS)

### Test: where there is nothing to read, nothing is read (0.5 points)
### Hint: A row may have no real token at all. And scores may be in the thousands.
### Belief: nothing-to-read-is-a-mean
x, context, valid, w, wanted = reading("nothing", 2, [0, 6, 3], d_context=8, sharp=2000.0)
check.array("output", cross_attention(x, context, valid, w, 3), wanted, axes=TOKENS)
### END HIDDEN TESTS

# %% [markdown]
# Cross-attention is everywhere in a driving stack: object queries read image features, agents read the map.
# The figure shows eight object queries of random weights that read twelve image tokens. Every row sums to 1.
# The hatched columns are padding. Shuffle the image tokens together with their padding, and nothing changes:
# attention knows no order.

# %% nbgrader={"grade_id": "watch-objects", "locked": true}
object_maker = np.random.default_rng(7)
object_queries, image_tokens = object_maker.normal(size=(8, 16)), object_maker.normal(size=(12, 16))
object_real = np.ones((1, 12), dtype=bool)
object_real[0, [4, 10, 11]] = False
one_head = {name: object_maker.normal(size=(16, 16)) / 3 for name in "qk"} | {
    "v": np.eye(16),
    "o": np.eye(16),
}
_, object_weights = F.scaled_dot_product_attention(
    (object_queries @ one_head["q"])[None, None],
    (image_tokens @ one_head["k"])[None, None],
    image_tokens[None, None],
    mask=object_real[:, None, None],
)
objects_axes = figures.attention_heatmap(object_weights.numpy()[0, 0], title="object queries read an image")
shuffled = object_maker.permutation(12)
objects_read = [
    cross_attention(object_queries[None], image_tokens[None, order], object_real[:, order], one_head, 1)
    for order in (np.arange(12), shuffled)
]
print(f"shuffled image: the outputs move by {np.abs(objects_read[0] - objects_read[1]).max():.1e}")

# %% [markdown]
# ## 2. The expert and the cache
#
# The language model has read images and a prompt, and has written its reasoning. All this together is the
# **prefix**. Of every token of it there are keys and values, in every layer: they lie in the **key-value
# cache**. So the expert need not make keys and values of the context. They are there.
#
# The expert is a second, narrower model with **as many layers** as the language model. Layer $l$ of the
# expert reads layer $l$ of the cache.

# %% nbgrader={"grade_id": "figure-towers", "locked": true}
figure = figures.two_towers()

# %% [markdown]
# What must fit, and what need not? Alpamayo-R1 drives a car, π0 moves a robot.
#
# | | Alpamayo-R1: language model | expert | π0: language model | expert |
# |---|---|---|---|---|
# | layers | 36 | **36** | 18 | **18** |
# | heads of keys and values | 8 | **8** | 1 | **1** |
# | numbers in a head | 128 | **128** | 256 | **256** |
# | heads of queries | 32 | 16 | 8 | 8 |
# | width of a token | 4,096 | 2,048 | 2,048 | 1,024 |
#
# The bold numbers must agree, since the queries of one meet the keys of the other. So must the way in which
# positions turn keys. The rest is the expert's own affair. (Sources: the published code and configuration of
# both models, NVlabs/alpamayo and Physical-Intelligence/openpi.)
#
# ### Spot the bug
#
# The tutorial of this course says: the expert reads the cache by cross-attention. What would go wrong with
# cross-attention alone? Think of the first and the last waypoint. They belong to *one* path. The last one may
# be in the left lane only if the ones before it go there.
#
# In cross-attention the waypoints see the prefix, and **not each other**. Both Alpamayo-R1 and π0 do
# something else. The expert's own keys and values are put *behind* the cached ones, and there is **one
# softmax over all of them**:
#
# $$[\;\text{prefix of the cache}\;|\;\text{waypoints}\;]$$
#
# - Every waypoint sees the **whole prefix** of its row.
# - Every waypoint sees **all waypoints**, earlier and later ones. The whole path is there at once, so there
#   is no future to hide.
# - The prefix sees no waypoint. It was computed before there were any.
#
# **Positions** go on behind the prefix. The first waypoint of row $b$ stands at `lengths[b]`, the next one
# at `lengths[b] + 1`. The rows of a batch have different lengths. What lies in slots behind a row's last
# waypoint is rubbish.
#
# **Your task:** write `places_and_mask`.
#
# <details><summary>Hint 1: the idea</summary>
#
# After the waypoints are written, row $b$ fills the slots $0$ to `lengths[b] + n - 1`. Which of them may be
# read? Does it depend on which waypoint asks?
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `lengths` as a column `(batch, 1)` plus `(n,)` gives the places. The mask of a row is a row of slots, the
# same for all its waypoints: `(batch, 1, 1, slot)`, repeated to `(batch, 1, n, slot)`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# places = lengths as a column + (0 ... n-1)
# filled = slot number < length + n, for each row
# mask   = filled, repeated n times along the axis of the queries
# ```
#
# </details>


# %% nbgrader={"grade_id": "places", "solution": true}
def places_and_mask(lengths: np.ndarray, n: int, slots: int) -> tuple[np.ndarray, np.ndarray]:
    """Where n waypoints stand that follow each row's prefix, and which slots they may read.

    lengths: (batch,), the tokens of each row's prefix, in slots 0 to lengths[b] - 1. The row's n waypoints
    lie in the next slots. slots: how many slots the cache has.
    Returns places (batch, n), whole numbers, and mask (batch, 1, n, slot), booleans, True = may attend.
    """
    ### BEGIN SOLUTION
    places = lengths[:, None] + np.arange(n)
    filled = np.arange(slots) < lengths[:, None] + n  # (batch, slot)
    return places, np.repeat(filled[:, None, None, :], n, axis=2)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-places", "grade": true, "points": 0.5}
### Test: two waypoints behind a prefix of two and behind one of one (0.5 points)
### Hint: Row 0: slots 0 and 1 are the prefix, 2 and 3 the waypoints. Both waypoints read these four.
places, mask = check.parts("places_and_mask", places_and_mask(np.array([2, 1]), 2, 5), ("places", "mask"))
check.array("places", places, [[2, 3], [1, 2]], axes=("batch", "waypoint"))
pattern = [[[[1, 1, 1, 1, 0]] * 2], [[[1, 1, 1, 0, 0]] * 2]]
check.array("mask", mask, pattern, axes=("batch", "head", "waypoint", "slot"))
check.dtype("mask", mask, bool)

"places_and_mask: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-places-hidden", "grade": true, "points": 2}
# When your notebook is graded, this cell tests places and masks: equal and different lengths.
### BEGIN HIDDEN TESTS


def where_and_what(lengths, n, slots):
    """Places and mask, written down slot by slot."""
    places = [[length + i for i in range(n)] for length in lengths]
    mask = np.zeros((len(lengths), 1, n, slots), dtype=bool)
    for b, length in enumerate(lengths):
        for slot in range(length + n):
            mask[b, 0, :, slot] = True
    return np.array(places), mask


def some_lengths(label, rows, low=2, high=9):
    """Different lengths, of which the first is not the longest."""
    chosen = check.rng(label).permutation(np.arange(low, high))[:rows]
    return np.roll(chosen, -int(chosen.argmax()) - 1)


### Test: the waypoints stand behind the prefix (0.5 points)
### Hint: The last token of a prefix of 5 stands at place 4.
### Belief: places-restart
for length in (int(some_lengths("place", 1)[0]), 1):
    places, _ = check.parts("places_and_mask", places_and_mask(np.full(2, length), 4, 16), ("places", "mask"))
    check.array("places", places, np.arange(length, length + 4) * np.ones((2, 1)), ("batch", "waypoint"))

### Test: every waypoint sees the whole prefix and all waypoints (0.5 points)
### Hint: Is the last waypoint seen by the first one? And the first token of the prefix by the last one?
### Belief: causal-waypoints
length = int(some_lengths("seen", 1)[0])
_, wanted = where_and_what([length] * 3, 4, 15)
_, mask = check.parts("places_and_mask", places_and_mask(np.full(3, length), 4, 15), ("places", "mask"))
check.array("mask", mask, wanted, axes=("batch", "head", "waypoint", "slot"))

### Test: each row's waypoints follow its own prefix (0.5 points)
### Hint: The rows have different lengths. Padding has no place.
### Belief: places-behind-the-longest
lengths = some_lengths("own places", 4)
wanted, _ = where_and_what(lengths, 3, 14)
places, _ = check.parts("places_and_mask", places_and_mask(lengths.copy(), 3, 14), ("places", "mask"))
check.array("places", places, wanted, axes=("batch", "waypoint"))

### Test: no row sees the empty slots behind its own waypoints (0.5 points)
### Hint: The mask ends at a different slot in each row.
### Belief: mask-of-the-longest
lengths = some_lengths("own masks", 3)
_, wanted = where_and_what(lengths, 5, 17)
_, mask = check.parts("places_and_mask", places_and_mask(lengths.copy(), 5, 17), ("places", "mask"))
check.array("mask", mask, wanted, axes=("batch", "head", "waypoint", "slot"))
### END HIDDEN TESTS

# %% [markdown]
# Look at your mask beside two others, for three waypoints behind a prefix of three, with two empty slots. The
# second one is that of a language model that writes. The third one is cross-attention.

# %% nbgrader={"grade_id": "watch-places", "locked": true}
place_slots = np.arange(8)[None, :]
place_masks = [
    places_and_mask(np.array([3]), 3, 8)[1][0, 0],
    place_slots <= 3 + np.arange(3)[:, None],
    np.broadcast_to(place_slots < 3, (3, 8)),
]
figure = figures.masks_side_by_side(place_masks, ["the expert", "causal", "cross-attention\nonly"])

# %% [markdown]
# All three have the right shape, and no program complains about any of them. With one waypoint the first two
# are equal.

# %% [markdown]
# ## 3. One layer that reads the cache
#
# Now the layer. Its input `x` holds the waypoints only. It is your `cached_attention` from the unit *cache*,
# with another mask.
#
# 1. Queries, keys and values of the waypoints, split into heads. Queries and keys are **turned** by their
#    places with `F.rotary`.
# 2. The new keys and values are **written** into the slots behind each row's prefix. The prefix itself is
#    never touched: its keys were turned when they were written.
# 3. The queries read all that the cache holds, under the mask. That is one softmax.
# 4. Heads side by side again, times the last matrix.
#
# `lengths` stays as it is: every layer writes at the same place. Several heads of queries may share one
# head of keys and values, and `F.attention` knows how.
#
# **Your task:** write `expert_attention`.
#
# <details><summary>Hint 1: the idea</summary>
#
# First the places and the mask, by your `places_and_mask`. Then write, then read.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `keys` is `(batch, kv_head, slot, head_dim)`, so `head_dim` is its last axis. `k[b]` is
# `(kv_head, n, head_dim)`, as is `keys[b, :, length : length + n]`. `F.rotary` takes places `(batch, n)`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# places, mask = places_and_mask(lengths, n, number of slots)
# q, k = heads of x W_q and of x W_k, turned by places          v = heads of x W_v
# for each row b:  keys[b, all heads, lengths[b] to lengths[b] + n] = k[b];   values the same with v[b]
# output = attention of q to all of keys and values, with mask
# answer = heads side by side, times W_o
# ```
#
# </details>


# %% nbgrader={"grade_id": "layer", "solution": true}
def expert_attention(
    x: np.ndarray, keys: np.ndarray, values: np.ndarray, lengths: np.ndarray, w: dict
) -> np.ndarray:
    """One softmax of n waypoints over the cached prefix and the waypoints themselves.

    x: (batch, n, d), the waypoints.
    keys, values: (batch, kv_head, slot, head_dim), one layer of the cache. The waypoints' own are written
    behind each row's prefix, in place; keys are kept turned. The prefix stays as it is.
    lengths: (batch,), the tokens of each row's prefix; stays as it is.
    w: matrices "q" (d, head * head_dim), "k" and "v" (d, kv_head * head_dim), "o" (head * head_dim, d).
    Returns (batch, n, d).
    """
    ### BEGIN SOLUTION
    batch, n, _ = x.shape
    slots, head_dim = keys.shape[2:]
    places, mask = places_and_mask(lengths, n, slots)

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = k[b]
        values[b, :, length : length + n] = v[b]
    output = F.attention(q, keys, values, mask=mask).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-layer", "grade": true, "points": 1}
# With queries and keys of 0 every score is 0: a waypoint gets the plain mean of the values that it may read.
mean_layer = {"q": np.zeros((2, 2)), "k": np.zeros((2, 2)), "v": np.eye(2), "o": np.eye(2)}

### Test: two waypoints read a prefix of two, and each other (0.5 points)
### Hint: Both get the mean of [3, 0], [0, 3], [6, 0] and [3, 9]. The 100 behind them is rubbish.
keys, values = np.zeros((1, 1, 5, 2)), np.full((1, 1, 5, 2), 100.0)
values[0, 0, :2] = [[3, 0], [0, 3]]
output = expert_attention(np.array([[[6.0, 0], [3, 9]]]), keys, values, np.array([2]), mean_layer)
check.array("output", output, [[[3, 3], [3, 3]]], axes=("batch", "waypoint", "feature"))

### Test: the waypoints' values stand behind the prefix, which stays as it was (0.5 points)
### Hint: Slots 0 and 1 are the prefix, slots 2 and 3 the waypoints; slot 4 stays as it was.
keys, values = np.zeros((1, 1, 5, 2)), np.full((1, 1, 5, 2), 7.0)
values[0, 0, :2] = [[3, 0], [0, 3]]
expert_attention(np.array([[[6.0, 0], [3, 9]]]), keys, values, np.array([2]), mean_layer)
check.array("values", values[0, 0], [[3, 0], [0, 3], [6, 0], [3, 9], [7, 7]], axes=("slot", "feature"))

"expert_attention: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-layer-hidden", "grade": true, "points": 2.5}
# When your notebook is graded, this cell tests the layer: positions, heads, prefixes of different length.
### BEGIN HIDDEN TESTS
WAYPOINTS = ("batch", "waypoint", "feature")
SLOTS = ("batch", "head", "slot", "feature")


def turn(y, places):
    """y (head, n, head_dim), each pair (i, i + half) turned by the place times its rate."""
    half = y.shape[-1] // 2
    angle = np.asarray(places)[:, None] * 10000.0 ** (-np.arange(half) / half)
    a, b = y[..., :half], y[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1)


def layer_alone(x, k_prefix, v_prefix, w):
    """One row: waypoints (n, d) and a prefix (kv_head, P, head_dim) without padding, joined by hand."""
    held, head_dim = k_prefix.shape[1:]
    places = held + np.arange(len(x))

    def split(y):
        return y.reshape(len(x), -1, head_dim).transpose(1, 0, 2)

    q, own_k, own_v = turn(split(x @ w["q"]), places), turn(split(x @ w["k"]), places), split(x @ w["v"])
    k, v = np.concatenate([k_prefix, own_k], axis=1), np.concatenate([v_prefix, own_v], axis=1)
    group = len(q) // len(k)
    scores = np.einsum("hid,hjd->hij", q, np.repeat(k, group, axis=0)) / np.sqrt(head_dim)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    mixed = np.einsum("hij,hjd->ihd", weights, np.repeat(v, group, axis=0))
    return mixed.reshape(len(x), -1) @ w["o"], own_k, own_v


def a_layer(label, lengths, n, heads=4, kv_heads=2, head_dim=6, width=10, slots=15, sharp=1.5):
    """Waypoints, one layer of a cache with rubbish behind each prefix, matrices, and what must come of it."""
    rng = check.rng(label)
    sizes = {
        "k": (width, kv_heads * head_dim),
        "o": (heads * head_dim, width),
        "q": (width, heads * head_dim),
    }
    w = {name: rng.normal(size=size) / np.sqrt(size[0]) for name, size in sizes.items()}
    w["v"] = rng.normal(size=sizes["k"]) / np.sqrt(width)
    w["q"] *= sharp
    keys, values = 2 * rng.normal(size=(2, len(lengths), kv_heads, slots, head_dim))
    x = 2 * rng.normal(size=(len(lengths), n, width))
    wanted, wanted_keys, wanted_values = [], keys.copy(), values.copy()
    for b, length in enumerate(lengths):
        output, k, v = layer_alone(x[b], keys[b, :, :length], values[b, :, :length], w)
        wanted.append(output)
        wanted_keys[b, :, length : length + n], wanted_values[b, :, length : length + n] = k, v
        keys[b, :, length + n :] *= 4
        wanted_keys[b, :, length + n :] *= 4
    return x, keys, values, w, np.stack(wanted), wanted_keys, wanted_values


### Test: one softmax over the prefix and the waypoints (0.5 points)
### Hint: The weights of a waypoint sum to 1 over prefix and waypoints together.
### Belief: two-softmaxes
x, keys, values, w, wanted, _, _ = a_layer("one softmax", [5, 5], 3, slots=8)
output = expert_attention(x, keys, values, np.array([5, 5]), w)
check.array("output", output, wanted, axes=WAYPOINTS)

### Test: what is in the cache is never turned or written again (0.5 points)
### Hint: Keys of the prefix were turned when they were written. Only the waypoints' keys are new.
### Belief: cached-keys-turned-again
x, keys, values, w, wanted, wanted_keys, wanted_values = a_layer("written", [6, 6, 6], 4, slots=13)
output = expert_attention(x, keys, values, np.array([6, 6, 6]), w)
check.array("keys in the cache", keys, wanted_keys, axes=SLOTS)
check.array("values in the cache", values, wanted_values, axes=SLOTS)
check.array("output", output, wanted, axes=WAYPOINTS)

### Test: queries and keys are turned by their places, values are not (0.5 points)
### Hint: The score of a query and a key depends on how far apart they stand. A value has no place.
### Belief: queries-not-turned
x, keys, values, w, wanted, wanted_keys, wanted_values = a_layer("turned", [9, 9], 5, head_dim=8, slots=16)
output = expert_attention(x, keys, values, np.array([9, 9]), w)
check.array("output", output, wanted, axes=WAYPOINTS)
check.array("values in the cache", values, wanted_values, axes=SLOTS)

### Test: prefixes of different length, with rubbish behind them (0.5 points)
### Hint: Every row has its own places, its own mask and its own slots to write to.
### Belief: written-behind-the-longest
held = np.array([2, 7, 4])
x, keys, values, w, wanted, wanted_keys, wanted_values = a_layer("ragged", [2, 7, 4], 3)
output = expert_attention(x, keys, values, held, w)
check.array("output", output, wanted, axes=WAYPOINTS)
check.array("keys in the cache", keys, wanted_keys, axes=SLOTS)
check.array("values in the cache", values, wanted_values, axes=SLOTS)
check.array("lengths", held, [2, 7, 4], axes=("batch",))

### Test: six heads of queries share two heads of keys, and scores are in the thousands (0.5 points)
### Hint: Neighbouring heads of queries share one. Are the heads side by side, waypoint by waypoint?
### Belief: heads-shared-in-turn
x, keys, values, w, wanted, _, _ = a_layer("groups", [3, 8], 4, heads=6, head_dim=4, width=7, sharp=900.0)
output = expert_attention(x, keys, values, np.array([3, 8]), w)
check.array("output", output, wanted, axes=WAYPOINTS)
### END HIDDEN TESTS

# %% [markdown]
# Back to the bug of section 2. The cell changes the **last** waypoint and looks how far the output of the
# **first** one moves. On top is the layer that you have just written. Below is your `cross_attention`, which
# reads the prefix only, with the same matrices.

# %% nbgrader={"grade_id": "watch-first", "locked": true}


def random_matrices(maker, width, heads, kv_heads, head_dim):
    wide, narrow = heads * head_dim, kv_heads * head_dim
    shapes = {"q": (width, wide), "k": (width, narrow), "v": (width, narrow), "o": (wide, width)}
    return {name: maker.normal(size=shape) / np.sqrt(shape[0]) for name, shape in shapes.items()}


first_maker = np.random.default_rng(4)
first_w = random_matrices(first_maker, 16, 2, 2, 8)
first_prefix, first_x = first_maker.normal(size=(1, 5, 16)), first_maker.normal(size=(1, 6, 16))
first_other = first_x.copy()
first_other[0, -1] += 1.0
first_cache = np.zeros((2, 1, 2, 12, 8))
for part, name in zip(first_cache, "kv", strict=True):
    made = (first_prefix @ first_w[name]).reshape(1, 5, 2, 8).transpose(0, 2, 1, 3)
    part[:, :, :5] = F.rotary(made, np.arange(5)).numpy() if name == "k" else made
first_moves = {}
for arrangement in ("one softmax over prefix and waypoints", "cross-attention to the prefix"):
    first_outputs = [
        expert_attention(some, *first_cache, np.array([5]), first_w)
        if arrangement.startswith("one")
        else cross_attention(some, first_prefix, np.ones((1, 5), dtype=bool), first_w, 2)
        for some in (first_x, first_other)
    ]
    first_moves[arrangement] = float(np.abs(first_outputs[0] - first_outputs[1])[0, 0].max())
    print(f"{arrangement:40s} the first waypoint moves by {first_moves[arrangement]:.3f}")

# %% [markdown]
# Is reading a cache the same as having both models read everything together? `joint_pass` below takes
# prefix and waypoints through both models at once. Each kind of token has its own matrices, and there is
# one softmax, under the mask of two blocks from the unit *causal*. This is how π0 is trained. The cell then
# fills a cache with the keys and values of the prefix and runs your layers on the waypoints alone.

# %% nbgrader={"grade_id": "watch-joint", "locked": true}


def joint_pass(prefix, waypoints, model_layers, expert_layers, head_dim):
    """Both towers at once: the last waypoints, and every layer's keys and values of the prefix."""
    p, n = prefix.shape[1], waypoints.shape[1]
    spots = np.arange(p + n)
    sees = (spots[None, :] <= spots[:, None]) | (spots[:, None] >= p)  # the prefix is causal
    kept = []

    def in_heads(numbers):
        return numbers.reshape(1, numbers.shape[1], -1, head_dim).transpose(0, 2, 1, 3)

    for of_model, of_expert in zip(model_layers, expert_layers, strict=True):
        q, k, v = (
            np.concatenate([in_heads(prefix @ of_model[name]), in_heads(waypoints @ of_expert[name])], axis=2)
            for name in "qkv"
        )
        q, k = (F.rotary(part, spots).numpy() for part in (q, k))
        mixed = F.attention(q, k, v, mask=sees).numpy().transpose(0, 2, 1, 3).reshape(1, p + n, -1)
        prefix = prefix + mixed[:, :p] @ of_model["o"]
        waypoints = waypoints + mixed[:, p:] @ of_expert["o"]
        kept.append((k[:, :, :p], v[:, :, :p]))
    return waypoints, np.array(kept)


joint_maker = np.random.default_rng(6)
model_layers = [random_matrices(joint_maker, 24, 4, 2, 8) for _ in range(3)]
expert_layers = [random_matrices(joint_maker, 12, 4, 2, 8) for _ in range(3)]
joint_prefix, joint_points = joint_maker.normal(size=(1, 7, 24)), joint_maker.normal(size=(1, 6, 12))
joint_out, joint_kept = joint_pass(joint_prefix, joint_points, model_layers, expert_layers, 8)
_, other_kept = joint_pass(joint_prefix, -joint_points, model_layers, expert_layers, 8)
joint_cache = np.zeros((3, 2, 1, 2, 14, 8))
joint_cache[:, :, :, :, :7] = other_kept
cached_out = joint_points
for layer_cache, of_expert in zip(joint_cache, expert_layers, strict=True):
    cached_out = cached_out + expert_attention(cached_out, *layer_cache, np.array([7]), of_expert)
joint_gaps = np.abs(joint_kept - other_kept).max(), np.abs(joint_out - cached_out).max()
print(f"other waypoints: the prefix's keys and values move by {joint_gaps[0]:.1e}")
print(f"your layers on the cache, and both models at once: {joint_gaps[1]:.1e} apart")

# %% [markdown]
# The first line says why there can be a cache at all. The prefix does not depend on the waypoints, so one
# reading does for all of them. The second line is a test that is worth having: training runs one way, driving
# the other. (The public code of π0 has no such test.)

# %% [markdown]
# ## 4. The whole expert
#
# Waypoints come as numbers: `actions` is `(batch, n, channels)`. A car has two channels, acceleration and
# curvature. The expert gets one number more, the **time**. Not the time on the road: it says how far the
# noise has turned into actions, from 0 to 1. Section 5 needs it. It is the same for all waypoints.
#
# - **In:** behind each waypoint's channels comes the time. Times the matrix `lift` that makes tokens.
# - **Layers:** attention with a residual connection, $x \leftarrow x + \mathrm{attention}(x)$. Layer $l$
#   reads layer $l$ of the cache. (A real expert also has norms and MLPs. You have built those in *heads*.)
# - **Out:** times the matrix `head`. The result has the shape of `actions`.
# - **Lengths:** this is a pass through a cache like any other. At its end the lengths move by $n$, once, in
#   the caller's array.
#
# **Your task:** write `velocity`. The name will make sense in the next section.
#
# <details><summary>Hint 1: the idea</summary>
#
# It is `extend` from the unit *cache*, with a matrix before the layers and one behind them.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `np.full((batch, n, 1), time)` can be joined to `actions` along the last axis: `(batch, n, channels + 1)`.
# `keys[0]` is the cache of layer 0.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# x = actions and the time side by side, times lift
# for each number and layer:
#     x = x + expert_attention of x with the keys and values of that number
# add n to lengths in place
# answer = x times head
# ```
#
# </details>


# %% nbgrader={"grade_id": "velocity", "solution": true}
def velocity(
    actions: np.ndarray, time: float, keys: np.ndarray, values: np.ndarray, lengths: np.ndarray, expert: dict
) -> np.ndarray:
    """One pass of the expert: noisy actions and a time, read together with a cache.

    actions: (batch, n, channels). time: one number from 0 (noise) to 1 (actions).
    keys, values: (layer, batch, kv_head, slot, head_dim) and lengths: (batch,), changed in place: the
    waypoints are in the cache afterwards, and the lengths say so.
    expert: "lift" (channels + 1, d), "layers" for `expert_attention`, "head" (d, channels).
    Returns (batch, n, channels).
    """
    ### BEGIN SOLUTION
    batch, n, _ = actions.shape
    x = np.concatenate([actions, np.full((batch, n, 1), time)], axis=2) @ expert["lift"]
    for number, w in enumerate(expert["layers"]):
        x = x + expert_attention(x, keys[number], values[number], lengths, w)
    lengths += n
    return x @ expert["head"]
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-velocity", "grade": true, "points": 0.5}
### Test: two waypoints through one layer of means (0.5 points)
### Hint: The tokens are [1, 0.5] and [3, 0.5]. With [2, 2] in the prefix the mean is [2, 1]; add it to both.
mean_layer = {"q": np.zeros((2, 2)), "k": np.zeros((2, 2)), "v": np.eye(2), "o": np.eye(2)}
small_expert = {"lift": np.eye(2), "layers": [mean_layer], "head": np.array([[1.0], [2.0]])}
keys, values, lengths = np.zeros((1, 1, 1, 4, 2)), np.full((1, 1, 1, 4, 2), 2.0), np.array([1])
got = velocity(np.array([[[1.0], [3.0]]]), 0.5, keys, values, lengths, small_expert)
check.array("velocity", got, [[[6], [8]]], axes=("batch", "waypoint", "channel"))
check.array("lengths", lengths, [3], axes=("batch",))

"velocity: all checks in this cell pass."

# %% [markdown]
# ## 5. From noise to actions
#
# There may be two good ways around a cone: left or right. Teach a model by least squares to say *the* right
# path, and it learns the mean of both. The mean runs into the cone.
#
# So the expert does not say a path. It is given **noise** and turns it into a path, in small steps. Other
# noise, other path. This is **flow matching**. Draw a straight line from a sample of noise to an example of
# the data:
#
# $$x_t = (1 - t)\,\mathrm{noise} + t\,\mathrm{data}$$
#
# At $t = 0$ it is noise, at $t = 1$ it is data. The point moves with the velocity
#
# $$\frac{dx_t}{dt} = \mathrm{data} - \mathrm{noise}.$$
#
# In training the model sees $x_t$ and $t$, and is to say this velocity. Its loss is the mean squared
# difference. It knows neither the noise nor the data, so it learns the *mean velocity* of all lines through
# this point. At $t = 0$ there are lines from one point to all the data. Later the point has moved towards
# one of the paths, and the others are out of reach.
#
# **Your task:** write `training_pair`. Each row of the batch has a time of its own.
#
# <details><summary>Hint 1: the idea</summary>
#
# It is the two formulas above. The time of a row holds for all its waypoints and channels.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `data` and `noise` are `(batch, n, channels)`, so the times must be `(batch, 1, 1)`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# t      = time with two new axes at the end
# point  = (1 - t) times noise + t times data
# target = data - noise
# ```
#
# </details>


# %% nbgrader={"grade_id": "pair", "solution": true}
def training_pair(data: np.ndarray, noise: np.ndarray, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the line from noise (time 0) to data (time 1) is, and the velocity that a model is to learn.

    data, noise: (batch, n, channels). time: (batch,), one for each row.
    Returns point and target, both (batch, n, channels).
    """
    ### BEGIN SOLUTION
    t = time[:, None, None]
    return (1 - t) * noise + t * data, data - noise
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-pair", "grade": true, "points": 0.5}
### Test: a quarter of the way from 2 to 10 (0.5 points)
### Hint: The point is 4. Whoever is there at time 0.25 and drives with velocity 8 arrives at time 1.
point, target = check.parts(
    "training_pair",
    training_pair(np.full((1, 2, 1), 10.0), np.full((1, 2, 1), 2.0), np.array([0.25])),
    ("point", "target"),
)
check.array("point", point, [[[4], [4]]], axes=("batch", "waypoint", "channel"))
check.array("target", target, [[[8], [8]]], axes=("batch", "waypoint", "channel"))

"training_pair: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-pair-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell tests training_pair on other sizes.
### BEGIN HIDDEN TESTS
PATHS = ("batch", "waypoint", "channel")

### Test: the point lies between noise and data, and the target leads from one to the other (0.5 points)
### Hint: At time 0 the point is the noise. From there the target must lead to the data.
### Belief: target-back-to-noise
data, noise = check.rng("pair").normal(size=(2, 3, 5, 2))
time = check.rng("times").uniform(0.1, 0.9, size=3)
point, target = check.parts(
    "training_pair", training_pair(data.copy(), noise.copy(), time.copy()), ("point", "target")
)
check.array("point", point, noise + np.einsum("b,bnc->bnc", time, data - noise), axes=PATHS)
check.array("target", target, data - noise, axes=PATHS)

### Test: each row has its own time, for all its waypoints (0.5 points)
### Hint: With as many rows as waypoints NumPy accepts the times on the wrong axis, too.
### Belief: time-along-the-waypoints
for rows, points, channels in ((4, 4, 3), (3, 2, 3), (5, 5, 5)):
    data, noise = check.rng(f"own times {rows}").normal(size=(2, rows, points, channels))
    time = check.rng(f"their times {rows}").permutation(np.linspace(0, 1, rows))
    answer = training_pair(data.copy(), noise.copy(), time.copy())
    point, target = check.parts("training_pair", answer, ("point", "target"))
    check.array("point", point, noise + np.einsum("b,bnc->bnc", time, data - noise), axes=PATHS)
    check.array("target", target, data - noise, axes=PATHS)
### END HIDDEN TESTS

# %% [markdown]
# π0 counts time the other way round: noise at 1, actions at 0, and the velocity is `noise - data`. Both are
# right. A mixture of the two is not, and no shape tells.

# %% [markdown]
# ## 6. Drive in ten steps
#
# At the wheel there is no data. Start at noise, ask for the velocity, and go a small step in that direction.
# Ask again from there. This is **Euler's method**. With $N$ steps, step $i$ (from 0) is
#
# $$x \leftarrow x + \tfrac{1}{N}\; v(x,\; t = \tfrac{i}{N}).$$
#
# Alpamayo-R1 and π0 take ten steps. The prefix is read once, before the first.
#
# And here is the trap of this unit. Every look of the expert puts $n$ keys and values into the cache, and
# moves the lengths. In the next step the waypoints are *other* numbers. If the old ones are still there,
# the expert reads its own old noise as if it were part of the prefix. So after **every** step the cache is
# **cropped**: the lengths go back to what they were. Also after the last step, since someone may want a
# second sample. Write the lengths into the array that you were given (`lengths[:] = ...`).
#
# **Your task:** write `denoise`. Ask `look` for the velocity. It is your `velocity`, unless somebody passes
# another one: at the end of this unit you will pass a real expert's.
#
# <details><summary>Hint 1: the idea</summary>
#
# Keep a copy of the lengths before you start. A name alone is no copy: it would move with the array.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `x` has the shape of `noise` all the time. The time of a look is one number. The lengths of the rows differ.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# x    = noise
# held = copy of lengths
# for each step i from 0 to steps - 1:
#     x = x + look(x, i / steps, keys, values, lengths, expert) / steps
#     put held back into lengths, in place
# ```
#
# </details>


# %% nbgrader={"grade_id": "denoise", "solution": true}
def denoise(
    noise: np.ndarray,
    steps: int,
    keys: np.ndarray,
    values: np.ndarray,
    lengths: np.ndarray,
    expert: dict,
    look=None,
) -> np.ndarray:
    """Euler's method from noise at time 0 to actions at time 1, with one look at the cache in each step.

    noise: (batch, n, channels); stays as it is. steps: a whole number, at least 1.
    keys, values, lengths, expert: as for `velocity`. Afterwards the lengths are what they were before.
    look: called as `look(x, time, keys, values, lengths, expert)`; by default it is `velocity`.
    Returns (batch, n, channels).
    """
    look = look or velocity
    ### BEGIN SOLUTION
    x, held = noise, lengths.copy()
    for step in range(steps):
        x = x + look(x, step / steps, keys, values, lengths, expert) / steps
        lengths[:] = held
    return x
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-denoise", "grade": true, "points": 0.5}
### Test: an expert without layers, whose velocity is where it is (0.5 points)
### Hint: Two steps of one half each: 4 becomes 4 + 4/2 = 6, and 6 becomes 6 + 6/2 = 9.
growing = {"lift": np.eye(2), "layers": [], "head": np.array([[1.0], [0.0]])}
keys, values, lengths = *np.zeros((2, 0, 1, 1, 8, 2)), np.array([3])
actions = denoise(np.array([[[4.0], [2.0]]]), 2, keys, values, lengths, growing)
check.array("actions", actions, [[[9], [4.5]]], axes=("batch", "waypoint", "channel"))
check.array("lengths", lengths, [3], axes=("batch",))

"denoise: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-model-hidden", "grade": true, "points": 3.5}
# When your notebook is graded, this cell tests velocity and denoise: several layers, steps and prefixes.
### BEGIN HIDDEN TESTS
PATHS = ("batch", "waypoint", "channel")
WIDTH, KV_HEADS, HEAD_DIM, SLOTS_IN_ALL = 12, 2, 6, 40


def an_expert(label, layers=3, channels=2):
    """A random expert whose layers matter."""
    rng = check.rng(label)
    sizes = {"q": (WIDTH, 24), "k": (WIDTH, 12), "v": (WIDTH, 12), "o": (24, WIDTH)}
    stack = [
        {name: rng.normal(size=size) / np.sqrt(size[0]) for name, size in sizes.items()}
        for _ in range(layers)
    ]
    lift, head = rng.normal(size=(channels + 1, WIDTH)), rng.normal(size=(WIDTH, channels)) / np.sqrt(WIDTH)
    return {"lift": lift, "layers": stack, "head": head}


def a_cache(label, lengths, layers=3):
    """Keys and values: a prefix in each row, and larger rubbish behind it."""
    cache = check.rng(label).normal(size=(2, layers, len(lengths), KV_HEADS, SLOTS_IN_ALL, HEAD_DIM))
    for b, length in enumerate(lengths):
        cache[:, :, b, :, length:] *= 5
    return cache


def rotated(y, places):
    half = y.shape[-1] // 2
    angle = np.asarray(places)[:, None] * 10000.0 ** (-np.arange(half) / half)
    a, b = y[..., :half], y[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1)


def look_alone(actions, time, k_prefix, v_prefix, expert):
    """The velocity of one row (n, channels) with the prefix (layer, kv_head, P, head_dim)."""
    n, places = len(actions), k_prefix.shape[2] + np.arange(len(actions))
    x = np.column_stack([actions, np.full(n, float(time))]) @ expert["lift"]
    for k_held, v_held, w in zip(k_prefix, v_prefix, expert["layers"], strict=True):
        q, k, v = ((x @ w[name]).reshape(n, -1, HEAD_DIM).transpose(1, 0, 2) for name in "qkv")
        k = np.concatenate([k_held, rotated(k, places)], axis=1)
        v = np.concatenate([v_held, v], axis=1)
        group = len(q) // len(k)
        scores = np.einsum("hid,hjd->hij", rotated(q, places), np.repeat(k, group, 0)) / np.sqrt(HEAD_DIM)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + np.einsum("hij,hjd->ihd", weights, np.repeat(v, group, 0)).reshape(n, -1) @ w["o"]
    return x @ expert["head"]


def looks_alone(actions, time, cache, lengths, expert):
    """The velocities of a batch, row by row."""
    return np.stack(
        [
            look_alone(row, time, *cache[:, :, b, :, :length], expert)
            for b, (row, length) in enumerate(zip(actions, lengths, strict=True))
        ]
    )


def path_alone(noise, steps, cache, lengths, expert):
    """Euler's method in which every step reads the prefix and nothing else."""
    x = noise
    for i in range(steps):
        x = x + looks_alone(x, i / steps, cache, lengths, expert) / steps
    return x


### Test: layer l of the expert reads layer l of the cache (0.5 points)
### Hint: Which layer of keys and values does layer 1 read? And whose output is its input?
### Belief: last-layer-for-all
expert, cache = an_expert("layers"), a_cache("layers' cache", [5, 5])
actions = check.rng("layers' actions").normal(size=(2, 4, 2))
keys, values = cache.copy()
got = velocity(actions.copy(), 0.0, keys, values, np.array([5, 5]), expert)
check.array("velocity", got, looks_alone(actions, 0.0, cache, [5, 5], expert), axes=PATHS)

### Test: the time goes in behind the channels (0.5 points)
### Hint: Every waypoint's token is made of its channels and the time, in this order.
### Belief: time-left-out
expert, cache = an_expert("clock", channels=3), a_cache("clock's cache", [4, 4, 4])
actions = check.rng("clock's actions").normal(size=(3, 5, 3))
for time in np.round(check.rng("clock").uniform(0.1, 0.9, size=2), 2).tolist():
    keys, values = cache.copy()
    got = velocity(actions.copy(), time, keys, values, np.array([4, 4, 4]), expert)
    check.array("velocity", got, looks_alone(actions, time, cache, [4] * 3, expert), axes=PATHS)

### Test: the lengths move once, at the end (0.5 points)
### Hint: All layers write at the same place. Afterwards the caller's lengths are larger by n.
### Belief: lengths-move-in-every-layer
expert, cache, held = an_expert("moved"), a_cache("moved cache", [6, 2, 3]), np.array([6, 2, 3])
actions = check.rng("moved actions").normal(size=(3, 4, 2))
keys, values = cache.copy()
got = velocity(actions.copy(), 0.25, keys, values, held, expert)
check.array("velocity", got, looks_alone(actions, 0.25, cache, [6, 2, 3], expert), axes=PATHS)
check.array("lengths", held, [10, 6, 7], axes=("batch",))
prefixes = np.arange(SLOTS_IN_ALL) < np.array([[6], [2], [3]])
for name, now, before in zip(("keys", "values"), (keys, values), cache, strict=True):
    kept = [array.transpose(1, 3, 0, 2, 4)[prefixes] for array in (now, before)]
    check.array(f"{name} of the prefix", *kept, axes=("token", "layer", "head", "feature"))

### Test: no step reads the waypoints of an earlier step (0.5 points)
### Hint: A single step cannot show it. What does the cache hold when the second look begins?
### Belief: steps-not-cropped
expert, cache = an_expert("steps"), a_cache("steps' cache", [7, 7])
noise = check.rng("steps' noise").normal(size=(2, 4, 2))
for steps in (1, 5):
    keys, values = cache.copy()
    actions = denoise(noise.copy(), steps, keys, values, np.array([7, 7]), expert)
    check.array("actions", actions, path_alone(noise, steps, cache, [7, 7], expert), axes=PATHS)

### Test: each step asks at its own time (0.5 points)
### Hint: With four steps the times are 0, 1/4, 1/2 and 3/4, and every step is 1/4 long.
### Belief: time-at-the-end-of-the-step
clock = {"lift": np.eye(3), "layers": [], "head": np.array([[0.5, 0.0], [0.0, -1.0], [2.0, 3.0]])}
noise = check.rng("clock's noise").normal(size=(3, 5, 2))
for steps in (4, 7):
    keys, values = a_cache("no layers", [3, 1, 2], layers=0)
    actions = denoise(noise.copy(), steps, keys, values, np.array([3, 1, 2]), clock)
    empty = np.zeros((2, 0, 3, KV_HEADS, SLOTS_IN_ALL, HEAD_DIM))
    check.array("actions", actions, path_alone(noise, steps, empty, [3, 1, 2], clock), axes=PATHS)

### Test: rows with prefixes of different length, each as if it were alone (0.5 points)
### Hint: Every row goes back to its own length.
### Belief: cropped-to-the-longest
expert, cache, lengths = an_expert("rows"), a_cache("rows' cache", [2, 9, 5]), [2, 9, 5]
noise = check.rng("rows' noise").normal(size=(3, 6, 2))
keys, values = cache.copy()
actions = denoise(noise.copy(), 3, keys, values, np.array(lengths), expert)
check.array("actions", actions, path_alone(noise, 3, cache, lengths, expert), axes=PATHS)

### Test: afterwards noise and lengths are as before, and a second sample follows (0.5 points)
### Hint: The last step is cropped, too, and in the caller's array. Is the noise still noise?
### Belief: last-step-not-cropped
expert, cache, held = an_expert("twice"), a_cache("cache for two", [4, 3]), np.array([4, 3])
keys, values = cache.copy()
for label in ("first noise", "second noise"):
    noise = check.rng(label).normal(size=(2, 5, 2))
    before = noise.copy()
    actions = denoise(noise, 2, keys, values, held, expert)
    check.array("actions", actions, path_alone(before, 2, cache, [4, 3], expert), axes=PATHS)
    check.array("lengths", held, [4, 3], axes=("batch",))
    check.unchanged("noise", noise, before)
### END HIDDEN TESTS

# %% [markdown]
# How bad is it to forget the crop? The cell takes a random expert and tries it. `left_alone` is a look that
# leaves its waypoints in the cache for good: it hides from your `denoise` that the lengths have moved.

# %% nbgrader={"grade_id": "watch-crop", "locked": true}
crop_maker = np.random.default_rng(8)
crop_expert = {
    "lift": crop_maker.normal(size=(3, 16)),
    "layers": [random_matrices(crop_maker, 16, 4, 2, 8) for _ in range(3)],
    "head": crop_maker.normal(size=(16, 2)) / 4,
}
crop_prefix, crop_noise = crop_maker.normal(size=(2, 3, 1, 2, 80, 8)), crop_maker.normal(size=(1, 6, 2))
crop_gaps = {}
for crop_steps in (1, 2, 5, 10):
    crop_seen = np.array([7])

    def left_alone(x, time, keys, values, lengths, expert, seen=crop_seen):
        return velocity(x, time, keys, values, seen, expert)  # `seen` moves, and no one puts it back

    crop_right = denoise(crop_noise, crop_steps, *crop_prefix.copy(), np.array([7]), crop_expert)
    crop_wrong = denoise(crop_noise, crop_steps, *crop_prefix.copy(), np.array([7]), crop_expert, left_alone)
    crop_gaps[crop_steps] = float(np.abs(crop_right - crop_wrong).max())
    print(
        f"{crop_steps:2d} steps: without the crop the actions are off by {crop_gaps[crop_steps]:.2f}, "
        f"and the cache holds {crop_seen[0]} tokens in place of 7"
    )

# %% [markdown]
# **A test with one step cannot see it.** With two it is plain. In π0 the question does not come up: its code
# makes new, longer arrays in each step and drops them. Alpamayo-R1 appends in place and crops, as you do.

# %% [markdown]
# ## 7. What one reading saves
#
# Suppose there were no cache. Then every step would take the prefix through the layers again, together with
# the waypoints. With the cache the prefix is read once.
#
# **Your task:** write `rows_read`: how many rows of real tokens go through the matrices that make keys, in
# all layers together, until the actions are done. Padding is not counted.
#
# <details><summary>Hint 1: the idea</summary>
#
# In each step the waypoints are new numbers, so their keys are made again in any case. Only the prefix is the
# same in all steps.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# The prefixes of all rows have `sum(lengths)` tokens. The waypoints of all rows are `len(lengths) * n`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# again  = layers * steps * (prefixes + waypoints)
# cached = layers * (prefixes + steps * waypoints)
# ```
#
# </details>


# %% nbgrader={"grade_id": "rows", "solution": true}
def rows_read(lengths: list[int], n: int, steps: int, layers: int) -> tuple[int, int]:
    """Rows through all key projections while `steps` steps turn n waypoints of each row into actions.

    lengths: the real tokens of each row's prefix.
    Returns (again, cached): when every step reads the prefix again, and when its cache is read.
    """
    ### BEGIN SOLUTION
    prefixes, waypoints = sum(lengths), len(lengths) * n
    return layers * steps * (prefixes + waypoints), layers * (prefixes + steps * waypoints)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-rows", "grade": true, "points": 0.5}
### Test: prefixes of two and one tokens, three waypoints, two steps, one layer (0.5 points)
### Hint: Each step has 3 prefix tokens and 6 waypoints: 9 rows. With a cache the 3 come once: 3 + 6 + 6.
again, cached = check.parts("rows_read", rows_read([2, 1], 3, 2, 1), ("again", "cached"))
check.array("again", again, 18)
check.array("cached", cached, 15)

"rows_read: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-rows-hidden", "grade": true, "points": 0.5}
# When your notebook is graded, this cell tests rows_read on other sizes.
### BEGIN HIDDEN TESTS
### Test: rows are counted for any sizes (0.5 points)
### Hint: Count one row, one layer and two steps by hand. Then the other rows and layers.
### Belief: waypoints-read-once
for label in ("count", "count again"):
    rng = check.rng(label)
    lengths = [int(length) for length in rng.permutation(np.arange(3, 20))[:4]]
    n, steps, layers = (int(number) for number in rng.permutation([3, 5, 7]))
    again, cached = check.parts("rows_read", rows_read(list(lengths), n, steps, layers), ("again", "cached"))
    by_hand = [0, 0]
    for length in lengths:
        for step in range(steps):
            by_hand[0] += layers * (length + n)
            by_hand[1] += layers * ((length if step == 0 else 0) + n)
    check.array("again", again, by_hand[0])
    check.array("cached", cached, by_hand[1])
### END HIDDEN TESTS

# %% [markdown]
# Real numbers. Alpamayo-R1: 36 layers, some 3,000 tokens of prefix, of which 2,880 are images, and 64
# waypoints. π0: 18 layers, up to 816 tokens of images and text; then one token for the robot's state and 50
# for actions. Both take ten steps.

# %% nbgrader={"grade_id": "watch-rows", "locked": true}
expert_sizes = {"Alpamayo-R1": (3000, 64, 36, 8, 128), "pi0": (816, 51, 18, 1, 256)}
expert_rows = {}
for system, (prefix_size, own_size, depth, kv_count, head_size) in expert_sizes.items():
    expert_rows[system] = rows_read([prefix_size], own_size, 10, depth)
    own_bytes = own_size * 2 * depth * kv_count * head_size * 2  # keys and values, two bytes a number
    print(
        f"{system:12s} rows: {expert_rows[system][0]:9,} again and again, {expert_rows[system][1]:7,} with a "
        f"cache; the waypoints' own keys and values: {own_bytes / 2**20:.1f} MiB"
    )

# %% [markdown]
# ## 8. The experiment: left or right
#
# Time to see it learn. The language model of the course's driver reads one of three sentences:
#
# - *left lane free. no right lane.* The example paths pass a cone on the left.
# - *no left lane. right lane free.* They pass it on the right.
# - *left lane free. right lane free.* Half of them go left, half go right.
#
# A small expert, fresh and random, reads the cache and learns from your `training_pair`. The language model
# is **not** changed. Each path has 12 waypoints and one channel: metres to the left. It takes some seconds.

# %% nbgrader={"grade_id": "watch-training", "locked": true}
from minitx import models, no_grad, optim
from minitx.driving import vocabulary
from minitx.driving.weights import load_driver

road_driver = load_driver()
reasoner_gpt = road_driver.reasoner.gpt
sentences = [
    "left lane free. no right lane.",
    "no left lane. right lane free.",
    "left lane free. right lane free.",
]
sentence_ids = np.array([[vocabulary.START_ID, *vocabulary.encode(line)] for line in sentences])


def reading_of(which, room=12):
    """The language model's cache after these sentences, with room for the waypoints."""
    cache = reasoner_gpt.new_cache(len(which), capacity=sentence_ids.shape[1] + room)
    with no_grad():
        reasoner_gpt(sentence_ids[which], cache=cache)
    return cache


def example_paths(which, maker):
    """(batch, 12, 1): around a cone, to the left (+) or to the right (-)."""
    side = np.array([1.0, -1.0, 0.0])[which]
    side = np.where(side == 0, maker.choice([-1.0, 1.0], size=len(which)), side)
    bump = np.sin(np.pi * np.arange(1, 13) / 13)
    return (side * maker.uniform(1.6, 2.4, size=len(which)))[:, None, None] * bump[:, None]


path_maker = np.random.default_rng(0)
path_config = models.ActionExpertConfig.for_model(
    reasoner_gpt, n_heads=4, d_model=32, d_ff=64, waypoints=12, channels=1
)
path_expert = models.ActionExpert(path_config, rng=2)
path_optimizer = optim.AdamW(path_expert.parameters(), lr=0.004, weight_decay=0.0)
path_batch = np.arange(24) % 3
path_cache = reading_of(path_batch)
prefix_before = path_cache.keys[:, :, :, : path_cache.length].copy()
path_losses = []
for _ in range(300):
    path_data = example_paths(path_batch, path_maker)
    path_noise, path_times = path_maker.normal(size=path_data.shape), path_maker.uniform(size=24)
    path_point, path_target = training_pair(path_data, path_noise, path_times)
    path_cache.truncate(sentence_ids.shape[1])  # the crop, in the library's words
    path_said = path_expert(path_point, path_times, path_cache)
    path_loss = ((path_said - path_target.astype(np.float32)) ** 2).mean()
    path_optimizer.zero_grad()
    path_loss.backward()
    path_optimizer.step()
    path_losses.append(path_loss.item())
prefix_moved = np.abs(path_cache.keys[:, :, :, : sentence_ids.shape[1]] - prefix_before).max()
print(f"loss at the start {np.mean(path_losses[:20]):.2f}, at the end {np.mean(path_losses[-50:]):.2f}")
print(f"the prefix's keys have moved by {prefix_moved:.1f}")

# %% [markdown]
# Now let it drive, with your `denoise`. `look_into` makes a look out of a library's expert. Your `lengths`
# tell its cache how much it holds.

# %% nbgrader={"grade_id": "watch-sides", "locked": true}


def look_into(cache):
    """A look for `denoise` at an expert of the library, which reads this cache."""

    def look(x, time, keys, values, lengths, expert):
        cache.truncate(lengths)
        with no_grad():
            velocities = expert(x, np.full(len(x), time), cache).numpy()
        lengths += x.shape[1]
        return velocities

    return look


side_paths = {}
for number, sentence in enumerate(sentences):
    side_cache = reading_of(np.full(16, number))
    side_noise = np.random.default_rng(5).normal(size=(16, 12, 1))
    side_held = side_cache.keys, side_cache.values, side_cache.lengths
    side_numbers = denoise(side_noise, 10, *side_held, path_expert, look_into(side_cache))
    side_paths[sentence] = side_numbers[:, :, 0]
side_mean = example_paths(np.full(2000, 2), np.random.default_rng(1)).mean(axis=0)[:, 0]
figure = figures.ways_around(side_paths, side_mean, "mean of the examples")

# %% [markdown]
# Nothing but the sentence differs between the three pictures: the 16 samples of noise are the same. The
# expert reads the sentence only through keys and values. In the third picture it makes up its mind, once
# left and once right. The dashed line there is the best answer of a model that is trained by least squares
# to say the path at once.
#
# **Try this:** take one step in place of ten. What does the third picture show, and why?
#
# ### Whom does the loss teach?
#
# A cache of plain arrays keeps no gradient. But the same loss *could* teach the language model, too, if
# keys and values stayed on the graph. Alpamayo-R1 cuts them off (`stop_grad_from_vlm`), so that driving
# does not spoil the language. π0 trains both together.

# %% nbgrader={"grade_id": "watch-gradient", "locked": true}
gradient_sizes = {}
for cut_off in (True, False):
    reasoner_gpt.zero_grad()
    path_expert.zero_grad()
    taped_cache = road_driver.reasoner.recorded_cache(24, sentence_ids.shape[1] + 12)
    reasoner_gpt(sentence_ids[path_batch], cache=taped_cache)
    taped_loss = path_expert.loss(path_data, taped_cache, rng=3, detach=cut_off)
    taped_loss.backward()
    gradient_sizes[cut_off] = [
        sum(float((p.grad**2).sum()) for p in some_model.parameters() if p.grad is not None) ** 0.5
        for some_model in (reasoner_gpt, path_expert)
    ]
    print(
        f"cache cut off: {cut_off!s:5}  size of the gradient: "
        f"language model {gradient_sizes[cut_off][0]:.3f}, expert {gradient_sizes[cut_off][1]:.3f}"
    )

# %% [markdown]
# ## 9. Your code drives
#
# The driver of this course has three trained models. An encoder makes tokens of a scene, a language model
# reads them and writes its reasoning, and an expert of four layers reads that cache and gives 64 waypoints
# for the next 6.4 seconds. The cell puts **your** `expert_attention` into all four layers and lets **your**
# `denoise` take the ten steps. The path must be the one that the library finds. Three scenes make a ragged
# batch.

# %% nbgrader={"grade_id": "watch-driving", "locked": true}
from minitx import Tensor
from minitx.driving import actions as driving_actions
from minitx.driving import scene
from minitx.driving.features import observe


class YourLayer:
    """Your `expert_attention` with a trained layer's matrices, where the library expects its own."""

    def __init__(self, trained):
        names = {"q": trained.q_proj, "k": trained.k_proj, "v": trained.v_proj, "o": trained.out_proj}
        self.w = {name: linear.weight.numpy().T for name, linear in names.items()}

    def __call__(self, x, *, cache, layer, **others):
        output = expert_attention(x.numpy(), cache.keys[layer], cache.values[layer], cache.lengths, self.w)
        return Tensor(output.astype(np.float32))


road_scenes = scene.generate((3, 14, 15))
road_speed = road_scenes.speed[:, 0, scene.NOW]
road_texts, road_cache = road_driver.reasoner.reason(observe(road_scenes))
library_path = driving_actions.integrate(road_driver.act(road_cache), road_speed)[0]


def path_of(numbers):
    """The path (batch, 64, 2) in metres to which an expert's numbers lead."""
    return driving_actions.integrate(numbers.astype(float) * driving_actions.SCALE, road_speed)[0]


your_expert = load_driver().expert
for block in your_expert.blocks:
    block.attention = YourLayer(block.attention)
road_held, road_noise = road_cache.lengths, np.repeat(your_expert.noise(1, 0), 3, axis=0)
road_stages = {}
look_at_road = look_into(road_cache)


def watched(x, time, *cached):
    road_stages[time] = x
    return look_at_road(x, time, *cached)


your_numbers = denoise(road_noise, 10, road_cache.keys, road_cache.values, road_held, your_expert, watched)
road_cache.truncate(road_held)
your_path = path_of(your_numbers)
true_path = driving_actions.ego_path(road_scenes)
path_gap = np.linalg.norm(your_path - library_path, axis=-1).max()
print(f"prefixes of {road_held.tolist()} tokens; your path and the library's: {path_gap:.6f} m apart at most")
for text, miss in zip(road_texts, np.linalg.norm(your_path - true_path, axis=-1)[:, -1], strict=True):
    print(f"after 6.4 s {miss:.1f} m from where the car really went. {text.split('therefore: ')[-1]}")

# %% [markdown]
# The first scene, from above: the path at four moments of the denoising, what came out, and what the car
# really did. The two axes have different scales.

# %% nbgrader={"grade_id": "watch-path", "locked": true}
stage_paths = {
    f"time {moment:.1f}": path_of(numbers)[0]
    for moment, numbers in road_stages.items()
    if round(10 * moment) in (0, 3, 6, 9)
}
figure = figures.paths_from_above({**stage_paths, "time 1.0": your_path[0], "the car": true_path[0]})
print(road_texts[0])

# %% [markdown]
# Which bugs would you notice on the road? The cell drives the same scenes with a mistake in every layer of
# the library's expert, and says by how many metres the ends of the paths move.

# %% nbgrader={"grade_id": "watch-mistakes", "locked": true}


class Mistaken:
    """A trained layer that is asked under a wrong mask, at wrong places, or with another layer's cache."""

    def __init__(self, trained, mistake):
        self.trained, self.mistake = trained, mistake

    def __call__(self, x, *, mask, positions, cache, layer, **others):
        slot, held = np.arange(mask.shape[-1]), cache.lengths[:, None, None, None]
        if self.mistake == "no waypoint sees a later one":
            mask = mask & (slot <= positions[:, None, :, None])
        elif self.mistake == "cross-attention only":
            mask = mask & (slot < held)
        elif self.mistake == "blind to the prefix":
            mask = mask & (slot >= held)
        elif self.mistake == "places begin at 0 again":
            positions = positions - cache.lengths[:, None]
        elif self.mistake == "layers in reverse":
            layer = cache.n_layers - 1 - layer
        return self.trained(x, mask=mask, positions=positions, cache=cache, layer=layer, **others)


mistake_ends = {}
for mistake_name in (
    "none",
    "no waypoint sees a later one",
    "cross-attention only",
    "blind to the prefix",
    "places begin at 0 again",
    "layers in reverse",
):
    mistaken_driver = load_driver()
    for block in mistaken_driver.expert.blocks:
        block.attention = Mistaken(block.attention, mistake_name)
    mistaken_actions = mistaken_driver.act(road_cache)
    mistake_ends[mistake_name] = driving_actions.integrate(mistaken_actions, road_speed)[0][:, -1]
    moved_ends = np.linalg.norm(mistake_ends[mistake_name] - mistake_ends["none"], axis=-1)
    print(f"{mistake_name:30s} the ends move by {', '.join(f'{metres:.1f}' for metres in moved_ends)} m")

# %% [markdown]
# All of them run without a complaint, and all of them draw a path. Only numbers tell.

# %% [markdown]
# ## 10. Check yourself
#
# This question is for practice. Put a letter in place of the question mark and run the cell again:
# it says at once whether you are right, and why.

# %% nbgrader={"grade_id": "show-q5", "locked": true}
quiz.show("q5")

# %% practice=true
answers["q5"] = "?"
quiz.explain("q5", answers["q5"])

# %% [markdown]
# The next question is **graded**, for one point. Put your letter in place of the question mark. The lines
# from `if` on are there for a question that is still open; leave them as they are. Your feedback will say
# whether you are right, and if not, what speaks against your answer.

# %% nbgrader={"grade_id": "show-g9", "locked": true}
quiz.show("g9")

# %% nbgrader={"grade_id": "answer-g9", "solution": true}
answers["g9"] = "?"
if answers["g9"] == "?":
    ### BEGIN SOLUTION
    answers["g9"] = "c"
    ### END SOLUTION

# %% nbgrader={"grade_id": "test-g9", "grade": true, "points": 0}
### Test: question g9 has an answer (0 points)
### Hint: One of the letters a, b, c and d, between quotation marks.
quiz.answered("g9", answers)

"g9: there is an answer. Your feedback will say whether it is right."

# %% nbgrader={"grade_id": "test-g9-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell compares your answer with the right one.
### BEGIN HIDDEN TESTS
### Test: the answer to question g9 (1 point)
### Hint: Read the question once more, and what speaks against your answer.
quiz.graded("g9", answers, key="c")
### END HIDDEN TESTS

# %% [markdown]
# ## 11. In your own words
#
# *Four points, graded by hand. Six to ten sentences.*
#
# A colleague has built an action expert. It reads the language model's last hidden state by
# cross-attention. Ten denoising steps append their keys to the cache, "which does no harm, since the prefix
# stays as it is". The test with one step passes.
#
# 1. What do Alpamayo-R1 and π0 read in place of the last hidden state? Why is there *one* softmax over prefix
#    and waypoints, and no causal mask between waypoints?
# 2. What is wrong with the ten steps, and why does the test not see it? Name two tests that you would write.

# %% [markdown] nbgrader={"grade_id": "written-expert", "grade": true, "solution": true, "points": 4}
# ### BEGIN SOLUTION
# **A model answer.** The expert reads the cached keys and values of the whole prefix (images, prompt and
# reasoning), in every layer: its layer l reads layer l of the cache. Its own keys and values are put behind
# them, and one softmax goes over both, so that a waypoint weighs what the prefix says against what the
# other waypoints do. With cross-attention alone the waypoints would not see each other, and they have to
# form one path. No causal mask is needed, as all waypoints are there at once and nothing is predicted from
# left to right; it would hide the end of a manoeuvre from its beginning. In the ten steps the second look
# finds the noisy waypoints of the first one in the cache and reads them as if they belonged to the prefix;
# the places move on, too. That the prefix is unchanged does not help: there is something behind it. In the
# first step nothing has been left over yet, so a test with one step is blind. I would compare several steps
# with a loop in which every step reads the prefix alone, check that the lengths are the same before and
# after, compare rows with prefixes of different length with each row alone, and compare the cached pass
# with a joint pass over prefix and waypoints.
#
# **Marks.**
#
# - 1 point: keys and values of the prefix in every layer (not one hidden state, not the text).
# - 1 point: one softmax, so that waypoints read the prefix and each other; in both directions, since all
#   of them are there at once.
# - 1 point: later steps read the old noise of earlier steps (or: the keys must be cropped after every
#   step); one step cannot show it.
# - 1 point: two tests that can fail: two or more steps against fresh reads, lengths before and after, ragged
#   rows against rows alone, cached against joint, last waypoint changed and first one moved.
#
# Half a point each for the right idea without a reason. No point for "the cache becomes too large" alone,
# or for a test of shapes.
# ### END SOLUTION

# %% [markdown]
# ## Where this shows up
#
# - **Alpamayo-R1.** 64 waypoints at 10 Hz, each an acceleration and a curvature, in ten steps. The expert's
#   waypoints stand at the places behind `<|traj_future_start|>`, row by row, since reasonings differ in
#   length. What stands behind that token in a row is masked. That is your `places_and_mask`.
# - **The place is not always the slot.** In that model images are given fewer places than they have tokens.
#   So the first waypoint's place is smaller than its slot. Your two answers, places and mask, are two
#   things.
# - **A flag is not a mask.** Its training code asks for both directions by `is_causal=False` and
#   passes no mask. Some attention libraries then make a causal one all the same. Change the last waypoint
#   and look at the first: your test of section 3 finds that.
# - **Ports.** A public rewrite of the expert turned its keys with the base 10,000. The language model's were
#   turned with 5,000,000. All shapes fit, and places meant nothing any more.
# - **Several futures.** Other noise is another path. Alpamayo-R1 goes further and samples the reasoning, too:
#   each sample then has its own cache.
# - **Cross-attention** proper is what object queries do with image features and agents with a map, as in
#   section 1. DETR adds positions to the keys of the image and never to its values: where a thing is helps to
#   find it, and is not what is read.
#
# You have now built the way from attention to the wheel.
