// Holds a folder, or a file that is there, for the one process that writes it, until destroyed or the process ends, however it
// ends. Nothing is left behind. Throws Error when another process holds it. A file system that knows no locks protects nobody.
#pragma once

#include <string>

namespace mylos {

class WriteLock {
 public:
  // what: the work that is done, for the message.
  WriteLock(const std::string& path, const char* what);
  ~WriteLock();
  WriteLock(const WriteLock&) = delete;
  WriteLock& operator=(const WriteLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace mylos
