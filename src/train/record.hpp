// What a run leaves beside its weights: the bundle and the log for machines, kept in step with each other.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "measure/telemetry.hpp"
#include "measure/train_record.hpp"
#include "plan/memory_plan.hpp"
#include "train/log.hpp"
#include "train/run.hpp"
#include "train/source_samples.hpp"

namespace mylos::train {

// Makes the folder of a file that the configuration's command will write, and throws Error that says what is in its way: an earlier file
// without output.overwrite, anything that is no file, what the command reads. Touches no file.
void check_output(const Config& config, const std::string& path);
// All outputs of a run, which no other run may be writing.
void check_outputs(const Config& config);

class RunRecord {
 public:
  // Made when all else is ready: checks once more, removes what an earlier run left under the names of its outputs, and publishes a
  // first bundle.
  RunRecord(const Config& config, const plan::MemoryPlan& plan, const measure::Hardware& hardware,
            const measure::Provenance& provenance, const SourceNames& names);

  void products(const std::string& what);                         // what use_products() said
  void data(const data::TrainingData& data, std::int64_t steps);  // what the run reads
  void begin(std::chrono::steady_clock::time_point at);           // times of steps count from here
  void step(const measure::StepSample& sample);                   // publishes now and then
  void evaluation(const measure::EvaluationSample& sample);
  void end(const RunResult& result, const DeviceMemory& memory);
  void fail(const std::string& why, std::int64_t steps);  // does what can be done, throws nothing

 private:
  measure::Bundle bundle_;
  measure::Telemetry telemetry_;
  measure::TrainRecord record_;
  JsonLog log_;
};

}  // namespace mylos::train
