// What the fuzzers of the data layer feed: hostile bytes as a .npy header, a sidecar, a token file with its sidecar,
// and a table of token bytes. Each either reads its input, and the result is used, or throws mylos::Error; anything
// else is a bug. tools/fuzz runs them under libFuzzer, tests/data/corpus_test.cpp replays their corpora in every test
// run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mylos::fuzz {

void data_npy(std::span<const std::byte> input);
// The first byte chooses name and stated dtype, the next two the length of the sidecar, which follows; the rest is the
// file.
void data_shard(std::span<const std::byte> input);
void data_token_bytes(std::span<const std::byte> input);

}  // namespace mylos::fuzz
