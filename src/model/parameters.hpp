// The parameters of a model as data: names, shapes, order, initialisation. One flat buffer holds all of them, those
// with weight decay first (matrices), then those without (norm weights), so that optimizer, norm and sharding work on
// ranges.
//
// Names and order (PyTorch convention [out, in]):
//   embedding.weight [V, D];  layers.<i>.attention.qkv.weight [(H + 2K)·h, D] (rows q, k, v);
//   layers.<i>.attention.output.weight [D, H·h];  layers.<i>.ffn.gate_up.weight [2F, D] (rows gate, up);
//   layers.<i>.ffn.down.weight [D, F];  head.weight [V, D] (absent when tied);  then layers.<i>.attention.norm.weight
//   [D], layers.<i>.ffn.norm.weight [D], with qk_norm layers.<i>.attention.q_norm.weight [h],
//   layers.<i>.attention.k_norm.weight [h], and norm.weight [D].
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/config.hpp"
#include "tensor/tensor.hpp"

namespace mylos::model {

struct ParameterInfo {
  std::string name;
  std::vector<std::int64_t> shape;
  bool decay;       // weight decay applies
  double init_std;  // 0: initialised to one (norm weights)
  std::int64_t
      offset;  // elements from the start of the flat buffer (each parameter starts at a multiple of 128 elements)
  std::int64_t size;  // elements
};

struct ParameterLayout {
  std::vector<ParameterInfo> parameters;
  std::unordered_map<std::string, std::size_t> places;  // in parameters, by name: 16,384 layers have 100,000 of them
  std::int64_t decay_end;                               // flat elements [0, decay_end) decay, [decay_end, total) do not
  std::int64_t total;                                   // flat elements, padding included
  std::int64_t count;                                   // parameters without padding
  std::int64_t embedding_count;  // of them in the input embedding (0 when tied: the table is then also the head)

  const ParameterInfo& find(const std::string& name) const;  // throws Error with the nearest name
  // The window of one parameter in a flat buffer.
  Tensor window(const Tensor& flat, const ParameterInfo& info) const;
};

ParameterLayout parameter_layout(const ModelConfig& resolved);

}  // namespace mylos::model
