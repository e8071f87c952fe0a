// What `validate` says of a `train` or `peer` bundle beyond the rules for all bundles: raw series that can be those of a run
// (train_samples.hpp), and every figure of /summary and /derived computed anew from them (train_figures.hpp), the configuration, the ledger
// and the table of peaks. A figure that differs, that is missing, or that nothing gives is an error.
//
// Older bundles of peers drew the resamples of their interval from another generator and took energy over the window as a whole: those
// two are held to wider bounds.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/store.hpp"
#include "measure/inspect.hpp"

namespace mylos::measure {

std::vector<Finding> train_findings(const checkpoint::Reader& file, const std::string& kind, const std::string& status);

}  // namespace mylos::measure
