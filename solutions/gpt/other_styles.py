"""Right answers in other styles. Each must get full marks: tests ask what a function does, not how.

Entries of one name, each for another solution cell, are one student's work.
"""

# %% loops
# note: plain Python loops over texts, heads, positions and words
# replaces: block
import math


def attend(q, k, v):
    batch, heads, n, d_k = q.shape
    m = k.shape[2]
    out = np.zeros((batch, heads, n, v.shape[3]))
    for b in range(batch):
        for h in range(heads):
            for i in range(n):
                seen = range(i + m - n + 1)
                scores = [float(q[b, h, i] @ k[b, h, j]) / math.sqrt(d_k) for j in seen]
                raised = [math.exp(score - max(scores)) for score in scores]
                for j in seen:
                    out[b, h, i] += raised[j] / sum(raised) * v[b, h, j]
    return out


def layer_norm(x, gain, shift, eps=1e-5):
    out = np.zeros_like(x)
    for b, i in np.ndindex(x.shape[:2]):
        mean = sum(x[b, i]) / x.shape[2]
        variance = sum((value - mean) ** 2 for value in x[b, i]) / x.shape[2]
        out[b, i] = (x[b, i] - mean) / math.sqrt(variance + eps) * gain + shift
    return out


def mlp(x, w):
    def gelu(value):
        return value / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (value + 0.044715 * value**3)))

    out = np.zeros((*x.shape[:2], w["w_down"].shape[1]))
    for b, i in np.ndindex(x.shape[:2]):
        hidden = x[b, i] @ w["w_up"] + w["b_up"]
        out[b, i] = np.array([gelu(value) for value in hidden]) @ w["w_down"] + w["b_down"]
    return out


def block(x, w, n_heads, turn=None):
    n, d = x.shape[1:]
    size = d // n_heads
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    read = np.zeros_like(x)
    for h in range(n_heads):
        own = slice(h * size, (h + 1) * size)
        parts = {}
        for name in "qkv":
            parts[name] = y @ w["w_" + name][:, own] + w["b_" + name][own]
            if turn is not None and name != "v":
                for p in range(n):
                    parts[name][:, p] = parts[name][:, p] @ turn[p]
        found = attend(parts["q"][:, None], parts["k"][:, None], parts["v"][:, None])
        read[:, :, own] = found[:, 0]
    x = x + (read @ w["w_o"] + w["b_o"])
    return x + mlp(layer_norm(x, w["gain_2"], w["shift_2"]), w)


# %% loops
# replaces: gpt
def embed(ids, w):
    batch, n = ids.shape
    d = w["tokens"].shape[1]
    if "positions" in w and n > w["positions"].shape[0]:
        raise ValueError(f"{n} tokens, but {w['positions'].shape[0]} positions")
    x = np.zeros((batch, n, d))
    for b in range(batch):
        for i in range(n):
            x[b, i] = w["tokens"][ids[b, i]]
            if "positions" in w:
                x[b, i] += w["positions"][i]
    return x


def logits_of(x, w, n_heads, turn=None):
    for number in range(len(w["blocks"])):
        x = block(x, w["blocks"][number], n_heads, turn)
    x = layer_norm(x, w["gain"], w["shift"])
    logits = np.zeros((*x.shape[:2], len(w["tokens"])))
    for word, row in enumerate(w["tokens"]):
        logits[:, :, word] = x @ row
    return logits


# %% loops
# replaces: loss
def loss_and_gradient(logits, ids, ignore):
    gradient = np.zeros(logits.shape, dtype=logits.dtype)
    total, places = 0.0, []
    for b in range(len(ids)):
        for i in range(ids.shape[1] - 1):
            if ids[b, i + 1] != ignore:
                places.append((b, i, ids[b, i + 1]))
    for b, i, target in places:
        top = max(float(score) for score in logits[b, i])
        raised = [math.exp(float(score) - top) for score in logits[b, i]]
        total += math.log(sum(raised)) - (float(logits[b, i, target]) - top)
        for word, one in enumerate(raised):
            gradient[b, i, word] = (one / sum(raised) - (word == target)) / len(places)
    return total / len(places), gradient


# %% loops
# replaces: start
def initial_deviation(name, n_layers):
    if name in ["w_o", "w_down"]:
        return 0.02 / math.sqrt(2 * n_layers)
    if name in ["w_q", "w_k", "w_v", "w_up", "tokens", "positions"]:
        return 0.02
    return 0


def gpt_parameters(vocabulary, context, n_layers, d_model, d_ff, tied=True):
    total = 0
    for rows in (vocabulary, context) if tied else (vocabulary, context, vocabulary):
        total += rows * d_model
    for _ in range(n_layers):
        for rows, columns in [(d_model, d_model)] * 4 + [(d_model, d_ff), (d_ff, d_model)]:
            total += rows * columns + columns
        for _norm in range(2):
            total += d_model + d_model
    return total + d_model + d_model


# %% loops
# replaces: schedule
def learning_rate(step, peak, warmup, total, floor):
    if step < warmup:
        return step / warmup * peak
    if step > total:
        return floor
    angle = math.pi * (step - warmup) / (total - warmup)
    return floor + 0.5 * (peak - floor) * (1 + math.cos(angle))


# %% loops
# replaces: sampling
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    scores = [float(score) for score in logits]
    best = scores.index(max(scores))
    if temperature == 0:
        return np.array([1.0 if word == best else 0.0 for word in range(len(scores))])
    raised = {word: math.exp((score - scores[best]) / temperature) for word, score in enumerate(scores)}
    ranked = sorted(raised, key=raised.get, reverse=True)
    if top_k:
        ranked = ranked[:top_k]
    total = sum(raised[word] for word in ranked)
    kept, so_far = [], 0.0
    for word in ranked:
        if kept and so_far >= top_p:
            break
        kept.append(word)
        so_far += raised[word] / total
    p = [0.0] * len(scores)
    for word in kept:
        p[word] = raised[word] / total / so_far
    return np.array(p)


def pick(p, u):
    so_far, last = 0.0, 0
    for word, chance in enumerate(p):
        if chance > 0:
            so_far, last = so_far + chance, word
            if so_far > u:
                return word
    return last


# %% einsum
# note: index notation everywhere
# replaces: block
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = np.einsum("bhid,bhjd->bhij", q, k) * q.shape[3] ** -0.5
    hidden = np.arange(m) > np.arange(n)[:, None] + (m - n)
    scores[:, :, hidden] = -np.inf
    weights = np.exp(scores - scores.max(axis=3)[..., None])
    return np.einsum("bhij,bhje,bhi->bhie", weights, v, 1 / weights.sum(axis=3))


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - np.einsum("bnd->bn", x)[..., None] / x.shape[2]
    variance = np.einsum("bnd,bnd->bn", centred, centred) / x.shape[2]
    return np.einsum("bnd,bn,d->bnd", centred, (variance + eps) ** -0.5, gain) + shift


def mlp(x, w):
    hidden = np.einsum("bnd,df->bnf", x, w["w_up"]) + w["b_up"]
    inner = np.sqrt(2 / np.pi) * (hidden + 0.044715 * np.power(hidden, 3))
    return np.einsum("bnf,fd->bnd", hidden * (0.5 + 0.5 * np.tanh(inner)), w["w_down"]) + w["b_down"]


def block(x, w, n_heads, turn=None):
    d = x.shape[2]
    y = layer_norm(x, w["gain_1"], w["shift_1"])

    def in_heads(name):
        matrix = w[f"w_{name}"].reshape(d, n_heads, d // n_heads)
        return np.einsum("bnd,dhe->bhne", y, matrix) + w[f"b_{name}"].reshape(n_heads, 1, -1)

    q, k, v = in_heads("q"), in_heads("k"), in_heads("v")
    if turn is not None:
        q, k = np.einsum("bhnd,nde->bhne", q, turn), np.einsum("bhnd,nde->bhne", k, turn)
    out = w["w_o"].reshape(n_heads, d // n_heads, d)
    x = x + np.einsum("bhne,hed->bnd", attend(q, k, v), out) + w["b_o"]
    return x + mlp(layer_norm(x, w["gain_2"], w["shift_2"]), w)


# %% einsum
# replaces: gpt
def embed(ids, w):
    one_hot = (ids[..., None] == np.arange(len(w["tokens"]))).astype(w["tokens"].dtype)
    x = np.einsum("bnv,vd->bnd", one_hot, w["tokens"])
    positions = w.get("positions")
    if positions is None:
        return x
    if ids.shape[1] > len(positions):
        raise ValueError(f"expected at most {len(positions)} tokens, got {ids.shape[1]}")
    return x + positions[None, : ids.shape[1]]


def logits_of(x, w, n_heads, turn=None):
    for weights in w["blocks"]:
        x = block(x, weights, n_heads, turn)
    return np.einsum("bnd,vd->bnv", layer_norm(x, w["gain"], w["shift"]), w["tokens"])


# %% einsum
# replaces: loss
def loss_and_gradient(logits, ids, ignore):
    words = logits.shape[2]
    targets = np.full(ids.shape, ignore)
    targets[:, :-1] = ids[:, 1:]
    wanted = (targets[..., None] == np.arange(words)) & (targets != ignore)[..., None]
    share = 1.0 / (targets != ignore).sum()
    top = logits.max(axis=2, keepdims=True)
    log_p = logits - top - np.log(np.exp(logits - top).sum(axis=2, keepdims=True))
    loss = -share * np.einsum("bnv,bnv->", log_p, wanted.astype(log_p.dtype))
    gradient = share * np.einsum("bnv,bn->bnv", np.exp(log_p) - wanted, (targets != ignore) * 1.0)
    return loss, gradient.astype(logits.dtype)


# %% flat-loss
# note: the loss over one long list of the places that count; sampling by thresholds instead of an order
# replaces: loss
def log_softmax(scores):
    return scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True)


def loss_and_gradient(logits, ids, ignore):
    rows, columns = np.nonzero(ids[:, 1:] != ignore)
    targets = ids[rows, columns + 1]
    log_p = log_softmax(logits[rows, columns])
    gradient = logits * 0
    wanted = np.eye(logits.shape[-1], dtype=logits.dtype)[targets]
    gradient[rows, columns] = (np.exp(log_p) - wanted) / len(rows)
    return -np.mean(log_p[np.arange(len(rows)), targets]), gradient


# %% flat-loss
# replaces: sampling
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    if temperature == 0:
        one = np.zeros(len(logits))
        one[int(np.argmax(logits))] = 1
        return one
    scores = np.array(logits) / temperature
    if 0 < top_k < len(scores):
        scores = np.where(scores < np.sort(scores)[-top_k], -np.inf, scores)
    p = np.exp(scores - np.logaddexp.reduce(scores))
    falling = np.sort(p)[::-1]
    enough = np.searchsorted(np.cumsum(falling), top_p)
    if enough < len(p):
        p = np.where(p < falling[enough], 0, p)
    return p / p.sum()


def pick(p, u):
    return int(np.nonzero(np.cumsum(p) > u)[0][0])


# %% flat-loss
# replaces: schedule
def learning_rate(step, peak, warmup, total, floor):
    step = min(step, total)
    up = peak * step / warmup
    wave = np.cos(np.pi / 2 * max(0, step - warmup) / (total - warmup)) ** 2
    return np.where(step <= warmup, up, floor + (peak - floor) * wave)


# %% in-place
# note: writes into arrays of its own to save memory
# replaces: block
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    weights = np.matmul(q, k.swapaxes(2, 3))
    weights /= q.shape[3] ** 0.5
    weights += np.triu(np.full((n, m), -np.inf), k=m - n + 1)
    weights -= weights.max(axis=3, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=3, keepdims=True)
    return np.matmul(weights, v)


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


def block(x, w, n_heads, turn=None):
    stream = np.copy(x)
    y = layer_norm(stream, w["gain_1"], w["shift_1"])
    joined = y @ np.hstack([w["w_q"], w["w_k"], w["w_v"]])
    joined += np.hstack([w["b_q"], w["b_k"], w["b_v"]])
    q, k, v = (np.stack(np.split(part, n_heads, axis=2), axis=1) for part in np.split(joined, 3, axis=2))
    if turn is not None:
        for part in (q, k):
            part[...] = np.matmul(part.swapaxes(1, 2), turn).swapaxes(1, 2)
    stream += np.concatenate(list(attend(q, k, v).swapaxes(0, 1)), axis=2) @ w["w_o"]
    stream += w["b_o"]
    stream += mlp(layer_norm(stream, w["gain_2"], w["shift_2"]), w)
    return stream


# %% in-place
# replaces: gpt
def embed(ids, w):
    x = np.take(w["tokens"], ids, axis=0)
    if "positions" in w:
        if ids.shape[-1] > w["positions"].shape[0]:
            raise ValueError(f"text too long: {ids.shape[-1]} > {len(w['positions'])}")
        x += w["positions"][: ids.shape[-1]]
    return x


def logits_of(x, w, n_heads, turn=None):
    stream = x.copy()
    for one in w["blocks"]:
        stream[...] = block(stream, one, n_heads, turn=turn)
    return np.matmul(layer_norm(stream, w["gain"], w["shift"]), w["tokens"].transpose())


# %% in-place
# replaces: loss
def loss_and_gradient(logits, ids, ignore):
    p = np.array(logits)
    p -= p.max(axis=2, keepdims=True)
    log_total = np.log(np.exp(p).sum(axis=2))
    counted = ids[:, 1:] != ignore
    b, i = np.nonzero(counted)
    t = ids[:, 1:][counted]
    loss = (log_total[b, i] - p[b, i, t]).mean()
    np.exp(p, out=p)
    p /= p.sum(axis=2, keepdims=True)
    p[b, i, t] -= 1
    p[:, :-1][~counted] = 0
    p[:, -1] = 0
    p /= len(t)
    return loss, p


# %% in-place
# replaces: sampling
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    p = np.zeros(len(logits))
    order = np.argsort(logits)[::-1]
    if temperature == 0 or top_k == 1:
        p[order[0]] = 1
        return p
    order = order[: top_k or None]
    p[order] = np.exp((logits[order] - logits[order[0]]) / temperature)
    p /= p.sum()
    count = 1
    while count < len(order) and p[order[:count]].sum() < top_p:
        count += 1
    p[order[count:]] = 0
    p /= p.sum()
    return p


def pick(p, u):
    ids = np.flatnonzero(p)
    ends = np.add.accumulate(p[ids])
    return int(ids[min(np.sum(ends <= u), len(ids) - 1)])


# %% shapes-in-a-list
# note: a class for the blocks, a list of shapes for the count, a table for the deviations
# replaces: block
class Attention:
    def __init__(self, w, n_heads):
        self.w, self.n_heads = w, n_heads

    def project(self, y, name):
        flat = y @ self.w["w_" + name] + self.w["b_" + name]
        return np.moveaxis(flat.reshape(*y.shape[:2], self.n_heads, -1), 2, 1)

    def __call__(self, y, turn):
        q, k, v = (self.project(y, name) for name in ("q", "k", "v"))
        if turn is not None:
            q = np.stack([q[:, :, p] @ turn[p] for p in range(len(turn))], axis=2)
            k = np.stack([k[:, :, p] @ turn[p] for p in range(len(turn))], axis=2)
        return np.moveaxis(attend(q, k, v), 1, 2).reshape(y.shape) @ self.w["w_o"] + self.w["b_o"]


def attend(q, k, v):
    n, m = q.shape[-2], k.shape[-2]
    may = np.tril(np.ones((n, m), dtype=bool), m - n)
    scores = np.where(may, (q / np.sqrt(q.shape[-1])) @ np.moveaxis(k, -1, -2), np.finfo(q.dtype).min)
    weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True)) * may
    return (weights @ v) / weights.sum(axis=-1, keepdims=True)


def layer_norm(x, gain, shift, eps=1e-5):
    return gain * (x - np.mean(x, -1, keepdims=True)) / np.sqrt(np.var(x, -1, keepdims=True) + eps) + shift


def sigmoid(y):
    return 1 / (1 + np.exp(-y))


def mlp(x, w):
    hidden = np.matmul(x, w["w_up"]) + w["b_up"]
    hidden = hidden * sigmoid(2 * np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3))
    return np.matmul(hidden, w["w_down"]) + w["b_down"]


def block(x, w, n_heads, turn=None):
    sublayers = [lambda y: Attention(w, n_heads)(y, turn), lambda y: mlp(y, w)]
    for number, sublayer in enumerate(sublayers, start=1):
        x = x + sublayer(layer_norm(x, w[f"gain_{number}"], w[f"shift_{number}"]))
    return x


# %% shapes-in-a-list
# replaces: gpt
def embed(ids, w):
    table = w.get("positions", np.zeros((ids.shape[1], w["tokens"].shape[1])))
    if len(table) < ids.shape[1]:
        raise ValueError(f"{ids.shape[1]} > {len(table)}")
    return np.array([[w["tokens"][word] + table[i] for i, word in enumerate(text)] for text in ids])


def logits_of(x, w, n_heads, turn=None):
    if not w["blocks"]:
        return layer_norm(x, w["gain"], w["shift"]).dot(w["tokens"].T)
    first, *rest = w["blocks"]
    return logits_of(block(x, first, n_heads, turn), {**w, "blocks": rest}, n_heads, turn)


# %% shapes-in-a-list
# replaces: start
def initial_deviation(name, n_layers):
    small = 0.02 * (2 * n_layers) ** -0.5
    table = {"w_o": small, "w_down": small} | dict.fromkeys(["tokens", "positions"], 0.02)
    return np.float64(table.get(name, 0.02 if name[:2] == "w_" else 0.0))


def gpt_parameters(vocabulary, context, n_layers, d_model, d_ff, tied=True):
    d, f = d_model, d_ff
    one_block = [(d, 3 * d), (3 * d,), (d, d), (d,), (d, f), (f,), (f, d), (d,), (d,), (d,), (d,), (d,)]
    shapes = [(vocabulary, d), (context, d), *n_layers * one_block, (d,), (d,)]
    if not tied:
        shapes.append((d, vocabulary))
    return np.sum([np.prod(shape, dtype=np.int64) for shape in shapes])
