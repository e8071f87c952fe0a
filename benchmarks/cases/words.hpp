// Token ids as a text has them, and as random numbers have them.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace mylos::bench {

enum class Words { zipf, uniform };

// By Zipf's law the words are spread over the vocabulary, so that frequent ones are not neighbours.
inline std::vector<std::int32_t> draw(std::int64_t tokens, std::int64_t vocabulary, Words words) {
  std::mt19937_64 generator(5);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  std::vector<std::int32_t> drawn;
  for (std::int64_t i = 0; i < tokens; ++i) {
    const double at = uniform(generator);
    const auto rank = words == Words::zipf ? std::int64_t(std::exp(at * std::log(double(vocabulary)))) - 1
                                           : std::int64_t(at * double(vocabulary));
    drawn.push_back(std::int32_t(rank * 7919 % vocabulary));
  }
  return drawn;
}

}  // namespace mylos::bench
