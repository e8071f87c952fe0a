// What the cases share: the lists that all.cpp puts together, the shapes they are made for, names, and how results are held against doubles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/harness/list.hpp"

namespace mylos::bench {

// Blocks of Llama models with the tokens of a micro-batch that fills an H200, and one for CPUs. T tokens, D dim, F ffn, V vocabulary; chunk:
// tokens of the head at a time.
struct Preset {
  const char* name;
  std::int64_t tokens, dim, ffn, heads, kv_heads, head_size, vocabulary, chunk;
  std::int64_t width() const { return (heads + 2 * kv_heads) * head_size; }  // of the fused projection
};
std::vector<Preset> presets(const Place& place);

// ops/<preset>/<op>/<dtype>
std::string op_name(const Preset& s, const std::string& op, DType dtype);

// Dense windows as doubles.
std::vector<double> values(const Stream& stream, const Tensor& t);

// The largest |got - want| over max(|want|, floor).
class Worst {
 public:
  explicit Worst(double floor) : floor_(floor) {}
  void add(double got, double want) {
    const double error = std::abs(got - want) / std::max(std::abs(want), floor_);
    error_ = error <= error_ ? error_ : error;  // a NaN stays
  }
  double error() const { return std::isnan(error_) ? HUGE_VAL : error_; }

 private:
  double floor_, error_ = 0;
};
// What storage in dtype alone explains, times a small factor.
double tolerance(DType dtype);

// benchmarks/cases/<component>
void add_proofs(Cases& cases, const Place& place);
void add_norms(Cases& cases, const Preset& s, DType dtype);
void add_block_passes(Cases& cases, const Preset& s, DType dtype);
void add_embedding(Cases& cases, const Preset& s, DType dtype);
void add_loss(Cases& cases, const Preset& s, DType dtype);
void add_head(Cases& cases, const Preset& s, DType dtype);
void add_products(Cases& cases, const Preset& s, DType dtype);
void add_feed_forward(Cases& cases, const Preset& s, DType dtype);
void add_batches(Cases& cases, const Place& place);
void add_attention(Cases& cases, const Place& place);
void add_models(Cases& cases, const Place& place);
void add_updates(Cases& cases, const Place& place);
void add_training(Cases& cases, const Place& place);
void add_reading(Cases& cases, const Place& place);
void add_packing(Cases& cases, const Place& place);
void add_loaders(Cases& cases, const Place& place);
void add_tokenizing(Cases& cases, const Place& place);
void add_checkpoints(Cases& cases, const Place& place);
void add_bundles(Cases& cases, const Place& place);

}  // namespace mylos::bench
