// Trained weights as a file of the store, and back: parameters under their names in the layout, with the resolved configuration
// and where the tokenizer is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/transformer.hpp"
#include "train/config.hpp"

namespace mylos::train {

// tokenizer: "byte", the path of a tokenizer.json or .model (kept relative to the weight file's folder), or empty.
void save_weights(const std::string& path, const Stream& stream, const model::Transformer& model, const Config& config,
                  std::int64_t step, const std::string& tokenizer);

struct WeightsFile {
  Config config;          // of the run that made them
  std::int64_t step = 0;  // optimizer steps taken
  std::string tokenizer;  // "byte", a path that can be opened from here, or empty
};
WeightsFile describe_weights(const std::string& path);
// The model must have the parameters and the storage dtype of the file.
void load_weights(const std::string& path, const Stream& stream, const model::Transformer& model);

}  // namespace mylos::train
