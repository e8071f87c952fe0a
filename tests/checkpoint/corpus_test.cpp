// Replays what the fuzzer of bundles found (tools/fuzz bundle), in this process and as a user would meet it.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.hpp"
#include "checkpoint/store.hpp"
#include "checkpoint/temporary_folder.hpp"
#include "fuzz/bundle_targets.hpp"

namespace mylos::checkpoint {
namespace {

TEST(Corpus, BundlesGiveValuesOrErrors) {
  int files = 0, readable = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MYLOS_CORPUS)) {
    const auto bytes = test::file_bytes(entry.path().string());
    fuzz::bundle(std::as_bytes(std::span(bytes)));
    try {
      const Reader r(entry.path().string());
      readable += r.has_dataset("/t");
    } catch (const Error& e) {
      EXPECT_STRNE(e.what(), "");
    }
    ++files;
  }
  EXPECT_GE(files, 6);
  EXPECT_GE(readable, 6) << "the seeds are readable bundles of three format versions";
}

}  // namespace
}  // namespace mylos::checkpoint
