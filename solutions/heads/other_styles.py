"""Right answers in other styles. Each must get full marks: tests ask what a function does, not how.

Entries of one name, each for another solution cell, are one student's work.
"""

# %% loops
# note: plain Python loops over sequences, heads and tokens
# replaces: split-merge
import math


def split_heads(x, n_heads):
    batch, n, d = x.shape
    size = d // n_heads
    heads = np.zeros((batch, n_heads, n, size), dtype=x.dtype)
    for b in range(batch):
        for h in range(n_heads):
            for i in range(n):
                for j in range(size):
                    heads[b, h, i, j] = x[b, i, h * size + j]
    return heads


def merge_heads(heads):
    batch, n_heads, n, size = heads.shape
    x = np.zeros((batch, n, n_heads * size), dtype=heads.dtype)
    for h in range(n_heads):
        for j in range(size):
            x[:, :, h * size + j] = heads[:, h, :, j]
    return x


# %% loops
# replaces: attend
def attend(q, k, v, mask):
    batch, n_heads, n, d_k = q.shape
    group = n_heads // k.shape[1]
    may = np.broadcast_to(mask, (batch, n_heads, n, k.shape[2]))
    out = np.zeros((batch, n_heads, n, v.shape[3]), dtype=q.dtype)
    for b, h, i in np.ndindex(batch, n_heads, n):
        seen = [j for j in range(k.shape[2]) if may[b, h, i, j]]
        if not seen:
            continue
        scores = [float(q[b, h, i] @ k[b, h // group, j]) / math.sqrt(d_k) for j in seen]
        raised = [math.exp(score - max(scores)) for score in scores]
        for j, weight in zip(seen, raised, strict=True):
            out[b, h, i] += weight / sum(raised) * v[b, h // group, j]
    return out


# %% loops
# replaces: multi-head
def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    def project(name):
        out = np.zeros((*x.shape[:2], w[f"w_{name}"].shape[1]))
        for b in range(x.shape[0]):
            for i in range(x.shape[1]):
                out[b, i] = x[b, i] @ w[f"w_{name}"] + w[f"b_{name}"]
        return out

    q, k, v = split_heads(project("q"), n_heads), split_heads(project("k"), n_kv_heads), project("v")
    read = merge_heads(attend(q, k, split_heads(v, n_kv_heads), mask))
    return np.array([[token @ w["w_o"] + w["b_o"] for token in sequence] for sequence in read])


# %% loops
# replaces: norm-mlp
def layer_norm(x, gain, shift, eps=1e-5):
    out = np.zeros_like(x)
    for b in range(x.shape[0]):
        for i in range(x.shape[1]):
            mean = sum(x[b, i]) / x.shape[2]
            variance = sum((value - mean) ** 2 for value in x[b, i]) / x.shape[2]
            for j in range(x.shape[2]):
                out[b, i, j] = (x[b, i, j] - mean) / math.sqrt(variance + eps) * gain[j] + shift[j]
    return out


def mlp(x, w):
    def gelu(value):
        return value / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (value + 0.044715 * value**3)))

    out = np.zeros((*x.shape[:2], w["w_down"].shape[1]))
    for b in range(x.shape[0]):
        for i in range(x.shape[1]):
            hidden = x[b, i] @ w["w_up"] + w["b_up"]
            out[b, i] = np.array([gelu(value) for value in hidden]) @ w["w_down"] + w["b_down"]
    return out


# %% loops
# replaces: block
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    for number in (1, 2):
        y = layer_norm(x, w[f"gain_{number}"], w[f"shift_{number}"]) if norm == "pre" else x
        y = multi_head_attention(y, w, n_heads, n_kv_heads, mask) if number == 1 else mlp(y, w)
        x = x + y
        if norm == "post":
            x = layer_norm(x, w[f"gain_{number}"], w[f"shift_{number}"])
    return x


# %% loops
# replaces: count
def block_parameters(d_model, d_ff, n_heads, n_kv_heads, attention_bias=True):
    counts = {"attention": 0, "mlp": 0, "norms": 0}
    for heads in (n_heads, n_kv_heads, n_kv_heads):
        for _ in range(heads):
            counts["attention"] += d_model * (d_model // n_heads) + attention_bias * (d_model // n_heads)
    counts["attention"] += d_model * d_model + attention_bias * d_model
    for rows, columns in ((d_model, d_ff), (d_ff, d_model)):
        counts["mlp"] += rows * columns + columns
    for _ in range(2):
        counts["norms"] += d_model + d_model
    return counts


# %% einsum
# note: index notation everywhere; groups as an axis of their own
# replaces: split-merge
def split_heads(x, n_heads):
    return np.einsum("bnhd->bhnd", x.reshape(*x.shape[:2], n_heads, -1))


def merge_heads(heads):
    x = np.einsum("bhnd->bnhd", heads)
    return x.reshape(*x.shape[:2], -1)


# %% einsum
# replaces: attend
def attend(q, k, v, mask):
    batch, n_heads, n, d_k = q.shape
    kv_heads, m = k.shape[1:3]
    grouped = q.reshape(batch, kv_heads, n_heads // kv_heads, n, d_k)
    scores = np.einsum("bkgid,bkjd->bkgij", grouped, k) * d_k**-0.5
    may = np.broadcast_to(mask, (batch, n_heads, n, m)).reshape(scores.shape)
    scores[~may] = -np.inf
    empty = ~may.any(axis=-1)
    scores[empty] = 0
    weights = np.exp(scores - scores.max(axis=-1)[..., None])
    weights = np.einsum("...j,...->...j", weights, 1 / weights.sum(axis=-1))
    weights[empty] = 0
    return np.einsum("bkgij,bkje->bkgie", weights, v).reshape(batch, n_heads, n, -1)


# %% einsum
# replaces: multi-head
def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    d = x.shape[-1]
    size = d // n_heads
    heads = {"q": n_heads, "k": n_kv_heads, "v": n_kv_heads}
    q, k, v = (
        np.einsum("bnd,dhe->bhne", x, w[f"w_{name}"].reshape(d, count, size))
        + w[f"b_{name}"].reshape(count, 1, size)
        for name, count in heads.items()
    )
    return np.einsum("bhne,hed->bnd", attend(q, k, v, mask), w["w_o"].reshape(n_heads, size, d)) + w["b_o"]


# %% einsum
# replaces: norm-mlp
def layer_norm(x, gain, shift, eps=1e-5):
    d = x.shape[-1]
    mean = np.einsum("bnd->bn", x) / d
    centred = x - mean[..., None]
    variance = np.einsum("bnd,bnd->bn", centred, centred) / d
    return np.einsum("bnd,bn,d->bnd", centred, (variance + eps) ** -0.5, gain) + shift


def mlp(x, w):
    hidden = np.einsum("bnd,df->bnf", x, w["w_up"]) + w["b_up"]
    inner = np.sqrt(2 / np.pi) * (hidden + 0.044715 * np.power(hidden, 3))
    return np.einsum("bnf,fd->bnd", hidden * (0.5 + 0.5 * np.tanh(inner)), w["w_down"]) + w["b_down"]


# %% one-matrix
# note: queries, keys and values from one joined matrix; heads by split and stack; NumPy's own variance
# replaces: split-merge
def split_heads(x, n_heads):
    return np.stack(np.split(x, n_heads, axis=-1), axis=1)


def merge_heads(heads):
    return np.concatenate(list(np.moveaxis(heads, 1, 0)), axis=-1)


# %% one-matrix
# replaces: multi-head
def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    joined = np.concatenate([w["w_q"], w["w_k"], w["w_v"]], axis=1)
    bias = np.concatenate([w["b_q"], w["b_k"], w["b_v"]])
    every = split_heads(x @ joined + bias, n_heads + 2 * n_kv_heads)
    q, k, v = np.split(every, [n_heads, n_heads + n_kv_heads], axis=1)
    return merge_heads(attend(q, k, v, mask)).dot(w["w_o"]) + w["b_o"]


# %% one-matrix
# replaces: norm-mlp
def layer_norm(x, gain, shift, eps=1e-5):
    return gain * (x - np.mean(x, -1, keepdims=True)) / np.sqrt(np.var(x, -1, keepdims=True) + eps) + shift


def sigmoid(y):
    return 1 / (1 + np.exp(-y))


def mlp(x, w):
    hidden = np.matmul(x, w["w_up"]) + w["b_up"]
    hidden = hidden * sigmoid(2 * np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3))
    return np.matmul(hidden, w["w_down"]) + w["b_down"]


# %% one-matrix
# replaces: count
def block_parameters(d_model, d_ff, n_heads, n_kv_heads, attention_bias=True):
    head = d_model // n_heads
    columns = np.array([n_heads * head, n_kv_heads * head, n_kv_heads * head, d_model])
    rows = d_model + 1 if attention_bias else d_model
    return {
        "attention": (columns * rows).sum(),
        "mlp": (d_model + 1) * d_ff + (d_ff + 1) * d_model,
        "norms": np.int64(2 * 2 * d_model),
    }


# %% single-precision
# note: attention and the MLP in float32, whatever came in
# replaces: attend
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    q, k, v = (np.asarray(array, dtype=np.float32) for array in (q, k, v))
    k, v = k.repeat(group, axis=1), v.repeat(group, axis=1)
    scores = (q @ k.transpose(0, 1, 3, 2)) / np.float32(np.sqrt(q.shape[-1]))
    scores = np.where(mask, scores, np.finfo(np.float32).min)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True)) * mask
    return weights / np.maximum(weights.sum(axis=-1, keepdims=True), np.float32(1e-30)) @ v


# %% own-arrays
# note: writes into arrays of its own to save memory; keys are looked up by number of head
# replaces: split-merge
def split_heads(x, n_heads):
    batch, n, d = x.shape
    heads = np.empty((batch, n_heads, n, d // n_heads), x.dtype)
    for h, part in enumerate(np.array_split(x, n_heads, axis=2)):
        heads[:, h] = part
    return heads


def merge_heads(heads):
    batch, n_heads, n, size = heads.shape
    x = np.empty((batch, n, n_heads, size), heads.dtype)
    x[...] = heads.swapaxes(1, 2)
    x.shape = (batch, n, n_heads * size)
    return x


# %% own-arrays
# replaces: attend
def attend(q, k, v, mask):
    reads = np.arange(q.shape[1]) // (q.shape[1] // k.shape[1])
    weights = np.matmul(q, k[:, reads].swapaxes(2, 3))
    weights *= q.shape[3] ** -0.5
    np.putmask(weights, ~np.broadcast_to(mask, weights.shape), -np.inf)
    top = weights.max(axis=3, keepdims=True)
    top[np.isneginf(top)] = 0
    weights -= top
    np.exp(weights, out=weights)
    total = weights.sum(axis=3, keepdims=True)
    total[total == 0] = 1
    weights /= total
    return np.matmul(weights, v[:, reads])


# %% own-arrays
# replaces: norm-mlp
def layer_norm(x, gain, shift, eps=1e-5):
    out = np.array(x)
    out -= out.mean(axis=2, keepdims=True)
    out /= np.sqrt(np.square(out).mean(axis=2, keepdims=True) + eps)
    out *= gain
    out += shift
    return out


def mlp(x, w):
    hidden = x @ w["w_up"]
    hidden += w["b_up"]
    bend = hidden * hidden
    bend *= 0.044715
    bend += 1
    bend *= hidden
    bend *= (2 / np.pi) ** 0.5
    np.tanh(bend, out=bend)
    bend += 1
    hidden *= bend
    hidden /= 2
    return hidden @ w["w_down"] + w["b_down"]


# %% own-arrays
# replaces: block
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    stream = np.copy(x)
    first = (w["gain_1"], w["shift_1"])
    second = (w["gain_2"], w["shift_2"])
    if norm == "post":
        stream += multi_head_attention(stream, w, n_heads, n_kv_heads, mask)
        stream = layer_norm(stream, *first)
        stream += mlp(stream, w)
        return layer_norm(stream, *second)
    stream += multi_head_attention(layer_norm(stream, *first), w, n_heads, n_kv_heads, mask)
    stream += mlp(layer_norm(stream, *second), w)
    return stream


# %% functions-in-a-list
# note: the block as a loop over sublayers, helper functions for linear layers, a dictionary of shapes
# replaces: multi-head
def linear(x, w, name):
    return x @ w["w_" + name] + w["b_" + name]


def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    q, k, v = (
        split_heads(linear(x, w, n), count)
        for n, count in zip("qkv", (n_heads, n_kv_heads, n_kv_heads), strict=True)
    )
    return linear(merge_heads(attend(q, k, v, mask)), w, "o")


# %% functions-in-a-list
# replaces: block
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    sublayers = [lambda y: multi_head_attention(y, w, n_heads, n_kv_heads, mask), lambda y: mlp(y, w)]
    for number, sublayer in enumerate(sublayers, start=1):

        def norm_here(y, number=number):
            return layer_norm(y, w[f"gain_{number}"], w[f"shift_{number}"])

        x = x + sublayer(norm_here(x)) if norm == "pre" else norm_here(x + sublayer(x))
    return x


# %% functions-in-a-list
# replaces: count
def block_parameters(d_model, d_ff, n_heads, n_kv_heads, attention_bias=True):
    small = n_kv_heads * d_model // n_heads
    shapes = {
        "attention": [(d_model, d_model), (d_model, small), (d_model, small), (d_model, d_model)],
        "mlp": [(d_model, d_ff), (d_ff,), (d_ff, d_model), (d_model,)],
        "norms": [(d_model,)] * 4,
    }
    if attention_bias:
        shapes["attention"] += [(columns,) for _, columns in shapes["attention"]]
    return {part: sum(int(np.prod(shape)) for shape in some) for part, some in shapes.items()}
