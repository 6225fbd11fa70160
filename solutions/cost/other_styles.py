"""Right answers in other styles. Each must get full marks: tests ask what a function does, not how.

Entries of one name, each for another solution cell, are one student's work.
"""

# %% loops
# note: everything counted and computed one number at a time
# replaces: attention-cost
import math


def attention_cost(batch, heads, n, m, d_k, d_v, bytes_each):
    scores = work = 0
    for _ in range(batch * heads):
        for _ in range(n):
            scores += m
            work += m * d_k + m * d_v
    return {"scores": scores, "bytes": scores * bytes_each, "multiply_adds": work}


# %% loops
# replaces: layer-cost
def layer_cost(n, d_model, n_heads, d_ff):
    wide = d_model // n_heads
    attention = 0
    for _ in range(n_heads):
        attention += n * wide * n + n * n * wide
    return {"projections": 4 * (n * d_model * d_model), "attention": attention, "mlp": 2 * n * d_model * d_ff}


def break_even(d_model, d_ff):
    n = 1
    while 2 * n * n * d_model < 4 * n * d_model * d_model + 2 * n * d_model * d_ff:
        n += 1
    return n


# %% loops
# replaces: absorb
def absorb(top, total, mixed, q, k, v, allowed):
    top, total, mixed = (np.array(part) for part in (top, total, mixed))
    may = np.broadcast_to(allowed, (*q.shape[:3], k.shape[2]))
    for b, h, i in np.ndindex(q.shape[:3]):
        for j in np.flatnonzero(may[b, h, i]):
            score = float(q[b, h, i] @ k[b, h, j]) / math.sqrt(q.shape[3])
            higher = max(score, float(top[b, h, i]))
            shrink = math.exp(top[b, h, i] - higher)
            weight = math.exp(score - higher)
            total[b, h, i] = total[b, h, i] * shrink + weight
            mixed[b, h, i] = mixed[b, h, i] * shrink + weight * v[b, h, j]
            top[b, h, i] = higher
    return top, total, mixed


# %% loops
# replaces: blocks
def attention_in_blocks(q, k, v, block, causal=False):
    batch, heads, n, _ = q.shape
    m = k.shape[2]
    state = (
        np.full((batch, heads, n), -np.inf, q.dtype),
        np.zeros((batch, heads, n), q.dtype),
        np.zeros((batch, heads, n, v.shape[3]), q.dtype),
    )
    first = 0
    while first < m:
        some_k, some_v = k[:, :, first : first + block], v[:, :, first : first + block]
        may = [[not causal or first + j <= i + m - n for j in range(some_k.shape[2])] for i in range(n)]
        state = absorb(*state, q, some_k, some_v, np.array(may))
        first += block
    output, log_sum = np.zeros_like(state[2]), np.full_like(state[0], -np.inf)
    for place in np.ndindex(batch, heads, n):
        if state[1][place] > 0:
            output[place] = state[2][place] / state[1][place]
            log_sum[place] = state[0][place] + math.log(state[1][place])
    return output, log_sum


# %% loops
# replaces: merge
def merge_patches(patches, rows, columns, merge):
    tokens = []
    for i in range(0, rows, merge):
        for j in range(0, columns, merge):
            inside = [patches[:, (i + a) * columns + j + b] for a in range(merge) for b in range(merge)]
            tokens.append(np.concatenate(inside, axis=1))
    return np.stack(tokens, axis=1)


# %% loops
# replaces: saving
def saving(text, image, merge, d_model, n_heads, d_ff):
    n1 = text + image
    n2 = text
    for _ in range(image // (merge * merge)):
        n2 += 1
    w1 = w2 = 0
    for part in ("projections", "attention", "mlp"):
        w1 += layer_cost(n1, d_model, n_heads, d_ff)[part]
        w2 += layer_cost(n2, d_model, n_heads, d_ff)[part]
    return {"work": w1 / w2, "scores": n1 * n1 / (n2 * n2), "cache": n1 / n2}


# %% einsum
# note: index notation, and NumPy arrays in place of plain numbers
# replaces: attention-cost
def attention_cost(batch, heads, n, m, d_k, d_v, bytes_each):
    scores = np.prod([batch, heads, n, m])
    return dict(
        zip(("scores", "bytes", "multiply_adds"), scores * np.array([1, bytes_each, d_k + d_v]), strict=True)
    )


# %% einsum
# replaces: layer-cost
def layer_cost(n, d_model, n_heads, d_ff):
    parts = n * d_model * np.array([4 * d_model, 2 * n, 2 * d_ff])
    return dict(zip(("projections", "attention", "mlp"), parts, strict=True))


def break_even(d_model, d_ff):
    return np.float64(2 * d_model + d_ff)


# %% einsum
# replaces: absorb
def absorb(top, total, mixed, q, k, v, allowed):
    scores = np.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
    joined = np.concatenate([top[..., None], np.where(allowed, scores, -np.inf)], axis=-1)
    new = joined.max(axis=-1)
    with np.errstate(invalid="ignore"):
        raised = np.nan_to_num(np.exp(joined - new[..., None]), nan=0.0)
    shrink, raised = raised[..., 0], raised[..., 1:]
    mixed = np.einsum("bhi,bhie->bhie", shrink, mixed) + np.einsum("bhij,bhje->bhie", raised, v)
    return new, np.einsum("bhi,bhi->bhi", shrink, total) + np.einsum("bhij->bhi", raised), mixed


# %% einsum
# replaces: blocks
def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    zero = np.einsum("bhid->bhi", q) * 0
    state = zero - np.inf, zero, np.einsum("bhi,e->bhie", zero, np.zeros(v.shape[3], q.dtype))
    for keys in np.split(np.arange(m), np.arange(block, m, block)):
        may = keys[None, :] <= np.arange(n)[:, None] + (m - n if causal else m)
        state = absorb(*state, q, k[:, :, keys], v[:, :, keys], may)
    top, total, mixed = state
    with np.errstate(divide="ignore", invalid="ignore"):
        output = np.where(total[..., None] > 0, mixed / total[..., None], 0)
        return output, top + np.where(total > 0, np.log(total), 0)


# %% einsum
# replaces: merge
def merge_patches(patches, rows, columns, merge):
    d = patches.shape[-1]
    grid = patches.reshape(-1, rows // merge, merge, columns // merge, merge, d)
    joined = np.einsum("biajcd->bijacd", grid)
    return joined.reshape(len(patches), -1, merge * merge * d)


# %% einsum
# replaces: saving
def saving(text, image, merge, d_model, n_heads, d_ff):
    n = text + np.array([image, image / merge**2])
    work = n * (n + break_even(d_model, d_ff))
    ratio = n[0] / n[1]
    return {"scores": ratio**2, "cache": ratio, "work": work[0] / work[1]}


# %% single-precision
# note: float32 throughout, whatever came in; the answer is rounded a little differently
# replaces: absorb
def absorb(top, total, mixed, q, k, v, allowed):
    top, total, mixed, q, k, v = (
        np.asarray(array, dtype=np.float32) for array in (top, total, mixed, q, k, v)
    )
    scores = (q / np.float32(np.sqrt(q.shape[-1]))) @ k.transpose(0, 1, 3, 2)
    scores = np.where(allowed, scores, np.float32(-np.inf))
    new = np.maximum(top, scores.max(-1))
    safe = np.where(new == -np.inf, np.float32(0), new)
    raised = np.exp(scores - safe[..., None])
    shrink = np.exp(top - safe)
    return new, total * shrink + raised.sum(-1), mixed * shrink[..., None] + raised @ v


# %% own-arrays
# note: copies the state once and then works in place; a helper for the empty state; blocks from the end
# replaces: absorb
def absorb(top, total, mixed, q, k, v, allowed):
    top, total, mixed = top.copy(), total.copy(), mixed.copy()
    raised = np.matmul(q, k.swapaxes(2, 3))
    raised /= q.shape[-1] ** 0.5
    np.putmask(raised, np.broadcast_to(~allowed, raised.shape), -np.inf)
    before = top.copy()
    np.maximum(top, raised.max(axis=3), out=top)
    blind = np.isneginf(top)
    base = top.copy()
    base[blind] = 0
    raised -= base[..., np.newaxis]
    np.exp(raised, out=raised)
    before -= base
    np.exp(before, out=before)
    total *= before
    total += raised.sum(axis=3)
    mixed *= before[..., np.newaxis]
    mixed += raised @ v
    return top, total, mixed


# %% own-arrays
# replaces: blocks
def empty_state(q, d_v):
    shape = q.shape[:-1]
    return np.full(shape, -np.inf, q.dtype), np.zeros(shape, q.dtype), np.zeros((*shape, d_v), q.dtype)


def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    state = empty_state(q, v.shape[3])
    for first in reversed(range(0, m, block)):
        last = min(m, first + block)
        may = np.tri(n, last - first, m - n - first if causal else m, dtype=bool)
        state = absorb(*state, q, k[:, :, first:last], v[:, :, first:last], may)
    top, total, mixed = state
    seen = total > 0
    np.divide(mixed, total[..., None], out=mixed, where=seen[..., None])
    logs = np.log(total, out=np.full_like(total, -np.inf), where=seen)
    return mixed, np.where(seen, top + logs, -np.inf)


# %% skips-the-future
# note: causal blocks that no query may see are left out, and queries go in blocks too
# replaces: blocks
def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    pieces = []
    for start in range(0, n, block):
        some = q[:, :, start : start + block]
        places = np.arange(start, start + some.shape[2])[:, None] + (m - n)
        top = np.full(some.shape[:3], -np.inf, dtype=q.dtype)
        state = (top, 0 * np.ones_like(top), np.zeros((*some.shape[:3], v.shape[3]), q.dtype))
        for first in range(0, m, block):
            if causal and first > places[-1, 0]:
                break
            keys = np.arange(first, min(first + block, m))
            may = keys <= places if causal else np.ones((len(places), len(keys)), dtype=bool)
            state = absorb(*state, some, k[:, :, keys], v[:, :, keys], may)
        pieces.append(state)
    top, total, mixed = (np.concatenate(parts, axis=2) for parts in zip(*pieces, strict=True))
    safe = np.where(total == 0, 1, total).astype(q.dtype)
    return mixed / safe[..., None], top + np.log(safe)


# %% skips-the-future
# replaces: merge
def merge_patches(patches, rows, columns, merge):
    numbers = np.arange(rows * columns).reshape(rows, columns)
    squares = [np.split(strip, columns // merge, axis=1) for strip in np.split(numbers, rows // merge)]
    order = [square.ravel() for strip in squares for square in strip]
    return patches[:, np.array(order)].reshape(len(patches), len(order), -1)


# %% algebra
# note: closed formulas, without the functions of the sections before
# replaces: attention-cost
def attention_cost(batch, heads, n, m, d_k, d_v, bytes_each):
    per_pair = batch * heads
    costs = {"multiply_adds": n * m * per_pair * d_k + n * m * per_pair * d_v}
    costs["bytes"] = n * per_pair * m * bytes_each
    costs["scores"] = costs["bytes"] // bytes_each
    return costs


# %% algebra
# replaces: layer-cost
def layer_cost(n, d_model, n_heads, d_ff):
    per_token = n * d_model
    return {
        "mlp": per_token * d_ff * 2.0,
        "attention": per_token * n * 2.0,
        "projections": per_token * d_model * 4.0,
    }


def break_even(d_model, d_ff):
    rest = layer_cost(1, d_model, 1, d_ff)
    return (rest["projections"] + rest["mlp"]) / rest["attention"]


# %% algebra
# replaces: saving
def saving(text, image, merge, d_model, n_heads, d_ff):
    before = text + image
    after = text + image / merge / merge
    even = 2 * d_model + d_ff
    return {
        "scores": before * before / after / after,
        "cache": before / after,
        "work": before * (before + even) / after / (after + even),
    }
