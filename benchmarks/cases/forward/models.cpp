// The 125M model as a whole: forward, forward and backward, a step, and its feed-forward part. FLOPs: model/flops.hpp.
#include "benchmarks/cases/network.hpp"
#include "benchmarks/cases/words.hpp"
#include "kernels/matmul/matmul.hpp"
#include "kernels/swiglu/swiglu.hpp"
#include "model/flops.hpp"

namespace mylos::bench {
namespace {

// With random weights the loss is near ln(V), whatever the tokens; tests hold the model against golden values.
Check near_uniform(double loss, double vocabulary) {
  return {std::abs(loss - std::log(vocabulary)), 0.5, "ln(V), loss of the first call in nats"};
}

// A model with one batch on the device. Recorded work reads the same tokens each time: its weights and activations are far more than a cache.
struct Network {
  Arena arena;
  model::Transformer model;
  model::Batch batch;
  Tensor scale, row_loss;
  std::int64_t tokens;

  static std::int64_t plan(const train::Config& c, bool training) {
    model::ExecutionConfig e = train::execution(c);
    e.training = training;
    Arena measuring;
    const model::Transformer m(c.model, e, measuring);
    need_memory(measuring.peak_bytes(), "the model");
    return measuring.peak_bytes();
  }
  static model::ExecutionConfig how(const train::Config& c, bool training) {
    model::ExecutionConfig e = train::execution(c);
    e.training = training;
    return e;
  }

  Network(Pool& p, const train::Config& c, bool training)
      : arena(plan(c, training), "model"), model(c.model, how(c, training), arena) {
    const std::int64_t B = c.train.batch, S = c.train.sequence;
    tokens = B * S;
    const auto ids = [&](Words words) { return p.integers(draw(tokens, c.model.vocab, words)).reshape({B, S}); };
    std::vector<std::int32_t> places;
    for (std::int64_t t = 0; t < tokens; ++t) places.push_back(std::int32_t(t % S));
    batch = {ids(Words::zipf), ids(Words::uniform), p.integers(places).reshape({B, S}), {}};
    scale = p.filled(DType::f32, {1}, 1 / double(tokens));
    row_loss = p.take(DType::f64, {B});
    model.initialize(p.stream(), 1);
    p.elsewhere(arena.capacity_bytes());
  }
};

Set pass(Pool& p, const train::Config& c, bool training) {
  const auto n = std::make_shared<Network>(p, c, training);
  const Call call = [=, &p] {
    if (training)
      n->model.forward_backward(p.stream(), n->batch, n->scale, true, n->row_loss);
    else
      n->model.evaluate(p.stream(), n->batch, n->row_loss);
  };
  return {call, [=, &p] {
            call();
            double loss = 0;
            for (const double row : values(p.stream(), n->row_loss)) loss += row / double(n->tokens);
            return near_uniform(loss, double(c.model.vocab));
          }};
}

Set step(Pool& p, const train::Config& c) {
  const auto t = std::make_shared<Training>(c, p);
  return {[=] { t->queue(); },
          [=] {
            t->queue();
            return near_uniform(t->finish(), double(c.model.vocab));
          }};
}

Set feed_forward(Pool& p, const train::Config& c) {
  namespace k = kernels;
  const std::int64_t T = train::tokens_per_step(c), D = c.model.dim, F = c.model.ffn;
  const DType dtype = c.train.storage;
  const Tensor x = p.take(dtype, {T, D}), gate_up = p.normal(dtype, {2 * F, D}, 0.02f),
               down = p.normal(dtype, {D, F}, 0.02f), z = p.take(dtype, {T, 2 * F}), a = p.take(dtype, {T, F}),
               y = p.take(dtype, {T, D}), work = p.take(DType::u8, {k::matmul_workspace()});
  const Call call = [=, &p] {
    k::linear_forward(p.stream(), x, gate_up, work, z);
    k::swiglu_forward(p.stream(), z, a);
    k::linear_forward(p.stream(), a, down, work, y);
  };
  return {
      call, [=, &p]() -> Check {
        call();
        const std::vector<double> row = values(p.stream(), a.slice(0, 0, 1)), w = values(p.stream(), down),
                                  got = values(p.stream(), y.slice(0, 0, 1));
        double size = 0;
        for (const double v : row) size += v * v * 0.02 * 0.02;
        Worst worst(std::sqrt(size));
        for (std::int64_t d = 0; d < D; ++d) {
          double want = 0;
          for (std::int64_t f = 0; f < F; ++f) want += row[std::size_t(f)] * w[std::size_t(d * F + f)];
          worst.add(got[std::size_t(d)], want);
        }
        return {worst.error(), dtype == DType::bf16 ? 8e-3 : 2e-3, "double on the host, the last product of a token"};
      }};
}

}  // namespace

void add_models(Cases& cases, const Place& place) {
  for (const DType storage : {place.gpu ? DType::bf16 : DType::f32, place.gpu ? DType::f32 : DType::bf16}) {
    const train::Config c = network(place, optimizer::Rule::adamw, storage);
    const bool first = storage == (place.gpu ? DType::bf16 : DType::f32);
    model::ExecutionConfig evaluation = train::execution(c);
    evaluation.training = false;
    const double tokens = double(train::tokens_per_step(c)),
                 forward = model::total_flops(model::step_ledger(c.model, evaluation, {})).all();
    const model::FlopTotals training = model::total_flops(model::step_ledger(c.model, train::execution(c), {}));
    const auto add = [&](const char* part, Runs runs, double flops, auto make) {
      cases.push_back(
          {.name = fmt::format("forward/{}/{}{}{}", network_name(place), part, first ? "" : "/",
                               first ? "" : name_of(storage)),
           .component = "forward",
           .dtype = std::string(name_of(storage)),
           .runs = runs,
           .work = {.flops = flops, .items = tokens, .item_units = "tokens", .source = "model::step_ledger"},
           .make = make,
           .quick = first && std::string(part) == "forward_backward"});
    };
    add("forward", Runs::recorded, forward, [=](Pool& p) { return pass(p, c, false); });
    add("forward_backward", Runs::recorded, training.forward + training.backward,
        [=](Pool& p) { return pass(p, c, true); });
    add("step", Runs::queued, training.forward + training.backward, [=](Pool& p) { return step(p, c); });
    add("mlp", Runs::recorded, 6 * tokens * double(c.model.dim) * double(c.model.ffn),
        [=](Pool& p) { return feed_forward(p, c); });
  }
}

}  // namespace mylos::bench
