# %% [markdown]
# # Order: sets, sequences, and a map
#
# **After this unit you can**
#
# - say exactly what shuffling does to attention, with two words that are often mixed up, and measure it;
# - give tokens a place: with the sinusoids of the first transformer, and with rotary positions;
# - turn the polylines of a map into tokens, whatever their length and padding;
# - let road users read the map, so that neither the order of the lanes nor padding plays any part.
#
# **Time:** about 85 minutes.
# **Before you start:** the unit *attention*.
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
# ## 1. Attention, once more
#
# A map arrives as a list of lanes, in whatever order the file had them. The words of a sentence arrive in an
# order that matters. Attention serves both. What does it know about order? To find out you need one, your
# own.
#
# You wrote attention in the unit of that name. Here it is shorter: one head, and the only mask is padding,
# one flag for each key. Scores are divided by the root of the key size, padding gets a weight of exactly 0,
# and a query without any real key gets zeros.
#
# **Your task:** write `attend`. You may start from your earlier code.
#
# <details><summary>Hint 1: the idea</summary>
#
# Scores, hide the padding, softmax over the keys, average of the values. A hidden score is -inf. In a row of
# nothing but -inf, shift by 0 in place of the largest score, and do not divide by a sum of 0.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `@` treats all axes before the last two as a batch. Scores are `(..., n, m)`. `real` is `(..., m)`: it needs
# an axis for the queries in the last place but one, `real[..., None, :]`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# scores = q times k with its last two axes exchanged, divided by the root of d
# scores = -inf where not real
# top    = largest score of each row, or 0 where that is -inf
# raised = e to the power of (scores - top)
# total  = sum of each row, or 1 where that is 0
# answer = raised divided by total, times v
# ```
#
# </details>


# %% nbgrader={"grade_id": "attend", "solution": true}
def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, real: np.ndarray | None = None) -> np.ndarray:
    """The average of the values for each query, over the real keys.

    q: (..., n, d), k: (..., m, d), v: (..., m, e).
    real: (..., m) booleans, False for padding; None means that all keys are real.
    Returns (..., n, e). Where no key is real, the output is 0.
    """
    ### BEGIN SOLUTION
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    if real is not None:
        scores = np.where(real[..., None, :], scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return (raised / np.where(total > 0, total, 1.0)) @ v
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-attend", "grade": true, "points": 1}
### Test: one query and two keys, worked out by hand (0.5 points)
### Hint: The dot products are 2 log(3) and 0. With d = 4 the scores are log(3) and 0.
q = np.array([[2 * np.log(3.0), 0.0, 0.0, 0.0]])
k = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
v = np.array([[4.0, 0.0, 8.0], [0.0, 4.0, 8.0]])
check.array("attend(q, k, v)", attend(q, k, v), [[3.0, 1.0, 8.0]], axes=("query", "value"), atol=1e-6)

### Test: padding has no weight, and a scene of nothing but padding gives zeros (0.5 points)
### Hint: All scores are 0 here, so the real keys share the weight evenly. The second scene has none.
q, k = np.zeros((2, 1, 3)), np.ones((2, 3, 3))
v = np.array([[[2.0], [4.0], [1000.0]], [[1.0], [2.0], [3.0]]])
output = attend(q, k, v, np.array([[True, True, False], [False, False, False]]))
check.array("attend(q, k, v, real)", output, [[[3.0]], [[0.0]]], axes=("batch", "query", "value"), atol=1e-6)

"attend: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-attend-hidden", "grade": true, "points": 1.5}
# When your notebook is graded, this cell tests attend: more axes, padding, large scores.
### BEGIN HIDDEN TESTS
OUT = ("batch", "query", "value")


def attention_by_hand(q, k, v, valid):
    """(batch, n, e), one query after the other."""
    output = np.zeros((*q.shape[:2], v.shape[2]))
    for b, i in np.ndindex(*q.shape[:2]):
        rows = np.flatnonzero(valid[b])
        if len(rows):
            scores = np.array([np.dot(q[b, i], k[b, j]) for j in rows]) / np.sqrt(q.shape[2])
            shares = np.exp(scores - np.logaddexp.reduce(scores))
            output[b, i] = np.einsum("j,je->e", shares, v[b, rows])
    return output


def random_scene(label, n, m, d, e):
    """q, k, v for two scenes."""
    rng = check.rng(label)
    return rng.normal(size=(2, n, d)), rng.normal(size=(2, m, d)), rng.normal(size=(2, m, e))


### Test: every query has weights of its own, that sum to one over the keys (0.5 points)
### Hint: Scores have a row for each query. What do you divide them by, and along which axis do you add?
### Belief: attend-over-queries
q, k, v = random_scene("plain", n=4, m=5, d=6, e=3)
everyone = np.ones((2, 5), dtype=bool)
check.array("attend", attend(q, k, v), attention_by_hand(q, k, v, everyone), axes=OUT, atol=1e-6)

### Test: padding is nothing, whatever stands in it (0.5 points)
### Hint: Each scene has its own padding. Which score gives a weight of exactly 0?
### Belief: attend-padding-zeroed
q, k, v = random_scene("padded", n=4, m=5, d=1, e=3)
valid = np.arange(5) < np.array([[3], [4]])
v[~valid] = 1e6
for here in (valid, np.zeros_like(valid) | (np.arange(5) == 2) & np.array([[False], [True]])):
    check.array(
        "attend", attend(q, k, v, np.copy(here)), attention_by_hand(q, k, v, here), axes=OUT, atol=1e-6
    )

### Test: scores of a thousand are no problem (0.5 points)
### Hint: Take the largest score of each row away before the exponential.
### Belief: attend-without-shift
q, k, v = random_scene("large", n=4, m=5, d=4, e=3)
q, k = 1000.0 * np.round(q), np.round(2 * k)
everyone = np.ones((2, 5), dtype=bool)
check.array("attend", attend(q, k, v), attention_by_hand(q, k, v, everyone), axes=OUT, atol=1e-6)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. What shuffling does
#
# ### Spot the bug
#
# "Attention has no notion of order. If you shuffle the tokens, the output stays the same." You will often
# read sentences like this one. A colleague has turned it into a test:
#
# ```text
# assert the output for the shuffled tokens equals the output for the tokens
# ```
#
# The test fails, and the attention is right. So the sentence is wrong. What is wrong with it? The cell below
# lets five road users attend to each other, once in one order and once in another. Compare the two tables
# row by row before you read on.

# %% nbgrader={"grade_id": "demo-shuffled", "locked": true}
road_users = ["car", "bus", "van", "bike", "tram"]
user_tokens = np.random.default_rng(4).normal(size=(5, 4))
user_matrices = np.random.default_rng(8).normal(size=(3, 4, 4))


def self_attention(tokens):
    """Every token reads every token."""
    w_q, w_k, w_v = user_matrices
    return attend(tokens @ w_q, tokens @ w_k, tokens @ w_v)


new_order = np.array([2, 4, 0, 1, 3])
read_before = self_attention(user_tokens)
read_after = self_attention(user_tokens[new_order])
figure = figures.tables_side_by_side(
    [read_before, read_after],
    ["outputs, tokens as they came", "outputs, tokens shuffled"],
    [road_users, [road_users[token] for token in new_order]],
)

# %% [markdown]
# The same rows are there, but each has moved **along with its token**. There are two words for this, and
# they are not the same.
#
# - **Equivariant:** shuffle the tokens, and the outputs are shuffled in the same way. So it is with
#   self-attention.
# - **Invariant:** shuffle the tokens, and the output stays as it was. So it is with a query that does not
#   belong to the set: a car that reads the lanes of a map.
#
# **Your task:** write `shuffle_gaps`, which measures both. With the outputs before and after the shuffle it
# says how far the function is from being equivariant, and how far from being invariant. A gap of 0, up to
# rounding, means that it is.
#
# The shuffled tokens are `tokens[order]`: the token at place $i$ is now the one that was at place
# `order[i]`.
#
# <details><summary>Hint 1: the idea</summary>
#
# If the function is equivariant, the outputs after are the outputs before, taken in the new order. If it is
# invariant, they are the outputs before, as they stand. A gap is the largest difference, without its sign.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# All of it is `(n, e)`. `before[order]` puts the rows into the new order.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# first  = largest absolute difference of after and (before in the new order)
# second = largest absolute difference of after and before
# ```
#
# </details>


# %% nbgrader={"grade_id": "gaps", "solution": true}
def shuffle_gaps(before: np.ndarray, after: np.ndarray, order: np.ndarray) -> tuple[float, float]:
    """How far a function is from equivariant, and how far from invariant, under one shuffle.

    before: (n, e), its outputs for tokens. after: (n, e), its outputs for tokens[order].
    order: (n,), each of 0 ... n - 1 once.
    Returns two numbers, each the largest absolute difference: from equivariance, from invariance.
    """
    ### BEGIN SOLUTION
    moved = np.abs(after - before[order]).max()
    stayed = np.abs(after - before).max()
    return float(moved), float(stayed)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-gaps", "grade": true, "points": 0.5}
### Test: three rows that moved with their tokens, one of them a little wrong (0.5 points)
### Hint: Row 0 of after belongs to token 2. It differs from row 2 of before by 1.
before = np.array([[1.0, 0.0], [5.0, 0.0], [9.0, 0.0]])
after = np.array([[8.0, 0.0], [1.0, 0.0], [5.0, 0.0]])
gaps = check.parts(
    "shuffle_gaps", shuffle_gaps(before, after, np.array([2, 0, 1])), ("equivariance", "invariance")
)
check.array("gap from equivariance", gaps[0], 1.0, atol=1e-9)
check.array("gap from invariance", gaps[1], 7.0, atol=1e-9)

"shuffle_gaps: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-gaps-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell tests shuffle_gaps on more shuffles.
### BEGIN HIDDEN TESTS


def shuffled(label, n, e):
    """Outputs, a new order in which no token keeps its place, and no two tokens just exchange places."""
    rng = check.rng(label)
    ring = rng.permutation(n)
    order = np.empty(n, dtype=int)
    order[ring] = np.concatenate([ring[1:], ring[:1]])
    return rng.normal(size=(n, e)), order


def both_gaps(before, after, order):
    return check.parts("shuffle_gaps", shuffle_gaps(before, after, order), ("equivariance", "invariance"))


### Test: an equivariant function has no first gap, an invariant one no second (0.5 points)
### Hint: Row i after the shuffle belongs to the token that was at place order[i].
### Belief: inverse-order
before, order = shuffled("equivariant", 7, 3)
taken = np.take(before, order, axis=0)
first, second = both_gaps(before, taken, order)
check.array("gap from equivariance", first, 0.0, atol=1e-12)
check.array("gap from invariance", second, np.ptp(np.stack([taken, before]), axis=0).max(), atol=1e-9)
before, order = shuffled("invariant", 6, 2)
first, second = both_gaps(before, np.copy(before), order)
wanted = np.ptp(np.stack([np.take(before, order, axis=0), before]), axis=0).max()
check.array("gap from equivariance", first, wanted, atol=1e-9)
check.array("gap from invariance", second, 0.0, atol=1e-12)

### Test: the largest difference counts, whatever its sign and place (0.5 points)
### Hint: Take the absolute value first. Then the largest of all numbers, of all rows.
### Belief: signed-gap
before, order = shuffled("largest", 7, 3)
after = np.take(before, order, axis=0) - np.eye(7, 3, k=-4) * 2.5
first, second = both_gaps(before, after, order)
check.array("gap from equivariance", first, 2.5, atol=1e-9)
check.array("gap from invariance", second, np.ptp(np.stack([after, before]), axis=0).max(), atol=1e-9)
### END HIDDEN TESTS

# %% [markdown]
# Now measure five functions. Guess both gaps of each before you run the cell. For the last one every token
# reads itself and the tokens before it.

# %% nbgrader={"grade_id": "watch-gaps", "locked": true}
outside_query = np.random.default_rng(2).normal(size=(1, 4))
place_code = np.random.default_rng(9).normal(size=(5, 4))


def causal_attention(tokens):
    w_q, w_k, w_v = user_matrices
    return np.concatenate(
        [
            attend(tokens[place : place + 1] @ w_q, tokens[: place + 1] @ w_k, tokens[: place + 1] @ w_v)
            for place in range(len(tokens))
        ]
    )


shuffle_cases = {
    "self-attention": self_attention,
    "a query from outside": lambda tokens: np.repeat(attend(outside_query, tokens, tokens), 5, axis=0),
    "the mean of all tokens": lambda tokens: np.repeat(tokens.mean(axis=0, keepdims=True), 5, axis=0),
    "with places added": lambda tokens: self_attention(tokens + place_code),
    "causal": causal_attention,
}
print(f"{'function':24s} {'equivariant':>13s} {'invariant':>11s}   gaps")
for case, function in shuffle_cases.items():
    case_gaps = shuffle_gaps(function(user_tokens), function(user_tokens[new_order]), new_order)
    verdicts = ["yes" if gap < 1e-12 else "no" for gap in case_gaps]
    print(f"{case:24s} {verdicts[0]:>13s} {verdicts[1]:>11s}   {case_gaps[0]:.1e}  {case_gaps[1]:.1e}")

# %% [markdown]
# The second and third function give one and the same row to everyone here, so that the tables have one size.
# A row that is the same for all places is invariant, and equivariant as well.
#
# So for a *set*, attention without places is just right: the answer of a car that reads the map cannot
# depend on the file. For a *sentence* it is a disaster: "the bus follows the car" and "the car follows the
# bus" are the same set of words. Causal attention breaks the symmetry a little, for a later token sees more.
# But a query still cannot tell which of the earlier tokens came first. Sentences need places.

# %% [markdown]
# ## 3. Places by sinusoids
#
# The first transformer (Vaswani and others, 2017, section 3.5) *adds* a vector to each token that depends on
# its place alone. The vector has $d$ numbers, in pairs. Pair $i$ turns like the hand of a clock:
#
# $$\mathrm{PE}(p)_{2i} = \sin\!\left(\frac{p}{10000^{2i/d}}\right), \qquad
#   \mathrm{PE}(p)_{2i+1} = \cos\!\left(\frac{p}{10000^{2i/d}}\right)$$
#
# Pair 0 turns by one radian for each place, the next pair more slowly, the last one hardly at all. Note
# what $i$ counts: **pairs**, not columns. Sine and cosine of one pair have the same speed.
#
# **Your task:** write `sinusoids`. The places may be any whole numbers in an array of any shape: a model
# that goes on writing asks for place 1000 alone. An odd $d$ leaves half a pair over. Refuse it with a
# `ValueError` that says so.
#
# <details><summary>Hint 1: the idea</summary>
#
# There are d/2 speeds. Every place times every speed is an angle. Sines go to the even columns, cosines to
# the odd ones.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# The speeds are `(d/2,)`. `positions[..., None]` times the speeds gives angles `(..., d/2)`. The answer is
# `(..., d)`; fill `answer[..., 0::2]` and `answer[..., 1::2]`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# if d is odd: raise ValueError(...)
# speed  = 10000 to the power of minus (0, 2, 4, ..., d - 2) / d
# angle  = positions with a new last axis, times speed
# answer = an empty array (..., d): sine of angle in its even columns, cosine in its odd ones
# ```
#
# </details>


# %% nbgrader={"grade_id": "sinusoids", "solution": true}
def sinusoids(positions: np.ndarray, d: int) -> np.ndarray:
    """The position code of the first transformer: pairs of sine and cosine, side by side.

    positions: whole numbers (...,). d: how many numbers each code has, even.
    Returns (..., d). Raises ValueError when d is odd.
    """
    ### BEGIN SOLUTION
    if d % 2:
        raise ValueError(f"d must be even, since sines and cosines come in pairs; got {d}")
    rates = 10000.0 ** -(np.arange(0, d, 2) / d)
    angles = positions[..., None] * rates
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(*positions.shape, d)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-sinusoids", "grade": true, "points": 1}
### Test: places 0, 1 and 2 with four numbers each (0.5 points)
### Hint: At place 0 every angle is 0. At place 1 the two angles are 1 and 1/100.
codes = sinusoids(np.array([0, 1, 2]), 4)
table = [
    [0.0, 1.0, 0.0, 1.0],
    [0.84147098, 0.54030231, 0.00999983, 0.99995000],
    [0.90929743, -0.41614684, 0.01999867, 0.99980001],
]
check.array("sinusoids", codes, table, axes=("position", "feature"), atol=1e-7)

### Test: half a pair is refused (0.5 points)
### Hint: raise ValueError("...") when d is odd. Also check that an even d still works.
check.raises(ValueError, sinusoids, np.array([0, 1, 2]), 5)
check.array(
    "sinusoids", sinusoids(np.array([0, 0]), 2), [[0.0, 1.0], [0.0, 1.0]], axes=("position", "feature")
)

"sinusoids: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-sinusoids-hidden", "grade": true, "points": 2}
# When your notebook is graded, this cell tests sinusoids: other sizes, places far away, more axes.
### BEGIN HIDDEN TESTS


def clock_hands(positions, d):
    """Column by column, with complex numbers: e to the power of (i * angle) is cosine + i * sine."""
    columns = []
    for pair in range(d // 2):
        turned = np.exp(1j * positions / np.power(10000.0, 2 * pair / d))
        columns += [turned.imag, turned.real]
    return np.stack(columns, axis=-1)


### Test: all pairs have the right speed (0.5 points)
### Hint: Is your i the number of the pair, or that of the column?
### Belief: column-for-pair
positions = np.arange(6)
check.array("sinusoids", sinusoids(positions, 10), clock_hands(positions, 10), axes=("position", "feature"))

### Test: any place may be asked for alone (0.5 points)
### Hint: Use the numbers in positions, not the numbers of its rows.
### Belief: places-from-zero
positions = check.rng("far").integers(100, 900, size=5)
check.array("sinusoids", sinusoids(positions, 8), clock_hands(positions, 8), axes=("position", "feature"))

### Test: sine and cosine of a pair stand side by side (0.5 points)
### Hint: Column 0 is a sine, column 1 its cosine, column 2 the next sine.
### Belief: sines-then-cosines
positions = check.rng("pairs").integers(1, 60, size=4)
got = np.asarray(sinusoids(positions, 12))
lengths = got[:, 0::2] ** 2 + got[:, 1::2] ** 2
check.array(
    "sine squared plus cosine squared", lengths, np.ones((4, 6)), axes=("position", "pair"), atol=1e-6
)
check.array("sinusoids", got, clock_hands(positions, 12), axes=("position", "feature"))

### Test: places with two axes give codes with three (0.5 points)
### Hint: A new axis at the end of positions meets the speeds.
### Belief: one-row-of-places
positions = check.rng("batch").integers(0, 300, size=(3, 4))
axes = ("batch", "position", "feature")
check.array("sinusoids", sinusoids(positions, 6), clock_hands(positions, 6), axes=axes)
### END HIDDEN TESTS

# %% [markdown]
# Your codes, and what they are good for. On the left each row is a place. On the right: the dot product of
# the codes of two places, against their distance, from two starting points. The two curves lie on each
# other: **the dot product depends on the distance alone**, not on where one is.

# %% nbgrader={"grade_id": "watch-sinusoids", "locked": true}
code_table = sinusoids(np.arange(400), 64)
figure = figures.position_code(code_table[:64], {start: code_table[start : start + 200] for start in (3, 50)})
wide_codes = sinusoids(np.arange(101), 512)
print(f"length squared of a code with d = 512: {wide_codes[100] @ wide_codes[100]:.6f}, which is d / 2")
for start in (3, 50):
    print(f"place {start} with place {start + 7}: {wide_codes[start] @ wide_codes[start + 7]:.7f}")
print(f"places in one full turn of the slowest pair, d = 512: {2 * np.pi * 10000 ** (510 / 512):,.0f}")

# %% [markdown]
# Three remarks.
#
# - The paper says that the lengths of a full turn go from $2\pi$ to $10000 \cdot 2\pi$, which is 62,832. Its
#   own formula stops a little earlier: the last of 256 pairs has the exponent $510/512$, and a turn of 60,611
#   places. Formulas are to be trusted more than sentences about them.
# - Some programs put all sines first and then all cosines. That carries the same information, but weights
#   that were learned with one layout are useless with the other.
# - The paper multiplies the token's own vector by $\sqrt{d}$ before it adds the code (section 3.4). A code of
#   512 numbers has the length 16. A token's vector that is drawn with variance $1/d$ has the length 1, and
#   would drown.

# %% [markdown]
# ## 4. Rotary positions
#
# Most language models of today do not add anything. They **turn** queries and keys (Su and others, 2021,
# "RoFormer"; RoPE for short). Take the numbers of a vector in pairs, as above: columns 0 and 1, columns 2
# and 3, and so on. Pair $i$ of a token at place $p$ is turned by the angle $p \cdot 10000^{-2i/d}$:
#
# $$\begin{pmatrix} x'_{2i} \\ x'_{2i+1} \end{pmatrix} =
#   \begin{pmatrix} \cos a & -\sin a \\ \sin a & \cos a \end{pmatrix}
#   \begin{pmatrix} x_{2i} \\ x_{2i+1} \end{pmatrix}, \qquad a = p \cdot \mathrm{base}^{-2i/d}$$
#
# Why? Turn a query by the angle of its place and a key by the angle of its own. The dot product then depends
# on the *difference* of the two angles. So the score of two tokens depends on what they are and on how far
# they stand apart, and on nothing else. Values are not turned: they are what is read, and that should not
# depend on where it stood.
#
# **Your task:** write `rotate`.
#
# <details><summary>Hint 1: the idea</summary>
#
# The angles are those of your sinusoids. Split the columns into first and second of each pair, and apply the
# formula. Both results need both *old* numbers.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `x[..., 0::2]` and `x[..., 1::2]` are `(..., n, d/2)`. The angles, places as a column times speeds as a row,
# are `(n, d/2)` and broadcast over the axes in front.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# speed  = base to the power of minus (0, 2, 4, ..., d - 2) / d
# angle  = positions as a column, times speed
# a, b   = even columns of x, odd columns of x
# answer = an empty array like x
# even columns of answer = a cos(angle) - b sin(angle)
# odd columns of answer  = a sin(angle) + b cos(angle)
# ```
#
# </details>


# %% nbgrader={"grade_id": "rotate", "solution": true}
def rotate(x: np.ndarray, positions: np.ndarray, base: float = 10000.0) -> np.ndarray:
    """Rotary positions: the pairs (0, 1), (2, 3), ... of each token, turned by the angles of its place.

    x: (..., n, d), d even. positions: (n,) whole numbers.
    Returns a new array of the shape of x, and leaves x as it was.
    """
    ### BEGIN SOLUTION
    d = x.shape[-1]
    angles = positions[:, None] * base ** -(np.arange(0, d, 2) / d)  # (n, d / 2)
    cos, sin = np.cos(angles), np.sin(angles)
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-rotate", "grade": true, "points": 1}
### Test: one pair, turned by 0, 1 and 2 radians (0.5 points)
### Hint: With d = 2 the speed is 1. The vector (1, 0) at place 1 becomes (cos 1, sin 1).
turned = rotate(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0, 1, 2]))
wanted = [[1.0, 0.0], [np.cos(1.0), np.sin(1.0)], [-np.sin(2.0), np.cos(2.0)]]
check.array("rotate", turned, wanted, axes=("position", "feature"), atol=1e-7)

### Test: the second pair is a hundred times slower, with four numbers (0.5 points)
### Hint: The speeds are 1 and 10000 to the power of -2/4, which is 1/100.
turned = rotate(np.array([[0.0, 1.0, 2.0, 0.0]]), np.array([50]))
wanted = [[-np.sin(50.0), np.cos(50.0), 2 * np.cos(0.5), 2 * np.sin(0.5)]]
check.array("rotate", turned, wanted, axes=("position", "feature"), atol=1e-7)

"rotate: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-rotate-hidden", "grade": true, "points": 2.5}
# When your notebook is graded, this cell tests rotate: more pairs, heads, other bases, places far away.
### BEGIN HIDDEN TESTS
HEADS = ("batch", "head", "position", "feature")


def turned_pairs(x, positions, base=10000.0):
    """With complex numbers: a pair is one number, and turning is a multiplication."""
    d = x.shape[-1]
    pairs = x.reshape(*x.shape[:-1], d // 2, 2)
    numbers = pairs[..., 0] + 1j * pairs[..., 1]
    speeds = np.power(base, -2.0 * np.arange(d // 2) / d)
    numbers = numbers * np.exp(1j * np.multiply.outer(positions, speeds))
    return np.stack([numbers.real, numbers.imag], axis=-1).reshape(x.shape)


### Test: every pair is turned by its own angle (0.5 points)
### Hint: Which columns make a pair, and which way does a positive angle turn?
### Belief: halves-for-pairs
rng = check.rng("pairs turned")
x, positions = rng.normal(size=(2, 3, 4, 10)), np.arange(4)
check.array("rotate", rotate(x.copy(), positions), turned_pairs(x, positions), axes=HEADS)

### Test: lengths stay as they were (0.5 points)
### Hint: A turn changes no length. Are both new numbers made of the old ones?
### Belief: second-from-new-first
rng = check.rng("lengths")
x, positions = rng.normal(size=(2, 3, 5, 6)), rng.integers(1, 40, size=5)
got = np.asarray(rotate(x.copy(), positions))
check.array("lengths", np.linalg.norm(got, axis=3), np.linalg.norm(x, axis=3), axes=HEADS[:3])
check.array("rotate", got, turned_pairs(x, positions), axes=HEADS)

### Test: scores depend on the distance alone (0.5 points)
### Hint: Move query and key by the same number of places. Does their dot product stay?
### Belief: places-from-zero-again
rng = check.rng("distance")
q, k = rng.normal(size=(2, 3, 5, 8)), rng.normal(size=(2, 3, 5, 8))
places, far = np.array([4, 5, 9, 14, 20]), int(rng.integers(200, 900))
tables = []
for here in (places, places + far):
    tables.append(np.asarray(rotate(q.copy(), here)) @ np.swapaxes(rotate(k.copy(), here), 2, 3))
wanted = np.einsum("bhid,bhjd->bhij", turned_pairs(q, places), turned_pairs(k, places))
for table in tables:
    check.array("scores", table, wanted, atol=1e-6)

### Test: another base gives other speeds (0.5 points)
### Hint: Use the argument base, not the number 10000.
### Belief: base-ignored
rng = check.rng("base")
x, positions = rng.normal(size=(2, 3, 4, 8)), rng.integers(2, 90, size=4)
check.array("rotate", rotate(x.copy(), positions, base=500.0), turned_pairs(x, positions, 500.0), axes=HEADS)

### Test: rotate leaves its input as it was (0.5 points)
### Hint: x[..., 0::2] is a window onto x. Writing into it writes into x.
### Belief: rotates-in-place
rng = check.rng("input")
x, positions = rng.normal(size=(3, 4, 6)), rng.integers(1, 9, size=4)
before = np.copy(x)
check.array("rotate", rotate(x, positions), turned_pairs(before, positions), axes=HEADS[1:])
check.unchanged("x", x, before)
### END HIDDEN TESTS

# %% [markdown]
# ### Spot the bug
#
# There is a second convention: pair $i$ is made of column $i$ and column $i + d/2$, one from each half of the
# vector. Llama's published weights are used that way in many programs, with this code:
#
# ```text
# answer = x * cos + rotate_half(x) * sin
# ```
#
# where `cos` and `sin` hold the angles of all pairs twice in a row, and `rotate_half` puts minus the second
# half before the first. Both conventions are sound, if one keeps to one of them.
#
# The function below mixes them: its `rotate_half` works on neighbours, its tables are made for halves. The
# author tested it at place 0 and on the shapes. Which two tests of yours would have found it?


# %% nbgrader={"grade_id": "demo-mixed", "locked": true}
def rotate_mixed(x, positions):
    """Taken, in essence, from a port of a driving model."""
    speed = 10000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    angle = np.concatenate([np.outer(positions, speed)] * 2, axis=1)  # made for halves
    neighbours = np.stack([-x[:, 1::2], x[:, 0::2]], axis=-1).reshape(x.shape)  # made for neighbours
    return x * np.cos(angle) + neighbours * np.sin(angle)


mixed_q, mixed_k = np.random.default_rng(6).normal(size=(2, 1, 8))
for turn_name, turn in (("your rotate", rotate), ("the mixture", rotate_mixed)):
    at_zero = np.abs(turn(mixed_q, np.array([0])) - mixed_q).max()
    growth = np.linalg.norm(turn(mixed_q, np.array([10]))) / np.linalg.norm(mixed_q)
    scores_3_apart = [
        (turn(mixed_q, np.array([place + 3])) @ turn(mixed_k, np.array([place])).T).item()
        for place in (1, 20)
    ]
    print(f"{turn_name}: changes at place 0: {at_zero:.0e}, length times {growth:.3f},", end=" ")
    print(f"scores three places apart: {scores_3_apart[0]:.4f} and {scores_3_apart[1]:.4f}")

# %% [markdown]
# Lengths must stay, and scores at one distance must agree. At place 0 every rotation, right or wrong, does
# nothing at all. So never test positions at place 0 alone.

# %% [markdown]
# ## 5. A map, one token for each polyline
#
# A map is made of **polylines**: lane centres, road edges, crossings. Each is a row of points, and each point
# has some numbers: where it is, which way the lane runs, what kind of line it is. Polylines have different
# numbers of points, so short ones are padded. A model wants one vector for each polyline.
#
# The recipe of VectorNet and of MTR (two models that predict traffic) is simple:
#
# 1. send every point, on its own, through the same small network;
# 2. for each feature, take the **largest** value over the points of the polyline.
#
# The largest of several numbers does not depend on their order. (If the direction of travel matters, it must
# be one of the numbers of a point. And it is.)
#
# **Two traps.** Padding must not win the maximum, whatever stands in it, and a 0 is not harmless: real
# features may all be negative. And a polyline may be empty, nothing but padding, when a map has fewer of
# them than the array has rows. Its vector is 0.
#
# **Your task:** write `encode_polylines`. The network is
# $\mathrm{relu}(x\,w_1 + b_1)\,w_2 + b_2$ with $\mathrm{relu}(z) = \max(z, 0)$.
#
# <details><summary>Hint 1: the idea</summary>
#
# Which value can never be the largest? Put it where there is padding, after the network and before the
# maximum.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# The network works on the last axis and leaves the others alone: `(polylines, points, f)` becomes
# `(polylines, points, d)`. `real[:, :, None]` meets it. The maximum is taken over axis 1.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# features = the network, applied to points
# features = -inf where a point is padding
# answer   = the largest over the points
# answer   = 0 where a polyline has no real point
# ```
#
# </details>


# %% nbgrader={"grade_id": "polylines", "solution": true}
def encode_polylines(
    points: np.ndarray, real: np.ndarray, w1: np.ndarray, b1: np.ndarray, w2: np.ndarray, b2: np.ndarray
) -> np.ndarray:
    """One vector for each polyline: a small network on every point, then the largest over the real points.

    points: (polylines, points, f). real: (polylines, points) booleans, False for padding.
    w1: (f, h), b1: (h,), w2: (h, d), b2: (d,).
    Returns (polylines, d). A polyline without a real point gives zeros.
    """
    ### BEGIN SOLUTION
    features = np.maximum(points @ w1 + b1, 0.0) @ w2 + b2
    features = np.where(real[:, :, None], features, -np.inf)
    return np.where(real.any(axis=1, keepdims=True), features.max(axis=1), 0.0)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-polylines", "grade": true, "points": 0.5}
### Test: two polylines worked out by hand (0.5 points)
### Hint: The network turns x into (max(x, 0) - 5, -max(x, 0)). The second polyline has one real point.
points = np.array([[[1.0], [3.0], [-2.0]], [[2.0], [9.0], [9.0]]])
valid = np.array([[True, True, True], [True, False, False]])
network = np.array([[1.0]]), np.array([0.0]), np.array([[1.0, -1.0]]), np.array([-5.0, 0.0])
vectors = encode_polylines(points, valid, *network)
check.array("vectors", vectors, [[-2.0, 0.0], [-3.0, -2.0]], axes=("polyline", "feature"), atol=1e-7)

"encode_polylines: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-polylines-hidden", "grade": true, "points": 2.5}
# When your notebook is graded, this cell tests encode_polylines: other sizes, padding, empty polylines.
### BEGIN HIDDEN TESTS
LINES = ("polyline", "feature")


def small_map(label, counts, n):
    """Points, flags and a network; polyline p has counts[p] real points of n, at random places."""
    rng = check.rng(label)
    points = rng.normal(size=(len(counts), n, 4))
    valid = rng.permuted(np.arange(n) < np.array(counts)[:, None], axis=1)
    shapes = ((4, 6), (6,), (6, 5), (5,))
    return points, valid, tuple(rng.normal(size=shape) for shape in shapes)


def vectors_by_hand(points, valid, network):
    """Point by point."""
    w1, b1, w2, b2 = network
    rows = []
    for line, flags in zip(points, valid, strict=True):
        seen = [np.dot(np.clip(np.dot(point, w1) + b1, 0, None), w2) + b2 for point in line[flags]]
        rows.append(np.max(seen, axis=0) if seen else np.zeros_like(b2))
    return np.array(rows)


def compare_vectors(points, valid, network):
    got = encode_polylines(points.copy(), valid.copy(), *network)
    check.array("vectors", got, vectors_by_hand(points, valid, network), axes=LINES, atol=1e-6)


### Test: without padding, the largest over the points, feature by feature (0.5 points)
### Hint: First the network on every point, then the maximum over the axis of the points.
### Belief: mean-of-points
points, valid, network = small_map("no padding", (7, 7, 7), 7)
compare_vectors(points, valid, network)

### Test: the order of the points plays no part (0.5 points)
### Hint: Does any of your steps know the number of a point?
### Belief: first-point-only
points, valid, network = small_map("order of points", (3, 6, 4), 6)
turned = encode_polylines(points[:, ::-1].copy(), valid[:, ::-1].copy(), *network)
check.array(
    "vectors, points reversed", turned, vectors_by_hand(points, valid, network), axes=LINES, atol=1e-6
)
compare_vectors(points, valid, network)

### Test: what stands in the padding plays no part (0.5 points)
### Hint: Hide padding after the network: 0 before the network is a point like any other.
### Belief: zeros-before-network
points, valid, network = small_map("garbage", (2, 5, 1, 3), 6)
points[~valid] *= 1e4
compare_vectors(points, valid, network)

### Test: features that are all negative stay negative (0.5 points)
### Hint: Which number is below every other number? It is not 0.
### Belief: zeros-after-network
points, valid, network = small_map("negative", (2, 5, 1, 3), 6)
compare_vectors(points, valid, (*network[:3], np.full(5, -60.0)))

### Test: an empty polyline gives zeros, and disturbs no other (0.5 points)
### Hint: What is the largest of nothing but -inf?
### Belief: empty-polyline-infinite
points, valid, network = small_map("empty", (3, 0, 5), 5)
compare_vectors(points, valid, network)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Road users read the map
#
# Now both parts meet. Road users are the queries. Polylines give keys and values. Each has vectors of its
# own size, so three matrices bring them together. This is **cross-attention**: one set reads another. The
# scenes of a batch have different numbers of polylines, so there is padding again, and `real` says where.
#
# Before you write: which shuffle should leave the result alone, and which should shuffle it?
#
# **Your task:** write `read_map`. With your `attend` it is short.
#
# <details><summary>Hint 1: the idea</summary>
#
# Who asks? The road users. What is read? The polylines.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `agents @ w_q` is `(batch, agents, h)`, `polylines @ w_k` is `(batch, polylines, h)`, and
# `polylines @ w_v` is `(batch, polylines, g)`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# answer = attend, with queries from the agents, keys and values from the polylines, and real
# ```
#
# </details>


# %% nbgrader={"grade_id": "read-map", "solution": true}
def read_map(
    agents: np.ndarray,
    polylines: np.ndarray,
    real: np.ndarray,
    w_q: np.ndarray,
    w_k: np.ndarray,
    w_v: np.ndarray,
) -> np.ndarray:
    """What each road user reads from the map of its scene.

    agents: (batch, agents, a). polylines: (batch, polylines, p).
    real: (batch, polylines) booleans, False for padding.
    w_q: (a, h), w_k: (p, h), w_v: (p, g).
    Returns (batch, agents, g). In a scene without a real polyline the result is 0.
    """
    ### BEGIN SOLUTION
    return attend(agents @ w_q, polylines @ w_k, polylines @ w_v, real)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-read-map", "grade": true, "points": 0.5}
### Test: two road users and three polylines, the last of them padding (0.5 points)
### Hint: The first road user matches polyline 0, the second polyline 1, each by far.
agents = np.array([[[90.0, 0.0], [0.0, 90.0]]])
polylines = np.array([[[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]]])
identity, doubled = np.eye(2), np.array([[2.0, 0.0], [0.0, 2.0]])
read = read_map(agents, polylines, np.array([[True, True, False]]), identity, identity, doubled)
check.array("read_map", read, [[[2.0, 0.0], [0.0, 2.0]]], axes=("batch", "agent", "feature"), atol=1e-6)

"read_map: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-read-map-hidden", "grade": true, "points": 2}
# When your notebook is graded, this cell tests read_map: shuffles, padding, scenes of different size.
### BEGIN HIDDEN TESTS
READ = ("batch", "agent", "feature")


def traffic(label, lines, a=4, p=4):
    """Three agents in two scenes with lines[b] real polylines of 6, and the three matrices."""
    rng = check.rng(label)
    agents, polylines = rng.normal(size=(2, 3, a)), rng.normal(size=(2, 6, p))
    valid = np.arange(6) < np.array(lines)[:, None]
    shapes = ((a, 2), (p, 2), (p, 7))
    return agents, polylines, valid, tuple(rng.normal(size=shape) for shape in shapes)


def read_by_hand(agents, polylines, valid, matrices):
    """One agent after the other."""
    w_q, w_k, w_v = matrices
    result = np.zeros((*agents.shape[:2], w_v.shape[1]))
    for b, i in np.ndindex(*agents.shape[:2]):
        lanes = polylines[b][valid[b]]
        if len(lanes):
            scores = np.dot(np.dot(lanes, w_k), np.dot(agents[b, i], w_q)) / np.sqrt(w_q.shape[1])
            shares = np.exp(scores - np.logaddexp.reduce(scores))
            result[b, i] = np.einsum("j,jg->g", shares, np.dot(lanes, w_v))
    return result


def compare_read(agents, polylines, valid, matrices):
    got = read_map(agents.copy(), polylines.copy(), valid.copy(), *matrices)
    check.array("read_map", got, read_by_hand(agents, polylines, valid, matrices), axes=READ, atol=1e-6)


### Test: agents ask, and polylines are read (0.5 points)
### Hint: The result has a row for each agent. It is an average of polylines, seen through w_v.
### Belief: map-asks
compare_read(*traffic("who asks", (6, 6)))
compare_read(*traffic("other sizes", (6, 6), a=5, p=3))

### Test: shuffled polylines change nothing, shuffled agents shuffle the result (0.5 points)
### Hint: Shuffle the flags with the polylines. Does any step know the number of a polyline or of an agent?
### Belief: own-polyline-only
agents, polylines, valid, matrices = traffic("shuffles", (4, 5))
rng = check.rng("the shuffles")
some, other = rng.permutation(6), np.array([2, 0, 1])
wanted = read_by_hand(agents, polylines, valid, matrices)
got = read_map(agents.copy(), polylines[:, some], valid[:, some], *matrices)
check.array("read_map, polylines shuffled", got, wanted, axes=READ, atol=1e-6)
got = read_map(agents[:, other], polylines.copy(), valid.copy(), *matrices)
check.array("read_map, agents shuffled", got, wanted[:, other], axes=READ, atol=1e-6)

### Test: padded polylines are not there, even when they hold zeros (0.5 points)
### Hint: A polyline of zeros has a score of 0 with everyone, and e to the power of 0 is 1.
### Belief: zeroed-but-not-hidden
agents, polylines, valid, matrices = traffic("padding", (2, 5))
polylines[~valid] = 0.0
compare_read(agents, polylines, valid, matrices)
polylines[~valid] = 40.0
compare_read(agents, polylines, valid, matrices)

### Test: a scene without a map gives zeros, and the other scene is as it was (0.5 points)
### Hint: Your attend gives zeros where no key is real. Does real reach it?
### Belief: real-not-passed-on
compare_read(*traffic("no map", (0, 3)))
compare_read(*traffic("no map here", (4, 0)))
### END HIDDEN TESTS

# %% [markdown]
# ### Watch it work
#
# Below is a small crossing with six polylines, of different lengths. The network of your `encode_polylines`
# is set by hand here: its four features say how far a polyline reaches to the east, west, north and south.
# From these, `w_k` and `w_v` work out the middle of each polyline. Three road users look in three
# directions. Line widths and numbers are attention weights, found with your two functions.

# %% nbgrader={"grade_id": "watch-map", "locked": true}
crossing = [
    [(-9, -1), (-6, -1), (-3, -1)],  # lane from the west
    [(3, -1), (6, -1), (9, -1)],  # its other side, to the east
    [(1, -9), (1, -6), (1, -3)],  # lane from the south
    [(1, 3), (1, 5), (1, 7), (1, 9)],  # its other side, to the north
    [(9, 1), (3, 1)],  # oncoming, from the east
    [(-3, -3), (-3, 3)],  # a crossing for people, in the west
]
corner_points = np.full((8, 4, 2), 777.0)  # 777 is garbage: padding
corner_real = np.zeros((8, 4), dtype=bool)
for row, line in enumerate(crossing):
    corner_points[row, : len(line)] = line
    corner_real[row, : len(line)] = True
reach_w1 = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
lane_reach = encode_polylines(corner_points, corner_real, reach_w1, np.full(4, 10.0), np.eye(4), np.zeros(4))
# (reach to the east - reach to the west) / 2, and the same for north and south: the middle of a polyline
lane_middle = np.array([[0.5, 0.0], [-0.5, 0.0], [0.0, 0.5], [0.0, -0.5]])
look_names = {"looks north": (0.0, 1.0), "looks east": (1.0, 0.0), "looks west": (-1.0, 0.0)}
look_table = np.array(list(look_names.values()))[None]
lane_real = corner_real.any(axis=1)[None]
look_matrices = 0.5 * np.eye(2), lane_middle, lane_middle
# Values that are the rows of an identity matrix give back the weights themselves.
lane_weights = attend(0.5 * look_table[0], lane_reach @ lane_middle, np.eye(8), lane_real[0])
figure = figures.map_with_weights(crossing, lane_weights[:, :6], list(look_names))
read_places = read_map(look_table, lane_reach[None], lane_real, *look_matrices)[0]
for look, (east, north) in zip(look_names, read_places, strict=True):
    print(f"{look:12s} reads, on average, a place {east:5.1f} m to the east and {north:5.1f} m to the north")

map_order, agent_order = np.random.default_rng(1).permutation(8), np.array([1, 2, 0])
other_map = read_map(look_table, lane_reach[map_order][None], lane_real[:, map_order], *look_matrices)[0]
other_agents = read_map(look_table[:, agent_order], lane_reach[None], lane_real, *look_matrices)[0]
map_gap = shuffle_gaps(read_places, other_map, np.arange(3))[1]
agent_gap = shuffle_gaps(read_places, other_agents, agent_order)[0]
print(f"polylines shuffled: {map_gap:.0e} from invariant")
print(f"road users shuffled: {agent_gap:.0e} from equivariant")

# %% [markdown]
# **Try this:** leave the flags as they are and shuffle the features of the polylines only. Or set `real` to
# True everywhere: the two rows of padding now hold zeros, which looks harmless. Who reads them, and how
# much?

# %% [markdown]
# ## 7. Check yourself
#
# This question is for practice. Put a letter in place of the question mark and run the cell again:
# it says at once whether you are right, and why.

# %% nbgrader={"grade_id": "show-c3", "locked": true}
quiz.show("c3")

# %% practice=true
answers["c3"] = "?"
quiz.explain("c3", answers["c3"])

# %% [markdown]
# The next question is **graded**, for one point. Put your letter in place of the question mark. The lines
# from `if` on are there for a question that is still open; leave them as they are. Your feedback will say
# whether you are right, and if not, what speaks against your answer.

# %% nbgrader={"grade_id": "show-g3", "locked": true}
quiz.show("g3")

# %% nbgrader={"grade_id": "answer-g3", "solution": true}
answers["g3"] = "?"
if answers["g3"] == "?":
    ### BEGIN SOLUTION
    answers["g3"] = "d"
    ### END SOLUTION

# %% nbgrader={"grade_id": "test-g3", "grade": true, "points": 0}
### Test: question g3 has an answer (0 points)
### Hint: One of the letters a, b, c and d, between quotation marks.
quiz.answered("g3", answers)

"g3: there is an answer. Your feedback will say whether it is right."

# %% nbgrader={"grade_id": "test-g3-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell compares your answer with the right one.
### BEGIN HIDDEN TESTS
### Test: the answer to question g3 (1 point)
### Hint: Read the question once more, and what speaks against your answer.
quiz.graded("g3", answers, key="d")
### END HIDDEN TESTS

# %% [markdown]
# ## 8. In your own words
#
# *Four points, graded by hand. Six to ten sentences.*
#
# A set of map polylines is fed to attention in a random order.
#
# 1. The polylines attend to each other. What does the order do to their outputs? A car then reads the result.
#    What does the order do to what the car gets? Use the words *equivariant* and *invariant*, and say for
#    each **why** it is so.
# 2. A language model needs positions, and the map does not. Why? And where does the place of a lane come
#    from, if not from its number in the list?

# %% [markdown] nbgrader={"grade_id": "written-order", "grade": true, "solution": true, "points": 4}
# ### BEGIN SOLUTION
# **A model answer.** When the polylines attend to each other, shuffling them shuffles the outputs in the same
# way: self-attention is equivariant. The output of a polyline is computed from its own query and from a sum
# over all keys and values. Nothing in it knows the number of a token, and a sum does not depend on the order
# of its terms. So each polyline gets the same output as before, at its new place. The car is not one of the
# polylines. Its query stays the same, and it reads a weighted sum over all of them; the weights move with the
# values, so the sum is the same: what it gets is invariant. In a sentence the order carries meaning: "the
# bus follows the car" and "the car follows the bus" have the same words. Without positions they would be the
# same set. A lane's number in the file means nothing. Its place on the ground does matter, and is part of its
# features: the coordinates of its points go through the encoder into key and value.
#
# **Marks.**
#
# - 1 point: self-attention over the polylines is equivariant: the outputs move with their tokens.
# - 1 point: the car, a query from outside the set, gets an invariant result.
# - 1 point: the reason, once: each output is a sum over all tokens with weights that depend on content only,
#   and a sum has no order.
# - 1 point: order carries meaning in text and not in a list of lanes; a lane's place comes from its
#   coordinates, as features.
#
# Half a point where the two words are exchanged but the descriptions are right. No point for "the output does
# not change" without saying whose output.
# ### END SOLUTION

# %% [markdown]
# ## Where this shows up
#
# - **Prediction.** MTR gives up to 768 polylines of 20 points each to its encoder, together with the road
#   users, and lets each token read its 16 nearest neighbours. It refuses a scene in which nothing is real.
#   Your code gives zeros.
# - **Detection.** In DETR learned queries read the cells of an image. The places of the cells are added to
#   the keys and never to the values: they help to find, and are not what is found.
# - **Reasoning models.** Alpamayo-R1's language model turns queries and keys with a base of 5,000,000, so
#   that far tokens can still be told apart. A port of its action expert used 10,000, and mixed the two
#   conventions of section 4. Every shape in it was right.
# - **Padding.** A zero-filled lane that is not masked takes attention from the real ones, in every scene with
#   few lanes. Nothing crashes, and the predictions are a little worse on quiet roads.
#
# The unit *causal* turns to sequences: what a token may read when order does matter.
