// Text from trained weights: one token after another, each from the logits of the last position of a window of S tokens.
//
// The window slides: beyond S tokens the oldest fall out. Tokens are drawn with Philox, so (weights, prompt, seed, options) decide
// the text; temperature 0 takes the most likely token.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mylos::train {

struct SamplingOptions {
  double temperature = 0.8;  // 0: the most likely token
  std::int64_t top_k = 0;    // draw from the k most likely; 0: from all
  std::uint64_t seed = 1;
};
// Position `index` of the random numbers; ties go to the lower token. Throws Error when no logit is finite.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, std::uint64_t index);

struct GenerationOptions {
  std::string weights;
  std::string prompt;     // the end-of-text token, if there is one, comes before it: the start of a document
  std::string tokenizer;  // empty: what the weight file names
  std::int64_t tokens = 100;
  std::int64_t window = 0;  // S; 0: the sequence the model was trained on
  SamplingOptions sampling;
};

struct Generated {
  std::vector<std::int32_t> tokens;  // without the prompt and the end token
  std::string text;
  bool ended = false;  // by the model, with the end-of-text token
  double seconds = 0;
};

// on_bytes gets the bytes of each token as it comes; may be empty. A Runtime must be alive.
Generated generate(const GenerationOptions& options, const std::function<void(std::string_view)>& on_bytes = {});

}  // namespace mylos::train
