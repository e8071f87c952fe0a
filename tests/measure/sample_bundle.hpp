// A small train bundle for tests.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "measure/train_record.hpp"
#include "model/config.hpp"

namespace mylos::test {

// Ends in a section to which keys can be added.
inline const std::string kSampleConfig =
    "[model]\ndim = 64\nlayers = 2\n\n[train]\nsequence = 128\nstorage = \"bf16\"\n";

struct SampleBundle {
  const model::ModelFlops flops =
      model::model_flops_per_token(model::resolve(model::ModelConfig{.dim = 64, .layers = 2}), 128);
  measure::Bundle bundle;
  std::optional<measure::TrainRecord> record;

  explicit SampleBundle(const std::string& path, const std::string& device = "NVIDIA H200")
      : bundle(path, measure::BundleKind::train) {
    bundle.set(measure::collect_provenance({"mylos", "train", "configs/debug.toml"}));
    measure::Hardware hardware = measure::collect_hardware();
    hardware.device_name = device;
    hardware.devices = 1;
    bundle.set(hardware);
    bundle.set_config(kSampleConfig);
    bundle.set_plan("{\"total_bytes\": 3072}", {{"weights", 1024}, {"gradients", 2048}});
    bundle.set_flop_ledger({{"matmul/qkv", model::Phase::forward, 2, 1e12, 1e9, DType::bf16},
                            {"attention", model::Phase::backward, 2, 3e12, 1e9, DType::bf16}});
    record.emplace(bundle, measure::RunFacts{.flops = flops, .device = device, .devices = 1, .storage = DType::bf16});
  }

  void steps(std::int64_t first, std::int64_t end) {
    for (std::int64_t s = first; s <= end; ++s) {
      record->step({.step = s,
                    .loss = 5.0 / std::sqrt(double(s)),
                    .grad_norm = 1.0,
                    .learning_rate = 1e-3,
                    .tokens = 4096,
                    .valid_tokens = 4000,
                    .step_time_s = s <= 3 ? 4.0 : 0.5,
                    .data_wait_s = 0.05});
    }
  }
};

}  // namespace mylos::test
