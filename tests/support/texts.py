"""A small tokenizer, and texts of any number of words that it knows. No torch here."""

import hashlib
import json
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, processors

from schemas.manifest import MANIFEST_FILE, TOKENIZER_FILE, bundle_digest

WORDS = tuple(f"w{place}" for place in range(200))


def word_tokenizer(padding: str = "[PAD]", padding_first: bool = True) -> Tokenizer:
    """`WORDS` by white space, between [CLS] and [SEP]; anything else is [UNK]."""
    special = [padding, "[UNK]", "[CLS]", "[SEP]"]
    tokens = [*special, *WORDS] if padding_first else [*special[1:], *WORDS, padding]
    vocabulary = {token: place for place, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    )
    tokenizer.enable_padding(pad_id=vocabulary[padding], pad_token=padding)
    return tokenizer


def words(count: int, seed: int = 0) -> str:
    """A text of so many words, which gives two tokens more."""
    return " ".join(WORDS[(7 * place + 13 * seed + place * place) % len(WORDS)] for place in range(count))


def with_tokenizer(folder: Path, raw: bytes) -> str:
    """Replaces a bundle's, and names its digest in the manifest; the digest of the bundle then."""
    (folder / TOKENIZER_FILE).write_bytes(raw)
    document = json.loads((folder / MANIFEST_FILE).read_text())
    document["files"][TOKENIZER_FILE] = hashlib.sha256(raw).hexdigest()
    changed = json.dumps(document).encode()
    (folder / MANIFEST_FILE).write_bytes(changed)
    return bundle_digest(changed)
