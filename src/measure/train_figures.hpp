// What follows from the series of a training run: the figures of /summary and /derived (docs/bundle.md), the rules in one place.
//
// TrainRecord and Telemetry put them into a bundle before each publication; `mylos validate` computes them again from a file's samples and
// refuses what differs. Spans are columns of /samples/steps, /samples/evaluation and /telemetry/gpu, equally long within a table; their values are
// those that train_samples.hpp lets pass. Nothing here reads or writes a file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/store.hpp"
#include "measure/mfu.hpp"
#include "tensor/dtype.hpp"

namespace mylos::measure {

class Bundle;

struct Figure {
  std::string path;  // "/summary/tokens_per_s"
  double value = 0;
  checkpoint::About about;
};
struct Figures {
  std::vector<Figure> figures;
  std::vector<std::pair<std::string, checkpoint::Attributes>> attributes;  // of groups
  void attribute(const std::string& group, const std::string& name, checkpoint::AttributeValue value);
};

struct StepSeries {
  std::span<const double> loss, tokens, step_time, data_wait, tokens_per_s, time;
};
struct EvaluationSeries {
  std::span<const double> loss, bits_per_byte;
};
struct GpuSeries {
  std::span<const double> time, energy, sm_clock, throttle_reasons;
};

struct FigureFacts {
  model::ModelFlops flops{};
  std::string device;
  std::int64_t devices = 1;
  DType storage = DType::f32;  // which peak MFU is held against
  std::vector<model::OpCost> ledger{};
};
Figures train_figures(const StepSeries& steps, const EvaluationSeries& evaluations, const FigureFacts& facts,
                      const SteadyWindow& window);

// Energy, power and clocks of the steady window. A step lasts from (time - step_time) to time; what lies between steps (evaluation) does not
// count. Energy at a moment is interpolated between the two samples around it. With fewer than 2 samples in the window, or without times of
// steps, there is no energy and the attribute `no_energy` of /derived says why.
Figures gpu_figures(const StepSeries& steps, const GpuSeries& gpu, const SteadyWindow& window);

void put(Bundle& bundle, const Figures& figures);

}  // namespace mylos::measure
