#include "optimizer/registry.hpp"

#include "optimizer/adamw.hpp"
#include "optimizer/lion.hpp"
#include "optimizer/muon.hpp"
#include "optimizer/schedule_free.hpp"
#include "optimizer/sgd.hpp"

namespace mylos::optimizer {
namespace {

using Make = std::unique_ptr<Optimizer> (*)(const OptimizerConfig&, const Parameters&, DType, std::uint64_t, Arena&);

template <class T>
std::unique_ptr<Optimizer> make(const OptimizerConfig& config, const Parameters& parameters, DType storage,
                                std::uint64_t seed, Arena& arena) {
  return std::make_unique<T>(config, parameters, storage, seed, arena);
}

struct Registered {
  Rule rule;
  const char* name;
  Make make;
};
constexpr Registered kRules[] = {{Rule::adamw, "adamw", make<AdamW>},
                                 {Rule::lion, "lion", make<Lion>},
                                 {Rule::muon, "muon", make<Muon>},
                                 {Rule::schedule_free, "schedule_free", make<ScheduleFree>},
                                 {Rule::sgd, "sgd", make<Sgd>}};

}  // namespace

const std::vector<const char*>& optimizer_names() {
  static const std::vector<const char*> names = [] {
    std::vector<const char*> all;
    for (const Registered& r : kRules) all.push_back(r.name);
    return all;
  }();
  return names;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, const Parameters& parameters, DType storage,
                                          std::uint64_t seed, Arena& arena) {
  return kRules[std::size_t(config.name)].make(config, parameters, storage, seed, arena);
}

}  // namespace mylos::optimizer
