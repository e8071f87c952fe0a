// A corpus for the cases of data: u16 tokens of documents of log-normal length (mean 600 tokens, as web text has), in a file of the folder for
// temporary files. Made when first asked for, shared by all cases, gone with the program.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mylos::bench {

// A folder of its own among the temporary files; it goes with the object.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

class Corpus {
 public:
  static constexpr std::int64_t kVocab = 50257;
  static constexpr std::uint16_t kEnd = 50256;

  explicit Corpus(std::int64_t tokens);
  std::string file() const { return folder_.file("tokens.bin"); }
  const std::vector<std::uint16_t>& tokens() const { return tokens_; }

 private:
  Folder folder_;
  std::vector<std::uint16_t> tokens_;
};

// The one of so many tokens.
std::shared_ptr<const Corpus> corpus_of(std::int64_t tokens);

}  // namespace mylos::bench
