// Attention, causal and within documents, on windows of a fused projection as the model has them: always as many tokens, longer and longer
// sequences; gradients added up in any order, as PyTorch does, or in one (deterministic). FLOPs: kernels/attention/attention.hpp, those of one
// document over the number of documents in a row.
#include "kernels/attention/attention.hpp"

#include "benchmarks/cases/cases.hpp"

namespace mylos::bench {
namespace {

namespace k = kernels;

constexpr std::int64_t kDocuments = 8;  // equal ones in a row
constexpr std::int64_t kQueries = 4;    // that are checked, of the first document, all heads

struct Operands {
  Pool& p;
  k::AttentionShape s;
  DType dtype;
  Tensor qkv, out, lse, dout, gradient, forward_work, backward_work;
  k::AttentionDocuments documents;
  k::AttentionOptions options;

  std::int64_t width() const { return s.heads + 2 * s.kv_heads; }
  Tensor q(const Tensor& t) const { return t.slice(2, 0, s.heads); }
  Tensor k(const Tensor& t) const { return t.slice(2, s.heads, s.heads + s.kv_heads); }
  Tensor v(const Tensor& t) const { return t.slice(2, s.heads + s.kv_heads, width()); }
  void forward() const {
    kernels::attention_forward(p.stream(), q(qkv), k(qkv), v(qkv), documents, forward_work, out, lse);
  }
  void backward() const {
    kernels::attention_backward(p.stream(), q(qkv), k(qkv), v(qkv), documents, out, lse, dout, backward_work,
                                q(gradient), k(gradient), v(gradient), options);
  }
};

void add_documents(Operands& o) {
  const std::int64_t length = o.s.sequence / kDocuments;
  std::vector<std::int32_t> starts;
  k::AttentionLengths lengths;
  for (std::int64_t t = 0; t < o.s.batch * o.s.sequence; ++t) {
    starts.push_back(std::int32_t(t % o.s.sequence / length * length));
    if (t % length == 0) lengths.add(length);
  }
  const k::AttentionBucket bucket = k::attention_bucket(o.s, o.dtype, lengths, o.options);
  const std::int64_t bytes = k::attention_document_tables(o.s, o.dtype);
  const Tensor start = o.p.integers(starts).reshape({o.s.batch, o.s.sequence});
  o.documents = k::AttentionDocuments(start, bucket, bytes > 0 ? o.p.take(DType::u8, {bytes}) : Tensor{});
  k::attention_prepare_documents(o.p.stream(), o.s, o.documents);
}

Operands operands(Pool& p, const k::AttentionShape& s, DType dtype, const k::AttentionOptions& options, bool backward) {
  Operands o{.p = p,
             .s = s,
             .dtype = dtype,
             .qkv = {},
             .out = {},
             .lse = {},
             .dout = {},
             .gradient = {},
             .forward_work = {},
             .backward_work = {},
             .documents = {},
             .options = options};
  o.qkv = p.take(dtype, {s.batch, s.sequence, o.width(), s.head_size});
  o.out = p.take(dtype, {s.batch, s.sequence, s.heads, s.head_size});
  o.lse = p.take(DType::f32, {s.batch, s.heads, s.sequence});
  const auto work = [&](bool of_backward) {
    return p.take(DType::u8, {std::max<std::int64_t>(1, k::attention_workspace(s, dtype, of_backward, options))});
  };
  o.forward_work = work(false);
  if (backward) {
    o.dout = p.take(dtype, {s.batch, s.sequence, s.heads, s.head_size});
    o.gradient = p.take(dtype, {s.batch, s.sequence, o.width(), s.head_size});
    o.backward_work = work(true);
  }
  if (options.documents) add_documents(o);
  return o;
}

// Of query i of the first sequence in one head: sum over j <= i of weight(j)·row(j), where weights are the softmax's.
struct Reference {
  const Operands& o;
  std::vector<double> qkv;  // of the first tokens

  double at(std::int64_t token, std::int64_t head, std::int64_t d) const {
    return qkv[std::size_t((token * o.width() + head) * o.s.head_size + d)];
  }
  std::vector<double> softmax(std::int64_t i, std::int64_t head) const {
    const std::int64_t h = o.s.head_size, key = o.s.heads + head / (o.s.heads / o.s.kv_heads);
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t j = 0; j <= i; ++j) {
      double score = 0;
      for (std::int64_t d = 0; d < h; ++d) score += at(i, head, d) * at(j, key, d);
      weights.push_back(std::exp(score / std::sqrt(double(h))));
      sum += weights.back();
    }
    for (double& w : weights) w /= sum;
    return weights;
  }
};

Check check_results(const Operands& o, bool backward) {
  o.forward();
  if (backward) o.backward();
  const std::int64_t h = o.s.head_size, group = o.s.heads / o.s.kv_heads,
                     n = std::min<std::int64_t>(o.documents.start ? o.s.sequence / kDocuments : o.s.sequence, 256);
  const auto first = [&](const Tensor& t) {
    return values(o.p.stream(), t.reshape({o.s.batch * o.s.sequence, t.extent(2), h}).slice(0, 0, n));
  };
  const Reference r{o, first(o.qkv)};
  const std::vector<double> out = first(o.out), dout = backward ? first(o.dout) : out,
                            gradient = backward ? first(o.gradient) : out;
  Worst worst(1);
  for (std::int64_t i = n - kQueries; i < n; ++i)
    for (std::int64_t head = 0; head < o.s.heads; ++head) {
      const std::int64_t key = o.s.heads + head / group, value = key + o.s.kv_heads;
      const std::vector<double> p = r.softmax(i, head);
      std::vector<double> want(static_cast<std::size_t>(h), 0), dq(static_cast<std::size_t>(h), 0), dp(p.size(), 0);
      double delta = 0;
      const auto row = std::size_t((i * o.s.heads + head) * h);
      for (std::size_t j = 0; j < p.size(); ++j) {
        for (std::int64_t d = 0; d < h; ++d) {
          want[std::size_t(d)] += p[j] * r.at(std::int64_t(j), value, d);
          dp[j] += dout[row + std::size_t(d)] * r.at(std::int64_t(j), value, d);
        }
        delta += p[j] * dp[j];
      }
      for (std::size_t j = 0; j < p.size(); ++j)
        for (std::int64_t d = 0; d < h; ++d)
          dq[std::size_t(d)] += p[j] * (dp[j] - delta) * r.at(std::int64_t(j), key, d) / std::sqrt(double(h));
      for (std::int64_t d = 0; d < h; ++d) {
        worst.add(out[row + std::size_t(d)], want[std::size_t(d)]);
        if (backward) worst.add(gradient[std::size_t((i * o.width() + head) * h + d)], dq[std::size_t(d)]);
      }
    }
  return {worst.error(), o.dtype == DType::bf16 ? 2e-2 : 1e-4,
          backward ? "double on the host, output and dq of 4 queries" : "double on the host, 4 queries"};
}

struct Heads {
  const char* name;
  std::int64_t heads, kv_heads, head_size;
};

void add(Cases& cases, std::int64_t tokens, std::int64_t sequence, const Heads& n, DType dtype, bool documents,
         bool backward, bool deterministic) {
  const k::AttentionShape s{tokens / sequence, sequence, n.heads, n.kv_heads, n.head_size};
  const double flops = 2.0 * double(tokens) * double(sequence * n.heads * n.head_size) /
                       double(documents ? kDocuments : 1) * (backward ? 3.5 : 1);
  cases.push_back({.name = fmt::format("attention/S{}/{}/{}/{}{}{}", sequence, documents ? "documents" : "causal",
                                       n.name, backward ? "forward_backward" : "forward",
                                       dtype == DType::f32 ? "/f32" : "", deterministic ? "/deterministic" : ""),
                   .component = "forward",
                   .dtype = std::string(name_of(dtype)),
                   .work = {.flops = flops,
                            .items = double(tokens),
                            .item_units = "tokens",
                            .source = "kernels/attention/attention.hpp"},
                   .make = [=](Pool& p) -> Set {
                     const Operands o =
                         operands(p, s, dtype, {.deterministic = deterministic, .documents = documents}, backward);
                     o.forward();
                     return {[=] {
                               o.forward();
                               if (backward) o.backward();
                             },
                             [=] { return check_results(o, backward); }};
                   },
                   .quick = sequence == 512 && !documents && backward && n.kv_heads < n.heads && dtype == DType::bf16});
}

}  // namespace

void add_attention(Cases& cases, const Place& place) {
  const std::vector<std::int64_t> sequences = place.gpu ? std::vector<std::int64_t>{512, 1024, 2048, 4096, 8192, 16384}
                                                        : std::vector<std::int64_t>{128, 256, 512};
  const std::vector<Heads> heads = place.gpu ? std::vector<Heads>{{"32x8x128", 32, 8, 128}, {"12x12x64", 12, 12, 64}}
                                             : std::vector<Heads>{{"8x2x64", 8, 2, 64}, {"4x4x64", 4, 4, 64}};
  for (const DType dtype : {DType::bf16, DType::f32})
    for (const std::int64_t sequence : sequences)
      for (const Heads& n : heads)
        for (const bool documents : {false, true})
          for (const bool backward : {false, true})
            for (const bool deterministic : {false, true})
              if ((dtype == DType::bf16 || (sequence <= 2048 && !documents)) &&
                  (!deterministic ||
                   (backward && place.gpu && dtype == DType::bf16)))  // cuDNN's alone knows two orders
                add(cases, place.gpu ? 16384 : 1024, sequence, n, dtype, documents, backward, deterministic);
}

}  // namespace mylos::bench
