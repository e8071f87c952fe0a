#include "data/config.hpp"

#include <limits>

namespace mylos::data {

void bind(ConfigBinder& keys, DataConfig& c) {
  keys.texts("train", c.train, "training token files: paths and globs, sorted by name");
  keys.texts("validation", c.validation, "validation token files; empty: no evaluation");
  keys.choice("format", c.format, {"recorded", "raw", "npy", "llmc", "megatron"},
              "container of the token files: as recorded (sidecar, .npy, an .idx beside; else raw), or this one");
  keys.choice("dtype", c.dtype, {"sidecar", "u16", "u32"},
              "elements of raw files: as <file>.json says, or u16, or u32");
  keys.text("tokenizer", c.tokenizer,
            "\"byte\" or the path of a tokenizer.json; empty: the one named by the training sidecars");
  keys.choice("packing", c.packing, {"concat", "best_fit"},
              "samples are the text cut every train.sequence tokens, or whole documents fitted together and padded");
  keys.flag("documents", c.documents, "attention, positions and loss stop at document boundaries; best_fit implies it");
  keys.integer("document_token", c.document_token, -1, std::numeric_limits<std::int32_t>::max(),
               "the token that ends a document; -1: an index of the file's own, else end_of_text of the sidecars");
  keys.flag("shuffle", c.shuffle, "read training samples in a random order, another one each epoch");
  keys.integer("seed", c.seed, 0, std::numeric_limits<std::int64_t>::max(), "seed of the order of samples");
  keys.integer("prefetch", c.prefetch, 0, 1024, "batches made ahead by a thread; 0: made when asked for");
}

TokenFormat declared_format(const DataConfig& config) {
  TokenFormat declared;
  if (config.dtype != StatedDType::sidecar) declared.dtype = config.dtype == StatedDType::u16 ? DType::u16 : DType::u32;
  switch (config.format) {
    case StatedFormat::recorded:
      break;
    case StatedFormat::raw:
      declared.container = Container::raw;
      break;
    case StatedFormat::npy:
      declared.container = Container::npy;
      break;
    case StatedFormat::llmc:
      declared.container = Container::llmc;
      break;
    case StatedFormat::megatron:
      declared.container = Container::megatron;
      break;
  }
  return declared;
}

}  // namespace mylos::data
