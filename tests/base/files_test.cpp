#include "base/files.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace mylos {
namespace {
namespace fs = std::filesystem;

TEST(Files, OneFileHasManyNames) {
  const fs::path folder = fs::temp_directory_path() / ("mylos_files_" + std::to_string(::getpid()));
  fs::create_directories(folder / "a");
  std::ofstream(folder / "there") << "text";
  fs::create_hard_link(folder / "there", folder / "again");
  fs::create_symlink(folder / "a", folder / "link");
  fs::create_symlink("nowhere", folder / "dangling");
  const auto same = [&](const std::string& x, const std::string& y) {
    const bool one = is_same_file((folder / x).string(), (folder / y).string());
    EXPECT_EQ(is_same_file((folder / y).string(), (folder / x).string()), one);
    return one;
  };
  for (const char* name : {"there", "./there", "a/../there", "again", "link/../there"})
    EXPECT_TRUE(same("there", name));
  EXPECT_TRUE(same("a/new", "link/new")) << "neither is there";
  EXPECT_TRUE(same("new", "./a/../new"));
  EXPECT_TRUE(same("no/folder/new", "no/folder/../folder/new"));
  EXPECT_TRUE(same("dangling", "./dangling"));
  EXPECT_FALSE(same("there", "new"));
  EXPECT_FALSE(same("a/new", "new"));
  EXPECT_FALSE(same("there", "a"));
  EXPECT_FALSE(is_same_file("", (folder / "there").string()));
  const fs::path before = fs::current_path();
  fs::current_path(folder);
  EXPECT_TRUE(is_same_file("new", (folder / "new").string()));
  fs::current_path(before);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace mylos
