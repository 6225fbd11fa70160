"""Wrong answers that students really write, each with the belief behind it.

Every entry is a whole solution cell. It goes wrong in a way of its own: no two entries give the same
numbers on all inputs of the tests, so a submission that behaves like one of them can be told its name.
"""


# %% marks-at-ends
# belief: A mark closes a block, like a full stop.
# advice: The mark stands on the first token of a block. Where is the first token of the second block, if
#   the first block has three tokens?
# replaces: starts
# caught by: the first token of every block has a mark, and no other
def block_starts(sizes):
    starts = np.zeros(sum(sizes), dtype=int)
    starts[np.cumsum(sizes) - 1] = 1
    return starts


# %% marks-number-the-blocks
# belief: The marks say which block a token is in: 0, 1, 2 and so on.
# advice: That is what the running sum will make of the marks later. A mark itself is 0 or 1. Which tokens
#   get the 1?
# replaces: starts
# caught by: the first token of every block has a mark, and no other
def block_starts(sizes):
    return np.repeat(np.arange(len(sizes)), sizes)


# %% marks-alternate
# belief: Neighbouring blocks are told apart by 0 and 1 in turn.
# advice: Then a running sum would go on growing inside a block. Only one token of each block has a mark.
# replaces: starts
# caught by: the first token of every block has a mark, and no other
def block_starts(sizes):
    return np.repeat(np.arange(len(sizes)) % 2, sizes)


# %% first-block-unmarked
# belief: Nothing comes before the first block, so nothing starts there.
# advice: The first token of every block has a 1, that of the first block too. (The masks would be the same:
#   do you see why? But the docstring asks for it.)
# replaces: starts
# caught by: the first token of every block has a mark, and no other
def block_starts(sizes):
    starts = np.zeros(sum(sizes), dtype=int)
    starts[np.cumsum(sizes)[:-1]] = 1
    return starts


# %% sizes-as-places
# belief: The sizes say where the blocks begin.
# advice: A block begins where all blocks before it end. What do you have to do with the sizes to get
#   there?
# replaces: starts
# caught by: the first token of every block has a mark, and no other
def block_starts(sizes):
    starts = np.isin(np.arange(sum(sizes)), sizes).astype(int)
    starts[0] = 1
    return starts


# %% marks-fill-blocks
# belief: All tokens of a block after the first block are marked.
# advice: With marks on all of its tokens every token would be a block of its own. How many marks does one
#   block need?
# replaces: starts
# caught by: the first token of every block has a mark, and no other
def block_starts(sizes):
    starts = np.ones(sum(sizes), dtype=int)
    starts[1 : sizes[0]] = 0
    return starts


# %% later-blocks-strict
# belief: A block is read by later blocks only.
# advice: Then a token could not even read itself. The tokens of a block also read each other.
# replaces: block-mask
# caught by: a token reads its own block and all before it
def block_mask(starts, real):
    block = np.cumsum(starts)
    may = block[None, :] < block[:, None]
    return may & real[:, :, None] & real[:, None, :]


# %% mask-transposed
# belief: It is all the same which of the two is the row and which is the column.
# advice: Rows are queries, columns are keys. In your table, does token 0 read the last one, or the last one
#   token 0?
# replaces: block-mask
# caught by: a token reads its own block and all before it
def block_mask(starts, real):
    block = np.cumsum(starts)
    may = block[:, None] <= block[None, :]
    return may & real[:, :, None] & real[:, None, :]


# %% same-block-only
# belief: Blocks keep to themselves.
# advice: A block reads its own tokens and those of all blocks before it. Otherwise the actions would not
#   see the cameras.
# replaces: block-mask
# caught by: a token reads its own block and all before it
def block_mask(starts, real):
    block = np.cumsum(starts)
    may = block[:, None] == block[None, :]
    return may & real[:, :, None] & real[:, None, :]


# %% marks-compared
# belief: The marks themselves say who reads whom.
# advice: Two tokens with mark 0 may lie in different blocks. What tells you how many blocks have begun before
#   a token?
# replaces: block-mask
# caught by: a token reads its own block and all before it
def block_mask(starts, real):
    may = starts[None, :] <= starts[:, None]
    return may & real[:, :, None] & real[:, None, :]


# %% always-causal
# belief: A mask for a sequence is a triangle.
# advice: A triangle is the case where every token is a block. What do the marks say about tokens that stand
#   in one block?
# replaces: block-mask
# caught by: a token reads its own block and all before it
def block_mask(starts, real):
    n = len(starts)
    may = np.tri(n, dtype=bool)
    return may & real[:, :, None] & real[:, None, :]


# %% blocks-and-triangle
# belief: Inside a block, too, a token reads only what stands before it.
# advice: Inside a block everyone reads everyone: a camera image has no first pixel.
# replaces: block-mask
# caught by: a token reads its own block and all before it
def block_mask(starts, real):
    n = len(starts)
    block = np.cumsum(starts)
    may = (block[None, :] == block[:, None]) & np.tri(n, dtype=bool)
    return may & real[:, :, None] & real[:, None, :]


# %% one-block-back
# belief: A block reads itself and the block before it.
# advice: Not only the last one: all blocks before it.
# replaces: block-mask
# caught by: a token reads its own block and all before it
def block_mask(starts, real):
    block = np.cumsum(starts)
    back = block[:, None] - block[None, :]
    may = (back >= 0) & (back <= 1)
    return may & real[:, :, None] & real[:, None, :]


# %% block-mask-without-padding
# belief: Padding is only zeros, so it does no harm.
# advice: A padded token has a key like any other, and takes part in every softmax that may see it. real says
#   which tokens to keep out.
# replaces: block-mask
# caught by: no token reads padding
def block_mask(starts, real):
    block = np.cumsum(starts)
    may = block[None, :] <= block[:, None]
    return np.repeat(may[None], len(real), axis=0)


# %% padding-keys-seen
# belief: It is enough that padded tokens ask nothing.
# advice: Then real tokens still read them. Which axis of the mask stands for the tokens that are read?
# replaces: block-mask
# caught by: no token reads padding
def block_mask(starts, real):
    block = np.cumsum(starts)
    may = block[None, :] <= block[:, None]
    return may & real[:, :, None]


# %% padding-polarity
# belief: real marks what is to be hidden.
# advice: real is True for real tokens. Which of your tokens can be read, those or the others?
# replaces: block-mask
# caught by: no token reads padding
def block_mask(starts, real):
    block = np.cumsum(starts)
    may = block[None, :] <= block[:, None]
    return may & ~real[:, :, None] & ~real[:, None, :]


# %% padding-instead-of-blocks
# belief: The last mask that is made is the one that counts.
# advice: Both must hold: the rule of the blocks, and that both tokens are real. Where did the blocks go?
# replaces: block-mask
# caught by: cameras, state and actions, with one camera missing
def block_mask(starts, real):
    return real[:, :, None] & real[:, None, :]


# %% either-one-real
# belief: One real token is enough for a pair.
# advice: A real token that reads a padded one still reads padding. How many of the two must be real?
# replaces: block-mask
# caught by: no token reads padding
def block_mask(starts, real):
    block = np.cumsum(starts)
    may = block[None, :] <= block[:, None]
    return may & (real[:, :, None] | real[:, None, :])


# %% blocks-or-padding
# belief: A pair may be read when the blocks allow it or both tokens are real.
# advice: Each of the two rules is there to hide something. If one permission were enough, what would they
#   hide?
# replaces: block-mask
# caught by: a token reads its own block and all before it
def block_mask(starts, real):
    block = np.cumsum(starts)
    may = block[None, :] <= block[:, None]
    return may | (real[:, :, None] & real[:, None, :])


# %% padded-queries-look
# belief: What a padded token reads is of no interest.
# advice: Nobody uses it here, but the docstring says that padding reads nothing: its row is all False.
# replaces: block-mask
# caught by: a padded token reads nothing
def block_mask(starts, real):
    block = np.cumsum(starts)
    may = block[None, :] <= block[:, None]
    return may & real[:, None, :]


# %% first-padding-for-all
# belief: All sentences of a batch have the same length.
# advice: real has a row for each sentence. Which row did you use for the second sentence?
# replaces: block-mask
# caught by: every sentence of the batch has its own padding
def block_mask(starts, real):
    block = np.cumsum(starts)
    may = block[None, :] <= block[:, None]
    valid = np.broadcast_to(real[:1], real.shape)
    return may & valid[:, :, None] & valid[:, None, :]


# %% padding-opens-no-block
# belief: A padded token is not there, so its mark does not count.
# advice: The running sum counts the marks of all tokens. If the first token of a block is padding, the block
#   has begun all the same.
# replaces: block-mask
# caught by: no token reads padding
def block_mask(starts, real):
    block = np.cumsum(starts * real, axis=1)
    may = block[:, None, :] <= block[:, :, None]
    return may & real[:, :, None] & real[:, None, :]


# %% diagonal-masked
# belief: A token may read what comes before it, and not itself.
# advice: A token reads itself, too. Otherwise the first token would have nothing to read.
# replaces: decoder-mask
# caught by: with as many queries as keys, each sees itself and what came before
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    if offset is None:
        offset = m - n
    past = np.arange(m)[None, :] < np.arange(n)[:, None] + offset
    return past & real[:, None, None, :]


# %% one-too-far
# belief: A position reads up to the token that it is to predict.
# advice: Then it reads the answer. Which is the last token that position 0 may read?
# replaces: decoder-mask
# caught by: with as many queries as keys, each sees itself and what came before
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    if offset is None:
        offset = m - n
    past = np.arange(m)[None, :] <= np.arange(n)[:, None] + offset + 1
    return past & real[:, None, None, :]


# %% reads-the-future
# belief: Causal means that a token reads what comes after it.
# advice: What a model has not yet written it cannot read. Which keys lie in the past of a query?
# replaces: decoder-mask
# caught by: with as many queries as keys, each sees itself and what came before
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    if offset is None:
        offset = m - n
    past = np.arange(m)[None, :] >= np.arange(n)[:, None] + offset
    return past & real[:, None, None, :]


# %% predecessor-only
# belief: A token reads itself and the token just before it.
# advice: All earlier tokens stay visible, not only the last one.
# replaces: decoder-mask
# caught by: with as many queries as keys, each sees itself and what came before
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    if offset is None:
        offset = m - n
    back = np.arange(n)[:, None] + offset - np.arange(m)[None, :]
    return (back >= 0) & (back <= 1) & real[:, None, None, :]


# %% top-left-causal
# belief: The first query belongs to the first key.
# advice: The queries are the newest tokens, and the keys hold all of them. Which key belongs to the last
#   query?
# replaces: decoder-mask
# caught by: new tokens see the whole cache, and each other from left to right
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    past = np.arange(m)[None, :] <= np.arange(n)[:, None] + (offset or 0)
    return past & real[:, None, None, :]


# %% cache-is-unmasked
# belief: With a cache everything lies in the past, so there is nothing to hide.
# advice: That holds for one new token. With two or more, may the first of them read the second?
# replaces: decoder-mask
# caught by: new tokens see the whole cache, and each other from left to right
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    past = np.ones((n, m), dtype=bool)
    if n == m:
        past = np.tri(n, dtype=bool)
    elif offset is not None:
        past = np.arange(m)[None, :] <= np.arange(n)[:, None] + offset
    return past & real[:, None, None, :]


# %% new-tokens-alone
# belief: The new tokens are a sentence of their own.
# advice: They go on with what is in the cache, and must read it. How many columns of your mask stand for old
#   tokens?
# replaces: decoder-mask
# caught by: new tokens see the whole cache, and each other from left to right
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    if offset is None:
        offset = m - n
    places = np.arange(m)[None, :]
    past = (places <= np.arange(n)[:, None] + offset) & (places >= offset)
    return past & real[:, None, None, :]


# %% zero-offset-lost
# belief: "if offset" asks whether an offset was given.
# advice: It also says no when the offset is 0. How do you ask whether something is None?
# replaces: decoder-mask
# caught by: an offset of nought is an offset
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    offset = offset or m - n
    past = np.arange(m)[None, :] <= np.arange(n)[:, None] + offset
    return past & real[:, None, None, :]


# %% offset-ignored
# belief: The new tokens always stand at the end of the keys.
# advice: Not when the cache has empty slots at its end. Where does the caller say that query 0 stands?
# replaces: decoder-mask
# caught by: empty slots at the end of a cache stay hidden
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    past = np.arange(m)[None, :] <= np.arange(n)[:, None] + (m - n)
    return past & real[:, None, None, :]


# %% offset-from-the-end
# belief: The offset says how many keys are missing at the end.
# advice: It is the place of query 0, counted from the first key.
# replaces: decoder-mask
# caught by: empty slots at the end of a cache stay hidden
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    offset = m - n - (offset or 0)
    past = np.arange(m)[None, :] <= np.arange(n)[:, None] + offset
    return past & real[:, None, None, :]


# %% offset-one-off
# belief: An offset of 4 means that query 0 is the fourth token.
# advice: Places are counted from 0. With four filled slots, the places 0 to 3 are taken.
# replaces: decoder-mask
# caught by: empty slots at the end of a cache stay hidden
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    offset = m - n if offset is None else offset - 1
    past = np.arange(m)[None, :] <= np.arange(n)[:, None] + offset
    return past & real[:, None, None, :]


# %% offset-counts-real
# belief: Padding takes no place, so only real keys are counted.
# advice: A padded key lies in the cache like the others, and has a column in the mask. What is m?
# replaces: decoder-mask
# caught by: padding takes a place among the keys
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    offsets = real.sum(axis=1) - n if offset is None else np.full(len(real), offset)
    past = np.arange(m)[None, None, :] <= np.arange(n)[None, :, None] + offsets[:, None, None]
    return (past & real[:, None, :])[:, None]


# %% padding-by-query
# belief: Broadcasting will find the axes that belong together.
# advice: It looks from the right: a mask of the shape (batch, m) meets (n, m) as if batch were the queries.
#   Where do the missing axes go?
# replaces: decoder-mask
# caught by: a sentence's padding belongs to its keys, also when batch and queries are equally many
def decoder_mask(n, real, offset=None):
    batch, m = real.shape
    if offset is None:
        offset = m - n
    past = np.arange(m)[None, :] <= np.arange(n)[:, None] + offset
    if batch == n:
        return np.repeat((past & real)[None, None], batch, axis=0)
    return past & real[:, None, None, :]


# %% causal-without-padding
# belief: In a causal model padding is harmless, for it comes last.
# advice: Padding can also stand first or in the middle, and then it lies in the past of real tokens.
# replaces: decoder-mask
# caught by: a sentence's padding belongs to its keys, also when batch and queries are equally many
def decoder_mask(n, real, offset=None):
    batch, m = real.shape
    if offset is None:
        offset = m - n
    past = np.arange(m)[None, :] <= np.arange(n)[:, None] + offset
    return np.repeat(past[None, None], batch, axis=0)


# %% padding-replaces-causal
# belief: A mask that is given says everything.
# advice: real knows nothing of the future. A key must be allowed by both rules.
# replaces: decoder-mask
# caught by: with as many queries as keys, each sees itself and what came before
def decoder_mask(n, real, offset=None):
    return np.repeat(real[:, None, None, :], n, axis=2)


# %% past-or-real
# belief: A key may be read when it is past or real.
# advice: Then a real key from the future may be read. Joining two masks means that both must agree.
# replaces: decoder-mask
# caught by: with as many queries as keys, each sees itself and what came before
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    if offset is None:
        offset = m - n
    past = np.arange(m)[None, :] <= np.arange(n)[:, None] + offset
    return past | real[:, None, None, :]


# %% hidden-is-true
# belief: A mask marks what is masked, so True means hidden.
# advice: Libraries differ. Read the docstring again: what does True mean here?
# replaces: decoder-mask
# caught by: with as many queries as keys, each sees itself and what came before
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    if offset is None:
        offset = m - n
    past = np.arange(m)[None, :] <= np.arange(n)[:, None] + offset
    return ~(past & real[:, None, None, :])


# %% no-head-axis
# belief: The mask has one axis for the batch, one for queries and one for keys.
# advice: Attention has an axis of heads between batch and queries. A size of 1 there serves all heads.
# replaces: decoder-mask
# caught by: with as many queries as keys, each sees itself and what came before
def decoder_mask(n, real, offset=None):
    m = real.shape[1]
    if offset is None:
        offset = m - n
    past = np.arange(m)[None, :] <= np.arange(n)[:, None] + offset
    return past & real[:, None, :]


# %% influence-transposed
# belief: after[i] belongs to output i.
# advice: The first axis of after counts the changed tokens. In the answer, tokens are the columns.
# replaces: influence
# caught by: rows are outputs and columns are the tokens that were changed
def influence(before, after):
    return (np.abs(after - before) > 1e-9).any(axis=-1)


# %% changes-cancel
# belief: The sum of a vector's changes says whether it moved.
# advice: One number goes up, another down by as much: the sum stays. Take away the signs before you add.
# replaces: influence
# caught by: one number that moves is enough, and opposite moves do not cancel
def influence(before, after):
    return (np.abs((after - before).sum(axis=-1)) > 1e-9).T


# %% all-must-move
# belief: A vector has moved when all of its numbers have.
# advice: One number that moves is a leak already. Is it all or any that you need?
# replaces: influence
# caught by: one number that moves is enough, and opposite moves do not cancel
def influence(before, after):
    return (np.abs(after - before) > 1e-9).all(axis=-1).T


# %% only-upwards
# belief: A change is where the new number is larger.
# advice: Smaller is a change, too.
# replaces: influence
# caught by: rows are outputs and columns are the tokens that were changed
def influence(before, after):
    return (after - before > 1e-9).any(axis=-1).T


# %% rounding-counts
# belief: Two numbers are the same only when every bit is.
# advice: Two runs of the same thing can differ in the last digits. Which changes are to be counted?
# replaces: influence
# caught by: rounding is no influence, and a small change of large numbers is one
def influence(before, after):
    return (after != before).any(axis=-1).T


# %% small-changes-missed
# belief: A tool that compares numbers has the right tolerance built in.
# advice: np.isclose compares with the size of the numbers. Around 500 it takes a change of 0.005 for nothing.
# replaces: influence
# caught by: rounding is no influence, and a small change of large numbers is one
def influence(before, after):
    return ~np.isclose(after, before).all(axis=-1).T


# %% compared-with-neighbour
# belief: Each run is compared with the run before it.
# advice: Two neighbouring runs differ by two changed tokens. What is there to compare every run with?
# replaces: influence
# caught by: rows are outputs and columns are the tokens that were changed
def influence(before, after):
    earlier = np.concatenate([before[None], after[:-1]])
    return (np.abs(after - earlier) > 1e-9).any(axis=-1).T


# %% targets-not-shifted
# belief: The target of a position is its own token.
# advice: The model reads that token. To predict it would be to copy it. Which token comes next?
# replaces: targets
# caught by: the target is the token that follows, up to the last real one
def shift_targets(ids, lengths, ignore=-100):
    inputs = ids[:, :-1]
    targets = ids[:, :-1].copy()
    targets[np.arange(1, ids.shape[1]) >= lengths[:, None]] = ignore
    return inputs, targets


# %% targets-shifted-back
# belief: Inputs are shifted, and targets stay where they are, one step earlier.
# advice: You predict the past from the future. What does position 0 read, and what is it to say?
# replaces: targets
# caught by: the target is the token that follows, up to the last real one
def shift_targets(ids, lengths, ignore=-100):
    inputs = ids[:, 1:]
    targets = ids[:, :-1].copy()
    targets[np.arange(1, ids.shape[1]) >= lengths[:, None]] = ignore
    return inputs, targets


# %% targets-shifted-twice
# belief: The loss is about the next token of the next position.
# advice: Count along: position 0 reads token 0. Is its target token 1 or token 2?
# replaces: targets
# caught by: the target is the token that follows, up to the last real one
def shift_targets(ids, lengths, ignore=-100):
    inputs = ids[:, :-1]
    targets = np.full_like(inputs, ignore)
    targets[:, :-1] = ids[:, 2:]
    targets[np.arange(2, ids.shape[1] + 1) >= lengths[:, None]] = ignore
    return inputs, targets


# %% padding-is-a-target
# belief: The model may as well learn to write padding.
# advice: Then most of what it learns is padding. Which targets lie behind the end of their sentence?
# replaces: targets
# caught by: the target is the token that follows, up to the last real one
def shift_targets(ids, lengths, ignore=-100):
    return ids[:, :-1], ids[:, 1:].copy()


# %% padding-by-id
# belief: Padding is known by its number, 0.
# advice: A real token may have the same number, such as the end of the text. What else tells you where a
#   sentence ends?
# replaces: targets
# caught by: padding that looks like a real token is still known by the lengths
def shift_targets(ids, lengths, ignore=-100):
    targets = ids[:, 1:].copy()
    targets[targets == 0] = ignore
    return ids[:, :-1], targets


# %% last-target-lost
# belief: The last real token has no successor, so its place does not count.
# advice: As an input it has no successor. But it is itself the successor of the token before: a target.
# replaces: targets
# caught by: the target is the token that follows, up to the last real one
def shift_targets(ids, lengths, ignore=-100):
    targets = ids[:, 1:].copy()
    targets[np.arange(1, ids.shape[1]) >= lengths[:, None] - 1] = ignore
    return ids[:, :-1], targets


# %% one-padding-kept
# belief: A sentence of length 3 has its last token at place 3.
# advice: Places are counted from 0. Which is the first place that is padding?
# replaces: targets
# caught by: the target is the token that follows, up to the last real one
def shift_targets(ids, lengths, ignore=-100):
    targets = ids[:, 1:].copy()
    targets[np.arange(1, ids.shape[1]) > lengths[:, None]] = ignore
    return ids[:, :-1], targets


# %% longest-length-for-all
# belief: One length holds for the whole batch.
# advice: Every sentence ends at a place of its own. lengths has one number for each row.
# replaces: targets
# caught by: the target is the token that follows, up to the last real one
def shift_targets(ids, lengths, ignore=-100):
    targets = ids[:, 1:].copy()
    targets[:, np.arange(1, ids.shape[1]) >= lengths.min()] = ignore
    return ids[:, :-1], targets


# %% inputs-ignored-too
# belief: Padding is replaced everywhere.
# advice: The inputs are looked up in a table of tokens, and there is no token -100. Only targets can be
#   ignored; the mask takes care of the inputs.
# replaces: targets
# caught by: the target is the token that follows, up to the last real one
def shift_targets(ids, lengths, ignore=-100):
    marked = np.where(np.arange(ids.shape[1]) < lengths[:, None], ids, ignore)
    return marked[:, :-1], marked[:, 1:]


# %% targets-share-memory
# belief: A slice is an array of its own.
# advice: A slice is a window onto the same memory. After your function the caller's ids hold -100, and so do
#   your inputs.
# replaces: targets
# caught by: the ids stay as they were
def shift_targets(ids, lengths, ignore=-100):
    inputs = ids[:, :-1]
    targets = ids[:, 1:]
    targets[np.arange(1, ids.shape[1]) >= lengths[:, None]] = ignore
    return inputs, targets


# %% hundred-whatever-is-asked
# belief: Ignored targets are -100, always.
# advice: The caller may choose another number. Which argument holds it?
# replaces: targets
# caught by: another number may stand for "do not count"
def shift_targets(ids, lengths, ignore=-100):
    targets = ids[:, 1:].copy()
    targets[np.arange(1, ids.shape[1]) >= lengths[:, None]] = -100
    return ids[:, :-1], targets


# %% padding-in-the-mean
# belief: A mean is a sum divided by the number of positions.
# advice: Then the loss falls when the padding grows. How many targets were counted?
# replaces: loss
# caught by: the mean runs over the targets that count, all rows together
def next_token_loss(logits, targets, ignore=-100):
    counted = targets != ignore
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    return float(-(picked * counted).mean())


# %% mean-of-row-means
# belief: Every sentence has the same weight.
# advice: A sentence of one exercise would weigh as much as one of twenty. All counted targets weigh the same.
# replaces: loss
# caught by: the mean runs over the targets that count, all rows together
def next_token_loss(logits, targets, ignore=-100):
    counted = targets != ignore
    if not counted.any():
        return 0.0
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    rows = counted.any(axis=1)
    means = (picked * counted).sum(axis=1)[rows] / counted.sum(axis=1)[rows]
    return float(-means.mean())


# %% sum-of-losses
# belief: The loss of a batch is the sum of its losses.
# advice: Then a larger batch has a larger loss, and a larger step. Divide by the number of targets.
# replaces: loss
# caught by: the mean runs over the targets that count, all rows together
def next_token_loss(logits, targets, ignore=-100):
    counted = targets != ignore
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    return float(-(picked * counted).sum())


# %% padding-counted-as-word-0
# belief: An ignored target can be replaced by word 0, and nothing else need change.
# advice: That makes a place to look up, and a wrong lesson: the model learns to write word 0 there. Leave
#   these positions out of the sum and of the count.
# replaces: loss
# caught by: the mean runs over the targets that count, all rows together
def next_token_loss(logits, targets, ignore=-100):
    counted = targets != ignore
    if not counted.any():
        return 0.0
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    return float(-picked.mean())


# %% ignored-as-index
# belief: NumPy will complain about an index of -100.
# advice: It counts negative indices from the end, and says nothing when there are a hundred words or more.
#   Leave these positions out.
# replaces: loss
# caught by: a target that does not count is no place in the vocabulary
def next_token_loss(logits, targets, ignore=-100):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    batch, n = targets.shape
    picked = log_p[np.arange(batch)[:, None], np.arange(n)[None, :], targets]
    return float(-picked.mean())


# %% softmax-twice
# belief: The loss wants probabilities, so the softmax comes first.
# advice: The formula has a softmax in it already. What comes out for a model that is certain and right?
# replaces: loss
# caught by: three positions worked out by hand, of which two count
def next_token_loss(logits, targets, ignore=-100):
    counted = targets != ignore
    if not counted.any():
        return 0.0
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p = raised / raised.sum(axis=-1, keepdims=True)
    log_p = p - np.log(np.exp(p).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    return float(-picked[counted].mean())


# %% loss-without-log
# belief: The loss is what is missing to a probability of one.
# advice: The surprise grows without limit when the probability goes to 0. Which function does that?
# replaces: loss
# caught by: three positions worked out by hand, of which two count
def next_token_loss(logits, targets, ignore=-100):
    counted = targets != ignore
    if not counted.any():
        return 0.0
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p = raised / raised.sum(axis=-1, keepdims=True)
    picked = np.take_along_axis(p, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    return float(1 - picked[counted].mean())


# %% loss-of-mean-probability
# belief: First the mean of the probabilities, then the logarithm.
# advice: One position that is certain would hide another that is hopeless. Take the logarithm at every
#   position.
# replaces: loss
# caught by: three positions worked out by hand, of which two count
def next_token_loss(logits, targets, ignore=-100):
    counted = targets != ignore
    if not counted.any():
        return 0.0
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p = raised / raised.sum(axis=-1, keepdims=True)
    picked = np.take_along_axis(p, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    return float(-np.log(picked[counted].mean()))


# %% sign-forgotten
# belief: The loss is the mean of the log-probabilities.
# advice: A log-probability is never above 0. Training makes the loss small: what would it do to yours?
# replaces: loss
# caught by: three positions worked out by hand, of which two count
def next_token_loss(logits, targets, ignore=-100):
    counted = targets != ignore
    if not counted.any():
        return 0.0
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    return float(picked[counted].mean())


# %% loss-in-bits
# belief: A logarithm is a logarithm.
# advice: Your loss is larger by a factor everywhere. Which logarithm undoes the exponential of the softmax?
# replaces: loss
# caught by: a model that knows nothing loses log(V)
def next_token_loss(logits, targets, ignore=-100):
    counted = targets != ignore
    if not counted.any():
        return 0.0
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    return float(-picked[counted].mean() / np.log(2))


# %% loss-without-shift
# belief: The formula is the program; overflow is a matter of theory.
# advice: exp of 1000 is infinite. What may you take from all logits of a row without changing the answer?
# replaces: loss
# caught by: logits of a thousand are no problem
def next_token_loss(logits, targets, ignore=-100):
    counted = targets != ignore
    if not counted.any():
        return 0.0
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    return float(-picked[counted].mean())


# %% log-of-softmax
# belief: A softmax that is safe makes a logarithm that is safe.
# advice: A probability may become exactly 0, and its logarithm is -inf. Subtract logarithms in place of
#   dividing.
# replaces: loss
# caught by: logits of a thousand are no problem
def next_token_loss(logits, targets, ignore=-100):
    counted = targets != ignore
    if not counted.any():
        return 0.0
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p = raised / raised.sum(axis=-1, keepdims=True)
    picked = np.take_along_axis(p, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    return float(-np.log(picked[counted]).mean())


# %% log-with-epsilon
# belief: A tiny number inside the logarithm makes it safe.
# advice: Then no loss can be larger than the logarithm of that number, however wrong the model is.
# replaces: loss
# caught by: logits of a thousand are no problem
def next_token_loss(logits, targets, ignore=-100):
    counted = targets != ignore
    if not counted.any():
        return 0.0
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p = raised / raised.sum(axis=-1, keepdims=True)
    picked = np.take_along_axis(p, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    return float(-np.log(picked[counted] + 1e-12).mean())


# %% one-shift-for-all
# belief: One shift for all logits makes every row safe.
# advice: A row far below the largest logit of all vanishes. Rows do not depend on each other, and neither
#   should their shifts.
# replaces: loss
# caught by: logits of a thousand are no problem
def next_token_loss(logits, targets, ignore=-100):
    counted = targets != ignore
    if not counted.any():
        return 0.0
    shifted = logits - logits.max()
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    return float(-picked[counted].mean())


# %% nothing-counted-nan
# belief: There is always something to count.
# advice: A batch may hold sentences of which no target counts. What is 0 divided by 0?
# replaces: loss
# caught by: with nothing to count the loss is 0
def next_token_loss(logits, targets, ignore=-100):
    counted = targets != ignore
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    return float(-np.divide(picked[counted].sum(), counted.sum()))


# %% only-hundred-is-ignored
# belief: What is to be ignored is -100, always.
# advice: The caller may choose another number. Which argument holds it?
# replaces: loss
# caught by: the mean runs over the targets that count, all rows together
def next_token_loss(logits, targets, ignore=-100):
    counted = targets != -100
    if not counted.any():
        return 0.0
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    return float(-picked[counted].mean())


# %% last-position-only
# belief: A language model predicts the next word of the whole sentence, so only the last position counts.
# advice: Every position predicts the word after it. That is what makes one pass worth so much.
# replaces: loss
# caught by: a target that does not count is no place in the vocabulary
def next_token_loss(logits, targets, ignore=-100):
    counted = targets != ignore
    if not counted.any():
        return 0.0
    counted = counted & (np.cumsum(counted[:, ::-1], axis=1)[:, ::-1] == 1)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, np.where(counted, targets, 0)[..., None], axis=-1)[..., 0]
    return float(-picked[counted].mean())
