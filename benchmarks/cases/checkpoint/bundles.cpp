// A bundle as a run uses it: rows appended to a table, and a file with ten thousand of them published.
#include "benchmarks/cases/cases.hpp"
#include "benchmarks/cases/corpus.hpp"
#include "checkpoint/store.hpp"
#include "measure/bundle.hpp"

namespace mylos::bench {
namespace {

using measure::Bundle;
constexpr std::int64_t kRows = 10000;

int add_steps(Bundle& b) {
  return b.add_table("samples", "steps",
                     {{"step", "1", "step"},
                      {"loss", "nat/token", "loss"},
                      {"grad_norm", "1", "norm"},
                      {"learning_rate", "1", "rate"},
                      {"step_time", "s", "time"},
                      {"tokens_per_s", "tokens/s", "rate"}});
}
void append_rows(Bundle& b, int table) {
  for (std::int64_t i = 0; i < kRows; ++i) b.append(table, {double(i), 2.5, 1.0, 1e-4, 0.1, 1e5});
}

Set appending() {
  const auto folder = std::make_shared<Folder>();
  const Call call = [=] {
    Bundle b(folder->file("run.h5"), measure::BundleKind::train);
    append_rows(b, add_steps(b));
  };
  return {call, [=]() -> Check {
            Bundle b(folder->file("run.h5"), measure::BundleKind::train);
            const int table = add_steps(b);
            append_rows(b, table);
            return {double(std::abs(b.rows(table) - kRows)), 0, "the rows of the table"};
          }};
}

Set publishing() {
  struct State {
    Folder folder = {};
    Bundle bundle{folder.file("run.h5"), measure::BundleKind::train};
  };
  const auto s = std::make_shared<State>();
  append_rows(s->bundle, add_steps(s->bundle));
  const Call call = [=] { s->bundle.publish(); };
  return {call, [=]() -> Check {
            call();
            const std::vector<double> steps = checkpoint::Reader(s->bundle.path()).reals("/samples/steps/step");
            return {std::int64_t(steps.size()) == kRows && steps.back() == double(kRows - 1) ? 0.0 : 1.0, 0,
                    "the file, read back"};
          }};
}

}  // namespace

void add_bundles(Cases& cases, const Place&) {
  const auto add = [&](const char* name, Set (*make)(), const char* source) {
    cases.push_back({.name = name,
                     .component = "checkpoint",
                     .dtype = "f64",
                     .runs = Runs::host,
                     .work = {.items = double(kRows), .item_units = "rows", .source = source},
                     .make = [=](Pool&) { return make(); },
                     .warm = true});
  };
  add("checkpoint/bundle_append", appending, "rows of six columns");
  add("checkpoint/bundle_publish", publishing, "rows of six columns in the file");
}

}  // namespace mylos::bench
