#!/usr/bin/env python3
"""Tokenizers for mylos: byte-level BPE through Hugging Face `tokenizers`, SentencePiece models through `sentencepiece`.

  train --vocab 4096 --out tokenizer.json < texts        train on the texts that mylos sends; writes the table too
  table TOKENIZER                                        TOKENIZER's table: the bytes of every token
  encode --tokenizer TOKENIZER < texts > tokens          of each text: their number (8 bytes), then 4 bytes a token
  encode-prompt --tokenizer TOKENIZER < text             a JSON list of tokens
  decode --tokenizer TOKENIZER SHARD > text              the text of a shard, byte for byte

TOKENIZER is a tokenizer.json (table: tokenizer.bytes.json) or a SentencePiece tokenizer.model (tokenizer.model.bytes.json).
A table says under "lossy" why its tokenizer does not give back every text; without it `encode` decodes each text again
and fails when it is another. `mylos tokenize` calls this; docs/data.md describes the files. Results go to stdout as JSON,
errors are a line on stderr.
"""

import argparse
import array
import json
import os
import sys

END_OF_TEXT = "<|end_of_text|>"
# Names under which known tokenizers keep the token that ends a document (mylos, GPT-2, Llama 3).
END_NAMES = (END_OF_TEXT, "<|endoftext|>", "</s>")
CONTINUES = 1 << 63  # in the length of a text: it goes on where the text before it ended


class ToolError(Exception):
    pass


def byte_of_letter():
    """GPT-2's alphabet: each byte is a printable letter; bytes that are not printable move to 256 and above."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [b for b in range(256) if b not in printable]
    return {**{chr(b): b for b in printable}, **{chr(256 + i): b for i, b in enumerate(moved)}}


def texts_from_stdin():
    """The texts that mylos sends: batches, each a count and then every text with its length before it.

    Yields lists of (bytes, whether it continues the text before it)."""
    stream = sys.stdin.buffer

    def number():
        raw = stream.read(8)
        if raw and len(raw) < 8:
            raise ToolError("the input ends in the middle of a number")
        return int.from_bytes(raw, "little") if raw else None

    while (count := number()) is not None:
        batch = []
        for _ in range(count):
            header = number()
            length = (header or 0) & ~CONTINUES
            raw = stream.read(length)
            if header is None or len(raw) < length:
                raise ToolError("the input ends in the middle of a text")
            batch.append((raw, header != length))
        yield batch


def write_atomically(path, text):
    with open(path + ".partial", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".partial", path)


def parts_of(component):
    """A normalizer, pre-tokenizer or decoder of a tokenizer.json and whatever it is made of."""
    if not isinstance(component, dict):
        return []
    inner = [part for key in ("pretokenizers", "normalizers", "decoders") for part in component.get(key) or []]
    return [component, *(p for part in inner for p in parts_of(part))]


class HuggingFaceTokenizer:
    def __init__(self, path):
        from tokenizers import Tokenizer

        with open(path, encoding="utf-8") as file:
            try:
                content = json.load(file)
            except ValueError as e:
                raise ToolError(f"'{path}' is no tokenizer.json: {e}") from e
        if not isinstance(content, dict) or not isinstance(content.get("decoder") or {}, dict):
            raise ToolError(f"'{path}' is no tokenizer.json: not an object with a decoder")
        decoders = [part.get("type") for part in parts_of(content.get("decoder"))]
        if decoders != ["ByteLevel"]:
            advice = "; it comes from SentencePiece: give its tokenizer.model" if "ByteFallback" in decoders else ""
            name = decoders[0] if decoders else None
            raise ToolError(f"'{path}' has decoder {name}; mylos reads byte-level BPE (ByteLevel: GPT-2, Llama 3, ...){advice}")
        try:
            self.tokenizer = Tokenizer.from_file(path)
        except Exception as e:  # the library raises bare Exception
            raise ToolError(f"cannot read tokenizer '{path}': {e}") from e
        # A document that spells out a special token is text like any other: its end must not be forged.
        self.tokenizer.encode_special_tokens = True
        # Some files carry the settings of an inference run.
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.dummy_prefix = False
        self.end_of_text = self._end_of_text(path)
        reasons = [f"it normalises its text ({part.get('type')})" for part in parts_of(content.get("normalizer"))[:1]]
        if any(part.get("add_prefix_space") for part in parts_of(content.get("pre_tokenizer"))):
            reasons.append("it puts a space before texts (add_prefix_space)")
        self.lossy = "; ".join(reasons)

    def _end_of_text(self, path):
        for name in END_NAMES:
            if (token := self.tokenizer.token_to_id(name)) is not None:
                return token
        raise ToolError(f"'{path}' has no token that ends a text (looked for {', '.join(END_NAMES)})")

    @property
    def rows(self):
        letters = byte_of_letter()
        added = self.tokenizer.get_added_tokens_decoder()

        def row(i):
            if i in added:
                return b"" if added[i].special else added[i].content.encode()
            # Ids that no token has can stand between the vocabulary and the added tokens.
            return bytes(letters[c] for c in self.tokenizer.id_to_token(i) or "")

        return [row(i) for i in range(max(self.tokenizer.get_vocab(with_added_tokens=True).values()) + 1)]

    def encode_batch(self, texts, continues):
        return [e.ids for e in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


def open_tokenizer(path):
    if not path.endswith(".model"):
        return HuggingFaceTokenizer(path)
    from sentencepiece_model import SentencePieceTokenizer

    return SentencePieceTokenizer(path)


def table_path(path):
    return (path[:-5] if path.endswith(".json") else path) + ".bytes.json"


def write_table(path, out=None):
    tokenizer = open_tokenizer(path)
    table = {"format": "mylos-token-bytes", "version": 1, "end_of_text": tokenizer.end_of_text}
    if tokenizer.dummy_prefix:
        table["dummy_prefix"] = True
    if tokenizer.lossy:
        table["lossy"] = tokenizer.lossy
    table["tokens"] = [row.hex() for row in tokenizer.rows]
    write_atomically(out or table_path(path), json.dumps(table) + "\n")


class Table:
    """The bytes of every token, as mylos decodes them."""

    def __init__(self, path):
        self.path = table_path(path)
        if not os.path.exists(self.path):
            write_table(path)
        with open(self.path, encoding="utf-8") as file:
            content = json.load(file)
        self.rows = [bytes.fromhex(row) for row in content["tokens"]]
        self.dummy_prefix = content.get("dummy_prefix", False)
        self.lossy = content.get("lossy", "")

    def check(self, raw, continues, ids):
        """That these tokens are this text, unless the tokenizer was known not to keep every text."""
        if self.lossy:
            return
        back = b"".join(map(self.rows.__getitem__, ids))
        if self.dummy_prefix and not continues and ids and self.rows[ids[0]].startswith(b" "):
            back = back[1:]
        if back != raw:
            at = next((i for i, (a, b) in enumerate(zip(back, raw, strict=False)) if a != b), min(len(back), len(raw)))
            context = slice(max(at - 20, 0), at + 20)
            raise ToolError(f"the tokenizer changes byte {at} of a text: {raw[context]!r} comes back as {back[context]!r}")


def train(args):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    if args.vocab < 257:
        raise ToolError(f"--vocab {args.vocab}: at least 257 (all bytes and the end token) are needed")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=args.vocab,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(byte_of_letter()),
        show_progress=False,
    )
    # Whole batches: the library takes its texts from Python one by one, and waits for each.
    texts = ([raw.decode("utf-8") for raw, _ in batch] for batch in texts_from_stdin())
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(args.out + ".partial")
    os.replace(args.out + ".partial", args.out)
    write_table(args.out)


def encode(args):
    # mylos runs as many of these processes as it wants threads.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    tokenizer, table = open_tokenizer(args.tokenizer), Table(args.tokenizer)
    out = sys.stdout.buffer
    for batch in texts_from_stdin():
        continues = [c for _, c in batch]
        tokens = tokenizer.encode_batch([raw.decode("utf-8") for raw, _ in batch], continues)
        for (raw, c), ids in zip(batch, tokens, strict=True):
            table.check(raw, c, ids)
            out.write(len(ids).to_bytes(8, "little"))
            out.write(array.array("I", ids).tobytes())
        out.flush()


def encode_prompt(args):
    raw = sys.stdin.buffer.read()
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as e:
        raise ToolError(f"byte {e.start} of the prompt is not UTF-8") from e
    print(json.dumps(open_tokenizer(args.tokenizer).encode_batch([text], [False])[0]))


def decode(args):
    table = Table(args.tokenizer)
    with open(args.shard + ".json", encoding="utf-8") as file:
        dtype = json.load(file)["dtype"]
    ids = array.array({"u16": "H", "u32": "I"}[dtype])
    with open(args.shard, "rb") as file:
        ids.frombytes(file.read())
    if sys.byteorder != "little":
        ids.byteswap()
    begins = table.dummy_prefix
    for i in ids:
        if i >= len(table.rows):
            raise ToolError(f"'{args.shard}' holds token {i}, '{table.path}' has {len(table.rows)}")
        row = table.rows[i]
        sys.stdout.buffer.write(row[1:] if begins and row.startswith(b" ") else row)
        begins = table.dummy_prefix and not row


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, run, *, tokenizer=False):
        p = commands.add_parser(name)
        p.set_defaults(run=run)
        if tokenizer:
            p.add_argument("--tokenizer", required=True, help="a tokenizer.json or a SentencePiece .model")
        return p

    p = command("train", train)
    p.add_argument("--vocab", type=int, required=True)
    p.add_argument("--out", required=True, help="tokenizer.json to write")
    p = command("table", lambda args: write_table(args.tokenizer, args.out))
    p.add_argument("tokenizer")
    p.add_argument("--out", help="table to write, if not beside TOKENIZER")
    command("encode", encode, tokenizer=True)
    command("encode-prompt", encode_prompt, tokenizer=True)
    p = command("decode", decode, tokenizer=True)
    p.add_argument("shard")
    return parser.parse_args()


def main():
    args = parse_arguments()
    try:
        args.run(args)
    except ModuleNotFoundError as e:
        # `google` is a namespace that protobuf fills.
        package = "protobuf" if e.name.startswith("google") else e.name
        sys.exit(f"{sys.executable} has no module '{e.name}': install {package}, or set MYLOS_PYTHON to another Python")
    except (ToolError, OSError, ValueError, KeyError) as e:
        sys.exit(str(e))


if __name__ == "__main__":
    main()
