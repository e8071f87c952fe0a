#include "train/products.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.hpp"
#include "data/file.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "model/transformer.hpp"

namespace mylos::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHeuristic = "heuristic";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

std::string usual_products_file() {
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/mylos/products.json";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/mylos/products.json";
  return "";
}

kernels::ProductCache load_products(const std::string& path) {
  std::error_code error;
  check(fs::is_regular_file(path, error),
        "'{}' is no file of tuned products; make it with 'mylos tune CONFIG --cache {}'", path, path);
  return kernels::ProductCache::parse(data::read_file(path, kernels::ProductCache::kMaxBytes), path);
}

void save_products(const std::string& path, const kernels::ProductCache& cache) {
  std::error_code error;
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) fs::create_directories(folder, error);
  check(!error, "the folder of '{}' cannot be made: {}", path, error.message());
  data::write_file(path, cache.to_json());
}

std::string use_products(const std::string& products) {
  const std::string path = products.empty() ? usual_products_file() : products;
  std::error_code error;
  const bool absent = products.empty() && (path.empty() || !fs::exists(path, error));
  if (products == kHeuristic || absent || kernels::product_library().version == 0) {
    // A wrong name or a damaged file shows where there is nothing to tune, too.
    if (!products.empty() && products != kHeuristic) load_products(path);
    kernels::use_products({});
    return kernels::product_library().version == 0
               ? "products    nothing to tune on this device"
               : fmt::format("products    the library's first choices{}",
                             absent ? "; 'mylos tune' measures which are faster" : "");
  }
  const kernels::PinnedProducts used = kernels::use_products(load_products(path));
  return fmt::format(
      "products    {} tuned in '{}'{}", used.pinned, path,
      used.elsewhere > 0 ? fmt::format(", {} of other devices or versions of cuBLAS not used", used.elsewhere) : "");
}

std::vector<kernels::ProductShape> product_shapes(const Config& config) {
  kernels::use_products({});
  if (kernels::product_library().version == 0) return {};
  model::ModelConfig blocks = config.model;
  blocks.layers = std::min<std::int64_t>(blocks.layers, 2);
  model::ExecutionConfig how = execution(config);
  if (how.recompute == model::Recompute::automatic) how.recompute = model::Recompute::none;

  const auto lay_out = [&](Arena& arena, model::Batch& batch, Tensor& scale, Tensor& loss) {
    constexpr const char* kCategory = "batch";
    for (Tensor* t : {&batch.tokens, &batch.labels, &batch.positions})
      *t = arena.take(DType::i32, {how.batch, how.sequence}, kCategory);
    scale = arena.take(DType::f32, {1}, kCategory);
    loss = arena.take(DType::f64, {how.batch}, kCategory);
    return model::Transformer(blocks, how, arena);
  };
  model::Batch batch;
  Tensor scale, loss;
  Arena measure;
  lay_out(measure, batch, scale, loss);
  Arena arena(measure.peak_bytes(), "products to tune");
  model::Transformer model = lay_out(arena, batch, scale, loss);
  const Stream stream;
  model.initialize(stream, 1);
  for (const Tensor& t : {batch.tokens, batch.labels, batch.positions}) fill_zero(stream, t);
  kernels::fill(stream, 1.0, scale);
  model.forward_backward(stream, batch, scale, true, loss);
  if (config.train.accumulation > 1) model.forward_backward(stream, batch, scale, false, loss);
  model.evaluate(stream, batch, loss);
  stream.fence();
  std::vector<kernels::ProductShape> shapes;
  for (const kernels::TunedProduct& p : kernels::products_in_use()) shapes.push_back(p.shape);
  return shapes;
}

}  // namespace mylos::train
