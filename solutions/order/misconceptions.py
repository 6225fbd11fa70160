"""Wrong answers that students really write, each with the belief behind it.

Every entry is a whole solution cell. It goes wrong in a way of its own: no two entries give the same
numbers on all inputs of the tests, so a submission that behaves like one of them can be told its name.
"""


# %% attend-without-scale
# belief: The softmax normalises anyway, so no scale is needed.
# advice: The softmax keeps differences between scores, and these grow with the size of the keys.
# replaces: attend
# caught by: every query has weights of its own, that sum to one over the keys
def attend(q, k, v, real=None):
    scores = q @ np.swapaxes(k, -1, -2)
    if real is not None:
        scores = np.where(real[..., None, :], scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return (raised / np.where(total > 0, total, 1.0)) @ v


# %% attend-over-queries
# belief: Some axis must sum to one; which one does not matter.
# advice: A query shares its attention among the keys. Which axis of the scores counts the keys?
# replaces: attend
# caught by: every query has weights of its own, that sum to one over the keys
def attend(q, k, v, real=None):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    if real is not None:
        scores = np.where(real[..., None, :], scores, -np.inf)
    top = scores.max(axis=-2, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-2, keepdims=True)
    return (raised / np.where(total > 0, total, 1.0)) @ v


# %% attend-without-shift
# belief: The formula is the program; overflow is a matter of theory.
# advice: exp of 1000 is infinite. What may you take from all scores of a row without changing its weights?
# replaces: attend
# caught by: scores of a thousand are no problem
def attend(q, k, v, real=None):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    if real is not None:
        scores = np.where(real[..., None, :], scores, -np.inf)
    raised = np.exp(scores)
    total = raised.sum(axis=-1, keepdims=True)
    return (raised / np.where(total > 0, total, 1.0)) @ v


# %% attend-padding-zeroed
# belief: A score of 0 means "nothing", so padding gets the score 0.
# advice: exp(0) is 1, so a score of 0 still earns weight. Which score earns none?
# replaces: attend
# caught by: padding is nothing, whatever stands in it
def attend(q, k, v, real=None):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    if real is not None:
        scores = np.where(real[..., None, :], scores, 0.0)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (raised / raised.sum(axis=-1, keepdims=True)) @ v


# %% attend-flags-ignored
# belief: Padding holds zeros, and zeros do no harm.
# advice: A padded key takes part in the softmax like any other. Where do you use real?
# replaces: attend
# caught by: padding is nothing, whatever stands in it
def attend(q, k, v, real=None):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (raised / raised.sum(axis=-1, keepdims=True)) @ v


# %% attend-flags-inverted
# belief: real marks what is to be hidden.
# advice: real is True for real keys. Which keys get weight in your code?
# replaces: attend
# caught by: padding is nothing, whatever stands in it
def attend(q, k, v, real=None):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    if real is not None:
        scores = np.where(real[..., None, :], -np.inf, scores)
    top = scores.max(axis=-1, keepdims=True)
    raised = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(axis=-1, keepdims=True)
    return (raised / np.where(total > 0, total, 1.0)) @ v


# %% attend-hidden-after-softmax
# belief: It is all the same whether padding is removed before or after the softmax.
# advice: The softmax divides by a sum. Did padding count in it?
# replaces: attend
# caught by: padding is nothing, whatever stands in it
def attend(q, k, v, real=None):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = raised / raised.sum(axis=-1, keepdims=True)
    if real is not None:
        weights = weights * real[..., None, :]
    return weights @ v


# %% attend-empty-is-nan
# belief: There is always some key to read.
# advice: A scene may have nothing but padding. What is 0 divided by 0?
# replaces: attend
# caught by: padding is nothing, whatever stands in it
def attend(q, k, v, real=None):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    if real is not None:
        scores = np.where(real[..., None, :], scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (raised / raised.sum(axis=-1, keepdims=True)) @ v


# %% attend-empty-is-mean
# belief: -1e9 is as good as minus infinity.
# advice: Where every score is -1e9, they are all equal, and padding shares the weight evenly.
# replaces: attend
# caught by: padding is nothing, whatever stands in it
def attend(q, k, v, real=None):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    if real is not None:
        scores = np.where(real[..., None, :], scores, -1e9)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (raised / raised.sum(axis=-1, keepdims=True)) @ v


# %% attend-best-match
# belief: A lookup returns the value of the best match.
# advice: Attention is soft: every real key has a say, each by its weight.
# replaces: attend
# caught by: every query has weights of its own, that sum to one over the keys
def attend(q, k, v, real=None):
    scores = q @ np.swapaxes(k, -1, -2)
    valid = np.ones(k.shape[:-1], dtype=bool) if real is None else real
    scores = np.where(valid[..., None, :], scores, -np.inf)
    weights = np.arange(k.shape[-2]) == scores.argmax(axis=-1)[..., None]
    return (weights & valid[..., None, :]).astype(float) @ v


# %% inverse-order
# belief: Shuffling the second and shuffling the first come to the same thing.
# advice: Row i after the shuffle belongs to the token that was at place order[i]. So which of the two arrays
#   has to be put into the new order?
# replaces: gaps
# caught by: an equivariant function has no first gap, an invariant one no second
def shuffle_gaps(before, after, order):
    moved = np.abs(after[order] - before).max()
    return float(moved), float(np.abs(after - before).max())


# %% gaps-exchanged
# belief: Equivariant means that nothing changes.
# advice: Equi-variant: varies equally. In-variant: does not vary. Which number comes first?
# replaces: gaps
# caught by: an equivariant function has no first gap, an invariant one no second
def shuffle_gaps(before, after, order):
    moved = np.abs(after - before[order]).max()
    stayed = np.abs(after - before).max()
    return float(stayed), float(moved)


# %% signed-gap
# belief: The largest difference is the maximum of the differences.
# advice: A difference of -5 is larger than one of 1. Take the signs away first.
# replaces: gaps
# caught by: the largest difference counts, whatever its sign and place
def shuffle_gaps(before, after, order):
    return float((after - before[order]).max()), float((after - before).max())


# %% mean-gap
# belief: The mean of the differences says how far off something is.
# advice: One wrong row among a thousand right ones has a mean gap of almost nothing. The docstring asks for
#   the largest.
# replaces: gaps
# caught by: the largest difference counts, whatever its sign and place
def shuffle_gaps(before, after, order):
    return float(np.abs(after - before[order]).mean()), float(np.abs(after - before).mean())


# %% first-row-only
# belief: One token stands for all.
# advice: A function may treat one token right and another wrong. Which rows do you compare?
# replaces: gaps
# caught by: the largest difference counts, whatever its sign and place
def shuffle_gaps(before, after, order):
    return float(np.abs(after[0] - before[order[0]]).max()), float(np.abs(after[0] - before[0]).max())


# %% same-set-of-rows
# belief: If both hold the same numbers, nothing has changed.
# advice: Sorting throws away what you want to measure: which row stands where.
# replaces: gaps
# caught by: an equivariant function has no first gap, an invariant one no second
def shuffle_gaps(before, after, order):
    moved = np.abs(after - before[order]).max()
    stayed = np.abs(np.sort(after, axis=0) - np.sort(before, axis=0)).max()
    return float(moved), float(stayed)


# %% column-for-pair
# belief: i in the exponent is the number of the column.
# advice: i counts pairs: columns 2i and 2i + 1 have the same speed. What is the exponent of column 2?
# replaces: sinusoids
# caught by: all pairs have the right speed
def sinusoids(positions, d):
    if d % 2:
        raise ValueError("d must be even")
    column = np.arange(d)
    angles = positions[..., None] * 10000.0 ** -(2 * column / d)
    return np.where(column % 2 == 0, np.sin(angles), np.cos(angles))


# %% own-speed-for-each-column
# belief: Every column has a speed of its own.
# advice: Sine and cosine of one pair turn together. Otherwise they are no point on a circle.
# replaces: sinusoids
# caught by: all pairs have the right speed
def sinusoids(positions, d):
    if d % 2:
        raise ValueError("d must be even")
    column = np.arange(d)
    angles = positions[..., None] * 10000.0 ** -(column / d)
    return np.where(column % 2 == 0, np.sin(angles), np.cos(angles))


# %% pair-without-two
# belief: The exponent of pair i is i / d.
# advice: There are d/2 pairs. With i / d the slowest pair would stop half-way, at the root of 10000.
# replaces: sinusoids
# caught by: all pairs have the right speed
def sinusoids(positions, d):
    if d % 2:
        raise ValueError("d must be even")
    angles = positions[..., None] * 10000.0 ** -(np.arange(d // 2) / d)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(*positions.shape, d)


# %% speed-up-to-the-base
# belief: The slowest pair has exactly 1 / 10000 of the speed.
# advice: The exponent of the last pair is (d - 2) / d. The speeds stop just before 1 / 10000.
# replaces: sinusoids
# caught by: all pairs have the right speed
def sinusoids(positions, d):
    if d % 2:
        raise ValueError("d must be even")
    rates = 10000.0 ** -np.linspace(0, 1, d // 2) if d > 2 else np.ones(1)
    angles = positions[..., None] * rates
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(*positions.shape, d)


# %% faster-and-faster
# belief: Later pairs turn faster.
# advice: The place is divided by the power of 10000. Your last pair turns thousands of times between two
#   places.
# replaces: sinusoids
# caught by: all pairs have the right speed
def sinusoids(positions, d):
    if d % 2:
        raise ValueError("d must be even")
    angles = positions[..., None] * 10000.0 ** (np.arange(0, d, 2) / d)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(*positions.shape, d)


# %% cosine-first
# belief: Sine and cosine are interchangeable.
# advice: The code of place 0 begins with sin(0). What is that?
# replaces: sinusoids
# caught by: places 0, 1 and 2 with four numbers each
def sinusoids(positions, d):
    if d % 2:
        raise ValueError("d must be even")
    angles = positions[..., None] * 10000.0 ** -(np.arange(0, d, 2) / d)
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(*positions.shape, d)


# %% sines-then-cosines
# belief: All sines come first, then all cosines.
# advice: That is another layout, and some programs use it. In the paper, and here, sine and cosine of a pair
#   are neighbours.
# replaces: sinusoids
# caught by: sine and cosine of a pair stand side by side
def sinusoids(positions, d):
    if d % 2:
        raise ValueError("d must be even")
    angles = positions[..., None] * 10000.0 ** -(np.arange(0, d, 2) / d)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


# %% places-from-zero
# belief: positions only says how many places there are.
# advice: A model that goes on writing asks for place 1000 alone. Use the numbers that you are given.
# replaces: sinusoids
# caught by: any place may be asked for alone
def sinusoids(positions, d):
    if d % 2:
        raise ValueError("d must be even")
    places = np.broadcast_to(np.arange(positions.shape[-1]), positions.shape)
    angles = places[..., None] * 10000.0 ** -(np.arange(0, d, 2) / d)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(*positions.shape, d)


# %% places-counted-from-first
# belief: The first token that is given stands at place 0.
# advice: Only if it is the first of the text. Do not subtract anything from positions.
# replaces: sinusoids
# caught by: any place may be asked for alone
def sinusoids(positions, d):
    if d % 2:
        raise ValueError("d must be even")
    places = positions - positions[..., :1]
    angles = places[..., None] * 10000.0 ** -(np.arange(0, d, 2) / d)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(*positions.shape, d)


# %% places-as-shares
# belief: Places are given as a share of the length, so that every code lies between 0 and 1.
# advice: Then one place has another code in every sentence. The angle is the place itself times the speed.
# replaces: sinusoids
# caught by: any place may be asked for alone
def sinusoids(positions, d):
    if d % 2:
        raise ValueError("d must be even")
    places = positions / max(positions.max(), 1)
    angles = places[..., None] * 10000.0 ** -(np.arange(0, d, 2) / d)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(*positions.shape, d)


# %% one-row-of-places
# belief: The places are the same in every row of a batch.
# advice: Rows of a batch may stand at different places. Use all of positions, not its first row.
# replaces: sinusoids
# caught by: places with two axes give codes with three
def sinusoids(positions, d):
    if d % 2:
        raise ValueError("d must be even")
    row = positions.reshape(-1, positions.shape[-1])[0]
    angles = row[:, None] * 10000.0 ** -(np.arange(0, d, 2) / d)
    codes = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(row), d)
    return np.broadcast_to(codes, (*positions.shape, d)).copy()


# %% odd-width-cut
# belief: With an odd d the last cosine is left out, and all is well.
# advice: Half a pair cannot be turned. The docstring asks for a ValueError.
# replaces: sinusoids
# caught by: half a pair is refused
def sinusoids(positions, d):
    angles = positions[..., None] * 10000.0 ** -(np.arange(0, d, 2) / d)
    both = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    return both.reshape(*positions.shape, -1)[..., :d]


# %% halves-for-pairs
# belief: A pair is made of one number from each half.
# advice: That is the other convention. Here the pairs are columns 0 and 1, 2 and 3, and so on.
# replaces: rotate
# caught by: every pair is turned by its own angle
def rotate(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = positions[:, None] * base ** -(np.arange(0, d, 2) / d)
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


# %% conventions-mixed
# belief: Tables of angles are tables of angles.
# advice: Your tables are made for halves, your pairs are neighbours. Columns 0 and 1 must share one angle.
# replaces: rotate
# caught by: every pair is turned by its own angle
def rotate(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = positions[:, None] * base ** -(np.arange(0, d, 2) / d)
    angles = np.concatenate([angles, angles], axis=-1)
    swapped = np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)
    return x * np.cos(angles) + swapped * np.sin(angles)


# %% turned-backwards
# belief: It does not matter which way one turns.
# advice: Scores would come out the same, but a model that learned one way cannot use the other. What becomes
#   of (1, 0) at place 1?
# replaces: rotate
# caught by: one pair, turned by 0, 1 and 2 radians
def rotate(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = positions[:, None] * base ** -(np.arange(0, d, 2) / d)
    cos, sin = np.cos(angles), np.sin(angles)
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos + odd * sin, odd * cos - even * sin], axis=-1).reshape(x.shape)


# %% mirrored
# belief: Both signs of the matrix are plus.
# advice: With two plus signs it is no turn: lengths change. One of the four entries has a minus.
# replaces: rotate
# caught by: lengths stay as they were
def rotate(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = positions[:, None] * base ** -(np.arange(0, d, 2) / d)
    cos, sin = np.cos(angles), np.sin(angles)
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos + odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)


# %% added-not-turned
# belief: Positions are added to the vector.
# advice: That was the way of the first transformer. Here each pair is turned, and its length stays.
# replaces: rotate
# caught by: lengths stay as they were
def rotate(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = positions[:, None] * base ** -(np.arange(0, d, 2) / d)
    return x + np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(positions), d)


# %% multiplied-not-turned
# belief: Each number is multiplied by the cosine of its angle.
# advice: A turn mixes the two numbers of a pair. Where does the sine come in?
# replaces: rotate
# caught by: lengths stay as they were
def rotate(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = positions[:, None] * base ** -(np.arange(0, d, 2) / d)
    return x * np.repeat(np.cos(angles), 2, axis=-1)


# %% second-from-new-first
# belief: The first number can be replaced before the second is computed.
# advice: Both new numbers need both old ones. Keep the old first number until the second is done.
# replaces: rotate
# caught by: lengths stay as they were
def rotate(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = positions[:, None] * base ** -(np.arange(0, d, 2) / d)
    cos, sin = np.cos(angles), np.sin(angles)
    turned = x.copy()
    turned[..., 0::2] = turned[..., 0::2] * cos - turned[..., 1::2] * sin
    turned[..., 1::2] = turned[..., 0::2] * sin + turned[..., 1::2] * cos
    return turned


# %% places-from-zero-again
# belief: The tokens stand at places 0, 1, 2 and so on.
# advice: With a cache the first new token stands far along. Use the numbers in positions.
# replaces: rotate
# caught by: scores depend on the distance alone
def rotate(x, positions, base=10000.0):
    d = x.shape[-1]
    places = np.arange(len(positions))
    angles = places[:, None] * base ** -(np.arange(0, d, 2) / d)
    cos, sin = np.cos(angles), np.sin(angles)
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)


# %% one-speed-for-all
# belief: All pairs turn by the same angle.
# advice: Then two places a full turn apart would look alike. Later pairs turn more slowly.
# replaces: rotate
# caught by: every pair is turned by its own angle
def rotate(x, positions, base=10000.0):
    cos, sin = np.cos(positions)[:, None], np.sin(positions)[:, None]
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)


# %% speeds-too-close
# belief: The exponent of pair i is i / d.
# advice: It is 2i / d: there are d/2 pairs. Compare with the second pair of the visible check.
# replaces: rotate
# caught by: every pair is turned by its own angle
def rotate(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = positions[:, None] * base ** -(np.arange(d // 2) / d)
    cos, sin = np.cos(angles), np.sin(angles)
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)


# %% base-ignored
# belief: The base is 10000, as in the paper.
# advice: Models differ in it: one driving model uses 5,000,000. The caller says which.
# replaces: rotate
# caught by: another base gives other speeds
def rotate(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = positions[:, None] * 10000.0 ** -(np.arange(0, d, 2) / d)
    cos, sin = np.cos(angles), np.sin(angles)
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)


# %% rotates-in-place
# belief: x is mine to change, since nobody needs it afterwards.
# advice: The caller's array and your x are one array. Called twice, your function turns it twice.
# replaces: rotate
# caught by: rotate leaves its input as it was
def rotate(x, positions, base=10000.0):
    d = x.shape[-1]
    angles = positions[:, None] * base ** -(np.arange(0, d, 2) / d)
    cos, sin = np.cos(angles), np.sin(angles)
    even, odd = x[..., 0::2].copy(), x[..., 1::2].copy()
    x[..., 0::2] = even * cos - odd * sin
    x[..., 1::2] = even * sin + odd * cos
    return x


# %% mean-of-points
# belief: A polyline is summed up by the mean of its points.
# advice: A mean knows no order either, but the task asks for the largest value of each feature.
# replaces: polylines
# caught by: without padding, the largest over the points, feature by feature
def encode_polylines(points, real, w1, b1, w2, b2):
    features = np.maximum(points @ w1 + b1, 0.0) @ w2 + b2
    count = np.maximum(real.sum(axis=1, keepdims=True), 1)
    return (features * real[:, :, None]).sum(axis=1) / count


# %% sum-of-points
# belief: A polyline is summed up by adding its points.
# advice: Then a line that is drawn with twice the points would be twice as large. Which value is asked for?
# replaces: polylines
# caught by: without padding, the largest over the points, feature by feature
def encode_polylines(points, real, w1, b1, w2, b2):
    features = np.maximum(points @ w1 + b1, 0.0) @ w2 + b2
    return (features * real[:, :, None]).sum(axis=1)


# %% largest-before-network
# belief: It does not matter whether the maximum or the network comes first.
# advice: The network has weights of both signs, so the largest input need not give the largest feature.
#   Points first go through the network, each on its own.
# replaces: polylines
# caught by: without padding, the largest over the points, feature by feature
def encode_polylines(points, real, w1, b1, w2, b2):
    best = np.where(real[:, :, None], points, -np.inf).max(axis=1)
    some = real.any(axis=1, keepdims=True)
    best = np.where(some, best, 0.0)
    return np.where(some, np.maximum(best @ w1 + b1, 0.0) @ w2 + b2, 0.0)


# %% largest-of-hidden
# belief: The maximum may as well be taken in the middle of the network.
# advice: The second layer mixes the hidden features with weights of both signs. Take the maximum at the end.
# replaces: polylines
# caught by: without padding, the largest over the points, feature by feature
def encode_polylines(points, real, w1, b1, w2, b2):
    hidden = np.maximum(points @ w1 + b1, 0.0) * real[:, :, None]
    best = hidden.max(axis=1)
    return np.where(real.any(axis=1, keepdims=True), best @ w2 + b2, 0.0)


# %% network-without-relu
# belief: Two layers are two matrices.
# advice: Two matrices in a row are one matrix. What stands between the two layers?
# replaces: polylines
# caught by: without padding, the largest over the points, feature by feature
def encode_polylines(points, real, w1, b1, w2, b2):
    features = (points @ w1 + b1) @ w2 + b2
    features = np.where(real[:, :, None], features, -np.inf)
    return np.where(real.any(axis=1, keepdims=True), features.max(axis=1), 0.0)


# %% relu-at-the-end
# belief: Every layer ends with a relu.
# advice: The second layer of this network has none. Negative features are wanted.
# replaces: polylines
# caught by: features that are all negative stay negative
def encode_polylines(points, real, w1, b1, w2, b2):
    features = np.maximum(np.maximum(points @ w1 + b1, 0.0) @ w2 + b2, 0.0)
    return (features * real[:, :, None]).max(axis=1)


# %% bias-forgotten
# belief: A layer is a matrix.
# advice: Each layer also adds its bias. With weights alone, a point of zeros could give nothing but zeros.
# replaces: polylines
# caught by: without padding, the largest over the points, feature by feature
def encode_polylines(points, real, w1, b1, w2, b2):
    features = np.maximum(points @ w1, 0.0) @ w2
    features = np.where(real[:, :, None], features, -np.inf)
    return np.where(real.any(axis=1, keepdims=True), features.max(axis=1), 0.0)


# %% first-point-only
# belief: The first point says where a polyline is.
# advice: Then the result depends on which point comes first. Use all real points.
# replaces: polylines
# caught by: the order of the points plays no part
def encode_polylines(points, real, w1, b1, w2, b2):
    features = np.maximum(points @ w1 + b1, 0.0) @ w2 + b2
    first = features[np.arange(len(points)), real.argmax(axis=1)]
    return np.where(real.any(axis=1, keepdims=True), first, 0.0)


# %% longest-point-wins
# belief: The largest point is chosen, and all of its features are kept.
# advice: The maximum is taken for each feature on its own. Different features may come from different points.
# replaces: polylines
# caught by: without padding, the largest over the points, feature by feature
def encode_polylines(points, real, w1, b1, w2, b2):
    features = np.maximum(points @ w1 + b1, 0.0) @ w2 + b2
    size = np.where(real, np.linalg.norm(features, axis=2), -1.0)
    chosen = features[np.arange(len(points)), size.argmax(axis=1)]
    return np.where(real.any(axis=1, keepdims=True), chosen, 0.0)


# %% flags-unused
# belief: Padding is never the largest.
# advice: Anything may stand in it. Use real to keep it out of the maximum.
# replaces: polylines
# caught by: what stands in the padding plays no part
def encode_polylines(points, real, w1, b1, w2, b2):
    features = np.maximum(points @ w1 + b1, 0.0) @ w2 + b2
    return features.max(axis=1)


# %% zeros-before-network
# belief: Padding that is set to 0 does no harm.
# advice: A point of zeros goes through the network like any other, and may have the largest feature. Hide
#   padding after the network.
# replaces: polylines
# caught by: what stands in the padding plays no part
def encode_polylines(points, real, w1, b1, w2, b2):
    cleaned = np.where(real[:, :, None], points, 0.0)
    features = np.maximum(cleaned @ w1 + b1, 0.0) @ w2 + b2
    return np.where(real.any(axis=1, keepdims=True), features.max(axis=1), 0.0)


# %% zeros-after-network
# belief: 0 is the smallest feature there is.
# advice: Without a relu at the end, features may be negative, and then 0 wins. Which number never wins?
# replaces: polylines
# caught by: features that are all negative stay negative
def encode_polylines(points, real, w1, b1, w2, b2):
    features = np.maximum(points @ w1 + b1, 0.0) @ w2 + b2
    return (features * real[:, :, None]).max(axis=1)


# %% empty-polyline-infinite
# belief: Every polyline has a point.
# advice: The largest of nothing but -inf is -inf, and that spreads through everything after it. What should
#   an empty polyline give?
# replaces: polylines
# caught by: an empty polyline gives zeros, and disturbs no other
def encode_polylines(points, real, w1, b1, w2, b2):
    features = np.maximum(points @ w1 + b1, 0.0) @ w2 + b2
    return np.where(real[:, :, None], features, -np.inf).max(axis=1)


# %% empty-polyline-is-bias
# belief: An empty polyline is a polyline with one point of zeros.
# advice: The network makes something of a point of zeros: its biases. The vector of an empty polyline is 0.
# replaces: polylines
# caught by: an empty polyline gives zeros, and disturbs no other
def encode_polylines(points, real, w1, b1, w2, b2):
    features = np.maximum(points @ w1 + b1, 0.0) @ w2 + b2
    features = np.where(real[:, :, None], features, -np.inf).max(axis=1)
    of_zeros = np.maximum(b1, 0.0) @ w2 + b2
    return np.where(real.any(axis=1, keepdims=True), features, of_zeros)


# %% map-asks
# belief: The map is the main thing, so it asks the road users.
# advice: Who gets an answer? The result has a row for each one who asks.
# replaces: read-map
# caught by: agents ask, and polylines are read
def read_map(agents, polylines, real, w_q, w_k, w_v):
    if polylines.shape[-1] != w_q.shape[0]:
        return attend(agents @ w_q, polylines @ w_k, polylines @ w_v, real)
    return attend(polylines @ w_q, agents @ w_k, agents @ w_v)


# %% agents-read-agents
# belief: Road users attend to each other, and the map comes in somewhere else.
# advice: Here they read the polylines: keys and values are made of polylines.
# replaces: read-map
# caught by: agents ask, and polylines are read
def read_map(agents, polylines, real, w_q, w_k, w_v):
    if agents.shape[-1] != w_k.shape[0]:
        return attend(agents @ w_q, polylines @ w_k, polylines @ w_v, real)
    return attend(agents @ w_q, agents @ w_k, agents @ w_v)


# %% keys-as-values
# belief: Keys and values are the same thing.
# advice: Keys decide how much is read, values are what is read. Each has a matrix of its own.
# replaces: read-map
# caught by: agents ask, and polylines are read
def read_map(agents, polylines, real, w_q, w_k, w_v):
    keys = polylines @ w_k
    return attend(agents @ w_q, keys, keys, real)


# %% query-matrix-for-keys
# belief: Queries and keys live in one space, so one matrix serves both.
# advice: They live in one space after their matrices. An agent and a polyline are different things.
# replaces: read-map
# caught by: agents ask, and polylines are read
def read_map(agents, polylines, real, w_q, w_k, w_v):
    w = w_q if w_q.shape == w_k.shape else w_k
    return attend(agents @ w_q, polylines @ w, polylines @ w_v, real)


# %% own-polyline-only
# belief: Road user 0 is on polyline 0, road user 1 on polyline 1.
# advice: The lists have nothing to do with each other. Every road user reads all polylines.
# replaces: read-map
# caught by: shuffled polylines change nothing, shuffled agents shuffle the result
def read_map(agents, polylines, real, w_q, w_k, w_v):
    n = agents.shape[1]
    lanes, flags = polylines[:, :n], real[:, :n]
    return (lanes @ w_v) * flags[:, :, None]


# %% mean-of-the-map
# belief: A summary of the map is the same for everyone.
# advice: Road users at different places need different lanes. What do their queries do in your code?
# replaces: read-map
# caught by: agents ask, and polylines are read
def read_map(agents, polylines, real, w_q, w_k, w_v):
    nothing = np.zeros((*agents.shape[:2], w_q.shape[1]))
    return attend(nothing, polylines @ w_k, polylines @ w_v, real)


# %% places-of-the-list
# belief: Attention always needs positions.
# advice: A lane's number in the list means nothing. Where the lane lies is in its features already.
# replaces: read-map
# caught by: shuffled polylines change nothing, shuffled agents shuffle the result
def read_map(agents, polylines, real, w_q, w_k, w_v):
    places = np.arange(polylines.shape[1])[:, None] / polylines.shape[1]
    placed = polylines + places
    return attend(agents @ w_q, placed @ w_k, placed @ w_v, real)


# %% real-not-passed-on
# belief: Padding was dealt with when the polylines were encoded.
# advice: A padded polyline still has a row, and takes its share of every softmax that may see it.
# replaces: read-map
# caught by: a scene without a map gives zeros, and the other scene is as it was
def read_map(agents, polylines, real, w_q, w_k, w_v):
    return attend(agents @ w_q, polylines @ w_k, polylines @ w_v)


# %% zeroed-but-not-hidden
# belief: A polyline of zeros is not there.
# advice: Its score is 0, and e to the power of 0 is 1: it takes weight from the others. Hide it, do not
#   erase it.
# replaces: read-map
# caught by: padded polylines are not there, even when they hold zeros
def read_map(agents, polylines, real, w_q, w_k, w_v):
    lanes = polylines * real[:, :, None]
    return attend(agents @ w_q, lanes @ w_k, lanes @ w_v)


# %% first-scene-for-all
# belief: Every scene has as many polylines as the first.
# advice: real has a row for each scene. Which row did the second scene get?
# replaces: read-map
# caught by: a scene without a map gives zeros, and the other scene is as it was
def read_map(agents, polylines, real, w_q, w_k, w_v):
    flags = np.broadcast_to(real[:1], real.shape)
    return attend(agents @ w_q, polylines @ w_k, polylines @ w_v, flags)


# %% map-flags-inverted
# belief: real marks what is to be hidden.
# advice: real is True for real polylines, and attend wants to know which keys are real.
# replaces: read-map
# caught by: padded polylines are not there, even when they hold zeros
def read_map(agents, polylines, real, w_q, w_k, w_v):
    return attend(agents @ w_q, polylines @ w_k, polylines @ w_v, ~real)


# %% scaled-twice
# belief: read_map has to divide by the root of the size as well.
# advice: attend does so already. Twice is once too often.
# replaces: read-map
# caught by: agents ask, and polylines are read
def read_map(agents, polylines, real, w_q, w_k, w_v):
    queries = agents @ w_q / w_q.shape[1] ** 0.5
    return attend(queries, polylines @ w_k, polylines @ w_v, real)
