#!/usr/bin/env python3
"""Byte-level BPE for mylos, through Hugging Face `tokenizers`.

  train --vocab 4096 --out tokenizer.json INPUTS...      train on text and .jsonl files; writes the table too
  table tokenizer.json                                   tokenizer.bytes.json: the bytes of every token
  encode --tokenizer tokenizer.json --out DIR INPUTS...  shards DIR/{train,validation}-00000.bin with sidecars
  encode-prompt --tokenizer tokenizer.json < text        a JSON list of tokens
  decode --tokenizer tokenizer.json SHARD > text         the text of a shard, byte for byte

`mylos tokenize` calls it; docs/data.md describes the files. Results go to stdout as JSON, errors are a line on stderr.
"""

import argparse
import array
import hashlib
import json
import math
import os
import sys

END_OF_TEXT = "<|end_of_text|>"
# Names under which known tokenizers keep the token that ends a document (mylos, GPT-2, Llama 3).
END_NAMES = (END_OF_TEXT, "<|endoftext|>", "</s>")
BATCH_BYTES = 8 << 20  # of text given to the library's threads at once


class ToolError(Exception):
    pass


def byte_of_letter():
    """GPT-2's alphabet: each byte is a printable letter; bytes that are not printable move to 256 and above."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [b for b in range(256) if b not in printable]
    return {**{chr(b): b for b in printable}, **{chr(256 + i): b for i, b in enumerate(moved)}}


def is_validation(document, fraction):
    """The same rule, in the same arithmetic, as src/data/tokenize.cpp."""
    return math.floor((document + 1) * fraction + 0.5) > math.floor(document * fraction + 0.5)


def documents(paths, field):
    """Every document that holds text, in order: a file, or a line of a .jsonl file."""
    for path in paths:
        with open(path, "rb") as file:
            if not path.endswith(".jsonl"):
                raw = file.read()
                try:
                    text = raw.decode("utf-8")
                except UnicodeDecodeError as e:
                    why = "leave the file out (--skip-invalid) or use the byte tokenizer"
                    raise ToolError(f"{path}: byte {e.start} is not UTF-8; {why}") from e
                if text:
                    yield text
                continue
            for number, line in enumerate(file, 1):
                if not line.strip(b" \t\r\n"):
                    continue
                try:
                    value = json.loads(line)
                except ValueError as e:
                    raise ToolError(f"{path}:{number}: not JSON") from e
                if not isinstance(value, dict) or not isinstance(value.get(field), str):
                    raise ToolError(f'{path}:{number}: no text under "{field}"; name the field with --jsonl-field')
                if any("\ud800" <= c <= "\udfff" for c in value[field]):
                    raise ToolError(f"{path}:{number}: half of a surrogate pair, which is no text")
                if value[field]:
                    yield value[field]


def input_paths(args):
    paths = args.inputs
    if args.inputs_from_stdin:
        paths = [os.fsdecode(p) for p in sys.stdin.buffer.read().split(b"\0") if p]
    if not paths:
        raise ToolError("no input files")
    return paths


def write_atomically(path, text):
    with open(path + ".partial", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".partial", path)


def load(path):
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(path)
    except Exception as e:  # the library raises bare Exception
        raise ToolError(f"cannot read tokenizer '{path}': {e}") from e


def encoder(path):
    tokenizer = load(path)
    # A document that spells out a special token is text like any other: its end must not be forged.
    tokenizer.encode_special_tokens = True
    return tokenizer


def end_of_text(tokenizer, path):
    for name in END_NAMES:
        if (token := tokenizer.token_to_id(name)) is not None:
            return token
    raise ToolError(f"'{path}' has no token that ends a text (looked for {', '.join(END_NAMES)})")


def table_path(path):
    return (path[:-5] if path.endswith(".json") else path) + ".bytes.json"


def write_table(path):
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
        except ValueError as e:
            raise ToolError(f"'{path}' is no tokenizer.json: {e}") from e
    if not isinstance(content, dict) or not isinstance(content.get("decoder") or {}, dict):
        raise ToolError(f"'{path}' is no tokenizer.json: not an object with a decoder")
    decoder = (content.get("decoder") or {}).get("type")
    if decoder != "ByteLevel":
        raise ToolError(f"'{path}' has decoder {decoder}; mylos reads byte-level BPE (ByteLevel: GPT-2, Llama 3, ...)")
    tokenizer = load(path)
    letters = byte_of_letter()
    added = tokenizer.get_added_tokens_decoder()
    vocab = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
    rows = []
    for i in range(vocab):
        if i in added:
            rows.append("" if added[i].special else added[i].content.encode().hex())
        else:
            word = tokenizer.id_to_token(i)
            # Ids that no token has can stand between the vocabulary and the added tokens.
            rows.append("" if word is None else bytes(letters[c] for c in word).hex())
    table = {"format": "mylos-token-bytes", "version": 1, "end_of_text": end_of_text(tokenizer, path), "tokens": rows}
    write_atomically(table_path(path), json.dumps(table) + "\n")


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
    # Validation text is held out of the tokenizer's training too.
    all_documents = enumerate(documents(input_paths(args), args.jsonl_field))
    seen = (text for i, text in all_documents if not is_validation(i, args.validation_fraction))
    tokenizer.train_from_iterator(seen, trainer)
    tokenizer.save(args.out + ".partial")
    os.replace(args.out + ".partial", args.out)
    write_table(args.out)
    print(json.dumps({"tokenizer": args.out, "vocab": tokenizer.get_vocab_size()}))


class ShardWriter:
    """Shards with sidecars, like src/data/shard_writer.hpp; ".partial" in their names until finish()."""

    def __init__(self, folder, stem, about, shard_tokens):
        self.folder, self.stem, self.about, self.shard_tokens = folder, stem, about, shard_tokens
        self.code = "H" if about["dtype"] == "u16" else "I"
        self.paths, self.sidecars, self.file = [], [], None
        self.total = {"documents": 0, "tokens": 0, "text_bytes": 0}

    def add(self, ids, text_bytes):
        if self.file is None:
            self.paths.append(os.path.join(self.folder, f"{self.stem}-{len(self.paths):05}.bin"))
            self.file = open(self.paths[-1] + ".partial", "wb")
            self.sum = hashlib.sha256()
            self.shard = dict.fromkeys(self.total, 0)
        raw = array.array(self.code, ids)
        if sys.byteorder != "little":
            raw.byteswap()
        raw = raw.tobytes()
        self.file.write(raw)
        self.sum.update(raw)
        for counts in (self.shard, self.total):
            counts["documents"] += 1
            counts["tokens"] += len(ids)
            counts["text_bytes"] += text_bytes
        if self.shard["tokens"] >= self.shard_tokens:
            self.close()

    def close(self):
        if self.file is not None:
            self.file.close()
            self.file = None
            kind = {"format": "mylos-tokens", "version": 1}
            self.sidecars.append({**kind, **self.about, **self.shard, "sha256": self.sum.hexdigest()})

    def finish(self):
        self.close()
        for path, sidecar in zip(self.paths, self.sidecars):
            write_atomically(path + ".json", json.dumps(sidecar, indent=2) + "\n")
            os.replace(path + ".partial", path)
        return {"shards": self.paths, **self.total}

    def discard(self):
        if self.file is not None:
            self.file.close()
        for path in self.paths:
            if os.path.exists(path + ".partial"):
                os.remove(path + ".partial")


def encode(args):
    tokenizer = encoder(args.tokenizer)
    vocab = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
    end = end_of_text(tokenizer, args.tokenizer)
    about = {
        "dtype": "u16" if vocab <= 1 << 16 else "u32",
        "vocab": vocab,
        "tokenizer": os.path.relpath(args.tokenizer, args.out),
        "end_of_text": end,
    }
    os.makedirs(args.out, exist_ok=True)
    sides = {name: ShardWriter(args.out, name, about, args.shard_tokens) for name in ("train", "validation")}
    count, batch, batch_bytes = 0, [], 0

    def flush():
        nonlocal count, batch, batch_bytes
        for text, encoding in zip(batch, tokenizer.encode_batch_fast(batch, add_special_tokens=False)):
            side = sides["validation" if is_validation(count, args.validation_fraction) else "train"]
            side.add([*encoding.ids, end], len(text.encode()))
            count += 1
        batch, batch_bytes = [], 0

    try:
        for text in documents(input_paths(args), args.jsonl_field):
            batch.append(text)
            batch_bytes += len(text)
            if batch_bytes >= BATCH_BYTES:
                flush()
        flush()
        if count == 0:
            raise ToolError("the inputs hold no text")
        if args.validation_fraction > 0 and sides["validation"].total["documents"] == 0:
            raise ToolError(
                f"{count} documents are too few for a validation fraction of {args.validation_fraction}: "
                f"use at least {0.5 / count} or 0"
            )
        if sides["train"].total["documents"] == 0:
            raise ToolError(
                f"a validation fraction of {args.validation_fraction} leaves no training document of {count}: "
                "use 0 or give more documents"
            )
        result = {name: side.finish() for name, side in sides.items()}
    except BaseException:
        for side in sides.values():
            side.discard()
        raise
    print(json.dumps({**result, "vocab": vocab, "tokenizer": args.tokenizer}))


def encode_prompt(args):
    raw = sys.stdin.buffer.read()
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as e:
        raise ToolError(f"byte {e.start} of the prompt is not UTF-8") from e
    print(json.dumps(encoder(args.tokenizer).encode(text, add_special_tokens=False).ids))


def decode(args):
    path = table_path(args.tokenizer)
    if not os.path.exists(path):
        write_table(args.tokenizer)
    with open(path, encoding="utf-8") as file:
        rows = [bytes.fromhex(row) for row in json.load(file)["tokens"]]
    with open(args.shard + ".json", encoding="utf-8") as file:
        dtype = json.load(file)["dtype"]
    ids = array.array({"u16": "H", "u32": "I"}[dtype])
    with open(args.shard, "rb") as file:
        ids.frombytes(file.read())
    if sys.byteorder != "little":
        ids.byteswap()
    for i in ids:
        if i >= len(rows):
            raise ToolError(f"'{args.shard}' holds token {i}, '{path}' has {len(rows)}")
        sys.stdout.buffer.write(rows[i])


def fraction(text):
    value = float(text)
    if not 0 <= value <= 0.5:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 0.5")
    return value


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, run, *, corpus=False, tokenizer=False):
        p = commands.add_parser(name)
        p.set_defaults(run=run)
        if tokenizer:
            p.add_argument("--tokenizer", required=True, help="a tokenizer.json")
        if corpus:
            p.add_argument("inputs", nargs="*", help="text files (a document each), .jsonl files (a document a line)")
            p.add_argument("--inputs-from-stdin", action="store_true", help="names on stdin, each ended by a zero byte")
            p.add_argument("--jsonl-field", default="text")
            p.add_argument("--validation-fraction", type=fraction, default=0.01, help="of the documents, evenly spread")
        return p

    p = command("train", train, corpus=True)
    p.add_argument("--vocab", type=int, required=True)
    p.add_argument("--out", required=True, help="tokenizer.json to write")
    p = command("table", lambda args: write_table(args.tokenizer))
    p.add_argument("tokenizer")
    p = command("encode", encode, corpus=True, tokenizer=True)
    p.add_argument("--out", required=True, help="folder of the shards")
    p.add_argument("--shard-tokens", type=int, default=1 << 28)
    command("encode-prompt", encode_prompt, tokenizer=True)
    p = command("decode", decode, tokenizer=True)
    p.add_argument("shard")
    return parser.parse_args()


def main():
    args = parse_arguments()
    try:
        args.run(args)
    except ModuleNotFoundError as e:
        sys.exit(f"{sys.executable} has no module '{e.name}': install tokenizers, or set MYLOS_PYTHON to another Python")
    except (ToolError, OSError, ValueError, KeyError) as e:
        sys.exit(str(e))


if __name__ == "__main__":
    main()
