#include <fmt/format.h>

#include <iostream>

#include "cli/commands.hpp"
#include "measure/provenance.hpp"

namespace mylos::cli {

int version() {
  const measure::Provenance p = measure::collect_provenance({});
  std::cout << fmt::format("mylos {}\ncommit    {}{}\ncompiler  {}\nbuild     {}\n", p.program_version, p.commit,
                           p.dirty ? " (with changes)" : "", p.compiler, p.build_options);
  for (const auto& [name, v] : p.libraries) std::cout << fmt::format("{:<9} {}\n", name, v);
  return kDone;
}

}  // namespace mylos::cli
