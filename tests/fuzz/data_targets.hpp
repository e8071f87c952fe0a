// What the fuzzers of the data layer feed: hostile bytes as a .npy header, an llm.c header, a Megatron index, an index of documents, a sidecar, a token file with its sidecar,
// and a table of token bytes. Each either reads its input, and the result is used, or throws mylos::Error; anything
// else is a bug. tools/fuzz runs them under libFuzzer, tests/data/corpus_test.cpp replays their corpora in every test
// run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mylos::fuzz {

void data_npy(std::span<const std::byte> input);
void data_llmc(std::span<const std::byte> input);
// The first four bytes are the size of the .bin, the rest is the .idx.
void data_megatron(std::span<const std::byte> input);
void data_documents(std::span<const std::byte> input);
// The first byte chooses name, stated dtype and container, the next two the length of the sidecar, which follows; the rest is the
// file.
void data_shard(std::span<const std::byte> input);
void data_token_bytes(std::span<const std::byte> input);

}  // namespace mylos::fuzz
