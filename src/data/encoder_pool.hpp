// Texts to tokens, in several processes of tools/tokenizer.py or, for the byte tokenizer, right here.
//
// encode() hands over a batch and returns at once; the tokens of a text do not depend on the number of processes. A process
// is started when a batch comes and the others are busy, up to `jobs`. An Error of a process is thrown by get().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace mylos::data {

class TokenizerProcess;

using TokenBatch = std::vector<std::vector<std::uint32_t>>;  // of each text

struct EncoderText {
  std::string text;
  bool continues = false;  // the document of the text before it
};

class EncoderPool {
 public:
  // tokenizer: "byte", or a tokenizer.json or SentencePiece .model with its table beside it.
  EncoderPool(std::string tokenizer, std::int64_t vocab, int jobs);
  ~EncoderPool();
  EncoderPool(const EncoderPool&) = delete;
  EncoderPool& operator=(const EncoderPool&) = delete;

  std::future<TokenBatch> encode(std::vector<EncoderText> texts);

 private:
  using Task = std::packaged_task<TokenBatch(std::unique_ptr<TokenizerProcess>&)>;
  void work();
  TokenBatch exchange(TokenizerProcess& process, const std::vector<EncoderText>& texts) const;

  std::string tokenizer_;
  std::int64_t vocab_;
  int jobs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  int idle_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

// Batches as processes read them: a count, then each text with its length before it; the highest bit of the length says
// that it continues a document.
void send_texts(TokenizerProcess& process, const std::vector<EncoderText>& texts);

}  // namespace mylos::data
