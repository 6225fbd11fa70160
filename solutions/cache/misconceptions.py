"""Wrong answers that students really write, each with the belief behind it.

Every entry is a whole solution cell. It goes wrong in a way of its own: no two entries give the same
numbers on all inputs of the tests, so a submission that behaves like one of them can be told its name.
"""


# %% prompt-of-one
# belief: Without a cache it takes n (n + 1) / 2 rows, with one it takes n.
# advice: That holds for a prompt of one token. What does the first step read when the prompt has three
#   thousand?
# replaces: rows
# caught by: rows are counted for any prompt and any number of tokens
def rows_read(prompt, generated):
    return generated * (generated + 1) // 2, generated


# %% last-token-counted
# belief: Every token that is written is also read.
# advice: After the last token nothing is to be written. Who would read it?
# replaces: rows
# caught by: rows are counted for any prompt and any number of tokens
def rows_read(prompt, generated):
    again = sum(prompt + step for step in range(generated + 1))
    return again, prompt + generated


# %% last-token-cached
# belief: With a cache every written token has its row in it.
# advice: A token gets its row when it is read. Is the last one ever read?
# replaces: rows
# caught by: rows are counted for any prompt and any number of tokens
def rows_read(prompt, generated):
    again = sum(prompt + step for step in range(generated))
    return again, prompt + generated


# %% prompt-for-free
# belief: The prompt is given, so it costs nothing with a cache.
# advice: Someone must make the prompt's keys, once. Which step does that?
# replaces: rows
# caught by: rows are counted for any prompt and any number of tokens
def rows_read(prompt, generated):
    again = sum(prompt + step for step in range(generated))
    return again, generated


# %% constant-steps-again
# belief: Without a cache each step reads the prompt again.
# advice: Not only the prompt: also the tokens that were written since. What does step 2 read?
# replaces: rows
# caught by: rows are counted for any prompt and any number of tokens
def rows_read(prompt, generated):
    return prompt * generated, prompt + generated - 1


# %% scores-for-rows
# belief: What is counted is the square of the length.
# advice: The scores go with the square. Here rows through one matrix are counted: one for each token that
#   is read.
# replaces: rows
# caught by: rows are counted for any prompt and any number of tokens
def rows_read(prompt, generated):
    return (prompt + generated) ** 2, prompt + generated


# %% all-at-once
# belief: Reading everything again means reading it twice.
# advice: Each step reads everything again, and there are as many steps as tokens to be written.
# replaces: rows
# caught by: rows are counted for any prompt and any number of tokens
def rows_read(prompt, generated):
    return 2 * prompt + generated, prompt + generated - 1


# %% append-behind-the-longest
# belief: All rows of a batch have the same length.
# advice: Short rows would get a gap of empty slots. Which slot is the first empty one of each row?
# replaces: append
# caught by: new tokens go behind what each row holds
def append(keys, values, lengths, k, v):
    n = k.shape[2]
    if lengths.max() + n > keys.shape[2]:
        raise ValueError("The cache is full.")
    end = lengths.max()
    keys[:, :, end : end + n] = k
    values[:, :, end : end + n] = v


# %% append-behind-the-first-row
# belief: The length of the first row is the length of the cache.
# advice: There is one length for each row. Did you use more than one of them?
# replaces: append
# caught by: new tokens go behind what each row holds
def append(keys, values, lengths, k, v):
    n = k.shape[2]
    if lengths.max() + n > keys.shape[2]:
        raise ValueError("The cache is full.")
    end = lengths[0]
    keys[:, :, end : end + n] = k[:, :, : keys.shape[2] - end]
    values[:, :, end : end + n] = v[:, :, : keys.shape[2] - end]


# %% append-at-slot-nought
# belief: New tokens go to the beginning of the array.
# advice: The old tokens are there. Which slot comes after them?
# replaces: append
# caught by: new tokens go behind what each row holds
def append(keys, values, lengths, k, v):
    n = k.shape[2]
    if lengths.max() + n > keys.shape[2]:
        raise ValueError("The cache is full.")
    keys[:, :, :n] = k
    values[:, :, :n] = v


# %% append-at-the-end-of-the-array
# belief: New tokens go to the end of the array.
# advice: The end of the array is far behind the tokens. The end of what the row holds is meant.
# replaces: append
# caught by: new tokens go behind what each row holds
def append(keys, values, lengths, k, v):
    n = k.shape[2]
    if lengths.max() + n > keys.shape[2]:
        raise ValueError("The cache is full.")
    keys[:, :, -n:] = k
    values[:, :, -n:] = v


# %% append-one-late
# belief: A row of length 4 has its last token in slot 4.
# advice: Slots are counted from 0. With four tokens the slots 0 to 3 are filled.
# replaces: append
# caught by: new tokens go behind what each row holds
def append(keys, values, lengths, k, v):
    n = k.shape[2]
    if lengths.max() + n > keys.shape[2]:
        raise ValueError("The cache is full.")
    for b, length in enumerate(lengths):
        room = keys.shape[2] - length - 1
        keys[b, :, length + 1 : length + 1 + n] = k[b, :, :room]
        values[b, :, length + 1 : length + 1 + n] = v[b, :, :room]


# %% append-over-the-last
# belief: The new token goes where the length minus one points.
# advice: There stands the newest of the old tokens. It must not be lost.
# replaces: append
# caught by: new tokens go behind what each row holds
def append(keys, values, lengths, k, v):
    n = k.shape[2]
    if lengths.max() + n > keys.shape[2]:
        raise ValueError("The cache is full.")
    for b, length in enumerate(lengths):
        start = max(length - 1, 0)
        keys[b, :, start : start + n] = k[b]
        values[b, :, start : start + n] = v[b]


# %% append-one-token
# belief: There is one new token at a time.
# advice: A prompt brings many tokens at once. How many are in k?
# replaces: append
# caught by: new tokens go behind what each row holds
def append(keys, values, lengths, k, v):
    n = k.shape[2]
    if lengths.max() + n > keys.shape[2]:
        raise ValueError("The cache is full.")
    for b, length in enumerate(lengths):
        keys[b, :, length] = k[b, :, 0]
        values[b, :, length] = v[b, :, 0]


# %% append-keys-only
# belief: The keys are what is looked up, so they are what is kept.
# advice: The values are what is handed out. Where do they stay?
# replaces: append
# caught by: new tokens go behind what each row holds
def append(keys, values, lengths, k, v):
    n = k.shape[2]
    if lengths.max() + n > keys.shape[2]:
        raise ValueError("The cache is full.")
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = k[b]


# %% append-swaps-keys-and-values
# belief: Keys and values are the same thing.
# advice: Keys decide how much, values decide what. Which of the two did you write into keys?
# replaces: append
# caught by: new tokens go behind what each row holds
def append(keys, values, lengths, k, v):
    n = k.shape[2]
    if lengths.max() + n > keys.shape[2]:
        raise ValueError("The cache is full.")
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = v[b]
        values[b, :, length : length + n] = k[b]


# %% append-moves-the-lengths
# belief: Whoever writes also moves the lengths.
# advice: Every layer calls append with the same lengths. Where would the second layer write?
# replaces: append
# caught by: two layers write at the same place, for the lengths do not move
def append(keys, values, lengths, k, v):
    n = k.shape[2]
    if lengths.max() + n > keys.shape[2]:
        raise ValueError("The cache is full.")
    for b, length in enumerate(lengths):
        keys[b, :, length : length + n] = k[b]
        values[b, :, length : length + n] = v[b]
    lengths += n


# %% append-drops-what-is-too-much
# belief: A full cache takes what fits.
# advice: Then the model forgets tokens without a word. Say so with a ValueError.
# replaces: append
# caught by: the last slot may be used, and one more is an error
def append(keys, values, lengths, k, v):
    n = k.shape[2]
    for b, length in enumerate(lengths):
        room = keys.shape[2] - length
        keys[b, :, length : length + n] = k[b, :, :room]
        values[b, :, length : length + n] = v[b, :, :room]


# %% append-goes-round
# belief: A full cache begins again at slot 0.
# advice: A ring is another design, and it forgets the first tokens. Here a full cache is an error.
# replaces: append
# caught by: the last slot may be used, and one more is an error
def append(keys, values, lengths, k, v):
    n = k.shape[2]
    for b, length in enumerate(lengths):
        slots = (length + np.arange(n)) % keys.shape[2]
        keys[b][:, slots] = k[b]
        values[b][:, slots] = v[b]


# %% append-makes-new-arrays
# belief: np.concatenate adds to an array.
# advice: It makes a new array. Nobody outside of your function sees it: write into the arrays that you
#   are given.
# replaces: append
# caught by: new tokens go behind what each row holds
def append(keys, values, lengths, k, v):
    n = k.shape[2]
    if lengths.max() + n > keys.shape[2]:
        raise ValueError("The cache is full.")
    keys = np.concatenate([keys, k], axis=2)
    values = np.concatenate([values, v], axis=2)
    return keys, values


# %% positions-restart
# belief: The position of a token is its number in this call.
# advice: The new token stands behind those in the cache. Where does row b's first new token stand?
# replaces: layer
# caught by: one step equals the last row of the pass over everything
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    turn = np.arange(n)
    q = F.rotary(heads(x @ w["q"]), turn).numpy()
    k = F.rotary(heads(x @ w["k"]), turn).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% query-position-restarts
# belief: Only the keys need their place; the question is always new.
# advice: The scores depend on how far apart query and key are. Give both their place in the sentence.
# replaces: layer
# caught by: one step equals the last row of the pass over everything
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), np.arange(n)).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% query-one-further
# belief: The query asks about the next token, so it stands one further.
# advice: The query belongs to the token that asks. It stands where that token's key stands.
# replaces: layer
# caught by: one step equals the last row of the pass over everything
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places + 1).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% positions-from-one
# belief: The first token has position 1.
# advice: Then the keys in the cache are turned too far. The first token of a row has place 0.
# replaces: layer
# caught by: a prompt into an empty cache
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places + 1).numpy()
    k = F.rotary(heads(x @ w["k"]), places + 1).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% keys-not-turned
# belief: Only queries are turned; keys lie still in the cache.
# advice: The product must depend on the distance of the two. What happens to it when only one of them
#   turns?
# replaces: layer
# caught by: a prompt into an empty cache
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = heads(x @ w["k"])
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% values-turned
# belief: Whatever goes into the cache is turned.
# advice: Positions are for finding. A value is what is handed out, and does not turn.
# replaces: layer
# caught by: a prompt into an empty cache
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = F.rotary(heads(x @ w["v"]), places).numpy()
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% keys-turned-again
# belief: Keys are turned when they are read.
# advice: They were turned when they were written. A second turn puts them at twice their place.
# replaces: layer
# caught by: one step equals the last row of the pass over everything
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]
    turned = F.rotary(keys, np.arange(keys.shape[2])).numpy()
    output = F.attention(q, turned, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% chunk-sees-itself-whole
# belief: With a cache nothing lies in the future, so nothing need be hidden.
# advice: With several new tokens the first must not see the second. What does each query's own place
#   allow?
# replaces: layer
# caught by: a prompt into an empty cache
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) < (lengths + n)[:, None, None, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% top-left-with-a-cache
# belief: The first query belongs to the first slot.
# advice: The first new token stands behind the cached ones. Add the length to the number of the query.
# replaces: layer
# caught by: a chunk of several tokens in the middle
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= np.arange(n)[:, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% empty-slots-seen
# belief: Empty slots hold nothing, so they do no harm.
# advice: A softmax gives every visible slot a share, even a slot of zeros. And old numbers may stand
#   there.
# replaces: layer
# caught by: the values that come out do not depend on rubbish in empty slots
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    output = F.attention(q, keys, values).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% longest-row-for-all
# belief: All rows stand at the same place.
# advice: Short rows have their newest token earlier. Use each row's own length.
# replaces: layer
# caught by: rows of different lengths
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = np.full(batch, lengths.max())[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% longest-row-in-the-mask
# belief: The mask is the same for all rows.
# advice: A short row then sees its empty slots. The mask needs a row for each element of the batch.
# replaces: layer
# caught by: rows of different lengths
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= lengths.max() + np.arange(n)[:, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% longest-row-in-the-positions
# belief: The position is counted over the padded batch.
# advice: A token's position is the number of tokens before it in its own row.
# replaces: layer
# caught by: rows of different lengths
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    turn = lengths.max() + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), turn).numpy()
    k = F.rotary(heads(x @ w["k"]), turn).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% first-row-for-all
# belief: The first row stands for the batch.
# advice: There is one length for each row. Which rows did you ask?
# replaces: layer
# caught by: rows of different lengths
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= lengths[0] + np.arange(n)[:, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% own-key-hidden
# belief: A token reads the earlier ones.
# advice: And itself: its own key is in the cache by now. Which slot is its own?
# replaces: layer
# caught by: a prompt into an empty cache
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) < places[:, None, :, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% one-slot-too-far
# belief: Slot length + n is still filled.
# advice: Slots are counted from 0. Which is the last one that the newest token filled?
# replaces: layer
# caught by: a prompt into an empty cache
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None] + 1
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% cache-not-read
# belief: The new tokens are what matters, so they are what attention gets.
# advice: Then the model sees only the newest token. Why was the cache filled?
# replaces: layer
# caught by: one step equals the last row of the pass over everything
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    slots = np.arange(keys.shape[2])
    may = (slots <= places[:, None, :, None]) & (slots >= lengths[:, None, None, None])
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% new-tokens-not-read
# belief: Attention reads the cache, and the new tokens are written for later.
# advice: A new token reads itself and the new ones before it, too. They must be visible in this same
#   call.
# replaces: layer
# caught by: a prompt into an empty cache
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.broadcast_to(
        np.arange(keys.shape[2]) < lengths[:, None, None, None], (batch, 1, n, keys.shape[2])
    )
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% heads-not-brought-back
# belief: A reshape puts the heads side by side.
# advice: A reshape keeps the order in memory. Which axis must stand next to head_dim first?
# replaces: layer
# caught by: six query heads share two key-value heads
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.reshape(batch, n, -1) @ w["o"]


# %% no-largest-score-taken-away
# belief: The softmax is exp over its sum, and no more.
# advice: exp of a thousand is infinite, and infinite over infinite is no number. Take the largest score
#   away first.
# replaces: layer
# caught by: scores in the thousands
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]
    group = q.shape[1] // keys.shape[1]
    scores = q @ np.repeat(keys, group, axis=1).swapaxes(2, 3) / np.sqrt(head_dim)
    weights = np.where(may, np.exp(scores), 0.0)
    weights /= weights.sum(axis=-1, keepdims=True)
    output = weights @ np.repeat(values, group, axis=1)
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% not-scaled
# belief: Scaling the scores is a matter of taste.
# advice: Without the scale the weights are too sharp, the more so the longer the keys. By what are the
#   scores divided?
# replaces: layer
# caught by: a prompt into an empty cache
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]
    output = F.attention(q, keys, values, mask=may, scale=1.0).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% heads-tiled
# belief: Query heads take the key-value heads in turn.
# advice: With six query heads and two key-value heads, the first three share the first one. Repeat, do
#   not tile.
# replaces: layer
# caught by: six query heads share two key-value heads
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]
    group = q.shape[1] // keys.shape[1]
    tiled = np.tile(keys, (1, group, 1, 1)), np.tile(values, (1, group, 1, 1))
    output = F.attention(q, *tiled, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% no-output-projection
# belief: The heads side by side are the answer.
# advice: One more matrix mixes what the heads found: "o".
# replaces: layer
# caught by: six query heads share two key-value heads
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1)[..., : w["o"].shape[1]]


# %% values-from-keys
# belief: One projection serves keys and values.
# advice: Keys and values have a matrix each. Which one made your values?
# replaces: layer
# caught by: a prompt into an empty cache
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["k"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% cache-lengths-moved
# belief: A layer that has read its tokens moves the lengths.
# advice: The next layer writes the same tokens, and asks for the same lengths.
# replaces: layer
# caught by: one step equals the last row of the pass over everything
def cached_attention(x, keys, values, lengths, w):
    batch, n, _ = x.shape
    head_dim = keys.shape[3]

    def heads(y):
        return y.reshape(batch, n, -1, head_dim).transpose(0, 2, 1, 3)

    places = lengths[:, None] + np.arange(n)
    q = F.rotary(heads(x @ w["q"]), places).numpy()
    k = F.rotary(heads(x @ w["k"]), places).numpy()
    v = heads(x @ w["v"])
    append(keys, values, lengths, k, v)
    may = np.arange(keys.shape[2]) <= places[:, None, :, None]
    output = F.attention(q, keys, values, mask=may).numpy()
    lengths += n
    return output.transpose(0, 2, 1, 3).reshape(batch, n, -1) @ w["o"]


# %% one-cache-for-all-layers
# belief: The cache belongs to the model, so all layers share it.
# advice: Every layer makes keys and values of its own. Which of them would a layer find there?
# replaces: extend
# caught by: prefill, then single tokens, equal the pass over everything in every layer
def extend(x, keys, values, lengths, layers, new):
    for w in layers:
        x = x + cached_attention(x, keys[0], values[0], lengths, w)
    lengths += new
    return x


# %% cache-of-the-layer-before
# belief: A layer reads what the layer before it has kept.
# advice: Layer 2 reads the cache of layer 2: the keys that its own matrix has made.
# replaces: extend
# caught by: prefill, then single tokens, equal the pass over everything in every layer
def extend(x, keys, values, lengths, layers, new):
    for number, w in enumerate(layers):
        x = x + cached_attention(x, keys[number - 1], values[number - 1], lengths, w)
    lengths += new
    return x


# %% lengths-move-in-every-layer
# belief: Each layer adds a token, so each layer moves the lengths.
# advice: A token is in all layers at the same slot. How often do the lengths move for one token?
# replaces: extend
# caught by: the lengths move once, by the real tokens of each row
def extend(x, keys, values, lengths, layers, new):
    for number, w in enumerate(layers):
        x = x + cached_attention(x, keys[number], values[number], lengths, w)
        lengths += new
    return x


# %% lengths-move-first
# belief: First the lengths are moved, then the tokens are written.
# advice: The lengths say where to write. Moved before, they point behind the new tokens' slots.
# replaces: extend
# caught by: the lengths move once, by the real tokens of each row
def extend(x, keys, values, lengths, layers, new):
    lengths += new
    for number, w in enumerate(layers):
        x = x + cached_attention(x, keys[number], values[number], lengths, w)
    return x


# %% lengths-move-in-a-copy
# belief: lengths = lengths + new changes the array of the caller.
# advice: It makes a new array under the old name. Which operator writes into the array itself?
# replaces: extend
# caught by: the lengths move once, by the real tokens of each row
def extend(x, keys, values, lengths, layers, new):
    for number, w in enumerate(layers):
        x = x + cached_attention(x, keys[number], values[number], lengths, w)
    lengths = lengths + new
    return x


# %% padding-counted
# belief: All tokens that were read belong to the row.
# advice: Padding is no token of the row. How many of the new ones are real?
# replaces: extend
# caught by: the lengths move once, by the real tokens of each row
def extend(x, keys, values, lengths, layers, new):
    for number, w in enumerate(layers):
        x = x + cached_attention(x, keys[number], values[number], lengths, w)
    lengths += x.shape[1]
    return x


# %% lengths-set-to-new
# belief: The length is the number of tokens of this call.
# advice: The row held tokens before. The new ones are added to them.
# replaces: extend
# caught by: the lengths move once, by the real tokens of each row
def extend(x, keys, values, lengths, layers, new):
    for number, w in enumerate(layers):
        x = x + cached_attention(x, keys[number], values[number], lengths, w)
    lengths[:] = new
    return x


# %% lengths-grow-by-one
# belief: Each call adds one token.
# advice: A prompt brings several. Who says how many?
# replaces: extend
# caught by: the lengths move once, by the real tokens of each row
def extend(x, keys, values, lengths, layers, new):
    for number, w in enumerate(layers):
        x = x + cached_attention(x, keys[number], values[number], lengths, w)
    lengths += 1
    return x


# %% longest-new-for-all
# belief: The rows of a batch grow by the same number.
# advice: Each row grows by its own number of real tokens.
# replaces: extend
# caught by: the lengths move once, by the real tokens of each row
def extend(x, keys, values, lengths, layers, new):
    for number, w in enumerate(layers):
        x = x + cached_attention(x, keys[number], values[number], lengths, w)
    lengths += new.max()
    return x


# %% residual-forgotten
# belief: The output of attention is the next layer's input.
# advice: It is added to what the layer was given: x + attention(x).
# replaces: extend
# caught by: prefill, then single tokens, equal the pass over everything in every layer
def extend(x, keys, values, lengths, layers, new):
    for number, w in enumerate(layers):
        x = cached_attention(x, keys[number], values[number], lengths, w)
    lengths += new
    return x


# %% every-layer-reads-the-input
# belief: Every layer reads the tokens.
# advice: A layer reads what the layer before it has made.
# replaces: extend
# caught by: prefill, then single tokens, equal the pass over everything in every layer
def extend(x, keys, values, lengths, layers, new):
    total = x
    for number, w in enumerate(layers):
        total = total + cached_attention(x, keys[number], values[number], lengths, w)
    lengths += new
    return total


# %% layers-from-the-top
# belief: The last layer comes first.
# advice: The list has the layers in the order in which tokens go through them.
# replaces: extend
# caught by: prefill, then single tokens, equal the pass over everything in every layer
def extend(x, keys, values, lengths, layers, new):
    for number in reversed(range(len(layers))):
        x = x + cached_attention(x, keys[number], values[number], lengths, layers[number])
    lengths += new
    return x


# %% writes-into-a-copy
# belief: A slice of an array should be copied before it is used.
# advice: What is written into a copy is lost. keys[number] alone is a view, and that is what is wanted.
# replaces: extend
# caught by: prefill, then single tokens, equal the pass over everything in every layer
def extend(x, keys, values, lengths, layers, new):
    for number, w in enumerate(layers):
        x = x + cached_attention(x, keys[number].copy(), values[number].copy(), lengths, w)
    lengths += new
    return x


# %% last-layer-left-out
# belief: The last layer needs no cache, since nobody comes after it.
# advice: Its queries read keys and values like those of any layer.
# replaces: extend
# caught by: prefill, then single tokens, equal the pass over everything in every layer
def extend(x, keys, values, lengths, layers, new):
    for number, w in enumerate(layers[:-1]):
        x = x + cached_attention(x, keys[number], values[number], lengths, w)
    lengths += new
    return x


# %% reads-the-last-column
# belief: The last column holds the last tokens.
# advice: In a padded row it holds padding. Where does row b's last real token stand?
# replaces: generate
# caught by: prompts of different lengths are continued as if each were alone
def generate(prompt, real, steps, model, keys, values, lengths):
    hidden = extend(model["table"][prompt], keys, values, lengths, model["layers"], real)
    last = hidden[:, -1]
    written = [(last @ model["head"]).argmax(axis=-1)]
    while len(written) < steps:
        x = model["table"][written[-1]][:, None]
        hidden = extend(x, keys, values, lengths, model["layers"], np.ones_like(real))
        written.append((hidden[:, 0] @ model["head"]).argmax(axis=-1))
    return np.stack(written, axis=1)


# %% reads-one-behind
# belief: The output for row b stands at real[b].
# advice: Places are counted from 0. With two real tokens the last one stands at place 1.
# replaces: generate
# caught by: prompts of different lengths are continued as if each were alone
def generate(prompt, real, steps, model, keys, values, lengths):
    hidden = extend(model["table"][prompt], keys, values, lengths, model["layers"], real)
    last = hidden[np.arange(len(prompt)), np.minimum(real, prompt.shape[1] - 1)]
    written = [(last @ model["head"]).argmax(axis=-1)]
    while len(written) < steps:
        x = model["table"][written[-1]][:, None]
        hidden = extend(x, keys, values, lengths, model["layers"], np.ones_like(real))
        written.append((hidden[:, 0] @ model["head"]).argmax(axis=-1))
    return np.stack(written, axis=1)


# %% reads-the-first-token
# belief: The first output belongs to the next token.
# advice: The first output has seen only the first token. Which one has seen the whole prompt?
# replaces: generate
# caught by: prompts of different lengths are continued as if each were alone
def generate(prompt, real, steps, model, keys, values, lengths):
    hidden = extend(model["table"][prompt], keys, values, lengths, model["layers"], real)
    last = hidden[:, 0]
    written = [(last @ model["head"]).argmax(axis=-1)]
    while len(written) < steps:
        x = model["table"][written[-1]][:, None]
        hidden = extend(x, keys, values, lengths, model["layers"], np.ones_like(real))
        written.append((hidden[:, 0] @ model["head"]).argmax(axis=-1))
    return np.stack(written, axis=1)


# %% padding-is-read
# belief: The prompt is as long as its array.
# advice: Then padding counts as text. extend wants to know how many tokens are real.
# replaces: generate
# caught by: prompts of different lengths are continued as if each were alone
def generate(prompt, real, steps, model, keys, values, lengths):
    hidden = extend(
        model["table"][prompt], keys, values, lengths, model["layers"], np.full_like(real, prompt.shape[1])
    )
    last = hidden[np.arange(len(prompt)), real - 1]
    written = [(last @ model["head"]).argmax(axis=-1)]
    while len(written) < steps:
        x = model["table"][written[-1]][:, None]
        hidden = extend(x, keys, values, lengths, model["layers"], np.ones_like(real))
        written.append((hidden[:, 0] @ model["head"]).argmax(axis=-1))
    return np.stack(written, axis=1)


# %% last-token-read
# belief: Every token that is written must be in the cache.
# advice: Reading a token serves to get the next one. What comes after the last?
# replaces: generate
# caught by: the last token that is written is not in the cache
def generate(prompt, real, steps, model, keys, values, lengths):
    hidden = extend(model["table"][prompt], keys, values, lengths, model["layers"], real)
    last = hidden[np.arange(len(prompt)), real - 1]
    written = [(last @ model["head"]).argmax(axis=-1)]
    while len(written) < steps:
        x = model["table"][written[-1]][:, None]
        hidden = extend(x, keys, values, lengths, model["layers"], np.ones_like(real))
        written.append((hidden[:, 0] @ model["head"]).argmax(axis=-1))
    extend(model["table"][written[-1]][:, None], keys, values, lengths, model["layers"], np.ones_like(real))
    return np.stack(written, axis=1)


# %% prompt-end-read-twice
# belief: Decoding begins with the last token of the prompt.
# advice: Prefill has read it, and has given its output. Reading it again puts it into the cache twice.
# replaces: generate
# caught by: prompts of different lengths are continued as if each were alone
def generate(prompt, real, steps, model, keys, values, lengths):
    hidden = extend(model["table"][prompt], keys, values, lengths, model["layers"], real)
    last = hidden[np.arange(len(prompt)), real - 1]
    tail = prompt[np.arange(len(prompt)), real - 1]
    last = extend(model["table"][tail][:, None], keys, values, lengths, model["layers"], np.ones_like(real))[
        :, 0
    ]
    written = [(last @ model["head"]).argmax(axis=-1)]
    while len(written) < steps:
        x = model["table"][written[-1]][:, None]
        hidden = extend(x, keys, values, lengths, model["layers"], np.ones_like(real))
        written.append((hidden[:, 0] @ model["head"]).argmax(axis=-1))
    return np.stack(written, axis=1)


# %% every-turn-starts-empty
# belief: A call of generate begins a new text.
# advice: The caller gives you a cache with tokens in it. Whose decision is it to empty it?
# replaces: generate
# caught by: a second turn goes on with the cache that is there
def generate(prompt, real, steps, model, keys, values, lengths):
    lengths[:] = 0
    hidden = extend(model["table"][prompt], keys, values, lengths, model["layers"], real)
    last = hidden[np.arange(len(prompt)), real - 1]
    written = [(last @ model["head"]).argmax(axis=-1)]
    while len(written) < steps:
        x = model["table"][written[-1]][:, None]
        hidden = extend(x, keys, values, lengths, model["layers"], np.ones_like(real))
        written.append((hidden[:, 0] @ model["head"]).argmax(axis=-1))
    return np.stack(written, axis=1)


# %% length-never-moves
# belief: A decode step reads the cache and leaves it as it is.
# advice: Then the next token is written into the same slot. Each token that is read counts.
# replaces: generate
# caught by: prompts of different lengths are continued as if each were alone
def generate(prompt, real, steps, model, keys, values, lengths):
    hidden = extend(model["table"][prompt], keys, values, lengths, model["layers"], real)
    last = hidden[np.arange(len(prompt)), real - 1]
    written = [(last @ model["head"]).argmax(axis=-1)]
    while len(written) < steps:
        x = model["table"][written[-1]][:, None]
        hidden = extend(x, keys, values, lengths, model["layers"], np.zeros_like(real))
        written.append((hidden[:, 0] @ model["head"]).argmax(axis=-1))
    return np.stack(written, axis=1)


# %% first-token-fed-for-ever
# belief: The token that the prompt gave is what the model goes on with.
# advice: Each step reads the newest token. Which of the written ones do you feed?
# replaces: generate
# caught by: prompts of different lengths are continued as if each were alone
def generate(prompt, real, steps, model, keys, values, lengths):
    hidden = extend(model["table"][prompt], keys, values, lengths, model["layers"], real)
    last = hidden[np.arange(len(prompt)), real - 1]
    written = [(last @ model["head"]).argmax(axis=-1)]
    while len(written) < steps:
        x = model["table"][written[0]][:, None]
        hidden = extend(x, keys, values, lengths, model["layers"], np.ones_like(real))
        written.append((hidden[:, 0] @ model["head"]).argmax(axis=-1))
    return np.stack(written, axis=1)


# %% least-likely
# belief: The smallest number marks the best token.
# advice: Large numbers mean likely. Which function gives the place of the largest one?
# replaces: generate
# caught by: prompts of different lengths are continued as if each were alone
def generate(prompt, real, steps, model, keys, values, lengths):
    hidden = extend(model["table"][prompt], keys, values, lengths, model["layers"], real)
    last = hidden[np.arange(len(prompt)), real - 1]
    written = [(last @ model["head"]).argmin(axis=-1)]
    while len(written) < steps:
        x = model["table"][written[-1]][:, None]
        hidden = extend(x, keys, values, lengths, model["layers"], np.ones_like(real))
        written.append((hidden[:, 0] @ model["head"]).argmin(axis=-1))
    return np.stack(written, axis=1)


# %% prompt-returned-too
# belief: The answer of a model is the whole text.
# advice: Only the new tokens are asked for.
# replaces: generate
# caught by: prompts of different lengths are continued as if each were alone
def generate(prompt, real, steps, model, keys, values, lengths):
    hidden = extend(model["table"][prompt], keys, values, lengths, model["layers"], real)
    last = hidden[np.arange(len(prompt)), real - 1]
    written = [(last @ model["head"]).argmax(axis=-1)]
    while len(written) < steps:
        x = model["table"][written[-1]][:, None]
        hidden = extend(x, keys, values, lengths, model["layers"], np.ones_like(real))
        written.append((hidden[:, 0] @ model["head"]).argmax(axis=-1))
    return np.concatenate([prompt, np.stack(written, axis=1)], axis=1)


# %% steps-before-batch
# belief: The tokens are collected step by step, so the steps come first.
# advice: The first axis is the batch: one row for each prompt.
# replaces: generate
# caught by: prompts of different lengths are continued as if each were alone
def generate(prompt, real, steps, model, keys, values, lengths):
    hidden = extend(model["table"][prompt], keys, values, lengths, model["layers"], real)
    last = hidden[np.arange(len(prompt)), real - 1]
    written = [(last @ model["head"]).argmax(axis=-1)]
    while len(written) < steps:
        x = model["table"][written[-1]][:, None]
        hidden = extend(x, keys, values, lengths, model["layers"], np.ones_like(real))
        written.append((hidden[:, 0] @ model["head"]).argmax(axis=-1))
    return np.stack(written)


# %% one-step-too-many
# belief: The first token belongs to the prompt, so steps more follow.
# advice: The first token that prefill gives is already one of those that are asked for.
# replaces: generate
# caught by: the last token that is written is not in the cache
def generate(prompt, real, steps, model, keys, values, lengths):
    hidden = extend(model["table"][prompt], keys, values, lengths, model["layers"], real)
    last = hidden[np.arange(len(prompt)), real - 1]
    written = [(last @ model["head"]).argmax(axis=-1)]
    while len(written) <= steps:
        x = model["table"][written[-1]][:, None]
        hidden = extend(x, keys, values, lengths, model["layers"], np.ones_like(real))
        written.append((hidden[:, 0] @ model["head"]).argmax(axis=-1))
    return np.stack(written, axis=1)


# %% prompt-read-again
# belief: Each turn begins by reading the prompt into the cache, so it is read until it is right.
# advice: It stays in the cache after one reading. What does a second copy of it do to the answer?
# replaces: generate
# caught by: prompts of different lengths are continued as if each were alone
def generate(prompt, real, steps, model, keys, values, lengths):
    extend(model["table"][prompt], keys, values, lengths, model["layers"], real)
    hidden = extend(model["table"][prompt], keys, values, lengths, model["layers"], real)
    last = hidden[np.arange(len(prompt)), real - 1]
    written = [(last @ model["head"]).argmax(axis=-1)]
    while len(written) < steps:
        x = model["table"][written[-1]][:, None]
        hidden = extend(x, keys, values, lengths, model["layers"], np.ones_like(real))
        written.append((hidden[:, 0] @ model["head"]).argmax(axis=-1))
    return np.stack(written, axis=1)


# %% crop-sets-all-rows
# belief: After the crop every row has the same length.
# advice: A row with two tokens does not get more by being cut at three.
# replaces: crop
# caught by: no row becomes longer by being cropped
def crop(lengths, limit):
    return np.full_like(lengths, limit)


# %% crop-takes-away
# belief: The limit says how many tokens go.
# advice: It says how many may stay.
# replaces: crop
# caught by: no row becomes longer by being cropped
def crop(lengths, limit):
    return np.maximum(lengths - limit, 0)


# %% crop-keeps-at-least
# belief: Every row keeps at least the limit.
# advice: At most. Which one of two numbers is never larger than the limit?
# replaces: crop
# caught by: no row becomes longer by being cropped
def crop(lengths, limit):
    return np.maximum(lengths, limit)


# %% crop-by-the-longest
# belief: All rows lose as many tokens as the longest.
# advice: Each row has its own end. How many tokens does a short row have to give?
# replaces: crop
# caught by: no row becomes longer by being cropped
def crop(lengths, limit):
    return np.maximum(lengths - max(0, lengths.max() - limit), 0)


# %% crop-keeps-one-less
# belief: The token at the limit goes, too, and one before it.
# advice: With a limit of 3 the tokens 0, 1 and 2 stay: three of them.
# replaces: crop
# caught by: no row becomes longer by being cropped
def crop(lengths, limit):
    return np.minimum(lengths, max(limit - 1, 0))


# %% crop-empties-long-rows
# belief: A row that is too long is dropped.
# advice: It keeps its first tokens, up to the limit.
# replaces: crop
# caught by: no row becomes longer by being cropped
def crop(lengths, limit):
    return np.where(lengths > limit, 0, lengths)


# %% fork-along-the-layers
# belief: The first axis is the batch.
# advice: In the model's cache the first axis is the layer. Which one is the batch?
# replaces: fork
# caught by: new rows are copies of the rows asked for, in their order
def fork(keys, values, lengths, rows):
    return keys[rows], values[rows], lengths[rows]


# %% fork-keeps-old-lengths
# belief: The lengths belong to the cache, not to its rows.
# advice: A copied row has the length of the row that it was copied from.
# replaces: fork
# caught by: the lengths go with their rows
def fork(keys, values, lengths, rows):
    return keys[:, rows], values[:, rows], lengths


# %% fork-repeats-the-first
# belief: All continuations come from the first row.
# advice: rows names an old row for each new one.
# replaces: fork
# caught by: new rows are copies of the rows asked for, in their order
def fork(keys, values, lengths, rows):
    first = [rows[0]] * len(rows)
    return keys[:, first], values[:, first], lengths[first]


# %% fork-sorts-rows
# belief: The order of the rows is of no interest.
# advice: New row i copies old row rows[i]. Keep the order.
# replaces: fork
# caught by: new rows are copies of the rows asked for, in their order
def fork(keys, values, lengths, rows):
    order = sorted(rows)
    return keys[:, order], values[:, order], lengths[order]


# %% fork-every-row-once
# belief: A row can be taken only once.
# advice: The point of a fork is that one prompt is continued several times.
# replaces: fork
# caught by: new rows are copies of the rows asked for, in their order
def fork(keys, values, lengths, rows):
    order = list(dict.fromkeys(rows))
    return keys[:, order], values[:, order], lengths[order]


# %% fork-only-the-keys
# belief: The values are the same for all continuations.
# advice: Each row has its own values. Copy them as you copy the keys.
# replaces: fork
# caught by: new rows are copies of the rows asked for, in their order
def fork(keys, values, lengths, rows):
    return keys[:, rows], values[:, np.arange(len(rows)) % values.shape[1]], lengths[rows]


# %% fork-full-lengths
# belief: A copied row is filled up to its last slot.
# advice: Only the slots below the length hold tokens, in the copy as in the original.
# replaces: fork
# caught by: the lengths go with their rows
def fork(keys, values, lengths, rows):
    return keys[:, rows], values[:, rows], np.full(len(rows), keys.shape[3])


# %% bytes-with-queries
# belief: Queries, keys and values are kept.
# advice: An old query is never used again. How many arrays are left?
# replaces: bytes
# caught by: layers, heads, tokens, rows and the size of a number all count
def cache_bytes(layers, kv_heads, head_dim, tokens, batch=1, bytes_per_number=2):
    return 3 * layers * batch * kv_heads * tokens * head_dim * bytes_per_number


# %% bytes-of-keys-only
# belief: The cache is one array for each layer.
# advice: It holds keys and values.
# replaces: bytes
# caught by: layers, heads, tokens, rows and the size of a number all count
def cache_bytes(layers, kv_heads, head_dim, tokens, batch=1, bytes_per_number=2):
    return layers * batch * kv_heads * tokens * head_dim * bytes_per_number


# %% bytes-of-one-layer
# belief: One cache serves the whole model.
# advice: Every layer has keys and values of its own.
# replaces: bytes
# caught by: layers, heads, tokens, rows and the size of a number all count
def cache_bytes(layers, kv_heads, head_dim, tokens, batch=1, bytes_per_number=2):
    return 2 * batch * kv_heads * tokens * head_dim * bytes_per_number


# %% bytes-of-one-row
# belief: All rows share a cache.
# advice: Rows hold different tokens, so each has a cache of its own.
# replaces: bytes
# caught by: layers, heads, tokens, rows and the size of a number all count
def cache_bytes(layers, kv_heads, head_dim, tokens, batch=1, bytes_per_number=2):
    return 2 * layers * kv_heads * tokens * head_dim * bytes_per_number


# %% bytes-of-one-head
# belief: The heads share their keys.
# advice: Query heads may share a key-value head. The key-value heads are all kept.
# replaces: bytes
# caught by: layers, heads, tokens, rows and the size of a number all count
def cache_bytes(layers, kv_heads, head_dim, tokens, batch=1, bytes_per_number=2):
    return 2 * layers * batch * tokens * head_dim * bytes_per_number


# %% bytes-are-numbers
# belief: A number is a byte.
# advice: How many bytes does one number take? The caller says so.
# replaces: bytes
# caught by: layers, heads, tokens, rows and the size of a number all count
def cache_bytes(layers, kv_heads, head_dim, tokens, batch=1, bytes_per_number=2):
    return 2 * layers * batch * kv_heads * tokens * head_dim


# %% bytes-always-two
# belief: Numbers in a cache have two bytes.
# advice: By default. But the caller may say otherwise.
# replaces: bytes
# caught by: layers, heads, tokens, rows and the size of a number all count
def cache_bytes(layers, kv_heads, head_dim, tokens, batch=1, bytes_per_number=2):
    return 2 * layers * batch * kv_heads * tokens * head_dim * 2


# %% bytes-of-scores
# belief: The cache keeps the weights of each token to each other token.
# advice: The weights of old tokens are not needed again. What is kept grows with the tokens, not with
#   their square.
# replaces: bytes
# caught by: layers, heads, tokens, rows and the size of a number all count
def cache_bytes(layers, kv_heads, head_dim, tokens, batch=1, bytes_per_number=2):
    return 2 * layers * batch * kv_heads * tokens * tokens * bytes_per_number
