// Runs tools/tokenizer.py and the other scripts of tools/: the one place where mylos calls Python.
//
// A script is found above the running program (a build folder inside the source tree, share/mylos beside bin, or source
// beside bin). The interpreter is $MYLOS_PYTHON, else .venv/bin/python of the source tree, else python3 on PATH. Started by posix_spawn
// with its arguments as they are: no shell sees them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mylos::data {

// Gives `input` on stdin and returns stdout; an Error with the script's own message when it fails.
std::string run_tokenizer_tool(const std::vector<std::string>& arguments, std::string_view input = {});

// argv[0..1] of the Python script tools/<name>, before its arguments; an Error that says where it was looked for.
std::vector<std::string> command_of_script(const std::string& name);

// argv[0] is looked up on PATH.
std::string run_program(const std::vector<std::string>& argv, std::string_view input);

// The script at the other end of a socket, for work that comes bit by bit. One thread at a time may use it. A process that
// has ended makes send and receive throw an Error with its message; one that has not is killed by the destructor.
class TokenizerProcess {
 public:
  explicit TokenizerProcess(const std::vector<std::string>& arguments);
  ~TokenizerProcess();
  TokenizerProcess(const TokenizerProcess&) = delete;
  TokenizerProcess& operator=(const TokenizerProcess&) = delete;

  void send(std::string_view bytes);
  void receive(void* out, std::size_t count);
  void finish();  // says that nothing more comes, and waits; an Error when it fails

 private:
  [[noreturn]] void fail_as_it_did();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mylos::data
