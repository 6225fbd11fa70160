"""Wrong answers that students really write, each with the belief behind it.

Every entry is a whole solution cell. It goes wrong in a way of its own: no two entries give the same
numbers on all inputs of the tests, so a submission that behaves like one of them can be told its name.
"""


# %% square-of-queries
# belief: Attention is n squared, so there are n times n scores.
# advice: That holds when the tokens read each other. Here the keys may be other tokens: how many columns
#   has the table?
# replaces: attention-cost
# caught by: every head of every sequence has a table of its own
def attention_cost(batch, heads, n, m, d_k, d_v, bytes_each):
    scores = batch * heads * n * n
    return {"scores": scores, "bytes": scores * bytes_each, "multiply_adds": scores * (d_k + d_v)}


# %% one-table-for-all-heads
# belief: There is one table of scores, which the heads share.
# advice: Each head has queries and keys of its own. Could two heads have the same scores?
# replaces: attention-cost
# caught by: every head of every sequence has a table of its own
def attention_cost(batch, heads, n, m, d_k, d_v, bytes_each):
    scores = batch * n * m
    return {"scores": scores, "bytes": scores * bytes_each, "multiply_adds": scores * (d_k + d_v)}


# %% one-table-for-the-batch
# belief: The sequences of a batch go through together, so they share one table.
# advice: They share the weights of the model. Does a token of one sequence have the scores of another?
# replaces: attention-cost
# caught by: every head of every sequence has a table of its own
def attention_cost(batch, heads, n, m, d_k, d_v, bytes_each):
    scores = heads * n * m
    return {"scores": scores, "bytes": scores * bytes_each, "multiply_adds": scores * (d_k + d_v)}


# %% half-a-table
# belief: Only the pairs below the diagonal are needed, so half of the scores need not be counted.
# advice: That is so under a causal mask. Nothing here says that the future is hidden.
# replaces: attention-cost
# caught by: every head of every sequence has a table of its own
def attention_cost(batch, heads, n, m, d_k, d_v, bytes_each):
    scores = batch * heads * n * (m + 1) // 2
    return {"scores": scores, "bytes": scores * bytes_each, "multiply_adds": scores * (d_k + d_v)}


# %% table-of-vectors
# belief: A score is the product of two vectors, so it has as many numbers as they have.
# advice: A dot product adds all its products up. How many numbers are left?
# replaces: attention-cost
# caught by: bytes belong to the table of scores
def attention_cost(batch, heads, n, m, d_k, d_v, bytes_each):
    scores = batch * heads * n * m
    return {"scores": scores, "bytes": scores * d_k * bytes_each, "multiply_adds": scores * (d_k + d_v)}


# %% inputs-in-the-bytes
# belief: The memory of attention is that of queries and keys.
# advice: Those grow in a straight line. Which array has a row for each query and a column for each key?
# replaces: attention-cost
# caught by: bytes belong to the table of scores
def attention_cost(batch, heads, n, m, d_k, d_v, bytes_each):
    scores = batch * heads * n * m
    return {
        "scores": scores,
        "bytes": batch * heads * (n + m) * d_k * bytes_each,
        "multiply_adds": scores * (d_k + d_v),
    }


# %% bits-for-bytes
# belief: A number of so many bytes takes eight times as many.
# advice: The question is in bytes already. What is itemsize counted in?
# replaces: attention-cost
# caught by: bytes belong to the table of scores
def attention_cost(batch, heads, n, m, d_k, d_v, bytes_each):
    scores = batch * heads * n * m
    return {"scores": scores, "bytes": 8 * scores * bytes_each, "multiply_adds": scores * (d_k + d_v)}


# %% scores-only
# belief: Attention is the product of queries and keys; what comes after is for free.
# advice: The weights are then multiplied with the values. How many multiply-adds does each weight take
#   part in?
# replaces: attention-cost
# caught by: both products count, each with its own size
def attention_cost(batch, heads, n, m, d_k, d_v, bytes_each):
    scores = batch * heads * n * m
    return {"scores": scores, "bytes": scores * bytes_each, "multiply_adds": scores * d_k}


# %% both-products-with-d-k
# belief: Keys and values have one size, so both products cost the same.
# advice: The second product mixes values, and they may have another size than keys.
# replaces: attention-cost
# caught by: both products count, each with its own size
def attention_cost(batch, heads, n, m, d_k, d_v, bytes_each):
    scores = batch * heads * n * m
    return {"scores": scores, "bytes": scores * bytes_each, "multiply_adds": scores * 2 * d_k}


# %% additions-counted-apart
# belief: A multiplication and an addition are two operations.
# advice: Some count so, and call them FLOPs. Here one multiplication with the addition that follows
#   counts as one.
# replaces: attention-cost
# caught by: both products count, each with its own size
def attention_cost(batch, heads, n, m, d_k, d_v, bytes_each):
    scores = batch * heads * n * m
    return {"scores": scores, "bytes": scores * bytes_each, "multiply_adds": 2 * scores * (d_k + d_v)}


# %% mlp-one-way
# belief: The MLP is one matrix.
# advice: It widens each token and brings it back. How many matrices is that?
# replaces: layer-cost
# caught by: projections and MLP of another layer
def layer_cost(n, d_model, n_heads, d_ff):
    return {
        "projections": 4 * n * d_model**2,
        "attention": 2 * n**2 * d_model,
        "mlp": n * d_model * d_ff,
    }


def break_even(d_model, d_ff):
    return 2 * d_model + d_ff


# %% no-output-projection
# belief: There are three projections: queries, keys, values.
# advice: After the heads are put side by side, one more matrix mixes them.
# replaces: layer-cost
# caught by: projections and MLP of another layer
def layer_cost(n, d_model, n_heads, d_ff):
    return {
        "projections": 3 * n * d_model**2,
        "attention": 2 * n**2 * d_model,
        "mlp": 2 * n * d_model * d_ff,
    }


def break_even(d_model, d_ff):
    return 2 * d_model + d_ff


# %% mlp-reads-all-tokens
# belief: In the MLP every token meets every other one, too.
# advice: The MLP treats each token alone. Only attention lets tokens meet.
# replaces: layer-cost
# caught by: projections and MLP of another layer
def layer_cost(n, d_model, n_heads, d_ff):
    return {
        "projections": 4 * n * d_model**2,
        "attention": 2 * n**2 * d_model,
        "mlp": 2 * n**2 * d_ff,
    }


def break_even(d_model, d_ff):
    return 2 * d_model + d_ff


# %% attention-in-a-line
# belief: Each token attends once, so twice the tokens cost twice as much.
# advice: Each token attends to all tokens. When their number doubles, both the queries and the keys do.
# replaces: layer-cost
# caught by: attention grows with the square of the tokens
def layer_cost(n, d_model, n_heads, d_ff):
    return {
        "projections": 4 * n * d_model**2,
        "attention": 2 * n * d_model**2,
        "mlp": 2 * n * d_model * d_ff,
    }


def break_even(d_model, d_ff):
    return 2 * d_model + d_ff


# %% scores-without-mixing
# belief: The cost of attention is the cost of the scores.
# advice: The weights mix the values afterwards. That is a second product of the same size.
# replaces: layer-cost
# caught by: attention grows with the square of the tokens
def layer_cost(n, d_model, n_heads, d_ff):
    return {
        "projections": 4 * n * d_model**2,
        "attention": n**2 * d_model,
        "mlp": 2 * n * d_model * d_ff,
    }


def break_even(d_model, d_ff):
    return 2 * d_model + d_ff


# %% heads-cost-extra
# belief: With h heads attention costs h times as much.
# advice: Each head is only as wide as the model's width divided by h. What becomes of h in the product?
# replaces: layer-cost
# caught by: more heads of less width cost the same
def layer_cost(n, d_model, n_heads, d_ff):
    return {
        "projections": 4 * n * d_model**2,
        "attention": 2 * n_heads * n**2 * d_model,
        "mlp": 2 * n * d_model * d_ff,
    }


def break_even(d_model, d_ff):
    return 2 * d_model + d_ff


# %% one-head-counted
# belief: The heads work side by side, so only one of them counts.
# advice: They work at the same time, but each does work of its own. Add up all of them.
# replaces: layer-cost
# caught by: more heads of less width cost the same
def layer_cost(n, d_model, n_heads, d_ff):
    return {
        "projections": 4 * n * d_model**2,
        "attention": 2 * n**2 * (d_model // n_heads),
        "mlp": 2 * n * d_model * d_ff,
    }


def break_even(d_model, d_ff):
    return 2 * d_model + d_ff


# %% square-always-rules
# belief: Attention is quadratic, so it costs more than all the rest at any length.
# advice: Put n = 1 into both sides. Which one is larger?
# replaces: layer-cost
# caught by: at break-even the two sides cost the same
def layer_cost(n, d_model, n_heads, d_ff):
    return {
        "projections": 4 * n * d_model**2,
        "attention": 2 * n**2 * d_model,
        "mlp": 2 * n * d_model * d_ff,
    }


def break_even(d_model, d_ff):
    return 1


# %% projections-alone
# belief: The square has to be compared with the projections.
# advice: The MLP is part of the layer as well, and is the larger part of the rest.
# replaces: layer-cost
# caught by: at break-even the two sides cost the same
def layer_cost(n, d_model, n_heads, d_ff):
    return {
        "projections": 4 * n * d_model**2,
        "attention": 2 * n**2 * d_model,
        "mlp": 2 * n * d_model * d_ff,
    }


def break_even(d_model, d_ff):
    return 2 * d_model


# %% six-times-the-width
# belief: Break-even is at six times the width.
# advice: That is so when d_ff is four times d. Here d_ff may be anything.
# replaces: layer-cost
# caught by: at break-even the two sides cost the same
def layer_cost(n, d_model, n_heads, d_ff):
    return {
        "projections": 4 * n * d_model**2,
        "attention": 2 * n**2 * d_model,
        "mlp": 2 * n * d_model * d_ff,
    }


def break_even(d_model, d_ff):
    return 6 * d_model


# %% unscaled-scores
# belief: The scale can be left to the end, since top takes the size out.
# advice: top takes out the largest score, not the distances between scores. When are they divided by the
#   root of d_k?
# replaces: absorb
# caught by: one block from nothing
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2)
    scores = np.where(allowed, scores, -np.inf)
    new_top = np.maximum(top, scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    return new_top, shrink * total + raised.sum(axis=-1), shrink[..., None] * mixed + raised @ v


# %% scaled-by-d-k
# belief: A score is divided by the number of its terms.
# advice: The terms partly cancel. How does the typical size of their sum grow?
# replaces: absorb
# caught by: one block from nothing
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1]
    scores = np.where(allowed, scores, -np.inf)
    new_top = np.maximum(top, scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    return new_top, shrink * total + raised.sum(axis=-1), shrink[..., None] * mixed + raised @ v


# %% normalised-in-the-block
# belief: Each block gives an average, so it is divided by its own sum.
# advice: Then a block with little weight counts as much as one with a lot. Divide once, at the very end.
# replaces: absorb
# caught by: one block from nothing
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(allowed, scores, -np.inf)
    new_top = np.maximum(top, scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    share = raised / np.maximum(raised.sum(axis=-1, keepdims=True), 1e-300)
    return new_top, shrink * total + raised.sum(axis=-1), shrink[..., None] * mixed + share @ v


# %% rescales-nothing
# belief: What has been summed up stays as it is; a new block is just added.
# advice: The old sums are relative to the old top. What factor brings them to the new one?
# replaces: absorb
# caught by: three blocks of different size are like all keys at once
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(allowed, scores, -np.inf)
    new_top = np.maximum(top, scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    raised = np.exp(scores - base[..., None])
    return new_top, total + raised.sum(axis=-1), mixed + raised @ v


# %% rescales-total-only
# belief: Only the sum of the exponentials depends on top.
# advice: mixed is a sum of the same exponentials, each times a value. Does it not depend on top?
# replaces: absorb
# caught by: three blocks of different size are like all keys at once
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(allowed, scores, -np.inf)
    new_top = np.maximum(top, scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    return new_top, shrink * total + raised.sum(axis=-1), mixed + raised @ v


# %% rescales-mixed-only
# belief: Only the output depends on top.
# advice: The output is mixed divided by total. Both must be relative to the same top.
# replaces: absorb
# caught by: three blocks of different size are like all keys at once
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(allowed, scores, -np.inf)
    new_top = np.maximum(top, scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    return new_top, total + raised.sum(axis=-1), shrink[..., None] * mixed + raised @ v


# %% rescales-the-wrong-way
# belief: The old sums are multiplied by exp(new - old).
# advice: When top grows, what was summed up before counts less. Should the factor be above or below 1?
# replaces: absorb
# caught by: three blocks of different size are like all keys at once
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(allowed, scores, -np.inf)
    new_top = np.maximum(top, scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.where(np.isfinite(top), np.exp(base - np.where(np.isfinite(top), top, 0.0)), 0.0)
    raised = np.exp(scores - base[..., None])
    return new_top, shrink * total + raised.sum(axis=-1), shrink[..., None] * mixed + raised @ v


# %% rescales-the-new-block-too
# belief: The factor belongs to everything, the new block as well.
# advice: The new block's exponentials are relative to the new top from the start.
# replaces: absorb
# caught by: three blocks of different size are like all keys at once
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(allowed, scores, -np.inf)
    new_top = np.maximum(top, scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    return new_top, shrink * (total + raised.sum(axis=-1)), shrink[..., None] * (mixed + raised @ v)


# %% top-of-this-block
# belief: The shift is the largest score of the block at hand.
# advice: Then the factor for the old sums may be huge. Keep the largest score of all blocks so far.
# replaces: absorb
# caught by: the top is the largest score of all blocks, not of the last one
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(allowed, scores, -np.inf)
    new_top = scores.max(axis=-1)
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    return new_top, shrink * total + raised.sum(axis=-1), shrink[..., None] * mixed + raised @ v


# %% no-top
# belief: The exponentials can be added as they are; top is only noted.
# advice: exp(1000) is infinite. Take every exponential relative to the largest score so far.
# replaces: absorb
# caught by: scores of a thousand do no harm, in whatever order they come
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(allowed, scores, -np.inf)
    new_top = np.maximum(top, scores.max(axis=-1))
    plain = np.exp(scores)
    return new_top, total + plain.sum(axis=-1), mixed + plain @ v


# %% top-clipped
# belief: Scores that are too large can be cut off before the exponential.
# advice: After the cut two large scores look the same. Move the scores together, so that their
#   differences stay.
# replaces: absorb
# caught by: scores of a thousand do no harm, in whatever order they come
def absorb(top, total, mixed, q, k, v, allowed):
    scores = np.clip(q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5, -600, 600)
    scores = np.where(allowed, scores, -np.inf)
    new_top = np.maximum(top, scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    return new_top, shrink * total + raised.sum(axis=-1), shrink[..., None] * mixed + raised @ v


# %% one-top-for-all-queries
# belief: One top for the whole block makes every query safe.
# advice: A query whose scores lie far below it loses all its exponentials. Each query needs a top of its
#   own.
# replaces: absorb
# caught by: scores of a thousand do no harm, in whatever order they come
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(allowed, scores, -np.inf)
    new_top = np.maximum(top, np.full_like(top, scores.max()))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    return new_top, shrink * total + raised.sum(axis=-1), shrink[..., None] * mixed + raised @ v


# %% hidden-scores-zero
# belief: A hidden key gets the score 0, for 0 means nothing.
# advice: exp(0) is 1. Which score has the exponential 0?
# replaces: absorb
# caught by: a hidden key adds nothing, whatever its score
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(allowed, scores, 0.0)
    new_top = np.maximum(top, scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    return new_top, shrink * total + raised.sum(axis=-1), shrink[..., None] * mixed + raised @ v


# %% mask-ignored
# belief: Masks are a matter of the softmax, and there is none here.
# advice: The softmax is exactly what you are computing, piece by piece. What should a hidden key add to
#   total?
# replaces: absorb
# caught by: a hidden key adds nothing, whatever its score
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    new_top = np.maximum(top, scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    return new_top, shrink * total + raised.sum(axis=-1), shrink[..., None] * mixed + raised @ v


# %% mask-polarity
# belief: True marks the keys that are hidden.
# advice: Read the docstring again: what does True mean here?
# replaces: absorb
# caught by: a hidden key adds nothing, whatever its score
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(allowed, -np.inf, scores)
    new_top = np.maximum(top, scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    return new_top, shrink * total + raised.sum(axis=-1), shrink[..., None] * mixed + raised @ v


# %% hidden-in-mixed-only
# belief: A hidden key must not give its value; the rest is bookkeeping.
# advice: total is what mixed is divided by. A hidden key that counts there takes weight from the others.
# replaces: absorb
# caught by: a hidden key adds nothing, whatever its score
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.array(scores)
    new_top = np.maximum(top, scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    mask = np.broadcast_to(allowed, raised.shape)
    return new_top, shrink * total + raised.sum(axis=-1), shrink[..., None] * mixed + (raised * mask) @ v


# %% hidden-block-nan
# belief: Every block has at least one key for every query.
# advice: A mask may hide a whole block, and at the start there is no top yet. What is -inf minus -inf?
# replaces: absorb
# caught by: a block that is hidden altogether is no trouble, first or later
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(allowed, scores, -np.inf)
    new_top = np.maximum(top, scores.max(axis=-1))
    base = new_top
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    return new_top, shrink * total + raised.sum(axis=-1), shrink[..., None] * mixed + raised @ v


# %% hidden-block-counts
# belief: A huge negative number is as good as -inf.
# advice: When all scores of a row are that number, it becomes the top, and every hidden key counts as 1.
# replaces: absorb
# caught by: a block that is hidden altogether is no trouble, first or later
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(allowed, scores, -1e30)
    new_top = np.maximum(np.where(np.isfinite(top), top, -1e30), scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.where(np.isfinite(top), np.exp(np.where(np.isfinite(top), top, 0.0) - base), 0.0)
    raised = np.exp(scores - base[..., None])
    return new_top, shrink * total + raised.sum(axis=-1), shrink[..., None] * mixed + raised @ v


# %% state-in-place
# belief: The state is mine, so I may write into it.
# advice: The caller still holds those arrays. Compute new ones, or take copies first.
# replaces: absorb
# caught by: the inputs stay as they were, and float32 stays float32
def absorb(top, total, mixed, q, k, v, allowed):
    scores = np.where(allowed, q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5, -np.inf)
    new_top = np.maximum(top, scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    top[...] = new_top
    total *= shrink
    total += raised.sum(axis=-1)
    mixed *= shrink[..., None]
    mixed += raised @ v
    return top, total, mixed


# %% float64-creep
# belief: More precision can only help, so the dtype takes care of itself.
# advice: A NumPy float64 number, even a single one, widens a float32 array. Find the step where the dtype
#   changes.
# replaces: absorb
# caught by: the inputs stay as they were, and float32 stays float32
def absorb(top, total, mixed, q, k, v, allowed):
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(np.float64(q.shape[-1]))
    scores = np.where(allowed, scores, -np.inf)
    new_top = np.maximum(top, scores.max(axis=-1))
    base = np.where(np.isfinite(new_top), new_top, 0.0)
    shrink = np.exp(top - base)
    raised = np.exp(scores - base[..., None])
    return new_top, shrink * total + raised.sum(axis=-1), shrink[..., None] * mixed + raised @ v


# %% drops-the-rest
# belief: There are m divided by block blocks.
# advice: When block does not divide m, some keys are left over at the end. Who reads them?
# replaces: blocks
# caught by: any size of block gives the same output
def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    top = np.full(q.shape[:3], -np.inf, dtype=q.dtype)
    state = (top, np.zeros_like(top), np.zeros((*top.shape, v.shape[3]), dtype=q.dtype))
    for first in range(0, m - m % block, block):
        part = slice(first, min(first + block, m))
        allowed = np.ones((n, part.stop - first), dtype=bool)
        if causal:
            allowed = np.arange(m)[None, part] <= np.arange(n)[:, None] + (m - n)
        state = absorb(*state, q, k[:, :, part], v[:, :, part], allowed)
    top, total, mixed = state
    total = np.where(total > 0, total, 1.0)
    return mixed / total[..., None], top + np.log(total)


# %% blocks-overlap
# belief: The last block may begin earlier, so that all blocks have the same size.
# advice: Then some keys are absorbed twice, and count twice.
# replaces: blocks
# caught by: any size of block gives the same output
def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    top = np.full(q.shape[:3], -np.inf, dtype=q.dtype)
    state = (top, np.zeros_like(top), np.zeros((*top.shape, v.shape[3]), dtype=q.dtype))
    for first in range(0, m, block):
        part = slice(max(0, min(first, m - block)), min(first + block, m))
        allowed = np.ones((n, part.stop - part.start), dtype=bool)
        if causal:
            allowed = np.arange(m)[None, part] <= np.arange(n)[:, None] + (m - n)
        state = absorb(*state, q, k[:, :, part], v[:, :, part], allowed)
    top, total, mixed = state
    total = np.where(total > 0, total, 1.0)
    return mixed / total[..., None], top + np.log(total)


# %% never-divided
# belief: mixed is the output.
# advice: The exponentials in mixed do not sum to one. What do they sum to?
# replaces: blocks
# caught by: any size of block gives the same output
def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    top = np.full(q.shape[:3], -np.inf, dtype=q.dtype)
    state = (top, np.zeros_like(top), np.zeros((*top.shape, v.shape[3]), dtype=q.dtype))
    for first in range(0, m, block):
        part = slice(first, min(first + block, m))
        allowed = np.ones((n, part.stop - first), dtype=bool)
        if causal:
            allowed = np.arange(m)[None, part] <= np.arange(n)[:, None] + (m - n)
        state = absorb(*state, q, k[:, :, part], v[:, :, part], allowed)
    top, total, mixed = state
    total = np.where(total > 0, total, 1.0)
    return mixed, top + np.log(total)


# %% averages-the-blocks
# belief: The output is the average of what the blocks answer.
# advice: A block with well-matching keys must count for more than one without. How much weight does each
#   stand for?
# replaces: blocks
# caught by: any size of block gives the same output
def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    answers, sums = [], []
    for first in range(0, m, block):
        part = slice(first, min(first + block, m))
        allowed = np.ones((n, part.stop - first), dtype=bool)
        if causal:
            allowed = np.arange(m)[None, part] <= np.arange(n)[:, None] + (m - n)
        top = np.full(q.shape[:3], -np.inf, dtype=q.dtype)
        state = (top, np.zeros_like(top), np.zeros((*top.shape, v.shape[3]), dtype=q.dtype))
        top, total, mixed = absorb(*state, q, k[:, :, part], v[:, :, part], allowed)
        total = np.where(total > 0, total, 1.0)
        answers.append(mixed / total[..., None])
        sums.append(top + np.log(total))
    return np.mean(answers, axis=0), np.logaddexp.reduce(sums)


# %% log-sum-without-top
# belief: The log-sum is the logarithm of total.
# advice: total is relative to top. The logarithm of a product is a sum of two logarithms.
# replaces: blocks
# caught by: the log-sum belongs to the scores as they are
def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    top = np.full(q.shape[:3], -np.inf, dtype=q.dtype)
    state = (top, np.zeros_like(top), np.zeros((*top.shape, v.shape[3]), dtype=q.dtype))
    for first in range(0, m, block):
        part = slice(first, min(first + block, m))
        allowed = np.ones((n, part.stop - first), dtype=bool)
        if causal:
            allowed = np.arange(m)[None, part] <= np.arange(n)[:, None] + (m - n)
        state = absorb(*state, q, k[:, :, part], v[:, :, part], allowed)
    top, total, mixed = state
    total = np.where(total > 0, total, 1.0)
    return mixed / total[..., None], np.where(np.isfinite(top), np.log(total), -np.inf)


# %% top-for-log-sum
# belief: The largest score stands for all of them.
# advice: It is a good guess when one key wins. How much do the other keys add?
# replaces: blocks
# caught by: the log-sum belongs to the scores as they are
def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    top = np.full(q.shape[:3], -np.inf, dtype=q.dtype)
    state = (top, np.zeros_like(top), np.zeros((*top.shape, v.shape[3]), dtype=q.dtype))
    for first in range(0, m, block):
        part = slice(first, min(first + block, m))
        allowed = np.ones((n, part.stop - first), dtype=bool)
        if causal:
            allowed = np.arange(m)[None, part] <= np.arange(n)[:, None] + (m - n)
        state = absorb(*state, q, k[:, :, part], v[:, :, part], allowed)
    top, total, mixed = state
    total = np.where(total > 0, total, 1.0)
    return mixed / total[..., None], top


# %% sum-for-log-sum
# belief: The log-sum is the sum of the exponentials.
# advice: That sum is infinite for scores of a thousand. Its logarithm is not.
# replaces: blocks
# caught by: the log-sum belongs to the scores as they are
def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    top = np.full(q.shape[:3], -np.inf, dtype=q.dtype)
    state = (top, np.zeros_like(top), np.zeros((*top.shape, v.shape[3]), dtype=q.dtype))
    for first in range(0, m, block):
        part = slice(first, min(first + block, m))
        allowed = np.ones((n, part.stop - first), dtype=bool)
        if causal:
            allowed = np.arange(m)[None, part] <= np.arange(n)[:, None] + (m - n)
        state = absorb(*state, q, k[:, :, part], v[:, :, part], allowed)
    top, total, mixed = state
    total = np.where(total > 0, total, 1.0)
    return mixed / total[..., None], np.exp(top) * total


# %% causal-in-each-block
# belief: Each block has the triangle of its own.
# advice: The keys of the second block do not begin at number 0. Add the number of the block's first key.
# replaces: blocks
# caught by: causal counts keys from the first one of all
def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    top = np.full(q.shape[:3], -np.inf, dtype=q.dtype)
    state = (top, np.zeros_like(top), np.zeros((*top.shape, v.shape[3]), dtype=q.dtype))
    for first in range(0, m, block):
        part = slice(first, min(first + block, m))
        allowed = np.ones((n, part.stop - first), dtype=bool)
        if causal:
            allowed = np.arange(part.stop - first)[None, :] <= np.arange(n)[:, None] + (m - n)
        state = absorb(*state, q, k[:, :, part], v[:, :, part], allowed)
    top, total, mixed = state
    total = np.where(total > 0, total, 1.0)
    return mixed / total[..., None], top + np.log(total)


# %% diagonal-hidden
# belief: A token reads what came before, not itself.
# advice: With the diagonal hidden, the first token has nothing to read. May key i be seen by query i?
# replaces: blocks
# caught by: causal counts keys from the first one of all
def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    top = np.full(q.shape[:3], -np.inf, dtype=q.dtype)
    state = (top, np.zeros_like(top), np.zeros((*top.shape, v.shape[3]), dtype=q.dtype))
    for first in range(0, m, block):
        part = slice(first, min(first + block, m))
        allowed = np.ones((n, part.stop - first), dtype=bool)
        if causal:
            allowed = np.arange(m)[None, part] < np.arange(n)[:, None] + (m - n)
        state = absorb(*state, q, k[:, :, part], v[:, :, part], allowed)
    top, total, mixed = state
    total = np.where(total > 0, total, 1.0)
    return mixed / total[..., None], top + np.log(total)


# %% causal-ignored
# belief: causal is for the caller to take care of.
# advice: No mask is passed to this function. Who but you could hide the future?
# replaces: blocks
# caught by: causal counts keys from the first one of all
def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    top = np.full(q.shape[:3], -np.inf, dtype=q.dtype)
    state = (top, np.zeros_like(top), np.zeros((*top.shape, v.shape[3]), dtype=q.dtype))
    for first in range(0, m, block):
        part = slice(first, min(first + block, m))
        allowed = np.ones((n, part.stop - first), dtype=bool)
        state = absorb(*state, q, k[:, :, part], v[:, :, part], allowed)
    top, total, mixed = state
    total = np.where(total > 0, total, 1.0)
    return mixed / total[..., None], top + np.log(total)


# %% whole-blocks-only
# belief: A block that begins in the past lies in the past.
# advice: In one block some keys may lie in a query's past and others in its future.
# replaces: blocks
# caught by: causal counts keys from the first one of all
def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    top = np.full(q.shape[:3], -np.inf, dtype=q.dtype)
    state = (top, np.zeros_like(top), np.zeros((*top.shape, v.shape[3]), dtype=q.dtype))
    for first in range(0, m, block):
        part = slice(first, min(first + block, m))
        allowed = np.ones((n, part.stop - first), dtype=bool)
        if causal:
            allowed = np.broadcast_to(first <= np.arange(n)[:, None] + (m - n), (n, part.stop - first))
        state = absorb(*state, q, k[:, :, part], v[:, :, part], allowed)
    top, total, mixed = state
    total = np.where(total > 0, total, 1.0)
    return mixed / total[..., None], top + np.log(total)


# %% top-left-blocks
# belief: Query i sees the keys up to number i, whatever the shape.
# advice: With a cache the queries are the newest tokens. Which key belongs to the last query?
# replaces: blocks
# caught by: causal with more keys than queries lines up the last ones
def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    top = np.full(q.shape[:3], -np.inf, dtype=q.dtype)
    state = (top, np.zeros_like(top), np.zeros((*top.shape, v.shape[3]), dtype=q.dtype))
    for first in range(0, m, block):
        part = slice(first, min(first + block, m))
        allowed = np.ones((n, part.stop - first), dtype=bool)
        if causal:
            allowed = np.arange(m)[None, part] <= np.arange(n)[:, None]
        state = absorb(*state, q, k[:, :, part], v[:, :, part], allowed)
    top, total, mixed = state
    total = np.where(total > 0, total, 1.0)
    return mixed / total[..., None], top + np.log(total)


# %% empty-queries-nan
# belief: Every query has at least one key.
# advice: With more queries than keys, the first ones have none under causal. What is 0 divided by 0?
# replaces: blocks
# caught by: queries without any key get 0 and -inf
def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    top = np.full(q.shape[:3], -np.inf, dtype=q.dtype)
    state = (top, np.zeros_like(top), np.zeros((*top.shape, v.shape[3]), dtype=q.dtype))
    for first in range(0, m, block):
        part = slice(first, min(first + block, m))
        allowed = np.ones((n, part.stop - first), dtype=bool)
        if causal:
            allowed = np.arange(m)[None, part] <= np.arange(n)[:, None] + (m - n)
        state = absorb(*state, q, k[:, :, part], v[:, :, part], allowed)
    top, total, mixed = state
    return mixed / total[..., None], top + np.log(total)


# %% empty-queries-log-zero
# belief: A query without keys has the log-sum 0, as its output is 0.
# advice: 0 is the logarithm of 1: that query would stand for as much weight as a key with score 0.
# replaces: blocks
# caught by: queries without any key get 0 and -inf
def attention_in_blocks(q, k, v, block, causal=False):
    n, m = q.shape[2], k.shape[2]
    top = np.full(q.shape[:3], -np.inf, dtype=q.dtype)
    state = (top, np.zeros_like(top), np.zeros((*top.shape, v.shape[3]), dtype=q.dtype))
    for first in range(0, m, block):
        part = slice(first, min(first + block, m))
        allowed = np.ones((n, part.stop - first), dtype=bool)
        if causal:
            allowed = np.arange(m)[None, part] <= np.arange(n)[:, None] + (m - n)
        state = absorb(*state, q, k[:, :, part], v[:, :, part], allowed)
    top, total, mixed = state
    total = np.where(total > 0, total, 1.0)
    return mixed / total[..., None], np.where(np.isfinite(top), top, 0.0) + np.log(total)


# %% merges-a-run
# belief: merge * merge patches in a row of the list are a square.
# advice: Below patch 0 lies the first patch of the next row. How far away is it in the list?
# replaces: merge
# caught by: squares, not runs of the list
def merge_patches(patches, rows, columns, merge):
    batch, _, d = patches.shape
    high, wide = rows // merge, columns // merge
    return patches.reshape(batch, high * wide, merge * merge * d)


# %% patches-far-apart
# belief: In the reshape it does not matter which of the two numbers of an axis comes first.
# advice: With merge first, an axis is cut into merge long pieces, and patches that lie far apart are
#   joined.
# replaces: merge
# caught by: squares, not runs of the list
def merge_patches(patches, rows, columns, merge):
    batch, _, d = patches.shape
    high, wide = rows // merge, columns // merge
    grid = patches.reshape(batch, merge, high, merge, wide, d)
    return grid.transpose(0, 2, 4, 1, 3, 5).reshape(batch, high * wide, merge * merge * d)


# %% rows-and-columns-swapped
# belief: Rows and columns of a grid are interchangeable.
# advice: The list goes along the first row first. Which of the two sizes tells how long a row is?
# replaces: merge
# caught by: squares, not runs of the list
def merge_patches(patches, rows, columns, merge):
    batch, _, d = patches.shape
    high, wide = rows // merge, columns // merge
    grid = patches.reshape(batch, wide, merge, high, merge, d)
    return grid.transpose(0, 3, 1, 4, 2, 5).reshape(batch, high * wide, merge * merge * d)


# %% tokens-column-by-column
# belief: It does not matter in which order the tokens come.
# advice: Positions are given to tokens by their place in the list. Keep them row after row.
# replaces: merge
# caught by: squares, not runs of the list
def merge_patches(patches, rows, columns, merge):
    batch, _, d = patches.shape
    high, wide = rows // merge, columns // merge
    grid = patches.reshape(batch, high, merge, wide, merge, d)
    return grid.transpose(0, 3, 1, 2, 4, 5).reshape(batch, high * wide, merge * merge * d)


# %% inside-column-by-column
# belief: Inside a token the patches may come in any order.
# advice: The learned network that follows has a weight for each place. Row after row is what was agreed.
# replaces: merge
# caught by: squares, not runs of the list
def merge_patches(patches, rows, columns, merge):
    batch, _, d = patches.shape
    high, wide = rows // merge, columns // merge
    grid = patches.reshape(batch, high, merge, wide, merge, d)
    return grid.transpose(0, 1, 3, 4, 2, 5).reshape(batch, high * wide, merge * merge * d)


# %% features-first
# belief: First feature 0 of all patches, then feature 1, and so on.
# advice: Side by side means one whole vector after the other. Which axis comes last?
# replaces: merge
# caught by: squares of three by three, in a grid that is higher than wide
def merge_patches(patches, rows, columns, merge):
    batch, _, d = patches.shape
    high, wide = rows // merge, columns // merge
    grid = patches.reshape(batch, high, merge, wide, merge, d)
    return grid.transpose(0, 1, 3, 5, 2, 4).reshape(batch, high * wide, merge * merge * d)


# %% averages-the-square
# belief: Joining is averaging.
# advice: An average throws three quarters of the numbers away. Joined tokens are wider, and nothing is
#   lost.
# replaces: merge
# caught by: squares, not runs of the list
def merge_patches(patches, rows, columns, merge):
    batch, _, d = patches.shape
    high, wide = rows // merge, columns // merge
    grid = patches.reshape(batch, high, merge, wide, merge, d)
    return np.tile(grid.mean(axis=(2, 4)).reshape(batch, high * wide, d), merge * merge)


# %% text-forgotten
# belief: Only image tokens count.
# advice: The text is part of the same sequence, and is not merged. Its tokens read and are read, too.
# replaces: saving
# caught by: scores and cache, with text that is not merged
def saving(text, image, merge, d_model, n_heads, d_ff):
    before, after = image, image // merge**2
    work = [sum(layer_cost(n, d_model, n_heads, d_ff).values()) for n in (before, after)]
    return {"scores": (before / after) ** 2, "cache": before / after, "work": work[0] / work[1]}


# %% text-merged-too
# belief: All tokens are merged.
# advice: Words have no neighbours in a grid. Only patches are merged.
# replaces: saving
# caught by: scores and cache, with text that is not merged
def saving(text, image, merge, d_model, n_heads, d_ff):
    before, after = text + image, (text + image) // merge**2
    work = [sum(layer_cost(n, d_model, n_heads, d_ff).values()) for n in (before, after)]
    return {"scores": (before / after) ** 2, "cache": before / after, "work": work[0] / work[1]}


# %% one-direction
# belief: merge patches become one token.
# advice: A square of merge by merge patches becomes one token. How many patches is that?
# replaces: saving
# caught by: scores and cache, with text that is not merged
def saving(text, image, merge, d_model, n_heads, d_ff):
    before, after = text + image, text + image // merge
    work = [sum(layer_cost(n, d_model, n_heads, d_ff).values()) for n in (before, after)]
    return {"scores": (before / after) ** 2, "cache": before / after, "work": work[0] / work[1]}


# %% scores-in-a-line
# belief: Half the tokens, half the scores.
# advice: Both the rows and the columns of the table become fewer.
# replaces: saving
# caught by: scores and cache, with text that is not merged
def saving(text, image, merge, d_model, n_heads, d_ff):
    before, after = text + image, text + image // merge**2
    work = [sum(layer_cost(n, d_model, n_heads, d_ff).values()) for n in (before, after)]
    return {"scores": before / after, "cache": before / after, "work": work[0] / work[1]}


# %% cache-is-a-square
# belief: Attention is quadratic, and so is its cache.
# advice: The cache holds a key and a value for each token, not for each pair of tokens.
# replaces: saving
# caught by: scores and cache, with text that is not merged
def saving(text, image, merge, d_model, n_heads, d_ff):
    before, after = text + image, text + image // merge**2
    work = [sum(layer_cost(n, d_model, n_heads, d_ff).values()) for n in (before, after)]
    return {"scores": (before / after) ** 2, "cache": (before / after) ** 2, "work": work[0] / work[1]}


# %% upside-down
# belief: The saving is what is left: after divided by before.
# advice: How many times less is a number above 1. Which of the two is the larger?
# replaces: saving
# caught by: scores and cache, with text that is not merged
def saving(text, image, merge, d_model, n_heads, d_ff):
    before, after = text + image, text + image // merge**2
    work = [sum(layer_cost(n, d_model, n_heads, d_ff).values()) for n in (before, after)]
    return {"scores": (after / before) ** 2, "cache": after / before, "work": work[1] / work[0]}


# %% work-is-a-square
# belief: Attention is quadratic, so the work of a layer is.
# advice: Projections and MLP are most of a layer as long as the sequence is short. Add up all three
#   parts.
# replaces: saving
# caught by: the work of a layer is neither a line nor a square
def saving(text, image, merge, d_model, n_heads, d_ff):
    before, after = text + image, text + image // merge**2
    return {"scores": (before / after) ** 2, "cache": before / after, "work": (before / after) ** 2}


# %% work-is-a-line
# belief: A layer treats each token once, so its work goes with the tokens.
# advice: In attention each token meets all others. Add up all three parts.
# replaces: saving
# caught by: the work of a layer is neither a line nor a square
def saving(text, image, merge, d_model, n_heads, d_ff):
    before, after = text + image, text + image // merge**2
    return {"scores": (before / after) ** 2, "cache": before / after, "work": before / after}
