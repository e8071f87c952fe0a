// The options of the subcommands, by theme, as CLI11 reads them. main.cpp, these files and nothing else see CLI11.
//
// A function adds its subcommands to `app`; parsing leaves in `chosen` what is to be run. A value out of its bounds ends with status 2 and one
// line that says the value, the bounds and what else to write.
#pragma once

#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <functional>
#include <string>
#include <type_traits>

#include "cli/commands.hpp"

namespace mylos::cli {

struct Chosen {
  std::function<int()> command;
  ConfigArguments config;
};
void add_training_commands(CLI::App& app, Chosen& chosen);  // train, plan, profile, tune, config, generate
void add_data_commands(CLI::App& app, Chosen& chosen);      // tokenize, detokenize, data
void add_result_commands(CLI::App& app, Chosen& chosen);    // inspect, validate, diff, bench, campaign, version

template <class T>
CLI::Validator within(T low, T high, const std::string& remedy) {
  constexpr const char* kKind = std::is_integral_v<T> ? "whole number" : "number";
  return CLI::Validator(
      [=](std::string& text) {
        T value{};
        const bool is_one = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
        return is_one ? std::string() : fmt::format("'{}' is no {} from {} to {}; {}", text, kKind, low, high, remedy);
      },
      "");
}

}  // namespace mylos::cli
