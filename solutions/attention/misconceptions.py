"""Wrong answers that students really write, each with the belief behind it.

Every entry is a whole solution cell. It goes wrong in a way of its own: no two entries give the same
numbers on all inputs of the tests, so a submission that behaves like one of them can be told its name.
"""


# %% softmax-over-queries
# belief: Some axis must sum to one; which one does not matter.
# advice: The weights answer one query at a time. Whose shares are they, and which axis counts the things
#   that share?
# replaces: softmax
# caught by: with four axes, every row has weights of its own
def softmax(scores):
    raised = np.exp(scores - scores.max(axis=-2, keepdims=True))
    return raised / raised.sum(axis=-2, keepdims=True)


# %% softmax-over-everything
# belief: A softmax turns the whole array of scores into one distribution.
# advice: Every query asks a question of its own, so every row has weights of its own that sum to one.
#   How many sums does an array with four axes need?
# replaces: softmax
# caught by: with four axes, every row has weights of its own
def softmax(scores):
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()


# %% softmax-over-batch
# belief: The first axis is the one to sum over.
# advice: With two axes the first one counts the queries, with four it counts the batch. Which axis counts
#   the keys in both cases?
# replaces: softmax
# caught by: with four axes, every row has weights of its own
def softmax(scores):
    raised = np.exp(scores - scores.max(axis=0))
    return raised / raised.sum(axis=0)


# %% shares-without-exp
# belief: Dividing by the sum is enough to make weights.
# advice: Scores may be negative, and their sum may be zero. What makes every score positive first, and
#   keeps the larger ones larger?
# replaces: softmax
# caught by: with four axes, every row has weights of its own
def softmax(scores):
    return scores / scores.sum(axis=-1, keepdims=True)


# %% softmax-without-shift
# belief: The formula is the program; overflow is a matter of theory.
# advice: exp of 710 is infinite in float64. Which change of the scores leaves all weights as they are and
#   keeps every exponential finite?
# replaces: softmax
# caught by: very large and very negative scores keep their weights
def softmax(scores):
    raised = np.exp(scores)
    return raised / raised.sum(axis=-1, keepdims=True)


# %% softmax-clipped
# belief: Scores that are too large can be cut off, since exp of them is huge in any case.
# advice: After the cut, two different large scores look the same. Move the scores of a row together, so
#   that their differences stay.
# replaces: softmax
# caught by: very large and very negative scores keep their weights
def softmax(scores):
    raised = np.exp(np.clip(scores, -500, 500))
    return raised / raised.sum(axis=-1, keepdims=True)


# %% softmax-global-shift
# belief: One shift for the whole array makes every row safe.
# advice: A row far below the largest score of all vanishes: all its exponentials become 0. Rows do not
#   depend on each other, so neither should their shifts.
# replaces: softmax
# caught by: rows of very different size do not disturb each other
def softmax(scores):
    raised = np.exp(scores - scores.max())
    return raised / raised.sum(axis=-1, keepdims=True)


# %% softmax-in-place
# belief: Working in the array that was given only saves memory.
# advice: The caller still holds that array and expects it as it was. Make a new array.
# replaces: softmax
# caught by: softmax leaves its input as it was
def softmax(scores):
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


# %% no-scale
# belief: Dividing by sqrt(d_k) is cosmetic, for the softmax normalises anyway.
# advice: The softmax keeps differences between scores, and these grow with d_k. What happens to the
#   weights when all scores become eight times larger?
# replaces: attention
# caught by: scores are scaled by the square root of the key size
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2)
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% scale-by-d-k
# belief: A sum of d_k terms is brought back to size by dividing by d_k.
# advice: That would hold if all terms had one sign. Here they partly cancel: the variance of the sum grows
#   with d_k. How does its typical size grow?
# replaces: attention
# caught by: scores are scaled by the square root of the key size
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1]
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% scale-multiplied
# belief: Scaling makes the scores larger, so that the best key stands out.
# advice: Long vectors have large dot products to begin with. Should the scale make them larger or smaller?
# replaces: attention
# caught by: scores are scaled by the square root of the key size
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% scale-by-model-width
# belief: The scale belongs to the width of the model, all heads together.
# advice: A score adds the products of one head only. How many terms does it have?
# replaces: attention
# caught by: scores are scaled by the square root of the key size
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    d_model = q.shape[1] * q.shape[-1]
    scores = q @ np.swapaxes(k, -1, -2) / d_model**0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% scale-by-d-v
# belief: Keys and values have one size, so either may give the scale.
# advice: The scale undoes the growth of the dot product. Which vectors meet in that product?
# replaces: attention
# caught by: scores are scaled by the square root of the key size
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / v.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% reshape-for-transpose
# belief: reshape to (d_k, m) and exchanging the two axes are the same thing.
# advice: Both give the shape that you need. Try them on a 2 by 3 array of the numbers 0 to 5: which one
#   keeps each key's numbers together?
# replaces: attention
# caught by: a query that matches one key strongly gets the value of that key
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ k.reshape(*k.shape[:-2], k.shape[-1], m) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% average-keys
# belief: The key is the content, so the answer is an average of keys.
# advice: Keys decide how much is read from each entry. What is it that is read?
# replaces: attention
# caught by: a query that matches one key strongly gets the value of that key
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ k, weights


# %% hard-lookup
# belief: A lookup returns the value of the best match.
# advice: That is a hard lookup: no gradient reaches the other keys. Here every allowed key has a say, each
#   by its weight.
# replaces: attention
# caught by: two keys that match equally well share the weight
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    best = np.where(allowed, scores, -np.inf).argmax(axis=-1)
    weights = (np.arange(m) == best[..., None]) & allowed
    weights = weights.astype(q.dtype)
    return weights @ v, weights


# %% scores-for-weights
# belief: Scores and weights are two words for one thing.
# advice: A score may be any number. Weights are not negative and sum to one. Which of the two does your
#   function return?
# replaces: attention
# caught by: scores are scaled by the square root of the key size
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, scores


# %% float64-creep
# belief: More precision can only help, so the dtype takes care of itself.
# advice: A NumPy float64 number, even a single one, widens a float32 array, and everything after it takes
#   twice the memory. Find the step where the dtype changes.
# replaces: attention
# caught by: float32 inputs give float32 results
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(np.array([q.shape[-1]], dtype=np.float64))
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% scales-in-place
# belief: q is mine to change, since nobody needs it afterwards.
# advice: The caller's array and your q are one array. Called twice, your function scales it twice.
# replaces: attention
# caught by: attention leaves its inputs as they were
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    q /= q.shape[-1] ** 0.5
    scores = q @ np.swapaxes(k, -1, -2)
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% mask-polarity
# belief: A mask marks what is masked, so True means hidden.
# advice: Libraries differ. Read the docstring again: what does True mean here?
# replaces: attention
# caught by: True in the mask means "may attend"
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & ~mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% mask-after-softmax
# belief: It is all the same whether hidden keys are removed before or after the softmax.
# advice: The softmax divides by a sum. Did the hidden keys count in it? Add up one row of your weights.
# replaces: attention
# caught by: under a mask the allowed weights still sum to one
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    weights = np.where(allowed, softmax(scores), 0.0)
    return weights @ v, weights


# %% renormalise-after-mask
# belief: Weights can be zeroed after the softmax, as long as each row is divided by its sum again.
# advice: On paper that is right. But a hidden key with a huge score has by then pushed all the others down
#   to 0, and nothing is left to divide.
# replaces: attention
# caught by: a hidden key gets no weight whatever the scores are
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    weights = np.where(allowed, softmax(scores), 0.0)
    total = weights.sum(axis=-1, keepdims=True)
    weights = weights / np.where(total > 0, total, 1.0)
    return weights @ v, weights


# %% zero-masked-scores
# belief: A score of 0 means "nothing", so a hidden key gets the score 0.
# advice: exp(0) is 1, so a score of 0 still earns weight, more than every negative score. Which score
#   earns none?
# replaces: attention
# caught by: a hidden key gets no weight whatever the scores are
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    weights = softmax(scores * allowed)
    return weights @ v, weights


# %% not-negative-enough
# belief: Any large negative number hides a key.
# advice: What counts is the distance to the scores that stay. If they are lower still, the hidden key wins.
#   Is there a score that is below all others?
# replaces: attention
# caught by: a hidden key gets no weight whatever the scores are
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(allowed, scores, -1e4)) * some
    return weights @ v, weights


# %% first-mask-for-all
# belief: All elements of a batch have the same padding, so the first mask will do.
# advice: Scenes in a batch have different numbers of road users. Which axis of the mask tells them apart?
# replaces: attention
# caught by: every batch element has its own padding
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & (mask[0] if mask.ndim == 4 else mask)
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% empty-rows-nan
# belief: A query always has at least one key to look at.
# advice: A padded query has none. Then all its scores are -inf, and -inf minus -inf is nan. What should the
#   weights of such a row be?
# replaces: attention
# caught by: a query with no allowed key gets zeros
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    weights = softmax(np.where(allowed, scores, -np.inf))
    return weights @ v, weights


# %% empty-rows-mean
# belief: A huge negative number such as -1e9 is a safe -inf in every row.
# advice: When all scores of a row are equally low, the softmax shares the weight evenly, and the query reads
#   the mean of all that it must not see.
# replaces: attention
# caught by: a query with no allowed key gets zeros
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    weights = softmax(np.where(allowed, scores, -1e9))
    return weights @ v, weights


# %% causal-ignored
# belief: The caller passes a mask when one is needed; the flag is only a note.
# advice: Does your function give other weights when causal=True is all that it is told?
# replaces: attention
# caught by: causal shows every token itself and what came before
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones(scores.shape, dtype=bool)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% diagonal-masked
# belief: A token must not see itself, only what came before.
# advice: A token knows itself already, and what it predicts is the next one. What would the first token have
#   left to look at?
# replaces: attention
# caught by: causal shows every token itself and what came before
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n - 1)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% sees-one-ahead
# belief: A token predicts the next one, so it may look at it.
# advice: A token that sees the next one only has to copy it. Draw the table for three tokens: which keys may
#   the first query see?
# replaces: attention
# caught by: causal shows every token itself and what came before
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n + 1)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% looks-forward
# belief: causal means that a token sees itself and what comes after it.
# advice: Rows are queries and columns are keys. Is a key to the right of the diagonal earlier or later than
#   the query?
# replaces: attention
# caught by: causal shows every token itself and what came before
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.triu(allowed, k=m - n)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% top-left-causal
# belief: The causal mask is the triangle below the main diagonal, whatever the shape.
# advice: With a cache the queries are the newest tokens, not the first ones. Which key belongs to the last
#   query?
# replaces: attention
# caught by: causal with a cache lets new queries see all old keys
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% cache-is-unmasked
# belief: With a cache everything lies in the past, so causal has nothing to hide.
# advice: That holds for one new query. With two or more, may the first of them see the key of the last?
# replaces: attention
# caught by: causal with a cache lets new queries see all old keys
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal and n == m:
        allowed = np.tril(allowed)
    if mask is not None:
        allowed = allowed & mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% mask-or-causal
# belief: causal is a kind of mask, so it takes the place of the one that was given.
# advice: Padding stays padding in a causal model. When both are given, what must hold for a key to be seen?
# replaces: attention
# caught by: a mask and causal hold at the same time
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if mask is not None:
        allowed = mask
    if causal:
        allowed = np.tril(np.ones((n, m), dtype=bool), k=m - n)
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% mask-replaces-causal
# belief: A mask that is given says everything, so causal no longer counts.
# advice: A padding mask knows nothing of the future. When both are given, what must hold for a key that is
#   seen?
# replaces: attention
# caught by: a mask and causal hold at the same time
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% mask-union
# belief: A key may be seen when the mask or the causal rule allows it.
# advice: Each of the two is there to hide something. If one permission were enough, what would padding in
#   the past be?
# replaces: attention
# caught by: a mask and causal hold at the same time
def scaled_dot_product_attention(q, k, v, mask=None, causal=False):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    allowed = np.ones((n, m), dtype=bool)
    if causal:
        allowed = np.tril(allowed, k=m - n)
    if mask is not None:
        allowed = allowed | mask if causal else mask
    some = allowed.any(axis=-1, keepdims=True)
    weights = softmax(np.where(some, np.where(allowed, scores, -np.inf), 0.0))
    weights = np.where(allowed, weights, 0.0)
    return weights @ v, weights


# %% dictionary-too-soft
# belief: An exact match gets all the weight by itself.
# advice: A score of 1 against scores of 0 gives a weight not quite three times as large. How far must the
#   right key lead?
# replaces: dictionary
# caught by: every query finds its own entry
def dictionary_as_attention(keys, values, queries):
    q = (queries[:, None] == keys[None, :]).astype(float)
    k = np.eye(len(keys))
    return q[None, None], k[None, None], values[None, None]


# %% dictionary-forgets-scale
# belief: A lead of 60 is far more than enough for any dictionary.
# advice: 60 is the dot product, not the score. Attention divides it by the square root of d_k; how large is
#   d_k in a dictionary of 300 entries?
# replaces: dictionary
# caught by: three hundred entries are as exact as seven
def dictionary_as_attention(keys, values, queries):
    q = 60.0 * (queries[:, None] == keys[None, :])
    k = np.eye(len(keys))
    return q[None, None], k[None, None], values[None, None]


# %% numbers-as-vectors
# belief: The product of two numbers is largest when they are equal.
# advice: 7 times 31 is more than 7 times 7: the largest key always wins. Which vectors have their largest
#   dot product with themselves?
# replaces: dictionary
# caught by: every query finds its own entry
def dictionary_as_attention(keys, values, queries):
    q = 100.0 * queries.reshape(1, 1, -1, 1)
    k = keys.reshape(1, 1, -1, 1).astype(float)
    return q, k, values[None, None]


# %% answer-in-values
# belief: The values may be put in order for the questions first, and attention passes them on.
# advice: Then the lookup was done before attention began. v is written down before anyone asks, one row for
#   each entry.
# replaces: dictionary
# caught by: v holds what is stored, and nothing is picked out in advance
def dictionary_as_attention(keys, values, queries):
    position = {int(key): j for j, key in enumerate(keys)}
    found = values[[position[int(query)] for query in queries]]
    n = len(queries)
    return 100.0 * n * np.eye(n)[None, None], np.eye(n)[None, None], found[None, None]


# %% keys-made-to-fit
# belief: Keys can be made to suit the questions that will be asked.
# advice: The map is stored before the first question comes, and stays as it is. Build k from the keys alone.
# replaces: dictionary
# caught by: the keys stay the same when other questions are asked
def dictionary_as_attention(keys, values, queries):
    n = len(queries)
    k = (keys[:, None] == queries[None, :]).astype(float)
    q = 100.0 * n * np.eye(n)
    return q[None, None], k[None, None], values[None, None]
