// Weight files: named tensors in the store, streamed, so that a 16 GB model needs no second copy.
//
// Root attributes schema="mylos-bundle", kind="checkpoint", content="weights" (later "state", with /optimizer, /loader
// and /random beside /weights for exact resume). /weights/<name> holds each tensor with its own shape; bf16 is stored
// as u16 with the attribute dtype="bf16". /config/toml is the resolved configuration; further texts go to
// /config/<name>.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/store.hpp"

namespace mylos::checkpoint {

struct WeightInfo {
  std::string name;  // no '/'
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;

  std::int64_t elements() const;
};

struct WeightsMeta {
  std::int64_t step = 0;                     // optimizer steps taken
  std::string config_toml;                   // resolved configuration
  std::map<std::string, std::string> texts;  // e.g. {"tokenizer", path}; stored as /config/<name>
};

// Elements [first, first + count) of tensor i to or from memory (host side of a download or upload).
using FillWeight = std::function<void(std::size_t i, std::int64_t first, std::int64_t count, void* out)>;
using DrainWeight = std::function<void(std::size_t i, std::int64_t first, std::int64_t count, const void* in)>;

void write_weights(const std::string& path, const std::vector<WeightInfo>& weights, const FillWeight& fill,
                   const WeightsMeta& meta);
// From host memory: data[i] points to tensor i.
void write_weights(const std::string& path, const std::vector<WeightInfo>& weights,
                   const std::vector<const void*>& data, const WeightsMeta& meta);

class WeightsReader {
 public:
  explicit WeightsReader(const std::string& path);
  const WeightsMeta& meta() const { return meta_; }
  const std::vector<WeightInfo>& weights() const { return weights_; }  // sorted by name
  // Exactly `wanted` (names, dtypes and shapes; any order): what is missing, too much or different is named in the
  // Error. Checksums are verified; drain may have received data when the Error comes.
  void read(const std::vector<WeightInfo>& wanted, const DrainWeight& drain) const;
  void read(const std::vector<WeightInfo>& wanted, const std::vector<void*>& data) const;

 private:
  Reader reader_;
  WeightsMeta meta_;
  std::vector<WeightInfo> weights_;
};

}  // namespace mylos::checkpoint
