"""Right answers in other styles. Each must get full marks: tests ask what a function does, not how.

Entries of one name, each for another solution cell, are one student's work.
"""

# %% loops
# note: plain Python loops over every axis, with math in place of NumPy's exponential
# replaces: softmax
import math


def softmax(scores):
    weights = np.empty_like(scores)
    for index in np.ndindex(scores.shape[:-1]):
        row = scores[index]
        top = max(row)
        raised = [math.exp(score - top) for score in row]
        for j, value in enumerate(raised):
            weights[(*index, j)] = value / sum(raised)
    return weights


# %% loops
# replaces: attention
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    batch, heads, n, d_k = q.shape
    m, d_v = v.shape[2:]
    output = np.zeros((batch, heads, n, d_v), dtype=q.dtype)
    weights = np.zeros((batch, heads, n, m), dtype=q.dtype)
    may = np.ones((batch, heads, n, m), dtype=bool)
    if mask is not None:
        may[:] = mask
    for b in range(batch):
        for h in range(heads):
            for i in range(n):
                seen = [j for j in range(m) if may[b, h, i, j] and (not causal or j <= i + m - n)]
                if not seen:
                    continue
                scores = [q[b, h, i] @ k[b, h, j] / math.sqrt(d_k) for j in seen]
                for j, weight in zip(seen, softmax(np.array(scores)), strict=True):
                    weights[b, h, i, j] = weight
                    output[b, h, i] += weight * v[b, h, j]
    return output, weights


# %% loops
# replaces: dictionary
def dictionary_as_attention(keys, values, queries):
    m, n = len(keys), len(queries)
    q = np.zeros((1, 1, n, m))
    k = np.zeros((1, 1, m, m))
    for j in range(m):
        k[0, 0, j, j] = math.sqrt(m)
        for i in range(n):
            if queries[i] == keys[j]:
                q[0, 0, i, j] = 50
    return q, k, values.reshape(1, 1, m, -1)


# %% einsum
# note: index notation, and a causal mask from comparing positions
# replaces: softmax
def softmax(scores):
    raised = np.exp(scores - np.max(scores, -1)[..., None])
    return np.einsum("...j,...->...j", raised, 1 / np.einsum("...j->...", raised))


# %% einsum
# replaces: attention
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    scores = np.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
    may = np.ones_like(scores, dtype=bool)
    n, m = scores.shape[2:]
    if mask is not None:
        may &= mask
    if causal:
        may &= np.arange(m)[None, :] - np.arange(n)[:, None] <= m - n
    scores[~may] = -np.inf
    empty = ~may.any(-1)
    scores[empty] = 0
    weights = softmax(scores)
    weights[empty] = 0
    return np.einsum("bhij,bhje->bhie", weights, v), weights


# %% einsum
# replaces: dictionary
def dictionary_as_attention(keys, values, queries):
    _, codes = np.unique(np.concatenate([keys, queries]), return_inverse=True)
    vectors = np.eye(len(keys))[codes]
    k, q = vectors[: len(keys)], vectors[len(keys) :]
    return q[None, None] * 40, k[None, None] * len(keys) ** 0.5, values[None, None]


# %% single-precision
# note: everything in float32, whatever came in
# replaces: softmax
def softmax(scores):
    scores = np.asarray(scores, dtype=np.float32)
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


# %% single-precision
# replaces: attention
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    q, k, v = (array.astype(np.float32) for array in (q, k, v))
    n, m = q.shape[2], k.shape[2]
    may = np.tri(n, m, m - n if causal else m, dtype=bool)
    if mask is not None:
        may = np.logical_and(may, mask)
    scores = (q / np.float32(np.sqrt(q.shape[3]))) @ k.transpose(0, 1, 3, 2)
    scores = np.where(may, scores, np.finfo(np.float32).min)
    weights = softmax(scores) * may
    return weights @ v, weights


# %% single-precision
# replaces: dictionary
def dictionary_as_attention(keys, values, queries):
    m = len(keys)
    k = np.identity(m, dtype=np.float32)
    q = np.float32(30 * np.sqrt(m)) * np.equal.outer(queries, keys)
    return q[np.newaxis, np.newaxis], k[np.newaxis, np.newaxis], values[np.newaxis, np.newaxis]


# %% in-place
# note: writes into arrays of its own to save memory
# replaces: softmax
def softmax(scores):
    weights = scores.copy()
    weights -= weights.max(axis=-1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


# %% in-place
# replaces: attention
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    weights = np.matmul(q, k.swapaxes(2, 3))
    weights /= q.shape[-1] ** 0.5
    n, m = weights.shape[-2:]
    hidden = np.zeros(weights.shape, dtype=bool)
    if causal:
        hidden |= np.triu(np.ones((n, m), dtype=bool), m - n + 1)
    if mask is not None:
        hidden |= ~mask
    np.putmask(weights, hidden, -np.inf)
    weights[hidden.all(axis=-1)] = 0
    weights[:] = softmax(weights)
    np.putmask(weights, hidden, 0)
    return weights @ v, weights


# %% in-place
# replaces: dictionary
def dictionary_as_attention(keys, values, queries):
    m = len(keys)
    q = np.zeros((len(queries), m))
    q[np.arange(len(queries)), [list(keys).index(query) for query in queries]] = 25
    q *= np.sqrt(m)
    return q[None, None], np.eye(m)[None, None], values[None, None].copy()


# %% helpers
# note: small functions, softmax by way of log-sum-exp, keys told apart by binary digits
# replaces: softmax
def log_sum_exp(scores):
    top = scores.max(axis=-1, keepdims=True)
    return top + np.log(np.exp(scores - top).sum(axis=-1, keepdims=True))


def softmax(scores):
    return np.exp(scores - log_sum_exp(scores))


# %% helpers
# replaces: attention
def visible(shape, mask, causal):
    n, m = shape[-2:]
    rows, columns = np.indices((n, m))
    may = columns <= rows + (m - n) if causal else np.full((n, m), True)
    return np.broadcast_to(may if mask is None else may & mask, shape)


def similarity(q, k):
    return q @ k.transpose(0, 1, 3, 2) * float(q.shape[-1]) ** -0.5


def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    scores = similarity(q, k)
    may = visible(scores.shape, mask, causal)
    weights = np.zeros_like(scores)
    busy = may.any(axis=-1)
    weights[busy] = softmax(np.where(may, scores, -np.inf)[busy])
    return weights @ v, weights


# %% helpers
# replaces: dictionary
def signs(numbers):
    return 2.0 * (numbers[:, None] >> np.arange(16) & 1) - 1.0


def dictionary_as_attention(keys, values, queries):
    return 60.0 * signs(queries)[None, None], signs(keys)[None, None], values[None, None]


# %% nan-to-num
# note: lets empty rows become nan and mends them afterwards
# replaces: softmax
def softmax(scores):
    with np.errstate(invalid="ignore"):
        raised = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        return raised / np.sum(raised, axis=-1, keepdims=True)


# %% nan-to-num
# replaces: attention
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    scores = (q @ np.swapaxes(k, -2, -1)) / float(np.sqrt(q.shape[-1]))
    n, m = scores.shape[-2:]
    if causal:
        scores = np.where(np.arange(m) > np.arange(n).reshape(n, 1) + m - n, -np.inf, scores)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = np.nan_to_num(softmax(scores), nan=0.0)
    return weights @ v, weights


# %% nan-to-num
# replaces: dictionary
def dictionary_as_attention(keys, values, queries):
    # -(query - key)**2 without its first term, which is the same for every key of a row.
    queries, keys = queries.astype(float), keys.astype(float)
    q = np.stack([2 * queries, -np.ones_like(queries)], axis=1)
    k = np.stack([keys, keys**2], axis=1)
    return 40 * q[None, None], k[None, None], values[None, None]


# %% comprehension
# note: one head at a time in a list comprehension, stacked at the end
# replaces: softmax
def softmax(scores):
    rows = scores.reshape(-1, scores.shape[-1])
    shares = [np.exp(row - row.max()) for row in rows]
    return np.stack([share / share.sum() for share in shares]).reshape(scores.shape)


# %% comprehension
# replaces: attention
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    batch, heads, n, d_k = q.shape
    m = k.shape[2]
    may = np.broadcast_to(True if mask is None else mask, (batch, heads, n, m))
    if causal:
        may = may & np.array([[j - i <= m - n for j in range(m)] for i in range(n)])

    def one_head(q, k, may):
        scores = q @ k.T / d_k**0.5 + np.where(may, 0, -1e30).astype(q.dtype)
        return softmax(scores) * may

    weights = np.array([[one_head(q[b, h], k[b, h], may[b, h]) for h in range(heads)] for b in range(batch)])
    output = np.array([[weights[b, h] @ v[b, h] for h in range(heads)] for b in range(batch)])
    return output, weights


# %% comprehension
# replaces: dictionary
def dictionary_as_attention(keys, values, queries):
    sharp = 30 * len(keys) ** 0.5
    q = np.array([[[[sharp if key == query else 0.0 for key in keys] for query in queries]]])
    k = np.array([[[[float(key == other) for other in keys] for key in keys]]])
    return q, k, np.array([[values]])
