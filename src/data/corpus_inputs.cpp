#include "data/corpus_inputs.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"
#include "data/byte_stream.hpp"
#include "data/documents.hpp"
#include "data/token_source.hpp"

namespace mylos::data {
namespace fs = std::filesystem;

std::vector<std::string> find_inputs(const std::vector<std::string>& inputs,
                                     const std::vector<std::string>& extensions) {
  check(!inputs.empty(), "nothing to tokenize: name files, globs or folders");
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    const std::size_t before = files.size();
    std::error_code error;
    if (!fs::is_directory(input, error)) {
      for (std::string& file : expand_files({input})) files.push_back(std::move(file));
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(input)) {
      const std::string extension = fs::path(without_compression(entry.path().native())).extension().string();
      if (entry.is_regular_file() && !entry.is_symlink() &&
          std::find(extensions.begin(), extensions.end(), extension) != extensions.end())
        files.push_back(entry.path().string());
    }
    check(files.size() > before, "folder '{}' holds no file ending in {}", input, fmt::join(extensions, ", "));
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

std::vector<std::string> take_invalid(std::vector<std::string>& files) {
  std::vector<std::string> invalid, valid;
  for (std::string& path : files) (file_is_utf8(path) ? valid : invalid).push_back(std::move(path));
  files = std::move(valid);
  return invalid;
}

std::vector<InputFile> describe_inputs(const std::vector<std::string>& files) {
  std::vector<InputFile> inputs;
  for (const std::string& path : files) {
    struct stat about {};
    const bool found = ::stat(path.c_str(), &about) == 0;
    check(found, "cannot read '{}': {}", path, std::strerror(errno));
    check(!S_ISDIR(about.st_mode), "'{}' is a folder, not a file: name it by itself to have it searched", path);
    // A pipe has no size, and would be waited for without end.
    check(S_ISREG(about.st_mode), "'{}' is neither a file nor a folder: copy what it gives into a file first", path);
    inputs.push_back({path, std::int64_t(about.st_size),
                      std::int64_t(about.st_mtim.tv_sec) * 1'000'000'000 + std::int64_t(about.st_mtim.tv_nsec)});
  }
  return inputs;
}

}  // namespace mylos::data
