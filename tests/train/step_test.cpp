#include "train/step.hpp"

#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "kernels/linear_swiglu/linear_swiglu.hpp"
#include "synthetic.hpp"
#include "train/evaluation.hpp"
#include "train/weights.hpp"

namespace mylos::train {
namespace {

struct Loaded {
  explicit Loaded(const Config& c)
      : samples(c.data, c.model.vocab, c.train.sequence, c.train.batch * c.train.accumulation),
        validation(data::validation_data(c.data, c.model.vocab, c.train.sequence)) {}
  data::TrainingData samples;
  std::vector<data::NamedSamples> validation;
};

// The micro-batches of a step.
std::vector<data::HostBatch> batches_of(const Config& c, const data::TrainingData& samples, std::int64_t step) {
  const data::BatchLayout layout{.batch = c.train.batch, .micro_batches = c.train.accumulation};
  std::vector<data::HostBatch> batches(std::size_t(c.train.accumulation));
  for (std::int64_t m = 0; m < layout.micro_batches; ++m)
    data::make_batch(samples, layout, step, m, batches[std::size_t(m)]);
  return batches;
}

std::vector<StepResult> some_steps(const Config& c, TrainStep& step, const Stream& stream, std::int64_t first,
                                   std::int64_t count) {
  const Loaded loaded(c);
  std::vector<StepResult> results;
  for (std::int64_t s = first; s < first + count; ++s)
    results.push_back(step.run(stream, s, 3e-3, batches_of(c, loaded.samples, s)));
  return results;
}

TEST(Step, AccumulationEqualsOneLargeBatch) {
  const test::Folder folder;
  const Stream stream;
  std::vector<std::vector<StepResult>> runs;
  for (const auto& [batch, accumulation] : {std::pair{12, 1}, {4, 3}, {1, 12}}) {
    const Config c = test::tiny_config(
        folder, {fmt::format("train.batch={}", batch), fmt::format("train.accumulation={}", accumulation)});
    Arena arena(plan_run(c).total_bytes, "test");
    TrainStep step(c, arena);
    step.initialize(stream);
    runs.push_back(some_steps(c, step, stream, 0, 6));
  }
  for (std::size_t r = 1; r < runs.size(); ++r) {
    for (std::size_t s = 0; s < runs[0].size(); ++s) {
      // fp32 sums in another order; Adam's first steps divide small gradients by themselves, which amplifies the difference.
      EXPECT_NEAR(runs[r][s].loss, runs[0][s].loss, 2e-4 * runs[0][s].loss) << "step " << s;
      EXPECT_NEAR(runs[r][s].grad_norm, runs[0][s].grad_norm, 2e-3 * runs[0][s].grad_norm) << "step " << s;
      EXPECT_EQ(runs[r][s].valid_tokens, 12 * 24);
    }
    EXPECT_NEAR(runs[r][0].loss, runs[0][0].loss, 1e-6 * runs[0][0].loss);
    EXPECT_NEAR(runs[r][0].grad_norm, runs[0][0].grad_norm, 1e-5 * runs[0][0].grad_norm);
  }
}

TEST(Step, TakesExactlyThePlannedMemoryAndNothingMore) {
  const test::Folder folder;
  for (const char* storage : {"f32", "bf16"}) {
    const Config c = test::tiny_config(folder, {std::string("train.storage=") + storage, "train.accumulation=2"});
    const plan::MemoryPlan planned = plan_run(c);
    const Stream stream;
    const std::int64_t before = device_memory().current_bytes;
    reset_device_memory_peak();
    Arena arena(planned.total_bytes, "test");
    TrainStep step(c, arena);
    step.initialize(stream);
    EXPECT_EQ(arena.peak_bytes(), planned.total_bytes);
    EXPECT_EQ(arena.categories(), planned.categories);
    some_steps(c, step, stream, 0, 1);
    const std::int64_t allocations = device_memory().allocations;
    some_steps(c, step, stream, 1, 3);
    EXPECT_EQ(device_memory().allocations, allocations) << "a step allocates nothing";
    EXPECT_EQ(device_memory().peak_bytes - before, planned.total_bytes);
  }
}

TEST(Step, AStepWithoutAValidTokenIsAnError) {
  const test::Folder folder;
  const Config c = test::tiny_config(folder);
  const Stream stream;
  Arena arena(plan_run(c).total_bytes, "test");
  TrainStep step(c, arena);
  step.initialize(stream);
  const Loaded loaded(c);
  std::vector<data::HostBatch> batches(1);
  batches[0].prepare(c.train.batch, c.train.sequence, DType::u16);
  EXPECT_THROW(step.run(stream, 0, 1e-3, batches), Error);
}

TEST(TrainStep, QueuedStepsGiveWhatStepsOneByOneGive) {
  const test::Folder folder;
  const Stream stream;
  const Config c = test::tiny_config(folder, {});
  const Loaded loaded(c);
  std::vector<StepResult> one_by_one, queued;
  std::vector<std::vector<std::uint8_t>> weights;
  for (const bool ahead : {false, true}) {
    Arena arena(plan_run(c).total_bytes, "test");
    TrainStep step(c, arena);
    step.initialize(stream);
    for (std::int64_t s = 0; s < 6; ++s) {
      std::vector<data::HostBatch> batches = batches_of(c, loaded.samples, s);
      if (!ahead) {
        one_by_one.push_back(step.run(stream, s, 1e-3, batches));
        continue;
      }
      step.queue(stream, s, 1e-3, batches);
      // Batches may be used again, or go: they wait until the device has read them.
      for (data::HostBatch& b : batches) b.prepare(c.train.batch, c.train.sequence, b.dtype);
      if (step.queued() == TrainStep::kMostQueued) {
        EXPECT_THROW(step.queue(stream, s + 1, 1e-3, batches), Error);
        queued.push_back(step.finish());
      }
    }
    while (step.queued() > 0) queued.push_back(step.finish());
    EXPECT_THROW(step.finish(), Error) << "nothing is queued";
    weights.push_back(test::raw_bytes(stream, step.model().weights()));
  }
  ASSERT_EQ(queued.size(), one_by_one.size());
  for (std::size_t i = 0; i < queued.size(); ++i) {
    EXPECT_GT(queued[i].time_s, 0);
    EXPECT_EQ(queued[i].loss, one_by_one[i].loss);
    EXPECT_EQ(queued[i].grad_norm, one_by_one[i].grad_norm);
  }
  EXPECT_EQ(weights[0], weights[1]);
}

TEST(TrainStep, TimesOfStepsAddUpWhateverTheHostDoesBetweenThem) {
  const test::Folder folder;
  const Stream stream;
  const Config c = test::tiny_config(folder, {});
  const Loaded loaded(c);
  Arena arena(plan_run(c).total_bytes, "test");
  TrainStep step(c, arena);
  step.initialize(stream);
  const std::vector<data::HostBatch> batches = batches_of(c, loaded.samples, 0);
  step.run(stream, 0, 1e-3, batches);
  stream.fence();
  Event begin, end;
  begin.record(stream);
  step.set_off(stream);
  double sum = 0;
  for (std::int64_t s = 0; s < 5; ++s) {
    step.queue(stream, s, 1e-3, batches);
    std::this_thread::sleep_for(std::chrono::milliseconds(s == 2 ? 500 : 1));
    if (s > 0) sum += step.finish().time_s;
  }
  EXPECT_THROW(step.set_off(stream), Error);
  sum += step.finish().time_s;
  end.record(stream);
  end.wait();
  EXPECT_NEAR(sum, end.seconds_since(begin), 0.2);  // what a busy machine puts between the last step and the end
  EXPECT_GT(sum, 0.500) << "waiting for the host counts";
}

TEST(TrainStep, NothingQueuedBehindABrokenStepChangesTheWeights) {
  const test::Folder folder;
  const Stream stream;
  const Config c = test::tiny_config(folder, {});
  const Loaded loaded(c);
  Arena arena(plan_run(c).total_bytes, "test");
  TrainStep step(c, arena);
  step.initialize(stream);
  const std::vector<data::HostBatch> good = batches_of(c, loaded.samples, 0);
  std::vector<data::HostBatch> broken = batches_of(c, loaded.samples, 0);
  // The last label of a row, which is no input: there is no such token, so its loss is not a number.
  const auto missing = std::uint32_t(c.model.vocab);
  std::memcpy(broken[0].tokens(0) + c.train.sequence * size_of(broken[0].dtype), &missing,
              std::size_t(size_of(broken[0].dtype)));
  EXPECT_TRUE(step.run(stream, 0, 1e-3, good).finite);
  const auto before = test::raw_bytes(stream, step.model().weights());
  step.queue(stream, 1, 1e-3, broken);
  step.queue(stream, 2, 1e-3, good);
  EXPECT_FALSE(step.finish().finite);
  EXPECT_FALSE(step.finish().finite);
  EXPECT_EQ(test::raw_bytes(stream, step.model().weights()), before);
}

TEST(Recompute, AutoTakesTheLeastThatFits) {
  const test::Folder folder;
  const Config c = test::tiny_config(folder, {"train.recompute=auto", "model.layers=6"});
  const auto bytes = [&](model::Recompute r) {
    Config fixed = c;
    fixed.train.recompute = r;
    return plan_run(fixed).total_bytes;
  };
  using model::Recompute;
  const std::int64_t none = bytes(Recompute::none), selective = bytes(Recompute::selective),
                     full = bytes(Recompute::full);
  ASSERT_GT(none, selective);
  ASSERT_GT(selective, full);
  EXPECT_EQ(with_recompute(c, none).train.recompute, Recompute::none);
  const auto blocks = [&](std::int64_t memory, Recompute policy) {
    const Config chosen = with_recompute(c, memory);
    EXPECT_EQ(chosen.train.recompute, policy);
    EXPECT_LE(plan_run(chosen).total_bytes, memory);
    return chosen.train.recompute_blocks == 0 ? chosen.model.layers : chosen.train.recompute_blocks;
  };
  // A first block that recomputes brings the shared tensors with it, so one block may save nothing.
  EXPECT_LE(blocks(none - 1, Recompute::selective), 2);
  EXPECT_EQ(blocks(selective, Recompute::selective), 6);
  const std::int64_t half = blocks((none + selective) / 2, Recompute::selective);
  EXPECT_GT(half, 1);
  EXPECT_LT(half, 6);
  EXPECT_LE(blocks(selective - 1, Recompute::full), 2);
  EXPECT_EQ(blocks(full, Recompute::full), 6);
  EXPECT_EQ(with_recompute(c, full - 1).train.recompute, Recompute::full) << "check_fits says what would fit";
  Config fixed = c;
  fixed.train.recompute = Recompute::selective;
  EXPECT_EQ(with_recompute(fixed, none).train.recompute, Recompute::selective) << "a stated policy stays";
}

TEST(Swiglu, IsFusedOnlyWhereThatPaysAndStaysAsStated) {
  Config c;
  c.train.storage = DType::bf16;
  c.train.batch = 4, c.train.sequence = 4096;
  c.model.dim = 4096, c.model.ffn = 14336;
  const bool there = kernels::has_fused_swiglu(DType::bf16, c.model.dim, c.model.ffn);
  EXPECT_EQ(with_swiglu(c).train.swiglu, there ? Swiglu::backward : Swiglu::apart);
  EXPECT_EQ(execution(with_swiglu(c)).fused_swiglu_backward, there);
  EXPECT_FALSE(execution(with_swiglu(c)).fused_swiglu_forward);
  for (const Swiglu stated : {Swiglu::apart, Swiglu::backward, Swiglu::fused}) {
    c.train.swiglu = stated;
    EXPECT_EQ(with_swiglu(c).train.swiglu, stated);
    EXPECT_EQ(execution(c).fused_swiglu_backward, stated != Swiglu::apart);
    EXPECT_EQ(execution(c).fused_swiglu_forward, stated == Swiglu::fused);
  }
  c.train.swiglu = Swiglu::automatic;
  c.model.dim = 768, c.model.ffn = 2048;
  c.train.batch = 4, c.train.sequence = 512;
  EXPECT_EQ(with_swiglu(c).train.swiglu, there ? Swiglu::fused : Swiglu::apart) << "a short product";
  c.train.sequence = 256;
  EXPECT_EQ(with_swiglu(c).train.swiglu, Swiglu::apart) << "too few tiles";
  c.train.batch = 64, c.train.storage = DType::f32;
  EXPECT_EQ(with_swiglu(c).train.swiglu, Swiglu::apart) << "f32 is never fused";
}

TEST(Evaluate, DoesNotDependOnTheBatchAndChangesNothing) {
  const test::Folder folder;
  const Stream stream;
  std::vector<Evaluation> results;
  for (const int batch : {1, 4, 7}) {
    const Config c = test::tiny_config(folder, {fmt::format("train.batch={}", batch)});
    Arena arena(plan_run(c).total_bytes, "test");
    TrainStep step(c, arena);
    step.initialize(stream);
    const auto before = test::raw_bytes(stream, step.model().weights());
    const Loaded loaded(c);
    results.push_back(evaluate(step, stream, loaded.validation, batch, 9));
    EXPECT_EQ(test::raw_bytes(stream, step.model().weights()), before);
  }
  for (const Evaluation& e : results) {
    EXPECT_EQ(e.tokens, 9 * 24) << "rows past the last sample do not count";
    EXPECT_NEAR(e.loss, results[0].loss, 1e-6 * e.loss);
    EXPECT_NEAR(e.bits_per_byte, e.loss / std::log(2.0) / 3.0, 1e-12) << "the sidecar says three bytes a token";
  }
  EXPECT_NEAR(results[0].loss, std::log(61.0), 0.2) << "an untrained model knows next to nothing";
}

TEST(Weights, RoundTripAndWhatDoesNotFit) {
  const test::Folder folder;
  const Stream stream;
  for (const char* storage : {"f32", "bf16"}) {
    const std::string storage_override = std::string("train.storage=") + storage;
    const Config c = test::tiny_config(folder, {storage_override, "train.seed=5"}),
                 other = test::tiny_config(folder, {storage_override, "train.seed=6"});
    Arena arena_a(plan_run(c).total_bytes, "test"), arena_b(plan_run(c).total_bytes, "test");
    TrainStep a(c, arena_a), b(other, arena_b);
    a.initialize(stream);
    b.initialize(stream);
    ASSERT_NE(test::raw_bytes(stream, a.model().weights()), test::raw_bytes(stream, b.model().weights()));
    const std::string path = folder.file(std::string("weights_") + storage + ".h5");
    save_weights(path, stream, a.model(), c, 17, folder.file("tokens/tokenizer.json"));
    load_weights(path, stream, b.model());
    EXPECT_EQ(test::raw_bytes(stream, a.model().weights()), test::raw_bytes(stream, b.model().weights()));

    const WeightsFile file = describe_weights(path);
    EXPECT_EQ(file.step, 17);
    EXPECT_EQ(to_toml(file.config), to_toml(c));
    EXPECT_EQ(file.tokenizer, folder.file("tokens/tokenizer.json"));

    const Config wider = test::tiny_config(folder, {storage_override, "model.ffn=64"});
    Arena arena_c(plan_run(wider).total_bytes, "test");
    TrainStep w(wider, arena_c);
    EXPECT_THROW(load_weights(path, stream, w.model()), Error);
  }
  EXPECT_THROW(describe_weights(folder.file("none.h5")), Error);
}

}  // namespace
}  // namespace mylos::train
