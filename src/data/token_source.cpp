#include "data/token_source.hpp"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.hpp"
#include "data/document_index.hpp"
#include "data/megatron.hpp"
#include "data/sidecar.hpp"
#include "data/tokenizer.hpp"

namespace mylos::data {
namespace fs = std::filesystem;

std::vector<std::string> expand_files(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    std::error_code error;
    if (fs::exists(pattern, error)) {  // a name that holds brackets is still a name
      files.push_back(pattern);
      continue;
    }
    glob_t found{};
    const int status = ::glob(pattern.c_str(), 0, nullptr, &found);
    const std::size_t before = files.size();
    if (status == 0)
      for (std::size_t i = 0; i < found.gl_pathc; ++i)
        if (const std::string_view path = found.gl_pathv[i];
            !path.ends_with(".json") && !path.ends_with(".idx") && !path.ends_with(".documents"))
          files.emplace_back(path);
    ::globfree(&found);
    check(status == 0 || status == GLOB_NOMATCH, "cannot search for '{}': {}", pattern,
          status == GLOB_NOSPACE ? "out of memory" : "a folder cannot be read");
    check(files.size() > before, "no file matches '{}' (in folder '{}')", pattern, fs::current_path().string());
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

namespace {

std::string tokenizer_of(const std::string& token_file, const std::optional<Sidecar>& sidecar) {
  const std::string name = sidecar ? sidecar->tokenizer : "";
  if (name.empty() || name == "byte") return name;
  return (fs::path(token_file).parent_path() / name).lexically_normal().string();
}

}  // namespace

std::string tokenizer_of(const TokenFile& file) { return tokenizer_of(file.path(), file.sidecar()); }

std::vector<std::string> files_read_with(const std::string& token_file) {
  std::vector<std::string> files{token_file, sidecar_path(token_file), document_index_path(token_file)};
  if (token_file.ends_with(".bin")) files.push_back(megatron_index_path(token_file));
  const std::string tokenizer = tokenizer_of(token_file, read_sidecar(token_file));
  if (!tokenizer.empty() && tokenizer != "byte") {
    files.push_back(tokenizer);
    files.push_back(token_bytes_path(tokenizer));
  }
  return files;
}

TokenSource::TokenSource(const std::vector<std::string>& patterns, const TokenFormat& declared, std::int64_t vocab)
    : vocab_(vocab) {
  check(vocab > 0 && vocab <= std::int64_t(1) << 31, "a vocabulary of {} tokens; it must be from 1 to 2^31", vocab);
  check(!patterns.empty(), "no token files are named; set data.train to paths or globs of token files");
  begin_.push_back(0);
  for (std::string& path : expand_files(patterns)) {
    files_.emplace_back(std::move(path), declared);
    const TokenFile& file = files_.back();
    begin_.push_back(begin_.back() + file.size());
    if (file.dtype() == DType::u32) dtype_ = DType::u32;
    check(!file.sidecar() || file.sidecar()->vocab <= vocab,
          "'{}' has tokens of a vocabulary of {}, the model of {}: set model.vocab to at least {}", file.path(),
          file.sidecar() ? file.sidecar()->vocab : 0, vocab, file.sidecar() ? file.sidecar()->vocab : 0);
  }

  const auto stated = [](const TokenFile& f) { return f.sidecar().value_or(Sidecar{}); };
  const auto all = [&](auto&& holds) { return std::all_of(files_.begin(), files_.end(), holds); };
  const Sidecar first = stated(files_.front());
  if (all([&](const TokenFile& f) { return stated(f).text_bytes >= 0; })) {
    text_bytes_ = 0;
    for (const TokenFile& f : files_) text_bytes_ += stated(f).text_bytes;
  }
  if (all([&](const TokenFile& f) { return stated(f).end_of_text == first.end_of_text; }))
    end_of_text_ = first.end_of_text;
  const std::string tokenizer = tokenizer_of(files_.front());
  if (all([&](const TokenFile& f) { return tokenizer_of(f) == tokenizer; })) tokenizer_ = tokenizer;
}

std::size_t TokenSource::file_of(std::int64_t token) const {
  return std::size_t(std::upper_bound(begin_.begin(), begin_.end(), token) - begin_.begin()) - 1;
}

void TokenSource::check_range(std::int64_t first, std::int64_t count) const {
  check(first >= 0 && count >= 0 && first <= size() && count <= size() - first,
        "tokens {} to {} were asked for, the source holds {}", first, first + count, size());
}

void TokenSource::read(std::int64_t first, std::int64_t count, std::int32_t* out) const {
  for_each_part(first, count, [&](std::size_t file, std::int64_t from, std::int64_t here) {
    files_[file].read(from, here, vocab_, out);
    out += here;
  });
}

void TokenReader::copy(std::int64_t first, std::int64_t count, std::byte* out) {
  source_->check_range(first, count);
  while (count > 0) {
    if (first < begin_ || first >= end_) {
      const std::size_t i = source_->file_of(first);
      file_ = &source_->files()[i];
      begin_ = source_->begin_of(i);
      end_ = source_->begin_of(i + 1);
      trusted_ = 0;
    }
    if (trusted_ <= 0) {
      file_->check_whole_lately();
      trusted_ = kAskAfter;
    }
    const std::int64_t here = std::min(count, end_ - first);
    file_->copy(first - begin_, here, source_->vocab(), as_, out);
    trusted_ -= here * token_bytes_;
    out += here * token_bytes_;
    first += here;
    count -= here;
  }
}

void TokenReader::prefetch(std::int64_t first, std::int64_t count, std::int64_t stride) const {
  if (begin_ <= first && first + count <= end_) return file_->prefetch(first - begin_, count, stride);
  source_->for_each_part(first, count, [&](std::size_t file, std::int64_t from, std::int64_t here) {
    source_->files()[file].prefetch(from, here, stride);
  });
}

}  // namespace mylos::data
