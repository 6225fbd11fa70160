"""Wrong answers that students really write, each with the belief behind it.

Every entry is a whole solution cell. It goes wrong in a way of its own: no two entries give the same
numbers on all inputs of the tests, so a submission that behaves like one of them can be told its name.
"""


# %% broadcast-not-summed
# belief: NumPy will make the shapes fit again.
# advice: The gradient of an input always has that input's shape. Which axes did broadcasting add, and what
#   becomes of the many parts of one number?
# replaces: unbroadcast
# caught by: axes that broadcasting put in front are summed away
def unbroadcast(grad, shape):
    return grad


# %% front-axes-only
# belief: Broadcasting means new axes in front, and nothing else.
# advice: An axis of length 1 is stretched, too. What is the shape of your answer for the shape (2, 1)?
# replaces: unbroadcast
# caught by: a stretched axis keeps its place, with length 1
def unbroadcast(grad, shape):
    return grad.sum(axis=tuple(range(grad.ndim - len(shape))))


# %% length-one-axes-only
# belief: Both arrays have the same number of axes.
# advice: A bias of shape (3,) meets x of shape (2, 3): it gets a new axis in front. Where does that go on the
#   way back?
# replaces: unbroadcast
# caught by: axes that broadcasting put in front are summed away
def unbroadcast(grad, shape):
    stretched = tuple(axis for axis, size in enumerate(shape) if size == 1 and axis < grad.ndim)
    return grad.sum(axis=stretched, keepdims=True)


# %% length-one-axes-lost
# belief: What is summed is gone.
# advice: The input has an axis of length 1 there, so its gradient has one, too. Which option of sum keeps it?
# replaces: unbroadcast
# caught by: a stretched axis keeps its place, with length 1
def unbroadcast(grad, shape):
    grad = grad.sum(axis=tuple(range(grad.ndim - len(shape))))
    return grad.sum(axis=tuple(axis for axis, size in enumerate(shape) if size == 1))


# %% parts-averaged
# belief: A number that is used many times gets the average of its gradients.
# advice: If a bias moves every row of the output, the loss changes by all those changes together. Add.
# replaces: unbroadcast
# caught by: axes that broadcasting put in front are summed away
def unbroadcast(grad, shape):
    grad = grad.mean(axis=tuple(range(grad.ndim - len(shape))))
    return grad.mean(axis=tuple(axis for axis, size in enumerate(shape) if size == 1), keepdims=True)


# %% first-copy-only
# belief: The copies are equal, so one of them is enough.
# advice: The copies of the input are equal. Their gradients are not: each copy went into another number of
#   the output.
# replaces: unbroadcast
# caught by: axes that broadcasting put in front are summed away
def unbroadcast(grad, shape):
    while grad.ndim > len(shape):
        grad = grad[0]
    return grad[tuple(slice(0, 1) if size == 1 else slice(None) for size in shape)]


# %% reshaped-and-summed
# belief: A reshape to the wanted shape puts every number in its place.
# advice: reshape keeps the numbers in their order in memory and knows nothing of rows and columns. For the
#   shape (5, 1), which numbers of the gradient belong together?
# replaces: unbroadcast
# caught by: a stretched axis keeps its place, with length 1
def unbroadcast(grad, shape):
    return grad.reshape(-1, *shape).sum(axis=0)


# %% lined-up-at-the-left
# belief: Shapes are lined up from the first axis on.
# advice: NumPy lines shapes up at their last axes. A row of four that meets a table of four by four stands
#   beside its columns, not its rows.
# replaces: unbroadcast
# caught by: shapes are lined up at their last axes, and both kinds of stretching can meet
def unbroadcast(grad, shape):
    grad = grad.sum(axis=tuple(range(len(shape), grad.ndim)))
    return grad.sum(axis=tuple(axis for axis, size in enumerate(shape) if size == 1), keepdims=True)


# %% total-everywhere
# belief: The gradient of a small input is the sum of all.
# advice: Each number of the input collects from the places where it was used, and only from those.
# replaces: unbroadcast
# caught by: axes that broadcasting put in front are summed away
def unbroadcast(grad, shape):
    return grad if grad.shape == tuple(shape) else np.full(shape, grad.sum())


# %% gradient-in-float64
# belief: More digits never do harm.
# advice: A float32 model with float64 gradients takes twice the memory, and its next product is in float64,
#   too. float32 in, float32 out.
# replaces: unbroadcast
# caught by: a single number, an array that was not stretched, and float32 stays float32
def unbroadcast(grad, shape):
    total = np.zeros(shape)
    front = grad.ndim - len(shape)
    for index in np.ndindex(grad.shape):
        total[tuple(i if size > 1 else 0 for i, size in zip(index[front:], shape, strict=True))] += grad[
            index
        ]
    return total


# %% own-factor
# belief: Each factor's gradient is the gradient times that factor.
# advice: If b is 0, does a matter to the product? The slope in the direction of a is the other factor.
# replaces: multiply
# caught by: each factor gets the gradient times the other factor
def multiply_rule(grad, a, b):
    return unbroadcast(grad * a, a.shape), unbroadcast(grad * b, b.shape)


# %% gradient-left-out
# belief: The derivative of a b is b, and that is all.
# advice: That is how the product changes. The loss changes by as much times grad: that is the chain rule.
# replaces: multiply
# caught by: each factor gets the gradient times the other factor
def multiply_rule(grad, a, b):
    one = np.ones_like(grad)
    return unbroadcast(one * b, a.shape), unbroadcast(one * a, b.shape)


# %% product-like-a-sum
# belief: A rule hands the gradient on to both inputs.
# advice: That is the rule of an addition. With b = 0, changing a does not change the product at all.
# replaces: multiply
# caught by: each factor gets the gradient times the other factor
def multiply_rule(grad, a, b):
    return unbroadcast(grad, a.shape), unbroadcast(grad, b.shape)


# %% factor-divided-out
# belief: The other factor is the product divided by this one.
# advice: You have both factors, so there is no need to divide. What does your rule give where a factor is 0?
# replaces: multiply
# caught by: each factor gets the gradient times the other factor
def multiply_rule(grad, a, b):
    y = a * b
    return unbroadcast(grad * y / a, a.shape), unbroadcast(grad * y / b, b.shape)


# %% product-not-summed
# belief: Broadcasting matters in the forward pass only.
# advice: A factor that was stretched needs its parts added up. You have a function for that.
# replaces: multiply
# caught by: a factor that was stretched gets a gradient of its own shape
def multiply_rule(grad, a, b):
    return grad * b, grad * a


# %% only-b-is-stretched
# belief: The second factor is the small one.
# advice: 0.5 * x has the small one in front, and a column times a row stretches both. Sum for both factors.
# replaces: multiply
# caught by: a factor that was stretched gets a gradient of its own shape
def multiply_rule(grad, a, b):
    return grad * b, unbroadcast(grad * a, b.shape)


# %% summed-before-multiplied
# belief: It is all the same whether one sums first or multiplies first.
# advice: Each copy of a met another number of b. Multiply while every copy still has its own, then sum.
# replaces: multiply
# caught by: a factor that was stretched gets a gradient of its own shape
def multiply_rule(grad, a, b):
    da = unbroadcast(grad, a.shape) * unbroadcast(np.broadcast_to(b, grad.shape), a.shape)
    db = unbroadcast(grad, b.shape) * unbroadcast(np.broadcast_to(a, grad.shape), b.shape)
    if a.shape == grad.shape:
        da = grad * b
    if b.shape == grad.shape:
        db = grad * a
    return da, db


# %% product-gradients-exchanged
# belief: The order of the two answers does not matter.
# advice: The first gradient belongs to a and has a's shape. What comes first in your return line?
# replaces: multiply
# caught by: a factor that was stretched gets a gradient of its own shape
def multiply_rule(grad, a, b):
    return unbroadcast(grad * a, b.shape), unbroadcast(grad * b, a.shape)


# %% gradient-changed-on-the-way
# belief: grad *= b saves memory.
# advice: *= writes into the array that was given. Your second line reads what the first has left there, and
#   so does every other rule that holds the same array.
# replaces: multiply
# caught by: each factor gets the gradient times the other factor
def multiply_rule(grad, a, b):
    grad *= b
    da = unbroadcast(grad, a.shape)
    grad *= a
    return da, unbroadcast(grad, b.shape)


# %% transposes-left-out
# belief: The rule is that of the product, with @ in place of *.
# advice: Check the shapes: (n, m) @ (k, m) does not fit. Which of the two must be turned?
# replaces: matmul
# caught by: two matrices, square or not
def matmul_rule(grad, a, b):
    return unbroadcast(grad @ b, a.shape), unbroadcast(a @ grad, b.shape)


# %% order-of-factors-exchanged
# belief: Matrices may change places in a product.
# advice: b^T @ grad fits by luck when both are square. From (n, m) and (k, m), which product is (n, k)?
# replaces: matmul
# caught by: two matrices, square or not
def matmul_rule(grad, a, b):
    da = np.swapaxes(b, -1, -2) @ grad
    db = grad @ np.swapaxes(a, -1, -2)
    return unbroadcast(da, a.shape), unbroadcast(db, b.shape)


# %% reshape-as-transpose
# belief: A reshape to (m, k) is the transpose.
# advice: reshape leaves the numbers in their order in memory. Print a small matrix, its reshape and its
#   transpose.
# replaces: matmul
# caught by: two matrices, square or not
def matmul_rule(grad, a, b):
    da = grad @ b.reshape(*b.shape[:-2], b.shape[-1], b.shape[-2])
    db = a.reshape(*a.shape[:-2], a.shape[-1], a.shape[-2]) @ grad
    return unbroadcast(da, a.shape), unbroadcast(db, b.shape)


# %% all-axes-reversed
# belief: .T is the transpose.
# advice: With more than two axes .T turns all of them round, the batch as well. Only the last two belong to
#   the matrix.
# replaces: matmul
# caught by: in a batch only the last two axes are exchanged
def matmul_rule(grad, a, b):
    return unbroadcast(grad @ b.T, a.shape), unbroadcast(a.T @ grad, b.shape)


# %% shared-matrix-not-summed
# belief: The gradients of a matrix product have the right shapes by themselves.
# advice: They have, if nothing was stretched. What is the shape of db when one matrix meets a whole batch?
# replaces: matmul
# caught by: a matrix that a whole batch shares collects from all of it
def matmul_rule(grad, a, b):
    return grad @ np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2) @ grad


# %% shared-matrix-averaged
# belief: The gradient of a batch is the mean over the batch.
# advice: If a loss is a mean, grad already holds the factor. The rule of a product adds up.
# replaces: matmul
# caught by: a matrix that a whole batch shares collects from all of it
def matmul_rule(grad, a, b):
    da = grad @ np.swapaxes(b, -1, -2)
    db = np.swapaxes(a, -1, -2) @ grad
    return (
        unbroadcast(da, a.shape) * (a.size / da.size),
        unbroadcast(db, b.shape) * (b.size / db.size),
    )


# %% batch-of-one
# belief: All elements of a batch give the same gradient.
# advice: Each element of the batch has its own. Those of a shared matrix are added up, not picked from.
# replaces: matmul
# caught by: a matrix that a whole batch shares collects from all of it
def matmul_rule(grad, a, b):
    da = grad @ np.swapaxes(b, -1, -2)
    db = np.swapaxes(a, -1, -2) @ grad
    while da.ndim > a.ndim:
        da = da[0]
    while db.ndim > b.ndim:
        db = db[0]
    return unbroadcast(da, a.shape), unbroadcast(db, b.shape)


# %% matmul-gradients-exchanged
# belief: First comes the gradient of the second matrix.
# advice: (da, db): in the order of the inputs. With square matrices no shape tells you.
# replaces: matmul
# caught by: two matrices, square or not
def matmul_rule(grad, a, b):
    da = grad @ np.swapaxes(b, -1, -2)
    db = np.swapaxes(a, -1, -2) @ grad
    return unbroadcast(db, b.shape), unbroadcast(da, a.shape)


# %% diagonal-only
# belief: The slope of the softmax is w (1 - w), like that of the sigmoid.
# advice: Each score also moves the other weights of its row. Do the gradients of a row add up to 0?
# replaces: softmax
# caught by: every score of a row moves every weight of it
def softmax_rule(grad, weights):
    return grad * weights * (1 - weights)


# %% weights-times-gradient
# belief: The slope of e^s is e^s, so the rule is weight times gradient.
# advice: That is the top of the fraction. The bottom, the sum of the row, changes as well: what does it take
#   away?
# replaces: softmax
# caught by: every score of a row moves every weight of it
def softmax_rule(grad, weights):
    return weights * grad


# %% plain-mean-taken-away
# belief: From each gradient the mean of its row is taken away.
# advice: Not the plain mean: an average in which each key counts with its weight.
# replaces: softmax
# caught by: every score of a row moves every weight of it
def softmax_rule(grad, weights):
    return weights * (grad - grad.mean(axis=-1, keepdims=True))


# %% plain-sum-taken-away
# belief: From each gradient the sum of its row is taken away.
# advice: The sum is over weight times gradient. With equal gradients in a row, what should come out?
# replaces: softmax
# caught by: every score of a row moves every weight of it
def softmax_rule(grad, weights):
    return weights * (grad - grad.sum(axis=-1, keepdims=True))


# %% log-softmax-rule
# belief: The rule is gradient minus weight times sum of gradients.
# advice: That is the rule of the logarithm of the softmax, which the cross-entropy uses. Here the weights
#   themselves are the output.
# replaces: softmax
# caught by: every score of a row moves every weight of it
def softmax_rule(grad, weights):
    return grad - weights * grad.sum(axis=-1, keepdims=True)


# %% sign-turned
# belief: The gradient points downhill.
# advice: The optimiser goes downhill. The gradient says by how much the loss grows. Which of the two is
#   subtracted?
# replaces: softmax
# caught by: every score of a row moves every weight of it
def softmax_rule(grad, weights):
    return weights * ((weights * grad).sum(axis=-1, keepdims=True) - grad)


# %% sum-over-queries
# belief: The sum runs over the queries.
# advice: Which axis did the softmax make sum to 1? Along that one the scores are tied together.
# replaces: softmax
# caught by: every score of a row moves every weight of it
def softmax_rule(grad, weights):
    return weights * (grad - (weights * grad).sum(axis=-2, keepdims=True))


# %% sum-over-everything
# belief: There is one sum for the whole table.
# advice: Each query has a softmax of its own, so each row has a sum of its own.
# replaces: softmax
# caught by: every score of a row moves every weight of it
def softmax_rule(grad, weights):
    return weights * (grad - (weights * grad).sum())


# %% axis-of-the-sum-lost
# belief: NumPy knows which row a sum belongs to.
# advice: Without keepdims the sums are (..., query), and NumPy lines them up with the keys. With as many
#   queries as keys it does not complain.
# replaces: softmax
# caught by: every score of a row moves every weight of it
def softmax_rule(grad, weights):
    return weights * (grad - (weights * grad).sum(axis=-1))


# %% softmax-of-the-weights
# belief: The rule gets the scores and has to compute the weights.
# advice: The rule gets the weights. Softmax of the weights is something else.
# replaces: softmax
# caught by: every score of a row moves every weight of it
def softmax_rule(grad, weights):
    powers = np.exp(weights - weights.max(axis=-1, keepdims=True))
    again = powers / powers.sum(axis=-1, keepdims=True)
    return again * (grad - (again * grad).sum(axis=-1, keepdims=True))


# %% weights-made-to-sum-to-one
# belief: To be safe, make the weights of each row sum to 1 first.
# advice: A query that sees no key has only zeros. What is 0 divided by 0?
# replaces: softmax
# caught by: a hidden key gets 0, and so does a query that sees no key
def softmax_rule(grad, weights):
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights * (grad - (weights * grad).sum(axis=-1, keepdims=True))


# %% softmax-writes-into-inputs
# belief: grad -= inner saves memory.
# advice: grad belongs to the caller, who may hand it to another rule as well. Make a new array.
# replaces: softmax
# caught by: large gradients do no harm, float32 stays float32, the inputs stay as they were
def softmax_rule(grad, weights):
    grad -= (weights * grad).sum(axis=-1, keepdims=True)
    grad *= weights
    return grad


# %% inner-slope-forgotten
# belief: The derivative of tanh(u) is 1 - tanh(u)^2.
# advice: With respect to u. But you are asked for x: what is du/dx?
# replaces: gelu
# caught by: the slope of exactly this GELU, times the gradient
def gelu_rule(grad, x):
    t = np.tanh(float(np.sqrt(2 / np.pi)) * (x + 0.044715 * x**3))
    return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t**2))


# %% second-factor-is-constant
# belief: GELU is x times a gate, so the slope is the gate.
# advice: The gate depends on x, too. A product has two parts: where is the second?
# replaces: gelu
# caught by: the slope of exactly this GELU, times the gradient
def gelu_rule(grad, x):
    t = np.tanh(float(np.sqrt(2 / np.pi)) * (x + 0.044715 * x**3))
    return grad * 0.5 * (1 + t)


# %% tanh-not-squared
# belief: The derivative of tanh is 1 - tanh.
# advice: At u = 0 that is 1, and far to the left it would be 2. It should be 0 there.
# replaces: gelu
# caught by: the slope of exactly this GELU, times the gradient
def gelu_rule(grad, x):
    c = float(np.sqrt(2 / np.pi))
    t = np.tanh(c * (x + 0.044715 * x**3))
    return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t) * c * (1 + 3 * 0.044715 * x**2))


# %% cube-without-three
# belief: The derivative of x^3 is x^2.
# advice: It is 3 x^2.
# replaces: gelu
# caught by: the slope of exactly this GELU, times the gradient
def gelu_rule(grad, x):
    c = float(np.sqrt(2 / np.pi))
    t = np.tanh(c * (x + 0.044715 * x**3))
    return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * c * (1 + 0.044715 * x**2))


# %% outer-slope-at-x
# belief: The derivative of tanh is taken at x.
# advice: The chain rule takes it at u, the number that went into tanh.
# replaces: gelu
# caught by: the slope of exactly this GELU, times the gradient
def gelu_rule(grad, x):
    c = float(np.sqrt(2 / np.pi))
    t = np.tanh(c * (x + 0.044715 * x**3))
    return grad * (0.5 * (1 + t) + 0.5 * x * (1 - np.tanh(x) ** 2) * c * (1 + 3 * 0.044715 * x**2))


# %% slope-of-the-other-gelu
# belief: The two GELUs are the same.
# advice: They differ by up to a thousandth in their slopes. Values and slope must come from one formula.
# replaces: gelu
# caught by: the slope of exactly this GELU, times the gradient
import math


def gelu_rule(grad, x):
    phi = 0.5 * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))
    return (grad * (phi + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))).astype(x.dtype)


# %% slope-of-relu
# belief: GELU is a smooth ReLU, so the slope is 0 or 1.
# advice: Far from 0 that is right. Near 0 the slope goes smoothly from 0 to 1, and is even larger than 1 for
#   a while.
# replaces: gelu
# caught by: the slope of exactly this GELU, times the gradient
def gelu_rule(grad, x):
    return grad * (x > 0) + grad * (x == 0) / 2


# %% gelu-forgets-the-gradient
# belief: A rule returns the derivative.
# advice: A rule returns the derivative times the gradient that arrived. Where is grad in your last line?
# replaces: gelu
# caught by: the slope of exactly this GELU, times the gradient
def gelu_rule(grad, x):
    c = float(np.sqrt(2 / np.pi))
    t = np.tanh(c * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * c * (1 + 3 * 0.044715 * x**2)


# %% tanh-by-exponentials
# belief: tanh is a fraction of exponentials.
# advice: True, but exp(1000) is infinite, and infinity divided by infinity is NaN. np.tanh knows better.
# replaces: gelu
# caught by: far from 0 nothing runs over, float32 stays float32, the inputs stay as they were
def gelu_rule(grad, x):
    c = float(np.sqrt(2 / np.pi))
    power = np.exp(2 * c * (x + 0.044715 * x**3))
    t = (power - 1) / (power + 1)
    return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * c * (1 + 3 * 0.044715 * x**2))


# %% gelu-in-float64
# belief: A constant has no dtype.
# advice: np.sqrt(2 / np.pi) is an np.float64, and it wins over float32. A plain float does not.
# replaces: gelu
# caught by: far from 0 nothing runs over, float32 stays float32, the inputs stay as they were
def gelu_rule(grad, x):
    c = np.sqrt(2 / np.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * c * (1 + 3 * 0.044715 * x**2))


# %% statistics-are-constants
# belief: Mean and spread are numbers, so only the division matters.
# advice: They are computed from x. When one feature grows, the mean grows, and all others move.
# replaces: layer-norm
# caught by: all three ways in which a feature acts: by itself, through the mean, through the spread
def layer_norm_rule(grad, x, eps=1e-5):
    return grad / np.sqrt(x.var(axis=-1, keepdims=True) + eps)


# %% spread-is-a-constant
# belief: Only the mean depends on x.
# advice: The spread does, too. Which part of the gradient would make the vector longer, and must be taken
#   away?
# replaces: layer-norm
# caught by: all three ways in which a feature acts: by itself, through the mean, through the spread
def layer_norm_rule(grad, x, eps=1e-5):
    sigma = np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    return (grad - grad.mean(axis=-1, keepdims=True)) / sigma


# %% mean-is-a-constant
# belief: Only the spread depends on x.
# advice: The mean does, too. Add the same number to all features: nothing changes. Does your gradient know?
# replaces: layer-norm
# caught by: all three ways in which a feature acts: by itself, through the mean, through the spread
def layer_norm_rule(grad, x, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    sigma = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    hat = centred / sigma
    return (grad - hat * (grad * hat).mean(axis=-1, keepdims=True)) / sigma


# %% sums-for-means
# belief: What is taken away is a sum.
# advice: The mean has a factor 1/d in the forward pass, and keeps it on the way back. So has the variance.
# replaces: layer-norm
# caught by: all three ways in which a feature acts: by itself, through the mean, through the spread
def layer_norm_rule(grad, x, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    sigma = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    hat = centred / sigma
    along = (grad * hat).sum(axis=-1, keepdims=True)
    return (grad - grad.sum(axis=-1, keepdims=True) - hat * along) / sigma


# %% divided-by-one-less
# belief: A variance is divided by d - 1.
# advice: That estimates the spread of a larger population. Layer norm uses the mean of the squares, with
#   ddof = 0.
# replaces: layer-norm
# caught by: all three ways in which a feature acts: by itself, through the mean, through the spread
def layer_norm_rule(grad, x, eps=1e-5):
    sigma = np.sqrt(x.var(axis=-1, keepdims=True, ddof=1) + eps)
    hat = (x - x.mean(axis=-1, keepdims=True)) / sigma
    along = (grad * hat).mean(axis=-1, keepdims=True)
    return (grad - grad.mean(axis=-1, keepdims=True) - hat * along) / sigma


# %% along-x-itself
# belief: x and its normed form are the same up to a factor.
# advice: In both places of the formula stands hat: centred and divided by sigma.
# replaces: layer-norm
# caught by: all three ways in which a feature acts: by itself, through the mean, through the spread
def layer_norm_rule(grad, x, eps=1e-5):
    sigma = np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    along = (grad * x).mean(axis=-1, keepdims=True)
    return (grad - grad.mean(axis=-1, keepdims=True) - x * along) / sigma


# %% divided-by-the-variance
# belief: The norm divides by the variance.
# advice: By its root: otherwise metres would become one over metres.
# replaces: layer-norm
# caught by: all three ways in which a feature acts: by itself, through the mean, through the spread
def layer_norm_rule(grad, x, eps=1e-5):
    variance = x.var(axis=-1, keepdims=True) + eps
    hat = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(variance)
    along = (grad * hat).mean(axis=-1, keepdims=True)
    return (grad - grad.mean(axis=-1, keepdims=True) - hat * along) / variance


# %% division-forgotten
# belief: Taking away the two parts is the whole rule.
# advice: The norm divides by sigma, so a step in x makes a step in the output that is smaller by sigma.
# replaces: layer-norm
# caught by: all three ways in which a feature acts: by itself, through the mean, through the spread
def layer_norm_rule(grad, x, eps=1e-5):
    hat = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    along = (grad * hat).mean(axis=-1, keepdims=True)
    return grad - grad.mean(axis=-1, keepdims=True) - hat * along


# %% norm-over-tokens
# belief: The mean runs over the tokens.
# advice: Layer norm looks at one token at a time. Its features are the last axis.
# replaces: layer-norm
# caught by: all three ways in which a feature acts: by itself, through the mean, through the spread
def layer_norm_rule(grad, x, eps=1e-5):
    sigma = np.sqrt(x.var(axis=-2, keepdims=True) + eps)
    hat = (x - x.mean(axis=-2, keepdims=True)) / sigma
    along = (grad * hat).mean(axis=-2, keepdims=True)
    return (grad - grad.mean(axis=-2, keepdims=True) - hat * along) / sigma


# %% eps-left-out
# belief: eps is too small to matter.
# advice: It matters when the features are nearly equal. Without it, equal ones give 0 / 0.
# replaces: layer-norm
# caught by: eps counts, equal features are no problem, float32 stays float32
def layer_norm_rule(grad, x, eps=1e-5):
    sigma = x.std(axis=-1, keepdims=True)
    hat = (x - x.mean(axis=-1, keepdims=True)) / sigma
    along = (grad * hat).mean(axis=-1, keepdims=True)
    return (grad - grad.mean(axis=-1, keepdims=True) - hat * along) / sigma


# %% eps-outside-the-root
# belief: eps may stand anywhere in the denominator.
# advice: Inside the root or outside: the numbers differ. The docstring says where.
# replaces: layer-norm
# caught by: eps counts, equal features are no problem, float32 stays float32
def layer_norm_rule(grad, x, eps=1e-5):
    sigma = x.std(axis=-1, keepdims=True) + eps
    hat = (x - x.mean(axis=-1, keepdims=True)) / sigma
    along = (grad * hat).mean(axis=-1, keepdims=True)
    return (grad - grad.mean(axis=-1, keepdims=True) - hat * along) / sigma


# %% eps-always-the-same
# belief: eps is 1e-5 everywhere.
# advice: It is an argument. Models differ in it: BERT has 1e-12.
# replaces: layer-norm
# caught by: eps counts, equal features are no problem, float32 stays float32
def layer_norm_rule(grad, x, eps=1e-5):
    sigma = np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    hat = (x - x.mean(axis=-1, keepdims=True)) / sigma
    along = (grad * hat).mean(axis=-1, keepdims=True)
    return (grad - grad.mean(axis=-1, keepdims=True) - hat * along) / sigma


# %% nearest-first
# belief: Going outwards from the loss, one ring after the other, is the way back.
# advice: A node can be near on one way and far on another. It must wait for the far one.
# replaces: order
# caught by: no node comes before all that use it have handed in their part
def backward_order(parents, root):
    order, seen = [root], {root}
    for node in order:
        for parent in parents[node]:
            if parent not in seen:
                seen.add(parent)
                order.append(parent)
    return order


# %% written-down-on-arrival
# belief: A node is written down when one gets there.
# advice: Then it may stand before a node that uses it and is reached only later. Write it down when all its
#   parents are done, and reverse.
# replaces: order
# caught by: no node comes before all that use it have handed in their part
def backward_order(parents, root):
    order, seen, stack = [], set(), [root]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            order.append(node)
            stack.extend(reversed(parents[node]))
    return order


# %% seen-when-put-aside
# belief: A node counts as seen as soon as it is put aside for later.
# advice: Then a longer way that comes to it before its turn goes past it, and finishes too early. Mark it
#   when it is taken from the stack.
# replaces: order
# caught by: no node comes before all that use it have handed in their part
def backward_order(parents, root):
    done, seen, stack = [], {root}, [(root, False)]
    while stack:
        node, parents_done = stack.pop()
        if parents_done:
            done.append(node)
            continue
        stack.append((node, True))
        for parent in parents[node]:
            if parent not in seen:
                seen.add(parent)
                stack.append((parent, False))
    return done[::-1]


# %% inputs-first
# belief: The order of the forward pass is the order of the backward pass.
# advice: Gradients go the other way. What stands first in your list, and what should?
# replaces: order
# caught by: no node comes before all that use it have handed in their part
def backward_order(parents, root):
    done, seen, stack = [], set(), [(root, False)]
    while stack:
        node, parents_done = stack.pop()
        if parents_done:
            done.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((parent, False) for parent in parents[node])
    return done


# %% sorted-by-number
# belief: A node with a larger number was made later.
# advice: Often it was. But here the numbers say nothing: only the parents do.
# replaces: order
# caught by: no node comes before all that use it have handed in their part
def backward_order(parents, root):
    seen, stack = {root}, [root]
    while stack:
        for parent in parents[stack.pop()]:
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return sorted(seen, reverse=True)


# %% once-for-each-path
# belief: A node has its turn whenever a path comes by.
# advice: Then its rule runs once for each path: for 25 doublings that is 2 to the power of 25. Each node has
#   one turn.
# replaces: order
# caught by: each node once, and only nodes on which the root depends
def backward_order(parents, root):
    order = [root]
    for node in order:
        if len(order) > 30_000:
            break
        order.extend(parents[node])
    return order


# %% calls-itself
# belief: No real graph is deeper than a few hundred operations, so a function may call itself.
# advice: A loop over a long drive makes a graph of many thousands. Python stops functions that call
#   themselves after about a thousand times. Keep a stack of your own.
# replaces: order
# caught by: a graph as deep as ten thousand operations
def backward_order(parents, root):
    done, seen = [], set()

    def go_into(node, depth):
        if node in seen or depth > 300:
            return
        seen.add(node)
        for parent in parents[node]:
            go_into(parent, depth + 1)
        done.append(node)

    go_into(root, 0)
    return done[::-1]


# %% all-nodes
# belief: Every node of the graph takes part.
# advice: A node on which the loss does not depend has no gradient. Start from the root.
# replaces: order
# caught by: each node once, and only nodes on which the root depends
def backward_order(parents, root):
    done, seen, stack = [], set(), [(node, False) for node in range(len(parents))]
    while stack:
        node, parents_done = stack.pop()
        if parents_done:
            done.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((parent, False) for parent in parents[node])
    return done[::-1]


# %% inputs-left-out
# belief: Inputs have no rule, so they need no place in the order.
# advice: The gradients of the inputs are what the whole walk is for.
# replaces: order
# caught by: each node once, and only nodes on which the root depends
def backward_order(parents, root):
    done, seen, stack = [], set(), [(root, False)]
    while stack:
        node, parents_done = stack.pop()
        if parents_done:
            done.append(node)
        elif node not in seen and parents[node]:
            seen.add(node)
            stack.append((node, True))
            stack.extend((parent, False) for parent in parents[node])
    return done[::-1]


# %% root-left-out
# belief: The root's gradient is known, so the order begins after it.
# advice: The root's rule has to be called, too. It is the first to hand something on.
# replaces: order
# caught by: each node once, and only nodes on which the root depends
def backward_order(parents, root):
    done, seen, stack = [], set(), [(root, False)]
    while stack:
        node, parents_done = stack.pop()
        if parents_done:
            done.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((parent, False) for parent in parents[node])
    return done[-2::-1]


# %% first-parents-only
# belief: A node comes from one node before it.
# advice: A product has two factors. Go into all parents.
# replaces: order
# caught by: no node comes before all that use it have handed in their part
def backward_order(parents, root):
    order = [root]
    while parents[order[-1]]:
        order.append(parents[order[-1]][0])
    return order


# %% last-part-wins
# belief: The gradient of a node is what its rule says.
# advice: A node that is used twice hears from two rules. In your code the second replaces the first. Add.
# replaces: backward
# caught by: what arrives from several nodes is added up
RULES = {
    "add": lambda grad: (grad, grad),  # of two arrays of the same shape
    "scale": lambda grad, factor: (grad * factor,),  # by a number that is no node
    "multiply": lambda grad, a, b: tuple(multiply_rule(grad, a, b)),
    "matmul": lambda grad, a, b: tuple(matmul_rule(grad, a, b)),
    "softmax": lambda grad, weights: (softmax_rule(grad, weights),),
    "gelu": lambda grad, x: (gelu_rule(grad, x),),
    "layer norm": lambda grad, x: (layer_norm_rule(grad, x),),
}


def backward(nodes, order, grad):
    gradients = {order[0]: grad}
    for number in order:
        op, parents, kept = nodes[number]
        if op == "input":
            continue
        for parent, part in zip(parents, RULES[op](gradients[number], *kept), strict=True):
            gradients[parent] = part
    return gradients


# %% first-part-wins
# belief: A node that has a gradient is done.
# advice: It is done when all nodes that use it have handed in their parts. Add the later ones, too.
# replaces: backward
# caught by: what arrives from several nodes is added up
RULES = {
    "add": lambda grad: (grad, grad),  # of two arrays of the same shape
    "scale": lambda grad, factor: (grad * factor,),  # by a number that is no node
    "multiply": lambda grad, a, b: tuple(multiply_rule(grad, a, b)),
    "matmul": lambda grad, a, b: tuple(matmul_rule(grad, a, b)),
    "softmax": lambda grad, weights: (softmax_rule(grad, weights),),
    "gelu": lambda grad, x: (gelu_rule(grad, x),),
    "layer norm": lambda grad, x: (layer_norm_rule(grad, x),),
}


def backward(nodes, order, grad):
    gradients = {order[0]: grad}
    for number in order:
        op, parents, kept = nodes[number]
        if op == "input":
            continue
        for parent, part in zip(parents, RULES[op](gradients[number], *kept), strict=True):
            gradients.setdefault(parent, part)
    return gradients


# %% parts-averaged-at-nodes
# belief: A node that is used twice gets the average of both parts.
# advice: If x goes into the loss on two ways, the loss changes by both changes together. Add.
# replaces: backward
# caught by: what arrives from several nodes is added up
RULES = {
    "add": lambda grad: (grad, grad),  # of two arrays of the same shape
    "scale": lambda grad, factor: (grad * factor,),  # by a number that is no node
    "multiply": lambda grad, a, b: tuple(multiply_rule(grad, a, b)),
    "matmul": lambda grad, a, b: tuple(matmul_rule(grad, a, b)),
    "softmax": lambda grad, weights: (softmax_rule(grad, weights),),
    "gelu": lambda grad, x: (gelu_rule(grad, x),),
    "layer norm": lambda grad, x: (layer_norm_rule(grad, x),),
}


def backward(nodes, order, grad):
    gradients, counts = {order[0]: grad}, {}
    for number in order:
        gradients[number] = gradients[number] / counts.get(number, 1)
        op, parents, kept = nodes[number]
        if op == "input":
            continue
        for parent, part in zip(parents, RULES[op](gradients[number], *kept), strict=True):
            gradients[parent] = gradients[parent] + part if parent in gradients else part
            counts[parent] = counts.get(parent, 0) + 1
    return gradients


# %% twins-lost
# belief: The parents of a node are different nodes.
# advice: In v * v they are the same node, twice. A dictionary with the parents' numbers as keys keeps one.
# replaces: backward
# caught by: a node that one operation uses twice gets both parts
RULES = {
    "add": lambda grad: (grad, grad),  # of two arrays of the same shape
    "scale": lambda grad, factor: (grad * factor,),  # by a number that is no node
    "multiply": lambda grad, a, b: tuple(multiply_rule(grad, a, b)),
    "matmul": lambda grad, a, b: tuple(matmul_rule(grad, a, b)),
    "softmax": lambda grad, weights: (softmax_rule(grad, weights),),
    "gelu": lambda grad, x: (gelu_rule(grad, x),),
    "layer norm": lambda grad, x: (layer_norm_rule(grad, x),),
}


def backward(nodes, order, grad):
    gradients = {order[0]: grad}
    for number in order:
        op, parents, kept = nodes[number]
        if op == "input":
            continue
        parts = dict(zip(parents, RULES[op](gradients[number], *kept), strict=True))
        for parent, part in parts.items():
            gradients[parent] = gradients[parent] + part if parent in gradients else part
    return gradients


# %% shared-array-changed
# belief: gradients[parent] += part is short for adding.
# advice: It writes into the array that is there. An addition gave the same array to its other parent, so that
#   one changes, too. Make a new array.
# replaces: backward
# caught by: an array that two nodes share is not written into
RULES = {
    "add": lambda grad: (grad, grad),  # of two arrays of the same shape
    "scale": lambda grad, factor: (grad * factor,),  # by a number that is no node
    "multiply": lambda grad, a, b: tuple(multiply_rule(grad, a, b)),
    "matmul": lambda grad, a, b: tuple(matmul_rule(grad, a, b)),
    "softmax": lambda grad, weights: (softmax_rule(grad, weights),),
    "gelu": lambda grad, x: (gelu_rule(grad, x),),
    "layer norm": lambda grad, x: (layer_norm_rule(grad, x),),
}


def backward(nodes, order, grad):
    gradients = {order[0]: grad}
    for number in order:
        op, parents, kept = nodes[number]
        if op == "input":
            continue
        for parent, part in zip(parents, RULES[op](gradients[number], *kept), strict=True):
            if parent in gradients:
                gradients[parent] += part
            else:
                gradients[parent] = part
    return gradients


# %% starts-with-ones
# belief: The gradient at the start is always 1.
# advice: It is for a loss. Here it is given: who calls you may have a mean, or more to multiply with.
# replaces: backward
# caught by: the start is the gradient that was given, and a second run begins with nothing
RULES = {
    "add": lambda grad: (grad, grad),  # of two arrays of the same shape
    "scale": lambda grad, factor: (grad * factor,),  # by a number that is no node
    "multiply": lambda grad, a, b: tuple(multiply_rule(grad, a, b)),
    "matmul": lambda grad, a, b: tuple(matmul_rule(grad, a, b)),
    "softmax": lambda grad, weights: (softmax_rule(grad, weights),),
    "gelu": lambda grad, x: (gelu_rule(grad, x),),
    "layer norm": lambda grad, x: (layer_norm_rule(grad, x),),
}


def backward(nodes, order, grad):
    gradients = {order[0]: np.ones_like(grad)}
    for number in order:
        op, parents, kept = nodes[number]
        if op == "input":
            continue
        for parent, part in zip(parents, RULES[op](gradients[number], *kept), strict=True):
            gradients[parent] = gradients[parent] + part if parent in gradients else part
    return gradients


# %% start-for-every-rule
# belief: Every rule gets the gradient of the loss.
# advice: A rule gets the gradient of its own output: what has arrived at its node.
# replaces: backward
# caught by: what arrives from several nodes is added up
RULES = {
    "add": lambda grad: (grad, grad),  # of two arrays of the same shape
    "scale": lambda grad, factor: (grad * factor,),  # by a number that is no node
    "multiply": lambda grad, a, b: tuple(multiply_rule(grad, a, b)),
    "matmul": lambda grad, a, b: tuple(matmul_rule(grad, a, b)),
    "softmax": lambda grad, weights: (softmax_rule(grad, weights),),
    "gelu": lambda grad, x: (gelu_rule(grad, x),),
    "layer norm": lambda grad, x: (layer_norm_rule(grad, x),),
}


def backward(nodes, order, grad):
    gradients = {order[0]: grad}
    for number in order:
        op, parents, kept = nodes[number]
        if op == "input":
            continue
        for parent, part in zip(parents, RULES[op](grad, *kept), strict=True):
            gradients[parent] = gradients[parent] + part if parent in gradients else part
    return gradients


# %% walked-from-the-inputs
# belief: The nodes are gone through from the inputs to the loss.
# advice: At an input no gradient has arrived yet. The given order begins at the loss; do not turn it round.
# replaces: backward
# caught by: what arrives from several nodes is added up
RULES = {
    "add": lambda grad: (grad, grad),  # of two arrays of the same shape
    "scale": lambda grad, factor: (grad * factor,),  # by a number that is no node
    "multiply": lambda grad, a, b: tuple(multiply_rule(grad, a, b)),
    "matmul": lambda grad, a, b: tuple(matmul_rule(grad, a, b)),
    "softmax": lambda grad, weights: (softmax_rule(grad, weights),),
    "gelu": lambda grad, x: (gelu_rule(grad, x),),
    "layer norm": lambda grad, x: (layer_norm_rule(grad, x),),
}


def backward(nodes, order, grad):
    gradients = {number: np.zeros_like(grad) for number in order}
    gradients[order[0]] = grad
    for number in reversed(order):
        op, parents, kept = nodes[number]
        if op == "input":
            continue
        for parent, part in zip(parents, RULES[op](gradients[number], *kept), strict=True):
            gradients[parent] = gradients[parent] + part
    return gradients


# %% parts-exchanged
# belief: The parts of an operation may be handed out in any order.
# advice: The first part belongs to the first parent. For an addition you do not see the difference.
# replaces: backward
# caught by: through an attention layer, with your own rules
RULES = {
    "add": lambda grad: (grad, grad),  # of two arrays of the same shape
    "scale": lambda grad, factor: (grad * factor,),  # by a number that is no node
    "multiply": lambda grad, a, b: tuple(multiply_rule(grad, a, b)),
    "matmul": lambda grad, a, b: tuple(matmul_rule(grad, a, b)),
    "softmax": lambda grad, weights: (softmax_rule(grad, weights),),
    "gelu": lambda grad, x: (gelu_rule(grad, x),),
    "layer norm": lambda grad, x: (layer_norm_rule(grad, x),),
}


def backward(nodes, order, grad):
    gradients = {order[0]: grad}
    for number in order:
        op, parents, kept = nodes[number]
        if op == "input":
            continue
        for parent, part in zip(parents, RULES[op](gradients[number], *kept)[::-1], strict=True):
            gradients[parent] = gradients[parent] + part if parent in gradients else part
    return gradients


# %% inner-gradients-dropped
# belief: Only the inputs' gradients are of interest.
# advice: The docstring asks for every node in order. Looking at the inner ones is how one finds a mistake.
# replaces: backward
# caught by: what arrives from several nodes is added up
RULES = {
    "add": lambda grad: (grad, grad),  # of two arrays of the same shape
    "scale": lambda grad, factor: (grad * factor,),  # by a number that is no node
    "multiply": lambda grad, a, b: tuple(multiply_rule(grad, a, b)),
    "matmul": lambda grad, a, b: tuple(matmul_rule(grad, a, b)),
    "softmax": lambda grad, weights: (softmax_rule(grad, weights),),
    "gelu": lambda grad, x: (gelu_rule(grad, x),),
    "layer norm": lambda grad, x: (layer_norm_rule(grad, x),),
}


def backward(nodes, order, grad):
    gradients = {order[0]: grad}
    for number in order:
        op, parents, kept = nodes[number]
        if op == "input":
            continue
        for parent, part in zip(parents, RULES[op](gradients.pop(number), *kept), strict=True):
            gradients[parent] = gradients[parent] + part if parent in gradients else part
    return gradients
