// Every op of a step is marked, as the FLOP ledger lists it; the profile of a step adds up.
#include "train/profile.hpp"

#include "base/error.hpp"
#include "data/training_data.hpp"
#include "measure/op_clock.hpp"
#include "synthetic.hpp"
#include "tensor/region.hpp"
#include "train/ledger.hpp"
#include "train/step.hpp"

namespace mylos::train {
namespace {

using Calls = std::map<std::pair<std::string, std::string>, std::int64_t>;  // by (phase, op)

struct Counter final : RegionObserver {
  Counter() { observe_regions(this); }
  ~Counter() override { observe_regions(nullptr); }
  void begin(const Stream&, const char* phase, const char* op) override {
    EXPECT_FALSE(open) << phase << ' ' << op << ": regions do not nest";
    open = true;
    ++calls[{phase, op}];
  }
  void end(const Stream&) override { open = false; }
  bool open = false;
  Calls calls;
};

Calls calls_of(const std::vector<model::OpCost>& ledger) {
  Calls calls;
  for (const model::OpCost& op : ledger) calls[{std::string(name_of(op.phase)), op.op}] += op.calls;
  return calls;
}

TEST(Regions, AreTheRowsOfTheLedger) {
  const test::Folder folder;
  for (const auto& [recompute, blocks] :
       {std::pair{"none", 0}, {"selective", 0}, {"full", 0}, {"selective", 1}, {"full", 2}}) {
    for (const char* variant : {"model.qk_norm=false", "model.qk_norm=true", "model.tied_head=true"}) {
      SCOPED_TRACE(fmt::format("{} in {} blocks, {}", recompute, blocks, variant));
      const Config c = test::tiny_config(
          folder, {fmt::format("train.recompute={}", recompute), fmt::format("train.recompute_blocks={}", blocks),
                   variant, "train.accumulation=2", "model.layers=3"});
      const Stream stream;
      Arena arena(plan_run(c).total_bytes, "test");
      TrainStep step(c, arena);
      step.use_graphs(false);
      step.initialize(stream);
      const data::TrainingData samples(c.data, c.model.vocab, c.train.sequence, c.train.batch * 2);
      std::vector<data::HostBatch> batches(2);
      for (std::int64_t m = 0; m < 2; ++m)
        data::make_batch(samples, {.batch = c.train.batch, .micro_batches = 2}, 0, m, batches[std::size_t(m)]);
      const Counter counter;
      step.run(stream, 0, 1e-3, batches);
      EXPECT_EQ(counter.calls, calls_of(step_ledger(c)));
    }
  }
}

TEST(Profile, TimesAddUpToTheStep) {
  const test::Folder folder;
  for (const char* data : {"data.shuffle=true", "data.train=[]"}) {
    const Config c = test::tiny_config(folder, {data, "train.accumulation=2"});
    const StepProfile p = profile(c, {.steps = 3, .warmup = 1});
    EXPECT_EQ(p.random_tokens, c.data.train.empty());
    ASSERT_EQ(p.step_s.size(), 3u);
    double inside_s = 0;
    for (const measure::OpRow& row : p.table.rows) {
      EXPECT_EQ(row.calls, double(row.cost.calls)) << row.cost.op;
      EXPECT_GT(row.seconds, 0) << row.cost.op;
      inside_s += row.seconds;
    }
    EXPECT_EQ(p.table.rows.size(), step_ledger(c).size());
    EXPECT_NEAR(inside_s + p.table.between_s, p.table.step_s, 1e-9);
    EXPECT_NEAR((p.step_s[0] + p.step_s[1] + p.step_s[2]) / 3, p.table.step_s, 1e-12);
    EXPECT_GE(p.table.between_s, 0);
  }
  EXPECT_EQ(observe_regions(nullptr), nullptr) << "the clock is gone with the profile";
}

}  // namespace
}  // namespace mylos::train
