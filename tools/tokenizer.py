#!/usr/bin/env python3
"""Byte-level BPE for mylos, through Hugging Face `tokenizers`.

  train --vocab 4096 --out tokenizer.json < texts        train on the texts that mylos sends; writes the table too
  table tokenizer.json                                   tokenizer.bytes.json: the bytes of every token
  encode --tokenizer tokenizer.json < texts > tokens     of each text: their number (8 bytes), then 4 bytes a token
  encode-prompt --tokenizer tokenizer.json < text        a JSON list of tokens
  decode --tokenizer tokenizer.json SHARD > text         the text of a shard, byte for byte

`mylos tokenize` calls it; docs/data.md describes the files. Results go to stdout as JSON, errors are a line on stderr.
"""

import argparse
import array
import json
import os
import sys

END_OF_TEXT = "<|end_of_text|>"
# Names under which known tokenizers keep the token that ends a document (mylos, GPT-2, Llama 3).
END_NAMES = (END_OF_TEXT, "<|endoftext|>", "</s>")


class ToolError(Exception):
    pass


def byte_of_letter():
    """GPT-2's alphabet: each byte is a printable letter; bytes that are not printable move to 256 and above."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [b for b in range(256) if b not in printable]
    return {**{chr(b): b for b in printable}, **{chr(256 + i): b for i, b in enumerate(moved)}}


def texts_from_stdin():
    """The texts that mylos sends: batches, each a count and then every text with its length before it."""
    stream = sys.stdin.buffer

    def number():
        raw = stream.read(8)
        if raw and len(raw) < 8:
            raise ToolError("the input ends in the middle of a number")
        return int.from_bytes(raw, "little") if raw else None

    while (count := number()) is not None:
        batch = []
        for _ in range(count):
            length = number()
            raw = stream.read(length or 0)
            if length is None or len(raw) < length:
                raise ToolError("the input ends in the middle of a text")
            batch.append(raw.decode("utf-8"))
        yield batch


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
    # Whole batches: the library takes its texts from Python one by one, and waits for each.
    tokenizer.train_from_iterator(texts_from_stdin(), trainer)
    tokenizer.save(args.out + ".partial")
    os.replace(args.out + ".partial", args.out)
    write_table(args.out)


def encode(args):
    # mylos runs as many of these processes as it wants threads.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    tokenizer = encoder(args.tokenizer)
    out = sys.stdout.buffer
    for batch in texts_from_stdin():
        for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False):
            ids = array.array("I", encoding.ids)
            out.write(len(ids).to_bytes(8, "little"))
            out.write(ids.tobytes())
        out.flush()


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


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, run, *, tokenizer=False):
        p = commands.add_parser(name)
        p.set_defaults(run=run)
        if tokenizer:
            p.add_argument("--tokenizer", required=True, help="a tokenizer.json")
        return p

    p = command("train", train)
    p.add_argument("--vocab", type=int, required=True)
    p.add_argument("--out", required=True, help="tokenizer.json to write")
    p = command("table", lambda args: write_table(args.tokenizer))
    p.add_argument("tokenizer")
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
        sys.exit(f"{sys.executable} has no module '{e.name}': install tokenizers, or set MYLOS_PYTHON to another Python")
    except (ToolError, OSError, ValueError, KeyError) as e:
        sys.exit(str(e))


if __name__ == "__main__":
    main()
