// Packing on one core: rows cut from the stream with their documents marked, rows of whole documents (best fit), what finding and packing
// documents costs before a run; and which source each sample of a mixture is from.
#include "data/packing.hpp"
#include "benchmarks/cases/data/batches.hpp"
#include "data/boundaries.hpp"
#include "data/mixture.hpp"

namespace mylos::bench {
namespace {

constexpr std::int64_t kSequence = 512, kSteps = 4;  // of a call: 64 rows, as of the peer's, which are slow
constexpr std::int64_t kPlaces = 1 << 20;            // of a call of a mixture

// Labels of a batch by a loop over its tokens that knows only how documents are separated.
double wrong_labels(const Batches& b, data::HostBatch& batch, Cut cut) {
  b.make(0, batch);
  const data::WidenedBatch wide = data::widened(batch);
  double wrong = 0;
  for (std::int64_t row = 0; row < kRows; ++row) {
    std::int64_t position = 0;
    for (std::int64_t t = 0; t < kSequence; ++t, ++position) {
      const auto i = std::size_t(row * kSequence + t);
      const bool ends = wide.tokens[i] == Corpus::kEnd;
      if (cut == Cut::documents) {
        wrong += wide.positions[i] != std::int32_t(position);
        wrong += (wide.labels[i] < 0) != ends;
      }
      // Within a document labels are the next tokens; padding has none.
      if (!ends && wide.labels[i] >= 0 && t + 1 < kSequence) wrong += wide.labels[i] != wide.tokens[i + 1];
      if (ends) position = -1;
    }
  }
  return wrong;
}

Set packed(Pool& p, const Place& place, Cut cut) {
  struct State {
    Batches batches;
    data::HostBatch batch = {};
    std::int64_t step = 0;
  };
  const auto s = std::make_shared<State>(State{Batches(place, cut, kSequence, false)});
  p.elsewhere(corpus_tokens(place) * 2);
  return {[=] {
            for (std::int64_t i = 0; i < kSteps; ++i) s->batches.make(s->step++, s->batch);
          },
          [=]() -> Check {
            return {wrong_labels(s->batches, s->batch, cut), 0,
                    "a loop over the tokens of the first batch, labels that differ"};
          }};
}

Set find_and_pack(Pool& p, const Place& place) {
  struct State {
    std::shared_ptr<const Corpus> corpus;
    data::TokenSource source;
    data::PackingCounts counts = {};
  };
  const auto corpus = corpus_of(corpus_tokens(place));
  const auto s =
      std::make_shared<State>(State{corpus, data::TokenSource({corpus->file()}, {DType::u16}, Corpus::kVocab)});
  p.elsewhere(corpus_tokens(place) * 2);
  const Call call = [=] {
    const data::DocumentRule rule{.token = Corpus::kEnd};
    s->counts = data::PackedRows(data::document_ends(s->source, rule, 1), kSequence, 1).counts();
  };
  return {call, [=]() -> Check {
            call();
            const auto documents = std::count(corpus->tokens().begin(), corpus->tokens().end(), Corpus::kEnd) +
                                   (corpus->tokens().back() == Corpus::kEnd ? 0 : 1);
            return {double(std::abs(s->counts.documents - documents)) +
                        double(std::abs(s->counts.tokens + s->counts.left_out - std::int64_t(corpus->tokens().size()))),
                    0, "a count of end tokens and of all tokens"};
          }};
}

Set mixing(std::int64_t sources) {
  std::vector<double> weights;
  for (std::int64_t i = 0; i < sources; ++i) weights.push_back(double(i + 1));
  const auto mixture =
      std::make_shared<data::Mixture>(std::vector<data::MixturePhase>{{.start = 0, .weights = weights}});
  const auto sum = std::make_shared<std::int64_t>(0);
  return {[=] {
            for (std::int64_t place = 0; place < kPlaces; ++place) *sum += mixture->at(place).index;
          },
          [=]() -> Check {
            std::vector<double> drawn(static_cast<std::size_t>(sources), 0);
            for (std::int64_t place = 0; place < kPlaces; ++place) ++drawn[std::size_t(mixture->at(place).source)];
            double worst = 0;
            for (std::int64_t i = 0; i < sources; ++i)
              worst = std::max(worst,
                               std::abs(drawn[std::size_t(i)] - mixture->weight(0, std::size_t(i)) * double(kPlaces)));
            return {worst, 1, "shares of the weights, samples off"};
          }};
}

}  // namespace

void add_packing(Cases& cases, const Place& place) {
  const std::int64_t tokens = kSteps * kRows * kSequence;
  for (const Cut cut : {Cut::documents, Cut::best_fit}) {
    Case c = host_case(cut == Cut::documents ? "data/packing" : "data/packing/best_fit", tokens, 1,
                       "u16 tokens of the rows, padding included");
    c.make = [=](Pool& p) { return packed(p, place, cut); };
    c.quick = cut == Cut::documents;
    cases.push_back(c);
  }
  Case all = host_case("data/packing/find_and_pack", corpus_tokens(place), 1, "u16 tokens of the corpus");
  all.make = [=](Pool& p) { return find_and_pack(p, place); };
  cases.push_back(all);
  for (const std::int64_t sources : {2, 4, 8})
    cases.push_back({.name = fmt::format("data/mixture/{}", sources),
                     .component = "data",
                     .runs = Runs::host,
                     .work = {.items = double(kPlaces), .item_units = "samples", .source = "places asked for"},
                     .make = [=](Pool&) { return mixing(sources); },
                     .warm = true});
}

}  // namespace mylos::bench
