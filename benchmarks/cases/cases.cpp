#include "benchmarks/cases/cases.hpp"

#include "kernels/elementwise/elementwise.hpp"

namespace mylos::bench {

std::vector<Preset> presets(const Place& place) {
  if (!place.gpu) return {{"small", 512, 256, 768, 4, 2, 64, 2048, 512}};
  return {{"125m", 8192, 768, 2048, 12, 12, 64, 32000, 8192},
          {"7b", 16384, 4096, 14336, 32, 8, 128, 128256, 8192},
          {"70b", 8192, 8192, 28672, 64, 8, 128, 128256, 4096}};
}

std::string op_name(const Preset& s, const std::string& op, DType dtype) {
  return std::string("ops/") + s.name + "/" + op + "/" + std::string(name_of(dtype));
}

std::vector<double> values(const Stream& stream, const Tensor& t) {
  expect_dense("values", "t", t);
  std::vector<std::byte> raw(std::size_t(t.bytes()));
  download(stream, t, raw.data(), t.bytes());
  std::vector<double> out(static_cast<std::size_t>(t.size()));
  const auto read = [&]<class T>(const T* from) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      if constexpr (std::is_same_v<T, bf16>)
        out[i] = double(float(from[i]));
      else
        out[i] = double(from[i]);
    }
  };
  switch (t.dtype()) {
    case DType::bf16:
      read(reinterpret_cast<const bf16*>(raw.data()));
      break;
    case DType::f32:
      read(reinterpret_cast<const float*>(raw.data()));
      break;
    case DType::f64:
      read(reinterpret_cast<const double*>(raw.data()));
      break;
    case DType::i32:
      read(reinterpret_cast<const std::int32_t*>(raw.data()));
      break;
    default:
      fail("the values of {} are not read as doubles", t.describe());
  }
  return out;
}

double tolerance(DType dtype) { return dtype == DType::bf16 ? 8e-3 : 1e-5; }

Cases all_cases(const Place& place) {
  Cases cases;
  add_proofs(cases, place);
  add_models(cases, place);
  add_attention(cases, place);
  for (const Preset& s : presets(place))
    for (const DType dtype : {DType::bf16, DType::f32})
      for (const auto add :
           {add_norms, add_block_passes, add_embedding, add_loss, add_head, add_products, add_feed_forward})
        add(cases, s, dtype);
  add_batches(cases, place);
  add_updates(cases, place);
  add_training(cases, place);
  add_reading(cases, place);
  add_packing(cases, place);
  add_loaders(cases, place);
  add_tokenizing(cases, place);
  add_checkpoints(cases, place);
  add_bundles(cases, place);
  return cases;
}

}  // namespace mylos::bench
