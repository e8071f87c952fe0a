// Energy, power and clocks of the steady window in a bundle, from the samples of a GPU and the times of steps: gpu_figures of train_figures.hpp.
#pragma once

#include "measure/bundle.hpp"

namespace mylos::measure {

// gpu: the table /telemetry/gpu.
void summarize_telemetry(Bundle& bundle, int gpu);

}  // namespace mylos::measure
