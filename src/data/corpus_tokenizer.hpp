// The tokenizer that `mylos tokenize` puts beside its shards: made once, the same ever after.
//
// "byte" needs no file. A tokenizer.json or a SentencePiece .model is copied into the folder, a trained one is written
// there, each with its table of bytes. An Error when a file is no tokenizer, has no token that ends a text, was changed
// since an unfinished run began, or does not give back every text and options.allow_lossy is off.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "data/corpus_manifest.hpp"
#include "data/tokenize.hpp"

namespace mylos::data {

// Fills in what the manifest says of the tokenizer and returns its name: "byte" or the path of its file. going_on: the
// manifest is that of an unfinished run. train: trains a tokenizer of so many tokens and writes it to the path.
std::string prepare_tokenizer(const TokenizeOptions& options, bool going_on, CorpusManifest& manifest,
                              const std::function<void(std::int64_t vocab, const std::string& path)>& train);

}  // namespace mylos::data
