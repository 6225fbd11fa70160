# %% [markdown]
# # Causal: learn from every position without seeing the answer
#
# **After this unit you can**
#
# - build causal, padding and prefix masks from one rule, the one that the robot model π0 uses;
# - line up new queries with the keys of a cache, and say which familiar mask gets that wrong;
# - prove that a model cannot see the future, by a test that knows nothing of its inside;
# - make the targets and the loss with which a model learns from all positions in one pass.
#
# **Time:** about 85 minutes.
# **Before you start:** the unit *attention*. You need masks (`True` = may attend) and the softmax.
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
# ## 1. Nine lessons from one sentence
#
# A language model does one thing: it reads some tokens and says which token comes next. A sentence of ten
# words therefore holds nine exercises. Read one word, predict the second; read two, predict the third; and
# so on. The figure shows them for a short sentence, one exercise a row.

# %% nbgrader={"grade_id": "figure-lessons", "locked": true}
figure = figures.predictions_at_once(["the", "light", "is", "red", "so", "stop"])

# %% [markdown]
# One could run the model once for each row. But the rows share their words, and attention treats every
# position in the same way. So put the whole sentence in, **once**, and read a prediction from every
# position. All exercises are done in one pass.
#
# There is a catch. The whole sentence is in memory now, the answers included. Position 2 is to predict
# "red", and "red" stands right next to it. A model that may look there copies the word and learns nothing.
# Later in this unit you will train one that does.
#
# The **causal mask** hides the hatched cells: a position reads itself and what came before. Then one pass
# over the sentence gives, at every position, exactly what a run on that row alone would give.

# %% [markdown]
# ## 2. One rule for all masks
#
# Causal is only one pattern. A camera image has no first pixel: its tokens may all read each other. In π0,
# a model that drives a robot, camera and text tokens read each other, the robot's state reads those too, and
# the planned actions read everything. One rule covers all of this.
#
# Cut the sequence into **blocks**, and mark the first token of each block with a 1. All other tokens get a
# 0. Then:
#
# > A token may read its own block and all blocks before it.
#
# | marks | meaning |
# |---|---|
# | `1 1 1 1 1` | every token is a block: causal |
# | `1 0 0 0 0` | one block: everyone reads everyone, as in an encoder |
# | `1 0 0 1 1` | a prefix of three tokens that read each other, then causal text |
# | `1 0 0 1 0` | two blocks: the second reads the first, but not the other way round |
#
# **Your task:** write `block_starts`, which makes the marks from the sizes of the blocks.
#
# <details><summary>Hint 1: the idea</summary>
#
# Where does a block begin? Where all blocks before it end. So add up the sizes that came before.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# The answer has as many numbers as all sizes together. With sizes 3, 1, 2 the blocks begin at places 0, 3
# and 4.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# answer = zeros, as many as the sizes add up to
# place  = 0
# for each size:
#     put a 1 at place
#     move place on by the size
# ```
#
# </details>


# %% nbgrader={"grade_id": "starts", "solution": true}
def block_starts(sizes: list[int]) -> np.ndarray:
    """A mark for each token: 1 where a block begins, 0 elsewhere.

    sizes: how many tokens each block has, at least 1 each.
    Returns whole numbers (n,), where n is the sum of the sizes.
    """
    ### BEGIN SOLUTION
    starts = np.zeros(sum(sizes), dtype=int)
    starts[np.cumsum([0, *sizes[:-1]])] = 1
    return starts
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-starts", "grade": true, "points": 0.5}
### Test: blocks of three, one and two tokens (0.5 points)
### Hint: The blocks begin at places 0, 3 and 4.
check.array("block_starts([3, 1, 2])", block_starts([3, 1, 2]), [1, 0, 0, 1, 1, 0], axes=("token",))
check.array("block_starts([1, 1, 1])", block_starts([1, 1, 1]), [1, 1, 1], axes=("token",))

"block_starts: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-starts-hidden", "grade": true, "points": 0.5}
# When your notebook is graded, this cell tests block_starts on more sizes.
### BEGIN HIDDEN TESTS
### Test: the first token of every block has a mark, and no other (0.5 points)
### Hint: Count the tokens of all blocks before: that is where the next block begins.
### Belief: marks-at-ends
sizes = [int(size) for size in check.rng("starts").integers(2, 6, size=5)]
for some in ([*sizes, 1, 1, 3], [6], [1, 4]):
    wanted = np.concatenate([np.arange(size) == 0 for size in some])
    check.array("block_starts", block_starts(list(some)), wanted, axes=("token",))
### END HIDDEN TESTS

# %% [markdown]
# Now the rule itself. How does a program know whether token $j$ lies in an earlier block than token $i$?
# Add up the marks from the left: the running sum counts the blocks that have begun. For the marks
# `1 0 0 1 0` the running sum is `1 1 1 2 2`: the number of each token's block.
#
# **Padding** comes on top. Sentences of different length share one array, and short ones are filled up with
# padding. A camera may be missing, so padding can stand in the middle too. A padded token is read by no one,
# and reads nothing itself.
#
# **Your task:** write `block_mask`. This short function makes every mask of the table above, padded or not.
# (In π0's code it is called `make_attn_mask`.)
#
# <details><summary>Hint 1: the idea</summary>
#
# Number the blocks by the running sum. Query $i$ may read key $j$ when block number $j$ is not larger than
# block number $i$. Then keep only the pairs in which both tokens are real.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# Block numbers as a column `(n, 1)` are the queries', as a row `(1, n)` the keys'. Comparing them gives
# `(n, n)`. `real` is `(batch, n)`; as `(batch, n, 1)` it speaks of queries, as `(batch, 1, n)` of keys.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# block = running sum of starts
# may   = block of the key (row) <= block of the query (column)
# answer = may  and  the query is real  and  the key is real
# ```
#
# </details>


# %% nbgrader={"grade_id": "block-mask", "solution": true}
def block_mask(starts: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Which query may read which key: its own block and all before it, real tokens only.

    starts: (n,), 1 where a block begins and 0 elsewhere; the same for the whole batch.
    real: (batch, n) booleans, False for padding.
    Returns booleans (batch, n, n), axes (batch, query, key), True = may attend.
    """
    ### BEGIN SOLUTION
    block = np.cumsum(starts)
    may = block[None, :] <= block[:, None]  # (query, key)
    return may & real[:, :, None] & real[:, None, :]
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-block-mask", "grade": true, "points": 1}
### Test: a prefix of two tokens, then causal (0.5 points)
### Hint: Tokens 0 and 1 are one block and read each other. Token 2 reads 0, 1 and itself.
mask = block_mask(np.array([1, 0, 1, 1]), np.ones((2, 4), dtype=bool))
pattern = [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
check.array("mask", mask, np.broadcast_to(pattern, (2, 4, 4)), axes=("batch", "query", "key"))
check.dtype("mask", mask, bool)

### Test: the second sentence has one token of padding (0.5 points)
### Hint: Nobody reads a padded token (its column is False), and it reads nothing (its row is False).
mask = block_mask(np.array([1, 1, 1]), np.array([[True, True, True], [True, True, False]]))
pattern = [[[1, 0, 0], [1, 1, 0], [1, 1, 1]], [[1, 0, 0], [1, 1, 0], [0, 0, 0]]]
check.array("mask", mask, pattern, axes=("batch", "query", "key"))

"block_mask: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-block-mask-hidden", "grade": true, "points": 2.5}
# When your notebook is graded, this cell tests block_mask: more blocks, padding at any place.
### BEGIN HIDDEN TESTS
PAIRS = ("batch", "query", "key")


def marks_of(sizes):
    """The marks of blocks of these sizes."""
    return np.concatenate([np.arange(size) == 0 for size in sizes]).astype(int)


def may_read(sizes):
    """(query, key): written down block by block, without a running sum."""
    n, end = sum(sizes), 0
    table = np.zeros((n, n), dtype=bool)
    for size in sizes:
        table[end : end + size, : end + size] = True
        end += size
    return table


def tokens_with_holes(label, batch, n):
    """(batch, n): about a third is padding, in the second row the last token but one, between real ones."""
    valid = check.rng(label).random(size=(batch, n)) > 0.35
    valid[0, [0, 1, -1]] = True
    valid[0, 3] = False
    valid[1, [1, -2]] = False
    valid[1, [-3, -1]] = True
    return valid


### Test: a token reads its own block and all before it (0.5 points)
### Hint: Draw the table for blocks of two, three and one token.
### Belief: later-blocks-strict
sizes = [2, 3, 1, 2]
mask = block_mask(marks_of(sizes), np.ones((3, 8), dtype=bool))
check.array("mask", mask, np.broadcast_to(may_read(sizes), (3, 8, 8)), axes=PAIRS)

### Test: no token reads padding (0.5 points)
### Hint: Which axis of real speaks of the keys?
### Belief: padding-keys-seen
sizes = [4, 1, 2]
valid = tokens_with_holes("padding keys", 3, 7)
mask = block_mask(marks_of(sizes), np.copy(valid))
wanted = np.einsum("ij,bj->bij", may_read(sizes), valid)
rows = np.nonzero(valid)
check.array("rows of real queries", np.asarray(mask)[rows], wanted[rows], axes=("query", "key"))

### Test: a padded token reads nothing (0.5 points)
### Hint: Its whole row is False, even where the keys are real.
### Belief: padded-queries-look
sizes = [3, 2, 1, 1]
valid = tokens_with_holes("padding queries", 3, 7)
mask = block_mask(marks_of(sizes), np.copy(valid))
wanted = np.einsum("ij,bi,bj->bij", may_read(sizes), valid, valid)
check.array("mask", mask, wanted, axes=PAIRS)

### Test: every sentence of the batch has its own padding (0.5 points)
### Hint: real has one row for each batch element. Which axis does it need to meet the table of blocks?
### Belief: first-padding-for-all
valid = np.arange(5) < np.array([[5], [2], [4]])
mask = block_mask(np.ones(5, dtype=int), valid)
wanted = np.einsum("ij,bi,bj->bij", may_read([1] * 5), valid, valid)
check.array("mask", mask, wanted, axes=PAIRS)

### Test: cameras, state and actions, with one camera missing (0.5 points)
### Hint: Cameras and text are the first block, the state is the second, the actions are the third.
### Belief: same-block-only
sizes = [8, 1, 4]
gone = int(check.rng("camera").integers(1, 5))
valid = np.ones((2, 13), dtype=bool)
valid[1, gone : gone + 3] = False
mask = block_mask(marks_of(sizes), valid)
wanted = np.einsum("ij,bi,bj->bij", may_read(sizes), valid, valid)
check.array("mask", mask, wanted, axes=PAIRS)
### END HIDDEN TESTS

# %% [markdown]
# Look at what your two functions make. A dot means "may read". The last picture is π0 in small: six camera
# and text tokens, of which one is missing; one state token; three actions.

# %% nbgrader={"grade_id": "watch-blocks", "locked": true}
shown_blocks = {
    "causal": [1, 1, 1, 1, 1],
    "encoder": [5],
    "prefix of 3,\nthen causal": [3, 1, 1],
}
shown_masks = [
    block_mask(block_starts(some), np.ones((1, 5), dtype=bool))[0] for some in shown_blocks.values()
]
small_pi = block_mask(block_starts([6, 1, 3]), np.arange(10)[None] != 4)[0]
figure = figures.masks_side_by_side(
    [*shown_masks, small_pi], [*shown_blocks, "cameras and text,\nstate, actions"]
)

# %% [markdown]
# In the real π0 the first block holds up to 816 tokens: 256 for each of three images and up to 48 of text.
# Then come one state token and 50 actions. The first block reads nothing that comes later, so its keys and
# values can be computed once and kept, while the actions are worked out in ten steps. In its code the first
# mark is 0 and not 1. Why does that change nothing?

# %% [markdown]
# ## 3. Fewer queries than keys
#
# ### Spot the bug
#
# While a model writes text it keeps the keys and values of old tokens in a **cache**. Only the new tokens
# are queries. With $n$ new tokens and $m$ keys in all, the mask has $n$ rows and $m$ columns.
#
# Tutorials often hide the future like this, with as many rows and columns as there are scores. With five
# queries and five keys it is right.
#
# Before you run the cell: five tokens are in play, four of them in the cache. The newest one asks. Which
# keys will this mask show it? And which value will come out?


# %% nbgrader={"grade_id": "demo-usual-mask", "locked": true}
def usual_mask(n_queries, n_keys):
    """Everything but the future, as tutorials write it; True = may attend."""
    future = np.triu(np.ones((n_queries, n_keys), dtype=bool), k=1)
    return ~future


usual_q, usual_k = np.random.default_rng(5).normal(size=(2, 1, 1, 5, 8))
usual_v = np.array([10.0, 20.0, 30.0, 40.0, 50.0]).reshape(1, 1, 5, 1)
usual_full, _ = F.scaled_dot_product_attention(usual_q, usual_k, usual_v, mask=usual_mask(5, 5))
usual_step, _ = F.scaled_dot_product_attention(usual_q[:, :, 4:], usual_k, usual_v, mask=usual_mask(1, 5))
print("the values:                        ", usual_v.ravel())
print("token 4, all five tokens at once:  ", usual_full.numpy().ravel()[4].round(3))
print("token 4, the other four in a cache:", usual_step.numpy().ravel()[0].round(3))

# %% [markdown]
# Same token, same keys, another answer: exactly the first value, whatever the query says. The mask lays the
# *top left* corners of the two on each other, as if the newest token were the first. Nothing raises an
# error, and training never shows it, for there $n = m$. PyTorch's `is_causal=True` means this corner, too.
#
# The rule needs one more number: the place of the first query. Call it the **offset**. Query $i$ stands at
# place $\mathrm{offset} + i$, and may read the keys up to there. New tokens are the last ones, so
#
# $$\mathrm{offset} = m - n \quad\text{unless someone says otherwise.}$$
#
# This lays the *bottom right* corners on each other. OpenAI's code for GPT-2 does so, and FlashAttention
# since its version 2.1.
#
# Who says otherwise? A cache is often an array of fixed size with empty slots at its end. If 4 of 9 slots
# are filled and 2 tokens arrive, the offset is 4, not 7. The first time the cache is empty, and the offset
# is 0.
#
# **Your task:** write `decoder_mask`. It joins the causal rule with padding, in the shape in which attention
# takes it. Joining means: a key must be allowed by **both**. Padded keys are hidden. Padded queries are left
# alone here: nobody reads what they compute.
#
# <details><summary>Hint 1: the idea</summary>
#
# Give every query its place (its number plus the offset) and every key its place (its number). A query may
# read a key whose place is not larger than its own, if that key is real.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# Places of queries as a column `(n, 1)` against places of keys as a row `(1, m)` give `(n, m)`. `real` is
# `(batch, m)` and speaks of keys: it needs to become `(batch, 1, 1, m)`. The two new axes stand for the
# heads and the queries.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# m = number of columns of real
# start = the offset, or m - n if it is None     (0 is an offset, too: do not write "if offset")
# past   = key number (row) <= query number (column) + start
# answer = past  and  real with two new axes in the middle
# ```
#
# </details>


# %% nbgrader={"grade_id": "decoder-mask", "solution": true}
def decoder_mask(n: int, real: np.ndarray, offset: int | None = None) -> np.ndarray:
    """The mask of n queries: no key from the future, and no padded key.

    real: (batch, m) booleans, one for each key, False for padding.
    offset: the place of query 0 among the keys; m - n when it is None.
    Returns booleans (batch, 1, n, m), axes (batch, head, query, key), True = may attend.
    """
    ### BEGIN SOLUTION
    m = real.shape[1]
    first = m - n if offset is None else offset
    past = np.arange(m)[None, :] <= first + np.arange(n)[:, None]
    return past & real[:, None, None, :]
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-decoder-mask", "grade": true, "points": 1}
### Test: three new tokens, five keys, and the second sentence starts with padding (0.5 points)
### Hint: The last query sees everything real. The first one stands at place 2.
mask = decoder_mask(3, np.array([[True] * 5, [False] + [True] * 4]))
first = [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
second = [[0, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 1, 1, 1, 1]]
check.array("mask", mask, [[first], [second]])
check.dtype("mask", mask, bool)

### Test: two tokens arrive in a cache of six slots of which two are filled (0.5 points)
### Hint: offset is 2. Query 0 stands at place 2, query 1 at place 3.
mask = decoder_mask(2, np.ones((1, 6), dtype=bool), offset=2)
check.array("mask", mask, [[[[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0]]]])

"decoder_mask: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-decoder-mask-hidden", "grade": true, "points": 3}
# When your notebook is graded, this cell tests decoder_mask: other sizes, offsets and padding.
### BEGIN HIDDEN TESTS


def places(n, m, offset):
    """(n, m), from a comparison of places one by one."""
    return np.array([[key <= query + offset for key in range(m)] for query in range(n)])


def compare_masks(n, valid, place, **options):
    """The student's mask against one made here; the first query stands at `place`."""
    wanted = np.einsum("ij,bj->bij", places(n, valid.shape[1], place), valid)[:, None]
    check.array("mask", decoder_mask(n, np.copy(valid), **options), wanted)


def some_padding(label, batch, m):
    """(batch, m): keys of which about a third is padding, at least one in each row, never the last."""
    rng = check.rng(label)
    valid = rng.random(size=(batch, m)) > 0.35
    valid[np.arange(batch), rng.integers(0, m - 1, size=batch)] = False
    valid[:, -1] = True
    return valid


### Test: with as many queries as keys, each sees itself and what came before (0.5 points)
### Hint: Write the table for three tokens. Is the diagonal True?
### Belief: diagonal-masked
compare_masks(5, np.ones((2, 5), dtype=bool), 0)

### Test: new tokens see the whole cache, and each other from left to right (0.5 points)
### Hint: The newest query stands where the last key stands.
### Belief: top-left-causal
compare_masks(3, np.ones((2, 8), dtype=bool), 5)
compare_masks(1, np.ones((2, 6), dtype=bool), 5)

### Test: empty slots at the end of a cache stay hidden (0.5 points)
### Hint: When an offset is given, it says where query 0 stands. Do you use it?
### Belief: offset-ignored
compare_masks(2, np.ones((3, 9), dtype=bool), 4, offset=4)

### Test: an offset of nought is an offset (0.5 points)
### Hint: In Python 0 counts as false. Ask "is it None?".
### Belief: zero-offset-lost
compare_masks(3, np.ones((2, 7), dtype=bool), 0, offset=0)

### Test: a sentence's padding belongs to its keys, also when batch and queries are equally many (0.5 points)
### Hint: A mask of the shape (batch, m) meets (n, m) without complaint when batch equals n. Put axes between.
### Belief: padding-by-query
compare_masks(4, some_padding("keys", 4, 7), 3)

### Test: padding takes a place among the keys (0.5 points)
### Hint: m counts all keys, padded ones too, for they lie in the cache like the others.
### Belief: offset-counts-real
compare_masks(2, np.arange(8) >= np.array([[2], [0], [5]]), 6)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Prove it from outside
#
# Masks are easy to get almost right. So do not trust them: test the model. The test needs nothing of its
# inside. Change token $j$, run the model again, and look at every output $i$. If output $i$ moved, token $j$
# has influence on it. In a causal model no token may move an output that stands before it.
#
# A batch does all these runs at once: batch element $j$ holds the sentence with token $j$ changed. That is
# what `changed_one_by_one` makes.
#
# **Your task:** write `influence`, which compares the outputs. Two things to mind.
#
# - An output is a vector. It has moved if *any* of its numbers moved, up or down.
# - Computers round. Two runs of the same thing can differ by $10^{-15}$ or so. Count a change above
#   $10^{-9}$ as a change, however large the numbers are, and nothing below it.
#
# <details><summary>Hint 1: the idea</summary>
#
# Take the difference of `after` and `before`, without its sign. Ask where it is above the limit, then
# whether that is so for any number of the vector.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `before` is `(n, e)` and broadcasts against `after`, which is `(n, n, e)` with the axes (changed token,
# output, number). After `any` over the last axis the table is (changed token, output). You are asked for
# (output, changed token).
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# moved  = absolute difference of after and before is above 1e-9
# table  = any moved along the last axis
# answer = the table with its two axes exchanged
# ```
#
# </details>


# %% nbgrader={"grade_id": "demo-changed", "locked": true}
def changed_one_by_one(sentence, seed=0):
    """(n, d) -> (n, n, d): in batch element j, token j is replaced by random numbers."""
    many = np.repeat(sentence[None], len(sentence), axis=0)
    for token in range(len(sentence)):
        many[token, token] = np.random.default_rng(seed + token).normal(size=sentence.shape[1])
    return many


# %% nbgrader={"grade_id": "influence", "solution": true}
def influence(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Which output depends on which token, seen from outside.

    before: (n, e), the outputs for a sentence.
    after: (n, n, e), where after[j] holds the outputs when token j was changed.
    Returns booleans (n, n), axes (output, token): True at (i, j) when changing token j moved output i,
    in any of its numbers, by more than 1e-9.
    """
    ### BEGIN SOLUTION
    moved = np.abs(after - before) > 1e-9
    return moved.any(axis=-1).T
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-influence", "grade": true, "points": 0.5}
### Test: three outputs, worked out by hand (0.5 points)
### Hint: Changing token 0 moved outputs 0 and 2. So column 0 of the table is True, False, True.
before = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
after = np.array(
    [
        [[1.5, 2.0], [3.0, 4.0], [5.0, 5.0]],  # token 0 changed: outputs 0 and 2 moved
        [[1.0, 2.0], [3.0, 9.0], [5.0, 6.0]],  # token 1 changed: output 1 moved
        [[1.0, 2.0], [2.0, 4.0], [4.0, 7.0]],  # token 2 changed: outputs 1 and 2 moved
    ]
)
table = influence(before, after)
check.array("influence", table, [[1, 0, 0], [0, 1, 1], [1, 0, 1]], axes=("output", "token"))

"influence: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-influence-hidden", "grade": true, "points": 1.5}
# When your notebook is graded, this cell tests influence: other sizes, and changes that are easily missed.
### BEGIN HIDDEN TESTS
TABLE = ("output", "token")


def outputs_after(label, n, e, size):
    """Outputs before, outputs after, and the table: each pair moved or not at random, by about `size`."""
    rng = check.rng(label)
    before = rng.normal(size=(n, e))
    table = rng.random(size=(n, n)) < 0.5
    table[0, 1], table[1, 0], table[2, 1] = True, False, True
    change = size * rng.uniform(0.5, 1.0, size=(n, n, e)) * rng.choice([-1.0, 1.0], size=(n, n, e))
    change[1, 2] = -np.abs(change[1, 2])  # token 1 moves output 2 downwards only
    return before, before + np.swapaxes(table, 0, 1)[:, :, None] * change, table


### Test: rows are outputs and columns are the tokens that were changed (0.5 points)
### Hint: after[j] belongs to the changed token j. Where should j stand in your table?
### Belief: influence-transposed
before, after, table = outputs_after("direction", 5, 3, 1.0)
check.array("influence", influence(before, after), table, axes=TABLE)

### Test: one number that moves is enough, and opposite moves do not cancel (0.5 points)
### Hint: Up in one number and down in another is a move. So is a move of one number alone.
### Belief: changes-cancel
before, after, table = outputs_after("cancel", 5, 2, 0.0)
after = np.repeat(before[None], 5, axis=0)
after[:, :, 0] += 0.25 * np.swapaxes(table, 0, 1)
after[:, :, 1] -= 0.25 * np.swapaxes(table, 0, 1)
check.array("influence", influence(before, after), table, axes=TABLE)
before, after, table = outputs_after("one number", 4, 3, 1.0)
after[:, :, 1:] = before[:, 1:]
check.array("influence", influence(before, after), table, axes=TABLE)

### Test: rounding is no influence, and a small change of large numbers is one (0.5 points)
### Hint: Compare the difference itself with 1e-9, not its share of the numbers.
### Belief: rounding-counts
before, after, table = outputs_after("rounding", 4, 3, 1e-5)
after += check.rng("rounding noise").choice([-1e-13, 1e-13], size=after.shape)
check.array("influence", influence(before, after), table, axes=TABLE)
after += 512.0
check.array("influence", influence(before + 512.0, after), table, axes=TABLE)
### END HIDDEN TESTS

# %% [markdown]
# Now use it. `small_decoder` below has two layers of attention with random weights. It reads a sentence in
# pieces and keeps a cache, as a model does when it writes. You tell it which mask to use. In the pictures a
# row is an output and a column is the token that was changed.
#
# The four models get: your mask, sentence in one piece; your mask, in pieces of four and two; the usual mask
# of section 3, in the same pieces; and no mask at all while a piece is read ("the prompt is given, so there
# is nothing to hide"). Which pictures should be triangles? Decide before you run the cell.


# %% nbgrader={"grade_id": "watch-influence", "locked": true}
def small_decoder(batch_of_tokens, pieces, mask_for):
    """(batch, n, 8) -> (batch, n, 8): two layers, each with a cache; mask_for(n, m) says who reads whom."""
    layers = np.random.default_rng(11).normal(size=(2, 3, 8, 8)) / 8**0.5
    kept = [[], []]
    written, begin = [], 0
    for piece in pieces:
        hidden = batch_of_tokens[:, None, begin : begin + piece]  # one head
        begin += piece
        for cache, (w_q, w_k, w_v) in zip(kept, layers, strict=True):
            cache.append((hidden @ w_k, hidden @ w_v))
            keys, values = (np.concatenate(parts, axis=2) for parts in zip(*cache, strict=True))
            read = F.attention(hidden @ w_q, keys, values, mask=mask_for(piece, begin))
            hidden = hidden + read.numpy()
        written.append(hidden[:, 0])
    return np.concatenate(written, axis=1)


def your_mask(n_queries, n_keys):
    return decoder_mask(n_queries, np.ones((1, n_keys), dtype=bool))


def no_mask(n_queries, n_keys):
    return np.ones((n_queries, n_keys), dtype=bool)


probe_sentence = np.random.default_rng(3).normal(size=(6, 8))
probe_batch = np.concatenate([probe_sentence[None], changed_one_by_one(probe_sentence)])
probe_tables = []
for pieces, mask_for in (((6,), your_mask), ((4, 2), your_mask), ((4, 2), usual_mask), ((4, 2), no_mask)):
    written = small_decoder(probe_batch, pieces, mask_for)
    probe_tables.append(influence(written[0], written[1:]))
figure = figures.masks_side_by_side(
    probe_tables,
    ["your mask,\none piece", "your mask,\n4 and 2", "top left,\n4 and 2", "no mask,\n4 and 2"],
)
for ax in figure.axes:
    ax.set_xlabel("token changed")
    ax.set_ylabel("output" if ax is figure.axes[0] else "")

# %% [markdown]
# Your mask gives the same triangle however the sentence is cut. With the mask of section 3 the last two
# outputs miss most of the past. (The dot on their own token does not come from attention: each layer adds
# what it reads to what it had.) Without a mask, the outputs of one piece see each other's future. That last
# fault was found in real programs: a prompt was read without a mask, "since it is given". But the model was
# trained with the mask, so it must read with it.
#
# Keep this test. It finds every fault of this kind, in a model of any size, in a few seconds.

# %% [markdown]
# ## 5. Targets: the same tokens, one step on
#
# What is the right answer at position $i$? The token at position $i + 1$. So the targets are the inputs,
# shifted by one. A sentence of $n$ tokens gives $n - 1$ inputs and $n - 1$ targets: the last token has no
# successor and is a target only, the first is an input only. In the paper that introduced the transformer
# (Vaswani and others, 2017, section 3.1) this is the remark that the decoder's inputs are offset by one
# position. The mask and the offset belong together. With the mask but without the offset, position $i$
# would have to predict a token that it reads: no exercise at all.
#
# Short sentences end in padding. A model must not be taught to write padding, so those targets are replaced
# by a number that says "do not count": $-100$ by custom. The *length* of a sentence tells where padding
# begins. The ids do not: many models use the end-of-text token as padding, and then the first one is a real
# target. A model that never sees it as a target never learns to stop.
#
# **Your task:** write `shift_targets`.
#
# <details><summary>Hint 1: the idea</summary>
#
# Cut off the last column for the inputs, and the first for the targets. A target is real when its place in
# the sentence lies before the sentence's length.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `ids` is `(batch, n)`, both answers are `(batch, n - 1)`. Target $t$ was token $t + 1$. Its place, as a row
# `(n - 1,)`, against the lengths, as a column `(batch, 1)`, gives a table of booleans. A slice shares memory
# with the array that it was cut from: copy it before you write into it.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# inputs  = all columns but the last
# targets = a copy of all columns but the first
# place   = 1, 2, ..., n - 1
# targets = ignore wherever place >= length of the row
# ```
#
# </details>


# %% nbgrader={"grade_id": "targets", "solution": true}
def shift_targets(ids: np.ndarray, lengths: np.ndarray, ignore: int = -100) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of a batch of sentences, for predicting the next token at every position.

    ids: (batch, n) whole numbers. Row b is padded after its first lengths[b] tokens.
    lengths: (batch,), each at least 2.
    Returns inputs and targets, both (batch, n - 1) whole numbers. The target at a position is the token
    that follows, or `ignore` when what follows is padding. ids stays as it was.
    """
    ### BEGIN SOLUTION
    inputs = ids[:, :-1]
    targets = ids[:, 1:].copy()
    place = np.arange(1, ids.shape[1])
    targets[place >= lengths[:, None]] = ignore
    return inputs, targets
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-targets", "grade": true, "points": 1}
### Test: a sentence of five tokens and one of three (0.5 points)
### Hint: Token 7 is followed by 3, so the target at position 0 is 3.
ids = np.array([[7, 3, 9, 4, 2], [8, 6, 5, 0, 0]])
inputs, targets = check.parts("shift_targets", shift_targets(ids, np.array([5, 3])), ("inputs", "targets"))
check.array("inputs", inputs, [[7, 3, 9, 4], [8, 6, 5, 0]], axes=("batch", "position"))
check.array("targets", targets, [[3, 9, 4, 2], [6, 5, -100, -100]], axes=("batch", "position"))

### Test: another number may stand for "do not count" (0.5 points)
### Hint: The tokens that follow, as before. Behind a sentence's end stands the argument ignore, not -100.
ids = np.array([[1, 2, 3, 4], [5, 6, 0, 0], [7, 8, 9, 0]])
_, targets = check.parts(
    "shift_targets", shift_targets(ids, np.array([4, 2, 3]), ignore=-1), ("inputs", "targets")
)
check.array("targets", targets, [[2, 3, 4], [6, -1, -1], [8, 9, -1]], axes=("batch", "position"))

"shift_targets: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-targets-hidden", "grade": true, "points": 1.5}
# When your notebook is graded, this cell tests shift_targets on more sentences.
### BEGIN HIDDEN TESTS
STEPS = ("batch", "position")


def sentences(label, batch, n, padding):
    """Random ids from 1 to 49, padded; the first row is full."""
    rng = check.rng(label)
    lengths = rng.integers(2, n, size=batch)
    lengths[0] = n
    ids = rng.integers(1, 50, size=(batch, n))
    for row, length in zip(ids, lengths, strict=True):
        row[length:] = padding
    return ids, lengths


def wanted_targets(ids, lengths, ignore):
    """Position by position."""
    batch, n = ids.shape
    return [[ids[b, t + 1] if t + 1 < lengths[b] else ignore for t in range(n - 1)] for b in range(batch)]


def compare_targets(ids, lengths, ignore=-100):
    before = np.copy(ids)
    got = shift_targets(ids, lengths, ignore=ignore)
    inputs, targets = check.parts("shift_targets", got, ("inputs", "targets"))
    check.array("targets", targets, wanted_targets(before, lengths, ignore), axes=STEPS)
    check.array("inputs", inputs, [row[:-1] for row in before], axes=STEPS)


### Test: the target is the token that follows, up to the last real one (0.5 points)
### Hint: The last real token is a target too. What follows it is not.
### Belief: targets-not-shifted
compare_targets(*sentences("next", 4, 7, padding=0))

### Test: padding that looks like a real token is still known by the lengths (0.5 points)
### Hint: The end-of-text token may also be the padding. Only the length tells one from the other.
### Belief: padding-by-id
ids, lengths = sentences("end of text", 4, 7, padding=0)
ids[np.arange(4), lengths - 1] = 0
ids[0, 2] = 0
compare_targets(ids, lengths, ignore=-7)

### Test: the ids stay as they were (0.5 points)
### Hint: A slice is a window onto the same memory. Writing into it writes into ids.
### Belief: targets-share-memory
ids, lengths = sentences("memory", 3, 6, padding=49)
before = np.copy(ids)
compare_targets(ids, lengths)
check.unchanged("ids", ids, before)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. The loss: how surprised was the model?
#
# At each position the model gives one number for every word of the vocabulary: the **logits**. The softmax
# makes probabilities of them. The loss at a position is the surprise at what really came:
#
# $$\mathrm{loss} = -\log p(\text{target}), \qquad
#   \log p(\text{target}) = s_{\text{target}} - \log \sum_{w} e^{s_w}$$
#
# It is 0 when the model was certain and right. A model that knows nothing gives every one of $V$ words the
# same chance, and its loss is $\log V$: 4.17 for 65 letters, 10.82 for the 50,257 tokens of GPT-2. If an
# untrained model shows a much larger loss, something is wrong before training has begun.
#
# The loss of a batch is the mean over all **counted** targets, all rows together. Padding is neither in the
# sum nor in the count. So the loss does not depend on how wide the padding is, and a long sentence weighs
# more than a short one, since it holds more exercises.
#
# **Your task:** write `next_token_loss`. Three traps.
#
# - Logits of a thousand must not overflow. Shift each row, as in your softmax. And never take the logarithm
#   of a probability that may have become 0: use the second formula.
# - $-100$ is no place in the vocabulary, but NumPy counts negative indices from the end and says nothing.
# - When no target counts, the loss is 0, not `nan`.
#
# <details><summary>Hint 1: the idea</summary>
#
# Make log-probabilities of all logits. Pick, at each position, the one of the target; where the target does
# not count, pick any. Add up those that count, divide by how many they are, and turn the sign.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# The row's largest logit and the logarithm of its sum are `(batch, n, 1)`. `np.take_along_axis` picks along
# the last axis with indices of the shape `(batch, n, 1)`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# counted = targets differ from ignore          if none does: return 0.0
# shifted = logits minus the largest of their row
# log_p   = shifted minus the log of the sum of exp(shifted), row by row
# index   = targets where counted, else 0
# picked  = log_p at index, along the last axis
# answer  = minus the sum of picked where counted, divided by the number counted
# ```
#
# </details>


# %% nbgrader={"grade_id": "loss", "solution": true}
def next_token_loss(logits: np.ndarray, targets: np.ndarray, ignore: int = -100) -> float:
    """The mean of -log p(target) over all targets that count.

    logits: (batch, n, vocabulary), of any size. targets: (batch, n) whole numbers from 0, or `ignore`.
    Returns one number; 0.0 when every target is to be ignored.
    """
    ### BEGIN SOLUTION
    counted = targets != ignore
    if not counted.any():
        return 0.0
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    index = np.where(counted, targets, 0)[..., None]
    picked = np.take_along_axis(log_p, index, axis=-1)[..., 0]
    return float(-picked[counted].sum() / counted.sum())
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-loss", "grade": true, "points": 1}
### Test: a model that knows nothing loses log(V) (0.5 points)
### Hint: All logits are equal, so each of the seven words has the probability 1/7.
flat = np.full((2, 3, 7), 5.0)
check.array("loss", next_token_loss(flat, np.array([[0, 6, 2], [3, 3, 1]])), np.log(7.0), axes=())

### Test: three positions worked out by hand, of which two count (0.5 points)
### Hint: The probabilities of the targets that count are 5/8 and 1/8.
logits = np.log([[[1.0, 2.0, 5.0], [1.0, 4.0, 3.0], [2.0, 2.0, 2.0]]])
targets = np.array([[2, 0, -100]])
check.array("loss", next_token_loss(logits, targets), -(np.log(5 / 8) + np.log(1 / 8)) / 2, axes=())

"next_token_loss: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-loss-hidden", "grade": true, "points": 2}
# When your notebook is graded, this cell tests the loss: padding, large logits, a large vocabulary.
### BEGIN HIDDEN TESTS


def surprise(logits, targets, ignore=-100):
    """The loss, one position after the other."""
    total, count = 0.0, 0
    for place in zip(*np.nonzero(targets != ignore), strict=True):
        total += np.logaddexp.reduce(logits[place]) - logits[place][targets[place]]
        count += 1
    return total / max(count, 1)


def some_logits(label, batch, n, words, lengths):
    """Random logits, and targets of which the first lengths[b] of row b count."""
    rng = check.rng(label)
    targets = rng.integers(0, words, size=(batch, n))
    targets[np.arange(n) >= np.array(lengths)[:, None]] = -100
    return rng.normal(size=(batch, n, words)), targets


### Test: the mean runs over the targets that count, all rows together (0.5 points)
### Hint: Divide by the number of targets that count. A row with more of them weighs more.
### Belief: padding-in-the-mean
logits, targets = some_logits("mean", 3, 6, 8, lengths=(6, 1, 4))
check.array("loss", next_token_loss(logits, targets), surprise(logits, targets), axes=())
logits, targets = some_logits("other number", 2, 5, 8, lengths=(5, 2))
targets[targets == -100] = -1
check.array("loss", next_token_loss(logits, targets, ignore=-1), surprise(logits, targets, -1), axes=())

### Test: logits of a thousand are no problem (0.5 points)
### Hint: The logarithm of a probability that has become 0 is -inf. Stay with logarithms all the way.
### Belief: log-of-softmax
logits, targets = some_logits("large", 2, 4, 5, lengths=(4, 3))
logits = np.round(4 * logits) / 4
check.array("loss", next_token_loss(logits + 1000.0, targets), surprise(logits, targets), axes=(), atol=1e-4)
logits = 1000.0 * np.round(logits) + logits
check.array("loss", next_token_loss(logits, targets), surprise(logits, targets), axes=())
check.array("loss", next_token_loss(logits - 5000.0, targets), surprise(logits, targets), axes=())

### Test: a target that does not count is no place in the vocabulary (0.5 points)
### Hint: In NumPy, index -100 of 130 words is word 30. Who says that it must not count?
### Belief: ignored-as-index
logits, targets = some_logits("vocabulary", 2, 6, 130, lengths=(6, 2))
check.array("loss", next_token_loss(logits, targets), surprise(logits, targets), axes=())

### Test: with nothing to count the loss is 0 (0.5 points)
### Hint: What is 0 divided by 0?
### Belief: nothing-counted-nan
logits, targets = some_logits("nothing", 2, 4, 5, lengths=(3, 4))
check.array("loss", next_token_loss(logits, targets), surprise(logits, targets), axes=())
check.array("loss", next_token_loss(logits, np.full_like(targets, -100)), 0.0, axes=())
### END HIDDEN TESTS

# %% [markdown]
# ## 7. The experiment: train one model twice
#
# Now everything comes together. Below are all the sentences of a small language about traffic: 28 of them,
# each as likely as the others. Word 0 is both the start and the end of a sentence, and the padding, too.
# Your `shift_targets` makes the exercises.
#
# How low can an honest loss be? Nobody can know whether the light will be red. Picking one of 28 sentences
# costs $\log 28$, however cleverly it is guessed word by word. Divide by the number of words, and you have a
# **floor** that no model can go below, unless it sees the answers.

# %% nbgrader={"grade_id": "watch-language", "locked": true}
vehicles = ["car", "bus", "van", "truck"]
language = [
    f"the light is {colour} so the {vehicle} {does}"
    for colour, does in (("red", "stops"), ("amber", "slows"), ("green", "goes"))
    for vehicle in vehicles
]
language += [
    f"the {vehicle} ahead {does} so we {do}"
    for vehicle in vehicles
    for does, do in (("brakes", "brake"), ("stops", "stop"), ("turns", "wait"))
]
language += [
    f"a {someone} is near so we {do}"
    for someone, do in (("child", "stop"), ("dog", "slow"), ("cyclist", "wait"), ("fox", "slow"))
]
lexicon = ["<end>", *sorted({word for line in language for word in line.split()})]
word_ids = {word: number for number, word in enumerate(lexicon)}
coded = [[0, *(word_ids[word] for word in line.split()), 0] for line in language]
coded_lengths = np.array([len(row) for row in coded])
coded_ids = np.zeros((len(coded), coded_lengths.max()), dtype=int)
for code_row, row_ids in zip(coded_ids, coded, strict=True):
    code_row[: len(row_ids)] = row_ids

lesson_inputs, lesson_targets = shift_targets(coded_ids, coded_lengths)
floor = len(language) * np.log(len(language)) / (lesson_targets != -100).sum()
print(
    f"{len(language)} sentences, {len(lexicon)} words, {(lesson_targets != -100).sum()} exercises in one pass"
)
print(f"a model that knows nothing: log({len(lexicon)}) = {np.log(len(lexicon)):.3f} for each word")
print(f"the best that is honest:    {floor:.3f}")

# %% [markdown]
# The model is one layer of attention with four heads, a small MLP, and learned positions. It is trained
# twice, from the same start, for 100 steps. Once with your `decoder_mask`. Once with a mask that hides
# padding and nothing else.

# %% nbgrader={"grade_id": "watch-training", "locked": true}
from minitx import nn, optim


class OneLayer(nn.Module):
    """Word ids (batch, n) and a mask (batch, 1, n, n) to logits (batch, n, vocabulary)."""

    def __init__(self, n_words, n_places, d=32, n_heads=4, seed=0):
        maker = np.random.default_rng(seed)
        self.n_heads = n_heads
        self.words = nn.Embedding(n_words, d, rng=maker)
        self.places = nn.Embedding(n_places, d, rng=maker)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, rng=maker) for _ in range(4))
        self.up, self.down = nn.Linear(d, 4 * d, rng=maker), nn.Linear(4 * d, d, rng=maker)
        self.head = nn.Linear(d, n_words, rng=maker)

    def forward(self, word_ids, mask):
        batch, n = word_ids.shape
        x = self.words(word_ids) + self.places(np.arange(n))
        q, k, v = (
            part(x).reshape(batch, n, self.n_heads, -1).transpose(1, 2) for part in (self.q, self.k, self.v)
        )
        read = F.attention(q, k, v, mask=mask).transpose(1, 2).reshape(batch, n, -1)
        x = x + self.o(read)
        return self.head(x + self.down(F.relu(self.up(x))))


def train_one_layer(mask, steps=100):
    one_layer = OneLayer(len(lexicon), lesson_inputs.shape[1])
    optimizer = optim.AdamW(one_layer.parameters(), lr=0.01, weight_decay=0.0)
    curve = []
    for _ in range(steps):
        surprise_now = F.cross_entropy(one_layer(lesson_inputs, mask), lesson_targets)
        optimizer.zero_grad()
        surprise_now.backward()
        optimizer.step()
        curve.append(surprise_now.item())
    return one_layer, curve


input_is_real = np.arange(lesson_inputs.shape[1]) < coded_lengths[:, None] - 1
hide_future = decoder_mask(lesson_inputs.shape[1], input_is_real)
hide_padding = np.broadcast_to(input_is_real[:, None, None, :], hide_future.shape)
with_mask, curve_with = train_one_layer(hide_future)
without_mask, curve_without = train_one_layer(hide_padding)
figure = figures.loss_curves(
    {"your causal mask": curve_with, "no causal mask": curve_without}, floor, "best honest loss"
)

# %% [markdown]
# Without the mask the loss falls far below the floor. That is not talent. It is proof that the model saw the
# answers. **A loss that is too good is a bug report.** With your mask the loss comes to rest on the floor.
#
# What is the cheat worth when there is nothing to copy from? The next cell measures the loss of both with
# the future hidden, by your `next_token_loss`, and lets both write.

# %% nbgrader={"grade_id": "watch-writing", "locked": true}
writers = {"trained with your mask": with_mask, "trained without": without_mask}
for writer_name, writer in writers.items():
    honest = next_token_loss(writer(lesson_inputs, hide_future).numpy(), lesson_targets)
    line = [0]
    while len(line) < lesson_inputs.shape[1]:
        so_far = np.array([line])
        line.append(int(writer(so_far, decoder_mask(len(line), so_far >= 0)).numpy()[0, -1].argmax()))
        if line[-1] == 0:
            break
    written_words = " ".join(lexicon[word] for word in line[1:])
    print(f"{writer_name:24s} honest loss {honest:7.3f}   writes: {written_words}")

# %% [markdown]
# The last question of section 1: does one pass really do the work of many? The cell below takes one
# sentence. It reads it once with all positions together, and then once for each prefix, as the rows of the
# first figure. The probabilities of the right words must be the same.

# %% nbgrader={"grade_id": "watch-one-pass", "locked": true}


def p_of_next(logits, word):
    return np.exp(-next_token_loss(logits[None, None], np.array([[word]])))


one_row = lesson_inputs[:1]
one_length = one_row.shape[1]
logits_at_once = with_mask(one_row, decoder_mask(one_length, one_row >= 0)).numpy()[0]
print("word       all at once   prefix alone")
for place_now in range(one_length):
    prefix = one_row[:, : place_now + 1]
    alone = with_mask(prefix, decoder_mask(place_now + 1, prefix >= 0)).numpy()[0, -1]
    word_now = int(lesson_targets[0, place_now])
    pair = p_of_next(logits_at_once[place_now], word_now), p_of_next(alone, word_now)
    print(f"{lexicon[word_now]:10s} {pair[0]:11.6f} {pair[1]:14.6f}")
rows_alone = one_length * (one_length + 1) // 2
print(f"rows of tokens computed: {one_length} at once, {rows_alone} one prefix after the other")

# %% [markdown]
# **Try this:** train with `offset=1` in `decoder_mask`, so that every position sees one token too many. How
# far below the floor does the loss go? And with the targets not shifted?

# %% [markdown]
# ## 8. Check yourself
#
# These two questions are for practice. Put a letter in place of the question mark and run the cell again:
# it says at once whether you are right, and why.

# %% nbgrader={"grade_id": "show-c4", "locked": true}
quiz.show("c4")

# %% practice=true
answers["c4"] = "?"
quiz.explain("c4", answers["c4"])

# %% nbgrader={"grade_id": "show-q3", "locked": true}
quiz.show("q3")

# %% practice=true
answers["q3"] = "?"
quiz.explain("q3", answers["q3"])

# %% [markdown]
# The next question is **graded**, for one point. Put your letter in place of the question mark. The lines
# from `if` on are there for a question that is still open; leave them as they are. Your feedback will say
# whether you are right, and if not, what speaks against your answer.

# %% nbgrader={"grade_id": "show-g4", "locked": true}
quiz.show("g4")

# %% nbgrader={"grade_id": "answer-g4", "solution": true}
answers["g4"] = "?"
if answers["g4"] == "?":
    ### BEGIN SOLUTION
    answers["g4"] = "b"
    ### END SOLUTION

# %% nbgrader={"grade_id": "test-g4", "grade": true, "points": 0}
### Test: question g4 has an answer (0 points)
### Hint: One of the letters a, b, c and d, between quotation marks.
quiz.answered("g4", answers)

"g4: there is an answer. Your feedback will say whether it is right."

# %% nbgrader={"grade_id": "test-g4-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell compares your answer with the right one.
### BEGIN HIDDEN TESTS
### Test: the answer to question g4 (1 point)
### Hint: Read the question once more, and what speaks against your answer.
quiz.graded("g4", answers, key="b")
### END HIDDEN TESTS

# %% [markdown]
# ## 9. In your own words
#
# *Four points, graded by hand. Six to ten sentences.*
#
# A colleague says: "When the model writes, the future does not exist yet. So the causal mask does nothing,
# and I have taken it out."
#
# 1. What does the mask prevent, and why is it needed in **training**? What would the loss look like without
#    it, and what would the model write?
# 2. The colleague puts the mask back, as `~np.triu(np.ones((n, m)), k=1)`. Training works. With a cache, the
#    model still writes nonsense. What does the newest token see, and what should the mask be?

# %% [markdown] nbgrader={"grade_id": "written-mask", "grade": true, "solution": true, "points": 4}
# ### BEGIN SOLUTION
# **A model answer.** In training the whole sentence is in memory, and every position is to predict the word
# after it. That word is the input of the next position. Without the mask a position can attend to it and
# copy it. Its loss falls to nearly 0, below what anyone could reach honestly, since some words cannot be
# known beforehand. But it has learnt to copy and not to predict. When it writes there is no next word to
# copy, so what it writes is nonsense. With the mask every position sees only itself and the past, just as
# when it writes, and all positions can be trained in one pass. In the colleague's second version the top
# left corners are laid on each other. When there is one new query and m keys, row 0 of the mask shows it key
# 0 alone, so its output is the first value, whatever it asks. The newest token stands at place m - n + i:
# query i may see the keys up to i + (m - n), so the bottom right corners belong together.
#
# **Marks.**
#
# - 1 point: the mask hides later positions, so that each position predicts the next token from the past
#   only.
# - 1 point: it is needed in training since there the answers are present; without it the model copies, with
#   a loss near 0 (or: below what is possible), and then writes nonsense.
# - 1 point: with a cache the mask that is aligned at the top left shows the newest token only the first key
#   (or: only the first keys, and not its own).
# - 1 point: the remedy, an offset of m - n, the corners at the bottom right, or the places of the queries.
#
# Half a point each for the right idea without a reason. No point for "it prevents attending to padding", or
# for "it is needed to make the model generate from left to right" without saying what goes wrong in
# training.
# ### END SOLUTION

# %% [markdown]
# ## Where this shows up
#
# - **Reasoning in Alpamayo-R1.** The language model that writes the reasoning is causal, for its whole input:
#   camera tokens and prompt are read with the causal mask as well. In π0 the same tokens read each other both
#   ways. Both are sound. A model must be run with the mask that it was trained with.
# - **Action experts.** The 64 waypoints of Alpamayo-R1 read the cached prefix and each other, in both
#   directions. As blocks: the prefix, then one block of 64. A causal mask there would hide the end of a
#   manoeuvre from its beginning.
# - **A flag is not a mask.** In one common library a model with a cache got `is_causal=False`, and a causal
#   mask all the same: another part of the program had built one, since there were fewer queries than keys.
#   Your `influence` finds that in one run.
# - **Generation.** One new token needs no causal mask: all keys lie in its past. Two or more new tokens do.
#   Tests with one token at a time never see the difference.
#
# The next step is the cache itself: what it stores, what it saves, and how to show that it changes nothing.
