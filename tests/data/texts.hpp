// Texts that tokenizers get wrong, and whether there is a Python with the modules that tokenizers need.
#pragma once

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "data/python_tool.hpp"

namespace mylos::test {

inline std::string test_python() {
  return std::getenv("MYLOS_PYTHON") ? std::getenv("MYLOS_PYTHON") : MYLOS_TEST_PYTHON;
}

inline bool python_has(const std::string& module) {
  try {
    data::run_program({test_python(), "-c", "import " + module}, "");
    return true;
  } catch (const Error&) {
    return false;
  }
}
inline bool bpe_is_available() { return python_has("tokenizers"); }
inline bool sentencepiece_is_available() { return python_has("sentencepiece, google.protobuf"); }

inline std::string random_text(std::mt19937_64& gen, bool utf8) {
  static const std::vector<std::string> words = {"mill",
                                                 " grain",
                                                 "\n",
                                                 "\t",
                                                 "  ",
                                                 "é",
                                                 "Ω",
                                                 "中文",
                                                 "🌾",
                                                 "\xc2\x85",
                                                 "0",
                                                 "12345",
                                                 "<|end_of_text|>",
                                                 "'s",
                                                 "\r\n",
                                                 "{\"a\": 1}",
                                                 "e\xcc\x81",
                                                 std::string(1, '\0'),
                                                 "\xef\xbb\xbf"};
  std::string text;
  for (std::size_t n = 1 + gen() % 60; n-- > 0;)
    text += utf8 ? words[gen() % words.size()] : std::string(1, char(gen()));
  return text;
}

}  // namespace mylos::test
