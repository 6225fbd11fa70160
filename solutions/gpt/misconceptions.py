"""Wrong answers that students really write, each with the belief behind it.

Every entry is a whole solution cell. It goes wrong in a way of its own: no two entries give the same
numbers on all inputs of the tests, so a submission that behaves like one of them can be told its name.
"""


# %% top-left-causal
# belief: The first query belongs to the first key.
# advice: The queries are the newest tokens, and the keys hold all of them. Which key belongs to the last
#   query?
# replaces: block
# caught by: the newest query sees every key, an older one less
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q, k = ((part[..., None, :] @ turn)[..., 0, :] for part in (q, k))
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    x = x + read @ w["w_o"] + w["b_o"]
    return x + mlp(layer_norm(x, w["gain_2"], w["shift_2"]), w)


# %% future-visible
# belief: When the model writes there is no future, so nothing need be hidden.
# advice: In training the whole text is there. What does a position learn that can read the answer?
# replaces: block
# caught by: the newest query sees every key, an older one less
def attend(q, k, v):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q, k = ((part[..., None, :] @ turn)[..., 0, :] for part in (q, k))
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    x = x + read @ w["w_o"] + w["b_o"]
    return x + mlp(layer_norm(x, w["gain_2"], w["shift_2"]), w)


# %% scores-unshifted
# belief: exp can take any score.
# advice: Beyond 709 it overflows, and then there is no number left to divide by. Take each row's largest
#   score off.
# replaces: block
# caught by: the newest query sees every key, an older one less
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores)
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q, k = ((part[..., None, :] @ turn)[..., 0, :] for part in (q, k))
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    x = x + read @ w["w_o"] + w["b_o"]
    return x + mlp(layer_norm(x, w["gain_2"], w["shift_2"]), w)


# %% one-ahead-visible
# belief: The diagonal of the mask is one further to the right.
# advice: Then each position reads the very word that it should guess. Try it with two tokens.
# replaces: block
# caught by: the newest query sees every key, an older one less
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, m - n + 1, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q, k = ((part[..., None, :] @ turn)[..., 0, :] for part in (q, k))
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    x = x + read @ w["w_o"] + w["b_o"]
    return x + mlp(layer_norm(x, w["gain_2"], w["shift_2"]), w)


# %% stream-normed
# belief: x = norm(x) is the same as norming a copy.
# advice: Only what goes into the sublayer is normed. What should the sublayer's finding be added to?
# replaces: block
# caught by: the block adds to the stream and never norms it
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q, k = ((part[..., None, :] @ turn)[..., 0, :] for part in (q, k))
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    x = y + read @ w["w_o"] + w["b_o"]
    z = layer_norm(x, w["gain_2"], w["shift_2"])
    return z + mlp(z, w)


# %% post-norm
# belief: The norm comes after the addition, as in the original transformer.
# advice: GPT-2 moved it: the sublayer reads a normed copy, and nothing norms the stream.
# replaces: block
# caught by: the block adds to the stream and never norms it
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = x
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q, k = ((part[..., None, :] @ turn)[..., 0, :] for part in (q, k))
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    x = layer_norm(x + read @ w["w_o"] + w["b_o"], w["gain_1"], w["shift_1"])
    return layer_norm(x + mlp(x, w), w["gain_2"], w["shift_2"])


# %% no-residual
# belief: A block replaces what it reads by something better.
# advice: It adds to it. What would be left of a word after twelve replacements?
# replaces: block
# caught by: the block adds to the stream and never norms it
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q, k = ((part[..., None, :] @ turn)[..., 0, :] for part in (q, k))
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    x = read @ w["w_o"] + w["b_o"]
    return mlp(layer_norm(x, w["gain_2"], w["shift_2"]), w)


# %% attention-unnormed
# belief: One norm in a block is enough, before the MLP.
# advice: Each sublayer reads a normed copy of the stream. What does attention read in your code?
# replaces: block
# caught by: attention reads the normed stream, in heads
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = x
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q, k = ((part[..., None, :] @ turn)[..., 0, :] for part in (q, k))
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    x = x + read @ w["w_o"] + w["b_o"]
    return x + mlp(layer_norm(x, w["gain_2"], w["shift_2"]), w)


# %% merge-by-reshape
# belief: After attention a reshape to (batch, n, d) puts the heads side by side.
# advice: In memory the heads come before the tokens. What has to change places first?
# replaces: block
# caught by: attention reads the normed stream, in heads
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q, k = ((part[..., None, :] @ turn)[..., 0, :] for part in (q, k))
    read = attend(q, k, v).reshape(batch, n, d)
    x = x + read @ w["w_o"] + w["b_o"]
    return x + mlp(layer_norm(x, w["gain_2"], w["shift_2"]), w)


# %% mlp-beside-attention
# belief: Both sublayers read the stream as it came into the block.
# advice: The MLP comes second. It reads what attention has added.
# replaces: block
# caught by: the MLP reads what attention has left, through its own norm
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q, k = ((part[..., None, :] @ turn)[..., 0, :] for part in (q, k))
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    z = layer_norm(x, w["gain_2"], w["shift_2"])
    return x + read @ w["w_o"] + w["b_o"] + mlp(z, w)


# %% one-norm-for-both
# belief: A block has one norm, which is used twice.
# advice: Each sublayer has its own gain and shift.
# replaces: block
# caught by: the MLP reads what attention has left, through its own norm
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q, k = ((part[..., None, :] @ turn)[..., 0, :] for part in (q, k))
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    x = x + read @ w["w_o"] + w["b_o"]
    return x + mlp(layer_norm(x, w["gain_1"], w["shift_1"]), w)


# %% mlp-unnormed
# belief: The MLP needs no norm, for attention's output is tame.
# advice: It reads the stream, and the stream grows from block to block.
# replaces: block
# caught by: the MLP reads what attention has left, through its own norm
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q, k = ((part[..., None, :] @ turn)[..., 0, :] for part in (q, k))
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    x = x + read @ w["w_o"] + w["b_o"]
    return x + mlp(x, w)


# %% gelu-with-erf
# belief: The two forms of GELU are the same function.
# advice: They differ in the fourth decimal, which is enough to tell them apart. Which one did GPT-2 use?
# replaces: block
# caught by: the MLP reads what attention has left, through its own norm
import math


def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.vectorize(math.erf)(hidden / 2**0.5))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q, k = ((part[..., None, :] @ turn)[..., 0, :] for part in (q, k))
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    x = x + read @ w["w_o"] + w["b_o"]
    return x + mlp(layer_norm(x, w["gain_2"], w["shift_2"]), w)


# %% values-turned
# belief: Positions belong to everything that a head works with.
# advice: Values are the content that is read. Turned, the same word would mean something else at each
#   place.
# replaces: block
# caught by: queries and keys are turned, each by the matrix of its own position
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q, k, v = ((part[..., None, :] @ turn)[..., 0, :] for part in (q, k, v))
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    x = x + read @ w["w_o"] + w["b_o"]
    return x + mlp(layer_norm(x, w["gain_2"], w["shift_2"]), w)


# %% queries-turned-only
# belief: It is the query that knows where it stands.
# advice: A score should depend on the distance. For that both the query and the key must be turned.
# replaces: block
# caught by: queries and keys are turned, each by the matrix of its own position
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q = (q[..., None, :] @ turn)[..., 0, :]
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    x = x + read @ w["w_o"] + w["b_o"]
    return x + mlp(layer_norm(x, w["gain_2"], w["shift_2"]), w)


# %% turned-by-the-transpose
# belief: A matrix stands on the left of what it is applied to.
# advice: Here queries are rows: q @ turn[p]. From the left it would be turned the other way.
# replaces: block
# caught by: queries and keys are turned, each by the matrix of its own position
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    if turn is not None:
        q, k = ((turn @ part[..., None])[..., 0] for part in (q, k))
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    x = x + read @ w["w_o"] + w["b_o"]
    return x + mlp(layer_norm(x, w["gain_2"], w["shift_2"]), w)


# %% turn-ignored
# belief: Positions are added at the input, so there is nothing to turn.
# advice: Some models add none. Then the turn is all that tells their tokens' places.
# replaces: block
# caught by: queries and keys are turned, each by the matrix of its own position
def attend(q, k, v):
    n, m = q.shape[2], k.shape[2]
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True) @ v


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + shift


def mlp(x, w):
    hidden = x @ w["w_up"] + w["b_up"]
    hidden = 0.5 * hidden * (1 + np.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    return hidden @ w["w_down"] + w["b_down"]


def block(x, w, n_heads, turn=None):
    batch, n, d = x.shape
    y = layer_norm(x, w["gain_1"], w["shift_1"])
    q, k, v = (
        (y @ w[f"w_{name}"] + w[f"b_{name}"]).reshape(batch, n, n_heads, -1).swapaxes(1, 2) for name in "qkv"
    )
    read = attend(q, k, v).swapaxes(1, 2).reshape(batch, n, d)
    x = x + read @ w["w_o"] + w["b_o"]
    return x + mlp(layer_norm(x, w["gain_2"], w["shift_2"]), w)


# %% positions-by-id
# belief: Both tables are read with the ids.
# advice: The row of positions depends on where a word stands, not on which word it is.
# replaces: gpt
# caught by: words by their ids, positions by their places
def embed(ids, w):
    x = w["tokens"][ids]
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    if n > context:
        raise ValueError(f"a text of {n} tokens is longer than the table of {context} positions")
    return x + w["positions"][ids % context]


def logits_of(x, w, n_heads, turn=None):
    for block_weights in w["blocks"]:
        x = block(x, block_weights, n_heads, turn)
    return layer_norm(x, w["gain"], w["shift"]) @ w["tokens"].T


# %% embedding-scaled
# belief: Embeddings are multiplied by the root of d, as in the original transformer.
# advice: That transformer did, GPT-2 does not. Here the rows are taken as they are.
# replaces: gpt
# caught by: words by their ids, positions by their places
def embed(ids, w):
    x = w["tokens"][ids] * w["tokens"].shape[1] ** 0.5
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    if n > context:
        raise ValueError(f"a text of {n} tokens is longer than the table of {context} positions")
    return x + w["positions"][:n]


def logits_of(x, w, n_heads, turn=None):
    for block_weights in w["blocks"]:
        x = block(x, block_weights, n_heads, turn)
    return layer_norm(x, w["gain"], w["shift"]) @ w["tokens"].T


# %% positions-from-one
# belief: The first word stands at position 1.
# advice: Places are counted from 0, like rows of a table. And what would the last place read?
# replaces: gpt
# caught by: words by their ids, positions by their places
def embed(ids, w):
    x = w["tokens"][ids]
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    if n > context:
        raise ValueError(f"a text of {n} tokens is longer than the table of {context} positions")
    return x + np.roll(w["positions"], -1, axis=0)[:n]


def logits_of(x, w, n_heads, turn=None):
    for block_weights in w["blocks"]:
        x = block(x, block_weights, n_heads, turn)
    return layer_norm(x, w["gain"], w["shift"]) @ w["tokens"].T


# %% positions-left-out
# belief: The causal mask tells the model the order.
# advice: It tells who came before, and hardly more. The table of positions tells where.
# replaces: gpt
# caught by: words by their ids, positions by their places
def embed(ids, w):
    x = w["tokens"][ids]
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    if n > context:
        raise ValueError(f"a text of {n} tokens is longer than the table of {context} positions")
    return x


def logits_of(x, w, n_heads, turn=None):
    for block_weights in w["blocks"]:
        x = block(x, block_weights, n_heads, turn)
    return layer_norm(x, w["gain"], w["shift"]) @ w["tokens"].T


# %% positions-wrap
# belief: After the last position one begins again with the first.
# advice: Then two words stand at the same place, and nobody is told. Better to say that the text is too
#   long.
# replaces: gpt
# caught by: a text that is longer than the table of positions is refused
def embed(ids, w):
    x = w["tokens"][ids]
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    return x + w["positions"][np.arange(n) % context]


def logits_of(x, w, n_heads, turn=None):
    for block_weights in w["blocks"]:
        x = block(x, block_weights, n_heads, turn)
    return layer_norm(x, w["gain"], w["shift"]) @ w["tokens"].T


# %% positions-clipped
# belief: Whatever is too far away gets the last position.
# advice: No model was trained like that. Better to say that the text is too long.
# replaces: gpt
# caught by: a text that is longer than the table of positions is refused
def embed(ids, w):
    x = w["tokens"][ids]
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    return x + w["positions"][np.minimum(np.arange(n), context - 1)]


def logits_of(x, w, n_heads, turn=None):
    for block_weights in w["blocks"]:
        x = block(x, block_weights, n_heads, turn)
    return layer_norm(x, w["gain"], w["shift"]) @ w["tokens"].T


# %% one-block-again
# belief: All blocks are alike, so one set of weights serves them all.
# advice: They have the same shape and different numbers. Which weights does your second block use?
# replaces: gpt
# caught by: every block once, first to last, each with its own weights
def embed(ids, w):
    x = w["tokens"][ids]
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    if n > context:
        raise ValueError(f"a text of {n} tokens is longer than the table of {context} positions")
    return x + w["positions"][:n]


def logits_of(x, w, n_heads, turn=None):
    for _ in w["blocks"]:
        x = block(x, w["blocks"][0], n_heads, turn)
    return layer_norm(x, w["gain"], w["shift"]) @ w["tokens"].T


# %% blocks-reversed
# belief: The last block of the list is the nearest to the input.
# advice: The list goes from the input to the head.
# replaces: gpt
# caught by: every block once, first to last, each with its own weights
def embed(ids, w):
    x = w["tokens"][ids]
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    if n > context:
        raise ValueError(f"a text of {n} tokens is longer than the table of {context} positions")
    return x + w["positions"][:n]


def logits_of(x, w, n_heads, turn=None):
    for block_weights in w["blocks"][::-1]:
        x = block(x, block_weights, n_heads, turn)
    return layer_norm(x, w["gain"], w["shift"]) @ w["tokens"].T


# %% turn-for-the-first-block
# belief: Positions are told once, at the input.
# advice: A turn is not in the stream. Each block makes new queries and keys, and turns them again.
# replaces: gpt
# caught by: every block once, first to last, each with its own weights
def embed(ids, w):
    x = w["tokens"][ids]
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    if n > context:
        raise ValueError(f"a text of {n} tokens is longer than the table of {context} positions")
    return x + w["positions"][:n]


def logits_of(x, w, n_heads, turn=None):
    for block_weights in w["blocks"]:
        x = block(x, block_weights, n_heads, turn)
        turn = None
    return layer_norm(x, w["gain"], w["shift"]) @ w["tokens"].T


# %% turn-not-passed
# belief: The block turns queries by itself.
# advice: It does when it is given the matrices. Who hands them to it?
# replaces: gpt
# caught by: every block once, first to last, each with its own weights
def embed(ids, w):
    x = w["tokens"][ids]
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    if n > context:
        raise ValueError(f"a text of {n} tokens is longer than the table of {context} positions")
    return x + w["positions"][:n]


def logits_of(x, w, n_heads, turn=None):
    for block_weights in w["blocks"]:
        x = block(x, block_weights, n_heads)
    return layer_norm(x, w["gain"], w["shift"]) @ w["tokens"].T


# %% norm-after-each-block
# belief: The last norm belongs to each block.
# advice: There is one, after the last block. In between the stream goes on as it is.
# replaces: gpt
# caught by: every block once, first to last, each with its own weights
def embed(ids, w):
    x = w["tokens"][ids]
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    if n > context:
        raise ValueError(f"a text of {n} tokens is longer than the table of {context} positions")
    return x + w["positions"][:n]


def logits_of(x, w, n_heads, turn=None):
    for block_weights in w["blocks"]:
        x = layer_norm(block(x, block_weights, n_heads, turn), w["gain"], w["shift"])
    return (x if w["blocks"] else layer_norm(x, w["gain"], w["shift"])) @ w["tokens"].T


# %% no-last-norm
# belief: Every block has its norms, so the output is normed.
# advice: In pre-norm the blocks norm copies. How large has the stream become after the last one?
# replaces: gpt
# caught by: the last norm stands before the head
def embed(ids, w):
    x = w["tokens"][ids]
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    if n > context:
        raise ValueError(f"a text of {n} tokens is longer than the table of {context} positions")
    return x + w["positions"][:n]


def logits_of(x, w, n_heads, turn=None):
    for block_weights in w["blocks"]:
        x = block(x, block_weights, n_heads, turn)
    return x @ w["tokens"].T


# %% norm-before-blocks
# belief: The norm prepares the stream for the blocks.
# advice: They have norms of their own for that. The last norm stands after the last block.
# replaces: gpt
# caught by: the last norm stands before the head
def embed(ids, w):
    x = w["tokens"][ids]
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    if n > context:
        raise ValueError(f"a text of {n} tokens is longer than the table of {context} positions")
    return x + w["positions"][:n]


def logits_of(x, w, n_heads, turn=None):
    x = layer_norm(x, w["gain"], w["shift"])
    for block_weights in w["blocks"]:
        x = block(x, block_weights, n_heads, turn)
    return x @ w["tokens"].T


# %% probabilities-out
# belief: A language model returns probabilities.
# advice: Loss and sampling want the logits, and make the softmax themselves. Done twice it is wrong.
# replaces: gpt
# caught by: logits of all positions, from the table of words itself
def embed(ids, w):
    x = w["tokens"][ids]
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    if n > context:
        raise ValueError(f"a text of {n} tokens is longer than the table of {context} positions")
    return x + w["positions"][:n]


def logits_of(x, w, n_heads, turn=None):
    for block_weights in w["blocks"]:
        x = block(x, block_weights, n_heads, turn)
    scores = layer_norm(x, w["gain"], w["shift"]) @ w["tokens"].T
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


# %% last-position-only
# belief: Only the last position makes a guess.
# advice: When it writes, yes. In training every position is an exercise.
# replaces: gpt
# caught by: logits of all positions, from the table of words itself
def embed(ids, w):
    x = w["tokens"][ids]
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    if n > context:
        raise ValueError(f"a text of {n} tokens is longer than the table of {context} positions")
    return x + w["positions"][:n]


def logits_of(x, w, n_heads, turn=None):
    for block_weights in w["blocks"]:
        x = block(x, block_weights, n_heads, turn)
    return layer_norm(x[:, -1:], w["gain"], w["shift"]) @ w["tokens"].T


# %% first-position-only
# belief: The first position gathers what the text says, so the head reads it there.
# advice: In a causal model the first position sees nothing but itself.
# replaces: gpt
# caught by: logits of all positions, from the table of words itself
def embed(ids, w):
    x = w["tokens"][ids]
    if "positions" not in w:
        return x
    n, context = ids.shape[1], len(w["positions"])
    if n > context:
        raise ValueError(f"a text of {n} tokens is longer than the table of {context} positions")
    return x + w["positions"][:n]


def logits_of(x, w, n_heads, turn=None):
    for block_weights in w["blocks"]:
        x = block(x, block_weights, n_heads, turn)
    return layer_norm(np.repeat(x[:, :1], x.shape[1], axis=1), w["gain"], w["shift"]) @ w["tokens"].T


# %% targets-not-shifted
# belief: The model is asked for the words of the text, so they are the targets.
# advice: Each position has read its own word. A loss of nearly 0 on random words is no talent.
# replaces: loss
# caught by: each position answers for the token that follows
def loss_and_gradient(logits, ids, ignore):
    targets = ids[:, :-1]
    counted = targets != ignore
    count = int(counted.sum())
    shifted = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, :-1] = slope * counted[..., None] / count
    return loss, gradient


# %% shifted-twice
# belief: Inputs and targets are both shifted.
# advice: One step in all. Which token follows position 0?
# replaces: loss
# caught by: each position answers for the token that follows
def loss_and_gradient(logits, ids, ignore):
    targets = np.concatenate([ids[:, 2:], np.full_like(ids[:, :1], ignore)], axis=1)
    counted = targets != ignore
    count = int(counted.sum())
    shifted = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, :-1] = slope * counted[..., None] / count
    return loss, gradient


# %% wraps-around
# belief: np.roll shifts the ids by one.
# advice: It also brings the first token to the end. What should the last position guess?
# replaces: loss
# caught by: each position answers for the token that follows
def loss_and_gradient(logits, ids, ignore):
    targets = np.roll(ids, -1, axis=1)
    counted = targets != ignore
    count = int(counted.sum())
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, :] = slope * counted[..., None] / count
    return loss, gradient


# %% padding-in-the-mean
# belief: The mean is over all positions; padding adds 0 to the sum.
# advice: Then the same texts with wider padding have a smaller loss. Divide by what counts.
# replaces: loss
# caught by: the mean runs over the targets that count, all texts together
def loss_and_gradient(logits, ids, ignore):
    targets = ids[:, 1:]
    counted = targets != ignore
    count = counted.size
    shifted = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, :-1] = slope * counted[..., None] / count
    return loss, gradient


# %% padding-is-a-target
# belief: Padding is a word like the others.
# advice: Then the model mostly learns to write padding. A target with the id `ignore` does not count.
# replaces: loss
# caught by: the mean runs over the targets that count, all texts together
def loss_and_gradient(logits, ids, ignore):
    targets = ids[:, 1:]
    counted = targets >= 0
    count = int(counted.sum())
    shifted = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, :-1] = slope * counted[..., None] / count
    return loss, gradient


# %% mean-of-means
# belief: The mean of the texts' means is the mean of all.
# advice: Only when all texts are equally long. A long text holds more exercises.
# replaces: loss
# caught by: the mean runs over the targets that count, all texts together
def loss_and_gradient(logits, ids, ignore):
    targets = ids[:, 1:]
    counted = targets != ignore
    shifted = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    per_text = (-picked[..., 0] * counted).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
    loss = float(per_text[counted.any(axis=1)].mean())
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, :-1] = (
        slope
        * counted[..., None]
        / np.maximum(counted.sum(axis=1), 1)[:, None, None]
        / counted.any(axis=1).sum()
    )
    return loss, gradient


# %% softmax-twice
# belief: Cross-entropy wants probabilities, so the softmax comes first.
# advice: It makes the softmax itself. Twice, a perfect guess still has a loss.
# replaces: loss
# caught by: each position answers for the token that follows
def loss_and_gradient(logits, ids, ignore):
    targets = ids[:, 1:]
    counted = targets != ignore
    count = int(counted.sum())
    raised = np.exp(logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True))
    shifted = raised / raised.sum(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, :-1] = slope * counted[..., None] / count
    return loss, gradient


# %% log-of-softmax
# belief: First the probability, then its logarithm.
# advice: A tiny probability has been rounded to 0 by then, and its logarithm is gone. Subtract logarithms.
# replaces: loss
# caught by: logits of a thousand are no problem
def loss_and_gradient(logits, ids, ignore):
    targets = ids[:, 1:]
    counted = targets != ignore
    count = int(counted.sum())
    shifted = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    raised = np.exp(shifted)
    log_p = np.log(raised / raised.sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, :-1] = slope * counted[..., None] / count
    return loss, gradient


# %% no-shift-of-logits
# belief: Logits are small numbers.
# advice: One of 1000 is enough for an overflow. The softmax does not mind if you take the largest off.
# replaces: loss
# caught by: logits of a thousand are no problem
def loss_and_gradient(logits, ids, ignore):
    targets = ids[:, 1:]
    counted = targets != ignore
    count = int(counted.sum())
    shifted = logits[:, :-1]
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, :-1] = slope * counted[..., None] / count
    return loss, gradient


# %% largest-of-all
# belief: One largest logit for the whole batch is enough.
# advice: A row that lies far below it is all zeros after exp. Each row needs its own.
# replaces: loss
# caught by: logits of a thousand are no problem
def loss_and_gradient(logits, ids, ignore):
    targets = ids[:, 1:]
    counted = targets != ignore
    count = int(counted.sum())
    shifted = logits[:, :-1] - logits[:, :-1].max()
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, :-1] = slope * counted[..., None] / count
    return loss, gradient


# %% gradient-in-double
# belief: More precision never hurts.
# advice: The engine that goes backwards works in the dtype of the logits. np.zeros_like keeps it.
# replaces: loss
# caught by: logits of a thousand are no problem
def loss_and_gradient(logits, ids, ignore):
    targets = ids[:, 1:]
    counted = targets != ignore
    count = int(counted.sum())
    shifted = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros(logits.shape)
    gradient[:, :-1] = slope * counted[..., None] / count
    return loss, gradient


# %% gradient-of-the-sum
# belief: The derivative of the loss is p minus 1 at the target.
# advice: That is for one target. What has the mean done to it?
# replaces: loss
# caught by: the gradient is that of the mean
def loss_and_gradient(logits, ids, ignore):
    targets = ids[:, 1:]
    counted = targets != ignore
    count = int(counted.sum())
    shifted = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, :-1] = slope * counted[..., None]
    return loss, gradient


# %% gradient-upside-down
# belief: The right word should go up, so its gradient is positive.
# advice: Training goes against the gradient. Where the loss falls as the logit grows, it is negative.
# replaces: loss
# caught by: the gradient is that of the mean
def loss_and_gradient(logits, ids, ignore):
    targets = ids[:, 1:]
    counted = targets != ignore
    count = int(counted.sum())
    shifted = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, :-1] = -slope * counted[..., None] / count
    return loss, gradient


# %% gradient-only-at-target
# belief: Only the target's logit matters for the loss.
# advice: The others stand in the sum below the fraction. Raise one of them: what happens to p(target)?
# replaces: loss
# caught by: the gradient is that of the mean
def loss_and_gradient(logits, ids, ignore):
    targets = ids[:, 1:]
    counted = targets != ignore
    count = int(counted.sum())
    shifted = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.zeros_like(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, :-1] = slope * counted[..., None] / count
    return loss, gradient


# %% gradient-without-target
# belief: The gradient of a softmax is the softmax.
# advice: Where is the target in it? The score of the right word must be pulled up.
# replaces: loss
# caught by: the gradient is that of the mean
def loss_and_gradient(logits, ids, ignore):
    targets = ids[:, 1:]
    counted = targets != ignore
    count = int(counted.sum())
    shifted = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    gradient = np.zeros_like(logits)
    gradient[:, :-1] = slope * counted[..., None] / count
    return loss, gradient


# %% gradient-per-text
# belief: The gradient is divided by the number of texts.
# advice: By the number of targets that count. They are what the mean runs over.
# replaces: loss
# caught by: the gradient is that of the mean
def loss_and_gradient(logits, ids, ignore):
    targets = ids[:, 1:]
    counted = targets != ignore
    count = int(counted.sum())
    shifted = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, :-1] = slope * counted[..., None] / len(ids)
    return loss, gradient


# %% gradient-at-padding
# belief: What does not count in the loss need not be taken out of the gradient.
# advice: The gradient is what trains. Padding that is left in it is learned.
# replaces: loss
# caught by: where nothing is to be predicted the gradient is zero
def loss_and_gradient(logits, ids, ignore):
    targets = ids[:, 1:]
    counted = targets != ignore
    count = int(counted.sum())
    shifted = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, :-1] = slope / count
    return loss, gradient


# %% gradient-one-late
# belief: The gradient stands where the target stands.
# advice: It belongs to the logits that made the guess, one place before.
# replaces: loss
# caught by: where nothing is to be predicted the gradient is zero
def loss_and_gradient(logits, ids, ignore):
    targets = ids[:, 1:]
    counted = targets != ignore
    count = int(counted.sum())
    shifted = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., None], axis=-1)
    loss = float(-picked[..., 0][counted].sum() / count)
    slope = np.exp(log_p)
    np.put_along_axis(slope, targets[..., None], np.exp(picked) - 1, axis=-1)
    gradient = np.zeros_like(logits)
    gradient[:, 1:] = slope * counted[..., None] / count
    return loss, gradient


# %% n-blocks-write-n-times
# belief: The N under the root is the number of blocks.
# advice: Two sublayers of each block write to the stream.
# replaces: start
# caught by: the two matrices that write to the stream start smaller, by the depth
def initial_deviation(name, n_layers):
    if name.startswith(("b_", "gain", "shift")):
        return 0.0
    return 0.02 / n_layers**0.5 if name in ("w_o", "w_down") else 0.02


def gpt_parameters(vocabulary, context, n_layers, d_model, d_ff, tied=True):
    attention = 4 * d_model * d_model + 4 * d_model
    one_mlp = 2 * d_model * d_ff + d_ff + d_model
    one_block = attention + one_mlp + 4 * d_model
    tables = (vocabulary + context) * d_model + (0 if tied else vocabulary * d_model)
    return tables + n_layers * one_block + 2 * d_model


# %% root-forgotten
# belief: 2 N contributions are 2 N times as large.
# advice: Random ones partly cancel. By how much does a sum of 2 N of them grow?
# replaces: start
# caught by: the two matrices that write to the stream start smaller, by the depth
def initial_deviation(name, n_layers):
    if name.startswith(("b_", "gain", "shift")):
        return 0.0
    return 0.02 / (2 * n_layers) if name in ("w_o", "w_down") else 0.02


def gpt_parameters(vocabulary, context, n_layers, d_model, d_ff, tied=True):
    attention = 4 * d_model * d_model + 4 * d_model
    one_mlp = 2 * d_model * d_ff + d_ff + d_model
    one_block = attention + one_mlp + 4 * d_model
    tables = (vocabulary + context) * d_model + (0 if tied else vocabulary * d_model)
    return tables + n_layers * one_block + 2 * d_model


# %% attention-writes-alone
# belief: Only attention's output goes to the stream.
# advice: The MLP adds to it as well. With which of its matrices?
# replaces: start
# caught by: the two matrices that write to the stream start smaller, by the depth
def initial_deviation(name, n_layers):
    if name.startswith(("b_", "gain", "shift")):
        return 0.0
    return 0.02 / (2 * n_layers) ** 0.5 if name == "w_o" else 0.02


def gpt_parameters(vocabulary, context, n_layers, d_model, d_ff, tied=True):
    attention = 4 * d_model * d_model + 4 * d_model
    one_mlp = 2 * d_model * d_ff + d_ff + d_model
    one_block = attention + one_mlp + 4 * d_model
    tables = (vocabulary + context) * d_model + (0 if tied else vocabulary * d_model)
    return tables + n_layers * one_block + 2 * d_model


# %% no-smaller-start
# belief: 0.02 is right for every matrix, as in the released code of GPT-2.
# advice: That code has no scaling by depth. The paper has, and so does your task.
# replaces: start
# caught by: the two matrices that write to the stream start smaller, by the depth
def initial_deviation(name, n_layers):
    if name.startswith(("b_", "gain", "shift")):
        return 0.0
    return 0.02


def gpt_parameters(vocabulary, context, n_layers, d_model, d_ff, tied=True):
    attention = 4 * d_model * d_model + 4 * d_model
    one_mlp = 2 * d_model * d_ff + d_ff + d_model
    one_block = attention + one_mlp + 4 * d_model
    tables = (vocabulary + context) * d_model + (0 if tied else vocabulary * d_model)
    return tables + n_layers * one_block + 2 * d_model


# %% all-scaled-down
# belief: The deeper the model, the smaller all its matrices.
# advice: Only what is added to the stream adds up. The others work on a normed copy.
# replaces: start
# caught by: other matrices and tables with 0.02, vectors without randomness
def initial_deviation(name, n_layers):
    if name.startswith(("b_", "gain", "shift")):
        return 0.0
    return 0.02 / (2 * n_layers) ** 0.5


def gpt_parameters(vocabulary, context, n_layers, d_model, d_ff, tied=True):
    attention = 4 * d_model * d_model + 4 * d_model
    one_mlp = 2 * d_model * d_ff + d_ff + d_model
    one_block = attention + one_mlp + 4 * d_model
    tables = (vocabulary + context) * d_model + (0 if tied else vocabulary * d_model)
    return tables + n_layers * one_block + 2 * d_model


# %% vectors-random
# belief: Everything that is learned starts at random.
# advice: Matrices must, or all their columns stay alike. A gain around 0 would silence what it norms.
# replaces: start
# caught by: other matrices and tables with 0.02, vectors without randomness
def initial_deviation(name, n_layers):
    return 0.02 / (2 * n_layers) ** 0.5 if name in ("w_o", "w_down") else 0.02


def gpt_parameters(vocabulary, context, n_layers, d_model, d_ff, tied=True):
    attention = 4 * d_model * d_model + 4 * d_model
    one_mlp = 2 * d_model * d_ff + d_ff + d_model
    one_block = attention + one_mlp + 4 * d_model
    tables = (vocabulary + context) * d_model + (0 if tied else vocabulary * d_model)
    return tables + n_layers * one_block + 2 * d_model


# %% biases-random
# belief: Biases start like the matrices that they belong to.
# advice: They need no randomness: the matrix has already made the outputs differ.
# replaces: start
# caught by: other matrices and tables with 0.02, vectors without randomness
def initial_deviation(name, n_layers):
    if name.startswith(("gain", "shift")):
        return 0.0
    return 0.02 / (2 * n_layers) ** 0.5 if name in ("w_o", "w_down") else 0.02


def gpt_parameters(vocabulary, context, n_layers, d_model, d_ff, tied=True):
    attention = 4 * d_model * d_model + 4 * d_model
    one_mlp = 2 * d_model * d_ff + d_ff + d_model
    one_block = attention + one_mlp + 4 * d_model
    tables = (vocabulary + context) * d_model + (0 if tied else vocabulary * d_model)
    return tables + n_layers * one_block + 2 * d_model


# %% head-counted-twice
# belief: Input and output have a table each.
# advice: In GPT-2 it is the same one. Only a head that is not tied is counted in addition.
# replaces: start
# caught by: parameters of other sizes, with the head tied or not
def initial_deviation(name, n_layers):
    if name.startswith(("b_", "gain", "shift")):
        return 0.0
    return 0.02 / (2 * n_layers) ** 0.5 if name in ("w_o", "w_down") else 0.02


def gpt_parameters(vocabulary, context, n_layers, d_model, d_ff, tied=True):
    attention = 4 * d_model * d_model + 4 * d_model
    one_mlp = 2 * d_model * d_ff + d_ff + d_model
    one_block = attention + one_mlp + 4 * d_model
    tables = (vocabulary + context) * d_model + vocabulary * d_model
    return tables + n_layers * one_block + 2 * d_model


# %% head-never-counted
# belief: The head has no weights of its own.
# advice: That is so when it is tied. What if `tied` is False?
# replaces: start
# caught by: parameters of other sizes, with the head tied or not
def initial_deviation(name, n_layers):
    if name.startswith(("b_", "gain", "shift")):
        return 0.0
    return 0.02 / (2 * n_layers) ** 0.5 if name in ("w_o", "w_down") else 0.02


def gpt_parameters(vocabulary, context, n_layers, d_model, d_ff, tied=True):
    attention = 4 * d_model * d_model + 4 * d_model
    one_mlp = 2 * d_model * d_ff + d_ff + d_model
    one_block = attention + one_mlp + 4 * d_model
    tables = (vocabulary + context) * d_model
    return tables + n_layers * one_block + 2 * d_model


# %% positions-not-counted
# belief: Positions are not learned.
# advice: In the original transformer they are sines. GPT-2 learns its table.
# replaces: start
# caught by: parameters of other sizes, with the head tied or not
def initial_deviation(name, n_layers):
    if name.startswith(("b_", "gain", "shift")):
        return 0.0
    return 0.02 / (2 * n_layers) ** 0.5 if name in ("w_o", "w_down") else 0.02


def gpt_parameters(vocabulary, context, n_layers, d_model, d_ff, tied=True):
    attention = 4 * d_model * d_model + 4 * d_model
    one_mlp = 2 * d_model * d_ff + d_ff + d_model
    one_block = attention + one_mlp + 4 * d_model
    tables = vocabulary * d_model + (0 if tied else vocabulary * d_model)
    return tables + n_layers * one_block + 2 * d_model


# %% biases-not-counted
# belief: Biases are too few to matter.
# advice: To the last parameter, they do. Each matrix of a block has one, as long as its output.
# replaces: start
# caught by: parameters of other sizes, with the head tied or not
def initial_deviation(name, n_layers):
    if name.startswith(("b_", "gain", "shift")):
        return 0.0
    return 0.02 / (2 * n_layers) ** 0.5 if name in ("w_o", "w_down") else 0.02


def gpt_parameters(vocabulary, context, n_layers, d_model, d_ff, tied=True):
    attention = 4 * d_model * d_model
    one_mlp = 2 * d_model * d_ff
    one_block = attention + one_mlp + 4 * d_model
    tables = (vocabulary + context) * d_model + (0 if tied else vocabulary * d_model)
    return tables + n_layers * one_block + 2 * d_model


# %% last-norm-not-counted
# belief: The norms are inside the blocks.
# advice: One more stands after the last block, with a gain and a shift.
# replaces: start
# caught by: parameters of other sizes, with the head tied or not
def initial_deviation(name, n_layers):
    if name.startswith(("b_", "gain", "shift")):
        return 0.0
    return 0.02 / (2 * n_layers) ** 0.5 if name in ("w_o", "w_down") else 0.02


def gpt_parameters(vocabulary, context, n_layers, d_model, d_ff, tied=True):
    attention = 4 * d_model * d_model + 4 * d_model
    one_mlp = 2 * d_model * d_ff + d_ff + d_model
    one_block = attention + one_mlp + 4 * d_model
    tables = (vocabulary + context) * d_model + (0 if tied else vocabulary * d_model)
    return tables + n_layers * one_block


# %% d-ff-always-four
# belief: The MLP is four times as wide as the stream.
# advice: Usually. Here its width is an argument.
# replaces: start
# caught by: parameters of other sizes, with the head tied or not
def initial_deviation(name, n_layers):
    if name.startswith(("b_", "gain", "shift")):
        return 0.0
    return 0.02 / (2 * n_layers) ** 0.5 if name in ("w_o", "w_down") else 0.02


def gpt_parameters(vocabulary, context, n_layers, d_model, d_ff, tied=True):
    attention = 4 * d_model * d_model + 4 * d_model
    one_mlp = 8 * d_model * d_model + 5 * d_model
    one_block = attention + one_mlp + 4 * d_model
    tables = (vocabulary + context) * d_model + (0 if tied else vocabulary * d_model)
    return tables + n_layers * one_block + 2 * d_model


# %% warm-up-from-zero
# belief: The first step has the rate 0.
# advice: Then it changes nothing. Steps are counted from 1: step 1 has the first part of the peak.
# replaces: schedule
# caught by: the first step is not zero, and the peak is reached where the warm-up ends
def learning_rate(step, peak, warmup, total, floor):
    if step <= warmup:
        return peak * (step - 1) / warmup
    progress = min(1.0, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * (1 + np.cos(np.pi * progress)) / 2


# %% no-warm-up
# belief: The largest steps come first, where there is most to learn.
# advice: At the start Adam knows too little to take a large step in a good direction.
# replaces: schedule
# caught by: the first step is not zero, and the peak is reached where the warm-up ends
def learning_rate(step, peak, warmup, total, floor):
    if step <= warmup:
        return peak
    progress = min(1.0, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * (1 + np.cos(np.pi * progress)) / 2


# %% warm-up-from-floor
# belief: The way up begins at the floor.
# advice: The floor is where the schedule ends. The way up begins at nearly 0.
# replaces: schedule
# caught by: the first step is not zero, and the peak is reached where the warm-up ends
def learning_rate(step, peak, warmup, total, floor):
    if step <= warmup:
        return floor + (peak - floor) * step / warmup
    progress = min(1.0, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * (1 + np.cos(np.pi * progress)) / 2


# %% paper-schedule
# belief: After the warm-up the rate falls like one over the root of the step.
# advice: That is the schedule of the original transformer. Here it is half a cosine.
# replaces: schedule
# caught by: half a cosine from the peak to the floor, and then the floor
def learning_rate(step, peak, warmup, total, floor):
    if step <= warmup:
        return peak * step / warmup
    return peak * (warmup / step) ** 0.5


# %% cosine-rises-again
# belief: The cosine takes care of what comes after the last step.
# advice: It goes up again there. What should a step beyond `total` get?
# replaces: schedule
# caught by: half a cosine from the peak to the floor, and then the floor
def learning_rate(step, peak, warmup, total, floor):
    if step <= warmup:
        return peak * step / warmup
    progress = (step - warmup) / (total - warmup)
    return floor + (peak - floor) * (1 + np.cos(np.pi * progress)) / 2


# %% cosine-from-the-first-step
# belief: Progress is the step divided by the number of steps.
# advice: Then the rate jumps down where the warm-up ends. Count from there.
# replaces: schedule
# caught by: half a cosine from the peak to the floor, and then the floor
def learning_rate(step, peak, warmup, total, floor):
    if step <= warmup:
        return peak * step / warmup
    progress = min(1.0, step / total)
    return floor + (peak - floor) * (1 + np.cos(np.pi * progress)) / 2


# %% floor-forgotten
# belief: A cosine ends at 0.
# advice: Half of it goes from the peak to the floor. Which stretch is multiplied by it?
# replaces: schedule
# caught by: half a cosine from the peak to the floor, and then the floor
def learning_rate(step, peak, warmup, total, floor):
    if step <= warmup:
        return peak * step / warmup
    progress = min(1.0, (step - warmup) / (total - warmup))
    return peak * (1 + np.cos(np.pi * progress)) / 2


# %% floor-added
# belief: The floor is added to what the cosine gives.
# advice: Then the way down begins above the peak. The cosine covers the stretch between the two.
# replaces: schedule
# caught by: half a cosine from the peak to the floor, and then the floor
def learning_rate(step, peak, warmup, total, floor):
    if step <= warmup:
        return peak * step / warmup
    progress = min(1.0, (step - warmup) / (total - warmup))
    return floor + peak * (1 + np.cos(np.pi * progress)) / 2


# %% straight-down
# belief: Down in a straight line is as good.
# advice: Perhaps it is. But it is no cosine.
# replaces: schedule
# caught by: half a cosine from the peak to the floor, and then the floor
def learning_rate(step, peak, warmup, total, floor):
    if step <= warmup:
        return peak * step / warmup
    progress = min(1.0, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * (1 - progress)


# %% whole-wave
# belief: The cosine's period is 2 pi, so progress is multiplied by that.
# advice: Then it is back at the peak at the end. Half a wave goes down.
# replaces: schedule
# caught by: half a cosine from the peak to the floor, and then the floor
def learning_rate(step, peak, warmup, total, floor):
    if step <= warmup:
        return peak * step / warmup
    progress = min(1.0, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * (1 + np.cos(2 * np.pi * progress)) / 2


# %% times-temperature
# belief: The logits are multiplied by the temperature.
# advice: Then cold would be flat and hot would be sharp.
# replaces: sampling
# caught by: temperature divides the logits, and at 0 the largest takes all
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) * temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% temperature-on-probabilities
# belief: The probabilities are divided by the temperature.
# advice: Scaled to add up to 1 again, nothing of it is left.
# replaces: sampling
# caught by: temperature divides the logits, and at 0 the largest takes all
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = logits - logits.max()
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = -np.inf
    p = np.exp(scores) / temperature
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% zero-is-tiny
# belief: Temperature 0 is a division by a very small number.
# advice: Two logits that are close still share then, and equal ones always do. Take the largest.
# replaces: sampling
# caught by: temperature divides the logits, and at 0 the largest takes all
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    temperature = max(temperature, 0.2)
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% zero-divides
# belief: Temperature 0 needs no special case.
# advice: 0 divided by 0 is no number. The largest logit takes everything: say so.
# replaces: sampling
# caught by: temperature divides the logits, and at 0 the largest takes all
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% logits-unshifted
# belief: exp can take any logits.
# advice: Beyond 709 it overflows, and a small temperature makes logits large. Take the largest off first.
# replaces: sampling
# caught by: temperature divides the logits, and at 0 the largest takes all
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = logits / temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% cut-to-logit-zero
# belief: A logit of 0 is a word that is out.
# advice: The softmax makes something of it. Which logit gives the probability 0?
# replaces: sampling
# caught by: top-k keeps the k likeliest, and 0 keeps all
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = 0.0
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% k-th-word-lost
# belief: The k-th word is the limit, and everything up to it is cut.
# advice: With k = 1 nobody would be left. k words stay.
# replaces: sampling
# caught by: top-k keeps the k likeliest, and 0 keeps all
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[max(top_k - 1, 1) :]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% k-smallest
# belief: argsort puts the best words first.
# advice: It sorts upwards. Which words do you keep?
# replaces: sampling
# caught by: top-k keeps the k likeliest, and 0 keeps all
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[:-top_k]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% zero-keeps-none
# belief: Top-k of 0 is like top-k of 1: there must be a word.
# advice: 0 means that the setting is off: all stay.
# replaces: sampling
# caught by: top-k keeps the k likeliest, and 0 keeps all
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    scores[order[max(top_k, 1) :]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% not-rescaled
# belief: What is cut is cut; the others keep their probabilities.
# advice: Then they do not add up to 1, and a draw may find nothing. Divide by the sum after each cut.
# replaces: sampling
# caught by: top-k keeps the k likeliest, and 0 keeps all
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    p = np.exp(scores)
    p /= p.sum()
    if top_k > 0:
        p[order[top_k:]] = 0.0
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    return p


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% crossing-word-dropped
# belief: The kept words add up to p at most.
# advice: OpenAI's first code did that, too. Then less than p is kept, and nothing at all when the first
#   word is larger.
# replaces: sampling
# caught by: top-p keeps the word with which the sum reaches p
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[np.append(False, (before + p[order])[1:] > top_p)]] = 0.0
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% one-word-too-many
# belief: The word that reaches p stays, and the next one to be safe.
# advice: Stop as soon as the sum has reached p.
# replaces: sampling
# caught by: top-p keeps the word with which the sum reaches p
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[np.append(False, before[:-1] >= top_p)]] = 0.0
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% p-as-threshold
# belief: Every word with a probability below p is cut.
# advice: p is what the kept words add up to, not what each of them needs.
# replaces: sampling
# caught by: top-p keeps the word with which the sum reaches p
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    if top_p < 1:
        p[p < min(1 - top_p, p.max())] = 0.0
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% sum-from-the-rarest
# belief: The sum begins with the rarest word.
# advice: The likeliest words are to stay. Begin with them.
# replaces: sampling
# caught by: top-p keeps the word with which the sum reaches p
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    upward = order[::-1]
    before = np.cumsum(p[upward]) - p[upward]
    if top_p < 1:
        p[upward[before >= top_p]] = 0.0
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% sum-in-order-of-ids
# belief: The words stand in the order of the vocabulary, and so the sum goes.
# advice: Sort first. Which words should be in the sum?
# replaces: sampling
# caught by: top-p keeps the word with which the sum reaches p
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p) - p
    if top_p < 1:
        p[before >= top_p] = 0.0
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% nucleus-not-rescaled
# belief: After top-p the rest stays as it is.
# advice: It adds up to less than 1 then. Divide by the sum.
# replaces: sampling
# caught by: top-p keeps the word with which the sum reaches p
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    return p


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% top-p-before-top-k
# belief: In which order the settings come does not matter.
# advice: Top-p first counts words that top-k would have cut. Here it counts what is left after top-k.
# replaces: sampling
# caught by: temperature first, then top-k, then top-p
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    if top_k > 0:
        p[order[top_k:]] = 0.0
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% temperature-last
# belief: First the words are chosen, then the temperature is applied to them.
# advice: It comes first here. It changes how many words top-p keeps.
# replaces: sampling
# caught by: temperature first, then top-k, then top-p
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = logits - logits.max()
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    p = np.where(p > 0, p, 0.0) ** (1 / temperature)
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="right"))


# %% largest-is-picked
# belief: The best word is the one to write.
# advice: That is temperature 0. Here u decides.
# replaces: sampling
# caught by: a draw falls into the stretches of the words, and a word of probability 0 has none
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    return p / p.sum()


def pick(p, u):
    return int(np.argmax(p))


# %% zero-may-be-drawn
# belief: At the border of two words either may be taken.
# advice: A word of probability 0 has its end where it begins. Take the first whose end is larger than u,
#   not equal.
# replaces: sampling
# caught by: a draw falls into the stretches of the words, and a word of probability 0 has none
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    return p / p.sum()


def pick(p, u):
    ends = np.cumsum(p)
    return int(np.searchsorted(ends, u * ends[-1], side="left"))


# %% u-times-vocabulary
# belief: u says how far along the vocabulary to go.
# advice: Then all words would be equally likely. Their stretches have different lengths.
# replaces: sampling
# caught by: a draw falls into the stretches of the words, and a word of probability 0 has none
def chances(logits, temperature=1.0, top_k=0, top_p=1.0):
    logits = np.asarray(logits, dtype=np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    scores = (logits - logits.max()) / temperature
    order = np.argsort(-scores, kind="stable")
    if top_k > 0:
        scores[order[top_k:]] = -np.inf
    p = np.exp(scores)
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    if top_p < 1:
        p[order[before >= top_p]] = 0.0
    return p / p.sum()


def pick(p, u):
    return int(u * len(p))
