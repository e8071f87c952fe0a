#include "benchmarks/cases/corpus.hpp"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "base/error.hpp"

namespace mylos::bench {

Folder::Folder() : path_((std::filesystem::temp_directory_path() / "mylos-bench-XXXXXX").string()) {
  check(::mkdtemp(path_.data()) != nullptr, "a folder like '{}' cannot be made; set TMPDIR to one that can be written",
        path_);
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Corpus::Corpus(std::int64_t tokens) {
  std::mt19937_64 random(1);
  constexpr double kSigma = 1.2;
  std::lognormal_distribution<double> length(std::log(600.0) - kSigma * kSigma / 2, kSigma);
  tokens_.resize(std::size_t(tokens));
  for (std::uint16_t& t : tokens_) t = std::uint16_t(random() % kEnd);
  for (std::int64_t at = 0; (at += 1 + std::int64_t(length(random))) < tokens;) tokens_[std::size_t(at)] = kEnd;
  std::ofstream out(file(), std::ios::binary);
  out.write(reinterpret_cast<const char*>(tokens_.data()), std::streamsize(tokens_.size() * 2));
  check(bool(out.flush()), "the corpus '{}' of {} bytes cannot be written; is the disk full?", file(), tokens * 2);
}

std::shared_ptr<const Corpus> corpus_of(std::int64_t tokens) {
  static std::map<std::int64_t, std::shared_ptr<const Corpus>> made;
  std::shared_ptr<const Corpus>& corpus = made[tokens];
  if (!corpus) corpus = std::make_shared<const Corpus>(tokens);
  return corpus;
}

}  // namespace mylos::bench
