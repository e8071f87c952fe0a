#include "checkpoint/weights.hpp"

#include <cstring>
#include <random>

#include "checkpoint/temporary_folder.hpp"
#include "support/host_tensor.hpp"

namespace mylos::checkpoint {
namespace {

using test::error_of;
using test::TemporaryFolder;

struct Model {
  std::vector<WeightInfo> infos{{"embedding.weight", DType::bf16, {517, 96}},
                                {"layers.0.attention.qkv.weight", DType::f32, {3, 1'400'003}},
                                {"norm.weight", DType::f32, {96}},
                                {"experts", DType::bf16, {5, 7, 3}}};
  std::vector<std::vector<std::byte>> data;

  Model() {
    std::mt19937_64 random(test::test_seed());
    for (const WeightInfo& w : infos) {
      data.emplace_back(std::size_t(w.elements() * size_of(w.dtype)));
      for (std::byte& b : data.back()) b = std::byte(random());
    }
  }
  std::vector<const void*> pointers() const {
    std::vector<const void*> p;
    for (const auto& d : data) p.push_back(d.data());
    return p;
  }
};

const WeightsMeta kMeta{42, "[model]\ndim = 96\n", {{"tokenizer", "data/bpe.json"}}};

TEST(Weights, ComeBackToTheBit) {
  const TemporaryFolder folder;
  const std::string path = folder / "w.h5";
  const Model m;
  write_weights(path, m.infos, m.pointers(), kMeta);
  const WeightsReader r(path);
  EXPECT_EQ(r.meta().step, 42);
  EXPECT_EQ(r.meta().config_toml, kMeta.config_toml);
  EXPECT_EQ(r.meta().texts, kMeta.texts);
  EXPECT_EQ(r.weights().size(), m.infos.size());
  // Asked for in another order than written.
  std::vector<WeightInfo> wanted(m.infos.rbegin(), m.infos.rend());
  std::vector<std::vector<std::byte>> got;
  std::vector<void*> out;
  for (auto d = m.data.rbegin(); d != m.data.rend(); ++d) got.emplace_back(d->size());
  for (auto& g : got) out.push_back(g.data());
  r.read(wanted, out);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], m.data[got.size() - 1 - i]) << wanted[i].name;
}

TEST(Weights, NamesWhatDoesNotFitTheModel) {
  const TemporaryFolder folder;
  const std::string path = folder / "w.h5";
  const Model m;
  write_weights(path, m.infos, m.pointers(), kMeta);
  const WeightsReader r(path);
  const DrainWeight ignore = [](std::size_t, std::int64_t, std::int64_t, const void*) {};
  auto other = m.infos;
  other[0].shape = {96, 517};
  EXPECT_CONTAINS(error_of([&] { r.read(other, ignore); }),
                  "'embedding.weight' is bf16[517, 96], the model wants bf16[96, 517]");
  other = m.infos;
  other[2].dtype = DType::bf16;
  EXPECT_CONTAINS(error_of([&] { r.read(other, ignore); }), "norm.weight");
  other = m.infos;
  other.pop_back();
  EXPECT_CONTAINS(error_of([&] { r.read(other, ignore); }), "'experts' that the model lacks");
  other = m.infos;
  other.push_back({"head.weight", DType::f32, {2}});
  EXPECT_CONTAINS(error_of([&] { r.read(other, ignore); }), "'head.weight' that the file lacks");
}

TEST(Weights, AreNotReadFromOtherFiles) {
  const TemporaryFolder folder;
  const std::string path = folder / "w.h5";
  Writer w(path);
  w.attribute("/", "schema", std::string("mylos-bundle"));
  w.attribute("/", "kind", std::string("train"));
  w.commit();
  EXPECT_CONTAINS(error_of([&] { WeightsReader r(path); }), "holds no weights");
  EXPECT_CONTAINS(error_of([&] { WeightsReader r(folder / "absent.h5"); }), "No such file");
  EXPECT_CONTAINS(error_of([&] { write_weights(path, {{"a/b", DType::f32, {1}}}, FillWeight(), kMeta); }), "a/b");
}

TEST(Weights, ADamagedTensorIsAnError) {
  const TemporaryFolder folder;
  const std::string path = folder / "w.h5";
  const Model m;
  write_weights(path, m.infos, m.pointers(), kMeta);
  auto bytes = test::file_bytes(path);
  const auto* needle = reinterpret_cast<const char*>(m.data[0].data());
  const auto at = std::search(bytes.begin(), bytes.end(), needle, needle + 64);
  ASSERT_NE(at, bytes.end());
  *at ^= 1;
  test::write_file(path, bytes);
  const WeightsReader r(path);
  EXPECT_CONTAINS(error_of([&] { r.read(m.infos, [](std::size_t, std::int64_t, std::int64_t, const void*) {}); }),
                  "embedding.weight");
}

}  // namespace
}  // namespace mylos::checkpoint
