// Energy, power and clocks of the steady window, from the samples of a GPU and the times of steps.
//
// A step lasts from (time - step_time) to time; what lies between steps (evaluation) does not count. Energy at a moment is interpolated
// between the two samples around it. /derived gets energy_per_token (J/token); /summary power_mean (W), sm_clock_median (MHz)
// and power_capped_share. With fewer than 2 samples in the window, or without times of steps, there is none of
// them and the attribute `no_energy` of /derived says why.
#pragma once

#include "measure/bundle.hpp"

namespace mylos::measure {

// gpu: the table /telemetry/gpu.
void summarize_telemetry(Bundle& bundle, int gpu);

}  // namespace mylos::measure
