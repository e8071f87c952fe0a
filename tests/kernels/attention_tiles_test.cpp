// Attention on tensor cores against an fp64 reference: documents of any length, at any place in a tile. On a CPU the same
// kernels run with their instructions spelled out.
#include "attention_run.hpp"
#include "base/error.hpp"

namespace mylos::test {
namespace {

constexpr Provider kTiles = Provider::tiles;

void expect_reference(const AttentionShape& s, const std::vector<std::int32_t>& start, Memory memory,
                      std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << "B " << s.batch << " S " << s.sequence << " H " << s.heads << " K " << s.kv_heads
                                    << " h " << s.head_size << (start.empty() ? "" : " documents")
                                    << (memory == Memory::fused ? " fused" : ""));
  const Values x = rounded(random_values(s, seed), DType::bf16);
  expect_close(run(kTiles, s, x, start, DType::bf16, memory), reference(s, x, start, DType::bf16), DType::bf16);
}
std::vector<std::int32_t> equal_documents(const AttentionShape& s, std::int64_t tokens) {
  std::vector<std::int32_t> start;
  for (std::int64_t t = 0; t < s.batch * s.sequence; ++t)
    start.push_back(std::int32_t(t % s.sequence / tokens * tokens));
  return start;
}

TEST(AttentionTiles, MatchesReferenceForEverySequenceLength) {
  std::uint64_t seed = test_seed();
  for (const std::int64_t S : {1, 5, 17, 63, 64, 65, 130, 257}) {
    const AttentionShape s{2, S, 4, 2, S % 2 == 0 ? 64 : 128};
    expect_reference(s, {}, Memory::fused, seed += 10);
    expect_reference(s, random_documents(s, seed + 9), Memory::fused, seed);
  }
}

TEST(AttentionTiles, MatchesReferenceForEveryGrouping) {
  std::uint64_t seed = test_seed() + 1000;
  for (const std::int64_t h : {64, 128})
    for (const auto& [H, K] : {std::pair{1, 1}, std::pair{4, 1}, std::pair{6, 2}, std::pair{3, 3}})
      for (const Memory memory : {Memory::fused, Memory::dense}) {
        const AttentionShape s{2, 130, H, K, h};
        expect_reference(s, random_documents(s, seed + 9), memory, seed);
        seed += 10;
      }
}

TEST(AttentionTiles, MatchesReferenceForEveryPlaceOfABorder) {
  std::uint64_t seed = test_seed() + 2000;
  for (const std::int64_t tokens : {1, 2, 15, 16, 17, 31, 48, 63, 64, 65, 100, 128, 129}) {
    const AttentionShape s{1, 200, 2, 1, 64};
    expect_reference(s, equal_documents(s, tokens), Memory::fused, seed += 10);
  }
  for (const std::int64_t cut : {1, 16, 33, 64, 127, 199}) {
    const AttentionShape s{1, 200, 2, 2, cut % 2 == 0 ? 64 : 128};
    std::vector<std::int32_t> start(std::size_t(s.sequence), 0);
    std::fill(start.begin() + cut, start.end(), std::int32_t(cut));
    expect_reference(s, start, Memory::fused, seed += 10);
  }
}

TEST(AttentionTiles, RepeatsToTheBit) {
  for (const AttentionShape s : {AttentionShape{1, 300, 4, 2, 64}, AttentionShape{2, 150, 2, 2, 128}}) {
    const Values x = random_values(s, test_seed());
    const std::vector<std::int32_t> start = random_documents(s, test_seed() + 1);
    const Results first = run(kTiles, s, x, start, DType::bf16, Memory::fused);
    for (int again = 0; again < 3; ++again)
      expect_same_bits(first, run(kTiles, s, x, start, DType::bf16, Memory::fused, {.deterministic = again == 0}));
  }
}

// What stands before a document has no part in it.
TEST(AttentionTiles, NothingCrossesABorder) {
  const AttentionShape s{1, 150, 2, 1, 64};
  const std::int64_t cut = 101, query = s.heads * s.head_size, key = s.kv_heads * s.head_size;
  std::vector<std::int32_t> start(std::size_t(s.sequence), 0);
  std::fill(start.begin() + cut, start.end(), std::int32_t(cut));
  const Values x = rounded(random_values(s, test_seed()), DType::bf16);
  Values other = x;
  for (std::int64_t i = 0; i < cut * query; ++i) other.q[i] *= 30, other.dout[i] *= 30;
  for (std::int64_t i = 0; i < cut * key; ++i) other.k[i] *= 30, other.v[i] *= 30;
  const Results a = run(kTiles, s, x, start, DType::bf16, Memory::fused),
                b = run(kTiles, s, rounded(other, DType::bf16), start, DType::bf16, Memory::fused);
  const auto tail = [&](const HostTensor& t, std::int64_t row) {
    return std::vector<double>(t.v.begin() + cut * row, t.v.end());
  };
  EXPECT_EQ(tail(a.out, query), tail(b.out, query));
  EXPECT_EQ(tail(a.dq, query), tail(b.dq, query));
  EXPECT_EQ(tail(a.dk, key), tail(b.dk, key));
  EXPECT_EQ(tail(a.dv, key), tail(b.dv, key));
}

TEST(AttentionTiles, ExtremeScoresStayFinite) {
  const AttentionShape s{1, 200, 2, 1, 64};
  const Values x = rounded(random_values(s, test_seed(), 60.0), DType::bf16);
  const std::vector<std::int32_t> start = random_documents(s, test_seed());
  const Results r = run(kTiles, s, x, start, DType::bf16, Memory::fused);
  for (const HostTensor* t : {&r.out, &r.lse, &r.dq, &r.dk, &r.dv})
    for (const double value : t->v) ASSERT_TRUE(std::isfinite(value));
  EXPECT_TRUE(close(r.lse, reference(s, x, start).lse, tolerance_of(DType::f32)));
}

TEST(AttentionTiles, TakesBf16HeadsOf64And128) {
  using kernels::attention::has_provider;
  EXPECT_TRUE(has_provider(kTiles, {1, 8, 1, 1, 64}, DType::bf16));
  EXPECT_FALSE(has_provider(kTiles, {1, 8, 1, 1, 64}, DType::f32));
  EXPECT_FALSE(has_provider(kTiles, {1, 8, 1, 1, 80}, DType::bf16));
}

}  // namespace
}  // namespace mylos::test
