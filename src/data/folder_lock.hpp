// Holds a folder for the one process that writes into it, until destroyed or the process ends, however it ends. Nothing is
// left in the folder. Throws Error when another process holds it. A file system that knows no locks protects nobody.
#pragma once

#include <string>

namespace mylos::data {

class FolderLock {
 public:
  // what: the work that is done in it, for the message.
  FolderLock(const std::string& folder, const char* what);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int folder_ = -1;
};

}  // namespace mylos::data
