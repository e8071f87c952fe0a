// Text to tokens with the byte tokenizer, in memory and from a file into shards. Other tokenizers run in processes of their own.
#include <filesystem>
#include <fstream>

#include "benchmarks/cases/cases.hpp"
#include "benchmarks/cases/corpus.hpp"
#include "data/tokenize.hpp"
#include "data/tokenizer.hpp"

namespace mylos::bench {
namespace {

// Printable, lines of 80.
std::string text_of(std::int64_t bytes) {
  std::string text(std::size_t(bytes), ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = i % 80 == 79 ? '\n' : char(' ' + i * 7919 % 95);
  return text;
}

Set encoding(std::int64_t bytes) {
  const auto text = std::make_shared<std::string>(text_of(bytes));
  const std::shared_ptr<const data::Tokenizer> tokenizer = data::make_tokenizer("byte");
  const auto tokens = std::make_shared<std::vector<std::int32_t>>();
  const Call call = [=] { *tokens = tokenizer->encode(*text); };
  return {call, [=]() -> Check {
            call();
            return {tokenizer->decode(*tokens) == *text ? 0.0 : 1.0, 0, "the text, decoded"};
          }};
}

Set tokenizing(std::int64_t bytes) {
  struct State {
    Folder folder = {};
    std::int64_t runs = 0, tokens = 0;
  };
  const auto s = std::make_shared<State>();
  std::ofstream(s->folder.file("text.txt"), std::ios::binary) << text_of(bytes);
  const Call call = [=] {
    const std::string out = s->folder.file(fmt::format("out{}", s->runs++ % 2));
    std::filesystem::remove_all(out);
    s->tokens =
        data::tokenize({.inputs = {s->folder.file("text.txt")}, .out = out, .validation_fraction = 0}).train.tokens;
  };
  return {call, [=]() -> Check {
            call();
            return {double(std::abs(s->tokens - bytes - 1)), 0, "the bytes of the text and an end token"};
          }};
}

}  // namespace

void add_tokenizing(Cases& cases, const Place& place) {
  const std::int64_t bytes = std::int64_t(place.quick ? 1 : 16) << 20;
  const auto add = [&](const char* name, Set (*make)(std::int64_t)) {
    cases.push_back({.name = name,
                     .component = "data",
                     .runs = Runs::host,
                     .work = {.bytes = double(bytes),
                              .items = double(bytes),
                              .item_units = "characters",
                              .source = "bytes of the text"},
                     .make = [=](Pool&) { return make(bytes); },
                     .warm = true});
  };
  add("data/tokenize/byte", encoding);
  add("data/tokenize/file_to_shards", tokenizing);
}

}  // namespace mylos::bench
