// What must hold for the whole model whatever its values: recomputation, accumulation and packing change nothing, two
// runs agree to the bit, a step allocates nothing, the plan is the memory used.
#include "model/transformer.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "kernels/linear_swiglu/linear_swiglu.hpp"
#include "model/tiny_model.hpp"

namespace mylos::model::test {
namespace {

using mylos::test::close;
using mylos::test::HostTensor;
using mylos::test::test_seed;

constexpr std::int64_t kBatch = 3, kSequence = 29;

struct Case {
  DType storage;
  bool qk_norm, tied, documents;
  DType gradients = DType::f32;
};

class TransformerTest : public ::testing::TestWithParam<Case> {
 protected:
  ModelConfig config() const {
    ModelConfig c = tiny_config();
    c.qk_norm = GetParam().qk_norm;
    c.tied_head = GetParam().tied;
    return c;
  }
  ExecutionConfig execution(Recompute recompute = Recompute::none, std::int64_t batch = kBatch) const {
    return {.batch = batch,
            .sequence = kSequence,
            .recompute = recompute,
            .storage = GetParam().storage,
            .gradients = GetParam().gradients};
  }
  HostBatch batch(std::int64_t rows = kBatch) const {
    return random_batch(rows, kSequence, config().vocab, GetParam().documents, test_seed() + 11);
  }
  bool documents() const { return GetParam().documents; }
};

TEST_P(TransformerTest, RecomputationChangesNoBit) {
  const HostBatch b = batch(), next = random_batch(kBatch, kSequence, config().vocab, documents(), test_seed() + 99);
  double loss = 0;
  std::vector<std::uint8_t> gradients;
  for (const Recompute r : {Recompute::none, Recompute::selective, Recompute::full})
    for (const std::int64_t blocks : {0, 1, 2}) {
      ExecutionConfig e = execution(r);
      e.recompute_blocks = blocks;
      TinyModel m(config(), e);
      m.initialize(test_seed());
      m.forward_backward(b, documents(), 0.01f, true);
      const double got = m.forward_backward(next, documents(), 0.01f, false);
      if (gradients.empty()) {
        loss = got;
        gradients = m.gradient_bytes();
        EXPECT_TRUE(std::isfinite(loss));
      }
      EXPECT_EQ(got, loss);
      EXPECT_TRUE(m.gradient_bytes() == gradients)
          << "policy " << int(r) << " in " << blocks << " blocks changed a gradient";
    }
}

TEST_P(TransformerTest, RunsAgreeToTheBitAndOverwriteWhenFirst) {
  TinyModel m(config(), execution());
  m.initialize(test_seed());
  const HostBatch b = batch();
  const double loss = m.forward_backward(b, documents(), 0.01f, true);
  const std::vector<std::uint8_t> gradients = m.gradient_bytes();
  EXPECT_EQ(m.forward_backward(b, documents(), 0.01f, true), loss);
  EXPECT_TRUE(m.gradient_bytes() == gradients);
}

TEST_P(TransformerTest, AccumulationEqualsOneBatch) {
  const HostBatch b = batch();
  const float scale = 1.0f / float(b.valid());
  TinyModel whole(config(), execution()), parts(config(), execution(Recompute::none, 1));
  whole.initialize(test_seed());
  parts.initialize(test_seed());
  const double loss = whole.forward_backward(b, documents(), scale, true);
  double sum = 0;
  for (std::int64_t i = 0; i < kBatch; ++i) sum = parts.forward_backward(b.rows(i, i + 1), documents(), scale, i == 0);
  EXPECT_NEAR(sum, loss, 1e-6 * loss);
  // The order of additions differs; in bf16 that moves a rounding here and there. A bf16 accumulator rounds each time.
  const double tolerance = GetParam().gradients == DType::bf16 ? 8e-3 : GetParam().storage == DType::bf16 ? 1e-3 : 5e-6;
  for (const ParameterInfo& p : whole.model->layout().parameters)
    EXPECT_TRUE(close(parts.gradient(p.name), whole.gradient(p.name), tolerance)) << p.name;
}

TEST_P(TransformerTest, EvaluationGivesTheTrainingLossInLessMemory) {
  const HostBatch b = batch();
  TinyModel training(config(), execution());
  training.initialize(test_seed());
  const double loss = training.forward_backward(b, documents(), 0.01f, true);
  const std::vector<std::uint8_t> gradients = training.gradient_bytes();
  EXPECT_EQ(training.evaluate(b, documents()), loss);
  EXPECT_TRUE(training.gradient_bytes() == gradients) << "evaluation touched the gradients";

  ExecutionConfig evaluation = execution();
  evaluation.training = false;
  TinyModel m(config(), evaluation);
  EXPECT_FALSE(m.model->gradients());
  const auto planned = m.arena->categories(), with_training = training.arena->categories();
  EXPECT_FALSE(planned.count("gradients") || planned.count("activations"));
  EXPECT_LT(planned.at("workspace"), with_training.at("workspace") + with_training.at("activations") / config().layers);
  m.set_weights(training.weights());
  EXPECT_EQ(m.evaluate(b, documents()), loss);
  EXPECT_THROW(m.forward_backward(b, documents(), 0.01f, true), Error);
}

TEST_P(TransformerTest, StepAllocatesNothing) {
  TinyModel m(config(), execution(Recompute::selective));
  m.initialize(test_seed());
  const DeviceBatch d = to_device(m.stream, batch(), documents());
  const std::int64_t allocations = device_memory().allocations;
  fill_zero(m.stream, m.grad_scale.tensor);
  m.model->forward_backward(m.stream, d.view, m.grad_scale.tensor, true, m.row_loss.tensor);
  m.model->evaluate(m.stream, d.view, m.row_loss.tensor);
  m.stream.fence();
  EXPECT_EQ(device_memory().allocations, allocations);
  EXPECT_EQ(m.arena->peak_bytes(), m.arena->capacity_bytes());
}

// Where there are no tiles it says so, and a plan can be made all the same.
TEST_P(TransformerTest, SwigluInItsProductsGivesTheSame) {
  ModelConfig c = config();
  c.dim = 48, c.ffn = 40;
  ExecutionConfig e = execution(Recompute::full), fused_e = e;
  fused_e.fused_swiglu_forward = fused_e.fused_swiglu_backward = true;
  Arena plan;
  { const Transformer measured(c, fused_e, plan); }
  EXPECT_GT(plan.peak_bytes(), 0);
  if (!kernels::has_fused_swiglu(e.storage, c.dim, c.ffn)) {
    try {
      TinyModel m(c, fused_e);
      FAIL() << "taken for possible";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("train.swiglu"), std::string::npos) << error.what();
    }
    return;
  }
  TinyModel apart(c, e), fused(c, fused_e);
  for (TinyModel* m : {&apart, &fused}) m->initialize(test_seed());
  const HostBatch b = batch();
  const double want = apart.forward_backward(b, documents(), 0.01f, true);
  for (const Recompute r : {Recompute::full, Recompute::selective, Recompute::none}) {
    fused_e.recompute = r;
    TinyModel again(c, fused_e);
    again.initialize(test_seed());
    const double got = again.forward_backward(b, documents(), 0.01f, true);
    EXPECT_NEAR(got, want, 2e-3 * want);
    for (const ParameterInfo& p : apart.model->layout().parameters)
      EXPECT_TRUE(close(again.gradient(p.name), apart.gradient(p.name), 2e-2)) << p.name;
    EXPECT_EQ(fused.forward_backward(b, documents(), 0.01f, true), got);
    EXPECT_TRUE(fused.gradient_bytes() == again.gradient_bytes()) << "policy " << int(r) << " changed a gradient";
  }
}

// The gradient is zero between parameters, so that norms over the flat buffer are those of the parameters.
TEST_P(TransformerTest, GapsStayZero) {
  TinyModel m(config(), execution());
  m.initialize(test_seed());
  m.forward_backward(batch(), documents(), 1.0f, true);
  HostTensor g = mylos::test::to_host(m.stream, m.model->gradients());
  for (const ParameterInfo& p : m.model->layout().parameters) {
    double size = 0;
    for (std::int64_t i = p.offset; i < p.offset + p.size; ++i) size += std::fabs(g[i]), g[i] = 0;
    EXPECT_GT(size, 0) << p.name << " got no gradient";
    EXPECT_TRUE(std::isfinite(size)) << p.name;
  }
  for (std::int64_t i = 0; i < g.size(); ++i) ASSERT_EQ(g[i], 0) << i;
}

INSTANTIATE_TEST_SUITE_P(Models, TransformerTest,
                         ::testing::Values(Case{DType::f32, false, false, false}, Case{DType::f32, true, true, true},
                                           Case{DType::bf16, false, true, true}, Case{DType::bf16, true, false, false},
                                           Case{DType::bf16, false, true, true, DType::bf16},
                                           Case{DType::bf16, true, false, false, DType::bf16}));

// Documents packed into one row against each in a row of its own.
TEST(Transformer, PackedDocumentsEqualSeparateSequences) {
  const std::vector<std::int64_t> lengths = {11, 1, 17};
  ModelConfig c = tiny_config();
  TinyModel packed(c, {.batch = 1, .sequence = 29});
  packed.initialize(test_seed());
  HostBatch row = random_batch(1, 29, c.vocab, false, test_seed() + 3);
  std::int64_t at = 0;
  for (const std::int64_t n : lengths)
    for (std::int64_t i = 0; i < n; ++i, ++at)
      row.positions[std::size_t(at)] = std::int32_t(i), row.document_start[std::size_t(at)] = std::int32_t(at - i);
  const double loss = packed.forward_backward(row, true, 0.02f, true);

  double sum = 0;
  std::vector<HostTensor> gradients;
  for (const ParameterInfo& p : packed.model->layout().parameters) gradients.push_back(mylos::test::zeros(p.shape));
  at = 0;
  for (const std::int64_t n : lengths) {
    TinyModel alone(c, {.batch = 1, .sequence = n});
    alone.set_weights(packed.weights());
    const auto cut = [&](const std::vector<std::int32_t>& v) {
      return std::vector<std::int32_t>(v.begin() + at, v.begin() + at + n);
    };
    HostBatch part{
        1, n, cut(row.tokens), cut(row.labels), cut(row.positions), std::vector<std::int32_t>(std::size_t(n), 0)};
    sum += alone.forward_backward(part, false, 0.02f, true);
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      const HostTensor g = alone.gradient(packed.model->layout().parameters[p].name);
      for (std::int64_t i = 0; i < g.size(); ++i) gradients[p][i] += g[i];
    }
    at += n;
  }
  EXPECT_NEAR(sum, loss, 2e-6 * loss);
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    const std::string& name = packed.model->layout().parameters[p].name;
    EXPECT_TRUE(close(packed.gradient(name), gradients[p], 1e-5)) << name;
  }
}

TEST(Transformer, InitialisationDependsOnSeedAndParameterAlone) {
  ModelConfig c = tiny_config();
  TinyModel a(c, {.batch = 1, .sequence = 8});
  c.vocab = 199;
  TinyModel b(c, {.batch = 2, .sequence = 16, .training = false});
  a.model->initialize(a.stream, test_seed());
  b.model->initialize(b.stream, test_seed());
  const auto read = [](const TinyModel& m, const std::string& name) {
    return mylos::test::to_host(m.stream, m.model->layout().window(m.model->weights(), m.model->layout().find(name)));
  };
  const HostTensor down = read(a, "layers.2.ffn.down.weight");
  EXPECT_EQ(down.v, read(b, "layers.2.ffn.down.weight").v);
  EXPECT_NE(down.v, read(a, "layers.1.ffn.down.weight").v);
  for (const double x : read(a, "layers.0.ffn.norm.weight").v) ASSERT_EQ(x, 1.0);
  double squares = 0;
  for (const double x : down.v) squares += x * x;
  EXPECT_NEAR(std::sqrt(squares / double(down.size())), 0.02 / std::sqrt(6.0), 6e-4);  // 5 sigma of 1,584 samples
  a.model->initialize(a.stream, test_seed() + 1);
  EXPECT_NE(down.v, read(a, "layers.2.ffn.down.weight").v);
}

TEST(Transformer, SequenceBeyondTheModelIsAnError) {
  Arena arena;
  EXPECT_THROW(Transformer(tiny_config(), {.batch = 1, .sequence = 65}, arena), Error);
  EXPECT_THROW(Transformer(tiny_config(), {.batch = 0, .sequence = 8}, arena), Error);
}

}  // namespace
}  // namespace mylos::model::test
