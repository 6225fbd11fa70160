# %% [markdown]
# # Autograd: how a model finds out what to change
#
# **After this unit you can**
#
# - write the derivative rules of what attention is made of: product, matrix product, softmax, GELU, layer
#   norm;
# - sum a gradient back to the shape of an input that was broadcast;
# - walk a graph of operations backwards: every node once, in an order that works, with all parts added up;
# - check any rule against finite differences, and say why that needs float64.
#
# **Time:** about 90 minutes.
# **Before you start:** the unit *attention*. You need matrix products, broadcasting and the chain rule.
# **Points:** 21, of which tests give 16, a question 1 and a written answer 4.
#
# **How it works.** Write code where you see `YOUR CODE HERE`. Below each of your cells stands a check.
# Run it as often as you like: it tells you what is wrong, and says so when all is well. When your
# notebook is graded, more tests run, on inputs that you do not see. Stuck? Each task has three folded
# hints: the idea, the shapes, and almost the code.

# %% nbgrader={"grade_id": "imports", "locked": true}
import numpy as np

import minitx
from minitx import figures, kernels
from minitx.course import check, quiz

kernels.use("numpy")  # all arrays here are tiny: compiling fast kernels would take longer than running them
answers = {}  # your answers to the questions near the end

# %% [markdown]
# ## 1. One number says how good it was. What should change?
#
# A car at speed $v$ needs a distance to stop. First the driver reacts, for a time $t$. Then the car brakes,
# and that part grows with the square of the speed:
#
# $$s = v\,t + k\,v^2$$
#
# At $v = 20$ m/s, $t = 1.5$ s and $k = 0.1$ s²/m the car needs 70 m. How many metres more does it need if it
# is a little faster? The **gradient** answers this for every input at once.
#
# The figure shows the computation as a **graph**. Each box is one operation. On top is its value, found from
# left to right. Below is the gradient: by how much $s$ grows when *this* number grows by one. It is found
# from right to left.

# %% nbgrader={"grade_id": "figure-stopping", "locked": true}
figure = figures.computation_graph(
    [
        ("v", 0, 1.0, "20", "5.5"),
        ("t", 0, 2.0, "1.5", "20"),
        ("k", 0, 0.0, "0.1", "400"),
        ("v t", 1, 1.7, "30", "1"),
        ("v v", 1, 0.8, "400", "0.1"),
        ("k v v", 2, 0.4, "40", "1"),
        ("s", 3, 1.0, "70", "1"),
    ],
    [(0, 3), (1, 3), (0, 4), (0, 4), (2, 5), (4, 5), (3, 6), (5, 6)],
)

# %% [markdown]
# Read it from the right. The gradient of $s$ with respect to itself is 1. An addition hands it on as it is.
# A product hands it to each factor, times the *other* factor. The speed is used three times, so three parts
# arrive there: 1.5 from the reaction, and 2 twice from the square. **They add up**: 5.5. One m/s more costs
# 5.5 m. (Check: $t + 2kv = 1.5 + 4$.)
#
# A model works in the same way. There $s$ is the loss, and the inputs are millions of weights. Two things
# are needed:
#
# 1. a **rule** for each kind of operation: from the gradient of its output to the gradients of its inputs;
# 2. a **walk** back through the graph that calls each rule once and adds up the parts.
#
# You will write both. From here on every number is an array. `grad` is the gradient of the loss with respect
# to an operation's *output*. It has the output's shape. The gradient for an input has that *input's* shape.
# Always.

# %% [markdown]
# ## 2. Undo the broadcasting
#
# NumPy stretches arrays without being asked. In `x + b`, with `x` of shape `(2, 3)` and `b` of shape `(3,)`,
# every number of `b` is used twice, once in each row.

# %% nbgrader={"grade_id": "figure-broadcast", "locked": true}
figure = figures.broadcast_and_back()

# %% [markdown]
# What is used twice gets two parts of gradient, and parts add up. So where the forward pass **copies**, the
# backward pass **sums**. Broadcasting does two things:
#
# - it puts new axes **in front**: `(3,)` becomes `(1, 3)`, since shapes are lined up at their last axes;
# - it stretches axes of **length 1**: `(1, 3)` becomes `(2, 3)`.
#
# **Your task:** write `unbroadcast`, which takes a gradient of the output's shape back to the shape of the
# input. All your rules will use it.
#
# <details><summary>Hint 1: the idea</summary>
#
# Two sums. First over the axes that are new, so that they vanish. Then over the axes of length 1, which must
# stay, with length 1.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# The number of new axes is `grad.ndim - len(shape)`; they are the first ones. For a gradient `(4, 2, 3)` and
# the shape `(2, 1)`: sum over axis 0 to get `(2, 3)`, then over axis 1 to get `(2, 1)`. `keepdims=True` keeps
# an axis that is summed.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# new       = grad.ndim - len(shape)
# grad      = grad summed over the axes 0 .. new - 1
# stretched = the axes at which shape is 1
# answer    = grad summed over the stretched axes, which are kept
# ```
#
# `sum` takes a tuple of axes; the empty tuple sums over none.
#
# </details>


# %% nbgrader={"grade_id": "unbroadcast", "solution": true}
def unbroadcast(grad: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum a gradient over every axis along which an input of this shape was broadcast.

    grad: of the output's shape, to which `shape` can be broadcast.
    Returns an array of the shape `shape`, in grad's dtype.
    """
    ### BEGIN SOLUTION
    new = grad.ndim - len(shape)
    grad = grad.sum(axis=tuple(range(new)))
    stretched = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return grad.sum(axis=stretched, keepdims=True)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-unbroadcast", "grade": true, "points": 0.5}
### Test: back to a row and back to a column (0.5 points)
### Hint: To the shape (3,): add the two rows. To the shape (2, 1): add along each row, and keep the axis.
grad = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
check.array("unbroadcast", unbroadcast(grad, (3,)), [5.0, 7.0, 9.0], axes=("column",))
check.array("unbroadcast", unbroadcast(grad, (2, 1)), [[6.0], [15.0]], axes=("row", "column"))

"unbroadcast: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-unbroadcast-hidden", "grade": true, "points": 2}
# When your notebook is graded, this cell tests unbroadcast on more shapes.
### BEGIN HIDDEN TESTS
PLACES = ("batch", "head", "row", "column")


def summed_back(grad, shape):
    """Every number of the gradient is put where its index leads in the smaller array."""
    total = np.zeros(shape)
    for index in np.ndindex(grad.shape):
        last = index[len(index) - len(shape) :]
        total[tuple(i if size > 1 else 0 for i, size in zip(last, shape, strict=True))] += grad[index]
    return total


def compare_unbroadcast(label, pairs):
    for large, small in pairs:
        grad = check.rng(f"{label} {large} {small}").normal(size=large)
        got = unbroadcast(np.copy(grad), small)
        check.array("unbroadcast", got, summed_back(grad, small), axes=PLACES, atol=1e-6)


### Test: axes that broadcasting put in front are summed away (0.5 points)
### Hint: How many more axes has the gradient than the shape?
### Belief: broadcast-not-summed
compare_unbroadcast("front", [((4, 2, 3), (2, 3)), ((2, 4, 3, 5), (3, 5))])

### Test: a stretched axis keeps its place, with length 1 (0.5 points)
### Hint: Sum with keepdims=True over the axes at which the shape is 1.
### Belief: length-one-axes-lost
compare_unbroadcast("ones", [((4, 3, 2), (4, 1, 2)), ((5, 3), (5, 1)), ((2, 3, 4, 5), (2, 1, 1, 5))])

### Test: shapes are lined up at their last axes, and both kinds of stretching can meet (0.5 points)
### Hint: A row of four that meets a square of four by four is repeated downwards. Which axis is that?
### Belief: lined-up-at-the-left
compare_unbroadcast(
    "lined up", [((4, 4), (4,)), ((3, 3, 3), (3, 1)), ((2, 3, 4), (3, 1)), ((3, 2, 4), (1, 4))]
)

### Test: a single number, an array that was not stretched, and float32 stays float32 (0.5 points)
### Hint: The shape () has no axes, so all of the gradient's are new. And what is the dtype of your sum?
### Belief: gradient-in-float64
compare_unbroadcast("number", [((3, 4), ()), ((2, 3), (2, 3)), ((2, 5), (1, 1))])
grad = np.round(4 * check.rng("float32").normal(size=(4, 2, 3))).astype(np.float32)
before = np.copy(grad)
check.array("unbroadcast", unbroadcast(grad, (2, 1)), summed_back(before, (2, 1)), dtype=np.float32)
check.unchanged("grad", grad, before)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. The product
#
# For $y = a\,b$, number by number, each factor gets the gradient times the other factor:
#
# $$\bar a = \bar y\, b \qquad \bar b = \bar y\, a$$
#
# The bar is short for "gradient of the loss with respect to". Attention multiplies when it scales its scores
# and when it applies the gain of a norm. There one factor is often smaller and is stretched.
#
# **Your task:** write `multiply_rule`.
#
# <details><summary>Hint 1: the idea</summary>
#
# Two lines: each factor gets `grad` times the other one. Then both go through your `unbroadcast`.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `grad` has the shape of `a * b`. The first answer has a's shape, the second b's.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# da = unbroadcast(grad times b, to the shape of a)
# db = unbroadcast(grad times a, to the shape of b)
# ```
#
# </details>


# %% nbgrader={"grade_id": "multiply", "solution": true}
def multiply_rule(grad: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of a and b in y = a * b, which may broadcast.

    grad: the gradient of y. Returns (da, db), of the shapes of a and b.
    """
    ### BEGIN SOLUTION
    return unbroadcast(grad * b, a.shape), unbroadcast(grad * a, b.shape)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-multiply", "grade": true, "points": 0.5}
### Test: two products worked out by hand (0.5 points)
### Hint: da is grad times b. In the second product b is one number that meets all of a, so its parts add up.
grad, a, b = np.array([1.0, 10.0]), np.array([2.0, 3.0]), np.array([5.0, 7.0])
da, db = check.parts("multiply_rule", multiply_rule(grad, a, b), ("da", "db"))
check.array("da", da, [5.0, 70.0], axes=("column",))
check.array("db", db, [2.0, 30.0], axes=("column",))
da, db = check.parts("multiply_rule", multiply_rule(grad, a, np.array([4.0])), ("da", "db"))
check.array("da", da, [4.0, 40.0], axes=("column",))
check.array("db", db, [32.0], axes=("column",))

"multiply_rule: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-multiply-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell tests multiply_rule on more shapes.
### BEGIN HIDDEN TESTS


def exact_gradients(function, grad, *inputs):
    """For each input the gradient of sum(grad * function(inputs)), exact to the last digits.

    A step of 1e-20 along the imaginary axis needs no difference, so nothing cancels. No rule is used.
    """
    gradients = []
    for place, x in enumerate(inputs):
        slope = np.zeros(x.shape)
        for index in np.ndindex(x.shape):
            moved = [np.array(y, dtype=complex) for y in inputs]
            moved[place][index] += 1e-20j
            slope[index] = np.sum(grad * np.imag(function(*moved))) / 1e-20
        gradients.append(slope)
    return gradients


def compare_rule(name, rule, function, grad, inputs, axes, rtol=1e-5, atol=1e-7):
    """The student's gradients of two inputs against exact ones; the arrays stay as they were."""
    held = [np.copy(array) for array in (grad, *inputs)]
    got = check.parts(name, rule(grad, *inputs), ("da", "db"))
    for part, found, wanted in zip(("da", "db"), got, exact_gradients(function, *held), strict=True):
        check.array(part, found, wanted, axes=axes, rtol=rtol, atol=atol)
    for part, now, copy in zip(("grad", "a", "b"), (grad, *inputs), held, strict=True):
        check.unchanged(part, now, copy)


### Test: each factor gets the gradient times the other factor (0.5 points)
### Hint: A factor can be 0, so do not divide. And *= writes into the array that it is given.
### Belief: own-factor
rng = check.rng("factors")
grad, a, b = rng.normal(size=(3, 2, 3, 4))
a[0, 1, 2] = b[1, 0, 3] = 0.0
compare_rule("multiply_rule", multiply_rule, np.multiply, grad, (a, b), PLACES)

### Test: a factor that was stretched gets a gradient of its own shape (0.5 points)
### Hint: Which of the two factors was stretched? It can be either, or both.
### Belief: product-not-summed
for one, other in (((2, 3, 4), (4,)), ((3, 1), (2, 1, 5)), ((4, 1), (3,)), ((1,), (3, 2))):
    rng = check.rng(f"stretched {one} {other}")
    a, b = rng.normal(size=one), rng.normal(size=other)
    grad = rng.normal(size=np.broadcast_shapes(one, other))
    compare_rule("multiply_rule", multiply_rule, np.multiply, grad, (a, b), PLACES)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. The matrix product
#
# Scores are a matrix product, the weighted average of values is one, and every linear layer is one. The rule
# of $Y = A\,B$ can be found from the shapes alone. Let $A$ be $(n, k)$ and $B$ be $(k, m)$, so $\bar Y$ is
# $(n, m)$. From $\bar Y$ and $B$, what product gives $(n, k)$? There is only one:
#
# $$\bar A = \bar Y\, B^\top \qquad \bar B = A^\top\, \bar Y$$
#
# Two things make it harder in practice. There may be axes for batch and head in front, and only the **last
# two** are to be exchanged. And the weights of a linear layer are one matrix for a whole batch: NumPy
# stretches it, so its gradient must be summed.
#
# **Your task:** write `matmul_rule`. Both arrays have at least two axes.
#
# <details><summary>Hint 1: the idea</summary>
#
# The two products of the formula, with the last two axes exchanged where it says $\top$. Then `unbroadcast`,
# as before: the axes in front are stretched as in a product of numbers.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# `np.swapaxes(b, -1, -2)` turns `(batch, k, m)` into `(batch, m, k)`. `b.T` would reverse *all* axes. With
# `a` `(batch, n, k)` and `b` `(k, m)`, the second product is `(batch, k, m)`; summed it is `(k, m)`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# da = unbroadcast(grad @ (b with its last two axes exchanged), to the shape of a)
# db = unbroadcast((a with its last two axes exchanged) @ grad, to the shape of b)
# ```
#
# </details>


# %% nbgrader={"grade_id": "matmul", "solution": true}
def matmul_rule(grad: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of a and b in y = a @ b.

    a: (..., n, k). b: (..., k, m). grad: (..., n, m), the gradient of y. Axes in front may broadcast.
    Returns (da, db), of the shapes of a and b.
    """
    ### BEGIN SOLUTION
    da = grad @ np.swapaxes(b, -1, -2)
    db = np.swapaxes(a, -1, -2) @ grad
    return unbroadcast(da, a.shape), unbroadcast(db, b.shape)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-matmul", "grade": true, "points": 0.5}
### Test: a row times a matrix, worked out by hand (0.5 points)
### Hint: da = grad @ b^T. db = a^T @ grad: a column times a row.
grad, a = np.array([[1.0, 10.0, 100.0]]), np.array([[2.0, 3.0]])
b = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
da, db = check.parts("matmul_rule", matmul_rule(grad, a, b), ("da", "db"))
check.array("da", da, [[321.0, 654.0]], axes=("row", "column"))
check.array("db", db, [[2.0, 20.0, 200.0], [3.0, 30.0, 300.0]], axes=("row", "column"))

"matmul_rule: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-matmul-hidden", "grade": true, "points": 1.5}
# When your notebook is graded, this cell tests matmul_rule: squares, batches, and shared matrices.
### BEGIN HIDDEN TESTS


def compare_matmul(label, one, other):
    rng = check.rng(f"{label} {one} {other}")
    a, b = rng.normal(size=one), rng.normal(size=other)
    grad = rng.normal(size=(a @ b).shape)
    compare_rule("matmul_rule", matmul_rule, np.matmul, grad, (a, b), PLACES, atol=1e-6)


### Test: two matrices, square or not (0.5 points)
### Hint: With square matrices every order fits. Check yours with the shapes (n, k), (k, m).
### Belief: transposes-left-out
compare_matmul("square", (4, 4), (4, 4))
compare_matmul("plain", (3, 4), (4, 2))

### Test: in a batch only the last two axes are exchanged (0.5 points)
### Hint: Each pair of matrices in the batch has gradients of its own.
### Belief: all-axes-reversed
compare_matmul("cube", (3, 3, 3), (3, 3, 3))
compare_matmul("batch", (3, 2, 4), (3, 4, 5))
compare_matmul("heads", (2, 3, 4, 2), (2, 3, 2, 5))

### Test: a matrix that a whole batch shares collects from all of it (0.5 points)
### Hint: The gradient of the shared matrix has its shape. Sum, and do not average.
### Belief: shared-matrix-averaged
compare_matmul("shared right", (3, 2, 4), (4, 5))
compare_matmul("shared left", (4, 2), (3, 2, 5))
compare_matmul("grouped heads", (2, 3, 4, 2), (2, 1, 2, 5))
### END HIDDEN TESTS

# %% [markdown]
# ## 5. The softmax
#
# A score does not only move its own weight. All weights of a row share one sum, so when one grows the others
# shrink:
#
# $$\frac{\partial w_j}{\partial s_i} = w_j\,(\delta_{ij} - w_i)$$
#
# For a row of 1,000 keys this is a table of a million numbers. A rule never builds it. Multiply the table by
# the gradient, with pencil and paper, and what is left is one sum for each row:
#
# $$\bar s_i = w_i\,\Big(\bar w_i - \sum_j w_j\,\bar w_j\Big)$$
#
# ### Spot the bug
#
# The rule below looks familiar. For *one* number between 0 and 1, the sigmoid, $w(1 - w)$ is right. Before
# you run the cell: add the same number to all scores of a row, and no weight changes. What must the gradients
# of a row then add up to?


# %% nbgrader={"grade_id": "demo-diagonal", "locked": true}
def diagonal_rule(grad, weights):
    """The gradient of the scores? Only the diagonal of the table is used."""
    return grad * weights * (1 - weights)


diagonal_weights = np.array([[0.7, 0.2, 0.1]])
diagonal_grad = np.array([[1.0, 0.0, 0.0]])  # the loss grows with the first weight
diagonal_scores = diagonal_rule(diagonal_grad, diagonal_weights)
print("gradients of the scores:", diagonal_scores[0].round(3), "  their sum:", diagonal_scores.sum().round(3))

# %% [markdown]
# They must add up to 0, and do not. The rule says that the other two scores do not matter. In truth, raising
# them takes weight from the first. A model trained with such a rule learns, only badly, and nothing raises an
# error.
#
# **Your task:** write `softmax_rule`. It gets the weights, which the forward pass has computed and kept. The
# scores are not needed.
#
# <details><summary>Hint 1: the idea</summary>
#
# For each row, one number: the sum of weight times gradient. Take it from the gradients, then multiply by the
# weights.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# The row is the last axis. Keep it when you sum, so that `(..., query, 1)` meets `(..., query, key)`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# inner  = weights times grad, summed over the last axis, which is kept
# answer = weights times (grad minus inner)
# ```
#
# </details>


# %% nbgrader={"grade_id": "softmax", "solution": true}
def softmax_rule(grad: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The gradient of the scores in weights = softmax(scores), over the last axis.

    grad, weights: (..., query, key). A row of weights may be all 0, for a query that sees no key.
    Returns an array (..., query, key).
    """
    ### BEGIN SOLUTION
    inner = (weights * grad).sum(axis=-1, keepdims=True)
    return weights * (grad - inner)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-softmax", "grade": true, "points": 0.5}
### Test: one row worked out by hand (0.5 points)
### Hint: The sum of weight times gradient is 0.5 * 8 + 0.25 * 4 = 5. The first score gets 0.5 * (8 - 5).
got = softmax_rule(np.array([[8.0, 4.0, 0.0]]), np.array([[0.5, 0.25, 0.25]]))
check.array("softmax_rule", got, [[1.5, -0.25, -1.25]], axes=("query", "key"))

"softmax_rule: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-softmax-hidden", "grade": true, "points": 1.5}
# When your notebook is graded, this cell tests softmax_rule: many heads, hidden keys, large gradients.
### BEGIN HIDDEN TESTS


def softmaxed(scores):
    """The plain definition; complex numbers, too."""
    powers = np.exp(scores)
    return powers / powers.sum(axis=-1, keepdims=True)


### Test: every score of a row moves every weight of it (0.5 points)
### Hint: The sum runs over the keys of one query. Where is that axis?
### Belief: diagonal-only
for shape in ((4, 4), (2, 3, 4, 5)):
    rng = check.rng(f"rows {shape}")
    scores, grad = 2 * rng.normal(size=shape), rng.normal(size=shape)
    (wanted,) = exact_gradients(softmaxed, grad, scores)
    check.array("softmax_rule", softmax_rule(grad, softmaxed(scores)), wanted)

### Test: a hidden key gets 0, and so does a query that sees no key (0.5 points)
### Hint: Where the weight is 0 the answer is 0. If yours is NaN, you divide by something that can be 0.
### Belief: weights-made-to-sum-to-one
rng = check.rng("hidden keys")
weights, grad = softmaxed(rng.normal(size=(2, 3, 4, 5))), rng.normal(size=(2, 3, 4, 5))
weights[..., 3:] = 0.0
weights /= weights.sum(axis=-1, keepdims=True)
weights[1, :, 2] = 0.0
table = np.einsum("...j,jk->...jk", weights, np.eye(5)) - np.einsum("...j,...k->...jk", weights, weights)
wanted = np.einsum("...j,...jk->...k", grad, table)
check.array("softmax_rule", softmax_rule(grad, weights), wanted)

### Test: large gradients do no harm, float32 stays float32, the inputs stay as they were (0.5 points)
### Hint: What is the dtype after each step? And does any line write into grad or weights?
### Belief: softmax-writes-into-inputs
rng = check.rng("large gradients")
grad = (1000.0 * rng.normal(size=(3, 2, 6))).astype(np.float32)
weights = softmaxed(rng.normal(size=(3, 2, 6))).astype(np.float32)
held = np.copy(grad), np.copy(weights)
table = np.einsum("...j,jk->...jk", weights, np.eye(6)) - np.einsum("...j,...k->...jk", weights, weights)
wanted = np.einsum("...j,...jk->...k", grad, table)
check.array("softmax_rule", softmax_rule(grad, weights), wanted, rtol=1e-3, atol=1e-2, dtype=np.float32)
check.unchanged("grad", grad, held[0])
check.unchanged("weights", weights, held[1])
### END HIDDEN TESTS

# %% [markdown]
# ## 6. GELU
#
# Between two matrix products a block has a bent function. GPT-2 uses this form of **GELU**:
#
# $$y = \tfrac12\,x\,(1 + \tanh u) \qquad u = \sqrt{2/\pi}\;(x + 0.044715\,x^3)$$
#
# It is a product of $x$ and something that depends on $x$. So its derivative has two parts. In the second the
# chain rule goes through $\tanh$, whose derivative is $1 - \tanh^2 u$, and through $u$:
#
# $$\frac{dy}{dx} = \tfrac12\,(1 + \tanh u) + \tfrac12\,x\,(1 - \tanh^2 u)\,\frac{du}{dx}$$
#
# **Your task:** find $du/dx$, and write `gelu_rule`. One trap: `np.sqrt(2 / np.pi)` is a number of the kind
# `np.float64`, and it turns a float32 array into float64. `float(...)` around it helps.
#
# <details><summary>Hint 1: the idea</summary>
#
# The derivative of $x^3$ is $3x^2$. The factor in front of the bracket stays. The whole derivative is then
# multiplied by `grad`, number by number.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# Every number is on its own. All arrays have the shape of `x`. Use `np.tanh`; formulas with `np.exp` run over
# for large numbers.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# c      = root of 2 / pi, as a plain float
# t      = tanh of c (x + 0.044715 x^3)
# slope  = c (1 + 3 * 0.044715 x^2)
# answer = grad times (half of (1 + t), plus half of x (1 - t^2) slope)
# ```
#
# </details>


# %% nbgrader={"grade_id": "gelu", "solution": true}
def gelu_rule(grad: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The gradient of x in y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).

    grad and x have the same shape. Returns an array of that shape, in x's dtype.
    """
    ### BEGIN SOLUTION
    c = float(np.sqrt(2 / np.pi))
    t = np.tanh(c * (x + 0.044715 * x**3))
    slope = c * (1 + 3 * 0.044715 * x**2)
    return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * slope)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-gelu", "grade": true, "points": 0.5}
### Test: at 0 the slope is one half, far to the left it is 0, far to the right 1 (0.5 points)
### Hint: At x = 0 only the first part is left. Far away tanh is -1 or 1, and the second part is 0.
got = gelu_rule(np.array([2.0, 3.0, 4.0]), np.array([0.0, -9.0, 9.0]))
check.array("gelu_rule", got, [1.0, 0.0, 4.0], axes=("column",))
got = gelu_rule(np.array([1.0, -2.0]), np.array([1.0, 1.0]))
check.array("gelu_rule", got, [1.0829640838457826, -2.165928167691565], axes=("column",))

"gelu_rule: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-gelu-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell tests gelu_rule: many numbers, large numbers, float32.
### BEGIN HIDDEN TESTS


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


### Test: the slope of exactly this GELU, times the gradient (0.5 points)
### Hint: Go through the formula part by part: the product, tanh, the bracket with its cube.
### Belief: inner-slope-forgotten
rng = check.rng("gelu")
x, grad = 2 * rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 4, 5))
x[0, :, 0] = -2.0, 1.0, 2.0, 3.0
(wanted,) = exact_gradients(gelu, grad, x)
check.array("gelu_rule", gelu_rule(grad, x), wanted, axes=PLACES)

### Test: far from 0 nothing runs over, float32 stays float32, the inputs stay as they were (0.5 points)
### Hint: Print the dtype after each step. And if you wrote tanh with exponentials: what is exp(1000)?
### Belief: gelu-in-float64
rng = check.rng("far from 0")
far, grad = 100.0 * np.array([[-9.0, -4.0, 3.0], [5.0, -6.0, 8.0]]), rng.normal(size=(2, 3))
check.array("gelu_rule", gelu_rule(grad, far), grad * (far > 0), axes=PLACES)
x, grad = rng.normal(size=(2, 4, 3)).astype(np.float32), rng.normal(size=(2, 4, 3)).astype(np.float32)
held = np.copy(grad), np.copy(x)
(wanted,) = exact_gradients(gelu, grad, x)
check.array("gelu_rule", gelu_rule(grad, x), wanted, axes=PLACES, rtol=1e-4, atol=1e-5, dtype=np.float32)
check.unchanged("grad", grad, held[0])
check.unchanged("x", x, held[1])
### END HIDDEN TESTS

# %% [markdown]
# ### Spot the bug
#
# There are two GELUs. The original has the normal distribution $\Phi$ in it, $y = x\,\Phi(x)$, and its slope
# is $\Phi(x) + x\,\varphi(x)$. The form with $\tanh$ is close to it. A teaching library once had one in the
# forward pass and the slope of the other in its rule. Its tests compared with finite differences:
#
# $$\frac{f(x + h) - f(x - h)}{2h}$$
#
# The tests passed, for they computed in float32. The cell below checks both rules against the form with
# $\tanh$. Which line tells them apart?


# %% nbgrader={"grade_id": "demo-two-gelus", "locked": true}
def other_gelu_rule(grad, x):
    """The slope of x Phi(x): right for the other GELU. Phi comes from a sum over a fine grid."""
    grid = np.linspace(-12, 12, 240_001)
    density = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    phi = np.interp(x, grid, np.cumsum(density) * (grid[1] - grid[0]) - density * (grid[1] - grid[0]) / 2)
    return grad * (phi + x * np.interp(x, grid, density))


def tanh_gelu(x):
    return x / 2 * (1 + np.tanh(float(np.sqrt(2 / np.pi)) * (x + 0.044715 * x**3)))


gelu_points = np.linspace(-4, 4, 801)
gelu_errors = {}
print("largest difference to the finite difference   your rule   other rule")
for gelu_kind, gelu_step in ((np.float32, 1e-4), (np.float64, 1e-5)):
    points, step = gelu_points.astype(gelu_kind), gelu_kind(gelu_step)
    measured = (tanh_gelu(points + step) - tanh_gelu(points - step)) / (2 * step)
    gelu_errors[gelu_kind.__name__] = [
        np.abs(measured - rule(np.ones(801), gelu_points)).max() for rule in (gelu_rule, other_gelu_rule)
    ]
    print(
        f"  {gelu_kind.__name__}, h = {gelu_step:g}"
        + "{:26.1e}{:13.1e}".format(*gelu_errors[gelu_kind.__name__])
    )

# %% [markdown]
# In float32 the difference of two nearly equal numbers keeps three digits at best. The mistake, which is $9
# \cdot 10^{-4}$, drowns in the noise. In float64 it is more than a million times as large as the noise.
# **Check gradients in float64**, always. `minitx.check_gradients` refuses anything else.

# %% [markdown]
# ## 7. Layer norm
#
# Layer norm takes a token's vector, subtracts its mean, and divides by its spread:
#
# $$\hat x = \frac{x - \mathrm{mean}(x)}{\sigma} \qquad \sigma = \sqrt{\mathrm{var}(x) + \varepsilon}$$
#
# (A gain and a bias follow in a real layer. They are a product and a sum: you have their rules.) A number of
# $x$ acts in **three** ways: by itself, through the mean, and through the spread. Three parts of gradient:
#
# $$\bar x = \frac{1}{\sigma}\,
# \Big(\bar y - \mathrm{mean}(\bar y) - \hat x\;\mathrm{mean}(\bar y\,\hat x)\Big)$$
#
# Read it like this. Adding the same number to all of $x$ changes nothing, so the gradient may not point that
# way: its mean is taken away. Stretching $x$ changes (almost) nothing, so the part along $\hat x$ is taken
# away, too.
#
# **Your task:** write `layer_norm_rule`. The variance is the mean of the squares: divide by $d$, not by
# $d - 1$.
#
# <details><summary>Hint 1: the idea</summary>
#
# Compute $\sigma$ and $\hat x$ again, as in the forward pass. Then the formula, with its two means.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# Every mean runs over the last axis, the features of one token, and keeps it: `(..., token, 1)`.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# centred = x minus its mean
# sigma   = root of (mean of centred^2, plus eps)
# hat     = centred / sigma
# answer  = (grad - mean of grad - hat * mean of (grad * hat)) / sigma
# ```
#
# </details>


# %% nbgrader={"grade_id": "layer-norm", "solution": true}
def layer_norm_rule(grad: np.ndarray, x: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    """The gradient of x in y = (x - mean(x)) / sqrt(var(x) + eps), over the last axis.

    grad, x: (..., token, feature). Returns an array of that shape, in x's dtype.
    """
    ### BEGIN SOLUTION
    centred = x - x.mean(axis=-1, keepdims=True)
    sigma = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    hat = centred / sigma
    along = (grad * hat).mean(axis=-1, keepdims=True)
    return (grad - grad.mean(axis=-1, keepdims=True) - hat * along) / sigma
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-layer-norm", "grade": true, "points": 0.5}
### Test: two tokens worked out by hand (0.5 points)
### Hint: For the first token the mean is 3, sigma is 2, and hat is (-1, 1, -1, 1). Both means are 3.
x = np.array([[1.0, 5.0, 1.0, 5.0], [0.0, 0.0, 6.0, 6.0]])
grad = np.array([[0.0, 8.0, 0.0, 4.0], [9.0, 0.0, 0.0, 0.0]])
got = layer_norm_rule(grad, x, eps=0.0)
check.array("layer_norm_rule", got, [[0.0, 1.0, 0.0, -1.0], [1.5, -1.5, 0.0, 0.0]], axes=("token", "feature"))

"layer_norm_rule: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-layer-norm-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell tests layer_norm_rule: other sizes, small numbers, float32.
### BEGIN HIDDEN TESTS
FEATURES = ("batch", "token", "feature")


def normed(x, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + eps)


### Test: all three ways in which a feature acts: by itself, through the mean, through the spread (0.5 points)
### Hint: Two things are taken from the gradient: its mean, and the part of it that points along hat.
### Belief: spread-is-a-constant
for shape in ((2, 3, 6), (4, 4)):
    rng = check.rng(f"layer norm {shape}")
    x, grad = 3 * rng.normal(size=shape) + 1.5, rng.normal(size=shape)
    (wanted,) = exact_gradients(lambda some: normed(some, 1e-5), grad, x)
    check.array("layer_norm_rule", layer_norm_rule(grad, x), wanted, axes=FEATURES, atol=1e-6)

### Test: eps counts, equal features are no problem, float32 stays float32 (0.5 points)
### Hint: sigma is the root of the variance plus eps, here too. Without eps, equal features give 0 / 0.
### Belief: eps-left-out
rng = check.rng("eps")
x, grad = 0.5 * rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 3, 5))
x[1, 1] = 0.75
(wanted,) = exact_gradients(lambda some: normed(some, 0.25), grad, x)
check.array("layer_norm_rule", layer_norm_rule(grad, x, eps=0.25), wanted, axes=FEATURES)
x, grad = x.astype(np.float32), grad.astype(np.float32)
held = np.copy(grad), np.copy(x)
got = layer_norm_rule(grad, x, 0.25)
check.array("layer_norm_rule", got, wanted, axes=FEATURES, rtol=1e-4, atol=1e-5, dtype=np.float32)
check.unchanged("grad", grad, held[0])
check.unchanged("x", x, held[1])
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Your rules under test
#
# You have five rules. Are they right? `minitx` finds gradients in the way that you are learning here. It
# keeps one flat table of operations: a name, a forward function, a derivative rule. You can add your own
# lines to it. The cell below does, and lets `minitx.check_gradients` compare every single number of every
# gradient with a finite difference. The last line is a rule with a mistake. See what the checker says of it.

# %% nbgrader={"grade_id": "watch-check", "locked": true}
from minitx.errors import GradientError
from minitx.ops import define_joint
from minitx.tensor import apply


def softmax_of(scores):
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def layer_norm_of(x):
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


define_joint("your multiply", np.multiply, "a b", lambda grad, a, b: tuple(multiply_rule(grad, a, b)))
define_joint("your matmul", np.matmul, "a b", lambda grad, a, b: tuple(matmul_rule(grad, a, b)))
define_joint("your softmax", softmax_of, "x", lambda grad, out: (softmax_rule(grad, out),))
define_joint("your gelu", tanh_gelu, "x", lambda grad, x: (gelu_rule(grad, x),))
define_joint("your layer norm", layer_norm_of, "x", lambda grad, x: (layer_norm_rule(grad, x),))
define_joint("diagonal softmax", softmax_of, "x", lambda grad, out: (diagonal_rule(grad, out),))

check_rng = np.random.default_rng(2)
check_shapes = {
    "your multiply": [(2, 3, 4), (3, 1)],
    "your matmul": [(2, 3, 4), (4, 5)],
    "your softmax": [(2, 3, 4)],
    "your gelu": [(3, 4)],
    "your layer norm": [(3, 5)],
    "diagonal softmax": [(2, 3)],
}
check_verdicts = {}
for check_op, op_shapes in check_shapes.items():
    try:
        op_inputs = [check_rng.normal(size=shape) for shape in op_shapes]
        minitx.check_gradients(lambda *inputs, op=check_op: apply(op, *inputs), *op_inputs)
        check_verdicts[check_op] = "agrees with finite differences everywhere"
    except GradientError as problem:
        check_verdicts[check_op] = str(problem)
    print(f"{check_op + ':':18s} {check_verdicts[check_op]}")

# %% [markdown]
# ## 9. In which order?
#
# Now the walk. A node may hand its gradient on only when that gradient is **complete**: when every node that
# uses it has handed in its part. So each node must come **before** the nodes that it was made of. Such an
# order is called topological.
#
# The figure shows the right order, and why one must be careful. Going outwards from the loss, its neighbours
# first and then theirs, one would reach `x` together with `b`, and before `a`. But the long way, through `a`
# and `b`, has not handed in its part yet.

# %% nbgrader={"grade_id": "figure-order", "locked": true}
figure = figures.computation_graph(
    [
        ("input", 0, 1.0, "", "5th"),
        ("x", 1, 1.0, "", "4th"),
        ("a", 1.7, 0.2, "", "3rd"),
        ("b", 2.5, 0.2, "", "2nd"),
        ("loss", 3.2, 1.0, "", "1st"),
    ],
    [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4)],
)

# %% [markdown]
# The usual way to find the order has two parts. Go down into the parents of a node, and into theirs, as deep
# as it goes. When **all** parents of a node are done, write the node down. Read the list from its end.
#
# Three traps. Small libraries that many people read have fallen into the first two:
#
# - Visit a node once, not once for each path to it. In 25 lines of `y = y + y` there are 26 nodes and
#   33,554,432 paths.
# - Do not let the function call itself. Python allows about a thousand calls inside each other. A graph can
#   be deeper than that.
# - A node counts as done when its parents are done. Noting it as "seen" the moment it is put aside for later
#   gives a wrong order.
#
# **Your task:** write `backward_order`. The nodes are numbers, and the numbers say nothing about the order.
#
# <details><summary>Hint 1: the idea</summary>
#
# Keep a stack of your own: a list, from whose end you take. Each node is put on it twice. The first time it
# means "go into its parents", the second time "all its parents are done: write it down".
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# The stack holds pairs `(node, parents_done)`. It begins with `(root, False)`. A set holds the nodes that
# were gone into.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# until the stack is empty:
#     take (node, parents_done) from its end
#     when its parents are done: write the node down
#     else, when it is not in seen:
#         put it into seen
#         push (node, True)
#         push (parent, False) for each of its parents
# answer = what was written down, reversed
# ```
#
# </details>


# %% nbgrader={"grade_id": "order", "solution": true}
def backward_order(parents: list[list[int]], root: int) -> list[int]:
    """The order in which gradients can be handed back from `root`.

    parents[i]: the numbers of the nodes that node i was made of. One can be there twice (y + y).
    Returns every node that root depends on, and root itself, each once, and each before its parents.
    """
    ### BEGIN SOLUTION
    done, seen, stack = [], set(), [(root, False)]
    while stack:
        node, parents_done = stack.pop()
        if parents_done:
            done.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((parent, False) for parent in parents[node])
    return done[::-1]
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-order", "grade": true, "points": 0.5}
### Test: the graph that is drawn above, and the same nodes with other numbers (0.5 points)
### Hint: Only one order is right here: the loss, b, a, x, the input.
check.array("order", backward_order([[], [0], [1], [2], [3, 1]], 4), [4, 3, 2, 1, 0], axes=("step",))
check.array("order", backward_order([[4], [4, 3], [], [0], [2]], 1), [1, 3, 0, 4, 2], axes=("step",))

"backward_order: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-order-hidden", "grade": true, "points": 1.5}
# When your notebook is graded, this cell tests backward_order on more graphs, one of them very deep.
### BEGIN HIDDEN TESTS


def compare_order(parents, root):
    """More than one order can be right, so its properties are checked."""
    try:
        order = backward_order([list(some) for some in parents], root)
    except RecursionError:
        raise AssertionError(
            "backward_order: this graph is deeper than Python lets functions call."
        ) from None
    waiting, wanted = [root], {root}
    while waiting:
        for parent in parents[waiting.pop()]:
            if parent not in wanted:
                wanted.add(parent)
                waiting.append(parent)
    if not isinstance(order, list | tuple | np.ndarray):
        raise AssertionError(f"backward_order: expected a list of numbers, got {type(order).__name__}.")
    place = {int(node): step for step, node in enumerate(order)}
    if len(place) != len(order):
        raise AssertionError("backward_order: a node is in the order more than once.")
    if set(place) != wanted:
        raise AssertionError(
            "backward_order: the order must hold the nodes that root depends on, and no others."
        )
    if any(place[node] > place[parent] for node in order for parent in parents[node]):
        raise AssertionError("backward_order: a node stands after one of the nodes that it was made of.")


def renumbered(label, parents):
    """The same graph with its nodes numbered at random, and the new number of the last one."""
    new = [int(number) for number in check.rng(label).permutation(len(parents))]
    other = [[] for _ in parents]
    for node, some in enumerate(parents):
        other[new[node]] = [new[parent] for parent in some]
    return other, new[-1]


def random_parents(label, n, inputs=3):
    """A graph in which node i has two parents before it, of which one is often the one just before."""
    rng = check.rng(label)
    parents = [[] for _ in range(inputs)]
    for node in range(inputs, n):
        near, far = node - 1 - int(rng.integers(0, 2)), int(rng.integers(0, node))
        parents.append([near, far])
    return parents


### Test: no node comes before all that use it have handed in their part (0.5 points)
### Hint: Draw a node that is reached on a short way and on a long one. When is it done?
### Belief: nearest-first
compare_order(*renumbered("long and short", [[], [0], [1], [2], [0, 3], [4, 1]]))
compare_order(*renumbered("short and long", [[], [0], [1], [2], [3, 0], [1, 4]]))
for number in range(6):
    compare_order(*renumbered(f"order {number}", random_parents(f"graph {number}", 14)))

### Test: each node once, and only nodes on which the root depends (0.5 points)
### Hint: Twelve times y = y + y makes 4,096 paths, and 13 nodes. And what of a node that the loss never used?
### Belief: once-for-each-path
compare_order(*renumbered("doubled", [[], *([node, node] for node in range(12))]))
unused = [[], [0], [0, 1], [], [3, 2], [2, 1], [5, 4]]
compare_order(unused, 5)
compare_order([[], [0]], 0)

### Test: a graph as deep as ten thousand operations (0.5 points)
### Hint: A function that calls itself goes about a thousand calls deep. A list of your own has no such limit.
### Belief: calls-itself
compare_order(*renumbered("deep", [[], *([node] for node in range(10_000))]))
### END HIDDEN TESTS

# %% [markdown]
# ## 10. The backward pass
#
# Everything is there. A graph is a list of nodes. A node says what was done, with which nodes, and what its
# rule will need:
#
# | | |
# |---|---|
# | `op` | the name of the operation; `"input"` for a node that no operation made |
# | `parents` | the numbers of the nodes that it was made of |
# | `kept` | the arrays that the rule needs beside the gradient |
#
# `RULES[op](grad, *kept)` gives one gradient for each parent, in their order. Your five rules are in the
# table, and two that are so short that they are given.
#
# **Your task:** write `backward`. It starts at `order[0]`, whose gradient is given, goes through the nodes in
# their order, calls each node's rule once, and **adds up** what arrives at each node. (The order comes from
# your `backward_order`; here it is given, so that you can test the two one by one.)
#
# <details><summary>Hint 1: the idea</summary>
#
# Keep a dictionary from a node's number to its gradient so far. When a part arrives for a node that has none,
# put it in. When there is one already, put in the sum.
#
# </details>
# <details><summary>Hint 2: the shapes</summary>
#
# Each part has the shape of its parent's value: your rules saw to that. Make the sum a *new* array: with `+=`
# you write into an array which other nodes may hold, too. The rule of `"add"` gives one and the same array to
# both of its parents.
#
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ```text
# gradients = a dictionary, in which order[0] has grad
# for each node in order, unless it is an "input":
#     parts = RULES[op](gradient of the node, *kept)
#     for each parent and its part:
#         gradients[parent] = gradients[parent] + part     if there is one already
#                             part                         otherwise
# answer = gradients
# ```
#
# </details>


# %% nbgrader={"grade_id": "backward", "solution": true}
RULES = {
    "add": lambda grad: (grad, grad),  # of two arrays of the same shape
    "scale": lambda grad, factor: (grad * factor,),  # by a number that is no node
    "multiply": lambda grad, a, b: tuple(multiply_rule(grad, a, b)),
    "matmul": lambda grad, a, b: tuple(matmul_rule(grad, a, b)),
    "softmax": lambda grad, weights: (softmax_rule(grad, weights),),
    "gelu": lambda grad, x: (gelu_rule(grad, x),),
    "layer norm": lambda grad, x: (layer_norm_rule(grad, x),),
}


def backward(nodes: list[tuple], order: list[int], grad: np.ndarray) -> dict[int, np.ndarray]:
    """The gradient of every node in `order`.

    nodes[i]: (op, parents, kept) of node i, as above.
    order: starts with the node whose gradient is `grad`; each node stands before its parents.
    Returns {number: gradient}, with inputs and inner nodes alike. Changes none of its arguments.
    """
    ### BEGIN SOLUTION
    gradients = {order[0]: grad}
    for number in order:
        op, parents, kept = nodes[number]
        if op == "input":
            continue
        for parent, part in zip(parents, RULES[op](gradients[number], *kept), strict=True):
            gradients[parent] = gradients[parent] + part if parent in gradients else part
    return gradients
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-backward", "grade": true, "points": 0.5}


def as_dict(found):
    """A dictionary of another kind, such as a defaultdict, as a plain one; anything else as it is."""
    return {key: found[key] for key in found} if hasattr(found, "keys") and type(found) is not dict else found


### Test: the car of section 1: one m/s more costs 5.5 m (0.5 points)
### Hint: The speed collects 1.5 from the reaction, and 2 twice from its square.
v, t, k = np.array([20.0]), np.array([1.5]), np.array([0.1])
car = [
    ("input", [], []),  # 0: the speed v
    ("input", [], []),  # 1: the time t
    ("input", [], []),  # 2: the factor k
    ("multiply", [0, 1], [v, t]),  # 3
    ("multiply", [0, 0], [v, v]),  # 4
    ("multiply", [2, 4], [k, v * v]),  # 5
    ("add", [3, 5], []),  # 6: the distance s
]
car_order = [6, 5, 4, 3, 2, 1, 0]
slopes = as_dict(backward(car, car_order, np.array([1.0])))
slopes = check.entries("backward", slopes, [0, 1, 2, 3, 4, 5, 6])
check.array("gradients", np.ravel(slopes), [5.5, 20.0, 400.0, 1.0, 0.1, 1.0, 1.0], axes=("node",))

"backward: all checks in this cell pass."

# %% nbgrader={"grade_id": "test-backward-hidden", "grade": true, "points": 2.5}
# When your notebook is graded, this cell tests backward: larger graphs, a second run, and an attention layer.
### BEGIN HIDDEN TESTS


def as_dict(found):
    """A dictionary of another kind, such as a defaultdict, as a plain one; anything else as it is."""
    return {key: found[key] for key in found} if hasattr(found, "keys") and type(found) is not dict else found


def linear_graph(label, parents):
    """(nodes, shares): a node scales its one parent or adds its two; shares[p, i] = d node i / d node p."""
    rng = check.rng(label)
    nodes, shares = [], np.zeros((len(parents), len(parents)))
    for number, some in enumerate(parents):
        if len(some) == 1:
            factor = float(rng.uniform(0.5, 1.5) * rng.choice([-1.0, 1.0]))
            nodes.append(("scale", list(some), [factor]))
            shares[some[0], number] += factor
        else:
            nodes.append(("add" if some else "input", list(some), []))
            for parent in some:
                shares[parent, number] += 1.0
    return nodes, shares


def compare_backward(nodes, shares, order, grad):
    """The student's gradients against a system of equations: each gradient is what its users hand in."""
    start = np.zeros(len(nodes))
    start[order[0]] = 1.0
    share = np.linalg.solve(np.eye(len(nodes)) - shares, start)
    held = np.copy(grad)
    got = check.entries("backward", as_dict(backward(nodes, list(order), grad)), list(order))
    for number, found in zip(order, got, strict=True):
        check.array(f"gradient of node {number}", found, share[number] * held, axes=("row", "column"))
    check.unchanged("grad", grad, held)


def reached_backwards(parents):
    """The nodes on which the last one depends, last first: the nodes are numbered as they were made."""
    reached = {len(parents) - 1}
    for node in reversed(range(len(parents))):
        if node in reached:
            reached.update(parents[node])
    return sorted(reached, reverse=True)


### Test: what arrives from several nodes is added up (0.5 points)
### Hint: A node that is used three times gets three parts. What becomes of the first two?
### Belief: last-part-wins
parents = [[], [], [0], [0, 2], [1], [3], [4, 0], [5, 6], [2], [7, 8]]
nodes, shares = linear_graph("several", parents)
compare_backward(nodes, shares, reached_backwards(parents), check.rng("several").normal(size=(2, 3)))
parents = random_parents("larger", 12)
nodes, shares = linear_graph("larger", parents)
compare_backward(nodes, shares, reached_backwards(parents), check.rng("larger").normal(size=(2, 3)))

### Test: a node that one operation uses twice gets both parts (0.5 points)
### Hint: In y + y the parents are the same number, twice. Does your code keep two parts apart by that number?
### Belief: twins-lost
parents = [[], [0], *([node, node] for node in range(1, 13))]
nodes, shares = linear_graph("twice", parents)
compare_backward(nodes, shares, reached_backwards(parents), check.rng("twice").normal(size=(2, 3)))

### Test: an array that two nodes share is not written into (0.5 points)
### Hint: Both parents of an addition hold the very same array. What does += on one of them do to the other?
### Belief: shared-array-changed
parents = [[], [0], [0], [1], [3, 2], [4, 1]]
nodes, shares = linear_graph("shared", parents)
compare_backward(nodes, shares, reached_backwards(parents), check.rng("shared").normal(size=(3, 2)))
parents = [[], [0], [1, 0], [2, 0], [3, 0]]
nodes, shares = linear_graph("handed on", parents)
compare_backward(nodes, shares, reached_backwards(parents), check.rng("handed on").normal(size=(3, 2)))

### Test: the start is the gradient that was given, and a second run begins with nothing (0.5 points)
### Hint: The first gradient is not always 1. And nothing may be left from the run before.
### Belief: starts-with-ones
parents = [[], [], [0], [1], [2, 3], [4]]
nodes, shares = linear_graph("second run", parents)
order = reached_backwards(parents)
for number in range(3):
    compare_backward(nodes, shares, order, check.rng(f"run {number}").normal(size=(2, 2)))

### Test: through an attention layer, with your own rules (0.5 points)
### Hint: If the tests of all rules pass, look at the parts. Each belongs to the parent in its place.
### Belief: parts-exchanged
rng = check.rng("attention layer")
a, b, grad = rng.normal(size=(3, 2, 4))
product = [("input", [], []), ("input", [], []), ("multiply", [1, 0], [a, b])]
got = check.entries("backward", as_dict(backward(product, [2, 0, 1], grad)), [0, 1, 2])
check.array("gradients of the factors", np.stack(got[:2]), np.stack([grad * a, grad * b]), axes=PLACES)
x, w_q = rng.normal(size=(2, 4, 5)), rng.normal(size=(5, 3))
keys, values = rng.normal(size=(2, 3, 6)), rng.normal(size=(2, 6, 5))


def attention_layer(x, w_q, keys, values):
    return normed(x + softmaxed(0.5 * ((x @ w_q) @ keys)) @ values, 1e-5)


queries = x @ w_q
weights = softmaxed(0.5 * (queries @ keys))
layer = [
    *[("input", [], [])] * 4,
    ("matmul", [0, 1], [x, w_q]),
    ("matmul", [4, 2], [queries, keys]),
    ("scale", [5], [0.5]),
    ("softmax", [6], [weights]),
    ("matmul", [7, 3], [weights, values]),
    ("add", [0, 8], []),
    ("layer norm", [9], [x + weights @ values]),
]
grad = rng.normal(size=(2, 4, 5))
wanted = exact_gradients(attention_layer, grad, x, w_q, keys, values)
got = check.entries("backward", as_dict(backward(layer, list(range(10, -1, -1)), grad)), list(range(11)))
for number in range(4):
    check.array(f"gradient of input {number}", got[number], wanted[number], axes=PLACES, atol=1e-6)
### END HIDDEN TESTS

# %% [markdown]
# ## 11. All of it at work
#
# A car looks at six others. Of each it knows the distance, whether it drives in the same lane, and its speed.
# Which speed counts for its own braking? That of the **nearest car in its lane**. One layer of attention can
# learn to look there, if someone tells it how to change its weights.
#
# `Graph` computes forward and writes down what it does. Its `gradients` is your `backward_order`, then your
# `backward`. The cell also builds the same model with minitx, and compares the gradients of all weights.


# %% nbgrader={"grade_id": "watch-engine", "locked": true}
import minitx.functional as F
from minitx import nn, optim


class Graph:
    """Computes forward, and keeps nodes and values for the way back."""

    def __init__(self):
        self.nodes, self.values = [], []

    def put(self, value, op="input", parents=(), kept=()):
        self.nodes.append((op, list(parents), list(kept)))
        self.values.append(value)
        return len(self.nodes) - 1

    def add(self, a, b):
        return self.put(self.values[a] + self.values[b], "add", (a, b))

    def scale(self, a, factor):
        return self.put(self.values[a] * factor, "scale", (a,), (factor,))

    def multiply(self, a, b):
        factors = self.values[a], self.values[b]
        return self.put(factors[0] * factors[1], "multiply", (a, b), factors)

    def matmul(self, a, b):
        factors = self.values[a], self.values[b]
        return self.put(factors[0] @ factors[1], "matmul", (a, b), factors)

    def softmax(self, a):
        weights = softmax_of(self.values[a])
        return self.put(weights, "softmax", (a,), (weights,))

    def gelu(self, a):
        return self.put(tanh_gelu(self.values[a]), "gelu", (a,), (self.values[a],))

    def gradients(self, root, grad):
        order = backward_order([parents for _, parents, _ in self.nodes], root)
        return backward(self.nodes, order, grad)


def traffic(n_scenes, seed):
    """Cars (scenes, 6, 4): distance, lane, speed, 1; the speed asked for (scenes, 1, 1); which car has it."""
    maker = np.random.default_rng(seed)
    distance = maker.uniform(0.1, 1.0, size=(n_scenes, 6))
    lane = maker.choice([-1.0, 1.0], size=(n_scenes, 6))
    lane[:, 0] = 1.0
    speed = maker.uniform(0.0, 1.0, size=(n_scenes, 6))
    nearest = np.where(lane > 0, distance, 9.0).argmin(axis=1)
    asked = np.take_along_axis(speed, nearest[:, None], axis=1)[..., None]
    return np.stack([distance, lane, speed, np.ones_like(speed)], axis=-1), asked, nearest


def squared_error(graph, cars, asked, w_key, w_query, w_value):
    """One query reads the cars. Returns two nodes: the squared error (scenes, 1, 1) and the weights."""
    cars_across = graph.put(np.swapaxes(cars, -1, -2))  # (scenes, 4, 6)
    keys = graph.gelu(graph.matmul(w_key, cars_across))  # (scenes, d, 6)
    scores = graph.scale(graph.matmul(w_query, keys), 12**-0.5)  # (scenes, 1, 6)
    weights = graph.softmax(scores)
    values = graph.matmul(graph.put(cars), w_value)  # (scenes, 6, 1)
    miss = graph.add(graph.matmul(weights, values), graph.put(-asked))
    return graph.multiply(miss, miss), weights


def first_weights():
    maker = np.random.default_rng(0)
    return [maker.normal(size=(12, 4)), maker.normal(size=(1, 12)), maker.normal(size=(4, 1)) / 2]


cars, asked, nearest_car = traffic(200, seed=1)
first_graph = Graph()
weight_nodes = [first_graph.put(array) for array in first_weights()]
error_node, _ = squared_error(first_graph, cars, asked, *weight_nodes)
by_you = first_graph.gradients(error_node, np.full(asked.shape, 1 / len(asked)))

tensors = [minitx.Tensor(array, requires_grad=True) for array in first_weights()]
their_keys = F.gelu(tensors[0] @ minitx.Tensor(np.swapaxes(cars, -1, -2)), approximate="tanh")
their_read = F.softmax((tensors[1] @ their_keys) * 12**-0.5) @ (minitx.Tensor(cars) @ tensors[2])
their_miss = their_read - minitx.Tensor(asked)
(their_miss * their_miss).mean().backward()
engine_gaps = [np.abs(by_you[i] - tensor.grad).max() for i, tensor in zip(weight_nodes, tensors, strict=True)]
for weight_name, i, gap in zip(("w_key", "w_query", "w_value"), weight_nodes, engine_gaps, strict=True):
    print(
        f"{weight_name:8s} largest gradient {np.abs(by_you[i]).max():.4f}, apart from minitx's by {gap:.0e}"
    )

# %% [markdown]
# Now train it, for 200 steps, on your gradients. And once more with a mistake that everybody makes one day:
# the gradients of the last step are not thrown away, so each step uses the **sum** of all gradients so far.
# Adding up is right within one backward pass, and wrong from one step to the next. In PyTorch, as in minitx,
# `.grad` adds up until you call `zero_grad()`.

# %% nbgrader={"grade_id": "watch-training", "locked": true}


def train_on_yours(zero_grad, steps=200):
    parameters = [nn.Parameter(array) for array in first_weights()]
    optimizer = optim.AdamW(parameters, lr=0.1, weight_decay=0.0)
    curve = []
    for _ in range(steps):
        step_graph = Graph()
        numbers = [step_graph.put(parameter.numpy()) for parameter in parameters]
        miss_node, look_node = squared_error(step_graph, cars, asked, *numbers)
        found = step_graph.gradients(miss_node, np.full(asked.shape, 1 / len(asked)))
        for parameter, number in zip(parameters, numbers, strict=True):
            old = 0.0 if zero_grad or parameter.grad is None else parameter.grad
            parameter.grad = old + found[number]
        optimizer.step()
        curve.append(step_graph.values[miss_node].mean())
    return curve, step_graph.values[look_node][:, 0]


curve_yours, looks = train_on_yours(zero_grad=True)
curve_kept, _ = train_on_yours(zero_grad=False)
figure = figures.loss_curves(
    {"your gradients": curve_yours, "never thrown away": curve_kept}, asked.var(), "always the mean speed:"
)
print(
    "scenes in which the nearest car in the lane gets the largest weight:",
    (looks.argmax(1) == nearest_car).mean(),
)
print("\nscene 0    distance   own lane   weight")
for car, look in zip(cars[0], looks[0], strict=True):
    print(f"{car[0]:19.2f}{'yes' if car[1] > 0 else 'no':>11s}{look:9.3f}")

# %% [markdown]
# Nobody told the layer what "nearest" means. It had nothing but the error of a speed, and your gradients.
#
# One more use of the graph is to **cut** it. A model that drives may read what a language model has computed.
# Should its errors change the language model, too? If not, put the value in anew, as an input: that is called
# *detach*. The walk ends there. The cell counts on `backward_order` for that.

# %% nbgrader={"grade_id": "watch-detach", "locked": true}
cut_sizes = {}
for detached in (False, True):
    cut = Graph()
    maker = np.random.default_rng(8)
    prefix, w_prefix = cut.put(maker.normal(size=(5, 4))), cut.put(maker.normal(size=(4, 1)))
    cached = cut.matmul(prefix, w_prefix)  # the keys of five tokens, from the language model
    if detached:
        cached = cut.put(cut.values[cached])
    w_expert = cut.put(maker.normal(size=(3, 5)))
    answer = cut.matmul(w_expert, cut.gelu(cached))
    reached = cut.gradients(answer, np.ones((3, 1)))
    cut_sizes[detached] = [
        f"{np.abs(reached[some]).max():.3f}" if some in reached else "none" for some in (w_expert, w_prefix)
    ]
    print("detached: " if detached else "connected:", end=" ")
    print("gradient of the expert: {}, of the language model: {}".format(*cut_sizes[detached]))

# %% [markdown]
# **Try this:** write `gradients[parent] = part` in your `backward`, so that the last part wins. Which of the
# gradients in this section are wrong then, and by how much? Does the training show it?

# %% [markdown]
# ## 12. Check yourself
#
# This question is **graded**, for one point. Put your letter in place of the question mark. The lines from
# `if` on are there for a question that is still open; leave them as they are. Your feedback will say whether
# you are right, and if not, what speaks against your answer.

# %% nbgrader={"grade_id": "show-g7", "locked": true}
quiz.show("g7")

# %% nbgrader={"grade_id": "answer-g7", "solution": true}
answers["g7"] = "?"
if answers["g7"] == "?":
    ### BEGIN SOLUTION
    answers["g7"] = "c"
    ### END SOLUTION

# %% nbgrader={"grade_id": "test-g7", "grade": true, "points": 0}
### Test: question g7 has an answer (0 points)
### Hint: One of the letters a, b, c and d, between quotation marks.
quiz.answered("g7", answers)

"g7: there is an answer. Your feedback will say whether it is right."

# %% nbgrader={"grade_id": "test-g7-hidden", "grade": true, "points": 1}
# When your notebook is graded, this cell compares your answer with the right one.
### BEGIN HIDDEN TESTS
### Test: the answer to question g7 (1 point)
### Hint: Read the question once more, and what speaks against your answer.
quiz.graded("g7", answers, key="c")
### END HIDDEN TESTS

# %% [markdown]
# ## 13. In your own words
#
# *Four points, graded by hand. Six to ten sentences.*
#
# A colleague has written a backward pass with the line `gradients[parent] = part`, and says: "My network of
# ten linear layers, one after the other, trains perfectly. And my rules are checked: I compared each with
# finite differences, in float32, and allowed an error of one percent."
#
# 1. Why is the network of ten layers no test of that line? Name a part of a Transformer block where it goes
#    wrong, and say what comes out there.
# 2. What can such a check of the rules miss, and why? How should the colleague check them?

# %% [markdown] nbgrader={"grade_id": "written-backward", "grade": true, "solution": true, "points": 4}
# ### BEGIN SOLUTION
# **A model answer.** In a chain of layers every result is used by exactly one other operation, so exactly one
# part of gradient arrives at each node, and writing it down is the same as adding it to nothing. In a
# Transformer block many results are used more than once. With a residual connection x goes into the sublayer
# and past it. Two parts arrive at x, one straight from the addition and one through the sublayer, and the
# gradient is their sum. With the colleague's line the one that arrives last replaces the other, so the
# gradient lacks either the way around or the whole sublayer. (The same holds for the input of attention,
# which makes queries, keys and values: three parts.) No error is raised and the loss may still fall. A finite
# difference divides the small difference of two nearly equal numbers by a small step. In float32 the numbers
# have about seven digits, so the quotient has about three, and the tolerance must be so wide that a mistake
# of a thousandth goes through, such as the slope of one GELU with the values of the other. In float64 the
# difference is right to eight or nine digits. So check in float64, with a tolerance of 1e-5 or less, every
# number of every gradient, on shapes that broadcast and are not square.
#
# **Marks.**
#
# - 1 point: in a chain each node is used once, so there is only one part and nothing to add.
# - 1 point: a place where a value is used several times (residual connection; x for queries, keys and values;
#   tied weights), and that a part of the gradient is lost there.
# - 1 point: in float32 the rounding of the difference, divided by the small step, hides small mistakes (or:
#   only about three digits are left).
# - 1 point: check in float64, with a small tolerance.
#
# Half a point each for the right idea without a reason. No point for "the gradients explode", or for "use a
# smaller step" in float32, which makes the noise larger.
# ### END SOLUTION

# %% [markdown]
# ## Where this shows up
#
# - **Training the action expert.** In the published code that fine-tunes Alpamayo-R1, the action expert reads
#   the cached keys and values of a language model, and every one of them is detached. The errors of the
#   trajectory train the expert alone. π0 does not cut: its language model learns from the actions, too.
# - **FlashAttention.** Your `softmax_rule` needs one number for each query, the sum of weight times gradient.
#   It equals the sum of output times its gradient, so the backward pass never needs the whole table of
#   weights at once. It computes the weights again, block by block.
# - **Memory.** `kept` is why training needs so much more memory than driving: every layer's arrays wait for
#   the way back. Inference keeps nothing of this. That is what `no_grad` is for.
# - **A query that sees nothing.** Where no lane or car is real, all weights of a row are 0, and your rule
#   gives 0. Had the softmax given NaN there, NaN times 0 would have spread to every weight before it.
#
# Next you put the parts together, and train a whole GPT.
