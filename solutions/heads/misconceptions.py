"""Wrong answers that students really write, each with the belief behind it.

Every entry is a whole solution cell. It goes wrong in a way of its own: no two entries give the same
numbers on all inputs of the tests, so a submission that behaves like one of them can be told its name.
"""


# %% split-by-reshape
# belief: A reshape brings the axes in the order in which I name them.
# advice: A reshape moves no number. Print head 0 of a small example: does it hold all tokens?
# replaces: split-merge
# caught by: every head gets its own features of all tokens
def split_heads(x, n_heads):
    batch, n, d = x.shape
    return x.reshape(batch, n_heads, n, d // n_heads)


def merge_heads(heads):
    batch, n_heads, n, head_dim = heads.shape
    return heads.transpose(0, 2, 1, 3).reshape(batch, n, n_heads * head_dim)


# %% merge-by-reshape
# belief: After attention a reshape to (batch, n, d) puts the heads side by side.
# advice: In memory the heads come before the tokens. What has to change places first?
# replaces: split-merge
# caught by: merging puts the heads of each token side by side
def split_heads(x, n_heads):
    batch, n, d = x.shape
    return x.reshape(batch, n, n_heads, d // n_heads).transpose(0, 2, 1, 3)


def merge_heads(heads):
    batch, n_heads, n, head_dim = heads.shape
    return heads.reshape(batch, n, n_heads * head_dim)


# %% both-by-reshape
# belief: Splitting and merging undo each other, so both are right.
# advice: A round trip is blind for that. Permute the tokens of x and look at one head.
# replaces: split-merge
# caught by: tokens in another order give the same heads in that order
def split_heads(x, n_heads):
    batch, n, d = x.shape
    return x.reshape(batch, n_heads, n, d // n_heads)


def merge_heads(heads):
    batch, n_heads, n, head_dim = heads.shape
    return heads.reshape(batch, n, n_heads * head_dim)


# %% features-dealt-out
# belief: Heads take the features in turn, like cards that are dealt.
# advice: Head 0 has the first features, and they stay together. Which of the two new axes counts the
#   heads?
# replaces: split-merge
# caught by: neighbouring features belong to one head
def split_heads(x, n_heads):
    batch, n, d = x.shape
    return x.reshape(batch, n, d // n_heads, n_heads).transpose(0, 3, 1, 2)


def merge_heads(heads):
    batch, n_heads, n, head_dim = heads.shape
    return heads.transpose(0, 2, 3, 1).reshape(batch, n, n_heads * head_dim)


# %% split-transposed
# belief: The features of a head have to be transposed at some point, so do it at once.
# advice: The transpose of keys comes later, in the scores. Here every row of a head is still a token.
# replaces: split-merge
# caught by: every head gets its own features of all tokens
def split_heads(x, n_heads):
    batch, n, d = x.shape
    return x.reshape(batch, n, n_heads, d // n_heads).transpose(0, 2, 3, 1).reshape(batch, n_heads, n, -1)


def merge_heads(heads):
    batch, n_heads, n, head_dim = heads.shape
    return heads.transpose(0, 2, 1, 3).reshape(batch, n, n_heads * head_dim)


# %% heads-averaged
# belief: The heads vote, and their average is the answer.
# advice: Each head has found something else. Put their findings side by side; the output projection mixes
#   them.
# replaces: split-merge
# caught by: merging puts the heads of each token side by side
def split_heads(x, n_heads):
    batch, n, d = x.shape
    return x.reshape(batch, n, n_heads, d // n_heads).transpose(0, 2, 1, 3)


def merge_heads(heads):
    return heads.mean(axis=1)


# %% heads-summed
# belief: Merging adds the heads up.
# advice: Then nobody can tell which head has found what. Where do the d features come from?
# replaces: split-merge
# caught by: merging puts the heads of each token side by side
def split_heads(x, n_heads):
    batch, n, d = x.shape
    return x.reshape(batch, n, n_heads, d // n_heads).transpose(0, 2, 1, 3)


def merge_heads(heads):
    return heads.sum(axis=1)


# %% heads-stacked-by-token
# belief: Merging lays the tokens of all heads behind each other.
# advice: There are n tokens, before and after. What grows is the number of features of each.
# replaces: split-merge
# caught by: merging puts the heads of each token side by side
def split_heads(x, n_heads):
    batch, n, d = x.shape
    return x.reshape(batch, n, n_heads, d // n_heads).transpose(0, 2, 1, 3)


def merge_heads(heads):
    batch, n_heads, n, head_dim = heads.shape
    return heads.reshape(batch, n_heads * n, head_dim)


# %% tile-for-repeat
# belief: np.tile and np.repeat do the same along an axis.
# advice: One gives 0, 1, 0, 1, the other 0, 0, 1, 1. Which heads of queries are neighbours?
# replaces: attend
# caught by: neighbouring heads of queries share their keys and values
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.tile(k, (1, group, 1, 1)), np.tile(v, (1, group, 1, 1))
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% values-in-stripes
# belief: Only the keys have to be matched with their queries.
# advice: A weight belongs to a key and to that key's value. Both must come from one head.
# replaces: attend
# caught by: neighbouring heads of queries share their keys and values
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.tile(v, (1, group, 1, 1))
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% first-keys-for-all
# belief: Shared keys are the same keys for everybody.
# advice: All heads share only when there is one head of keys. With two, each serves half of the heads.
# replaces: attend
# caught by: neighbouring heads of queries share their keys and values
def attend(q, k, v, mask):
    k, v = k[:, :1], v[:, :1]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% repeat-along-tokens
# belief: It does not matter which axis is repeated, if the shape comes out right.
# advice: Repeating tokens and reshaping mixes them with heads. Which axis counts the heads?
# replaces: attend
# caught by: neighbouring heads of queries share their keys and values
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k = np.repeat(k, group, axis=2).reshape(*q.shape[:2], *k.shape[2:])
    v = np.repeat(v, group, axis=2).reshape(*q.shape[:2], *v.shape[2:])
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% softmax-over-queries
# belief: Some axis must sum to one; which one does not matter.
# advice: The weights answer one query at a time. Which axis counts the things that share?
# replaces: attend
# caught by: neighbouring heads of queries share their keys and values
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-2, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-2, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% keys-are-read
# belief: What is found is what is read, so the keys are averaged.
# advice: Keys decide how much of each token is read. What is read are the values.
# replaces: attend
# caught by: neighbouring heads of queries share their keys and values
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ k[..., : v.shape[-1]]


# %% scale-by-width
# belief: The scale belongs to the width of the model.
# advice: A score adds the products of one head. How many features has one head?
# replaces: attend
# caught by: scores are scaled by the root of the head's size
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) / (q.shape[1] * q.shape[-1]) ** 0.5
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% no-scale
# belief: The softmax makes up for the size of the scores.
# advice: It keeps the differences, and these grow with the size of the head.
# replaces: attend
# caught by: scores are scaled by the root of the head's size
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2)
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% scale-by-d-k
# belief: A sum of d_k terms is divided by d_k.
# advice: The terms partly cancel, so the sum grows more slowly. How?
# replaces: attend
# caught by: scores are scaled by the root of the head's size
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1]
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% scale-by-group
# belief: Shared keys are counted several times, so the scores are divided by the group.
# advice: Each head of queries still meets each key once.
# replaces: attend
# caught by: neighbouring heads of queries share their keys and values
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5 / group
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% first-heads-mask
# belief: All heads have the same mask.
# advice: Often they do, and then its axis of heads has size 1. Here each head may have its own.
# replaces: attend
# caught by: each head and each sequence has a mask of its own
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    mask = mask[:, :1] if mask.ndim == 4 else mask
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% first-sequences-mask
# belief: All sequences of a batch have the same mask.
# advice: Sequences differ in length, so their padding differs. Let the mask broadcast as it is.
# replaces: attend
# caught by: each head and each sequence has a mask of its own
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    mask = mask[:1] if mask.ndim == 4 else mask
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% mask-polarity
# belief: A mask marks what is masked, so True means hidden.
# advice: Read the docstring again: what does True mean here?
# replaces: attend
# caught by: each head and each sequence has a mask of its own
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(mask, -np.inf, scores)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% mask-for-values-only
# belief: It is enough to zero the values of hidden keys.
# advice: Then a hidden key still takes its weight away from the others. Do the weights of the rest sum to
#   one?
# replaces: attend
# caught by: each head and each sequence has a mask of its own
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.array(scores)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised * mask / total @ v


# %% mask-after-softmax
# belief: Weights can be zeroed after the softmax, if each row is divided by its sum again.
# advice: On paper, yes. But a hidden key with a huge score has by then pushed all the others down to 0.
# replaces: attend
# caught by: a hidden key gets no weight, whatever its score
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.array(scores)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    raised = raised * mask
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% hidden-scores-zero
# belief: A score of 0 means nothing, so a hidden key gets the score 0.
# advice: exp(0) is 1. Which score has the exponential 0?
# replaces: attend
# caught by: a hidden key gets no weight, whatever its score
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(mask, scores, 0.0)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / total * mask.any(axis=-1, keepdims=True) @ v


# %% not-negative-enough
# belief: Any large negative number hides a key.
# advice: What counts is the distance to the scores that stay. If they are lower still, the hidden key
#   wins.
# replaces: attend
# caught by: a hidden key gets no weight, whatever its score
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(mask, scores, -1e4)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / total * mask.any(axis=-1, keepdims=True) @ v


# %% blind-queries-nan
# belief: A query always has a key to look at.
# advice: Padding has none. What are the weights of a row in which all scores are -inf?
# replaces: attend
# caught by: a query that may see nothing gets zeros
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - top)
    total = raised.sum(axis=-1, keepdims=True)
    return raised / total @ v


# %% blind-queries-mean
# belief: A huge negative number is a safe -inf in every row.
# advice: When all scores of a row are equally low, the query reads the mean of all that it must not see.
# replaces: attend
# caught by: a query that may see nothing gets zeros
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(mask, scores, -1e30)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / total @ v


# %% exp-without-shift
# belief: Overflow is a matter of theory.
# advice: exp(1000) is infinite. Which shift of a row leaves its weights alone?
# replaces: attend
# caught by: scores of a thousand do no harm, float32 stays float32, inputs stay as they were
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.zeros_like(top))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% one-shift-for-all
# belief: One shift for the whole array makes every row safe.
# advice: A row far below the largest score of all loses all its exponentials. Each row needs its own
#   shift.
# replaces: attend
# caught by: scores of a thousand do no harm, float32 stays float32, inputs stay as they were
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(mask, scores, -np.inf)
    top = np.full_like(scores[..., :1], scores.max())
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% float64-creep
# belief: More precision can only help, so the dtype takes care of itself.
# advice: A NumPy float64 number, even a single one, widens a float32 array. Find the step where the dtype
#   changes.
# replaces: attend
# caught by: scores of a thousand do no harm, float32 stays float32, inputs stay as they were
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(np.float64(q.shape[-1]))
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% queries-scaled-in-place
# belief: q is mine to change, since nobody needs it afterwards.
# advice: The caller's array and your q are one array. Called twice, your function scales it twice.
# replaces: attend
# caught by: scores of a thousand do no harm, float32 stays float32, inputs stay as they were
def attend(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    q /= q.shape[-1] ** 0.5
    scores = q @ np.swapaxes(k, -1, -2)
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return raised / np.where(total > 0, total, 1.0) @ v


# %% values-are-keys
# belief: Keys and values are the same thing.
# advice: A key says how a token is found, a value what is read. Two matrices make them.
# replaces: multi-head
# caught by: queries, keys and values have projections of their own
def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    q = split_heads(x @ w["w_q"] + w["b_q"], n_heads)
    k = split_heads(x @ w["w_k"] + w["b_k"], n_kv_heads)
    v = k
    return merge_heads(attend(q, k, v, mask)) @ w["w_o"] + w["b_o"]


# %% values-are-tokens
# belief: What is read is the token itself.
# advice: What is read goes through a projection too: its own, with its own bias.
# replaces: multi-head
# caught by: queries, keys and values have projections of their own
def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    q = split_heads(x @ w["w_q"] + w["b_q"], n_heads)
    k = split_heads(x @ w["w_k"] + w["b_k"], n_kv_heads)
    v = split_heads(x[..., : w["w_v"].shape[1]], n_kv_heads)
    return merge_heads(attend(q, k, v, mask)) @ w["w_o"] + w["b_o"]


# %% queries-are-keys
# belief: A token looks for what it is.
# advice: Then scores would be the same in both directions. Queries have a matrix of their own.
# replaces: multi-head
# caught by: queries, keys and values have projections of their own
def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    q = split_heads(x @ w["w_k"] + w["b_k"], n_heads)
    k = split_heads(x @ w["w_k"] + w["b_k"], n_kv_heads)
    v = split_heads(x @ w["w_v"] + w["b_v"], n_kv_heads)
    return merge_heads(attend(q, k, v, mask)) @ w["w_o"] + w["b_o"]


# %% biases-of-inputs-forgotten
# belief: Biases make no difference, since the softmax shifts them away.
# advice: Only one part of them cancels there. The bias of the values goes straight into the output.
# replaces: multi-head
# caught by: queries, keys and values have projections of their own
def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    q = split_heads(x @ w["w_q"], n_heads)
    k = split_heads(x @ w["w_k"], n_kv_heads)
    v = split_heads(x @ w["w_v"], n_kv_heads)
    return merge_heads(attend(q, k, v, mask)) @ w["w_o"] + w["b_o"]


# %% no-output-projection
# belief: Putting the heads side by side is the end.
# advice: So far no head knows of the others. One more matrix lets their findings meet.
# replaces: multi-head
# caught by: the output projection mixes what the heads found
def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    q = split_heads(x @ w["w_q"] + w["b_q"], n_heads)
    k = split_heads(x @ w["w_k"] + w["b_k"], n_kv_heads)
    v = split_heads(x @ w["w_v"] + w["b_v"], n_kv_heads)
    return merge_heads(attend(q, k, v, mask))


# %% output-bias-forgotten
# belief: The output projection is a matrix and nothing else.
# advice: It has a bias like the three others.
# replaces: multi-head
# caught by: the output projection mixes what the heads found
def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    q = split_heads(x @ w["w_q"] + w["b_q"], n_heads)
    k = split_heads(x @ w["w_k"] + w["b_k"], n_kv_heads)
    v = split_heads(x @ w["w_v"] + w["b_v"], n_kv_heads)
    return merge_heads(attend(q, k, v, mask)) @ w["w_o"]


# %% output-transposed
# belief: A square matrix can be applied from either side.
# advice: It is applied like the three others: rows of tokens times the matrix as it is.
# replaces: multi-head
# caught by: the output projection mixes what the heads found
def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    q = split_heads(x @ w["w_q"] + w["b_q"], n_heads)
    k = split_heads(x @ w["w_k"] + w["b_k"], n_kv_heads)
    v = split_heads(x @ w["w_v"] + w["b_v"], n_kv_heads)
    return merge_heads(attend(q, k, v, mask)) @ w["w_o"].T + w["b_o"]


# %% merged-by-reshape-inside
# belief: The heads are in the right order already.
# advice: Use your merge_heads: a reshape alone gives a token the features of other tokens.
# replaces: multi-head
# caught by: the output projection mixes what the heads found
def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    q = split_heads(x @ w["w_q"] + w["b_q"], n_heads)
    k = split_heads(x @ w["w_k"] + w["b_k"], n_kv_heads)
    v = split_heads(x @ w["w_v"] + w["b_v"], n_kv_heads)
    return attend(q, k, v, mask).reshape(x.shape) @ w["w_o"] + w["b_o"]


# %% residual-inside
# belief: Attention gives back the token and what it has read.
# advice: The addition belongs to the block. This function returns what is to be added.
# replaces: multi-head
# caught by: the output projection mixes what the heads found
def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    q = split_heads(x @ w["w_q"] + w["b_q"], n_heads)
    k = split_heads(x @ w["w_k"] + w["b_k"], n_kv_heads)
    v = split_heads(x @ w["w_v"] + w["b_v"], n_kv_heads)
    return x + merge_heads(attend(q, k, v, mask)) @ w["w_o"] + w["b_o"]


# %% groups-in-stripes
# belief: Heads of queries take the heads of keys in turn.
# advice: Neighbours share. Your attend takes care of that when you give it the n_kv_heads heads as they
#   are.
# replaces: multi-head
# caught by: grouped queries in a layer
def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    q = split_heads(x @ w["w_q"] + w["b_q"], n_heads)
    k = split_heads(x @ w["w_k"] + w["b_k"], n_kv_heads)
    v = split_heads(x @ w["w_v"] + w["b_v"], n_kv_heads)
    times = n_heads // n_kv_heads
    k, v = np.tile(k, (1, times, 1, 1)), np.tile(v, (1, times, 1, 1))
    return merge_heads(attend(q, k, v, mask)) @ w["w_o"] + w["b_o"]


# %% one-group
# belief: Grouped means that all heads read the same keys.
# advice: That is so with a single head of keys. Here there may be several, each for a part of the heads.
# replaces: multi-head
# caught by: grouped queries in a layer
def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    q = split_heads(x @ w["w_q"] + w["b_q"], n_heads)
    k = split_heads(x @ w["w_k"] + w["b_k"], n_kv_heads)
    v = split_heads(x @ w["w_v"] + w["b_v"], n_kv_heads)
    return merge_heads(attend(q, k[:, :1], v[:, :1], mask)) @ w["w_o"] + w["b_o"]


# %% mask-left-behind
# belief: The mask is the caller's business.
# advice: The caller has handed it to you. Who else could hide the future from the heads?
# replaces: multi-head
# caught by: the mask reaches all heads
def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    q = split_heads(x @ w["w_q"] + w["b_q"], n_heads)
    k = split_heads(x @ w["w_k"] + w["b_k"], n_kv_heads)
    v = split_heads(x @ w["w_v"] + w["b_v"], n_kv_heads)
    every = np.ones((1, 1, x.shape[1], x.shape[1]), dtype=bool)
    return merge_heads(attend(q, k, v, every)) @ w["w_o"] + w["b_o"]


# %% always-causal
# belief: Attention in a transformer is causal.
# advice: In a decoder it is. What is hidden here is said by the mask, and by nothing else.
# replaces: multi-head
# caught by: the mask reaches all heads
def multi_head_attention(x, w, n_heads, n_kv_heads, mask):
    q = split_heads(x @ w["w_q"] + w["b_q"], n_heads)
    k = split_heads(x @ w["w_k"] + w["b_k"], n_kv_heads)
    v = split_heads(x @ w["w_v"] + w["b_v"], n_kv_heads)
    past = np.tri(x.shape[1], dtype=bool)
    return merge_heads(attend(q, k, v, mask & past)) @ w["w_o"] + w["b_o"]


# %% norm-over-tokens
# belief: The norm makes the tokens of a sequence comparable with each other.
# advice: Then a token would change when another one does. Mean and variance run over the features of one
#   token.
# replaces: norm-mlp
# caught by: every token is normed over its own features
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred**2).mean(axis=1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


# %% norm-over-batch
# belief: The norm runs over the batch, as in batch norm.
# advice: A sequence must not depend on what else lies in the batch.
# replaces: norm-mlp
# caught by: every token is normed over its own features
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=0, keepdims=True)
    variance = (centred**2).mean(axis=0, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


# %% norm-over-sequence
# belief: All numbers of a sequence share one mean and one variance.
# advice: Each token has a mean and a variance of its own. How many means are there for n tokens?
# replaces: norm-mlp
# caught by: every token is normed over its own features
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=(1, 2), keepdims=True)
    variance = (centred**2).mean(axis=(1, 2), keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


# %% norm-without-mean
# belief: It is the size that counts, so the mean need not be taken off.
# advice: That is another norm, RMS norm, which Llama uses. Layer norm centres first.
# replaces: norm-mlp
# caught by: every token is normed over its own features
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x
    variance = (x**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


# %% variance-of-a-sample
# belief: The variance divides by one less than the number of features.
# advice: That is for estimating the variance of what a sample was drawn from. Here nothing is estimated.
# replaces: norm-mlp
# caught by: every token is normed over its own features
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True, ddof=1)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


# %% divided-by-variance
# belief: Dividing by the variance makes the variance 1.
# advice: What happens to a variance when all numbers are halved?
# replaces: norm-mlp
# caught by: every token is normed over its own features
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / (variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


# %% norm-without-gain
# belief: After the norm everything has its right size; gain and shift are for show.
# advice: The model learns them. Without them it could never undo the norm where that would be better.
# replaces: norm-mlp
# caught by: gain and shift belong to features
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps)


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


# %% shift-before-gain
# belief: The order of gain and shift does not matter.
# advice: Then the shift would be multiplied by the gain, too. Which comes first?
# replaces: norm-mlp
# caught by: gain and shift belong to features
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return (centred / np.sqrt(variance + eps) + shift) * gain


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


# %% gain-around-one
# belief: The gain is stored as a difference to 1.
# advice: Some libraries do so. Here the gain is the factor itself.
# replaces: norm-mlp
# caught by: gain and shift belong to features
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * (1 + gain) + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


# %% epsilon-outside
# belief: It does not matter where epsilon is added, if nothing is divided by zero.
# advice: For tokens with tiny differences it does. The root of 1e-5 is 0.003, three hundred times larger.
# replaces: norm-mlp
# caught by: tokens with tiny differences, where epsilon counts
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / (np.sqrt(variance) + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


# %% no-epsilon
# belief: Features are never all equal.
# advice: Padding often is. And what you see for nearly equal features must be what the model was trained
#   with.
# replaces: norm-mlp
# caught by: tokens with tiny differences, where epsilon counts
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


# %% epsilon-fixed
# belief: Epsilon is always 1e-5.
# advice: It is an argument: BERT uses another one. Does your function look at it?
# replaces: norm-mlp
# caught by: tokens with tiny differences, where epsilon counts
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


# %% exact-gelu
# belief: There is one gelu, x times the normal distribution.
# advice: There are two forms, and they differ in the fourth digit. Which one is asked for?
# replaces: norm-mlp
# caught by: the MLP bends with GPT-2's gelu
import math


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = hidden * 0.5 * (1 + np.vectorize(math.erf)(hidden / 2**0.5))
    return hidden @ w["w_down"] + w["b_down"]


# %% quick-gelu
# belief: x times the logistic function of 1.702 x is gelu.
# advice: It is a coarse approximation, off by a hundredth. The formula with tanh is asked for.
# replaces: norm-mlp
# caught by: the MLP bends with GPT-2's gelu
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = hidden / (1 + np.exp(-1.702 * hidden))
    return hidden @ w["w_down"] + w["b_down"]


# %% relu-for-gelu
# belief: All bends are alike.
# advice: The weights of a model fit the bend that it was trained with. What is gelu(-1)?
# replaces: norm-mlp
# caught by: the MLP bends with GPT-2's gelu
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = np.maximum(hidden, 0)
    return hidden @ w["w_down"] + w["b_down"]


# %% no-bend
# belief: Two matrices after each other are an MLP.
# advice: Two matrices after each other are one matrix. What stands between them?
# replaces: norm-mlp
# caught by: the MLP bends with GPT-2's gelu
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    return hidden @ w["w_down"] + w["b_down"]


# %% bends-twice
# belief: Every layer of an MLP ends with the bend.
# advice: The second one writes to the stream, where negative numbers are welcome.
# replaces: norm-mlp
# caught by: the MLP bends with GPT-2's gelu
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    hidden = hidden @ w["w_down"] + w["b_down"]
    return 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))


# %% mlp-without-biases
# belief: Biases can be left out without much harm.
# advice: Weights that were trained with them need them. There are two.
# replaces: norm-mlp
# caught by: the MLP bends with GPT-2's gelu
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"]


# %% mlp-adds-the-token
# belief: The MLP gives back the token with something added.
# advice: The addition belongs to the block. This function returns what is to be added.
# replaces: norm-mlp
# caught by: the MLP bends with GPT-2's gelu
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return x + hidden @ w["w_down"] + w["b_down"]


# %% mlp-mixes-tokens
# belief: The MLP sees the whole sequence.
# advice: Only attention lets tokens meet. Change one token: whose result may change?
# replaces: norm-mlp
# caught by: in the MLP a token never meets another
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = np.broadcast_to(x.mean(axis=1, keepdims=True), x.shape) @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


# %% mlp-reads-the-past
# belief: The MLP adds up what has come before.
# advice: That would let tokens meet, and attention is there for that. Treat each token alone.
# replaces: norm-mlp
# caught by: in the MLP a token never meets another
def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = np.cumsum(x, axis=1) @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


# %% stream-normed
# belief: In pre-norm x is normed, and then the sublayer's result is added to it.
# advice: Keep x as it was for the addition. Only the sublayer gets the normed copy.
# replaces: block
# caught by: a pre-norm block adds to the stream and never norms it
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    def norm_1(y):
        return layer_norm(y, w["gain_1"], w["shift_1"])

    def norm_2(y):
        return layer_norm(y, w["gain_2"], w["shift_2"])

    def attention(y):
        return multi_head_attention(y, w, n_heads, n_kv_heads, mask)

    if norm == "pre":
        x = norm_1(x)
        x = x + attention(x)
        x = norm_2(x)
        return x + mlp(x, w)
    x = norm_1(x + attention(x))
    return norm_2(x + mlp(x, w))


# %% always-post
# belief: The norm comes after the addition, whatever the argument says.
# advice: That is the original order, post-norm. For pre-norm it stands on the side road, before the
#   sublayer.
# replaces: block
# caught by: a pre-norm block adds to the stream and never norms it
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    def norm_1(y):
        return layer_norm(y, w["gain_1"], w["shift_1"])

    def norm_2(y):
        return layer_norm(y, w["gain_2"], w["shift_2"])

    def attention(y):
        return multi_head_attention(y, w, n_heads, n_kv_heads, mask)

    if norm == "pre":
        x = norm_1(x + attention(x))
        return norm_2(x + mlp(x, w))
    x = norm_1(x + attention(x))
    return norm_2(x + mlp(x, w))


# %% no-residual
# belief: A block turns x into something better, so x itself is not needed any more.
# advice: Each sublayer adds its share to x. What comes out of a block whose sublayers return zero?
# replaces: block
# caught by: a pre-norm block adds to the stream and never norms it
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    def norm_1(y):
        return layer_norm(y, w["gain_1"], w["shift_1"])

    def norm_2(y):
        return layer_norm(y, w["gain_2"], w["shift_2"])

    def attention(y):
        return multi_head_attention(y, w, n_heads, n_kv_heads, mask)

    if norm == "pre":
        return mlp(norm_2(attention(norm_1(x))), w)
    x = norm_1(attention(x))
    return norm_2(mlp(x, w))


# %% one-way-around
# belief: One residual goes around the whole block.
# advice: There are two, one for each sublayer. What is the second one added to?
# replaces: block
# caught by: a pre-norm block adds to the stream and never norms it
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    def norm_1(y):
        return layer_norm(y, w["gain_1"], w["shift_1"])

    def norm_2(y):
        return layer_norm(y, w["gain_2"], w["shift_2"])

    def attention(y):
        return multi_head_attention(y, w, n_heads, n_kv_heads, mask)

    if norm == "pre":
        return x + mlp(norm_2(attention(norm_1(x))), w)
    x = norm_1(x + attention(x))
    return norm_2(x + mlp(x, w))


# %% mlp-without-residual
# belief: Attention has a residual, the MLP does not need one.
# advice: Both sublayers only add their share to the stream.
# replaces: block
# caught by: a pre-norm block adds to the stream and never norms it
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    def norm_1(y):
        return layer_norm(y, w["gain_1"], w["shift_1"])

    def norm_2(y):
        return layer_norm(y, w["gain_2"], w["shift_2"])

    def attention(y):
        return multi_head_attention(y, w, n_heads, n_kv_heads, mask)

    if norm == "pre":
        x = x + attention(norm_1(x))
        return mlp(norm_2(x), w)
    x = norm_1(x + attention(x))
    return norm_2(mlp(x, w))


# %% norm-at-the-end-too
# belief: A norm at the end of each block keeps the stream in order.
# advice: GPT-2 has one more norm, after the last block of all. Inside, nothing stands on the stream.
# replaces: block
# caught by: a pre-norm block adds to the stream and never norms it
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    def norm_1(y):
        return layer_norm(y, w["gain_1"], w["shift_1"])

    def norm_2(y):
        return layer_norm(y, w["gain_2"], w["shift_2"])

    def attention(y):
        return multi_head_attention(y, w, n_heads, n_kv_heads, mask)

    if norm == "pre":
        x = x + attention(norm_1(x))
        return norm_2(x + mlp(norm_2(x), w))
    x = norm_1(x + attention(x))
    return norm_2(x + mlp(x, w))


# %% mlp-beside-attention
# belief: Both sublayers read the x that came in.
# advice: Some models do so. Here the MLP reads what attention has already been added to.
# replaces: block
# caught by: pre-norm with random weights
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    def norm_1(y):
        return layer_norm(y, w["gain_1"], w["shift_1"])

    def norm_2(y):
        return layer_norm(y, w["gain_2"], w["shift_2"])

    def attention(y):
        return multi_head_attention(y, w, n_heads, n_kv_heads, mask)

    if norm == "pre":
        return x + attention(norm_1(x)) + mlp(norm_2(x), w)
    x = norm_1(x + attention(x))
    return norm_2(x + mlp(x, w))


# %% mlp-first
# belief: The order of the two sublayers does not matter.
# advice: Attention comes first: the MLP works on what it has gathered.
# replaces: block
# caught by: pre-norm with random weights
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    def norm_1(y):
        return layer_norm(y, w["gain_1"], w["shift_1"])

    def norm_2(y):
        return layer_norm(y, w["gain_2"], w["shift_2"])

    def attention(y):
        return multi_head_attention(y, w, n_heads, n_kv_heads, mask)

    if norm == "pre":
        x = x + mlp(norm_2(x), w)
        return x + attention(norm_1(x))
    x = norm_1(x + attention(x))
    return norm_2(x + mlp(x, w))


# %% one-norm-for-both
# belief: The block has one norm, which is used twice.
# advice: Each sublayer has a norm of its own, with its own gain and shift.
# replaces: block
# caught by: pre-norm with random weights
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    def norm_1(y):
        return layer_norm(y, w["gain_1"], w["shift_1"])

    def norm_2(y):
        return layer_norm(y, w["gain_2"], w["shift_2"])

    def attention(y):
        return multi_head_attention(y, w, n_heads, n_kv_heads, mask)

    if norm == "pre":
        x = x + attention(norm_1(x))
        return x + mlp(norm_1(x), w)
    x = norm_1(x + attention(x))
    return norm_2(x + mlp(x, w))


# %% norms-exchanged
# belief: It does not matter which norm goes with which sublayer.
# advice: They have learned different gains. Number 1 goes with attention.
# replaces: block
# caught by: pre-norm with random weights
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    def norm_1(y):
        return layer_norm(y, w["gain_1"], w["shift_1"])

    def norm_2(y):
        return layer_norm(y, w["gain_2"], w["shift_2"])

    def attention(y):
        return multi_head_attention(y, w, n_heads, n_kv_heads, mask)

    if norm == "pre":
        x = x + attention(norm_2(x))
        return x + mlp(norm_1(x), w)
    x = norm_1(x + attention(x))
    return norm_2(x + mlp(x, w))


# %% mlp-reads-the-stream
# belief: A norm before attention is enough.
# advice: The MLP has its own norm on its side road.
# replaces: block
# caught by: pre-norm with random weights
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    def norm_1(y):
        return layer_norm(y, w["gain_1"], w["shift_1"])

    def norm_2(y):
        return layer_norm(y, w["gain_2"], w["shift_2"])

    def attention(y):
        return multi_head_attention(y, w, n_heads, n_kv_heads, mask)

    if norm == "pre":
        x = x + attention(norm_1(x))
        return x + mlp(x, w)
    x = norm_1(x + attention(x))
    return norm_2(x + mlp(x, w))


# %% always-pre
# belief: All models are pre-norm.
# advice: The original transformer and BERT are not. Does your function look at its argument?
# replaces: block
# caught by: post-norm with random weights
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    def norm_1(y):
        return layer_norm(y, w["gain_1"], w["shift_1"])

    def norm_2(y):
        return layer_norm(y, w["gain_2"], w["shift_2"])

    def attention(y):
        return multi_head_attention(y, w, n_heads, n_kv_heads, mask)

    if norm == "pre":
        x = x + attention(norm_1(x))
        return x + mlp(norm_2(x), w)
    x = x + attention(norm_1(x))
    return x + mlp(norm_2(x), w)


# %% norm-before-adding
# belief: Post-norm means that what the sublayer returns is normed.
# advice: The sum is normed: first add, then norm.
# replaces: block
# caught by: post-norm with random weights
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    def norm_1(y):
        return layer_norm(y, w["gain_1"], w["shift_1"])

    def norm_2(y):
        return layer_norm(y, w["gain_2"], w["shift_2"])

    def attention(y):
        return multi_head_attention(y, w, n_heads, n_kv_heads, mask)

    if norm == "pre":
        x = x + attention(norm_1(x))
        return x + mlp(norm_2(x), w)
    x = x + norm_1(attention(x))
    return x + norm_2(mlp(x, w))


# %% normed-before-and-after
# belief: Post-norm has a norm after each sublayer in addition to the one before.
# advice: There are two norms in a block, in either order. In post-norm the sublayer reads the stream
#   itself.
# replaces: block
# caught by: post-norm with random weights
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    def norm_1(y):
        return layer_norm(y, w["gain_1"], w["shift_1"])

    def norm_2(y):
        return layer_norm(y, w["gain_2"], w["shift_2"])

    def attention(y):
        return multi_head_attention(y, w, n_heads, n_kv_heads, mask)

    if norm == "pre":
        x = x + attention(norm_1(x))
        return x + mlp(norm_2(x), w)
    x = norm_1(x + attention(norm_1(x)))
    return norm_2(x + mlp(norm_2(x), w))


# %% block-without-mask
# belief: Hiding is the matter of the attention inside, which knows its mask.
# advice: It knows what you hand on. Which mask does your block give it?
# replaces: block
# caught by: a block under a causal mask does not see the future
def block(x, w, n_heads, n_kv_heads, mask, norm="pre"):
    def norm_1(y):
        return layer_norm(y, w["gain_1"], w["shift_1"])

    def norm_2(y):
        return layer_norm(y, w["gain_2"], w["shift_2"])

    def attention(y):
        return multi_head_attention(
            y, w, n_heads, n_kv_heads, np.ones((1, 1, x.shape[1], x.shape[1]), dtype=bool)
        )

    if norm == "pre":
        x = x + attention(norm_1(x))
        return x + mlp(norm_2(x), w)
    x = norm_1(x + attention(x))
    return norm_2(x + mlp(x, w))


# %% heads-multiply
# belief: h heads have h times as many parameters.
# advice: The heads share the width: each has d divided by h features. What shape has w_q?
# replaces: count
# caught by: attention, with groups and with any number of heads
def block_parameters(d_model, d_ff, n_heads, n_kv_heads, attention_bias=True):
    small = d_model // n_heads * n_kv_heads
    attention = (2 * d_model * d_model + 2 * d_model * small) * n_heads
    if attention_bias:
        attention += 2 * d_model + 2 * small
    mlp_size = 2 * d_model * d_ff + d_ff + d_model
    return {"attention": attention, "mlp": mlp_size, "norms": 4 * d_model}


# %% keys-as-wide-as-queries
# belief: All four matrices of attention are d by d.
# advice: With fewer heads of keys, two of them are narrower.
# replaces: count
# caught by: attention, with groups and with any number of heads
def block_parameters(d_model, d_ff, n_heads, n_kv_heads, attention_bias=True):
    small = d_model
    attention = 2 * d_model * d_model + 2 * d_model * small
    if attention_bias:
        attention += 2 * d_model + 2 * small
    mlp_size = 2 * d_model * d_ff + d_ff + d_model
    return {"attention": attention, "mlp": mlp_size, "norms": 4 * d_model}


# %% output-not-counted
# belief: Attention has three matrices.
# advice: There is a fourth, which mixes what the heads have found.
# replaces: count
# caught by: attention, with groups and with any number of heads
def block_parameters(d_model, d_ff, n_heads, n_kv_heads, attention_bias=True):
    small = d_model // n_heads * n_kv_heads
    attention = d_model * d_model + 2 * d_model * small
    if attention_bias:
        attention += d_model + 2 * small
    mlp_size = 2 * d_model * d_ff + d_ff + d_model
    return {"attention": attention, "mlp": mlp_size, "norms": 4 * d_model}


# %% one-head-counted
# belief: The heads use the same matrices.
# advice: Each head has columns of its own in them. Count all columns.
# replaces: count
# caught by: attention, with groups and with any number of heads
def block_parameters(d_model, d_ff, n_heads, n_kv_heads, attention_bias=True):
    attention = 2 * d_model * (d_model // n_heads) + 2 * d_model * (d_model // n_heads)
    if attention_bias:
        attention += 4 * (d_model // n_heads)
    mlp_size = 2 * d_model * d_ff + d_ff + d_model
    return {"attention": attention, "mlp": mlp_size, "norms": 4 * d_model}


# %% biases-never
# belief: Biases are too few to be counted.
# advice: They are few, but a count that is off by a few says that something is missing.
# replaces: count
# caught by: attention, with groups and with any number of heads
def block_parameters(d_model, d_ff, n_heads, n_kv_heads, attention_bias=True):
    small = d_model // n_heads * n_kv_heads
    attention = 2 * d_model * d_model + 2 * d_model * small
    mlp_size = 2 * d_model * d_ff + d_ff + d_model
    return {"attention": attention, "mlp": mlp_size, "norms": 4 * d_model}


# %% biases-always
# belief: Every matrix has a bias.
# advice: Many models leave them out in attention. Does your function look at its argument?
# replaces: count
# caught by: attention without biases
def block_parameters(d_model, d_ff, n_heads, n_kv_heads, attention_bias=True):
    small = d_model // n_heads * n_kv_heads
    attention = 2 * d_model * d_model + 2 * d_model * small
    attention += 2 * d_model + 2 * small
    mlp_size = 2 * d_model * d_ff + d_ff + d_model
    return {"attention": attention, "mlp": mlp_size, "norms": 4 * d_model}


# %% no-bias-anywhere
# belief: Without biases means without any.
# advice: The argument speaks of attention. The MLP keeps its two.
# replaces: count
# caught by: attention without biases
def block_parameters(d_model, d_ff, n_heads, n_kv_heads, attention_bias=True):
    small = d_model // n_heads * n_kv_heads
    attention = 2 * d_model * d_model + 2 * d_model * small
    if attention_bias:
        attention += 2 * d_model + 2 * small
    mlp_size = 2 * d_model * d_ff + (d_ff + d_model if attention_bias else 0)
    return {"attention": attention, "mlp": mlp_size, "norms": 4 * d_model}


# %% norms-not-counted
# belief: Norms have nothing to learn.
# advice: Each has a gain and a shift for every feature.
# replaces: count
# caught by: MLP and norms
def block_parameters(d_model, d_ff, n_heads, n_kv_heads, attention_bias=True):
    small = d_model // n_heads * n_kv_heads
    attention = 2 * d_model * d_model + 2 * d_model * small
    if attention_bias:
        attention += 2 * d_model + 2 * small
    mlp_size = 2 * d_model * d_ff + d_ff + d_model
    return {"attention": attention, "mlp": mlp_size, "norms": 0}


# %% one-norm-counted
# belief: A block has one norm.
# advice: It has one for each sublayer.
# replaces: count
# caught by: MLP and norms
def block_parameters(d_model, d_ff, n_heads, n_kv_heads, attention_bias=True):
    small = d_model // n_heads * n_kv_heads
    attention = 2 * d_model * d_model + 2 * d_model * small
    if attention_bias:
        attention += 2 * d_model + 2 * small
    mlp_size = 2 * d_model * d_ff + d_ff + d_model
    return {"attention": attention, "mlp": mlp_size, "norms": 2 * d_model}


# %% mlp-one-way
# belief: The MLP is one matrix.
# advice: It widens the token and brings it back.
# replaces: count
# caught by: MLP and norms
def block_parameters(d_model, d_ff, n_heads, n_kv_heads, attention_bias=True):
    small = d_model // n_heads * n_kv_heads
    attention = 2 * d_model * d_model + 2 * d_model * small
    if attention_bias:
        attention += 2 * d_model + 2 * small
    mlp_size = d_model * d_ff + d_ff
    return {"attention": attention, "mlp": mlp_size, "norms": 4 * d_model}


# %% mlp-biases-of-one-length
# belief: Both biases of the MLP are as long as it is wide.
# advice: A bias is as long as the output of its matrix. How wide is the second output?
# replaces: count
# caught by: MLP and norms
def block_parameters(d_model, d_ff, n_heads, n_kv_heads, attention_bias=True):
    small = d_model // n_heads * n_kv_heads
    attention = 2 * d_model * d_model + 2 * d_model * small
    if attention_bias:
        attention += 2 * d_model + 2 * small
    mlp_size = 2 * d_model * d_ff + 2 * d_ff
    return {"attention": attention, "mlp": mlp_size, "norms": 4 * d_model}
