"""WordPiece against the `tokenizers` library, on every character there is and on random text."""

import functools
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minitx.checkpoints import CheckpointError
from minitx.wordpiece import WordPiece

PIECES = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *"abcdeiouß\u03c3\u03c2л中a",
    *("un", "##aff", "##able", "##a", "##b", "##c", "##n", "the", "##s", ".", ",", "'", "$", "!", "[", "]"),
    *("cls", "sep", "##\u03c3", "##ab", "##lea", "1", "##2", "و", "##ن", "i", "##l"),
]
VOCABULARY = list(dict.fromkeys(PIECES))
OURS = WordPiece(VOCABULARY)


@functools.cache
def theirs(vocabulary=None):
    """The library's own assembly of BERT's normaliser, pre-tokenizer and WordPiece."""
    tokenizers = pytest.importorskip("tokenizers")
    ids = {piece: i for i, piece in enumerate(vocabulary or VOCABULARY)}
    made = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100)
    )
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])]
    )
    return made


@functools.cache
def newer():
    """Characters that the library's older Unicode tables read in another way than Python's.

    Left out are planes in which no character has been assigned, and most of the private ones.
    """
    alphabet = {c: i for i, c in enumerate(["[UNK]", "[CLS]", "[SEP]", "a", "##a", "b", "##b", "ab", "##ab"])}
    ours, reference = WordPiece(list(alphabet)), theirs(tuple(alphabet))
    ranges = [(0, 0xD800), (0xE000, 0xE040), (0xF900, 0x323B0), (0xE0000, 0xE0200), (0xF0000, 0xF0040)]
    todo = [range(start, min(start + 64, end)) for first, end in ranges for start in range(first, end, 64)]
    found = set()
    while todo:  # 64 characters in one text, and one by one where they are not read alike
        codes = todo.pop()
        text = " ".join(f"ab{chr(code)}ba" for code in codes)
        if ours.encode(text) == reference.encode(text).ids:
            continue
        if len(codes) == 1:
            found.add(chr(codes[0]))
        else:
            todo += [range(code, code + 1) for code in codes]
    return frozenset(found)


def test_every_character_is_read_as_the_library_reads_it_but_for_newer_ones():
    theirs()
    different = newer()
    assert len(different) < 900
    # Python keeps one old table: what is the same in it and in the new one is read alike.
    old = unicodedata.ucd_3_2_0
    assert all(old.category(c) != unicodedata.category(c) for c in different)


@given(st.text(max_size=60))
@example("unaffable, the unableables!")
@example("Ünàffâble İSTANBUL ΣΑΣ ß ﬁ Å")
@example("中文ab中 カタカナ 한국어")
@example("a\u0000b\ufffdc\u200dd\u00ade\u2028f\u3000g\x85h\x1ci")
@example("x" * 101 + " " + "ab" * 50)
@example("[CLS] [SEP] [UNK] $1+1=2^3 `~|<>")
@example("👩‍👩‍👧‍👦 e\u0301\u0301 \u202eabc سلام שלום")
def test_random_text_is_read_as_the_library_reads_it(text):
    reference = theirs()
    text = "".join(c for c in text if c not in newer() and not "\ud800" <= c < "\ue000")
    assert OURS.encode(text) == reference.encode(text).ids


@given(st.lists(st.sampled_from([*"ab12.,'$σÀ ", "unaffable", "the", "ablea", "cls", "[sep]"]), max_size=12))
def test_known_pieces_are_found_as_the_library_finds_them(parts):
    text = "".join(parts)
    assert OURS.encode(text) == theirs().encode(text).ids


def test_the_longest_pieces_from_the_left():
    assert [VOCABULARY[i] for i in OURS.encode("Unaffable, un-x")] == [
        *("[CLS]", "un", "##aff", "##able", ",", "un", "[UNK]", "[UNK]", "[SEP]")
    ]


def test_a_special_token_in_a_text_is_text():
    ids = OURS.encode("[SEP]")
    assert [VOCABULARY[i] for i in ids] == ["[CLS]", "[", "sep", "]", "[SEP]"]


def test_a_longer_text_is_cut_and_still_ends():
    full = OURS.encode("the a b c d e")
    assert OURS.encode("the a b c d e", max_length=4) == [*full[:3], full[-1]]
    assert OURS.encode("the a", max_length=2) == [full[0], full[-1]]
    assert OURS.encode("the a", max_length=99) == OURS.encode("the a")
    with pytest.raises(ValueError, match="at least 2"):
        OURS.encode("the", max_length=1)


def test_halves_of_pairs_are_dropped():
    assert OURS.encode("a\ud800b") == OURS.encode("ab")


def test_decoding_joins_pieces_and_refuses_other_ids():
    assert OURS.decode(OURS.encode("the unaffable ab")) == "the unaffable ab"
    assert OURS.decode([]) == ""
    for wrong in (-1, len(VOCABULARY)):
        with pytest.raises(ValueError, match=rf"got {wrong}\."):
            OURS.decode([5, wrong])


def test_a_text_without_a_space_takes_no_time():
    assert OURS.encode("a" * 300_000) == OURS.encode("a" * 101)


def test_it_comes_back_from_a_dictionary_and_from_a_file(tmp_path):
    assert WordPiece.from_dict(OURS.as_dict()).pieces == OURS.pieces
    assert OURS.vocab_size == len(VOCABULARY)
    for end in ("\n", "\r\n"):
        (tmp_path / "vocab.txt").write_bytes((end.join(VOCABULARY) + end).encode())
        assert WordPiece.load(tmp_path / "vocab.txt").pieces == VOCABULARY


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "lacks"),
        (b"a\nb\n", r"lacks \[UNK\] \[CLS\] \[SEP\]"),
        (b"[UNK]\n[CLS]\n[SEP]\nx\nx\n", "'x' twice"),
        (b"\xff", "no vocabulary"),
        (None, "cannot be read"),
    ],
)
def test_a_vocabulary_that_cannot_be_used_is_refused(tmp_path, content, words):
    if content is not None:
        (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(CheckpointError, match=words):
        WordPiece.load(tmp_path / "vocab.txt")
    with pytest.raises(ValueError, match="twice"):
        WordPiece(["[UNK]", "[CLS]", "[SEP]", "[UNK]"])
