// Loss, logits, every gradient and ten AdamW steps against an independent implementation (tools/make_golden.py).
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "kernels/adamw/adamw.hpp"
#include "kernels/norm/norm.hpp"
#include "model/tiny_model.hpp"

namespace mylos::model::test {
namespace {

using mylos::test::close;
using mylos::test::DeviceTensor;
using mylos::test::empty_device;
using mylos::test::HostTensor;

// One variant of the golden file.
class Golden {
 public:
  explicit Golden(const std::string& variant) {
    const char* root = std::getenv("MYLOS_SOURCE_ROOT");
    const std::string path = std::string(root ? root : ".") + "/tests/model/golden/llama.h5";
    file_ = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file_ >= 0) group_ = H5Gopen2(file_, variant.c_str(), H5P_DEFAULT);
  }
  ~Golden() {
    if (group_ >= 0) H5Gclose(group_);
    if (file_ >= 0) H5Fclose(file_);
  }
  Golden(const Golden&) = delete;
  Golden& operator=(const Golden&) = delete;
  bool ok() const { return group_ >= 0; }

  double number(const char* name) const {
    double x = std::nan("");
    const hid_t a = H5Aopen(group_, name, H5P_DEFAULT);
    if (a < 0 || H5Aread(a, H5T_NATIVE_DOUBLE, &x) < 0) ADD_FAILURE() << "no attribute " << name;
    H5Aclose(a);
    return x;
  }
  std::int64_t integer(const char* name) const { return std::int64_t(number(name)); }
  template <class T>
  std::vector<T> read(const std::string& name) const {
    std::vector<T> v;
    const hid_t d = H5Dopen2(group_, name.c_str(), H5P_DEFAULT);
    const hid_t space = H5Dget_space(d);
    v.resize(std::size_t(std::max<hssize_t>(0, H5Sget_simple_extent_npoints(space))));
    const hid_t type = std::is_same_v<T, double> ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT32;
    if (v.empty() || H5Dread(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, v.data()) < 0)
      ADD_FAILURE() << "cannot read " << name;
    H5Sclose(space);
    H5Dclose(d);
    return v;
  }
  HostBatch batch(int i) const {
    const std::string g = "batch" + std::to_string(i) + "/";
    return {integer("batch"),
            integer("sequence"),
            read<std::int32_t>(g + "tokens"),
            read<std::int32_t>(g + "labels"),
            read<std::int32_t>(g + "positions"),
            read<std::int32_t>(g + "document_start")};
  }
  ModelConfig config() const {
    return resolve({.dim = integer("dim"),
                    .layers = integer("layers"),
                    .heads = integer("heads"),
                    .kv_heads = integer("kv_heads"),
                    .head_size = integer("head_size"),
                    .ffn = integer("ffn"),
                    .vocab = integer("vocab"),
                    .max_seq_len = integer("max_seq_len"),
                    .rope_theta = number("rope_theta"),
                    .norm_eps = number("norm_eps"),
                    .tied_head = number("tied_head") != 0,
                    .qk_norm = number("qk_norm") != 0});
  }
  bool documents() const { return number("documents") != 0; }
  HostTensor flat(const ParameterLayout& layout) const {
    HostTensor w = mylos::test::zeros({layout.total});
    for (const ParameterInfo& p : layout.parameters) {
      const std::vector<double> v = read<double>("weights/" + p.name);
      EXPECT_EQ(std::int64_t(v.size()), p.size) << p.name;
      std::copy(v.begin(), v.end(), w.v.begin() + p.offset);
    }
    return w;
  }

 private:
  hid_t file_ = -1, group_ = -1;
};

struct Case {
  const char* variant;
  DType storage;
};

class GoldenTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { ASSERT_TRUE(golden.ok()) << "tests/model/golden/llama.h5 not found; set MYLOS_SOURCE_ROOT"; }
  ExecutionConfig execution() const {
    return {.batch = golden.integer("batch"), .sequence = golden.integer("sequence"), .storage = GetParam().storage};
  }
  bool f32() const { return GetParam().storage == DType::f32; }
  // bf16 activations and their gradients are each rounded to 2^-9: 1.2 % on a matrix. The few elements of a norm's
  // gradient are sums over all tokens in which much cancels.
  double gradient_tolerance(const ParameterInfo& p) const { return f32() ? 1e-5 : p.decay ? 2e-2 : 5e-2; }
  Golden golden{GetParam().variant};
};

TEST_P(GoldenTest, LossLogitsAndEveryGradient) {
  TinyModel m(golden.config(), execution());
  m.set_weights(golden.flat(m.model->layout()));
  const HostBatch batch = golden.batch(0);
  const double valid = golden.read<double>("valid")[0], expected = golden.read<double>("loss_sum")[0];
  EXPECT_EQ(double(batch.valid()), valid);
  const double loss = m.forward_backward(batch, golden.documents(), float(1 / valid), true);
  EXPECT_NEAR(loss, expected, (f32() ? 1e-6 : 1e-3) * expected);
  for (const ParameterInfo& p : m.model->layout().parameters)
    EXPECT_TRUE(close(m.gradient(p.name), HostTensor{p.shape, golden.read<double>("gradients/" + p.name)},
                      gradient_tolerance(p)))
        << p.name;

  const DeviceBatch d = to_device(m.stream, batch, golden.documents());
  const DeviceTensor position = mylos::test::to_device(m.stream, golden.read<std::int32_t>("position"), {batch.batch});
  const DeviceTensor logits = empty_device({batch.batch, m.model->config().vocab}, DType::f32);
  Batch without_labels = d.view;
  without_labels.labels = Tensor();
  m.model->logits_at(m.stream, without_labels, position.tensor, logits.tensor);
  const HostTensor got = mylos::test::to_host(m.stream, logits.tensor);
  EXPECT_TRUE(close(got, HostTensor{got.shape, golden.read<double>("logits")}, f32() ? 5e-6 : 2e-2));
}

TEST_P(GoldenTest, TenTrainingLosses) {
  TinyModel m(golden.config(), execution());
  const ParameterLayout& layout = m.model->layout();
  const HostTensor initial = golden.flat(layout);
  m.set_weights(initial);
  const DeviceTensor first_moment = to_device(m.stream, mylos::test::zeros({layout.total}), DType::f32);
  const DeviceTensor second_moment = to_device(m.stream, mylos::test::zeros({layout.total}), DType::f32);
  DeviceTensor low;
  if (!f32()) {
    low = empty_device({layout.total}, DType::u16);
    const DeviceTensor master = to_device(m.stream, initial, DType::f32);
    kernels::split_master(m.stream, master.tensor, m.model->weights(), low.tensor);
  }
  const DeviceTensor workspace = empty_device({std::max<std::int64_t>(1, kernels::sum_workspace())}, DType::u8);
  const DeviceTensor squares = empty_device({1}, DType::f64),
                     scale = to_device(m.stream, mylos::test::zeros({2}), DType::f32);

  const HostBatch batches[2] = {golden.batch(0), golden.batch(1)};
  const std::vector<double> losses = golden.read<double>("losses"), norms = golden.read<double>("norms");
  ASSERT_EQ(losses.size(), 10u);
  for (int i = 0; i < 10; ++i) {
    const HostBatch& batch = batches[i % 2];
    const double valid = double(batch.valid());
    const double loss = m.forward_backward(batch, golden.documents(), float(1 / valid), true) / valid;
    EXPECT_NEAR(loss, losses[std::size_t(i)], (f32() ? 1e-5 : 6e-3) * losses[std::size_t(i)]) << "step " << i;
    kernels::sum_of_squares(m.stream, m.model->gradients(), workspace.tensor, squares.tensor);
    kernels::clip_scale(m.stream, squares.tensor, float(golden.number("max_norm")), scale.tensor);
    EXPECT_NEAR(mylos::test::to_host(m.stream, scale.tensor)[0], norms[std::size_t(i)],
                (f32() ? 1e-5 : 1e-2) * norms[std::size_t(i)])
        << i;

    kernels::AdamWStep step;
    step.learning_rate = float(golden.number("learning_rate"));
    step.beta1 = float(golden.number("beta1"));
    step.beta2 = float(golden.number("beta2"));
    step.eps = float(golden.number("eps"));
    step.step = i + 1;
    const auto update = [&](std::int64_t begin, std::int64_t end, double decay) {
      const auto part = [&](const Tensor& t) { return t ? t.slice(0, begin, end) : Tensor(); };
      step.weight_decay = float(decay);
      step.first_index = std::uint64_t(begin);
      kernels::adamw(m.stream, step, part(m.model->gradients()), scale.tensor.slice(0, 1, 2), part(m.model->weights()),
                     part(low.tensor), part(first_moment.tensor), part(second_moment.tensor));
    };
    update(0, layout.decay_end, golden.number("weight_decay"));
    update(layout.decay_end, layout.total, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, GoldenTest,
                         ::testing::Values(Case{"plain", DType::f32}, Case{"qk_norm_documents", DType::f32},
                                           Case{"tied_documents", DType::f32}, Case{"plain", DType::bf16},
                                           Case{"qk_norm_documents", DType::bf16}, Case{"tied_documents", DType::bf16}),
                         [](const auto& info) {
                           return std::string(info.param.variant) + "_" + std::string(name_of(info.param.storage));
                         });

}  // namespace
}  // namespace mylos::model::test
