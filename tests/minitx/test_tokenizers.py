"""Tokenizers: equal to Hugging Face's on random and on hostile text, and clear about what they cannot do."""

import json
import string
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minitx import tokenizers
from minitx.errors import CheckpointError
from minitx.tokenizers import ByteLevelBPE, CharacterTokenizer
from minitx.tokenizers.merging import merge
from minitx.tokenizers.splitting import BYTE_TO_CHARACTER

FAMILY = "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}\U0001f3fd"  # one picture of several characters
HOSTILE = [
    "",
    " ",
    "\n",
    "\0",
    "\0\0 a\0b",
    "line\r\nline\r\n\r\n  line",
    "tab\t\ttab \t x",
    FAMILY,
    f"a{FAMILY}b {FAMILY}",
    "\u202eabc\u202c שלום עולם مرحبا بالعالم",
    "e\u0301\u0302\u0303 ñ ñ ﬃ Å",
    "don't we'll I'VE they'd 'tis ''s 's",
    "1234567890 12 a1b2 ½ ² ٣٤ 一二 Ⅷ",
    "x" * 300,
    "ab" * 300,
    "   leading and trailing   ",
    "\u00a0\u2003\u3000nbsp\u00a0 \u2028 \u2029 \x85 \x1c \x1f \u200b \ufeff",
    "<|endoftext|> <|endoftext|",
    "日本語のテキスト、句読点。한국어",
    "\ud7ff\ue000\uffff\U0010ffff\U0001f600",
    "if (a[0] != b) { return\t-1; } // !!??",
]
CORPUS = "\n".join(
    [
        "The quick brown fox jumps over the lazy dog, and the dog jumps back: 1999, 2001, 2024.",
        "She said she'd be there; they're here. Cars that follow other cars keep a distance of 2.5 seconds.",
        "the theme of the thesis is the other theory, thereby the thirteenth of these",
        "日本語のテキスト 日本語 naïve café naïve café \N{GRINNING FACE}\N{GRINNING FACE}",
        "aaaaaaa aaaa aaa banana bananas bandana abab ababab abababab",
    ]
    * 3
)
# What Unicode says of a character that was added lately differs from one library's tables to the next.
assigned = st.characters(exclude_categories=("Cs", "Cn"), codec="utf-8")
texts = st.text(assigned) | st.text(st.sampled_from("ab 'st1\n\u00e9\N{GRINNING FACE}"), max_size=60)


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("tokenizers")


def trained(digits="together", special=("<|endoftext|>",), size=420):
    return ByteLevelBPE.train(CORPUS, size, special_tokens=special, digits=digits)


TRAINED = {digits: trained(digits) for digits in ("together", "apart")}


def splitter(library, digits):
    bytes_ = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    if digits == "together":
        return bytes_
    apart = library.pre_tokenizers.Digits(individual_digits=True)
    return library.pre_tokenizers.Sequence([apart, bytes_])


def theirs(library, ours):
    """The same tokens and merges in Hugging Face's library, built through its own constructors."""
    vocabulary = {token: i for i, token in enumerate(ours.vocabulary)}
    other = library.Tokenizer(library.models.BPE(vocab=vocabulary, merges=ours.merges))
    other.pre_tokenizer = splitter(library, ours.digits)
    other.decoder = library.decoders.ByteLevel()
    return other


def theirs_trained(library, text, size, digits="together", special=(), min_frequency=2):
    other = library.Tokenizer(library.models.BPE())
    other.pre_tokenizer = splitter(library, digits)
    trainer = library.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        special_tokens=list(special),
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    other.train_from_iterator([text], trainer)
    return json.loads(other.to_str())["model"]


@pytest.fixture(scope="module", params=["together", "apart"])
def pair(request, library):
    return TRAINED[request.param], theirs(library, TRAINED[request.param])


# Equal to Hugging Face's library


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_gives_the_ids_of_the_library_and_comes_back(pair, text):
    ours, other = pair
    ids = ours.encode(text)
    assert ids == other.encode(text).ids
    assert ours.decode(ids) == text


@given(text=texts)
@example(text="a  1")
def test_random_text_gives_the_ids_of_the_library_and_comes_back(pair, text):
    ours, other = pair
    ids = ours.encode(text)
    assert ids == other.encode(text).ids
    assert ours.decode(ids) == text


def test_every_character_of_unicode_is_split_as_the_library_splits_it(library):
    """Between letters, digits and spaces, each character shows to which of the pattern's classes it belongs."""
    from minitx.tokenizers import splitting

    # Of the characters for private use a few stand for all.
    known = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ("Cs", "Cn", "Co")]
    known += ["\ue000", "\uf8ff", "\U000f0000", "\U0010fffd"]
    numbers = [c for c in known if unicodedata.category(c).startswith("N")]
    for digits, characters in (("together", known), ("apart", numbers)):
        split = splitter(library, digits)
        for start in range(0, len(characters), 1 << 15):
            text = "".join(f"a{c}1 {c}." for c in characters[start : start + (1 << 15)])
            spans = [span for _, span in split.pre_tokenize_str(text)]
            words = splitting.words(text, digits)
            assert "".join(words) == text
            assert words == [text[first:last] for first, last in spans]


@given(ids=st.lists(st.integers(0, TRAINED["together"].vocab_size - 1)))
def test_ids_that_are_no_utf8_decode_as_the_library_decodes_them(library, ids):
    ours = TRAINED["together"]
    assert ours.decode(ids) == theirs(library, ours).decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("digits", ["together", "apart"])
@pytest.mark.parametrize("size", [258, 300, 420, 2000])
def test_training_learns_the_merges_of_the_library_in_its_order(library, digits, size):
    ours = trained(digits, ("<|endoftext|>", "<pad>"), size)
    model = theirs_trained(library, CORPUS, size, digits, ("<|endoftext|>", "<pad>"))
    assert {token: i for i, token in enumerate(ours.vocabulary)} == model["vocab"]
    assert [list(pair) for pair in ours.merges] == model["merges"]


@given(
    text=st.text(st.sampled_from("ab "), max_size=80) | st.text(st.sampled_from("abc\u00e9 1"), max_size=200),
    merges=st.integers(0, 60),
    min_frequency=st.integers(0, 3),
)
@example(text="abababab abaabb bbaab aabbaa", merges=60, min_frequency=0)
def test_training_breaks_ties_as_the_library_does(library, text, merges, min_frequency):
    """Few letters: many pairs are equally frequent, overlap, and make one token in two ways."""
    ours = ByteLevelBPE.train(text, 256 + merges, min_frequency=min_frequency)
    model = theirs_trained(library, text, 256 + merges, min_frequency=min_frequency)
    assert {token: i for i, token in enumerate(ours.vocabulary)} == model["vocab"]
    assert [list(pair) for pair in ours.merges] == model["merges"]


@given(
    seed=st.integers(0, 1000),
    text=st.text(st.sampled_from("abcd"), max_size=40),
)
def test_merges_in_an_order_that_no_training_gives_are_applied_as_the_library_applies_them(
    library, seed, text
):
    """A merge listed early may need one that is listed late, and several merges make one token."""
    rng = np.random.default_rng(seed)
    vocabulary, merges = list(BYTE_TO_CHARACTER), []
    short = list("abcd")
    for _ in range(30):
        first, second = (short[i] for i in rng.integers(len(short), size=2))
        if len(first + second) <= 6:
            merges.append((first, second))
            short.append(first + second)
    vocabulary += [token for token in dict.fromkeys(short) if len(token) > 1]
    merges = [merges[i] for i in rng.permutation(len(merges))]
    ours = ByteLevelBPE(vocabulary, merges)
    assert ours.encode(text) == theirs(library, ours).encode(text).ids


def test_a_pair_that_has_become_another_waits_for_its_own_rank(library):
    """When (a, b) is due, b is already part of bc, and (a, bc) comes after (bc, d)."""
    merges = [("b", "c"), ("a", "b"), ("bc", "d"), ("a", "bc")]
    ours = ByteLevelBPE([*BYTE_TO_CHARACTER, "bc", "ab", "bcd", "abc"], merges)
    ids = ours.encode("abcd abce")
    assert [ours.token_bytes(token) for token in ids] == [b"a", b"bcd", b" ", b"abc", b"e"]
    assert ids == theirs(library, ours).encode("abcd abce").ids


def test_our_file_opens_in_the_library_and_its_file_opens_here(library, tmp_path):
    for digits, ours in TRAINED.items():
        path = tmp_path / f"{digits}.json"
        ours.save(path)
        other = library.Tokenizer.from_file(str(path))
        again = tmp_path / f"{digits}-again.json"
        other.save(str(again))
        back = ByteLevelBPE.load(again)
        assert back.as_dict() == ours.as_dict()
        for text in HOSTILE:
            marked = f"{text}<|endoftext|>{text}"
            assert other.encode(marked).ids == ours.encode(marked, allow_special=True)
            assert other.decode(ours.encode(text)) == text
            assert back.encode(marked) == ours.encode(marked)


def test_a_file_that_the_library_trained_gives_its_ids_here(library, tmp_path):
    other = library.Tokenizer(library.models.BPE())
    other.pre_tokenizer = splitter(library, "together")
    other.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    other.train_from_iterator([CORPUS], trainer)
    other.add_special_tokens(["<|late|>"])  # an id behind the model's own
    other.save(str(tmp_path / "tokenizer.json"))
    ours = ByteLevelBPE.load(tmp_path / "tokenizer.json")
    assert ours.vocab_size == other.get_vocab_size()
    assert ours.special_tokens == {"<s>": 0, "</s>": 1, "<|late|>": 400}
    assert (ours.beginning_of_text, ours.end_of_text) == (0, 1)
    for text in [*HOSTILE, "<s>a</s><|late|> <|late"]:
        assert ours.encode(text, allow_special=True) == other.encode(text).ids


# Special tokens


def test_a_special_token_that_a_user_types_is_ordinary_text_unless_allowed():
    ours = TRAINED["together"]
    text = "a<|endoftext|>b"
    plain = ours.encode(text)
    assert ours.end_of_text not in plain
    assert ours.decode(plain) == text
    allowed = ours.encode(text, allow_special=True)
    assert allowed == [*ours.encode("a"), ours.end_of_text, *ours.encode("b")]
    assert ours.decode(allowed) == text
    assert ours.decode(allowed, skip_special=True) == "ab"


def test_training_on_text_full_of_a_special_token_never_merges_into_it():
    """Hugging Face's trainer does, and then plain text gives the special token's id."""
    ours = ByteLevelBPE.train("<<>> <<>> <<>> <<>>", 300, special_tokens=["<<>>"])
    assert any(len(token) > 1 for token in ours.vocabulary[257:])
    assert ours.special_tokens["<<>>"] not in ours.encode("<<>> <<>>")
    assert ours.decode(ours.encode("<<>>")) == "<<>>"


def test_of_special_tokens_that_start_alike_the_longest_is_read():
    ours = ByteLevelBPE.train("", 259, special_tokens=["<a>", "<a><b>", "(.*)"])
    assert ours.encode("<a><b><a>(.*)", allow_special=True) == [1, 0, 2]


def test_a_special_token_means_its_text_even_where_its_letters_stand_for_bytes():
    ours = ByteLevelBPE([*BYTE_TO_CHARACTER, "<é Ġ>"], [], ["<é Ġ>"])
    assert ours.decode([256]) == "<é Ġ>"


def test_who_begins_and_who_ends_a_text():
    assert (TRAINED["apart"].beginning_of_text, TRAINED["apart"].end_of_text) == (0, 0)
    named = ByteLevelBPE(
        [*BYTE_TO_CHARACTER, "<|im_start|>", "<|im_end|>", "<s>"],
        [],
        ["<|im_start|>", "<|im_end|>", "<s>"],
        end_of_text="<|im_end|>",
    )
    assert (named.beginning_of_text, named.end_of_text) == (258, 257)
    with pytest.raises(ValueError, match=r"end_of_text .* got '<nope>'"):
        ByteLevelBPE(BYTE_TO_CHARACTER, [], end_of_text="<nope>")


# A vocabulary that does not fit together


@pytest.mark.parametrize(
    ("vocabulary", "merges", "special", "says"),
    [
        ([*BYTE_TO_CHARACTER, "a"], [], [], r"'a' has two ids, \d+ and 256"),
        (BYTE_TO_CHARACTER, [("a", "b")], [], r"Merge 0, 'a' with 'b', needs 'ab'"),
        ([*BYTE_TO_CHARACTER, "ab"], [("a", "b"), ("", "ab")], [], r"Merge 1 must be two tokens"),
        ([*BYTE_TO_CHARACTER, "ab"], [("a", "b", "c")], [], r"Merge 0 must be two tokens"),
        ([*BYTE_TO_CHARACTER, "ab"], [("a", "b")], ["ab"], r"makes the special token 'ab'"),
        (BYTE_TO_CHARACTER, [], ["<s>"], r"special token '<s>' is not in the vocabulary"),
        (BYTE_TO_CHARACTER, [], ["a"], r"must be longer than one character"),
    ],
)
def test_a_vocabulary_that_does_not_fit_together_is_refused(vocabulary, merges, special, says):
    with pytest.raises(ValueError, match=says):
        ByteLevelBPE(vocabulary, merges, special)


def test_a_byte_that_the_vocabulary_lacks_is_named_and_nothing_is_left_out_in_silence():
    """SmolLM2's vocabulary lacks 21 bytes, which other libraries drop."""
    lacking = ByteLevelBPE([c for c in BYTE_TO_CHARACTER if c != BYTE_TO_CHARACTER[0xF1]], [])
    assert lacking.decode(lacking.encode("ab\N{GRINNING FACE}")) == "ab\N{GRINNING FACE}"
    with pytest.raises(ValueError, match=r"U\+40000.*0xF1"):
        lacking.encode("ab \U00040000")


def test_unknown_ways_with_digits_and_sizes_without_room_for_bytes_are_refused():
    with pytest.raises(ValueError, match="digits must be"):
        ByteLevelBPE(BYTE_TO_CHARACTER, [], digits="single")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 257, for 256 bytes and 1 special tokens, got 256"):
        ByteLevelBPE.train("text", 256, special_tokens=["<s>"])


# Files that are damaged, or ask for what is not done here


def test_a_damaged_or_foreign_file_is_refused_with_a_reason(tmp_path):
    path = tmp_path / "tokenizer.json"
    TRAINED["together"].save(path)
    good = path.read_text(encoding="utf-8")

    def refused(says, text):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(CheckpointError, match=says):
            ByteLevelBPE.load(path)

    def changed(**parts):
        return json.dumps({**json.loads(good), **parts})

    def with_model(**parts):
        return changed(model={**json.loads(good)["model"], **parts})

    refused("no whole JSON", good[: len(good) // 2])
    refused("no whole JSON", "")
    refused("tokenizer.json", b"\xff\xfe\x00")
    refused("nested too deep", "[" * 100_000)
    refused("it lacks 'model'", "{}")
    refused("tokenizer.json", "[1, 2]")
    refused("'WordPiece', not BPE", with_model(type="WordPiece"))
    refused("byte_fallback", with_model(byte_fallback=True))
    refused("normalizer", changed(normalizer={"type": "NFC"}))
    refused("pre_tokenizer", changed(pre_tokenizer={"type": "Whitespace"}))
    refused("pre_tokenizer", changed(pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True}))
    refused("pre_tokenizer", changed(pre_tokenizer=None))
    refused("ids of its", with_model(vocab={"a": 0, "b": 10**12}))
    refused("ids of its", with_model(vocab={"a": 0, "b": 0}))
    refused("needs 'zq'", with_model(merges=["z q"]))
    refused("list of strings", with_model(merges=[[1, 2]]))
    added = json.loads(good)["added_tokens"][0]
    refused("is lstrip", changed(added_tokens=[{**added, "lstrip": True}]))
    refused("is not special", changed(added_tokens=[{**added, "special": False}]))
    path.write_text(good, encoding="utf-8")
    assert ByteLevelBPE.load(path).as_dict() == TRAINED["together"].as_dict()
    with pytest.raises(CheckpointError, match="cannot be read"):
        ByteLevelBPE.load(tmp_path / "missing.json")


def test_saving_into_a_missing_folder_is_refused_and_a_save_leaves_no_other_file(tmp_path):
    with pytest.raises(CheckpointError, match="could not be written"):
        TRAINED["together"].save(tmp_path / "missing" / "tokenizer.json")
    TRAINED["together"].save(tmp_path / "tokenizer.json")
    TRAINED["together"].save(tmp_path / "tokenizer.json")
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]


@pytest.mark.parametrize("tokenizer", [TRAINED["apart"], CharacterTokenizer("hello, wörld\n")])
def test_a_tokenizer_survives_json(tokenizer):
    stored = json.loads(json.dumps(tokenizer.as_dict()))
    back = tokenizers.from_dict(stored)
    assert type(back) is type(tokenizer)
    assert back.as_dict() == tokenizer.as_dict()
    assert back.encode("hello") == tokenizer.encode("hello")
    assert (back.beginning_of_text, back.end_of_text) == (tokenizer.beginning_of_text, tokenizer.end_of_text)


@pytest.mark.parametrize(
    "stored",
    [
        None,
        {},
        {"kind": "unknown"},
        {"kind": ["characters"]},
        {"kind": "characters"},
        {"kind": "characters", "characters": ""},
        {"kind": "characters", "characters": "ba"},
        {"kind": "characters", "characters": "\ud800"},
        {"kind": "byte_level_bpe"},
        {"kind": "byte_level_bpe", "vocabulary": "ab", "merges": [], "special_tokens": []},
        {"kind": "byte_level_bpe", "vocabulary": ["a", 1], "merges": [], "special_tokens": []},
        {"kind": "byte_level_bpe", "vocabulary": ["a"], "merges": 3, "special_tokens": []},
        {"kind": "byte_level_bpe", "vocabulary": ["a", "a"], "merges": [], "special_tokens": []},
        {"kind": "byte_level_bpe", "vocabulary": ["a"], "merges": [], "special_tokens": [], "more": 1},
    ],
)
def test_a_stored_tokenizer_that_is_damaged_is_refused(stored):
    with pytest.raises(CheckpointError):
        tokenizers.from_dict(stored)


# Long texts


def test_a_megabyte_of_one_letter_takes_a_few_steps_a_letter():
    """One word of a million letters: looking for the best pair anew after each merge would never end."""
    n = 1_000_007
    longer = [("a", "a"), ("aa", "aa"), ("aaaa", "aaaa")]
    ours = ByteLevelBPE([*BYTE_TO_CHARACTER, "aa", "aaaa", "aaaaaaaa"], longer)
    assert ours.encode("a" * n) == [258] * (n // 8) + [257, 256, ord("a")]

    class Counting(dict):
        looked_up = 0

        def get(self, key, default=None):
            self.looked_up += 1
            return super().get(key, default)

    merges = Counting({(0, 0): (0, 1), (1, 1): (1, 2), (2, 2): (2, 3)})
    assert merge([0] * 10_007, merges) == [3] * 1250 + [2, 1, 0]
    assert merges.looked_up < 8 * 10_007


def test_training_on_a_long_word_of_one_letter_ends(library):
    ours = ByteLevelBPE.train("a" * 20_001, 300)
    model = theirs_trained(library, "a" * 20_001, 300)
    assert [list(pair) for pair in ours.merges] == model["merges"]


# Ids and texts that are wrong


@pytest.mark.parametrize("tokenizer", [TRAINED["together"], CharacterTokenizer("abc")])
def test_wrong_ids_are_refused_by_name(tokenizer):
    size = tokenizer.vocab_size
    for wrong in (-1, size, 10**30):
        with pytest.raises(ValueError, match=rf"Id {wrong} is outside .* 0 \.\.\. {size - 1}"):
            tokenizer.decode([0, wrong])
        with pytest.raises(ValueError, match=f"Id {wrong}"):
            tokenizer.streaming_decoder(skip_special=True).push(wrong)
    for wrong in (1.0, "a", None, [1]):
        with pytest.raises(TypeError, match="integers"):
            tokenizer.decode([wrong])
    with pytest.raises(TypeError, match="one sequence"):
        tokenizer.decode(np.zeros((2, 2), np.int64))
    assert tokenizer.decode(np.array([0, 1], np.uint8)) == tokenizer.decode([0, 1])
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize("tokenizer", [TRAINED["together"], CharacterTokenizer("abc")])
def test_what_is_no_text_is_refused(tokenizer):
    for wrong in (b"abc", None, 3, ["a"]):
        with pytest.raises(TypeError, match="encodes a str"):
            tokenizer.encode(wrong)


def test_half_a_surrogate_pair_is_named_with_its_place():
    for encode in (
        TRAINED["together"].encode,
        lambda text: ByteLevelBPE.train(text, 300),
        CharacterTokenizer,
    ):
        with pytest.raises(ValueError, match=r"'\\udc80' at place 2 .* surrogate"):
            encode("ab\udc80")
    with pytest.raises(ValueError, match=r"'\\udc80' \(U\+DC80\) at place 1"):
        CharacterTokenizer("ab").encode("a\udc80")


# Characters


def test_characters_are_sorted_and_come_back():
    tokenizer = CharacterTokenizer("hello\nwörld")
    assert tokenizer.characters == "\ndehlorwö"
    assert tokenizer.vocab_size == 9
    assert tokenizer.encode("hö\n") == [3, 8, 0]
    assert tokenizer.decode([3, 8, 0]) == "hö\n"
    assert tokenizer.encode("") == []


@given(text=texts.filter(len))
def test_every_text_comes_back_from_its_own_characters(text):
    tokenizer = CharacterTokenizer(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.vocab_size == len(set(text))


def test_an_unknown_character_is_named_with_its_place_and_a_way_out():
    with pytest.raises(ValueError, match=r"'Z' \(U\+005A\) at place 8, line 2,.*byte-level"):
        CharacterTokenizer(string.ascii_lowercase + "\n").encode("abc\nefghZ")
    with pytest.raises(ValueError, match="empty"):
        CharacterTokenizer("")


def test_importing_the_tokenizers_imports_no_regex():
    """It is needed only where byte-level BPE encodes."""
    code = "import sys, minitx.tokenizers as t; t.CharacterTokenizer('ab').encode('a'); sys.exit('regex' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
