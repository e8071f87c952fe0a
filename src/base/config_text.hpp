// Values as TOML text that reads back to the same bits.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace mylos {

std::string toml_text(const std::string& value);
std::string toml_real(double value);
std::string toml_texts(const std::vector<std::string>& value);
std::string toml_reals(const std::vector<std::pair<std::string, double>>& value);  // names are bare keys

// toml++ limits how deep values nest, but not keys: one of very many dots ends the stack, so it is refused unparsed.
void check_toml_keys(const std::string& text, const std::string& name);

}  // namespace mylos
