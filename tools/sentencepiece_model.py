"""SentencePiece models for tools/tokenizer.py: Llama-2-style BPE, unigram and the rest of the family, by `sentencepiece`.

A model gives its texts back byte for byte when it does not normalise, keeps runs of spaces and has tokens for single
bytes; `lossy` says what is missing. SentencePiece writes a space as U+2581 and puts one before a text (the dummy
prefix). Two places differ from the library, so that nothing is lost: a piece that continues a document gets no dummy
prefix, and a U+2581 of the text itself becomes the tokens of its three bytes, not a space.
"""

import re

SPACE = "\u2581"
BYTE = re.compile(r"<0x([0-9A-F]{2})>\Z")
# Llama 3's tokenizer.model: lines of base64 and a rank.
TIKTOKEN = re.compile(rb"[A-Za-z0-9+/]+=* \d+\n")


def bytes_of_piece(piece, model):
    kind = model.ModelProto.SentencePiece
    if piece.type == kind.CONTROL:
        return b""
    if piece.type == kind.BYTE:
        digits = BYTE.match(piece.piece)
        if not digits:
            raise ValueError(f"token {piece.piece!r} stands for a byte and does not name one")
        return bytes.fromhex(digits[1])
    return piece.piece.encode()


class SentencePieceTokenizer:
    def __init__(self, path):
        from google.protobuf.message import DecodeError
        from sentencepiece import SentencePieceProcessor
        from sentencepiece import sentencepiece_model_pb2 as schema

        with open(path, "rb") as file:
            raw = file.read()
        if TIKTOKEN.match(raw):
            raise ValueError(f"'{path}' holds ranks of tiktoken, no SentencePiece model: give the tokenizer.json of that model")
        try:
            model = schema.ModelProto()
            model.ParseFromString(raw)
            # A file that was cut between two pieces parses too.
            if not model.HasField("trainer_spec") or not model.HasField("normalizer_spec"):
                raise ValueError("it does not say how it was trained and how it normalises")
            self.first = SentencePieceProcessor(model_proto=raw)
            self._read(model, schema)
            self.rest = self.first
            # White space at the border of two pieces is lost to such a model, and the prefix stands for it.
            if model.normalizer_spec.add_dummy_prefix and not model.normalizer_spec.remove_extra_whitespaces:
                model.normalizer_spec.add_dummy_prefix = False
                model.DiscardUnknownFields()  # self-tests of the model, which expect the prefix
                self.rest = SentencePieceProcessor(model_proto=model.SerializeToString())
        except (DecodeError, RuntimeError, ValueError) as e:
            raise ValueError(f"'{path}' is no SentencePiece model that mylos reads: {e}") from e

    def _read(self, model, schema):
        trainer, normalizer = model.trainer_spec, model.normalizer_spec
        kind = schema.ModelProto.SentencePiece
        if trainer.treat_whitespace_as_suffix:
            raise ValueError("it writes spaces after words (treat_whitespace_as_suffix)")
        rows = [bytes_of_piece(piece, schema) for piece in model.pieces]
        if len(rows) != self.first.vocab_size():
            raise ValueError(f"it holds {len(rows)} tokens and says {self.first.vocab_size()}")
        if normalizer.escape_whitespaces:
            for i, piece in enumerate(model.pieces):
                if piece.type not in (kind.BYTE, kind.CONTROL):
                    rows[i] = piece.piece.replace(SPACE, " ").encode()
        for i, piece in enumerate(model.pieces):
            if piece.type == kind.UNKNOWN:
                rows[i] = trainer.unk_surface.encode()
        self.rows = rows
        self.dummy_prefix = normalizer.add_dummy_prefix
        self.end_of_text = self.first.eos_id()
        if self.end_of_text < 0:
            raise ValueError(f"it has no token that ends a text ({trainer.eos_piece})")

        byte_tokens = {rows[i]: i for i, piece in enumerate(model.pieces) if piece.type == kind.BYTE}
        has_bytes = trainer.byte_fallback and len(byte_tokens) == 256
        spaces = {piece.piece for piece in model.pieces if piece.type in (kind.NORMAL, kind.USER_DEFINED)}
        reasons = []
        if normalizer.precompiled_charsmap:
            reasons.append(f"it normalises its text ({normalizer.name or 'by rules of its own'})")
        if normalizer.remove_extra_whitespaces:
            reasons.append("it drops white space (remove_extra_whitespaces)")
        if not has_bytes:
            reasons.append("it has no tokens for single bytes (byte_fallback), so characters it does not know are lost")
        if (SPACE if normalizer.escape_whitespaces else " ") not in spaces:
            reasons.append("it has no token for a single space")
        self.lossy = "; ".join(reasons)
        # BPE's queue of merges over a long text outgrows the caches. Where no token but that of the byte holds a newline,
        # none is merged across one, and lines have the same tokens apart: 1.8 times as fast.
        lines_are_apart = not any("\n" in piece.piece for piece in model.pieces)
        self.block = 8192 if trainer.model_type == trainer.BPE and lines_are_apart and not self.lossy else None
        self.space_bytes = []
        if normalizer.escape_whitespaces and has_bytes:
            self.space_bytes = [byte_tokens[bytes([b])] for b in SPACE.encode()]

    def _blocks(self, text):
        begin = 0
        if self.block:
            while (end := text.find("\n", begin + self.block) + 1) > 0:
                yield text[begin:end]
                begin = end
        yield text[begin:]

    def _encode(self, text, continues):
        processor = self.rest if continues else self.first
        ids = []
        for i, part in enumerate(text.split(SPACE) if self.space_bytes else [text]):
            if i > 0:
                ids += self.space_bytes
                processor = self.rest
            for block in self._blocks(part):
                ids += processor.encode(block)
                processor = self.rest
        return ids

    def encode_batch(self, texts, continues):
        return [self._encode(text, c) for text, c in zip(texts, continues, strict=True)]
