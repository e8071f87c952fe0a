// Every optimizer in the training step: it learns, however a step is split, allocates nothing, and evaluates its own weights.
#include <algorithm>

#include "base/error.hpp"
#include "optimizer/registry.hpp"
#include "optimizer/schedule.hpp"
#include "synthetic.hpp"
#include "train/evaluation.hpp"
#include "train/ledger.hpp"
#include "train/step.hpp"

namespace mylos::train {
namespace {

struct Setting {
  std::string name;
  std::vector<std::string> keys;
};

// Learning rates as each rule wants them.
Setting setting_of(const std::string& name) {
  if (name == "lion") return {name, {"optimizer.name=lion", "schedule.learning_rate=3e-3"}};
  if (name == "sgd") return {name, {"optimizer.name=sgd", "schedule.learning_rate=0.3"}};
  if (name == "muon") return {name, {"optimizer.name=muon", "schedule.learning_rate=1e-2"}};
  if (name == "schedule_free")
    return {name, {"optimizer.name=schedule_free", "optimizer.beta2=0.95", "schedule.shape=constant"}};
  return {name, {"optimizer.name=" + name}};
}

class Optimizers : public ::testing::TestWithParam<const char*> {
 protected:
  Config config(std::vector<std::string> more = {}) const {
    std::vector<std::string> keys = setting_of(GetParam()).keys;
    keys.insert(keys.end(), more.begin(), more.end());
    return test::tiny_config(folder_, keys);
  }
  std::vector<data::HostBatch> batches(const Config& c, const data::TrainingData& samples, std::int64_t step) const {
    const data::BatchLayout layout{.batch = c.train.batch, .micro_batches = c.train.accumulation};
    std::vector<data::HostBatch> all(std::size_t(c.train.accumulation));
    for (std::int64_t m = 0; m < layout.micro_batches; ++m)
      data::make_batch(samples, layout, step, m, all[std::size_t(m)]);
    return all;
  }
  std::vector<double> losses(const Config& c, TrainStep& step, std::int64_t first, std::int64_t count) const {
    const data::TrainingData samples(c.data, c.model.vocab, c.train.sequence, c.train.batch * c.train.accumulation);
    const optimizer::Schedule schedule(c.schedule, c.train.steps);
    std::vector<double> all;
    for (std::int64_t s = first; s < first + count; ++s) {
      const StepResult r = step.run(stream_, s, schedule.learning_rate(s), batches(c, samples, s));
      EXPECT_TRUE(r.finite);
      all.push_back(r.loss);
    }
    return all;
  }

  test::Folder folder_;
  Stream stream_;
};

TEST_P(Optimizers, LearnsInExactlyThePlannedMemory) {
  for (const char* storage : {"f32", "bf16"}) {
    SCOPED_TRACE(storage);
    const Config c = config({std::string("train.storage=") + storage, "train.accumulation=2"});
    const plan::MemoryPlan planned = plan_run(c);
    Arena arena(planned.total_bytes, "test");
    TrainStep step(c, arena);
    EXPECT_EQ(arena.categories(), planned.categories);
    step.initialize(stream_);
    std::vector<double> all = losses(c, step, 0, 2);
    const std::int64_t allocations = device_memory().allocations;
    const std::vector<double> rest = losses(c, step, 2, 38);
    EXPECT_EQ(device_memory().allocations, allocations) << "a step allocates nothing";
    EXPECT_LT(rest.back(), 0.6 * all.front()) << all.front() << " to " << rest.back();

    const auto validation = data::validation_data(c.data, c.model.vocab, c.train.sequence);
    const std::vector<std::uint8_t> before = test::raw_bytes(stream_, step.model().weights());
    const Evaluation e = evaluate(step, stream_, validation, c.train.batch, 0);
    EXPECT_LT(e.loss, 0.7 * all.front());
    EXPECT_EQ(test::raw_bytes(stream_, step.model().weights()), before) << "an evaluation leaves training as it was";
    {
      const TrainStep::EvaluationWeights weights(step, stream_);
      EXPECT_EQ(test::raw_bytes(stream_, step.model().weights()) != before, step.optimizer().averages());
      EXPECT_EQ(evaluate(step, stream_, validation, c.train.batch, 0).loss, e.loss) << "within them, too";
      EXPECT_EQ(test::raw_bytes(stream_, step.model().weights()) != before, step.optimizer().averages());
      if (step.optimizer().averages()) {
        EXPECT_THROW(losses(c, step, 40, 1), Error) << "these are not the weights to train on";
      }
    }
    EXPECT_EQ(test::raw_bytes(stream_, step.model().weights()), before);
  }
}

TEST_P(Optimizers, TrainingGoesOnAsIfNothingHadBeenEvaluated) {
  const Config c = config({"train.storage=bf16"});  // beside fp32 gradients
  const auto validation = data::validation_data(c.data, c.model.vocab, c.train.sequence);
  std::vector<std::vector<double>> runs;
  for (const bool interrupted : {false, true}) {
    Arena arena(plan_run(c).total_bytes, "test");
    TrainStep step(c, arena);
    step.initialize(stream_);
    runs.push_back(losses(c, step, 0, 4));
    if (interrupted) evaluate(step, stream_, validation, c.train.batch, 0);
    const std::vector<double> rest = losses(c, step, 4, 4);
    runs.back().insert(runs.back().end(), rest.begin(), rest.end());
    const test::HostTensor norm = test::to_host(stream_, step.optimizer().norm_and_scale());
    runs.back().push_back(norm[0]);
  }
  EXPECT_EQ(runs[0], runs[1]);
}

TEST_P(Optimizers, AccumulationEqualsOneLargeBatch) {
  std::vector<std::vector<double>> runs;
  for (const auto& [batch, accumulation] : {std::pair{12, 1}, {4, 3}}) {
    const Config c = config({fmt::format("train.batch={}", batch), fmt::format("train.accumulation={}", accumulation),
                             "schedule.warmup=20"});
    Arena arena(plan_run(c).total_bytes, "test");
    TrainStep step(c, arena);
    step.initialize(stream_);
    runs.push_back(losses(c, step, 0, 5));
  }
  // Sums in another order: lion's signs and muon's bf16 make more of it than Adam does.
  for (std::size_t s = 0; s < runs[0].size(); ++s)
    EXPECT_NEAR(runs[1][s], runs[0][s], (s == 0 ? 1e-6 : 5e-3) * runs[0][s]) << "step " << s;
}

TEST_P(Optimizers, TheLedgerCountsIt) {
  const Config c = config({"train.storage=bf16"});
  double bytes = 0, flops = 0;
  for (const model::OpCost& op : step_ledger(c)) {
    if (op.op == "optimizer") bytes += op.bytes;
    if (op.op == "newton_schulz") flops += op.flops;
  }
  // bf16 weights and fp32 gradients; the exact weight's lower half; at least one fp32 moment; all in and out.
  EXPECT_GE(bytes, double(plan_run(c).parameters) * (4 + 4 + 4 + 8));
  EXPECT_EQ(flops > 0, std::string(GetParam()) == "muon");
}

INSTANTIATE_TEST_SUITE_P(All, Optimizers, ::testing::ValuesIn(optimizer::optimizer_names()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace mylos::train
