# %% [markdown]
# # Cache: read every token once
#
# **After this unit you can**
#
# - say what a key-value cache holds, what it saves and what it costs, in rows and in bytes;
# - write an attention layer that reads a cache, for a whole prompt, one new token, or a few at once;
# - prove that reading in pieces gives the same numbers as reading everything at once;
# - take tokens back from a cache (crop), and let one prompt be continued in several ways (fork).
#
# **Time:** about 90 minutes.
# **Before you start:** the unit *causal*. You need the mask for fewer queries than keys.
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
# ## 1. What stays the same
#
# A language model writes one token at a time. For token 101 it looks at tokens 1 to 100. The plain way is to
# run the whole model on all of them again, in every step.
#
# Most of that work gives numbers that were there before. Under a causal mask a token reads only itself and
# what came earlier. So when a new token arrives, **nothing changes for the old ones**, in any layer. Their
# keys and values are the same as one step ago. A **key-value cache** keeps them.
#
# And the old queries? A query is used once, by its own token, to make that token's output. Nobody asks an
# old question again. So queries are not kept.
#
# On the left: what one head keeps. On the right: how many rows of tokens go through the matrix that makes
# keys, in one layer, while 100 tokens are written after a prompt of one token.

# %% nbgrader={"grade_id": "figure-cache", "locked": true}
figure = figures.cache_against_recomputing(tokens=100, prompt=1)

# %% [markdown]
# ### Spot the bug
#
# The tutorial of this course says: without a cache, writing $n$ tokens takes $n(n+1)/2$ rows, with a cache
# $n$. Now think of a car. Its prompt has some 3,000 tokens of camera images and text, and the model writes
# 100 tokens. Is it 5,050 against 100?
#
# Two things must be counted with care.
#
# - The **prompt** has $p$ tokens. Its rows are read in the first step, and they give the first new token.
# - The **last** token that is written is never read: after it nothing is to be written.
#
# **Your task:** write `rows_read`: the rows through one key projection in one layer, both ways.
#
# <details><summary>Hint 1: the idea</summary>
#
# Write down the first three steps. Step 0 reads the prompt. What does step 1 read without a cache, and what
# with one?
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# There are as many steps as tokens to be written. Without a cache they read $p$, $p + 1$, $p + 2$, … rows;
# with one they read $p$, $1$, $1$, … rows.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# again  = sum of (prompt + step) for step from 0 to generated - 1
# cached = prompt + (generated - 1)
# ```
#
# </details>


# %% nbgrader={"grade_id": "rows", "solution": true}
def rows_read(prompt: int, generated: int) -> tuple[int, int]:
    """Rows through one key projection while `generated` tokens are written after `prompt` tokens.

    prompt, generated: whole numbers, at least 1.
    Returns (again, cached): the rows when each step reads everything again, and those with a cache.
    """
    ### BEGIN SOLUTION
    again = sum(prompt + step for step in range(generated))
    return again, prompt + generated - 1
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-rows", "grade": true, "points": 0.5}
### Test: three tokens after a prompt of four (0.5 points)
### Hint: Without a cache the steps read 4, 5 and 6 rows. With one they read 4, 1 and 1.
again, cached = check.parts("rows_read(4, 3)", rows_read(4, 3), ("again", "cached"))
check.array("again", again, 15)
check.array("cached", cached, 6)

"rows_read: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-rows-hidden", "grade": true, "points": 0.5}
# When your notebook is graded, this cell tests rows_read on other sizes.
### BEGIN HIDDEN TESTS
### Test: rows are counted for any prompt and any number of tokens (0.5 points)
### Hint: Count the rows of each step by hand for a short prompt. Is the last token ever read?
### Belief: prompt-of-one
for low in (2, 5, 40):
    prompt, generated = (int(number) for number in check.rng(f"rows {low}").integers(low, low + 9, size=2))
    again, cached = check.parts("rows_read", rows_read(prompt, generated), ("again", "cached"))
    check.array("again", again, generated * prompt + generated * (generated - 1) // 2)
    check.array("cached", cached, prompt + generated - 1)
### END HIDDEN TESTS

# %% [markdown]
# Look at your numbers for the tutorial's case and for the car.

# %% nbgrader={"grade_id": "watch-rows", "locked": true}
row_cases = ((1, 100), (3000, 100))
for some_prompt, some_generated in row_cases:
    rows_again, rows_cached = rows_read(some_prompt, some_generated)
    print(
        f"prompt {some_prompt:5,}, {some_generated} tokens written: {rows_again:8,} rows again and again, "
        f"{rows_cached:6,} with a cache, {rows_again / rows_cached:.0f} times fewer"
    )

# %% [markdown]
# So the tutorial's formula is for a prompt of one token. With a long prompt almost all of the saved work is
# in the prompt. What the cache does **not** save: the newest query is still compared with *all* keys. A step
# with a cache is not constant work. It grows with the length, but only in a line.

# %% [markdown]
# ## 2. Slots
#
# A good cache is made once, with room for more tokens than there are yet. For one layer it is three arrays.
#
# | array | shape | meaning |
# |---|---|---|
# | `keys` | `(batch, head, slot, head_dim)` | the keys |
# | `values` | the same | the values |
# | `lengths` | `(batch,)` | how many slots of each row are filled |
#
# The heads are the *key-value* heads; there may be fewer of them than query heads. The rows have different
# lengths, since prompts do. **A slot at or behind a row's length is empty, whatever numbers stand in it.**
#
# **Your task:** write `append`. It writes new keys and values behind what each row holds, *into the arrays
# that it is given*. It does not move `lengths`: all layers share them, and they move when all are done. If
# there is no room, it raises a `ValueError`. To drop tokens without a word would be worse.
#
# <details><summary>Hint 1: the idea</summary>
#
# Row $b$ has `lengths[b]` filled slots: 0 to `lengths[b] - 1`. Where does its first new key go? Take the
# rows one by one.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `k[b]` is `(head, n, head_dim)`. `keys[b]` is `(head, slot, head_dim)`, and a slice of $n$ slots of it has
# the shape of `k[b]`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# n = number of new tokens (axis 2 of k)
# if the longest row + n is more than the slots: raise ValueError
# for each row b, with its length:
#     keys[b, all heads, length to length + n]  =  k[b]
#     the same for the values
# ```
#
# </details>


# %% nbgrader={"grade_id": "append", "solution": true}
def append(keys: np.ndarray, values: np.ndarray, lengths: np.ndarray, k: np.ndarray, v: np.ndarray) -> None:
    """Write k and v behind what each row holds, in place; `lengths` stay as they are.

    keys, values: (batch, head, slot, head_dim), the cache of one layer.
    lengths: (batch,), how many slots of each row are filled.
    k, v: (batch, head, n, head_dim), keys and values of n new tokens.
    Raises ValueError when a row has no room for n more.
    """
    ### BEGIN SOLUTION
    n, slots = k.shape[2], keys.shape[2]
    if lengths.max() + n > slots:
        raise ValueError(f"The cache has {slots} slots; {lengths.max()} are filled and {n} more do not fit.")
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = k[b]
        values[b, :, length : length + n] = v[b]
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-append", "grade": true, "points": 1}
SLOTS = ("batch", "head", "slot", "feature")

### Test: two rows, of which one holds two tokens and the other one (0.5 points)
### Hint: Row 0 holds slots 0 and 1, so its new token goes to slot 2. In row 1 it goes to slot 1.
keys, values = np.zeros((2, 1, 4, 1)), np.zeros((2, 1, 4, 1))
keys[0, 0, :2], keys[1, 0, :1] = 1, 1
append(keys, values, np.array([2, 1]), np.array([5.0, 6]).reshape(2, 1, 1, 1), np.full((2, 1, 1, 1), 7.0))
check.array("keys", keys[:, 0, :, 0], [[1, 1, 5, 0], [1, 6, 0, 0]], axes=("batch", "slot"))
check.array("values", values[:, 0, :, 0], [[0, 0, 7, 0], [0, 7, 0, 0]], axes=("batch", "slot"))

### Test: a full cache says so (0.5 points)
### Hint: One row has three of four slots filled. Two more tokens do not fit: raise ValueError.
full = np.zeros((2, 1, 4, 1))
check.raises(
    ValueError, append, full, full + 1, np.array([0, 3]), np.ones((2, 1, 2, 1)), np.ones((2, 1, 2, 1))
)

"append: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-append-hidden", "grade": true, "points": 1.5}
# When your notebook is graded, this cell tests append: more rows, heads and new tokens.
### BEGIN HIDDEN TESTS
SLOTS = ("batch", "head", "slot", "feature")


def filled(label, lengths, n, heads=2, slots=11, width=5):
    """A cache with numbers in every slot, new keys and values, and both as they must be afterwards."""
    rng = check.rng(label)
    keys, values = rng.normal(size=(2, len(lengths), heads, slots, width))
    k, v = rng.normal(size=(2, len(lengths), heads, n, width))
    wanted_keys, wanted_values = keys.copy(), values.copy()
    for b, length in enumerate(lengths):
        for i in range(n):
            wanted_keys[b, :, length + i], wanted_values[b, :, length + i] = k[b, :, i], v[b, :, i]
    return keys, values, k, v, wanted_keys, wanted_values


### Test: new tokens go behind what each row holds (0.5 points)
### Hint: Every row has a length of its own, and there may be several new tokens.
### Belief: append-behind-the-longest
keys, values, k, v, wanted_keys, wanted_values = filled("ragged", [4, 1, 6], 3)
append(keys, values, np.array([4, 1, 6]), k, v)
check.array("keys", keys, wanted_keys, axes=SLOTS)
check.array("values", values, wanted_values, axes=SLOTS)

### Test: two layers write at the same place, for the lengths do not move (0.5 points)
### Hint: append writes, and no more. The lengths move when all layers have written.
### Belief: append-moves-the-lengths
lengths = np.array([2, 5])
for layer in ("first layer", "second layer"):
    keys, values, k, v, wanted_keys, wanted_values = filled(layer, [2, 5], 2, heads=3)
    append(keys, values, lengths, k, v)
    check.array("keys", keys, wanted_keys, axes=SLOTS)
    check.array("values", values, wanted_values, axes=SLOTS)
check.array("lengths", lengths, [2, 5], axes=("batch",))

### Test: the last slot may be used, and one more is an error (0.5 points)
### Hint: Compare the longest row and the new tokens with the number of slots. Equal is still allowed.
### Belief: append-drops-what-is-too-much
keys, values, k, v, wanted_keys, wanted_values = filled("last slot", [3, 8, 1], 3)
append(keys, values, np.array([3, 8, 1]), k, v)
check.array("keys", keys, wanted_keys, axes=SLOTS)
check.array("values", values, wanted_values, axes=SLOTS)
refusal = check.raises(ValueError, append, keys, values, np.array([3, 9, 1]), k, v)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. A layer that reads a cache
#
# Here is a layer of attention **without** a cache: heads, rotary positions, a causal mask. It is what your
# layer must agree with. `F.rotary` turns queries and keys by their positions, as in the unit *order*.
# `F.attention` is the library's version of what you wrote in the unit *attention*; a key-value head serves
# several query heads. Both return tensors, and `.numpy()` makes arrays of them.


# %% nbgrader={"grade_id": "demo-full-layer", "locked": true}
def full_attention(tokens, w, head_dim):
    """All tokens at once: (batch, n, d) -> (batch, n, d)."""
    rows, n_tokens, _ = tokens.shape

    def split(numbers):
        return numbers.reshape(rows, n_tokens, -1, head_dim).transpose(0, 2, 1, 3)  # (row, head, token, ...)

    positions = np.arange(n_tokens)
    queries = F.rotary(split(tokens @ w["q"]), positions).numpy()
    turned_keys = F.rotary(split(tokens @ w["k"]), positions).numpy()
    past = positions[None, :] <= positions[:, None]  # (query, key)
    mixed = F.attention(queries, turned_keys, split(tokens @ w["v"]), mask=past).numpy()
    side_by_side = mixed.transpose(0, 2, 1, 3).reshape(rows, n_tokens, -1)
    return side_by_side @ w["o"]


# %% [markdown]
# With a cache, `x` holds only the $n$ **new** tokens. Four things change.
#
# 1. **Positions.** The new tokens of row $b$ stand at `lengths[b]`, `lengths[b] + 1`, and so on. They do not
#    start at 0.
# 2. **Writing.** The new keys, *already turned*, and the new values go into the cache. A key is turned once,
#    for its position never changes.
# 3. **Reading.** The queries are the new ones. The keys and values are all that the cache holds.
# 4. **The mask.** A query at place $t$ may read the slots $0$ to $t$. This one rule hides the future *and*
#    the empty slots.
#
# One function does three jobs: with empty rows and many tokens it is **prefill**, with one token it is a
# **decode step**, and with a few it reads a **chunk**.
#
# **Your task:** write `cached_attention`. Use your `append`.
#
# <details><summary>Hint 1: the idea</summary>
#
# Start from `full_attention`. Then go through the four points. Make the places first: the positions and
# the mask both need them.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `lengths` is `(batch,)`, so the places are `(batch, n)`; `F.rotary` takes them in this shape. The mask is
# `(batch, 1, n, slot)`. Slots `(slot,)` are compared with places as `(batch, 1, n, 1)`. `head_dim` is the
# last axis of `keys`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# places = lengths as a column + (0 ... n-1)
# q, k   = heads of x W_q and x W_k, turned by places
# append k and the heads of x W_v to the cache
# may    = slot number <= place of the query
# output = attention of q to all keys and values of the cache, with the mask may
# answer = heads side by side again, times W_o
# ```
#
# </details>


# %% nbgrader={"grade_id": "layer", "solution": true}
def cached_attention(
    x: np.ndarray, keys: np.ndarray, values: np.ndarray, lengths: np.ndarray, w: dict
) -> np.ndarray:
    """Attention of n new tokens to what the cache holds and to each other, from left to right.

    x: (batch, n, d), the new tokens; row b's stand at the places lengths[b], lengths[b] + 1, ...
    keys, values: (batch, kv_head, slot, head_dim), written in place. Keys are kept turned.
    lengths: (batch,), filled slots before this call; stays as it is.
    w: matrices "q" (d, head * head_dim), "k" and "v" (d, kv_head * head_dim), "o" (head * head_dim, d).
    Returns (batch, n, d).
    """
    ### BEGIN SOLUTION
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)  # (batch, n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    append(keys, values, lengths, k, heads(x @ w["v"]))
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]  # (batch, 1, n, slot)
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-layer", "grade": true, "points": 1}
# With queries and keys of 0 every score is 0: a query gets the plain mean of the values that it may read.
mean_layer = {"q": np.zeros((2, 2)), "k": np.zeros((2, 2)), "v": np.eye(2), "o": np.eye(2)}

### Test: one new token reads the two that are cached, and itself (0.5 points)
### Hint: The cached values are [3, 0] and [0, 3], the new token is [6, 6]. What is the mean of the three?
keys, values = np.zeros((1, 1, 5, 2)), np.full((1, 1, 5, 2), 100.0)
values[0, 0, :2] = [[3, 0], [0, 3]]
output = cached_attention(np.array([[[6.0, 6.0]]]), keys, values, np.array([2]), mean_layer)
check.array("output", output, [[[3, 3]]], axes=("batch", "token", "feature"))
check.array("values in slot 2", values[0, 0, 2], [6, 6], axes=("feature",))

### Test: of two new tokens the first does not see the second (0.5 points)
### Hint: The first one stands at place 1 and reads slots 0 and 1. The second one reads slots 0 to 2.
keys, values = np.zeros((1, 1, 4, 2)), np.full((1, 1, 4, 2), 100.0)
values[0, 0, 0] = [0, 0]
output = cached_attention(np.array([[[4.0, 0.0], [2.0, 9.0]]]), keys, values, np.array([1]), mean_layer)
check.array("output", output, [[[2, 0], [2, 3]]], axes=("batch", "token", "feature"))

"cached_attention: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-layer-hidden", "grade": true, "points": 3.5}
# When your notebook is graded, this cell compares cached_attention with a pass over all tokens at once.
### BEGIN HIDDEN TESTS
TOKENS = ("batch", "token", "feature")
SLOTS = ("batch", "head", "slot", "feature")


def layer_alone(x, w, head_dim):
    """One sentence (n, d) at once, in plain NumPy: its output, keys and values (kv_head, n, head_dim)."""
    n, half = len(x), head_dim // 2
    angle = np.arange(n)[:, None] * 10000.0 ** (-np.arange(half) / half)

    def split(y):
        return y.reshape(n, -1, head_dim).transpose(1, 0, 2)

    def turned(y):
        a, b = y[..., :half], y[..., half:]
        return np.concatenate(
            [a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1
        )

    q, k, v = turned(split(x @ w["q"])), turned(split(x @ w["k"])), split(x @ w["v"])
    group = len(q) // len(k)
    scores = np.einsum("hid,hjd->hij", q, np.repeat(k, group, axis=0)) / np.sqrt(head_dim)
    scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    mixed = np.einsum("hij,hjd->ihd", weights, np.repeat(v, group, axis=0))
    return mixed.reshape(n, -1) @ w["o"], k, v


def a_case(label, lengths, n, heads=4, kv_heads=2, head_dim=6, width=10, slots=13, sharp=1.0):
    """A cache that holds `lengths` tokens and rubbish behind them, n new tokens, and the right answers."""
    rng = check.rng(label)
    sizes = {"q": (width, heads * head_dim), "k": (width, kv_heads * head_dim)}
    sizes.update(v=sizes["k"], o=(heads * head_dim, width))
    w = {name: rng.normal(size=size) / np.sqrt(size[0]) for name, size in sizes.items()}
    w["q"] *= sharp
    keys, values = 3 * rng.normal(size=(2, len(lengths), kv_heads, slots, head_dim))
    wanted_keys, wanted_values, wanted = keys.copy(), values.copy(), []
    news = []
    for b, length in enumerate(lengths):
        sentence = 2 * rng.normal(size=(length + n, width))
        output, k, v = layer_alone(sentence, w, head_dim)
        wanted_keys[b, :, : length + n], wanted_values[b, :, : length + n] = k, v
        keys[b, :, :length], values[b, :, :length] = k[:, :length], v[:, :length]
        wanted.append(output[length:])
        news.append(sentence[length:])
    return np.stack(news), keys, values, w, np.stack(wanted), wanted_keys, wanted_values


def compare(label, lengths, n, **sizes):
    """The student's output, and what the cache then holds, against the pass over everything."""
    x, keys, values, w, wanted, wanted_keys, wanted_values = a_case(label, lengths, n, **sizes)
    held = np.array(lengths)
    check.array("output", cached_attention(x, keys, values, held, w), wanted, axes=TOKENS)
    check.array("keys in the cache", keys, wanted_keys, axes=SLOTS)
    check.array("values in the cache", values, wanted_values, axes=SLOTS)
    check.array("lengths", held, lengths, axes=("batch",))


### Test: a prompt into an empty cache (0.5 points)
### Hint: All lengths are 0. The answer is that of the layer without a cache.
### Belief: chunk-sees-itself-whole
compare("prefill", [0, 0, 0], 5)

### Test: one step equals the last row of the pass over everything (0.5 points)
### Hint: At which position does the new token stand? It is not 0.
### Belief: positions-restart
compare("step", [5, 5], 1)

### Test: the values that come out do not depend on rubbish in empty slots (0.5 points)
### Hint: A slot behind the newest token is empty, whatever stands in it. Does your mask hide it?
### Belief: empty-slots-seen
compare("rubbish", [3, 3, 3], 1, slots=17)

### Test: a chunk of several tokens in the middle (0.5 points)
### Hint: Each query of the chunk has its own last slot. Draw the mask for 2 cached tokens and 3 new ones.
### Belief: top-left-with-a-cache
compare("chunk", [4, 4], 3)

### Test: rows of different lengths (1 point)
### Hint: Positions and mask come from each row's own length.
### Belief: longest-row-for-all
compare("ragged step", [7, 2, 4], 1)
compare("ragged chunk", [1, 6, 3], 3, heads=6, kv_heads=3, head_dim=4)

### Test: six query heads share two key-value heads (0.25 points)
### Hint: F.attention knows what to do with fewer key-value heads. Are the heads side by side at the end?
### Belief: heads-not-brought-back
compare("groups", [2, 5], 2, heads=6, kv_heads=2, head_dim=8, width=7)

### Test: scores in the thousands (0.25 points)
### Hint: exp of a large number overflows. Take the largest score that a query may see away first.
### Belief: no-largest-score-taken-away
compare("large scores", [3, 1, 4], 2, sharp=1500.0)
### END HIDDEN TESTS

# %% [markdown]
# Reading in pieces is **not** an approximation. Cut ten tokens into pieces, in any way, and compare.

# %% nbgrader={"grade_id": "watch-pieces", "locked": true}


def random_layer(maker, width, heads, kv_heads, head_dim):
    sizes = {"q": (width, heads * head_dim), "k": (width, kv_heads * head_dim)}
    sizes.update(v=sizes["k"], o=(heads * head_dim, width))
    return {name: maker.normal(size=size) / np.sqrt(size[0]) for name, size in sizes.items()}


piece_maker = np.random.default_rng(3)
piece_layer, ten_tokens = random_layer(piece_maker, 16, 4, 2, 8), piece_maker.normal(size=(1, 10, 16))
at_once = full_attention(ten_tokens, piece_layer, 8)
piece_gaps = {}
for pieces in ([10], [9, 1], [1] * 10, [4, 3, 3]):
    piece_keys, piece_values, piece_start, parts_out = *np.zeros((2, 1, 2, 12, 8)), 0, []
    for piece in pieces:
        new_ones = ten_tokens[:, piece_start : piece_start + piece]
        parts_out.append(
            cached_attention(new_ones, piece_keys, piece_values, np.array([piece_start]), piece_layer)
        )
        piece_start += piece
    piece_gaps[str(pieces)] = np.abs(np.concatenate(parts_out, axis=1) - at_once).max()
    print(f"pieces {pieces!s:32s} largest difference {piece_gaps[str(pieces)]:.1e}")

# %% [markdown]
# What is left is rounding. And here are three masks for a chunk: three new tokens, four in the cache, two
# empty slots. With one new token the middle one is right, too. So **a test that decodes one token at a time
# cannot see that bug.** The third is the tutorial's, from the unit *causal*.

# %% nbgrader={"grade_id": "watch-masks", "locked": true}
chunk_places, chunk_slots = 4 + np.arange(3)[:, None], np.arange(9)[None, :]
chunk_masks = [
    chunk_slots <= chunk_places,
    np.broadcast_to(chunk_slots < 7, (3, 9)),
    chunk_slots <= np.arange(3)[:, None],
]
figure = figures.masks_side_by_side(
    chunk_masks, ["right", "no mask\ninside the chunk", "corners laid\ntop left"]
)

# %% [markdown]
# ## 4. All layers, then the lengths
#
# A model has many layers, and each has its own keys and values. The cache of the whole model is
#
# - `keys` and `values` with one more axis in front: `(layer, batch, kv_head, slot, head_dim)`;
# - one array `lengths` for all layers. A token is in all of them or in none.
#
# So the lengths move **once**, at the very end. If a layer fails on the way, the cache is as it was: what
# was written stands in empty slots.
#
# Prompts of a batch differ in length. Short ones are filled up with padding **at the end**. `new[b]` says how
# many of row $b$'s tokens are real. Padding is written into slots too, but the length does not count it.
# The next token writes over it.
#
# **Your task:** write `extend`. Each layer here is attention with a residual connection and nothing else:
# $x \leftarrow x + \mathrm{attention}(x)$.
#
# <details><summary>Hint 1: the idea</summary>
#
# Go through the layers with a loop. The output of one is the input of the next. After the loop, move the
# lengths.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `keys[0]` is the cache of layer 0, a *view*: what is written into it is written into `keys`. `lengths` and
# `new` are both `(batch,)`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# for each number and layer:
#     x = x + cached_attention of x with the keys and values of that number
# add new to lengths in place      (with +=, for "lengths = lengths + new" would make another array)
# return x
# ```
#
# </details>


# %% nbgrader={"grade_id": "extend", "solution": true}
def extend(
    x: np.ndarray, keys: np.ndarray, values: np.ndarray, lengths: np.ndarray, layers: list, new: np.ndarray
) -> np.ndarray:
    """Take n new tokens of each row through all layers, and count those that are real.

    x: (batch, n, d), padded at the end.
    keys, values: (layer, batch, kv_head, slot, head_dim) and lengths: (batch,), changed in place.
    layers: the matrices of each layer, for `cached_attention`.
    new: (batch,), how many of each row's n tokens are real.
    Returns the last layer's output (batch, n, d).
    """
    ### BEGIN SOLUTION
    for number, w in enumerate(layers):
        x = x + cached_attention(x, keys[number], values[number], lengths, w)
    lengths += new
    return x
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-extend", "grade": true, "points": 0.5}
### Test: two tokens, one after the other, through two layers (0.5 points)
### Hint: Every layer adds the mean of what the token may read. Token [1, 0] alone: doubled by each layer.
mean_layer = {"q": np.zeros((2, 2)), "k": np.zeros((2, 2)), "v": np.eye(2), "o": np.eye(2)}
keys, values, lengths = *np.zeros((2, 2, 1, 1, 4, 2)), np.array([0])
first = extend(np.array([[[1.0, 0]]]), keys, values, lengths, [mean_layer] * 2, np.array([1]))
check.array("first token", first, [[[4, 0]]], axes=("batch", "token", "feature"))
check.array("lengths", lengths, [1], axes=("batch",))
second = extend(np.array([[[0, 2.0]]]), keys, values, lengths, [mean_layer] * 2, np.array([1]))
check.array("second token", second, [[[1.75, 4.5]]], axes=("batch", "token", "feature"))
check.array("lengths", lengths, [2], axes=("batch",))

"extend: all checks in this cell pass."

# %% [markdown]
# Now let it write. The model below has a table with one vector for each token, some layers, and a matrix
# `head` that turns the last hidden vector into one number for each token of the vocabulary. The token with
# the largest number is written: **greedy** decoding.
#
# **Your task:** write `generate`.
#
# - **Prefill:** read all prompts in one call. The next token follows from each row's last *real* token.
# - **Decode:** read the token just written, and only that. It gives the next one.
# - The last token is returned but not read.
#
# <details><summary>Hint 1: the idea</summary>
#
# For $s$ new tokens there are $s$ calls of `extend`: one for the prompt and $s - 1$ for single tokens.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `model["table"][prompt]` is `(batch, p, d)`. A single token of each row is `(batch,)`, and `extend` wants
# `(batch, 1, d)`. Row $b$'s last real token stands in the output at `[b, real[b] - 1]`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# hidden = extend with the prompts, of which real are real
# last   = each row's hidden vector at real - 1            (batch, d)
# repeat for every step:
#     token = position of the largest number in last @ head
#     keep token
#     unless it was the last step: last = extend with this one token, without the axis of length 1
# answer = the kept tokens side by side                    (batch, steps)
# ```
#
# </details>


# %% nbgrader={"grade_id": "generate", "solution": true}
def generate(
    prompt: np.ndarray,
    real: np.ndarray,
    steps: int,
    model: dict,
    keys: np.ndarray,
    values: np.ndarray,
    lengths: np.ndarray,
) -> np.ndarray:
    """Read the prompts, then write `steps` tokens after each, always the most likely one.

    prompt: token ids (batch, p), padded at the end; real: (batch,), how many of each row are real.
    model: "table" (vocabulary, d), "layers" for `extend`, "head" (d, vocabulary).
    keys, values, lengths: the cache, changed in place; it may hold tokens already.
    Returns token ids (batch, steps). The last ones are written, but not in the cache.
    """
    ### BEGIN SOLUTION
    hidden = extend(model["table"][prompt], keys, values, lengths, model["layers"], real)
    last = hidden[np.arange(len(prompt)), real - 1]
    written = [(last @ model["head"]).argmax(axis=-1)]
    while len(written) < steps:
        x = model["table"][written[-1]][:, None]
        hidden = extend(x, keys, values, lengths, model["layers"], np.ones_like(real))
        written.append((hidden[:, 0] @ model["head"]).argmax(axis=-1))
    return np.stack(written, axis=1)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-generate", "grade": true, "points": 0.5}
### Test: a model without layers that counts up (0.5 points)
### Hint: After token 3 it writes 4, then 5. Row 1 has one real token, the 1; what follows it is padding.
counting = {"table": np.eye(9), "layers": [], "head": np.roll(np.eye(9), 1, axis=1)}
keys, values, lengths = *np.zeros((2, 0, 2, 1, 8, 2)), np.array([0, 0])
tokens = generate(np.array([[2, 3], [1, 0]]), np.array([2, 1]), 3, counting, keys, values, lengths)
check.array("tokens", tokens, [[4, 5, 6], [2, 3, 4]], axes=("batch", "step"))
check.array("lengths", lengths, [4, 3], axes=("batch",))

"generate: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-model-hidden", "grade": true, "points": 4}
# When your notebook is graded, this cell tests extend and generate against passes over everything.
### BEGIN HIDDEN TESTS
TOKENS = ("batch", "token", "feature")
WHOLE = ("layer", "batch", "head", "slot", "feature")
LAYERS, KV_HEADS, HEAD_DIM, WIDTH, SLOTS_IN_ALL, VOCABULARY = 3, 2, 6, 10, 16, 23


def model_for(label):
    """A random model whose layers matter: what they add is as large as what they are given."""
    rng = check.rng(label)
    sizes = {"q": (WIDTH, 24), "k": (WIDTH, 12), "v": (WIDTH, 12), "o": (24, WIDTH)}
    layers = [
        {name: rng.normal(size=size) / np.sqrt(size[0]) for name, size in sizes.items()}
        for _ in range(LAYERS)
    ]
    return {
        "table": 2 * rng.normal(size=(VOCABULARY, WIDTH)),
        "layers": layers,
        "head": rng.normal(size=(WIDTH, VOCABULARY)),
    }


def empty(label, batch, layers=LAYERS):
    """Keys and values full of rubbish."""
    return 3 * check.rng(label).normal(size=(2, layers, batch, KV_HEADS, SLOTS_IN_ALL, HEAD_DIM))


def whole_pass(x, layers):
    """One sentence (n, d) through all layers at once, in plain NumPy; also each layer's keys and values."""
    n, half = len(x), HEAD_DIM // 2
    angle = np.arange(n)[:, None] * 10000.0 ** (-np.arange(half) / half)

    def split(y):
        return y.reshape(n, -1, HEAD_DIM).transpose(1, 0, 2)

    def turned(y):
        a, b = y[..., :half], y[..., half:]
        return np.concatenate(
            [a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1
        )

    kept = []
    for w in layers:
        q, k, v = turned(split(x @ w["q"])), turned(split(x @ w["k"])), split(x @ w["v"])
        group = len(q) // len(k)
        scores = np.einsum("hid,hjd->hij", q, np.repeat(k, group, axis=0)) / np.sqrt(HEAD_DIM)
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + np.einsum("hij,hjd->ihd", weights, np.repeat(v, group, axis=0)).reshape(n, -1) @ w["o"]
        kept.append((k, v))
    return x, np.array([k for k, _ in kept]), np.array([v for _, v in kept])


def written_alone(ids, steps, model):
    """What a model without a cache writes after one row of real tokens."""
    ids, start = [int(token) for token in ids], len(ids)
    for _ in range(steps):
        hidden, _, _ = whole_pass(model["table"][ids], model["layers"])
        ids.append(int((hidden[-1] @ model["head"]).argmax()))
    return ids[start:]


### Test: prefill, then single tokens, equal the pass over everything in every layer (1 point)
### Hint: Each layer has its own part of the cache, and reads the output of the layer before.
### Belief: one-cache-for-all-layers
model = model_for("prefill and decode")
x = check.rng("sentence").normal(size=(2, 8, WIDTH))
keys, values = empty("rubbish", 2)
lengths = np.zeros(2, dtype=int)
for start, end in ((0, 5), (5, 6), (6, 8)):
    got = extend(x[:, start:end].copy(), keys, values, lengths, model["layers"], np.full(2, end - start))
    wanted = np.stack([whole_pass(row[:end], model["layers"])[0][start:end] for row in x])
    check.array("output", got, wanted, axes=TOKENS)
for b in range(2):
    _, wanted_keys, wanted_values = whole_pass(x[b], model["layers"])
    check.array("keys in the cache", keys[:, b, :, :8], wanted_keys, axes=WHOLE)
    check.array("values in the cache", values[:, b, :, :8], wanted_values, axes=WHOLE)

### Test: the lengths move once, by the real tokens of each row (1 point)
### Hint: All layers write at the same place. Afterwards the lengths grow by new, in the caller's array.
### Belief: lengths-move-in-every-layer
model = model_for("ragged prompts")
x = check.rng("ragged sentences").normal(size=(3, 6, WIDTH))
counts = [3, 1, 2]  # the array is one wider than the longest row
keys, values = empty("more rubbish", 3)
lengths = np.zeros(3, dtype=int)
got = extend(x[:, :4].copy(), keys, values, lengths, model["layers"], np.array(counts))
check.array("lengths", lengths, counts, axes=("batch",))
for b, count in enumerate(counts):
    wanted = whole_pass(x[b, :count], model["layers"])[0]
    check.array("real tokens of a padded prompt", np.asarray(got)[b, :count], wanted, axes=TOKENS)
got = extend(x[:, 4:].copy(), keys, values, lengths, model["layers"], np.full(3, 2))
check.array("lengths", lengths, [5, 3, 4], axes=("batch",))
for b, count in enumerate(counts):
    wanted = whole_pass(np.concatenate([x[b, :count], x[b, 4:]]), model["layers"])[0][count:]
    check.array("the tokens after a padded prompt", np.asarray(got)[b], wanted, axes=TOKENS)

### Test: prompts of different lengths are continued as if each were alone (1 point)
### Hint: Which output belongs to a row's last real token? And what is read in the next step?
### Belief: reads-the-last-column
model = model_for("writer")
counts = [5, 2, 4, 1, 3]
prompt = check.rng("prompts").integers(1, VOCABULARY, size=(5, 6))
prompt[np.arange(6) >= np.array(counts)[:, None]] = 0
keys, values = empty("writer's rubbish", 5)
tokens = generate(prompt.copy(), np.array(counts), 6, model, keys, values, np.zeros(5, dtype=int))
wanted = [written_alone(row[:count], 6, model) for row, count in zip(prompt, counts, strict=True)]
check.array("tokens", tokens, wanted, axes=("batch", "step"))

### Test: the last token that is written is not in the cache (0.5 points)
### Hint: A token enters the cache when it is read. Is there a reason to read the last one?
### Belief: last-token-read
lengths = np.array([0, 0])
keys, values = empty("counting rubbish", 2)
prompt = check.rng("short prompts").integers(0, VOCABULARY, size=(2, 4))
tokens = generate(prompt.copy(), np.array([4, 3]), 5, model_for("counted"), keys, values, lengths)
check.array("the shape of tokens", np.array(np.shape(tokens)), [2, 5], axes=("axis",))
check.array("lengths", lengths, [8, 7], axes=("batch",))

### Test: a second turn goes on with the cache that is there (0.5 points)
### Hint: The cache may hold tokens already when generate is called. Nothing may be set back.
### Belief: every-turn-starts-empty
model = model_for("two turns")
first, second = check.rng("turns").integers(0, VOCABULARY, size=(2, 2, 3))
keys, values = empty("rubbish of two turns", 2)
lengths = np.zeros(2, dtype=int)
one = np.asarray(generate(first.copy(), np.array([3, 2]), 3, model, keys, values, lengths)).reshape(2, 3)
two = generate(second.copy(), np.array([2, 3]), 4, model, keys, values, lengths)
wanted = []
for b, (before, now) in enumerate(((3, 2), (2, 3))):
    turn = written_alone(first[b, :before], 3, model)
    heard = [*first[b, :before], *turn[:-1], *second[b, :now]]
    wanted.append(turn + written_alone(heard, 4, model))
check.array("tokens", np.concatenate([one, np.asarray(two).reshape(2, 4)], 1), wanted, axes=("batch", "step"))
### END HIDDEN TESTS

# %% [markdown]
# Call `generate` again with the same cache, and it goes on after what it has read: a second turn. But the
# last token of the first turn was never read, so the second turn does not know of it.
#
# In Alpamayo-R1 this matters. The action expert is to read a cache that ends with the token
# `<|traj_future_start|>`. So the model is made to write **one token more** than it needs. Only then is
# `<|traj_future_start|>` itself in the cache.

# %% [markdown]
# ## 5. Crop and fork
#
# **Crop.** Sometimes tokens must leave the cache again: a draft was rejected, or an action expert wrote its
# own keys behind the prompt to read them. Empty is what lies behind the length. So nothing needs to be
# erased. Rows that are shorter than the limit stay as they are.
#
# **Fork.** One prompt, several continuations: copy its row of the cache instead of reading the prompt again.
# `rows` says which old row each new row copies: `[0, 0, 2]` makes three rows out of rows 0, 0 and 2.
#
# **Your task:** write `crop` and `fork`. Both return new arrays and leave the old ones alone.
#
# <details><summary>Hint 1: the idea</summary>
#
# Crop: a length can only become smaller. Fork: index the axis of the batch with the list `rows`.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `keys` and `values` have the axes (layer, batch, kv_head, slot, head_dim): the batch is axis 1. In `lengths`
# it is axis 0.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# crop: the smaller one of length and limit, for each row
# fork: keys[all layers, rows], the same for values, and lengths[rows]
# ```
#
# </details>


# %% nbgrader={"grade_id": "crop", "solution": true}
def crop(lengths: np.ndarray, limit: int) -> np.ndarray:
    """The lengths (batch,) when every row keeps at most its first `limit` tokens."""
    ### BEGIN SOLUTION
    return np.minimum(lengths, limit)
    ### END SOLUTION


# %% nbgrader={"grade_id": "fork", "solution": true}
def fork(
    keys: np.ndarray, values: np.ndarray, lengths: np.ndarray, rows: list[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A cache of its own whose row i is a copy of row rows[i].

    keys, values: (layer, batch, kv_head, slot, head_dim); lengths: (batch,).
    Returns keys, values and lengths with len(rows) in place of batch.
    """
    ### BEGIN SOLUTION
    return keys[:, rows], values[:, rows], lengths[rows]
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-fork", "grade": true, "points": 0.5}
### Test: rows of 5, 2 and 3 tokens, cut at 3 and then copied (0.5 points)
### Hint: Row 1 has 2 tokens and keeps them. Then rows 2 and 0 are copied, in this order.
shorter = crop(np.array([5, 2, 3]), 3)
check.array("lengths after crop", shorter, [3, 2, 3], axes=("batch",))
numbers = np.arange(6.0).reshape(2, 3, 1, 1, 1)
new_keys, new_values, new_lengths = check.parts(
    "fork", fork(numbers, numbers + 10, np.array([5, 2, 3]), [2, 0]), ("keys", "values", "lengths")
)
check.array(
    "keys", new_keys, [[[[[2]]], [[[0]]]], [[[[5]]], [[[3]]]]], axes=("layer", "batch", "h", "s", "d")
)
check.array("lengths", new_lengths, [3, 5], axes=("batch",))

"crop and fork: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-fork-hidden", "grade": true, "points": 1.5}
# When your notebook is graded, this cell tests crop and fork on other sizes.
### BEGIN HIDDEN TESTS
WHOLE = ("layer", "batch", "head", "slot", "feature")

### Test: no row becomes longer by being cropped (0.5 points)
### Hint: A row that is shorter than the limit has nothing to give away.
### Belief: crop-sets-all-rows
lengths = check.rng("crop").permutation([1, 4, 7, 9, 12])
for limit in (6, 3, 20):
    cut = crop(lengths.copy(), limit)
    check.array("lengths", cut, [min(int(length), limit) for length in lengths], axes=("batch",))
check.array("lengths", crop(np.array([2, 5, 4]), 0), [0, 0, 0], axes=("batch",))

### Test: new rows are copies of the rows asked for, in their order (0.5 points)
### Hint: A row may be asked for twice, or not at all. The batch is axis 1.
### Belief: fork-along-the-layers
keys, values = check.rng("fork").normal(size=(2, 5, 4, 3, 6, 2))
lengths, rows = np.array([6, 1, 4, 3]), [3, 1, 1, 0, 3]
forked = fork(keys.copy(), values.copy(), lengths.copy(), list(rows))
new_keys, new_values, _ = check.parts("fork", forked, ("keys", "values", "lengths"))
check.array("keys", new_keys, np.stack([keys[:, row] for row in rows], axis=1), axes=WHOLE)
check.array("values", new_values, np.stack([values[:, row] for row in rows], axis=1), axes=WHOLE)

### Test: the lengths go with their rows (0.5 points)
### Hint: A copied row has as many tokens as the row that it was copied from.
### Belief: fork-keeps-old-lengths
keys, values = check.rng("fork lengths").normal(size=(2, 4, 3, 2, 7, 2))
_, _, new_lengths = check.parts(
    "fork", fork(keys, values, np.array([7, 2, 5]), [2, 2, 1]), ("keys", "values", "lengths")
)
check.array("lengths", new_lengths, [5, 5, 2], axes=("batch",))
### END HIDDEN TESTS

# %% [markdown]
# What happens when someone forgets to crop? Below, a model reads a prompt. Then it looks at one more token
# three times, as an action expert does in its denoising steps, and each look should give the same answer.

# %% nbgrader={"grade_id": "watch-crop", "locked": true}
look_maker = np.random.default_rng(11)
look_layers = [random_layer(look_maker, 16, 4, 2, 8) for _ in range(2)]
look_prompt, look_token = look_maker.normal(size=(1, 5, 16)), look_maker.normal(size=(1, 1, 16))
look_results = {}
for cropped in (True, False):
    look_keys, look_values, look_lengths = *np.zeros((2, 2, 1, 2, 12, 8)), np.array([0])
    extend(look_prompt, look_keys, look_values, look_lengths, look_layers, np.array([5]))
    looks = []
    for _ in range(3):
        looks.append(
            extend(look_token, look_keys, look_values, look_lengths, look_layers, np.array([1]))[0, 0]
        )
        if cropped:
            look_lengths = crop(look_lengths, 5)
    look_results[cropped] = [float(np.abs(look - looks[0]).max()) for look in looks], int(look_lengths[0])
    moved = ", ".join(f"{gap:.2f}" for gap in look_results[cropped][0])
    print(
        f"crop after each look: {cropped!s:5}  moved by {moved}; length at the end {look_results[cropped][1]}"
    )

# %% [markdown]
# The first look is right in both cases. **A test with one step cannot see a forgotten crop.** Test two.

# %% [markdown]
# ## 6. What it costs
#
# A cache saves work and spends memory. For each token, in each layer, it keeps one key and one value for each
# key-value head.
#
# **Your task:** write `cache_bytes`.
#
# <details><summary>Hint 1: the idea</summary>
#
# Count the numbers that are kept, then multiply by the bytes of one number. Queries are not kept.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# Keys are `(layer, batch, kv_head, token, head_dim)`. Values have the same shape.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# numbers = product of all five sizes
# answer  = 2 * numbers * bytes of a number
# ```
#
# </details>


# %% nbgrader={"grade_id": "bytes", "solution": true}
def cache_bytes(
    layers: int, kv_heads: int, head_dim: int, tokens: int, batch: int = 1, bytes_per_number: int = 2
) -> int:
    """The bytes of keys and values of `tokens` tokens in each of `batch` rows, in all layers."""
    ### BEGIN SOLUTION
    return 2 * layers * batch * kv_heads * tokens * head_dim * bytes_per_number
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-bytes", "grade": true, "points": 0.5}
### Test: one token of GPT-2 small, which has 12 layers, 12 heads and head_dim 64 (0.5 points)
### Hint: 12 x 12 x 64 numbers are the keys of one token, and as many its values. Two bytes each: 36 KiB.
check.array("bytes", cache_bytes(12, 12, 64, 1), 36 * 1024)

"cache_bytes: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-bytes-hidden", "grade": true, "points": 0.5}
# When your notebook is graded, this cell tests cache_bytes on other sizes.
### BEGIN HIDDEN TESTS
### Test: layers, heads, tokens, rows and the size of a number all count (0.5 points)
### Hint: Every row of a batch has a cache of its own. How many arrays are kept for each layer?
### Belief: bytes-with-queries
layers, kv_heads, head_dim, tokens, rows = (int(n) for n in check.rng("bytes").permutation([3, 5, 7, 9, 11]))
for wide in (1, 2, 4):
    made = np.zeros((2, layers, rows, kv_heads, tokens, head_dim), dtype=f"i{wide}")
    got = cache_bytes(layers, kv_heads, head_dim, tokens, batch=rows, bytes_per_number=wide)
    check.array("bytes", got, made.nbytes)
check.array(
    "bytes", cache_bytes(layers, kv_heads, head_dim, tokens), 4 * layers * kv_heads * head_dim * tokens
)
### END HIDDEN TESTS

# %% [markdown]
# Real models, at two bytes a number. Llama 2 has a key-value head for every query head; the later models
# let several query heads share one.

# %% nbgrader={"grade_id": "watch-bytes", "locked": true}
real_models = {
    "GPT-2 small": (12, 12, 64),
    "GPT-2 XL": (48, 25, 64),
    "Llama 2 7B": (32, 32, 128),
    "Llama 3 8B": (32, 8, 128),
    "Alpamayo-R1": (36, 8, 128),
    "pi0": (18, 1, 256),
}
print(f"{'model':14s}{'layers x kv heads x head_dim':>30s}{'one token':>12s}{'3,000 tokens':>15s}")
for model_name, model_sizes in real_models.items():
    one_token, many_tokens = cache_bytes(*model_sizes, 1), cache_bytes(*model_sizes, 3000)
    size_text = " x ".join(str(size) for size in model_sizes)
    print(f"{model_name:14s}{size_text:>30s}{one_token / 2**10:8.0f} KiB{many_tokens / 2**20:11.0f} MiB")

# %% [markdown]
# **Spot the bug.** The tutorial says that in Alpamayo-R1 the action expert "attends to the keys and values
# the reasoning produced". Are those the whole cache? Four cameras with four frames each, 180 tokens an image,
# are 2,880 tokens. The test script of that model caps its reasoning at 256. And what does a step read from
# memory: only the cache?

# %% nbgrader={"grade_id": "watch-reading", "locked": true}
image_bytes = cache_bytes(36, 8, 128, 4 * 4 * 180)
reason_bytes = cache_bytes(36, 8, 128, 256)
weight_bytes = 2 * 8_190_735_360  # the language model of Alpamayo-R1, two bytes a weight
print(f"keys and values of the images:    {image_bytes / 2**20:8.0f} MiB")
print(f"keys and values of the reasoning: {reason_bytes / 2**20:8.0f} MiB at most")
print(f"weights, read in every step:      {weight_bytes / 2**20:8.0f} MiB")
print(f"tokens whose cache is as large as the weights: {weight_bytes // cache_bytes(36, 8, 128, 1):,}")

# %% [markdown]
# So the reasoning is the last, small slice of what the expert reads. And with one row the *weights* are most
# of what a step reads. The cache overtakes them with very long inputs, or with many rows: each row has its
# own cache, while all rows share the weights.
#
# **Try this:** how many rows of 3,000 tokens does it take until the caches are larger than the weights?

# %% [markdown]
# ## 7. Your code inside a real model
#
# The real thing has more layers, more heads and trained weights. It needs a cache all the same. In the next
# cell two models write text: the driving model of this course, and SmolLM2, a small language model. First
# with the library's cache, then with yours.
#
# The wrapper `YourCache` takes only the *newest* keys and values from the model. Your `append` keeps them,
# for every layer, and attention then reads your arrays and no others. The text must come out the same, and
# every output on the way is compared. A model that is not installed on your computer is left out; the
# message says how to get it.

# %% nbgrader={"grade_id": "watch-inside", "locked": true}
from minitx.course import inside


class YourCache:
    """Attention for `inside.a_model` that reads nothing older than this step but what `append` has kept."""

    def __init__(self, slots=1024):
        self.slots, self.layers, self.turn, self.in_prompt = slots, [], 0, False

    def cache_of_this_layer(self, k, v, is_prompt):
        """Layers take turns. The first turn, that of the prompt, makes a cache for each."""
        if not is_prompt:
            number, self.turn = self.turn, (self.turn + 1) % len(self.layers)
            self.in_prompt = False
            return self.layers[number]
        if not self.in_prompt:
            self.layers, self.turn, self.in_prompt = [], 0, True
        made = [np.zeros((*part.shape[:2], self.slots, part.shape[3]), part.dtype) for part in (k, v)]
        self.layers.append(made)
        return made

    def __call__(self, q, k, v, mask):
        batch, _, n, _ = q.shape
        # The last query reads all keys of its row: those that were there before, and n new ones.
        held = np.broadcast_to(mask[:, 0, -1].sum(axis=-1) - n, batch).copy()
        my_keys, my_values = self.cache_of_this_layer(k, v, not held.any())
        newest = held[:, None] + np.arange(n)
        new_k, new_v = (np.take_along_axis(part, newest[:, None, :, None], axis=2) for part in (k, v))
        append(my_keys, my_values, held, new_k, new_v)
        may_read = np.arange(self.slots) <= newest[:, None, :, None]
        return F.attention(q, my_keys, my_values, mask=may_read).numpy()


for real_model in ("driving", "smollm2"):
    print(inside.a_model(real_model, attention=YourCache()))

# %% [markdown]
# ## 8. Check yourself
#
# These two questions are for practice. Put a letter in place of the question mark and run the cell again:
# it says at once whether you are right, and why.

# %% nbgrader={"grade_id": "show-c5", "locked": true}
quiz.show("c5")

# %% practice=true
answers["c5"] = "?"
quiz.explain("c5", answers["c5"])

# %% nbgrader={"grade_id": "show-q4", "locked": true}
quiz.show("q4")

# %% practice=true
answers["q4"] = "?"
quiz.explain("q4", answers["q4"])

# %% [markdown]
# The next question is **graded**, for one point. Put your letter in place of the question mark. The lines
# from `if` on are there for a question that is still open; leave them as they are. Your feedback will say
# whether you are right, and if not, what speaks against your answer.

# %% nbgrader={"grade_id": "show-g5", "locked": true}
quiz.show("g5")

# %% nbgrader={"grade_id": "answer-g5", "solution": true}
answers["g5"] = "?"
if answers["g5"] == "?":
    ### BEGIN SOLUTION
    answers["g5"] = "d"
    ### END SOLUTION

# %% nbgrader={"grade_id": "test-g5", "grade": true, "points": 0}
### Test: question g5 has an answer (0 points)
### Hint: One of the letters a, b, c and d, between quotation marks.
quiz.answered("g5", answers)

"g5: there is an answer. Your feedback will say whether it is right."

# %% nbgrader={"grade_id": "test-g5-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell compares your answer with the right one.
### BEGIN HIDDEN TESTS
### Test: the answer to question g5 (1 point)
### Hint: Read the question once more, and what speaks against your answer.
quiz.graded("g5", answers, key="d")
### END HIDDEN TESTS

# %% [markdown]
# ## 9. In your own words
#
# *Four points, graded by hand. Six to ten sentences.*
#
# A colleague says: "The cache keeps queries, keys and values. It makes each step constant work, it saves
# memory, and the text comes out almost the same."
#
# 1. What is kept, and why not the rest? What does each step still have to do?
# 2. What is true about memory, and about "almost the same"? Which two tests would you write first?

# %% [markdown] nbgrader={"grade_id": "written-cache", "grade": true, "solution": true, "points": 4}
# ### BEGIN SOLUTION
# **A model answer.** The cache keeps the keys and values of every token that was read, in every layer. Under
# a causal mask they do not depend on later tokens, so they stay the same. An old query is never used again:
# its token has its output already. In a step the new token's query, key and value are computed, in every
# layer. The query is compared with all keys, so the work grows linearly with the length; it is not constant.
# The cache spends memory, for Alpamayo-R1 144 KiB a token. It is not an approximation: only the rounding may
# differ. I would test that a prompt in one call, followed by steps with one *and* with several tokens,
# equals the pass over everything, with rows of different length. And I would crop and take a second step, to
# see that nothing is left over.
#
# **Marks.**
#
# - 1 point: keys and values of all earlier tokens in every layer; old queries are never used again.
# - 1 point: the new query is still compared with all keys (linear, not constant).
# - 1 point: it spends memory, and gives the same result up to rounding.
# - 1 point: two tests that can fail: prefill and decode against the full pass, a chunk of two or more, rows
#   of different length, a second step after a crop, rubbish in empty slots.
#
# Half a point each for the right idea without a reason. No point for "the cache keeps the attention
# weights", or for a test that compares the cached code with itself.
# ### END SOLUTION

# %% [markdown]
# ## Where this shows up
#
# - **Reasoning in a car.** Alpamayo-R1 reads some 3,000 tokens once and then writes its reasoning token by
#   token. Each written token reads all weights and the whole cache, so the speed of memory sets the pace.
# - **The cache as an interface.** The action expert gets no text. It reads the cached keys and values, layer
#   by layer, adds its own behind them, and crops them after each of its ten steps.
# - **Several futures.** Each sampled trajectory has its own reasoning and its own copy of the cache. Your
#   `fork` copies; systems that serve many users share the prompt's part and copy when someone writes.
# - **Another way to crop.** The code of π0 makes a new, longer cache in each step and drops it. Nothing has
#   to be taken back, for nothing was changed in place.
#
# The next step is the action expert itself: tokens that read a cache and each other at once.
