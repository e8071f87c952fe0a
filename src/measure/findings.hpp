// What a check of a file collects: findings in the order in which it met them, and errors thrown on the way as findings, too.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "measure/inspect.hpp"

namespace mylos::measure {

class Findings {
 public:
  std::vector<Finding> list;

  void add(const std::vector<Finding>& more) { list.insert(list.end(), more.begin(), more.end()); }
  void error(const std::string& where, const std::string& what) { list.push_back({true, where, what}); }
  void warning(const std::string& where, const std::string& what) { list.push_back({false, where, what}); }

  // What `work` throws is an error at `where`.
  template <class Work>
  void guarded(const std::string& where, const Work& work) {
    try {
      work();
    } catch (const Error& e) {
      error(where, e.what());
    }
  }
};

}  // namespace mylos::measure
