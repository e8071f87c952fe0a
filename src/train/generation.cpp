#include "train/generation.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <system_error>

#include "base/error.hpp"
#include "data/tokenizer.hpp"
#include "model/transformer.hpp"
#include "tensor/philox.hpp"
#include "train/weights.hpp"

namespace mylos::train {
namespace {

// The last tokens of a text, through the model.
class Window {
 public:
  Window(const model::ModelConfig& model, const model::ExecutionConfig& execution, Arena& arena)
      : length_(execution.sequence),
        model_(model, execution, arena),
        tokens_(arena.take(DType::i32, {1, length_}, "batch")),
        positions_(arena.take(DType::i32, {1, length_}, "batch")),
        last_(arena.take(DType::i32, {1}, "batch")),
        logits_(arena.take(DType::f32, {1, model.vocab}, "batch")) {}

  const model::Transformer& model() const { return model_; }

  void initialize(const Stream& stream) {
    std::vector<std::int32_t> positions(static_cast<std::size_t>(length_));
    std::iota(positions.begin(), positions.end(), 0);
    put(stream, positions, positions_);
  }

  std::vector<float> logits(const Stream& stream, const std::vector<std::int32_t>& text) {
    const std::size_t used = std::min(text.size(), std::size_t(length_));
    // What stands after the last token is not seen by it.
    std::vector<std::int32_t> window(static_cast<std::size_t>(length_), 0);
    std::copy(text.end() - std::ptrdiff_t(used), text.end(), window.begin());
    put(stream, window, tokens_);
    put(stream, {std::int32_t(used) - 1}, last_);
    model_.logits_at(stream, {.tokens = tokens_, .labels = {}, .positions = positions_, .documents = {}}, last_,
                     logits_);
    std::vector<float> out(static_cast<std::size_t>(logits_.size()));
    download(stream, logits_, out.data(), logits_.bytes());
    return out;
  }

 private:
  static void put(const Stream& stream, const std::vector<std::int32_t>& values, const Tensor& t) {
    upload(stream, values.data(), std::int64_t(values.size() * sizeof(std::int32_t)), t);
    stream.fence();  // `values` may go now
  }

  std::int64_t length_;
  model::Transformer model_;
  Tensor tokens_, positions_, last_, logits_;
};

}  // namespace

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, std::uint64_t index) {
  std::vector<std::int32_t> order;
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (std::isfinite(logits[i])) order.push_back(std::int32_t(i));
  check(!order.empty(), "none of the {} logits is finite; the weights are damaged or the training diverged",
        logits.size());
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[std::size_t(a)], y = logits[std::size_t(b)];
    return x != y ? x > y : a < b;
  };
  const bool greedy = options.temperature <= 0.0;
  const std::size_t k = greedy              ? 1
                        : options.top_k > 0 ? std::min(order.size(), std::size_t(options.top_k))
                                            : order.size();
  std::partial_sort(order.begin(), order.begin() + std::ptrdiff_t(k), order.end(), likelier);
  if (greedy) return order[0];

  std::vector<double> cumulative(k);
  double sum = 0;
  const double top = logits[std::size_t(order[0])];
  for (std::size_t i = 0; i < k; ++i)
    cumulative[i] = sum += std::exp((double(logits[std::size_t(order[i])]) - top) / options.temperature);
  // Two words give a number in (0, 1) of 48 bits: with 24 alone the rarest tokens of a large vocabulary could never be drawn.
  const PhiloxBlock words = philox(options.seed, Purpose::sampling, 0, index);
  const double u = (double(words.v[0] >> 8) * 0x1p24 + double(words.v[1] >> 8) + 0.5) * 0x1p-48;
  const auto found = std::lower_bound(cumulative.begin(), cumulative.end(), u * sum);
  return order[std::min(k - 1, std::size_t(found - cumulative.begin()))];
}

Generated generate(const GenerationOptions& options, const std::function<void(std::string_view)>& on_bytes) {
  check(options.tokens >= 1, "{} tokens asked for; ask for at least 1", options.tokens);
  check(options.sampling.temperature >= 0.0 && std::isfinite(options.sampling.temperature),
        "the temperature is {}; it must be 0 or more", options.sampling.temperature);
  check(options.sampling.top_k >= 0, "top-k is {}; it must be 0 (all) or more", options.sampling.top_k);
  const WeightsFile file = describe_weights(options.weights);
  const std::string name = options.tokenizer.empty() ? file.tokenizer : options.tokenizer;
  check(!name.empty(),
        "'{}' does not say which tokenizer its tokens are from; name it with --tokenizer (byte, a tokenizer.json or a "
        "SentencePiece .model)",
        options.weights);
  std::error_code error;
  check(!options.tokenizer.empty() || name == "byte" || std::filesystem::exists(name, error),
        "the tokenizer '{}' that '{}' names is not there; say where it is now with --tokenizer", name, options.weights);
  const std::unique_ptr<data::Tokenizer> tokenizer = data::make_tokenizer(name);
  check(tokenizer->vocab() <= file.config.model.vocab,
        "tokenizer '{}' has {} tokens, the model {}; it is not the one the model was trained with", name,
        tokenizer->vocab(), file.config.model.vocab);

  model::ExecutionConfig execution = train::execution(file.config);
  execution.batch = 1;
  execution.training = false;
  execution.documents = false;
  execution.fused_swiglu_forward = execution.fused_swiglu_backward = false;  // weights go where no Hopper is
  check(options.window >= 0, "the window is {}; it must be 1 or more tokens, or 0 for that of the training",
        options.window);
  if (options.window > 0) execution.sequence = options.window;
  check(execution.sequence <= file.config.model.max_seq_len,
        "the window is {} tokens; the model knows positions up to {}", execution.sequence,
        file.config.model.max_seq_len);
  Arena plan;
  { const Window measured(file.config.model, execution, plan); }
  Arena arena(plan.peak_bytes(), "generation");
  Window window(file.config.model, execution, arena);
  const Stream stream;
  window.initialize(stream);
  load_weights(options.weights, stream, window.model());

  std::vector<std::int32_t> text;
  if (tokenizer->end_of_text() >= 0) text.push_back(tokenizer->end_of_text());
  if (!options.prompt.empty()) {
    const std::vector<std::int32_t> prompt = tokenizer->encode(options.prompt);
    text.insert(text.end(), prompt.begin(), prompt.end());
  }
  check(!text.empty(), "the prompt is empty and tokenizer '{}' has no end-of-text token to start from; give a prompt",
        name);

  Generated result;
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    std::vector<float> logits = window.logits(stream, text);
    // A model may have more rows than the tokenizer has tokens (padding of the vocabulary): they stand for nothing.
    logits.resize(std::size_t(tokenizer->vocab()));
    const std::int32_t token = sample_token(logits, options.sampling, std::uint64_t(i));
    if (token == tokenizer->end_of_text()) {
      result.ended = true;
      break;
    }
    const std::string bytes = tokenizer->decode(std::span(&token, 1), text.back());
    text.push_back(token);
    result.tokens.push_back(token);
    result.text += bytes;
    if (on_bytes) on_bytes(bytes);
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace mylos::train
