// What a test says of an expected failure.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>

namespace mylos::test {

// The message of the error that `run` throws; a failure of the test when it throws none.
template <class Run>
std::string error_of(Run&& run) {
  try {
    run();
  } catch (const std::exception& e) {
    return e.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

}  // namespace mylos::test
