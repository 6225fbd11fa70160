"""Wrong answers that students really write, each with the belief behind it.

Every entry is a whole solution cell. It goes wrong in a way of its own: no two entries give the same
numbers on all inputs of the tests, so a submission that behaves like one of them can be told its name.
"""


# %% the-context-asks
# belief: The context sends its questions to the tokens that read it.
# advice: How many outputs must there be: as many as tokens in x, or as tokens in the context? The queries
#   decide that.
# replaces: cross
# caught by: who asks and who answers, where both are equally wide
def cross_attention(x, context, real, w, heads):
    def split(y):
        return y.reshape(y.shape[0], y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(context @ w["q"]), split(x @ w["k"]), split(x @ w["v"])
    output = F.attention(q, k, v).numpy()
    return output.transpose(0, 2, 1, 3).reshape(*context.shape[:2], -1) @ w["o"]


# %% x-reads-itself
# belief: Attention makes queries, keys and values of the same tokens.
# advice: That is self-attention. Which tokens know what x wants to find out? Keys and values are made of
#   those.
# replaces: cross
# caught by: who asks and who answers, where both are equally wide
def cross_attention(x, context, real, w, heads):
    batch, n, _ = x.shape

    def split(y):
        return y.reshape(batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w["q"]), split(x @ w["k"]), split(x @ w["v"])
    output = F.attention(q, k, v).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% both-read-at-once
# belief: Tokens that read a context read each other at the same time.
# advice: The layer of section 3 does that. In cross-attention keys and values are made of the context only.
# replaces: cross
# caught by: who asks and who answers, where both are equally wide
def cross_attention(x, context, real, w, heads):
    batch, n, _ = x.shape

    def split(y):
        return y.reshape(batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    both = np.concatenate([context, x], axis=1)
    mask = np.concatenate([real, np.ones((batch, n), dtype=bool)], axis=1)
    q, k, v = split(x @ w["q"]), split(both @ w["k"]), split(both @ w["v"])
    output = F.attention(q, k, v, mask=mask[:, None, None, :]).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% heads-in-a-row
# belief: A reshape puts the heads side by side.
# advice: After attention the axes are (batch, head, token, feature). Which two axes must be next to each
#   other before a reshape can join head and feature?
# replaces: cross
# caught by: contexts of another width and another length than the tokens that read
def cross_attention(x, context, real, w, heads):
    batch, n, _ = x.shape

    def split(y):
        return y.reshape(batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w["q"]), split(context @ w["k"]), split(context @ w["v"])
    output = F.attention(q, k, v, mask=real[:, None, None, :]).numpy()
    return output.reshape(batch, n, -1) @ w["o"]


# %% split-by-reshape
# belief: Splitting into heads is one reshape to (batch, head, token, feature).
# advice: A reshape moves no number: the first head would get all features of the first tokens. First make
#   (batch, token, head, feature), then swap two axes.
# replaces: cross
# caught by: contexts of another width and another length than the tokens that read
def cross_attention(x, context, real, w, heads):
    batch, n, _ = x.shape

    def split(y):
        return y.reshape(batch, heads, y.shape[1], -1)

    q, k, v = split(x @ w["q"]), split(context @ w["k"]), split(context @ w["v"])
    output = F.attention(q, k, v, mask=real[:, None, None, :]).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% one-head-only
# belief: Heads are a detail: one wide head does the same.
# advice: Each head has a softmax of its own, and scores over its own features only. Where do you use heads?
# replaces: cross
# caught by: contexts of another width and another length than the tokens that read
def cross_attention(x, context, real, w, heads):
    q, k, v = ((y @ w[name])[:, None] for y, name in ((x, "q"), (context, "k"), (context, "v")))
    output = F.attention(q, k, v, mask=real[:, None, None, :]).numpy()
    return output[:, 0] @ w["o"]


# %% no-last-matrix
# belief: Putting the heads side by side is the end.
# advice: The heads' results have yet to be mixed. What is w["o"] for?
# replaces: cross
# caught by: who asks and who answers, where both are equally wide
def cross_attention(x, context, real, w, heads):
    batch, n, _ = x.shape

    def split(y):
        return y.reshape(batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w["q"]), split(context @ w["k"]), split(context @ w["v"])
    output = F.attention(q, k, v, mask=real[:, None, None, :]).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1)


# %% residual-included
# belief: Attention returns the token with what it has read added to it.
# advice: The residual connection is not part of this function. It returns what was read, and no more.
# replaces: cross
# caught by: who asks and who answers, where both are equally wide
def cross_attention(x, context, real, w, heads):
    batch, n, _ = x.shape

    def split(y):
        return y.reshape(batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w["q"]), split(context @ w["k"]), split(context @ w["v"])
    output = F.attention(q, k, v, mask=real[:, None, None, :]).numpy()
    return x + output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% scaled-by-the-width
# belief: Scores are divided by the root of the model's width.
# advice: A score is a sum over the features of one head. How many are these?
# replaces: cross
# caught by: contexts of another width and another length than the tokens that read
def cross_attention(x, context, real, w, heads):
    batch, n, width = x.shape

    def split(y):
        return y.reshape(batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w["q"]), split(context @ w["k"]), split(context @ w["v"])
    output = F.attention(q, k, v, mask=real[:, None, None, :], scale=1 / np.sqrt(width)).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% padding-read
# belief: Padding does no harm.
# advice: A padded token has a key and takes part in every softmax. real says which tokens to keep out.
# replaces: cross
# caught by: padding is not read, and every row has its own
def cross_attention(x, context, real, w, heads):
    batch, n, _ = x.shape

    def split(y):
        return y.reshape(batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w["q"]), split(context @ w["k"]), split(context @ w["v"])
    output = F.attention(q, k, v).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% padding-made-zero
# belief: A padded token that is set to zero is out of the way.
# advice: Its score is then 0, and exp(0) is 1: it still takes a share of the weights. Hide it from the
#   softmax.
# replaces: cross
# caught by: padding is not read, and every row has its own
def cross_attention(x, context, real, w, heads):
    batch, n, _ = x.shape

    def split(y):
        return y.reshape(batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    context = np.where(real[..., None], context, 0.0)
    q, k, v = split(x @ w["q"]), split(context @ w["k"]), split(context @ w["v"])
    output = F.attention(q, k, v).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% only-padding-read
# belief: True in a mask marks what is to be left out.
# advice: In this course True means: may attend. And real is True for tokens that are no padding.
# replaces: cross
# caught by: padding is not read, and every row has its own
def cross_attention(x, context, real, w, heads):
    batch, n, _ = x.shape

    def split(y):
        return y.reshape(batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w["q"]), split(context @ w["k"]), split(context @ w["v"])
    output = F.attention(q, k, v, mask=~real[:, None, None, :]).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% first-rows-padding
# belief: All rows of a batch are padded alike.
# advice: real has one row for each context of the batch. Which one did you use for the second?
# replaces: cross
# caught by: padding is not read, and every row has its own
def cross_attention(x, context, real, w, heads):
    batch, n, _ = x.shape

    def split(y):
        return y.reshape(batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w["q"]), split(context @ w["k"]), split(context @ w["v"])
    output = F.attention(q, k, v, mask=real[:1, None, None, :]).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% nothing-to-read-is-a-mean
# belief: A very negative score hides a key in any case.
# advice: If all keys of a row get the same negative number, the softmax takes it away again, and the row
#   reads the mean of its padding. Such a row must read nothing.
# replaces: cross
# caught by: where there is nothing to read, nothing is read
def cross_attention(x, context, real, w, heads):
    batch, n, _ = x.shape

    def split(y):
        return y.reshape(batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w["q"]), split(context @ w["k"]), split(context @ w["v"])
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    scores = np.where(real[:, None, None, :], scores, -1e9)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    output = weights / weights.sum(axis=-1, keepdims=True) @ v
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% nothing-to-read-is-nan
# belief: Minus infinity hides a key in any case.
# advice: If all keys of a row are hidden, the softmax divides 0 by 0. What is such a row to read?
# replaces: cross
# caught by: where there is nothing to read, nothing is read
def cross_attention(x, context, real, w, heads):
    batch, n, _ = x.shape

    def split(y):
        return y.reshape(batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w["q"]), split(context @ w["k"]), split(context @ w["v"])
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    scores = np.where(real[:, None, None, :], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    output = weights / weights.sum(axis=-1, keepdims=True) @ v
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% softmax-over-the-askers
# belief: The weights of each key sum to one.
# advice: Each *query* gets an average, so the weights of each query sum to one. Along which axis did you
#   divide?
# replaces: cross
# caught by: contexts of another width and another length than the tokens that read
def cross_attention(x, context, real, w, heads):
    batch, n, _ = x.shape

    def split(y):
        return y.reshape(batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w["q"]), split(context @ w["k"]), split(context @ w["v"])
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    weights = np.exp(scores - scores.max(axis=2, keepdims=True)) * real[:, None, None, :]
    output = weights / np.maximum(weights.sum(axis=2, keepdims=True), 1e-300) @ v
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% mask-after-the-softmax
# belief: Weights of padding can be set to zero after the softmax.
# advice: Then the weights of a query no longer sum to one: padding has had its share. Hide it before.
# replaces: cross
# caught by: padding is not read, and every row has its own
def cross_attention(x, context, real, w, heads):
    batch, n, _ = x.shape

    def split(y):
        return y.reshape(batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w["q"]), split(context @ w["k"]), split(context @ w["v"])
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True) * real[:, None, None, :]
    return (weights @ v).transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% no-largest-score-taken-away
# belief: Taking the largest score away is only theory.
# advice: exp of a score in the thousands is infinite. The softmax is the same without the largest score.
# replaces: cross
# caught by: where there is nothing to read, nothing is read
def cross_attention(x, context, real, w, heads):
    batch, n, _ = x.shape

    def split(y):
        return y.reshape(batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w["q"]), split(context @ w["k"]), split(context @ w["v"])
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    weights = np.exp(np.where(real[:, None, None, :], scores, -np.inf))
    output = weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-300) @ v
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% places-restart
# belief: A new model counts its tokens from 0.
# advice: The cached keys are turned by places 0, 1, 2, and so on. Where do tokens stand that come after them?
# replaces: places
# caught by: the waypoints stand behind the prefix
def places_and_mask(lengths, n, slots):
    places = np.repeat(np.arange(n)[None], len(lengths), axis=0)
    filled = np.arange(slots) < lengths[:, None] + n
    return places, np.repeat(filled[:, None, None, :], n, axis=2)


# %% places-one-late
# belief: After 5 tokens the next one stands at place 6.
# advice: Places begin at 0. At which one does the last of 5 tokens stand?
# replaces: places
# caught by: the waypoints stand behind the prefix
def places_and_mask(lengths, n, slots):
    places = lengths[:, None] + 1 + np.arange(n)
    filled = np.arange(slots) < lengths[:, None] + n
    return places, np.repeat(filled[:, None, None, :], n, axis=2)


# %% places-one-early
# belief: The first waypoint stands where the prefix ends.
# advice: That place is taken by the last token of the prefix.
# replaces: places
# caught by: the waypoints stand behind the prefix
def places_and_mask(lengths, n, slots):
    places = lengths[:, None] - 1 + np.arange(n)
    filled = np.arange(slots) < lengths[:, None] + n
    return places, np.repeat(filled[:, None, None, :], n, axis=2)


# %% one-place-for-all
# belief: All waypoints are made at once, so all stand at the same place.
# advice: They are read at once, but they follow each other on the road. Without places of their own they
#   could not be told apart.
# replaces: places
# caught by: the waypoints stand behind the prefix
def places_and_mask(lengths, n, slots):
    places = np.repeat(lengths[:, None], n, axis=1)
    filled = np.arange(slots) < lengths[:, None] + n
    return places, np.repeat(filled[:, None, None, :], n, axis=2)


# %% places-behind-the-longest
# belief: All rows go on at the same place.
# advice: Padding has no place. The waypoints of a row follow the last real token of that row.
# replaces: places
# caught by: each row's waypoints follow its own prefix
def places_and_mask(lengths, n, slots):
    places = np.full((len(lengths), n), lengths.max()) + np.arange(n)
    filled = np.arange(slots) < lengths[:, None] + n
    return places, np.repeat(filled[:, None, None, :], n, axis=2)


# %% places-from-the-end
# belief: The waypoints have the last slots of the cache.
# advice: The cache has room for more than it holds. Where does the row's prefix end?
# replaces: places
# caught by: the waypoints stand behind the prefix
def places_and_mask(lengths, n, slots):
    places = np.full((len(lengths), n), slots - n) + np.arange(n)
    filled = np.arange(slots) < lengths[:, None] + n
    return places, np.repeat(filled[:, None, None, :], n, axis=2)


# %% causal-waypoints
# belief: A token may not see what comes after it.
# advice: That is so when text is written from left to right. The waypoints are all there at once, so
#   there is no future to hide.
# replaces: places
# caught by: every waypoint sees the whole prefix and all waypoints
def places_and_mask(lengths, n, slots):
    places = lengths[:, None] + np.arange(n)
    return places, np.arange(slots) <= places[:, None, :, None]


# %% blind-to-the-prefix
# belief: The expert's tokens belong to themselves.
# advice: Then the expert would not know what the language model has seen. Which slots hold that?
# replaces: places
# caught by: every waypoint sees the whole prefix and all waypoints
def places_and_mask(lengths, n, slots):
    places, slot = lengths[:, None] + np.arange(n), np.arange(slots)
    own = (slot >= lengths[:, None]) & (slot < lengths[:, None] + n)
    return places, np.repeat(own[:, None, None, :], n, axis=2)


# %% cross-attention-only
# belief: Reading a cache is cross-attention, so waypoints see the prefix only.
# advice: Then no waypoint knows where the others are, and they cannot form one path. Their own keys stand
#   behind the prefix to be read.
# replaces: places
# caught by: every waypoint sees the whole prefix and all waypoints
def places_and_mask(lengths, n, slots):
    places = lengths[:, None] + np.arange(n)
    prefix = np.arange(slots) < lengths[:, None]
    return places, np.repeat(prefix[:, None, None, :], n, axis=2)


# %% not-itself
# belief: A waypoint reads all others, and not itself.
# advice: A token reads itself, too, here as everywhere.
# replaces: places
# caught by: every waypoint sees the whole prefix and all waypoints
def places_and_mask(lengths, n, slots):
    places, slot = lengths[:, None] + np.arange(n), np.arange(slots)
    filled = slot < (lengths + n)[:, None, None, None]
    return places, filled & (slot != places[:, None, :, None])


# %% last-waypoint-hidden
# belief: The slots from 0 to length + n - 1 are those below length + n - 1.
# advice: Count for a prefix of 1 and 1 waypoint. Which two slots are filled?
# replaces: places
# caught by: every waypoint sees the whole prefix and all waypoints
def places_and_mask(lengths, n, slots):
    places = lengths[:, None] + np.arange(n)
    filled = np.arange(slots) < lengths[:, None] + n - 1
    return places, np.repeat(filled[:, None, None, :], n, axis=2)


# %% one-slot-too-many
# belief: Up to length + n means that slot length + n is seen, too.
# advice: Slots begin at 0. Which is the last one that is filled after n waypoints were written?
# replaces: places
# caught by: every waypoint sees the whole prefix and all waypoints
def places_and_mask(lengths, n, slots):
    places = lengths[:, None] + np.arange(n)
    filled = np.arange(slots) <= lengths[:, None] + n
    return places, np.repeat(filled[:, None, None, :], n, axis=2)


# %% top-left-triangle
# belief: A causal mask is a triangle whose first row sees the first key.
# advice: The waypoints are not the first tokens of the cache. And they need no triangle: they see each
#   other in both directions.
# replaces: places
# caught by: every waypoint sees the whole prefix and all waypoints
def places_and_mask(lengths, n, slots):
    places = lengths[:, None] + np.arange(n)
    return places, np.repeat(np.tri(n, slots, dtype=bool)[None, None], len(lengths), axis=0)


# %% mask-the-other-way
# belief: True in a mask marks what is to be left out.
# advice: In this course True means: may attend. Which slots may a waypoint read?
# replaces: places
# caught by: every waypoint sees the whole prefix and all waypoints
def places_and_mask(lengths, n, slots):
    places = lengths[:, None] + np.arange(n)
    empty = np.arange(slots) >= lengths[:, None] + n
    return places, np.repeat(empty[:, None, None, :], n, axis=2)


# %% everything-seen
# belief: The expert's attention is not causal, so it needs no mask.
# advice: Not causal is one thing. Empty slots are another: there is rubbish in them, and it must not be read.
# replaces: places
# caught by: every waypoint sees the whole prefix and all waypoints
def places_and_mask(lengths, n, slots):
    places = lengths[:, None] + np.arange(n)
    return places, np.ones((len(lengths), 1, n, slots), dtype=bool)


# %% mask-of-the-longest
# belief: The cache is as long as its longest row.
# advice: A shorter row has empty slots before that. Each row's mask ends behind its own waypoints.
# replaces: places
# caught by: no row sees the empty slots behind its own waypoints
def places_and_mask(lengths, n, slots):
    places = lengths[:, None] + np.arange(n)
    filled = np.arange(slots) < np.full_like(lengths, lengths.max())[:, None] + n
    return places, np.repeat(filled[:, None, None, :], n, axis=2)


# %% cached-keys-turned-again
# belief: Keys are turned when they are read.
# advice: The prefix's keys were turned when they were written, and their places never change. Turn the
#   new ones only.
# replaces: layer
# caught by: one softmax over the prefix and the waypoints
def expert_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    slots, head_dim = keys.shape[2:]
    places, mask = places_and_mask(lengths, n, slots)

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k, v = heads(x @ w["k"]), heads(x @ w["v"])
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = k[b]
        values[b, :, length : length + n] = v[b]
    turned = F.rotary(keys, np.arange(slots)).numpy()
    output = F.attention(q, turned, values, mask=mask).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% queries-not-turned
# belief: Only keys have places.
# advice: A score is to depend on how far apart query and key stand. For that both must be turned.
# replaces: layer
# caught by: queries and keys are turned by their places, values are not
def expert_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    slots, head_dim = keys.shape[2:]
    places, mask = places_and_mask(lengths, n, slots)

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    q, k, v = heads(x @ w["q"]), heads(x @ w["k"]), heads(x @ w["v"])
    k = F.rotary(k, places).numpy()
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = k[b]
        values[b, :, length : length + n] = v[b]
    output = F.attention(q, keys, values, mask=mask).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% own-keys-not-turned
# belief: It is enough to turn the queries.
# advice: The cached keys were turned. Keys that are not do not fit beside them.
# replaces: layer
# caught by: queries and keys are turned by their places, values are not
def expert_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    slots, head_dim = keys.shape[2:]
    places, mask = places_and_mask(lengths, n, slots)

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    q, k, v = heads(x @ w["q"]), heads(x @ w["k"]), heads(x @ w["v"])
    q = F.rotary(q, places).numpy()
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = k[b]
        values[b, :, length : length + n] = v[b]
    output = F.attention(q, keys, values, mask=mask).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% values-turned
# belief: Queries, keys and values are all turned by their places.
# advice: A place matters for *finding* a token. What it passes on, its value, stays as it is.
# replaces: layer
# caught by: queries and keys are turned by their places, values are not
def expert_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    slots, head_dim = keys.shape[2:]
    places, mask = places_and_mask(lengths, n, slots)

    def heads(y):
        turned = F.rotary(y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3), places)
        return turned.numpy()

    q, k, v = heads(x @ w["q"]), heads(x @ w["k"]), heads(x @ w["v"])
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = k[b]
        values[b, :, length : length + n] = v[b]
    output = F.attention(q, keys, values, mask=mask).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% keys-and-values-exchanged
# belief: Keys and values are two names for the same thing.
# advice: Keys are compared with the query, values are averaged. Which of them did you write where?
# replaces: layer
# caught by: what is in the cache is never turned or written again
def expert_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    slots, head_dim = keys.shape[2:]
    places, mask = places_and_mask(lengths, n, slots)

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = v[b]
        values[b, :, length : length + n] = k[b]
    output = F.attention(q, keys, values, mask=mask).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% two-softmaxes
# belief: Reading the prefix and reading each other are two attentions, whose results are added.
# advice: Then each of the two gets a full share, however little it has to say. One softmax over both lets
#   them compete.
# replaces: layer
# caught by: one softmax over the prefix and the waypoints
def expert_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    slots, head_dim = keys.shape[2:]
    places, mask = places_and_mask(lengths, n, slots)

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = k[b]
        values[b, :, length : length + n] = v[b]
    prefix = np.arange(slots) < lengths[:, None, None, None]
    output = F.attention(q, keys, values, mask=prefix & mask).numpy() + F.attention(q, k, v).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% mean-of-two-attentions
# belief: What the prefix says and what the waypoints say count half each.
# advice: How much each of the two counts is for the scores to say. Put all keys into one softmax.
# replaces: layer
# caught by: one softmax over the prefix and the waypoints
def expert_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    slots, head_dim = keys.shape[2:]
    places, mask = places_and_mask(lengths, n, slots)

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = k[b]
        values[b, :, length : length + n] = v[b]
    prefix = np.arange(slots) < lengths[:, None, None, None]
    output = (F.attention(q, keys, values, mask=prefix & mask).numpy() + F.attention(q, k, v).numpy()) / 2
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% read-before-written
# belief: Reading comes first, and then the new keys are put away for later.
# advice: Then the waypoints read what happened to lie in their slots. Their own keys and values must be there
#   before they read.
# replaces: layer
# caught by: one softmax over the prefix and the waypoints
def expert_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    slots, head_dim = keys.shape[2:]
    places, mask = places_and_mask(lengths, n, slots)

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    output = F.attention(q, keys, values, mask=mask).numpy()
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = k[b]
        values[b, :, length : length + n] = v[b]
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% prefix-overwritten
# belief: The waypoints are the expert's first tokens, so they go into the first slots.
# advice: There the prefix lies, and it is gone then. Which is the first free slot of a row?
# replaces: layer
# caught by: what is in the cache is never turned or written again
def expert_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    slots, head_dim = keys.shape[2:]
    places, mask = places_and_mask(lengths, n, slots)

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    keys[:, :, :n], values[:, :, :n] = k, heads(x @ w["v"])
    output = F.attention(q, keys, values, mask=mask).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% written-behind-the-longest
# belief: All rows write into the same slots.
# advice: A shorter row has its first free slot earlier. Its mask and its places begin there, too.
# replaces: layer
# caught by: prefixes of different length, with rubbish behind them
def expert_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    slots, head_dim = keys.shape[2:]
    places, mask = places_and_mask(lengths, n, slots)

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    start = lengths.max()
    keys[:, :, start : start + n], values[:, :, start : start + n] = k, heads(x @ w["v"])
    output = F.attention(q, keys, values, mask=mask).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% written-into-a-copy
# belief: The cache must not be changed at all, so a copy of it is used.
# advice: The *prefix* must not be changed. The waypoints' own keys and values go behind it, into the arrays
#   that you were given.
# replaces: layer
# caught by: what is in the cache is never turned or written again
def expert_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    slots, head_dim = keys.shape[2:]
    places, mask = places_and_mask(lengths, n, slots)
    keys, values = keys.copy(), values.copy()

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = k[b]
        values[b, :, length : length + n] = v[b]
    output = F.attention(q, keys, values, mask=mask).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% layer-moves-the-lengths
# belief: Whoever writes into the cache moves the lengths.
# advice: The next layer has to write at the same place. The lengths move once, when all layers are done.
# replaces: layer
# caught by: prefixes of different length, with rubbish behind them
def expert_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    slots, head_dim = keys.shape[2:]
    places, mask = places_and_mask(lengths, n, slots)

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = k[b]
        values[b, :, length : length + n] = v[b]
    lengths += n
    output = F.attention(q, keys, values, mask=mask).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% rubbish-read
# belief: Nobody has written into an empty slot, so it cannot disturb.
# advice: There are numbers in it all the same, and each takes a share of the softmax. You have a mask for
#   that.
# replaces: layer
# caught by: prefixes of different length, with rubbish behind them
def expert_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]
    places, _ = places_and_mask(lengths, n, keys.shape[2])

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = k[b]
        values[b, :, length : length + n] = v[b]
    output = F.attention(q, keys, values).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% heads-shared-in-turn
# belief: Heads of keys are dealt out to the heads of queries in turn.
# advice: Neighbours share: with 6 heads of queries and 2 of keys, heads 0, 1 and 2 read the first one. The
#   library does it by itself.
# replaces: layer
# caught by: six heads of queries share two heads of keys, and scores are in the thousands
def expert_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    slots, head_dim = keys.shape[2:]
    places, mask = places_and_mask(lengths, n, slots)

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = k[b]
        values[b, :, length : length + n] = v[b]
    times = (1, q.shape[1] // keys.shape[1], 1, 1)
    output = F.attention(q, np.tile(keys, times), np.tile(values, times), mask=mask).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% heads-not-brought-back
# belief: A reshape puts the heads side by side again.
# advice: After attention the axes are (batch, head, waypoint, feature). Swap two of them before you join
#   head and feature.
# replaces: layer
# caught by: six heads of queries share two heads of keys, and scores are in the thousands
def expert_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    slots, head_dim = keys.shape[2:]
    places, mask = places_and_mask(lengths, n, slots)

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = k[b]
        values[b, :, length : length + n] = v[b]
    output = F.attention(q, keys, values, mask=mask).numpy()
    return output.reshape(batch, n, -1) @ w["o"]


# %% time-left-out
# belief: The actions tell how noisy they are.
# advice: The same numbers mean one thing at time 0 and another at time 0.9. The last row of lift is for
#   the time.
# replaces: velocity
# caught by: the time goes in behind the channels
def velocity(actions, time, keys, values, lengths, expert):
    batch, n, _ = actions.shape
    x = np.concatenate([actions, np.zeros((batch, n, 1))], axis=2) @ expert["lift"]
    for number, w in enumerate(expert["layers"]):
        x = x + expert_attention(x, keys[number], values[number], lengths, w)
    lengths += n
    return x @ expert["head"]


# %% time-runs-backwards
# belief: Noise is at time 1, so the time has to be turned round first.
# advice: In this unit noise is at 0 and actions at 1, and the expert is given the time as it is.
# replaces: velocity
# caught by: the time goes in behind the channels
def velocity(actions, time, keys, values, lengths, expert):
    batch, n, _ = actions.shape
    x = np.concatenate([actions, np.full((batch, n, 1), 1 - time)], axis=2) @ expert["lift"]
    for number, w in enumerate(expert["layers"]):
        x = x + expert_attention(x, keys[number], values[number], lengths, w)
    lengths += n
    return x @ expert["head"]


# %% time-in-front
# belief: It does not matter in which column the time stands.
# advice: lift has one row for each column: first those of the channels, then that of the time.
# replaces: velocity
# caught by: the time goes in behind the channels
def velocity(actions, time, keys, values, lengths, expert):
    batch, n, _ = actions.shape
    x = np.concatenate([np.full((batch, n, 1), time), actions], axis=2) @ expert["lift"]
    for number, w in enumerate(expert["layers"]):
        x = x + expert_attention(x, keys[number], values[number], lengths, w)
    lengths += n
    return x @ expert["head"]


# %% time-along-the-path
# belief: Each waypoint has a time of its own, that on the road.
# advice: The time says how far the noise has turned into actions. It is the same for all waypoints; where a
#   waypoint stands on the road is said by its place.
# replaces: velocity
# caught by: the time goes in behind the channels
def velocity(actions, time, keys, values, lengths, expert):
    batch, n, _ = actions.shape
    clock = np.broadcast_to(time + np.arange(n)[:, None] / n, (batch, n, 1))
    x = np.concatenate([actions, clock], axis=2) @ expert["lift"]
    for number, w in enumerate(expert["layers"]):
        x = x + expert_attention(x, keys[number], values[number], lengths, w)
    lengths += n
    return x @ expert["head"]


# %% last-layer-for-all
# belief: The language model's last layer has understood most, so all layers read that one.
# advice: Layer l of the expert was trained beside layer l of the language model. Each has its own part of the
#   cache.
# replaces: velocity
# caught by: layer l of the expert reads layer l of the cache
def velocity(actions, time, keys, values, lengths, expert):
    batch, n, _ = actions.shape
    x = np.concatenate([actions, np.full((batch, n, 1), time)], axis=2) @ expert["lift"]
    for w in expert["layers"]:
        x = x + expert_attention(x, keys[-1], values[-1], lengths, w)
    lengths += n
    return x @ expert["head"]


# %% first-layer-for-all
# belief: One cache serves all layers.
# advice: The first axis of keys and values counts the layers. Which one does layer 1 read?
# replaces: velocity
# caught by: layer l of the expert reads layer l of the cache
def velocity(actions, time, keys, values, lengths, expert):
    batch, n, _ = actions.shape
    x = np.concatenate([actions, np.full((batch, n, 1), time)], axis=2) @ expert["lift"]
    for w in expert["layers"]:
        x = x + expert_attention(x, keys[0], values[0], lengths, w)
    lengths += n
    return x @ expert["head"]


# %% layers-in-reverse
# belief: The expert begins where the language model has ended.
# advice: Both are read from below: layer 0 reads layer 0.
# replaces: velocity
# caught by: layer l of the expert reads layer l of the cache
def velocity(actions, time, keys, values, lengths, expert):
    batch, n, _ = actions.shape
    x = np.concatenate([actions, np.full((batch, n, 1), time)], axis=2) @ expert["lift"]
    for number, w in enumerate(expert["layers"]):
        x = x + expert_attention(x, keys[-1 - number], values[-1 - number], lengths, w)
    lengths += n
    return x @ expert["head"]


# %% no-residual
# belief: A layer's output replaces its input.
# advice: Then a waypoint forgets its own numbers in the first layer. What is added to what?
# replaces: velocity
# caught by: layer l of the expert reads layer l of the cache
def velocity(actions, time, keys, values, lengths, expert):
    batch, n, _ = actions.shape
    x = np.concatenate([actions, np.full((batch, n, 1), time)], axis=2) @ expert["lift"]
    for number, w in enumerate(expert["layers"]):
        x = expert_attention(x, keys[number], values[number], lengths, w)
    lengths += n
    return x @ expert["head"]


# %% every-layer-reads-the-input
# belief: Each layer looks at the waypoints' tokens, and their findings are summed.
# advice: The input of a layer is the output of the one before it.
# replaces: velocity
# caught by: layer l of the expert reads layer l of the cache
def velocity(actions, time, keys, values, lengths, expert):
    batch, n, _ = actions.shape
    tokens = np.concatenate([actions, np.full((batch, n, 1), time)], axis=2) @ expert["lift"]
    x = tokens
    for number, w in enumerate(expert["layers"]):
        x = x + expert_attention(tokens, keys[number], values[number], lengths, w)
    lengths += n
    return x @ expert["head"]


# %% actions-in-place-of-velocity
# belief: The expert returns the better actions.
# advice: It returns a velocity: the direction in which the actions are to move. The step is taken by whoever
#   asks.
# replaces: velocity
# caught by: layer l of the expert reads layer l of the cache
def velocity(actions, time, keys, values, lengths, expert):
    batch, n, _ = actions.shape
    x = np.concatenate([actions, np.full((batch, n, 1), time)], axis=2) @ expert["lift"]
    for number, w in enumerate(expert["layers"]):
        x = x + expert_attention(x, keys[number], values[number], lengths, w)
    lengths += n
    return actions + x @ expert["head"]


# %% lengths-move-in-every-layer
# belief: Every layer has written n tokens, so every layer moves the lengths.
# advice: All layers write the same n tokens, at the same place. When do the lengths move, and how often?
# replaces: velocity
# caught by: the lengths move once, at the end
def velocity(actions, time, keys, values, lengths, expert):
    batch, n, _ = actions.shape
    x = np.concatenate([actions, np.full((batch, n, 1), time)], axis=2) @ expert["lift"]
    for number, w in enumerate(expert["layers"]):
        x = x + expert_attention(x, keys[number], values[number], lengths, w)
        lengths += n
    return x @ expert["head"]


# %% lengths-stay
# belief: A name that is set inside a function is set outside, too.
# advice: lengths = lengths + n makes another array, and the caller's stays as it was. Write into the one that
#   you were given.
# replaces: velocity
# caught by: the lengths move once, at the end
def velocity(actions, time, keys, values, lengths, expert):
    batch, n, _ = actions.shape
    x = np.concatenate([actions, np.full((batch, n, 1), time)], axis=2) @ expert["lift"]
    for number, w in enumerate(expert["layers"]):
        x = x + expert_attention(x, keys[number], values[number], lengths, w)
    lengths = lengths + n
    return x @ expert["head"]


# %% lengths-move-by-one
# belief: A pass through the cache adds one token.
# advice: A decoding step does. How many tokens has this pass written into each row?
# replaces: velocity
# caught by: the lengths move once, at the end
def velocity(actions, time, keys, values, lengths, expert):
    batch, n, _ = actions.shape
    x = np.concatenate([actions, np.full((batch, n, 1), time)], axis=2) @ expert["lift"]
    for number, w in enumerate(expert["layers"]):
        x = x + expert_attention(x, keys[number], values[number], lengths, w)
    lengths += 1
    return x @ expert["head"]


# %% target-back-to-noise
# belief: The target is noise - data, as in pi0's code.
# advice: There noise is at time 1. Here data is at time 1: which way must a point move to get there?
# replaces: pair
# caught by: the point lies between noise and data, and the target leads from one to the other
def training_pair(data, noise, time):
    t = time[:, None, None]
    return (1 - t) * noise + t * data, noise - data


# %% noise-at-time-one
# belief: Time 0 is the data, and noise comes with time.
# advice: That is pi0's way of counting. Here the noise is at time 0, where driving begins.
# replaces: pair
# caught by: the point lies between noise and data, and the target leads from one to the other
def training_pair(data, noise, time):
    t = time[:, None, None]
    return t * noise + (1 - t) * data, noise - data


# %% point-the-other-way-round
# belief: The larger the time, the more noise.
# advice: At time 1 the point must be the data. Put t = 1 into your formula. And does your target lead
#   from time 0 to time 1?
# replaces: pair
# caught by: the point lies between noise and data, and the target leads from one to the other
def training_pair(data, noise, time):
    t = time[:, None, None]
    return t * noise + (1 - t) * data, data - noise


# %% target-is-the-data
# belief: The model is to say the data.
# advice: It is to say a velocity: how far, and in which direction, the point moves from time 0 to time 1.
# replaces: pair
# caught by: the point lies between noise and data, and the target leads from one to the other
def training_pair(data, noise, time):
    t = time[:, None, None]
    return (1 - t) * noise + t * data, data.copy()


# %% target-is-the-noise
# belief: The model is to say the noise, so that it can be taken away.
# advice: Some diffusion models do that. Flow matching asks for the velocity on the line from noise to data.
# replaces: pair
# caught by: the point lies between noise and data, and the target leads from one to the other
def training_pair(data, noise, time):
    t = time[:, None, None]
    return (1 - t) * noise + t * data, noise.copy()


# %% target-is-the-rest
# belief: The target is the way that is still to go.
# advice: A velocity is way divided by time. The rest of the way is to be gone in the rest of the time, 1 - t.
# replaces: pair
# caught by: the point lies between noise and data, and the target leads from one to the other
def training_pair(data, noise, time):
    t = time[:, None, None]
    point = (1 - t) * noise + t * data
    return point, data - point


# %% roots-of-time
# belief: Noise and data are mixed by the roots of 1 - t and t, so that the variance stays.
# advice: Many diffusion models mix like that. Here the point moves on a straight line, so the weights are
#   1 - t and t.
# replaces: pair
# caught by: the point lies between noise and data, and the target leads from one to the other
def training_pair(data, noise, time):
    t = time[:, None, None]
    return np.sqrt(1 - t) * noise + np.sqrt(t) * data, data - noise


# %% noise-added
# belief: Noise is added to the data.
# advice: At time 0 nothing of the data is left, at time 1 all of it. Both have a weight.
# replaces: pair
# caught by: the point lies between noise and data, and the target leads from one to the other
def training_pair(data, noise, time):
    t = time[:, None, None]
    return data + (1 - t) * noise, data - noise


# %% time-along-the-waypoints
# belief: NumPy finds out to which axis the times belong.
# advice: It lays axes on each other from the *right*. A time of shape (batch, 1) meets waypoints and
#   channels. How many axes must it have to meet the batch?
# replaces: pair
# caught by: each row has its own time, for all its waypoints
def training_pair(data, noise, time):
    t = time[:, None]
    return (1 - t) * noise + t * data, data - noise


# %% first-rows-time
# belief: A batch has one time.
# advice: time has a number for each row. Which one did the second row get?
# replaces: pair
# caught by: each row has its own time, for all its waypoints
def training_pair(data, noise, time):
    return (1 - time[0]) * noise + time[0] * data, data - noise


# %% steps-not-cropped
# belief: The prefix stays as it is, so nothing has to be cropped.
# advice: Behind the prefix lie the waypoints of the step before, and the lengths say that they belong to
#   it. What does the second step read?
# replaces: denoise
# caught by: no step reads the waypoints of an earlier step
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x = noise
    for step in range(steps):
        x = x + look(x, step / steps, keys, values, lengths, expert) / steps
    return x


# %% cropped-at-the-end
# belief: It is enough to tidy up when all steps are done.
# advice: Then the second step reads the first one's noise. When must the cache be clean again?
# replaces: denoise
# caught by: no step reads the waypoints of an earlier step
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x, held = noise, lengths.copy()
    for step in range(steps):
        x = x + look(x, step / steps, keys, values, lengths, expert) / steps
    lengths[:] = held
    return x


# %% last-step-not-cropped
# belief: After the last step nobody reads the cache any more.
# advice: Someone may want a second sample from the same cache. Or did you give the name lengths to another
#   array, so that the caller's stayed moved?
# replaces: denoise
# caught by: afterwards noise and lengths are as before, and a second sample follows
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x, held = noise, lengths.copy()
    for step in range(steps):
        lengths[:] = held
        x = x + look(x, step / steps, keys, values, lengths, expert) / steps
    return x


# %% cropped-to-the-longest
# belief: A cache is cropped to one length.
# advice: Every row has a length of its own. A short row that is cropped to the longest keeps waypoints.
# replaces: denoise
# caught by: rows with prefixes of different length, each as if it were alone
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x, longest = noise, lengths.max()
    for step in range(steps):
        x = x + look(x, step / steps, keys, values, lengths, expert) / steps
        lengths[:] = np.minimum(lengths, longest)
    return x


# %% cropped-to-the-shortest
# belief: All rows are cropped to what all of them have.
# advice: Then the longer rows lose a part of their prefix. Every row goes back to its own length.
# replaces: denoise
# caught by: rows with prefixes of different length, each as if it were alone
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x, shortest = noise, lengths.min()
    for step in range(steps):
        x = x + look(x, step / steps, keys, values, lengths, expert) / steps
        lengths[:] = shortest
    return x


# %% cropped-to-nothing
# belief: To crop a cache is to empty it.
# advice: Then the prefix is gone, too, and the next step drives blind. What did the cache hold before?
# replaces: denoise
# caught by: no step reads the waypoints of an earlier step
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x = noise
    for step in range(steps):
        x = x + look(x, step / steps, keys, values, lengths, expert) / steps
        lengths[:] = 0
    return x


# %% cropped-by-one
# belief: A step has added one token.
# advice: It has added as many as there are waypoints. Go back to what was there before the step.
# replaces: denoise
# caught by: no step reads the waypoints of an earlier step
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x = noise
    for step in range(steps):
        x = x + look(x, step / steps, keys, values, lengths, expert) / steps
        lengths -= 1
    return x


# %% time-at-the-end-of-the-step
# belief: The first step is step 1, so its time is 1 / steps.
# advice: Euler's method asks where it stands *before* the step. Where does the first step start?
# replaces: denoise
# caught by: each step asks at its own time
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x, held = noise, lengths.copy()
    for step in range(steps):
        x = x + look(x, (step + 1) / steps, keys, values, lengths, expert) / steps
        lengths[:] = held
    return x


# %% time-from-one-down
# belief: Denoising runs from time 1 to time 0.
# advice: That is pi0's way of counting. In this unit noise is at time 0 and actions at time 1.
# replaces: denoise
# caught by: each step asks at its own time
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x, held = noise, lengths.copy()
    for step in range(steps):
        x = x + look(x, 1 - step / steps, keys, values, lengths, expert) / steps
        lengths[:] = held
    return x


# %% time-counts-steps
# belief: The time is the number of the step.
# advice: The time runs from 0 to 1. Where is it after half of the steps?
# replaces: denoise
# caught by: each step asks at its own time
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x, held = noise, lengths.copy()
    for step in range(steps):
        x = x + look(x, float(step), keys, values, lengths, expert) / steps
        lengths[:] = held
    return x


# %% last-time-is-one
# belief: The times are spread from 0 to 1, both ends included.
# advice: At time 1 the actions are done, and nothing is asked any more. The last step *ends* there.
# replaces: denoise
# caught by: each step asks at its own time
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x, held = noise, lengths.copy()
    for time in np.linspace(0, 1, steps):
        x = x + look(x, float(time), keys, values, lengths, expert) / steps
        lengths[:] = held
    return x


# %% time-stands-still
# belief: The expert starts from noise each time, so the time is always 0.
# advice: After the first step the actions are no longer pure noise. The expert must be told how far they are.
# replaces: denoise
# caught by: each step asks at its own time
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x, held = noise, lengths.copy()
    for _ in range(steps):
        x = x + look(x, 0.0, keys, values, lengths, expert) / steps
        lengths[:] = held
    return x


# %% full-steps
# belief: Each step goes all the way that the velocity says.
# advice: The velocity is for a time of 1. How long is one of the steps?
# replaces: denoise
# caught by: each step asks at its own time
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x, held = noise, lengths.copy()
    for step in range(steps):
        x = x + look(x, step / steps, keys, values, lengths, expert)
        lengths[:] = held
    return x


# %% noise-subtracted
# belief: Denoising takes away what the model has found.
# advice: The model says in which direction the actions lie. Go there.
# replaces: denoise
# caught by: each step asks at its own time
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x, held = noise, lengths.copy()
    for step in range(steps):
        x = x - look(x, step / steps, keys, values, lengths, expert) / steps
        lengths[:] = held
    return x


# %% asked-only-once
# belief: The velocity is the same on the whole way.
# advice: On one line it is. The expert says the mean over many lines, and that changes as the point
#   moves. Ask again in each step.
# replaces: denoise
# caught by: each step asks at its own time
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    held = lengths.copy()
    x = noise + look(noise, 0.0, keys, values, lengths, expert)
    lengths[:] = held
    return x


# %% asked-at-the-noise
# belief: Every step starts again from the noise.
# advice: The next step is taken, and the next question asked, where the last step has led.
# replaces: denoise
# caught by: each step asks at its own time
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x, held = noise, lengths.copy()
    for step in range(steps):
        x = x + look(noise, step / steps, keys, values, lengths, expert) / steps
        lengths[:] = held
    return x


# %% one-step-too-few
# belief: From 0 to 1 in N steps there are N - 1 steps.
# advice: Count the steps for N = 1. Is there none?
# replaces: denoise
# caught by: no step reads the waypoints of an earlier step
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x, held = noise, lengths.copy()
    for step in range(steps - 1):
        x = x + look(x, step / steps, keys, values, lengths, expert) / steps
        lengths[:] = held
    return x


# %% noise-written-over
# belief: The noise is not needed any more, so the steps can be taken in place.
# advice: x = noise gives the array a second name. x += ... then changes the caller's noise.
# replaces: denoise
# caught by: afterwards noise and lengths are as before, and a second sample follows
def denoise(noise, steps, keys, values, lengths, expert, look=None):
    look = look or velocity
    x, held = noise, lengths.copy()
    for step in range(steps):
        x += look(x, step / steps, keys, values, lengths, expert) / steps
        lengths[:] = held
    return x


# %% waypoints-read-once
# belief: With a cache every token is read once, the waypoints included.
# advice: In the next step the waypoints are other numbers. What do their old keys help?
# replaces: rows
# caught by: rows are counted for any sizes
def rows_read(lengths, n, steps, layers):
    prefixes, waypoints = sum(lengths), len(lengths) * n
    return layers * steps * (prefixes + waypoints), layers * (prefixes + waypoints)


# %% prefix-read-in-every-step
# belief: The cache is read in every step, so its rows count in every step.
# advice: Reading a key is not making one. How often does the prefix go through the matrix that makes keys?
# replaces: rows
# caught by: rows are counted for any sizes
def rows_read(lengths, n, steps, layers):
    prefixes, waypoints = sum(lengths), len(lengths) * n
    return layers * steps * (prefixes + waypoints), layers * steps * waypoints


# %% padding-counted
# belief: Every row is as long as the longest.
# advice: Padding is not counted. lengths says how many real tokens each row has.
# replaces: rows
# caught by: rows are counted for any sizes
def rows_read(lengths, n, steps, layers):
    prefixes, waypoints = len(lengths) * max(lengths), len(lengths) * n
    return layers * steps * (prefixes + waypoints), layers * (prefixes + steps * waypoints)


# %% one-row-of-waypoints
# belief: All rows of a batch share their waypoints.
# advice: Every row has n waypoints of its own. How many are that in all?
# replaces: rows
# caught by: rows are counted for any sizes
def rows_read(lengths, n, steps, layers):
    prefixes = sum(lengths)
    return layers * steps * (prefixes + n), layers * (prefixes + steps * n)


# %% one-layer-counted
# belief: There is one key projection.
# advice: Every layer has one.
# replaces: rows
# caught by: rows are counted for any sizes
def rows_read(lengths, n, steps, layers):
    prefixes, waypoints = sum(lengths), len(lengths) * n
    return steps * (prefixes + waypoints), prefixes + steps * waypoints


# %% steps-multiply-all
# belief: Ten steps are ten times the work, with and without a cache.
# advice: Which rows are the same in every step, so that they need not be made again?
# replaces: rows
# caught by: rows are counted for any sizes
def rows_read(lengths, n, steps, layers):
    again = layers * steps * (sum(lengths) + len(lengths) * n)
    return again, again
