// Small tokenizers as models ship them, trained for a test: tokenizer.json files and SentencePiece models.
#pragma once

#include <string>

#include "data/files.hpp"
#include "data/texts.hpp"

namespace mylos::test {

// gpt2.json, llama3.json: byte-level BPE with the pre-tokenizer and the special tokens of GPT-2 or Llama 3. The others have
// something that changes text: nfc.json normalises, prefix.json puts a space before it, and cut.json comes with the
// truncation and padding of an inference run.
inline void make_tokenizer_files(const TemporaryFolder& folder) {
  static const char* const kScript = R"(
import sys
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
llama = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
text = ["the mill grinds the grain, 12345 times"] * 9
for name, end, pre in (
    ("gpt2", "<|endoftext|>", ByteLevel(add_prefix_space=False)),
    ("llama3", "<|end_of_text|>", Sequence([Split(Regex(llama), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)])),
):
    t = Tokenizer(models.BPE(ignore_merges=name == "llama3"))
    t.pre_tokenizer, t.decoder = pre, decoders.ByteLevel()
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=300, initial_alphabet=ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens([AddedToken("<|begin_of_text|>", special=True), AddedToken(end, special=True)])
    t.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))])
    t.save(f"{sys.argv[1]}/{name}.json")
t.normalizer = normalizers.NFC()
t.save(f"{sys.argv[1]}/nfc.json")
t.normalizer, t.pre_tokenizer = None, ByteLevel(add_prefix_space=True)
t.save(f"{sys.argv[1]}/prefix.json")
t.pre_tokenizer = ByteLevel(add_prefix_space=False)
t.enable_truncation(8)
t.enable_padding(length=100)
t.save(f"{sys.argv[1]}/cut.json")
)";
  data::run_program({test_python(), "-c", kScript, folder.path()}, "");
}

// bpe.model and unigram.model give every text back (as Llama 2's does), noprefix.model too and without a dummy prefix.
// t5.model is trained as the library does by default and does not; noeos.model has no </s>, suffix.model writes spaces
// after words.
inline void make_sentencepiece_models(const TemporaryFolder& folder) {
  static const char* const kScript = R"(
import sys
from sentencepiece import SentencePieceTrainer
text = ["the mill grinds the grain, 12345 times", "a stone turns  and the flour falls"] * 50
exact = dict(byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, vocab_size=340)
for name, options in dict(
    bpe=dict(model_type="bpe", **exact),
    unigram=dict(model_type="unigram", **exact),
    noprefix=dict(model_type="bpe", add_dummy_prefix=False, **exact),
    t5=dict(model_type="unigram", vocab_size=60),
    noeos=dict(model_type="bpe", eos_id=-1, **exact),
    suffix=dict(model_type="bpe", treat_whitespace_as_suffix=True, **exact),
).items():
    with open(f"{sys.argv[1]}/{name}.model", "wb") as out:
        SentencePieceTrainer.train(
            sentence_iterator=iter(text), model_writer=out, minloglevel=2, hard_vocab_limit=False, **options)
)";
  data::run_program({test_python(), "-c", kScript, folder.path()}, "");
}

}  // namespace mylos::test
