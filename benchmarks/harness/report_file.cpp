#include "benchmarks/harness/report_file.hpp"

#include <benchmark/benchmark.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"

namespace mylos::bench {
namespace {

// Says whether all that a reporter wrote has arrived; the stream is closed before anybody else could ask it.
template <class Reporter>
class Watched : public Reporter {
 public:
  Watched(bool& begun, bool& whole) : begun_(begun), whole_(whole) {}
  bool ReportContext(const benchmark::BenchmarkReporter::Context& context) override {
    begun_ = true;
    return Reporter::ReportContext(context);
  }
  void Finalize() override {
    Reporter::Finalize();
    whole_ = this->GetOutputStream().flush().good();
  }

 private:
  bool &begun_, &whole_;
};

}  // namespace

ReportFile::ReportFile(std::string path, const std::string& format) : path_(std::move(path)) {
  if (path_.empty()) return;
  std::error_code error;
  begun_ = !std::filesystem::exists(path_, error);
  check(std::ofstream(path_, std::ios::app).good(), "--benchmark_out='{}' cannot be written: {}; choose another name",
        path_, std::strerror(errno));
  if (format == "console")
    reporter_ = std::make_unique<Watched<benchmark::ConsoleReporter>>(begun_, whole_);
  else
    reporter_ = std::make_unique<Watched<benchmark::JSONReporter>>(begun_, whole_);
}

ReportFile::~ReportFile() {
  if (path_.empty() || whole_ || !begun_) return;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

benchmark::BenchmarkReporter* ReportFile::reporter() { return reporter_.get(); }

void ReportFile::finish() {
  check(path_.empty() || whole_, "'{}' could not be written to its end, and is removed; is the disk full?", path_);
}

}  // namespace mylos::bench
