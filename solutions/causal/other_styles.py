"""Right answers in other styles. Each must get full marks: tests ask what a function does, not how.

Entries of one name, each for another solution cell, are one student's work.
"""

# %% loops
# note: plain Python loops over every axis, with math in place of NumPy's functions
# replaces: starts
import math


def block_starts(sizes):
    starts = []
    for size in sizes:
        starts.append(1)
        for _ in range(size - 1):
            starts.append(0)
    return np.array(starts)


# %% loops
# replaces: block-mask
def block_mask(starts, real):
    batch, n = real.shape
    number, block = 0, []
    for mark in starts:
        number += int(mark)
        block.append(number)
    mask = np.zeros((batch, n, n), dtype=bool)
    for b in range(batch):
        for i in range(n):
            for j in range(n):
                mask[b, i, j] = real[b, i] and real[b, j] and block[j] <= block[i]
    return mask


# %% loops
# replaces: decoder-mask
def decoder_mask(n, real, offset=None):
    batch, m = real.shape
    first = m - n if offset is None else offset
    mask = np.zeros((batch, 1, n, m), dtype=bool)
    for b in range(batch):
        for i in range(n):
            for j in range(min(m, first + i + 1)):
                mask[b, 0, i, j] = real[b, j]
    return mask


# %% loops
# replaces: influence
def influence(before, after):
    n = len(before)
    table = np.zeros((n, n), dtype=bool)
    for j in range(n):
        for i in range(n):
            table[i, j] = max(abs(a - b) for a, b in zip(after[j][i], before[i], strict=True)) > 1e-9
    return table


# %% loops
# replaces: targets
def shift_targets(ids, lengths, ignore=-100):
    batch, n = ids.shape
    inputs = np.empty((batch, n - 1), dtype=ids.dtype)
    targets = np.empty((batch, n - 1), dtype=ids.dtype)
    for b in range(batch):
        for t in range(n - 1):
            inputs[b, t] = ids[b, t]
            targets[b, t] = ids[b, t + 1] if t + 1 < lengths[b] else ignore
    return inputs, targets


# %% loops
# replaces: loss
def next_token_loss(logits, targets, ignore=-100):
    losses = []
    for row, answers in zip(logits, targets, strict=True):
        for scores, answer in zip(row, answers, strict=True):
            if answer != ignore:
                top = max(scores)
                total = sum(math.exp(score - top) for score in scores)
                losses.append(top + math.log(total) - scores[answer])
    return sum(losses) / len(losses) if losses else 0.0


# %% einsum
# note: outer products and index notation
# replaces: starts
def block_starts(sizes):
    places = np.arange(sum(sizes))
    return np.equal.outer(places, np.cumsum(sizes) - np.array(sizes)).any(axis=1)


# %% einsum
# replaces: block-mask
def block_mask(starts, real):
    block = np.add.accumulate(np.asarray(starts, dtype=np.int64))
    may = np.greater_equal.outer(block, block)
    return np.einsum("ij,bi,bj->bij", may, real, real)


# %% einsum
# replaces: decoder-mask
def decoder_mask(n, real, offset=None):
    m = real.shape[-1]
    offset = m - n if offset is None else offset
    past = np.subtract.outer(np.arange(n) + offset, np.arange(m)) >= 0
    return np.einsum("ij,bj->bij", past, real).reshape(len(real), 1, n, m)


# %% einsum
# replaces: influence
def influence(before, after):
    distance = np.einsum("jie->ij", np.abs(after - before[np.newaxis]))
    return distance > 1e-9


# %% einsum
# replaces: targets
def shift_targets(ids, lengths, ignore=-100):
    windows = np.lib.stride_tricks.sliding_window_view(ids, 2, axis=1)
    inside = np.less.outer(np.arange(1, ids.shape[1]), lengths).T
    return windows[..., 0], np.where(inside, windows[..., 1], ignore)


# %% einsum
# replaces: loss
def next_token_loss(logits, targets, ignore=-100):
    words = logits.shape[-1]
    hot = (np.arange(words) == targets[..., None]).astype(logits.dtype)
    hot *= (targets != ignore)[..., None]
    top = logits.max(-1)
    log_sum = top + np.log(np.einsum("btw->bt", np.exp(logits - top[..., None])))
    total = np.einsum("btw,bt->", hot, log_sum) - np.einsum("btw,btw->", hot, logits)
    return total / max(hot.sum(), 1.0)


# %% integers
# note: small whole numbers in place of booleans, and single precision
# replaces: starts
def block_starts(sizes):
    starts = np.zeros(sum(sizes), dtype=np.uint8)
    place = 0
    for size in sizes:
        starts[place] = 1
        place += size
    return starts


# %% integers
# replaces: block-mask
def block_mask(starts, real):
    block = np.cumsum(np.asarray(starts), dtype=np.int16)
    number = np.where(real, block, 9999)
    asked = np.where(real, block, -1)
    return number[:, None, :] <= asked[:, :, None]


# %% integers
# replaces: decoder-mask
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    if offset is None:
        offset = m - n
    past = np.tri(n, m, offset, dtype=np.int8)
    return (past[None, None] * real.astype(np.int8)[:, None, None, :]).astype(bool)


# %% integers
# replaces: influence
def influence(before, after):
    moved = (np.abs(after - before) > 1e-9).astype(np.int64)
    return np.transpose(moved.sum(axis=2)) > 0


# %% integers
# replaces: targets
def shift_targets(ids, lengths, ignore=-100):
    ids = ids.astype(np.int32)
    keep = (np.arange(ids.shape[1])[1:] < np.reshape(lengths, (-1, 1))).astype(np.int32)
    return ids[:, :-1], ids[:, 1:] * keep + ignore * (1 - keep)


# %% integers
# replaces: loss
def next_token_loss(logits, targets, ignore=-100):
    flat = logits.reshape(-1, logits.shape[-1]).astype(np.float32)
    chosen = np.flatnonzero(targets.ravel() != ignore)
    if len(chosen) == 0:
        return 0
    some = flat[chosen]
    top = some.max(axis=1)
    log_sum = np.log(np.exp(some - top[:, None]).sum(axis=1)) + top
    return np.mean(log_sum - some[np.arange(len(chosen)), targets.ravel()[chosen]])


# %% in-place
# note: writes into arrays of its own
# replaces: starts
def block_starts(sizes):
    starts = np.zeros(sum(sizes) + 1, dtype=int)
    np.add.at(starts, np.cumsum(sizes), 1)
    starts[0] = 1
    return starts[:-1]


# %% in-place
# replaces: block-mask
def block_mask(starts, real):
    block = np.cumsum(starts)
    mask = np.empty((len(real), len(block), len(block)), dtype=bool)
    mask[:] = block <= block[:, None]
    mask &= real[:, :, None]
    mask &= real[:, None, :]
    return mask


# %% in-place
# replaces: decoder-mask
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    offset = m - n if offset is None else offset
    mask = np.repeat(real[:, None, None, :], n, axis=2)
    for query in range(n):
        mask[:, :, query, max(0, offset + query + 1) :] = False
    return mask


# %% in-place
# replaces: influence
def influence(before, after):
    change = after.copy()
    change -= before
    np.abs(change, out=change)
    return change.max(axis=2).T > 1e-9


# %% in-place
# replaces: targets
def shift_targets(ids, lengths, ignore=-100):
    work = ids.copy()
    for row, length in zip(work, lengths, strict=True):
        row[length:] = ignore
    return ids[:, :-1].copy(), work[:, 1:]


# %% in-place
# replaces: loss
def next_token_loss(logits, targets, ignore=-100):
    counted = np.not_equal(targets, ignore)
    if counted.sum() == 0:
        return 0.0
    work = np.array(logits, dtype=float)
    work -= work.max(axis=-1, keepdims=True)
    total = np.exp(work).sum(axis=-1)
    work[~counted] = 0.0
    safe = targets.copy()
    safe[~counted] = 0
    rows, columns = np.indices(targets.shape)
    surprise = np.log(total)
    surprise -= work[rows, columns, safe]
    return surprise[counted].mean()


# %% helpers
# note: small functions; the decoder's mask is cut from the block mask
# replaces: starts
def begins(sizes):
    place = 0
    for size in sizes:
        yield place
        place += size


def block_starts(sizes):
    starts = np.zeros(sum(sizes), dtype=int)
    starts[list(begins(sizes))] = 1
    return starts


# %% helpers
# replaces: block-mask
def pairs(of_queries, of_keys, agree):
    return agree(of_queries[..., :, None], of_keys[..., None, :])


def block_mask(starts, real):
    block = np.cumsum(starts)
    return pairs(block, block, np.greater_equal)[None] & pairs(real, real, np.logical_and)


# %% helpers
# replaces: decoder-mask
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    offset = m - n if offset is None else offset
    query_places = np.arange(offset, offset + n)
    return pairs(query_places, np.arange(m), np.greater_equal) & real[:, None, None]


# %% helpers
# replaces: influence
def influence(before, after):
    return np.stack([np.linalg.norm(run - before, ord=np.inf, axis=1) > 1e-9 for run in after], axis=1)


# %% helpers
# replaces: targets
def inside(lengths, n):
    return np.arange(n) < np.asarray(lengths)[:, None]


def shift_targets(ids, lengths, ignore=-100):
    marked = np.where(inside(lengths, ids.shape[1]), ids, ignore)
    return ids[:, :-1], marked[:, 1:]


# %% helpers
# replaces: loss
def log_sum_exp(scores):
    return np.logaddexp.reduce(scores, axis=-1)


def next_token_loss(logits, targets, ignore=-100):
    rows, places = np.nonzero(targets != ignore)
    if not rows.size:
        return 0.0
    some = logits[rows, places]
    return float(np.mean(log_sum_exp(some) - some[np.arange(rows.size), targets[rows, places]]))


# %% comprehension
# note: lists of lists, turned into arrays at the end
# replaces: starts
def block_starts(sizes):
    return [int(place == 0) for size in sizes for place in range(size)]


# %% comprehension
# replaces: block-mask
def block_mask(starts, real):
    n = len(starts)
    block = [sum(starts[: i + 1]) for i in range(n)]
    return np.array(
        [
            [[bool(block[j] <= block[i] and row[i] and row[j]) for j in range(n)] for i in range(n)]
            for row in real.tolist()
        ]
    )


# %% comprehension
# replaces: decoder-mask
def decoder_mask(n, real, offset=None):
    m = len(real[0])
    start = (m - n) if offset is None else offset
    return np.array(
        [[[[bool(row[j]) and j - start <= i for j in range(m)] for i in range(n)]] for row in real]
    )


# %% comprehension
# replaces: influence
def influence(before, after):
    n = len(before)
    return np.array(
        [[bool(np.ptp([before[i], after[j, i]], axis=0).max() > 1e-9) for j in range(n)] for i in range(n)]
    )


# %% comprehension
# replaces: targets
def shift_targets(ids, lengths, ignore=-100):
    targets = [
        [int(token) if place < length else ignore for place, token in enumerate(row)][1:]
        for row, length in zip(ids, lengths, strict=True)
    ]
    return ids[:, :-1], np.array(targets)


# %% comprehension
# replaces: loss
def next_token_loss(logits, targets, ignore=-100):
    with np.errstate(over="ignore"):
        losses = [
            -np.log1p(-(1 - 1 / np.exp(np.delete(row, word) - row[word]).sum(initial=1.0)))
            if np.ptp(row) < 50
            else np.logaddexp.reduce(row - row[word])
            for rows, words in zip(logits, targets, strict=True)
            for row, word in zip(rows, words, strict=True)
            if word != ignore
        ]
    return float(np.mean(losses)) if losses else 0.0
