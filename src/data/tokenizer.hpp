// Text to tokens and back.
//
// "byte": each byte is its token, 256 ends a text (vocabulary 257). Otherwise a Hugging Face tokenizer.json with
// byte-level BPE (GPT-2, Llama 3, or trained by `mylos tokenize`) or a SentencePiece .model: encoding runs
// tools/tokenizer.py, decoding needs only the table of bytes beside it (tokenizer.bytes.json, tokenizer.model.bytes.json;
// written by the same tool). Decoding gives back the exact bytes, unless lossy() says why not; special tokens decode to
// nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mylos::data {

inline constexpr std::int32_t kByteEndOfText = 256;
inline constexpr std::int64_t kByteVocab = 257;

// The bytes of every token of a vocabulary.
struct TokenBytes {
  std::vector<std::string> tokens;
  std::int32_t end_of_text = -1;  // -1: none
  bool dummy_prefix = false;      // a space at the begin of a text is the tokenizer's own
  std::string lossy;              // why some texts come back changed; empty: none does
};
// {"format": "mylos-token-bytes", "version": 1, "end_of_text": 0, "tokens": ["", "21", "c3a9", ...]}, bytes in
// hexadecimal; "dummy_prefix" and "lossy" may be left out. Throws Error naming `name` for anything else.
TokenBytes parse_token_bytes(std::string_view json, const std::string& name);

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t vocab() const = 0;
  virtual std::int32_t end_of_text() const = 0;  // -1: none
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  // before: the token before them, in the vocabulary; -1: a text begins, as it does after every token without bytes. An
  // Error for a token outside the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> tokens, std::int32_t before = -1) const = 0;
  virtual std::string lossy() const { return ""; }  // why some texts come back changed; empty: none does
};

// name: "byte", or the path of a tokenizer.json or of a SentencePiece .model.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name);

bool is_sentencepiece(std::string_view name);  // by its ending, .model
// "dir/tokenizer.json" -> "dir/tokenizer.bytes.json", "dir/tokenizer.model" -> "dir/tokenizer.model.bytes.json".
std::string token_bytes_path(const std::string& tokenizer);

}  // namespace mylos::data
