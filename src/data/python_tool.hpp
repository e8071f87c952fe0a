// Runs tools/tokenizer.py: the one place where mylos calls Python.
//
// The script is found above the running program (a build folder inside the source tree, or share/mylos beside bin). The
// interpreter is $MYLOS_PYTHON, else .venv/bin/python of the source tree, else python3 on PATH. Started by posix_spawn
// with its arguments as they are: no shell sees them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mylos::data {

// Gives `input` on stdin and returns stdout; an Error with the script's own message when it fails.
std::string run_tokenizer_tool(const std::vector<std::string>& arguments, std::string_view input = {});

// argv[0] is looked up on PATH.
std::string run_program(const std::vector<std::string>& argv, std::string_view input);

}  // namespace mylos::data
