// Every kernel that an op launches is named mylos::<op>::<phase>, and no op allocates: both are heard through Kokkos
// Tools. A new op joins by a line in each_op().
#include <Kokkos_Core.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/adamw/adamw.hpp"
#include "kernels/batch/batch.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "kernels/embedding/embedding.hpp"
#include "kernels/norm/norm.hpp"
#include "kernels/random/random.hpp"
#include "kernels/rms_norm/rms_norm.hpp"
#include "kernels/rope/rope.hpp"
#include "kernels/swiglu/swiglu.hpp"
#include "support/host_tensor.hpp"

namespace mylos {
namespace {

using namespace test;
namespace k = kernels;

std::vector<std::string> launched, allocated;

void on_launch(const char* name, std::uint32_t, std::uint64_t*) { launched.push_back(name); }
void on_allocate(Kokkos_Profiling_SpaceHandle, const char* name, const void*, std::uint64_t) {
  allocated.push_back(name);
}

// Listens from its construction to its end.
struct Listener {
  Listener() {
    launched.clear();
    allocated.clear();
    set(on_launch, on_allocate);
  }
  ~Listener() { set(nullptr, nullptr); }
  static void set(Kokkos_Profiling_beginFunction launch, Kokkos_Profiling_allocateDataFunction allocate) {
    namespace tools = Kokkos::Tools::Experimental;
    tools::set_begin_parallel_for_callback(launch);
    tools::set_begin_parallel_reduce_callback(launch);
    tools::set_begin_parallel_scan_callback(launch);
    tools::set_allocate_data_callback(allocate);
  }
};

// Operands of all ops, T x D and small.
struct Operands {
  Stream stream;
  DeviceTensor x, y, z, wide, weight, rstd, tokens, table, angles, work, groups, f64, two, p, low, flat, sums, ints;

  explicit Operands(DType dtype) {
    x = to_device(stream, random_normal({6, 16}, test_seed()), dtype);
    y = to_device(stream, random_normal({6, 16}, test_seed() + 1), dtype);
    z = empty_device({6, 16}, dtype);
    wide = to_device(stream, random_normal({6, 32}, test_seed() + 2), dtype);
    weight = to_device(stream, random_normal({16}, test_seed() + 3), dtype);
    rstd = to_device(stream, random_normal({6}, test_seed() + 4), DType::f32);
    tokens = to_device(stream, random_ints(6, 0, 9, test_seed() + 5), {6});
    table = to_device(stream, random_normal({9, 16}, test_seed() + 6), dtype);
    angles = empty_device({9, 8}, DType::f32);
    work = empty_device({std::int64_t(1) << 20}, DType::u8);
    groups = empty_device({k::embedding_group_bytes(6, 9)}, DType::u8);
    f64 = empty_device({1}, DType::f64);
    two = empty_device({2}, DType::f32);
    p = empty_device({96}, DType::bf16);
    low = empty_device({96}, DType::u16);
    flat = to_device(stream, random_normal({96}, test_seed() + 7), DType::f32);
    sums = to_device(stream, zeros({16}), DType::f32);
    ints = to_device(stream, random_ints(96, 0, 9, test_seed() + 8), {96});
  }
};

using Op = std::pair<const char*, std::function<void(const Operands&)>>;

const std::vector<Op>& each_op() {
  static const std::vector<Op> ops{
      {"convert", [](const Operands& o) { k::convert(o.stream, o.flat.tensor, o.p.tensor); }},
      {"add", [](const Operands& o) { k::add(o.stream, o.x.tensor, o.y.tensor, o.z.tensor); }},
      {"fill", [](const Operands& o) { k::fill(o.stream, 0.5, o.z.tensor); }},
      {"random_normal", [](const Operands& o) { k::random_normal(o.stream, 1, 0, 1.0f, o.z.tensor); }},
      {"embedding_forward",
       [](const Operands& o) { k::embedding_forward(o.stream, o.table.tensor, o.tokens.tensor, o.z.tensor); }},
      {"embedding_backward",  // on a CPU the grouping has no kernel
       [](const Operands& o) {
         k::embedding_group(o.stream, o.tokens.tensor, 9, o.groups.tensor);
         k::embedding_backward(o.stream, o.groups.tensor, o.x.tensor, o.work.tensor, o.table.tensor);
       }},
      {"rms_norm_forward",
       [](const Operands& o) {
         k::rms_norm_forward(o.stream, o.x.tensor, o.weight.tensor, 1e-5f, o.z.tensor, o.rstd.tensor);
       }},
      {"residual_rms_norm_forward",
       [](const Operands& o) {
         k::residual_rms_norm_forward(o.stream, o.x.tensor, o.y.tensor, o.weight.tensor, 1e-5f, o.y.tensor, o.z.tensor,
                                      o.rstd.tensor);
       }},
      {"rms_norm_apply",
       [](const Operands& o) { k::rms_norm_apply(o.stream, o.x.tensor, o.weight.tensor, o.rstd.tensor, o.z.tensor); }},
      {"rms_norm_backward",
       [](const Operands& o) {
         k::rms_norm_backward(o.stream, o.y.tensor, o.x.tensor, o.weight.tensor, o.rstd.tensor, {}, true, o.work.tensor,
                              o.z.tensor, o.sums.tensor);
       }},
      {"rope_table", [](const Operands& o) { k::rope_table(o.stream, 1e4, o.angles.tensor); }},
      {"rope",
       [](const Operands& o) {
         k::rope(o.stream, k::RopeDirection::forward, o.angles.tensor, o.tokens.tensor, o.x.tensor.reshape({6, 2, 8}));
       }},
      {"swiglu_forward", [](const Operands& o) { k::swiglu_forward(o.stream, o.wide.tensor, o.z.tensor); }},
      {"swiglu_backward",
       [](const Operands& o) { k::swiglu_backward(o.stream, o.wide.tensor, o.x.tensor, o.wide.tensor); }},
      {"sum_of_squares",
       [](const Operands& o) { k::sum_of_squares(o.stream, o.x.tensor, o.work.tensor, o.f64.tensor); }},
      {"sum_rows",
       [](const Operands& o) {
         k::sum_rows(o.stream, o.x.tensor.reshape({1, 96}), o.f64.tensor);
       }},
      {"widen_batch",
       [](const Operands& o) {
         const auto part = [&](std::int64_t first, std::int64_t rows, std::int64_t columns) {
           return o.ints.tensor.slice(0, first, first + rows * columns).reshape({rows, columns});
         };
         const auto words = [&](std::int64_t first, std::int64_t rows, std::int64_t columns) {
           return part(first, rows, columns).view_as(DType::u32);
         };
         k::widen_batch(o.stream, {words(0, 2, 9), words(18, 2, 1), words(20, 2, 1)}, part(32, 2, 8), part(48, 2, 8),
                        part(64, 2, 8), part(80, 2, 8));
       }},
      {"clip_scale", [](const Operands& o) { k::clip_scale(o.stream, o.f64.tensor, 1.0f, o.two.tensor); }},
      {"split_master", [](const Operands& o) { k::split_master(o.stream, o.flat.tensor, o.p.tensor, o.low.tensor); }},
      {"join_master", [](const Operands& o) { k::join_master(o.stream, o.p.tensor, o.low.tensor, o.flat.tensor); }},
      {"adamw",
       [](const Operands& o) {
         k::AdamWStep step;
         step.learning_rate = 0.0f;
         k::adamw(o.stream, step, o.x.tensor, {}, o.y.tensor, {}, o.z.tensor, o.z.tensor);
       }},
  };
  return ops;
}

bool well_named(const std::string& label) {
  const std::size_t op = label.find("::"), phase = label.find("::", op + 2);
  return label.rfind("mylos::", 0) == 0 && phase != std::string::npos && phase > op + 2 && phase + 2 < label.size();
}

TEST(Labels, EveryKernelIsNamedAndNoOpAllocates) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Operands operands(dtype);
    for (const auto& [name, call] : each_op()) {
      SCOPED_TRACE(name);
      call(operands);  // Kokkos makes its own team scratch once
      operands.stream.fence();
      const Listener listener;
      call(operands);
      operands.stream.fence();
      EXPECT_FALSE(launched.empty()) << "the listener heard nothing";
      for (const std::string& label : launched)
        EXPECT_TRUE(well_named(label)) << "'" << label << "' is not mylos::<op>::<phase>";
      for (const std::string& label : allocated)
        ADD_FAILURE() << "allocates '" << label << "'; memory belongs to the caller's workspace";
    }
  }
}

void launch_elsewhere() { Kokkos::parallel_for("elsewhere", Kokkos::RangePolicy<>(0, 1), KOKKOS_LAMBDA(int){}); }

TEST(Labels, TheListenerHearsAnUnnamedKernelAndAnAllocation) {
  const Listener listener;
  launch_elsewhere();
  Kokkos::kokkos_free(Kokkos::kokkos_malloc("something", 8));
  ASSERT_EQ(launched, std::vector<std::string>{"elsewhere"});
  ASSERT_EQ(allocated, std::vector<std::string>{"something"});
  EXPECT_FALSE(well_named(launched[0]));
}

}  // namespace
}  // namespace mylos
