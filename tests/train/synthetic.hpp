// A tiny training task: tokens of which most follow from the one before, so that a small model learns them in a few steps.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "support/host_tensor.hpp"
#include "train/config.hpp"

namespace mylos::test {

// A folder for one test, removed with it.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mylos_train_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline void write_tokens(const std::string& path, std::int64_t count, std::uint64_t seed) {
  const std::vector<std::int32_t> noise = random_ints(count, 0, 61, seed), often = random_ints(count, 0, 8, seed + 1);
  std::vector<std::uint16_t> tokens(1, std::uint16_t(1));
  for (std::int64_t i = 1; i < count; ++i)
    tokens.push_back(std::uint16_t(often[std::size_t(i)] == 0 ? noise[std::size_t(i)] : (tokens.back() * 5 + 3) % 61));
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(tokens.data()), std::streamsize(tokens.size() * sizeof(tokens[0])));
  std::ofstream(path + ".json") << R"({"format": "mylos-tokens", "version": 1, "dtype": "u16", "tokens": )" << count
                                << R"(, "vocab": 61, "text_bytes": )" << 3 * count << "}";
}

inline train::Config tiny_config(const Folder& folder, const std::vector<std::string>& overrides = {}) {
  if (!std::filesystem::exists(folder.file("train.bin"))) {
    write_tokens(folder.file("train.bin"), 20000, 11);
    write_tokens(folder.file("validation.bin"), 1000, 12);
  }
  std::vector<std::string> all = {"model.dim=32",
                                  "model.layers=2",
                                  "model.heads=4",
                                  "model.kv_heads=2",
                                  "model.ffn=48",
                                  "model.vocab=61",
                                  "model.max_seq_len=24",
                                  "train.steps=40",
                                  "train.batch=4",
                                  "train.sequence=24",
                                  "schedule.learning_rate=1e-2",
                                  "schedule.warmup=4",
                                  "eval.interval=20",
                                  "eval.samples=5",
                                  "data.train=" + folder.file("train.bin"),
                                  "data.validation=" + folder.file("validation.bin"),
                                  "output.bundle=" + folder.file("run.h5"),
                                  "output.log_interval=1",
                                  "output.progress=lines"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  // The schedule keeps its length when a test shortens the run.
  if (std::none_of(all.begin(), all.end(), [](const std::string& o) { return o.starts_with("schedule.length="); }))
    all.push_back("schedule.length=40");
  return train::load_config("", all);
}

}  // namespace mylos::test
