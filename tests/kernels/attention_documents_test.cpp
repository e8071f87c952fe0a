// Documents: their tables on the device, their buckets, and attention by cuDNN with both.
#include "kernels/attention/documents.hpp"

#include <algorithm>
#include <cstring>

#include "attention_run.hpp"
#include "base/error.hpp"
#include "kernels/attention/ragged.hpp"
#include "tensor/async.hpp"

namespace mylos::test {
namespace {

using kernels::AttentionBucket;
using kernels::AttentionLengths;
using kernels::attention::DocumentClass;
using kernels::attention::DocumentTables;

std::vector<std::int32_t> starts_of(const AttentionShape& s, const std::vector<std::int64_t>& lengths) {
  std::vector<std::int32_t> start;
  for (const std::int64_t n : lengths)
    start.insert(start.end(), std::size_t(n), std::int32_t(std::int64_t(start.size()) % s.sequence));
  EXPECT_EQ(std::int64_t(start.size()), s.batch * s.sequence);
  return start;
}
std::vector<std::int64_t> repeated(std::int64_t count, std::int64_t length) {
  return std::vector<std::int64_t>(std::size_t(count), length);
}

struct Case {
  const char* name;
  AttentionShape shape;
  std::vector<std::int64_t> lengths;  // none: random, every fifth of a single token
};
const Case kCases[] = {
    {"random", {2, 130, 4, 2, 64}, {}},
    {"random_long", {2, 700, 3, 1, 32}, {}},
    {"one_token_each", {1, 60, 2, 2, 64}, repeated(60, 1)},
    {"whole_rows", {3, 100, 2, 2, 64}, repeated(3, 100)},
    {"class_borders", {1, 64 + 65 + 128 + 129, 4, 4, 80}, {64, 65, 128, 129}},
    {"one_long_many_short", {2, 300, 4, 1, 128}, {299, 1, 7, 250, 1, 1, 1, 40}},
};
std::vector<std::int32_t> documents_of(const Case& c, std::uint64_t seed) {
  return c.lengths.empty() ? random_documents(c.shape, seed) : starts_of(c.shape, c.lengths);
}

struct HostClass {
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> starts;
};
// What the tables should say, in the order of the batch.
std::vector<HostClass> classes_of(const AttentionShape& s, const std::vector<std::int32_t>& start,
                                  const DocumentTables& tables) {
  std::vector<HostClass> classes(std::size_t(tables.count));
  const std::int64_t T = s.batch * s.sequence;
  for (std::int64_t t = 0; t < T;) {
    std::int64_t end = t + 1;
    while (end < T && end % s.sequence != 0 && start[std::size_t(end)] == start[std::size_t(t)]) ++end;
    std::size_t c = 0;
    while (tables.classes[c].longest < end - t) ++c;
    classes[c].lengths.push_back(std::int32_t(end - t));
    classes[c].starts.push_back(t);
    t = end;
  }
  return classes;
}

TEST(AttentionDocuments, TablesSayWhereDocumentsLie) {
  std::uint64_t seed = test_seed();
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Stream stream;
    const std::vector<std::int32_t> start = documents_of(c, seed += 10);
    const PlacedDocuments placed(stream, c.shape, start, true);
    const DocumentTables tables = kernels::attention::tables_of(c.shape, placed.view.bucket);
    const std::vector<std::uint8_t> memory = raw_bytes(stream, placed.tables.tensor);
    const std::vector<HostClass> want = classes_of(c.shape, start, tables);
    for (std::size_t i = 0; i < want.size(); ++i) {
      const DocumentClass& of = tables.classes[i];
      std::vector<std::int32_t> lengths(std::size_t(of.room));
      std::memcpy(lengths.data(), memory.data() + of.lengths, lengths.size() * 4);
      HostClass expected = want[i];
      expected.lengths.resize(lengths.size(), 0);
      expected.starts.resize(lengths.size() + 1, c.shape.batch * c.shape.sequence);
      EXPECT_EQ(lengths, expected.lengths);
      for (std::size_t w = 0; w < tables.widths.size(); ++w) {
        std::vector<std::int64_t> offsets(lengths.size() + 1);
        std::memcpy(offsets.data(), memory.data() + of.offsets + w * offsets.size() * 8, offsets.size() * 8);
        for (std::int64_t& o : offsets) o /= tables.widths[w];
        EXPECT_EQ(offsets, expected.starts) << "width " << tables.widths[w];
      }
    }
  }
}

TEST(AttentionDocuments, BucketsHoldWhatTheyAreMadeOf) {
  const AttentionShape shapes[] = {
      {4, 8192, 2, 2, 64}, {2, 100, 4, 1, 64}, {1, 3000, 32, 8, 128}, {16, 512, 12, 12, 64}};
  for (std::uint64_t seed = test_seed(), end = seed + 40; seed < end; ++seed) {
    const AttentionShape s = shapes[seed % std::size(shapes)];
    const bool deterministic = seed / 4 % 2 == 0;
    const AttentionLengths lengths = lengths_of(s, random_documents(s, seed));
    const AttentionBucket bucket = kernels::attention::bucket_of(s, lengths, deterministic),
                          largest = kernels::attention::largest_bucket(s);
    std::size_t c = 0;
    std::int64_t documents = 0;
    for (const auto& [longest, room] : bucket.calls) {
      if (room == 0) continue;
      std::int64_t count = 0;
      while (c < kernels::kLengthClasses && lengths.longest_of_class(c) <= longest) count += lengths.of_class(c++);
      EXPECT_GE(room, count);
      EXPECT_LE(room, count + (count + 1) / 2);
      EXPECT_LE(kernels::attention::ragged_call(s, longest, room, deterministic).workspace,
                kernels::attention::ragged_budget(s, deterministic));
      documents += count;
    }
    EXPECT_EQ(documents, lengths.documents());
    EXPECT_LE(kernels::attention::tables_of(s, bucket).bytes, kernels::attention::tables_of(s, largest).bytes);
  }
}

TEST(AttentionDocuments, CallsAreAsFewAsTheirWorkspaceAllows) {
  const auto bucket_of = [](const AttentionShape& s, const std::vector<std::int64_t>& lengths) {
    AttentionLengths all;
    for (const std::int64_t n : lengths) all.add(n);
    return kernels::attention::bucket_of(s, all, true);
  };
  const AttentionBucket equal = bucket_of({4, 512, 12, 12, 64}, repeated(32, 64));
  EXPECT_EQ(equal.calls[0], (AttentionBucket::Call{64, 32}));
  EXPECT_EQ(equal.calls[1].room, 0);
  std::vector<std::int64_t> mixed = repeated(40, 40);
  mixed.insert(mixed.end(), {264, 184});
  EXPECT_EQ(bucket_of({4, 512, 12, 12, 64}, mixed).calls[0], (AttentionBucket::Call{384, 48}));
  // One call would want 48 x 32 x 4096^2 scores.
  std::vector<std::int64_t> far = repeated(40, 100);
  far.insert(far.end(), {4000, 96});
  const AttentionBucket apart = bucket_of({2, 4096, 32, 8, 128}, far);
  EXPECT_EQ(apart.calls[0], (AttentionBucket::Call{128, 48}));
  EXPECT_EQ(apart.calls[1], (AttentionBucket::Call{4096, 1}));
}

// What plans ask for, from a table of an H200 with cuDNN 9: MiB in any order and deterministic.
TEST(AttentionDocuments, WorkspaceIsKnownWithoutPlans) {
  const struct {
    AttentionShape shape;
    std::int64_t room, longest;
    double any_order, deterministic;
  } known[] = {{{4, 512, 12, 12, 64}, 32, 64, 6.1, 6.1},         {{4, 512, 12, 12, 64}, 64, 512, 18.1, 384.1},
               {{4, 2048, 12, 12, 64}, 43, 1088, 72.4, 1234.0},  {{4, 2048, 12, 12, 64}, 32, 256, 24.4, 48.4},
               {{1, 8192, 12, 12, 64}, 13, 1984, 72.4, 1209.4},  {{2, 4096, 32, 8, 128}, 16, 512, 257.0, 385.0},
               {{2, 4096, 32, 8, 128}, 32, 2048, 1728.9, 9224.0}};
  for (const auto& k : known) {
    const double det = double(kernels::attention::ragged_call(k.shape, k.longest, k.room, true).workspace) / 1048576;
    EXPECT_NEAR(det, k.deterministic, 2) << k.shape.sequence;
    const auto any = kernels::attention::ragged_call(k.shape, k.longest, k.room, false);
    EXPECT_NEAR(double(any.workspace) / 1048576, any.deterministic ? k.deterministic : k.any_order, 2);
  }
}

TEST(AttentionDocuments, NoBucketWhereItWouldNotServe) {
  const AttentionShape s{2, 8192, 2, 2, 64};
  AttentionLengths whole, swarm, none;
  for (int i = 0; i < 2; ++i) whole.add(s.sequence);
  for (std::int64_t i = 0; i < s.batch * s.sequence; ++i) swarm.add(1);
  EXPECT_TRUE(kernels::attention_bucket(s, DType::bf16, whole, {}).whole);
  EXPECT_FALSE(bool(kernels::attention::bucket_of(s, swarm, true)));
  EXPECT_THROW(kernels::attention_bucket(s, DType::bf16, none, {}), Error);
  EXPECT_THROW(none.add(0), Error);
  EXPECT_EQ(kernels::attention_document_tables({1, 64, 1, 1, 64}, DType::f32), 0);
}

TEST(AttentionDocuments, PrepareRefusesSmallTables) {
  const Stream stream;
  const AttentionShape s{2, 130, 4, 2, 64};
  PlacedDocuments placed(stream, s, random_documents(s, test_seed()), true);
  placed.view.tables = placed.view.tables.slice(0, 0, 16);
  EXPECT_THROW(kernels::attention_prepare_documents(stream, s, placed.view), Error);
}

TEST(AttentionDocumentsDeathTest, MoreThanTheBucketStopsTheProgram) {
  if (device_info().is_gpu) GTEST_SKIP() << "a GPU that stops takes the other tests with it";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Stream stream;
  const AttentionShape s{1, 192, 1, 1, 8};
  PlacedDocuments placed(stream, s, starts_of(s, {64, 64, 64}), true);
  const auto with = [&](std::int32_t longest, std::int32_t room) {
    placed.view.bucket = {};
    placed.view.bucket.calls[0] = {longest, room};
    kernels::attention_prepare_documents(stream, s, placed.view);
  };
  with(64, 3);
  EXPECT_DEATH(with(64, 2), "more documents");
  EXPECT_DEATH(with(32, 3), "longer");
}

bool has_cudnn(const AttentionShape& s) { return kernels::attention::has_provider(Provider::cudnn, s, DType::bf16); }

TEST(AttentionDocuments, CudnnMatchesReferenceAndRepeats) {
  std::uint64_t seed = test_seed() + 4000;
  for (const Case& c : kCases) {
    if (!has_cudnn(c.shape)) GTEST_SKIP() << "cuDNN is not in this build or not on this device";
    for (const Memory memory : {Memory::fused, Memory::dense}) {
      SCOPED_TRACE(c.name);
      const Values x = rounded(random_values(c.shape, seed += 10), DType::bf16);
      const std::vector<std::int32_t> start = documents_of(c, seed + 9);
      const Results want = reference(c.shape, x, start, DType::bf16);
      const Results first = run(Provider::cudnn, c.shape, x, start, DType::bf16, memory);
      expect_close(first, want, DType::bf16);
      for (int again = 0; again < 3; ++again)
        expect_same_bits(first, run(Provider::cudnn, c.shape, x, start, DType::bf16, memory));
      const Results any_order = run(Provider::cudnn, c.shape, x, start, DType::bf16, memory, {.deterministic = false});
      expect_close(any_order, want, DType::bf16);
      EXPECT_EQ(any_order.out.v, first.out.v);
    }
  }
}

// Each document in a row of its own, behind which there is padding that no gradient comes from.
TEST(AttentionDocuments, PackedGivesTheGradientsOfPaddedRows) {
  std::uint64_t seed = test_seed() + 5000;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const bool gpu = device_info().is_gpu;
    const Provider packed = gpu ? Provider::cudnn : Provider::cpu, padded = gpu ? Provider::portable : Provider::cpu;
    if (!kernels::attention::has_provider(packed, c.shape, DType::bf16)) GTEST_SKIP() << "no provider";
    const AttentionShape& s = c.shape;
    const Values x = rounded(random_values(s, seed += 10), DType::bf16);
    const std::vector<std::int32_t> start = documents_of(c, seed + 9);
    std::vector<std::pair<std::int64_t, std::int64_t>> documents;  // first token, tokens
    for (std::int64_t t = 0; t < s.batch * s.sequence; ++t) {
      if (start[std::size_t(t)] == t % s.sequence) documents.push_back({t, 0});
      ++documents.back().second;
    }
    AttentionShape rows = s;
    rows.batch = std::int64_t(documents.size());
    const auto apart = [&](const HostTensor& t) {
      const std::int64_t width = t.shape[2] * t.shape[3];
      HostTensor r = zeros({rows.batch, rows.sequence, t.shape[2], t.shape[3]});
      for (std::size_t d = 0; d < documents.size(); ++d)
        std::copy_n(t.v.begin() + documents[d].first * width, documents[d].second * width,
                    r.v.begin() + std::int64_t(d) * rows.sequence * width);
      return r;
    };
    const Results together = run(packed, s, x, start, DType::bf16, Memory::fused);
    const Results alone =
        run(padded, rows, {apart(x.q), apart(x.k), apart(x.v), apart(x.dout)}, {}, DType::bf16, Memory::fused);
    EXPECT_TRUE(gradient_close(apart(together.dq), alone.dq, DType::bf16)) << "dq";
    EXPECT_TRUE(gradient_close(apart(together.dk), alone.dk, DType::bf16)) << "dk";
    EXPECT_TRUE(close(apart(together.dv), alone.dv, tolerance_of(DType::bf16))) << "dv";
  }
}

// Two batches of one bucket: the second replays what was recorded of the first.
TEST(AttentionDocuments, OneRecordingServesABucket) {
  const AttentionShape s{2, 512, 4, 2, 64};  // 6 documents of at most 400 tokens and 5 are one bucket
  if (!Graph::available() || !has_cudnn(s)) GTEST_SKIP() << "nothing to record, or no cuDNN";
  const Stream stream;
  const std::vector<std::int32_t> one = starts_of(s, {100, 12, 400, 1, 299, 212}),
                                  other = starts_of(s, {400, 50, 62, 320, 192});
  const AttentionBucket bucket = kernels::attention::bucket_of(s, lengths_of(s, one), true);
  PlacedDocuments placed(stream, s, one, true);
  ASSERT_EQ(placed.view.bucket, bucket);
  const Values x = random_values(s, test_seed());
  const DeviceTensor q = to_device(stream, x.q, DType::bf16), k = to_device(stream, x.k, DType::bf16),
                     v = to_device(stream, x.v, DType::bf16), dout = to_device(stream, x.dout, DType::bf16);
  const DeviceTensor out = empty_device(x.q.shape, DType::bf16), dq = empty_device(x.q.shape, DType::bf16),
                     dk = empty_device(x.k.shape, DType::bf16), dv = empty_device(x.k.shape, DType::bf16),
                     lse = empty_device({s.batch, s.heads, s.sequence}, DType::f32);
  const auto space = [&](bool backward) {
    return empty_device({std::max<std::int64_t>(kernels::attention_workspace(s, DType::bf16, backward), 1)}, DType::u8);
  };
  const DeviceTensor forward_space = space(false), backward_space = space(true);
  const auto work = [&] {
    kernels::attention_forward(stream, q.tensor, k.tensor, v.tensor, placed.view, forward_space.tensor, out.tensor,
                               lse.tensor);
    kernels::attention_backward(stream, q.tensor, k.tensor, v.tensor, placed.view, out.tensor, lse.tensor, dout.tensor,
                                backward_space.tensor, dq.tensor, dk.tensor, dv.tensor);
  };
  const auto results = [&] {
    std::vector<std::vector<std::uint8_t>> all;
    for (const DeviceTensor* t : {&out, &dq, &dk, &dv}) all.push_back(raw_bytes(stream, t->tensor));
    return all;
  };
  const auto place = [&](const std::vector<std::int32_t>& start) {
    upload(stream, start.data(), placed.view.start.bytes(), placed.view.start);
    kernels::attention_prepare_documents(stream, s, placed.view);
  };
  work();
  const Graph graph(stream, work);
  place(other);
  work();
  const auto by_hand = results();
  place(one);
  graph.launch(stream);
  place(other);
  for (const DeviceTensor* t : {&out, &dq, &dk, &dv}) fill_zero(stream, t->tensor);
  graph.launch(stream);
  EXPECT_EQ(results(), by_hand);
}

}  // namespace
}  // namespace mylos::test
