#include "data/encoder_pool.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "data/python_tool.hpp"

namespace mylos::data {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers travel as little-endian bytes");

constexpr std::uint64_t kMaxTokensOfText = std::uint64_t(1) << 32;

TokenBatch bytes_of(const std::vector<EncoderText>& texts) {
  TokenBatch all;
  all.reserve(texts.size());
  for (const auto& [text, continues] : texts) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    all.emplace_back(bytes, bytes + text.size());
  }
  return all;
}

}  // namespace

void send_texts(TokenizerProcess& process, const std::vector<EncoderText>& texts) {
  std::string frame;
  const auto put = [&](std::uint64_t n) { frame.append(reinterpret_cast<const char*>(&n), sizeof n); };
  put(texts.size());
  for (const auto& [text, continues] : texts) {
    put(text.size() | std::uint64_t(continues) << 63);
    frame += text;
  }
  process.send(frame);
}

EncoderPool::EncoderPool(std::string tokenizer, std::int64_t vocab, int jobs)
    : tokenizer_(std::move(tokenizer)), vocab_(vocab), jobs_(jobs) {}

EncoderPool::~EncoderPool() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    tasks_.clear();
  }
  changed_.notify_all();
  for (std::thread& t : threads_) t.join();
}

std::future<TokenBatch> EncoderPool::encode(std::vector<EncoderText> texts) {
  if (tokenizer_ == "byte")
    return std::async(std::launch::deferred, [texts = std::move(texts)] { return bytes_of(texts); });
  Task task([this, texts = std::move(texts)](std::unique_ptr<TokenizerProcess>& process) {
    // Made here, so that failing to start one reaches whoever waits for the tokens.
    if (!process)
      process = std::make_unique<TokenizerProcess>(std::vector<std::string>{"encode", "--tokenizer", tokenizer_});
    return exchange(*process, texts);
  });
  std::future<TokenBatch> result = task.get_future();
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  if (idle_ < int(tasks_.size()) && int(threads_.size()) < jobs_) threads_.emplace_back([this] { work(); });
  changed_.notify_one();
  return result;
}

void EncoderPool::work() {
  std::unique_ptr<TokenizerProcess> process;
  for (;;) {
    std::optional<Task> task;
    {
      std::unique_lock lock(mutex_);
      ++idle_;
      changed_.wait(lock, [&] { return ending_ || !tasks_.empty(); });
      --idle_;
      if (ending_) return;
      task.emplace(std::move(tasks_.front()));
      tasks_.pop_front();
    }
    (*task)(process);
  }
}

TokenBatch EncoderPool::exchange(TokenizerProcess& process, const std::vector<EncoderText>& texts) const {
  send_texts(process, texts);
  TokenBatch all(texts.size());
  for (std::vector<std::uint32_t>& tokens : all) {
    std::uint64_t count = 0;
    process.receive(&count, sizeof count);
    check(count < kMaxTokensOfText, "tools/tokenizer.py answered with {} tokens for one text", count);
    tokens.resize(count);
    process.receive(tokens.data(), count * sizeof(std::uint32_t));
    for (const std::uint32_t t : tokens)
      check(t < vocab_, "'{}' made token {}, which its vocabulary of {} does not hold", tokenizer_, t, vocab_);
  }
  return all;
}

}  // namespace mylos::data
