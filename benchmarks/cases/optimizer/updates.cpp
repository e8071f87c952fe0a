// The update of every registered optimizer alone, over a flat buffer: that of the 125M model, and one of 2^30 parameters (Muon: five blocks of
// Llama-3 8B, since it wants matrices). Weights and gradients are bf16; state is bf16, as PyTorch's optimizers have it, or `exact`: fp32 moments and the
// lower 16 bits of fp32 weights, mylos' default. The norm of the gradients, which clipping needs, has rows of its own. Bytes:
// optimizer/cost.hpp with weights read and written and gradients read.
#include "benchmarks/cases/cases.hpp"
#include "benchmarks/cases/network.hpp"
#include "kernels/norm/norm.hpp"
#include "optimizer/cost.hpp"
#include "optimizer/registry.hpp"

namespace mylos::bench {
namespace {

using optimizer::OptimizerConfig;
using optimizer::Parameters;
using optimizer::Rule;

constexpr DType kStorage = DType::bf16;
constexpr double kLearningRate = 1e-2;       // of the check: the step must show in bf16 weights
constexpr double kTimedLearningRate = 1e-6;  // thousands of calls leave the weights what they are

struct Flat {
  std::string name;
  Parameters parameters;
};

Flat of_model(const std::string& name, model::ModelConfig config) {
  config = model::resolve(config);
  return {name, optimizer::parameters_of(config, model::parameter_layout(config))};
}

std::vector<Flat> flats(const Place& place, Rule rule) {
  std::vector<Flat> all{of_model(network_name(place), network(place, Rule::adamw, DType::f32).model)};
  if (!place.gpu) return all;
  if (rule == Rule::muon)
    all.push_back(of_model("1g", {.dim = 4096, .layers = 5, .heads = 32, .kv_heads = 8, .ffn = 14336, .vocab = 256}));
  else
    all.push_back({"1g", {.decay_end = std::int64_t(1) << 30, .total = std::int64_t(1) << 30}});
  return all;
}

OptimizerConfig config_of(Rule rule, bool exact) {
  OptimizerConfig c;
  c.name = rule;
  c.master = exact ? optimizer::Master::exact : optimizer::Master::none;
  c.moments = exact ? DType::f32 : DType::bf16;
  return optimizer::resolve(c);
}

struct Update {
  Pool& p;
  OptimizerConfig config;
  Parameters parameters;
  Arena arena;
  std::unique_ptr<optimizer::Optimizer> rule;
  Tensor weights, gradients;

  static std::int64_t plan(const OptimizerConfig& c, const Parameters& f) {
    Arena measuring;
    optimizer::make_optimizer(c, f, kStorage, 1, measuring);
    need_memory(measuring.peak_bytes(), "the optimizer's state");
    return measuring.peak_bytes();
  }
  Update(Pool& pool, const OptimizerConfig& c, const Parameters& f)
      : p(pool), config(c), parameters(f), arena(plan(c, f), "optimizer") {
    rule = optimizer::make_optimizer(c, f, kStorage, 1, arena);
    rule->use_graphs(false);  // the harness records
    weights = p.normal(kStorage, {f.total}, 0.02f);
    gradients = p.take(kStorage, {f.total});
    rule->initialize(p.stream(), weights);
    rule->measure(p.stream(), gradients);
    p.elsewhere(arena.capacity_bytes());
  }

  // Direction of the first step by the formulas of the kernels' headers, without weight decay; the gradient is scaled.
  double direction(double g) const {
    switch (config.name) {
      case Rule::lion:
        return g > 0 ? 1 : g < 0 ? -1 : 0;
      case Rule::sgd:
        return config.nesterov ? g + config.momentum * g : g;
      case Rule::schedule_free: {
        const double root = std::sqrt(1 - config.beta2);
        return root * g / (root * std::abs(g) + config.eps);
      }
      default:
        return g / (std::abs(g) + config.eps);
    }
  }
  double decay_rate() const {
    return config.name == Rule::schedule_free ? std::sqrt(1 - config.beta2) * config.weight_decay : config.weight_decay;
  }

  // What Muon orthogonalises has a root mean square, not a formula.
  Check first_step() const {
    const bool muon = config.name == Rule::muon;
    // The first elements are the embedding's, which all rules update one by one.
    const std::int64_t n = std::min<std::int64_t>(4096, muon ? parameters.hidden.begin : parameters.total);
    const auto window = [&](const Tensor& t, std::int64_t from, std::int64_t size) {
      return values(p.stream(), t.slice(0, from, from + size));
    };
    const optimizer::MatrixPart m = muon ? parameters.matrices.front() : optimizer::MatrixPart{0, 0, 0};
    const std::vector<double> before = window(weights, 0, n), g = window(gradients, 0, n),
                              matrix = muon ? window(weights, m.offset, m.rows * m.columns) : std::vector<double>();
    rule->apply(p.stream(), 0, kLearningRate, weights, gradients);
    const double scale = values(p.stream(), rule->norm_and_scale())[1];
    const std::vector<double> after = window(weights, 0, n);
    Worst worst(1);
    for (std::size_t i = 0; i < before.size(); ++i)
      worst.add(after[i], before[i] - kLearningRate * (direction(g[i] * scale) + decay_rate() * before[i]));
    // Weights of 0.02·N(0, 1) in bf16, rounded up or down.
    constexpr double kRounding = 0.125 / 256;
    if (!muon) return {worst.error(), kRounding, "double on the host, first step of 4096 elements"};
    const std::vector<double> updated = window(weights, m.offset, m.rows * m.columns);
    double squares = 0;
    for (std::size_t i = 0; i < matrix.size(); ++i) {
      const double d = (matrix[i] * (1 - kLearningRate * config.weight_decay) - updated[i]) / kLearningRate;
      squares += d * d / double(matrix.size());
    }
    // Singular values between 0.68 and 1.13 times 0.2: kernels/muon/muon.hpp.
    return {std::max(worst.error() / kRounding, std::abs(std::sqrt(squares) / 0.2 - 0.9) / 0.25), 1,
            "double on the host: rounding of AdamW's part, root mean square of Muon's, parts of their bounds"};
  }
};

Set update(Pool& p, const OptimizerConfig& c, const Parameters& f) {
  const auto u = std::make_shared<Update>(p, c, f);
  return {[=, &p] { u->rule->apply(p.stream(), 100, kTimedLearningRate, u->weights, u->gradients); },
          [=] { return u->first_step(); }};
}

Set norm(Pool& p, std::int64_t n, DType dtype) {
  const Tensor g = p.take(dtype, {n}), work = p.take(DType::u8, {kernels::sum_workspace()}),
               result = p.take(DType::f64, {1});
  const Call call = [=, &p] { kernels::sum_of_squares(p.stream(), g, work, result); };
  return {call, [=, &p]() -> Check {
            call();
            // Normal numbers: a mean square of 1, give or take sqrt(2 / n).
            const double mean = values(p.stream(), result)[0] / double(n);
            return {std::abs(mean - 1), 0.05, "the variance of the numbers"};
          }};
}

}  // namespace

void add_updates(Cases& cases, const Place& place) {
  for (std::size_t r = 0; r < optimizer::optimizer_names().size(); ++r) {
    const auto rule = Rule(r);
    for (const Flat& f : flats(place, rule))
      for (const bool exact : {false, true}) {
        const OptimizerConfig c = config_of(rule, exact);
        const optimizer::UpdateCost cost = optimizer::update_cost(c, f.parameters, kStorage);
        const double n = double(f.parameters.total);
        cases.push_back(
            {.name =
                 std::string("optimizer/") + optimizer::optimizer_names()[r] + "/" + f.name + (exact ? "/exact" : ""),
             .component = "optimizer",
             .dtype = std::string(name_of(kStorage)),
             .work = {.flops = cost.newton_schulz_flops,
                      .bytes = cost.state_bytes + cost.newton_schulz_bytes + 3 * n * double(size_of(kStorage)),
                      .items = n,
                      .item_units = "parameters",
                      .source = "optimizer::update_cost, weights twice, gradients once"},
             .make = [=](Pool& p) { return update(p, c, f.parameters); },
             .quick = !place.gpu && rule == Rule::adamw && exact});
      }
  }
  const std::int64_t n = place.gpu ? std::int64_t(1) << 30 : std::int64_t(1) << 24;
  for (const DType dtype : {DType::bf16, DType::f32})
    cases.push_back(
        {.name = std::string("optimizer/sum_of_squares/") + (place.gpu ? "1g/" : "16m/") + std::string(name_of(dtype)),
         .component = "optimizer",
         .dtype = std::string(name_of(dtype)),
         .work = {.bytes = double(n * size_of(dtype)), .source = "kernels/norm/norm.hpp"},
         .make = [=](Pool& p) { return norm(p, n, dtype); }});
}

// The whole step of the 125M model with each of them, weights in bf16 with exact masters.
void add_training(Cases& cases, const Place& place) {
  for (std::size_t r = 0; r < optimizer::optimizer_names().size(); ++r) {
    const train::Config c = network(place, Rule(r), place.gpu ? DType::bf16 : DType::f32);
    const double tokens = double(train::tokens_per_step(c));
    cases.push_back(
        {.name = std::string("optimizer/") + optimizer::optimizer_names()[r] + "/" + network_name(place) + "/training",
         .component = "optimizer",
         .dtype = std::string(name_of(c.train.storage)),
         .runs = Runs::queued,
         .work = {.items = tokens, .item_units = "tokens", .source = "tokens of a step"},
         .make = [=](Pool& p) -> Set {
           const auto t = std::make_shared<Training>(c, p);
           return {[=] { t->queue(); },
                   [=]() -> Check {
                     t->queue();
                     return {std::abs(t->finish() - std::log(double(c.model.vocab))), 0.5,
                             "ln(V), loss of the first step in nats"};
                   }};
         }});
  }
}

}  // namespace mylos::bench
