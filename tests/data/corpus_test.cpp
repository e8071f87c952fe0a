// Replays what the fuzzers found: tests/fuzz/corpus/<target>/*.
#include <filesystem>

#include "data/files.hpp"
#include "fuzz/data_targets.hpp"

namespace mylos {
namespace {

void replay(const char* target, void (*run)(std::span<const std::byte>)) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(MYLOS_CORPUS) / target)) {
    const std::string input = test::bytes_of(entry.path().string());
    SCOPED_TRACE(entry.path().string());
    run(std::as_bytes(std::span(input)));
    ++files;
  }
  EXPECT_GT(files, 0);
}

TEST(Corpus, Npy) { replay("data_npy", fuzz::data_npy); }
TEST(Corpus, Llmc) { replay("data_llmc", fuzz::data_llmc); }
TEST(Corpus, Megatron) { replay("data_megatron", fuzz::data_megatron); }
TEST(Corpus, Documents) { replay("data_documents", fuzz::data_documents); }
TEST(Corpus, Shard) { replay("data_shard", fuzz::data_shard); }
TEST(Corpus, TokenBytes) { replay("data_token_bytes", fuzz::data_token_bytes); }

}  // namespace
}  // namespace mylos
