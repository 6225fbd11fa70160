"""Right answers in other styles. Each must get full marks: tests ask what a function does, not how.

Entries of one name, each for another solution cell, are one student's work.
"""

# %% loops
# note: plain Python loops over every axis, with math in place of NumPy's functions
# replaces: unbroadcast
import math


def unbroadcast(grad, shape):
    total = np.zeros(shape, dtype=grad.dtype)
    front = grad.ndim - len(shape)
    for index in np.ndindex(*grad.shape):
        place = []
        for axis, size in enumerate(shape):
            place.append(index[front + axis] if size > 1 else 0)
        total[tuple(place)] += grad[index]
    return total


# %% loops
# replaces: multiply
def multiply_rule(grad, a, b):
    wide_a, wide_b = np.broadcast_arrays(a, b)
    da, db = np.zeros(grad.shape), np.zeros(grad.shape)
    for index in np.ndindex(*grad.shape):
        da[index] = grad[index] * wide_b[index]
        db[index] = grad[index] * wide_a[index]
    return [unbroadcast(da, a.shape), unbroadcast(db, b.shape)]


# %% loops
# replaces: matmul
def matmul_rule(grad, a, b):
    front = grad.shape[:-2]
    wide_a = np.broadcast_to(a, front + a.shape[-2:])
    wide_b = np.broadcast_to(b, front + b.shape[-2:])
    da, db = np.zeros(wide_a.shape), np.zeros(wide_b.shape)
    for place in np.ndindex(*front):
        for i in range(a.shape[-2]):
            for j in range(b.shape[-1]):
                da[place][i] += grad[place][i, j] * wide_b[place][:, j]
                db[place][:, j] += grad[place][i, j] * wide_a[place][i]
    return unbroadcast(da, a.shape), unbroadcast(db, b.shape)


# %% loops
# replaces: softmax
def softmax_rule(grad, weights):
    answer = np.zeros_like(weights)
    for row in np.ndindex(*weights.shape[:-1]):
        inner = 0.0
        for w, g in zip(weights[row], grad[row], strict=True):
            inner += float(w) * float(g)
        for key in range(weights.shape[-1]):
            answer[row][key] = weights[row][key] * (grad[row][key] - inner)
    return answer


# %% loops
# replaces: gelu
def gelu_rule(grad, x):
    answer = np.zeros_like(x)
    for index in np.ndindex(*x.shape):
        value = float(x[index])
        t = math.tanh(math.sqrt(2 / math.pi) * (value + 0.044715 * value**3))
        slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * value**2)
        answer[index] = float(grad[index]) * ((1 + t) / 2 + value * (1 - t * t) * slope / 2)
    return answer


# %% loops
# replaces: layer-norm
def layer_norm_rule(grad, x, eps=1e-5):
    answer = np.zeros_like(x)
    d = x.shape[-1]
    for token in np.ndindex(*x.shape[:-1]):
        mean = sum(float(some) for some in x[token]) / d
        sigma = math.sqrt(sum((float(some) - mean) ** 2 for some in x[token]) / d + eps)
        hat = [(float(some) - mean) / sigma for some in x[token]]
        for i in range(d):
            # One feature after the other: how each output moves when feature i grows.
            for j in range(d):
                moves = (i == j) - 1 / d - hat[i] * hat[j] / d
                answer[token][i] += float(grad[token][j]) * moves / sigma
    return answer


# %% loops
# replaces: order
def backward_order(parents, root):
    # Count for each node how many uses of it are still to come; free a node when none is left.
    reached, waiting = [root], {root}
    for node in reached:
        for parent in parents[node]:
            if parent not in waiting:
                waiting.add(parent)
                reached.append(parent)
    uses = dict.fromkeys(reached, 0)
    for node in reached:
        for parent in parents[node]:
            uses[parent] += 1
    order = [root]
    for node in order:
        for parent in parents[node]:
            uses[parent] -= 1
            if uses[parent] == 0:
                order.append(parent)
    return order


# %% loops
# replaces: backward
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
    parts_of = {number: [] for number in order}
    parts_of[order[0]].append(grad)
    gradients = {}
    for number in order:
        total = np.zeros_like(parts_of[number][0])
        for part in parts_of[number]:
            total = total + part
        gradients[number] = total
        op, parents, kept = nodes[number]
        if op != "input":
            found = RULES[op](total, *kept)
            for place in range(len(parents)):
                parts_of[parents[place]].append(found[place])
    return gradients


# %% einsum
# note: index notation, and the slopes of a row as a table
# replaces: unbroadcast
def unbroadcast(grad, shape):
    letters = "abcdefgh"[: grad.ndim]
    own = letters[grad.ndim - len(shape) :]
    kept = "".join(letter for letter, size in zip(own, shape, strict=True) if size != 1)
    return np.einsum(f"{letters}->{kept}", grad).reshape(shape)


# %% einsum
# replaces: multiply
def multiply_rule(grad, a, b):
    return tuple(
        unbroadcast(np.einsum("...,...->...", grad, other), own.shape) for own, other in ((a, b), (b, a))
    )


# %% einsum
# replaces: matmul
def matmul_rule(grad, a, b):
    da = np.einsum("...nm,...km->...nk", grad, b)
    db = np.einsum("...nk,...nm->...km", a, grad)
    return unbroadcast(da, a.shape), unbroadcast(db, b.shape)


# %% einsum
# replaces: softmax
def softmax_rule(grad, weights):
    table = np.einsum("...i,ij->...ij", weights, np.eye(weights.shape[-1], dtype=weights.dtype))
    table -= np.einsum("...i,...j->...ij", weights, weights)
    return np.einsum("...j,...ij->...i", grad, table)


# %% einsum
# replaces: layer-norm
def layer_norm_rule(grad, x, eps=1e-5):
    d = x.shape[-1]
    centre = (np.eye(d) - 1 / d).astype(x.dtype)
    centred = np.einsum("...i,ij->...j", x, centre)
    variance = np.einsum("...i,...i->...", centred, centred)[..., None] / d + eps
    pull = np.einsum("...i,...i->...", grad, centred)[..., None] / (d * variance)
    return np.einsum("...i,ij->...j", (grad - centred * pull) / np.sqrt(variance), centre)


# %% einsum
# replaces: backward
from collections import defaultdict

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
    gradients = defaultdict(float)
    gradients[order[0]] = grad
    for number in (some for some in order if nodes[some][1]):
        op, parents, kept = nodes[number]
        for place, part in enumerate(RULES[op](gradients[number], *kept)):
            gradients[parents[place]] = gradients[parents[place]] + part
    return gradients


# %% in-place
# note: writes into arrays of its own, never into those that it was given
# replaces: unbroadcast
def unbroadcast(grad, shape):
    while grad.ndim > len(shape):
        grad = np.add.reduce(grad, axis=0)
    for axis, size in enumerate(shape):
        if size == 1 and grad.shape[axis] > 1:
            grad = np.add.reduce(grad, axis=axis, keepdims=True)
    return np.array(grad)


# %% in-place
# replaces: multiply
def multiply_rule(grad, a, b):
    da = grad.copy()
    da *= b
    db = grad.copy()
    db *= a
    return unbroadcast(da, np.shape(a)), unbroadcast(db, np.shape(b))


# %% in-place
# replaces: softmax
def softmax_rule(grad, weights):
    answer = np.multiply(weights, grad)
    inner = np.empty((*answer.shape[:-1], 1), dtype=answer.dtype)
    np.sum(answer, axis=-1, keepdims=True, out=inner)
    answer -= weights * inner
    return answer


# %% in-place
# replaces: gelu
def gelu_rule(grad, x):
    u = x**3
    u *= 0.044715
    u += x
    u *= 0.7978845608028654
    t = np.tanh(u, out=u)
    answer = 1 - t * t
    answer *= x
    answer *= 0.5 * 0.7978845608028654
    answer *= 1 + 0.134145 * x * x
    answer += 0.5
    answer += 0.5 * t
    answer *= grad
    return answer


# %% in-place
# replaces: layer-norm
def layer_norm_rule(grad, x, eps=1e-5):
    hat = x - np.mean(x, axis=-1, keepdims=True)
    sigma = np.sqrt(np.mean(np.square(hat), axis=-1, keepdims=True) + eps)
    hat /= sigma
    answer = grad - np.mean(grad, axis=-1, keepdims=True)
    hat *= np.mean(grad * hat, axis=-1, keepdims=True)
    answer -= hat
    answer /= sigma
    return answer


# %% in-place
# replaces: backward
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
    gradients = {order[0]: np.array(grad)}
    for number in order:
        op, parents, kept = nodes[number]
        if op == "input":
            continue
        for parent, part in zip(parents, RULES[op](gradients[number], *kept), strict=True):
            if parent not in gradients:
                gradients[parent] = np.zeros_like(part)
            gradients[parent] += part
    return gradients


# %% helpers
# note: small functions; the softmax's rule is written as a projection, the order keeps iterators on its stack
# replaces: unbroadcast
def padded_shape(shape, ndim):
    return (1,) * (ndim - len(shape)) + tuple(shape)


def unbroadcast(grad, shape):
    full = padded_shape(shape, grad.ndim)
    axes = tuple(axis for axis in range(grad.ndim) if full[axis] == 1 and grad.shape[axis] != 1)
    return grad.sum(axis=axes, keepdims=True).reshape(shape)


# %% helpers
# replaces: matmul
def turned(x):
    axes = list(range(x.ndim))
    axes[-2:] = axes[-1], axes[-2]
    return x.transpose(axes)


def matmul_rule(grad, a, b):
    return unbroadcast(np.matmul(grad, turned(b)), a.shape), unbroadcast(np.matmul(turned(a), grad), b.shape)


# %% helpers
# replaces: softmax
def row_product(one, other):
    return np.sum(one * other, axis=-1)[..., np.newaxis]


def softmax_rule(grad, weights):
    return weights * grad - weights * row_product(weights, grad)


# %% helpers
# replaces: gelu
def gate(x):
    return np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))


def gate_slope(x):
    return (1 - gate(x) ** 2) * (0.7978845608028654 + 0.1070322243 * x * x)


def gelu_rule(grad, x):
    return grad * ((1 + gate(x)) + x * gate_slope(x)) / 2


# %% helpers
# replaces: layer-norm
def mean_of(x):
    return x.mean(axis=-1, keepdims=True)


def layer_norm_rule(grad, x, eps=1e-5):
    centred, centred_grad = x - mean_of(x), grad - mean_of(grad)
    power = mean_of(centred**2) + eps
    return (centred_grad - centred * mean_of(centred_grad * centred) / power) / power**0.5


# %% helpers
# replaces: order
def backward_order(parents, root):
    done, seen = [], {root}
    path = [(root, iter(parents[root]))]
    while path:
        node, rest = path[-1]
        following = next((parent for parent in rest if parent not in seen), None)
        if following is None:
            done.append(node)
            path.pop()
        else:
            seen.add(following)
            path.append((following, iter(parents[following])))
    done.reverse()
    return done


# %% helpers
# replaces: backward
RULES = {
    "add": lambda grad: (grad, grad),  # of two arrays of the same shape
    "scale": lambda grad, factor: (grad * factor,),  # by a number that is no node
    "multiply": lambda grad, a, b: tuple(multiply_rule(grad, a, b)),
    "matmul": lambda grad, a, b: tuple(matmul_rule(grad, a, b)),
    "softmax": lambda grad, weights: (softmax_rule(grad, weights),),
    "gelu": lambda grad, x: (gelu_rule(grad, x),),
    "layer norm": lambda grad, x: (layer_norm_rule(grad, x),),
}


def receive(gradients, number, part):
    gradients[number] = np.add(gradients[number], part) if number in gradients else part


def backward(nodes, order, grad):
    gradients = {}
    receive(gradients, order[0], grad)
    for number in order:
        op, parents, kept = nodes[number]
        if parents:
            for parent, part in zip(parents, RULES[op](gradients[number], *kept), strict=True):
                receive(gradients, parent, part)
    return gradients


# %% high-precision
# note: computes in long double inside, and gives back the dtype that it got
# replaces: unbroadcast
def unbroadcast(grad, shape):
    wide = grad.astype(np.longdouble)
    wide = wide.sum(axis=tuple(range(grad.ndim - len(shape))))
    for axis, size in enumerate(shape):
        if size == 1:
            wide = wide.sum(axis=axis, keepdims=True)
    return np.asarray(wide).astype(grad.dtype)


# %% high-precision
# replaces: softmax
def softmax_rule(grad, weights):
    g, w = grad.astype(np.longdouble), weights.astype(np.longdouble)
    return (w * (g - np.einsum("...k,...k->...", w, g)[..., None])).astype(weights.dtype)


# %% high-precision
# replaces: gelu
def gelu_rule(grad, x):
    z = x.astype(np.longdouble)
    c = np.sqrt(np.longdouble(2) / np.longdouble(np.pi))
    u = c * (z + np.longdouble("0.044715") * z**3)
    t = np.tanh(u)
    slope = (1 + t) / 2 + z / 2 * (1 - t) * (1 + t) * c * (1 + 3 * np.longdouble("0.044715") * z**2)
    return (grad * slope).astype(x.dtype)


# %% high-precision
# replaces: layer-norm
def layer_norm_rule(grad, x, eps=1e-5):
    g, z = grad.astype(np.longdouble), x.astype(np.longdouble)
    centred = z - z.mean(-1, keepdims=True)
    sigma = np.sqrt(z.var(-1, keepdims=True) + eps)
    along = (g * centred).mean(-1, keepdims=True) / sigma**3
    return ((g - g.mean(-1, keepdims=True)) / sigma - centred * along).astype(x.dtype)


# %% rings
# note: the longest way from the root to each node, and the nodes sorted by it; no rule is called for nothing
# replaces: order
def backward_order(parents, root):
    reached, ring = {root}, [root]
    while ring:
        ring = [parent for node in ring for parent in parents[node]]
        ring = [parent for parent in dict.fromkeys(ring) if parent not in reached]
        reached.update(ring)
    uses = dict.fromkeys(reached, 0)
    for node in reached:
        for parent in parents[node]:
            uses[parent] += 1
    depth, free = {root: 0}, [root]
    while free:
        node = free.pop()
        for parent in parents[node]:
            depth[parent] = max(depth.get(parent, 0), depth[node] + 1)
            uses[parent] -= 1
            if not uses[parent]:
                free.append(parent)
    return np.array(sorted(reached, key=depth.__getitem__))


# %% rings
# replaces: backward
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
    # From the other side: each node collects from all that use it.
    users = {number: [] for number in order}
    for number in order:
        for place, parent in enumerate(nodes[number][1]):
            users[parent].append((number, place))
    gradients, handed = {}, {}
    for number in order:
        parts = [handed[user][place] for user, place in users[number]]
        gradients[number] = sum(parts[1:], parts[0]) if parts else grad
        op, _, kept = nodes[number]
        if op != "input":
            handed[number] = RULES[op](gradients[number], *kept)
    return gradients
