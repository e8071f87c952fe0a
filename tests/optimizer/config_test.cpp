#include "optimizer/config.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "model/config.hpp"
#include "optimizer/cost.hpp"
#include "optimizer/registry.hpp"

namespace mylos::optimizer {
namespace {

OptimizerConfig read(const std::vector<std::string>& overrides) {
  OptimizerConfig c;
  read_config("", overrides, {{"optimizer", "", [&c](ConfigBinder& k) { bind(k, c); }}});
  return resolve(c);
}

std::string error(const std::vector<std::string>& overrides) {
  try {
    read(overrides);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(OptimizerConfig, EachRuleHasItsOwnNumbers) {
  EXPECT_EQ(read({}).beta2, 0.95);
  EXPECT_EQ(read({"optimizer.name=lion"}).beta2, 0.99);
  EXPECT_EQ(read({"optimizer.name=schedule_free"}).beta2, 0.999);
  EXPECT_EQ(read({"optimizer.name=muon"}).momentum, 0.95);
  EXPECT_EQ(read({"optimizer.name=sgd"}).momentum, 0.9);
  EXPECT_EQ(read({"optimizer.name=sgd", "optimizer.momentum=0"}).momentum, 0.0);
  EXPECT_EQ(read({"optimizer.eps=1e-6"}).eps, 1e-6);
  for (const char* name : optimizer_names()) {
    const OptimizerConfig once = read({std::string("optimizer.name=") + name}), twice = resolve(once);
    EXPECT_EQ(once.beta1, twice.beta1);
    EXPECT_EQ(once.momentum, twice.momentum);
  }
}

TEST(OptimizerConfig, ErrorsNameTheKey) {
  const auto expect_has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_has(error({"optimizer.name=adam"}), "optimizer.name");
  expect_has(error({"optimizer.name=adam"}), "adamw");
  expect_has(error({"optimizer.momentum=0.9"}), "optimizer.momentum");
  expect_has(error({"optimizer.name=sgd", "optimizer.beta1=0.9"}), "optimizer.beta1");
  expect_has(error({"optimizer.name=lion", "optimizer.eps=1e-8"}), "optimizer.eps");
  expect_has(error({"optimizer.beta2=-0.5"}), "optimizer.beta2");
  expect_has(error({"optimizer.beta2=1"}), "optimizer.beta2");
  expect_has(error({"optimizer.eps=0"}), "optimizer.eps");
  expect_has(error({"optimizer.nesterov=false"}), "optimizer.nesterov");
  expect_has(error({"optimizer.muon_scale=spectral"}), "optimizer.muon_scale");
  expect_has(error({"optimizer.name=lion", "optimizer.muon_adamw=0.5"}), "optimizer.muon_adamw");
  expect_has(error({"optimizer.name=schedule_free", "optimizer.beta1=0"}), "optimizer.beta1");
  const OptimizerConfig free = read({"optimizer.name=schedule_free"});
  EXPECT_NO_THROW(check_storage(free, DType::bf16, DType::bf16));
  EXPECT_NO_THROW(check_storage(free, DType::bf16, DType::f32));
  EXPECT_THROW(check_storage(free, DType::f32, DType::bf16), Error);
  EXPECT_NO_THROW(check_storage(read({}), DType::f32, DType::bf16));
}

TEST(Parameters, MatricesOfBlocksAreCutIntoTheirParts) {
  model::ModelConfig m;
  m.dim = 24;
  m.layers = 3;
  m.heads = 6;
  m.kv_heads = 2;
  m.ffn = 40;
  m.vocab = 37;
  for (const bool tied : {false, true}) {
    m.tied_head = tied;
    const model::ModelConfig c = model::resolve(m);
    const model::ParameterLayout layout = model::parameter_layout(c);
    const Parameters p = parameters_of(c, layout);
    ASSERT_EQ(p.matrices.size(), std::size_t(3 * 7));
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < p.matrices.size(); ++i) {
      elements += p.matrices[i].rows * p.matrices[i].columns;
      EXPECT_GE(p.matrices[i].offset, i == 0 ? p.hidden.begin : p.matrices[i - 1].end());
      EXPECT_LE(p.matrices[i].end(), p.hidden.end);
    }
    EXPECT_EQ(p.matrices[0].rows, 24);
    EXPECT_EQ(p.matrices[1].rows, 8);
    EXPECT_EQ(p.matrices[2].rows, 8);
    EXPECT_EQ(p.matrices[4].rows, 40);
    EXPECT_EQ(p.matrices[6].columns, 40);
    EXPECT_EQ(p.hidden.begin, layout.find("layers.0.attention.qkv.weight").offset);
    const model::ParameterInfo& last = layout.find("layers.2.ffn.down.weight");
    EXPECT_EQ(p.hidden.end, last.offset + last.size);
    const std::int64_t outside = 37 * 24 * (tied ? 1 : 2) + 7 * 24;
    EXPECT_EQ(elements + outside, layout.count);
  }
}

TEST(UpdateCost, CountsTheBytesOfState) {
  const Parameters p{.decay_end = 100, .total = 100};
  const auto bytes = [&](Rule rule, DType moments, Master master, DType storage) {
    OptimizerConfig c;
    c.name = rule;
    c.moments = moments;
    c.master = master;
    return update_cost(c, p, storage).state_bytes / 100;
  };
  EXPECT_EQ(bytes(Rule::adamw, DType::f32, Master::exact, DType::bf16), 2 * (4 + 4 + 2));
  EXPECT_EQ(bytes(Rule::adamw, DType::bf16, Master::none, DType::bf16), 2 * (2 + 2));
  EXPECT_EQ(bytes(Rule::lion, DType::bf16, Master::exact, DType::bf16), 2 * (2 + 2));
  EXPECT_EQ(bytes(Rule::sgd, DType::f32, Master::exact, DType::f32), 2 * 4);
  EXPECT_EQ(bytes(Rule::schedule_free, DType::bf16, Master::exact, DType::bf16), 2 * (2 + 4 + 2));
  EXPECT_EQ(bytes(Rule::schedule_free, DType::bf16, Master::none, DType::bf16), 2 * (2 + 2));
  OptimizerConfig muon;
  muon.name = Rule::muon;
  Parameters q{.decay_end = 100, .total = 120};
  q.matrices = {{20, 5, 8}};
  q.hidden = {20, 60};
  const UpdateCost cost = update_cost(muon, q, DType::f32);
  EXPECT_EQ(cost.state_bytes, 2.0 * 40 * (4 + 2) + 2.0 * 80 * 8);
  EXPECT_EQ(cost.newton_schulz_calls, 1);
  EXPECT_EQ(cost.newton_schulz_flops, 5.0 * (4 * 5 * 8 * 5 + 2 * 125));
}

}  // namespace
}  // namespace mylos::optimizer
