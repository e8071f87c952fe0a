// The one tokenizer behind many token files.
//
//   const std::string name = common_tokenizer({&books, &code});
//
// What the sidecars name counts: "byte", or a path. Two paths are the same tokenizer where their files hold the same bytes, as
// after tokenizing two corpora with one tokenizer.json; a path that cannot be read is compared by its name. Returns the name,
// the first of several; empty where a file does not say. Files of two tokenizers are an Error that names one of each: their
// numbers mean different texts, and nothing that is trained on both can tell.
#pragma once

#include <string>
#include <vector>

namespace mylos::data {

class TokenSource;

std::string common_tokenizer(const std::vector<const TokenSource*>& sources);

}  // namespace mylos::data
