"""The two loops of byte-pair encoding: apply merges to a word, and learn them from counted words."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import pairwise

Pair = tuple[int, int]


def merge(symbols: list[int], merges: Mapping[Pair, tuple[int, int]]) -> list[int]:
    """The word after all merges: of the pairs in it the one of lowest rank first, of equals the leftmost.

    `merges` maps a pair to its rank and to the id that replaces it. Takes n log n steps for n symbols: a heap
    holds the pairs that may merge, and symbols are a linked list.
    """
    n = len(symbols)
    symbols = symbols.copy()
    before, after = list(range(-1, n - 1)), list(range(1, n + 1))
    # One number for a pair's rank and place, in this order.
    heap = [merges[pair][0] * n + i for i, pair in enumerate(pairwise(symbols)) if pair in merges]
    heapq.heapify(heap)
    while heap:
        rank, left = divmod(heapq.heappop(heap), n)
        right = after[left]
        if right == n:
            continue
        known = merges.get((symbols[left], symbols[right]))
        if known is None or known[0] != rank:  # one of the two has merged with another since
            continue
        symbols[left], symbols[right] = known[1], -1
        end = after[left] = after[right]
        if end < n:
            before[end] = left
            if pair := merges.get((known[1], symbols[end])):
                heapq.heappush(heap, pair[0] * n + left)
        start = before[left]
        if start >= 0 and (pair := merges.get((symbols[start], known[1]))):
            heapq.heappush(heap, pair[0] * n + start)
    return [symbol for symbol in symbols if symbol >= 0]


class Learner:
    """Learns merges: again and again the most frequent pair of neighbours becomes a token.

    `words` maps each word, as bytes, to how often it occurs; `vocabulary` starts with the written bytes, and
    `byte_ids` has the id of each. Tokens in `never` are not made.

    The same merges in the same order as Hugging Face's tokenizers: of equally frequent pairs the one of
    smaller ids goes first, and its bookkeeping is followed where it shows. Counts are kept by difference, not
    counted anew; a pair that appears again is queued again, with the words in which it did.
    """

    def __init__(
        self,
        words: Mapping[bytes, int],
        vocabulary: list[str],
        byte_ids: list[int],
        never: Collection[str] = (),
    ):
        self.vocabulary, self.never = vocabulary, frozenset(never)
        self.ids = {token: i for i, token in enumerate(vocabulary)}
        self.words = [[byte_ids[byte] for byte in word] for word in words]
        self.frequencies = list(words.values())
        self.counts: dict[Pair, int] = defaultdict(int)
        self._appeared: dict[Pair, set[int]] = defaultdict(set)
        self._queue: list[tuple[int, Pair, int, set[int]]] = []
        self._queued = 0
        for word, (symbols, frequency) in enumerate(zip(self.words, self.frequencies, strict=True)):
            for pair in pairwise(symbols):
                self._add(pair, frequency, word)
        self._enqueue()

    def learn(self, vocab_size: int, min_frequency: int) -> list[Pair]:
        """Merge until the vocabulary has `vocab_size` tokens or no pair occurs `min_frequency` times."""
        merges: list[Pair] = []
        while self._queue and len(self.vocabulary) < vocab_size:
            negative, pair, _, words = heapq.heappop(self._queue)
            count = self.counts[pair]
            if -negative != count:  # queued before its count changed
                self._push(count, pair, words)
                continue
            if count < max(1, min_frequency):
                break
            token = self.vocabulary[pair[0]] + self.vocabulary[pair[1]]
            if token in self.never:
                continue
            merges.append(pair)
            self._merge(pair, self._id_of(token), words)
        return merges

    def _id_of(self, token: str) -> int:
        """The token's id; two pairs may make one token, (ab, c) and (a, bc)."""
        if token not in self.ids:
            self.ids[token] = len(self.vocabulary)
            self.vocabulary.append(token)
        return self.ids[token]

    def _merge(self, pair: Pair, new: int, words: set[int]) -> None:
        for word in words:
            self.words[word] = self._merged(word, pair, new)
        self._enqueue()

    def _merged(self, word: int, pair: Pair, new: int) -> list[int]:
        """The word with the pair replaced from left to right; what that does to its neighbours is counted."""
        symbols, frequency, counts = self.words[word], self.frequencies[word], self.counts
        first, second = pair
        result: list[int] = []
        i, n = 0, len(symbols)
        while i < n:
            if symbols[i] != first or i + 1 == n or symbols[i + 1] != second:
                result.append(symbols[i])
                i += 1
                continue
            if result:
                counts[result[-1], first] -= frequency
                self._add((result[-1], new), frequency, word)
            if i + 2 < n:
                counts[second, symbols[i + 2]] -= frequency
                self._add((new, symbols[i + 2]), frequency, word)
            result.append(new)
            i += 2
        return result

    def _add(self, pair: Pair, frequency: int, word: int) -> None:
        self.counts[pair] += frequency
        self._appeared[pair].add(word)

    def _enqueue(self) -> None:
        """Queue the pairs that appeared, each with the words in which it did."""
        for pair, words in self._appeared.items():
            if self.counts[pair] > 0:
                self._push(self.counts[pair], pair, words)
        self._appeared.clear()

    def _push(self, count: int, pair: Pair, words: set[int]) -> None:
        self._queued += 1
        heapq.heappush(self._queue, (-count, pair, self._queued, words))
